"""Runs on disk: the same twice, the same after any number of kills, and clear about what is wrong."""

import hashlib
import os
import random
import resource
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from forked import await_loop, cpu_time, dying_at_a_checkpoint, training

from slewrl import RateLimits
from slewrl.envs.checked import BrokenEnvironmentError
from slewrl.io.files import FOLDERS
from slewrl.training import checkpoint, run_folder
from slewrl.training.logging import Logs
from slewrl.training.policy import evaluate_run, load_policy
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import Trainer, train

# A ring of 300 rows wraps three times over; of six checkpoints, four are of a run that learns.
SPEC = RunSpec(
    task="Pendulum-v1", steps=1200, learning_starts=500, batch_size=16, capacity=300, evaluate_every=200,
    evaluate_episodes=1, seed=7, agent_options={"hidden": [16, 16]},
)  # fmt: skip


def finished(path: Path, spec: RunSpec = SPEC) -> RunFolder:
    folder = RunFolder(path)
    folder.create(spec)
    assert train(spec, folder) and folder.done
    return folder


def fingerprint(folder: RunFolder) -> dict[str, str]:
    """What must not depend on how often the run was killed: the logs and every weight."""
    state = checkpoint.use_newest(folder.checkpoints, dict)[0]
    agent = {k: v for k, v in state["agent"].items() if isinstance(v, torch.Tensor)}
    sums = {name: hashlib.sha256(tensor.numpy().tobytes()).hexdigest() for name, tensor in agent.items()}
    logs = {path.name: path.read_text() for path in (*folder.path.glob("[!t]*.csv"), folder.path / "run.json")}
    logs |= {path.name: path.read_text() for path in folder.path.glob("train.csv")}
    return {**sums, **logs}


@pytest.fixture(scope="module", params=["sac", pytest.param("td3", marks=pytest.mark.slow)])
def uninterrupted(request, tmp_path_factory):
    spec, began = replace(SPEC, agent=request.param), time.process_time()
    folder = finished(tmp_path_factory.mktemp(request.param) / "run", spec)
    return spec, fingerprint(folder), time.process_time() - began


def test_the_same_seed_gives_the_same_run(uninterrupted, tmp_path):
    spec, expected, _ = uninterrupted
    assert fingerprint(finished(tmp_path / "again", spec)) == expected
    other = fingerprint(finished(tmp_path / "other", replace(spec, seed=8, steps=spec.evaluate_every)))
    assert other["eval.csv"].splitlines()[1] != expected["eval.csv"].splitlines()[1]


def killed(path: Path, spec: RunSpec, kills: int, seed: int, seconds: float) -> RunFolder:
    """A run that is killed -9 ``kills`` times at random moments, then left to finish.

    ``seconds`` is the CPU time of the whole run: with a sixteenth of it for a life on average, every kill finds it
    alive. CPU time, for what else the machine is doing may change from one life to the next.
    """
    folder, rng = RunFolder(path), random.Random(seed)
    folder.create(spec)
    for _ in range(kills):
        process = training(path)
        until = cpu_time(process.pid) + rng.uniform(0.0, seconds / 8)
        while cpu_time(process.pid) < until:
            time.sleep(0.001)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    last = training(path)
    last.join()
    assert last.exitcode == 0 and folder.done
    return folder


