"""A run that is given a larger budget ends as if it had had it at first: logs, weights and checkpoint, to the byte."""

import functools
import resource
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from forked import extending
from test_train import Counter
from tiny_campaign import InProcess

from slewrl import RateLimits
from slewrl.agents.replay import ROWS, Replay, capacity_of
from slewrl.campaign.spec import Campaign, grid
from slewrl.campaign.store import Store, error_file, state_of
from slewrl.campaign.worker import FAILED, FINISHED, work
from slewrl.report.data import load
from slewrl.training import checkpoint
from slewrl.training.extend import extend
from slewrl.training.policy import load_policy
from slewrl.training.run_folder import LOGS, RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import Trainer, train, train_locked

ROW_EVERY = 100
"""Steps between rows of train.csv, here: runs are short."""
BASE = RunSpec(
    task="Pendulum-v1", learning_starts=140, batch_size=8, evaluate_every=200, evaluate_episodes=1, seed=7,
    agent_options={"hidden": [8], "updates": 1},
)  # fmt: skip
FAST = {"actor_hidden": [8], "critic_hidden": [8], "n_steps": 3, "updates": 1, "policy_every": 1}
SPECS = {
    "sac": BASE,
    "td3": replace(BASE, agent="td3"),
    "fastsac": replace(BASE, agent="fastsac", environments=5, agent_options=FAST),  # updates per step of all
    "ppo": replace(BASE, agent="ppo", agent_options={"hidden": [8], "rollout": 64, "normalize": True}),
    "ppo with a replay": replace(
        BASE, agent="ppo", agent_options={"hidden": [8], "q_hidden": [8], "rollout": 64, "advantage": "action"}
    ),
    "two environments": replace(BASE, environments=2),
    "three environments": replace(BASE, environments=3),
    "aram": replace(BASE, layer="aram"),
    "a ring that has wrapped": replace(BASE, capacity=100, environments=2, evaluate_every=50),
    "a ring that stops growing": replace(BASE, capacity=800, environments=2),
    "walking": replace(
        BASE, task="G1-flat", limits="paper", agent="fastsac", environments=4, task_options={"seconds": 0.34},
        agent_options=FAST,
    ),
}  # fmt: skip
"""Three environments divide neither interval. ARAM counts draws between rows of train.csv, as walking robots' runs do
falls: what was counted when a last row came too early must not be lost."""


@pytest.fixture(autouse=True)
def _rows_often(monkeypatch):
    monkeypatch.setattr("slewrl.training.resume.LOG_EVERY", ROW_EVERY)
    monkeypatch.setattr("slewrl.campaign.worker.EPISODES", 2)


def trained(path: Path, spec: RunSpec) -> RunFolder:
    folder = RunFolder(path)
    folder.create(spec)
    assert train(spec, folder) and folder.done
    return folder


def extended(folder: RunFolder, steps: int) -> RunFolder:
    with folder.lock():
        assert train_locked(extend(folder, steps), folder) and folder.done
    return folder


def stopped(path: Path, spec: RunSpec, step: int) -> RunFolder:
    """A run that was interrupted after ``step`` steps."""
    folder, advance = RunFolder(path), Trainer.advance
    folder.create(spec)

    def interrupted(trainer):
        advance(trainer)
        if trainer.step >= step:
            signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "advance", interrupted)
        assert not train(spec, folder) and not folder.done
    return folder


def end(folder: RunFolder) -> dict[str, bytes]:
    """All that decides, or is, the result; the checkpoint has the weights, the sums of the rows and all generators."""
    newest = checkpoint.checkpoints(folder.checkpoints)[-1]
    files = [newest, folder.path / "run.json", *(folder.path / name for name in LOGS)]
    return {path.name: path.read_bytes() for path in files}


