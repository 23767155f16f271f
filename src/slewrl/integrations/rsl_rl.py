"""rsl_rl's PPO (5.x) under hard rate limits, by names in its configuration.

    "algorithm": {"class_name": "slewrl.integrations.rsl_rl:RateLimitedPPO", ...},
    "actor": {"class_name": "slewrl.integrations.rsl_rl:RateLimitedActor", ...},
    "critic": {"class_name": "slewrl.integrations.rsl_rl:RateLimitedCritic", ...},
    "obs_groups": {"actor": ["policy", "previous_action"], "critic": ["policy", "previous_action"]},

Under an acceleration limit the group "previous_action" holds (v_prev, a_prev), the last increment and the last command.
PPO's action is the latent u; the environment executes layer(u, F_t): ``RateLimitedVecEnv`` around any environment, or
the action term of `mjlab_action.py` or `isaaclab_action.py`. docs/integrations/rsl_rl.md says why.
"""

from typing import Any

import torch
from torch import Tensor, nn

from slewrl.copying import Copied
from slewrl.envs.augment import VELOCITY
from slewrl.errors import UserFacingError
from slewrl.integrations.action_term import PREVIOUS, Guard, LimitedCommands, find_guard
from slewrl.integrations.fixed_start import fixed_start
from slewrl.layers import hard_layer
from slewrl.layers.base import ActionLayer
from slewrl.limits import RateLimits
from slewrl.limits.parse import Values

try:
    from rsl_rl.algorithms import PPO
    from rsl_rl.env import VecEnv
    from rsl_rl.models import MLPModel
    from rsl_rl.modules import EmpiricalNormalization
    from rsl_rl.utils import resolve_callable
except ImportError as error:
    raise UserFacingError(f"rsl_rl cannot be imported ({error}): pip install 'slewrl[rsl_rl]'") from error

HERE = "slewrl.integrations.rsl_rl"


class NormalizeObservation(nn.Module):
    """rsl_rl's empirical normalisation of all entries but the last ``kept``, which are the previous action's group."""

    def __init__(self, size: int, kept: int) -> None:
        super().__init__()
        self.kept = kept
        self.seen = EmpiricalNormalization(size - kept)

    def forward(self, observation: Tensor) -> Tensor:
        """Normalise observations (..., n); the last ``kept`` entries are unchanged."""
        return torch.cat([self.seen(observation[..., : -self.kept]), observation[..., -self.kept :]], -1)

    @torch.jit.unused
    def update(self, observation: Tensor) -> None:
        """Update the statistics from a batch (N, n)."""
        self.seen.update(observation[..., : -self.kept])


class Augmented(MLPModel):  # type: ignore[misc]
    """An ``MLPModel`` whose input ends with the previous action, not normalised; its observation group is required."""

    def __init__(
        self, obs: Any, obs_groups: dict[str, Any], obs_set: str, output_dim: int, *args: Any, **options: Any
    ) -> None:
        groups = list(obs_groups[obs_set])
        if PREVIOUS not in groups:
            raise ValueError(f"obs_groups[{obs_set!r}] is {groups}, expected {PREVIOUS!r} among them")
        ordered = [*(group for group in groups if group != PREVIOUS), PREVIOUS]
        super().__init__(obs, {**obs_groups, obs_set: ordered}, obs_set, output_dim, *args, **options)
        self.kept: int = obs[PREVIOUS].shape[-1]
        """The number of last entries that are not normalised: d, or 2d with an acceleration limit."""
        if self.obs_normalization:
            self.obs_normalizer = NormalizeObservation(self.obs_dim, self.kept)


class RateLimitedCritic(Augmented):
    """The critic: a function of the observation and the previous action."""


