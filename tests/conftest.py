import pytest
import torch

from slewrl import RateLimits
from slewrl.audit import random_limits

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def limits_family() -> dict[str, RateLimits]:
    """Limits every guarantee is tried on: the paper's tasks and robots, and random asymmetric ones."""
    tasks = ["Ant-v5", "Humanoid-v5", "HalfCheetah-v5", "Hopper-v5"]
    family = {task: RateLimits.preset(task, "tight") for task in tasks}
    family |= {robot: RateLimits.preset(robot, "paper") for robot in ("H1", "G1")}
    return family | {"random": random_limits()}
