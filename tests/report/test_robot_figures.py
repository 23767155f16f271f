"""Reports on walking robots: the paper's two tables, its claims and figures, by hand and of tiny real runs."""

import csv
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from browser import Tags
from robot_cases import JOINTS, ROBOT_CASES, as_printed, walked
from tiny_campaign import cell, table, write_campaign

from slewrl.campaign.spec import Campaign, grid
from slewrl.campaign.store import Store
from slewrl.campaign.worker import work
from slewrl.limits import RateLimits
from slewrl.locomotion.statue import statue_return
from slewrl.metrics import group_use
from slewrl.paper.claims import findings
from slewrl.paper.compare import compare
from slewrl.paper.values import STEPS
from slewrl.report import walking
from slewrl.report.campaign_page import headlines, render
from slewrl.report.data import load
from slewrl.report.figures import curves, figures_of, increments, radar
from slewrl.report.figures.style import Look
from slewrl.report.sections import sections_of
from slewrl.report.seeds import tidy
from slewrl.report.tables import latex, markdown, tables
from slewrl.robots import ROBOTS, groups_of, robot_of
from slewrl.training.spec import RunSpec, with_recipe


def robots(path, runs):
    """A campaign of one robot's runs."""
    return load(write_campaign(path / "c", runs, joints=JOINTS[runs[0][0].task]))


# ---------------------------------------------------------------------- measures


@pytest.mark.parametrize("task", JOINTS)
def test_joint_groups_are_the_robots(task):
    robot = ROBOTS[robot_of(task).lower()]
    names = tuple(joint.name for joint in robot.joints)
    proximal, distal = groups_of(task, names)
    assert JOINTS[task] == names
    assert {names[i] for i in proximal} == set(robot.proximal)
    assert {names[i] for i in distal} == set(robot.distal)


def test_other_tasks_of_the_same_robots():
    assert robot_of("mjlab:Mjlab-Velocity-Flat-Unitree-G1") == "G1"
    assert groups_of("isaaclab:Isaac-Velocity-Rough-H1-v0", ["torso_joint", "left_ankle_joint"]) == ((), (1,))
    for task in ("robot:G1.urdf", "HalfCheetah-v5"):
        assert robot_of(task) == "" and groups_of(task, ["left_hip_pitch"]) == ((), ())


def test_group_use_by_hand():
    use = group_use(np.array([0.1, 0.3, 0.9, 0.5]), (0, 1), (3,))
    assert use == (pytest.approx(0.2), 0.5) and use.gap == pytest.approx(0.3)
    assert math.isnan(group_use(np.ones(2), (), (0,)).gap)


def test_measures_by_hand(tmp_path):
    found = robots(tmp_path, walked("G1-flat", "ddsrad", seeds=1))
    columns = ("return", "length", "utilisation", "violations", "vte", "speed", "commanded", "fell", "exploded")
    rows = ((10.0, 100, 0.1, 0, 0.6, 0.1, 0.5, 1.0, 0.0), (50.0, 300, 0.1, 0, 0.2, 0.5, 0.9, 0.0, 1.0))
    table(found.runs[0].path / "final" / "episodes.csv", [dict(zip(columns, row, strict=True)) for row in rows])
    (result,) = load(tmp_path / "c")
    values = {name: metric.score(result).mean for name, metric in walking.METRICS.items()}
    assert values == pytest.approx(
        {
            "return": 30.0,
            "vte": 0.3,  # by step: (100 * .6 + 300 * .2) / 400
            "fall_pct": 50.0,  # by episode
            "steps": 200.0,
            "util_p": 0.4,
            "util_d": 0.1,
            "gap": 0.3,
            "speed": 0.4,
            "commanded": 0.8,
            "exploded_pct": 50.0,
            "statue": math.nan,  # of a run from before it was noted
        },
        nan_ok=True,
    )
    assert not walking.walks(result)  # at half the commanded speed, but for 200 steps only


