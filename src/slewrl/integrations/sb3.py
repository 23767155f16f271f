"""Stable-Baselines3 under rate limits: its own SAC and TD3, with a policy that acts through a layer.

    from slewrl.integrations.sb3 import SAC          # instead of: from stable_baselines3 import SAC
    env = slewrl.RateLimit(gym.make("HalfCheetah-v5"), "tight", mode="absolute")
    SAC("MlpPolicy", env, policy_kwargs={"layer": "ddsrad"}).learn(60_000)

Everything else is as in Stable-Baselines3. docs/integrations/sb3.md lists the five places where its stock code would
leave the limits. Critics judge the executed action, as shares of the action range; log-probabilities are the layer's.
Limits with an acceleration take ``PolicyLimit(env, limits)`` in RateLimit's place. PPO and other algorithms take
``RateLimit(env, limits, bound=4.0)``.
"""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from slewrl.envs.augment import PREVIOUS, VELOCITY
from slewrl.envs.reset import Given
from slewrl.errors import UserFacingError
from slewrl.integrations import MODEL_VERSION, full_name
from slewrl.integrations.gymnasium import Mode, RateLimit
from slewrl.layers import LAYERS, make_layer
from slewrl.layers.base import ActionLayer, Decision
from slewrl.limits import RateLimits
from slewrl.limits.augmented import previous_action, previous_velocity
from slewrl.limits.box import FeasibleBox
from slewrl.limits.parse import Values

try:
    import stable_baselines3 as sb3
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
    from stable_baselines3.common.policies import BasePolicy
    from stable_baselines3.common.save_util import load_from_zip_file
    from stable_baselines3.common.torch_layers import create_mlp
    from stable_baselines3.common.vec_env import VecEnv
    from stable_baselines3.common.vec_env import VecNormalize as StockVecNormalize
    from stable_baselines3.sac import policies as sac
    from stable_baselines3.td3 import policies as td3
except ImportError as error:
    raise UserFacingError(f'Stable-Baselines3 cannot be imported ({error}): pip install "slewrl[sb3]"') from error

WRAP = 'slewrl.RateLimit(env, limits, mode="absolute")'
FOLLOW = "slewrl.integrations.sb3.PolicyLimit(env, limits)"
OUTERMOST = (
    "make RateLimit outermost, over what changes observations, as in RateLimit(NormalizeObservation(env), ...), or "
    "normalise with slewrl.integrations.sb3.VecNormalize"
)


class PolicyLimit(RateLimit):
    """``slewrl.RateLimit`` for a policy with a layer of its own; limits with an acceleration need it, others do not.

    Mode "absolute" of RateLimit brakes for each command under an acceleration limit, which would change actions that
    are in F_t already. Here those pass to the bit, and any other goes to the nearest one in F_t.
    """

    follows = True

    def __init__(
        self,
        env: gym.Env[Any, Any],
        limits: RateLimits | str | Path | Values,
        layer: str | ActionLayer = "ddsrad",
        mode: Mode = "absolute",
        bound: float | None = None,
        reset_action: Given = None,
    ) -> None:
        super().__init__(env, limits, layer, mode, bound, reset_action)


class _Limited(nn.Module):
    """The common part of both actors: the box of an observation, and actions as shares of the range."""

    limits: RateLimits
    layer: ActionLayer

    def _box(self, obs: Any) -> FeasibleBox:
        velocity = None if self.limits.grid is None else _velocity(obs, self.limits).float()
        return self.limits.box(_previous(obs, self.limits).float(), check=False, velocity=velocity)

    def _shares(self, action: Tensor) -> Tensor:
        """Scale an action (..., d) to [-1, 1]^d of its range, for critics."""
        _, _, low, high = self.limits.rounded(torch.float32, action.device).working
        return (2 * action - (low + high)) / (high - low)

    def _charged(self, action: Tensor, penalty: Tensor) -> Tensor:
        """Return the action, with the gradient of lambda times the mean penalty (Eq. actor_loss) added to its own."""
        weight = self.layer.penalty_weight / len(penalty)
        if not weight or not torch.is_grad_enabled():
            return action
        return _Charge.apply(action, penalty, weight)  # type: ignore[no-untyped-call]

    def random(self, obs: Any) -> Decision:
        """Draw warm-up actions, uniform over what the layer may execute."""
        action = self.layer.random(self._box(obs))
        return Decision(action, action)


