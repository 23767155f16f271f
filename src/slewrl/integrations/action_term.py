"""The rate limit in a joint position action term; those of `mjlab_action.py` and `isaaclab_action.py` share it.

The limit is the last operation before the simulator, in radians and in its own float32: after the term's scale, offset
and clip, so that nothing can widen or round it.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slewrl.copying import Copied, Uncopied
from slewrl.envs.vec_env import check_period
from slewrl.integrations.nearest import nearest
from slewrl.integrations.simulator import ALIASES, as_tensor, joint_name
from slewrl.layers import hard_layer
from slewrl.layers.base import ActionLayer
from slewrl.limits import RateLimits
from slewrl.limits.parse import Values
from slewrl.limits.resolve import resolve_limits

PREVIOUS = "previous_action"
"""The observation group of the previous action alone: a_prev, or (v_prev, a_prev) with an acceleration limit."""
Given = RateLimits | str | Path | Values
"""Limits as a user may write them; see ``Guard``."""


class LimitedCommands(Copied):
    """The last commands of N robots, each within F_t of the one before.

    Args:
        limits: the limits of d joints.
        start: the commands assumed before the first step, (N, d).
        layer: the layer that maps latents to commands; by default commands come in, and are clipped to F_t. Under an
            acceleration limit such a clip brakes for its target, as clip layers do.
    """

    def __init__(self, limits: RateLimits, start: Tensor, layer: ActionLayer | None = None) -> None:
        self.limits, self.layer = limits, layer
        # One buffer, written in place: rsl_rl steps in inference mode, and a tensor made there cannot be reset outside.
        self.last = start.clone()
        """The last commands (N, d), in the dtype of ``start``."""
        self.velocity = None if limits.grid is None else torch.zeros_like(self.last)
        """The last increments (N, d) with an acceleration limit, which needs them; 0 at a restart."""
        self.nans = torch.zeros((), dtype=torch.long, device=start.device)
        """The number of joint commands that were NaN; their joints were held."""
        limits.rounded(start.dtype, start.device)  # made here, not in inference mode
        if limits.grid is not None:
            limits.on_grid(start.dtype, start.device)

    @property
    def appended(self) -> Tensor:
        """A new tensor of what observations show, (N, m): the last commands, after their velocity if it is kept."""
        return self.last.clone() if self.velocity is None else torch.cat([self.velocity, self.last], -1)

    def move(self, wanted: Tensor) -> Tensor:
        """Compute the next commands (N, d), which become ``last``; NaN holds its joint. No host synchronisation."""
        box = self.limits.box(self.last, check=False, velocity=self.velocity)
        self.nans += wanted.isnan().sum()
        return self._execute(box.clamp(wanted) if self.layer is None else self.layer.execute(wanted, box))

    def follow(self, wanted: Tensor) -> Tensor:
        """Go as near to ``wanted`` (N, d) as F_t allows, and do not brake for it: it is a limited motion, too."""
        return self._execute(nearest(wanted, self.limits.box(self.last, check=False, velocity=self.velocity)))

    def _execute(self, moved: Tensor) -> Tensor:
        if self.velocity is not None:
            self.velocity.copy_(moved - self.last)
        return self.last.copy_(moved)

    def restart(self, start: Tensor, robots: Any = None) -> None:
        """Restart from ``start`` (N, d), for all robots or those of an index."""
        robots = slice(None) if robots is None else robots
        self.last[robots] = start[robots]
        if self.velocity is not None:
            self.velocity[robots] = 0.0


class Guard(Uncopied):
    """The limits of one action term, found by joint name, and its commands.

    Args:
        cfg: the term's configuration, with
            ``limits``: RateLimits in rad per control step; "TASK:PRESET" such as "G1:paper"; a limits.yaml; or the
            largest change per step, a number or ``{joint: number}``, with the simulator's joint ranges;
            ``layer``: None to clip joint positions, or the name of a layer: then actions are latents;
            ``hold_others``: whether joints without limits hold the default pose and are not part of the action.
        robot: the simulator's articulation.
        driven: the names of the joints that the term drives, in action order.
        period: the control period, s.

    Raises:
        ValueError: limits, joints, control period or scale do not fit together.
    """

    instead = "it belongs to the robot of one simulator; make another action term there"

    def __init__(self, cfg: Any, robot: Any, driven: Sequence[str], period: float) -> None:
        limits = _read(cfg.limits, robot, driven, period)
        check_period("the action term", limits, period)
        self.limits, self.joints = _of_joints(limits, robot.joint_names, driven)
        self.layer = _layer(cfg, self.limits)
        others = [name for name in driven if name not in self.joints]
        if others and not cfg.hold_others:
            raise ValueError(
                f"there are no limits for {', '.join(others)}: give them some, leave them out of the term, or set "
                "hold_others=True to keep them at the default pose"
            )
        self.robot = robot
        self.ids, self.held = (self._indices(names) for names in (self.joints, others))
        self.commands = LimitedCommands(self.limits, self.start(), self.layer)

    @property
    def patterns(self) -> list[str]:
        """The limited joints' names as regular expressions, which is how both simulators look for joints."""
        return [re.escape(name) for name in self.joints]

    def start(self, bias: Tensor | float = 0.0) -> Tensor:
        """The commands assumed before the first step of an episode, (N, d): the default pose less a bias, in range."""
        return self.limits.clamp(self._pose()[:, self.ids] - bias)

    def move(self, raw: Tensor, processed: Tensor) -> Tensor:
        """The commands (N, d) for raw actions (latents), or for actions as the simulator's own term scaled them."""
        return self.commands.move(processed if self.layer is None else raw)

    def hold(self) -> None:
        """Set the targets of the held joints to the default pose."""
        if len(self.held):
            self.robot.set_joint_position_target(self._pose()[:, self.held], joint_ids=self.held)

    def _indices(self, names: Sequence[str]) -> Tensor:
        ids = [self.robot.joint_names.index(name) for name in names]
        return torch.tensor(ids, dtype=torch.long, device=self._pose().device)

    def _pose(self) -> Tensor:
        return as_tensor(self.robot.data.default_joint_pos)


