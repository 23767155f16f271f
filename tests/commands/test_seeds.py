"""``slewrl seeds``: the number, the table around it, and what it reads from a campaign."""

import pytest
from tiny_campaign import cell, write_campaign

from slewrl.commands.seeds import Seeds
from slewrl.report.data import load
from slewrl.report.seeds import spreads


def said(capsys, *arguments, **options):
    assert Seeds(*arguments, **options).run() == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_number_and_a_table(capsys):
    shown = said(capsys, sd=900.0, difference=900.0)
    assert shown.startswith("17 seeds of each method tell a difference of 900 with a chance of 80 %")
    rows = ("difference power 50 % power 80 % power 90 %", "450 32 64 86", "900 9 17 23", "1800 4 6 7")
    assert all(row in shown for row in rows), shown


def test_pairs(capsys):
    shown = said(capsys, sd=900.0, difference=450.0, paired=True, correlation=0.5)
    assert shown.startswith("34 seeds of each method") and "paired by seed, correlation 0.5" in shown
    assert said(capsys, sd=900.0, difference=450.0, paired=True).startswith("65 seeds")  # correlation 0, fewer df


@pytest.fixture
def folder(tmp_path):
    # By seed ahead by 100, 0 and 500.
    runs = [*cell([1100.0, 1200.0, 1300.0], layer="boxpro"), *cell([1200.0, 1200.0, 1800.0])]
    return write_campaign(tmp_path / "c", [*runs, *cell([5.0], layer="dtanh")])


def test_spread_of_a_campaign(folder, capsys):
    (found,) = spreads(load(folder), ("ddsrad", "boxpro"))
    # Variances 120 000 and 10 000 over two degrees of freedom each.
    assert found.sd == pytest.approx(65_000**0.5) and found.difference.value == 200
    assert found.correlation == pytest.approx(0.866, abs=1e-3)
    shown = said(capsys, folder, ("ddsrad", "boxpro"))
    assert "HalfCheetah-v5, tight limits, SAC, 2 000 steps spread over the seeds 255" in shown
    assert "ddsrad less boxpro: 200 (" in shown and "27 seeds of each method tell a difference of 200 " in shown
    assert "a difference of 500 " in said(capsys, folder, ("ddsrad", "boxpro"), difference=500.0)
    assert "correlation 0.87" in said(capsys, folder, ("ddsrad", "boxpro"), paired=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected --sd and --difference, or the folder of a campaign"),
        ({"sd": 900.0}, "expected --sd and --difference"),
        ({"sd": 900.0, "difference": -1.0}, "difference is -1.0, expected a finite number > 0"),
        ({"sd": 9.0, "difference": 1.0, "correlation": 0.5}, "--correlation is for --paired"),
        ({"sd": 9.0, "difference": 1.0, "layers": ("ddsrad", "post")}, "--layers is for a campaign's folder"),
        ({"campaign": True, "layers": ("ddsrad",)}, "--layers is ddsrad, expected two"),
        ({"campaign": True}, "--layers is missing, expected two"),
        ({"campaign": True, "layers": ("ddsrad", "boxpro"), "sd": 1.0}, "--sd is read from the campaign"),
        ({"campaign": True, "layers": ("ddsrad", "dtanh")}, "no place where both ddsrad and dtanh .* it has: boxpro"),
        ({"campaign": True, "layers": ("ddsrad", "boxpro"), "difference": 0.0}, "difference is 0.0, expected"),
    ],
)
def test_mistakes(folder, options, message):
    options = {**options, "campaign": folder} if options.get("campaign") else options
    with pytest.raises(ValueError, match=message):
        Seeds(**options).run()


def test_the_command_line_knows_it(slewrl):
    result = slewrl("seeds", "--help")
    assert result.returncode == 0 and "Half the difference takes four times the seeds" in " ".join(
        result.stdout.split()
    )
    assert "slewrl seeds --sd 900 --difference 500" in slewrl("--help").stdout
