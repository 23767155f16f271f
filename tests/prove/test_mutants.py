"""Break the limiter's arithmetic on purpose: a solver finds the step that shows it, and the step is repeated here."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from slewrl.deploy.limiter import RateLimiter
from slewrl.prove.arithmetic import BRAKES, FASTEST, LIMITER, STEP_DT
from slewrl.prove.case import find_case, judged, replayed
from slewrl.prove.lemmas import braking_lemmas, dt_lemmas, limiter_lemmas
from slewrl.prove.trying import travel

pytest.importorskip("bitwuzla", reason='the solvers are not installed: pip install "slewrl[prove]"')
pytest.importorskip("z3", reason='the solvers are not installed: pip install "slewrl[prove]"')
from slewrl.prove.solve import ask

ELBOW = {"rise": 0.0435, "fall": 0.0435, "low": -2.8973, "high": 2.8973}
BACK, DOWN = "next_down(sum_up) if error_up < 0 else sum_up", "next_up(sum_down) if error_down > 0 else sum_down"
MUTANTS = {
    "one ulp too generous": ("up", BACK, "next_down(sum_up) if error_up < 0 else next_up(sum_up)"),
    "no step back, as in the clip that people write": ("up", BACK, "sum_up"),
    "the step back has the wrong sign": ("down", DOWN, "next_down(sum_down) if error_down > 0 else sum_down"),
    "the error has the wrong sign": ("up", BACK, "next_down(sum_up) if error_up > 0 else sum_up"),
    "an operand of TwoSum is swapped": ("up", "right_up = rise - part_up", "right_up = part_up - rise"),
    "half of the error is forgotten": ("down", "error_down = left_down + right_down", "error_down = left_down"),
    "NaN is passed on": ("NaN", "prev if wanted != wanted else clipped", "clipped"),
    "the bound is not applied": ("range", "max(min(wanted, high), low) if inside else wanted", "wanted"),
    "the lower bound is forgotten": ("range", "max(min(wanted, high), low) if inside", "min(wanted, high) if inside"),
    "from outside it jumps back": ("down", "max(min(rate_top, high), prev)", "min(rate_top, high)"),
    "down uses the rate up": ("down", "sum_down = prev - fall", "sum_down = prev - rise"),
    "<= for < in the shortcut": ("shortcut", "rise_asked < rise", "rise_asked <= rise"),
    "the shortcut forgets a direction": ("shortcut", " and fall_asked < fall", ""),
}
"""What is broken -> the limit that shows it, a piece of text, and what it becomes."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_refuted_by_a_step_that_breaks_its_limit(name):
    way, *edit = MUTANTS[name]
    mutant = LIMITER.edited(*edit)
    joint = {**ELBOW, "fall": 0.02} if "down uses" in name else ELBOW
    case = find_case(joint, mutant, seconds=300, ways=[way])
    assert case is not None
    assert some_lemma_is_refuted(mutant, way)
    step = {**joint, "prev": case.prev, "wanted": case.wanted}
    assert judged(step, case.output) == case.broken
    # The code itself, given the same step, does not do that.
    limiter = RateLimiter(case_limits(case))
    limiter.start([case.prev])
    kept = float(limiter.step([case.wanted])[0])
    assert judged(step, kept) is None and kept != case.output


def some_lemma_is_refuted(mutant, way):
    """Whether the proof fails, too; the lemmas that are most likely to are asked first."""

    def unlikely(lemma):
        return lemma.cost >= 5, way not in f"{lemma.name} {lemma.part}", lemma.cost

    lemmas = sorted(limiter_lemmas(mutant), key=unlikely)
    return any(ask(lemma.statement, 60).verdict == "refuted" for lemma in lemmas)


def case_limits(case):
    return SimpleNamespace(names=("joint",), **{key: np.array([value]) for key, value in case.limits.items()})


def verdicts(lemmas, seconds=60):
    return {lemma.name: ask(lemma.statement, seconds) for lemma in lemmas}


def test_a_step_back_from_exact_sums_keeps_the_limits_but_wastes_a_float():
    """<= for <: harmless. With a positive rate no limit is broken; the outermost allowed command is not reached."""
    mutant = LIMITER.edited("error_up < 0", "error_up <= 0")
    (last,) = [x for x in limiter_lemmas(mutant) if "so rate_top is the outermost" in x.name]
    answer = ask(last.statement, 60)
    assert answer.verdict == "refuted"
    model = {key: Fraction(answer.model[key]) for key in ("prev", "rise")}
    given = {key: np.float64(float(value)) for key, value in model.items()}
    top = float(mutant.compute("rate_top", given))
    assert Fraction(top) <= model["prev"] + model["rise"]
    assert Fraction(math.nextafter(top, math.inf)) <= model["prev"] + model["rise"]  # the float that is wasted


