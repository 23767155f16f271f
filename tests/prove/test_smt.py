"""What solvers are asked means what numpy computes."""

import numpy as np
import pytest

from slewrl.prove.arithmetic import BRAKES, GUARD, LIMITER, STEP_DT
from slewrl.prove.program import Program
from slewrl.prove.smt import Statement, from_pattern, known_as, pattern

pytest.importorskip("bitwuzla", reason='the solvers are not installed: pip install "slewrl[prove]"')
pytest.importorskip("z3", reason='the solvers are not installed: pip install "slewrl[prove]"')
from slewrl.prove.solve import ask

ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.2e-308, 1.7976931348623157e308, 1.0, -1.0, 2.0]


def agrees(program, name, values, numbers="float64"):
    """Whether a solver finds no value of a definition but the one that numpy computes."""
    kind = np.dtype(numbers).type if numbers.startswith("float") else np.float64
    given = {key: value if isinstance(value, bool) else kind(value) for key, value in values.items()}
    found = program.compute(name, given)
    needs = tuple(("" if value else "not ") + key for key, value in values.items() if isinstance(value, bool))
    constants = {key: float(value) for key, value in given.items() if not isinstance(value, bool)}
    if found.dtype == bool:
        claim = name if found else f"not {name}"
    elif np.isnan(found):
        claim = f"{name} != {name}"
    else:
        constants["found"], claim = float(found), f"{name} == found"
    answer = ask(Statement(program, claim, needs, (), known_as(constants), numbers), 20)
    return answer.verdict == "proved"


@pytest.mark.parametrize("call", ["next_down(x)", "next_up(x)", "next_to_zero(x)", "abs(x)", "-x", "min(x, y)",
                                  "max(x, y)", "x + y", "x - y", "x * y", "x / y", "x if x < y else y",
                                  "x != x or not x <= y"])  # fmt: skip
def test_each_operation(call):
    program = Program(f"z = {call}")
    for x in ODD:
        for y in ODD[::3] if "y" in call else [0.0]:
            values = {"x": x, "y": y} if "y" in call else {"x": x}
            assert agrees(program, "z", values), (call, x, y)


def test_programs_in_floats():
    rng = np.random.default_rng(0)
    for t in range(12):
        numbers = ("float64", "float32")[t % 2]
        low, high = -(2.0 ** rng.integers(-3, 4)), float(np.float32(rng.uniform(0.1, 4)))
        prev, rise, fall, wanted = (
            float(np.float32(x)) for x in (rng.uniform(low, high), *rng.random(2), rng.normal())
        )
        step = {"prev": prev, "wanted": rng.choice([wanted, np.nan, np.inf]), "low": low, "high": high}
        assert agrees(LIMITER, "command", {**step, "rise": rise, "fall": fall, "inside": bool(t % 3)}, numbers)
        assert agrees(LIMITER, "plain", {**step, "rise": rise, "fall": fall, "inside": True}, numbers)
        assert agrees(GUARD, "action", {**step, "up": rise, "down": fall}, numbers)
        times = {"dt": rise, "period": fall, "longest": 2.0, "rate": high, "largest": 2.0**50}
        assert agrees(STEP_DT, "scaled", times, numbers)


def test_programs_in_integers():
    rng = np.random.default_rng(1)
    names = ("q", "v", "way", "up", "down", "faster", "brakes", "fastest_above", "fastest_below")
    for _ in range(10):
        values = {name: float(rng.integers(-50, 50) if name in names[:3] else rng.integers(1, 50)) for name in names}
        values |= {"low": -100.0, "high": 100.0}
        for name in ("step", "reached", "clipped", "slower", "plain"):
            assert agrees(BRAKES, name, values, "integers")


def test_rounded_down_is_the_largest_float_that_is_not_above():
    known = known_as({"a": 1.0, "b": 2.0**-60})
    sums = Program("s = a + b")
    for claim, verdict in {
        "below(a + b) == a": "proved", "above(a + b) == next_up(a)": "proved", "exact(a + b)": "refuted",
        "exact(a - a)": "proved", "finite(s)": "proved", "finite(a / (b - b))": "refuted",
    }.items():  # fmt: skip
        assert ask(Statement(sums, claim, (), (), known), 20).verdict == verdict, claim


def test_a_claim_about_nothing_is_not_proved():
    answer = ask(Statement(Program("y = x + 1"), "y == 3", ("x < 0", "x > 0"), numbers="integers"), 20)
    assert (answer.verdict, answer.why) == ("not decided", "no numbers meet the premises")


def test_patterns():
    for numbers in ("float64", "float32", "float16"):
        for value in (1.0, -0.0, 0.25, -np.inf):
            bits = pattern(value, numbers)
            assert repr(from_pattern(f"{bits:b}", numbers)) == repr(float(value))
    with pytest.raises(ValueError, match="0.1 is no float32"):
        pattern(0.1, "float32")
