"""Algorithm 1: collect, store, learn, evaluate. One loop, which goes on where it was killed."""

import dataclasses
import signal
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from slewrl.agents import AGENTS, recipes
from slewrl.agents.replay import ROWS, Batch, Replay, window
from slewrl.envs.augment import Augment
from slewrl.envs.reset import parse_reset
from slewrl.envs.tasks import (
    OWN_ROBOT,
    check_gymnasium_task,
    check_simulator,
    check_task_options,
    is_alone,
    is_gymnasium,
    is_simulator,
    make_vec_env,
    task_preset,
)
from slewrl.envs.vec_env import Episode, Layout
from slewrl.errors import shortened
from slewrl.io.files import refuse_linked_folders
from slewrl.layers import layer_class, make_layer
from slewrl.layers.base import Decision
from slewrl.limits import RateLimits
from slewrl.limits.augmented import previous_action
from slewrl.limits.resolve import resolve_limits
from slewrl.metrics import rate_use
from slewrl.registry import did_you_mean, option_names
from slewrl.training import checkpoint
from slewrl.training.checkpoint import CheckpointError
from slewrl.training.evaluate import Act, Breaches, Evaluation, evaluate, evaluate_vec_env
from slewrl.training.logging import Logs, Report
from slewrl.training.runs import LOGS, RunFolder, RunSpec, check_numbers, difference

