"""The study behind our recipe (docs/recipe.md): ours beside the paper's hyperparameters, at equal steps."""

from dataclasses import replace

from slewrl.campaign.spec import Campaign, grid
from slewrl.training.spec import RunSpec

SEEDS = tuple(range(12345, 112345, 10_000))
"""Ten; the first five are the paper's."""


def recipe() -> Campaign:
    """SAC under tight limits: HalfCheetah-v5 with the seeds that tell, Hopper-v5 and Ant-v5 with three."""
    base = RunSpec("HalfCheetah-v5", steps=60_000, learning_starts=5_000)
    paper = replace(base, recipe="paper")
    runs = grid(base, seed=SEEDS) + grid(paper, seed=SEEDS[:5])
    runs += grid(base, layer=("interval_srad", "boxpro"), seed=SEEDS[:5])
    for one in (base, paper):
        runs += grid(one, task=("Hopper-v5", "Ant-v5"), seed=SEEDS[:3])
    return Campaign("recipe", "our recipe beside the paper's: three tasks under tight limits, 60 000 steps", runs)


def td3_noise() -> Campaign:
    """TD3's exploration noise in the units of each layer's latent: 1 and .1 are the defaults."""
    base = RunSpec("HalfCheetah-v5", agent="td3", steps=60_000, learning_starts=5_000)
    layers = ("ddsrad", "boxpre", "post", "boxpro")
    runs = grid(base, layer=layers, seed=SEEDS[:3])
    others = {"ddsrad": (0.3, 3.0), "boxpre": (0.3, 1.0), "post": (0.3, 1.0), "boxpro": (0.3, 1.0)}
    for layer, noises in others.items():
        options = [{"exploration_noise": noise} for noise in noises]
        runs += grid(replace(base, layer=layer), agent_options=options, seed=SEEDS[:3])
    return Campaign("td3-noise", "TD3 on HalfCheetah-v5 tight: exploration noise by the kind of latent", runs)
