"""What somebody else's file may do: the attacks of docs/trust.md. Code that a file names runs only with --trust."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from deployed import SPEC, bundled, trained
from tiny_campaign import cell, write_campaign

from slewrl import RateLimits, make_layer
from slewrl.campaign.runner import Runner, start
from slewrl.campaign.store import Store
from slewrl.campaign.worker import FAILED
from slewrl.deploy import bundle
from slewrl.deploy.rebuild import rebuilt
from slewrl.errors import UserFacingError
from slewrl.layers import layer_class
from slewrl.robots.custom import read_robot
from slewrl.training import checkpoint
from slewrl.training.checkpoint import CheckpointError
from slewrl.training.policy import load_policy
from slewrl.training.run_folder import RunFolder

NAMED = [
    ("layer", "bomb:Layer", "layer 'bomb:Layer' (imports bomb)"),
    ("layer", "torch.hub:load", "layer 'torch.hub:load' (imports torch.hub)"),
    ("agent", "bomb:Agent", "agent 'bomb:Agent' (imports bomb)"),
    ("task", "bomb:Arm-v0", "task 'bomb:Arm-v0' (Gymnasium imports bomb)"),
    ("task", "isaaclab:bomb:Arm-v0", "task 'isaaclab:bomb:Arm-v0' (Gymnasium imports bomb)"),
]
"""Field of a run.json, what it names, and what the refusal says of it."""
TRUST = "pass --trust"


@pytest.fixture
def bomb(tmp_path, monkeypatch):
    """A module that anything run in ``tmp_path`` would import, and a function that says whether it did."""
    (tmp_path / "bomb.py").write_text(f"open({str(tmp_path / 'went_off')!r}, 'w').close()\n")
    monkeypatch.delitem(sys.modules, "bomb", raising=False)
    return (tmp_path / "went_off").exists


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run as `slewrl train` leaves it."""
    return trained(tmp_path_factory.mktemp("trust") / "run")


def doctored(run: Path, to: Path, **fields) -> Path:
    """A copy of a run whose run.json, and checkpoint, say something else."""
    shutil.copytree(run, to)
    written = json.loads((to / "run.json").read_text())
    written["spec"] |= fields
    (to / "run.json").write_text(json.dumps(written))
    state, _ = checkpoint.use_newest(to / "checkpoint", dict)
    state["spec"] |= fields
    checkpoint.save(to / "checkpoint", state["step"], state)
    return to


# ---------------------------------------------------------------------- run folders


@pytest.mark.parametrize("command", [("evaluate",), ("play",), ("export",), ("train", "--resume")])
@pytest.mark.parametrize(("field", "value", "told"), NAMED)
def test_a_run_folder_names_code_that_does_not_run(slewrl, bomb, run, tmp_path, command, field, value, told):
    strange = doctored(run, tmp_path / "strange", **{field: value})
    (strange / "DONE").unlink()
    refused = slewrl(*command, "strange")
    assert refused.returncode == 2 and not bomb()
    if command == ("play",) and value.startswith("isaaclab:"):
        assert "which another simulator shows" in refused.stderr
    else:
        assert told in refused.stderr and TRUST in refused.stderr and "strange" in refused.stderr


def test_with_trust_the_code_of_a_run_folder_runs(slewrl, bomb, run, tmp_path):
    doctored(run, tmp_path / "strange", layer="bomb:Layer")
    tried = slewrl("evaluate", "strange", "--trust")
    assert tried.returncode == 2 and bomb() and "cannot load 'bomb:Layer'" in tried.stderr


