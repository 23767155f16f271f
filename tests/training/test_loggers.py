"""The same numbers in every logger: CSV always, TensorBoard, and wandb and Trackio where they are installed."""

import csv
import importlib
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from slewrl.errors import UserFacingError
from slewrl.training.loggers import LOGGERS, require
from slewrl.training.logging import Logs
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec

ROWS = [{"step": 200, "return_mean": -3.5}, {"step": 400, "return_mean": 2.25}]


def logged(path, *names):
    folder = RunFolder(path)
    folder.create(RunSpec("Pendulum-v1", steps=400))
    with Logs(folder, 0, lambda row: None, names) as logs:
        for row in ROWS:
            logs.write("eval.csv", row)
        logs.flush()
    return folder


def test_csv_and_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = logged(tmp_path / "run", "csv", "tensorboard", "csv")
    with open(folder.path / "eval.csv") as file:
        assert [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)] == ROWS
    board = EventAccumulator(str(folder.path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in board.Scalars("eval/return_mean")] == [(200, -3.5), (400, 2.25)]
    assert not (logged(tmp_path / "plain", "csv").path / "tensorboard").exists()


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_tracker_gets_the_rows(tmp_path, monkeypatch, name):
    """Through a package that stands in for it: what it is told, and that a run that goes on is the same one."""
    inits, rows, ended = [], [], []

    def log(values, step=None):
        rows.append({**values, "step": values.get("step", step)})

    run = SimpleNamespace(log=log, finish=lambda: ended.append(1), define_metric=lambda *_, **__: None)
    fake = SimpleNamespace(init=lambda **options: inits.append(options) or run)
    monkeypatch.setitem(importlib.import_module("sys").modules, name, fake)
    monkeypatch.setattr("slewrl.training.loggers.find_spec", lambda _: SimpleNamespace(origin="here"))
    folder = logged(tmp_path / "run", name)
    with Logs(folder, 400, lambda row: None, [name]):
        pass
    assert [(row["step"], row["eval/return_mean"]) for row in rows] == [(200, -3.5), (400, 2.25)]
    assert inits[0] == inits[1] and len(ended) == 2
    assert inits[0]["project"] == "slewrl" and inits[0]["name"] == "run" and inits[0]["resume"] == "allow"
    assert inits[0]["config"]["task"] == "Pendulum-v1"
    if name == "wandb":
        logged(tmp_path / "other", name)
        assert inits[2]["id"] != inits[0]["id"]


def test_wandb_itself_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed: pip install wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    folder = logged(tmp_path / "run", "wandb")
    assert list(folder.path.glob("wandb/offline-run-*/run-*.wandb"))


def test_trackio_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # which it reads when it is imported
    pytest.importorskip("trackio", reason="trackio is not installed: pip install trackio")
    logged(tmp_path / "run", "trackio")
    assert list((tmp_path / "trackio").rglob("*slewrl*"))


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_package_that_is_missing_is_named(slewrl, tmp_path, monkeypatch, name):
    """Before anything is written; a folder of that name, as wandb itself leaves one, is no package."""
    monkeypatch.setattr("slewrl.training.loggers.find_spec", lambda _: None)
    tried = slewrl("train", "--task", "Pendulum-v1", "--logger", name, "--out", "run")
    assert (
        tried.returncode == 2 and f"--logger {name} needs a package that is not installed: pip install" in tried.stderr
    )
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr("slewrl.training.loggers.find_spec", find_spec)
    (tmp_path / "no_package").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(LOGGERS, "no_package", LOGGERS["wandb"])
    with pytest.raises(UserFacingError, match="pip install no_package"):
        require(["no_package"])


def test_unknown_loggers(slewrl):
    with pytest.raises(ValueError, match="logger is 'mlflow', expected of: csv, tensorboard, wandb, trackio"):
        require(["mlflow"])
    assert slewrl("train", "--task", "Pendulum-v1", "--logger", "mlflow").returncode == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ["csv", "tensorboard"]),
        (("--no-tensorboard",), ["csv"]),
        (("--logger", "csv"), ["csv"]),
        (("--logger", "csv", "tensorboard"), ["csv", "tensorboard"]),
    ],
)
def test_the_command(slewrl, monkeypatch, options, expected):
    passed = []
    monkeypatch.setattr("slewrl.training.trainer.train", lambda *given: passed.append(given[3]) or True)
    assert slewrl("train", "--task", "Pendulum-v1", "--out", "run", *options).returncode == 0
    assert passed == [expected]