class _Charge(torch.autograd.Function):
    """Identity of the action, whose backward pass adds the gradient of weight * sum(penalty), whatever the loss is."""

    @staticmethod
    def forward(ctx: Any, action: Tensor, penalty: Tensor, weight: float) -> Tensor:
        ctx.weight = weight
        ctx.like = penalty
        return action.view_as(action)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        return grad, torch.full_like(ctx.like, ctx.weight), None


class SACActor(sac.Actor, _Limited):
    """SAC's actor, whose Gaussian is that of the layer's latent."""

    def decide(self, obs: Any, explore: bool, noise: Tensor | float = 0.0) -> Decision:
        """The executed and judged actions; ``noise`` (N, d) is added to the mean latent."""
        mean, log_std, _ = self.get_action_dist_params(obs)
        mean = mean + noise
        if not explore:
            return self.layer.decide(mean, self._box(obs))
        return self.layer.draw(mean, log_std.exp(), torch.randn_like(mean), self._box(obs))

    def forward(self, obs: Any, deterministic: bool = False) -> Tensor:
        """The executed action (N, d), in the environment's units."""
        return self.decide(obs, not deterministic).executed

    def action_log_prob(self, obs: Any) -> tuple[Tensor, Tensor]:
        """A sampled action as critics see it (N, d), and its log-probability (N,) in the layer's density units."""
        mean, log_std, _ = self.get_action_dist_params(obs)
        action, log_prob = self.layer.sample(mean, log_std.exp(), torch.randn_like(mean), self._box(obs))
        return self._charged(self._shares(action.judged), action.penalty), log_prob

    def latent_module(self) -> nn.Module:
        """The module from flat observations (N, n) to mean latents (N, d)."""
        return nn.Sequential(*self.latent_pi, self.mu)


class TD3Actor(td3.Actor, _Limited):
    """TD3's actor, whose output is the layer's latent, not bounded by tanh."""

    smoothing: tuple[float, float] = (0.0, 0.0)
    """The standard deviation and cap of the noise on the latent; set for the target actor while learning."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        joints = self.action_space.shape[0]  # type: ignore[index]
        self.mu = nn.Sequential(*create_mlp(self.features_dim, joints, self.net_arch, self.activation_fn))

    def decide(self, obs: Any, explore: bool, noise: Tensor | float = 0.0) -> Decision:
        """The executed and judged actions; ``noise`` (N, d) is added to the latent."""
        return self.layer.decide(self._latent(obs) + noise, self._box(obs))

    def forward(self, obs: Any) -> Tensor:
        """The action as critics see it, (N, d)."""
        latent = self._latent(obs)
        spread, most = self.smoothing
        if spread:
            latent = latent + (spread * torch.randn_like(latent)).clamp(-most, most)
        action = self.layer(latent, self._box(obs))
        return self._charged(self._shares(action.judged), action.penalty)

    def _latent(self, obs: Any) -> Tensor:
        return self.mu(self.extract_features(obs, self.features_extractor))

    def latent_module(self) -> nn.Module:
        """The module from flat observations (N, n) to latents (N, d)."""
        return nn.Sequential(*self.mu)


class _LimitedPolicy(BasePolicy):
    """The common part of the policies, which act in the environment's units.

    The algorithm takes ``limits`` from the environment. ``layer`` is a layer or its name.
    """

    Actor: type[SACActor] | type[TD3Actor]
    actor: Any
    actor_kwargs: dict[str, Any]
    limits: RateLimits
    layer: ActionLayer

    def __init__(self, *args: Any, limits: RateLimits, layer: str | ActionLayer = "ddsrad", **kwargs: Any) -> None:
        if kwargs.get("use_sde"):
            raise ValueError("use_sde is True, but its noise has no density under a layer: leave it out")
        self.limits, self.layer = limits, make_layer(layer) if isinstance(layer, str) else layer
        self.layer.check(limits)
        super().__init__(*args, **kwargs)

    def make_actor(self, features_extractor: Any = None) -> Any:
        """The actor, with limits and layer."""
        kwargs = self._update_features_extractor(self.actor_kwargs, features_extractor)
        actor = self.Actor(**kwargs)
        actor.limits, actor.layer = self.limits, self.layer
        return actor.to(self.device)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), "limits": self.limits, "layer": self.layer}

    def _predict(self, observation: Any, deterministic: bool = False) -> Tensor:
        limits = self.limits
        _check_range("action", _previous(observation, limits), limits, limits.low, limits.high)
        if limits.grid is not None:
            _check_range("velocity", _velocity(observation, limits), limits, -limits.down, limits.up)
        return self.actor.decide(observation, not deterministic).executed

    def unscale_action(self, scaled_action: NDArray[Any]) -> NDArray[Any]:
        """Return actions unchanged: ``_predict`` gives them in the environment's units, and rescaling would round."""
        return scaled_action

    def scale_action(self, action: NDArray[Any]) -> NDArray[Any]:
        """Refused: only stock algorithms call it, to add noise to actions or to draw them outside the limits."""
        raise TypeError(
            "this policy is for slewrl.integrations.sb3.SAC and TD3: stock Stable-Baselines3 adds action noise after "
            "the policy, outside the limits, and draws warm-up actions there"
        )


