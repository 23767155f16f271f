"""Several campaigns as one: cells of all of them, each run once, and no two runs under one name."""

from dataclasses import replace

import pytest
from tiny_campaign import BASE, cell, write_campaign

from slewrl.report.data import load


def test_a_report_on_several_campaigns(tmp_path):
    """Seeds 1 and 2 of DD-SRad are in both, and count once; seed 3, finished in the second alone, is taken there."""
    waiting = [replace(BASE, seed=3)]
    first = write_campaign(tmp_path / "a", cell([1.0, 2.0]), waiting, name="a")
    second = write_campaign(tmp_path / "b", cell([1.0, 2.0, 6.0]) + cell([4.0], layer="post"), name="b")
    found = load(first, second)
    assert {r.cell.method: list(r.returns) for r in found} == {"ddsrad": [1.0, 2.0, 6.0], "post": [4.0]}
    assert (found.name, found.about, found.planned) == ("a + b", "made by hand", 4)
    assert [run.path.parent.name for run in found.runs] == ["a", "a", "b", "b"]


def test_the_same_folder_twice_is_one(tmp_path):
    path = write_campaign(tmp_path / "a", cell([1.0, 2.0]))
    once, twice = load(path), load(path, path)
    assert twice.name == once.name and len(twice.runs) == len(once.runs) == 2


def test_names_are_those_of_all_campaigns(tmp_path):
    """What all runs of a campaign share goes without saying, until another campaign's do not share it."""
    option = {"penalty_weight": 0.5}
    first = write_campaign(tmp_path / "a", cell([1.0], layer="boxpre", layer_options=option))
    second = write_campaign(tmp_path / "b", cell([2.0], layer="boxpre"))
    assert {r.cell.method for r in load(first)} == {"boxpre"}
    assert {r.cell.method for r in load(first, second)} == {"boxpre penalty_weight=0.5", "boxpre"}


def test_different_runs_of_one_name_are_refused(tmp_path):
    first = write_campaign(tmp_path / "a", cell([1.0]))
    longer = write_campaign(tmp_path / "b", cell([1.0], steps=9_000))
    with pytest.raises(ValueError, match="a and .*b hold different runs named HalfCheetah.*steps is 2000 there, 9000"):
        load(first, longer)
    other = write_campaign(tmp_path / "c", cell([5.0]))
    with pytest.raises(ValueError, match="a and .*c hold HalfCheetah-.*-s1 with different results, .*: report on them"):
        load(first, other)


def test_none_of_them_has_a_finished_run(tmp_path):
    paths = [write_campaign(tmp_path / n, [], [replace(BASE, seed=i)]) for i, n in enumerate("ab")]
    with pytest.raises(ValueError, match="a and .*b have no finished run of 2"):
        load(*paths)


def test_the_command(slewrl, tmp_path, monkeypatch):
    monkeypatch.setattr("slewrl.report.build.figures_of", lambda results, overlay: [])  # figures take their time
    write_campaign(tmp_path / "a", cell([1.0]))
    write_campaign(tmp_path / "b", cell([2.0], layer="post"))
    told = slewrl("report", "a", "b")
    assert told.returncode == 0 and "2 of 2 runs" in told.stdout and "files to report; start with" in told.stdout
    text = (tmp_path / "report" / "tables" / "results.md").read_text()
    assert "DD-SRad" in text and "Post" in text
    assert slewrl("report", "a").returncode == 0 and (tmp_path / "a" / "report").is_dir()
    assert "no campaign is given" in slewrl("report").stderr
