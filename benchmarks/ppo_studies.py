"""What PPO learns: beside Stable-Baselines3's, with an action-conditioned advantage, and at the price of a Lagrangian.

    python -W ignore benchmarks/ppo_studies.py parity --task Hopper-v5 --steps 150000
    python -W ignore benchmarks/ppo_studies.py advantage --steps 150000 --set rollout=500
    python -W ignore benchmarks/ppo_studies.py lagrangian --steps 150000 --set rollout=500

Every run is a folder under ``--runs``, made with the same code as ``slewrl train``; what is finished is not run again,
what was stopped goes on (other steps or options need other ``--runs``), and ``--shard 1/2`` and ``2/2`` share the runs
between two cores (the table of whoever finishes last, or of another call, is whole). A score is the mean return over
the evaluations (5 seeded episodes each, without exploration) of the last quarter of a run. Tables go to ``--out`` as
CSV, curves as PNG.
"""

import json
import os

os.environ["OMP_NUM_THREADS"] = "1"

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from slewrl import RateLimits
from slewrl.training.checks import check_spec
from slewrl.training.run_folder import RunFolder, write_csv
from slewrl.training.spec import EVALUATION_SEED, RunSpec, difference
from slewrl.training.trainer import train

EPISODES, EVALUATIONS = 5, 20
NAMES = {"gae": "scalar advantage (GAE)", "action": "action-conditioned advantage"}