def test_killed_at_random_moments_it_ends_the_same(uninterrupted, tmp_path):
    spec, expected, seconds = uninterrupted
    assert fingerprint(killed(tmp_path / "run", spec, 10, 1, seconds)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_kills(uninterrupted, tmp_path, seed):
    spec, expected, seconds = uninterrupted
    assert fingerprint(killed(tmp_path / "run", spec, 10, seed, seconds)) == expected


@pytest.mark.parametrize("moment", ["fsync", "replace", "open"])
def test_killed_in_the_middle_of_a_checkpoint_it_ends_the_same(uninterrupted, tmp_path, moment):
    """The process kills itself on the way into, through and out of writing its third checkpoint."""
    spec, expected, _ = uninterrupted
    folder = RunFolder(tmp_path / "run")
    folder.create(spec)
    assert dying_at_a_checkpoint(folder.path, 3, moment) == -signal.SIGKILL and not folder.done
    assert int(checkpoint.checkpoints(folder.checkpoints)[-1].stem) in (400, 600)
    assert train(spec, folder)
    assert fingerprint(folder) == expected


@pytest.mark.parametrize("task", ["HalfCheetah-v5", "Reacher-v5"])
def test_mujoco_runs_resume_bit_for_bit(task, tmp_path):
    spec = replace(SPEC, task=task, steps=500, learning_starts=200, evaluate_every=250)
    expected = fingerprint(finished(tmp_path / "whole", spec))
    folder = RunFolder(tmp_path / "parts")
    folder.create(spec)
    for stop in (130, 310, 500):  # between evaluations, in the middle of episodes
        trainer = Trainer(spec, folder)
        if checkpoint.checkpoints(folder.checkpoints):
            assert trainer.restore(checkpoint.use_newest(folder.checkpoints, dict)[0]) == []
        while trainer.step < stop:
            trainer.advance()
            if trainer.step % spec.evaluate_every == 0:
                folder.append("eval.csv", trainer.evaluation_row())
                trainer.save()
        trainer.save()
    assert train(spec, folder)
    whole, parts = expected, fingerprint(folder)
    assert {k: v for k, v in parts.items() if "csv" not in k} == {k: v for k, v in whole.items() if "csv" not in k}


WALK = replace(
    SPEC, task="G1-flat", limits="paper", agent="fastsac", environments=4, steps=800, learning_starts=200,
    batch_size=16, evaluate_every=200, evaluate_episodes=2, task_options={"seconds": 1.0, "push": 1.0, "delay": 1},
    agent_options={"actor_hidden": [16], "critic_hidden": [16], "n_steps": 2},
)  # fmt: skip


def test_a_walking_run_resumes_bit_for_bit(tmp_path):
    """Killed with SIGKILL; the curriculum, delays and pushes go on as if nothing had happened."""
    expected = fingerprint(finished(tmp_path / "whole", WALK))
    folder = killed(tmp_path / "run", WALK, kills=1, seed=0, seconds=2.0)
    assert fingerprint(folder) == expected
    rows = np.atleast_1d(np.genfromtxt(folder.path / "train.csv", delimiter=",", names=True))
    assert rows["violations"][-1] == 0 and rows["episodes"][-1] > 10
    evaluation = np.genfromtxt(folder.path / "eval.csv", delimiter=",", names=True)
    assert (evaluation["violations"] == 0).all() and np.isfinite(evaluation["vte"]).all()


def test_no_violation_from_warm_up_to_the_end(tmp_path):
    spec = replace(SPEC, task="HalfCheetah-v5", steps=2000, learning_starts=1700, evaluate_every=1000)
    folder = finished(tmp_path / "run", spec)
    rows = np.genfromtxt(folder.path / "train.csv", delimiter=",", names=True)
    assert rows["violations"].tolist() == [0, 0] and rows["episodes"][-1] == 2
    evaluation = np.genfromtxt(folder.path / "eval.csv", delimiter=",", names=True)
    assert (evaluation["violations"] == 0).all() and (evaluation["utilisation"] > 0).all()


def test_an_interrupt_checkpoints_and_resumes(tmp_path, uninterrupted):
    spec, expected, seconds = uninterrupted
    folder, rng = RunFolder(tmp_path / "run"), random.Random(0)
    folder.create(spec)
    steps = []
    for _ in range(3):
        process = training(folder.path)
        await_loop(process.pid)  # before that Ctrl-C has nothing to save yet
        time.sleep(rng.uniform(0.02, seconds / 8))
        os.kill(process.pid, signal.SIGINT)
        process.join()
        steps.append(checkpoint.use_newest(folder.checkpoints, dict)[0]["step"])
    assert any(step % spec.evaluate_every for step in steps)  # saved where no evaluation was due
    assert train(spec, folder)
    assert fingerprint(folder) == expected


# ---------------------------------------------------------------- bad luck


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path):
    folder = finished(tmp_path / "run")
    newest = checkpoint.checkpoints(folder.checkpoints)[-1]
    whole = newest.read_bytes()
    rng = random.Random(0)
    for _ in range(30):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        newest.write_bytes(bytes(data) if rng.random() < 0.5 else whole[: rng.randrange(len(whole))])
        with pytest.raises(checkpoint.CheckpointError):
            checkpoint.load(newest)
    state, complaints = checkpoint.use_newest(folder.checkpoints, dict)
    assert (state["step"] == 1000 and "is damaged" in complaints[0]) or "does not begin" in complaints[0]
    for path in checkpoint.checkpoints(folder.checkpoints):
        path.write_bytes(b"")
    with pytest.raises(checkpoint.CheckpointError, match="holds no whole checkpoint"):
        checkpoint.use_newest(folder.checkpoints, dict)


