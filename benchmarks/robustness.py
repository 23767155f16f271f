"""How well a bundle walks a robot that is pushed, slips, carries something, or is late: through ``Controller``.

    python benchmarks/robustness.py results/walk/g1-flat-ddsrad.bundle
    python benchmarks/robustness.py policy.bundle --task H1-rough --episodes 100 --out robustness.csv

Each row is of as many seeded episodes under one disturbance; the last is under all together. The policy is the
exported one, in ONNX Runtime with limits in float64 as on a robot, and every command is audited exactly. What is
measured, calm included, is what docs/metrics.md defines.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro

from slewrl.layers.base import Decision
from slewrl.render.play import Walker, controlled
from slewrl.training.evaluate import evaluate_vec_env
from slewrl.training.run_folder import write_csv
from slewrl.training.spec import EVALUATION_SEED

LATE = {"delay": 1, "always_delayed": True}
DISTURBANCES: dict[str, dict[str, Any]] = {
    "none": {},
    "pushes up to 0.5 m/s": {"push": 0.5},
    "pushes up to 1 m/s": {"push": 1.0},
    "friction x 0.4": {"friction": (0.4, 0.4)},
    "friction x 1.2": {"friction": (1.2, 1.2)},
    "payload of 2 kg": {"payload": 2.0},
    "delay of 20 ms": LATE,
    "all: 0.5 m/s, x 0.4, 2 kg, 20 ms": {"push": 0.5, "friction": (0.4, 0.4), "payload": 2.0, **LATE},
}
"""Name -> options of the task. Pushes come every 5 to 10 s, along both axes up to the speed named."""
MEANS = ("vte", "speed", "commanded", "utilisation", "at_limit", "reversals", "second_difference", "high_frequency")
"""Columns that are means over steps."""
SHOWN = ("length", "fell_pct", "vte", "speed", "commanded", "utilisation", "reversals", "high_frequency", "violations")


@dataclass(frozen=True)
class Robustness:
    """A robustness table of a bundle."""

    bundle: tyro.conf.Positional[Path]
    """What ``slewrl export`` wrote."""
    task: str = "G1-flat"
    """A walking task of the bundle's robot."""
    episodes: int = 20
    """Episodes per row."""
    seconds: float = 20.0
    """Length of an episode, s."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="CSV")] = None
    """Where to write the rows, with all columns."""

    def rows(self) -> Iterator[dict[str, float | str]]:
        """A row for each disturbance."""
        for name, options in DISTURBANCES.items():
            walker = controlled(self.task, self.bundle, {"seconds": self.seconds, **options})
            episodes = [one for k in range(self.episodes) for one in episodes_of(walker, EVALUATION_SEED + k)]
            yield {"disturbance": name, **summary(episodes)}


def episodes_of(walker: Walker, seed: int) -> list[dict[str, float]]:
    """The row of one episode, as in episodes.csv."""

    def act(seen: torch.Tensor) -> Decision:
        executed = torch.from_numpy(walker.act(seen.numpy()))
        return Decision(executed, executed)

    return evaluate_vec_env(act, lambda count: walker.env, 1, seed).episodes()


def summary(episodes: list[dict[str, float]]) -> dict[str, float]:
    """Means over episodes of return, length and falls, over steps of the rest, and the sum of violations."""
    steps = [one["length"] for one in episodes]
    found = {name: float(np.mean([one[name] for one in episodes])) for name in ("return", "length")}
    found["fell_pct"] = 100 * float(np.mean([one["fell"] for one in episodes]))
    found |= {name: float(np.average([one[name] for one in episodes], weights=steps)) for name in MEANS}
    return found | {"violations": sum(one["violations"] for one in episodes)}


def main(settings: Robustness) -> None:
    print("| disturbance | " + " | ".join(SHOWN) + " |\n|---" + "|---" * len(SHOWN) + "|")
    rows = []
    for row in settings.rows():
        rows.append(row)
        print("| " + " | ".join([str(row["disturbance"]), *(f"{row[name]:.3g}" for name in SHOWN)]) + " |", flush=True)
    if settings.out:
        write_csv(settings.out, rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(tyro.cli(Robustness, description=__doc__))
