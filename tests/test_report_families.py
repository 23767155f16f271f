"""The paper's Table 1 with measurements: rows by hand, and nothing where nothing was measured."""

import json

import pytest
from tiny_campaign import cell, write_campaign

from slewrl.campaign.paper import CAMPAIGNS
from slewrl.errors import UserFacingError
from slewrl.report.build import report
from slewrl.report.data import load
from slewrl.report.families import rows

CELL = {
    "name": "ddsrad",
    "command": "python measure.py --layers ddsrad",
    "violations": 0,
    "widest_full": 1.0,
    "narrowest_full": 0.999,
    "coverage": 0.98765,
    "moving_set": True,
    "solver_calls": 0.0,
    "draws_per_action": 1.0,
    "us_1": 45.4,
    "us_256": 0.63,
}


def campaign(folder):
    runs = [*cell([100.0, 200.0, 300.0]), *cell([50.0], layer="none", agent="ppo_lag")]
    return write_campaign(folder, runs, waiting=[])


def test_rows_by_hand(tmp_path):
    folder = campaign(tmp_path / "tiny")
    cells = [CELL, {"name": "FlowPG", "command": "not built", "violations": None}]
    (folder / "cells.json").write_text(json.dumps(cells))
    ours, priced, absent = rows(load(folder), folder)
    assert ours["method"] == "DD-SRad, SAC" and ours["off-policy"] == "yes"
    assert ours["joint actions outside F_t"] == f"0 of {3 * (2000 + 40 + 20) * 6:,}"
    assert ours["widest / narrowest joint at full latents"] == "1.00 / 1.00" and ours["share of F_t reached"] == "0.99"
    assert (ours["set moves"], ours["solver calls an action"], ours["µs an action, alone"]) == ("yes", "0", "45")
    # One resample in 27 (3.7 %) has a mean of 100 and one of 300: more than the 2.5 % left out on each side.
    assert ours["return at 2,000 steps"] == "200 (100 to 300, 3 seeds)"
    assert "`python measure.py --layers ddsrad`" in ours["measured by"]
    assert priced["method"] == "No limit, PPO-Lagrangian" and priced["off-policy"] == "no"
    assert priced["return at 2,000 steps"] == "50.0 (1 seed)" and priced["share of F_t reached"] == "–"
    assert absent["method"] == "FlowPG" and set(absent.values()) == {"FlowPG", "not measured"}


def test_the_report_has_the_table_where_cells_were_measured(tmp_path):
    folder = campaign(tmp_path / "tiny")
    report(folder, tmp_path / "plain", html=True)
    assert not (tmp_path / "plain" / "tables" / "table1.md").exists()
    (folder / "cells.json").write_text(json.dumps([CELL]))
    report(folder, tmp_path / "full", html=True)
    assert "| DD-SRad, SAC | 0 of" in (tmp_path / "full" / "tables" / "table1.md").read_text()
    pages = [(tmp_path / name / "index.html").read_text() for name in ("plain", "full")]
    assert ["Families of methods" in page for page in pages] == [False, True]


@pytest.mark.parametrize("text", ["{bad", "[1]", '[{"layer": "ddsrad"}]'])
def test_cells_that_cannot_be_read_are_refused_by_name(tmp_path, text):
    folder = campaign(tmp_path / "tiny")
    (folder / "cells.json").write_text(text)
    with pytest.raises(UserFacingError, match=r"cells.json is not what benchmarks/table1.py --out writes"):
        rows(load(folder), folder)


def test_the_campaign_has_every_family_that_was_built():
    runs = CAMPAIGNS["table1"]().runs
    families = {(run.agent, run.layer) for run in runs}
    assert {("ppo", "ddsrad"), ("ppo_lag", "none"), ("sac", "qp"), ("sac", "aram"), ("sac", "budget")} <= families
    assert {run.steps for run in runs} == {5_000} and len({(r.agent, r.layer, r.seed) for r in runs}) == len(runs)