class SACPolicy(_LimitedPolicy, sac.SACPolicy):
    """SAC's policy under limits."""

    Actor = SACActor


class TD3Policy(_LimitedPolicy, td3.TD3Policy):
    """TD3's policy under limits."""

    Actor = TD3Actor


class SACMultiInputPolicy(_LimitedPolicy, sac.MultiInputPolicy):
    """SAC's policy for Dict observations under limits."""

    Actor = SACActor


class TD3MultiInputPolicy(_LimitedPolicy, td3.MultiInputPolicy):
    """TD3's policy for Dict observations under limits."""

    Actor = TD3Actor


class _LimitedAlgorithm(OffPolicyAlgorithm):
    """Warm-up, exploration and set-up under limits; see the module."""

    normalizer: dict[str, Any] | None = None
    """The mean, variance, epsilon and clip of a saved model's normalised flat observations, for export."""
    task: str
    """Gymnasium's id of the environment, or the name of its class."""
    reset_action: list[float] | None = None
    """The reset action (d,) of the last episode before the model was saved."""
    deployment: dict[str, Any] | None = None
    """The description of a saved model; see ``described``."""

    def _setup_model(self) -> None:
        if self.env is not None:
            self.policy_kwargs = {**self.policy_kwargs, "limits": self._env_limits(self.env)}
        if "limits" not in self.policy_kwargs:
            raise ValueError(f"there are no limits: pass an environment {WRAP}")
        super()._setup_model()

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Continue in another environment with the same limits."""
        super().set_env(env, force_reset)
        self._env_limits(self.env)

    def _env_limits(self, env: Any) -> RateLimits:
        """The limits of an environment; refuses one that does not fit the policy."""
        limits, modes = (_attribute(env, name) for name in ("limits", "mode"))
        if modes != "absolute":
            raise ValueError(
                f"the environment is a RateLimit of mode {modes!r}, but here the policy has the layer: {WRAP}"
            )
        if limits.grid is not None and not _follows(env):
            raise ValueError(
                "the limits have an acceleration, under which RateLimit brakes for each command as for a target, also "
                f"for those that the policy has put into F_t: wrap the environment in {FOLLOW} instead"
            )
        known = self.policy_kwargs.get("limits", limits)
        if known != limits:
            raise ValueError(f"the environment has the limits {limits}, but the policy was made for {known}")
        _check_normalised(self._vec_normalize_env)
        _check_shape(env.observation_space, limits)
        self.task = _attribute(env, "name")
        self.normalizer = None
        return limits

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the model as Stable-Baselines3 does, with the normaliser and description that export needs."""
        seen = self._vec_normalize_env
        if seen is not None and seen.norm_obs and not isinstance(seen.observation_space, spaces.Dict):
            known: Any = seen.obs_rms
            self.normalizer = {"mean": known.mean.copy(), "variance": known.var.copy()}
            self.normalizer |= {"epsilon": seen.epsilon, "clip": seen.clip_obs}
        try:
            if self.env is not None and self._last_obs is not None:  # it has been reset: now it is known
                self.reset_action = self.env.get_attr("reset_action")[0].tolist()
            self.deployment = self.described()
        except Exception as error:  # what was learned is worth more than its export
            self.deployment = {"version": MODEL_VERSION, "failed": f"{type(error).__name__}: {error}"}
        super().save(*args, **kwargs)

    def described(self) -> dict[str, Any]:
        """All that export needs besides the weights, as JSON values, which Stable-Baselines3 does not pickle."""
        policy: Any = self.policy
        limits, known = policy.limits, self.normalizer or {}
        arrays = {key: getattr(limits, key).tolist() for key in ("up", "down", "low", "high")}
        rest = {"names": list(limits.names), "groups": list(limits.groups), "dt": limits.dt, "units": limits.units}
        rest["reset"] = None if limits.reset is None else limits.reset.tolist()
        for key, column in limits._accelerations().items():
            rest[key] = [x.as_integer_ratio() for x in column]  # exact
        return {
            "version": MODEL_VERSION,
            "algorithm": "SAC" if isinstance(self, SAC) else "TD3",
            "task": self.task,
            "seed": self.seed,
            "step": self.num_timesteps,
            "steps": self._total_timesteps,
            "limits": arrays | rest,
            "reset_action": self.reset_action,
            **_recipe(policy.layer),
            "flat": isinstance(policy.observation_space, spaces.Box),
            "policy": full_name(type(policy)),
            "extractor": full_name(policy.features_extractor_class),
            "activation": full_name(policy.activation_fn),
            "normalizer": {key: np.asarray(value).tolist() for key, value in known.items()} or None,
        }

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The executed actions (N, d), and what critics see of them; ``action_noise`` is noise on the latent."""
        policy: Any = self.policy
        policy.set_training_mode(False)
        obs, _ = policy.obs_to_tensor(self._last_obs)
        with torch.no_grad():
            if self.num_timesteps < learning_starts:
                decision = policy.actor.random(obs)
            else:
                noise = 0.0 if action_noise is None else torch.as_tensor(action_noise(), dtype=torch.float32)
                decision = policy.actor.decide(obs, True, noise)
            seen = policy.actor._shares(decision.judged)
        return decision.executed.cpu().numpy(), seen.cpu().numpy()

    def _store_transition(
        self, replay_buffer: Any, buffer_action: Any, new_obs: Any, reward: Any, dones: Any, infos: list[dict[str, Any]]
    ) -> None:
        """Store the transition, after checking that the policy saw the applied action (and increment, if it counts)."""
        limits: RateLimits = self.policy_kwargs["limits"]
        before = _previous(self._last_obs, limits)
        for k, info in enumerate(infos):
            seen, applied = info["terminal_observation"] if dones[k] else _row(new_obs, k), info.get("applied_action")
            _check_seen("action", _previous(seen, limits), applied, limits, k, self.env)
            if limits.grid is not None:
                _check_seen("velocity", _velocity(seen, limits), applied - before[k], limits, k, self.env)
        super()._store_transition(replay_buffer, buffer_action, new_obs, reward, dones, infos)


class SAC(_LimitedAlgorithm, sb3.SAC):
    """Stable-Baselines3's SAC under rate limits; see the module."""

    policy_aliases: ClassVar[Any] = {"MlpPolicy": SACPolicy, "MultiInputPolicy": SACMultiInputPolicy}

    def _setup_model(self) -> None:
        chosen = self.target_entropy
        super()._setup_model()
        if chosen == "auto":  # -1 per joint, in the layer's density units
            policy: Any = self.policy
            self.target_entropy = policy.layer.target_entropy(policy.limits)


