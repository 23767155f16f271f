"""Tables, the comparison with the paper and errors, on campaigns written by hand."""

import csv
import io
import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest
from tiny_campaign import BASE, cell, write_campaign

from slewrl.paper.compare import compare
from slewrl.paper.grids import STEPS
from slewrl.paper.values import VALUES, paper_values
from slewrl.report.build import report
from slewrl.report.campaign_page import render
from slewrl.report.data import load
from slewrl.report.methods import label
from slewrl.report.seeds import seed_tables, tidy
from slewrl.report.tables import amount, as_csv, contenders, latex, markdown, tables


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    runs = [
        *cell([100.0, 300.0], use=0.25, layer="boxpro"),
        *cell([100.0, 200.0, 300.0], use=0.5),
        *cell([900.0, 900.0, 900.0], use=1.5, layer="none"),
        *cell([150.0, 150.0, 150.0], use=0.75, layer="post"),
        *cell([10.0, 11.0, 12.0], density="action", agent_options={"mean_bound": "tanh"}),
    ]
    runs = [(replace(spec, recipe="paper"), *rest) for spec, *rest in runs]
    waiting = [replace(BASE, recipe="paper", seed=99)]
    return load(write_campaign(tmp_path_factory.mktemp("c") / "tiny", runs, waiting=waiting))


def test_cells_by_hand(results):
    found = results.get("HalfCheetah-v5", "tight", "sac", "ddsrad")
    assert found.returns.tolist() == [100, 200, 300]  # means of two episodes, one below and one above
    assert found.score == (200.0, 100.0) and found.score.cv == 50.0  # sample deviation: sqrt((1 + 0 + 1) / 2) * 100
    assert found.utilisation == (0.5, 0.0)
    steps, returns = found.curve()
    assert steps.tolist() == [1000, 2000] and returns.tolist() == [[50, 100], [100, 200], [150, 300]]
    assert found.joint_utilisation.tolist() == [0.5] * 6
    assert len(results.runs) == 14 and results.planned == 15


def test_one_seed_is_never_the_best_of_several(tmp_path):
    several = [*cell([100.0, 200.0]), *cell([80.0, 90.0], layer="post")]
    alone = cell([500.0], layer="boxpro")
    mixed, single = (load(write_campaign(tmp_path / n, runs)) for n, runs in (("a", several + alone), ("b", alone)))
    text = markdown(tables(mixed)[0])
    assert "**150 ± 70.7**" in text and "**500" not in text
    assert [r.layer for r in contenders(mixed)] == ["ddsrad", "post"] and len(contenders(single)) == 1
    page = render(mixed, [], tmp_path)
    assert page.count('class="number best"') == 1


def test_what_was_checked(results):
    run = results.runs[0]
    # 2 000 steps of training, 2 evaluations of 2 episodes of 10 steps, 2 final episodes of 10; six joints.
    assert run.trained.of + run.evaluated.of == (2000 + 40 + 20) * 6 and run.violations == 0
    assert run.cpu_hours == pytest.approx(2000 / 100 / 3600)


def test_markdown(results):
    (table,) = tables(results)
    assert markdown(table) == (
        "### SAC, tight limits\n\n"
        "Mean ± standard deviation over 3 seeds; HalfCheetah-v5 at 2 000 steps; "
        "best mean return of a method that kept every limit in bold, which is no verdict.\n\n"
        "| Method | HalfCheetah-v5 Return | HalfCheetah-v5 CV | HalfCheetah-v5 Util |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| Post(QP)† | 150 ± 0.00 | 0.0 | 0.750 ± 0.000 |\n"
        "| DD-SRad | **200 ± 100** | 50.0 | 0.500 ± 0.000 |\n"
        "| DD-SRad (paper mode) | 11.0 ± 1.00 | 9.1 | 0.500 ± 0.000 |\n"
        "| Clip | **200 ± 141** (n = 2) | 70.7 | 0.250 ± 0.000 |\n"
        "| No limit‡ | 900 ± 0.00 | 0.0 | 1.500 ± 0.000 |\n"
        "\n† The critic does not see the projection; "
        "the paper says that dwelling on the boundary inflates utilisation.\n"
        "\n‡ No rate limit at all: what the task allows without one, no contender and never in bold.\n"
    )