LOG_EVERY = 1_000
RECENT = ("length", "fell", "exploded")
"""What train.csv has of robots, besides: means over the episodes since its last row."""
EVALUATION_SEED = 1_000_000
"""Evaluation episodes are reset with this and the seeds after it, in every run."""
COLUMNS = ("critic_loss", "q", "entropy", "temperature")
"""What train.csv has of an update; an agent with ``columns`` of its own has those."""
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
        self.examine = (
            self._examine_here
            if is_alone(task)
            else make_evaluator(task, spec.task_options, self.limits, self.agent.layer.breaches)
        )
        self.on_policy: bool = getattr(self.agent, "on_policy", False)
        """Whether the agent keeps the steps it learns from itself, and says when to."""
        self.replays: bool = getattr(self.agent, "replays", True)
        """Whether it learns from a replay."""
        self.averages: bool = getattr(self.agent, "averages", False)
        """Whether it evaluates and exports an average of its actor's weights."""
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
        self.before_last: dict[str, Any] = {}
        """What a checkpoint has without the rows that only a last step writes; empty where there are none."""

    def _make_replay(self) -> Replay:
        spec, sizes = self.spec, (self.worlds.layout.size, self.limits.dim)
        if not self.replays:
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
        self._store_rejected(seen)
        moved = self.worlds.step(executed)
        if self.replays:
            self.replay.add_many(seen, judged, moved.reward, moved.next_obs, moved.terminated, moved.ended)
        self.step += self.spec.environments
        self._note(self.worlds.episodes)
        if self.on_policy:
            if self.agent.record(moved.reward, moved.next_obs, moved.terminated, moved.ended):
                self.log = self.agent.improve(self._sample)
                self._check_log()
        elif self.step > self.spec.learning_starts:
            self._learn()

    def _store_rejected(self, seen: np.ndarray) -> None:
        """A draw that was not executed leads from a state to itself, at a penalty: a row before the step's own."""
        for k, action in self.agent.layer.take_rejected():
            self.replay.add(k, seen[k], action.numpy(), -self.agent.layer.rejection_penalty, seen[k], False, False)

    def _learn(self) -> None:
        log = self.has_passed(self.log_every) or self.step >= self.spec.steps
        for _ in range(self.agent.updates_per_step(self.spec.environments)):
            self.log = self.agent.update(self._sample(), log)
        if log:
            self._check_log()

    def _check_log(self) -> None:
        if not np.isfinite(list(self.log.values())).all():
            raise FloatingPointError(f"training diverged by step {self.step}: {self.log}")

    def has_passed(self, every: int) -> bool:
        """Whether the last ``advance`` reached a multiple of ``every`` steps."""
        return self.step % every < self.spec.environments

    def _choose(self, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        observation = torch.from_numpy(seen)
        if self.step < self.spec.learning_starts and not self.on_policy:
            box = self.limits.box(previous_action(observation, self.limits.dim), check=False)
            uniform = self.agent.layer.random(box, self.warm_up).numpy()
            return uniform, uniform
        action = self.agent.act(observation)
        return action.executed.numpy(), action.judged.numpy()

    def _sample(self) -> Batch:
        config = self.agent.config
        steps = getattr(config, "n_steps", 1)
        if steps == 1:
            return self.replay.sample(self.spec.batch_size, self.rng)
        return self.replay.sample(self.spec.batch_size, self.rng, steps, config.discount)

    def _note(self, episodes: list[Episode]) -> None:
        for episode in episodes:
            use = rate_use(episode.actions, self.limits)
            self.violations += use.violations + self.agent.layer.breaches(episode.actions, self.limits)
            self.episodes += 1
            self.last_return, self.last_utilisation = episode.total, use.utilisation
            for name, value in {"count": 1.0, "length": float(use.steps), **episode.measures}.items():
                self.recent[name] = self.recent.get(name, 0.0) + value

    def _under_way(self) -> int:
        """Violations in episodes that have not ended."""
        broken = sum(self.agent.layer.breaches(actions, self.limits) for actions in self.worlds.episode_actions())
        return self.worlds.violations() + broken

    # ------------------------------------------------------------------ logging

    def train_row(self) -> dict[str, float]:
        """What train.csv gets."""
        violations = self.violations + self._under_way()
        row = {"step": self.step, "episodes": self.episodes, "episode_return": self.last_return}
        row |= {"utilisation": self.last_utilisation, "violations": violations}
        row |= {name: self.log.get(name, float("nan")) for name in getattr(self.agent, "columns", COLUMNS)}
        if not is_gymnasium(self.spec.task):
            row |= {name: self.recent.get(name, 0.0) / self.recent.get("count", float("nan")) for name in RECENT}
        self.recent = {}
        return row | self.agent.layer.columns()

    def note_before_last(self) -> None:
        """Keep for the checkpoint what a run with a larger budget has now: it does not write the rows that follow."""
        counts = dict(self.agent.layer.counts())
        sizes, digests = self.folder.sizes(), self.folder.log_digests()
        self.before_last = {"csv": sizes, "csv_digests": digests, "layer": counts, "recent": self.recent}

    def evaluation_row(self) -> dict[str, float]:
        """What eval.csv gets: seeded episodes without exploration."""
        counts = self.agent.layer.counts()
        of_training = {**counts}
        row = {"step": self.step, **self._examined(self.act).row()}
        if self.averages:
            last = self._examined(partial(self.agent.act, explore=False, averaged=False))
            row["unaveraged_return_mean"] = float(last.returns.mean())
        counts.clear()  # train.csv has none of what was counted here
        counts.update(of_training)
        return row

    def _examined(self, act: Act) -> Evaluation:
        return self.examine(act, self.spec.evaluate_episodes, EVALUATION_SEED)

    def _examine_here(self, act: Act, episodes: int, seed: int) -> Evaluation:
        """As ``make_evaluator``, on the training worlds: a process can have no others. Their episodes are cut off."""
        under_way = self._under_way()
        result = evaluate_vec_env(act, lambda count: self.worlds, 1, seed, self.agent.layer.breaches)
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
            **(self.replay.state() if self.replays else {}),
            "rng": self.rng.bit_generator.state,
            "warm_up": self.warm_up.get_state(),
            "worlds": _plain(self.worlds.get_state()),
            "violations_under_way": self._under_way(),
            "csv": self.folder.sizes(),
            "csv_digests": self.folder.log_digests(),
            "copies": self.folder.digests(),
            "layer": dict(self.agent.layer.counts()),
            **{name: getattr(self, name) for name in SCALARS},
            **({"before_last": self.before_last} if self.before_last else {}),
        }
        checkpoint.save(self.folder.checkpoints, self.step, state)

    def restore(self, state: dict[str, Any]) -> list[str]:
        """Go on from a checkpoint; returns what a person should know about it.

        A CheckpointError, with nothing changed, says why this is none to go on from.
        """
        state = usable(state, self.spec, self.folder, self.replay if self.replays else None)
        notes = []
        if self.replays and "replay_sums" not in state:
            notes = ["the checkpoint is from before replays had checksums: the rows are taken as they are"]
        self.agent.load_state_dict(state["agent"])
        if self.replays:
            self.replay.restore(state)
        self.rng.bit_generator.state = state["rng"]
        self.warm_up.set_state(state["warm_up"])
        self.folder.cut(state["csv"])
        self.agent.layer.counts().update(state.get("layer", {}))
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
        if self.on_policy:
            self.agent.abandon()
        self.worlds.reset(self.spec.seed + self.step)