def test_ones_own_layer_in_the_folder_one_stands_in(slewrl, tmp_path):
    """Named on the command line it runs as it is; of the run it leaves, the hint says --trust."""
    shutil.copy(Path(__file__).parents[1] / "toy_layer.py", tmp_path / "my_layer.py")
    budget = ("--steps", 60, "--learning-starts", 50, "--evaluate-every", 60, "--evaluate-episodes", 1)
    made = slewrl(
        "train", "--task", "Pendulum-v1", "--layer", "my_layer:Toy", *budget, "--no-tensorboard", "--out", "r"
    )
    assert made.returncode == 0 and "slewrl evaluate r --trust" in " ".join(made.stdout.split())
    assert slewrl("evaluate", "r", "--episodes", 1).returncode == 2
    assert slewrl("evaluate", "r", "--episodes", 1, "--trust").returncode == 0
    assert slewrl("export", "r", "--trust").returncode == 0
    refused = slewrl("check", "policy.bundle", "--steps", 100)
    assert refused.returncode == 2 and "layer 'my_layer:Toy' (imports my_layer)" in refused.stderr
    made = bundle.read("policy.bundle")
    with pytest.raises(UserFacingError, match="the bundle names code"):
        rebuilt(made)
    assert type(rebuilt(made, trust=True).layer).__name__ == "Toy"


def test_in_python_trust_is_an_argument(run, tmp_path):
    own = doctored(run, tmp_path / "own", layer="toy_layer:Toy")
    with pytest.raises(UserFacingError, match=r"layer 'toy_layer:Toy' \(imports toy_layer\).*in Python: trust=True"):
        load_policy(own)
    assert type(load_policy(own, trust=True).agent.layer).__name__ == "Toy"


def test_a_run_without_code_needs_no_trust(slewrl, run):
    assert slewrl("evaluate", run, "--episodes", 1).returncode == 0


@pytest.mark.parametrize("name", ["torch.hub:load", "builtins:exec", "subprocess:Popen", "slewrl.layers:ActionLayer"])
def test_a_layer_is_a_subclass_of_action_layer_whoever_names_it(name):
    with pytest.raises(ValueError, match=f"layer '{name}' is .*, expected a class that subclasses ActionLayer"):
        make_layer(name)
    with pytest.raises(ValueError, match="expected a class that subclasses ActionLayer"):
        layer_class(name)


# ---------------------------------------------------------------------- the folder one stands in


