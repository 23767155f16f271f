"""Asks solvers, in processes of their own, and remembers what they answered by the digest of the question."""

import hashlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any, Literal

from slewrl.errors import UserFacingError
from slewrl.io.files import read_json, write_atomically
from slewrl.prove.join import Join
from slewrl.prove.smt import Statement, from_pattern
from slewrl.prove.trying import EveryRoom

Verdict = Literal["proved", "refuted", "not decided"]
Model = dict[str, float | bool]
Question = Statement | EveryRoom | Join
PACKAGES = {"bitwuzla": "bitwuzla", "z3": "z3-solver", "numpy": "numpy"}
"""Tool -> its package."""


@dataclass(frozen=True)
class Answer:
    """What a solver said of a statement."""

    verdict: Verdict
    tool: str
    """Its name and version."""
    digest: str
    """SHA-256 of the question and of the tool."""
    cpu_seconds: float
    model: Model = field(default_factory=dict)
    """Numbers for which the claim is false, if it is refuted."""
    why: str = ""
    """Why it is not decided."""
    remembered: bool = False
    """Whether this is an answer of an earlier time."""


def tool_of(statement: Question) -> str:
    """Floats are bitwuzla's, integers and reals z3's, and numpy tries every room."""
    if isinstance(statement, EveryRoom):
        return "numpy"
    return "bitwuzla" if statement.numbers.startswith("float") else "z3"


def tool_version(name: str) -> str:
    """Name and version of a tool that is installed."""
    try:
        return f"{name} {version(PACKAGES[name])}"
    except ModuleNotFoundError:
        raise UserFacingError(f'prove needs {PACKAGES[name]}: pip install "slewrl[prove]"') from None


def digest_of(statement: Question) -> str:
    """SHA-256 of the question in SMT-LIB, of its premises, and of the tool's name and version."""
    asked = (statement.text(),) if isinstance(statement, EveryRoom) else (statement.refutation(), statement.premises())
    parts = (tool_version(tool_of(statement)), *asked)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


# ---------------------------------------------------------------------- one question


def ask(statement: Question, seconds: float) -> Answer:
    """Ask a solver, with a limit of CPU-seconds; here, in this process."""
    tool, begun = tool_of(statement), time.process_time()
    if isinstance(statement, EveryRoom):
        wrong: Model = {**statement.wrong()}
        used = round(time.process_time() - begun, 3)
        return Answer("refuted" if wrong else "proved", tool_version(tool), digest_of(statement), used, wrong)
    asked = _bitwuzla if tool == "bitwuzla" else _z3
    found, model = asked(statement.refutation(), seconds, statement.numbers)
    why = ""
    if found == "unsat":
        # A claim about nothing is no claim: there must be numbers that meet the needs.
        met, _ = asked(statement.premises(), seconds, statement.numbers)
        if met == "unsat":
            found, why = "unknown", "no numbers meet the premises"
        elif met == "unknown":
            found, why = "unknown", "it is not known whether any numbers meet the premises"
    elif found == "unknown":
        why = f"no answer in {seconds:g} CPU-seconds"
    verdict: Verdict = "proved" if found == "unsat" else "refuted" if found == "sat" else "not decided"
    used = time.process_time() - begun
    return Answer(verdict, tool_version(tool), digest_of(statement), round(used, 3), model, why)


def _bitwuzla(text: str, seconds: float, numbers: str) -> tuple[str, Model]:
    import bitwuzla

    options = bitwuzla.Options()
    options.set(bitwuzla.Option.PRODUCE_MODELS, True)
    parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
    parser.parse(text, True, False)
    solver, end = parser.bitwuzla(), time.process_time() + seconds
    solver.configure_terminator(lambda: time.process_time() > end)
    found = str(solver.check_sat())
    if found != "sat":
        return found, {}
    model: Model = {}
    for term in parser.get_declared_funs():
        value = str(solver.get_value(term))
        if value in ("true", "false"):
            model[str(term)] = value == "true"
        elif re.fullmatch(r"\(fp( #b[01]+){3}\)", value):
            model[str(term)] = from_pattern("".join(re.findall(r"[01]+", value)), numbers)
    return found, model


