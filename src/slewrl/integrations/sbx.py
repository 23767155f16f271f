"""SBX (Stable-Baselines3 in JAX) under rate limits: its own SAC and CrossQ, with an actor that acts through a layer.

    from slewrl.integrations.sbx import SAC          # instead of: from sbx import SAC
    env = slewrl.RateLimit(gym.make("HalfCheetah-v5"), "tight", mode="absolute")
    SAC("MlpPolicy", env, policy_kwargs={"layer": "ddsrad"}).learn(60_000)

Everything else is as in SBX. As in ``slewrl.integrations.sb3``, critics judge the executed action as shares of the
action range, log-probabilities are the layer's, and warm-up and ``action_noise`` stay inside the limits.
"""

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import torch
from gymnasium import spaces
from jax import Array
from numpy.typing import NDArray

from slewrl.envs.augment import VELOCITY
from slewrl.errors import UserFacingError
from slewrl.integrations import jax as limited
from slewrl.integrations.sb3 import _check_range, _LimitedAlgorithm
from slewrl.layers import make_layer
from slewrl.limits import RateLimits
from slewrl.limits.augmented import previous_action, previous_velocity

try:
    import sbx
    from sbx.common.off_policy_algorithm import OffPolicyAlgorithmJax
    from sbx.common.policies import SquashedGaussianActor
    from sbx.crossq.policies import Actor as CrossQActor
    from sbx.crossq.policies import CrossQPolicy as StockCrossQPolicy
    from sbx.sac.policies import SACPolicy as StockSACPolicy
except ImportError as error:
    raise UserFacingError(f'SBX cannot be imported ({error}): pip install "slewrl[sbx]"') from error


@jax.tree_util.register_pytree_node_class
class LimitedGaussian:
    """A Gaussian over latents, seen through a layer: what SBX takes for the distribution of actions.

    ``sample`` and ``mode`` are what critics see, shares of the action range in [-1, 1]^d.
    """

    def __init__(self, mean: Array, std: Array, box: limited.Box, layer: str) -> None:
        self.mean, self.std, self.box, self.layer = mean, std, box, layer
        self._drawn: tuple[Array, Array] | None = None

    def tree_flatten(self) -> tuple[tuple[Any, ...], str]:
        """The arrays, and the layer's name."""
        return (self.mean, self.std, self.box), self.layer

    @classmethod
    def tree_unflatten(cls, layer: str, arrays: tuple[Any, ...]) -> "LimitedGaussian":
        """The distribution of ``tree_flatten``."""
        mean, std, box = arrays
        return cls(mean, std, box, layer)

    def executed(self, noise: Array) -> Array:
        """The action that the environment gets (N, d), at ``noise`` standard deviations from the mean latent."""
        return limited.LAYERS[self.layer](self.mean + self.std * noise, self.box).executed

    def sample(self, seed: Array) -> Array:
        """Draw actions, (N, d)."""
        noise = jax.random.normal(seed, self.mean.shape, self.mean.dtype)
        action, log_prob = limited.sample(self.layer, self.mean, self.std, noise, self.box)
        weight = make_layer(self.layer).penalty_weight / len(log_prob)
        self._drawn = _charged(shares(action.judged, self.box.limits), action.penalty, weight), log_prob
        return self._drawn[0]

    def log_prob(self, actions: Array) -> Array:
        """The log-probabilities (N,) of the actions that ``sample`` gave, in the layer's density units."""
        if self._drawn is None or actions is not self._drawn[0]:
            raise ValueError("actions are not those drawn last; only theirs have a log-probability without rounding")
        return self._drawn[1]

    def mode(self) -> Array:
        """The action of the mean latent, (N, d)."""
        return shares(self.executed(jnp.zeros_like(self.mean)), self.box.limits)


def shares(action: Array, limits: RateLimits) -> Array:
    """Scale an action (..., d) to [-1, 1]^d of its range, for critics."""
    low, high = (jnp.asarray(x, action.dtype) for x in (limits.low, limits.high))
    return (2 * action - (low + high)) / (high - low)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _charged(action: Array, penalty: Array, weight: float) -> Array:
    """The action, whose backward pass adds the gradient of weight * sum(penalty), whatever the loss is."""
    return action


_charged.defvjp(
    lambda action, penalty, weight: (action, penalty),
    lambda weight, penalty, grad: (grad, jnp.full_like(penalty, weight)),
)


def _limited(dist: Any, obs: Array, limits: RateLimits, layer: str) -> LimitedGaussian:
    """The stock distribution of an observation (N, n) over actions, made one over latents."""
    latent = dist.distribution
    velocity = None if limits.grid is None else previous_velocity(obs, limits.dim)
    box = limited.box(limits, previous_action(obs, limits.dim), velocity=velocity, check=False)
    return LimitedGaussian(latent.mean(), latent.stddev(), box, layer)


class SACActor(SquashedGaussianActor):  # type: ignore[misc]
    """SAC's actor, whose Gaussian is that of the layer's latent."""

    limits: RateLimits | None = None
    layer: str = "ddsrad"

    def __call__(self, x: Array) -> LimitedGaussian:
        """The distribution at observations (N, n)."""
        return _limited(super().__call__(x), x, self.limits, self.layer)  # type: ignore[arg-type]


