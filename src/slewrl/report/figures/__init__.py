"""The figures of a campaign, each with its title, caption and drawing function."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from slewrl.report.calm import over_seeds
from slewrl.report.colours import COLOURS
from slewrl.report.data import Cell, Result, Results, grouped
from slewrl.report.figures import curves, increments, means, pareto, radar, sensitivity
from slewrl.report.figures.style import Draw, Look, saved
from slewrl.report.methods import REFERENCE, backbone, called, in_order, label
from slewrl.report.ranking import best, change, lead, seeds, unranked
from slewrl.report.sections import PAPER
from slewrl.report.tables import amount, by_limits_and_agent, count, share
from slewrl.robots import find_robot

PALETTE = (*curves.LIMITS.values(), *sensitivity.SIX, *pareto.COLOURS)


@dataclass(frozen=True)
class CampaignFigure:
    """A figure with its title and caption."""

    name: str
    """The stem of its files' names."""
    title: str
    caption: str
    draw: Draw

    def save(self, folder: Path, look: Look, html: bool = False, pdf: bool = False) -> tuple[list[Path], bytes]:
        """Write it as PNG and, if asked for, PDF: the files, and the SVG for a page. Drawn once for all of them."""
        files = saved(self.draw, look, ["png", *["svg"] * html, *["pdf"] * pdf], PALETTE)
        svg = files.pop("svg", b"")
        name = self.name.replace("/", "_")  # limits may be a path
        for kind, data in files.items():
            (folder / f"{name}.{kind}").write_bytes(data)
        return [folder / f"{name}.{kind}" for kind in files], svg


def look_of(results: Results, width: float) -> Look:
    """The look of a campaign's figures: each of the user's own layers gets a colour."""
    layers = dict.fromkeys(result.layer for result in results)
    return Look(width=width, own=tuple(layer for layer in layers if layer not in COLOURS))


def figures_of(results: Results, overlay: bool = False) -> list[CampaignFigure]:
    """All there is data for; ``overlay``: all methods in one panel, too, as papers have it."""
    found = [*_comparisons(results), *_sweeps(results), *_paretos(results)]
    for (task, limits, agent, _, steps), panel in configurations(results).items():
        where = f"{task}, {backbone(agent)}, {limits} limits"
        name = f"{task}-{limits}-{agent}"
        if len({r.cell.steps for r in results.where(task=task, limits=limits, agent=agent)}) > 1:
            name += f"-{steps}"
        found += _of_configuration(panel, where, name, overlay)
    swept = sensitivity.in_a_sweep(results) | pareto.swept(results)
    for (limits, agent), there in by_limits_and_agent(results):
        found += _of_backbone([r for r in there if r.cell not in swept], limits, agent)
    return found


def configurations(results: Results) -> dict[Cell, list[Result]]:
    """Cell without a method -> the results of all methods: what one figure shows. A sweep has figures of its own."""
    swept = sensitivity.in_a_sweep(results) | pareto.swept(results)
    return grouped((r for r in results if r.cell not in swept), lambda r: r.cell.place)


