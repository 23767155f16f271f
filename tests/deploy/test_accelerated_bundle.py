"""Bundles and controllers under acceleration limits: the policy of training, from the file to the commands."""

import functools
import hashlib
import io
import json
import zipfile

import numpy as np
import pytest
import torch
from deployed import untrained

from slewrl import LAYERS, RateLimits
from slewrl.deploy import bundle
from slewrl.deploy import check as checking
from slewrl.deploy.bundle import HEADER, BundleError, read
from slewrl.deploy.check import check, compare_to_torch, write_certificate
from slewrl.deploy.export import random_history
from slewrl.deploy.network import read_network
from slewrl.deploy.rebuild import compare, rebuilt
from slewrl.deploy.trial import Adversary
from slewrl.limits import viability

pytest.importorskip("onnxscript", reason='ONNX is not installed: pip install "slewrl[onnx]"')
from slewrl.deploy.controller import Controller, session

NAN = float("nan")
LIMITS = RateLimits(
    up=[0.05, 0.3, 0.02], down=[0.2, 0.1, 0.4], low=[-1, 0.5, -2], high=[1, 1.5, -1], names=["hip", "knee", "ankle"],
    dt=0.02, acceleration=[50, 75, 40], deceleration=[25, 200, 75], units="rad",
)  # fmt: skip
HARD = [name for name in LAYERS if LAYERS[name].hard and name != "budget"]
QUICK = ("ddsrad", "boxpro", "interval_srad")
EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in HARD]


@pytest.fixture(scope="module")
def made_with(tmp_path_factory):
    """The bundle of a policy with a layer, made once."""
    folder = tmp_path_factory.mktemp("moving")

    @functools.cache
    def make(layer):
        return untrained(folder / f"{layer}.bundle", LIMITS, layer)

    return make


@pytest.fixture(scope="module")
def made(made_with):
    return made_with("ddsrad")


@pytest.fixture
def controller(made):
    controller = Controller(made)
    controller.start(controller.bundle.default_pose)
    return controller


def seen(controller, steps, seed=0):
    return np.random.default_rng(seed).standard_normal((steps, controller.bundle.observation_size), np.float32)


def broken(path, limits=LIMITS):
    path = np.asarray(path)
    return int(limits.outside(path[1:], path[:-1], np.vstack([path[:1], path[:-2]])).sum())


# ---------------------------------------------------------------- the file


def test_it_holds_the_acceleration_to_the_bit(made):
    limits = read(made).limits
    for key in ("up", "down", "low", "high", "acceleration", "deceleration"):
        np.testing.assert_array_equal(getattr(limits, key), getattr(LIMITS, key))
    row = read(made).manifest["joints"][0]
    assert float(row["grid_unit"]) == LIMITS.grid.unit[0]
    again = rebuilt(read(made)).limits
    for ours, theirs in zip(again.grid, LIMITS.grid, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def changed(made, change):
    body = made.read_bytes()[HEADER:]
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        manifest, onnx = (archive.read(name) for name in archive.namelist())
    manifest = json.loads(manifest)
    change(manifest)
    manifest["parts"] = {"policy.onnx": hashlib.sha256(onnx).hexdigest()}
    path = made.with_name("changed.bundle")
    bundle.write(path, manifest, onnx)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["joints"][0].pop("acceleration"), "acceleration"),
        (lambda m: m["joints"][2].pop("deceleration"), "deceleration"),
        (lambda m: m["joints"][1].pop("grid_unit"), "grid_unit"),
        (lambda m: m["joints"][0].update(acceleration="0"), "acceleration of 'hip' is 0.0, expected a positive finite"),
        (lambda m: m["joints"][0].update(acceleration="-1"), "acceleration of 'hip' is -1"),
        (lambda m: m["joints"][0].update(acceleration="nan"), "expected a decimal"),
        (lambda m: m["joints"][0].update(acceleration=0.1), "expected a decimal"),
        (lambda m: m["joints"][0].update(acceleration="0.000000001"), "acceleration of 'hip' is .* two units"),
        (lambda m: m["joints"][0].update(grid_unit="0.5"), r"grid_unit of 'hip' is 0\.5, expected 0\.0000001"),
        (lambda m: m.update(budget="1"), "a budget and an acceleration limit"),
    ],
)
def test_an_acceleration_that_makes_no_sense_is_refused(made, change, message):
    with pytest.raises(BundleError, match=message):
        read(changed(made, change))


def test_a_graph_without_the_velocity_is_refused(made):
    def plain(manifest):
        for row in manifest["joints"]:
            for key in ("acceleration", "deceleration", "grid_unit"):
                del row[key]

    with pytest.raises(BundleError, match="the policy has .*previous_velocity.*, expected"):
        Controller(changed(made, plain))