def find_guard(env: Any) -> Guard:
    """The guard of the one limited action term of a simulated environment."""
    manager = env.action_manager
    terms = [manager.get_term(name) for name in manager.active_terms]
    guards = [term.guard for term in terms if isinstance(getattr(term, "guard", None), Guard)]
    if len(guards) != 1:
        raise ValueError(
            f"{len(guards)} of the action terms {', '.join(manager.active_terms)} have rate limits, expected one: make "
            "it a RateLimitedJointPositionActionCfg"
        )
    return guards[0]


def previous_action(env: Any) -> Tensor:
    """An observation term of either simulator: the last commands (N, d), rad; the start pose after a reset.

    Under an acceleration limit it is (N, 2d), the last increments and the last commands. The simulators' own
    ``last_action`` is the policy's output instead, and 0 after a reset.
    """
    return find_guard(env).commands.appended


def _layer(cfg: Any, limits: RateLimits) -> ActionLayer | None:
    if cfg.layer is None:
        return None
    layer = hard_layer(cfg.layer, limits)
    for key, neutral in {"scale": 1.0, "offset": 0.0, "clip": None}.items():
        value = getattr(cfg, key)
        if value != neutral:
            raise ValueError(
                f"{key} is {value}, but with layer={cfg.layer!r} actions are latents and the layer's result is the "
                f"target in radians: leave {key} out, or set layer=None to clip scaled joint positions"
            )
    return layer


def _read(given: Given, robot: Any, driven: Sequence[str], period: float) -> RateLimits:
    if given is None:
        raise ValueError("limits are missing: a limits.yaml, TASK:PRESET such as 'G1:paper', RateLimits, or a number")

    def in_joint_ranges(rates: Values) -> RateLimits:
        ids = [robot.joint_names.index(name) for name in driven]
        low, high = as_tensor(robot.data.joint_pos_limits)[0, ids].cpu().double().numpy().T
        return RateLimits(rates, low, high, names=[joint_name(name) for name in driven], dt=period, units="rad")

    return resolve_limits(given, numbers=in_joint_ranges)


def _of_joints(limits: RateLimits, robot: Sequence[str], driven: Sequence[str]) -> tuple[RateLimits, list[str]]:
    """The limits of the driven joints that have any, in action order, and the names of those joints."""
    known = {joint_name(name) for name in robot}
    spelled = {name if name in known else ALIASES.get(name, name): name for name in limits.names}
    for name in spelled:
        if name not in known:
            raise ValueError(f"the limits name a joint {name!r} that the robot has not; it has: {', '.join(robot)}")
    limited = [name for name in driven if joint_name(name) in spelled]
    if not limited:
        raise ValueError(f"the limits name none of the term's joints: {', '.join(driven)}")
    return limits.select(spelled[joint_name(name)] for name in limited), limited