class RateLimitedActor(Augmented):
    """The actor: a Gaussian of latents, given the observation and the previous action.

    The exported model includes the layer and has the signature of slewrl's bundles: (observation, previous_action) ->
    action, the command in the limits' units; with an acceleration limit previous_velocity is a third input.
    ``RateLimitedPPO`` sets the limits.
    """

    def __init__(
        self, obs: Any, obs_groups: dict[str, Any], obs_set: str, output_dim: int, *args: Any, **options: Any
    ) -> None:
        super().__init__(obs, obs_groups, obs_set, output_dim, *args, **options)
        if self.kept not in (output_dim, 2 * output_dim):
            raise ValueError(
                f"{PREVIOUS!r} has {self.kept} entries but there are {output_dim} actions: every action needs a limit"
            )
        self.limited: tuple[RateLimits, ActionLayer] | None = None

    def as_onnx(self, verbose: bool) -> nn.Module:
        """The network and layer as a module for export."""
        if self.limited is None:
            raise UserFacingError(
                f"the actor does not know its limits, and would export latents: name '{HERE}:RateLimitedPPO' as the "
                "algorithm, or set actor.limited = (limits, layer)"
            )
        limits, layer = self.limited
        return _exportable(super().as_onnx(verbose), layer, limits)

    def as_jit(self) -> nn.Module:
        """The network and layer as traced TorchScript, for any batch size; not under an acceleration limit."""
        module: Any = self.as_onnx(verbose=False).cpu().eval()
        if module.limits.grid is not None:
            raise UserFacingError(
                "limits with an acceleration cannot be traced as TorchScript, which would freeze the interval of the "
                "example: expected export_policy_to_onnx"
            )
        return torch.jit.trace(module, module.get_dummy_inputs())  # type: ignore[no-untyped-call]


class RateLimitedPPO(PPO):  # type: ignore[misc]
    """rsl_rl's PPO, unchanged, with checks of the configuration and of the previous action that the policy sees."""

    @staticmethod
    def construct_algorithm(obs: Any, env: Any, cfg: dict[str, Any], device: str) -> PPO:
        """Check the configuration and make the algorithm; called by the runner."""
        limiter = limiter_of(env)
        if PREVIOUS not in obs.keys():  # noqa: SIM118  (a TensorDict iterates over its rows)
            raise ValueError(
                f"the environment shows no observations {PREVIOUS!r}, only {list(obs.keys())}: give it a group of that "
                "name with nothing but slewrl's previous_action in it"
            )
        _check_seen(obs[PREVIOUS], limiter.commands)
        for part, expected, otherwise in (
            ("actor", RateLimitedActor, f"normalises {PREVIOUS!r} and exports latents"),
            ("critic", RateLimitedCritic, f"normalises {PREVIOUS!r}, or does not see it"),
        ):
            given = cfg[part]["class_name"]
            if not issubclass(resolve_callable(given), expected):
                wanted = f"{HERE}:{expected.__name__}"
                raise ValueError(f"the {part} is {given!r}, expected {wanted!r}: another one {otherwise}")
        made = PPO.construct_algorithm(obs, env, cfg, device)
        made.get_policy().limited = limiter.limits, limiter.layer
        made.unchecked = limiter.commands
        return made

    unchecked: LimitedCommands | None = None
    """The environment's commands, until they are compared with the observations of the first step."""

    def process_env_step(self, obs: Any, *args: Any, **kwargs: Any) -> None:
        """Check the previous action after the first step, which scaling would change where it is not 0; then as PPO."""
        if self.unchecked is not None:
            _check_seen(obs[PREVIOUS], self.unchecked)
            self.unchecked = None
        super().process_env_step(obs, *args, **kwargs)


class RateLimitedVecEnv(Copied, VecEnv):  # type: ignore[misc]
    """Makes latents the actions of an rsl_rl environment, which gets commands that lie exactly in F_t.

    Observations gain the group "previous_action": the command last passed to ``env.step``, or the reset action; before
    it, under an acceleration limit, the last increment.

    Args:
        env: a VecEnv whose actions are commands, which it must not change.
        limits: the limits of its actions, in their order and units.
        layer: the layer, or its name.
        reset_action: the command assumed before the first step of an episode: numbers or "middle"; default
            ``limits.reset``, else 0, with a warning where that is not clearly meant.
    """

    def __init__(
        self, env: Any, limits: RateLimits, layer: str | ActionLayer = "ddsrad", reset_action: Values | None = None
    ) -> None:
        if limits.dim != env.num_actions:
            raise ValueError(
                f"limits have {limits.dim} joints ({', '.join(limits.names)}), but the environment takes "
                f"{env.num_actions} actions: expected one limit per action"
            )
        self.layer = hard_layer(layer, limits)
        _check_untouched(env)
        self.env, self.limits = env, limits
        start = fixed_start(type(env).__name__, limits, reset_action, "warn")
        self.start = torch.tensor(start).to(env.device).repeat(env.num_envs, 1)
        self.commands = LimitedCommands(limits, self.start, self.layer)

    def __getattr__(self, name: str) -> Any:
        """An attribute of the environment, such as ``num_envs`` or ``cfg``."""
        if name == "env" or name.startswith("__"):  # asked of an object under construction by copy
            raise AttributeError(name)
        return getattr(self.env, name)

    @property
    def episode_length_buf(self) -> Tensor:
        """The lengths of the current episodes, (N,); rsl_rl writes to it, too."""
        return self.env.episode_length_buf

    @episode_length_buf.setter
    def episode_length_buf(self, value: Tensor) -> None:
        self.env.episode_length_buf = value

    def get_observations(self) -> Any:
        """The current observations."""
        return self._augmented(self.env.get_observations())

    def reset(self) -> tuple[Any, dict[str, Any]]:
        """Reset all environments."""
        obs, extras = self.env.reset()
        self.commands.restart(self.start)
        return self._augmented(obs), extras

    def step(self, actions: Tensor) -> tuple[Any, Tensor, Tensor, dict[str, Any]]:
        """Step the environment with the commands for these latents (N, d)."""
        obs, rewards, dones, extras = self.env.step(self.commands.move(actions).clone())
        self.commands.restart(self.start, dones.bool())
        return self._augmented(obs), rewards, dones, extras

    def _augmented(self, obs: Any) -> Any:
        # A copy: PPO keeps this step's observations until after the next.
        return obs.clone(recurse=False).update({PREVIOUS: self.commands.appended})


