"""Recipes, files from before there were any, and the paper as printed."""

import dataclasses
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_campaign import InProcess, cell, write_campaign

from slewrl.agents import AGENTS
from slewrl.agents.recipes import RECIPES, default, find, upgraded
from slewrl.campaign.grids import CAMPAIGNS
from slewrl.campaign.spec import Campaign, Selection, grid, load_campaign
from slewrl.campaign.store import Store
from slewrl.deploy import bundle
from slewrl.layers import BENCHMARK_LAYERS, LAYERS, layer_class, place, squash
from slewrl.paper.claims import findings
from slewrl.paper.compare import compare
from slewrl.paper.grids import LAMBDAS, METHODS, SWEPT
from slewrl.paper.printed import AGENTS as PAPERS_AGENTS
from slewrl.paper.printed import TANH_OVER_RANGE, as_ours, as_printed, is_printed
from slewrl.report.build import report
from slewrl.report.data import PRINTED, load
from slewrl.report.figures import figures_of, look_of
from slewrl.report.tables import markdown, tables
from slewrl.training.checkpoint import CheckpointError, of_run
from slewrl.training.run_folder import RunFolder
from slewrl.training.setup import make_agent
from slewrl.training.spec import RunSpec, difference, with_recipe

RESULTS = Path(__file__).parents[2] / "results"
CAMPAIGNS_JSON = sorted(RESULTS.glob("*/campaign.json"))
BEFORE_RECIPES = [path.parent.name for path in CAMPAIGNS_JSON if json.loads(path.read_text())["version"] == 1]


# ---------------------------------------------------------------------- recipes


def test_recipes_are_fields_that_exist():
    for agent, known in RECIPES.items():
        for recipe in known.values():
            RunSpec(**recipe.run)
            AGENTS[agent].Config(**recipe.agent)
    assert {agent: default(agent) for agent in AGENTS} == {
        "sac": "ours", "td3": "ours", "fastsac": "cpu", "ppo": "sb3", "ppo_lag": "",
    }  # fmt: skip
    assert find("sac", "") == ({}, {}) and find("td3", "ours") == find("ppo", "") == ({"batch_size": 256}, {})


def test_a_recipe_sets_the_batch_unless_the_run_does():
    batches = {recipe: grid(RunSpec("Ant-v5"), recipe=[recipe])[0].batch_size for recipe in ("ours", "paper")}
    assert batches == {"ours": 128, "paper": 256}
    assert grid(RunSpec("Ant-v5", recipe="paper", batch_size=64))[0].batch_size == 64


def test_a_batch_size_that_is_given_stays():
    from slewrl.commands.train import Train

    for recipe, size in (("paper", 128), ("ours", 256), ("", 128)):
        assert Train(RunSpec("Ant-v5", recipe=recipe), batch_size=size)._chosen().batch_size == size
    assert Train(RunSpec("Ant-v5"), paper_mode=True)._chosen().batch_size == 256
    assert Train(RunSpec("Ant-v5"), batch_size=128, paper_mode=True)._chosen().batch_size == 128


@pytest.mark.parametrize("agent", ["sac", "td3"])
def test_the_papers_recipe_pins_what_a_default_could_change(agent):
    """All but what depends on the layer, what the paper leaves open, what is only evaluated, and what is off."""
    fields = {field.name for field in dataclasses.fields(AGENTS[agent].Config)}
    assert fields - set(find(agent, "paper").agent) <= {"mean_bound", "log_std_range", "average_rate", "caps_noise"}


def test_an_unknown_recipe(slewrl):
    said = slewrl("train", "--task", "Pendulum-v1", "--recipe", "papr")
    assert said.returncode == 2 and "recipe is 'papr', but sac has ours, paper" in said.stderr
    with pytest.raises(ValueError, match="recipe is 'paper', but ppo has sb3, cpu"):
        find("ppo", "paper")
    with pytest.raises(ValueError, match="recipe is 'paper', but fastsac has cpu, gpu"):
        Campaign("c", "", grid(RunSpec(agent="fastsac"), recipe=["paper"]))


