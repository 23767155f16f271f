"""RateLimits: what it accepts, what it refuses, and the box it builds."""

import copy
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest
import torch

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.limits.presets import PRESETS

UNIT = {"low": -1.0, "high": 1.0}
MAX = float(np.finfo(np.float64).max)
BEYOND = float(np.nextafter(2.0**1021, np.inf))
LARGEST = {torch.float64: 2.0**1021, torch.float32: 2.0**125, torch.bfloat16: 2.0**125, torch.float16: 2.0**13}


def test_forms_of_the_same_limits_agree():
    by_list = RateLimits([0.2, 0.5], **UNIT, names=["hip", "ankle"])
    by_dict = RateLimits({"hip": 0.2, "ankle": 0.5}, **UNIT)
    by_array = RateLimits(np.array([0.2, 0.5]), low=[-1, -1], high={"ankle": 1, "hip": 1}, names=["hip", "ankle"])
    by_tensor = RateLimits(torch.tensor([0.2, 0.5], dtype=torch.float64), **UNIT, names=["hip", "ankle"])
    assert by_list == by_dict == by_array == by_tensor
    assert len({by_list, by_dict, by_array, by_tensor}) == 1
    assert by_list != RateLimits([0.2, 0.5], **UNIT, names=["hip", "knee"])
    assert by_list.kappa == 2.5 and by_list.dim == 2
    assert RateLimits(0.2, **UNIT, dt=0.02).speed == pytest.approx([10.0])


