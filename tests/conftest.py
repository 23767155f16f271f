import os

# oneDNN as torch 2.13 has it cannot multiply some bfloat16 matrices on processors with AMX ("could not create a
# primitive"); it reads this once, before torch is there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import pytest
import torch

from slewrl import RateLimits
from slewrl.audit import paper_limits, random_limits

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def limits_family() -> dict[str, RateLimits]:
    """Limits every guarantee is tried on: the paper's tasks and robots, and random asymmetric ones."""
    return {**paper_limits(), "random": random_limits()}
