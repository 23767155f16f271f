"""A campaign as tables: a row per run, evaluation or episode, with the run's settings; and the notebook about it."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_campaign import BASE, cell, write_campaign

import slewrl
from slewrl.errors import UserFacingError
from slewrl.report.data import load

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def campaign(tmp_path):
    runs = cell([1.0, 3.0]) + cell([5.0], layer="boxpre", layer_options={"penalty_weight": 0.5})
    return write_campaign(tmp_path / "c", runs, [replace(BASE, seed=9)])


def test_a_row_per_run(campaign):
    rows = slewrl.load_campaign(campaign).rows()
    assert [(r["layer"], r["seed"], r["state"], r["return"]) for r in rows[:3]] == [
        ("ddsrad", 1, "done", 1.0), ("ddsrad", 2, "done", 3.0), ("boxpre", 1, "done", 5.0)
    ]  # fmt: skip
    assert rows[0]["utilisation"] == 0.5 and rows[0]["violations"] == 0 and rows[2]["layer.penalty_weight"] == 0.5
    assert rows[3]["state"] == "waiting" and math.isnan(rows[3]["return"])
    assert rows[0]["run"] == "HalfCheetah-v5-tight-sac-ddsrad-normalized-s1"


def test_rows_of_every_file(campaign):
    data = slewrl.load_campaign(str(campaign))
    assert [(r["seed"], r["step"], r["return_mean"]) for r in data.rows("evaluations")[:3]] == [
        (1, 1_000, 0.5), (1, 2_000, 1.0), (2, 1_000, 1.5)
    ]  # fmt: skip
    assert [r["return"] for r in data.rows("episodes")] == [0, 2, 2, 4, 4, 6]
    assert len(data.rows("training")) == 3
    with pytest.raises(ValueError, match="what is 'walks', expected of: runs, evaluations, training, episodes"):
        data.rows("walks")


def test_pandas(campaign):
    pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")
    frame = slewrl.load_campaign(campaign).to_pandas()
    assert frame.groupby("layer")["return"].mean().to_dict() == {"boxpre": 5.0, "ddsrad": 2.0}


def test_without_pandas(campaign, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserFacingError, match="to_pandas needs pandas, which is not installed: pip install pandas"):
        slewrl.load_campaign(campaign).to_pandas()


def test_damage_and_absence_are_named(campaign, tmp_path):
    with pytest.raises(ValueError, match="no campaign is given"):
        slewrl.load_campaign()
    with pytest.raises(FileNotFoundError, match="holds no campaign"):
        slewrl.load_campaign(tmp_path)
    data = slewrl.load_campaign(campaign)
    (campaign / data.rows()[0]["run"] / "eval.csv").write_text("step,return_mean\n1,x\n")
    with pytest.raises(ValueError, match="eval.csv is not a table of numbers"):
        data.rows("evaluations")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_notebook(monkeypatch):
    """Its cells of code, one after another: what it says of results/first is what the report says."""
    pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(EXAMPLES)
    notebook = json.loads((EXAMPLES / "campaign.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict = {}
    for part in notebook["cells"]:
        if part["cell_type"] == "code":
            assert part["outputs"] == []
            exec("".join(part["source"]), names)
    table = names["by_layer"]
    assert table.loc["ddsrad", "seeds"] == 3 and table.loc["ddsrad", "violations"] == 0
    (reported,) = load(EXAMPLES.parent / "results" / "first").where(agent="sac", method="ddsrad")
    assert (table.loc["ddsrad", "mean"], table.loc["ddsrad", "std"]) == pytest.approx(reported.score)
    assert len(names["axes"].lines) == 3 and len(names["runs"]) == len(names["campaign"].campaign.runs)
    names["plt"].close(names["figure"])
