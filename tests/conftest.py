import os
import sys

# oneDNN as torch 2.13 has it cannot multiply some bfloat16 matrices on processors with AMX ("could not create a
# primitive"); it reads this once, before torch is there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

from types import SimpleNamespace

import pytest
import torch

from slewrl import RateLimits
from slewrl.cli import main
from slewrl.layers.audit import paper_limits, random_limits

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def limits_family() -> dict[str, RateLimits]:
    """Limits every guarantee is tried on: the paper's tasks and robots, and random asymmetric ones."""
    return {**paper_limits(), "random": random_limits()}


@pytest.fixture
def slewrl(monkeypatch, tmp_path, capsys):
    """Run the command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["slewrl", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        streams = capsys.readouterr()
        return SimpleNamespace(returncode=stop.value.code or 0, stdout=streams.out, stderr=streams.err)

    return run
