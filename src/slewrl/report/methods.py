"""The names of methods in tables, and their order: the paper's six first, then ours."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from slewrl.campaign.grids import METHODS, RIVALS
from slewrl.report.data import Result

LABELS = {
    "boxpre": "BoxPre+",
    "post": "Post(QP)",
    "srad_ball": "SRad-Strict",
    "srad_qp": "SRad-QP",
    "dtanh": "D-Tanh",
    "ddsrad": "DD-SRad",
    "boxpro": "Clip",
    "interval_tanh": "Interval-tanh",
    "interval_srad": "Interval-SRad",
    "truncnorm": "Trunc. normal",
    "srad_gauge": "SRad-gauge",
    "ddsrad_smooth": "DD-SRad smooth",
    "none": "No limit",
    "budget": "Budget",
    "qp": "QP layer",
    "aram": "ARAM",
}
"""Layer -> name in a table; the paper's names for the paper's methods."""
PAPER_MODE = "action mean_bound=tanh"
"""The paper's options where our defaults differ (docs/deviations.md)."""
OPTION_LABELS = {
    PAPER_MODE: "paper mode",
    f"{PAPER_MODE} recipe=paper": "paper mode",
    "action_scaled": "scaled entropy",
    "action": "action entropy",
    "mean_bound=tanh": "tanh mean",
}
FILTERS = {"filter=ema": "Average, clip", "filter=butterworth": "Butterworth, clip"}
"""A filter in the environment, with which no limit in the policy is one behind the filter -> its name."""
BACKBONES = {"sac": "SAC", "td3": "TD3", "fastsac": "FastSAC", "ppo": "PPO", "ppo_lag": "PPO-Lagrangian"}
ROBOT_METHODS = ("boxpre", "post", "srad_qp", "srad_ball", "dtanh", "ddsrad")
"""The order of the paper's table of the robots, which is not that of its others."""
REFERENCE = "ddsrad"
"""The method that every other is compared with."""
UNLIMITED = "none"
"""The one layer that promises no limit."""
PRICED = "ppo_lag"
"""The agent with a price on violations instead: with the layer above, which it needs, a soft constraint."""


class Note(NamedTuple):
    """A footnote; empty if there is none."""

    mark: str = ""
    text: str = ""


NOTES = {
    "post": Note(
        "†",
        "The critic does not see the projection; the paper says that dwelling on the boundary inflates utilisation.",
    ),
    UNLIMITED: Note("‡", "No rate limit at all: what the task allows without one, no contender and never in bold."),
    PRICED: Note("¶", "A price on violations instead of a limit: a soft constraint, in bold only if it broke none."),
}
"""Layer, or the agent that prices -> its mark in a table, and the footnote."""


def kind(layer: str, agent: str) -> str:
    """The key of a method: its layer or, for a Lagrangian, which has none, its agent."""
    return PRICED if (layer, agent) == (UNLIMITED, PRICED) else layer


def note(result: Result) -> Note:
    """A method's footnote."""
    return Note() if filters(result) else NOTES.get(kind(result.layer, result.cell.agent), Note())


def notes(results: Iterable[Result]) -> list[str]:
    """The footnotes that a table of ``results`` needs."""
    needed = {note(result) for result in results}
    return [f"{one.mark} {one.text}" for one in NOTES.values() if one in needed]


def filters(result: Result) -> bool:
    """Whether the environment filters the policy's commands, and clips them to F_t."""
    return bool(result.runs[0].spec.task_options.get("filter"))


def promises(result: Result) -> bool:
    """Whether a method promises the limit, so that one violation is one too many."""
    return result.layer != UNLIMITED or filters(result)


def prices(result: Result) -> bool:
    """Whether a method has a price on violations instead."""
    return kind(result.layer, result.cell.agent) == PRICED


def label(method: str, agent: str = "") -> str:
    """A method's name: its layer's, or a Lagrangian's own, and in brackets its changed options."""
    layer, _, changes = method.partition(" ")
    name = BACKBONES[PRICED] if kind(layer, agent) == PRICED else LABELS.get(layer, layer.rpartition(":")[2])
    if changes in OPTION_LABELS:
        return f"{name} ({OPTION_LABELS[changes]})"
    if layer == UNLIMITED and (filtered := [word for word in FILTERS if word in changes.split()]):
        name, changes = FILTERS[filtered[0]], changes.replace(filtered[0], "")
    texts = [OPTION_LABELS.get(change, change.replace("penalty_weight=", "λ = ")) for change in changes.split()]
    return f"{name} ({', '.join(texts)})" if texts else name


def called(result: Result) -> str:
    """The name of a result's method in a table."""
    return label(result.cell.method, result.cell.agent)


def backbone(agent: str) -> str:
    """An agent's name."""
    return BACKBONES.get(agent, agent)


def in_order(results: Sequence[Result], first: Sequence[str] = METHODS) -> list[Result]:
    """Results in the order of the tables: those of ``first``, the paper's, our own, then the user's own layers."""
    known = (*first, *RIVALS)
    places = {layer: i for i, layer in enumerate(known)}
    return sorted(results, key=lambda r: (places.get(r.layer, len(known)), r.cell.method))
