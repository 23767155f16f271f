"""An agent someone else might write: one file, no change to slewrl. A linear policy that climbs by random search."""

import copy
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import nn

from slewrl.agents.base import OffPolicy
from slewrl.agents.config import POSITIVE, Checked


@dataclass(frozen=True)
class ToyConfig(Checked):
    """One hyperparameter."""

    step: Annotated[float, POSITIVE] = 0.1
    """Standard deviation of a random step of the weights."""


class Toy(OffPolicy):
    """Keeps a random step of its weights if the mean reward of the next batch is higher."""

    Config = ToyConfig
    columns = ("batch_reward",)
    networks = ("weight",)

    def __init__(self, config, limits, layer, observation_size, seed):
        self.config, self.limits, self.layer = config, limits, layer
        self.generator = torch.Generator().manual_seed(seed)
        self.weight, self.step, self.best = torch.zeros(limits.dim, observation_size), torch.zeros(()), -torch.inf

    def act(self, observation, explore=True, averaged=True):
        weight = self.weight + self.step if explore else self.weight
        previous = observation[..., -self.limits.dim :]
        return self.layer.decide(observation @ weight.T, self.limits.box(previous, check=False))

    def latent_module(self):
        linear = nn.Linear(*reversed(self.weight.shape))
        linear.weight, linear.bias = nn.Parameter(self.weight), nn.Parameter(torch.zeros(len(self.weight)))
        return nn.Sequential(linear)

    def updates_per_step(self, environments):
        return 1

    def update(self, batch, log=False):
        reward = batch.reward.mean().item()
        if reward > self.best:
            self.weight, self.best = self.weight + self.step, reward
        self.step = self.config.step * torch.randn(self.weight.shape, generator=self.generator)
        return {"batch_reward": reward} if log else {}

    def state_dict(self):
        state = {"weight": self.weight, "step": self.step, "best": self.best, "generator": self.generator.get_state()}
        return copy.deepcopy(state)

    def load_state_dict(self, state):
        self.weight, self.step, self.best = state["weight"].clone(), state["step"].clone(), state["best"]
        self.generator.set_state(state["generator"])


class Unfinished(OffPolicy):
    """It cannot act."""

    Config = ToyConfig


class Lookalike:
    """Has nothing of an agent but the name of its config."""

    Config = ToyConfig
