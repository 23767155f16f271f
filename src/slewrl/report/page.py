"""Pages made of cards: the demo's, a campaign's and a certificate's, from one template with everything escaped.

A page is one file that needs no network, follows the reader's colour scheme, and fits a phone.
"""

import base64
import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from slewrl.report.colours import DARK, LIGHT

TEMPLATES = Path(__file__).with_name("templates")
UNSAFE = re.compile(r"[^\w !$'()*+,\-./:;<=>?@\[\]{|}~]+", re.ASCII)
"""Characters that an address cannot hold as they are."""


# ---------------------------------------------------------------------- what a page is made of


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    value: float | None = None
    """The exact number, to sort by; nan if there is none, None for text."""
    kind: str = ""
    """Classes of the style sheet."""
    small: str = ""
    """A second line."""
    links: Sequence[tuple[str, str]] = ()
    """Texts and addresses of links, after the text."""
    head: bool = False
    """Whether it names its row."""


@dataclass(frozen=True)
class DataTable:
    """Rows that sort and filter, in a box that scrolls where the page must not."""

    name: str
    heads: Sequence[str]
    """Headings, with # before those of numbers; none for a list of facts."""
    rows: Sequence[Sequence[Cell]]
    example: str = ""
    """An example of a filter; "" for a table that neither sorts nor filters."""


@dataclass(frozen=True)
class Picture:
    """A figure with its title and caption."""

    title: str
    caption: str
    address: Markup
    """Made by `svg_address`."""


@dataclass(frozen=True)
class Words:
    """A paragraph; ``code`` is a command after it."""

    text: str
    kind: str = "caption"
    code: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Commands:
    """Numbered commands; ``name`` and the number are each one's anchor."""

    name: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """A list of names and their values."""

    facts: Mapping[str, str]


@dataclass(frozen=True)
class Heading:
    """A title inside a card."""

    text: str


@dataclass(frozen=True)
class Folded:
    """Blocks that are shown only on a click."""

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
    """A page's headline: good news, or bad."""

    good: bool
    headline: str
    text: str = ""


@dataclass(frozen=True)
class Page:
    """A page and everything on it."""

    title: str
    lead: str
    badge: Badge | None
    cards: Sequence[Card]

    def html(self) -> str:
        """The page as one HTML file."""
        script = _file("page.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        light, dark = (
            Markup(" ".join(f"--{name}: {value};" for name, value in dataclasses.asdict(theme).items()))
            for theme in (LIGHT, DARK)
        )
        template, digest = _environment().get_template("page.html"), Markup(f"sha256-{digest}")
        return template.render(page=self, style=_file("page.css"), light=light, dark=dark, script=script, hash=digest)


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
    """Text with the groups of its numbers kept together; markup stays as it is."""
    return re.sub(r"(?<=\d) (?=\d{3}\b)", "\u202f", value) if type(value) is str else value


def _file(name: str) -> Markup:
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))
