"""What critics see of an action, and the averaged actor: each by hand."""

import pytest
import torch

from slewrl import RateLimits, make_layer
from slewrl.agents import AGENTS
from slewrl.agents.base import averaging_rate
from slewrl.agents.critic_view import CriticView
from slewrl.agents.sac import SACConfig
from slewrl.agents.td3 import TD3Config

LIMITS = RateLimits(up=[0.2, 0.5], down=[0.1, 0.5], low=-1.0, high=1.0)


def test_critics_see_increments_in_units_of_the_limit():
    observation = torch.tensor([[7.0, 0.3, -0.5], [9.0, -1.0, 1.0]])  # the last two entries are a_prev
    judged = torch.tensor([[0.5, -0.75], [-1.0, 0.5]])
    out, by_action = torch.empty(2, 2), torch.empty(2, 2)
    CriticView(LIMITS, "increment").write(out, judged, observation)
    assert torch.allclose(out, torch.tensor([[1.0, -0.5], [0.0, -1.0]]), atol=1e-6)  # .2 / .2, -.25 / .5, ...
    CriticView(LIMITS, "action").write(by_action, judged, observation)
    assert torch.equal(by_action, judged)


def test_under_an_acceleration_limit_they_see_the_change_of_the_increment():
    limits = RateLimits([0.2, 0.5], -1.0, 1.0, acceleration=[0.1, 0.25], deceleration=[0.05, 0.25])
    observation = torch.tensor([[7.0, 0.1, -0.25, 0.3, -0.5]])  # s, v_prev, a_prev
    out = torch.empty(1, 2)
    CriticView(limits, "increment").write(out, torch.tensor([[0.5, -0.5]]), observation)
    assert torch.allclose(out, torch.tensor([[1.0, 1.0]]), atol=1e-6)  # (.2 - .1) / .1, (0 + .25) / .25


@pytest.mark.parametrize("kind", ["increment", "action"])
def test_gradients_go_back_as_autograd_does(kind):
    view, judged = CriticView(LIMITS, kind), torch.randn(4, 2, requires_grad=True)
    weights, prev = torch.randn(4, 2), torch.randn(4, 2)
    seen = judged if kind == "action" else (judged - prev) / torch.tensor([0.2, 0.5])
    (expected,) = torch.autograd.grad((seen * weights).sum(), judged)
    assert torch.allclose(view.back(weights), expected)


def test_the_average_forgets_the_start_of_a_short_run():
    assert averaging_rate(0.001, 1) == 1.0  # the actor itself
    assert averaging_rate(0.001, 100) == pytest.approx(0.1)  # the last tenth of the updates so far
    assert averaging_rate(0.001, 10_000) == averaging_rate(0.001, 10**6) == 0.001
    assert averaging_rate(1.0, 10**6) == 1.0


@pytest.mark.parametrize("name", ["sac", "td3", "fastsac"])
def test_a_checkpoint_from_before_actors_were_averaged_is_read(name):
    kind = AGENTS[name]
    made = [kind(kind.Config(), LIMITS, make_layer("ddsrad"), 5, seed) for seed in (0, 1)]
    old = {key: x for key, x in made[0].state_dict().items() if key not in ("averaged", "actor_steps")}
    if name == "sac":
        del old["updates"]
    made[1].load_state_dict(old)
    observation = torch.zeros(3, 5)
    acted = [
        one.act(observation, explore=False, averaged=averaged).executed for one in made for averaged in (True, False)
    ]
    assert all(torch.equal(action, acted[0]) for action in acted)


@pytest.mark.parametrize(
    ("config", "value"), [(TD3Config, {"target_noise": None}), (SACConfig, {"target_entropy_per_joint": float("nan")})]
)
def test_what_no_run_could_use_is_refused_by_name(config, value):
    with pytest.raises(ValueError, match=f"{next(iter(value))} is .*expected a finite number"):
        config(**value)
    assert TD3Config(exploration_noise=None).exploration_noise is None
