"""Calm in reports: the table, and the figure of return against calm."""

import csv

import pytest
from tiny_campaign import cell, write_campaign

from slewrl.campaign.spec import load_campaign
from slewrl.report.build import report
from slewrl.report.calm import measured, over_seeds
from slewrl.report.data import load
from slewrl.report.figures import configurations, figures_of, pareto
from slewrl.report.figures.style import Look
from slewrl.report.halved import halved
from slewrl.report.methods import called, promises
from slewrl.training.checks import check_options, check_smoothing

EMA = {"layer": "none", "task_options": {"filter": "ema", "cutoff": 4.0}}


def calm(second, rms=1.0, **more):
    return {"at_limit": 0.5, "second_difference": second, "second_difference_rms": rms, **more}


@pytest.fixture
def folder(tmp_path):
    runs = [
        *cell([100.0, 200.0], measures=calm(0.8)),
        *cell([110.0, 190.0], measures=calm(0.4), agent_options={"calm": 0.3}),
        *cell([50.0, 60.0], measures=calm(0.1), agent_options={"calm": 1.0}),
        *cell([140.0, 180.0], measures=calm(0.9), layer="boxpro"),
        *cell([90.0, 80.0], measures=calm(0.3), **EMA),
        *cell([95.0, 85.0], measures=calm(0.6), layer="none", task_options={"filter": "ema", "cutoff": 8.0}),
    ]
    return write_campaign(tmp_path / "c", runs)


def test_curves_over_weights(folder):
    results = load(folder)
    ((place, found),) = pareto.curves(results).items()
    assert (place.task, place.limits, place.steps) == ("HalfCheetah-v5", "tight", 2_000)
    shapes = {(c.method, c.knob): [weight for weight, _ in c.results] for c in found}
    assert shapes == {
        ("ddsrad", "calm"): [0.0, 0.3, 1.0],
        ("none filter=ema", "cutoff"): [4.0, 8.0],
        ("boxpro", ""): [0.0],
    }
    assert [c.called("sac") for c in found] == ["DD-SRad: calm", "Average, clip: cut-off, Hz", "Clip"]
    # 160 at .9; 150 at .8; 150 at .4, which beats that; 55 at .1; 85 at .3; 90 at .6, which .4 beats.
    best = [result.cell.method for _, _, result in pareto.undominated(found)]
    assert best == ["boxpro", "ddsrad calm=0.3", "none cutoff=4.0 filter=ema", "ddsrad calm=1.0"]


def test_a_filter_with_a_clip_keeps_the_limit(folder):
    filtered = next(r for r in load(folder) if "cutoff=4.0" in r.cell.method)
    assert promises(filtered) and called(filtered) == "Average, clip (cutoff=4.0)"


def test_the_sweep_has_a_figure_of_its_own(folder):
    results = load(folder)
    ((_, panel),) = configurations(results).items()
    assert [r.cell.method for r in panel] == ["ddsrad", "boxpro"]
    (figure,) = [f for f in figures_of(results) if f.name.startswith("pareto")]
    assert figure.name == "pareto-HalfCheetah-v5-tight-sac-2000"
    assert "DD-SRad (calm=0.3) (150 at 0.4)" in figure.caption and "(calm=0)" not in figure.caption


def test_the_report_has_the_table_and_the_figure(folder, tmp_path):
    written = report(folder, tmp_path / "out", html=True)
    names = {path.name for path in written}
    assert {"calm.csv", "calm.md", "pareto-HalfCheetah-v5-tight-sac-2000.png", "index.html"} <= names
    with open(tmp_path / "out" / "tables" / "calm.csv") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert rows["DD-SRad (calm=0.3)"]["second_difference"] == "0.4" and rows["Clip"]["at_limit"] == "0.5"
    page = (tmp_path / "out" / "index.html").read_text()
    assert "How calm the commands are" in page and "Return against calm" in page


def test_half_the_clips_shaking_at_no_lower_return(tmp_path):
    """Paired by seed: 10 above the clip in both, once above and once below it, 10 below it, and too much shaking."""
    runs = [
        *cell([2140.0, 2180.0], measures=calm(0.8), layer="boxpro"),
        *cell([2150.0, 2190.0], measures=calm(0.3), agent_options={"calm": 0.5}),
        *cell([2100.0, 2240.0], measures=calm(0.4), agent_options={"calm": 0.2}),
        *cell([2130.0, 2170.0], measures=calm(0.1), agent_options={"calm": 1.0}),
        *cell([2150.0, 2190.0], measures=calm(0.5)),
        *cell([2135.0, 2175.0], measures=calm(0.7), layer="boxpro", agent_options={"caps": 1.0}),
        *cell([2500.0], measures=calm(0.1), layer="dtanh"),
    ]
    found = {one.result.cell.method: one for one in halved(load(write_campaign(tmp_path / "c", runs)))}
    assert {method: one.verdict for method, one in found.items()} == {
        "ddsrad calm=0.5": "holds",
        "ddsrad calm=0.2": "undecided",
        "ddsrad calm=1.0": "does not hold",
        "ddsrad": "does not hold",
        "boxpro caps=1.0": "does not hold",
    }
    assert found["ddsrad calm=0.5"].ratio.interval() == pytest.approx((0.375, 0.375))
    assert found["ddsrad calm=0.5"].lead.interval() == pytest.approx((10, 10))
    low, high = found["ddsrad calm=0.2"].lead.interval()
    assert low < 0 < high and found["ddsrad calm=0.2"].lead.value == 10
    assert [r.cell.method for r in found["boxpro caps=1.0"].beaten] == [
        "ddsrad calm=0.5", "ddsrad calm=0.2", "ddsrad",
    ]  # fmt: skip
    assert found["ddsrad calm=0.5"].beaten == ()


