"""What joins the lemmas: all of them are needed, and what it takes for granted is true of floats."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from slewrl.limits import RateLimits
from slewrl.limits.boxmath import LARGEST, round_down, round_up
from slewrl.prove.arithmetic import LIMITER
from slewrl.prove.join import Join, JoinWriter
from slewrl.prove.lemmas import dt_lemmas, guard_lemmas, limiter_lemmas
from slewrl.prove.program import Program
from slewrl.prove.smt import Statement

pytest.importorskip("bitwuzla", reason='the solvers are not installed: pip install "slewrl[prove]"')
pytest.importorskip("z3", reason='the solvers are not installed: pip install "slewrl[prove]"')
import z3

from slewrl.prove.solve import ask

ALL = {"limiter": limiter_lemmas(), "dt": dt_lemmas(), "guard": guard_lemmas(RateLimits(0.1, [-1.0], [1.0]))}


@pytest.mark.parametrize("lemmas", ALL.values(), ids=ALL)
def test_no_lemma_is_idle(lemmas):
    join = lemmas[-1].statement
    assert ask(join, 60).verdict == "proved"
    for statement in join.lemmas:
        others = tuple(x for x in join.lemmas if x is not statement)
        assert ask(replace(join, lemmas=others), 60).verdict == "refuted", statement.claim


def test_a_difference_with_the_wrong_sign_is_not_the_error_of_the_sum():
    mutant = LIMITER.edited("right_up = rise - part_up", "right_up = part_up - rise")
    assert ask(limiter_lemmas(mutant)[-1].statement, 60).verdict == "refuted"


ODD = (0.0, 5e-324, 2.0**-1022, 1.0, 1.0 + 2.0**-52, 2.0**53, 2.0**970, LARGEST)


def some_steps(count=120):
    """Steps of one joint between awkward magnitudes, in its range and out of it."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        prev, wanted = (rng.choice(ODD) * rng.choice([-1.0, 1.0, rng.normal() / 8]) for _ in range(2))
        rise, fall = (rng.choice(ODD) * rng.choice([0.0, 1.0, rng.random()]) for _ in range(2))
        low, high = sorted(rng.choice(ODD) * rng.choice([-1.0, 1.0]) for _ in range(2))
        wanted = rng.choice([wanted, np.nan, np.inf, -np.inf], p=[0.7, 0.1, 0.1, 0.1])
        inside = bool(low <= prev <= high)
        numbers = {"prev": prev, "wanted": wanted, "rise": rise, "fall": fall, "low": low, "high": high}
        yield {"inside": inside, **{key: np.float64(value) for key, value in numbers.items()}}


def test_what_the_join_takes_for_granted_is_true_of_floats():
    """Every number of a step, as numpy computes it, fits the lemmas and what they say of rounding."""
    join = limiter_lemmas()[-1].statement
    names = set(LIMITER.definitions)
    for step in some_steps():
        found = {**step, **{name: LIMITER.compute(name, step) for name in names}}
        assert fitted(join, found) == "sat"


def fitted(join, found):
    """Whether z3 finds these floats, and their sums rounded in rational numbers, possible."""
    writer = JoinWriter(join.lemmas)
    text = writer.joined(join.needs)
    rounded = {name: rounded_exactly(total, found) for total, name in writer.rounded.items()}
    known = found | {name: value for name, value in rounded.items() if value is not None}
    solver = z3.Solver()
    solver.from_string(text + "".join(f"(assert {line})\n" for line in equalities(known, text)))
    return str(solver.check())


def rounded_exactly(total, found):
    """The value of below(a + b) and the like by rational numbers; None if a or b is not finite."""
    left, sign, right = total.partition("(")[2][:-1].split(" ")
    if not np.isfinite(found[left] + found[right]):
        return None
    a, b = Fraction(float(found[left])), Fraction(float(found[right]))
    return (round_down if total.startswith("below") else round_up)(a + b if sign == "+" else a - b)


def equalities(found, text):
    for name, value in found.items():
        if f"(declare-const {name} Bool)" in text:
            yield name if value else f"(not {name})"
        elif f"(declare-const {name} Real)" in text:
            yield f"nan_{name}" if np.isnan(value) else f"(and (not nan_{name}) (= {name} {real(value)}))"


def real(value):
    exact = Fraction(float(value)) if np.isfinite(value) else Fraction(2) ** 1024 * int(np.sign(value))
    sign = "(- {})" if exact < 0 else "{}"
    return sign.format(f"(/ {abs(exact.numerator)}.0 {exact.denominator}.0)")


def test_floats_compare_as_in_ieee_754():
    """NaN is neither less nor equal, and an infinity is beyond every finite number."""
    idle = Statement(Program("y = -x"), "finite(a) or a == a or a != a", numbers="float64")
    for claim, verdict in {
        "a != a or a == a": "proved", "a == a": "refuted", "not finite(a) or a == a": "proved",
        "not (finite(a) and b > a) or b == b": "proved", "not (a <= b and b <= a) or a == b": "proved",
        "not (finite(a) and finite(b) and a <= c and c <= b) or finite(c)": "proved",
        "not (a <= c and c <= b) or finite(c)": "refuted",
        "not finite(x) or y == -x": "proved", "not (finite(x) and x > 0) or y < 0": "proved",
    }.items():  # fmt: skip
        assert ask(Join((idle,), claim, ("x == x",)), 20).verdict == verdict, claim


def test_what_cannot_be_joined_is_refused():
    with pytest.raises(ValueError, match="there is no sqrt in claims of several lemmas"):
        JoinWriter((Statement(Program("y = x"), "y == sqrt(x)"),)).joined(())
    for claim in ("y <= x + z", "y <= below(x + z + 1.0)"):  # to a solver of floats these are rounded sums
        with pytest.raises(ValueError, match=r"'x \+ z' is rounded in a lemma, expected below\(\)"):
            JoinWriter((Statement(Program("y = x"), claim),)).joined(())
