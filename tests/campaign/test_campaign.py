"""Grids, the folder they live in, and a runner that loses nothing: killed, failing, sharded, the bytes are the same."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from forked import ForkedWorker
from tiny_campaign import InProcess, cell, write_campaign

from slewrl.campaign.grids import CAMPAIGNS, mini
from slewrl.campaign.runner import Runner, give_up, shard
from slewrl.campaign.spec import Campaign, Selection, grid, load_campaign
from slewrl.campaign.store import Store, error_file, last_row
from slewrl.campaign.worker import BUSY, FAILED, FINISHED, work
from slewrl.commands.campaign import check
from slewrl.layers import LAYERS
from slewrl.paper.grids import METHODS, SEEDS, TASKS
from slewrl.paper.printed import is_printed
from slewrl.training.policy import evaluate_run
from slewrl.training.spec import RunSpec

TINY = RunSpec(
    "Pendulum-v1", steps=300, learning_starts=100, evaluate_every=100, evaluate_episodes=1, batch_size=8,
    agent_options={"hidden": [8]},
)  # fmt: skip
RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def forked(monkeypatch):
    """Workers that are processes, but start at once."""
    monkeypatch.setattr("slewrl.campaign.runner.start", ForkedWorker)


def tiny(*layers, seeds=(1,), **changes):
    return Campaign("tiny", "a test", grid(replace(TINY, **changes), layer=layers or ("ddsrad",), seed=seeds))


def begun(path: Path, campaign: Campaign) -> Store:
    store = Store(path)
    store.begin(campaign)
    return store


def contents(store: Store) -> dict[str, bytes]:
    """Every file that depends on the campaign alone."""
    ignored = ("timing.csv", "worker.log", "lock", "campaign.lock", "provenance.json")
    files = [f for f in sorted(store.path.rglob("*")) if f.is_file() and f.name not in ignored]
    return {str(f.relative_to(store.path)): f.read_bytes() for f in files}


def worked(store: Store, *keys: str) -> None:
    """These runs, or all, by the worker's own function in this process: no start to wait for."""
    for key, spec in store.campaign().by_key.items():
        if key in (keys or (key,)):
            assert work(store.prepare(key, spec).path) == FINISHED


# ---------------------------------------------------------------------- grids


@pytest.mark.parametrize(
    ("name", "count"),
    [("paper-tight", 240), ("paper-wide", 240), ("sensitivity", 60), ("rivals", 520), ("humanoids", 60)],
)
def test_the_papers_grids(name, count):
    campaign = CAMPAIGNS[name]()
    assert len(campaign.by_key) == count
    assert {spec.seed for spec in campaign.runs} == set(SEEDS)
    assert all(spec.steps >= 1_500_000 and spec.layer in LAYERS for spec in campaign.runs)


def test_the_tight_table_is_a_full_product():
    cells = {(s.task, s.agent, s.layer, s.seed) for s in CAMPAIGNS["paper-tight"]().runs}
    assert cells == {(t, a, m, s) for t in TASKS for a in ("sac", "td3") for m in METHODS for s in SEEDS}
    assert {s.layer for s in CAMPAIGNS["rivals"]().runs} == set(LAYERS) - {"budget"}  # has one limit more


def test_the_evidence_has_every_method_and_a_task_in_the_papers_units():
    runs = CAMPAIGNS["evidence"]().runs
    assert {s.layer for s in runs if s.task == "HalfCheetah-v5"} >= {*METHODS, "boxpro", "interval_srad", "none"}
    assert {s.limits for s in runs if s.task == "Humanoid-v5"} == {"tight_env_units"}
    assert {(s.steps, s.environments) for s in runs if s.agent == "ppo"} == {(1_500_000, 8)}
    assert [s for s in runs if s.recipe == "paper"] == [s for s in runs if s.density == "action"]  # as printed
    assert max(s.steps for s in runs if s.agent == "sac") == 200_000