def _z3(text: str, seconds: float, numbers: str) -> tuple[str, Model]:
    import z3

    solver = z3.Solver()
    solver.set("timeout", int(1000 * seconds))  # by the clock, which is not before the CPU's
    solver.from_string(text)
    found = str(solver.check())
    if found != "sat" or numbers != "integers":
        return found, {}
    made = solver.model()
    values = {str(name): made[name] for name in made.decls() if name.arity() == 0}
    return found, {name: float(value.as_long()) for name, value in values.items() if z3.is_int_value(value)}


# ---------------------------------------------------------------------- many


class Memory:
    """Answers of earlier times, one file each; only proofs and refutations are kept.

    Args:
        folder: where they are; None forgets.
        fresh: whether every question is asked again, and its answer replaced.
    """

    def __init__(self, folder: Path | None, fresh: bool = False) -> None:
        self.folder, self.fresh = folder, fresh

    def prepare(self) -> None:
        """Make the folder, so that one that cannot be made is known before anything is solved."""
        if self.folder is not None:
            with self._named():
                self.folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say which folder cannot be written to."""
        try:
            yield
        except OSError as error:
            raise UserFacingError(f"answers cannot be kept in {self.folder}: {error} (--cache FOLDER)") from None

    def recall(self, digest: str) -> Answer | None:
        """The answer to a question, if it was asked before."""
        path = None if self.folder is None else self.folder / f"{digest}.json"
        if path is None or self.fresh or not path.exists():
            return None
        try:
            found = Answer(**{**read_json(path), "remembered": True})
            usable = found.digest == digest and found.verdict in ("proved", "refuted") and found.cpu_seconds >= 0
            return found if usable and isinstance(found.tool, str) and isinstance(found.model, dict) else None
        except (OSError, ValueError, TypeError):
            return None  # damaged: asked again

    def keep(self, answer: Answer) -> None:
        """Remember an answer."""
        if self.folder is not None and answer.verdict != "not decided":
            self.prepare()
            with self._named():
                write_atomically(self.folder / f"{answer.digest}.json", json.dumps(asdict(answer), indent=1) + "\n")


def default_memory() -> Path:
    """The folder of answers, in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "slewrl" / "proofs"


def _begin() -> None:
    """Prepare a process that solves: Ctrl-C, which reaches all processes of a terminal, ends it without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    """End this process when the one that asks is gone, even by kill -9: nobody would read its answers."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def solve(statements: Sequence[Question], workers: int, seconds: float, memory: Memory) -> Iterator[tuple[int, Answer]]:
    """Answer statements, in the order in which answers come; equal statements are asked once.

    Yields:
        the index of a statement, and its answer.
    """
    waiting: dict[str, list[int]] = {}
    for i, statement in enumerate(statements):
        digest = digest_of(statement)
        if (found := memory.recall(digest)) is not None:
            yield i, found
        else:
            waiting.setdefault(digest, []).append(i)
    if not waiting:
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin) as pool:
        asked: dict[Future[Answer], list[int]] = {
            pool.submit(ask, statements[indices[0]], seconds): indices for indices in waiting.values()
        }
        try:
            while asked:
                for future in wait(asked, return_when=FIRST_COMPLETED).done:
                    answer = future.result()
                    memory.keep(answer)
                    for i in asked.pop(future):
                        yield i, answer
        except BrokenProcessPool:
            raise UserFacingError(
                "a process that solves was ended from outside, for want of memory perhaps: answers so far are kept; "
                "run it again with fewer --workers"
            ) from None
        finally:
            # The pool cancels its own futures: cancelled from here, they race with a pool that has just broken.
            pool.shutdown(cancel_futures=True)


def summary(answers: Sequence[Answer]) -> dict[str, Any]:
    """Counts by verdict, and CPU-seconds, those of remembered answers when they were found."""
    counts = {kind: sum(answer.verdict == kind for answer in answers) for kind in ("proved", "refuted", "not decided")}
    once = {answer.digest: answer.cpu_seconds for answer in answers}
    return {**counts, "cpu_seconds": round(sum(once.values()), 3)}