def test_limits_with_an_acceleration_have_columns_for_it(tmp_path):
    """Only the tables and pages of runs that have measured it; a run without it has a dash."""
    bent = {"acceleration_utilisation": 0.5, "acceleration_utilisation_max": 0.75, "acceleration_violations": 3}
    runs = [*cell([100.0, 200.0], measures=bent), *cell([150.0, 150.0], layer="post")]
    results = load(write_campaign(tmp_path / "c", runs))
    text = markdown(tables(results)[0])
    assert "HalfCheetah-v5 Util | HalfCheetah-v5 Util-A |" in text
    assert "| 0.500 ± 0.000 | 0.500 ± 0.000 |\n" in text and "| 0.500 ± 0.000 | – |\n" in text
    page = render(results, [], tmp_path)
    assert "Acceleration used" in page and "Acceleration violations" in page
    rows = {row["method"]: row for row in tidy(results) if row["metric"] == "acceleration_utilisation"}
    assert rows.keys() == {"ddsrad"} and rows["ddsrad"]["mean"] == 0.5
    plain = load(write_campaign(tmp_path / "p", cell([100.0, 200.0])))
    assert "Util-A" not in markdown(tables(plain)[0]) and "Acceleration used" not in render(plain, [], tmp_path)


def test_seed_by_seed(results):
    (table,) = seed_tables(results)
    text = markdown(table)
    for line in (
        "### SAC, tight limits: return, seed by seed",
        "| Method | HalfCheetah-v5 by seed | HalfCheetah-v5 mean (95 %) | HalfCheetah-v5 P(> DD-SRad) |",
        # 200 -/+ 4.303 * 100 / sqrt(3)
        "| DD-SRad | 100, 200, 300 | 200 (−48.4 to 448) | – |",
        # 100 against 100, 200, 300 is half a win of three; 300 is two wins and a half: 3 of 6 in all
        "| Clip | 100, 300 | 200 (−1071 to 1471) | 0.50 (0.01 to 0.99) |",
        # all nine pairs won: three of three trials, so .025^(1/3) = .29 at least
        "| No limit‡ | 900, 900, 900 | 900 (900 to 900) | 1.00 (0.29 to 1.00) |",
    ):
        assert line in text.splitlines(), text
    assert "of the mean by Student’s t over the seeds; of P, the chance" in text and "Clopper and Pearson" in text
    assert "**" not in text
    drawn = latex(table)
    assert drawn.startswith(r"\begin{table*}") and drawn.isascii() and r"\multicolumn{3}{c}{HalfCheetah-v5}" in drawn