def test_what_walking_is(tmp_path):
    (long,) = robots(tmp_path / "long", walked("G1-flat", "ddsrad", steps=500))
    (short,) = robots(tmp_path / "short", walked("G1-flat", "ddsrad", steps=499))
    assert walking.walks(long) and not walking.walks(short)


# ---------------------------------------------------------------------- tables


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """DD-SRad falls less and SRad-Strict lasts longer; Clip is none of the paper's methods."""
    runs = [
        *walked("G1-flat", "ddsrad", 5000, vte=0.125, fall_pct=0.5, steps=900, near=0.4, far=0.1),
        *walked("G1-flat", "srad_ball", 1000, vte=0.5, fall_pct=50, steps=950, near=0.1, far=0.05),
        *walked("G1-flat", "boxpro", 900, vte=0.25, fall_pct=0.5, steps=800, near=0.3, far=0.3, seeds=1),
    ]
    return robots(tmp_path_factory.mktemp("three"), runs)


def test_markdown(three):
    task, use = map(markdown, tables(three))
    assert task == (
        "### FastSAC, paper limits: (a) task-level performance\n\n"
        "Mean ± standard deviation over 2 seeds; G1-flat at 2 000 steps; "
        "best mean value of a method that kept every limit in bold, which is no verdict; one seed is not ranked.\n\n"
        "| Method | G1-flat Return | G1-flat VTE | G1-flat Fall | G1-flat Steps |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| SRad-Strict | 1000 ± 0.00 | 0.500 ± 0.000 | 50.0 ± 0.0 | **950 ± 0** |\n"
        "| – the paper’s | 1312 ± 344 | 0.360 ± 0.036 | 91.0 | 403 |\n"
        "| DD-SRad | **5000 ± 0.00** | **0.125 ± 0.000** | **0.5 ± 0.0** | 900 ± 0 |\n"
        "| – the paper’s | 5473 ± 238 | 0.138 ± 0.009 | 0.3 | 998 |\n"
        "| Clip | 900 (n = 1) | 0.250 | 0.5 | 800 |\n"
        "\nVTE: velocity tracking error, m/s. Fall: episodes that end with the trunk on the ground, %. "
        "Steps: mean length of an episode, control steps. 2 episodes a seed.\n"
        "\nThe paper’s: IsaacLab, 5 seeds of 1 000 episodes, G1-flat at 409 600 000 steps if each of its gradient "
        "steps is one step of all 4 096 environments. Ours: MuJoCo, at the steps above; numbers at another budget "
        "cannot confirm or refute each other.\n"
    )
    rows = [line for line in use.splitlines() if line.startswith("|")]
    assert rows[0] == "| Method | G1-flat Util-P | G1-flat Util-D | G1-flat Gap |"
    assert rows[-3:] == [
        "| DD-SRad | 0.40 ± 0.00 | 0.10 ± 0.00 | 0.30 ± 0.00 |",
        "| – the paper’s | 0.40 ± 0.01 | 0.02 ± 0.04 | 0.38 |",
        "| Clip | 0.30 (n = 1) | 0.30 | 0.00 |",
    ]
    assert "**" not in use  # more use is not better