def test_the_order_of_the_last_two_comparisons_does_not_matter():
    """A mutant that survives, since bottom <= prev <= top: every lemma of the comparisons still holds."""
    mutant = LIMITER.edited("min(max(held, bottom), top)", "max(min(held, top), bottom)")
    found = verdicts([lemma for lemma in limiter_lemmas(mutant) if lemma.part == "the comparisons"])
    assert {answer.verdict for answer in found.values()} == {"proved"}


def test_the_overflow_is_found_again_if_its_refusal_is_taken_out():
    most = float(np.finfo(np.float64).max)
    first = limiter_lemmas(largest=most)[0]
    assert first.name == "back_up has no rounding error" and ask(first.statement, 60).verdict == "refuted"
    widest = {"rise": most, "fall": most, "low": -most, "high": most}
    case = find_case(widest, largest=most, seconds=60, ways=["up"])
    assert case is not None and "more than the rate up" in case.broken
    numbers = {"prev": case.prev, "wanted": case.wanted, "rise": case.limits["up"], "fall": case.limits["down"]}
    assert replayed({**numbers, "low": case.limits["low"], "high": case.limits["high"], "inside": True}) == case
    with pytest.raises(ValueError, match="at most 2\\^1021 in magnitude"):
        limiter = RateLimiter(case_limits(case))
        limiter.start([case.prev])


def test_a_quotient_that_is_not_rounded_down_makes_a_step_too_long():
    mutant = STEP_DT.edited("next_to_zero(dt / period) if dt", "dt / period if dt")
    found = [ask(lemma.statement, 60) for lemma in dt_lemmas(mutant)]
    model = next(answer.model for answer in found if answer.verdict == "refuted")
    given = {key: np.float64(model[key]) for key in ("dt", "period", "longest")}
    assert Fraction(float(mutant.compute("steps", given))) > Fraction(model["dt"]) / Fraction(model["period"])
    assert Fraction(float(STEP_DT.compute("steps", given))) <= Fraction(model["dt"]) / Fraction(model["period"])


LATE = {
    "brakes when the bound is already too near": ("up), fastest_above), slower)", "up), above), slower)"),
    "speeds up by more than the acceleration": ("most = v + faster if", "most = v + faster + faster if"),
    "does not brake at all": ("top = max(min(min(most, up), fastest_above), slower)", "top = min(most, up)"),
}  # fmt: skip


@pytest.mark.parametrize("name", LATE)
def test_a_late_brake_is_refuted_and_leaves_its_range(name):
    """The solver's state is any that could still stop; the mutant steps on, brakes fully, and is out of its limits."""
    mutant = BRAKES.edited(*LATE[name])
    step = next(x for x in braking_lemmas(mutant) if "after a step" in x.name)
    kept = next(x for x in braking_lemmas() if "a step keeps" in x.name)
    claims = [step.statement]
    if "speeds up" in name:  # against the acceleration of the program that is not broken
        claims = [type(step.statement)(mutant, "step <= (v + faster if v >= 0 else min(v + brakes, faster))",
                                       kept.statement.needs, kept.statement.given, numbers="integers")]  # fmt: skip
    (answer,) = [ask(claim, 60) for claim in claims]
    assert answer.verdict == "refuted"
    assert all(value == int(value) for value in answer.model.values())
    assert breaks(mutant) and not breaks(BRAKES)


def breaks(program):
    """Whether a joint that is sent to its bound and then brakes leaves its range or exceeds its acceleration."""
    limits = {"low": -200.0, "high": 200.0, "up": 40.0, "down": 40.0, "faster": 7.0, "brakes": 5.0}
    q, v, worst = 0.0, 0.0, 0.0
    for _ in range(60):
        given = {key: np.float64(value) for key, value in {**limits, "q": q, "v": v, "way": 1e6}.items()}
        for side in ("above", "below"):
            room = {"room": program.compute(side, given), "brakes": given["brakes"]}
            given[f"fastest_{side}"] = FASTEST.compute("fastest", room)
        step = float(program.compute("step", given))
        worst = max(worst, step - v - limits["faster"])
        q, v = q + step, step
        if q + int(travel(np.array([max(int(v) - 5, 0)]), 5)[0]) > limits["high"]:
            return True
    return worst > 0
