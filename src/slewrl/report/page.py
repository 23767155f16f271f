"""Pages made of cards: the demo's, a campaign's and a certificate's, from one template with everything escaped.

A page is one file that needs no network, follows the reader's colour scheme, and fits a phone.
"""

import base64
import dataclasses
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from slewrl.report.colours import DARK, LIGHT, Ground

TEMPLATES = Path(__file__).with_name("templates")
UNSAFE = re.compile(r"[^\w !$'()*+,\-./:;<=>?@\[\]{|}~]+", re.ASCII)
"""What an address cannot hold as it is."""


# ---------------------------------------------------------------------- what a page is made of


@dataclass(frozen=True)
class Cell:
    """One entry of a table."""

    text: str
    value: float | None = None
    """The exact number, to sort by; nan if there is none. None of words."""
    kind: str = ""
    """Classes of the style sheet."""
    small: str = ""
    """A second line."""
    links: Sequence[tuple[str, str]] = ()
    """Words and addresses, after the text."""
    head: bool = False
    """Whether it names its row."""

    @property
    def exact(self) -> str:
        """The number as JavaScript reads it; "" if there is none, which is sorted last."""
        return "" if self.value is None or math.isnan(self.value) else repr(float(self.value))


@dataclass(frozen=True)
class DataTable:
    """Rows that sort and filter, in a box that scrolls where the page must not."""

    part: ClassVar[str] = "table"
    name: str
    heads: Sequence[str]
    """With # before those of numbers; none for a list of facts."""
    rows: Sequence[Sequence[Cell]]
    example: str = ""
    """What one might filter by; "" for a table that neither sorts nor filters."""


@dataclass(frozen=True)
class Picture:
    """A figure with its words."""

    part: ClassVar[str] = "picture"
    title: str
    caption: str
    address: Markup
    """Made by `svg_address`."""

    @property
    def alt(self) -> str:
        """What it shows, for those who do not see it."""
        return f"{self.title}. {self.caption}"


@dataclass(frozen=True)
class Words:
    """A paragraph; ``code`` is what to type, after it."""

    part: ClassVar[str] = "words"
    text: str
    kind: str = "caption"
    code: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    part: ClassVar[str] = "bullets"
    items: Sequence[str]


@dataclass(frozen=True)
class Commands:
    """What to type, numbered: ``name`` and a number is each one's anchor."""

    part: ClassVar[str] = "commands"
    name: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """Names and what they are."""

    part: ClassVar[str] = "facts"
    facts: Mapping[str, str]


@dataclass(frozen=True)
class Heading:
    """A title inside a card."""

    part: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Folded:
    """What is shown only when asked for."""

    part: ClassVar[str] = "folded"
    summary: str
    blocks: Sequence["Block"]


Block = DataTable | Picture | Words | Bullets | Commands | Facts | Heading | Folded


@dataclass(frozen=True)
class Card:
    """A titled part of a page; one of pictures alone flows in columns."""

    name: str
    """Its anchor."""
    title: str
    blocks: Sequence[Block]
    kind: str = ""
    """Classes of the style sheet."""


@dataclass(frozen=True)
class Badge:
    """A page's first words: good news, or bad."""

    good: bool
    headline: str
    text: str = ""


@dataclass(frozen=True)
class Page:
    """Everything on it."""

    title: str
    lead: str
    badge: Badge | None
    cards: Sequence[Card]

    def html(self) -> str:
        """One file."""
        script = _file("page.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        return (
            _environment()
            .get_template("page.html")
            .render(
                page=self,
                style=_file("page.css"),
                light=_variables(LIGHT),
                dark=_variables(DARK),
                script=script,
                hash=Markup(f"sha256-{digest}"),
            )
        )


# ---------------------------------------------------------------------- how it is written


def svg_address(svg: bytes) -> Markup:
    """A figure as an address. Base64 would be a third longer, and there may be forty figures."""
    plain = svg.decode().replace('"', "'")
    return Markup("data:image/svg+xml," + UNSAFE.sub(lambda found: quote(found[0]), plain))


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_thousands,
    )


def _thousands(value: Any) -> Any:
    """Words with their thousands kept together; what is markup stays as it is."""
    return re.sub(r"(?<=\d) (?=\d{3}\b)", "\u202f", value) if type(value) is str else value


def _file(name: str) -> Markup:
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))


def _variables(ground: Ground) -> Markup:
    """A ground's colours for a style sheet."""
    return Markup(" ".join(f"--{name}: {value};" for name, value in dataclasses.asdict(ground).items()))
