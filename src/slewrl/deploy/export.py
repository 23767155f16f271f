"""Exports a trained policy: the map from observation and previous action to action, as one ONNX graph in a bundle."""

import dataclasses
import logging
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from slewrl import __version__
from slewrl.deploy import bundle
from slewrl.envs.augment import Augment
from slewrl.envs.reset import start_action
from slewrl.envs.tasks import is_gymnasium
from slewrl.errors import UserFacingError
from slewrl.io.files import read_json
from slewrl.layers.base import ActionLayer
from slewrl.limits import RateLimits, viability
from slewrl.limits.box import FeasibleBox
from slewrl.limits.parse import Values
from slewrl.training.policy import Policy, load_policy
from slewrl.training.spec import EVALUATION_SEED

Parts = tuple[tuple[str, int], ...]
"""The name and length of each part of an observation."""
INPUTS, OUTPUTS = ["observation", "previous_action"], ["action"]


def inputs(limits: Any) -> list[str]:
    """The names of a graph's inputs for ``limits``; with an acceleration limit the last increment is one."""
    return INPUTS if limits.acceleration is None else [*INPUTS, "previous_velocity"]


INCREMENT = "the command last handed out minus the one before"


class DeployedPolicy(nn.Module):
    """The map of a bundle's graph: observation (N, n) and previous action (N, d) to action (N, d).

    With an acceleration limit it takes the previous velocity, too: the last increment (N, d), 0 at the start.

    Args:
        net: network from the augmented observation to the latent.
        layer: action layer from the latent to the action, with guarded edges (Theorem 2, docs/guarantee.md).
        limits: limits of the d joints.
    """

    def __init__(self, net: nn.Module, layer: ActionLayer, limits: RateLimits) -> None:
        super().__init__()
        self.net, self.layer, self.limits = net, layer, limits

    def forward(self, observation: Tensor, previous_action: Tensor, previous_velocity: Tensor | None = None) -> Tensor:
        """Act without exploration, in few operations."""
        return self.layer.exported(*self._latent(observation, previous_action, previous_velocity))

    def trained(self, observation: Tensor, previous_action: Tensor, previous_velocity: Tensor | None = None) -> Tensor:
        """Act with the layer as in training; ``forward`` is compared with this."""
        return self.layer.execute(*self._latent(observation, previous_action, previous_velocity))

    def _latent(
        self, observation: Tensor, previous_action: Tensor, previous_velocity: Tensor | None
    ) -> tuple[Tensor, FeasibleBox]:
        history = [previous_action] if previous_velocity is None else [previous_velocity, previous_action]
        latent = self.net(torch.cat([observation, *history], -1))
        return latent, self.limits.box(previous_action, check=False, velocity=previous_velocity)


def deployed(policy: Policy) -> DeployedPolicy:
    """The policy of a run as a module."""
    agent = policy.agent
    return DeployedPolicy(agent.latent_module(), agent.layer, policy.limits).eval().requires_grad_(False)


class Deployable(NamedTuple):
    """A policy to export, with its description."""

    module: DeployedPolicy
    manifest: dict[str, Any]
    """The manifest of the bundle, without the digests."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The lengths of the inputs: n for the observation without the history, d for each of its entries."""
        d = self.module.limits.dim
        return sum(part["size"] for part in self.manifest["observation"]), *(d for _ in inputs(self.module.limits)[1:])


def deployable(source: Path, trust: bool = False, reset_action: Values | None = None) -> Deployable:
    """Load the policy of a run's newest checkpoint, or of a Stable-Baselines3 model (.zip).

    Args:
        source: run folder or model file.
        trust: whether code that the source names or contains may run (docs/trust.md).
        reset_action: the pose the policy starts from; default: as in training.
    """
    if source.suffix == ".zip":
        from slewrl.deploy.sb3_model import deployable_model

        return deployable_model(source, trust, reset_action)
    policy = load_policy(source, trust)
    if kind := policy.spec.task_options.get("filter"):
        raise UserFacingError(
            f"{source} was trained with a filter between policy and actuators (task.filter={kind}), which a bundle "
            "does not hold: train without it"
        )
    trained_with = read_json(source / "provenance.json")
    provenance = {"step": policy.step, "spec": dataclasses.asdict(policy.spec), "trained_with": trained_with}
    module = deployed(policy)
    about = describe(source, module, first_pose(policy, reset_action), policy.dt, _parts(policy), provenance)
    return Deployable(module, {**about, **_servos(policy)})


