"""The paper's experiments as grids, and ours beside them. Numbers are the paper's unless marked ours."""

from collections.abc import Callable
from dataclasses import replace

from slewrl.campaign import study
from slewrl.campaign.spec import Campaign, grid
from slewrl.paper.printed import as_printed, limits
from slewrl.training.spec import RunSpec, with_recipe

TASKS = ("Ant-v5", "Humanoid-v5", "HalfCheetah-v5", "Hopper-v5")
AGENTS = ("sac", "td3")
METHODS = ("boxpre", "post", "srad_ball", "srad_qp", "dtanh", "ddsrad")
"""In the order of the paper's tables."""
RIVALS = ("boxpro", "interval_tanh", "interval_srad", "truncnorm", "srad_gauge", "ddsrad_smooth", "none")
"""What the paper left out; ours."""
SEEDS = (12345, 22345, 32345, 42345, 52345)
STEPS = {"Ant-v5": 2_000_000, "Humanoid-v5": 2_000_000, "HalfCheetah-v5": 1_500_000, "Hopper-v5": 1_500_000}
"""The paper says 1.5 to 2 million (notes 20)."""
LAMBDAS = (0.0001, 0.001, 0.01, 0.1, 1.0)
"""Of the paper's Section on the sensitivity of lambda."""
SWEPT = tuple(sorted((*LAMBDAS, 0.005)))
"""And the paper's own, which is not among them."""
ROBOT_UPDATES = {"H1-rough": 50_000, "G1-flat": 100_000}
"""Gradient steps of the paper's humanoid study, on 4 096 environments."""
FIRST_STEPS, FIRST_WARM_UP = 60_000, 5_000
"""What two cores can do in an afternoon; ours."""
FIRST_RECIPE = "paper"
"""Of SAC and TD3 in results/, which were made before ours was another."""
WALK_STEPS = 3_000_000
"""Likewise, of each run of a robot."""


def paper_table(limits: str) -> Campaign:
    """Table 2 (tight) or its wide twin as printed: 4 tasks, 2 backbones, 6 methods, 5 seeds."""
    runs = grid(RunSpec(limits=limits), task=TASKS, agent=AGENTS, layer=METHODS, seed=SEEDS)
    sized = tuple(as_printed(replace(run, steps=STEPS[run.task])) for run in runs)
    return Campaign(f"paper-{limits}", f"the paper's main table under {limits} limits, as printed", sized)


def sensitivity() -> Campaign:
    """lambda, the weight of |u|^2 in the actor's loss, on Ant under both limits."""
    base = RunSpec("Ant-v5", steps=STEPS["Ant-v5"])
    weights = [{"penalty_weight": weight} for weight in SWEPT]
    runs = grid(as_printed(base), limits=("wide", "tight"), layer_options=weights, seed=SEEDS)
    return Campaign("sensitivity", "how much lambda matters to DD-SRad, as printed", runs)


def humanoids() -> Campaign:
    """Unitree H1 and G1 under their official limits: 2 robots, 6 methods, 5 seeds."""
    base = with_recipe(RunSpec(limits="paper", agent="fastsac", recipe="gpu"))
    runs = grid(base, task=tuple(ROBOT_UPDATES), layer=METHODS, seed=SEEDS)
    # Read as steps of the vector environment; the recipe makes eight updates in each.
    sized = tuple(as_printed(replace(run, steps=run.environments * ROBOT_UPDATES[run.task])) for run in runs)
    return Campaign("humanoids", "the paper's humanoid study, as printed", sized)


def rivals() -> Campaign:
    """What the paper left out, on its tight table and under its limits; our recipe."""
    runs = grid(RunSpec(limits="tight"), task=TASKS, agent=AGENTS, layer=METHODS + RIVALS, seed=SEEDS)
    about = "the tight table with the rivals the paper left out, our recipe"
    sized = (replace(run, steps=STEPS[run.task], limits=limits(run.task, run.limits)) for run in runs)
    return Campaign("rivals", about, tuple(sized))


