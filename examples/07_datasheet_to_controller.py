"""From a URDF to commands for the motors: limits, training, export, an exact check, and the controller in a loop.

pip install "slewrl[onnx]"
python examples/07_datasheet_to_controller.py [STEPS]       (800 shows the machinery; 20 000 learn the task)
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from slewrl import RateLimits
from slewrl.deploy.controller import Controller

here, steps = Path(__file__).parent, sys.argv[1] if len(sys.argv) > 1 else "800"
sys.path.insert(0, str(here))
import leg  # noqa: E402  a leg in MuJoCo, as a Gymnasium task; on the robot, the robot

work = Path(tempfile.mkdtemp())
# 1. velocity * dt * safety of each joint, rounded down, from the datasheet's decimals
limits = RateLimits.from_urdf(here / "leg.urdf", dt="0.02", safety="0.9", joints=leg.JOINTS)
limits.to_yaml(work / "limits.yaml")
print({name: round(float(step), 4) for name, step in zip(limits.names, limits.delta, strict=True)}, "rad per step")

# 2. train under them, 3. put the policy into one file, 4. try that file as the robot will use it
for command in (
    f"train --task leg:Leg-v0 --limits {work}/limits.yaml --steps {steps} --learning-starts 500 --out {work}/run",
    f"export {work}/run --out {work}/policy.bundle --trust",
    f"check {work}/policy.bundle --steps 2000",
):
    subprocess.run([sys.executable, "-m", "slewrl", *command.split()], check=True, cwd=here)

# 5. the robot: whatever the observation, the command is within the limits of the last one
robot, controller = leg.Leg(), Controller(work / "policy.bundle")
observation, _ = robot.reset(seed=0)
controller.start(robot.data.qpos)
broken, prev = 0, robot.data.qpos.copy()
for t in range(500):
    command = controller.step(observation if t % 50 else np.full_like(observation, np.nan))
    broken += int(limits.outside(command, prev).sum())
    prev, observation = command, robot.step(command)[0]
print(f"500 steps, {controller.bad_observations} of them blind: {broken} commands beyond a limit")