def first_pose(policy: Policy, given: Values | None) -> NDArray[Any]:
    """The pose a policy starts from, (d,): the given one, or that of its task. An unknown pose is refused."""
    pose = None if given is None else start_action(policy.limits, given, np.float32)
    if not is_gymnasium(policy.task):
        return policy.reset_action if pose is None else pose
    made = gym.make(policy.task, disable_env_checker=True)
    env = Augment(made, policy.limits, unsaid="refuse" if pose is None else "warn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # training has already warned
        env.reset(seed=EVALUATION_SEED)
    if pose is not None and not np.array_equal(pose, env.reset_action):
        warnings.warn(
            f"the policy was trained from {env.reset_action} and may behave differently from {pose}", stacklevel=2
        )
    return env.reset_action if pose is None else pose


def export_bundle(source: Path, out: Path, trust: bool = False, reset_action: Values | None = None) -> bundle.Bundle:
    """Export a policy (see ``deployable``) to a bundle, and return the bundle as read back."""
    if not out.parent.is_dir():
        raise FileNotFoundError(f"no folder {str(out.parent)!r} to write {out.name} to")
    policy = deployable(source, trust, reset_action)
    bundle.write(out, policy.manifest, to_onnx(policy.module, policy.sizes, policy.manifest))
    return bundle.read(out)


def describe(
    source: Path, module: DeployedPolicy, pose: NDArray[Any], dt: float | None, parts: Parts, provenance: dict[str, Any]
) -> dict[str, Any]:
    """Make a manifest, without the digests."""
    limits = module.limits
    budget = module.layer.allowance(limits.dim)
    return {
        "name": source.resolve().stem if source.is_file() else source.resolve().name,
        "joints": bundle.joint_rows(limits),
        "units": limits.units,
        "dt": None if dt is None else bundle.decimal(dt),
        "budget": None if budget is None else bundle.decimal(budget),
        "default_pose": [bundle.decimal(x) for x in pose],
        "action_scale": ["1"] * limits.dim,
        "observation": [{"name": name, "size": size} for name, size in parts],
        "previous_action": {"first": [bundle.decimal(x) for x in pose], "meaning": "the command last handed out"},
        **({} if limits.grid is None else {"previous_velocity": {"first": ["0"] * limits.dim, "meaning": INCREMENT}}),
        "provenance": {"slewrl": __version__, **provenance},
    }


def _servos(policy: Policy) -> dict[str, Any]:
    """The actuator gains and the velocity command, for the task of a robot."""
    if policy.robot is None:
        return {}
    joints = policy.robot.joints
    return {
        "stiffness": [bundle.decimal(joint.kp) for joint in joints],
        "damping": [bundle.decimal(joint.kd) for joint in joints],
        "commands": ["velocity"],  # forward and lateral velocity, m/s, and yaw rate, rad/s
    }


def _parts(policy: Policy) -> Parts:
    """The name and length of each part of the actor's observation, without the history of its actions.

    If the actor sees the privileged entries, which no sensor provides, the first part is "privileged".
    """
    layout, left_out = policy.layout, policy.agent.privileged
    seen = layout.size - policy.limits.appended - left_out
    if not layout.parts:
        return (("observation", seen),)
    unnamed = seen - sum(size for _, size in layout.parts)
    return (("privileged", unnamed), *layout.parts) if unnamed else layout.parts


def to_onnx(module: DeployedPolicy, sizes: tuple[int, ...], manifest: dict[str, Any]) -> bytes:
    """Export the module to ONNX for any batch size, with metadata under the keys that mjlab's exporter uses."""
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UserFacingError(f'export needs ONNX ({error}): pip install "slewrl[onnx]"') from None
    batch = torch.export.Dim("batch")
    example = tuple(torch.zeros(2, size) for size in sizes)
    module(*example)  # a layer that cannot be exported raises here, with a shorter error
    quiet = logging.getLogger("torch.onnx")
    level = quiet.level
    try:
        quiet.setLevel(logging.ERROR)  # it warns that torchvision is missing
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program: Any = torch.onnx.export(
                module, example, input_names=inputs(module.limits), output_names=OUTPUTS, dynamo=True, verbose=False,
                dynamic_shapes=({0: batch},) * len(sizes),
            )  # fmt: skip
    finally:
        quiet.setLevel(level)
    model = program.model_proto
    for node in model.graph.node:  # torch stores paths of this machine in each
        node.ClearField("metadata_props")
    onnx.helper.set_model_props(model, _metadata(manifest))
    return model.SerializeToString(deterministic=True)


def _metadata(manifest: dict[str, Any]) -> dict[str, str]:
    """The ONNX metadata: comma-separated values, as mjlab and IsaacLab tools write and read them."""
    joints = manifest["joints"]
    if odd := [row["name"] for row in joints if "," in row["name"]]:
        raise ValueError(f"joint {odd[0]!r} has a comma in its name, which the metadata of ONNX files cannot hold")
    history = [*(["previous_velocity"] if "previous_velocity" in manifest else []), "previous_action"]
    columns = {
        "joint_names": [row["name"] for row in joints],
        "default_joint_pos": manifest["default_pose"],
        "action_scale": manifest["action_scale"],
        "observation_names": [part["name"] for part in manifest["observation"]] + history,
        **{f"rate_limit_{way}": [row[way] for row in joints] for way in ("up", "down")},
        "joint_pos_lower": [row["low"] for row in joints],
        "joint_pos_upper": [row["high"] for row in joints],
        **{f"{way}_limit": [row[way] for row in joints] for way in bundle.ACCELERATION if way in joints[0]},
    }
    servos = {"joint_stiffness": "stiffness", "joint_damping": "damping", "command_names": "commands"}
    columns |= {key: manifest[name] for key, name in servos.items() if name in manifest}
    single = {"run_path": manifest["name"], "dt": manifest["dt"] or "", "units": manifest["units"]}
    return {**single, **{key: ",".join(map(str, column)) for key, column in columns.items()}}


def random_history(limits: RateLimits, cases: int, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Previous actions (N, d) in the range and, with an acceleration limit, increments from which a joint can stop."""
    drawn = rng.uniform(limits.low, limits.high, (cases, limits.dim)).astype(np.float32)
    pose = limits.clamp(torch.from_numpy(drawn)).numpy()
    if limits.grid is None:
        return {"previous_action": pose}
    grid, share = limits.grid, rng.uniform(-1, 1, pose.shape)
    command = pose / grid.unit
    fastest = [
        np.minimum(rate, viability.fastest(room, grid.deceleration))
        for rate, room in ((grid.up, grid.high - command), (grid.down, command - grid.low))
    ]
    velocity = np.trunc(share * np.where(share > 0, *fastest)) * grid.unit
    return {"previous_action": pose, "previous_velocity": velocity.astype(np.float32)}
