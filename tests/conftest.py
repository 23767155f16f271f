import pytest
import torch

from slewrl import RateLimits
from slewrl.audit import paper_limits, random_limits

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def limits_family() -> dict[str, RateLimits]:
    """Limits every guarantee is tried on: the paper's tasks and robots, and random asymmetric ones."""
    return {**paper_limits(), "random": random_limits()}