COMPILES = pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*:DeprecationWarning")
"""torch.compile imports what torch has deprecated."""


@COMPILES
def test_every_campaign_can_begin():
    for name, make in CAMPAIGNS.items():
        if name != "humanoids":
            check(make())


@COMPILES
def test_the_humanoids_need_a_gpu_and_their_small_twin_does_not(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="torch sees no GPU"):
        check(CAMPAIGNS["humanoids"]())
    check(CAMPAIGNS["first-walk"]())


def test_a_part_of_a_campaign():
    part = Selection(tasks=("Hopper-v5",), agents=("td3",), layers=("ddsrad", "post"), seed_count=2, steps=50)
    runs = part.of(CAMPAIGNS["paper-wide"]()).runs
    assert {(s.task, s.agent, s.layer, s.seed, s.steps, s.limits) for s in runs} == {
        ("Hopper-v5", "td3", layer, seed, 50, "wide") for layer in ("ddsrad", "post") for seed in SEEDS[:2]
    }
    other = Selection(seeds=(7,)).of(CAMPAIGNS["sensitivity"]()).runs
    assert len(other) == 12 and {s.seed for s in other} == {7}
    assert {s.layer_options["penalty_weight"] for s in other} == {1e-4, 1e-3, 5e-3, 1e-2, 0.1, 1}


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(tasks=("Walker2d-v5",)), "has no task 'Walker2d-v5'; it has: Ant-v5, Humanoid-v5"),
        (Selection(layers=("clip",)), "has no layer 'clip'; it has: boxpre.*ddsrad.$"),
        (Selection(layers=("ddsard",)), "has no layer 'ddsard'; it has: boxpre.* Did you mean 'ddsrad'.$"),
        (Selection(agents=("sca",)), "has no agent 'sca'; it has: sac, td3. Did you mean 'sac'.$"),
        (Selection(seeds=(1, -2)), "--seeds is .1, -2., expected numbers of at least 0"),
        (Selection(seed_count=0), "--seed-count is 0, expected at least 1"),
        (Selection(seeds=(1,), seed_count=1), "exclude each other"),
    ],
)
def test_a_part_that_is_not_there(selection, message):
    with pytest.raises(ValueError, match=message):
        selection.of(CAMPAIGNS["paper-tight"]())


def test_a_layer_is_added_to_a_grid():
    """A user's own beside one of the grid's: the same tasks, agents, seeds, steps; none of another layer's options."""
    whole = CAMPAIGNS["paper-tight"]()
    runs = Selection(layers=("boxpre", "toy_layer:Toy", "boxpro")).of(whole).runs
    layers = {layer: [s for s in runs if s.layer == layer] for layer in ("boxpre", "toy_layer:Toy", "boxpro")}
    assert [len(found) for found in layers.values()] == [40, 40, 40]
    cells = [[(s.task, s.limits, s.agent, s.seed, s.steps, s.recipe) for s in found] for found in layers.values()]
    assert cells[0] == cells[1] == cells[2]
    assert [found[0].layer_options for found in layers.values()] == [{"penalty_weight": 0.005}, {}, {}]
    assert all(is_printed(spec) for spec in runs)  # the paper's mean for an increment, none over a tanh of the range
    assert [found[0].agent_options for found in layers.values()] == [{}, {"mean_bound": "tanh"}, {}]


def test_a_layer_is_added_where_layers_are_compared():
    """Not where DD-SRad's density is, nor PPO's; of a grid of one layer alone, everywhere."""
    added = Selection(layers=("budget",)).of(CAMPAIGNS["first"]()).runs
    assert {(s.agent, s.density, s.recipe, s.seed) for s in added} == {
        (agent, "normalized", "paper", seed) for agent in ("sac", "td3") for seed in SEEDS[:3]
    }
    swept = Selection(layers=("ddsrad", "post")).of(CAMPAIGNS["sensitivity"]()).runs
    assert [s.limits for s in swept if s.layer == "post"] == ["wide"] * 5 + ["tight"] * 5
    alone = Selection(agents=("ppo",), layers=("boxpro",)).of(CAMPAIGNS["table1"]()).runs
    assert {(s.layer, s.agent_options["rollout"]) for s in alone} == {("boxpro", 500)} and len(alone) == 3


