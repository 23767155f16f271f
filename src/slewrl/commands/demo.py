"""The demo: two policies trained side by side, evaluated, audited in exact arithmetic, and one page about it."""

import multiprocessing
import os
import sys
import time
import webbrowser
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.progress import BarColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.errors import UserFacingError
from slewrl.io.console import Console, bold
from slewrl.io.files import write_atomically
from slewrl.layers.audit import Mapping, Tally, audit, executed_by, hand_written_clip, paper_formula
from slewrl.report import page, reachable
from slewrl.report.figures import RunResult
from slewrl.training.evaluate import EVALUATION_SEED
from slewrl.training.policy import load_policy
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import train

if TYPE_CHECKING:
    from slewrl.deploy.trial import Trial

PAIR = ("left_hip_pitch", "left_ankle")
PREV = (0.4, 0.45)
"""Near the ankle's upper stop (0.52 rad), so that F_t is cut by a bound on one side."""
DTYPES = (torch.float32, torch.float64)
EPISODES = 20
"""Of each final evaluation."""
RUNS = {
    "ddsrad": ("DD-SRad", "the paper's mapping"),
    "boxpro": ("exact clip", "the clip people write by hand, done well"),
}
"""Layer -> what the page calls it, and what it is."""
RATE = 1e-3
"""Learning rate; an arm of two joints bears more than the default."""
SPEC = RunSpec(
    "Reacher-v5", learning_starts=1_000, evaluate_every=1_000, capacity=100_000, evaluate_episodes=20,
    agent_options={"learning_rate": RATE},
)  # fmt: skip


