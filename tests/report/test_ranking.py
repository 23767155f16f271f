"""Who is said to be best, and among whom: methods that do not compete are named, and one alone leads nobody."""

import pytest
from tiny_campaign import cell, write_campaign

from slewrl.paper.claims import findings
from slewrl.report.campaign_page import headlines, render
from slewrl.report.data import load
from slewrl.report.figures import figures_of
from slewrl.report.ranking import lead, seeds, unranked
from slewrl.report.tables import latex, markdown, tables


def loaded(path, runs, **how):
    return load(write_campaign(path / "c", runs, **how))


@pytest.fixture
def mixed(tmp_path):
    """Two methods that are ranked, one with the highest return of one seed, and one without a limit."""
    runs = [*cell([1100.0, 1300.0]), *cell([1150.0, 1350.0], layer="boxpro"), *cell([1500.0], layer="dtanh")]
    return loaded(tmp_path, [*runs, *cell([1900.0, 1900.0], layer="none")])


def test_headlines_count_who_competes_and_name_who_does_not(mixed):
    assert headlines(mixed) == [
        "HalfCheetah-v5, tight limits, SAC, 2 000 steps: of the 2 methods with at least two seeds that kept every "
        "limit, Clip has the highest mean return, 1250 ± 141; it leads, over DD-SRad, the next with 1200 ± 141, by "
        "50 (50 to 50; 2 seeds, paired); not ranked: D-Tanh (one seed), No limit."
    ]


def test_the_highest_mean_is_no_lead_without_its_interval(tmp_path):
    # By seed ahead by 0, 100 and 200: 100 -/+ 4.303 * 100 / sqrt(3).
    runs = [*cell([1500.0, 1400.0, 1800.0]), *cell([1500.0, 1500.0, 2000.0], layer="boxpro")]
    said = lead(list(loaded(tmp_path, runs)))
    assert "Clip has the highest mean return, 1667 ± 289; whether it leads is undecided at this budget" in said
    assert said.endswith(
        "and number of seeds: over DD-SRad, the next with 1567 ± 208, by 100 (−148 to 348; 3 seeds, paired)"
    )


def test_any_of_many_could_have_come_first(tmp_path):
    # Ahead by 60 -/+ 4.303 * 20 / sqrt(3) = 49.7; with three others at 98.3 %, 60 -/+ 7.649 * 20 / sqrt(3) = 88.3.
    ours, theirs = [1540.0, 1460.0, 1480.0], [1500.0, 1400.0, 1400.0]
    two = [*cell(ours), *cell(theirs, layer="boxpro")]
    assert "; it leads, over Clip" in lead(list(loaded(tmp_path / "two", two)))
    many = [*two, *cell([100.0, 110.0, 120.0], layer="dtanh"), *cell([100.0, 110.0, 120.0], layer="post")]
    assert "whether it leads is undecided" in lead(list(loaded(tmp_path / "many", many)))


def test_nobody_leads_where_nobody_learned(tmp_path):
    panel = list(loaded(tmp_path, [*cell([900.0, 901.0]), *cell([100.0, 101.0], layer="boxpro")]))
    assert lead(panel).endswith("whether it leads is undecided at this budget and number of seeds: nobody learned")


def test_captions_and_tables_say_so_too(mixed, tmp_path):
    captions = {figure.name.partition("-")[0]: figure.caption for figure in figures_of(mixed)}
    assert "mean and its 95 % t-interval over 1 to 2 seeds, 2 000 steps" in captions["learning"]
    assert "not ranked: D-Tanh (one seed), No limit. Bands" in captions["learning"]
    assert "Mean over one task and all seeds, with 95 % t-intervals" in captions["mean"] and "iqm" not in captions
    assert "Most over all joints" in captions["radar"] and "Most often within" in captions["density"]
    (table,) = tables(mixed)
    assert "no verdict; one seed is not ranked." in markdown(table) and "**1250 ± 141**" in markdown(table)
    assert "One seed is not ranked among several." in render(mixed, [], tmp_path)


