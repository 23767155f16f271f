"""Files made before the package's modules moved into rooms (commit f281ce9): still evaluated, extended and deployed."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from slewrl.training.extend import extend
from slewrl.training.policy import load_policy
from slewrl.training.run_folder import RunFolder
from slewrl.training.trainer import train

OLD = Path(__file__).parents[1] / "data" / "before_the_move"


@pytest.fixture
def run(tmp_path):
    return Path(shutil.copytree(OLD / "run", tmp_path / "run"))


def test_a_run_folder_is_evaluated_as_it_was(run):
    with open(run / "eval.csv", encoding="utf-8") as file:
        logged = list(csv.DictReader(file))[-1]
    policy = load_policy(run)
    assert policy.step == int(logged["step"]) == 400
    result = policy.evaluate(len(policy.evaluate(5).returns))
    assert result.returns.mean() == pytest.approx(float(logged["return_mean"]), rel=1e-3)  # another processor may round


def test_a_run_folder_goes_on(run):
    folder = RunFolder(run)
    spec = extend(folder, 600)
    assert train(spec, folder)
    with open(run / "eval.csv", encoding="utf-8") as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["200", "400", "600"]


def test_a_bundle_drives_a_controller(run):
    pytest.importorskip("onnxruntime", reason='ONNX Runtime is not installed: pip install "slewrl[onnx]"')
    from slewrl.deploy.controller import Controller

    controller = Controller(OLD / "policy.bundle")
    policy = load_policy(run)
    controller.start(policy.reset_action)
    first = controller.step(np.array([1.0, 0.0, 0.0], np.float32))
    assert not policy.limits.outside(first, policy.reset_action.astype(np.float64)).any() and first != 0