def steps_of(folder: RunFolder, name: str) -> list[int]:
    return [int(line.split(",")[0]) for line in (folder.path / name).read_text().splitlines()[1:]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The end of a run of a spec, from the start; each is made once."""

    @functools.cache
    def made(name: str, steps: int) -> dict[str, bytes]:
        return end(trained(tmp_path_factory.mktemp("whole") / "run", replace(SPECS[name], steps=steps)))

    return made


QUICK = ("sac", "ppo", "two environments")


@pytest.mark.parametrize(
    ("name", "old"),
    [
        pytest.param(name, old, marks=[pytest.mark.slow] if old != 350 and name not in QUICK else [])
        for name in SPECS
        for old in (300, 350, 400)
    ],
)
def test_a_finished_run_goes_on(tmp_path, whole, name, old):
    """400 is a multiple of both intervals, 300 of that of train.csv, 350 and 430 of none.

    From its last checkpoint: that is all a campaign leaves. Robots' episodes end at 340 steps, the next after 400.
    """
    folder = trained(tmp_path / "run", replace(SPECS[name], steps=old))
    checkpoint.keep_last(folder.checkpoints)
    assert end(extended(folder, 430)) == whole(name, 430)


@pytest.mark.parametrize("name", SPECS)
def test_a_stopped_run_goes_on_beyond_its_budget(tmp_path, whole, name):
    folder = stopped(tmp_path / "run", replace(SPECS[name], steps=350), 250)
    assert end(extended(folder, 430)) == whole(name, 430)


def test_rows_that_only_a_last_step_logs_are_taken_back(tmp_path):
    folder = trained(tmp_path / "run", replace(BASE, steps=350))
    assert [steps_of(folder, name) for name in LOGS] == [[100, 200, 300, 350], [200, 350]]
    extended(folder, 430)
    assert [steps_of(folder, name) for name in LOGS] == [[100, 200, 300, 400, 430], [200, 400, 430]]


@pytest.mark.parametrize("name", ["sac", "ppo", "three environments"])
def test_twice(tmp_path, whole, name):
    folder = trained(tmp_path / "run", replace(SPECS[name], steps=150))
    assert end(extended(extended(folder, 350), 430)) == whole(name, 430)


def test_twice_before_the_first_took_effect(tmp_path, whole):
    """The file of the rows is still that of the first budget; then that of a budget no checkpoint was taken with."""
    folder = trained(tmp_path / "run", replace(SPECS["two environments"], steps=150))
    with folder.lock():
        extend(folder, 200)
        Trainer(extend(folder, 350), folder)
    assert not folder.done and end(extended(folder, 430)) == whole("two environments", 430)


def test_a_run_without_a_checkpoint_yet_begins_again(tmp_path, whole):
    folder, spec = RunFolder(tmp_path / "run"), replace(BASE, steps=350)
    folder.create(spec)
    trainer = Trainer(spec, folder)
    trainer.advance()
    folder.append("train.csv", trainer.train_row())
    assert end(extended(folder, 430)) == whole("sac", 430)


def test_the_command_can_be_given_again(tmp_path, whole):
    folder = stopped(tmp_path / "run", replace(BASE, steps=430), 250)
    assert end(extended(folder, 430)) == whole("sac", 430)


def test_a_policy_can_be_had_in_between(tmp_path):
    folder = trained(tmp_path / "run", replace(BASE, steps=200))
    with folder.lock():
        extend(folder, 300)
    assert load_policy(folder.path).step == 200


# ---------------------------------------------------------------- killed


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A finished run as a campaign leaves it, with its replay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slewrl.training.resume.LOG_EVERY", ROW_EVERY)
        patch.setattr("slewrl.campaign.worker.EPISODES", 2)
        folder = RunFolder(tmp_path_factory.mktemp("evaluated") / "run")
        folder.create(replace(SPECS["two environments"], steps=150))
        assert work(folder.path, keep_replay=True) == FINISHED
    return folder


def final_evaluation(folder: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder.path / "final").iterdir()}


@pytest.mark.parametrize("calls", range(1, 18))
def test_killed_at_any_moment_it_is_the_old_run_or_the_new_one(tmp_path, whole, evaluated, calls):
    """Calls 1 to 8 remove DONE and the final evaluation, 9 and 10 put run.json in its place, 11 to 14 the rows."""
    folder, old = RunFolder(tmp_path / "run"), end(evaluated)
    shutil.copytree(evaluated.path, folder.path)
    assert extending(folder.path, 430, calls, ROW_EVERY) == -signal.SIGKILL
    assert folder.done == (calls == 1) and state_of(folder) == ("done" if calls == 1 else "stopped")
    sizes = [(run.path / "replay" / ROWS).stat().st_size for run in (folder, evaluated)]
    assert (folder.spec().steps == 430, sizes[0] > sizes[1]) == (calls > 10, calls > 13)
    if folder.spec().steps == 150:
        assert work(folder.path, keep_replay=True) == FINISHED and state_of(folder) == "done"
        assert end(folder) == old and final_evaluation(folder) == final_evaluation(evaluated)
        extended(folder, 430)
    else:
        assert train(folder.spec(), folder)  # as --resume, without --steps
    assert end(folder) == whole("two environments", 430)
    assert [path.name for path in (folder.path / "replay").iterdir()] == [ROWS]


def test_half_a_final_evaluation_is_none(tmp_path, evaluated, monkeypatch):
    """Whatever the order in which a folder's files are removed: a worker looks at one of them."""
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(evaluated.path, folder.path)
    with monkeypatch.context() as killed, folder.lock(), pytest.raises(KeyboardInterrupt):
        killed.setattr(
            "slewrl.training.extend.shutil.rmtree", lambda path: (path / "density.csv").unlink() or raise_interrupt()
        )
        extend(folder, 430)
    assert work(folder.path, keep_replay=True) == FINISHED
    assert final_evaluation(folder) == final_evaluation(evaluated)


def raise_interrupt() -> None:
    raise KeyboardInterrupt


# ---------------------------------------------------------------- refused


def refused(folder: RunFolder, steps: int, error: type[Exception], message: str) -> None:
    """With nothing changed."""
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file() and path.name != "lock"}
    with folder.lock(), pytest.raises(error, match=message):
        extend(folder, steps)
    after = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file() and path.name != "lock"}
    assert after == before