def test_a_users_own_grid(tmp_path):
    text = "about: mine\nbase: {task: Pendulum-v1, steps: 500}\ngrid: {layer: [ddsrad, post], seed: [3, 4]}\n"
    (tmp_path / "mine.yaml").write_text(text)
    campaign = load_campaign(str(tmp_path / "mine.yaml"))
    assert campaign.name == "mine" and len(campaign.runs) == 4 and campaign.runs[0].steps == 500
    (tmp_path / "mine.py").write_text(
        "from slewrl.campaign.spec import Campaign, grid\nCAMPAIGN = Campaign('own', '', grid(seed=[1, 2, 3]))\n"
    )
    assert len(load_campaign(str(tmp_path / "mine.py")).runs) == 3


def test_a_users_grid_has_the_usual_yaml(tmp_path):
    text = "base: {steps: 1_000, agent_options: {autotune: false}}\ngrid: {seed: [1]}\n"
    (tmp_path / "mine.yaml").write_text(text)
    spec = load_campaign(str(tmp_path / "mine.yaml")).runs[0]
    assert spec.steps == 1_000 and spec.agent_options == {"autotune": False}


LEVELS = ", ".join(["&a0 [x]", *(f"&a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10))])
BOMB = f"about: [{LEVELS}]\ngrid: {{seed: [1]}}"
AXES = ("seed", "steps", "batch_size", "learning_starts", "evaluate_every")
VAST = "grid: {" + ", ".join(f"{axis}: [{', '.join(map(str, range(100)))}]" for axis in AXES) + "}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grid: {layer: ddsrad}", "grid.layer is 'ddsrad', expected a list"),
        ("base: {task: x}", "has no grid"),
        ("grid: {lair: [ddsrad]}", "a run has no field lair; it has: task, limits"),
        ("base: {stops: 3}\ngrid: {seed: [1]}", "base has no field stops"),
        ("grid: {seed: [1]}\ngird: 1", "unknown entries .'gird'."),
        ("grid: [", "not readable as YAML"),
        ("grid: " + 5_000 * "[", "c.yaml: nested too deeply"),
        (BOMB, "c.yaml: more than 20,000 entries"),
        (VAST, r"c.yaml: grid has 10,000,000,000 runs, expected at most 100,000; its lists are: seed \(100\), steps"),
        ("name: ../../escaped/here\ngrid: {seed: [1]}", "c.yaml: name is '../../escaped/here', expected a word"),
        ("name: /tmp/here\ngrid: {seed: [1]}", "c.yaml: name is '/tmp/here', expected a word"),
        ("name: ''\ngrid: {seed: [1]}", "c.yaml: name is '', expected a word"),
        ("name: ..\ngrid: {seed: [1]}", "c.yaml: name is '..', expected a word"),
        ("name: 5\ngrid: {seed: [1]}", "c.yaml: name is 5, expected a word"),
        ("about: [1]\ngrid: {seed: [1]}", "c.yaml: about is .1., expected a line of text"),
        ("base: [1]\ngrid: {seed: [1]}", "c.yaml: base is .1., expected fields"),
        ("base: {1: 2}\ngrid: {seed: [1]}", "c.yaml: base has no field 1"),
        ("grid: {1: [2]}", "c.yaml: a run has no field 1"),
        ("base: {steps: much}\ngrid: {seed: [1]}", "c.yaml: steps is 'much', expected a whole number"),
    ],
)
def test_a_users_grid_that_is_wrong(tmp_path, text, message):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_campaign(str(tmp_path / "c.yaml"))


