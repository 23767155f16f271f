"""Algorithm 1: collect, store, learn, evaluate. One loop, which goes on where it was killed."""

import dataclasses
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from slewrl import checkpoint
from slewrl.agents import AGENTS
from slewrl.augmented import previous_action
from slewrl.envs.augment import Augment
from slewrl.envs.state import get_state, set_state
from slewrl.evaluate import evaluate
from slewrl.layers import make_layer
from slewrl.limits import RateLimits
from slewrl.replay import Replay
from slewrl.runs import RunFolder, RunSpec

LOG_EVERY = 1_000
EVALUATION_SEED = 1_000_000
"""Evaluation episodes are reset with this and the seeds after it, in every run."""
Report = Callable[[dict[str, Any]], None]


class Trainer:
    """One run, in memory.

    Args:
        spec: what to run.
        folder: where it lives; holds run.json already.
    """

    def __init__(self, spec: RunSpec, folder: RunFolder) -> None:
        self.spec, self.folder = spec, folder
        self.limits = load_limits(spec.task, spec.limits)
        self.env, self.evaluation_env = (Augment(gym.make(spec.task), self.limits) for _ in range(2))
        size = self.env.observation_space.shape[0]  # type: ignore[index]
        agent_class = AGENTS[spec.agent]
        module = __import__(agent_class.__module__, fromlist=["_"])
        config = getattr(module, f"{agent_class.__name__}Config")(**_tuples(spec.agent_options))
        layer = make_layer(spec.layer, spec.density, **spec.layer_options)  # type: ignore[arg-type]
        self.agent = agent_class(config, self.limits, layer, size, spec.seed)
        self.replay = Replay(spec.capacity, spec.evaluate_every, 1, size, self.limits.dim, folder.path / "replay")
        self.rng = np.random.default_rng(spec.seed)
        self.warm_up = torch.Generator().manual_seed(spec.seed + 1)
        self.step, self.violations, self.episodes, self.episode_return = 0, 0, 0, 0.0
        self.last_return, self.last_utilisation = float("nan"), float("nan")
        self.observation, _ = self.env.reset(seed=spec.seed)
        self.log: dict[str, float] = {}

    # ------------------------------------------------------------------ one step of Algorithm 1

    def advance(self) -> None:
        """One environment step and, past the warm-up, one update."""
        executed, judged = self._choose()
        following, reward, terminated, truncated, info = self.env.step(executed)
        self._check(following, reward)
        ended = bool(terminated or truncated)
        self.replay.add(0, self.observation, judged, float(reward), following, bool(terminated), ended)
        self.step += 1
        self.episode_return += float(reward)
        self.observation = following
        if ended:
            self._end_episode(info)
        if self.step > self.spec.learning_starts:
            batch = self.replay.sample(self.spec.batch_size, self.rng)
            self.log = self.agent.update(batch, log=self.step % LOG_EVERY == 0)

    def _choose(self) -> tuple[np.ndarray, np.ndarray]:
        observation = torch.from_numpy(self.observation[None])
        if self.step < self.spec.learning_starts:
            box = self.limits.box(previous_action(observation, self.limits.dim), check=False)
            uniform = self.agent.layer.random(box, self.warm_up)[0].numpy()
            return uniform, uniform
        action = self.agent.act(observation)
        return action.executed[0].numpy(), action.judged[0].numpy()

    def _check(self, observation: np.ndarray, reward: Any) -> None:
        if not np.isfinite(observation).all():
            where = int(np.flatnonzero(~np.isfinite(observation))[0])
            raise FloatingPointError(
                f"{self.spec.task}: observation[{where}] is {observation[where]} after step {self.step + 1}"
            )
        if not np.isfinite(reward):
            raise FloatingPointError(f"{self.spec.task}: reward is {reward} after step {self.step + 1}")

    def _end_episode(self, info: dict[str, Any]) -> None:
        use = info["rate_use"]
        self.violations += use.violations
        self.episodes += 1
        self.last_return, self.last_utilisation = self.episode_return, use.utilisation
        self.episode_return = 0.0
        self.observation, _ = self.env.reset()

    # ------------------------------------------------------------------ logging

    def write_train_row(self) -> None:
        """A row of train.csv."""
        violations = self.violations + self.env.rate_use().violations
        row = {"step": self.step, "episodes": self.episodes, "episode_return": self.last_return}
        row |= {"utilisation": self.last_utilisation, "violations": violations}
        self.folder.append("train.csv", {**row, **{f"loss_{k}": v for k, v in self._losses().items()}})

    def _losses(self) -> dict[str, float]:
        names = ("critic_loss", "q", "entropy", "temperature")
        return {name: self.log.get(name, float("nan")) for name in names}

    def write_evaluation(self) -> dict[str, float]:
        """A row of eval.csv."""
        result = evaluate(
            lambda x: self.agent.act(x, explore=False),
            self.evaluation_env,
            self.spec.evaluate_episodes,
            EVALUATION_SEED,
        ).row()
        self.folder.append("eval.csv", {"step": self.step, **result})
        return result

    # ------------------------------------------------------------------ saving

    def save(self) -> None:
        """A checkpoint of everything the rest of the run depends on."""
        self.replay.flush()
        scalars = ("step", "violations", "episodes", "episode_return", "last_return", "last_utilisation", "log")
        state = {
            "spec": dataclasses.asdict(self.spec),
            "agent": self.agent.state_dict(),
            "replay_written": torch.from_numpy(self.replay.written.copy()),
            "rng": self.rng.bit_generator.state,
            "warm_up": self.warm_up.get_state(),
            "env": _plain(get_state(self.env)),
            "chain": torch.from_numpy(np.stack(self.env.chain)),
            "observation": torch.from_numpy(self.observation.copy()),
            "csv": self.folder.sizes(),
            **{name: getattr(self, name) for name in scalars},
        }
        checkpoint.save(self.folder.checkpoints, self.step, state)

    def restore(self, state: dict[str, Any]) -> list[str]:
        """Go on from a checkpoint; returns what a person should know about it."""
        if state["spec"] != dataclasses.asdict(self.spec):
            raise ValueError(f"{self.folder.path}: the checkpoint is of another run: {state['spec']}")
        self.agent.load_state_dict(state["agent"])
        self.replay.written[:] = state["replay_written"].numpy()
        self.rng.bit_generator.state = state["rng"]
        self.warm_up.set_state(state["warm_up"])
        self.folder.cut(state["csv"])
        for name in ("step", "violations", "episodes", "episode_return", "last_return", "last_utilisation", "log"):
            setattr(self, name, state[name])
        if state["env"] is None:
            return [f"{self.spec.task} has no known state: resuming on a fresh episode, not bit for bit"]
        set_state(self.env, _numpy(state["env"]))
        self.env.chain = list(state["chain"].numpy())
        self.observation = state["observation"].numpy()
        return []


