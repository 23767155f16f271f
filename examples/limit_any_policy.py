"""Any policy, kept within its rate limits by the last line before the motors.

python examples/limit_any_policy.py
"""

from pathlib import Path

import numpy as np

from slewrl.deploy.limiter import RateLimiter  # numpy and pyyaml, no torch
from slewrl.limits import boxmath

limiter = RateLimiter.from_yaml(Path(__file__).with_name("leg_limits.yaml"))  # from slewrl limits leg.urdf ...
pose, policy = np.zeros(5), np.random.default_rng(0)  # what the encoders say; whatever you have for a policy

limiter.start(pose)
broken, finite = 0, True
for t in range(1000):
    target = policy.normal(0.0, 2.0, 5) if t % 100 else np.full(5, np.nan)
    # Before: command = np.clip(target, prev - vmax * dt, prev + vmax * dt), which rounds outward and passes NaN on.
    prev = limiter.prev
    command = limiter.step(target)
    broken += int(boxmath.outside(command, prev, limiter.down, limiter.up, limiter.low, limiter.high).sum())
    finite &= bool(np.isfinite(command).all())

print(f"{1000 * 5:,} joint commands, {broken} beyond a limit; {limiter.nans} NaN held; finite: {finite}")
