"""Algorithm 1: collect, store, learn, evaluate. One loop, which goes on where it was killed."""

import dataclasses
import signal
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from slewrl.agents.replay import ROWS, Batch, Replay
from slewrl.envs.tasks import is_alone, is_gymnasium, make_vec_env
from slewrl.envs.vec_env import Episode
from slewrl.io.files import refuse_linked_folders
from slewrl.layers.base import Decision
from slewrl.metrics import rate_use
from slewrl.training import checkpoint
from slewrl.training.evaluate import EVALUATION_SEED, Act, Evaluation, evaluate_vec_env
from slewrl.training.logging import Logs, Report
from slewrl.training.resume import budget_of, due_logs, log_every, of_run, replay_sizes, usable
from slewrl.training.run_folder import LOGS, RunFolder
from slewrl.training.setup import make_agent, make_evaluator, run_limits, run_task
from slewrl.training.spec import RunSpec
from slewrl.training.start import begin_with_weights

RECENT = ("length", "fell", "exploded")
"""What train.csv has of robots, besides: means over the episodes since its last row."""
SCALARS = ("step", "violations", "episodes", "last_return", "last_utilisation", "log", "recent")
"""Attributes of a Trainer that a checkpoint holds as they are."""


class Trainer:
    """One run, in memory.

    Args:
        spec: what to run.
        folder: where it lives; holds run.json already.
    """

    def __init__(self, spec: RunSpec, folder: RunFolder) -> None:
        self.spec, self.folder = spec, folder
        self.limits = run_limits(spec, folder)
        task = run_task(spec, folder)
        self.worlds = make_vec_env(task, self.limits, spec.environments, spec.task_options)
        self.agent = make_agent(spec, self.limits, self.worlds.layout)
        if spec.start:
            begin_with_weights(self.agent, spec, folder)
        self.examine = (
            self._examine_here
            if is_alone(task)
            else make_evaluator(task, spec.task_options, self.limits, self.agent.layer.extra_violations)
        )
        self.hook = self.agent.layer.hook(self.agent.layer)
        self.replay = self._make_replay()
        self.rng = np.random.default_rng(spec.seed)
        self.warm_up = torch.Generator().manual_seed(spec.seed + 1)
        self.log_every = log_every(spec)
        self.step, self.violations, self.episodes = 0, 0, 0
        self.recent: dict[str, float] = {}
        """Sums over the episodes since the last row of train.csv: how many, their lengths, their measures."""
        self.last_return, self.last_utilisation = float("nan"), float("nan")
        self.worlds.reset(spec.seed)
        self.log: dict[str, float] = {}
        self.told: set[str] = set()
        """Logs whose columns were said to be fewer than there are now."""
        self.before_last: dict[str, Any] = {}
        """What a checkpoint has without the rows that only a last step writes; empty where there are none."""

    def _make_replay(self) -> Replay:
        spec, sizes = self.spec, (self.worlds.layout.size, self.limits.dim)
        if not self.agent.replays:
            return Replay(0, 0, spec.environments, *sizes)  # never written to
        capacity, interval = replay_sizes(spec)
        folder = self.folder.path / "replay"
        if not checkpoint.checkpoints(self.folder.checkpoints):
            return Replay(capacity, interval, spec.environments, *sizes, folder)
        if not (folder / ROWS).exists():
            raise FileNotFoundError(f"{folder / ROWS} is gone: a run cannot go on without its replay")
        ours, _ = checkpoint.use_newest(self.folder.checkpoints, lambda state: of_run(state, spec, self.folder))
        least = replay_sizes(budget_of(ours, spec))[0]  # a run that was extended may not have grown it yet
        return Replay(capacity, interval, spec.environments, *sizes, folder, least)

    # ------------------------------------------------------------------ one step of Algorithm 1

    def advance(self) -> None:
        """One step of every environment and, past the warm-up, as many updates as the agent makes of it."""
        seen = self.worlds.observations
        executed, judged = self._choose(seen)
        self.hook.chosen(seen, self.replay.add)
        moved = self.worlds.step(executed)
        if self.agent.replays:
            self.replay.add_many(seen, judged, moved.reward, moved.next_obs, moved.terminated, moved.ended)
        self.step += self.spec.environments
        self._note(self.worlds.episodes)
        due = self.agent.record(moved.reward, moved.next_obs, moved.terminated, moved.ended)
        if due and (self.agent.on_policy or self.step > self.spec.learning_starts):
            self._learn()

    def _learn(self) -> None:
        log = self.agent.on_policy or self.has_passed(self.log_every) or self.step >= self.spec.steps
        self.log = self.agent.improve(self._sample, self.spec.environments, log)
        if not np.isfinite(list(self.log.values())).all():
            raise FloatingPointError(f"training diverged by step {self.step}: {self.log}")

    def has_passed(self, every: int) -> bool:
        """Whether the last ``advance`` reached a multiple of ``every`` steps."""
        return self.step % every < self.spec.environments

    def _choose(self, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        observation = torch.from_numpy(seen)
        if self.step < self.spec.learning_starts and not self.agent.on_policy:
            box = self.limits.box_after(observation)
            uniform = self.agent.layer.random(box, self.warm_up).numpy()
            return uniform, uniform
        action = self.agent.act(observation)
        return action.executed.numpy(), action.judged.numpy()

    def _sample(self) -> Batch:
        return self.agent.sample(self.replay, self.spec.batch_size, self.rng)

    def _note(self, episodes: list[Episode]) -> None:
        for episode in episodes:
            use = rate_use(episode.actions, self.limits)
            self.violations += use.violations + self.agent.layer.extra_violations(episode.actions, self.limits)
            self.episodes += 1
            self.last_return, self.last_utilisation = episode.total, use.utilisation
            for name, value in {"count": 1.0, "length": float(use.steps), **episode.measures}.items():
                self.recent[name] = self.recent.get(name, 0.0) + value

    def _under_way(self) -> int:
        """Violations in episodes that have not ended."""
        broken = sum(
            self.agent.layer.extra_violations(actions, self.limits) for actions in self.worlds.episode_actions()
        )
        return self.worlds.violations() + broken

    # ------------------------------------------------------------------ logging

    def train_row(self) -> dict[str, float]:
        """What train.csv gets."""
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
        sizes, digests = self.folder.sizes(), self.folder.log_digests()
        self.before_last = {"csv": sizes, "csv_digests": digests, "layer": self.hook.counts(), "recent": self.recent}

    def evaluation_row(self) -> dict[str, float]:
        """What eval.csv gets: seeded episodes without exploration."""
        counts = self.hook.counts()
        row = {"step": self.step, **self._examined(self.act).row()}
        if self.agent.averages:
            last = self._examined(partial(self.agent.act, explore=False, averaged=False))
            row["unaveraged_return_mean"] = float(last.returns.mean())
        self.hook.restore(counts)  # train.csv has none of what was counted here
        return row

    def _examined(self, act: Act) -> Evaluation:
        return self.examine(act, self.spec.evaluate_episodes, EVALUATION_SEED)

    def _examine_here(self, act: Act, episodes: int, seed: int) -> Evaluation:
        """As ``make_evaluator``, on the training worlds: a process can have no others. Their episodes are cut off."""
        under_way = self._under_way()
        result = evaluate_vec_env(act, lambda count: self.worlds, 1, seed, self.agent.layer.extra_violations)
        self._begin_afresh(under_way)
        return result

    def act(self, observation: torch.Tensor) -> Decision:
        """The policy without exploration."""
        return self.agent.act(observation, explore=False)

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
            "worlds": _plain(self.worlds.get_state()),
            "violations_under_way": self._under_way(),
            "csv": self.folder.sizes(),
            "csv_digests": self.folder.log_digests(),
            "copies": self.folder.digests(),
            "layer": self.hook.counts(),
            **{name: getattr(self, name) for name in SCALARS},
            **({"before_last": self.before_last} if self.before_last else {}),
        }
        checkpoint.save(self.folder.checkpoints, self.step, state)

    def restore(self, state: dict[str, Any]) -> list[str]:
        """Go on from a checkpoint; returns what a person should know about it.

        A CheckpointError, with nothing changed, says why this is none to go on from.
        """
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
        self.worlds.set_state(_numpy(state["worlds"]))
        return notes

    def _begin_afresh(self, violations: int) -> None:
        """End the episodes that were under way, of which only the violations so far are known, and begin others."""
        self.violations += violations
        for k in range(self.spec.environments):
            self.replay.abandon(k)
        self.agent.abandon()
        self.worlds.reset(self.spec.seed + self.step)