def test_both_robots_as_in_the_paper(tmp_path):
    # The robots' joints differ, so two folders made one.
    runs = {task: as_printed(task) for task in JOINTS}
    for task in JOINTS:
        write_campaign(tmp_path / "c", runs[task], joints=JOINTS[task], waiting=[run[0] for run in runs["H1-rough"]])
    task, use = tables(load(tmp_path / "c"))
    said = markdown(task)
    names = [line.split(" | ")[0][2:] for line in said.splitlines() if line.startswith("| ")][2::2]
    assert names == ["BoxPre+", "Post(QP)†", "SRad-QP", "SRad-Strict", "D-Tanh", "DD-SRad"]
    for line in (
        "| – the paper’s | 37.1 ± 2.84§ | 0.459 ± 0.023 | 48.7 | 748 | 5473 ± 238 | 0.138 ± 0.009 | 0.3 | 998 |",
        "§ No target for ours: two of the paper’s returns of H1 exceed what its stated reward can give.",
    ):
        assert line in said.splitlines()
    # The paper's bold, given its numbers.
    assert "| DD-SRad | **37.1 ± 0.00** | 0.459 ± 0.000 | **48.7 ± 0.0** | **748 ± 0** | **5473 ± 0.00** |" in said
    text = latex(task)
    for line in (
        r"\begin{tabular}{l cccc cccc}",
        r" & \multicolumn{4}{c}{H1-rough} & \multicolumn{4}{c}{G1-flat} \\",
        r"Method" + 2 * r" & Return $\uparrow$ & VTE $\downarrow$ & Fall $\downarrow$ & Steps $\uparrow$" + r" \\",
        r"\textit{-- the paper's} & \textit{0.83 $\pm$ 0.11$^\S$} & \textit{0.624 $\pm$ 0.008} & \textit{100.0} & "
        r"\textit{139} & \textit{1312 $\pm$ 344} & \textit{0.360 $\pm$ 0.036} & \textit{91.0} & \textit{403} \\",
    ):
        assert line in text.splitlines(), line
    for text in map(latex, (task, use)):
        rows = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
        assert len({line.count("&") for line in rows}) == 1 and text.isascii()
        assert text.count("{") == text.count("}") and text.count("$") % 2 == 0
    assert text.startswith(r"\begin{table}[t]") and latex(task).startswith(r"\begin{table*}[t]")


def test_what_a_statue_earns_stands_beside_the_walks(tmp_path):
    found = robots(tmp_path, walked("G1-flat", "ddsrad", 5000))
    for run in found.runs:
        table(run.path / "final" / "statue.csv", [{"return": 3621.4}])
    task, _ = map(markdown, tables(load(tmp_path / "c")))
    assert "| G1-flat Steps | G1-flat Statue |" in task and "| 3621 ± 0.00 |" in task and "stands frozen" in task


def test_joints_utilisations_are_the_final_evaluations_where_it_has_them(tmp_path):
    found = robots(tmp_path, walked("G1-flat", "ddsrad", near=0.4, far=0.1))
    assert "in the last evaluation while training" in markdown(tables(found)[1])
    for run in found.runs:
        rows = [{"joint": "all", "utilisation": 0.5}, *({"joint": name, "utilisation": 0.25} for name in run.joints)]
        table(run.path / "final" / "calm.csv", rows)
    use = markdown(tables(load(tmp_path / "c"))[1])
    assert "| 0.25 ± 0.00 | 0.25 ± 0.00 |" in use and "in the same 2 episodes a seed" in use


def test_csv_has_every_measure(three):
    rows = {(row["method"], row["metric"]): row for row in tidy(three)}
    assert {metric for _, metric in rows} == {"return", "return_cv", "utilisation", "p_improvement", *walking.METRICS}
    assert rows["ddsrad", "gap"]["mean"] == pytest.approx(0.3) and rows["srad_ball", "fall_pct"]["mean"] == 50


def test_other_limits_have_no_paper(tmp_path):
    runs = [(replace(spec, limits="tight"), *rest) for spec, *rest in walked("G1-flat", "ddsrad")]
    said = markdown(tables(robots(tmp_path, runs))[0])
    assert "the paper’s" not in said and "IsaacLab" not in said


def test_a_robot_of_the_users_own_has_no_groups(tmp_path):
    runs = [(replace(spec, task="robot:my.urdf", limits="tight"), *rest) for spec, *rest in walked("G1-flat", "ddsrad")]
    found = load(write_campaign(tmp_path / "c", runs, joints=JOINTS["G1-flat"]))
    task, use = map(markdown, tables(found))
    assert "| DD-SRad | 100 ± 0.00 | 0.200 ± 0.000 | 10.0 ± 0.0 | 900 ± 0 |" in task
    assert "| DD-SRad | – | – | – |" in use
    assert render(found, [], tmp_path)


