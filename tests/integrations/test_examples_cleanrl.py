"""The single-file script: what it prints, and what really reached Pendulum's own step."""

import re
import runpy
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control.pendulum import PendulumEnv

from slewrl import RateLimits, make_layer
from slewrl.envs.augment import AugmentVector

SCRIPT = Path(__file__).parents[2] / "examples" / "06_cleanrl_sac.py"
LIMITS = RateLimits.preset("Pendulum-v1", "tight")
LAST = re.compile(r"(?P<steps>[\d,]+) steps, (?P<episodes>\d+) episodes, (?P<violations>\d+) violations")


@pytest.fixture
def handed(monkeypatch):
    """Every chain of actions of every Pendulum, from the reset action on."""
    chains, step, reset = [], PendulumEnv.step, PendulumEnv.reset

    def watched_reset(env, **options):
        env.chain = [np.zeros(1, np.float32)]
        chains.append(env.chain)
        return reset(env, **options)

    def watched_step(env, action):
        env.chain.append(np.array(action))
        return step(env, action)

    monkeypatch.setattr(PendulumEnv, "reset", watched_reset)
    monkeypatch.setattr(PendulumEnv, "step", watched_step)
    return chains


def run(monkeypatch, tmp_path, capsys, **options):
    arguments = {"env-id": "Pendulum-v1", "batch-size": 16, **options}
    words = [word for key, value in arguments.items() for word in (f"--{key}", str(value))]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")  # TensorBoard's
@pytest.mark.parametrize(("layer", "count"), [("ddsrad", 1), ("boxpre", 2)])
def test_a_short_run_never_breaks_a_limit(layer, count, handed, monkeypatch, tmp_path, capsys):
    """200 steps of warm-up and 250 of the policy, over the end of an episode."""
    options = {"total-timesteps": 450, "learning-starts": 200, "num-envs": count, "layer": layer}
    printed = run(monkeypatch, tmp_path, capsys, **options)
    said = LAST.search(printed)
    assert (said["steps"], said["episodes"], said["violations"]) == ("450", "2", "0")
    assert "SPS:" in printed and "episodic_return=" in printed
    played = [np.stack(chain) for chain in handed if len(chain) > 1]
    assert sum(len(chain) - 1 for chain in played) == 450
    assert sum(LIMITS.outside(chain[1:], chain[:-1]).sum() for chain in played) == 0
    moves = np.concatenate([np.abs(np.diff(chain, axis=0)) for chain in played])
    assert moves.max() > 0.35  # of 0.4: it does move
    assert list(tmp_path.glob("runs/*/events*"))


def test_it_is_one_file_of_the_promised_size():
    lines = SCRIPT.read_text().splitlines()
    assert len(lines) < 275
    imported = {line.split()[1] for line in lines if re.match(r"(from|import) slewrl", line)}
    assert imported == {"slewrl", "slewrl.envs.augment"}


def test_the_eight_lines_of_the_page_keep_an_acceleration_limit_too():
    """Warm-up and a random actor over the ends of episodes, by what AugmentVector shows."""
    limits = RateLimits(**RateLimits.preset("Hopper-v5", "tight")._parts() | {"acceleration": "0.02"})
    layer, uses = make_layer("ddsrad"), []
    mode = gym.vector.AutoresetMode.SAME_STEP
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("Hopper-v5", max_episode_steps=30)] * 2, autoreset_mode=mode)
    envs = AugmentVector(envs, limits)
    obs, _ = envs.reset(seed=0)
    for t in range(100):
        box = limits.box_after(torch.Tensor(obs))
        zero, one = torch.zeros(2, 3), torch.ones(2, 3)
        latent = layer.sample(zero, 2 * one, torch.randn(2, 3), box)[0].executed
        obs, _, _, _, info = envs.step((box.sample() if t < 30 else latent).numpy())
        uses += [use for use in info.get("rate_use", ()) if use is not None]
    assert len(uses) >= 6 and sum(use.violations for use in uses) == 0
