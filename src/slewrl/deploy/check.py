"""Checks a bundle as the robot will use it, and writes a certificate of what was checked."""

import dataclasses
import hashlib
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from slewrl import __version__
from slewrl.deploy.bundle import Bundle, parse, read
from slewrl.deploy.controller import Controller
from slewrl.deploy.trial import Adversary, Say

PARITY = 1e-5
"""The largest accepted difference between torch and ONNX Runtime, as a share of a joint's range."""


def latency(bundle: Bundle, steps: int = 20_000) -> dict[str, float]:
    """Measure the wall time per step in microseconds: p50, p99 and max, and the p50 of ONNX Runtime alone."""
    controller, rng = Controller(bundle), np.random.default_rng(0)
    controller.start(bundle.default_pose)
    observations = rng.standard_normal((1_000, bundle.observation_size), np.float32)
    out = np.empty(len(bundle.limits.names))
    whole = _timed(lambda k: controller.step(observations[k % 1_000], None, out), steps)
    onnx = _timed(lambda k: controller._session.run_with_iobinding(controller._binding), steps)
    found = {name: float(np.percentile(whole, q)) for name, q in (("p50", 50), ("p99", 99), ("max", 100))}
    return {**found, "onnxruntime_p50": float(np.percentile(onnx, 50))}


def _timed(call: Callable[[int], Any], steps: int) -> NDArray[np.float64]:
    times = np.empty(steps)
    for k in range(steps):
        begun = time.perf_counter_ns()
        call(k)
        times[k] = (time.perf_counter_ns() - begun) / 1e3
    return times


def check(path: Path, steps: int, seed: int, say: Say, trust: bool = False) -> dict[str, Any]:
    """Check a bundle and return the certificate, whose ``passed`` is the verdict.

    Args:
        path: path of the bundle.
        steps: number of steps of the adversarial trial.
        seed: seed of the trial.
        say: called with lines of progress.
        trust: whether a layer that the bundle names by a dotted path may run (docs/trust.md).
    """
    read(path)  # for its error messages
    data = path.read_bytes()  # read once, so that the bytes checked are the bytes whose digest is certified
    found = parse(data)
    say(f"{path.name}: every byte has its SHA-256, {len(found.limits.names)} joints")
    parity = compare_to_torch(found, trust=trust)
    agree = "agree" if parity["passed"] else "do NOT agree"
    say(f"ONNX Runtime and torch {agree}: largest difference {parity['largest_difference']:.2g} of a joint's range")
    trial = Adversary(Controller(found), seed).run(steps, say)
    timing = latency(found)
    say(f"a step takes {timing['p50']:.0f} us (p99 {timing['p99']:.0f}, max {timing['max']:.0f})")
    return {
        "passed": trial.passed and parity["passed"],
        "bundle": path.name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "slewrl": __version__,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"python": platform.python_version(), "system": platform.platform()},
        "versions": {"numpy": np.__version__, "onnxruntime": onnxruntime.__version__},
        "limits": found.manifest["joints"],
        "budget": found.manifest.get("budget"),
        "default_pose": found.manifest["default_pose"],
        "dt": found.manifest["dt"],
        "units": found.manifest["units"],
        "trial": {**dataclasses.asdict(trial), "seed": seed, "passed": trial.passed},
        "parity": parity,
        "latency_us": timing,
        "provenance": found.manifest["provenance"],
    }


def compare_to_torch(found: Bundle, cases: int = 10_000, trust: bool = False) -> dict[str, Any]:
    """Compare the graph in ONNX Runtime with the same weights and layer in torch, on random inputs of all scales."""
    from slewrl.deploy.rebuild import compare, rebuilt

    largest = float((compare(rebuilt(found, trust), found, cases) / (found.limits.high - found.limits.low)).max())
    return {"cases": cases, "largest_difference": largest, "tolerance": PARITY, "passed": largest <= PARITY}


def write_certificate(certificate: dict[str, Any], folder: Path) -> list[Path]:
    """Write certificate.json and certificate.html to ``folder``, and return their paths."""
    from slewrl.deploy.certificate import page

    folder.mkdir(parents=True, exist_ok=True)
    written = {"certificate.json": json.dumps(certificate, indent=1) + "\n", "certificate.html": page(certificate)}
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in written]