def test_six_seeds_are_not_listed(tmp_path):
    runs = [*cell([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), *cell([7.0], layer="boxpro")]
    text = markdown(seed_tables(load(write_campaign(tmp_path / "c", runs)))[0])
    assert "| DD-SRad | 6 seeds | 3.50 (1.54 to 5.46) | – |" in text  # 2.5706 * 1.8708 / sqrt(6)
    assert "| Clip | 7.00 | 7.00 | 1.00 (0.03 to 1.00) |" in text  # one seed has no interval, and one trial


def test_the_page_shows_every_seed(results, tmp_path):
    page = render(results, [], tmp_path)
    assert ">−48.4 to 448</td>" in page
    assert "<td>100, 200, 300</td>" in page and ">0.50 (0.01 to 0.99)</td>" in page


def test_latex(results):
    text = latex(tables(results)[0])
    for line in (
        r"\begin{tabular}{l ccc}",
        r" & \multicolumn{3}{c}{HalfCheetah-v5} \\",
        r"\cmidrule(lr){2-4}",
        r"Method & Return $\uparrow$ & CV $\downarrow$ & Util \\",
        r"DD-SRad & \textbf{200 $\pm$ 100} & 50.0 & 0.500 $\pm$ 0.000 \\",
        r"Post(QP)$^\dagger$ & 150 $\pm$ 0.00 & 0.0 & 0.750 $\pm$ 0.000 \\",
        r"No limit$^\ddagger$ & 900 $\pm$ 0.00 & 0.0 & 1.500 $\pm$ 0.000 \\",
    ):
        assert line in text.splitlines(), line
    assert text.startswith(r"\begin{table}[t]") and text.endswith("\\end{table}\n")
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {line.count("&") for line in rows} == {3}
    assert text.isascii() and text.count("{") == text.count("}")


def test_four_tasks_are_two_tabulars(tmp_path):
    runs = [run for task in STEPS for run in cell([1.0, 2.0], task=task)]
    text = latex(tables(load(write_campaign(tmp_path / "c", runs)))[0])
    assert text.count(r"\begin{tabular}{l ccc ccc}") == 2 and text.count(r"\cmidrule(lr){2-4}\cmidrule(lr){5-7}") == 2
    assert r"\textbf" not in text  # the only method of its column is not the best of anything


def test_csv_is_tidy(results):
    rows = list(csv.DictReader(io.StringIO(as_csv(tidy(results)))))
    numbers = ["mean", "std", "low", "high", "seeds", "steps", "by_seed"]
    assert list(rows[0]) == ["limits", "backbone", "task", "method", "metric", *numbers]
    (row,) = [r for r in rows if r["method"] == "boxpro" and r["metric"] == "return"]
    assert (float(row["mean"]), float(row["std"]), row["seeds"]) == (200.0, pytest.approx(math.sqrt(2) * 100), "2")
    assert [r["std"] for r in rows if r["metric"] == "return_cv"] == [""] * 5
    # 12.706 is 97.5 % of t with one degree of freedom; sqrt(2) * 100 / sqrt(2) is the standard error.
    assert float(row["low"]) == pytest.approx(200 - 1270.62, abs=0.01) and row["by_seed"] == "100 300"
    chance = next(r for r in rows if r["method"] == "post" and r["metric"] == "p_improvement")
    assert float(chance["mean"]) == pytest.approx(1 / 3)  # 150 beats 100, and neither 200 nor 300


def test_csv_does_not_depend_on_the_last_bits_of_a_sum():
    assert as_csv([{"x": 0.1 + 0.2, "n": 3}]) == as_csv([{"x": 0.3, "n": 3}]) == "x,n\n0.3,3\n"
    assert as_csv([{"x": math.nan}]) == 'x\n""\n'


def test_one_seed_has_no_deviation(tmp_path):
    found = load(write_campaign(tmp_path / "c", cell([-5.25])))
    assert "| DD-SRad | −5.25 | – | 0.500 |" in markdown(tables(found)[0])


def test_who_broke_a_limit_is_never_the_best(tmp_path):
    runs = [*cell([9.0, 9.0]), *cell([5.0, 5.0], layer="dtanh"), *cell([4.0, 4.0], layer="boxpro")]
    path = write_campaign(tmp_path / "c", runs)
    for broken in path.glob("*ddsrad*/train.csv"):
        broken.write_text("step,violations\n2000,3\n")
    text = markdown(tables(load(path))[0])
    assert "| DD-SRad | 9.00" in text and "| D-Tanh | **5.00 ± 0.00**" in text


def test_other_budgets_are_other_columns(tmp_path):
    runs = [*cell([1.0, 3.0]), *cell([5.0, 7.0], layer="dtanh", steps=4_000)]
    (table,) = tables(load(write_campaign(tmp_path / "c", runs)))
    assert table.tasks == [("HalfCheetah-v5", 2000), ("HalfCheetah-v5", 4000)]


@pytest.mark.parametrize(
    ("value", "said"), [(1234.6, "1235"), (-99.6, "−100"), (12.34, "12.3"), (0.126, "0.13"), (math.nan, "–")]
)
def test_amounts(value, said):
    assert amount(value) == said


def test_labels():
    assert label("ddsrad penalty_weight=0.01") == "DD-SRad (λ = 0.01)"
    assert label("ddsrad action_scaled") == "DD-SRad (scaled entropy)"
    assert label("my.module:Layer") == "Layer"
    assert label("ddsrad mean_bound=tanh") == "DD-SRad (tanh mean)"


def test_what_all_runs_share_goes_without_saying(tmp_path):
    shared = {"hidden": [32, 32]}
    runs = [*cell([1.0, 2.0], agent_options=shared), *cell([3.0], layer="boxpro", agent_options=shared)]
    found = load(write_campaign(tmp_path / "c", runs))
    assert [r.cell.method for r in found] == ["ddsrad", "boxpro"] and found.shared == ("hidden=32x32",)
    assert found.get("HalfCheetah-v5", "tight", "sac", "ddsrad") is None and compare(found) == []  # not as it ships
    assert "<dt>All runs set</dt><dd>hidden=32x32</dd>" in render(found, [], tmp_path)


def test_what_differs_is_named(tmp_path):
    runs = [*cell([1.0]), *cell([2.0], layer="boxpro", agent_options={"hidden": [32, 32]})]
    found = load(write_campaign(tmp_path / "c", runs))
    assert [label(r.cell.method) for r in found] == ["DD-SRad", "Clip (hidden=32x32)"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch_size", 64),
        ("learning_starts", 5),
        ("environments", 2),
        ("evaluate_every", 500),
        ("capacity", 9),
        ("evaluate_episodes", 3),
    ],
)
def test_runs_of_a_cell_differ_in_their_seed_alone(tmp_path, field, value):
    other = (replace(BASE, seed=9, **{field: value}), 9.0, 0.5)
    found = load(write_campaign(tmp_path / "c", [*cell([1.0, 3.0]), other]))
    by_method = {r.cell.method: r.returns.tolist() for r in found}
    one, (name, returns) = by_method.items()
    assert one[1] == [1, 3] and returns == [9] and f"{field}={value}" in name


