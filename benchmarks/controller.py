"""What a control step costs on the robot: the controller and the limiter beside bare ONNX Runtime, in one run.

    python benchmarks/controller.py

A [256, 256] policy with 60 observations and 13 joints, one thread. "network" is the same network exported without
layer and limits; "graph" is what the bundle holds: network, layer and guard. CPU time, in turns, medians.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import nn

from slewrl import RateLimits, make_layer
from slewrl.deploy import bundle
from slewrl.deploy.controller import Controller
from slewrl.deploy.export import DeployedPolicy, to_onnx
from slewrl.deploy.limiter import RateLimiter


@dataclass(frozen=True)
class Bench:
    """What to run."""

    observations: int = 60
    joints: int = 13
    layer: str = "ddsrad"
    steps: int = 2_000
    """Calls in a turn."""
    rounds: int = 15
    """Turns each contender gets."""


def bundled(bench: Bench, path: Path) -> bundle.Bundle:
    """A bundle of an untrained policy: it takes as long as a trained one."""
    limits = RateLimits(delta=np.linspace(0.05, 0.2, bench.joints), low=-2.0, high=2.0, dt=0.02, units="rad")
    zeros = ["0"] * bench.joints
    manifest: dict[str, Any] = {
        "name": "bench", "joints": bundle.joint_rows(limits), "units": "rad", "dt": "0.02", "default_pose": zeros,
        "action_scale": zeros, "observation": [{"name": "observation", "size": bench.observations}], "provenance": {},
    }  # fmt: skip
    module = DeployedPolicy(network(bench), make_layer(bench.layer), limits).eval()
    bundle.write(path, manifest, to_onnx(module, (bench.observations, bench.joints), manifest))
    return bundle.read(path)


def network(bench: Bench) -> nn.Module:
    n, d = bench.observations + bench.joints, bench.joints
    return nn.Sequential(nn.Linear(n, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, d))


def bare(bench: Bench) -> Any:
    """The network alone in ONNX Runtime, and what to give it."""
    example = (torch.zeros(1, bench.observations + bench.joints),)
    model = torch.onnx.export(network(bench), example, input_names=["x"], dynamo=True, verbose=False).model_proto
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session, {"x": example[0].numpy()}


def contenders(bench: Bench, found: bundle.Bundle) -> dict[str, Callable[[int], Any]]:
    rng, out = np.random.default_rng(0), np.empty(bench.joints)
    seen = rng.standard_normal((100, bench.observations), np.float32)
    wanted = rng.normal(0, 1, (100, bench.joints))
    controller, limiter, (session, inputs) = Controller(found), RateLimiter(found.limits), bare(bench)
    for each in (controller, limiter):
        each.start(np.zeros(bench.joints))
    return {
        "ONNX Runtime, network": lambda k: session.run(None, inputs),
        "ONNX Runtime, graph": lambda k: controller._session.run_with_iobinding(controller._binding),
        "Controller.step": lambda k: controller.step(seen[k % 100], None, out),
        "Controller.step with dt": lambda k: controller.step(seen[k % 100], 0.019, out),
        "RateLimiter.step": lambda k: limiter.step(wanted[k % 100], None, out),
        "np.clip by hand": lambda k: np.clip(wanted[k % 100], out - 0.1, out + 0.1),
    }


def main(bench: Bench) -> None:
    """Measure and print the table."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = bundled(bench, Path(folder) / "policy.bundle")
    calls = contenders(bench, found)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(bench.rounds):
        for name, call in calls.items():
            begun = time.process_time()
            for k in range(bench.steps):
                call(k)
            times[name].append((time.process_time() - begun) / bench.steps * 1e6)
    network_time, graph_time = (median(times[f"ONNX Runtime, {what}"]) for what in ("network", "graph"))
    table = Table("", "us", "x network", "x graph", title=f"{bench.layer}, {bench.observations} -> {bench.joints}")
    for name, each in times.items():
        middle = median(each)
        table.add_row(name, f"{middle:.1f}", f"{middle / network_time:.2f}", f"{middle / graph_time:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Bench, description=__doc__))