def test_arrays_are_read_only_and_the_object_frozen():
    limits = RateLimits([0.2, 0.5], **UNIT)
    with pytest.raises(ValueError, match="read-only"):
        limits.up[0] = 9
    with pytest.raises(AttributeError):
        limits.up = np.ones(2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("edges", ["guard", "tight"])
def test_every_dtype_rounds_inward(dtype, edges):
    limits = RateLimits(["0.2", "0.35"], low="-0.4", high="0.4")
    working = limits.rounded(dtype, edges=edges).working
    for i, text in enumerate(("0.2", "0.35")):
        assert Fraction(working.up[i].item()) <= Fraction(text)
    assert Fraction(working.high[0].item()) <= Fraction("0.4") and Fraction(working.low[0].item()) >= Fraction("-0.4")


BAD = [
    (dict(delta=[0.2, np.nan], **UNIT), ValueError, r"delta of 'joint1' is nan, expected a positive finite rate"),
    (dict(delta=[0.2, 0.0], **UNIT), ValueError, r"delta of 'joint1' is 0.0"),
    (dict(delta=[-0.2, 0.5], **UNIT), ValueError, r"delta of 'joint0' is -0.2"),
    (dict(delta=[0.2, np.inf], **UNIT), ValueError, r"delta of 'joint1' is inf"),
    (dict(delta=["0.2", "inf"], **UNIT), ValueError, r"delta of 'joint1' is 'inf', expected a finite number"),
    (dict(delta=["0.2", "fast"], **UNIT), ValueError, r"delta of 'joint1' is .*fast"),
    (dict(delta=[0.2, None], **UNIT), ValueError, r"delta of 'joint1' is None"),
    (dict(up=[0.2], down=[-0.1], **UNIT), ValueError, r"down of 'joint0' is -0.1"),
    (dict(up=[0.2], **UNIT), ValueError, r"either delta, or both up and down"),
    (dict(delta=0.1, up=0.2, down=0.2, **UNIT), ValueError, r"either delta, or both up and down"),
    (dict(delta=[0.2], low=1.0, high=-1.0), ValueError, r"'joint0': low 1.0 is not below high -1.0"),
    (dict(delta=[0.2], low=1.0, high=1.0), ValueError, r"'joint0': low 1.0 is not below high 1.0"),
    (dict(delta=[0.2], low=-np.inf, high=1.0), ValueError, r"low of 'joint0' is -inf, expected a finite"),
    (dict(delta=[0.2], low=-1.0, high=np.nan), ValueError, r"high of 'joint0' is nan"),
    (dict(delta=[0.2], low=-1.0), ValueError, r"high is missing"),
    (
        dict(delta=[0.2, 0.5], low=[-1, -1, -1], high=1),
        ValueError,
        r"delta has 2 entries where there are 3 joints \(joint0, joint1, joint2\): expected one per joint",
    ),
    (dict(delta=[0.2, 0.5], names=["a", "a"], **UNIT), ValueError, r"duplicate joint name 'a'"),
    (dict(delta={"a": 0.2}, names=["a", "b"], **UNIT), KeyError, r"delta is missing joint 'b'"),
    (dict(delta={"a": 0.2, "c": 1}, names=["a"], **UNIT), KeyError, r"unknown joint 'c'; known joints: a"),
    (dict(delta={"a": 0.2}, groups=["x", "y"], **UNIT), ValueError, r"groups has 2 entries, expected 1"),
    (dict(delta=[0.2, 10**400], **UNIT), ValueError, r"delta of 'joint1' is 1000.*expected a finite number"),
    (dict(delta=True, **UNIT), ValueError, r"delta is True, expected numbers, not truth values"),
    (dict(delta=[], low=[], high=[]), ValueError, r"there are no joints"),
    (dict(delta=0.2, names="hip", **UNIT), ValueError, r"names is 'hip', expected a sequence of joint names"),
    (dict(delta=[0.2], dt=-0.02, **UNIT), ValueError, r"dt is -0.02, expected a positive"),
    (dict(delta=[0.2], low=[[-1.0], [-2.0]], high=1.0), ValueError, r"low has shape .* cannot vary by sample"),
    (dict(delta=[0.2, MAX], **UNIT), ValueError, r"delta of 'joint1' is 1.79\d*e\+308, expected at most 2\^1021"),
    (dict(up=0.2, down=BEYOND, **UNIT), ValueError, r"down of 'joint0' is 2.24\d*e\+307, expected at most 2\^1021"),
    (dict(delta=0.2, low=-BEYOND, high=1.0), ValueError, r"low of 'joint0' is -2.24\d*e\+307, expected .* 2\^1021"),
    (dict(delta=0.2, low=-1.0, high=[1.0, MAX]), ValueError, r"high of 'joint1' is 1.79\d*e\+308, .* 2\^1021"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD, ids=[m for _, _, m in BAD])
def test_bad_limits_are_refused_by_name_and_value(arguments, error, message):
    with pytest.raises(error, match=message):
        RateLimits(**arguments)


def test_bad_prev_is_refused_unless_unchecked():
    limits = RateLimits({"hip": 0.2, "ankle": 0.5}, **UNIT)
    with pytest.raises(ValueError, match=r"prev of 'ankle' is nan .*expected a number in \[-1.0, 1.0\]"):
        limits.box(torch.tensor([[0.0, float("nan")]]))
    with pytest.raises(ValueError, match=r"prev of 'hip' is 1.5 \(index \(1, 0\)\)"):
        limits.box(torch.tensor([[0.0, 0.0], [1.5, 0.0]]))
    with pytest.raises(ValueError, match=r"shape \(3,\), expected \(..., 2\)"):
        limits.box(torch.zeros(3))
    with pytest.raises(ValueError, match="dtype torch.int64, expected a float tensor"):
        limits.box(torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match="edges 'loose'; expected one of torch.float32"):
        limits.box(torch.zeros(2), edges="loose")
    outside = limits.box(torch.tensor([1.5, -1.25]), check=False)  # may only come back
    assert outside.high.tolist() == pytest.approx([1.5, -0.75], abs=1e-6)
    assert outside.low.tolist() == pytest.approx([1.3, -1.25], abs=1e-6)


def test_limits_too_fine_for_the_dtype_are_refused():
    limits = RateLimits([0.2, 1e-9], **UNIT, names=["hip", "ankle"])
    limits.box(torch.zeros(2, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"'ankle': delta 1e-09 is too small to resolve in torch.float32"):
        limits.box(torch.zeros(2))
    with pytest.raises(ValueError, match="too large for torch.float16"):
        RateLimits(1.0, low=-1e5, high=1e5).box(torch.zeros(1, dtype=torch.float16))
    with pytest.raises(ValueError, match="empty once rounded to torch.bfloat16"):
        RateLimits(0.01, low="1.001", high="1.002").box(torch.ones(1, dtype=torch.bfloat16))


def test_box_by_hand():
    limits = RateLimits(up=[0.25, 0.5], down=[0.125, 0.5], **UNIT)
    box = limits.box(torch.tensor([[0.5, 0.75]], dtype=torch.float64), edges="tight")
    assert box.low.tolist() == [[0.375, 0.25]] and box.high.tolist() == [[0.75, 1.0]]
    assert box.radius(torch.tensor([[1.0, 1.0]])).tolist() == [[0.25, 0.25]]
    assert box.radius(torch.tensor([[-1.0, -1.0]])).tolist() == [[0.125, 0.5]]
    assert box.volume().tolist() == [0.375 * 0.75]
    assert box.contains(torch.tensor([[0.75, 1.0]])).all()
    assert box.contains(torch.tensor([[0.750001, 0.249]])).tolist() == [[False, False]]
    assert box.clamp(torch.tensor([[float("nan"), 9.0]])).tolist() == [[0.5, 1.0]]


def test_uniform_samples_fill_the_box_and_stay_in_it():
    limits = RateLimits.preset("Ant-v5", "tight")
    box = limits.box(torch.full((20_000, 8), 0.9))
    draws = box.sample(torch.Generator().manual_seed(0))
    assert box.contains(draws).all()
    assert draws[:, 0].min() < 0.702 and draws[:, 0].max() > 0.998
    assert draws[:, 0].mean().item() == pytest.approx(0.85, abs=0.002)


def test_limits_of_the_step_tighten_and_never_widen():
    limits = RateLimits([0.2, 0.5], **UNIT)
    prev = torch.zeros(3, 2)
    hot = torch.tensor([[0.1, 0.1], [0.05, 9.0], [0.2, 0.5]])
    box = limits.box(prev, delta=hot)
    assert box.high.tolist() == [pytest.approx(row, abs=1e-6) for row in ([0.1, 0.1], [0.05, 0.5], [0.2, 0.5])]
    assert not box.contains(torch.full((3, 2), 0.11))[0].any()
    for bad in (float("nan"), -0.1, float("inf")):
        with pytest.raises(ValueError, match=r"delta of 'joint1' is .* \(index \(0, 1\)\)"):
            limits.box(prev, delta=torch.tensor([[0.1, bad]]))
    held = limits.box(prev, check=False, delta=torch.tensor([[0.1, float("nan")]]))
    assert held.high[0, 1] == held.low[0, 1] == 0.0
    with pytest.raises(ValueError, match=r"delta has shape \(3,\)"):
        limits.box(prev, delta=torch.ones(3))
    with pytest.raises(ValueError, match=r"delta has shape \(\)"):
        limits.box(prev, delta=0.1)
    with pytest.raises(ValueError, match=r"delta of 'joint0' is 1e-09 .* that torch.float32 can resolve"):
        limits.box(prev, delta=[1e-9, 0.5])
    assert limits.box(prev[0], delta=hot).prev.shape == (3, 2)  # one prev under three sets of limits
    frozen = limits.box(prev, delta={"joint1": 0.0})  # a dead motor; joint0 keeps its own limit
    assert frozen.high[0].tolist() == pytest.approx([0.2, 0.0], abs=1e-6) and frozen.low[0, 1] == 0
    with pytest.raises(KeyError, match="delta names an unknown joint 'hip'; known joints: joint0, joint1"):
        limits.box(prev, delta={"hip": 0.1})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_rates_of_the_step_are_guarded_whichever_way_they_round(dtype):
    """working + half gap <= delta, in rationals: what Theorem 2 asks of a guarded rate."""
    limits = RateLimits([1.0, 1.0], low=[-1.0, -3.0], high=[1.0, 2.0])
    delta = torch.from_numpy(np.random.default_rng(0).uniform(0.05, 0.9, (500, 2)))
    box = limits.box(torch.zeros(2, dtype=dtype), delta=delta)
    half_gap = limits.rounded(dtype).half_gap
    for row, made in zip(delta.tolist(), box.working.up.double().tolist(), strict=True):
        for i in range(2):
            assert Fraction(made[i]) + Fraction(half_gap[i].item()) <= Fraction(row[i])
            assert made[i] >= row[i] - 3 * half_gap[i].item() - 8 * torch.finfo(dtype).eps * row[i]


def tiny_boxes(dtype, edges, rows=2000):
    """Boxes for rates of the step that go down to less than the smallest float, from subnormal ranges to eps."""
    rng, smallest = np.random.default_rng(0), torch.finfo(dtype).tiny * torch.finfo(dtype).eps
    exponents = np.arange(2, 24)
    half = np.minimum(smallest * 2.0**exponents * rng.uniform(1, 2, len(exponents)), LARGEST[dtype])
    limits = RateLimits(half, low=-half, high=half)
    prev = limits.clamp(torch.from_numpy(half * rng.uniform(-1, 1, (rows, len(half)))).to(dtype))
    delta = half * 2.0 ** -rng.uniform(0, 24, prev.shape)
    return limits.box(prev, check=False, delta=torch.from_numpy(delta), edges=edges)


@pytest.mark.parametrize("edges", ["guard", "tight"])
@pytest.mark.parametrize("dtype", LARGEST, ids=str)
def test_tiny_rates_of_the_step_are_kept_exactly(dtype, edges):
    """Near the subnormals rounding is absolute: a margin relative to delta is none."""
    box = tiny_boxes(dtype, edges)
    assert box.contains(box.low).all() and box.contains(box.high).all()
    assert (box.high > box.prev).any(0).all() and (box.low < box.prev).any(0).all()  # and not by holding them all
    for infinite in (float("inf"), -float("inf")):
        for name in ("ddsrad", "interval_tanh", "boxpro"):
            assert box.contains(make_layer(name).execute(torch.full_like(box.prev, infinite), box)).all()


@pytest.mark.parametrize("edges", ["guard", "tight"])
@pytest.mark.parametrize("dtype", LARGEST, ids=str)
def test_the_largest_limits_are_exact_and_larger_ones_refused(dtype, edges):
    largest, zero = LARGEST[dtype], torch.zeros(1, dtype=dtype)
    limits = RateLimits(largest, low=-largest, high=largest)
    rng = np.random.default_rng(0)
    prev = limits.clamp(torch.from_numpy(largest * rng.choice([1.0, -1.0, 0.7, 2**-20], (4000, 1))).to(dtype))
    delta = torch.from_numpy(largest * 2.0 ** -rng.uniform(0, torch.finfo(dtype).bits, prev.shape))
    for box in (limits.box(prev, edges=edges), limits.box(prev, check=False, delta=delta, edges=edges)):
        assert box.contains(box.low).all() and box.contains(box.high).all()
        assert box.low.isfinite().all() and box.high.isfinite().all()
    with pytest.raises(ValueError, match=r"delta of 'joint0' is .* \(index \(0,\)\), expected .* at most 2\^"):
        limits.box(zero, delta=torch.tensor([2 * largest], dtype=torch.float64), edges=edges)
    if dtype != torch.float64:  # there RateLimits itself refuses
        beyond = float(np.nextafter(largest, np.inf))
        named = f"is too large for {dtype} \\(at most 2\\^"
        with pytest.raises(ValueError, match=f"'joint0': delta {re.escape(str(beyond))} {named}"):
            RateLimits(beyond, **UNIT).box(zero, edges=edges)
        with pytest.raises(ValueError, match=rf"'joint0': range \[-1.0, {re.escape(str(beyond))}\] {named}"):
            RateLimits(0.5, low=-1.0, high=beyond).box(zero, edges=edges)


@pytest.mark.parametrize("name", [n for n in LAYERS if n != "none"])
@pytest.mark.parametrize("edges", ["guard", "tight"])
def test_a_bad_delta_of_the_step_holds_the_joint(name, edges):
    """1-D and batched, NaN, negative and too small: unchecked, the joint stays where it is, exactly."""
    limits, layer = RateLimits([0.2, 0.5], **UNIT), make_layer(name, "action")
    for prev in (torch.tensor([0.9, 0.01]), torch.tensor([[0.9, 0.01], [0.3, -1.0]])):
        for bad in (float("nan"), -1.0, 0.0, *([1e-12] if edges == "guard" else [])):
            box = limits.box(prev, check=False, delta=torch.tensor([bad, 0.5]), edges=edges)
            for u in (9.0, -9.0, 0.1, float("inf"), float("nan")):
                action = layer(torch.full_like(prev, u), box)
                assert torch.equal(action.executed[..., 0], prev[..., 0])
                assert action.log_det.isfinite().all() and action.judged.isfinite().all()


@pytest.mark.parametrize("name", [n for n in LAYERS if n != "none"])
def test_a_prev_outside_the_range_only_comes_back(name):
    limits, layer = RateLimits([0.2, 0.5], **UNIT), make_layer(name)
    prev = torch.tensor([[1.5, -1.75]] * 7, dtype=torch.float64)
    u = torch.tensor([9.0, -9.0, 0.3, -0.3, float("inf"), -float("inf"), float("nan")], dtype=torch.float64)
    executed = layer(u.unsqueeze(-1).expand(7, 2), limits.box(prev, check=False)).executed
    assert (executed[:, 0] >= 1.3 - 1e-12).all() and (executed[:, 0] <= 1.5).all()
    assert (executed[:, 1] <= -1.25 + 1e-12).all() and (executed[:, 1] >= -1.75).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_joint_on_its_stop_starts_from_clamp(dtype):
    limits = RateLimits(["0.2", "0.2"], low=["-1.57", "-0.4"], high=["1.57", "0.4"])
    stop = torch.tensor([1.57, -0.4], dtype=torch.float64).to(dtype)
    start = limits.clamp(stop)
    assert start.dtype == dtype and (start - stop).abs().max() <= 2 * torch.finfo(dtype).eps
    limits.box(start)
    if dtype == torch.float32:
        with pytest.raises(ValueError, match=r"start from limits.clamp\(pose\)"):
            limits.box(stop)


def test_outside_names_a_wrong_shape():
    with pytest.raises(ValueError, match=r"action has shape \(3,\), expected \(..., 2\)"):
        RateLimits([0.2, 0.5], **UNIT).outside(np.zeros(3), np.zeros(2))


def test_a_list_keeps_its_digits():
    assert RateLimits(0.25, **UNIT).box([0.1]).prev.dtype == torch.float64
    assert RateLimits(0.25, **UNIT).box(np.float32([0.1])).prev.dtype == torch.float32


def test_limits_may_carry_a_batch_dimension():
    limits = RateLimits(delta=torch.tensor([[0.1, 0.2], [0.3, 0.4]]), **UNIT)
    box = limits.box(torch.zeros(2, 2))
    assert box.high.flatten().tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=1e-6)
    with pytest.raises(ValueError, match=r"delta of 'joint0' is -0.3"):
        RateLimits(delta=torch.tensor([[0.1, 0.2], [-0.3, 0.4]]), **UNIT)
    with pytest.raises(ValueError, match="vary by sample"):
        limits.to_yaml("unused.yaml")


def test_select_keeps_order_and_names_what_is_missing():
    limits = RateLimits.preset("H1", "paper")
    pair = limits.select(["left_ankle", "left_hip_pitch"])
    assert pair.names == ("left_ankle", "left_hip_pitch") and pair.groups == ("ankle", "hip_pitch")
    assert pair.delta.tolist() == pytest.approx([0.18, 0.4])
    with pytest.raises(KeyError, match="unknown joint 'elbow'; these limits have: left_hip_yaw"):
        limits.select(["elbow"])


# The paper's Tables constraint_params and sim_constraint_params, with the resolutions of docs/deviations.md.
TABLE = {
    ("Ant-v5", "wide"): [1.0] * 8,
    ("Ant-v5", "tight"): [0.2, 0.5] * 4,
    ("Ant-v5", "tight_literal"): [0.2] * 4 + [0.5] * 4,
    ("Humanoid-v5", "wide"): [0.4] * 17,
    ("Humanoid-v5", "tight_literal"): [0.32] * 6 + [0.2] * 6 + [0.08] * 5,
    ("HalfCheetah-v5", "wide"): [1.0] * 6,
    ("HalfCheetah-v5", "tight"): [0.2] * 3 + [0.5] * 3,
    ("Hopper-v5", "wide"): [1.0] * 3,
    ("Hopper-v5", "tight"): [0.2, 0.5, 0.5],
    ("H1", "paper"): [0.4, 0.4, 0.4, 0.25, 0.18] * 2,
    ("G1", "paper"): [0.4, 0.1, 0.35, 0.35, 0.25, 0.18] * 2 + [0.25],
    ("G1", "paper_table"): [0.4, 0.4, 0.35, 0.35, 0.25, 0.18] * 2 + [0.25],
}


@pytest.mark.parametrize(("task", "name"), TABLE)
def test_presets_are_the_papers_tables(task, name):
    assert RateLimits.preset(task, name).delta.tolist() == pytest.approx(TABLE[task, name], rel=1e-15)


def test_presets_by_joint_name():
    ant = RateLimits.preset("Ant-v5", "tight")
    assert [ant.names[i] for i in (0, 2, 4, 6)] == ["hip_4", "hip_1", "hip_2", "hip_3"]
    humanoid = RateLimits.preset("Humanoid-v5", "tight")
    sides = [humanoid.delta[[n.startswith(s) for n in humanoid.names]].tolist() for s in ("left", "right")]
    assert sides[0] == sides[1]
    assert sorted(humanoid.delta.round(3).tolist()) == [0.08] * 5 + [0.2] * 6 + [0.32] * 6
    assert RateLimits.preset("G1", "paper").kappa == pytest.approx(4.0)
    # float32(0.4) lies above 0.4; the range handed to the layer does not.
    assert Fraction(humanoid.rounded(torch.float32).working.high[0].item()) <= Fraction("0.4")


def test_unknown_presets_list_what_exists():
    with pytest.raises(KeyError, match="Did you mean 'HalfCheetah-v5'"):
        RateLimits.preset("HalfCheetah", "tight")
    with pytest.raises(KeyError, match="Ant-v5 has no preset 'tigth'; it has: wide, tight, tight_literal"):
        RateLimits.preset("Ant-v5", "tigth")
    assert all(RateLimits.preset(task, name) for task, names in PRESETS.items() for name in names)


def test_the_mode_of_the_first_call_does_not_stick():
    """Limits first used in inference mode (an audit, an evaluation) must still train afterwards."""
    limits = RateLimits([0.2, 0.5], **UNIT)
    with torch.inference_mode():
        limits.box(torch.zeros(2))
    prev = torch.zeros(3, 2, requires_grad=True)
    for name in LAYERS:
        u = torch.randn(3, 2, requires_grad=True)
        action = make_layer(name, "action")(u, limits.box(prev))
        (action.judged.sum() + action.log_det.sum()).backward()


def test_limits_pickle_and_copy():
    limits = RateLimits.preset("G1", "paper")
    limits.box(torch.zeros(13))
    for twin in (pickle.loads(pickle.dumps(limits)), copy.deepcopy(limits)):
        assert twin == limits and not twin.up.flags.writeable


def test_the_box_after_an_observation_is_that_of_its_last_entries():
    limits = RateLimits([0.2, 0.5], low=-1.0, high=1.0)
    seen = torch.tensor([[9.0, 8.0, 0.3, -0.9], [7.0, 6.0, float("nan"), 0.0]])
    ours, theirs = limits.box_after(seen), limits.box(seen[:, -2:], check=False)
    assert torch.equal(ours.low[0], theirs.low[0]) and torch.equal(ours.high[0], theirs.high[0])
    assert torch.equal(ours.prev[0], torch.tensor([0.3, -0.9])) and ours.prev[1, 0].isnan()
