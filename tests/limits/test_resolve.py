"""Limits as a user writes them: each way is read the same wherever limits are taken."""

from pathlib import Path

import gymnasium as gym
import pytest

from slewrl import RateLimit, RateLimits
from slewrl.commands.limits import Limits
from slewrl.limits.resolve import resolve_limits
from slewrl.training.setup import load_limits

LIMITS = RateLimits.preset("Pendulum-v1", "tight")


@pytest.fixture
def written(tmp_path):
    LIMITS.to_yaml(tmp_path / "limits.yaml")
    (tmp_path / "short.YML").write_bytes((tmp_path / "limits.yaml").read_bytes())
    return tmp_path


def wrapped(given):
    return RateLimit(gym.make("Pendulum-v1"), given).limits


def test_every_way_is_read_wherever_limits_are_taken(written):
    for name in ("limits.yaml", "short.YML"):
        for path in (written / name, str(written / name)):
            assert resolve_limits(path) == wrapped(path) == LIMITS
        assert load_limits("Pendulum-v1", str(path)) == Limits(source=str(path)).load()[0] == LIMITS
    assert resolve_limits("Pendulum-v1:tight") == Limits(source="Pendulum-v1:tight").load()[0] == LIMITS
    assert wrapped("tight") == load_limits("Pendulum-v1", "tight") == LIMITS
    assert resolve_limits(LIMITS) is LIMITS and wrapped(LIMITS) is LIMITS
    assert wrapped(0.5).delta.tolist() == wrapped({"pivot": 0.5}).delta.tolist() == [0.5]
    assert resolve_limits(0.5, numbers=lambda rate: RateLimits(rate, -2, 2)).delta.tolist() == [0.5]


@pytest.mark.parametrize("take", [resolve_limits, wrapped, lambda given: load_limits("Pendulum-v1", str(given))])
def test_what_cannot_be_read_is_refused_by_name(written, take):
    with pytest.raises(FileNotFoundError, match=r"limits: there is no file '.*nowhere.yaml' .slewrl limits writes"):
        take(written / "nowhere.yaml")
    (written / "limits.txt").write_text("")
    with pytest.raises(ValueError, match=r"is the file '.*limits.txt', expected a name that ends in .yaml"):
        take(written / "limits.txt")
    (written / "deep.yaml").write_text("joints: " + "[" * 5000)
    with pytest.raises(ValueError, match="nested too deeply"):
        take(written / "deep.yaml")


def test_nobody_knows_the_range_of_a_number():
    with pytest.raises(ValueError, match=r"limits are 0.5, expected RateLimits, a limits.yaml, or TASK:PRESET"):
        resolve_limits(0.5)
    with pytest.raises(ValueError, match="limits are 'paper', expected TASK:PRESET such as 'G1:paper'"):
        resolve_limits("paper")


def test_one_place_tells_files_by_their_ending():
    source = Path(resolve_limits.__code__.co_filename).parents[1]
    asking = [path for path in source.rglob("*.py") if '".yml"' in path.read_text() and "campaign" not in path.parts]
    assert [path.name for path in asking] == ["files.py"]