def run(out: Path, cases: int, steps: int) -> int:
    """Train, evaluate, audit, write the page; returns the number of violations of hard layers (0)."""
    torch.set_num_threads(1)
    console, begun = Console(), time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    train_side_by_side(out, steps, console)
    results = tuple(result(out / name, name) for name in RUNS)
    console.print(_results_table(results))
    figure, shares = reachable_sets(RateLimits.preset("H1", "paper").select(PAIR))
    figure.savefig(out / "reachable.png", dpi=110)
    tallies = audit_all(cases, console)
    console.print(_table(tallies, shares, cases))
    broken = sum(tallies[name].violations for name in LAYERS if LAYERS[name].hard)
    broken += sum(r.violations for r in results)
    checked = sum(tally.cases for tally in tallies.values()) + sum(r.actions_checked for r in results)
    trial = _deploy(out, cases // 2, console)
    broken, checked = broken + trial.violations, checked + trial.joint_steps
    about = _about(results, steps, _time_of(out, time.perf_counter() - begun))
    page.write_page(out / "index.html", about, [_reachable_extra(figure)])
    console.print(
        f"{checked:,} actions checked in exact arithmetic, ",
        bold(broken),
        f" broke a limit through a hard layer. {time.perf_counter() - begun:.0f} s in all. The page: ",
        bold(out / "index.html"),
        sep="",
    )
    if sys.stdout.isatty() and (os.environ.get("DISPLAY") or sys.platform == "darwin"):
        webbrowser.open((out / "index.html").absolute().as_uri())
    return broken


# ---------------------------------------------------------------------- training


def train_side_by_side(out: Path, steps: int, console: Console) -> None:
    """Both runs at once, a process each; finished ones are kept, stopped ones go on."""
    context = multiprocessing.get_context("spawn")
    rows: Any = context.Queue()
    processes = []
    for name in RUNS:
        folder = RunFolder(out / name)
        spec = replace(SPEC, layer=name, steps=steps)
        if not (out / name / "run.json").exists():
            folder.create(spec)
        elif folder.spec() != spec:
            raise ValueError(f"{out / name} holds another run: delete {out}, or choose another --out")
        if not folder.done:
            processes.append(context.Process(target=_train_one, args=(out / name, rows), daemon=True))
    for process in processes:
        process.start()
    if not processes:
        console.print(f"both runs are in {out} already; delete it to train again")
    _show(processes, rows, steps, console)


def _train_one(path: Path, rows: Any) -> None:
    folder = RunFolder(path)
    train(folder.spec(), folder, lambda row: rows.put((path.name, row)))
    rows.put((path.name, None))


def _show(processes: list[Any], rows: Any, steps: int, console: Console) -> None:
    """Two progress lines, until both processes are done."""
    columns: list[Any] = [
        "{task.fields[label]:>10}",
        BarColumn(20),
        "{task.completed:>7,} steps",
        "{task.fields[rate]:>4.0f}/s",
    ]
    columns += ["return {task.fields[score]:>6.2f}", "violations {task.fields[violations]:.0f}", TimeRemainingColumn()]
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        lines = {
            name: progress.add_task("", total=steps, label=label, rate=0.0, score=float("nan"), violations=0)
            for name, (label, _) in RUNS.items()
        }
        open_runs = len(processes)
        while open_runs:
            name, row = _next_row(processes, rows)
            if row is None:
                open_runs -= 1
            elif "return_mean" in row:
                progress.update(lines[name], completed=row["step"], score=row["return_mean"], rate=row["rate"])
                if not console.is_terminal:  # a bar is no use in a file
                    console.print(f"{RUNS[name][0]}: step {row['step']:,}, return {row['return_mean']:.2f}")
            elif "violations" in row:
                progress.update(lines[name], completed=row["step"], rate=row["rate"], violations=row["violations"])


def _next_row(processes: list[Any], rows: Any) -> tuple[str, dict[str, Any] | None]:
    """The next row of either process; raises if one of them has died."""
    import queue

    while True:
        try:
            found: tuple[str, dict[str, Any] | None] = rows.get(timeout=1.0)
            return found
        except queue.Empty:
            if any(process.exitcode not in (None, 0) for process in processes):
                raise UserFacingError("a training process died, as said above; run the demo again to go on") from None


def result(path: Path, name: str) -> RunResult:
    """What a finished run came to: its curve, a last evaluation, every action of both counted."""
    policy = load_policy(path)
    final = policy.evaluate(EPISODES, EVALUATION_SEED + 1_000)
    curve = np.atleast_1d(np.genfromtxt(path / "eval.csv", delimiter=",", names=True))
    training = np.atleast_1d(np.genfromtxt(path / "train.csv", delimiter=",", names=True))[-1]
    row, limits = final.row(), policy.limits
    label, about = RUNS[name]
    evaluated = float((curve["length_mean"] * SPEC.evaluate_episodes).sum())
    return RunResult(
        name=name,
        label=label,
        steps=curve["step"],
        returns=curve["return_mean"],
        final=row,
        per_joint=np.array([row[f"utilisation_{i}"] for i in range(limits.dim)]),
        increments=final.increments,
        actions_checked=int(training["step"] + evaluated + final.lengths.sum()) * limits.dim,
        violations=int(training["violations"] + curve["violations"].sum() + row["violations"]),
        about=about,
    )


def _time_of(out: Path, seconds: float) -> float:
    """Of the demo that trained the runs: a second one, which finds them finished, takes no time worth telling."""
    path = out / "seconds.txt"
    kept = float(path.read_text(encoding="utf-8")) if path.exists() else 0.0
    write_atomically(path, f"{max(kept, seconds):.1f}\n")
    return max(kept, seconds)


def _about(results: tuple[RunResult, ...], steps: int, seconds: float) -> page.Demo:
    longer = [
        f"slewrl train --task {SPEC.task} --limits {SPEC.limits} --layer {name} --steps 200000 --out runs/{name} \\\n"
        f"  --learning-starts {SPEC.learning_starts} --evaluate-every {SPEC.evaluate_every} "
        f"--evaluate-episodes {SPEC.evaluate_episodes} \\\n"
        f"  --capacity {SPEC.capacity} --set agent.learning_rate={RATE}"
        for name in RUNS
    ]
    return page.Demo(
        task=SPEC.task,
        limits=SPEC.limits,
        agent=SPEC.agent.upper(),
        joints=RateLimits.preset(SPEC.task, SPEC.limits).groups,
        steps=steps,
        episodes=EPISODES,
        seconds=seconds,
        runs=results,
        versions={name: version(name) for name in ("slewrl", "torch", "gymnasium", "mujoco", "numpy")},
        seeds={"training": SPEC.seed, "evaluation": EVALUATION_SEED + 1_000},
        commands=tuple(longer),
    )


def _results_table(results: tuple[RunResult, ...]) -> Table:
    title = f"{SPEC.task} {SPEC.limits}: {EPISODES} episodes without exploration"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in ("", "return", "utilisation", "actions checked", "violations"):
        table.add_column(column, justify="right" if column else "left")
    for r in results:
        score = f"{r.final['return_mean']:.2f} ± {r.final['return_std']:.2f}"
        table.add_row(r.label, score, f"{r.final['utilisation']:.0%}", f"{r.actions_checked:,}", str(r.violations))
    return table


# ---------------------------------------------------------------------- the audit


def audit_all(cases: int, console: Console) -> dict[str, Tally]:
    """Try to break every layer, and what people write by hand, ``cases`` times each."""
    mappings: dict[str, Mapping] = {"formula as written": paper_formula, "clip by hand": hand_written_clip}
    mappings |= {name: executed_by(make_layer(name)) for name in LAYERS}
    with Progress(console=console, transient=True) as progress:
        tracked = progress.track(mappings, description="trying to break every layer")
        return {name: _audited(mappings[name], cases) for name in tracked}


def _audited(mapping: Mapping, cases: int) -> Tally:
    """Half the cases in float32, half in float64, on all ten leg joints of H1."""
    total = Tally()
    for dtype in DTYPES:
        total += audit(mapping, RateLimits.preset("H1", "paper"), dtype, cases // len(DTYPES))
    return total


def _table(tallies: dict[str, Tally], shares: dict[str, float], cases: int) -> Table:
    title = f"Unitree H1, {cases:,} adversarial joint actions each"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in ("layer", "broke a limit", "worst excess / delta", "F_t reached"):
        table.add_column(column, justify="left" if column == "layer" else "right")
    for name, tally in tallies.items():
        hard = name in LAYERS and LAYERS[name].hard
        colour = "green" if tally.violations == 0 else ("red" if hard else "yellow")
        worst = f"+{tally.overshoot:.0e}" if tally.violations else "-"
        share = f"{shares[name]:.0%}" if name in shares else ""
        table.add_row(name, Text(f"{tally.violations:,}", style=colour), worst, share)
    return table


# ---------------------------------------------------------------------- deployment


def _deploy(out: Path, steps: int, console: Console) -> "Trial":
    """Export DD-SRad's policy as a robot would get it, and check that; an empty trial where ONNX is not installed."""
    from slewrl.deploy.trial import Trial

    try:
        from slewrl.deploy.check import check, write_certificate
        from slewrl.deploy.export import export_bundle
    except ImportError:
        console.print('not exported: that needs ONNX, pip install "slewrl[onnx]"', style="yellow")
        return Trial()
    bundle = out / "policy.bundle"
    export_bundle(out / "ddsrad", bundle)
    certificate = check(bundle, max(steps, 1), 0, lambda line: None)
    write_certificate(certificate, out / "check")
    trial = Trial(**{key: certificate["trial"][key] for key in Trial.__dataclass_fields__})
    console.print(
        "exported ",
        bold(bundle),
        f": {trial.joint_steps:,} commands of its controller, through NaNs, restarts and odd timing, "
        f"{trial.violations} outside the limits; the certificate: ",
        bold(out / "check" / "certificate.html"),
        sep="",
    )
    return trial


# ---------------------------------------------------------------------- reachable sets


def reachable_sets(limits: RateLimits, seed: int = 0) -> tuple[Figure, dict[str, float]]:
    """The figure for a pair of joints, and each layer's share of F_t."""
    box = limits.box(torch.tensor([PREV], dtype=torch.float64))
    prev, low, high = (t[0].numpy() for t in (box.prev, box.low, box.high))
    latents = 2 * torch.randn(4000, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    samples = {name: _executed(name, limits, latents) - prev for name in LAYERS}
    sweep = _sweep()
    shares = {name: reachable.covered_share(_executed(name, limits, sweep), low, high) for name in LAYERS}
    labels = ("hip pitch increment [rad]", "ankle increment [rad]")
    title = "What each layer can reach in one 20 ms step: Unitree H1, hip pitch and ankle near its upper stop"
    return reachable.draw(samples, shares, low - prev, high - prev, labels, title), shares


def _reachable_extra(figure: Figure) -> page.Extra:
    caption = (
        "Each dot is where one random latent leads; the rectangle is F_t, all that the limits allow in this step. "
        "A layer that fills it can use every joint to the full at once; one that stops short cannot."
    )
    return "What each layer can reach in one step", caption, figure


def _sweep() -> torch.Tensor:
    """Latents (n, 2) that cover the plane from 0 to saturation in every direction."""
    axis = torch.atanh(torch.linspace(-1, 1, 1001, dtype=torch.float64)[1:-1])
    far = torch.logspace(0.7, 4, 25, dtype=torch.float64)
    axis = torch.cat([-far, axis, far])
    return torch.cartesian_prod(axis, axis)


def _executed(name: str, limits: RateLimits, latents: torch.Tensor) -> NDArray[np.float64]:
    prev = torch.tensor([PREV], dtype=torch.float64).expand(len(latents), -1)
    executed: NDArray[np.float64] = make_layer(name).execute(latents, limits.box(prev)).numpy()
    return executed