def train(spec: RunSpec, folder: RunFolder, report: Report = lambda row: None) -> bool:
    """Run ``spec`` in ``folder`` to its end, from its newest checkpoint if it has one.

    Ctrl-C (or SIGTERM) takes a checkpoint after the step under way and returns False.
    """
    torch.set_num_threads(1)
    trainer = Trainer(spec, folder)
    if checkpoint.checkpoints(folder.checkpoints):
        state, complaints = checkpoint.load_newest(folder.checkpoints)
        for message in [*complaints, *trainer.restore(state)]:
            report({"message": message})
    else:
        folder.cut({})
    with _Interrupts() as interrupts:
        clock, begun = time.process_time(), trainer.step
        while trainer.step < spec.steps:
            trainer.advance()
            if trainer.step % LOG_EVERY == 0:
                trainer.write_train_row()
                rate = (trainer.step - begun) / max(time.process_time() - clock, 1e-9)
                folder.append("timing.csv", {"step": trainer.step, "steps_per_cpu_second": round(rate, 2)})
                report(
                    {
                        "step": trainer.step,
                        "return": trainer.last_return,
                        "utilisation": trainer.last_utilisation,
                        "violations": trainer.violations,
                        "rate": rate,
                    }
                )
            if trainer.step % spec.evaluate_every == 0 or trainer.step == spec.steps:
                report({"evaluation": trainer.write_evaluation()["return_mean"]})
                trainer.save()
            if interrupts.seen:
                trainer.save()
                return False
    folder.finish()
    return True


def check_spec(spec: RunSpec) -> None:
    """Refuse a run that could not begin, before anything is written."""
    make_layer(spec.layer, spec.density, **spec.layer_options)  # type: ignore[arg-type]
    AGENTS[spec.agent]
    try:
        env = gym.make(spec.task)
    except gym.error.Error as error:
        raise ValueError(f"task {spec.task!r}: {error}") from error
    Augment(env, load_limits(spec.task, spec.limits)).close()


def load_limits(task: str, limits: str) -> RateLimits:
    """Limits by preset name or from a limits.yaml."""
    if Path(limits).suffix in (".yaml", ".yml"):
        return RateLimits.from_yaml(limits)
    return RateLimits.preset(task, limits)


class _Interrupts:
    """Notes SIGINT and SIGTERM instead of raising, so that a step is never cut in two."""

    def __enter__(self) -> "_Interrupts":
        self.seen = False
        self._before = {s: signal.signal(s, self._note) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for which, handler in self._before.items():
            signal.signal(which, handler)

    def _note(self, *_: object) -> None:
        self.seen = True


def _tuples(options: dict[str, Any]) -> dict[str, Any]:
    """JSON has no tuples; configs want them."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}


def _plain(tree: Any) -> Any:
    """Arrays as tensors, so that a checkpoint loads without running code."""
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    return torch.from_numpy(np.array(tree)) if isinstance(tree, np.ndarray) else tree


def _numpy(tree: Any) -> Any:
    """The inverse of ``_plain``."""
    if isinstance(tree, dict):
        return {key: _numpy(value) for key, value in tree.items()}
    return tree.numpy() if isinstance(tree, torch.Tensor) else tree