def test_a_key_names_the_recipe_unless_it_is_the_default():
    ours, named, paper = grid(RunSpec("Ant-v5"), recipe=("", "ours", "paper"))
    assert ours.key == named.key == "Ant-v5-tight-sac-ddsrad-normalized-s12345"
    assert paper.key == "Ant-v5-tight-sac-ddsrad-normalized-recipe=paper-s12345"
    assert difference(dataclasses.asdict(ours), dataclasses.asdict(named)) == ""
    assert "recipe is 'paper' there, 'ours' here" in difference(*map(dataclasses.asdict, (paper, ours)))


def test_an_agent_is_made_by_its_recipe_and_the_runs_own_options():
    from slewrl import RateLimits
    from slewrl.envs.vec_env import Layout

    limits = RateLimits.preset("Pendulum-v1", "tight")
    spec = RunSpec("Pendulum-v1", recipe="paper", agent_options={"discount": 0.5})
    config = make_agent(spec, limits, Layout(4)).config
    assert dataclasses.asdict(config).items() >= {**find("sac", "paper").agent, "discount": 0.5}.items()


def test_the_commands_say_it(slewrl):
    train, run = slewrl("train", "--help").stdout, slewrl("campaign", "run", "--help").stdout
    assert "--recipe" in train and "--preset" not in train and "The paper as printed" in train
    assert "--recipe" in run and "ours,paper" in run


# ---------------------------------------------------------------------- files from before


@pytest.mark.parametrize(
    ("agent", "preset", "recipe"),
    [("sac", "", "paper"), ("td3", None, "paper"), ("fastsac", "gpu", "gpu"), ("fastsac", "", ""), ("ppo", "", "")],
)
def test_a_run_of_version_2(tmp_path, agent, preset, recipe):
    old = {"task": "Pendulum-v1", "agent": agent, **({} if preset is None else {"preset": preset})}
    (tmp_path / "run.json").write_text(json.dumps({"version": 2, "spec": old}))
    assert RunFolder(tmp_path).spec() == RunSpec("Pendulum-v1", agent=agent, recipe=recipe, batch_size=256)
    (tmp_path / "run.json").write_text(json.dumps({"version": 3, "spec": old | {"preset": ""}}))
    with pytest.raises(ValueError, match="unknown entries .'preset'"):
        RunFolder(tmp_path).spec()


def test_a_run_of_version_3_without_a_recipe_has_the_default(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"version": 3, "spec": {"task": "Pendulum-v1"}}))
    assert RunFolder(tmp_path).spec() == RunSpec("Pendulum-v1")


def test_a_checkpoint_from_before(tmp_path):
    spec = RunSpec("Pendulum-v1", recipe="paper")
    old = {name: value for name, value in dataclasses.asdict(spec).items() if name != "recipe"} | {"preset": ""}
    state = {"spec": old, "agent": {}, "step": 0}
    assert of_run(state, spec, RunFolder(tmp_path)) is state
    with pytest.raises(CheckpointError, match="recipe is 'paper' there, 'ours' here"):
        of_run(state, RunSpec("Pendulum-v1"), RunFolder(tmp_path))


@pytest.mark.parametrize("name", BEFORE_RECIPES)
def test_our_results_are_found_and_reported_as_they_were(tmp_path, name):
    store = Store(RESULTS / name)
    listed = json.loads(store.description.read_text())
    campaign = store.campaign()
    assert [store.folder(key).path.name for key in campaign.by_key] == list(listed["runs"])
    assert {spec.recipe for spec in campaign.runs if spec.agent in ("sac", "td3")} <= {"paper"}
    for key, spec in campaign.by_key.items():
        if (store.folder(key).path / "run.json").exists():
            assert store.folder(key).spec() == spec
    report(RESULTS / name, tmp_path, html=False)
    for file in ("results.md", "results.csv"):
        committed = RESULTS / name / "report" / "tables" / file
        assert (tmp_path / "tables" / file).read_bytes() == committed.read_bytes(), file


