"""The strip of two policies' commands: its headline is what was measured, and it moves only for those who like that."""

import re
from urllib.parse import unquote

import pytest
from tiny_campaign import JOINTS, cell, write_campaign

from slewrl.report.build import report
from slewrl.report.data import load
from slewrl.report.strip import headline, strip_section


def pair_of(path, *shaking):
    """DD-SRad and the clip with these second differences, and commands of four steps."""
    runs = [
        *cell([2.0], measures={"second_difference": shaking[0], "reversals": 0.1}),
        *cell([3.0], measures={"second_difference": shaking[1], "reversals": 0.8}, layer="boxpro"),
    ]
    results = load(write_campaign(path, runs))
    for run in results.runs:
        rows = [",".join(JOINTS), *(",".join([str(x)] * len(JOINTS)) for x in (0.0, 0.1, 0.0, 0.1, 0.0))]
        (run.path / "final" / "commands.csv").write_text("\n".join(rows) + "\n")
    return tuple(results)


@pytest.mark.parametrize(
    ("shaking", "said"),
    [
        ((0.05, 1.0), "The commands of Clip shake 20 times as much as those of DD-SRad"),
        ((0.9, 0.3), "The commands of DD-SRad shake 3 times as much as those of Clip"),
        ((0.4, 0.5), "DD-SRad and Clip shake about as much"),
        ((0.0, 0.5), "The commands of Clip shake, those of DD-SRad stand still"),
        ((0.0, 0.0), "DD-SRad and Clip shake about as much"),
    ],
)
def test_the_headline_is_what_was_measured(tmp_path, shaking, said):
    assert headline(pair_of(tmp_path / "c", *shaking)) == said


def test_the_strip_leads_the_page_and_plays_by_style_alone(tmp_path):
    pair = pair_of(tmp_path / "c", 0.05, 1.0)
    section = strip_section(pair)
    svg = unquote(str(section.card.blocks[0].address))
    assert len(re.findall(r"id='played-\d+-\d+'", svg)) == 2 * len(JOINTS) and "<script" not in svg
    moving = re.search(r"@media\(prefers-reduced-motion:no-preference\)\{(.*?)\}\}", svg)[1]
    assert "animation:play" in moving and svg.count("animation:") == 1  # none outside that rule
    assert "0.05 and 10%, at a return of 2.00; Clip: 1.00 and 80%" in section.card.blocks[0].caption
    report(tmp_path / "c", tmp_path / "out", html=True, more=[section])
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.index('id="calm-strip"') < page.index('id="results"')
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" in page


def test_there_is_none_where_nothing_was_measured(tmp_path):
    assert strip_section(pair_of(tmp_path / "c", "nan", 1.0)) is None
