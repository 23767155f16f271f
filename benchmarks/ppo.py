"""PPO: environment steps per CPU-second beside Stable-Baselines3's and rsl_rl's, on the same task and settings.

    python benchmarks/ppo.py
    python benchmarks/ppo.py --environments 1 --rounds 5

Stable-Baselines3's defaults for all: 2 048 steps of each environment, then 10 epochs in minibatches of 64, networks of
two layers of 64 with tanh. One core, a process for each, which take turns, a rollout and its update at a time, so that
a machine's mood falls on all of them; CPU time, the median over turns, without evaluations and checkpoints. Ours sees
the previous action, too (23 numbers on HalfCheetah-v5, not 17), and audits every step; with ``none`` it is unlimited as
the peers are, with ``ddsrad`` it pays for the layer and its penalty. A library that is not installed has no row.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import importlib.util
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import Trainer

MINIBATCH, EPOCHS = 64, 10
Turn = Callable[[], None]
"""One rollout and its update."""


@dataclass(frozen=True)
class Bench:
    """What to run."""

    task: str = "HalfCheetah-v5"
    """Of Gymnasium, with a preset."""
    environments: tuple[int, ...] = (1, 8)
    rollout: int = 2048
    """Steps of each environment in a turn."""
    rounds: int = 3
    """Turns each contender gets, after one that does not count."""
    write: Path | None = None
    """Markdown file to write the table to."""


def slewrl_turn(layer: str, task: str, environments: int, rollout: int, folder: Path) -> Turn:
    """Our own training loop."""
    options = {"rollout": rollout, "minibatch": MINIBATCH, "epochs": EPOCHS}
    spec = RunSpec(task, agent="ppo", layer=layer, environments=environments, agent_options=options)
    trainer = Trainer(spec, RunFolder(folder))

    def turn() -> None:
        for _ in range(rollout):
            trainer.advance()

    return turn


def sb3_turn(task: str, environments: int, rollout: int) -> Turn:
    """Stable-Baselines3."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    worlds = make_vec_env(task, environments, seed=0)
    model = PPO("MlpPolicy", worlds, n_steps=rollout, batch_size=MINIBATCH, n_epochs=EPOCHS, seed=0, device="cpu")
    return lambda: model.learn(rollout * environments, reset_num_timesteps=False, log_interval=None) and None


def rsl_rl_turn(task: str, environments: int, rollout: int) -> Turn:
    """rsl_rl 5.x."""
    from rsl_rl.runners import OnPolicyRunner
    from tensordict import TensorDict

    class VecEnv:
        """Gymnasium environments as rsl_rl wants them."""

        device, cfg = "cpu", {}

        def __init__(self) -> None:
            self.envs = [gym.make(task) for _ in range(environments)]
            self.num_envs, self.num_actions = environments, self.envs[0].action_space.shape[0]
            self.max_episode_length = self.envs[0].spec.max_episode_steps
            self.episode_length_buf = torch.zeros(environments, dtype=torch.long)
            self.low, self.high = self.envs[0].action_space.low, self.envs[0].action_space.high
            self.seen = np.stack([env.reset(seed=k)[0] for k, env in enumerate(self.envs)])

        def get_observations(self) -> Any:
            return TensorDict({"policy": torch.from_numpy(self.seen.astype(np.float32))}, [environments])

        def step(self, actions: Any) -> Any:
            bounded = np.clip(actions.numpy(), self.low, self.high)
            rewards, over, late = (torch.zeros(environments) for _ in range(3))
            for k, env in enumerate(self.envs):
                self.seen[k], rewards[k], terminated, truncated, _ = env.step(bounded[k])
                over[k], late[k] = terminated or truncated, truncated
                if terminated or truncated:
                    self.seen[k] = env.reset()[0]
            return self.get_observations(), rewards, over, {"time_outs": late}

    net = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "tanh", "obs_normalization": False}
    spread = {"class_name": "GaussianDistribution", "init_std": 1.0}
    algorithm = {
        "class_name": "PPO", "rnd_cfg": None, "num_learning_epochs": EPOCHS, "learning_rate": 3e-4, "gamma": 0.99,
        "num_mini_batches": rollout * environments // MINIBATCH, "schedule": "fixed", "lam": 0.95, "clip_param": 0.2,
        "entropy_coef": 0.0, "value_loss_coef": 0.5, "max_grad_norm": 0.5, "use_clipped_value_loss": False,
    }  # fmt: skip
    config = {
        "num_steps_per_env": rollout, "save_interval": 10**9, "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "algorithm": algorithm, "actor": {**net, "distribution_cfg": spread}, "critic": net,
    }  # fmt: skip
    runner = OnPolicyRunner(VecEnv(), config, None, "cpu")
    return lambda: runner.learn(1)


# ---------------------------------------------------------------------- the table


def contender(pipe: Any, make: str, arguments: tuple[Any, ...]) -> None:
    """A process that makes a turn whenever it is told to, and answers with the CPU time it took."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # rsl_rl prints a page a turn
        turn = globals()[make](*arguments, *([Path(folder)] if make == "slewrl_turn" else []))
        while pipe.recv():
            begun = time.process_time()
            turn()
            pipe.send(time.process_time() - begun)


def measure(environments: int, bench: Bench) -> dict[str, float]:
    """Environment steps per CPU-second, by contender."""
    setting = (bench.task, environments, bench.rollout)
    makers: dict[str, tuple[str, tuple[Any, ...]]] = {
        "slewrl, none": ("slewrl_turn", ("none", *setting)),
        "slewrl, ddsrad": ("slewrl_turn", ("ddsrad", *setting)),
        "Stable-Baselines3": ("sb3_turn", setting),
        "rsl_rl": ("rsl_rl_turn", setting),
    }
    needs = {"Stable-Baselines3": "stable_baselines3", "rsl_rl": "rsl_rl"}
    makers = {name: m for name, m in makers.items() if name not in needs or importlib.util.find_spec(needs[name])}
    context, pipes = multiprocessing.get_context("spawn"), {}
    for name, (make, arguments) in makers.items():
        pipes[name], theirs = context.Pipe()
        context.Process(target=contender, args=(theirs, make, arguments), daemon=True).start()
        theirs.close()  # so that ours ends with the process, should it die
    seconds: dict[str, list[float]] = {name: [] for name in pipes}
    for _ in range(1 + bench.rounds):
        for name, pipe in pipes.items():
            pipe.send(True)
            seconds[name].append(pipe.recv())
    for pipe in pipes.values():
        pipe.send(False)
    return {name: environments * bench.rollout / median(turns[1:]) for name, turns in seconds.items()}


def main(bench: Bench) -> None:
    """Run, print, and write if asked."""
    rows = []
    for environments in bench.environments:
        rates = measure(environments, bench)
        peer = rates.get("Stable-Baselines3")
        ratios = {name: f"{rate / peer:.2f}x" if peer else "-" for name, rate in rates.items()}
        rows += [[str(environments), name, f"{rate:,.0f}", ratios[name]] for name, rate in rates.items()]
    head = ["environments", "PPO of", "steps per CPU-second", "vs Stable-Baselines3"]
    table = Table(*head, title=f"{bench.task}, {bench.rollout} steps of each environment per update")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    if bench.write:
        lines = ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows]]
        bench.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(tyro.cli(Bench, description=__doc__))
