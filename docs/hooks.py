"""Hooks of mkdocs. What a page links to outside docs/ becomes a page of the site that shows it.

Pages link to `../examples/leg.py` and the like, which is right on a forge and in an editor. The site has no such file,
so each one that is linked to gets a page under files/, and the links lead there. A link to nothing stays as it is, and
a strict build stops at it.
"""

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = ("CONTRIBUTING.md", "CHANGELOG.md")
"""In the navigation, whoever links to them."""
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=(?:#[^)\s]*)?\))")
CELL, CODE, MARK = (
    re.compile(r"<td.*?</td>"),
    re.compile(r"(?<=<code>)[^<&]+(?=</code>)"),
    re.compile(r"([_./:]+)(?=\w)"),
)
BINARY = (".bundle", ".png")
LANGUAGES = {".py": "python", ".urdf": "xml", ".yaml": "yaml", ".toml": "toml", ".csv": "text"}


def path_of(uri: str) -> str:
    """Where in the repository a page of the site comes from."""
    if not uri.startswith("files/"):
        return f"docs/{uri}"
    path = uri.removeprefix("files/")
    shown_as = path.removesuffix(".md")
    return shown_as if (ROOT / shown_as).exists() else path


def uri_of(path: str) -> str:
    """Where on the site a file of the repository is shown."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"files/{path}" if path.endswith(".md") else f"files/{path}.md"


def linked(path: str, link: str) -> str | None:
    """The file or folder of the repository that a link in ``path`` means; None if there is none."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    outside = ":" in link or target.startswith(("..", "/"))
    return None if outside or not (ROOT / target).exists() else target


def rewritten(text: str, path: str, uri: str) -> str:
    """The Markdown of ``path`` with its links as they have to be on the page ``uri``."""

    def lead(link: re.Match[str]) -> str:
        target = linked(path, link[0])
        if target is None or (path.startswith("docs/") and target.startswith("docs/")):
            return link[0]
        return posixpath.relpath(uri_of(target), posixpath.dirname(uri) or ".")

    return LINK.sub(lead, text)


def shown(path: str) -> str:
    """A file or folder as Markdown, its links as they are in the repository."""
    place = ROOT / path
    if place.is_dir():
        names = sorted(item.name for item in place.iterdir() if item.is_file())
        return f"# {path}\n\n" + "".join(f"- [{name}]({place.name}/{name})\n" for name in names)
    if place.suffix in BINARY:
        return f"# {path}\n\nA file of {place.stat().st_size / 1000:.0f} kB; it is in the repository.\n"
    text = place.read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    hidden = "---\nsearch:\n  exclude: true\n---\n"
    return f"{hidden}# {path}\n\n``````{LANGUAGES.get(place.suffix, 'text')}\n{text}\n``````\n"


def outside(pages: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What (path, Markdown) link to outside docs/, and what that links to in turn: path -> Markdown."""
    found = {path: shown(path) for path in ALWAYS}
    rest = [*pages, *found.items()]
    while rest:
        path, text = rest.pop()
        targets = {linked(path, link[0]) for link in LINK.finditer(text)} - {None}
        for target in sorted(filter(None, targets)):
            if not target.startswith("docs/") and target not in found:
                found[target] = shown(target)
                rest.append((target, found[target]))
    return found


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    from mkdocs.structure.files import File, InclusionLevel

    pages = [(path_of(page.src_uri), page.content_string) for page in files.documentation_pages()]
    for path, text in outside(pages).items():
        hidden = InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, uri_of(path), content=text, inclusion=hidden))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead the links there."""
    return rewritten(markdown, path_of(page.file.src_uri), page.file.src_uri)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Let long names in tables break after a mark, where a reader expects it."""
    return CELL.sub(lambda cell: CODE.sub(lambda name: MARK.sub(r"\1<wbr>", name[0]), cell[0]), html)
