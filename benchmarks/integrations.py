"""Exact violations at `env.step`, of every integration and of the same library's stock code with a clip by hand.

    python -W ignore benchmarks/integrations.py --steps 100000 --csv violations.csv        # a quarter of an hour

Every action is recorded where it enters HalfCheetah-v5 itself, inside all wrappers, and judged in exact arithmetic.
A run has warm-up, exploration and updates (seldom ones: this is about actions, not about learning), resets, saving and
loading half-way, and evaluation. The hand-written clip is the usual float32 one: clip(a, prev - delta, prev + delta).
mjlab's action term has its own environment: examples/05_rsl_rl.py counts there, at the actuators.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import copy
import runpy
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import stable_baselines3 as sb3
import torch
import tyro
from rich.console import Console
from rich.table import Table
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv
from tensordict import TensorDict
from tensordict.nn import InteractionType, TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import CatTensors, Compose, DoubleToFloat, GymWrapper, Transform, TransformedEnv
from torchrl.modules import (
    MLP,
    AdditiveGaussianModule,
    NormalParamExtractor,
    ProbabilisticActor,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import SACLoss

from slewrl import RateLimit, RateLimits, RateLimitVector
from slewrl.integrations import sb3 as limited
from slewrl.integrations.rsl_rl import RateLimitedVecEnv
from slewrl.integrations.torchrl import RateLimitedNormal, RateLimitTransform

TASK = "HalfCheetah-v5"
LIMITS = RateLimits.preset(TASK, "tight")
DELTA = LIMITS.delta.astype(np.float32)
SELDOM = {"train_freq": 16, "gradient_steps": 1, "learning_starts": 5_000, "policy_kwargs": {"net_arch": [64, 64]}}


@dataclass(frozen=True)
class Bench:
    """What to run."""

    steps: int = 100_000
    """Of each run."""
    only: tuple[str, ...] = ()
    """Rows whose name holds one of these; all by default."""
    csv: Path | None = None
    """Where to write the rows to; those of another run stay."""


class Ledger(gym.Wrapper):
    """Judges what reaches the environment."""

    steps = violations = 0

    def reset(self, **options):
        self.prev = np.zeros(6, np.float32)
        return self.env.reset(**options)

    def step(self, action):
        Ledger.steps += 1
        Ledger.violations += int(LIMITS.outside(action, self.prev).any())
        self.prev = np.array(action)
        return self.env.step(action)


class ByHand(gym.Wrapper):
    """The clip people write."""

    def reset(self, **options):
        self.prev = np.zeros(6, np.float32)
        return self.env.reset(**options)

    def step(self, action):
        self.prev = np.clip(np.clip(action, self.prev - DELTA, self.prev + DELTA), -1, 1)
        return self.env.step(self.prev)


def base() -> gym.Env[Any, Any]:
    return Ledger(gym.make(TASK))


def noise() -> NormalActionNoise:
    return NormalActionNoise(np.zeros(6), np.ones(6))


def halves(make: Callable[[], Any], load: Callable[[Path], Any], steps: int) -> None:
    """Learn, save, load, learn on, evaluate."""
    with tempfile.TemporaryDirectory() as folder:
        model = make().learn(steps // 2)
        model.save(Path(folder) / "model.zip")
        model = load(Path(folder) / "model.zip")
        model.learn(steps - steps // 2, reset_num_timesteps=False)
        evaluate_policy(model, model.get_env(), 1)


def eight(wrap: Callable[[Any], Any]) -> DummyVecEnv:
    return DummyVecEnv([lambda: Monitor(wrap(base()))] * 8)


def off_policy(kind: Any, wrap: Callable[[Any], Any], steps: int, **options: Any) -> None:
    env = eight(wrap)
    made = {**SELDOM, "policy_kwargs": dict(SELDOM["policy_kwargs"]), **options}
    halves(lambda: kind("MlpPolicy", env, seed=0, **made), lambda path: kind.load(path, env=env), steps)


def on_policy(wrap: Callable[[Any], Any], steps: int) -> None:
    env = eight(wrap)
    options = {"n_steps": 256, "n_epochs": 1, "batch_size": 512, "policy_kwargs": {"net_arch": [64, 64]}}
    halves(lambda: sb3.PPO("MlpPolicy", env, seed=0, **options), lambda path: sb3.PPO.load(path, env=env), steps)


def drawn(wrap: Callable[[Any], Any], steps: int) -> None:
    """No agent at all: actions far outside, NaN and infinities among them."""
    env, rng = wrap(base()), np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(steps):
        action = 3 * rng.standard_normal(6).astype(np.float32)
        action[rng.random(6) < 0.01] = np.nan if rng.random() < 0.5 else np.inf
        *_, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()


def vector(steps: int) -> None:
    venv = gym.vector.SyncVectorEnv([base] * 8)
    env, rng = RateLimitVector(venv, LIMITS), np.random.default_rng(0)
    env.reset(seed=0)
    # The step after an episode's last resets, and executes nothing.
    for _ in range(steps // 8 + steps // 8_000 + 1):
        env.step(rng.standard_normal((8, 6)).astype(np.float32))


def absolute(env: Any) -> RateLimit:
    return RateLimit(env, LIMITS, mode="absolute")


def sbx(kind: str, stock: bool, steps: int) -> None:
    """Needs the extra `sbx`, which the other rows do not."""
    import sbx as library

    from slewrl.integrations import sbx as ours

    off_policy(getattr(library if stock else ours, kind), ByHand if stock else absolute, steps, action_noise=noise())


# ---------------------------------------------------------------------- TorchRL


class ClipTransform(Transform):
    """The clip people write, as a transform."""

    def __init__(self) -> None:
        super().__init__(in_keys_inv=["action"], out_keys_inv=["action"])

    def _reset(self, tensordict, tensordict_reset):
        self.prev = torch.zeros(6)  # all episodes end together
        return tensordict_reset

    _reset_on_native_autoreset = _reset

    def _inv_call(self, tensordict):
        reach = torch.from_numpy(DELTA)
        self.prev = tensordict["action"].clamp(self.prev - reach, self.prev + reach).clamp(-1, 1)
        return tensordict.set("action", self.prev)


def torchrl(stock: bool, steps: int) -> None:
    """A collector with random frames first, then a policy under exploration noise; SACLoss now and then."""
    torch.manual_seed(0)
    joined = CatTensors(["observation", "previous_action"], "observation", del_keys=False)
    ours = [ClipTransform()] if stock else [RateLimitTransform(LIMITS), joined]
    same = gym.vector.AutoresetMode.SAME_STEP
    cheetahs = GymWrapper(gym.vector.SyncVectorEnv([base] * 8, autoreset_mode=same))
    Ledger.steps = Ledger.violations = 0  # to learn the specs TorchRL takes random steps, before any transform is there
    env = TransformedEnv(cheetahs, Compose(*ours, DoubleToFloat()), auto_unwrap=False)
    replay = TensorDictReplayBuffer(storage=LazyTensorStorage(20_000), batch_size=64)
    weights: dict[str, Any] = {}
    for half in (steps // 2, steps - steps // 2):
        net = torch.nn.Sequential(MLP(17 if stock else 23, 12, num_cells=[64, 64]), NormalParamExtractor())
        net.load_state_dict(weights or net.state_dict())  # the second half begins with what the first saved
        actor = ProbabilisticActor(
            TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
            in_keys=["loc", "scale"] if stock else ["loc", "scale", "previous_action"],
            distribution_class=TanhNormal if stock else RateLimitedNormal,
            distribution_kwargs={} if stock else {"limits": LIMITS},
            default_interaction_type=InteractionType.RANDOM,
        )
        critic = ValueOperator(MLP(23 if stock else 29, 1, num_cells=[64, 64]), in_keys=["observation", "action"])
        loss = SACLoss(actor, critic, target_entropy=-6.0)
        optimiser = torch.optim.Adam(loss.parameters(), lr=3e-4)
        noise = AdditiveGaussianModule(env.action_spec, sigma_init=1.0, sigma_end=1.0)
        policy = TensorDictSequential(actor, noise)
        for data in Collector(env, policy, frames_per_batch=1000, total_frames=half, init_random_frames=half // 10):
            replay.extend(data.reshape(-1))
            losses = loss(replay.sample())
            (losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_alpha"]).backward()
            optimiser.step()
            optimiser.zero_grad()
        weights = net.state_dict()


# ---------------------------------------------------------------------- rsl_rl


class Cheetahs(VecEnv):
    """Eight of them, as rsl_rl wants them."""

    num_envs, num_actions, max_episode_length, device, cfg = 8, 6, 1000, "cpu", {}

    def __init__(self, wrap: Callable[[Any], Any] = lambda env: env) -> None:
        same = gym.vector.AutoresetMode.SAME_STEP
        self.envs = gym.vector.SyncVectorEnv([lambda: wrap(base())] * 8, autoreset_mode=same)
        self.episode_length_buf = torch.zeros(8, dtype=torch.long)
        self.reset()

    def reset(self) -> tuple[Any, dict[str, Any]]:
        self.seen, _ = self.envs.reset(seed=0)
        return self.get_observations(), {}

    def get_observations(self) -> Any:
        return TensorDict({"policy": torch.from_numpy(self.seen).float()}, [8])

    def step(self, actions: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor, dict[str, Any]]:
        self.seen, reward, terminated, truncated, _ = self.envs.step(actions.numpy())
        over = torch.from_numpy(terminated | truncated)
        self.episode_length_buf = torch.where(over, 0, self.episode_length_buf + 1)
        return self.get_observations(), torch.from_numpy(reward).float(), over, {"time_outs": over}


def rsl_rl(stock: bool, steps: int) -> None:
    torch.manual_seed(0)
    env: Any = Cheetahs(ByHand) if stock else RateLimitedVecEnv(Cheetahs(), LIMITS)
    here, seen = "slewrl.integrations.rsl_rl:RateLimited", ["policy"] if stock else ["policy", "previous_action"]
    net = {"hidden_dims": [64, 64], "activation": "elu", "obs_normalization": True}
    noise = {"class_name": "GaussianDistribution", "init_std": 1.0}
    cfg = {
        "num_steps_per_env": 64,
        "save_interval": 10**6,
        "obs_groups": {"actor": seen, "critic": seen},
        "algorithm": {"class_name": "PPO" if stock else f"{here}PPO", "rnd_cfg": None, "num_learning_epochs": 1},
        "actor": {"class_name": "MLPModel" if stock else f"{here}Actor", **net, "distribution_cfg": noise},
        "critic": {"class_name": "MLPModel" if stock else f"{here}Critic", **net},
    }
    half, sink = -(-steps // (2 * 64 * 8)), open(os.devnull, "w")  # noqa: SIM115
    with tempfile.TemporaryDirectory() as folder, sink:
        printed, sys.stdout = sys.stdout, sink
        try:
            runner = OnPolicyRunner(env, copy.deepcopy(cfg), None, "cpu")
            runner.learn(half)
            runner.save(f"{folder}/model.pt")
            runner = OnPolicyRunner(env, copy.deepcopy(cfg), None, "cpu")
            runner.load(f"{folder}/model.pt")
            runner.learn(half)
        finally:
            sys.stdout = printed


# ---------------------------------------------------------------------- CleanRL style


def cleanrl(stock: bool, steps: int) -> None:
    """Our script; ``stock`` is the same with its tanh instead of a layer, and the clip in the environment."""
    gym.register("Watched-v0", lambda: (ByHand if stock else gym.Wrapper)(base()))
    with tempfile.TemporaryDirectory() as folder:
        LIMITS.to_yaml(Path(folder) / "limits.yaml")
        said = {"env-id": "Watched-v0", "limits": f"{folder}/limits.yaml", "layer": "none" if stock else "ddsrad"}
        said |= {"total-timesteps": steps, "num-envs": 8, "batch-size": 32, "buffer-size": 20_000}
        script, before, here = Path(__file__).parents[1] / "examples" / "06_cleanrl_sac.py", sys.argv, os.getcwd()
        sys.argv = [str(script), *(str(word) for key, value in said.items() for word in (f"--{key}", value))]
        os.chdir(folder)
        try:
            runpy.run_path(str(script), run_name="__main__")
        finally:
            sys.argv = before
            os.chdir(here)


ROWS: dict[str, Callable[[int], None]] = {
    "Gymnasium, latent, wild actions": lambda n: drawn(lambda env: RateLimit(env, LIMITS), n),
    "Gymnasium, absolute, wild actions": lambda n: drawn(absolute, n),
    "  by hand, the same actions": lambda n: drawn(ByHand, n),
    "Gymnasium, 8 environments": vector,
    "SB3 PPO, latent wrapper": lambda n: on_policy(lambda env: RateLimit(env, LIMITS, bound=4.0), n),
    "  stock PPO, clip by hand": lambda n: on_policy(ByHand, n),
    "SB3 SAC, our policy": lambda n: off_policy(limited.SAC, absolute, n),
    "  stock SAC, clip by hand": lambda n: off_policy(sb3.SAC, ByHand, n),
    "SB3 TD3, our policy, noise": lambda n: off_policy(limited.TD3, absolute, n, action_noise=noise()),
    "  stock TD3, noise, clip by hand": lambda n: off_policy(sb3.TD3, ByHand, n, action_noise=noise()),
    "SBX SAC, our policy, noise": lambda n: sbx("SAC", False, n),
    "SBX CrossQ, our policy, noise": lambda n: sbx("CrossQ", False, n),
    "  stock SAC of SBX, noise, clip by hand": lambda n: sbx("SAC", True, n),
    "TorchRL SAC, transform and distribution, noise": lambda n: torchrl(False, n),
    "  stock TanhNormal, noise, clip by hand": lambda n: torchrl(True, n),
    "rsl_rl PPO, our classes": lambda n: rsl_rl(False, n),
    "  stock PPO of rsl_rl, clip by hand": lambda n: rsl_rl(True, n),
    "CleanRL style SAC": lambda n: cleanrl(False, n),
    "  the same with tanh, clip by hand": lambda n: cleanrl(True, n),
}


def main(bench: Bench) -> None:
    torch.set_num_threads(1)
    mujoco.set_mju_user_warning(lambda message: None)  # of the NaN that the clip by hand lets through
    table = Table(title=f"Steps of {TASK} (tight) outside the limits, counted exactly at env.step")
    for column in ("", "steps", "outside", "CPU s"):
        table.add_column(column, justify="right" if column else "left")
    for name, run in ROWS.items():
        if bench.only and not any(part in name for part in bench.only):
            continue
        Ledger.steps = Ledger.violations = 0
        begun = time.process_time()
        run(bench.steps)
        spent = time.process_time() - begun
        table.add_row(name, f"{Ledger.steps:,}", f"{Ledger.violations:,}", f"{spent:,.0f}")
        if bench.csv:
            write(bench.csv, name.strip(), Ledger.steps, Ledger.violations)
    Console(width=110).print(table)


def write(path: Path, name: str, steps: int, outside: int) -> None:
    """Add a row, in place of an earlier one of that name."""
    lines = path.read_text().splitlines()[1:] if path.exists() else []
    rows = {line.partition(";")[0]: line for line in lines}
    rows[name] = f"{name};{steps};{outside}"
    path.write_text("\n".join(["run;steps;outside", *rows.values()]) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Bench, description=__doc__))
