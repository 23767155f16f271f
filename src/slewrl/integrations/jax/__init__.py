"""Rate limits in JAX: the feasible box and its layers as pure functions, for jit, vmap, grad and scan.

    from slewrl.integrations import jax as limited

    box = limited.box(limits, prev)                                    # F_t
    action = limited.ddsrad(latent, box)                               # executed, judged, log_det, penalty
    action, log_prob = limited.sample("ddsrad", mean, std, noise, box)
    env = limited.RateLimitWrapper(env, limits)                        # Brax and MuJoCo Playground

A ``slewrl.RateLimits`` is a pytree without leaves: it goes into jitted functions, states and scans as it is, compiled
in as a constant, and no cast of a tree can widen it. docs/integrations/jax.md says what a compiler might have broken.
"""

from slewrl.errors import UserFacingError

try:
    import jax  # noqa: F401
except ImportError as error:
    raise UserFacingError(f'JAX cannot be imported ({error}): pip install "slewrl[jax]"') from error

from slewrl.integrations.jax.box import Box, box
from slewrl.integrations.jax.env import RateLimitWrapper
from slewrl.integrations.jax.layers import (
    LAYERS,
    Action,
    boxpro,
    clip,
    ddsrad,
    dtanh,
    interval_srad,
    interval_tanh,
    make_layer,
    random,
    sample,
)

__all__ = [
    "LAYERS",
    "Action",
    "Box",
    "RateLimitWrapper",
    "box",
    "boxpro",
    "clip",
    "ddsrad",
    "dtanh",
    "interval_srad",
    "interval_tanh",
    "make_layer",
    "random",
    "sample",
]
