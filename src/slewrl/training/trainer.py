"""Algorithm 1: collect, store, learn, evaluate, in one loop that resumes where it was killed."""

import dataclasses
import signal
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from slewrl.agents.replay import ROWS, Replay
from slewrl.envs.tasks import is_alone, is_gymnasium, make_vec_env
from slewrl.envs.vec_env import Episode
from slewrl.io.files import refuse_linked_folders
from slewrl.metrics import rate_use
from slewrl.training import checkpoint
from slewrl.training.evaluate import Act, Evaluation, Evaluator, evaluate_vec_env, make_evaluator
from slewrl.training.logging import Callback, Logs
from slewrl.training.resume import budget_of, due_logs, replay_sizes, usable
from slewrl.training.run_folder import LOGS, RunFolder
from slewrl.training.setup import make_agent, make_config, run_limits, run_task, settings
from slewrl.training.spec import EVALUATION_SEED, RunSpec
from slewrl.training.start import begin_with_weights

RECENT = ("length", "fell", "exploded")
"""Extra columns of train.csv for robots: means over the episodes since its last row."""
SCALARS = ("step", "violations", "episodes", "last_return", "last_utilisation", "log", "recent")
"""Attributes of a Trainer that a checkpoint holds as they are."""


class Trainer:
    """One run, in memory; ``folder`` holds its run.json already."""

    def __init__(self, spec: RunSpec, folder: RunFolder) -> None:
        self.spec, self.folder = spec, folder
        self.limits = run_limits(spec, folder)
        task = run_task(spec, folder)
        self.vec_env = make_vec_env(task, self.limits, spec.environments, spec.task_options)
        self.agent = make_agent(spec, self.limits, self.vec_env.layout, folder.config())
        if spec.start:
            begin_with_weights(self.agent, spec, folder, self.limits)
        self.evaluator: Evaluator = self._evaluate_here
        if not is_alone(task):
            extra_violations = self.agent.layer.extra_violations
            self.evaluator = make_evaluator(task, spec.task_options, self.limits, extra_violations)
        self.hook = self.agent.layer.hook(self.agent.layer)
        self.replay = self._make_replay()
        self.rng = np.random.default_rng(spec.seed)
        self.warm_up = torch.Generator().manual_seed(spec.seed + 1)
        self.step, self.violations, self.episodes = 0, 0, 0
        self.recent: dict[str, float] = {}
        """Sums over the episodes since the last row of train.csv: how many, their lengths, their measures."""
        self.last_return, self.last_utilisation = float("nan"), float("nan")
        self.vec_env.reset(spec.seed)
        self.log: dict[str, float] = {}
        self.warned: set[str] = set()
        """Logs that were reported to have fewer columns than a new run's."""
        self.before_last: dict[str, Any] = {}
        """What a checkpoint has without the rows that only a last step writes; empty where there are none."""

    def _make_replay(self) -> Replay:
        spec, sizes = self.spec, (self.vec_env.layout.size, self.limits.dim)
        if not self.agent.replays:
            return Replay(0, 0, spec.environments, *sizes)  # never written to
        capacity, interval = replay_sizes(spec)
        folder = self.folder.path / "replay"
        if not checkpoint.checkpoints(self.folder.checkpoints):
            return Replay(capacity, interval, spec.environments, *sizes, folder)
        if not (folder / ROWS).exists():
            raise FileNotFoundError(f"{folder / ROWS} is gone: a run cannot go on without its replay")
        state, _ = checkpoint.use_newest(
            self.folder.checkpoints, lambda state: checkpoint.of_run(state, spec, self.folder)
        )
        saved_capacity = replay_sizes(budget_of(state, spec))[0]  # a run that was extended may not have grown it yet
        return Replay(capacity, interval, spec.environments, *sizes, folder, saved_capacity)

    # ------------------------------------------------------------------ one step of Algorithm 1

    def advance(self) -> None:
        """Step every environment once and, past the warm-up, make as many updates as the agent wants."""
        obs = self.vec_env.observations
        executed, judged = self._choose(obs)
        self.hook.chosen(obs, self.replay.add)
        result = self.vec_env.step(executed)
        if self.agent.replays:
            self.replay.add_many(obs, judged, result.reward, result.next_obs, result.terminated, result.ended)
        self.step += self.spec.environments
        self._record(self.vec_env.episodes)
        due = self.agent.record(result.reward, result.next_obs, result.terminated, result.ended)
        if due and (self.agent.on_policy or self.step > self.spec.learning_starts):
            self._learn()

    def _learn(self) -> None:
        spec, agent = self.spec, self.agent
        log = agent.on_policy or "train.csv" in due_logs(self.step, spec) or self.step >= spec.steps
        sample = partial(agent.sample, self.replay, spec.batch_size, self.rng)
        self.log = agent.improve(sample, spec.environments, log)
        if not np.isfinite(list(self.log.values())).all():
            raise FloatingPointError(f"training diverged by step {self.step}: {self.log}")

    def _choose(self, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        observation = torch.from_numpy(obs)
        if self.step < self.spec.learning_starts and not (self.agent.on_policy or self.spec.start):
            box = self.limits.box_after(observation)
            uniform = self.agent.layer.random(box, self.warm_up).numpy()
            return uniform, uniform
        action = self.agent.act(observation)
        return action.executed.numpy(), action.judged.numpy()

    def _record(self, episodes: list[Episode]) -> None:
        for episode in episodes:
            use = rate_use(episode.actions, self.limits)
            self.violations += use.violations + self.agent.layer.extra_violations(episode.actions, self.limits)
            self.episodes += 1
            self.last_return, self.last_utilisation = episode.total, use.utilisation
            for name, value in {"count": 1.0, "length": float(use.steps), **episode.measures}.items():
                self.recent[name] = self.recent.get(name, 0.0) + value

    def _under_way(self) -> int:
        """Violations in episodes that have not ended."""
        episodes = self.vec_env.episode_actions()
        extra = sum(self.agent.layer.extra_violations(actions, self.limits) for actions in episodes)
        return self.vec_env.violations() + extra

    # ------------------------------------------------------------------ logging

    def train_row(self) -> dict[str, float]:
        """The next row of train.csv."""
        violations = self.violations + self._under_way()
        row = {"step": self.step, "episodes": self.episodes, "episode_return": self.last_return}
        row |= {"utilisation": self.last_utilisation, "violations": violations}
        row |= {name: self.log.get(name, float("nan")) for name in self.agent.columns}
        if not is_gymnasium(self.spec.task):
            row |= {name: self.recent.get(name, 0.0) / self.recent.get("count", float("nan")) for name in RECENT}
        self.recent = {}
        return row | self.hook.columns()

    def note_before_last(self) -> None:
        """Keep for the checkpoint what a run with a larger budget has now: it does not write the rows that follow."""
        self.before_last = {**self.folder.log_state(), "layer": self.hook.counts(), "recent": self.recent}

    def evaluation_row(self) -> dict[str, float]:
        """The next row of eval.csv: seeded episodes without exploration."""
        counts, episodes = self.hook.counts(), self.spec.evaluate_episodes
        act = partial(self.agent.act, explore=False)
        row = {"step": self.step, **self.evaluator(act, episodes, EVALUATION_SEED).row()}
        if self.agent.averages:
            result = self.evaluator(partial(act, averaged=False), episodes, EVALUATION_SEED)
            row["unaveraged_return_mean"] = float(result.returns.mean())
        self.hook.restore(counts)  # train.csv has none of what was counted here
        return row

    def _evaluate_here(self, act: Act, episodes: int, seed: int) -> Evaluation:
        """Evaluate in the training environments, whose episodes are cut off, where a process can have no others."""
        under_way = self._under_way()
        result = evaluate_vec_env(act, lambda count: self.vec_env, 1, seed, self.agent.layer.extra_violations)
        self._begin_afresh(under_way)
        return result

    # ------------------------------------------------------------------ saving

    def save(self) -> None:
        """A checkpoint of everything the rest of the run depends on."""
        self.replay.flush()
        state = {
            "spec": dataclasses.asdict(self.spec),
            "agent": self.agent.state_dict(),
            **(self.replay.state() if self.agent.replays else {}),
            "rng": self.rng.bit_generator.state,
            "warm_up": self.warm_up.get_state(),
            "worlds": _plain(self.vec_env.get_state()),
            "violations_under_way": self._under_way(),
            **self.folder.log_state(),
            "copies": self.folder.digests(),
            "layer": self.hook.counts(),
            **{name: getattr(self, name) for name in SCALARS},
            **({"before_last": self.before_last} if self.before_last else {}),
        }
        checkpoint.save(self.folder.checkpoints, self.step, state)

    def restore(self, state: dict[str, Any]) -> list[str]:
        """Resume from a checkpoint; returns notes for the user. A CheckpointError leaves everything unchanged."""
        state = usable(state, self.spec, self.folder, self.replay if self.agent.replays else None)
        notes = []
        if self.agent.replays and "replay_sums" not in state:
            notes = ["the checkpoint is from before replays had checksums: the rows are taken as they are"]
        self.agent.load_state_dict(state["agent"])
        if self.agent.replays:
            self.replay.restore(state)
        self.rng.bit_generator.state = state["rng"]
        self.warm_up.set_state(state["warm_up"])
        self.folder.cut(state["csv"])
        self.hook.restore(state.get("layer", {}))
        for name in SCALARS:
            setattr(self, name, state[name])
        if state["worlds"] is None:
            self._begin_afresh(state["violations_under_way"])
            return [*notes, f"{self.spec.task} has no known state: resuming on fresh episodes, not bit for bit"]
        self.vec_env.set_state(_numpy(state["worlds"]))
        return notes

    def _begin_afresh(self, violations: int) -> None:
        """Abandon the episodes under way, counting their violations, and begin new ones."""
        self.violations += violations
        for k in range(self.spec.environments):
            self.replay.abandon(k)
        self.agent.abandon()
        self.vec_env.reset(self.spec.seed + self.step)


def train(spec: RunSpec, folder: RunFolder, callback: Callback = lambda row: None, loggers: Sequence[str] = ()) -> bool:
    """Run ``spec`` in ``folder``, which holds its run.json, from its newest checkpoint if it has one.

    Returns whether the run is finished: Ctrl-C or SIGTERM takes a checkpoint after the current step and ends it.
    ``loggers`` are names of ``loggers.LOGGERS`` that get the same numbers as the CSV files.
    """
    with folder.lock():
        return train_locked(spec, folder, callback, loggers)


def train_locked(
    spec: RunSpec, folder: RunFolder, callback: Callback = lambda row: None, loggers: Sequence[str] = ()
) -> bool:
    """As ``train``, for a caller that holds the folder's lock."""
    torch.set_num_threads(1)
    refuse_linked_folders(folder.path)
    return folder.done or _train(Trainer(spec, folder), callback, loggers)


def _train(trainer: Trainer, callback: Callback, loggers: Sequence[str]) -> bool:
    spec, folder = trainer.spec, trainer.folder
    if not folder.config():
        folder.describe(spec, settings(make_config(spec)))
    if checkpoint.checkpoints(folder.checkpoints):
        notes, complaints = checkpoint.use_newest(folder.checkpoints, trainer.restore)
        for message in [*complaints, *notes, f"resumed at step {trainer.step:,}"]:
            callback({"message": message})
    else:
        folder.cut({})
    with _Interrupts() as interrupts, Logs(folder, trainer.step, callback, loggers) as logs:
        while trainer.step < spec.steps and not interrupts.seen:
            trainer.advance()
            due, last = due_logs(trainer.step, spec), trainer.step >= spec.steps
            _log(trainer, logs, due)
            if last and due != LOGS:
                trainer.note_before_last()
                _log(trainer, logs, tuple(name for name in LOGS if name not in due))
            if "eval.csv" in due or last:
                logs.flush()
                trainer.save()
        if trainer.step < spec.steps:
            logs.flush()
            trainer.save()
            return False
    folder.finish()
    return True


def _log(trainer: Trainer, logs: Logs, names: tuple[str, ...]) -> None:
    rows = {"train.csv": trainer.train_row, "eval.csv": trainer.evaluation_row}
    for name in names:
        row, left_out = trainer.folder.fitted(name, rows[name]())
        if left_out and name not in trainer.warned:
            trainer.warned.add(name)
            logs.callback({"message": f"{name} was begun by an older slewrl, without {', '.join(left_out)}: left out"})
        logs.write(name, row)


class _Interrupts:
    """Notes SIGINT and SIGTERM instead of raising, so that no step is interrupted; a second one stops at once."""

    def __enter__(self) -> "_Interrupts":
        self.seen = False
        signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        self._before = {s: signal.signal(s, self._note) for s in signals}
        return self

    def __exit__(self, *_: object) -> None:
        for which, handler in self._before.items():
            signal.signal(which, handler)

    def _note(self, *_: object) -> None:
        self.seen = True
        self.__exit__()


def _plain(tree: Any) -> Any:
    """A tree with tensors for arrays, so that a checkpoint loads without running code."""
    return _mapped(tree, lambda x: torch.from_numpy(np.array(x)) if isinstance(x, np.ndarray) else x)


def _numpy(tree: Any) -> Any:
    """The inverse of ``_plain``."""
    return _mapped(tree, lambda x: x.numpy() if isinstance(x, torch.Tensor) else x)


def _mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(tree, dict):
        return {key: _mapped(value, change) for key, value in tree.items()}
    return [_mapped(value, change) for value in tree] if isinstance(tree, list) else change(tree)
