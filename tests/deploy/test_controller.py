"""The controller on the robot: the policy's commands, and what it does when things go wrong."""

import copy
import json
import pickle
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from deployed import bundled

from slewrl import LAYERS
from slewrl.deploy.bundle import read
from slewrl.deploy.check import check, write_certificate
from slewrl.deploy.trial import Adversary
from slewrl.limits import boxmath
from slewrl.training.policy import load_policy

pytest.importorskip("onnxscript", reason='ONNX is not installed: pip install "slewrl[onnx]"')
from slewrl.deploy.controller import Controller, session

NAN, INF = float("nan"), float("inf")
HARD = [name for name in LAYERS if LAYERS[name].hard]
QUICK = ("ddsrad", "boxpro", "interval_srad", "truncnorm")
EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in LAYERS]  # 4 s a layer


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return bundled(tmp_path_factory.mktemp("reacher"), task="Reacher-v5")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A policy whose two joints share three quarters of one."""
    folder = tmp_path_factory.mktemp("budget")
    return bundled(folder, task="Reacher-v5", layer="budget", layer_options={"budget": 0.75})


@pytest.fixture
def controller(made):
    controller = Controller(made)
    controller.start(controller.bundle.default_pose)
    return controller


def observations(controller, steps, seed=0):
    return np.random.default_rng(seed).standard_normal((steps, controller.bundle.observation_size), np.float32)


# ---------------------------------------------------------------- the policy


@pytest.mark.parametrize("layer", EACH)
def test_commands_are_those_of_the_agent(layer, tmp_path):
    """Fed back, for every layer: the exported graph is the policy that was trained."""
    bundle = bundled(tmp_path, layer=layer)
    controller, policy = Controller(bundle), load_policy(tmp_path / "run")
    controller.start(controller.bundle.default_pose)
    prev = policy.reset_action
    for seen in observations(controller, 200):
        augmented = torch.from_numpy(np.concatenate([seen, prev]))[None]
        expected = policy.act(augmented).executed[0].numpy()
        command = controller.step(seen)
        if layer not in HARD:  # `none` asks for anything; its limiter gives what is allowed of it
            expected = np.clip(expected, prev - controller.limiter.down, prev + controller.limiter.up)
        assert np.allclose(command, expected, rtol=0, atol=1e-6)
        prev = command.astype(np.float32)


def test_td3_and_the_papers_mean(tmp_path):
    bundle = bundled(tmp_path, agent="td3", agent_options={"hidden": [16, 16], "mean_bound": "tanh"})
    controller, policy = Controller(bundle), load_policy(tmp_path / "run")
    controller.start([0.0])
    for seen in observations(controller, 50):
        prev = controller.prev.astype(np.float32)
        expected = policy.act(torch.from_numpy(np.concatenate([seen, prev]))[None]).executed[0].numpy()
        assert np.allclose(controller.step(seen), expected, rtol=0, atol=1e-6)


def test_the_graph_alone_keeps_the_limits(made):
    """Before the controller's own limiter: the layer inside is sound in float32 (Theorem 2)."""
    found = read(made)
    rng, d = np.random.default_rng(0), len(found.limits.names)
    seen = rng.standard_normal((100_000, found.observation_size), np.float32) * np.float32(1e20)
    prev = rng.uniform(-1, 1, (100_000, d)).astype(np.float32)
    action = session(found).run(["action"], {"observation": seen, "previous_action": prev})[0]
    limits = found.limits
    args = (limits.down, limits.up, limits.low, limits.high)
    assert not boxmath.outside(action.astype(float), prev.astype(float), *args).any()


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("bad", [NAN, INF, -INF, 1e300])
def test_a_bad_observation_holds_and_many_are_a_fault(controller, bad):
    good, broken = observations(controller, 1)[0], np.full(controller.bundle.observation_size, bad)
    controller.step(good)
    for _ in range(4):
        before = controller.prev
        assert np.array_equal(controller.step(broken), before) and controller.fault is None
    controller.step(good)  # one good one, and the count begins again
    for k in range(5):
        controller.step(broken)
        assert (controller.fault is not None) == (k == 4)
    held = controller.prev
    assert np.array_equal(controller.step(good), held)  # a fault stays until a person starts it again
    assert "5 unusable steps in a row" in controller.fault and controller.bad_observations == 9
    controller.start(held)
    assert controller.fault is None and not np.array_equal(controller.step(good), held)


