"""Proves limits: collects the lemmas, has them solved, and writes down what came of it."""

import hashlib
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slewrl import __version__
from slewrl.deploy.bundle import decimal
from slewrl.deploy.limiter import RateLimiter
from slewrl.io.files import is_yaml
from slewrl.prove import arithmetic
from slewrl.prove.case import EFFORTS, Case, find_case
from slewrl.prove.lemmas import (
    Lemma,
    braking_lemmas,
    dt_lemmas,
    guard_lemmas,
    guarded,
    limiter_lemmas,
    room_lemmas,
)
from slewrl.prove.program import Program
from slewrl.prove.smt import Numbers
from slewrl.prove.solve import Answer, Memory, solve, summary, tool_version

SEARCHED = 3
"""The most joints of different limits that are searched for a step that breaks them."""
Heard = Callable[[Lemma, Answer, Sequence[Lemma]], None]
"""Called with each answer and the lemmas that are left."""
TRUSTED = (
    "That the programs below are the Python and the C code is tested, bit for bit on random and on awkward inputs "
    "(tests/prove), not proved.",
    "Arithmetic is IEEE 754 as the source is written: binary64, rounded to nearest, with gradual underflow. Compiler, "
    "processor and their modes are not proved; the C header refuses those that it can see.",
    "The solvers are trusted: they keep no proof that a third program could check.",
    "Answers of earlier times are believed, and marked as remembered: whoever can write to the folder of answers can "
    "forge them. With --fresh all questions are asked again.",
)
JOINED = {
    False: "That the lemmas together say what is claimed is a question to a solver, too, in real numbers; what exact "
    "and rounded down are is told it by hand (docs/proof.md).",
    True: "The argument that joins the lemmas (docs/proof.md) is by hand.",
}
"""Whether there is an acceleration limit -> what the certificate says of the lemmas together."""
NOT_PROVED = (
    "That the limits are those of your robot, that the drive follows its commands, that the clock measures dt.",
    "That the caller starts from the last command, calls from one thread, and sends what the limiter returns.",
    "The network, and what a layer does before its last operation.",
)


@dataclass(frozen=True)
class Source:
    """Limits to prove, and where they are from."""

    name: str
    limits: Any
    """Anything that ``RateLimiter`` takes."""
    sha256: str = ""
    """Digest of the file; "" for a preset."""
    budget: float | None = None


def read_source(source: str) -> Source:
    """Read a limits.yaml, a bundle, or the name of a preset such as G1:paper."""
    path = Path(source)
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    if path.is_file() and not is_yaml(path):
        from slewrl.deploy.bundle import read

        made = read(path)
        return Source(path.name, made.limits, digest, made.budget)
    from slewrl.limits.resolve import resolve_limits

    return Source(path.name, resolve_limits(source), digest)


def lemmas_for(limits: Any, layers: Sequence[Numbers] = ("float32",)) -> list[Lemma]:
    """All lemmas for these limits; those that the limiter refuses are a ValueError.

    Args:
        limits: anything that ``RateLimiter`` takes.
        layers: the dtypes of layers; one that cannot hold the limits has no lemmas.
    """
    motion = RateLimiter(limits).motion
    if motion is not None:
        return [*braking_lemmas(), *room_lemmas(motion.full, motion.names)]
    timed = [] if getattr(limits, "dt", None) is None else dt_lemmas()
    held = [numbers for numbers in layers if not refusal(limits, numbers)]
    guards = [lemma for numbers in held for lemma in guard_lemmas(limits, numbers=numbers)]
    return [*limiter_lemmas(), *timed, *guards]


def refusal(limits: Any, numbers: Numbers) -> str:
    """Why layers of a dtype cannot have these limits; "" if they can."""
    try:
        guarded(limits, numbers)
    except ValueError as error:
        return str(error)
    return ""


def prove(
    source: Source,
    workers: int,
    seconds: float,
    memory: Memory,
    heard: Heard,
    layers: Sequence[Numbers] = ("float32",),
) -> dict[str, Any]:
    """Prove what can be proved of limits, and return the certificate, whose ``verdict`` is the outcome.

    Args:
        source: the limits.
        workers: how many processes ask at once.
        seconds: CPU-seconds for each lemma.
        memory: answers of earlier times.
        heard: called with each answer.
        layers: the dtypes of layers to prove.
    """
    begun, lemmas = time.perf_counter(), lemmas_for(source.limits, layers)
    answers: dict[int, Answer] = {}
    for i, answer in solve([lemma.statement for lemma in lemmas], workers, seconds, memory):
        answers[i] = answer
        heard(lemmas[i], answer, [lemma for k, lemma in enumerate(lemmas) if k not in answers])
    found = [answers[i] for i in range(len(lemmas))]
    cases = _cases(source.limits, lemmas, found, seconds)
    return certificate(source, lemmas, found, cases, time.perf_counter() - begun, layers)


