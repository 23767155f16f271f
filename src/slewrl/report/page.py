"""One HTML page about training runs side by side: no network, no other file, light and dark, desk and phone."""

import base64
import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from string import Template

from matplotlib.figure import Figure

from slewrl.report.figures import (
    DARK,
    LIGHT,
    Ground,
    RunResult,
    as_svg,
    increment_densities,
    learning_curves,
    utilisation_bars,
)

TEMPLATE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
"""What all our pages look like."""
Extra = tuple[str, str, Figure]
"""A figure of the caller's own: title, caption and what to show, on white in either scheme."""


@dataclass(frozen=True)
class Demo:
    """What was run, and what is needed to run it again."""

    task: str
    """A Gymnasium id."""
    limits: str
    """The preset of the limits."""
    agent: str
    """What learned, as in a sentence: SAC."""
    joints: tuple[str, ...]
    """What to call each joint, (d,)."""
    steps: int
    """Environment steps of each run."""
    episodes: int
    """Episodes of each final evaluation."""
    seconds: float
    """Wall-clock time of it all."""
    runs: tuple[RunResult, ...]
    """In the order to show them."""
    versions: Mapping[str, str]
    """Package -> version."""
    seeds: Mapping[str, int]
    """What was seeded -> with what."""
    commands: tuple[str, ...]
    """To train the same for longer, one line each."""

    def __post_init__(self) -> None:
        """Refuse runs that do not fit the joints."""
        if not self.runs:
            raise ValueError("runs is empty: there is nothing to show")
        for run in self.runs:
            if len(run.per_joint) != len(self.joints):
                raise ValueError(
                    f"{run.name} has {len(run.per_joint)} joints, expected {len(self.joints)}: {self.joints}"
                )


def write_page(path: Path, demo: Demo, extras: Sequence[Extra] = ()) -> None:
    """Write the page; ``extras`` follow the figures of the runs."""
    path.write_text(render(demo, extras), encoding="utf-8")


def render(demo: Demo, extras: Sequence[Extra] = ()) -> str:
    """The page's HTML."""
    names = " and ".join(run.label for run in demo.runs)
    lead = (
        f"{demo.agent} was trained on {demo.task} under the “{demo.limits}” limits, once with each action layer: "
        f"{demo.steps:,} steps each, {demo.seconds:.0f} seconds in all. "
        f"Each policy then played {demo.episodes} episodes without exploration."
    )
    return TEMPLATE.substitute(
        title=escape(f"{names} on {demo.task}"),
        lead=escape(lead),
        light=variables(LIGHT),
        dark=variables(DARK),
        style=STYLE,
        badge=_badge(demo.runs),
        table=_table(demo),
        figures="\n".join([*_run_figures(demo), *(_extra(*extra) for extra in extras)]),
        provenance=_provenance(demo),
    )


def _badge(runs: Sequence[RunResult]) -> str:
    broken, checked = sum(run.violations for run in runs), sum(run.actions_checked for run in runs)
    each = "; ".join(f"{run.label} {run.violations:,} of {run.actions_checked:,}" for run in runs)
    return badge(broken, checked, f"One action is one joint at one control step, in training or evaluation: {each}.")


def badge(broken: int, checked: int, words: str, whose: str = "") -> str:
    """How many joint actions broke a limit, of how many, as a page's first words: green, or red.

    ``whose``: of which methods, with a blank after it.
    """
    return (
        f'<div class="badge {"bad" if broken else "good"}"><strong><span aria-hidden="true">{"✗" if broken else "✓"}'
        f"</span> {broken:,} of {checked:,} actions {whose}broke a limit, checked in exact arithmetic</strong>"
        f"<p>{escape(words)}</p></div>"
    )