def test_far_from_the_default_pose_it_ramps_there_first(made):
    controller = Controller(made)
    controller.start([1.0, -1.0])
    seen, limits, path = observations(controller, 200), controller.bundle.limits, [controller.prev]
    assert controller.ramping
    while controller.ramping:
        path.append(controller.step(seen[len(path)]))
    steps = np.ceil(1.0 / limits.up.min())
    assert len(path) - 1 == pytest.approx(steps, abs=1) and np.array_equal(path[-1], controller.bundle.default_pose)
    assert (np.diff(np.abs(path), axis=0) <= 0).all()
    for before, after in pairwise(path):
        assert not boxmath.outside(after, before, limits.down, limits.up, limits.low, limits.high).any()
    controller.start([1.0, -1.0], ramp=False)
    assert not controller.ramping


def test_a_ramp_and_all_after_it_keep_the_budget(shared):
    """On the way to the default pose, then as the policy moves, as the agent would, then derated."""
    controller, policy = Controller(shared), load_policy(shared.parent / "run")
    limits, budget = controller.bundle.limits, controller.bundle.budget
    assert budget == controller.limiter.budget == 0.75
    controller.start([1.0, -1.0])
    seen, path = observations(controller, 400), [controller.prev]
    while controller.ramping:
        path.append(controller.step(seen[len(path)]))
    assert len(path) - 1 == 19  # a way of 1 at rates of .1 and .25: 10 + 4 joint-steps, .75 of them a step
    assert np.array_equal(path[-1], controller.bundle.default_pose)
    for now in seen[len(path) :]:
        prev = path[-1].astype(np.float32)
        expected = policy.act(torch.from_numpy(np.concatenate([now, prev]))[None]).executed[0].numpy()
        path.append(controller.step(now))
        assert np.allclose(path[-1], expected, rtol=0, atol=1e-6)
    assert not boxmath.over_budget(np.array(path[1:]), np.array(path[:-1]), limits.down, limits.up, budget).any()
    controller.start(controller.bundle.default_pose)  # away from the bounds
    rate = float(limits.up[0]) / 8
    controller.derate({limits.names[0]: rate})
    controller._ask_policy = lambda prev: np.array([INF, -INF])
    before, lowered = controller.prev, [rate, limits.up[1]]
    moved = np.abs(controller.step(seen[0]) - before)
    assert np.allclose(moved / lowered, 0.375, rtol=0, atol=1e-9)


def test_a_killed_process_goes_on_from_its_last_command(made, tmp_path):
    """The commands of two processes, the first ended in the middle, are those of one."""
    script = """
import sys, numpy as np
from slewrl.deploy.controller import Controller
bundle, begin, end, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), np.frombuffer(bytes.fromhex(sys.argv[4]))
controller = Controller(bundle)
controller.start(last, ramp=False)
seen = np.random.default_rng(0).standard_normal((100, controller.bundle.observation_size), np.float32)
for k in range(begin, end):
    print(controller.step(seen[k]).tobytes().hex(), flush=True)
"""

    def run(begin, end, last):
        command = [sys.executable, "-c", script, str(made), str(begin), str(end), last]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    start = np.zeros(2).tobytes().hex()
    whole, first = run(0, 100, start), run(0, 37, start)
    assert first + run(37, 100, first[-1]) == whole


