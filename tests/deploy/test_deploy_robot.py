"""A walking robot's policy (LayerNorm, SiLU, normalised observations) in every format, with the same numbers."""

import ctypes
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from deployed import trained

from slewrl.commands.deploy import Export
from slewrl.deploy import bundle
from slewrl.errors import UserFacingError
from slewrl.metrics import rate_use
from slewrl.robots import ROBOTS
from slewrl.training import checkpoint
from slewrl.training.policy import load_policy
from slewrl.training.run_folder import RunFolder

onnx = pytest.importorskip("onnx", reason='ONNX is not installed: pip install "slewrl[onnx]"')
pytest.importorskip("onnxscript", reason='ONNX is not installed: pip install "slewrl[onnx]"')

from slewrl.deploy.c_export import policy_header  # noqa: E402
from slewrl.deploy.check import check  # noqa: E402
from slewrl.deploy.controller import Controller, session  # noqa: E402
from slewrl.deploy.export import _parts, deployed  # noqa: E402
from slewrl.deploy.network import Activation, Dense, LayerNorm, Normalize, read_network  # noqa: E402
from slewrl.deploy.rebuild import compare, rebuilt  # noqa: E402

WALKING = {
    "task": "G1-flat", "limits": "paper", "agent": "fastsac", "environments": 4, "steps": 400, "capacity": 400,
    "evaluate_every": 400, "agent_options": {"actor_hidden": [48, 32], "critic_hidden": [32, 32]},
    "task_options": {"seconds": 0.6},
}  # fmt: skip
SEEN = {
    "gyroscope": 3, "gravity": 3, "command": 3, "joint_angles_less_default": 13, "joint_speeds": 13, "gait_sines": 2,
    "gait_cosines": 2,
}  # fmt: skip


def lively(run: Path) -> Path:
    """The run with a mean that moves: after so few updates it is still close to 0 everywhere."""
    folder = RunFolder(run).checkpoints
    state, _ = checkpoint.use_newest(folder, dict)
    weight = state["agent"]["actor"]["mean.0.weight"]
    weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(0))
    checkpoint.save(folder, state["step"], state)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return lively(trained(tmp_path_factory.mktemp("walking") / "run", **WALKING))


@pytest.fixture(scope="module")
def made(run):
    assert Export(run, "bundle", run.parent / "policy.bundle").run() == 0
    return run.parent / "policy.bundle"


@pytest.fixture(scope="module")
def found(made):
    return bundle.read(made)


# ---------------------------------------------------------------------- what is written


def test_a_bundle_says_what_the_robot_has_to_be_told(found):
    g1 = ROBOTS["g1"]
    assert dict(found.observation) == SEEN and list(dict(found.observation)) == list(SEEN)
    assert found.limits.dt == 0.02 and found.limits.units == "rad" and len(found.limits.names) == 13
    assert found.default_pose == pytest.approx(g1.default_pose, abs=1e-7)
    written = {entry.key: entry.value.split(",") for entry in onnx.load_from_string(found.onnx).metadata_props}
    assert written["joint_names"] == [joint.name for joint in g1.joints]
    assert [float(x) for x in written["joint_stiffness"]] == [joint.kp for joint in g1.joints]
    assert [float(x) for x in written["joint_damping"]] == [joint.kd for joint in g1.joints]
    assert [float(x) for x in written["default_joint_pos"]] == found.default_pose.tolist()
    assert written["command_names"] == ["velocity"] and written["action_scale"] == ["1"] * 13
    assert written["observation_names"] == [*SEEN, "previous_action"]


def test_an_agent_that_sees_everything_says_so(tmp_path):
    """SAC's actor gets the base's velocity, too, which no sensor of the robot gives."""
    options = {"agent": "sac", "agent_options": {"hidden": [16, 16]}}
    policy = load_policy(trained(tmp_path / "sac", **{**WALKING, **options}))
    assert dict(_parts(policy)) == {"privileged": 3, **SEEN}
    module = deployed(policy)
    assert module.net[0].in_features == 3 + 39 + 13
    nameless = replace(policy, layout=replace(policy.layout, parts=()))
    assert _parts(nameless) == (("observation", 42),)


# ---------------------------------------------------------------------- the same numbers everywhere


def test_the_graph_is_read_back_step_by_step(run, found):
    steps = read_network(found)
    assert [type(step) for step in steps] == [Normalize, *[Dense, LayerNorm, Activation] * 2, Dense]
    assert {step.name for step in steps if isinstance(step, Activation)} == {"silu"}
    assert [step.weight.shape for step in steps if isinstance(step, Dense)] == [(48, 52), (32, 48), (13, 32)]
    assert (steps[0].shift[-13:] == 0).all() and (steps[0].scale[-13:] == 1).all()  # the previous action, as it is
    assert np.abs(steps[0].scale[:39] - 1).max() > 0.5
    policy = deployed(load_policy(run))
    for module in (policy, rebuilt(found)):
        assert compare(module, found, 3000).max() < 1e-5