def test_options_are_said_beside_the_paper(tmp_path):
    options = {"agent_options": {"updates": 4}, "task_options": {"seconds": 1.0}}
    runs = [(replace(spec, **options), *rest) for spec, *rest in walked("G1-flat", "ddsrad")]
    found = robots(tmp_path, runs)
    assert "; all runs set seconds=1.0, updates=4; best" in markdown(tables(found)[0])
    assert compare(found) == []  # not as it ships


@pytest.mark.parametrize("field", ["task_options", "recipe"])
def test_runs_that_differ_are_no_seeds_of_one_another(tmp_path, field):
    value = {"task_options": {"push": 1.0}, "recipe": "gpu"}[field]
    runs = walked("G1-flat", "ddsrad", seeds=1)
    spec, *rest = runs[0]
    found = robots(tmp_path, [*runs, (replace(spec, seed=9, **{field: value}), *rest)])
    assert [r.cell.method for r in found] == ["ddsrad", {"recipe": "ddsrad recipe=gpu"}.get(field, "ddsrad push=1.0")]


def test_what_a_recipe_sets_goes_without_saying(tmp_path):
    spec, *rest = walked("G1-flat", "ddsrad", seeds=1)[0]
    fast = with_recipe(RunSpec(spec.task, "paper", agent="fastsac", steps=2_000, evaluate_every=1_000))
    found = robots(tmp_path, [(replace(fast, evaluate_episodes=2), *rest), *cell([1.0])])
    assert fast.environments == 128 and [r.cell.method for r in found] == ["ddsrad", "ddsrad"]
    titles = [table.title for table in tables(found)]
    assert titles[0] == "FastSAC, paper limits: (a) task-level performance" and titles[2] == "SAC, tight limits"


# ---------------------------------------------------------------------- beside the paper


@pytest.mark.parametrize("name", ROBOT_CASES)
def test_claims_both_ways(tmp_path, name):
    for runs, verdict in zip(ROBOT_CASES[name], ("holds", "does not hold"), strict=True):
        found = robots(tmp_path / verdict, runs)
        (finding,) = [f for f in findings(found) if f.claim.name == name]
        assert finding.verdict == verdict, finding.said
        assert finding.budget.startswith("at 2 000 of ") and finding.said


def test_the_papers_robots_against_its_text(tmp_path):
    said = {}
    for task in JOINTS:
        found = findings(robots(tmp_path / task, as_printed(task)))
        said[task] = {f.claim.name: f.verdict for f in found if f.verdict != "not measured here"}
    assert set(said["H1-rough"]) | set(said["G1-flat"]) == {*ROBOT_CASES, "zero-violations"}
    assert {verdict for verdicts in said.values() for verdict in verdicts.values()} == {"holds"}


def test_a_claim_says_its_numbers(tmp_path):
    found = {f.claim.name: f for f in findings(robots(tmp_path, as_printed("G1-flat")))}
    assert found["boxpre-tracks-worse"].said == "G1-flat FastSAC: 0.623 (0.623 to 0.623; 2 seeds, paired)"
    assert found["robots-hips"].said == "Util-P above Util-D by: 0.38 (0.38 to 0.38; 2 seeds)"
    assert found["robots-balanced"].said == ""  # H1 was not run
    assert found["robots-hips"].budget == "at 2 000 of 409 600 000 steps"


def test_compare_at_another_budget(tmp_path):
    found = {(c.result.layer, c.metric): c for c in compare(robots(tmp_path, as_printed("G1-flat")))}
    assert len(found) == 6 * 7 and {c.verdict for c in found.values()} == {"another budget: no verdict"}
    vte = found["ddsrad", "vte"]
    assert vte.paper == (0.138, 0.009) and vte.ours.mean == pytest.approx(0.138) and vte.interval == (0.138, 0.138)
    assert vte.budget == "at 2 000 of 409 600 000 steps"


def test_compare_at_the_papers_budget(tmp_path):
    runs = as_printed("H1-rough", budget=STEPS["H1-rough"])
    verdicts = {c.metric: c.verdict for c in compare(robots(tmp_path, runs)) if c.result.layer == "dtanh"}
    assert verdicts["return"].startswith("no target: two of the paper’s returns of H1 exceed")
    assert verdicts["steps"] == "paper’s mean inside our interval"