def old_campaign(path):
    """Two runs as campaign.json listed them before recipes."""
    specs = [dataclasses.asdict(RunSpec("Pendulum-v1", seed=seed)) for seed in (1, 2)]
    for spec in specs:
        spec["preset"] = spec.pop("recipe")
    runs = {f"Pendulum-v1-tight-sac-ddsrad-normalized-s{spec['seed']}": spec for spec in specs}
    path.mkdir()
    (path / "campaign.json").write_text(json.dumps({"version": 1, "name": "c", "about": "", "runs": runs}))
    return Store(path), list(runs)


def test_an_old_campaign_goes_on_in_its_folders(tmp_path):
    store, names = old_campaign(tmp_path / "c")
    old = RunSpec("Pendulum-v1", recipe="paper", seed=1)
    assert old.key not in names and store.prepare(old.key, old).path.name == names[0]
    more = replace(old, seed=3)
    store.begin(Campaign("c", "", (old, more)))
    there = json.loads(store.description.read_text())
    assert there["version"] == 3 and list(there["runs"]) == [*names, more.key]
    again = Store(tmp_path / "c")
    assert again.folder(old.key).path.name == names[0] and again.folder(more.key).path.name == more.key
    assert again.folder(old.key).spec() == old


def test_ours_does_not_take_the_folder_of_an_old_run(tmp_path):
    store, names = old_campaign(tmp_path / "c")
    with pytest.raises(FileExistsError, match=f"holds another {names[0]}, of an older slewrl: choose another folder"):
        store.begin(Campaign("c", "", (RunSpec("Pendulum-v1", seed=1),)))
    assert len(store.campaign().runs) == 2