def test_unknown_names():
    with pytest.raises(ValueError, match="no campaign 'paper'; there are: paper-tight, paper-wide"):
        load_campaign("paper")
    with pytest.raises(ValueError, match="no campaign 'tabel1'; there are: .* Did you mean 'table1'.$"):
        load_campaign("tabel1")
    with pytest.raises(FileNotFoundError, match="no file 'nowhere.yaml'"):
        load_campaign("nowhere.yaml")
    with pytest.raises(ValueError, match="Pendulam"):
        check(tiny(task="Pendulam-v1"))
    with pytest.raises((ValueError, KeyError), match="ddsrat"):
        check(tiny("ddsrat"))
    with pytest.raises(ValueError, match="has no runs"):
        Campaign("none", "", ())


def test_keys_tell_runs_apart():
    runs = CAMPAIGNS["sensitivity"]().runs
    assert len({run.key for run in runs}) == len(runs)
    with pytest.raises(ValueError, match="two different runs named"):
        Campaign("x", "", (TINY, replace(TINY, steps=5)))


def test_shards_share_the_work():
    keys = [str(i) for i in range(10)]
    parts = [shard(keys, f"{k}/3") for k in (1, 2, 3)]
    assert sorted(key for part in parts for key in part) == keys and max(map(len, parts)) - min(map(len, parts)) <= 1
    for wrong in ("0/3", "4/3", "x", "1/", "1/0"):
        with pytest.raises(ValueError, match="expected k/n"):
            shard(keys, wrong)


# ---------------------------------------------------------------------- the folder


def test_a_folder_is_of_one_campaign(tmp_path):
    store = begun(tmp_path / "c", tiny())
    assert store.campaign() == tiny()
    store.begin(tiny("ddsrad", "post"))  # more runs of the same campaign join
    assert len(store.campaign().runs) == 2
    with pytest.raises(FileExistsError, match="holds campaign 'tiny', not 'mini': choose another .*--out"):
        store.begin(mini())
    with pytest.raises(FileExistsError, match="steps is 300 there, 400 here.*another folder .*--out FOLDER"):
        store.begin(tiny(steps=400))
    assert len(store.campaign().runs) == 2