def test_limits_of_the_same_name_are_not_the_same(tmp_path):
    runs = [*cell([1.0], limits="a/mine.yaml"), (replace(BASE, seed=2, limits="b/mine.yaml"), 2.0, 0.5)]
    found = load(write_campaign(tmp_path / "c", runs))
    assert [r.cell.limits for r in found] == ["a/mine.yaml", "b/mine.yaml"]


def test_td3_in_paper_mode_is_compared(tmp_path):
    options = {"agent_options": {"mean_bound": "tanh"}, "recipe": "paper"}
    runs = [*cell([1.0, 2.0], agent="td3", **options), *cell([1.0, 2.0], **options)]
    found = {c.result.cell.agent for c in compare(load(write_campaign(tmp_path / "c", runs)))}
    assert found == {"td3"}  # SAC with a tanh mean alone is neither ours nor the paper's


# ---------------------------------------------------------------------- beside the paper


def test_the_papers_values_ship():
    values = paper_values()
    assert VALUES.parent.name == "paper" and len(values) == 372
    assert values["tight", "SAC", "Ant-v5", "DD-SRad", "return"] == (3112, 788)
    assert math.isnan(values["tight", "SAC", "Ant-v5", "DD-SRad", "return_cv"].std)


def test_another_budget_gets_no_verdict(results):
    found = {(c.result.cell.method, c.metric): c for c in compare(results)}
    assert set(found) == {
        (m, x)
        for m in ("post", "ddsrad", "ddsrad action mean_bound=tanh")
        for x in ("return", "return_cv", "utilisation")
    }
    cv = found["ddsrad", "return_cv"]
    assert cv.paper.mean == 15.9 and cv.ours.mean == 50
    assert cv.interval == (pytest.approx(24.36, abs=0.01), math.inf)  # a mean that is not told from 0
    ours = found["ddsrad", "return"]
    assert ours.paper == (4290, 682) and ours.ours.mean == 200
    assert ours.interval == pytest.approx((-48.4, 448.4), abs=0.05)  # t: 4.303 * 100 / sqrt(3)
    assert ours.budget == "at 2 000 of 1 500 000 steps" and ours.verdict == "another budget: no verdict"


