"""Every file of a run, damaged in every way: a command says what is wrong, or does what it would have done.

Never a traceback; never a number that differs from the undamaged run's without a word about it.
"""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from slewrl import RateLimits
from slewrl.campaign.spec import Campaign
from slewrl.campaign.store import Store
from slewrl.campaign.worker import work
from slewrl.training import checkpoint
from slewrl.training.logging import Logs
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import Trainer, train

JOINT = "[/] [red]hip :cat:"
SOURCE = Path(__file__).parents[2] / "src" / "slewrl"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run that was killed at step 45 of 60, and the same one finished, in a campaign."""
    tmp = tmp_path_factory.mktemp("runs")
    RateLimits(0.2, -2.0, 2.0, names=[JOINT]).to_yaml(tmp / "limits.yaml")
    spec = RunSpec(
        "Pendulum-v1", str(tmp / "limits.yaml"), steps=60, learning_starts=10, batch_size=8, capacity=40,
        evaluate_every=20, evaluate_episodes=1, agent_options={"hidden": [8]},
    )  # fmt: skip
    stopped = RunFolder(tmp / "stopped")
    stopped.create(spec)
    trainer = Trainer(spec, stopped)
    with Logs(stopped, 0, lambda row: None) as logs:
        while trainer.step < 45:
            trainer.advance()
            if trainer.step % 20 == 0:
                if trainer.step == 20:
                    logs.write("train.csv", trainer.train_row())
                logs.write("eval.csv", trainer.evaluation_row())
                logs.flush()
                trainer.save()
    trainer.replay.flush()
    campaign = Store(tmp / "campaign")
    campaign.begin(Campaign("mine", "", (spec,)))
    whole = campaign.folder(spec.key)
    shutil.copytree(stopped.path, whole.path)
    assert work(whole.path) == 0
    return SimpleNamespace(stopped=stopped, whole=whole, campaign=campaign.path)


@pytest.fixture
def slewrl(slewrl, monkeypatch):
    """The command, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "1000")
    return slewrl


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def flip(path):
    """One bit early on: in a replay of the first row, in a log of the header."""
    data = bytearray(path.read_bytes())
    data[len(data) // 9] ^= 2
    path.write_bytes(data)


def folder(path):
    path.unlink()
    (path / "thesis").mkdir(parents=True)


def link(path):
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


def link_to_a_file(path):
    path.unlink()
    thesis = path.parent / "thesis.txt"
    thesis.write_text("years of work")
    path.symlink_to(thesis)


def unharmed(folder):
    """What a link leads to is somebody else's."""
    return all(thesis.read_text() == "years of work" for thesis in folder.rglob("thesis.txt"))


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": cut,
    "flipped": flip,
    "a list": lambda path: path.write_bytes(b"[]"),
    "binary": lambda path: path.write_bytes(bytes(range(255, 0, -1)) * 10),
    "nested": lambda path: path.write_bytes(b"[" * 20_000),
    "a folder": folder,
    "gone": Path.unlink,
    "a link": link,
    "a link to a file": link_to_a_file,
}
OF_A_RUN = (
    "run.json", "limits.yaml", "provenance.json", "train.csv", "eval.csv", "timing.csv", "replay/rows.bin",
    "checkpoint/000000000020.ckpt", "checkpoint/000000000040.ckpt",
)  # fmt: skip
OF_A_CAMPAIGN = (
    "campaign.json", "RUN/run.json", "RUN/train.csv", "RUN/eval.csv", "RUN/timing.csv", "RUN/provenance.json",
    "RUN/final/episodes.csv", "RUN/final/density.csv", "RUN/final/increments.csv",
)  # fmt: skip


def refused(result, name):
    """One line that names the thing; a folder's own name does where a file is gone."""
    assert result.returncode == 2 and result.stderr.startswith("error: "), result.stderr
    named = (Path(name).name, "holds no run", "holds no campaign", "no finished run", "density.csv has no column")
    assert any(word in result.stderr for word in named), result.stderr
    return True


