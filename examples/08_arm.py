"""An arm with acceleration limits, from its maker's numbers to commands: limits, training, export, check, controller.

pip install "slewrl[onnx]"
python examples/08_arm.py [STEPS]       (600 shows the machinery; 20 000 learn the task)
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from slewrl import RateLimits
from slewrl.deploy.controller import Controller

here, steps = Path(__file__).parent, sys.argv[1] if len(sys.argv) > 1 else "600"
sys.path.insert(0, str(here))
import panda  # noqa: E402  the arm in MuJoCo, as a Gymnasium task; on the robot, the robot

work = Path(tempfile.mkdtemp())
for command in (
    f"limits panda_joint_limits.yaml --dt 0.02 --safety 0.9 --out {work}/limits.yaml",
    f"train --task panda:PandaReach-v0 --limits {work}/limits.yaml --steps {steps} --learning-starts 300 "
    f"--out {work}/run",
    f"export {work}/run --out {work}/policy.bundle --trust",
    f"check {work}/policy.bundle --steps 2000",
):
    subprocess.run([sys.executable, "-m", "slewrl", *command.split()], check=True, cwd=here)

limits = RateLimits.from_yaml(work / "limits.yaml")
arm, controller = panda.PandaReach(), Controller(work / "policy.bundle")
observation, _ = arm.reset(seed=0)
controller.start(panda.HOME)
before = prev = controller.prev
broken, speed, acceleration = 0, 0.0, 0.0
for t in range(500):
    command = controller.step(observation if t % 50 else np.full_like(observation, np.nan))
    broken += int(limits.outside(command, prev, before).sum())
    speed = max(speed, (np.abs(command - prev) / limits.delta).max())
    acceleration = max(acceleration, (np.abs(command - 2 * prev + before) / limits.acceleration).max())
    before, prev, observation = prev, command, arm.step(command)[0]
print(
    f"at most {speed:.0%} of a speed and {acceleration:.0%} of an acceleration limit; {broken} of 3,500 commands beyond"
)