def limiter_of(env: Any) -> RateLimitedVecEnv | Guard:
    """The object with the limits, layer and commands of an rsl_rl environment."""
    if isinstance(env, RateLimitedVecEnv):
        return env
    simulated = getattr(env, "unwrapped", env)
    if not hasattr(simulated, "action_manager"):
        raise ValueError("nothing limits this environment's actions: wrap it in RateLimitedVecEnv(env, limits)")
    guard = find_guard(simulated)
    if guard.layer is None:
        raise ValueError(
            "the action term clips joint positions (layer=None): name a layer, such as layer='ddsrad', for "
            "RateLimitedPPO, or train with rsl_rl's own PPO and keep the clip as a guard"
        )
    return guard


def _exportable(net: Any, layer: ActionLayer, limits: RateLimits) -> nn.Module:
    from slewrl.deploy.export import INPUTS, OUTPUTS, DeployedPolicy

    names = INPUTS if limits.grid is None else [*INPUTS, VELOCITY]

    class Exportable(DeployedPolicy):
        """A policy with the attributes that rsl_rl's exporter needs."""

        is_recurrent, input_names, output_names = False, names, OUTPUTS

        def get_dummy_inputs(self) -> tuple[Tensor, ...]:
            history = (torch.zeros(1, limits.dim) for _ in names[1:])
            return torch.zeros(1, net.input_size - limits.appended), *history

    return Exportable(net, layer, limits)


def _check_seen(seen: Tensor, commands: LimitedCommands) -> None:
    """Refuse observations of the previous action (N, m) that are not the commands' own, bit for bit."""
    limits, true = commands.limits, commands.appended
    if seen.shape != true.shape:
        rows = "one entry" if limits.grid is None else "two entries, velocity and action,"
        shapes = f"shape {tuple(seen.shape)}, expected {tuple(true.shape)}: {rows} per limited joint"
        raise ValueError(f"observations {PREVIOUS!r} have {shapes}")
    wrong = (seen.to(true.device) != true).nonzero()
    if len(wrong):
        robot, entry = wrong[0].tolist()
        of = "" if entry >= limits.appended - limits.dim else "the velocity of "
        raise ValueError(
            f"the observation {PREVIOUS!r} of {of}{limits.names[entry % limits.dim]!r} in robot {robot} is "
            f"{seen[robot, entry].item():.6g}, but {true[robot, entry].item():.6g} was commanded: leave out what "
            "scales, normalises, delays or disturbs it"
        )


def _check_untouched(env: Any) -> None:
    """Refuse environments that are known to change actions after the limit."""
    if getattr(env, "clip_actions", None) is not None:
        raise ValueError(f"clip_actions is {env.clip_actions}: it would change commands after the limit; expected None")
    if hasattr(getattr(env, "unwrapped", env), "action_manager"):
        raise ValueError(
            "the environment has action terms, which scale and shift actions after the limit and round them: limit the "
            "joint positions themselves, by RateLimitedJointPositionActionCfg of slewrl.integrations.mjlab_action or "
            "isaaclab_action"
        )
