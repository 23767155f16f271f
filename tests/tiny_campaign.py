"""Campaign folders written by hand: round numbers, so that a test can do the sums in its head."""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from slewrl.campaign.spec import Campaign
from slewrl.campaign.store import Store
from slewrl.campaign.worker import work
from slewrl.training.runs import RunSpec

JOINTS = ("bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot")
BASE = RunSpec("HalfCheetah-v5", limits="tight", steps=2_000, evaluate_every=1_000, evaluate_episodes=2)


class Sizes(NamedTuple):
    """Rows of a run's files; of more than a few the numbers wander, as those of a real run do."""

    evaluations: int = 2
    increments: int = 3
    bins: int = 5


TINY = Sizes()


def cell(values, use=0.5, measures=None, **fields):
    """Runs of one cell, as ``(spec, return, per-joint utilisation)``: a seed for each of the returns.

    ``measures``: more columns of episodes.csv, as a walking robot's runs have them; they come fourth.
    """
    more = [measures] if measures else []
    return [(replace(BASE, seed=seed, **fields), value, use, *more) for seed, value in enumerate(values, 1)]


def write_campaign(path, runs, waiting=(), joints=JOINTS, violations=0, raw=0.25, sizes=TINY, evaluated=0, name="tiny"):
    """A campaign whose ``runs`` are finished and whose ``waiting`` specs are not.

    ``violations``: of each run's training; ``evaluated``: of each of its evaluations and final episodes.
    """
    store = Store(path)
    specs = [spec for spec, *_ in runs]
    store.begin(Campaign(name, "made by hand", (*specs, *waiting)))
    for spec, value, use, *measures in runs:
        write_run(store, spec, value, use, joints, violations, raw, sizes, *measures, evaluated=evaluated)
    return path


def write_run(store, spec, value, use, joints=JOINTS, violations=0, raw=0.25, sizes=TINY, measures=None, evaluated=0):
    """A finished run that ends at the return ``value`` with the utilisation ``use``: a number, or one a joint."""
    uses = np.broadcast_to(use, len(joints))
    path = store.folder(spec.key).path
    (path / "final").mkdir(parents=True)
    table(path / "train.csv", [{"step": spec.steps, "violations": violations}])
    table(path / "timing.csv", [{"step": spec.steps, "steps_per_cpu_second": 100.0}])
    shares = np.linspace(0, 1, sizes.evaluations + 1)[1:].tolist()
    rows = [
        {
            "step": round(s * spec.steps),
            "return_mean": s * value + wander(sizes, 0.1),
            "length_mean": 10.0,
            "violations": evaluated,
        }
        for s in shares
    ]
    use_rows = [{f"utilisation_{i}": s * u for i, u in enumerate(uses)} for s in shares]
    table(path / "eval.csv", [{**r, "raw_violation_rate": raw, **u} for r, u in zip(rows, use_rows, strict=True)])
    episodes = [
        {"return": r, "length": 10, "utilisation": uses.mean(), "violations": evaluated, **(measures or {})}
        for r in (value - 1, value + 1)
    ]
    table(path / "final" / "episodes.csv", episodes)
    bins = pairwise(np.linspace(-1, 1, sizes.bins + 1))
    densities = [{"from": a, "to": b, **{j: 0.5 + wander(sizes, 0.4) for j in joints}} for a, b in bins]
    table(path / "final" / "density.csv", densities)
    places = (-1.0, 0.0, 0.5) if sizes is TINY else np.linspace(-1, 1, sizes.increments)
    table(path / "final" / "increments.csv", [{j: x + wander(sizes, 0.4) for j in joints} for x in places])
    (path / "run.json").touch()
    (path / "DONE").touch()


def table(path, rows):
    """Rows as CSV; unlike a run's own way of writing not made to survive a power cut, which takes its time."""
    lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


RNG = np.random.default_rng(0)


def wander(sizes, width):
    """Noise for a run of real size; none for one whose sums are done in the head."""
    return 0.0 if sizes is TINY else float(RNG.normal(0, width))


class InProcess:
    """Stands in for a worker's process where the test is not about processes: to start one takes two CPU-seconds."""

    def __init__(self, path, trust=False, steps=0, keep_replay=False):
        self.returncode = work(path, trust=trust, steps=steps, keep_replay=keep_replay)

    def poll(self):
        return self.returncode