def train(spec: RunSpec, folder: RunFolder, report: Report = lambda row: None, loggers: Sequence[str] = ()) -> bool:
    """Run ``spec`` in ``folder`` to its end, from its newest checkpoint if it has one.

    Ctrl-C (or SIGTERM) takes a checkpoint after the step under way and returns False.

    Args:
        spec: what to run.
        folder: where it lives; holds run.json already.
        report: called with every row logged, and with ``{"message": ...}`` for what a person should know.
        loggers: what gets the same numbers besides the CSV files: tensorboard, wandb, trackio.
    """
    with folder.lock():
        return train_locked(spec, folder, report, loggers)


def train_locked(
    spec: RunSpec, folder: RunFolder, report: Report = lambda row: None, loggers: Sequence[str] = ()
) -> bool:
    """As ``train``, for whoever holds the folder's lock."""
    torch.set_num_threads(1)
    refuse_linked_folders(folder.path)
    return folder.done or _train(Trainer(spec, folder), report, loggers)


def _train(trainer: Trainer, report: Report, loggers: Sequence[str]) -> bool:
    spec, folder = trainer.spec, trainer.folder
    if checkpoint.checkpoints(folder.checkpoints):
        notes, complaints = checkpoint.use_newest(folder.checkpoints, trainer.restore)
        for message in [*complaints, *notes, f"resumed at step {trainer.step:,}"]:
            report({"message": message})
    else:
        folder.cut({})
    with _Interrupts() as interrupts, Logs(folder, trainer.step, report, loggers) as logs:
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
        if left_out and name not in trainer.told:
            trainer.told.add(name)
            logs.report({"message": f"{name} was begun by an older slewrl, without {', '.join(left_out)}: left out"})
        logs.write(name, row)


class _Interrupts:
    """Notes SIGINT and SIGTERM instead of raising, so that a step is never cut in two."""

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
        self.__exit__()  # a second one stops at once


def _plain(tree: Any) -> Any:
    """Arrays as tensors, so that a checkpoint loads without running code."""
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_plain(value) for value in tree]
    return torch.from_numpy(np.array(tree)) if isinstance(tree, np.ndarray) else tree


def _numpy(tree: Any) -> Any:
    """The inverse of ``_plain``."""
    if isinstance(tree, dict):
        return {key: _numpy(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_numpy(value) for value in tree]
    return tree.numpy() if isinstance(tree, torch.Tensor) else tree