def test_the_metadata_and_the_network_know_the_velocity(made):
    import onnx

    found = read(made)
    entries = {entry.key: entry.value for entry in onnx.load_from_string(found.onnx).metadata_props}
    assert entries["observation_names"] == "observation,previous_velocity,previous_action"
    assert [float(x) for x in entries["acceleration_limit"].split(",")] == LIMITS.acceleration.tolist()
    assert read_network(found)[0].weight.shape[1] == 5 + 2 * 3


# ---------------------------------------------------------------- the policy


@pytest.mark.parametrize("layer", EACH)
def test_onnx_is_the_layer_of_training_and_in_the_set(layer, made_with):
    found = read(made_with(layer))
    assert compare_to_torch(found, 1_000)["passed"]
    assert compare(rebuilt(found), found, 1_000).max() <= 1e-6
    rng = np.random.default_rng(1)
    given = {"observation": rng.standard_normal((500, 5), np.float32) * 10, **random_history(LIMITS, 500, rng)}
    actions = session(found).run(["action"], given)[0]
    prev, velocity = given["previous_action"], given["previous_velocity"]
    box = LIMITS.box(torch.from_numpy(prev), velocity=torch.from_numpy(velocity))
    assert box.contains(torch.from_numpy(actions)).all()


@pytest.mark.parametrize("layer", QUICK)
def test_commands_are_those_of_the_layer_in_closed_loop(layer, made_with):
    """The limiter changes none of them: what the policy asks for is in F_t already."""
    found = read(made_with(layer))
    controller, module = Controller(found), rebuilt(found)
    controller.start(found.default_pose, ramp=False)
    path, velocities = [controller.prev], [controller.velocity]
    for now in 3 * seen(controller, 300):
        path.append(controller.step(now))
        velocities.append(controller.velocity)
        asked = controller._action.astype(np.float64)
        np.testing.assert_array_equal(path[-1], asked)
        prev, last = (torch.from_numpy(x[-2].astype(np.float32)[None]) for x in (path, velocities))
        expected = module.trained(torch.from_numpy(now[None]), prev, last)[0].numpy()
        np.testing.assert_allclose(path[-1], expected, rtol=0, atol=1e-6)
    assert broken(path) == 0 and np.abs(velocities).max(0).min() > 0.005


# ---------------------------------------------------------------- the controller


def test_a_ramp_stops_at_the_default_pose(made):
    controller = Controller(made)
    controller.start(LIMITS.high)
    path, observations = [controller.prev], seen(controller, 400)
    while controller.ramping:
        path.append(controller.step(observations[len(path)]))
    target = controller._target
    np.testing.assert_array_equal(path[-1], target)
    assert not controller.velocity.any() and (np.array(path) >= target).all() and broken(path) == 0
    np.testing.assert_allclose(target, controller.bundle.default_pose, rtol=0, atol=1e-6)


def braked(velocity):
    unit = LIMITS.grid.unit
    return viability.brake(np.rint(velocity / unit), LIMITS.grid.deceleration) * unit


@pytest.mark.parametrize("what", ["observation", "hold", "network", "fault"])
def test_what_holds_brakes_first(controller, what, monkeypatch):
    path = [controller.prev]
    monkeypatch.setattr(controller, "_ask_policy", lambda prev: np.full(3, np.inf))
    path += [controller.step(np.zeros(5)) for _ in range(3)]
    if what == "hold":
        controller.hold()
    if what == "fault":
        controller.fault = "a test"
    if what == "network":
        monkeypatch.setattr(controller, "_ask_policy", lambda prev: np.full(3, NAN))
    assert controller.velocity.all()
    for _ in range(20):
        before = controller.velocity
        path.append(controller.step(np.full(5, NAN if what == "observation" else 0.0)))
        np.testing.assert_array_equal(controller.velocity, braked(before))
    assert not controller.velocity.any() and broken(path) == 0
    assert (controller.fault is not None) == (what != "hold")


