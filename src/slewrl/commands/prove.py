"""``slewrl prove``: a machine-checked proof of the limiter's arithmetic."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from slewrl.errors import UserFacingError
from slewrl.io.console import Console, bold

if TYPE_CHECKING:
    from slewrl.prove.lemmas import Lemma
    from slewrl.prove.smt import Numbers
    from slewrl.prove.solve import Answer

LEAST = 3.0
"""The guessed CPU-seconds of solved lemmas from which on the time left is said."""
LONGEST = 1e6
"""The largest --timeout, in CPU-seconds."""
STYLES = {"proved": "green", "refuted": "red", "not decided": "yellow"}


@dataclass(frozen=True)
class Prove:
    """Prove that the limiter keeps these limits, for every command there is, and write a certificate.

    slewrl prove limits.yaml

    slewrl prove policy.bundle

    SMT solvers check the arithmetic of the Python and the C limiter, and of the layers' last operation; docs/proof.md
    says what that covers. Takes a minute or two, and seconds the second time.
    """

    source: tyro.conf.Positional[str]
    """A limits.yaml, a bundle, or TASK:PRESET such as G1:paper."""
    out: Path | None = None
    """Folder for certificate.json and certificate.html (default: the name of the source, with .proof)."""
    workers: int = 0
    """Processes that solve at once (default: one per processor that it may use)."""
    timeout: float = 600.0
    """CPU-seconds for a lemma; what takes longer is not decided."""
    cache: Path | None = None
    """Folder of answers of earlier times (default: slewrl/proofs in the user's cache)."""
    float64: bool = False
    """Prove the layers' last operation in float64, too: half a minute a joint."""
    fresh: bool = False
    """Solve all lemmas again, whatever the cache has, and put the new answers there."""

    def run(self) -> int:
        """Prove, write the certificate, and print the result; the exit code is 0 only if all is proved."""
        if self.workers < 0:
            raise ValueError(f"--workers is {self.workers}, expected at least 1, or 0 for one per processor")
        if not 0 < self.timeout <= LONGEST:
            raise ValueError(f"--timeout is {self.timeout}, expected CPU-seconds above 0, at most {LONGEST:,.0f}")
        from slewrl.prove.page import headline, write
        from slewrl.prove.proof import lemmas_for, prove, read_source
        from slewrl.prove.solve import Memory, default_memory, tool_version

        for tool in ("bitwuzla", "z3"):
            tool_version(tool)
        source, console = read_source(self.source), Console()
        memory = Memory(self.cache or default_memory(), self.fresh)
        memory.prepare()
        layers: tuple[Numbers, ...] = ("float32", "float64") if self.float64 else ("float32",)
        with Answers(console, lemmas_for(source.limits, layers)) as answers:
            made = prove(source, self.workers or processors(), self.timeout, memory, answers.heard, layers)
        out = self.out or Path(source.name.replace(":", "-")).with_suffix(".proof")
        try:
            write(made, out)
        except OSError as error:
            raise UserFacingError(f"the certificate cannot be written to {out}: {error}") from None
        for case in made["cases"]:
            console.print(f"a step that breaks a limit: {case['broken']}")
            for line in case["lines"]:
                console.print(Text(line))
        console.print(
            Text(headline(made), style=STYLES[made["verdict"]]),
            f" {made['cpu_seconds']:,.1f} CPU-seconds of solvers, {made['seconds']:,.1f} s now; wrote ",
            bold(out / "certificate.html"),
            sep="",
        )
        return 0 if made["verdict"] == "proved" else 1


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Answers(Progress):
    """A line per answer and, on a terminal, a bar below them; answers of earlier times are only counted."""

    def __init__(self, console: Console, lemmas: Sequence["Lemma"]) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        super().__init__(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.bar = self.add_task("estimating", total=len(lemmas))
        self.lines, self.begun, self.done, self.remembered = console, time.perf_counter(), 0, 0
        self.solved = 0.0
        """The guessed cost of what was solved by now."""

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        """Take the bar away, and say after Ctrl-C what is not lost."""
        super().__exit__(kind, *rest)
        if kind is KeyboardInterrupt:
            self.lines.print(f"stopped; {self.done} answers are kept: the same command goes on from there")

    def heard(self, lemma: "Lemma", answer: "Answer", left: Sequence["Lemma"]) -> None:
        """Print an answer."""
        self.done += 1
        self.solved += 0.0 if answer.remembered else lemma.cost
        time_left = self.left(sum(x.cost for x in left))
        self.update(self.bar, completed=self.done, description=time_left)
        if answer.remembered:
            self.remembered += 1
        else:
            self._print(lemma, answer, f"{self.done}/{self.done + len(left)}, {time_left}")
        if not left and self.remembered:
            self.lines.detail(f"{self.remembered} of {self.done} answers are remembered (--fresh: ask again)")

    def _print(self, lemma: "Lemma", answer: "Answer", where: str) -> None:
        """One line, which a terminal cuts off at its width: the certificate has every word."""
        about = f" ({answer.why})" if answer.why else ""
        line = f"  [{where}] {answer.verdict}, {answer.cpu_seconds:.1f} s: {lemma.part}: {lemma.name}{about}"
        self.lines.print(Text(line, overflow="ellipsis"), soft_wrap=not self.lines.is_terminal, no_wrap=True)

    def left(self, cost: float) -> str:
        """The time left, at the pace so far."""
        if cost == 0:
            return "done"
        if self.solved < LEAST:
            return "estimating"
        seconds = (time.perf_counter() - self.begun) / self.solved * cost
        return f"about {seconds:.0f} s left" if seconds < 90 else f"about {seconds / 60:.0f} min left"