def test_a_checkpoint_runs_no_code(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.system, ("touch /tmp/slewrl-trap",)

    path = checkpoint.save(tmp_path, 1, {"trap": Trap()})
    with pytest.raises(Exception, match="[Ww]eights"):
        checkpoint.load(path)
    assert not Path("/tmp/slewrl-trap").exists()


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path):
    """The system itself refuses the write: no file may grow beyond 4 kB here."""
    checkpoint.save(tmp_path, 1, {"x": torch.zeros(3)})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            checkpoint.save(tmp_path, 2, {"x": torch.ones(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["000000000001.ckpt"]  # and nothing half-written
    assert checkpoint.use_newest(tmp_path, dict)[0]["x"].sum() == 0


def test_folders_that_are_not_runs(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no run: there is no run.json"):
        RunFolder(tmp_path).spec()
    folder = RunFolder(tmp_path / "run")
    folder.create(SPEC)
    assert folder.spec() == SPEC
    with pytest.raises(FileExistsError, match="already holds a run: resume it"):
        folder.create(SPEC)
    (folder.path / "run.json").write_text('{"version": 99}')
    with pytest.raises(ValueError, match="is of version 99, expected 4"):
        folder.spec()
    (folder.path / "run.json").write_text("{")
    with pytest.raises(ValueError, match="not readable as JSON"):
        folder.spec()


def three_steps_in(tmp_path, spec=SPEC):
    folder = RunFolder(tmp_path / "run")
    folder.create(spec)
    trainer = Trainer(spec, folder)
    for _ in range(3):
        trainer.advance()
    return trainer


def test_a_nan_observation_names_the_step(tmp_path):
    trainer = three_steps_in(tmp_path)
    trainer.vec_env.envs[0].unwrapped.state = np.array([np.nan, 0.0])
    message = r"Pendulum-v1, environment 0, step 4: observation\[0\] is nan, expected a finite number"
    with pytest.raises(BrokenEnvironmentError, match=message):
        trainer.advance()


class Faulty(gym.Wrapper):
    """A Pendulum that breaks at its fifth step."""

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        self.count = getattr(self, "count", 0) + 1
        if self.count == 5 and self.spec.kwargs.get("how") == "raise":
            raise ConnectionError("the bus went away")
        return observation, float("nan") if self.count == 5 else reward, *rest


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("nan", "step 5: the reward is nan, expected a finite number"),
        ("raise", "step 5: ConnectionError: the bus went away"),
    ],
)
def test_an_environment_that_breaks_is_named_and_the_checkpoint_stays(tmp_path, how, message):
    made = []

    def make(how, **kwargs):
        made.append(gym.make("Pendulum-v1", **kwargs))
        return Faulty(made[-1]) if len(made) == 1 else made[-1]  # the evaluation's stays whole

    gym.register("Faulty-v0", make, kwargs={"how": how})
    RateLimits.preset("Pendulum-v1", "tight").to_yaml(tmp_path / "limits.yaml")
    spec = replace(SPEC, task="Faulty-v0", limits=str(tmp_path / "limits.yaml"), evaluate_every=4)
    folder = RunFolder(tmp_path / "run")
    folder.create(spec)
    try:
        with pytest.raises(BrokenEnvironmentError, match=f"Faulty-v0, environment 0, {message}"):
            train(spec, folder)
    finally:
        gym.registry.pop("Faulty-v0")
    assert checkpoint.use_newest(folder.checkpoints, dict)[0]["step"] == 4


@pytest.mark.parametrize("environments", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_several_environments_resume_bit_for_bit(environments, tmp_path):
    """Three do not divide the intervals of 200 and 1000 steps."""
    spec = replace(SPEC, environments=environments, steps=900)
    expected = fingerprint(finished(tmp_path / "whole", spec))
    folder = killed(tmp_path / "run", spec, kills=2, seed=0, seconds=2.0)
    assert fingerprint(folder) == expected
    rows = np.genfromtxt(folder.path / "eval.csv", delimiter=",", names=True)
    assert [round(step / 200) for step in rows["step"][:4]] == [1, 2, 3, 4] and rows["step"][-1] >= 900
    assert (rows["violations"] == 0).all()


def test_tensorboard_has_the_same_numbers(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = RunFolder(tmp_path / "run")
    folder.create(SPEC)
    assert train(SPEC, folder, loggers=["tensorboard"])
    board = EventAccumulator(str(folder.path / "tensorboard")).Reload()
    rows = np.genfromtxt(folder.path / "eval.csv", delimiter=",", names=True)
    logged = board.Scalars("eval/return_mean")
    assert [event.step for event in logged] == rows["step"].tolist()
    assert [event.value for event in logged] == pytest.approx(rows["return_mean"], rel=1e-6)
    assert "train/temperature" in board.Tags()["scalars"]


def test_tensorboard_keeps_the_point_a_run_resumes_at(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = RunFolder(tmp_path)
    for begun, steps in ((0, (200, 400)), (400, (600,))):
        with Logs(folder, begun, lambda row: None, loggers=["tensorboard"]) as logs:
            for step in steps:
                logs.write("eval.csv", {"step": step, "return_mean": 1.0})
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in board.Scalars("eval/return_mean")] == [200, 400, 600]


def test_a_log_before_the_first_update_of_td3s_actor_is_no_divergence(tmp_path):
    spec = replace(SPEC, agent="td3", learning_starts=999, steps=1003)
    rows = np.genfromtxt(finished(tmp_path / "run", spec).path / "train.csv", delimiter=",", names=True)
    assert np.isnan(rows["q"][0]) and np.isfinite(rows["critic_loss"]).all() and np.isfinite(rows["q"][1])


# ---------------------------------------------------------------- what a reviewer broke


def test_other_files_in_the_folder_are_left_alone(tmp_path):
    (tmp_path / "thesis.csv").write_text("years of work")
    folder = finished(tmp_path, replace(SPEC, steps=200))
    assert (tmp_path / "thesis.csv").read_text() == "years of work"
    for path in checkpoint.checkpoints(folder.checkpoints):
        path.unlink()
    before = (tmp_path / "eval.csv").read_text()
    assert train(folder.spec(), folder) and (tmp_path / "eval.csv").read_text() == before  # DONE is done


def test_a_run_without_its_replay_does_not_go_on(tmp_path):
    trainer = three_steps_in(tmp_path)
    trainer.save()
    trainer.replay.path.unlink()
    with pytest.raises(FileNotFoundError, match=r"rows.bin is gone: a run cannot go on without its replay"):
        train(SPEC, trainer.folder)


def test_two_processes_cannot_train_one_run(tmp_path):
    trainer = three_steps_in(tmp_path)
    with trainer.folder.lock(), pytest.raises(BlockingIOError, match="another process is training this run"):
        train(SPEC, trainer.folder)


def test_the_fallback_checkpoint_finds_its_rows(uninterrupted, tmp_path):
    """The newest checkpoint damaged, after the ring has wrapped: the one before leads to the same end."""
    spec, expected, _ = uninterrupted
    folder = RunFolder(tmp_path / "run")
    folder.create(spec)
    trainer = Trainer(spec, folder)
    while trainer.step < 999:
        trainer.advance()
        if trainer.step % spec.evaluate_every == 0:
            folder.append("eval.csv", trainer.evaluation_row())
            trainer.save()
    newest = checkpoint.checkpoints(folder.checkpoints)[-1]
    assert newest.stem.endswith("800")
    # However short the episodes, the ring holds what was live two intervals ago: a step writes two rows at most.
    assert trainer.replay.rows >= spec.capacity + checkpoint.KEEP * 2 * spec.evaluate_every
    newest.write_bytes(newest.read_bytes()[:-1])
    messages = []
    assert train(spec, folder, lambda row: messages.append(row.get("message")))
    assert "is damaged" in str(messages[0])
    assert fingerprint(folder) == expected


class Counter(gym.Env):
    """Ten steps an episode, observation and reward count them; of no known state. float64 throughout."""

    observation_space = gym.spaces.Box(-100, 100, (1,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1), {}

    def step(self, action):
        self.t += 1
        return np.array([float(self.t)]), 1.0, False, self.t == 10, {}


@pytest.fixture
def counting(tmp_path):
    gym.register("Counter-v0", Counter, max_episode_steps=10)
    RateLimits(0.1, low=-1, high=1, names=["x"]).to_yaml(tmp_path / "limits.yaml")
    yield replace(SPEC, task="Counter-v0", limits=str(tmp_path / "limits.yaml"), learning_starts=30, steps=300)
    gym.registry.pop("Counter-v0")


def test_an_environment_of_unknown_state_resumes_on_a_fresh_episode(counting, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create(counting)
    trainer = Trainer(counting, folder)
    while trainer.step < 16:
        trainer.advance()
    trainer.save()
    (tmp_path / "limits.yaml").unlink()  # the run has its own copy
    again = Trainer(counting, folder)
    assert "has no known state" in again.restore(checkpoint.use_newest(folder.checkpoints, dict)[0])[0]
    while again.step < 40:
        again.advance()
    assert again.last_return == 10.0
    batch = again.replay.sample(500, np.random.default_rng(0))
    assert torch.equal(batch.next_observation[:, 0], batch.observation[:, 0] + 1)  # no step leads into another episode
    assert train(counting, folder) and not RunFolder(tmp_path / "run").spec().limits.startswith("x")
    assert np.genfromtxt(folder.path / "train.csv", delimiter=",", names=True)["violations"].max() == 0


def test_and_an_on_policy_agent_takes_the_step_before_it_for_the_last(counting, tmp_path):
    """No advantage runs on into the fresh episode; nothing was terminated. Step 10 ended of itself."""
    spec = replace(counting, agent="ppo", agent_options={"rollout": 24, "hidden": [8]})
    trainer = Trainer(spec, RunFolder(tmp_path))
    while trainer.step < 16:
        trainer.advance()
    trainer.save()
    again = Trainer(spec, RunFolder(tmp_path))
    again.restore(checkpoint.use_newest(again.folder.checkpoints, dict)[0])
    again.advance()
    rollout = again.agent.rollout
    assert np.flatnonzero(rollout.ended).tolist() == [9, 15] and not rollout.terminated.any()
    assert rollout.next_observation[15:17, 0, 0].tolist() == [6.0, 1.0]


@pytest.mark.filterwarnings("ignore:.*not within the observation space.*:UserWarning")
def test_a_nan_at_a_reset_is_named(counting, tmp_path, monkeypatch):
    monkeypatch.setattr(Counter, "reset", lambda self, seed=None, options=None: (np.array([np.nan]), {}))
    folder = RunFolder(tmp_path / "run")
    folder.create(counting)
    with pytest.raises(BrokenEnvironmentError, match=r"Counter-v0, environment 0, step 0: observation\[0\] is nan"):
        Trainer(counting, folder)


def test_divergence_stops_the_run(tmp_path):
    trainer = three_steps_in(tmp_path, replace(SPEC, learning_starts=990, steps=1000))
    trainer.agent.critics.flat.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="training diverged by step 1000"):
        while True:
            trainer.advance()


# ---------------------------------------------------------------- a replay that was damaged


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was killed at step 950: the rows since its last checkpoint, at 800, are on the disk."""
    folder = RunFolder(tmp_path_factory.mktemp("stopped") / "run")
    folder.create(SPEC)
    trainer = Trainer(SPEC, folder)
    while trainer.step < 950:
        trainer.advance()
        if trainer.step % SPEC.evaluate_every == 0:
            folder.append("eval.csv", trainer.evaluation_row())
            trainer.save()
    trainer.replay.flush()
    return trainer


@pytest.fixture
def again(stopped, tmp_path):
    """The same run, to be damaged."""
    shutil.copytree(stopped.folder.path, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def written_at(folder, step):
    return int(checkpoint.load(folder.checkpoints / f"{step:012d}.ckpt")["replay_written"][0])


def flip_row(stopped, folder, k):
    """One bit of row k ever written."""
    path, width = folder.path / "replay" / "rows.bin", stopped.replay.row_width
    data = bytearray(path.read_bytes())
    data[4 * width * (k % stopped.replay.rows) + 9] ^= 4
    path.write_bytes(data)


def resumed(folder):
    """What a person is told; stops early, for the end is the same if the beginning is."""
    messages = []
    trainer = Trainer(folder.spec(), folder)
    notes, complaints = checkpoint.use_newest(folder.checkpoints, trainer.restore)
    messages += [*complaints, *notes, f"resumed at step {trainer.step}"]
    return messages


@pytest.mark.parametrize("uninterrupted", ["sac"], indirect=True)
def test_a_flipped_bit_in_the_rows_of_the_newest_checkpoint_falls_back(uninterrupted, stopped, again):
    """Rows the older checkpoint has not seen: it leads to the same end."""
    expected = uninterrupted[1]
    flip_row(stopped, again, written_at(again, 600) + 3)
    messages = []
    assert train(SPEC, again, lambda row: messages.append(row.get("message")))
    assert "000000000800.ckpt is not used" in messages[0] and "do not match their checksum" in messages[0]
    assert messages[1] == "resumed at step 600"
    assert fingerprint(again) == expected


@pytest.mark.parametrize("age", [1, 90])
def test_a_flipped_bit_in_the_rows_of_both_checkpoints_is_refused(stopped, again, age):
    """The ring has wrapped; nothing is touched."""
    flip_row(stopped, again, written_at(again, 600) - age)
    logs = (again.path / "eval.csv").read_bytes()
    with pytest.raises(checkpoint.CheckpointError, match=r"rows.bin.*rows \d+ to \d+ .*checksum.*begin the run again"):
        train(SPEC, again)
    assert (again.path / "eval.csv").read_bytes() == logs


@pytest.mark.parametrize("age", [150, 300])
def test_rows_the_newest_checkpoint_has_forgotten_do_not_matter_to_it(stopped, again, age):
    """They do to the older one, to the very last."""
    flip_row(stopped, again, written_at(again, 600) - age)
    assert resumed(again) == ["resumed at step 800"]
    (again.checkpoints / "000000000800.ckpt").unlink()
    with pytest.raises(checkpoint.CheckpointError, match="do not match their checksum"):
        resumed(again)


def test_rows_written_after_the_checkpoint_do_not_matter(stopped, again):
    flip_row(stopped, again, written_at(again, 800) + 1)
    flip_row(stopped, again, int(stopped.replay.written[0]) - 1)
    assert resumed(again) == ["resumed at step 800"]


def test_a_run_from_before_there_were_checksums_goes_on_with_a_note(again):
    for path in checkpoint.checkpoints(again.checkpoints):
        state = checkpoint.load(path)
        for name in ("replay_sums", "replay_ahead"):
            del state[name]
        checkpoint.save(path.parent, int(path.stem), state)
    messages = resumed(again)
    assert "from before replays had checksums" in messages[0] and messages[1] == "resumed at step 800"


def test_a_replay_that_was_cut_short_is_called_that(again):
    os.truncate(again.path / "replay" / "rows.bin", 1000)
    with pytest.raises(ValueError, match=r"rows.bin has 1000 bytes, expected \d+: it was cut short"):
        train(SPEC, again)


def test_a_replay_that_is_gone_is_missed_the_second_time_too(tmp_path):
    trainer = three_steps_in(tmp_path)
    trainer.save()
    trainer.replay.path.unlink()
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match=r"rows.bin is gone: a run cannot go on without its replay"):
            train(SPEC, trainer.folder)


@pytest.mark.parametrize("name", ["eval.csv", "train.csv"])
def test_a_log_that_lost_rows_of_both_checkpoints_is_refused(tmp_path, name):
    trainer = three_steps_in(tmp_path)
    trainer.folder.append(name, {"step": 3})
    trainer.save()
    (trainer.folder.path / name).unlink()
    with pytest.raises(checkpoint.CheckpointError, match=f"{name} has 0 bytes, fewer than the 7"):
        train(SPEC, trainer.folder)


@pytest.mark.parametrize("uninterrupted", ["sac"], indirect=True)
def test_a_directory_in_place_of_the_newest_checkpoint(uninterrupted, again):
    expected = uninterrupted[1]
    newest = checkpoint.checkpoints(again.checkpoints)[-1]
    newest.unlink()
    (newest / "thesis").mkdir(parents=True)
    assert "800.ckpt is no file, expected a checkpoint" in resumed(again)[0]
    assert train(SPEC, again)
    assert len(list(again.checkpoints.glob("*/thesis"))) == 1  # out of the way, not deleted
    assert fingerprint(again) == expected


def test_a_checkpoint_of_another_run_is_not_used(again):
    other = replace(SPEC, seed=8)
    text = (again.path / "run.json").read_text()
    (again.path / "run.json").write_text(text.replace('"seed": 7', '"seed": 8'))
    with pytest.raises(checkpoint.CheckpointError, match="it is of another run .seed is 7 there, 8 here in run.json"):
        train(other, again)
    with pytest.raises(checkpoint.CheckpointError, match="it is of another run .seed is 7 there, 8 here in run.json"):
        load_policy(again.path)


def test_a_file_of_a_users_own_is_no_checkpoint(again):
    for name in ("best", "0best"):
        (again.checkpoints / f"{name}.ckpt").write_text("years of work")
    checkpoint.keep_last(again.checkpoints)
    assert len(list(again.checkpoints.iterdir())) == 3
    assert resumed(again) == ["resumed at step 800"]


# ---------------------------------------------------------------- links that lead elsewhere


@pytest.mark.parametrize("name", ["lock", "train.csv", "eval.csv", "checkpoint/000000000200.tmp", "replay/rows.tmp"])
def test_no_link_in_a_run_folder_is_written_through(tmp_path, name):
    folder, elsewhere = RunFolder(tmp_path / "run"), tmp_path / "thesis"
    folder.create(SPEC)
    elsewhere.write_text("years of work")
    (folder.path / name).parent.mkdir(exist_ok=True)
    (folder.path / name).symlink_to(elsewhere)
    with pytest.raises(OSError, match=f"{name} is a symbolic link"):
        train(SPEC, folder)
    assert elsewhere.read_text() == "years of work"


def test_no_link_to_rows_of_the_right_size_is_written_through(again, tmp_path):
    rows, elsewhere = again.path / "replay/rows.bin", tmp_path / "thesis"
    rows.rename(elsewhere)
    rows.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    with pytest.raises(OSError, match=r"rows.bin is a symbolic link"):
        train(SPEC, again)
    assert elsewhere.read_bytes() == before


@pytest.mark.parametrize("name", FOLDERS)
def test_no_folder_of_a_run_is_a_link(again, tmp_path, name):
    """Whoever made the run would have files overwritten, and old checkpoints deleted, where it leads."""
    elsewhere = tmp_path / "thesis"
    shutil.copytree(again.path / name, elsewhere) if (again.path / name).exists() else elsewhere.mkdir()
    shutil.rmtree(again.path / name, ignore_errors=True)
    (elsewhere / "episodes.csv").write_text("years of work")
    (again.path / name).symlink_to(elsewhere)
    before = {path.name: path.read_bytes() for path in elsewhere.iterdir()}
    with pytest.raises(OSError, match=f"{name} is a symbolic link, expected a folder of the run's own"):
        train(SPEC, again)
    with pytest.raises(OSError, match=f"{name} is a symbolic link, expected a folder of the run's own"):
        evaluate_run(again.path, 1)
    assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == before


def test_a_run_folder_may_itself_be_a_link(again, tmp_path):
    (tmp_path / "link").symlink_to(again.path)
    evaluate_run(tmp_path / "link", 1)
    assert (again.path / "evaluation/episodes.csv").exists()


def test_a_new_run_copies_its_files_through_no_link(counting, tmp_path):
    folder, elsewhere = RunFolder(tmp_path / "run"), tmp_path / "thesis"
    elsewhere.write_text("years of work")
    folder.path.mkdir()
    folder.limits.symlink_to(elsewhere)
    folder.create(counting)
    assert elsewhere.read_text() == "years of work"
    assert folder.limits.read_text() == Path(counting.limits).read_text() and not folder.limits.is_symlink()


# ---------------------------------------------------------------- what is no file


def in_time(call):
    """Opening a pipe waits for whoever is at its other end: nobody is."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(10)
    try:
        return call()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_a_pipe_in_place_of_the_lock_is_refused(again):
    os.mkfifo(again.path / "lock")
    with pytest.raises(OSError, match="lock is no regular file"):
        in_time(lambda: train(SPEC, again))


def test_a_pipe_among_the_checkpoints_is_damage(again):
    os.mkfifo(again.checkpoints / "000000099999.ckpt")
    policy = in_time(lambda: load_policy(again.path))
    assert policy.step == 800 and "99999.ckpt is no file" in policy.complaints[0]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere"), Path.touch])
def test_names_that_are_no_checkpoint_are_not_kept_in_its_place(tmp_path, make):
    made = checkpoint.save(tmp_path, 20, {"a": 1})
    for step in (98, 99):
        make(tmp_path / f"{step:012d}.ckpt")
    in_time(lambda: checkpoint.keep_last(tmp_path))
    assert checkpoint.load(made) == {"a": 1}
    steps = [checkpoint.save(tmp_path, step, {"a": step}) for step in (30, 40)]
    assert [path.exists() for path in (made, *steps)] == [False, True, True]


@pytest.mark.parametrize("agent", ["sac", "td3", "fastsac", "ppo", "ppo_lag"])
def test_checkpoints_are_the_same_to_the_byte_after_a_kill(tmp_path, agent):
    small = {"rollout": 50, "hidden": [8]}
    options = {"fastsac": {"actor_hidden": [8], "critic_hidden": [8]}, "ppo": small, "ppo_lag": small}
    layer = "none" if agent == "ppo_lag" else "ddsrad"
    spec = replace(
        SPEC,
        agent=agent,
        layer=layer,
        steps=200,
        learning_starts=150,
        agent_options=options.get(agent, {"hidden": [8]}),
    )
    whole = finished(tmp_path / "whole", spec)
    folder = RunFolder(tmp_path / "parts")
    folder.create(spec)
    trainer = Trainer(spec, folder)
    while trainer.step < 170:
        trainer.advance()
    trainer.save()
    assert train(spec, folder)
    ends = [checkpoint.checkpoints(run.checkpoints)[-1].read_bytes() for run in (whole, folder)]
    assert ends[0] == ends[1]


def test_a_run_from_a_checkout_names_its_commit():
    checkout = Path(run_folder.__file__).parents[3]
    assert ("commit" in run_folder.provenance()) == (checkout / ".git").exists()


def test_a_run_of_an_older_slewrl_keeps_the_columns_it_has(tmp_path):
    """Its eval.csv is from before `unaveraged_return_mean`, and has a column that is no more."""
    folder = RunFolder(tmp_path)
    folder.create(replace(SPEC, steps=400))
    trainer = Trainer(folder.spec(), folder)
    while trainer.step < 200:
        trainer.advance()
    older = {k: v for k, v in trainer.evaluation_row().items() if k != "unaveraged_return_mean"} | {"forgotten": 1.0}
    folder.append("eval.csv", older)
    trainer.save()
    told = []
    assert train(folder.spec(), folder, lambda row: told.append(row.get("message")))
    header, before, after = (tmp_path / "eval.csv").read_text().splitlines()
    assert header.split(",") == list(older) and before.endswith(",1.0")
    assert len(after.split(",")) == len(older) and after.endswith(",nan") and after.startswith("400,")
    assert told.count("eval.csv was begun by an older slewrl, without unaveraged_return_mean: left out") == 1