def _of_configuration(panel: list[Result], where: str, name: str, overlay: bool) -> Iterator[CampaignFigure]:
    first, several = best(panel), len(panel) > 1
    several_seeds = max(len(r.runs) for r in panel) > 1
    bands = " Bands may go on beyond a panel; thin lines and dots: seed by seed." if several_seeds else ""
    yield CampaignFigure(
        f"learning-{name}",
        f"Learning: {where}",
        f"Return of the evaluations during training, {seeds(panel)}, {count(first.cell.steps)} steps. "
        f"In the final evaluation: {lead(panel)}{unranked(panel)}.{bands}",
        partial(curves.learning, panel),
    )
    if overlay and several:
        bare = "; of so many the intervals are left to the panels above" if len(panel) > curves.BANDS else ""
        yield CampaignFigure(
            f"overlay-{name}",
            f"Learning, all methods in one panel: {where}",
            f"The same curves, {seeds(panel)}{bare}; the legend begins with the highest final return.",
            partial(curves.overlay, panel),
        )
    most, least = (pick(in_order(panel), key=lambda r: r.utilisation.mean) for pick in (max, min))
    uses = f"Most over all joints: {_use(most)}; least: {_use(least)}" if several else f"Over all joints: {_use(most)}"
    yield CampaignFigure(
        f"radar-{name}",
        f"How much of its limit each joint uses: {where}",
        "Mean |increment| / limit by joint at the last evaluation. The rim is as fast as allowed at every step. "
        f"{uses}. More is not better: it is a command that changes more.",
        partial(radar.radars, panel),
    )
    if len(first.joints) > 1:
        one, other = increments.pair_of(first)
        robot = find_robot(first.cell.task)
        yield CampaignFigure(
            f"reachable-{name}",
            f"Where two joints went: {where}",
            f"Executed increments of {one} and {other} over their limits, from the final evaluations. A square is what "
            "the limits allow: a method that leaves its corners or edges empty cannot, or would not, go there."
            f"{f' {robot.pair_note}' if robot and robot.pair_note else ''}",
            partial(increments.scatter, panel),
        )
    edge = max(panel, key=at_the_edge)
    yield CampaignFigure(
        f"density-{name}",
        f"How the increments spread: {where}",
        "Every step of the final evaluations, one strip per method. Light at the ends: a command pressed against its "
        f"limit; light in the middle: a command held. {'Most often within' if several else 'Within'} 4 % of a limit: "
        f"{called(edge)}, {at_the_edge(edge):.0%} of joint steps.",
        partial(increments.densities, panel),
    )


def at_the_edge(result: Result) -> float:
    """Share of joint steps in the outermost bins of the densities, mean over joints and seeds."""
    shares = []
    for run in result.runs:
        width = run.density["to"] - run.density["from"]
        shares += [(run.density[joint] * width)[[0, -1]].sum() for joint in run.joints]
    return float(np.mean(shares))


def _of_backbone(panel: list[Result], limits: str, agent: str) -> Iterator[CampaignFigure]:
    panel, left_out = complete(panel)
    if len({r.cell.method for r in panel}) < 2:
        return
    tasks = len({r.cell.task for r in panel})
    names = ", ".join(label(method, agent) for method in left_out)
    rest = f" Left out, for they were not run on every task: {names}." if names else ""
    rest += "".join(f" {said}" for said in PAPER["under_other_limits"](panel, limits))
    where, over = f"{backbone(agent)}, {limits} limits", "one task" if tasks == 1 else f"{tasks} tasks"
    drawn = means.drawable(panel)
    if len({r.cell.method for r in drawn}) < 2:
        return  # one seed has no interval, and its profile is a single step
    kind, which, intervals = ("mean", "Mean", "t-intervals over seeds")
    if means.enough(means.normalised(drawn)):
        kind, which, intervals = ("iqm", "Interquartile mean", "bootstrap intervals over the seeds")
    yield CampaignFigure(
        f"{kind}-{limits}-{agent}",
        f"All together: {where}",
        f"{which} over {over} and all seeds, with 95 % {intervals}. Whether two methods differ is told by the interval "
        f"of their difference, not by two that overlap or do not.{rest}",
        partial(means.means, drawn),
    )
    yield CampaignFigure(
        f"profile-{limits}-{agent}",
        f"How many runs get how far: {where}",
        f"The share of runs above each score, {over}. A curve above the dashed one everywhere has more of its runs "
        f"above any score than DD-SRad has; a long tail to the right may be one lucky seed. No verdict: it has no "
        f"interval.{rest}",
        partial(means.profiles, drawn),
    )


def complete(panel: Sequence[Result]) -> tuple[list[Result], list[str]]:
    """The results of the methods that were run on every task, and the names of the other methods."""
    tasks = {r.cell.place for r in panel}
    left_out = [m for m, run in grouped(panel, lambda r: r.cell.method).items() if len(run) < len(tasks)]
    return [r for r in panel if r.cell.method not in left_out], left_out