def train(spec: RunSpec, folder: RunFolder, report: Report = lambda row: None, tensorboard: bool = False) -> bool:
    """Run ``spec`` in ``folder`` to its end, from its newest checkpoint if it has one.

    Ctrl-C (or SIGTERM) takes a checkpoint after the step under way and returns False.

    Args:
        spec: what to run.
        folder: where it lives; holds run.json already.
        report: called with every row logged, and with ``{"message": ...}`` for what a person should know.
        tensorboard: whether to write the same numbers for TensorBoard, too.
    """
    with folder.lock():
        return train_locked(spec, folder, report, tensorboard)


def train_locked(
    spec: RunSpec, folder: RunFolder, report: Report = lambda row: None, tensorboard: bool = False
) -> bool:
    """As ``train``, for whoever holds the folder's lock."""
    torch.set_num_threads(1)
    refuse_linked_folders(folder.path)
    return folder.done or _train(Trainer(spec, folder), report, tensorboard)


def _train(trainer: Trainer, report: Report, tensorboard: bool) -> bool:
    spec, folder = trainer.spec, trainer.folder
    if checkpoint.checkpoints(folder.checkpoints):
        notes, complaints = checkpoint.use_newest(folder.checkpoints, trainer.restore)
        for message in [*complaints, *notes, f"resumed at step {trainer.step:,}"]:
            report({"message": message})
    else:
        folder.cut({})
    with _Interrupts() as interrupts, Logs(folder, trainer.step, report, tensorboard) as logs:
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
        logs.write(name, rows[name]())


def log_every(spec: RunSpec) -> int:
    """Steps between rows of train.csv."""
    return max(LOG_EVERY, 16 * spec.environments)


def due_logs(step: int, spec: RunSpec) -> tuple[str, ...]:
    """Which of LOGS get a row after a step, whatever the budget."""
    every = {"train.csv": log_every(spec), "eval.csv": spec.evaluate_every}
    return tuple(name for name in LOGS if step % every[name] < spec.environments)