@dataclass(frozen=True)
class Study:
    """What all studies share."""

    task: str = "HalfCheetah-v5"
    """Of Gymnasium, with presets."""
    steps: int = 300_000
    """Of each run."""
    seeds: tuple[int, ...] = (12345, 22345, 32345)
    runs: Path = Path("runs/ppo")
    """Where run folders go."""
    out: Path = Path("runs/ppo/tables")
    """Where tables and figures go."""
    shard: str = "1/1"
    """k/n: train only every n-th run, beginning with the k-th."""
    set: tuple[str, ...] = ()
    """Options of our agent: NAME=VALUE ..."""

    @property
    def every(self) -> int:
        """Steps between evaluations."""
        return max(1, self.steps // EVALUATIONS)

    def options(self) -> dict[str, Any]:
        """Of --set."""
        pairs = (text.removeprefix("agent.").split("=") for text in self.set)
        return {name: json.loads(value) for name, value in pairs}

    def spec(self, seed: int, **fields: Any) -> RunSpec:
        """A run of this study."""
        options = {**self.options(), **fields.pop("agent_options", {})}
        fields = {"agent": "ppo", "agent_options": options, **fields}
        return RunSpec(
            self.task, steps=self.steps, seed=seed, evaluate_every=self.every, evaluate_episodes=EPISODES, **fields
        )

    def share(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Do this shard's part of the work."""
        k, n = (int(part) for part in self.shard.split("/"))
        for job in jobs[k - 1 :: n]:
            job()


def ours(spec: RunSpec, path: Path) -> None:
    """Train a run, or what is left of it."""
    folder = RunFolder(path)
    if not (path / "run.json").exists():
        check_spec(spec)
        folder.create(spec)
    if changed := difference(asdict(folder.spec()), asdict(spec)):
        raise SystemExit(f"{path} is another run ({changed}): take other --runs")
    if not folder.done:
        print(path, flush=True)
        if not train(spec, folder):
            raise SystemExit("stopped; the same command goes on")


def table_of(path: Path) -> Any:
    """A CSV as columns, or None if it is not there."""
    return np.atleast_1d(np.genfromtxt(path, delimiter=",", names=True)) if path.exists() else None


def score(path: Path, steps: int) -> float:
    """Mean return over the evaluations of the last quarter; NaN if the run is not finished."""
    rows = table_of(path / "eval.csv")
    if rows is None or rows["step"][-1] < 0.95 * steps:
        return float("nan")
    return float(rows["return_mean"][rows["step"] > 0.75 * steps].mean())


def summary(path: Path) -> dict[str, float]:
    """Violations, the share of ratios beyond the clip range over the run, and its speed."""
    rows, timing = table_of(path / "train.csv"), table_of(path / "timing.csv")
    clipped = float(np.nanmean(rows["clipped"]))
    rate = float(timing["steps_per_cpu_second"][-1])
    return {"violations": float(rows["violations"][-1]), "clipped": clipped, "steps_per_cpu_second": rate}


def pyplot() -> Any:
    """Without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def show(title: str, found: dict[str, list[float]], seeds: Sequence[int], out: Path) -> None:
    """Print a column a side and a row a seed, and write them."""
    table = Table("seed", *found, title=title)
    for i, seed in enumerate(seeds):
        table.add_row(str(seed), *(f"{scores[i]:,.1f}" for scores in found.values()))
    spread = [(np.mean(scores), np.std(scores, ddof=1) if len(scores) > 1 else 0.0) for scores in found.values()]
    table.add_row("mean", *(f"{mean:,.1f} ± {std:,.1f}" for mean, std in spread))
    Console(width=120).print(table)
    write_csv(out, [{"seed": seed, **{k: v[i] for k, v in found.items()}} for i, seed in enumerate(seeds)])


# ---------------------------------------------------------------------- parity


@dataclass(frozen=True)
class Parity(Study):
    """PPO without a rate limit beside Stable-Baselines3's own, both with its defaults."""

    task: str = "Hopper-v5"
    """Of Gymnasium."""

    def __call__(self) -> None:
        """Train both, then compare."""
        sides = {"slewrl": self.slewrl, "Stable-Baselines3": self.theirs}
        folders = {name: [self.runs / f"parity-{self.task}-{name}-s{seed}" for seed in self.seeds] for name in sides}
        jobs = [
            lambda side=side, seed=seed, path=path: side(seed, path)
            for name, side in sides.items()
            for seed, path in zip(self.seeds, folders[name], strict=True)
        ]
        self.share(jobs)
        found = {name: [score(path, self.steps) for path in paths] for name, paths in folders.items()}
        title = f"{self.task}, PPO without a rate limit, {self.steps:,} steps: return"
        show(title, found, self.seeds, self.out / f"parity-{self.task}.csv")
        (a, s), (b, t) = ((np.mean(x), np.std(x, ddof=1) if len(x) > 1 else 0.0) for x in found.values())
        verdict = "within" if abs(a - b) <= max(s, t) else "NOT within"
        print(f"the means differ by {abs(a - b):,.1f}, {verdict} the larger spread over seeds, {max(s, t):,.1f}")

    def slewrl(self, seed: int, path: Path) -> None:
        """Our side: layer ``none``; the limits only decide what counts as a violation."""
        ours(self.spec(seed, layer="none"), path)

    def theirs(self, seed: int, path: Path) -> None:
        """Their side, on the plain task."""
        from stable_baselines3 import PPO
        from stable_baselines3.common.callbacks import BaseCallback

        if (rows_there := table_of(path / "eval.csv")) is not None:
            if rows_there["step"][-1] != self.steps // self.every * self.every:
                raise SystemExit(f"{path} ends at step {rows_there['step'][-1]:.0f}: take other --runs")
            return
        print(path, flush=True)
        env, rows = gym.make(self.task), []
        every = self.every

        class Evaluations(BaseCallback):
            def _on_step(self) -> bool:
                if self.num_timesteps % every == 0:
                    returns = [episode(self.model, env, EVALUATION_SEED + k) for k in range(EPISODES)]
                    rows.append({"step": self.num_timesteps, "return_mean": np.mean(returns)})
                return True

        PPO("MlpPolicy", self.task, seed=seed, device="cpu").learn(self.steps, callback=Evaluations())
        write_csv(path / "eval.csv", rows)


def episode(model: Any, env: Any, seed: int) -> float:
    """The return of one episode without exploration."""
    observation, total, done = env.reset(seed=seed)[0], 0.0, False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(model.predict(observation, deterministic=True)[0])
        total, done = total + float(reward), terminated or truncated
    return total


# ---------------------------------------------------------------------- the action-conditioned advantage


@dataclass(frozen=True)
class Advantage(Study):
    """Plain against action-conditioned advantages with DD-SRad, as heterogeneity (kappa = max delta / min delta) grows.

    Half of the joints get delta sqrt(kappa), the others delta / sqrt(kappa): for an even number of joints the volume of
    F_t is the same throughout, so that only heterogeneity differs. With kappa 2.5 that is the preset ``tight`` of
    HalfCheetah-v5.
    """

    kappas: tuple[float, ...] = (1.0, 10.0)
    delta: float = 0.1**0.5
    """Geometric mean of the limits, in action units; that of ``tight`` on HalfCheetah-v5."""

    def __call__(self) -> None:
        """Train, then compare."""
        cells = [(kappa, kind) for kappa in self.kappas for kind in ("gae", "action")]
        folders = {
            f"kappa {kappa:g}, {kind}": [
                self.runs / f"advantage-{self.task}-k{kappa:g}-{kind}-s{s}" for s in self.seeds
            ]
            for kappa, kind in cells
        }
        jobs = [
            lambda path=path, seed=seed, kappa=kappa, kind=kind: ours(
                self.spec(seed, limits=str(self.limits(kappa)), agent_options={"advantage": kind}), path
            )
            for (kappa, kind), paths in zip(cells, folders.values(), strict=True)
            for seed, path in zip(self.seeds, paths, strict=True)
        ]
        self.share(jobs)
        found = {name: [score(path, self.steps) for path in paths] for name, paths in folders.items()}
        title = f"{self.task}, PPO with DD-SRad, delta {self.delta:.3g} on average, {self.steps:,} steps: return"
        show(title, found, self.seeds, self.out / f"advantage-{self.task}.csv")
        if not np.isnan([*found.values()]).any():
            self.report(folders)

    def report(self, folders: dict[str, list[Path]]) -> None:
        """How often a limit was broken, and the curves: as CSV and PNG."""
        broken = [table_of(path / "train.csv")["violations"][-1] for paths in folders.values() for path in paths]
        print(f"{sum(broken):.0f} exact violations in {len(broken)} runs of {self.steps:,} steps")
        about = [
            {"run": name, "seed": seed, **summary(path)}
            for name, paths in folders.items()
            for seed, path in zip(self.seeds, paths, strict=True)
        ]
        write_csv(self.out / f"advantage-{self.task}-runs.csv", about)
        tables = {name: [table_of(path / "eval.csv") for path in paths] for name, paths in folders.items()}
        rows = [
            {"run": name, "seed": seed, "step": float(row["step"]), "return_mean": float(row["return_mean"])}
            for name, curves in tables.items()
            for seed, table in zip(self.seeds, curves, strict=True)
            for row in table
        ]
        write_csv(self.out / f"advantage-{self.task}-curves.csv", rows)
        self.draw(tables)

    def draw(self, tables: dict[str, list[Any]]) -> None:
        """A panel for each kappa; thin: seeds, thick: their mean."""
        plt = pyplot()
        figure, axes = plt.subplots(1, len(self.kappas), figsize=(10, 3.2), sharey=True, layout="constrained")
        for axis, kappa in zip(np.atleast_1d(axes), self.kappas, strict=True):
            for kind, colour in (("gae", "tab:blue"), ("action", "tab:orange")):
                curves = tables[f"kappa {kappa:g}, {kind}"]
                steps = curves[0]["step"] / 1000
                for rows in curves:
                    axis.plot(steps, rows["return_mean"], color=colour, alpha=0.35, linewidth=0.8)
                mean = np.mean([rows["return_mean"] for rows in curves], axis=0)
                axis.plot(steps, mean, color=colour, linewidth=2, label=NAMES[kind])
            axis.set(title=f"κ = {kappa:g}", xlabel="thousand environment steps")
        np.atleast_1d(axes)[0].set_ylabel("return, mean policy")
        np.atleast_1d(axes)[0].legend(frameon=False)
        figure.savefig(self.out / f"advantage-{self.task}.png", dpi=120)

    def limits(self, kappa: float) -> Path:
        """A file of limits; as in ``tight``, the first half of the joints is the slower one."""
        base = RateLimits.preset(self.task, "tight")
        slow = np.arange(base.dim) < base.dim // 2
        delta = np.where(slow, self.delta / kappa**0.5, self.delta * kappa**0.5)
        path = self.runs / f"{self.task}-k{kappa:g}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        RateLimits(dict(zip(base.names, delta.tolist(), strict=True)), base.low, base.high).to_yaml(path)
        return path


# ---------------------------------------------------------------------- the Lagrangian


@dataclass(frozen=True)
class Lagrangian(Study):
    """PPO-Lagrangian: its violation rate, its multiplier and its return, for prices that rise at different rates."""

    limits: str = "tight"
    """What counts as a violation."""
    rates: tuple[float, ...] = (0.1, 0.5, 2.0)
    """multiplier_rate: what the multiplier grows by, per rollout, if every joint of every step violates its limit."""

    def __call__(self) -> None:
        """Train, then draw."""
        cells = [(rate, seed) for rate in self.rates for seed in self.seeds]
        paths = {cell: self.runs / f"lagrangian-{self.task}-{self.limits}-r{cell[0]:g}-s{cell[1]}" for cell in cells}
        self.share([lambda c=c, p=p: ours(self.run(*c), p) for c, p in paths.items()])
        curves = {cell: table_of(path / "train.csv") for cell, path in paths.items()}
        evaluations = {cell: table_of(path / "eval.csv") for cell, path in paths.items()}
        if any(rows is None for rows in (*curves.values(), *evaluations.values())):
            print("some runs are not there yet")
            return
        names = ("step", "cost", "multiplier", "entropy", "violations")
        self.write(curves, names, f"lagrangian-{self.task}.csv")
        self.write(evaluations, ("step", "return_mean", "violation_rate"), f"lagrangian-{self.task}-evaluations.csv")
        self.tell(curves, evaluations)
        self.draw(curves, evaluations)

    def run(self, rate: float, seed: int) -> RunSpec:
        """A run: no limit in the way."""
        options = {"multiplier_rate": rate}
        return self.spec(seed, agent="ppo_lag", layer="none", limits=self.limits, agent_options=options)

    def write(self, tables: dict[tuple[float, int], Any], names: Sequence[str], file: str) -> None:
        """These columns of all runs, one below the other."""
        rows = [
            {"multiplier_rate": rate, "seed": seed, **{name: float(row[name]) for name in names}}
            for (rate, seed), table in tables.items()
            for row in table
        ]
        write_csv(self.out / file, rows)

    def tell(self, curves: dict[tuple[float, int], Any], evaluations: dict[tuple[float, int], Any]) -> None:
        """A row a run: the last 10 000 steps of exploring, and the last evaluation."""
        joints = RateLimits.preset(self.task, self.limits).dim
        heads = ("multiplier rate", "seed", "violation rate, exploring", "multiplier", "mean policy's", "return")
        table = Table(*heads, title=f"{self.task} {self.limits}, PPO-Lagrangian, {self.steps:,} steps")
        for (rate, seed), rows in curves.items():
            before, last = rows[rows["step"] <= rows["step"][-1] - 10_000][-1], evaluations[rate, seed][-1]
            steps = joints * (rows["step"][-1] - before["step"])
            broken = (rows["violations"][-1] - before["violations"]) / steps
            numbers = (f"{broken:.4f}", f"{rows['multiplier'][-1]:.1f}", f"{last['violation_rate']:.4f}")
            table.add_row(f"{rate:g}", str(seed), *numbers, f"{last['return_mean']:,.1f}")
        Console(width=120).print(table)

    def draw(self, curves: dict[tuple[float, int], Any], evaluations: dict[tuple[float, int], Any]) -> None:
        """Violation rates exploring and of the mean policy; multiplier; return. A colour a rate, a line a seed."""
        plt = pyplot()
        panels = (
            (curves, "cost", "violation rate, exploring"),
            (evaluations, "violation_rate", "violation rate, mean policy"),
            (curves, "multiplier", "multiplier"),
            (evaluations, "return_mean", "return, mean policy"),
        )
        figure, axes = plt.subplots(1, 4, figsize=(14, 3.2), layout="constrained")
        for axis, (tables, name, label) in zip(axes, panels, strict=True):
            for (rate, seed), rows in tables.items():
                colour = f"C{self.rates.index(rate)}"
                first = f"price rises by {rate:g}" if seed == self.seeds[0] else None
                axis.plot(rows["step"] / 1000, rows[name], color=colour, alpha=0.8, linewidth=1.1, label=first)
            axis.set(xlabel="thousand environment steps", title=label)
        axes[0].legend(frameon=False)
        self.out.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.out / f"lagrangian-{self.task}.png", dpi=120)


if __name__ == "__main__":
    torch.set_num_threads(1)
    chosen: Any = tyro.extras.subcommand_cli_from_dict(
        {"parity": Parity, "advantage": Advantage, "lagrangian": Lagrangian}, description=__doc__
    )
    try:
        chosen()
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None
