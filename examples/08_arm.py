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
    f"train --task panda:PandaReach-v0 --limits {work}/limits.yaml --steps {steps} --learning-starts 300 --out {work}/run",
    f"export {work}/run --out {work}/policy.bundle --trust",
    f"check {work}/policy.bundle --steps 2000",
):
    subprocess.run([sys.executable, "-m", "slewrl", *command.split()], check=True, cwd=here)

limits, arm, controller = RateLimits.from_yaml(work / "limits.yaml"), panda.PandaReach(), Controller(work / "policy.bundle")
observation, _ = arm.reset(seed=0)
controller.start(panda.HOME)
before = prev = controller.prev
broken, fastest, sharpest = 0, 0.0, 0.0
for t in range(500):
    command = controller.step(observation if t % 50 else np.full_like(observation, np.nan))
    broken += int(limits.outside(command, prev, before).sum())
    fastest = max(fastest, np.abs(command - prev)[0] / panda.DT)
    sharpest = max(sharpest, np.abs(command - 2 * prev + before)[0] / panda.DT**2)
    before, prev, observation = prev, command, arm.step(command)[0]
print(f"joint 1: at most {fastest:.2f} rad/s and {sharpest:.1f} rad/s^2; {broken} of 3,500 commands beyond a limit")