def _comparisons(results: Results) -> Iterator[CampaignFigure]:
    """Wide against tight, where DD-SRad was run under both at one budget."""
    pairs, named = [], PAPER["limits_in_tables"](results)
    for tight in (r for r in results.where(method=REFERENCE) if named[r.cell] == "tight"):
        same = {"task": tight.cell.task, "agent": tight.cell.agent, "steps": tight.cell.steps}
        pairs += [{"wide": wide, "tight": tight} for wide in results.where(limits="wide", method=REFERENCE, **same)]
    if not pairs:
        return
    cost = "; ".join(
        f"{pair['tight'].cell.task} {backbone(pair['tight'].cell.agent)} {amount(pair['wide'].score.mean)} to "
        f"{amount(pair['tight'].score.mean)}, {change(pair['wide'], pair['tight'])}"
        for pair in pairs
    )
    caption = f"DD-SRad under wide and tight limits, final return: {cost}. Bands: 95 % t-intervals of the mean."
    yield CampaignFigure(
        "wide-tight-return", "What the tight limits cost", caption, partial(curves.wide_and_tight, pairs)
    )
    yield CampaignFigure(
        "wide-tight-radar",
        "Wide and tight limits, joint by joint",
        f"Share of its limit each joint of DD-SRad uses. Nearer to its limit when that is tight: {_nearer(pairs)}.",
        partial(radar.wide_and_tight, pairs),
    )


def _nearer(pairs: Sequence[Mapping[str, Result]]) -> str:
    """How many joints use more of a tight limit than of a wide one, pair by pair."""
    texts = []
    for pair in pairs:
        more = pair["tight"].joint_utilisation > pair["wide"].joint_utilisation
        cell = pair["tight"].cell
        texts.append(f"{more.sum()} of {len(more)} joints of {cell.task} with {backbone(cell.agent)}")
    return "; ".join(texts)


def _sweeps(results: Results) -> Iterator[CampaignFigure]:
    found = sensitivity.sweeps(results)
    for which, sweep in found.items():
        where, name = f"{which.task}, {backbone(which.agent)}", f"{which.task}-{which.agent}"
        if which.method != REFERENCE:
            where, name = f"{where}, {label(which.method, which.agent)}", f"{name}-{which.method.replace(' ', '-')}"
        if len({other.steps for other in found if other[:3] == which[:3]}) > 1:
            where, name = f"{where}, {count(which.steps)} steps", f"{name}-{which.steps}"
        yield CampaignFigure(
            f"lambda-return-{name}",
            f"How much λ matters: {where}",
            "Return while training by λ, the weight of ‖u‖² in the actor’s loss. Final returns, "
            f"{_by_lambda(sweep, lambda r: amount(r.score.mean))}. Lines: means; "
            "dots: the seeds’ final returns. The axis leaves out how training began.",
            partial(sensitivity.returns, sweep),
        )
        yield CampaignFigure(
            f"lambda-radar-{name}",
            f"λ, joint by joint: {where}",
            "Share of its limit each joint uses. The paper says that a large λ pulls every joint to the middle. "
            f"Over all joints, {_by_lambda(sweep, lambda r: share(r.utilisation.mean))}.",
            partial(sensitivity.utilisation, sweep),
        )


def _paretos(results: Results) -> Iterator[CampaignFigure]:
    for (task, limits, agent, _, steps), found in pareto.curves(results).items():
        best = pareto.undominated(found)
        named = ", ".join(f"{called(r)} ({amount(r.score.mean)} at {_calm(r)})" for _, _, r in best)
        yield CampaignFigure(
            f"pareto-{task}-{limits}-{agent}-{steps}",
            f"Return against calm: {task}, {backbone(agent)}, {limits} limits",
            f"Final return and mean second difference of the commands in units of their limits, {count(steps)} steps; "
            f"numbers at points: the weight. Small marks: seeds; lines join their means{_crosses(found)}. Up and to "
            f"the left is better. No other mean is better in both than: {named}. No verdict, but where to look.",
            partial(pareto.pareto, found, agent),
        )


def _crosses(found: Sequence[pareto.Curve]) -> str:
    several = any(len(result.runs) > 1 for curve in found for _, result in curve.results)
    return "; crosses: their 95 % t-intervals" if several else ""


def _calm(result: Result) -> str:
    return f"{over_seeds(result, pareto.MEASURE):.2g}"


def _by_lambda(sweep: Mapping[str, sensitivity.ByLambda], show: Callable[[Result], str]) -> str:
    return "; ".join(
        f"{limits}: " + ", ".join(f"λ = {value:g} {show(r)}" for value, r in by_lambda.items())
        for limits, by_lambda in sweep.items()
    )


def _use(result: Result) -> str:
    return f"{called(result)} {share(result.utilisation.mean)}"
