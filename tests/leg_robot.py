"""The leg of examples/ for tests: its module, its limits, and a bundle whose policy asks for far too much."""

import importlib.util
import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path

import gymnasium as gym
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from slewrl import RateLimits
from slewrl.cli import main
from slewrl.deploy import bundle

EXAMPLES = Path(__file__).parents[1] / "examples"
JOINTS = ("left_hip_pitch_joint", "left_knee_joint", "left_ankle_joint")


def load_example(name):
    """A file of examples/ as a fresh module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def working_in(folder):
    """Be there, with the modules that are there; nothing of it stays."""
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
            sys.modules.pop("leg", None)
            gym.registry.pop("Leg-v0", None)


def slewrl(*arguments):
    """The command, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["slewrl", *map(str, arguments)])
        patch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code, arguments


def leg_limits(dt=0.02):
    return RateLimits.from_urdf(EXAMPLES / "leg.urdf", dt=dt, safety=0.9, joints=JOINTS)


def write_wild_bundle(path, limits, observations, seed=0):
    """A bundle whose graph is action = [observation, previous action] @ W, beyond every limit most of the time."""
    d = limits.dim
    weights = np.random.default_rng(seed).normal(0, 3, (observations + d, d)).astype(np.float32)
    nodes = [
        helper.make_node("Concat", ["observation", "previous_action"], ["both"], axis=1),
        helper.make_node("MatMul", ["both", "W"], ["action"]),
    ]
    shape = {"observation": observations, "previous_action": d, "action": d}
    ends = {key: helper.make_tensor_value_info(key, onnx.TensorProto.FLOAT, ["batch", n]) for key, n in shape.items()}
    inputs, outputs = [ends["observation"], ends["previous_action"]], [ends["action"]]
    graph = helper.make_graph(nodes, "wild", inputs, outputs, [numpy_helper.from_array(weights, "W")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    manifest = {
        "joints": bundle.joint_rows(limits),
        "units": limits.units,
        "dt": None if limits.dt is None else bundle.decimal(limits.dt),
        "default_pose": ["0"] * d,
        "observation": [{"name": "observation", "size": observations}],
    }
    bundle.write(path, json.loads(json.dumps(manifest)), model.SerializeToString())
    return path