class BatchNormActor(CrossQActor):  # type: ignore[misc]
    """CrossQ's actor, whose Gaussian is that of the layer's latent."""

    limits: RateLimits | None = None
    layer: str = "ddsrad"

    def __call__(self, x: Array, train: bool = False) -> LimitedGaussian:
        """The distribution at observations (N, n)."""
        return _limited(super().__call__(x, train), x, self.limits, self.layer)  # type: ignore[arg-type]


class _LimitedPolicy:
    """The common part of the policies, which act in the environment's units."""

    Actor: ClassVar[Any]
    actor_state: Any
    noise_key: Array
    squash_output = False

    def __init__(self, *args: Any, limits: RateLimits, layer: str = "ddsrad", **kwargs: Any) -> None:
        if kwargs.get("use_sde"):
            raise ValueError("use_sde is True, but its noise has no density under a layer: leave it out")
        if layer not in limited.LAYERS:
            raise ValueError(f"layer is {layer!r}, expected one that is written for JAX: {', '.join(limited.LAYERS)}")
        self.limits, self.layer = limits, layer
        kwargs["actor_class"] = partial(self.Actor, limits=limits, layer=layer)
        super().__init__(*args, **kwargs)
        self._squash_output = False  # actions are in the environment's units: nothing rescales or clips them

    def unscale_action(self, scaled_action: NDArray[Any]) -> NDArray[Any]:
        """Return actions unchanged: they are in the environment's units."""
        return scaled_action

    def decide(self, obs: NDArray[Any], explore: bool, noise: NDArray[Any] | float = 0.0) -> Array:
        """The executed actions (N, d); ``noise`` is added to the latent."""
        key = None
        if explore:
            self.reset_noise()  # type: ignore[attr-defined]
            key = self.noise_key
        return _decide(self.actor_state, obs, key, noise)

    def _predict(self, observation: Any, deterministic: bool = False) -> Array:
        limits, seen = self.limits, torch.from_numpy(observation)
        _check_range("action", previous_action(seen, limits.dim), limits, limits.low, limits.high)
        if limits.grid is not None:
            _check_range("velocity", previous_velocity(seen, limits.dim), limits, -limits.down, limits.up)
        return self.decide(observation, not deterministic)

    def random(self, obs: NDArray[Any]) -> Array:
        """Draw warm-up actions, uniform over F_t."""
        self.reset_noise()  # type: ignore[attr-defined]
        return _random(self.limits, obs, self.noise_key)


@jax.jit
def _decide(state: Any, obs: Array, key: Array | None, noise: Any) -> Array:
    variables = (
        {"params": state.params, "batch_stats": state.batch_stats} if hasattr(state, "batch_stats") else state.params
    )
    dist = state.apply_fn(variables, obs)
    drawn = jnp.zeros_like(dist.mean) if key is None else jax.random.normal(key, dist.mean.shape)
    return limited.LAYERS[dist.layer](dist.mean + dist.std * drawn + noise, dist.box).executed


@jax.jit
def _random(limits: RateLimits, obs: Array, key: Array) -> Array:
    velocity = None if limits.grid is None else previous_velocity(obs, limits.dim)
    return limited.random(key, limited.box(limits, previous_action(obs, limits.dim), velocity=velocity, check=False))


class SACPolicy(_LimitedPolicy, StockSACPolicy):  # type: ignore[misc]
    """SAC's policy under limits."""

    Actor = SACActor


class CrossQPolicy(_LimitedPolicy, StockCrossQPolicy):  # type: ignore[misc]
    """CrossQ's policy under limits."""

    Actor = BatchNormActor


class _Limited(_LimitedAlgorithm):
    """Warm-up, exploration and set-up under limits, by the checks of ``slewrl.integrations.sb3``."""

    def _env_limits(self, env: Any) -> RateLimits:
        if isinstance(env.observation_space, spaces.Dict):
            raise ValueError(f"observations are a Dict, expected flat ones, in which {VELOCITY!r} has its place")
        return super()._env_limits(env)

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the model as SBX does; there is no export of it yet."""
        OffPolicyAlgorithmJax.save(self, *args, **kwargs)

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        policy: Any = self.policy
        obs, _ = policy.prepare_obs(self._last_obs)
        if self.num_timesteps < learning_starts:
            action = policy.random(obs)
        else:
            action = policy.decide(obs, True, 0.0 if action_noise is None else np.asarray(action_noise(), np.float32))
        return np.array(action), np.array(shares(action, policy.limits))


class SAC(_Limited, sbx.SAC):  # type: ignore[misc]
    """SBX's SAC under rate limits; see the module."""

    policy_aliases: ClassVar[Any] = {"MlpPolicy": SACPolicy}


class CrossQ(_Limited, sbx.CrossQ):  # type: ignore[misc]
    """SBX's CrossQ under rate limits; see the module."""

    policy_aliases: ClassVar[Any] = {"MlpPolicy": CrossQPolicy}