@pytest.mark.parametrize("name", OF_A_RUN)
def test_a_damaged_run_is_evaluated_and_exported_or_refused(runs, slewrl, tmp_path, name):
    export = name in ("provenance.json", "run.json")  # the rest is read as evaluate reads it
    for damage, harm in DAMAGES.items():
        run = tmp_path / damage
        shutil.copytree(runs.stopped.path, run)
        harm(run / name)
        result = slewrl("evaluate", run, "--episodes", "1")
        if result.returncode or name in ("run.json", "limits.yaml"):
            assert refused(result, name) and name in ("run.json", "limits.yaml"), damage
        elif name.endswith("40.ckpt") and damage != "gone":
            assert "40.ckpt" in result.stdout and "step 20 of 60" in " ".join(result.stdout.split())
        if export and damage != "flipped":
            refused(slewrl("export", run, "--out", "policy.bundle"), name)
        assert unharmed(run), damage


@pytest.mark.parametrize("name", OF_A_RUN)
def test_a_damaged_run_ends_as_it_would_have_or_is_refused(runs, tmp_path, name):
    """Not as a command, whose progress line takes its time."""
    deciding = ("train.csv", "eval.csv")
    ends = 0
    for damage, harm in DAMAGES.items():
        run = RunFolder(tmp_path / damage)
        shutil.copytree(runs.stopped.path, run.path)
        harm(run.path / name)
        try:
            assert train(run.spec(), run)
        except (ValueError, OSError) as error:
            assert Path(name).name in str(error) or "holds no run" in str(error), damage
            continue
        finally:
            assert unharmed(run.path), damage
        ends += 1
        assert [(run.path / log).read_bytes() for log in deciding] == [
            (runs.whole.path / log).read_bytes() for log in deciding
        ], damage
        newest = [checkpoint.checkpoints(one.checkpoints)[-1].read_bytes() for one in (run, runs.whole)]
        assert newest[0] == newest[1], damage
    assert ends == {"provenance.json": 10, "timing.csv": 7}.get(name, 10 if name.endswith("ckpt") else 0)


@pytest.mark.parametrize("name", OF_A_CAMPAIGN)
def test_a_damaged_campaign_is_shown_collected_and_reported_or_refused(runs, slewrl, tmp_path, name, monkeypatch):
    monkeypatch.setattr("slewrl.report.build.figures_of", lambda results, overlay: [])  # figures take their time
    for damage, harm in DAMAGES.items():
        campaign = tmp_path / damage
        shutil.copytree(runs.campaign, campaign)
        path = campaign / name.replace("RUN", runs.whole.path.name)
        harm(path)
        collect = ("campaign", "collect", campaign, tmp_path / f"to {damage}")
        commands = (("campaign", "status", campaign), ("report", campaign, "--html"), collect)
        for command in commands:
            result = slewrl(*command)
            assert result.returncode == 0 or refused(result, name), (damage, command)
        assert unharmed(campaign), damage


# ---------------------------------------------------------------- names that look like markup


def test_a_name_that_looks_like_markup_is_shown_as_it_is(runs, slewrl):
    odd = Path("[/] [bold]run :cat: [red")  # in a folder "["
    shutil.copytree(runs.stopped.path, odd)
    newest = checkpoint.checkpoints(odd / "checkpoint")[-1]
    newest.write_bytes(b"")
    shown = slewrl("evaluate", odd, "--episodes", "1")
    assert shown.returncode == 0, shown.stderr
    assert f"utilisation of {JOINT}" in shown.stdout and f"wrote {odd}/evaluation" in shown.stdout
    assert f"{odd}/checkpoint/{newest.name} does not begin" in shown.stdout
    resumed = slewrl("train", "--resume", odd, "--no-tensorboard")
    assert resumed.returncode == 0 and f"next: slewrl evaluate {odd}" in resumed.stdout
    assert f"{newest.name} does not begin" in resumed.stdout
    assert f"{odd} is finished" in slewrl("train", "--resume", odd).stdout
    assert slewrl("export", odd, "--out", "[/].bundle").stdout.startswith("wrote [/].bundle (")


