"""The built-in campaigns: ours, defined here, and the paper's, which are imported when asked for."""

from dataclasses import replace

from slewrl.campaign.spec import VARIANTS, Campaign, grid
from slewrl.registry import Registry
from slewrl.training.spec import FORMER_POSE, RunSpec, with_recipe

METHODS = ("boxpre", "post", "srad_ball", "srad_qp", "dtanh", "ddsrad")
"""The layers the paper compares, in the order of its tables."""
RIVALS = ("boxpro", "interval_tanh", "interval_srad", "truncnorm", "srad_gauge", "ddsrad_smooth", "none")
"""The layers the paper left out."""
SEEDS = tuple(range(12345, 112345, 10_000))
"""Ten seeds; the first five are the paper's."""
LAMBDAS = (0.0001, 0.001, 0.01, 0.1, 1.0)
"""The weights in the paper's section on the sensitivity to lambda."""
FIRST_RECIPE = "paper"
"""The recipe of SAC and TD3 in results/, which are older than our own."""
WALK_STEPS = 3_000_000
"""Of the first walk."""
STEPS_TO_WALK = 5_000_000
"""About 80 minutes of a core."""

CAMPAIGNS = Registry(
    "campaign",
    {
        "paper-tight": "slewrl.paper.grids:paper_tight",
        "paper-wide": "slewrl.paper.grids:paper_wide",
        "sensitivity": "slewrl.paper.grids:sensitivity",
        "humanoids": "slewrl.paper.grids:humanoids",
        "rivals": "slewrl.paper.grids:rivals",
        "evidence": "slewrl.paper.grids:evidence",
        "first": "slewrl.campaign.grids:first",
        "first-sensitivity": "slewrl.campaign.grids:first_sensitivity",
        "first-walk": "slewrl.campaign.grids:first_walk",
        "walk": "slewrl.campaign.grids:walk",
        "g1-flat": "slewrl.campaign.grids:g1_flat",
        "h1-rough": "slewrl.campaign.grids:h1_rough",
        "table1": "slewrl.campaign.grids:table1",
        "recipe": "slewrl.campaign.grids:recipe",
        "td3-noise": "slewrl.campaign.grids:td3_noise",
        "acceleration": "slewrl.campaign.grids:acceleration",
        "calm": "slewrl.campaign.grids:calm",
        "calm-finals": "slewrl.campaign.grids:calm_finals",
        "mini": "slewrl.campaign.grids:mini",
    },
)
"""The function that makes each campaign, by name."""


def first() -> Campaign:
    """The runs of results/first: one task, a short budget, every layer with SAC, eight with TD3."""
    base = RunSpec("HalfCheetah-v5", recipe=FIRST_RECIPE, steps=60_000, learning_starts=5_000)
    seeds = SEEDS[:3]
    runs = grid(base, layer=METHODS + RIVALS, seed=seeds)
    # DD-SRad with its entropy in other units, and as printed.
    runs += grid(base, density=("action_scaled",), seed=seeds)
    runs += grid(VARIANTS["paper"](base), seed=seeds)
    runs += grid(replace(base, agent="td3"), layer=(*METHODS, "boxpro", "interval_tanh"), seed=seeds)
    return Campaign("first", "HalfCheetah-v5 tight at 60 000 steps: every layer", runs)


def first_sensitivity() -> Campaign:
    """The sensitivity grid with a budget of ten minutes on two cores."""
    base = RunSpec("Reacher-v5", steps=7_000, learning_starts=1_000, evaluate_every=1_000, evaluate_episodes=10)
    smaller = {"learning_rate": 1e-3, "hidden": [64, 64]}
    base = replace(base, recipe=FIRST_RECIPE, agent_options=smaller)
    weights = [{"penalty_weight": weight} for weight in LAMBDAS]
    runs = grid(base, limits=("wide", "tight"), layer_options=weights, seed=SEEDS[:3])
    runs = tuple(replace(run, batch_size=128) for run in runs)  # only now: a grid takes 128 for what nobody set
    return Campaign("first-sensitivity", "lambda on a rate-limited Reacher, wide and tight", runs)