def test_no_more_steps_than_there_are(tmp_path):
    folder = trained(tmp_path / "run", replace(BASE, environments=16, steps=150))  # makes 160
    refused(folder, 100, ValueError, r"run is finished with 150 steps, and --steps is 100: expected more")
    refused(folder, 150, ValueError, r"run is finished with 150 steps, and --steps is 150: expected more")
    refused(folder, 155, ValueError, r"run is finished with 160 steps, and --steps is 155: expected more")
    half = stopped(tmp_path / "half", replace(BASE, steps=300), 120)
    refused(half, 200, ValueError, r"half has a budget of 300 steps, and --steps is 200: expected more")


def test_what_is_missing_is_named(tmp_path):
    folder = trained(tmp_path / "run", replace(BASE, steps=150))
    rows = folder.path / "replay" / ROWS
    rows.rename(tmp_path / "rows")
    refused(folder, 300, FileNotFoundError, r"rows.bin is gone: a run cannot be extended without its replay")
    (tmp_path / "rows").rename(rows)
    shutil.rmtree(folder.checkpoints)
    refused(folder, 300, FileNotFoundError, "checkpoint holds no checkpoint: a run cannot be extended without one")


def test_what_is_damaged_is_named(tmp_path):
    folder = trained(tmp_path / "run", replace(BASE, steps=150))
    rows = folder.path / "replay" / ROWS
    data = bytearray(rows.read_bytes())
    data[99] ^= 1
    rows.write_bytes(data)
    refused(folder, 300, checkpoint.CheckpointError, "rows.bin is damaged: rows 0 to 63 of environment 0")
    rows.write_bytes(data[:-4])
    refused(folder, 300, ValueError, "rows.bin has .* bytes, expected .*: it was cut short")
    (folder.path / "train.csv").write_text("")
    rows.write_bytes(data)
    refused(folder, 300, checkpoint.CheckpointError, "train.csv has 0 bytes, fewer than")