def test_resume_goes_on_at_any_step_of_a_ramp(made):
    """With a derated joint, a hold and a fault on the way: a new controller with the old one's state is the old one."""
    seen = observations(Controller(made), 60)
    seen[40:46] = NAN

    def commands(killed_at):
        controller = Controller(made)
        controller.start([1.0, -0.7])
        for k in range(60):
            if k == killed_at:
                state = json.loads(json.dumps(controller.state()))
                controller = Controller(made)
                controller.resume(state)
            if k == 3:
                controller.derate({controller.names[0]: 0.01})
            if k in (10, 12):
                (controller.hold if k == 10 else controller.release)()
            if k == 30:
                controller.derate(None)
            yield controller.step(seen[k]).tobytes()

    whole = list(commands(None))
    assert all(list(commands(k)) == whole for k in range(1, 60))


def test_a_start_does_not_lift_an_emergency_hold(controller):
    controller.hold()
    controller.start([0.0, 0.0])
    for seen in observations(controller, 3):
        assert np.array_equal(controller.step(seen), [0.0, 0.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bundle": "x"}, "of another bundle"), ({"more": 1}, "expected what state"), ({"rates": [[NAN]]}, "rates"),
        ({"rates": [[0.1, NAN], [0.1, 0.1]]}, "rate of .* is nan"), ({"rates": [[-1, 0], [0, 0]]}, "rate of .* is -1"),
        ({"rates": [["0.1"] * 2] * 2}, "rates"), ({"rates": None}, "rates"), ({"rates": [[0.1], [0.1, 0.1]]}, "rates"),
        ({"prev": [NAN, 0.0]}, "pose of 'joint0' is nan"), ({"prev": [0.5]}, "pose has shape"),
        ({"prev": ["0.5", "0.5"]}, r"state's prev is \['0.5', '0.5'\], expected numbers"),
        ({"prev": None}, "state's prev is None"), ({"prev": [[0.5], [0.5, 1]]}, "state's prev is"),
        ({"prev": [True, False]}, "state's prev is"),
        ({"fault": 5}, "state's fault is 5, expected a reason in words, or None"), ({"fault": False}, "fault is False"),
        ({"bad_in_a_row": -1e9}, "state's bad_in_a_row is -1000000000.0, expected a whole number >= 0"),
        ({"bad_in_a_row": -1}, "bad_in_a_row is -1"), ({"bad_in_a_row": "2"}, "bad_in_a_row is '2'"),
        ({"bad_in_a_row": NAN}, "bad_in_a_row is nan"), ({"bad_in_a_row": True}, "bad_in_a_row is True"),
        ({"holding": "no"}, "state's holding is 'no', expected True or False"), ({"holding": 0}, "holding is 0"),
        ({"ramping": None}, "state's ramping is None, expected True or False"),
    ],
)  # fmt: skip
def test_a_state_that_is_none_is_refused_and_changes_nothing(controller, change, message):
    for seen in observations(controller, 3):
        controller.step(seen)
    controller.fault = "an old one"
    controller.hold()
    before = controller.state()
    other = {**before, "prev": [0.5, -0.5], "rates": [[0.01] * 2] * 2, "fault": None, "holding": False}
    with pytest.raises(ValueError, match=message):
        controller.resume({**other, **change})
    assert controller.state() == before
    with pytest.raises(ValueError, match="expected what state"):
        controller.resume("{}")
    controller.resume(other)
    assert controller.state() == other


def test_a_controller_says_that_it_cannot_be_copied(controller):
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"Controller cannot be copied: make another .* resume\(state\)"):
            way(controller)


def test_a_ramp_ends_though_a_joint_may_not_move(made):
    controller = Controller(made)
    controller.start([1.0, -1.0])
    controller.derate({controller.names[0]: 0.0})
    for seen in observations(controller, 60):
        controller.step(seen)
    assert not controller.ramping and controller.prev[0] == 1.0


def test_a_network_that_fails_is_a_fault(controller, monkeypatch):
    seen = observations(controller, 1)[0]
    monkeypatch.setattr(controller, "_ask_policy", lambda prev: np.full(2, NAN))
    for _ in range(5):
        before = controller.prev
        assert controller.fault is None and np.array_equal(controller.step(seen), before)
    assert "NaN in the network's output" in controller.fault and controller.bad_outputs == 5
    monkeypatch.undo()
    controller.start([0.0, 0.0])
    controller._binding = None  # ONNX Runtime raises
    assert np.array_equal(controller.step(seen), [0.0, 0.0]) and "ONNX Runtime failed" in controller.fault


