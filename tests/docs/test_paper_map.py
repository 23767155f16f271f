"""docs/paper_map.md has every label of the paper, and what it names is there."""

import re
from collections import Counter

import pytest
from symbols import ROOT, exists, names_of_tests

from slewrl import LAYERS, make_layer
from slewrl.agents.recipes import RECIPES
from slewrl.agents.sac import SACConfig
from slewrl.agents.td3 import TD3Config
from slewrl.campaign.grids import CAMPAIGNS
from slewrl.campaign.spec import load_campaign
from slewrl.paper.grids import SEEDS
from slewrl.training.spec import RunSpec, with_recipe

PAGE = (ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| in the paper")]

# Every label of the paper's source but those of sections; its source is not ours to ship.
LABELS = {
    "eq": "srad rate_constraint reff ddsrad ddsrad_vec clip_l2 jacobian grad_bound reach_tight volume_ratio actor_loss "
    "sac_logprob logdet offpolicy_grad utilization",
    "def": "reff",
    "thm": "constraint exploration",
    "prop": "gradient lipschitz",
    "app": "proof:augmented_mdp",
    "alg": "ddsrad",
    "tab": "method_comparison benchmark_main sim_full hyperparams_full constraint_params sim_constraint_params "
    "baseline_params benchmark_wide reward_functions",
    "fig": "hetero_return_all sens sim_tar_h1 sim_tar_g1 sim_radar_h1 sim_radar_g1 sim_return_radar bench_reward "
    "radar_all hetero_radar_all sim_scatter sim_distribution",
}
KEYS = [f"{kind}:{name}" for kind, names in LABELS.items() for name in names.split()]
NUMBERED = {"eq": 17, "tab": 9, "fig": 8}
"""How many equations (two without a label), tables and figures the paper numbers."""


def symbols(text):
    return re.findall(r"`(slewrl[\w.]*:[\w.]+)`", text)


def named_tests(text):
    return re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)


@pytest.mark.parametrize("label", KEYS)
def test_every_label_has_a_row_with_code_and_a_test(label):
    rows = [row for row in ROWS if f"`{label}`" in row.split("|")[1]]
    assert rows
    for row in rows:
        if "not implemented: " not in row and label != "fig:sim_return_radar":  # its parts have rows of their own
            assert symbols(row) and named_tests(row), row


def test_no_label_but_the_papers():
    named = re.findall(r"`((?:eq|def|thm|prop|app|alg|tab|fig):[\w:]+)`", PAGE)
    assert set(named) == set(KEYS)
    assert {label: n for label, n in Counter(named).items() if n > 1} == {"prop:gradient": 3}  # a row for each part


@pytest.mark.parametrize("kind", NUMBERED)
def test_every_number_is_there(kind):
    section = {"eq": r"\((\d+)\)", "tab": r"(\d+) `tab:", "fig": r"(\d+)[a-d]? `fig:"}[kind]
    found = {int(number) for row in ROWS for number in re.findall(section, row.split("|")[1])}
    assert found == set(range(1, NUMBERED[kind] + 1))


@pytest.mark.parametrize("symbol", sorted(set(symbols(PAGE))))
def test_names_exist(symbol):
    assert exists(symbol)


@pytest.mark.parametrize(("file", "name"), sorted(set(named_tests("".join(ROWS)))))
def test_tests_exist(file, name):
    assert name in names_of_tests(file)


def test_what_is_not_there_is_missed():
    assert exists("slewrl.paper.theory:volume_ratio") and exists("slewrl.limits.box:FeasibleBox.radius")
    for wrong in (
        "slewrl.paper.theory:volume_ration",
        "slewrl.teory:volume_ratio",
        "slewrl.limits.box:FeasibleBox.radios",
    ):
        assert not exists(wrong)
    assert "test_names_exist" in names_of_tests("tests/docs/test_paper_map.py")
    assert not names_of_tests("tests/test_nothing.py")


def test_commands_name_campaigns_and_figures_that_exist(tmp_path):
    for name in re.findall(r"`slewrl campaign run ([\w-]+)`", PAGE):
        assert name in CAMPAIGNS
    drawn = (ROOT / "src" / "slewrl" / "report" / "figures" / "__init__.py").read_text(encoding="utf-8")
    figures = re.findall(r"`((?:wide-tight|lambda|learning|radar|reachable|density)-\w*)-?…?`", PAGE)
    assert len(set(figures)) == 8 and all(f'"{name}' in drawn for name in figures)
    (grid,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "wide-tight.yaml").write_text(grid)
    assert len(load_campaign(str(tmp_path / "wide-tight.yaml")).by_key) == 4 * 2 * 2 * 5


def test_the_papers_recipe_has_its_hyperparameters():
    """Table hyperparams_full; its tanh on the mean depends on the layer (printed.py)."""
    for agent, kind in (("sac", SACConfig), ("td3", TD3Config)):
        config = kind(**RECIPES[agent]["paper"].agent)
        assert config.hidden == (256, 256) and config.learning_rate == 3e-4 and config.max_grad_norm == 1.0
        assert config.discount == 0.99 and config.target_rate == 0.005
    run = with_recipe(RunSpec("HalfCheetah-v5", recipe="paper"))
    assert (run.batch_size, run.capacity, run.learning_starts) == (256, 1_000_000, 10_000)
    assert (run.evaluate_every, run.evaluate_episodes) == (5_000, 5)
    assert SEEDS == (12345, 22345, 32345, 42345, 52345)


def test_layers_have_the_papers_weights():
    """Table baseline_params: lambda of DD-SRad, D-Tanh and SRad; BoxPre+'s is Kasaura's 1 (docs/deviations.md)."""
    papers = {"ddsrad": 0.005, "dtanh": 0.005, "srad_ball": 0.005, "srad_qp": 0.005, "post": 0.0, "boxpre": 1.0}
    assert {name: make_layer(name).penalty_weight for name in papers} == papers
    assert papers.keys() < set(LAYERS)