def test_an_interquartile_mean_leaves_out_the_lucky_seed(tmp_path):
    runs = [*cell([1.0, 2.0, 3.0, 4.0, 5.0], measures=calm(0.8), layer="boxpro")]
    runs += cell([500.0, 2.0, 3.0, 4.0, 1.0], measures=calm(0.1))
    (one,) = halved(load(write_campaign(tmp_path / "c", runs)))
    assert one.lead.value == 0 and one.verdict == "undecided"
    written = report(tmp_path / "c", tmp_path / "out", html=True)
    assert {"halved.csv", "halved.md"} <= {path.name for path in written}
    (row,) = csv.DictReader((tmp_path / "out" / "tables" / "halved.csv").read_text().splitlines())
    assert (row["method"], row["seeds"], row["ratio"], row["verdict"]) == ("DD-SRad", "5", "0.125", "undecided")
    assert "at no lower return?" in (tmp_path / "out" / "index.html").read_text()


def test_nothing_is_decided_where_nobody_learned(tmp_path):
    runs = [*cell([140.0, 180.0], measures=calm(0.8), layer="boxpro"), *cell([150.0, 190.0], measures=calm(0.3))]
    (one,) = halved(load(write_campaign(tmp_path / "c", runs)))
    assert one.verdict == "undecided" and one.ratio.why == one.lead.why == "nobody learned"
    assert one.lead.at(0.95) == pytest.approx((10, 10))  # its interval is said all the same


def test_the_clip_is_the_one_without_anything_to_calm_it(tmp_path):
    """Whatever the order of the runs, and although no weight of a filter is given or two weights are."""
    runs = [
        *cell([2140.0, 2180.0], measures=calm(0.1), layer="boxpro", task_options={"filter": "ema"}),
        *cell([2140.0, 2180.0], measures=calm(0.1), layer="boxpro", agent_options={"caps": 1.0, "l2c2": 1.0}),
        *cell([2140.0, 2180.0], measures=calm(0.7), layer="boxpro", agent_options={"discount": 0.9}),
        *cell([2140.0, 2180.0], measures=calm(0.8), layer="boxpro"),
        *cell([2150.0, 2190.0], measures=calm(0.3)),
    ]
    found = halved(load(write_campaign(tmp_path / "c", runs)))
    assert len(found) == 4 and {one.clip.cell.method for one in found} == {"boxpro"}


def test_intervals_of_several_seeds_are_crosses(folder, tmp_path):
    ((_, found),) = pareto.curves(load(folder)).items()
    with_intervals = len(pareto.pareto(found, "sac", Look()).axes[0].lines)
    single = write_campaign(tmp_path / "s", cell([1.0], measures=calm(0.5), agent_options={"calm": 0.5})
                            + cell([1.0], measures=calm(0.5)))  # fmt: skip
    ((_, alone),) = pareto.curves(load(single)).items()
    points = sum(len(curve.results) for curve in found)
    assert with_intervals == 2 * len(found) + 2 * points and len(pareto.pareto(alone, "sac", Look()).axes[0].lines) == 2


def test_over_episodes_and_seeds(tmp_path):
    """Means are weighted by lengths, roots by their squares; what was not taken is no number."""
    runs = [*cell([1.0], measures=calm(0.5, 2.0)), *cell([1.0], layer="boxpro", measures=calm("nan"))]
    one, other = load(write_campaign(tmp_path / "c", runs))
    path = one.runs[0].path / "final" / "episodes.csv"
    path.write_text("return,length,second_difference,second_difference_rms,work\n0,10,.2,1,3\n0,30,.6,3,5\n")
    found = measured(load(tmp_path / "c").where(method="ddsrad")[0].runs[0])
    assert found == pytest.approx(
        {"second_difference": 0.5, "second_difference_rms": (0.25 * 1 + 0.75 * 9) ** 0.5, "work": 4.0}
    )
    assert over_seeds(other, "second_difference") != over_seeds(other, "second_difference")


def test_runs_from_before_have_neither(tmp_path):
    folder = write_campaign(tmp_path / "c", [*cell([1.0, 2.0]), *cell([1.0], agent_options={"calm": 0.5})])
    written = report(folder, tmp_path / "out", html=True)
    assert not any("calm.csv" in str(path) or "pareto" in str(path) for path in written)
    assert pareto.curves(load(folder)) == {}


def test_the_study_can_be_trained():
    from slewrl.agents import agent_class
    from slewrl.envs.tasks import check_task_options

    study = load_campaign("calm")
    assert {spec.task for spec in study.runs} == {"Reacher-v5", "HalfCheetah-v5"}
    assert {spec.steps for spec in study.runs if spec.task == "HalfCheetah-v5"} == {40_000}
    for spec in study.runs:
        check_options("agent", agent_class(spec.agent).Config, spec.agent_options)
        check_task_options(spec.task, spec.task_options)
        check_smoothing(spec)