def test_a_folder_with_something_else_in_it(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(FileExistsError, match="is not empty and holds no campaign: choose another .*--out"):
        Store(tmp_path).begin(tiny())
    with pytest.raises(FileNotFoundError, match="there is no campaign.json"):
        Store(tmp_path).campaign()
    (tmp_path / "campaign.json").write_text("{")
    with pytest.raises(ValueError, match="not readable as JSON"):
        Store(tmp_path).campaign()
    (tmp_path / "campaign.json").write_text('{"version": 9}')
    with pytest.raises(ValueError, match="has version 9, expected 3"):
        Store(tmp_path).campaign()


def test_half_written_run_folders(tmp_path):
    store = begun(tmp_path / "c", tiny("ddsrad", "post"))
    first, second = store.campaign().by_key.items()
    (store.path / first[0]).mkdir()  # made, and killed: nothing in it yet
    assert store.prepare(*first).spec() == first[1]
    (store.path / second[0]).mkdir()
    (store.path / second[0] / "train.csv").write_text("step\n1\n")
    with pytest.raises(FileExistsError, match="holds logs of another run"):
        store.prepare(*second)
    (store.path / first[0] / "run.json").unlink()
    store.prepare(first[0], replace(first[1], steps=700))
    with pytest.raises(FileExistsError, match="steps is 700 there, 300 here"):
        store.prepare(*first)


def test_the_last_whole_row(tmp_path):
    path = tmp_path / "x.csv"
    assert last_row(path) == {}
    path.write_text("a,b\n")
    assert last_row(path) == {}
    path.write_text("a,b\n" + "1,2\n" * 2000 + "3,4\n5")
    assert last_row(path) == {"a": "3", "b": "4"}


# ---------------------------------------------------------------------- running


def test_however_it_is_run_the_bytes_are_the_same(tmp_path, forked):
    """One after another; by two workers, with a SIGKILL in every run; in shards, stopped and gone on with."""
    campaign = tiny("ddsrad", "post")
    stores = [begun(tmp_path / name, campaign) for name in ("one", "killed", "stopped")]
    keys = list(campaign.by_key)
    worked(stores[0])
    killed = set()

    def kill_each_once(runner):
        for key, process in runner.active.items():
            if key not in killed and list(stores[1].folder(key).checkpoints.glob("*.ckpt")):
                killed.add(key)
                process.kill()

    runner = Runner(stores[1], keys, 2)
    assert runner.run(kill_each_once, poll=0.005)
    assert runner.resumed == len(killed) and killed

    def stop_when_learning(runner):
        if any(list(stores[2].folder(key).checkpoints.glob("*.ckpt")) for key in runner.active):
            runner.stop()

    halves = [shard(keys, f"{k}/2") for k in (1, 2)]
    stopped = Runner(stores[2], halves[0], 1)
    assert not stopped.run(stop_when_learning, poll=0.005) and not stopped.failed
    assert all(Runner(stores[2], half, 2).run() for half in halves)
    expected = contents(stores[0])
    assert len(expected) > 4 * len(keys)
    assert all(contents(store) == expected for store in stores[1:])
    assert not list(tmp_path.rglob("rows.bin"))  # a finished run needs no replay
    again = Runner(stores[0], keys, 1)
    begin = time.perf_counter()
    assert again.run() and time.perf_counter() - begin < 5  # finished runs are kept


def test_a_failure_is_told_and_stops_nobody(tmp_path, slewrl, monkeypatch):
    """An environment that cannot be made any more, as when a package was removed."""
    monkeypatch.setattr("slewrl.campaign.runner.start", InProcess)
    good, bad = tiny().runs[0], replace(TINY, task="Gone-v0", limits="tight")
    store = begun(tmp_path / "c", Campaign("tiny", "", (bad, good)))
    runner = Runner(store, [bad.key, good.key], 1)
    assert not runner.run()
    assert runner.finished == [good.key] and list(runner.failed) == [bad.key]
    assert "Gone-v0" in error_file(store.folder(bad.key)).read_text()
    states = {p.key: p.state for p in store.progress()}
    assert states == {bad.key: "failed", good.key: "done"}
    told = slewrl("campaign", "status", store.path).stdout
    assert "1 done" in told and "1 failed" in told and "Traceback" in told


def test_a_run_that_keeps_dying_is_given_up(tmp_path):
    store = begun(tmp_path / "c", tiny())
    (key,) = store.campaign().by_key
    runner = Runner(store, [key], 1)
    assert not runner.run(lambda r: [process.kill() for process in r.active.values()])
    assert list(runner.failed) == [key] and runner.resumed == 2
    assert "died 3 times" in error_file(store.folder(key)).read_text()


def test_stopping_takes_checkpoints(tmp_path, forked):
    store = begun(tmp_path / "c", tiny(steps=100_000))
    (key,) = store.campaign().by_key
    log = store.folder(key).path / "train.csv"

    def interrupt_when_learning():
        while not log.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt_when_learning)
    thread.start()
    runner = Runner(store, [key], 1)
    assert not runner.run()
    thread.join()
    (progress,) = store.progress()
    assert runner.stopping and progress.state == "stopped" and not runner.failed
    assert list(store.folder(key).checkpoints.glob("*.ckpt"))


def test_two_runners_do_not_fight_over_a_run(tmp_path):
    store = begun(tmp_path / "c", tiny())
    ((key, spec),) = store.campaign().by_key.items()
    with store.prepare(key, spec).lock():
        assert [p.state for p in store.progress()] == ["running"]
        runner = Runner(store, [key], 1)
        assert not runner.run() and runner.elsewhere == [key]


