"""The demo: a campaign of two runs, an audit of every layer, a check of the exported policy, and a page."""

import os
import sys
import time
import webbrowser
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.campaign.runner import Runner, cores
from slewrl.campaign.spec import Campaign, grid
from slewrl.campaign.store import Store, state_of
from slewrl.campaign.view import watched
from slewrl.errors import UserFacingError
from slewrl.io.console import Console, bold, number_table
from slewrl.layers.audit import Mapping, Tally, audit, executed_by, hand_written_clip, paper_formula
from slewrl.report.build import report
from slewrl.report.data import Results, load
from slewrl.report.figures import CampaignFigure
from slewrl.report.figures.increments import covered_share, reachable
from slewrl.report.figures.style import Look
from slewrl.report.methods import LABELS, called
from slewrl.report.page import Block, Card, Cell, Commands, DataTable, Picture, Words, svg_address
from slewrl.report.sections import Section
from slewrl.report.strip import strip_section
from slewrl.report.tables import amount, plus_minus, share
from slewrl.training.spec import RunSpec

if TYPE_CHECKING:
    from slewrl.deploy.trial import Trial

PAIR = ("left_hip_pitch", "left_ankle")
PREV = (0.4, 0.45)
"""Near the ankle's upper bound (0.52 rad), which therefore cuts F_t on one side."""
PAIRED = ("ddsrad", "boxpro")
"""The paper's layer, and the clip people write by hand, done exactly."""
RATE = 1e-3
"""Learning rate."""
SPEC = RunSpec(
    "Reacher-v5", learning_starts=1_000, evaluate_every=1_000, capacity=100_000, evaluate_episodes=20,
    agent_options={"learning_rate": RATE},
)  # fmt: skip