class TD3(_LimitedAlgorithm, sb3.TD3):
    """Stable-Baselines3's TD3 under rate limits; ``action_noise`` and ``target_policy_noise`` are on the latent."""

    policy_aliases: ClassVar[Any] = {"MlpPolicy": TD3Policy, "MultiInputPolicy": TD3MultiInputPolicy}

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Train as Stable-Baselines3 does, but with target policy noise on the latent instead of the action."""
        spread = self.target_policy_noise
        target: Any = self.actor_target
        target.smoothing = (spread, self.target_noise_clip)
        self.target_policy_noise = 0.0
        try:
            super().train(gradient_steps, batch_size)
        finally:
            self.target_policy_noise = spread


class VecNormalize(StockVecNormalize):
    """Stable-Baselines3's VecNormalize, except that the previous action and velocity of a RateLimit stay unchanged."""

    def __init__(self, venv: VecEnv, *args: Any, **kwargs: Any) -> None:
        if isinstance(venv.observation_space, spaces.Dict) and kwargs.get("norm_obs_keys") is None:
            kwargs["norm_obs_keys"] = [key for key in venv.observation_space if key not in (PREVIOUS, VELOCITY)]
        super().__init__(venv, *args, **kwargs)
        self.joints = _attribute(venv, "limits").appended
        """How many of the last entries stay unchanged: d, or 2d with an acceleration limit. Files have this name."""

    def normalize_obs(self, obs: Any) -> Any:
        """Normalise all entries but the previous action."""
        return self._with_previous(super().normalize_obs(obs), obs)

    def unnormalize_obs(self, obs: Any) -> Any:
        """Undo ``normalize_obs``."""
        return self._with_previous(super().unnormalize_obs(obs), obs)

    def _with_previous(self, changed: Any, obs: Any) -> Any:
        if not isinstance(obs, dict):
            changed[..., -self.joints :] = obs[..., -self.joints :]
        return changed