def test_collecting_an_old_campaign(tmp_path):
    for part in ("campaign.json", "HalfCheetah-v5-tight-sac-budget-normalized-s12345"):
        source, target = RESULTS / "table1-60k" / part, tmp_path / "old" / part
        target.parent.mkdir(exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    assert Store(tmp_path / "old").collect(tmp_path / "new") == 1
    done = [run for run in Store(tmp_path / "new").progress() if run.state == "done"]
    assert [(run.spec.layer, run.spec.recipe) for run in done] == [("budget", "paper")]


@pytest.mark.parametrize("name", ["../elsewhere", "..", "a/b", ""])
def test_a_listed_folder_is_one_of_the_campaigns_own(tmp_path, name):
    store, names = old_campaign(tmp_path / "c")
    listed = json.loads(store.description.read_text())
    listed["runs"][name] = listed["runs"].pop(names[0])
    store.description.write_text(json.dumps(listed))
    with pytest.raises(ValueError, match="a run's folder is .*expected a word"):
        Store(tmp_path / "c").campaign()


def test_a_bundle_from_before():
    found = bundle.read(RESULTS / "walk" / "g1-flat-ddsrad.bundle")
    assert "preset" in found.manifest["provenance"]["spec"]
    trained = bundle.trained(found)
    assert trained.spec["recipe"] == "" and "preset" not in trained.spec and not trained.tanh_mean
    spec = found.manifest["provenance"]["spec"]
    spec |= {"agent": "sac", "agent_options": {"mean_bound": "tanh"}}
    assert bundle.trained(found).spec["recipe"] == "paper" and bundle.trained(found).tanh_mean
    spec["recipe"] = "newer"
    with pytest.raises(bundle.BundleError, match="recipe is 'newer', but sac has ours, paper: use the slewrl"):
        _ = bundle.trained(found).tanh_mean


def test_one_conversion_leaves_what_is_new_alone():
    new = dataclasses.asdict(RunSpec())
    assert upgraded(new) is new and upgraded({"agent": "Stable-Baselines3's SAC"})["recipe"] == ""


# ---------------------------------------------------------------------- as printed

TANH = {"mean_bound": "tanh"}
AS_PRINTED = {
    "boxpre": ({}, {"penalty_weight": 0.005}),
    "post": ({}, {}),
    "srad_ball": (TANH, {}),
    "srad_qp": (TANH, {"radius": "min_delta"}),
    "dtanh": (TANH, {}),
    "ddsrad": (TANH, {}),
    "boxpro": ({}, {}),
    "none": ({}, {}),
}


@pytest.mark.parametrize("agent", PAPERS_AGENTS)
@pytest.mark.parametrize("layer", AS_PRINTED)
def test_a_method_as_printed(layer, agent):
    spec = with_recipe(RunSpec("Ant-v5", layer=layer, agent=agent))
    agent_options, layer_options = AS_PRINTED[layer]
    if agent == "td3" and not agent_options:  # the latent is a command, and takes TD3's own noise
        agent_options = {"exploration_noise": 0.1}
    printed = as_printed(spec)
    assert printed == replace(
        spec,
        recipe="" if agent == "fastsac" else "paper",
        batch_size=240 if agent == "fastsac" else 256,
        density="normalized" if agent == "td3" else "action",
        agent_options=agent_options,
        layer_options=layer_options,
    )
    assert printed.learning_starts == (6_400 if agent == "fastsac" else 10_000)
    assert as_printed(printed) == printed and is_printed(printed) and not is_printed(spec)
    assert as_ours(printed) == spec == as_ours(spec)


def test_the_list_has_every_layer_that_is_a_tanh_over_the_range():
    kinds = {name: layer_class(name) for name in (*LAYERS, *BENCHMARK_LAYERS)}
    found = {n for n, kind in kinds.items() if kind.squash is squash.tanh and kind.placement is place.action_range}
    assert found == set(TANH_OVER_RANGE)
    assert set(METHODS) < set(AS_PRINTED)


def test_what_a_run_sets_itself_stays():
    spec = RunSpec("Ant-v5", layer="boxpre", learning_starts=500, layer_options={"penalty_weight": 0.1})
    printed = as_printed(replace(spec, agent_options={"hidden": [8]}))
    assert printed.learning_starts == 500 and printed.layer_options == {"penalty_weight": 0.1}
    assert printed.agent_options == {"hidden": [8]}


@pytest.mark.parametrize(
    ("task", "limits", "ours"),
    [
        ("Humanoid-v5", "tight", "tight_env_units"),
        ("Humanoid-v5", "wide", "wide"),
        ("Ant-v5", "tight", "tight"),
        ("Humanoid-v5", "mine.yaml", "mine.yaml"),
    ],
)
def test_limits_as_printed(task, limits, ours):
    assert as_printed(RunSpec(task, limits=limits)).limits == ours


def test_it_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; from slewrl.paper.printed import as_printed; as_printed"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_paper_mode():
    from slewrl.commands.train import Train

    for agent, recipe in (("sac", ""), ("td3", "paper"), ("fastsac", "gpu"), ("fastsac", "")):
        spec = with_recipe(RunSpec("Humanoid-v5", agent=agent, recipe=recipe))
        assert Train(spec, paper_mode=True)._chosen() == as_printed(spec)
    with pytest.raises(ValueError, match="--paper-mode: the paper says nothing of ppo; its agents are: sac"):
        Train(RunSpec("Ant-v5", agent="ppo"), paper_mode=True)._chosen()
    with pytest.raises(ValueError, match="--paper-mode means --recipe paper, but --recipe is 'ours'"):
        Train(RunSpec("Ant-v5", recipe="ours"), paper_mode=True)._chosen()


# ---------------------------------------------------------------------- campaigns


@pytest.mark.parametrize("name", ["paper-tight", "paper-wide", "sensitivity", "humanoids"])
def test_the_papers_grids_run_as_printed(name):
    campaign = CAMPAIGNS[name]()
    assert all(map(is_printed, campaign.runs)) and Selection(recipe="paper").of(campaign) == campaign
    recipes = {"gpu"} if name == "humanoids" else {"paper"}
    assert {spec.recipe for spec in campaign.runs} == recipes
    ours = Selection(recipe="ours").of(campaign)
    assert ours.name == f"{name}-ours" and not any(map(is_printed, ours.runs))
    kept = ("task", "limits", "layer", "agent", "seed", "steps", "learning_starts", "environments")
    assert [[getattr(s, n) for n in kept] for s in ours.runs] == [[getattr(s, n) for n in kept] for s in campaign.runs]
    assert {spec.density for spec in ours.runs} == {"normalized"}
    assert all(set(spec.agent_options) == set() for spec in ours.runs)
    assert Selection(recipe="paper").of(ours).runs == campaign.runs


def test_lambda_is_swept_with_the_papers_own():
    assert SWEPT == (0.0001, 0.001, 0.005, 0.01, 0.1, 1.0) and set(LAMBDAS) < set(SWEPT)
    ours = Selection(recipe="ours").of(CAMPAIGNS["sensitivity"]())
    assert {spec.layer_options["penalty_weight"] for spec in ours.runs} == set(SWEPT)
    assert {spec.limits for spec in ours.runs} == {"wide", "tight"} and {s.task for s in ours.runs} == {"Ant-v5"}


@pytest.mark.parametrize("name", ["paper-tight", "rivals"])
def test_humanoids_tight_limits_are_the_papers(name):
    limits = {(spec.task, spec.limits) for spec in CAMPAIGNS[name]().runs}
    assert limits == {
        (task, "tight_env_units" if task == "Humanoid-v5" else "tight")
        for task in ("Ant-v5", "Humanoid-v5", "HalfCheetah-v5", "Hopper-v5")
    }


def test_rivals_have_our_recipe():
    runs = CAMPAIGNS["rivals"]().runs
    assert {spec.recipe for spec in runs} == {""} and not any(map(is_printed, runs))


def test_agents_the_paper_says_nothing_of():
    mixed = CAMPAIGNS["table1"]()
    printed = Selection(recipe="paper").of(mixed)
    before, after = ([s for s in c.runs if s.agent.startswith("ppo")] for c in (mixed, printed))
    assert before == after and all(is_printed(s) for s in printed.runs if s.agent == "sac")
    with pytest.raises(ValueError, match="--recipe is for sac, td3, fastsac; campaign 'table1' has ppo$"):
        Selection(recipe="paper").of(Selection(agents=("ppo",)).of(mixed))


def test_a_campaign_is_run_with_another_recipe(slewrl, tmp_path, monkeypatch):
    monkeypatch.setattr("slewrl.campaign.runner.start", InProcess)
    (tmp_path / "mine.yaml").write_text(
        "base: {task: Pendulum-v1, steps: 120, learning_starts: 60, evaluate_every: 120, evaluate_episodes: 1,\n"
        "       batch_size: 8, agent_options: {hidden: [8]}}\n"
        "grid: {layer: [ddsrad]}\n"
    )
    assert slewrl("campaign", "run", "mine.yaml", "--recipe", "paper", "--workers", 1).returncode == 0
    store = Store(tmp_path / "runs" / "mine-paper")
    ((key, spec),) = store.campaign().by_key.items()
    assert spec == as_printed(load_campaign("mine.yaml").runs[0]) and "recipe=paper" in key
    assert [run.state for run in store.progress()] == ["done"] and store.folder(key).spec() == spec


# ---------------------------------------------------------------------- reports


def printed_runs(values, **fields):
    return [(as_printed(spec), *rest) for spec, *rest in cell(values, **fields)]


def table2(limits="tight", tasks=("Ant-v5", "Humanoid-v5")):
    """The paper's six on two tasks as its grids have them, DD-SRad ahead."""
    return [
        run
        for task in tasks
        for agent in ("sac", "td3")
        for i, layer in enumerate(METHODS)
        for run in printed_runs([1000.0 * (i + 1)] * 2, task=task, agent=agent, layer=layer, limits=limits)
    ]


def test_a_report_of_the_paper_as_printed(tmp_path):
    found = load(write_campaign(tmp_path / "c", table2()))
    assert {r.cell.method for r in found} == set(METHODS) and all(r.as_shipped for r in found)
    assert found.shared == (PRINTED,)
    said = {f.claim.name: f for f in findings(found)}
    assert said["highest-return"].verdict == "holds"
    assert "Humanoid-v5 SAC: ahead by 1 000 (" in said["highest-return"].said
    assert said["humanoid-dtanh-below-boxpre"].verdict == "does not hold"
    assert {c.result.cell.limits for c in compare(found) if c.result.cell.task == "Humanoid-v5"} == {"tight_env_units"}
    assert len(compare(found)) == 2 * 2 * 6 * 3
    sac, td3 = tables(found)
    assert (sac.title, td3.title) == ("SAC, tight limits", "TD3, tight limits")
    assert [task for task, _ in sac.tasks] == ["Ant-v5", "Humanoid-v5"]
    assert "Humanoid-v5: the paper’s tight limits as printed, tight_env_units here." in markdown(sac)


def test_our_tight_limits_of_humanoid_are_not_the_papers(tmp_path):
    runs = [*cell([1.0, 2.0], task="Humanoid-v5"), *cell([3.0, 4.0], task="Humanoid-v5", limits="tight_env_units")]
    found = load(write_campaign(tmp_path / "c", runs))
    assert {c.result.cell.limits for c in compare(found)} == {"tight_env_units"}
    assert [table.limits for table in tables(found)] == ["tight", "tight_env_units"]
    (use,) = [f for f in findings(found) if f.claim.name == "utilisation"]
    assert list(use.measured.numbers) == ["Humanoid-v5 SAC"]


def test_humanoid_wide_and_tight_are_a_pair(tmp_path):
    runs = [run for limits in ("wide", "tight") for run in printed_runs([1.0], task="Humanoid-v5", limits=limits)]
    drawn = {figure.name: figure for figure in figures_of(load(write_campaign(tmp_path / "c", runs)))}
    assert "Humanoid-v5 SAC 1.00 to 1.00" in drawn["wide-tight-return"].caption


@pytest.mark.parametrize("recipe", ["ours", "paper"])
def test_a_sweep_as_printed_has_a_verdict_by_the_papers_lambdas(tmp_path, recipe):
    values = dict.fromkeys(SWEPT, 5000.0) | {1e-4: 100.0, 1e-2: 9000.0, 5e-3: 9900.0}
    runs = [
        ((as_printed(spec) if recipe == "paper" else spec), *rest)
        for weight, value in values.items()
        for spec, *rest in cell([value] * 2, task="Ant-v5", layer_options={"penalty_weight": weight})
    ]
    found = load(write_campaign(tmp_path / "c", runs, joints=("hip", "ankle")))
    said = {f.claim.name: f for f in findings(found)}
    assert said["best-lambda-tight"].verdict == "holds"
    assert said["best-lambda-tight"].said.startswith("λ = 0.01 ahead of the others by: 4 000 (")
    (figure,) = [figure for figure in figures_of(found) if figure.name == "lambda-return-Ant-v5-sac"]
    assert figure.save(tmp_path, look_of(found, 4.4), html=True)[1].startswith(b"<?xml")


def test_recipes_in_one_campaign_are_told_apart(tmp_path):
    half = cell([5.0], density="action", agent_options={"mean_bound": "tanh"})
    runs = [*cell([1.0]), *cell([2.0], recipe="paper"), *printed_runs([3.0]), *half]
    found = load(write_campaign(tmp_path / "c", runs))
    assert {r.cell.method: r.score.mean for r in found} == {
        "ddsrad": 1.0,
        "ddsrad recipe=paper": 2.0,
        "ddsrad action mean_bound=tanh recipe=paper": 3.0,
        "ddsrad action mean_bound=tanh recipe=ours": 5.0,
    }
    text = markdown(tables(found)[0])
    assert "| DD-SRad (paper mode) |" in text and "| DD-SRad (action entropy, tanh mean, recipe=ours) |" in text


def test_a_recipe_is_one_of_its_agent(tmp_path):
    """SAC's name says nothing where PPO, which has none, is beside it."""
    runs = [*cell([1.0], recipe="paper"), *cell([2.0], agent="ppo")]
    assert {r.cell.method for r in load(write_campaign(tmp_path / "c", runs))} == {"ddsrad"}