@pytest.mark.parametrize(
    ("returns", "verdict"),
    [
        ([4000.0, 4500.0], "paper’s mean inside our interval"),
        ([3000.0, 3500.0, 4000.0], "paper’s mean inside our interval"),  # beyond all three, but they are three
        ([1.0, 2.0], "outside our interval"),
        ([4290.0], "one seed: no verdict"),
    ],
)
def test_the_papers_budget_gets_one(tmp_path, returns, verdict):
    path = write_campaign(tmp_path / "c", cell(returns, steps=1_500_000))
    assert next(c.verdict for c in compare(load(path)) if c.metric == "return") == verdict


# ---------------------------------------------------------------------- what can go wrong


def test_a_folder_without_a_campaign(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no campaign: there is no campaign.json"):
        report(tmp_path, tmp_path / "out", html=False)


def test_no_finished_run(tmp_path):
    path = write_campaign(tmp_path / "c", [], waiting=[BASE])
    with pytest.raises(ValueError, match="c has no finished run of 1, expected at least one"):
        report(path, tmp_path / "out", html=False)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("final/episodes.csv", "return,length\n1.0,10\n2.", "episodes.csv ends in the middle of a row \\('2.'\\)"),
        ("final/episodes.csv", "return,length\n1.0,10\n2\n", "episodes.csv is not a table of numbers"),
        ("final/episodes.csv", "return,length\n", "episodes.csv has no rows, expected at least one"),
        ("final/episodes.csv", "length\n1\n", "episodes.csv has no column 'return'; it has: length"),
        ("final/episodes.csv", "a,b,c\n1,2\n", "rows of 2 entries under 3 names"),
        ("train.csv", "step,violations\n", "train.csv has no row with 'violations'"),
    ],
)
def test_a_broken_file_is_named(tmp_path, file, text, message):
    path = write_campaign(tmp_path / "c", cell([1.0, 2.0]))
    next(path.glob("*-s1")).joinpath(file).write_text(text)
    with pytest.raises(ValueError, match=message):
        report(path, tmp_path / "out", html=False)


def test_a_missing_file_is_named(tmp_path):
    path = write_campaign(tmp_path / "c", cell([1.0, 2.0]))
    next(path.glob("*-s1")).joinpath("eval.csv").unlink()
    with pytest.raises(FileNotFoundError, match="eval.csv is missing: a finished run has it"):
        report(path, tmp_path / "out", html=False)


def test_the_tables_are_written(results, tmp_path, monkeypatch):
    monkeypatch.setattr("slewrl.report.build.figures_of", lambda results, overlay: [])  # drawn elsewhere
    report(results.runs[0].path.parent, tmp_path, html=False)
    tmp_path /= "tables"
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"{n}.{s}" for n in ("results", "claims", "compare") for s in ("md", "csv")} | {"results.tex"}
    assert (tmp_path / "claims.md").read_text().count("\n") > 20
    assert json.dumps([p.stat().st_size > 0 for p in tmp_path.iterdir()]) == json.dumps([True] * 7)


def test_reports_need_no_torch():
    code = "import sys; sys.modules['torch'] = None; import slewrl.report.build"
    subprocess.run([sys.executable, "-c", code], check=True)