def replay_sizes(spec: RunSpec) -> tuple[int, int]:
    """Rows of the replay that are sampled from, and steps between checkpoints as it reckons with them."""
    per_step = 2 + layer_class(spec.layer).self_loops  # rows a step writes at most
    # So that the oldest checkpoint kept finds its rows, too; the replay reckons with two rows a step.
    return min(spec.capacity, per_step * spec.steps), -(-checkpoint.KEEP * spec.evaluate_every * per_step // 2)


def usable(state: dict[str, Any], spec: RunSpec, folder: RunFolder, replay: Replay | None) -> dict[str, Any]:
    """The checkpoint as this run goes on from it; a CheckpointError if it does not fit, or rows or logs are damaged."""
    of_run(state, spec, folder)
    if "worlds" not in state:
        raise CheckpointError("it is of an older slewrl: go on with that one")
    state = without_last_rows(state, spec)
    if wrong := folder.lost(state["csv"], state.get("csv_digests", {})):
        raise CheckpointError(wrong)
    if replay is not None and (wrong := forgotten(state, spec) or replay.damage(state)):
        raise CheckpointError(wrong)
    return state


def without_last_rows(state: dict[str, Any], spec: RunSpec) -> dict[str, Any]:
    """The checkpoint without what only the last step of a smaller budget logs, if it is of that step."""
    budget = state["spec"]["steps"]
    if budget == spec.steps or state["step"] < budget or due_logs(state["step"], spec) == LOGS:
        return state
    if "before_last" not in state:
        raise CheckpointError(
            f"it is the last of a run of {budget:,} steps by an older slewrl: its logs have rows that a run of "
            f"{spec.steps:,} steps would not have"
        )
    return {**state, **state["before_last"]}


def forgotten(state: dict[str, Any], spec: RunSpec) -> str:
    """Whether the replay of a smaller budget has dropped rows that this one's still samples from; says so."""
    before, now = (window(replay_sizes(s)[0], s.environments) for s in (budget_of(state, spec), spec))
    if int(state["replay_written"].max()) <= before or before == now:
        return ""
    return f"its replay samples from {before} rows an environment, and has dropped some that {spec.steps:,} steps need"


def budget_of(state: dict[str, Any], spec: RunSpec) -> RunSpec:
    """The spec with the budget that a checkpoint of the run was taken with."""
    return dataclasses.replace(spec, steps=state["spec"]["steps"])


def of_run(state: dict[str, Any], spec: RunSpec, folder: RunFolder) -> dict[str, Any]:
    """The checkpoint, if it is of this run as it is on the disk now, or of the same one before it was extended."""
    if missing := [name for name in ("spec", "agent", "step") if name not in state]:
        raise CheckpointError(f"it has no {missing[0]!r}: it is of another version")
    if type(state["step"]) is not int or state["step"] < 0:
        raise CheckpointError(f"its step is {shortened(state['step'])}, expected a whole number >= 0")
    there = recipes.upgraded(state["spec"])
    if isinstance(there, dict) and type(there.get("steps")) is int and 0 < there["steps"] < spec.steps:
        there = {**there, "steps": spec.steps}
    if differ := difference(there, dataclasses.asdict(spec)):
        raise CheckpointError(f"it is of another run ({differ} in run.json)")
    if "copies" in state and (changed := folder.changed(state["copies"])):
        raise CheckpointError(changed)
    return state


def make_agent(spec: RunSpec, limits: RateLimits, layout: Layout) -> Any:
    """The agent of a run, new."""
    agent_class = AGENTS[spec.agent]
    options = recipes.agent_options(spec.agent, spec.recipe, spec.agent_options)
    config = agent_class.Config(**{name: tuple(x) if isinstance(x, list) else x for name, x in options.items()})
    layer = make_layer(spec.layer, spec.density, **spec.layer_options)  # type: ignore[arg-type]
    layer.check(limits)
    # Some agents make use of more than its size: FastSAC's actor leaves out what only critics may see.
    more = {"layout": layout} if getattr(agent_class, "reads_layout", False) else {}
    return agent_class(config, limits, layer, layout.size, spec.seed, **more)


def on_any_machine(spec: RunSpec) -> RunSpec:
    """The spec of a run that was trained on a GPU, to act without one."""
    options = recipes.agent_options(spec.agent, spec.recipe, spec.agent_options)
    if "device" not in options or torch.cuda.is_available():
        return spec
    without = {"device": "cpu", "compile": False, "amp": "off"}
    return dataclasses.replace(spec, agent_options={**spec.agent_options, **without})


def run_task(spec: RunSpec, folder: RunFolder) -> str:
    """The task of a run; of a user's own robot, by the run's own copy of its file."""
    return f"{OWN_ROBOT}{folder.robot}" if folder.robot else spec.task


def make_evaluator(
    task: str, options: dict[str, Any], limits: RateLimits, breaches: Breaches
) -> Callable[[Act, int, int], Evaluation]:
    """What evaluates a policy of a task, with its layer's breaches: (act, episodes, seed) to what they came to."""
    if is_gymnasium(task):
        env = Augment(gym.make(task, disable_env_checker=True), limits)
        return lambda act, episodes, seed: evaluate(act, env, episodes, seed, breaches)
    # Environments are made once for each number of them: some simulators take a minute over it.
    make = cache(partial(make_vec_env, task, limits, options=options, training=False))
    return lambda act, episodes, seed: evaluate_vec_env(act, make, episodes, seed, breaches)


def check_spec(spec: RunSpec) -> None:
    """Refuse a run that could not begin, before anything is written."""
    if not spec.task:
        raise ValueError("--task is missing, e.g. --task HalfCheetah-v5 (or --resume RUN)")
    check_numbers(spec)
    check_options("agent", AGENTS[spec.agent].Config, spec.agent_options)
    check_options("layer", layer_class(spec.layer), spec.layer_options)
    check_task_options(spec.task, spec.task_options)
    if is_gymnasium(spec.task):
        check_gymnasium_task(spec.task)
    on_policy = getattr(AGENTS[spec.agent], "on_policy", False)
    if spec.steps <= spec.learning_starts and not on_policy:
        raise ValueError(
            f"steps is {spec.steps}, but the first {spec.learning_starts} only fill the replay: nothing is learned "
            "(--steps more, or --learning-starts fewer)"
        )
    limits = with_reset_action(spec, load_limits(spec.task, spec.limits))
    if is_simulator(spec.task):
        check_simulator(spec.task)
        check_agent(spec, make_agent(spec, limits, Layout(limits.dim + 1)))
        return  # it may take a minute to make, and be there only once: it says itself what is wrong
    worlds = make_vec_env(spec.task, limits, 1, spec.task_options)
    agent = make_agent(spec, worlds.limits, worlds.layout)
    check_agent(spec, agent)


def check_agent(spec: RunSpec, agent: Any) -> None:
    """Refuse an agent that could not learn from its steps, or not with this layer."""
    first = agent.steps_before_learning(spec.environments) if hasattr(agent, "steps_before_learning") else 0
    if spec.steps < first:
        raise ValueError(
            f"steps is {spec.steps}, but {spec.agent} collects {first} (agent.rollout x environments) before it first "
            "learns: nothing is learned (--steps more, or --set agent.rollout fewer)"
        )
    if agent.layer.self_loops and spec.agent != "sac":
        raise ValueError(
            f"layer {spec.layer} puts what it rejects into a replay of single steps, by a policy that draws; "
            f"{spec.agent} has other ones: --agent sac"
        )
    if spec.density != RunSpec().density and not hasattr(agent, "target_entropy"):
        raise ValueError(
            f"density is {spec.density!r}, but {spec.agent} measures no entropy of actions: leave --density out"
        )


def check_options(owner: str, kind: Any, options: dict[str, Any]) -> None:
    """Refuse options that ``kind``, a dataclass, does not have."""
    if not dataclasses.is_dataclass(kind):
        raise ValueError(f"{owner} is {kind!r}, expected a class that subclasses ActionLayer")
    known = option_names(kind)
    if unknown := set(options) - set(known):
        hint = did_you_mean(min(unknown), known)
        raise ValueError(
            f"--set {owner}.{min(unknown)}: the {owner} has no such option; it has: {', '.join(known)}.{hint}"
        )


def load_limits(task: str, limits: str) -> RateLimits:
    """Limits by preset name or from a limits.yaml."""
    return resolve_limits(limits, partial(task_preset, task), said="--limits")


def run_limits(spec: RunSpec, folder: RunFolder) -> RateLimits:
    """The limits of a run: its own copy of the file they came from, or a preset."""
    limits = load_limits(run_task(spec, folder), str(folder.limits) if folder.limits.exists() else spec.limits)
    return with_reset_action(spec, limits)


def with_reset_action(spec: RunSpec, limits: RateLimits) -> RateLimits:
    """The limits with the run's own reset action, if it has one."""
    if not spec.reset_action:
        return limits
    if not is_gymnasium(spec.task):
        raise ValueError(f"--reset-action is for Gymnasium tasks: {spec.task} starts from its robot's default pose")
    return limits.with_reset(parse_reset(spec.reset_action))


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
