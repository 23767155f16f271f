"""Whether a run has learned its task at all: no verdict rests on policies of which none has.

Returns of untrained policies, means of ten episodes (`python benchmarks/untrained.py`): holding the reset action,
acting at random, and moving at random within the tight limits.

| task | still | random | random, limited | learned above |
|---|---|---|---|---|
| HalfCheetah-v5 | 0 | −244 | −237 | 1 000: a local optimum holds many runs near 450 (results/first) |
| Ant-v5 | 994 | −117 | −454 | 1 200: standing earns 1 a step, 1 000 in all |
| Hopper-v5 | 146 | 31 | 6 | 1 200: to stand for a whole episode earns 1 000 |
| Humanoid-v5 | 198 | 90 | 102 | 1 000: to fall earns 100 to 500; to stay up, 5 a step, is learned already |

Walking robots have learned if they walk (`walking`). Of other tasks nothing is said.
"""

from collections.abc import Iterable

from slewrl.report import walking
from slewrl.report.data import Result, Run

THRESHOLDS = {"HalfCheetah-v5": 1_000.0, "Ant-v5": 1_200.0, "Hopper-v5": 1_200.0, "Humanoid-v5": 1_000.0}
"""Task -> the return of a final evaluation above which a run has learned it."""
NOBODY = "nobody learned"


def learned(run: Run) -> bool | None:
    """Whether a run has; None where nobody said what that would be."""
    if run.cell.task in THRESHOLDS:
        return run.final_return > THRESHOLDS[run.cell.task]
    return walking.run_walks(run) if "vte" in run.episodes else None


def nobody_learned(results: Iterable[Result]) -> bool:
    """Whether not one seed of any of them has learned, on tasks where that can be said."""
    return not any(learned(run) in (True, None) for result in results for run in result.runs)