def _table(demo: Demo) -> str:
    rows: dict[str, Callable[[Mapping[str, float]], str]] = {
        "Return, mean": lambda row: _number(row["return_mean"]),
        "Return, standard deviation": lambda row: _number(row["return_std"]),
        "Share of the rate limits used": lambda row: f"{row['utilisation']:.1%}",
        "… as the mean of the joints’ shares": lambda row: f"{row['utilisation_mean']:.1%}",
        "Executed actions outside a limit": lambda row: f"{row['violations']:,.0f} ({_percent(row['violation_rate'])})",
        "Actions shown to the critic outside one": lambda row: _percent(row["raw_violation_rate"]),
        "Steps per episode": lambda row: f"{row['length_mean']:.1f}",
    }
    head = "".join(f'<th scope="col">{escape(run.label)}</th>' for run in demo.runs)
    body = ""
    for name, show in rows.items():
        cells = "".join(f"<td>{escape(show(run.final))}</td>" for run in demo.runs)
        body += f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>\n'
    about = " ".join(f"{run.label}: {run.about}." for run in demo.runs if run.about)
    return (
        f"<h2>Final evaluation, {demo.episodes} episodes</h2>\n<table><thead><tr><td></td>{head}</tr></thead>\n"
        f'<tbody>{body}</tbody></table><p class="caption">{escape(about)}</p>'
    )


def _run_figures(demo: Demo) -> list[str]:
    labels, joints = " and ".join(run.label for run in demo.runs), ", ".join(demo.joints)
    ends = "; ".join(f"{run.label} from {_number(run.returns[0])} to {_number(run.returns[-1])}" for run in demo.runs)
    uses = "; ".join(f"{run.label} {', '.join(f'{use:.0%}' for use in run.per_joint)}" for run in demo.runs)
    return [
        _drawn(
            "Learning",
            f"Return of the evaluations during training, higher is better: {ends}. One run each: enough to see how "
            "they went, not to say which is better.",
            partial(learning_curves, demo.runs),
            f"Learning curves. {ends}.",
        ),
        _drawn(
            "How much of its limit each joint uses",
            "Mean of |increment| / limit in the final evaluation. At 100% a joint’s command changes as fast as it may "
            "at every step; a short bar is a command that hardly changes.",
            partial(utilisation_bars, demo.runs, demo.joints),
            f"Bars of utilisation by joint ({joints}). {uses}.",
        ),
        _drawn(
            "How the increments spread",
            "Every step of the final evaluation, by joint. A peak at 0 is a command held, a peak at −1 or 1 a command "
            "pressed against its rate limit. Nothing lies beyond ±1 unless a limit was broken.",
            partial(increment_densities, demo.runs, demo.joints),
            f"Histograms of increment over limit by joint ({joints}), {labels}.",
        ),
    ]


def _drawn(title: str, caption: str, draw: Callable[[Ground], Figure], alt: str) -> str:
    light, dark = (data_uri(as_svg(draw, ground), "svg+xml") for ground in (LIGHT, DARK))
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    return figure_card("", title, caption, f'<picture>{source}<img src="{light}" alt="{escape(alt)}"></picture>')


def _extra(title: str, caption: str, figure: Figure) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130, facecolor="white")
    uri = data_uri(file.getvalue(), "png")
    return figure_card(
        "wide", title, caption, f'<div class="scroll" tabindex="0"><img src="{uri}" alt="{escape(title)}"></div>'
    )


def figure_card(kind: str, title: str, caption: str, image: str) -> str:
    """A figure with its words; ``image`` is HTML, the rest plain text."""
    words = f'<figcaption class="caption">{escape(caption)}</figcaption>'
    return f'<figure class="{kind}"><h2>{escape(title)}</h2>{image}{words}</figure>'


def _provenance(demo: Demo) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in demo.versions.items())
    seeds = ", ".join(f"{name} {seed}" for name, seed in demo.seeds.items())
    commands = "\n".join(demo.commands)
    return (
        f"<dl><dt>Versions</dt><dd>{escape(versions)}</dd><dt>Seeds</dt><dd>{escape(seeds)}</dd></dl>"
        f"<p>To train the same for longer:</p><pre>{escape(commands)}</pre>"
    )


def data_uri(data: bytes, kind: str) -> str:
    """An image as an address that needs no other file; ``kind``: png or svg+xml."""
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def variables(ground: Ground) -> str:
    """A ground's colours for a style sheet."""
    return " ".join(f"--{name}: {value};" for name, value in dataclasses.asdict(ground).items())


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"  # three digits, so that a rare event does not round to none