@pytest.mark.parametrize("how", [[Path(sys.executable).parent / "slewrl"], [sys.executable, "-m", "slewrl"]])
def test_modules_in_the_folder_one_stands_in_replace_none(bomb, tmp_path, how):
    """Python itself would put that folder first with -m."""
    for name in ("numpy", "torch", "tyro"):
        shutil.copy(tmp_path / "bomb.py", tmp_path / f"{name}.py")
    done = subprocess.run([*how, "campaign", "list"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not bomb(), done.stderr


def test_the_folder_one_stands_in_is_not_on_the_path(slewrl, run, tmp_path):
    assert slewrl("evaluate", run, "--episodes", 1).returncode == 0
    assert not {"", str(tmp_path), "."} & set(sys.path)


# ---------------------------------------------------------------------- campaigns


@pytest.mark.parametrize(("field", "value", "told"), NAMED)
def test_a_yaml_campaign_names_code_that_does_not_run(slewrl, bomb, tmp_path, field, value, told):
    base = {"task": "Pendulum-v1", "steps": 60, "learning_starts": 50} | {field: value}
    (tmp_path / "theirs.yaml").write_text(yaml.safe_dump({"base": base, "grid": {"seed": [1]}}))
    refused = slewrl("campaign", "run", "theirs.yaml")
    assert refused.returncode == 2 and not bomb() and not Path("runs").exists()
    assert told in refused.stderr and TRUST in refused.stderr and "theirs.yaml" in refused.stderr


def test_a_layer_added_to_a_campaign_needs_trust(slewrl, bomb):
    refused = slewrl("campaign", "run", "mini", "--layers", "ddsrad", "bomb:Layer")
    assert refused.returncode == 2 and not bomb() and not Path("runs").exists()
    assert "error: --layers names code" in refused.stderr and "layer 'bomb:Layer'" in refused.stderr
    tried = slewrl("campaign", "run", "mini", "--layers", "ddsrad", "bomb:Layer", "--trust")
    assert tried.returncode == 2 and bomb() and "cannot load 'bomb:Layer'" in tried.stderr


@pytest.mark.parametrize(("field", "value", "told"), NAMED)
def test_a_campaign_folder_names_code_that_does_not_run(slewrl, bomb, tmp_path, field, value, told):
    waiting = [replace(SPEC, seed=9, **{field: value})]
    write_campaign(tmp_path / "strange", cell([1.0, 2.0], **{field: value}), waiting)
    store = Store(tmp_path / "strange")
    store.prepare(waiting[0].key, waiting[0])  # begun, and stopped
    refused = slewrl("campaign", "retry", "strange")
    assert refused.returncode == 2 and told in refused.stderr and TRUST in refused.stderr
    assert slewrl("campaign", "status", "strange").returncode == 0
    assert slewrl("campaign", "collect", "strange", "copy").returncode == 0
    assert slewrl("report", "strange", "--html").returncode == 0
    assert not bomb()


def test_a_worker_is_told_whether_to_trust(bomb, tmp_path, monkeypatch):
    """By its runner; untrusted, it takes no module of the folder one stands in, not even for one that is installed."""
    shutil.copy(tmp_path / "bomb.py", tmp_path / "torch.py")
    monkeypatch.chdir(tmp_path)
    folder = RunFolder(tmp_path / "r")
    folder.create(replace(SPEC, layer="bomb:Layer"))
    assert start(folder.path).wait(60) == FAILED and not bomb()
    assert "layer 'bomb:Layer' (imports bomb)" in (tmp_path / "r/error.txt").read_text()
    assert start(folder.path, trust=True).wait(60) == FAILED and bomb()


@pytest.mark.parametrize("link", ["provenance.json", "final", "final/density.csv"])
def test_collecting_a_campaign_copies_nothing_that_a_link_leads_to(tmp_path, link):
    theirs = write_campaign(tmp_path / "theirs", cell([1.0]))
    run = next(path for path in theirs.iterdir() if path.is_dir())
    (run / "final").rename(tmp_path / "secret") if link == "final" else (tmp_path / "secret").write_text("hunter2")
    (run / link).unlink(missing_ok=True)
    (run / link).symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match=f"{link} is a symbolic link"):
        Store(theirs).collect(tmp_path / "copy")
    assert not any("hunter2" in path.read_text() for path in (tmp_path / "copy").rglob("*") if path.is_file())


def test_collecting_a_campaign_copies_only_what_a_report_needs(tmp_path):
    theirs = write_campaign(tmp_path / "theirs", cell([1.0]))
    run = next(path for path in theirs.iterdir() if path.is_dir())
    (tmp_path / "ssh").mkdir()
    (tmp_path / "ssh/key").write_text("hunter2")
    (run / "final/more").symlink_to(tmp_path / "ssh")
    assert Store(theirs).collect(tmp_path / "copy") == 1
    made = {path.name for path in (tmp_path / "copy" / run.name / "final").iterdir()}
    assert made == {"density.csv", "increments.csv", "episodes.csv"}


def test_a_workers_log_is_written_through_no_link(tmp_path):
    folder = RunFolder(tmp_path / "r")
    folder.create(SPEC)
    (tmp_path / "mine").write_text("as it was")
    (tmp_path / "r/worker.log").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match=r"worker\.log is a symbolic link"):
        start(folder.path).kill()


@pytest.mark.slow
def test_a_campaign_of_ones_own_layer(slewrl, tmp_path):
    """A .py file is a program, and to name it is to run it; of a .yaml with code in it one says so."""
    shutil.copy(Path(__file__).parents[1] / "toy_layer.py", tmp_path / "my_layer.py")
    base = {"task": "Pendulum-v1", "steps": 60, "learning_starts": 50, "evaluate_every": 60, "evaluate_episodes": 1}
    grid = {"layer": ["my_layer:Toy"]}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"base": base, "grid": grid}))
    (tmp_path / "mine.py").write_text(
        "from slewrl.campaign.spec import Campaign, RunSpec, grid\nimport my_layer\n"
        f"CAMPAIGN = Campaign('other', '', grid(RunSpec(**{base}), layer=['my_layer:Toy']))\n"
    )
    assert slewrl("campaign", "run", "mine.yaml", "--trust").returncode == 0
    assert slewrl("campaign", "run", "mine.py").returncode == 0
    assert slewrl("campaign", "run", "mini", "--layers", "my_layer:Toy", "--seeds", 1, "--trust").returncode == 0
    assert [run.state for run in Store(Path("runs/mini")).progress()] == ["done"]


