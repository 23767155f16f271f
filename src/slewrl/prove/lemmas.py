"""The lemmas from which it follows that every command keeps its limits.

Those of the limiter speak of every double, of all rates and ranges at once: a lowered rate and the rate of a measured
dt are among them. What brings them within a solver's reach is to ask whether each difference is *exact*, and to give
each definition of the program to the next lemma as what was proved of it.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from slewrl.limits import RateLimits
from slewrl.limits.boxmath import LARGEST
from slewrl.limits.viability import Grid
from slewrl.prove.arithmetic import BRAKES, GUARD, LIMITER, STEP_DT
from slewrl.prove.join import Join
from slewrl.prove.program import Program
from slewrl.prove.smt import Numbers, Statement, known_as
from slewrl.prove.trying import EveryRoom

SOUND = (("LARGEST", LARGEST),)
POSE, RISE, FALL = "abs(prev) <= LARGEST", "rise >= 0 and rise <= LARGEST", "fall >= 0 and fall <= LARGEST"
RANGE = "low <= high and low >= -LARGEST and high <= LARGEST"
INSIDE = "not inside or (low <= prev and prev <= high)"
BRAKING = 2.0**25
"""The largest rate, acceleration and distance on the grid of commands."""
FARTHEST = 2.0**48


@dataclass(frozen=True)
class Lemma:
    """A statement, and what it says in words."""

    name: str
    part: str
    """The part of the proof it belongs to."""
    statement: Statement | EveryRoom | Join
    about: str = ""
    """Joints that it is for; "" if it is for all."""
    cost: float = 0.5
    """A rough guess of the CPU-seconds that it takes, for the time left."""


def limiter_lemmas(program: Program = LIMITER, largest: float = LARGEST) -> list[Lemma]:
    """A step of the rate limiter keeps rate and range, whatever is commanded.

    Args:
        program: the limiter's arithmetic.
        largest: the largest magnitude of poses, rates and bounds that the limiter accepts.
    """
    known = (("LARGEST", largest),)
    lemmas = [*_edge(program, "up", known), *_edge(program, "down", known), *_comparisons(program, known)]
    return [*lemmas, _joined("the limiter", lemmas, STEP, (POSE, RISE, FALL, RANGE, INSIDE))]


def _joined(part: str, lemmas: Sequence[Lemma], claims: Mapping[str, str], needs: tuple[str, ...]) -> Lemma:
    """What follows from lemmas of a part, together."""
    statements = [lemma.statement for lemma in lemmas if isinstance(lemma.statement, Statement)]
    whole = Join(tuple(statements), " and ".join(f"({claim})" for claim in claims.values()), needs)
    return Lemma(f"together: {'; '.join(claims)}", part, whole)


STEP = {
    "every command is within prev + rise and prev - fall": (
        "finite(command) and command <= prev + rise and command >= prev - fall"
    ),
    "from within its range a joint stays in it": (
        "not (low <= prev and prev <= high) or (low <= command and command <= high)"
    ),
    "the next step may start there": "abs(command) <= LARGEST",
    "NaN holds": "wanted == wanted or command == prev",
    "what is allowed is not changed": (
        "not (low <= prev and prev <= high and low <= wanted and wanted <= high) or wanted > prev + rise or "
        "wanted < prev - fall or command == wanted"
    ),
    "Python's shortcut keeps rate and range, too": (
        "not plain or (finite(clipped) and clipped <= prev + rise and clipped >= prev - fall and "
        "low <= clipped and clipped <= high)"
    ),
}  # fmt: skip
"""What all lemmas of the limiter say of a step, in words and with exact sums."""


def _edge(program: Program, side: str, known: tuple[tuple[str, float], ...]) -> list[Lemma]:
    """The edge by the rate is the outermost float within prev + rise, or prev - fall."""
    up = side == "up"
    rate, needs = ("rise", (POSE, RISE)) if up else ("fall", (POSE, FALL))
    exact_sum = "below(prev + rise)" if up else "above(prev - fall)"
    part = f"the edge {side}"
    s = {"sum": f"sum_{side}", "part": f"part_{side}", "back": f"back_{side}", "error": f"error_{side}"}
    left, right, edge = f"left_{side}", f"right_{side}", "rate_top" if up else "rate_bottom"
    lemmas = [
        Lemma(
            f"{name} has no rounding error", part,
            Statement(program, f"exact({program.written(name)})", needs, constants=known), cost=5.0,
        )
        for name in (s["back"], left, right)
    ]  # fmt: skip
    sign = "<" if up else ">"
    beyond = f"{s['error']} {sign} 0"
    lemmas.append(
        Lemma(
            f"{s['error']} has the sign of {left} + {right}", part,
            Statement(program, f"({beyond}) == ({left} {sign} -{right})", (f"finite({left})", f"finite({right})"),
                      given=(left, right)),
        )
    )  # fmt: skip
    rounded = f"({beyond}) == ({exact_sum} {'<' if up else '>'} {s['sum']})"
    claim = f"{edge} == {exact_sum} and finite({edge}) and {'prev <= ' + edge if up else edge + ' <= prev'}"
    lemmas.append(
        Lemma(
            f"so {edge} is the outermost float within the {rate}, and not on the far side of prev", part,
            Statement(program, claim, (*needs, rounded), given=(s["error"],), constants=known),
        )
    )  # fmt: skip
    return lemmas


def _comparisons(program: Program, known: tuple[tuple[str, float], ...]) -> list[Lemma]:
    """Given the two edges, the command lies between them and in the range: comparisons alone, of any doubles."""
    needs = (
        POSE,
        RANGE,
        INSIDE,
        "finite(rate_top) and finite(rate_bottom)",
        "rate_bottom <= prev and prev <= rate_top",
    )
    given = ("rate_top", "rate_bottom")
    claims = {
        "the command lies between the edges, for NaN and infinities, too": (
            "rate_bottom <= command and command <= rate_top"
        ),
        "from within the range the command is in the range": (
            "not (low <= prev and prev <= high) or (low <= command and command <= high)"
        ),
        "from outside a joint can only return": (
            "(prev <= high or (command <= prev and command >= low)) and "
            "(prev >= low or (command >= prev and command <= high))"
        ),
        "NaN holds the joint": "wanted == wanted or command == prev",
        "a command that is allowed is not changed": (
            "not (low <= prev and prev <= high) or not (low <= wanted and wanted <= high and rate_bottom <= wanted "
            "and wanted <= rate_top) or command == wanted"
        ),
    }
    lemmas = [
        Lemma(name, "the comparisons", Statement(program, claim, needs, given, known)) for name, claim in claims.items()
    ]
    shortcut = "above(clipped - prev) <= rise and above(prev - clipped) <= fall and low <= clipped and clipped <= high"
    lemmas.append(
        Lemma(
            "Python's shortcut for commands plainly within the rates keeps rate and range", "the comparisons",
            Statement(program, shortcut, (POSE, RISE, FALL, RANGE, INSIDE, "plain"), constants=known),
        )
    )  # fmt: skip
    return lemmas


def dt_lemmas(program: Program = STEP_DT) -> list[Lemma]:
    """The rate of a step of a measured dt is at most rate times dt / period, in exact arithmetic."""
    part = "a measured dt"
    times = ("period > 0 and finite(period)", "longest >= 1 and finite(longest)")
    rates = "rate >= 0 and rate <= LARGEST"
    known = (*SOUND, ("largest", LARGEST))
    lemmas = [
        Lemma(
            "a dt that is zero, negative or NaN is no step", part,
            Statement(program, "dt > 0 or steps == 0", times),
        ),
        Lemma(
            "a short step has at most dt / period nominal steps", part,
            Statement(program, "steps <= below(dt / period) and steps <= longest and steps >= 0",
                      (*times, "dt > 0 and dt < period")),
        ),
        Lemma(
            "a late step has at most dt / period nominal steps, and at most the longest", part,
            Statement(program, "steps <= below(dt / period) and steps <= longest and steps >= 0",
                      (*times, "dt >= period")), cost=1.0,
        ),
        Lemma(
            "the scaled rate is at most rate times steps, not negative, and no larger than poses may be", part,
            Statement(program, "scaled <= below(rate * steps) and scaled >= 0 and scaled <= LARGEST",
                      (rates, "steps >= 0 and finite(steps)"), ("steps",), known),
        ),
    ]  # fmt: skip
    return [*lemmas, _joined(part, lemmas, TIMED, (*times, rates))]


TIMED = {
    "the rate of a step is at most rate times dt / period": (
        "not (dt > 0 and finite(dt)) or scaled * period <= rate * dt"
    ),
    "and at most rate times the longest step": "scaled <= rate * longest",
    "no dt, no step": "dt > 0 or scaled == 0",
    "no rate is negative, or larger than poses may be": "finite(scaled) and scaled >= 0 and scaled <= LARGEST",
}  # fmt: skip
"""What the lemmas of a measured dt say, in words and with exact products."""


# ---------------------------------------------------------------------- layers


ORDERED = ("low <= prev and prev <= high", "low <= high")
EDGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "the upper edge is within the rate": ("finite(sum_up) and top <= below(prev + rate_up)", ORDERED),
    "the lower edge is within the rate": ("finite(sum_down) and bottom >= above(prev - rate_down)", ORDERED),
    "so is DD-SRad's fused sum of prev and an increment, clipped to the range": (
        "finite(moved) and fused <= below(prev + rate_up) and fused >= above(prev - rate_down) and "
        "low <= fused and fused <= high", (*ORDERED, "increment <= up and increment >= -down"),
    ),
}  # fmt: skip
"""What is asked of the guarded edges of each joint: in words, the claim, and what it needs."""


def guard_lemmas(limits: Any, program: Program = GUARD, numbers: Numbers = "float32") -> list[Lemma]:
    """The guarded edges keep these limits: the last operation of every hard layer (Theorem 2, docs/guarantee.md).

    Args:
        limits: anything with names, up, down, low and high, (d,) each, without an acceleration.
        program: the arithmetic of the edges.
        numbers: the dtype of the actions.
    """
    part = f"the layers' guard, {numbers}"
    between = Lemma(
        "an action lies between the edges, which enclose prev; NaN is prev", part,
        Statement(program, "bottom <= action and action <= top and bottom <= prev and prev <= top and "
                  "(wanted == wanted or action == prev) and low <= action and action <= high",
                  (*ORDERED, "finite(low) and finite(high)", "finite(sum_up) and finite(sum_down)"),
                  ("sum_up", "sum_down"), numbers=numbers),
    )  # fmt: skip

    def edges(rates: tuple[tuple[str, float], ...], about: str) -> list[Lemma]:
        return [
            Lemma(name, part, Statement(program, claim, needs, (), rates, numbers), about, cost)
            for (name, (claim, needs)), cost in zip(EDGES.items(), COSTS[numbers], strict=True)
        ]

    joints = guarded(limits, numbers).items()
    lemmas = [between, *(lemma for rates, names in joints for lemma in edges(rates, ", ".join(names)))]
    known = " and ".join(f"finite({x})" for x in ("low", "high", "up", "down", "rate_up", "rate_down"))
    return [*lemmas, _joined(part, [between, *edges((), "")], ACTION, (*ORDERED, known))]


COSTS = {"float32": (0.5, 0.5, 2.0), "float64": (8.0, 8.0, 16.0)}
"""dtype -> rough CPU-seconds of each of ``EDGES``."""
ACTION = {
    "every action is within prev + up and prev - down": (
        "finite(action) and action <= prev + rate_up and action >= prev - rate_down"
    ),
    "DD-SRad's fused one, too": (
        "increment > up or increment < -down or increment != increment or "
        "fused <= prev + rate_up and fused >= prev - rate_down and low <= fused and fused <= high"
    ),
    "and in the range": "low <= action and action <= high",
    "NaN holds": "wanted == wanted or action == prev",
}
"""What the lemmas of the guard say, in words and with exact sums."""


def guarded(limits: Any, numbers: Numbers) -> dict[tuple[tuple[str, float], ...], list[str]]:
    """The limits as a layer has them, rounded inward and guarded, and the joints of each.

    Raises:
        ValueError: this dtype cannot hold them.
    """
    fields = {key: getattr(limits, key) for key in ("low", "high", "up", "down", "names")}
    made, dtype = RateLimits(**fields), getattr(torch, numbers)
    working, bare = made.rounded(dtype).working, made.rounded(dtype, edges="tight").working
    arrays = {**working._asdict(), "rate_up": bare.up, "rate_down": bare.down}
    found: dict[tuple[tuple[str, float], ...], list[str]] = {}
    for i, name in enumerate(limits.names):
        found.setdefault(known_as({key: float(values[i]) for key, values in arrays.items()}), []).append(name)
    return found


# ---------------------------------------------------------------------- acceleration limits

LIMITS_ON_GRID = (
    "low < high and up >= 0 and down >= 0 and faster >= 1 and brakes >= 1",
    "low <= q and q <= high", "v <= most_up and v >= -most_down and up <= most_up and down <= most_down",
)  # fmt: skip
STOPS = ("travel(max(slower, 0)) <= above", "travel(max(-slower, 0)) <= below")
"""By braking from now on, the joint stops within its range."""


def _travel(*places: str) -> tuple[str, ...]:
    """What is known of travel(v), the way of a joint that brakes by D from an increment of v, at some places.

    FASTEST is proved by trying every room: v <= fastest(room) says the same as travel(v) <= room.
    """
    facts = ["travel(0) == 0"]
    for v in places:
        facts.append(f"{v} < 0 or travel({v}) == {v} + travel(max({v} - brakes, 0))")
        facts.append(f"{v} < 0 or travel({v}) >= 0")
        facts.append(f"{v} <= 0 or (({v} <= fastest_above) == (travel({v}) <= above))")
        facts.append(f"{v} <= 0 or (({v} <= fastest_below) == (travel({v}) <= below))")
    return tuple(facts)


def braking_lemmas(program: Program = BRAKES) -> list[Lemma]:
    """Under acceleration limits there is always an increment that keeps them all, and every step is one."""
    part = "acceleration"
    rooms = ("fastest_above >= 0 and fastest_below >= 0", "fastest_above <= above and fastest_below <= below")
    base = (*LIMITS_ON_GRID, *rooms)
    kept = "step <= most and step >= least and step <= max(up, slower) and step >= min(-down, slower)"
    places = ("max(slower, 0)", "max(-slower, 0)", "max(step, 0)", "max(-step, 0)")
    stops = "low <= reached and reached <= high and travel(max(braked, 0)) <= high - reached"
    stops += " and travel(max(-braked, 0)) <= reached - low"

    def statement(claim: str, needs: Sequence[str]) -> Statement:
        return Statement(program, claim, tuple(needs), ("fastest_above", "fastest_below"), numbers="integers")

    plain = stops.replace("reached", "(q + way)").replace("braked", "(way - min(max(way, -brakes), brakes))")
    clipped = plain.replace("way", "clipped")
    target = ("low <= q + aim and q + aim <= high", "way <= max(aim, 0) and way >= min(aim, 0)")
    on_way = ("way <= 0 or travel(way) <= aim", "way >= 0 or travel(-way) <= -aim")
    moved = ("max(way, 0)", "max(-way, 0)", "max(clipped, 0)", "max(-clipped, 0)")
    grown = ("way <= 0 or clipped <= 0 or clipped > way or travel(clipped) <= travel(way)",
             "way >= 0 or clipped >= 0 or clipped < way or travel(-clipped) <= travel(-way)")  # fmt: skip
    return [
        Lemma("full braking is always allowed: the interval is never empty", part,
              statement("bottom <= slower and slower <= top and slower <= most and slower >= least", base)),
        Lemma("a step keeps acceleration and deceleration, and its rate unless it brakes to a lowered one", part,
              statement(kept, (*base, *STOPS, *_travel(*places)))),
        Lemma("after a step the joint is in its range, and can stop in it", part,
              statement(stops, (*base, *STOPS, *_travel(*places)))),
        Lemma("an increment by which Motion stops at its target keeps all limits if it is near to the last one", part,
              statement(f"way <= most and way >= least and way <= up and way >= -down and {plain}",
                        (*base, *STOPS, *target, *on_way, "plain", *_travel(*moved[:2])))),
        Lemma("Motion's clips towards a target keep all limits", part,
              statement(f"clipped <= most and clipped >= least and clipped <= max(up, slower) and "
                        f"clipped >= min(-down, slower) and {clipped}",
                        (*base, *STOPS, *target, *on_way, *grown, *_travel(*places[:2], *moved)))),
        Lemma("every number of a step is whole and below 2^53, so float64 holds it exactly", "acceleration",
              statement(" and ".join(f"abs({number}) < HELD" for number in (*NUMBERS, *_sums(program))),
                        (f"abs(low) <= {BRAKING:.0f} and abs(high) <= {BRAKING:.0f}", f"abs(q) <= {FARTHEST:.0f}",
                         f"abs(way) <= {2 * FARTHEST:.0f}", f"abs(v) <= {BRAKING:.0f}",
                         *(f"{x} >= 0 and {x} <= {BRAKING:.0f}" for x in ("up", "down", "faster", "brakes")),
                         rooms[1], rooms[0], "HELD == 9007199254740992"))),
    ]  # fmt: skip


NUMBERS = (
    "slower", "most", "least", "below", "above", "top", "bottom", "step", "reached", "change", "clipped",
)  # fmt: skip
"""The numbers of a step under acceleration limits."""


def _sums(program: Program) -> list[str]:
    """The sums and differences on the way to these numbers."""
    parts = (part for name in NUMBERS for part in ast.walk(program.definitions[name]) if isinstance(part, ast.BinOp))
    return sorted({ast.unparse(part) for part in parts})


def room_lemmas(grid: Grid, names: Sequence[str]) -> list[Lemma]:
    """FASTEST is right for every room of these joints: a finite number, so all of them are tried."""
    found: dict[EveryRoom, list[str]] = {}
    for i, name in enumerate(names):
        rates = max(float(grid.up[i]), float(grid.down[i]))
        rooms = EveryRoom(float(grid.deceleration[i]), float(grid.high[i] - grid.low[i]), rates)
        found.setdefault(rooms, []).append(name)
    words = "the increment from which a joint just stops is right in every room"
    return [Lemma(words, "acceleration", rooms, ", ".join(joints)) for rooms, joints in found.items()]
