"""A policy at 50 Hz and drives at 1 kHz: the fast loop has limits of its own, and brakes for the policy's target.

python examples/inner_loop.py
"""

import numpy as np

from slewrl import RateLimits
from slewrl.deploy.limiter import RateLimiter

ARM = {"names": ["shoulder", "elbow"], "low": -2.8, "high": 2.8, "units": "rad", "acceleration": [15, 7.5]}  # rad/s^2
SPEED = np.array([2.175, 2.61])  # rad/s
slow = RateLimits(SPEED * 0.02, dt=0.02, **ARM)  # what the policy was trained with
fast = RateLimits(SPEED * 0.001, dt=0.001, **ARM)  # the same robot, 20 times as often

policy, drive = RateLimiter(slow), RateLimiter(fast)  # the first stands in for a Controller, whose commands it gives
for limiter in (policy, drive):
    limiter.start([0.0, 0.5])

path, targets, goal = [drive.prev], [], np.array([1.2, -0.7])
for t in range(150):  # 3 s
    if t == 50:
        goal = np.array([-0.3, 0.9])  # it changes its mind on the way
    target = policy.step(goal)  # every 20 ms: Controller.step(observation)
    targets.append(target)
    path += [drive.step(target) for _ in range(20)]  # every 1 ms, to the drives

path = np.array(path)
broken = int(fast.outside(path[1:], path[:-1], np.vstack([path[:1], path[:-2]])).sum())
beyond = max(path[:, 0].max() - np.max(targets, 0)[0], np.min(targets, 0)[1] - path[:, 1].min())
print(f"{path[1:].size:,} commands to drives, {broken} beyond a limit; overshoot {max(beyond, 0):.6f} rad")
print(f"at rest {np.abs(path[-1] - goal).max():.6f} rad from the goal, as fast as {np.abs(drive.velocity).max():.6f}")