def test_the_page(three, tmp_path):
    page = render(three, [], tmp_path, sections_of(three, tmp_path))
    assert "<h2>Walking robots</h2>" in page and "2 episodes a seed" in page
    assert '<td class="number best" data-value="0.125">0.125 ± 0.000<br><small>0.138 ± 0.009</small></td>' in page
    assert "§ No target for ours" in page
    assert headlines(three) == [
        "G1-flat, paper limits, FastSAC, 2 000 steps: of the 2 methods with at least two seeds that kept every limit, "
        "DD-SRad has the highest mean return, 5000 ± 0.00 (walks: falls in 0.5 % of 2 episodes a seed, VTE 0.125 m/s, "
        "900 steps an episode); it leads, over SRad-Strict, the next with 1000 ± 0.00, by 4 000 (4 000 to 4 000; "
        "2 seeds, paired); not ranked: Clip (one seed)."
    ]
    heads = [attributes for tag, attributes in Tags(page).seen if tag == "table"]
    assert len(heads) == 6


def test_a_page_without_robots_has_no_word_of_them(tmp_path):
    found = load(write_campaign(tmp_path / "c", cell([1.0, 2.0])))
    assert "Walking robots" not in render(found, [], tmp_path) and "walk" not in headlines(found)[0]


# ---------------------------------------------------------------------- tiny real runs


TINY = {"actor_hidden": [16, 16], "critic_hidden": [16, 16], "atoms": 11}
REPORT = """import sys
sys.modules.update(torch=None, mujoco=None)
from pathlib import Path
from slewrl.report.build import report
report(Path(sys.argv[1]), Path(sys.argv[2]), html=True)"""


