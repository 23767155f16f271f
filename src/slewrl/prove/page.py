"""Writes a proof down: certificate.json and a page for people."""

import json
import math
from pathlib import Path
from typing import Any

from slewrl.io.files import write_atomically
from slewrl.report.page import Badge, Block, Bullets, Card, Cell, Commands, DataTable, Folded, Page, Words

HEADLINES = {
    "proved": "Proved: all {count} lemmas.",
    "refuted": "REFUTED: {refuted} of {count} lemmas.",
    "not decided": "NOT decided: {not decided} of {count} lemmas had no answer in the time given.",
}
SAYS = {
    "proved": "What is proved",
    "refuted": "NOT proved: what would follow from all lemmas",
    "not decided": "NOT proved yet: what would follow from all lemmas",
}


def headline(certificate: dict[str, Any]) -> str:
    """The outcome in one sentence."""
    return HEADLINES[certificate["verdict"]].format(count=len(certificate["lemmas"]), **certificate)


def page(certificate: dict[str, Any]) -> str:
    """Render the certificate as one self-contained HTML page."""
    lead = f"slewrl {certificate['slewrl']}, {', '.join(certificate['tools'])}, {certificate['date']}"
    spent = f"{certificate['cpu_seconds']:,.1f} CPU-seconds of solvers, when each lemma was solved."
    if certificate["remembered"]:
        spent += f" {certificate['remembered']} answers were remembered from earlier times."
    badge = Badge(certificate["verdict"] == "proved", headline(certificate), spent)
    programs = [Folded(name, [_code(name, text.splitlines())]) for name, text in certificate["programs"].items()]
    cards = [
        *_cases(certificate["cases"]),
        Card("says", SAYS[certificate["verdict"]], [Bullets(certificate["says"])]),
        Card("lemmas", "The lemmas", [_lemmas(certificate["lemmas"])]),
        Card("limits", "The limits, per control step", [_limits(certificate["limits"])]),
        Card("trusted", "What the proof rests on", [Bullets(certificate["trusted"])]),
        Card("not", "What is not proved", [Bullets(certificate["not_proved"])]),
        Card("programs", "The arithmetic it is about", programs),
    ]
    return Page(f"{certificate['source']}: proof", lead, badge, cards).html()


def _cases(cases: list[dict[str, Any]]) -> list[Card]:
    blocks: list[Block] = []
    for i, case in enumerate(cases):
        blocks += [Words(f"{case['broken']}:", kind=""), _code(f"case-{i}", case["lines"])]
    return [Card("cases", "A step that breaks a limit", blocks)] if cases else []


def _code(name: str, lines: list[str]) -> Commands:
    return Commands(name, [line for line in lines if line.strip()])


def _lemmas(lemmas: list[dict[str, Any]]) -> DataTable:
    rows = [
        (
            Cell(row["part"], kind="words"),
            Cell(row["name"], kind="words", head=True, small=row["about"] or row["why"]),
            Cell(row["verdict"], small="remembered" if row["remembered"] else ""),
            Cell(row["tool"]),
            Cell(f"{row['cpu_seconds']:.2f}", row["cpu_seconds"]),
            Cell(row["digest"][:12]),
        )
        for row in lemmas
    ]
    return DataTable("Lemmas", ("part", "lemma", "verdict", "tool", "#CPU s", "question"), rows, example="edge")


def _limits(joints: list[dict[str, str]]) -> DataTable:
    columns = [key for key in joints[0] if key != "name"]
    rows = [
        (Cell(row["name"], head=True), *(Cell(f"{float(row[key]):.6g}", float(row[key])) for key in columns))
        for row in joints
    ]
    return DataTable("Limits", ("joint", *(f"#{key}" for key in columns)), rows)


def write(certificate: dict[str, Any], folder: Path) -> None:
    """Write certificate.json and certificate.html to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(strict(certificate), indent=1, allow_nan=False)
    write_atomically(folder / "certificate.json", text + "\n")
    write_atomically(folder / "certificate.html", page(certificate))


def strict(value: Any) -> Any:
    """A value for any reader of JSON, which has no numbers for NaN and infinity: they become text."""
    if isinstance(value, dict):
        return {key: strict(part) for key, part in value.items()}
    if isinstance(value, list):
        return [strict(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