@pytest.mark.parametrize(
    ("change", "message"),
    [({"steps": 200}, "steps is 200 there, 150 here"), ({"steps": 100, "seed": 8}, "^(?!.*steps).*seed is 8 there")],
)
def test_a_checkpoint_of_another_run_stays_one(tmp_path, change, message):
    """Of a larger budget, or of a smaller one and another seed."""
    folder = trained(tmp_path / "run", replace(BASE, steps=150))
    state = checkpoint.use_newest(folder.checkpoints, dict)[0]
    state["spec"] |= change
    checkpoint.save(folder.checkpoints, state["step"], state)
    with pytest.raises(checkpoint.CheckpointError, match=message):
        load_policy(folder.path)


def without_notes(folder: RunFolder) -> None:
    """As a slewrl from before runs could be extended left its checkpoints."""
    for path in checkpoint.checkpoints(folder.checkpoints):
        state = checkpoint.load(path)
        state.pop("before_last", None)
        checkpoint.save(folder.checkpoints, state["step"], state)


@pytest.mark.parametrize("old", [350, 400])
def test_the_last_checkpoint_of_an_older_slewrl(tmp_path, whole, old):
    """Where it has rows too many, the one before leads to the same end."""
    folder = trained(tmp_path / "run", replace(BASE, steps=old))
    without_notes(folder)
    assert end(extended(folder, 430)) == whole("sac", 430)


def test_and_of_one_that_kept_no_other(tmp_path):
    folder = trained(tmp_path / "run", replace(BASE, steps=350))
    without_notes(folder)
    checkpoint.keep_last(folder.checkpoints)
    refused(folder, 430, checkpoint.CheckpointError, "the last of a run of 350 steps by an older slewrl: its logs have")


class Short(Counter):
    """Every step ends an episode, and so writes two rows."""

    def step(self, action):
        return *super().step(action)[:3], True, {}


@pytest.fixture
def short(tmp_path):
    gym.register("Short-v0", Short, max_episode_steps=10)
    RateLimits(0.1, low=-1, high=1, names=["x"]).to_yaml(tmp_path / "limits.yaml")
    yield replace(BASE, task="Short-v0", limits=str(tmp_path / "limits.yaml"))
    gym.registry.pop("Short-v0")


def test_a_replay_that_has_dropped_rows_the_larger_would_have(short, tmp_path):
    """Three environments make 34 steps each of 100, so 68 rows, of which 66 are sampled from. Of 102 it is 68."""
    folder = trained(tmp_path / "run", replace(short, environments=3, steps=100))
    refused(folder, 300, checkpoint.CheckpointError, "its replay samples from 66 rows an environment, and has dropped")
    extended(trained(tmp_path / "fits", replace(short, environments=3, steps=102)), 300)


def test_an_environment_of_unknown_state_says_so(short, tmp_path):
    folder, told = trained(tmp_path / "run", replace(short, steps=100)), []
    with folder.lock():
        train_locked(extend(folder, 150), folder, told.append)
    assert "has no known state: resuming on fresh episodes, not bit for bit" in told[0]["message"]


# ---------------------------------------------------------------- the rows


def numbered(environments: int, rows: int, width: int) -> np.ndarray:
    return np.arange(environments * rows * width, dtype=np.float32).reshape(environments, rows, width)


def test_rings_are_laid_out_anew(tmp_path):
    small = Replay(20, 4, 2, 3, 2, tmp_path)
    small._table[:] = numbered(2, small.rows, 7).reshape(-1, 7)
    small.flush()
    assert capacity_of(tmp_path, 4, 2, 7) == 20
    large = Replay(30, 4, 2, 3, 2, tmp_path, least=20)
    assert large.rows == small.rows + 5 and capacity_of(tmp_path, 4, 2, 7) == 30
    there = large._table.reshape(2, large.rows, 7)
    assert np.array_equal(there[:, : small.rows], numbered(2, small.rows, 7)) and not there[:, small.rows :].any()
    again = Replay(30, 4, 2, 3, 2, tmp_path, least=20)
    assert np.array_equal(again._table, large._table)