FINAL_EPISODES = 25
"""Of a robot's last evaluation, here."""


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Two layers on G1 and one on H1, a second of it: they learn nothing, but the robots move."""
    base = RunSpec(limits="paper", agent="fastsac", environments=2, steps=120, learning_starts=40, batch_size=16)
    base = replace(base, capacity=500, evaluate_every=60, evaluate_episodes=2, agent_options=TINY)
    base = replace(base, task_options={"seconds": 1.0})
    runs = grid(base, task=("G1-flat",), layer=("ddsrad", "srad_ball"), seed=(1, 2))
    runs += grid(base, task=("H1-flat",), seed=(1,))
    store = Store(tmp_path_factory.mktemp("real") / "c")
    campaign = Campaign("tiny-robots", "real runs", runs)
    store.begin(campaign)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slewrl.campaign.worker.ROBOT_EPISODES", FINAL_EPISODES)
        assert [work(store.prepare(key, spec).path) for key, spec in campaign.by_key.items()] == [0] * 5
    return load(store.path)


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_measures_of_a_real_run(real):
    (result,) = real.where(task="G1-flat", method="srad_ball")
    by_seed = {name: metric.values(result) for name, metric in walking.METRICS.items()}
    for k, run in enumerate(result.runs):
        episodes, last = rows_of(run.path / "final" / "episodes.csv"), rows_of(run.path / "eval.csv")[-1]
        assert len(episodes) == FINAL_EPISODES
        steps = sum(int(row["length"]) for row in episodes)
        error = sum(float(row["vte"]) * int(row["length"]) for row in episodes) / steps
        calm = {row["joint"]: float(row["utilisation"]) for row in rows_of(run.path / "final" / "calm.csv")}
        use = [calm[name] for name in run.joints]
        assert use != pytest.approx([float(last[f"utilisation_{i}"]) for i in range(13)])  # of fewer episodes
        limits = RateLimits.preset("G1", run.spec.limits)
        assert by_seed["statue"][k] == pytest.approx(statue_return("G1-flat", limits, run.spec.task_options))
        assert by_seed["vte"][k] == pytest.approx(error) and by_seed["steps"][k] == pytest.approx(
            steps / FINAL_EPISODES
        )
        assert by_seed["util_p"][k] == pytest.approx((use[0] + use[6]) / 2)  # the hips' pitch
        assert by_seed["util_d"][k] == pytest.approx((use[4] + use[5] + use[10] + use[11]) / 4)
        assert by_seed["fall_pct"][k] == 100 * sum(float(row["fell"]) for row in episodes) / FINAL_EPISODES
        assert 0 < by_seed["commanded"][k] < math.sqrt(1.25)  # 1 m/s ahead and .5 sideways at most
    assert result.violations == 0 and next(f for f in findings(real)).verdict == "holds"


def test_a_ball_reaches_a_quarter_of_the_hips_limit(real):
    # Radius min delta = .10 rad, the hip roll's; the hip pitch's limit is .40.
    (ball,) = real.where(task="G1-flat", method="srad_ball")
    reached = increments.sample(ball)
    assert max(np.abs(reached[joint]).max() for joint in ("left_hip_pitch", "right_hip_pitch")) <= 0.25 + 1e-6


def test_radars_of_ten_and_thirteen_joints(real):
    for task, d in (("G1-flat", 13), ("H1-flat", 10)):
        panel = real.where(task=task)
        figure = radar.radars(panel, Look())
        assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == [str(i) for i in range(d)]
        named = figure.get_supxlabel().replace(",\n", ", ").split("DD-SRad\n" if len(panel) > 1 else "allowed\n")[1]
        assert named.split(", ") == [f"{i} {joint}" for i, joint in enumerate(panel[0].joints)]


def test_densities_of_every_joint(real):
    panel = real.where(task="G1-flat")
    assert set(panel[0].joints) < {axis.get_title() for axis in increments.densities(panel, Look()).axes}
    for joint in panel[0].joints:  # of each method 1 over [-1, 1]
        np.testing.assert_allclose(increments.mean_density(panel[0], joint).sum() * 2 / 50, 1)
    beside = increments.side_by_side(panel[0].joints)
    assert beside[:4] == ["left_hip_pitch", "right_hip_pitch", "left_hip_roll", "right_hip_roll"]
    assert beside[-1] == "waist_yaw" and sorted(beside) == sorted(panel[0].joints)


def test_the_papers_plane(real):
    (h1,), (g1, _) = real.where(task="H1-flat"), real.where(task="G1-flat")
    assert increments.pair_of(g1) == ("left_hip_pitch", "left_ankle_roll")
    assert increments.pair_of(h1) == ("left_hip_pitch", "left_ankle")
    assert len(increments.scatter(real.where(task="G1-flat"), Look()).axes) == 2  # a panel a method
    captions = {figure.name: figure.caption for figure in figures_of(real)}
    assert "H1 has one joint in each ankle" in captions["reachable-H1-flat-paper-fastsac"]
    assert "one joint in each ankle" not in captions["reachable-G1-flat-paper-fastsac"]


def test_learning_curves(real):
    axes = curves.learning(real.where(task="G1-flat"), Look()).axes
    assert {axis.get_title() for axis in axes} == {"SRad-Strict", "DD-SRad"}


def test_the_whole_report_without_torch_or_mujoco(real, tmp_path):
    path = real.runs[0].path.parent
    subprocess.run([sys.executable, "-c", REPORT, str(path), str(tmp_path / "out")], check=True)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    kinds = ("learning", "radar", "reachable", "density")
    for task in ("G1-flat", "H1-flat"):
        assert all((tmp_path / "out" / "figures" / f"{kind}-{task}-paper-fastsac.png").exists() for kind in kinds)
    assert page.count("does not walk: falls in ") == 3 and f" of {FINAL_EPISODES} episodes a seed, VTE " in page
    results = (tmp_path / "out" / "tables" / "results.md").read_text(encoding="utf-8")
    assert "(a) task-level performance" in results and "(b) use of the limits" in results
    assert "all runs set actor_hidden=16x16, atoms=11, critic_hidden=16x16, seconds=1.0" in results