def first() -> Campaign:
    """What results/first holds: one task, a short budget, every layer with SAC, eight with TD3."""
    base = RunSpec("HalfCheetah-v5", recipe=FIRST_RECIPE, steps=FIRST_STEPS, learning_starts=FIRST_WARM_UP)
    seeds = SEEDS[:3]
    runs = grid(base, layer=METHODS + RIVALS, seed=seeds)
    # How DD-SRad's entropy is measured: the other consistent way, and all of it as printed.
    runs += grid(base, density=("action_scaled",), seed=seeds)
    runs += grid(as_printed(base), seed=seeds)
    runs += grid(replace(base, agent="td3"), layer=(*METHODS, "boxpro", "interval_tanh"), seed=seeds)
    return Campaign("first", "HalfCheetah-v5 tight at 60 000 steps: every layer", runs)


def first_sensitivity() -> Campaign:
    """The sensitivity grid at what two cores can do in ten minutes."""
    base = RunSpec("Reacher-v5", steps=7_000, learning_starts=1_000, evaluate_every=1_000, evaluate_episodes=10)
    smaller = {"learning_rate": 1e-3, "hidden": [64, 64]}
    base = replace(base, recipe=FIRST_RECIPE, batch_size=128, agent_options=smaller)
    weights = [{"penalty_weight": weight} for weight in LAMBDAS]
    runs = grid(base, limits=("wide", "tight"), layer_options=weights, seed=SEEDS[:3])
    return Campaign("first-sensitivity", "lambda on a rate-limited Reacher, wide and tight", runs)


def table1() -> Campaign:
    """The families of the paper's Table 1 at the same steps; a seed each of those that ask a solver or draw again."""
    base = RunSpec("HalfCheetah-v5", limits="tight", steps=5_000, learning_starts=1_000, evaluate_every=1_000)
    seeds = SEEDS[:3]
    paper = ("truncnorm", "srad_ball", "boxpre", "post", "ddsrad")  # its rows that are layers; post: its RL+QP
    sac = replace(base, recipe=FIRST_RECIPE)
    runs = grid(sac, layer=(*paper, "boxpro", "budget", "none"), seed=seeds)
    runs += grid(sac, layer=("qp", "aram"), seed=seeds[:1])
    short = replace(base, agent="ppo", agent_options={"rollout": 500})  # ten rollouts; with 2 048 it were two
    runs += grid(short, seed=seeds) + grid(replace(short, agent="ppo_lag", layer="none"), seed=seeds)
    return Campaign("table1", "the families of the paper's Table 1 on HalfCheetah-v5 tight", runs)


def first_walk() -> Campaign:
    """What results/walk holds: the robots at what a core can do in an hour each."""
    options = {"sees_all": True, "compile": True}
    base = with_recipe(RunSpec(limits="paper", agent="fastsac", steps=WALK_STEPS, agent_options=options))
    runs = grid(base, task=("G1-flat",), layer=("ddsrad", "boxpro", "srad_ball"), seed=SEEDS[:1])
    runs += grid(replace(base, steps=WALK_STEPS // 6), task=("H1-rough",), seed=SEEDS[:1])  # as far as time allowed
    return Campaign("first-walk", "G1 on a plane and H1 on rough ground, on two cores", runs)


def mini() -> Campaign:
    """Minutes: to see whether a machine, a cluster or a change works."""
    base = RunSpec("Pendulum-v1", steps=1_000, learning_starts=200, evaluate_every=250, evaluate_episodes=1)
    base = replace(base, batch_size=32, agent_options={"hidden": [32, 32]})
    return Campaign(
        "mini", "a campaign of minutes, to try a machine with", grid(base, layer=("ddsrad", "boxpro"), seed=(1, 2))
    )


CAMPAIGNS: dict[str, Callable[[], Campaign]] = {
    "paper-tight": lambda: paper_table("tight"),
    "paper-wide": lambda: paper_table("wide"),
    "sensitivity": sensitivity,
    "humanoids": humanoids,
    "rivals": rivals,
    "first": first,
    "first-sensitivity": first_sensitivity,
    "first-walk": first_walk,
    "table1": table1,
    "recipe": study.recipe,
    "td3-noise": study.td3_noise,
    "mini": mini,
}
"""Name -> what makes it."""