def test_resume_goes_on_at_any_step(made):
    """Through a ramp, deratings of rate and acceleration, a hold and a fault."""
    observations = seen(Controller(made), 80)
    observations[60:66] = NAN

    def commands(killed_at):
        controller = Controller(made)
        controller.start(LIMITS.high)
        for k in range(80):
            if k == killed_at:
                state = json.loads(json.dumps(controller.state()))
                controller = Controller(made)
                controller.resume(state)
            if k in (3, 30):
                controller.derate({"hip": 0.01} if k == 3 else None)
            if k in (5, 40):
                controller.derate_acceleration({"hip": 0.001, "ankle": 0.004} if k == 5 else None)
            if k in (50, 53):
                (controller.hold if k == 50 else controller.release)()
            yield controller.step(observations[k]).tobytes()

    whole = list(commands(None))
    assert all(list(commands(k)) == whole for k in range(1, 80))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"velocity": [NAN, 0, 0]}, "velocity of 'hip' is nan"), ({"velocity": [9.0, 0, 0]}, "velocity of 'hip' is 9"),
        ({"velocity": None}, "state's velocity is None, expected numbers"), ({"velocity": [0]}, "velocity has shape"),
        ({"accelerations": [[1.0] * 3] * 2}, "accelerations of 'hip' are"), ({"accelerations": [1]}, "have shape"),
        ({"brakes": [0.5, 1, 1]}, "with brakes of 0.5"), ({"brakes": [1e9, 1, 1]}, "with brakes of"),
        ({"brakes": [1]}, "brakes have shape"), ({"more": 1}, "expected what state"),
    ],
)  # fmt: skip
def test_a_state_that_is_none_is_refused_and_changes_nothing(controller, change, message):
    for now in seen(controller, 5):
        controller.step(now)
    before = controller.state()
    with pytest.raises(ValueError, match=message):
        controller.resume({**before, **change})
    assert controller.state() == before
    controller.resume(before)
    assert controller.state() == before


def test_a_step_has_one_period(controller):
    with pytest.raises(ValueError, match="step got dt 0.02, but the limits have an acceleration"):
        controller.step(np.zeros(5), 0.02)
    with pytest.raises(ValueError, match="longest is 2"):
        Controller(controller.bundle, longest=2)


# ---------------------------------------------------------------- slewrl check


def test_an_adversary_finds_nothing(made):
    trial = Adversary(Controller(made), seed=0).run(6_000)
    assert trial.passed and trial.over_rate == trial.over_acceleration == trial.out_of_range == 0
    assert min(trial.bad_observations, trial.faults, trial.restarts, trial.deratings, trial.holds, trial.ramps) > 0
    assert trial.timed_steps == 0


@pytest.mark.slow
def test_a_hundred_thousand_steps(made):
    trial = Adversary(Controller(made), seed=1).run(100_000)
    assert trial.passed and trial.waited > 0


def wider(key, units):
    """A controller whose limits on the grid are a few units wider than they should be."""

    def change(controller):
        motion = controller.limiter.motion
        motion.full = motion.full._replace(**{key: getattr(motion.full, key) + units})
        motion.limits, motion.wanted = motion.full, motion.full.deceleration
        motion._join()

    return change


def stop_dead(controller):
    motion = controller.limiter.motion

    def brake(out):
        motion.velocity = 0 * motion.velocity
        return np.multiply(motion.command, motion.full.unit, out)

    motion.brake = brake


MUTANTS = {
    "accelerates too much": ("over_acceleration", wider("acceleration", 3)),
    "stops dead": ("over_acceleration", stop_dead),
    "keeps its acceleration": (
        "over_acceleration", lambda c: setattr(c, "derate_acceleration", lambda *_: None)
    ),
    "is too fast": ("over_rate", wider("up", 3)),
    "keeps its rate": ("over_rate", lambda c: setattr(c, "derate", lambda rates: None)),
    "goes too far": ("out_of_range", wider("high", 3)),
    "does not hold": ("misbehaved", lambda c: setattr(c, "hold", lambda: None)),
    "starts at rest": ("misbehaved", lambda c: setattr(c, "start", lambda p, r, velocity, f=c.start: f(p, r))),
    "forgets on resume": ("misbehaved", lambda c: setattr(c, "resume", lambda state: c.start(state["prev"]))),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_an_adversary_says_what_a_broken_controller_breaks(made, mutant):
    count, change = MUTANTS[mutant]

    def found(seed):
        controller = Controller(made)
        change(controller)
        trial = Adversary(controller, seed).run(2_000)
        return not trial.passed and getattr(trial, count) > 0

    assert any(found(seed) for seed in range(10))  # the first trial that finds it ends the search


def test_a_certificate_counts_apart(made, tmp_path, monkeypatch):
    monkeypatch.setattr(checking, "latency", lambda bundle: dict.fromkeys(("p50", "p99", "max"), 0.0))
    certificate = check(made, 1_000, 0, lambda line: None)
    assert certificate["passed"] and certificate["limits"][0]["acceleration"] == bundle.decimal(LIMITS.acceleration[0])
    certificate["trial"].update(violations=9, over_rate=2, over_acceleration=3, out_of_range=4)
    page = write_certificate(certificate, tmp_path)[1].read_text()
    assert "2, 3, 4" in page and "deceleration" in page
