"""The paper's experiments as grids; `campaign/grids.py` has ours. Numbers are the paper's unless marked ours."""

from dataclasses import replace
from functools import partial

from slewrl.campaign import grids
from slewrl.campaign.spec import Campaign, grid
from slewrl.paper.printed import as_printed, limits
from slewrl.training.spec import RunSpec, with_recipe

TASKS = ("Ant-v5", "Humanoid-v5", "HalfCheetah-v5", "Hopper-v5")
AGENTS = ("sac", "td3")
METHODS, RIVALS, LAMBDAS = grids.METHODS, grids.RIVALS, grids.LAMBDAS
SEEDS = grids.SEEDS[:5]
STEPS = {"Ant-v5": 2_000_000, "Humanoid-v5": 2_000_000, "HalfCheetah-v5": 1_500_000, "Hopper-v5": 1_500_000}
"""The paper says 1.5 to 2 million (Appendix C)."""
SWEPT = tuple(sorted((*LAMBDAS, 0.005)))
"""And the paper's own, which is not among them."""
ROBOT_UPDATES = {"H1-rough": 50_000, "G1-flat": 100_000}
"""Gradient steps of the paper's humanoid study, on 4 096 environments."""
PPO_STEPS = 1_500_000
"""The paper's budget; eight environments make it cheap."""
PPO_OPTIONS = {"rollout": 256, "normalize": True}


def paper_table(limits: str) -> Campaign:
    """Table 2 (tight) or its wide twin as printed: 4 tasks, 2 backbones, 6 methods, 5 seeds."""
    runs = grid(RunSpec(limits=limits), task=TASKS, agent=AGENTS, layer=METHODS, seed=SEEDS)
    sized = tuple(as_printed(replace(run, steps=STEPS[run.task])) for run in runs)
    return Campaign(f"paper-{limits}", f"the paper's main table under {limits} limits, as printed", sized)


paper_tight, paper_wide = partial(paper_table, "tight"), partial(paper_table, "wide")


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
    """The methods the paper left out, on its tight table and under its limits; our recipe."""
    runs = grid(RunSpec(limits="tight"), task=TASKS, agent=AGENTS, layer=METHODS + RIVALS, seed=SEEDS)
    about = "the tight table with the rivals the paper left out, our recipe"
    sized = (replace(run, steps=STEPS[run.task], limits=limits(run.task, run.limits)) for run in runs)
    return Campaign("rivals", about, tuple(sized))


def evidence() -> Campaign:
    """The paper's main table at budgets that one core can pay, the most telling runs first; our recipe."""
    runs: list[RunSpec] = []
    tasks = ("HalfCheetah-v5", "Hopper-v5", "Ant-v5")
    for task in tasks:
        base = RunSpec(task, steps=100_000, learning_starts=5_000)
        runs += grid(base, seed=SEEDS[:3], layer=("ddsrad", "boxpro")) + grid(base, seed=SEEDS[:1], layer=("none",))
    runs += grid(RunSpec("Humanoid-v5", limits=limits("Humanoid-v5", "tight"), steps=200_000), seed=SEEDS[:2])
    ppo = RunSpec(agent="ppo", environments=8, steps=PPO_STEPS, evaluate_every=50_000, agent_options=PPO_OPTIONS)
    runs += grid(ppo, task=tasks, seed=SEEDS[:3], layer=("ddsrad", "boxpro", "none"))
    short = RunSpec("HalfCheetah-v5", steps=60_000, learning_starts=5_000)
    runs += grid(short, seed=SEEDS[:3], layer=(*(m for m in METHODS if m != "ddsrad"), "interval_srad"))
    runs += grid(as_printed(short), seed=SEEDS[:3])
    return Campaign("evidence", "the paper's main table at budgets that one core can pay", tuple(runs))