def test_collected_results_need_no_checkpoints(tmp_path):
    store = begun(tmp_path / "c", tiny("ddsrad", "post"))
    keys = list(store.campaign().by_key)
    worked(store, keys[0])
    assert store.collect(tmp_path / "results") == 1
    copy = Store(tmp_path / "results")
    assert [(p.key, p.state, p.step) for p in copy.progress()] == [(keys[0], "done", 300), (keys[1], "waiting", 0)]
    assert json.loads((copy.path / keys[0] / "provenance.json").read_text())["torch"]
    assert not (copy.path / keys[0] / "checkpoint").exists()
    worked(store, keys[1])
    assert store.collect(tmp_path / "results") == 2


def test_a_hundred_shards_begin_at_once(tmp_path):
    """Each with a selection of its own: none fails, none is lost."""
    layers = list(LAYERS)[:8]

    def begin(layer):
        Store(tmp_path / "c").begin(tiny(layer))

    with ThreadPoolExecutor(len(layers)) as pool:
        list(pool.map(begin, layers))
    assert {spec.layer for spec in Store(tmp_path / "c").campaign().runs} == set(layers)


def test_looking_at_a_run_does_not_fail_it(tmp_path):
    store = begun(tmp_path / "c", tiny())
    ((key, spec),) = store.campaign().by_key.items()
    folder, looking = store.prepare(key, spec), threading.Event()

    def look():
        while not looking.is_set():
            assert folder.locked in (True, False)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(200):
        with folder.lock():
            pass
    looking.set()
    thread.join()


def test_a_run_that_another_process_is_at_has_not_failed(tmp_path):
    store = begun(tmp_path / "c", tiny())
    ((key, spec),) = store.campaign().by_key.items()
    folder = store.prepare(key, spec)
    with folder.lock():
        assert work(folder.path, patience=0.1) == BUSY
    assert not error_file(folder).exists()


def test_one_bad_folder_stops_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr("slewrl.campaign.runner.start", InProcess)
    store = begun(tmp_path / "c", tiny("ddsrad", "post"))
    bad, good = store.campaign().by_key
    (store.path / bad).mkdir()
    (store.path / bad / "train.csv").write_text("step\n1\n")
    runner = Runner(store, [bad, good], 1)
    assert not runner.run() and runner.finished == [good]
    assert "holds logs of another run" in runner.failed[bad]
    assert (store.path / bad / "train.csv").read_text() == "step\n1\n"


def test_a_look_at_a_run_changes_no_result(tmp_path, forked):
    """slewrl evaluate on a campaign's run, before and after its end."""
    store = begun(tmp_path / "c", tiny())
    (key,) = store.campaign().by_key
    folder = store.folder(key)

    def peek(runner):
        if (
            key in runner.active
            and list(folder.checkpoints.glob("*.ckpt"))
            and not (folder.path / "evaluation").exists()
        ):
            evaluate_run(folder.path, 1)

    assert Runner(store, [key], 1).run(peek, poll=0.005)
    final = (folder.path / "final" / "episodes.csv").read_bytes()
    assert len(final.splitlines()) == 11
    evaluate_run(folder.path, 1)
    assert (folder.path / "final" / "episodes.csv").read_bytes() == final


def test_a_worker_stops_when_its_runner_is_killed(tmp_path):
    store = begun(tmp_path / "c", tiny(steps=100_000))
    ((key, spec),) = store.campaign().by_key.items()
    folder = store.prepare(key, spec)
    parent = f"""
import time
from slewrl.campaign.runner import start
from slewrl.training.run_folder import RunFolder
folder = RunFolder(__import__("pathlib").Path({str(folder.path)!r}))
start(folder.path)
while not (folder.locked and folder.checkpoints.exists()):
    time.sleep(0.1)
"""
    subprocess.run([sys.executable, "-c", parent], check=True, capture_output=True, timeout=60)
    begin = time.monotonic()
    while folder.locked and time.monotonic() - begin < 60:
        time.sleep(0.1)
    assert not folder.locked and not folder.done
    assert list(folder.checkpoints.glob("*.ckpt")), "it took a checkpoint before it went"