def test_it_needs_no_torch(made):
    code = f"""
import sys
for name in ("torch", "gymnasium", "mujoco", "onnx", "matplotlib", "yaml"):
    sys.modules[name] = None
from slewrl.deploy.controller import Controller
controller = Controller({str(made)!r})
controller.start(controller.bundle.default_pose)
controller.step([0.0] * controller.bundle.observation_size)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("steps", [18_000, pytest.param(180_000, marks=pytest.mark.slow)])
def test_an_hour_at_fifty_hertz_keeps_nothing(controller, steps):
    """180,000 steps (a tenth of them in the fast tests): memory does not grow, and the commands do not drift.

    The same observations from the same command give the same commands at the end as at the beginning.
    """
    seen, out = observations(controller, 100), np.empty(2)
    for k in range(2_000):
        controller.step(seen[k % 100], None, out)
    tracemalloc.start()
    controller.step(seen[0], None, out)
    before = tracemalloc.get_traced_memory()[0]
    first = _replayed(controller, seen)
    for k in range(steps):
        controller.step(seen[k % 100], None, out)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000  # what a step makes is gone with it
    assert np.array_equal(first, _replayed(controller, seen))


def _replayed(controller, seen):
    """The commands for a hundred observations from rest."""
    controller.start([0.0, 0.0])
    return [controller.step(one) for one in seen]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda c: c.step(np.zeros(3)),
            r"observation \(observation: \d+\) has shape \(3,\), expected numbers",
        ),
        (lambda c: c.step([1.0]), r"has shape \(1,\)"),
        (lambda c: c.step(1.0), r"has shape \(\)"),
        (lambda c: c.step(np.zeros((1, c.bundle.observation_size))), r"has shape \(1, \d+\)"),
        (lambda c: c.step([10**400] * c.bundle.observation_size), "expected numbers"),
        (lambda c: c.step(np.zeros(c.bundle.observation_size), out=np.zeros(2, np.float32)), "out is float32"),
        (lambda c: c.start([0.0]), r"pose has shape \(1,\), expected \(2,\)"),
        (lambda c: c.start([NAN, 0.0]), "pose of 'joint0' is nan"),
        (lambda c: Controller(c.bundle, patience=0), "patience is 0"),
        (lambda c: Controller(c.bundle, patience=2.5), "patience is 2.5"),
        (lambda c: Controller(c.bundle, patience=True), "patience is True, expected a whole number of at least 1"),
        (lambda c: Controller(c.bundle, ramp="no"), "ramp is 'no', expected True or False"),
        (lambda c: Controller(c.bundle, longest="2"), "longest is '2', expected a finite number of nominal steps"),
        (lambda c: c.derate({c.names[0]: "0.05"}), "rate of 'joint0' is '0.05', expected a finite number >= 0"),
        (lambda c: c.step(np.zeros(c.bundle.observation_size), "x"), "dt is 'x', expected seconds"),
        (lambda c: Controller(c.bundle).step(np.zeros(c.bundle.observation_size)), "start"),
        (lambda c: Controller(replace(c.bundle, observation=(("x", 3),))), "the policy has"),
    ],
)
def test_bad_input(controller, call, message):
    with pytest.raises(Exception, match=message):
        call(controller)


# ---------------------------------------------------------------- slewrl check


def test_an_adversary_finds_nothing(made):
    trial = Adversary(Controller(made), seed=0).run(20_000)
    assert trial.passed and trial.joint_steps == 40_000
    events = (trial.bad_observations, trial.faults, trial.restarts, trial.deratings, trial.timed_steps, trial.holds)
    events += (trial.mad_commands,)
    assert min(events) > 0  # everything happened


@pytest.mark.slow
def test_a_million_steps(made):
    assert Adversary(Controller(made), seed=1).run(1_000_000).passed


def generous(controller):
    controller.limiter._full = np.nextafter(controller.limiter._full, INF)  # by one ulp
    controller.limiter.derate = lambda rates: None


MUTANTS = {
    "one ulp too generous": generous,
    "never looks at what it is given": lambda c: setattr(c, "_usable", lambda observation: True),
    "does not hold": lambda c: setattr(c, "hold", lambda: None),
    "never faults": lambda c: setattr(c, "_note_bad", lambda usable: None),
    "ramps elsewhere": lambda c: setattr(c, "_target", c._target + 0.5),
    "starts elsewhere": lambda c: setattr(c.limiter, "start", lambda *_, start=c.limiter.start: start([0.0, 0.0])),
    "never moves": lambda c: setattr(c.limiter, "_limit", lambda *_: None),
    "forgets on resume": lambda c: setattr(c, "resume", lambda state: c.start(state["prev"])),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_an_adversary_finds_a_broken_controller(made, mutant):
    def passes(seed):
        controller = Controller(made)
        MUTANTS[mutant](controller)
        return Adversary(controller, seed).run(2_000).passed

    assert not all(passes(seed) for seed in range(10))  # the first trial that finds it ends the search


SPENDERS = {
    "no budget": lambda c: setattr(c.limiter, "budget", None),
    "no pulling": lambda c: setattr(c.limiter, "_fit_budget", lambda *_: None),
    "a hair more": lambda c: setattr(c.limiter, "budget", c.limiter.budget * (1 + 1e-14)),
    "in the rates it was made with": lambda c: setattr(
        c.limiter,
        "_fit_budget",
        lambda before, prev, _, fit=c.limiter._fit_budget: fit(before, prev, c.bundle_rates),
    ),
    "in the rates of a whole step": lambda c: setattr(
        c.limiter,
        "_fit_budget",
        lambda before, prev, _, fit=c.limiter._fit_budget: fit(before, prev, c.limiter.rates),
    ),
}


def test_an_adversary_finds_no_spending_beyond_the_budget(shared):
    trial = Adversary(Controller(shared), seed=0).run(5_000)
    assert trial.passed and trial.over_budget == 0


@pytest.mark.parametrize("mutant", SPENDERS)
def test_an_adversary_finds_who_spends_too_much(shared, mutant):
    controller = Controller(shared)
    controller.bundle_rates = controller.limiter.rates
    SPENDERS[mutant](controller)
    trial = Adversary(controller, seed=0).run(2_000)
    assert trial.over_budget > 0 and trial.violations == trial.misbehaved == 0 and not trial.passed


def test_a_certificate_states_the_budget(shared, made, tmp_path, monkeypatch):
    from slewrl.deploy import check as checking

    monkeypatch.setattr(checking, "latency", lambda bundle: dict.fromkeys(("p50", "p99", "max"), 0.0))
    certificate = check(shared, 1_000, 0, lambda line: None)
    assert certificate["passed"] and certificate["budget"] == "0.75" and certificate["trial"]["over_budget"] == 0
    page = write_certificate(certificate, tmp_path)[1].read_text()
    assert "0 outside the limits, 0 steps over the budget." in page and "at most 0.75 joints at full rate" in page
    certificate["passed"], certificate["trial"]["over_budget"] = False, 7
    page = write_certificate(certificate, tmp_path)[1].read_text()
    assert "NOT passed: 0 commands outside the limits, 7 steps over the budget," in page
    plain = check(made, 200, 0, lambda line: None)
    assert plain["budget"] is None and "budget" not in write_certificate(plain, tmp_path)[1].read_text()


def test_a_certificate_says_what_was_checked(made, tmp_path):
    certificate = check(made, 2_000, 0, lambda line: None)
    assert certificate["passed"] and certificate["trial"]["steps"] == 2_000
    assert certificate["parity"]["largest_difference"] <= 1e-6
    page = write_certificate(certificate, tmp_path)[1].read_text()
    for fact in (certificate["sha256"], "4,000", "0 outside the limits", certificate["bundle"]):
        assert fact in page
    certificate["passed"], certificate["trial"]["violations"] = False, 3
    assert "NOT passed: 3 commands outside" in write_certificate(certificate, tmp_path)[1].read_text()
