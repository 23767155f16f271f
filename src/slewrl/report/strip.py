"""The commands of two policies side by side, played once more: what it means that one of them shakes."""

from functools import partial

import numpy as np
from matplotlib.figure import Figure

from slewrl.report.calm import over_seeds
from slewrl.report.data import Result
from slewrl.report.figures import PALETTE
from slewrl.report.figures.small_multiples import labelled
from slewrl.report.figures.style import NORMAL, Look, canvas, saved
from slewrl.report.methods import called
from slewrl.report.page import Card, Picture, Words, svg_address
from slewrl.report.sections import Section
from slewrl.report.tables import amount

PLAYED = "played"
"""The beginning of the id of what is revealed from left to right."""
MOTION = f"""@media(prefers-reduced-motion:no-preference){{[id^={PLAYED}]{{animation:play 8s linear 3}}}}
@keyframes play{{from{{clip-path:inset(-9px 100% -9px -9px)}}75%,to{{clip-path:inset(-9px)}}}}"""
"""Six seconds and a rest of two, three times; then, or for readers who want no motion, all of it stands still."""
SHOWN = 100
"""The most steps: more cannot be told apart."""
ALIKE = 1.5
"""Up to this ratio of their second differences two methods shake about as much."""
WIDE = 5.0
"""Inches."""


def strip(pair: tuple[Result, Result], look: Look) -> Figure:
    """The commands of the first episode of both, a row for each joint."""
    joints = pair[0].joints
    figure = canvas(look, 0.6 + 0.9 * len(joints))
    axes = figure.subplots(len(joints), 2, squeeze=False, sharex=True, sharey="row")
    for column, result in enumerate(pair):
        colour = look.colour(result.layer)
        axes[0][column].set_title(called(result), color=look.colour(result.layer, 4.5), weight="bold", fontsize=NORMAL)
        for row, joint in enumerate(joints):
            values = result.runs[0].commands[joint][:SHOWN]
            (line,) = axes[row][column].plot(values, color=colour, linewidth=1.2, drawstyle="steps-post")
            line.set_gid(f"{PLAYED}-{row}-{column}")
    for row, joint in enumerate(joints):
        axes[row][0].set_ylabel(joint)
    labelled(figure, look, "control step", "command")
    return figure


def played(svg: bytes) -> bytes:
    """The picture with its lines drawn from left to right; a style sheet alone, so that it plays inside an image."""
    return svg.replace(b"<style>", b"<style>" + MOTION.encode(), 1)


def headline(pair: tuple[Result, Result]) -> str:
    """Which of the two shakes more, and how many times."""
    calmer, other = sorted(pair, key=_shaking)
    least, most = _shaking(calmer), _shaking(other)
    if not most > ALIKE * least:
        return f"{called(calmer)} and {called(other)} shake about as much"
    if least == 0:
        return f"The commands of {called(other)} shake, those of {called(calmer)} stand still"
    return f"The commands of {called(other)} shake {most / least:.2g} times as much as those of {called(calmer)}"


def _shaking(result: Result) -> float:
    return over_seeds(result, "second_difference")


def strip_section(pair: tuple[Result, Result]) -> Section | None:
    """The card with the headline and the strip; None where the shaking of either is not known."""
    if not all(np.isfinite(_shaking(result)) for result in pair):
        return None
    told = "; ".join(
        f"{called(r)}: {_shaking(r):.2f} and {over_seeds(r, 'reversals'):.0%}, at a return of {amount(r.score.mean)}"
        for r in pair
    )
    caption = (
        "The commands of both policies in an episode from the same start. How much the speed of a command changes from "
        f"step to step, in units of the limit, and how often it turns round: {told}."
    )
    svg = saved(partial(strip, pair), Look(width=WIDE), ["svg"], PALETTE)["svg"]
    blocks = [Picture("Commands of both policies", caption, svg_address(played(svg)))]
    kept = "Both kept the same limits at every step. " if not any(result.violations for result in pair) else ""
    more = Words(f"{kept}What else calms commands, and what it costs: docs/calm.md.")
    return Section(Card("calm-strip", headline(pair), [*blocks, more]), leads=True)