def test_violations_of_every_evaluation_are_counted(tmp_path):
    store = begun(tmp_path / "c", tiny())
    ((key, spec),) = store.campaign().by_key.items()
    path = store.prepare(key, spec).path
    (path / "train.csv").write_text("step,violations\n100,2\n")
    (path / "eval.csv").write_text("step,return_mean,violations\n100,1.0,5\n200,1.0,0\n")
    (path / "final").mkdir()
    (path / "final" / "episodes.csv").write_text("episode,violations\n0,1\n")
    assert [p.violations for p in store.progress()] == [8]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: {steps: 1e6}\ngrid: {seed: [1]}", "steps is '1e6', expected a whole number"),
        ("grid: {seed: [a]}", "seed is 'a', expected a whole number"),
        ("grid: {agent_options: [3]}", "agent_options is 3, expected names and values"),
        ("grid: {evaluate_every: [10, 20]}", "two different runs named .*: evaluate_every is no part of a run's name"),
    ],
)
def test_values_of_the_wrong_kind(tmp_path, text, message):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_campaign(str(tmp_path / "c.yaml"))


def test_every_cell_and_seed_is_checked():
    with pytest.raises(ValueError, match="layer.penalti: the layer has no such option"):
        check(Campaign("x", "", grid(TINY, layer_options=[{"penalty_weight": 0.1}, {"penalti": 1}])))
    with pytest.raises(ValueError, match="seed is -3, expected at least 0"):
        check(tiny(seeds=(1, -3)))
    with pytest.raises(ValueError, match="steps is 0"):
        check(Selection(steps=0).of(tiny()))


def test_a_failure_that_cannot_be_written_down_stops_nothing(tmp_path):
    """As on a full disk: the runner goes on, and says what it knows."""
    store = begun(tmp_path / "c", tiny())
    ((key, spec),) = store.campaign().by_key.items()
    folder = store.prepare(key, spec)
    (folder.path / "error.txt").mkdir()  # nothing can be written there, whoever tries
    assert "died 3 times" in give_up(folder, "exit code 1")
    (folder.path / "error.txt").rmdir()
    runner = Runner(store, [key], 1)
    runner._record(key, FAILED)
    assert "disk full" in runner.failed[key]


def test_a_mean_return_of_zero_is_a_return(tmp_path):
    """That of the final evaluation counts, not that of the last one while training, here 100."""
    folder = write_campaign(tmp_path / "tiny", cell([100.0]), waiting=[])
    store = Store(folder)
    ((key, spec),) = store.campaign().by_key.items()
    (folder / key / "final" / "episodes.csv").write_text("return,length,violations\n-5,10,0\n5,10,0\n")
    assert store.progress_of(key, spec).last_return == 0.0


def test_a_dotted_path_is_no_name_of_a_campaign():
    """The names are a registry, which would import and run whatever a path names."""
    with pytest.raises(ValueError, match="no campaign 'os:getcwd'; there are: paper-tight, paper-wide"):
        load_campaign("os:getcwd")


def test_ours_are_listed_without_the_paper():
    hidden = "import sys; sys.modules['slewrl.paper'] = None"
    code = f"{hidden}; from slewrl.campaign.grids import mini, table1; mini(), table1()"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/campaign.json")), ids=lambda path: path.parent.name)
def test_a_campaign_finds_its_runs_in_results(path):
    there = Store(path.parent).campaign()
    assert there.by_key.keys() <= load_campaign(there.name).by_key.keys()