def test_one_method_alone_leads_nobody(tmp_path):
    found = loaded(tmp_path, cell([100.0]))
    (headline,) = headlines(found)
    assert headline.endswith("2 000 steps: DD-SRad, the only method so far, returns 100.")
    said = " ".join([headline, *(figure.caption for figure in figures_of(found))])
    assert not any(word in said for word in ("ighest", "Most", "least:", "Bands", "deviation"))
    assert "during training, one seed, 2 000 steps" in said and "Over all joints: DD-SRad 0.500." in said
    page = render(found, [], tmp_path)
    assert "is not ranked" not in page and 'class="number best"' not in page


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"ddsrad": [1.0, 1.0], "boxpro": [9.0]}, "DD-SRad, the only method with at least two seeds that kept every"),
        ({"ddsrad": [1.0], "boxpro": [9.0]}, "of the 2 methods that kept every limit, Clip has the highest"),
        ({"ddsrad": [1.0], "none": [9.0]}, "DD-SRad, the only method that kept every limit, returns 1.00"),
        ({"none": [9.0], "none_": [8.0]}, "of the 2 methods, none of which kept every limit, No limit has the"),
    ],
)
def test_among_whom(tmp_path, values, said):
    options = {"none_": {"layer": "none", "agent_options": {"hidden": [8]}}}
    runs = [run for layer, there in values.items() for run in cell(there, **options.get(layer, {"layer": layer}))]
    panel = list(loaded(tmp_path, runs))
    assert lead(panel).startswith(said)
    assert "none of which" not in said or not unranked(panel)


def test_who_broke_a_limit_is_not_ranked(tmp_path):
    panel = list(loaded(tmp_path, [*cell([1.0, 2.0]), *cell([3.0, 4.0], layer="boxpro")], violations=1))
    assert "none of which kept every limit" in lead(panel) and seeds(panel).endswith("over 2 seeds")


@pytest.mark.parametrize(
    ("steps", "said"), [(2_000, "less than a minute"), (90_000, "15 minutes"), (720_000, "2.0 hours")]
)
def test_short_times_are_in_minutes(tmp_path, steps, said):
    assert f"{said} of training" in render(loaded(tmp_path, cell([1.0], steps=steps)), [], tmp_path)


# ---------------------------------------------------------------------- a soft constraint


@pytest.fixture
def priced(tmp_path):
    runs = cell([5.0, 6.0], layer="none", agent="ppo_lag")
    folder = write_campaign(tmp_path / "soft", [*runs, *cell([1.0, 2.0])], violations=70, evaluated=3)
    for path in folder.glob("*ddsrad*"):  # keeps its limits
        for name in ("train.csv", "eval.csv", "final/episodes.csv"):
            head, *rows = (path / name).read_text().splitlines()
            at = head.split(",").index("violations")
            rows = [",".join("0" if i == at else v for i, v in enumerate(row.split(","))) for row in rows]
            (path / name).write_text("\n".join([head, *rows]) + "\n")
    return load(folder)


def test_a_lagrangian_is_called_by_its_name(priced, tmp_path):
    soft, hard = sorted(tables(priced), key=lambda table: table.agent)
    assert "| PPO-Lagrangian¶ |" in markdown(soft) and "‡" not in markdown(soft)
    assert "¶ A price on violations instead of a limit" in markdown(soft) and "¶" not in markdown(hard)
    assert r"PPO-Lagrangian$^\P$" in latex(soft)
    page = render(priced, [], tmp_path)
    assert "No limit" not in page and "PPO-Lagrangian¶" in page
    assert any("PPO-Lagrangian, the only method so far, returns 5.50" in line for line in headlines(priced))


def test_the_badge_covers_promises_and_tells_the_price_beside(priced, tmp_path):
    page = render(priced, [], tmp_path)
    assert "0 of 24,720 actions of methods whose layer promises the limit broke a limit" in page
    assert (
        "PPO-Lagrangian on HalfCheetah-v5, a soft constraint that promises nothing and is not counted above: " in page
    )
    assert "140 of 24,000 in training, 24 of 720 in evaluation" in page
    zero = next(f for f in findings(priced) if f.claim.name == "zero-violations")
    assert zero.verdict == "holds" and "left out: PPO-Lagrangian: a price on violations" in zero.said
    assert "164 of 24,720 broke one" in zero.said and "promises the limit" in zero.claim.rule


def test_without_a_promise_there_is_nothing_green(tmp_path):
    page = render(loaded(tmp_path, cell([1.0, 2.0], layer="none"), violations=9), [], tmp_path)
    assert '<div class="badge' not in page and "No method here promises the limit." in page