def test_a_campaign_whose_name_looks_like_markup(runs, slewrl):
    odd = Path("[/]:cat:")
    shutil.copytree(runs.campaign, odd)
    path = odd / "campaign.json"
    path.write_text(path.read_text().replace('"mine"', '"[b]mine"'))
    assert "[b]mine: 1 runs, 1 done" in slewrl("campaign", "status", odd, "--all").stdout
    assert "1 finished runs in [/]to; next: slewrl report [/]to" in slewrl("campaign", "collect", odd, "[/]to").stdout
    reported = slewrl("report", odd)
    assert f"files to {odd}/report; start with {odd}/report/tables/results.md" in reported.stdout


def test_one_module_makes_consoles():
    """So that no other one looks for markup; limits and robot print their tables themselves."""
    makers = [
        path
        for path in SOURCE.rglob("*.py")
        if "import Console" in path.read_text().replace("slewrl.io.console import", "")
    ]
    assert {path.name for path in makers} <= {"limits.py", "robot.py"}


# ---------------------------------------------------------------- empty values


@pytest.mark.parametrize(
    "command",
    [
        ("train", "--task", "Pendulum-v1", "--out", ""),
        ("train", "--task", "Pendulum-v1", "--out="),
        ("evaluate", ""),
        ("play", "run", "--video", ""),
        ("play", ""),
        ("export", "run", "--out", ""),
        ("export", ""),
        ("check", "run.bundle", "--out", ""),
        ("report", "run", "--out", ""),
        ("campaign", "run", "mini", "--out", ""),
        ("campaign", "collect", "run", ""),
        ("demo", "--out", ""),
        ("train", "--resume", ""),
    ],
)
def test_an_empty_value_is_no_path(slewrl, tmp_path, command):
    result = slewrl(*command)
    assert result.returncode == 2 and "is empty, expected a value" in result.stderr
    options = [word.rstrip("=") for word in command if word.startswith("--") and word != "--task"]
    assert result.stderr.startswith(f"error: {options[0] if options else 'an argument'} is empty")
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- files written by hand


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"version": 3}, "run.json: spec is None, expected names and values"),
        ({"version": 3, "spec": []}, r"run.json: spec is \[\], expected names and values"),
        ({"version": 3, "spec": {"task": 3}}, "run.json: task is 3, expected a word"),
        ({"version": 3, "spec": {"tusk": "x"}}, r"run.json: unknown entries \['tusk'\]"),
        ({"version": 3, "spec": {"environments": 0}}, "run.json: environments is 0, expected at least 1"),
        ({"version": 3, "spec": {"seed": -1}}, "run.json: seed is -1, expected at least 0"),
        ({"version": 3, "spec": {"seed": 2**63}}, "run.json: seed is 9223372036854775808, expected less than 2..63"),
        (
            {"version": 3, "spec": {"seed": 10**4000}},
            r"run.json: seed is 10{39}\.\.\. .4001 characters., expected less",
        ),
        ({"version": ["x" * 1000]}, r"run.json is of version \['x{38}\.\.\. .1 entries., expected 4"),
    ],
)
def test_a_run_json_that_is_wrong_is_named(tmp_path, data, message):
    (tmp_path / "run.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match=message):
        RunFolder(tmp_path).spec()


def test_a_number_that_python_does_not_read_is_named(tmp_path):
    (tmp_path / "run.json").write_text('{"version": ' + "9" * 5_000 + "}")
    with pytest.raises(ValueError, match="run.json is not readable as JSON .Exceeds the limit"):
        RunFolder(tmp_path).spec()


def test_a_reset_action_by_joint_names_makes_a_short_name():
    short, long = (RunSpec("A-v0", reset_action=",".join(f"joint_{k}=0.{k}" for k in range(n))) for n in (2, 40))
    assert "reset_action=joint_0=0.0,joint_1=0.1-" in short.key  # 23 characters
    assert re.search("reset_action=[0-9a-f]{8}-s12345$", long.key)
    assert replace(long, reset_action=long.reset_action + "5").key != long.key