def _cases(limits: Any, lemmas: Sequence[Lemma], answers: Sequence[Answer], seconds: float) -> list[Case]:
    """For a refuted lemma of the limiter, a step of some joint that breaks its limits."""
    parts = {lemma.part for lemma, answer in zip(lemmas, answers, strict=True) if answer.verdict == "refuted"}
    if not parts & {"the edge up", "the edge down", "the comparisons", "the limiter"}:
        return []
    rows = zip(limits.up, limits.down, limits.low, limits.high, strict=True)
    for numbers in list(dict.fromkeys(tuple(map(float, row)) for row in rows))[:SEARCHED]:
        joint = dict(zip(("rise", "fall", "low", "high"), numbers, strict=True))
        if (case := find_case(joint, seconds=min(seconds, EFFORTS[-1]))) is not None:
            return [case]
    return []


def verdict_of(answers: Sequence[Answer]) -> str:
    """Proved only if every lemma is."""
    verdicts = {answer.verdict for answer in answers}
    return "refuted" if "refuted" in verdicts else "proved" if verdicts == {"proved"} else "not decided"


def certificate(
    source: Source,
    lemmas: Sequence[Lemma],
    answers: Sequence[Answer],
    cases: Sequence[Case],
    seconds: float,
    layers: Sequence[Numbers] = ("float32",),
) -> dict[str, Any]:
    """What was asked and answered, and what was not."""
    limits = source.limits
    moving = RateLimiter(limits).motion is not None
    keys = ["up", "down", "low", "high", *(["acceleration", "deceleration"] if moving else [])]
    rows = [
        {"name": name, **{key: decimal(getattr(limits, key)[i]) for key in keys}} for i, name in enumerate(limits.names)
    ]
    return {
        "verdict": verdict_of(answers),
        "source": source.name,
        "sha256": source.sha256,
        "slewrl": __version__,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"},
        "tools": [tool_version(tool) for tool in ("bitwuzla", "z3", "numpy")],
        **summary(answers),
        "seconds": round(seconds, 3),
        "dt": getattr(limits, "dt", None),
        "limits": rows,
        "remembered": sum(answer.remembered for answer in answers),
        "says": _says(limits, moving, layers),
        "trusted": [JOINED[moving], *TRUSTED],
        "not_proved": [*NOT_PROVED, *_left_out(source, moving, layers)],
        "cases": [{**asdict(case), "lines": case.lines()} for case in cases],
        "lemmas": [
            {"part": lemma.part, "name": lemma.name, "about": lemma.about, **asdict(answer)}
            for lemma, answer in zip(lemmas, answers, strict=True)
        ],
        "programs": {name: program.text for name, program in vars(arithmetic).items() if isinstance(program, Program)},
    }


def _says(limits: Any, moving: bool, layers: Sequence[Numbers]) -> list[str]:
    """What follows if all lemmas are proved."""
    if moving:
        return [
            "Every command is in its range and on its grid; each increment keeps its rate, acceleration and "
            "deceleration, and after it the joint can stop in its range. NaN brakes. A lowered rate is braked to.",
            "That holds for RateLimiter, for the C header, and for layers that end in the clip to the same interval.",
        ]
    timed = getattr(limits, "dt", None) is not None
    dt = " The rates of a measured dt are at most rate times dt / period, and are among them." if timed else ""
    formats = " and ".join(numbers for numbers in layers if not refusal(limits, numbers))
    guard = (
        f"For these limits in {formats}: the last operation of every hard layer, the clip to the guarded edges, keeps "
        "them; all layers but budget end in it, and DD-SRad's fused path has a lemma of its own."
    )
    return [
        "For every prev, command (NaN and infinities included), rate and range within 2^1021: the command is within "
        "prev + rise and prev - fall in exact arithmetic, and in the range. NaN holds. A lowered rate is among "
        f"them.{dt}",
        "From outside the range a joint only returns, within its rate.",
        *([guard] if formats else []),
    ]


def _left_out(source: Source, moving: bool, layers: Sequence[Numbers]) -> list[str]:
    left = [] if source.budget is None else ["The budget over all joints (Theorem 3) is not among the lemmas."]
    if not moving:
        reasons = {numbers: refusal(source.limits, numbers) for numbers in layers}
        others = [numbers for numbers in ("float32", "float64", "float16", "bfloat16") if numbers not in layers]
        return [
            *left,
            *(f"Layers in {numbers}, which refuse these limits: {why}." for numbers, why in reasons.items() if why),
            f"Layers in {', '.join(others)}, and rates of one step.",
        ]
    return [
        *left,
        "DD-SRad's fused path, which rounds its share of the way to an edge to the grid instead of clipping.",
        "A deceleration lowered while running: every room was tried for the full one only.",
        "A start from outside the range, and the two shortcuts of the controller that does not brake for its target.",
    ]