def table1() -> Campaign:
    """The families of the paper's Table 1 at the same steps; one seed of the slow ones (a solver, rejection)."""
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
    """The runs of results/walk: the robots with an hour of one core each."""
    options = {"sees_all": True, "compile": True}
    base = with_recipe(RunSpec(limits="paper", agent="fastsac", steps=WALK_STEPS, agent_options=options))
    former = replace(base, task_options=FORMER_POSE)
    runs = grid(former, task=("G1-flat",), layer=("ddsrad", "boxpro", "srad_ball"), seed=SEEDS[:1])
    runs += grid(replace(base, steps=WALK_STEPS // 6), task=("H1-rough",), seed=SEEDS[:1])  # as far as time allowed
    return Campaign("first-walk", "G1 on a plane and H1 on rough ground, on two cores", runs)


def _walking(task: str, **options: bool) -> RunSpec:
    """A run of a walking robot by the recipe for one core, with the paper's number of episodes at the end."""
    chosen = {"sees_all": True, "normalize_previous": True, "critic_input": "increment", **options}
    spec = RunSpec(task, "paper", agent="fastsac", steps=STEPS_TO_WALK, final_episodes=1_000, agent_options=chosen)
    return with_recipe(spec)


def walk() -> Campaign:
    """G1 walks, from nothing: DD-SRad and the clip, a core each (``make walk``); it needs no compiler."""
    runs = grid(_walking("G1-flat"), layer=("ddsrad", "boxpro"), seed=SEEDS[:1])
    return Campaign("walk", "G1 learns to walk under the paper's limits, with DD-SRad and with the clip", runs)


def g1_flat() -> Campaign:
    """G1 on the plane with several seeds, beside the paper's row of its table of robots."""
    base = _walking("G1-flat", compile=True)
    runs = grid(base, seed=SEEDS[:3]) + grid(base, layer=("boxpro",), seed=SEEDS[:2])
    return Campaign("g1-flat", "G1 on a plane under the paper's limits: DD-SRad and the clip", runs)


def h1_rough() -> Campaign:
    """H1 on rough ground, beside the paper's row."""
    runs = grid(_walking("H1-rough", compile=True), layer=("ddsrad", "boxpro"), seed=SEEDS[:1])
    return Campaign("h1-rough", "H1 on rough ground under the paper's limits: DD-SRad and the clip", runs)


def recipe() -> Campaign:
    """The study behind our recipe (docs/recipe.md): ours beside the paper's, SAC under tight limits."""
    base = RunSpec("HalfCheetah-v5", steps=60_000, learning_starts=5_000)
    paper = replace(base, recipe="paper")
    runs = grid(base, seed=SEEDS) + grid(paper, seed=SEEDS[:5])
    runs += grid(base, layer=("interval_srad", "boxpro"), seed=SEEDS[:5])
    for one in (base, paper):
        runs += grid(one, task=("Hopper-v5", "Ant-v5"), seed=SEEDS[:3])
    return Campaign("recipe", "our recipe beside the paper's: three tasks under tight limits, 60 000 steps", runs)


def td3_noise() -> Campaign:
    """TD3's exploration noise in the units of each layer's latent; 1 and 0.1 are the defaults."""
    base = RunSpec("HalfCheetah-v5", agent="td3", steps=60_000, learning_starts=5_000)
    layers = ("ddsrad", "boxpre", "post", "boxpro")
    runs = grid(base, layer=layers, seed=SEEDS[:3])
    others = {"ddsrad": (0.3, 3.0), "boxpre": (0.3, 1.0), "post": (0.3, 1.0), "boxpro": (0.3, 1.0)}
    for layer, noises in others.items():
        options = [{"exploration_noise": noise} for noise in noises]
        runs += grid(replace(base, layer=layer), agent_options=options, seed=SEEDS[:3])
    return Campaign("td3-noise", "TD3 on HalfCheetah-v5 tight: exploration noise by the kind of latent", runs)


def acceleration() -> Campaign:
    """Acceleration limits that bind, beside the rate limit alone: full rate takes four steps instead of one."""
    base = RunSpec("HalfCheetah-v5", steps=60_000, learning_starts=5_000)
    runs = grid(base, limits=("tight_acceleration", "tight"), seed=SEEDS[:3])
    return Campaign("acceleration", "SAC with DD-SRad on HalfCheetah-v5: rate and acceleration limits", runs)


CALM = (0.1, 0.2, 0.35, 0.6, 1.0)
"""Values of ``calm`` in its study."""
CUTOFFS = (2.0, 4.0, 8.0)
"""Hz: cut-offs of filters in the study of calm; 10 Hz is what steps of .05 s resolve."""


def calm() -> Campaign:
    """What stops the shaking: our knob beside filters, prices and CAPS, all under the same limit (docs/calm.md)."""
    reacher = RunSpec("Reacher-v5", steps=20_000, learning_starts=2_000)
    cheetah = RunSpec("HalfCheetah-v5", steps=40_000, learning_starts=5_000)
    prices = {"Reacher-v5": (0.1, 1.0, 10.0), "HalfCheetah-v5": (1.0, 10.0, 100.0)}
    runs: tuple[RunSpec, ...] = ()
    for base, seeds in ((reacher, SEEDS[:3]), (cheetah, SEEDS[:1])):
        runs += grid(base, layer=("ddsrad", "interval_srad", "boxpro", "dtanh", "post"), seed=seeds)
        ours = [{"calm": value} for value in CALM]
        runs += grid(base, layer=("ddsrad", "interval_srad"), agent_options=ours, seed=seeds)
        clip = replace(base, layer="boxpro")
        losses = [{name: weight} for name in ("caps", "l2c2") for weight in (0.1, 1.0, 10.0)]
        runs += grid(clip, agent_options=losses, seed=seeds)
        runs += grid(clip, task_options=[{"action_rate_l2": price} for price in prices[base.task]], seed=seeds)
        filters = [{"filter": kind, "cutoff": hertz} for kind in ("ema", "butterworth") for hertz in CUTOFFS]
        runs += grid(replace(base, layer="none"), task_options=filters, seed=seeds)
        # What people do, in front of our layer instead of the clip.
        runs += grid(base, agent_options=[{"caps": 1.0}, {"l2c2": 1.0}], seed=seeds)
        runs += grid(base, task_options=[{"filter": "butterworth", "cutoff": 4.0}, {"action_rate_l2": 1.0}], seed=seeds)
    return Campaign("calm", "return against calm: our knob beside what people do against shaking", runs)


def calm_finals() -> Campaign:
    """What the study of calm left over, with five seeds: the clip, the calmest incumbents, and our layers."""
    cheetah = RunSpec("HalfCheetah-v5", steps=60_000, learning_starts=5_000)
    reacher = RunSpec("Reacher-v5", steps=20_000, learning_starts=2_000)
    runs: tuple[RunSpec, ...] = ()
    for base, hertz in ((cheetah, 4.0), (reacher, 8.0)):
        runs += grid(base, layer=("boxpro",), seed=SEEDS[:5])
        runs += grid(replace(base, layer="interval_srad", agent_options={"calm": 0.2}), seed=SEEDS[:5])
        butterworth = {"filter": "butterworth", "cutoff": hertz}
        runs += grid(replace(base, layer="none", task_options=butterworth), seed=SEEDS[:5])
        runs += grid(replace(base, agent_options={"calm": 0.35}), seed=SEEDS[:5])
        runs += grid(base, layer=("interval_srad",), seed=SEEDS[:5])
    runs += grid(replace(reacher, layer="boxpro", agent_options={"caps": 10.0}), seed=SEEDS[:5])
    return Campaign("calm-finals", "the clip, the calmest incumbents and our layers, five seeds each", runs)


def mini() -> Campaign:
    """A campaign of minutes, to see whether a machine, a cluster or a change works."""
    base = RunSpec("Pendulum-v1", steps=1_000, learning_starts=200, evaluate_every=250, evaluate_episodes=1)
    base = replace(base, batch_size=32, agent_options={"hidden": [32, 32]})
    return Campaign(
        "mini", "a campaign of minutes, to try a machine with", grid(base, layer=("ddsrad", "boxpro"), seed=(1, 2))
    )