def test_a_runner_passes_trust_on(tmp_path, monkeypatch):
    passed = []
    monkeypatch.setattr("slewrl.campaign.runner.start", lambda path, trust, *_: passed.append(trust) or finished())
    write_campaign(tmp_path / "c", [], [SPEC])
    for trust in (False, True):
        Runner(Store(tmp_path / "c"), [SPEC.key], 1, trust=trust).run(poll=0)
    assert passed == [False, True]


def finished():
    """A process that has ended, as stopped."""
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    process.wait()
    return process


# ---------------------------------------------------------------------- checkpoints


def test_a_forged_checkpoint_is_refused_by_name(tmp_path):
    """Its SHA-256 is its own, but what is in it fits no agent."""
    run = trained(tmp_path / "run")
    newest = checkpoint.checkpoints(run / "checkpoint")[-1]
    honest = checkpoint.load(newest)
    other = checkpoint.load(checkpoint.checkpoints(_wider(tmp_path) / "checkpoint")[-1])
    agents = ([], {}, other["agent"], {**honest["agent"], "actor": "x"})
    for attack, message in (
        *(({"agent": agent}, "its agent does not fit the one of run.json") for agent in agents),
        ({"step": "x"}, "its step is 'x', expected a whole number"),
    ):
        checkpoint.save(newest.parent, int(newest.stem), {**honest, **attack})
        with pytest.raises(CheckpointError, match=message) as refused:
            load_policy(run)
        assert str(newest.parent) in str(refused.value)


def _wider(tmp_path):
    return trained(tmp_path / "wider", agent_options={"hidden": [17, 16]})


# ---------------------------------------------------------------------- bundles


def test_a_bundle_names_code_that_does_not_run(slewrl, bomb, tmp_path):
    pytest.importorskip("onnxruntime")
    made = bundle.read(bundled(tmp_path))
    for layer in ("bomb:Layer", "torch.hub:load"):
        manifest = json.loads(json.dumps(made.manifest))
        manifest["provenance"]["spec"] |= {"layer": layer, "task": "bomb:Arm-v0"}
        bundle.write(tmp_path / "strange.bundle", manifest, made.onnx)
        refused = slewrl("check", "strange.bundle", "--steps", "100")
        assert refused.returncode == 2 and f"layer {layer!r}" in refused.stderr and TRUST in refused.stderr
        slewrl("export", "strange.bundle", "--format", "c")
        slewrl("export", "strange.bundle", "--format", "onnx")
        assert not bomb()


# ---------------------------------------------------------------------- robots


READERS = [lambda path: RateLimits.from_urdf(path, 0.02), read_robot]


@pytest.mark.parametrize("read", READERS)
def test_a_robots_file_reads_no_other_file_by_an_entity(read, tmp_path):
    (tmp_path / "secret").write_text("hunter2")
    joint = '<joint name="&x;" type="revolute"><limit lower="-1" upper="1" velocity="9"/></joint>'
    robot = f'<robot name="&x;"><link name="&x;"/>{joint}</robot>'
    (tmp_path / "x.urdf").write_text(f'<!DOCTYPE robot [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]>{robot}')
    with pytest.raises((ValueError, UserFacingError), match="XML.*entity") as refused:
        read(tmp_path / "x.urdf")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("read", READERS)
def test_entities_that_explode_are_refused(read, tmp_path):
    """Ten to the nine copies of a word, in a kilobyte."""
    nested = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    text = f'<!DOCTYPE robot [<!ENTITY a0 "word">{nested}]><robot name="x"><link name="y">&a9;</link></robot>'
    (tmp_path / "x.urdf").write_text(text)
    with pytest.raises((ValueError, UserFacingError), match="amplification|XML"):
        read(tmp_path / "x.urdf")


# ---------------------------------------------------------------------- the page


def test_the_page_names_tests_that_exist():
    here = Path(__file__).parents[1]
    named = set(re.findall(r"`(test_\w+)`", (here.parent / "docs/trust.md").read_text()))
    known = {
        name for path in here.rglob("test_*.py") for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    assert len(named) > 15 and named <= known, named - known