@pytest.mark.parametrize(("capacity", "least"), [(30, 22), (30, None), (18, 10)])
def test_rings_of_no_budget_of_the_run_are_left_alone(tmp_path, capacity, least):
    """Shorter than the smallest there was, longer than the largest, or of a run that was not extended."""
    Replay(20, 4, 2, 3, 2, tmp_path)
    before = (tmp_path / ROWS).read_bytes()
    with pytest.raises(ValueError, match=r"rows.bin has \d+ bytes, expected \d+"):
        Replay(capacity, 4, 2, 3, 2, tmp_path, least)
    assert (tmp_path / ROWS).read_bytes() == before


def test_a_full_disk_leaves_the_rings_as_they_were(tmp_path):
    Replay(20, 4, 2, 3, 2, tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="no room for the replay"):
            Replay(2000, 4, 2, 3, 2, tmp_path, least=20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert capacity_of(tmp_path, 4, 2, 7) == 20 and [path.name for path in tmp_path.iterdir()] == [ROWS]


# ---------------------------------------------------------------- campaigns


def campaign(steps: int, *layers: str) -> Campaign:
    return Campaign("tiny", "a test", grid(replace(BASE, steps=steps), layer=layers or ("ddsrad", "post")))


def made(store: Store, steps: int, extend: bool = False, keep_replay: bool = True) -> list[int]:
    """Run the campaign with this budget; how its runs ended."""
    store.begin(campaign(steps), extend)
    keys = store.campaign().by_key.items()
    return [work(store.prepare(key, spec).path, steps=spec.steps, keep_replay=keep_replay) for key, spec in keys]


def contents(store: Store) -> dict[str, bytes]:
    """Every file that depends on the campaign alone."""
    ignored = ("timing.csv", "worker.log", "lock", "campaign.lock", "provenance.json")
    files = [f for f in sorted(store.path.rglob("*")) if f.is_file() and f.name not in ignored]
    return {str(f.relative_to(store.path)): f.read_bytes() for f in files}


def test_a_campaign_is_extended_twice(tmp_path):
    store, other = Store(tmp_path / "c"), Store(tmp_path / "whole")
    for steps in (150, 250, 330):
        assert made(store, steps, extend=steps > 150) == [FINISHED, FINISHED]
    assert made(other, 330) == [FINISHED, FINISHED]
    assert contents(store) == contents(other)
    assert [(run.state, run.step) for run in store.progress()] == [("done", 330), ("done", 330)]


def test_runs_that_are_still_to_be_extended_are_not_finished(tmp_path):
    """Neither to status and retry, nor to a report, which would call them runs of the larger budget."""
    store = Store(tmp_path / "c")
    made(store, 150)
    store.begin(campaign(250, "post"), extend=True)
    assert {run.spec.layer: run.state for run in store.progress()} == {"ddsrad": "done", "post": "stopped"}
    assert [run.spec.layer for result in load(store.path) for run in result.runs] == ["ddsrad"]


def test_finished_runs_without_their_replay_stay_as_they_are_and_say_so(tmp_path):
    store = Store(tmp_path / "c")
    assert made(store, 150, keep_replay=False) == [FINISHED, FINISHED]
    kept = {key: (store.folder(key).path / "eval.csv").read_bytes() for key in store.campaign().by_key}
    assert made(store, 250, extend=True) == [FAILED, FAILED]
    for key, before in kept.items():
        folder = store.folder(key)
        assert folder.done and (folder.path / "final/episodes.csv").exists() and folder.spec().steps == 150
        assert (folder.path / "eval.csv").read_bytes() == before
        assert "rows.bin is gone: a run cannot be extended" in error_file(folder).read_text()
    assert {run.state for run in store.progress()} == {"failed"}


def test_a_budget_only_grows_and_only_when_asked_for(tmp_path):
    store = Store(tmp_path / "c")
    store.begin(campaign(150))
    with pytest.raises(FileExistsError, match=r"steps is 150 there, 140 here\): choose another folder [^,]*$"):
        store.begin(campaign(140), extend=True)
    with pytest.raises(FileExistsError, match=r"steps is 150 there, 250 here.*or extend its runs \(--steps 250\)"):
        store.begin(campaign(250))
    other = Campaign("tiny", "", grid(replace(BASE, steps=250, evaluate_every=100), layer=("ddsrad",)))
    with pytest.raises(FileExistsError, match="evaluate_every is 200 there, 100 here"):
        store.begin(other, extend=True)
    assert {spec.steps for spec in store.campaign().runs} == {150}


def test_collected_results_are_not_overwritten_with_another_budget(tmp_path):
    store = Store(tmp_path / "c")
    made(store, 150)
    store.collect(tmp_path / "results")
    made(store, 250, extend=True)
    with pytest.raises(FileExistsError, match="steps is 150 there, 250 here"):
        store.collect(tmp_path / "results")
    assert store.collect(tmp_path / "more") == 2


# ---------------------------------------------------------------- the commands

SMALL = ("--task", "Pendulum-v1", "--learning-starts", "140", "--evaluate-every", "200", "--evaluate-episodes", "1",
         "--no-tensorboard", "--set", "agent.hidden=[8]")  # fmt: skip


def test_the_command_extends(slewrl):
    assert slewrl("train", *SMALL, "--steps", "150", "--out", "run").returncode == 0
    more = slewrl("train", "--resume", "run", "--steps", "250", "--no-tensorboard")
    assert more.returncode == 0 and "250 steps" in more.stdout and "resumed at step 150" in more.stdout
    assert slewrl("train", *SMALL, "--steps", "250", "--out", "whole").returncode == 0
    assert end(RunFolder(Path("run"))) == end(RunFolder(Path("whole")))
    fewer = slewrl("train", "--resume", "run", "--steps", "250")
    assert fewer.returncode == 2 and "run is finished with 250 steps, and --steps is 250" in fewer.stderr
    assert "is finished" in slewrl("train", "--resume", "run").stdout


def test_a_budget_of_the_usual_size_is_one_that_was_asked_for(slewrl):
    slewrl("train", *SMALL, "--steps", "150", "--out", "run")
    shutil.rmtree("run/replay")
    asked = slewrl("train", "--resume", "run", "--steps", "1000000")
    assert asked.returncode == 2 and "rows.bin is gone" in asked.stderr
    assert "(default: 1000000)" in " ".join(slewrl("train", "--help").stdout.replace("│", "").split())


def test_the_campaign_command_extends(slewrl, tmp_path, monkeypatch):
    monkeypatch.setattr("slewrl.campaign.runner.start", InProcess)
    (tmp_path / "mine.yaml").write_text(
        "base: {task: Pendulum-v1, learning_starts: 140, evaluate_every: 200, evaluate_episodes: 1, batch_size: 8, "
        "agent_options: {hidden: [8]}, steps: 150}\ngrid: {seed: [1]}\n"
    )
    command = ("campaign", "run", "mine.yaml", "--out", "c", "--workers", "1")
    assert slewrl(*command, "--keep-replays").returncode == 0
    assert slewrl(*command, "--steps", "250", "--keep-replays").returncode == 0
    assert slewrl(*command[:-4], "--out", "whole", "--steps", "250", "--keep-replays").returncode == 0
    assert contents(Store(Path("c"))) == contents(Store(Path("whole")))
    shorter = slewrl(*command)
    assert shorter.returncode == 2 and "steps is 250 there, 150 here" in shorter.stderr