def run(out: Path, cases: int, steps: int) -> int:
    """Train, audit, check, write the page; returns the number of violations of hard layers (0)."""
    torch.set_num_threads(1)
    console, begun = Console(), time.perf_counter()
    store = train(out, steps, console)
    results = load(store.path)
    console.print(_results_table(results))
    figure, shares = reachable_sets(RateLimits.preset("H1", "paper").select(PAIR))
    tallies = audit_all(cases, console)
    console.print(_audit_table(tallies, shares, cases))
    trial = _deploy(store, out, cases // 2, console)
    hard = [name for name in LAYERS if LAYERS[name].hard]
    broken = sum(tallies[name].violations for name in hard) + sum(r.violations for r in results) + trial.violations
    checked = sum(tally.cases for tally in tallies.values()) + sum(r.broken.of for r in results) + trial.joint_steps
    sections = [_attacked(tallies, cases, figure.save(out, Look(), html=True)[1], figure), _exported(trial), _longer()]
    shaking = _shaking(results, console)
    report(store.path, out, html=True, more=[*shaking, *sections])
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


def train(out: Path, steps: int, console: Console) -> Store:
    """Make both runs at once, resuming what was stopped."""
    about, store = "DD-SRad beside an exact clip on a rate-limited Reacher", Store(out)
    campaign = Campaign("demo", about, grid(replace(SPEC, steps=steps), layer=PAIRED))
    try:
        store.begin(campaign)
    except FileExistsError:
        raise ValueError(f"{out} holds another run: delete {out}, or choose another --out") from None
    keys = list(campaign.by_key)
    if all(state_of(store.folder(key), steps) == "done" for key in keys):
        console.print(f"both runs are in {out} already; delete it to train again")
    runner = Runner(store, keys, cores())
    with watched(store, console) as watch:
        complete = runner.run(watch)
    if runner.stopping:
        raise KeyboardInterrupt
    if not complete:
        why = next(iter(runner.failed.values()), "another process is at it").strip().splitlines()[-1]
        raise UserFacingError(f"a run did not finish: {why}; run the demo again to go on")
    return store


def _results_table(results: Results) -> Table:
    title = f"{SPEC.task} {SPEC.limits}: final evaluation without exploration"
    table = number_table("", "return", "utilisation", "actions checked", "violations", title=title, text=("",))
    for r in results:
        score, use = plus_minus(r.score, amount), share(r.utilisation.mean)
        table.add_row(called(r), score, use, f"{r.broken.of:,}", str(r.violations))
    return table


def _shaking(results: Results, console: Console) -> list[Section]:
    """The strip of both policies' commands."""
    one, other = (results.where(method=layer)[0] for layer in PAIRED)
    section = strip_section((one, other))
    if section is None:
        return []
    console.print(section.card.title, ".", sep="")
    return [section]


def _longer() -> Section:
    lines = [
        f"slewrl train --task {SPEC.task} --limits {SPEC.limits} --layer {name} --steps 200000 --out runs/{name} "
        f"--learning-starts {SPEC.learning_starts} --evaluate-every {SPEC.evaluate_every} "
        f"--evaluate-episodes {SPEC.evaluate_episodes} --capacity {SPEC.capacity} --set agent.learning_rate={RATE}"
        for name in PAIRED
    ]
    return Section(Card("longer", "To train the same for longer", [Commands("longer", lines)]))


def audit_all(cases: int, console: Console) -> dict[str, Tally]:
    """Try to break every layer, and what people write by hand, ``cases`` times each, on the ten leg joints of H1."""
    mappings: dict[str, Mapping] = {"formula as written": paper_formula, "clip by hand": hand_written_clip}
    mappings |= {name: executed_by(make_layer(name)) for name in LAYERS}
    limits, tallies = RateLimits.preset("H1", "paper"), {name: Tally() for name in mappings}
    with Progress(console=console, transient=True) as progress:
        for name in progress.track(mappings, description="trying to break every layer"):
            for dtype in (torch.float32, torch.float64):
                tallies[name] += audit(mappings[name], limits, dtype, cases // 2)
    return tallies


def _audit_table(tallies: dict[str, Tally], shares: dict[str, float], cases: int) -> Table:
    title = f"Unitree H1, {cases:,} adversarial joint actions each"
    heads = ("layer", "broke a limit", "worst excess / delta", "F_t reached")
    table = number_table(*heads, title=title, text=("layer",))
    for name, tally in tallies.items():
        hard = name in LAYERS and LAYERS[name].hard
        colour = "green" if tally.violations == 0 else ("red" if hard else "yellow")
        worst = f"+{tally.overshoot:.0e}" if tally.violations else "-"
        share = f"{shares[name]:.0%}" if name in shares else ""
        table.add_row(name, Text(f"{tally.violations:,}", style=colour), worst, share)
    return table


def _attacked(tallies: dict[str, Tally], cases: int, svg: bytes, figure: CampaignFigure) -> Section:
    """The section of the page on the audit."""
    rows = [
        (
            Cell(LABELS.get(name, name), head=True),
            Cell(f"{tally.violations:,}", tally.violations),
            Cell(f"+{tally.overshoot:.0e}" if tally.violations else "–", tally.overshoot),
        )
        for name, tally in tallies.items()
    ]
    about = (
        f"Unitree H1, {cases:,} adversarial joint actions each, in float32 and float64. The first two rows are what "
        "people write by hand; “No limit” promises none."
    )
    heads = ("Layer", "#Broke a limit", "#Worst excess / limit")
    blocks: list[Block] = [DataTable("Audit", heads, rows, "DD-SRad"), Words(about)]
    picture = Picture(figure.title, figure.caption, svg_address(svg))
    return Section(Card("audit", "Trying to break every layer", [*blocks, picture]))


def _deploy(store: Store, out: Path, steps: int, console: Console) -> "Trial":
    """Export DD-SRad's policy and check the bundle; an empty trial where ONNX is not installed."""
    from slewrl.deploy.trial import Trial

    try:
        from slewrl.deploy.check import check, write_certificate
        from slewrl.deploy.export import export_bundle
    except ImportError:
        console.print('not exported: that needs ONNX, pip install "slewrl[onnx]"', style="yellow")
        return Trial()
    bundle = out / "policy.bundle"
    key = next(key for key, spec in store.campaign().by_key.items() if spec.layer == PAIRED[0])
    export_bundle(store.folder(key).path, bundle)
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


def _exported(trial: "Trial") -> Section:
    """The section of the page on the check."""
    title = "The policy, exported and checked"
    if not trial.joint_steps:
        words = Words("It was not exported: that needs ONNX,", code='pip install "slewrl[onnx]"')
        return Section(Card("check", title, [words]))
    links = [("certificate", "check/certificate.html"), ("policy.bundle", "policy.bundle")]
    rows = [
        (Cell("Commands to joints", head=True), Cell(f"{trial.joint_steps:,}", trial.joint_steps)),
        (Cell("Outside the limits", head=True), Cell(f"{trial.violations:,}", trial.violations)),
        (Cell("Files", head=True), Cell("", kind="number", links=links)),
    ]
    about = "DD-SRad’s policy as a robot would run it, through NaNs, restarts, changed rates and odd timing."
    return Section(Card("check", title, [DataTable("Check", (), rows), Words(about)]))


def reachable_sets(limits: RateLimits) -> tuple[CampaignFigure, dict[str, float]]:
    """The figure for a pair of joints, and each layer's share of F_t."""
    box = limits.box(torch.tensor([PREV], dtype=torch.float64))
    prev, low, high = (t[0].numpy() for t in (box.prev, box.low, box.high))
    latents = 2 * torch.randn(4000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    samples = {name: _executed(name, limits, latents) - prev for name in LAYERS}
    sweep = _sweep()
    shares = {name: covered_share(_executed(name, limits, sweep), low, high) for name in LAYERS}
    labels = ("hip pitch increment [rad]", "ankle increment [rad]")
    caption = (
        "Unitree H1, hip pitch and ankle near its upper stop, one step of 20 ms. Each dot is where one random latent "
        "leads from the previous action (+); the rectangle is F_t, all that the limits allow, and pale dots are "
        "outside. A layer that fills it can use every joint to the full at once; one that stops short cannot."
    )
    draw = partial(reachable, samples, shares, low - prev, high - prev, labels)
    return CampaignFigure("reachable", "What each layer can reach in one step", caption, draw), shares


def _sweep() -> torch.Tensor:
    """Latents (n, 2) from 0 to saturation in every direction."""
    axis = torch.atanh(torch.linspace(-1, 1, 501, dtype=torch.float64)[1:-1])
    far = torch.logspace(0.7, 4, 25, dtype=torch.float64)
    axis = torch.cat([-far, axis, far])
    return torch.cartesian_prod(axis, axis)


def _executed(name: str, limits: RateLimits, latents: torch.Tensor) -> NDArray[np.float64]:
    prev = torch.tensor([PREV], dtype=torch.float64).expand(len(latents), -1)
    return make_layer(name).execute(latents, limits.box(prev)).numpy()
