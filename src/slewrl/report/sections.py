"""The parts of a report that not every campaign has, the paper's among them, by dotted names alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from slewrl.registry import Registry

if TYPE_CHECKING:
    from slewrl.report.data import Results
    from slewrl.report.page import Card

PAPER = Registry(
    "part of the paper",
    {
        "is_printed": "slewrl.paper.printed:is_printed",
        "printed_options": "slewrl.paper.printed:options",
        "value": "slewrl.paper.values:paper_value",
        "mark": "slewrl.paper.values:mark",
        "setting": "slewrl.paper.values:setting",
        "no_targets": "slewrl.paper.values:no_targets",
        "limits_in_tables": "slewrl.paper.values:limits_in_tables",
        "under_other_limits": "slewrl.paper.values:under_other_limits",
    },
)
"""The paper's functions that a report calls: whether a run does as printed, its numbers, and its names of limits."""


@dataclass(frozen=True)
class Section:
    """A part of a report that not every campaign has."""

    card: "Card"
    """Its card on the page."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Name in tables/ -> text."""
    notice: str = ""
    """A message for the console; "" for none."""
    leads: bool = False
    """Whether its card comes before the results."""


Make = Callable[["Results", Path | None], Section | None]
"""Makes a section from the results and the folder of a single campaign; None where the campaign has none."""
SECTIONS = Registry(
    "section",
    {
        "table1": "slewrl.paper.sections:table1_section",
        "claims": "slewrl.paper.sections:claims_section",
        "comparison": "slewrl.paper.sections:comparison_section",
        "calm": "slewrl.report.calm:calm_section",
        "halved": "slewrl.report.halved:halved_section",
    },
)
"""Every section there may be, in the order of the page."""


def sections_of(results: "Results", folder: Path | None) -> list[Section]:
    """The sections that a campaign has."""
    makes: Sequence[Make] = list(SECTIONS.values())
    return [section for make in makes if (section := make(results, folder))]