def _check_normalised(env: StockVecNormalize | None) -> None:
    """Refuse a normaliser that would change the previous action."""
    if env is None or isinstance(env, VecNormalize) or not env.norm_obs:
        return
    keys = getattr(env, "norm_obs_keys", None)
    if keys is None or PREVIOUS in keys or VELOCITY in keys:
        raise ValueError(
            "VecNormalize would normalise the previous action, which the layer needs as it was applied: use "
            "slewrl.integrations.sb3.VecNormalize (or, with Dict observations, norm_obs_keys without "
            f"{PREVIOUS!r} and {VELOCITY!r}), or norm_obs=False"
        )


def _previous(obs: Any, limits: RateLimits) -> Any:
    """The previous action (..., d) of an observation, flat or a Dict."""
    return obs[PREVIOUS] if isinstance(obs, dict) else previous_action(obs, limits.dim)


def _velocity(obs: Any, limits: RateLimits) -> Any:
    """The last increment (..., d) of an observation, flat or a Dict, with an acceleration limit."""
    return obs[VELOCITY] if isinstance(obs, dict) else previous_velocity(obs, limits.dim)


def _row(obs: Any, k: int) -> Any:
    """The observation of environment ``k``."""
    return {key: part[k] for key, part in obs.items()} if isinstance(obs, dict) else obs[k]