def test_a_graph_of_something_else_is_refused(found):
    def changed(change):
        model = onnx.load_from_string(found.onnx)
        change(model.graph)
        return replace(found, onnx=model.SerializeToString())

    def node(graph, kind):
        return next(node for node in graph.node if node.op_type == kind)

    def other_kind(graph):
        node(graph, "Sigmoid").op_type = "HardSigmoid"

    def other_axis(graph):
        next(a for a in node(graph, "LayerNormalization").attribute if a.name == "axis").i = 0

    def scaled(graph):
        next(a for a in node(graph, "Gemm").attribute if a.name == "alpha").f = 2.0

    def not_a_number(graph):
        tensor = next(t for t in graph.initializer if t.name == node(graph, "Gemm").input[1])
        weight = onnx.numpy_helper.to_array(tensor).copy()
        weight[0, 0] = np.nan
        tensor.CopyFrom(onnx.numpy_helper.from_array(weight, tensor.name))

    for change, words in [
        (other_kind, "HardSigmoid and Mul after"),
        (other_axis, "over axis 0"),
        (scaled, "no plain linear layer"),
        (not_a_number, "NaN or infinite"),
    ]:
        with pytest.raises(UserFacingError, match=words):
            read_network(changed(change))
    with pytest.raises(UserFacingError, match="expected \\[\\(48, 51\\), \\(48,\\)\\]|for 51 values"):
        read_network(replace(found, observation=(("observation", 38),)))


def test_the_controller_walks_as_the_policy_does(run, made):
    """In the loop, on what the simulator gives: the same actions to 1e-5, and none beyond a limit."""
    from slewrl.envs.tasks import make_vec_env

    policy, controller = load_policy(run), Controller(made)
    vec_env = make_vec_env("G1-flat", policy.limits, 1, {"seconds": 4.0}, training=False)
    vec_env.reset(5)
    controller.start(vec_env.reset_action)
    apart, moved = [], []
    while not vec_env.episodes:
        seen = vec_env.observations
        wanted = policy.act(torch.from_numpy(seen)).executed[0].numpy()
        command = controller.step(seen[0, 3:-13])
        apart.append(np.abs(command - wanted).max())
        moved.append(np.abs(command - seen[0, -13:]).max())
        assert np.array_equal(command, command.astype(np.float32))
        vec_env.step(command.astype(np.float32)[None])
    (episode,) = vec_env.episodes
    assert len(apart) > 20 and max(apart) < 1e-5 and np.mean(moved) > 0.01
    assert rate_use(episode.actions, policy.limits).violations == 0
    assert controller.fault is None and controller.bad_observations == controller.bad_outputs == 0


def test_the_bundle_passes_its_check(made, monkeypatch):
    from slewrl.deploy import check as checking

    monkeypatch.setattr(
        checking, "latency", lambda bundle: {"p50": 0.0, "p99": 0.0, "max": 0.0, "onnxruntime_p50": 0.0}
    )
    certificate = check(made, 3000, 0, lambda line: None)
    assert certificate["passed"] and certificate["trial"]["violations"] == 0
    assert certificate["trial"]["joint_steps"] == 39_000 and certificate["parity"]["largest_difference"] < 1e-6


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to compile the header with")
@pytest.mark.parametrize("flags", [["-std=c99", "-O2"], ["-std=gnu99", "-O3", "-march=native"]])
def test_c_gives_the_numbers_of_onnx_runtime(found, tmp_path, flags):
    header = policy_header(found)
    assert "slewrl_layer_norm(layer1" in header and "slewrl_normalize(input" in header and "relu(layer" not in header
    includes = "#include <math.h>\n#include <stddef.h>\n#include <string.h>\n#define static\n#define inline\n"
    (tmp_path / "it.c").write_text(includes + header)
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wshadow", "-fPIC", "-shared"]
    made = subprocess.run(
        ["gcc", *flags, *strict, "it.c", "-o", "it.so", "-lm"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    library, rng = ctypes.CDLL(str(tmp_path / "it.so")), np.random.default_rng(0)
    observation = (rng.normal(size=(5000, 39)) * 10 ** rng.uniform(-2, 2, (5000, 1))).astype(np.float32)
    low, high = found.limits.low, found.limits.high
    previous = rng.uniform(low + 1e-3, high - 1e-3, (5000, 13)).astype(np.float32)
    ours = np.empty_like(previous)
    for arrays in zip(observation, previous, ours, strict=True):
        library.slewrl_policy(*(ctypes.c_void_p(array.ctypes.data) for array in arrays))
    theirs = session(found).run(["action"], {"observation": observation, "previous_action": previous})[0]
    assert np.abs(ours - theirs).max() < 1e-5 and np.abs(theirs - previous).mean() > 0.02
    observation[0, 0] = np.nan  # is seen, not hidden
    library.slewrl_policy(*(ctypes.c_void_p(array[0].ctypes.data) for array in (observation, previous, ours)))
    assert np.isnan(ours[0]).all()


def test_the_torch_format_gives_the_same_numbers(run, found, tmp_path):
    assert Export(run, "torch", tmp_path / "policy.pt2").run() == 0
    module, generator = deployed(load_policy(run)), torch.Generator().manual_seed(0)
    observation, previous = torch.randn(50, 39, generator=generator), torch.from_numpy(found.default_pose).float()
    loaded, wanted = torch.export.load(tmp_path / "policy.pt2").module(), module(observation, previous.expand(50, 13))
    assert torch.allclose(loaded(observation, previous.expand(50, 13)), wanted, atol=1e-6)
