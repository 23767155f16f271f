"""A case that breaks a limit: found by a solver, computed by the program, and judged in rational numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from slewrl.limits.boxmath import LARGEST
from slewrl.prove.arithmetic import LIMITER
from slewrl.prove.lemmas import FALL, INSIDE, POSE, RANGE, RISE
from slewrl.prove.program import Program
from slewrl.prove.smt import Statement, known_as
from slewrl.prove.solve import Model, ask

BROKEN = {
    "up": "command <= below(prev + rise)",
    "down": "command >= above(prev - fall)",
    "range": "not (low <= prev and prev <= high) or (low <= command and command <= high)",
    "NaN": "wanted == wanted or command == prev",
    "shortcut": "not plain or (above(clipped - prev) <= rise and above(prev - clipped) <= fall)",
}
"""What may be broken -> the claim that it is not."""
EFFORTS = (1.0, 5.0, 20.0)
"""CPU-seconds for a first look: what is true takes for ever, and what is false is mostly found at once."""


@dataclass(frozen=True)
class Case:
    """One step of the limiter that breaks a limit."""

    limits: dict[str, float]
    """up, down, low and high."""
    prev: float
    wanted: float
    output: float
    broken: str
    """What is broken, by how much, in words."""

    def lines(self) -> list[str]:
        """Three lines of Python that repeat it, and print every digit: mostly it is the last one that is wrong."""
        limits = ", ".join(f"{key}=[{_python(value)}]" for key, value in self.limits.items())
        return [
            "from types import SimpleNamespace as N; from slewrl.deploy.limiter import RateLimiter",
            f'limiter = RateLimiter(N(names=["joint"], {limits})); limiter.start([{_python(self.prev)}])',
            f"print(limiter.step([{_python(self.wanted)}]).tolist())  # [{_python(self.output)}]: {self.broken}",
        ]


def find_case(
    limits: Mapping[str, float] | None,
    program: Program = LIMITER,
    seconds: float = 60.0,
    largest: float = LARGEST,
    ways: Sequence[str] = tuple(BROKEN),
) -> Case | None:
    """Search for a step that breaks the limits; None if no solver finds one in time, or there is none.

    Args:
        limits: rise, fall, low and high of a joint; None for any that the limiter accepts.
        program: the limiter's arithmetic.
        seconds: CPU-seconds for each of the ways to break a limit.
        largest: the largest magnitude that the limiter accepts.
        ways: which limits to try to break, of ``BROKEN``.
    """
    known = known_as({"LARGEST": largest, **(limits or {})})
    needs = (POSE, RISE, FALL, RANGE, INSIDE, "low < high")
    left = [Statement(program, claim, needs, (), known) for claim in (BROKEN[way] for way in ways)]
    for effort in (*(short for short in EFFORTS if short < seconds), seconds):
        answers = [(statement, ask(statement, effort)) for statement in left]
        for _, answer in answers:
            case = replayed({**answer.model, **(limits or {})}, program) if answer.model else None
            if case is not None:
                return case
        left = [statement for statement, answer in answers if answer.verdict == "not decided"]
    return None


def replayed(model: Model, program: Program = LIMITER) -> Case | None:
    """Compute a step by the program and judge it; None if it breaks nothing."""
    keys = ("prev", "wanted", "rise", "fall", "low", "high")
    values: dict[str, np.float64 | bool] = {key: np.float64(model.get(key, 0.0)) for key in keys}
    values["inside"] = bool(model.get("inside", True))
    if bool(program.compute("plain", values)):
        output = float(program.compute("clipped", values))
    else:
        output = float(program.compute("command", values))
    numbers = {key: float(values[key]) for key in keys}
    broken = judged(numbers, output)
    limits = {"up": numbers["rise"], "down": numbers["fall"], "low": numbers["low"], "high": numbers["high"]}
    return None if broken is None else Case(limits, numbers["prev"], numbers["wanted"], output, broken)


def judged(step: Mapping[str, float], output: float) -> str | None:
    """What a step breaks, decided in rational numbers; None if it breaks nothing."""
    if not math.isfinite(output):
        return f"the command is {output}"
    if step["wanted"] != step["wanted"] and output != step["prev"]:
        return f"NaN moves the joint by {output - step['prev']:.3g}"
    exact = {key: Fraction(value) for key, value in step.items() if math.isfinite(value)}
    moved = Fraction(output) - exact["prev"]
    for rate, way, much in (("rise", "up", moved - exact["rise"]), ("fall", "down", -moved - exact["fall"])):
        if much > 0:
            return f"{float(much):.3g} more than the rate {way}, {step[rate]!r}"
    within = exact["low"] <= exact["prev"] <= exact["high"]
    out = max(Fraction(output) - exact["high"], exact["low"] - Fraction(output))
    return f"{float(out):.3g} out of the range" if within and out > 0 else None


def _python(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'float("{value}")'