def _check_shape(space: Any, limits: RateLimits) -> None:
    """Refuse observations without a previous action of the right shape."""
    if isinstance(space, spaces.Dict):
        for key in (PREVIOUS,) if limits.grid is None else (PREVIOUS, VELOCITY):
            there = space.spaces.get(key)
            if there is None or there.shape != (limits.dim,):
                raise ValueError(
                    f"the policy sees observations of {', '.join(space.spaces)}, expected {key!r} among them, of "
                    f"{limits.dim} entries: {OUTERMOST}"
                )
    elif space.shape is None or len(space.shape) != 1:
        raise ValueError(
            f"the policy sees observations of shape {space.shape}, expected flat ones that end with the previous "
            f"action: {OUTERMOST}"
        )


def _check_seen(what: str, seen: Any, applied: Any, limits: RateLimits, k: int, env: Any) -> None:
    """Refuse a previous action or velocity that is not the applied one of environment ``k``: it defines F_t."""
    if applied is not None and np.array_equal(seen, applied):
        return
    known = "nothing that it can be compared with"
    joint, value = limits.names[0], seen[0]
    if applied is not None:
        i = int(np.flatnonzero(seen != applied)[0])
        joint, value, known = limits.names[i], seen[i], f"{applied[i]}"
    raise ValueError(
        f"environment {k}: the policy sees {value} as the previous {what} of {joint!r}, but RateLimit applied {known}: "
        f"something between them changes observations ({_layers(env, k)}): {OUTERMOST}"
    )


def _layers(env: Any, k: int) -> str:
    """The wrappers of environment ``k``, outermost first, as far as this process has them."""
    names = []
    while hasattr(env, "venv"):
        names.append(type(env).__name__)
        env = env.venv
    names.append(type(env).__name__)
    return f"{' over '.join(names)} of {env.envs[k]}" if hasattr(env, "envs") else " over ".join(names)


def _check_range(
    what: str, seen: Tensor, limits: RateLimits, lowest: NDArray[np.float64], highest: NDArray[np.float64]
) -> None:
    """Refuse a previous action or velocity out of range; float32 may be an ulp beyond a float64 environment's range."""
    low, high = (torch.as_tensor(bound.copy(), device=seen.device) for bound in (lowest, highest))
    slack = 1e-6 * (high - low)
    bad = (~((seen >= low - slack) & (seen <= high + slack))).nonzero()
    if len(bad):
        where = tuple(bad[0].tolist())
        i = where[-1]
        raise ValueError(
            f"the policy sees {seen[where].item()} as the previous {what} of {limits.names[i]!r}, expected a number in "
            f"[{lowest[i]}, {highest[i]}]: {OUTERMOST}"
        )


def _follows(env: VecEnv) -> bool:
    """Whether the wrapper around each environment passes on what the policy decides in F_t."""
    try:
        return all(env.get_attr("follows"))
    except AttributeError:
        return False


def _attribute(env: VecEnv, name: str) -> Any:
    """An attribute of the RateLimit around each environment, which must be the same in all."""
    try:
        first, *others = env.get_attr(name)
    except AttributeError:
        raise ValueError(f"the environment has no rate limits: wrap it, {WRAP}") from None
    if any(other != first for other in others):
        raise ValueError(f"the environments differ in their {name}, expected the same in all: {first}, {others}")
    return first


def load(path: Path) -> SAC | TD3:
    """Load a model of SAC or TD3 that ``save`` wrote. It is a pickle: loading runs whatever is in it."""
    data, _, _ = load_from_zip_file(path, device="cpu")
    kind = (data or {}).get("policy_class")
    for algorithm in (SAC, TD3):
        if kind in algorithm.policy_aliases.values():
            return algorithm.load(path, device="cpu")
    raise ValueError(f"{path} holds a {kind}, expected a model of slewrl.integrations.sb3.SAC or TD3")


def _recipe(layer: ActionLayer) -> dict[str, Any]:
    """The arguments of ``make_layer`` for this layer."""
    kind = type(layer)
    names = [name for name in LAYERS if LAYERS[name] is kind]
    options = {field.name: getattr(layer, field.name) for field in dataclasses.fields(layer)}
    density = options.pop("density")
    return {
        "layer": names[0] if names else f"{kind.__module__}:{kind.__qualname__}",
        "density": density,
        "layer_options": options,
    }
