"""What critics see of an action, pink noise, and the averaged actor: each by hand."""

import numpy as np
import pytest
import torch

from slewrl import RateLimits, make_layer
from slewrl.agents import AGENTS
from slewrl.agents.averaging import averaging_rate
from slewrl.agents.critic_view import CriticView
from slewrl.agents.noise import PinkNoise
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


@pytest.mark.parametrize("kind", ["increment", "action"])
def test_gradients_go_back_as_autograd_does(kind):
    view, judged = CriticView(LIMITS, kind), torch.randn(4, 2, requires_grad=True)
    weights, prev = torch.randn(4, 2), torch.randn(4, 2)
    seen = judged if kind == "action" else (judged - prev) / torch.tensor([0.2, 0.5])
    (expected,) = torch.autograd.grad((seen * weights).sum(), judged)
    assert torch.allclose(view.back(weights), expected)


def test_pink_noise_is_standard_normal_at_a_step_and_one_over_f_over_steps():
    pink = PinkNoise(torch.Generator().manual_seed(0))
    noise = torch.stack([pink(torch.Size((64, 2))) for _ in range(4096)]).flatten(1).numpy()
    assert abs(noise.mean()) < 0.1 and noise.std() == pytest.approx(1, abs=0.03)
    assert np.abs(np.quantile(noise, [0.16, 0.84])) == pytest.approx(0.9945, abs=0.04)
    power = (np.abs(np.fft.rfft(noise, axis=0)) ** 2).mean(1)
    low, high = power[16:32].mean(), power[256:512].mean()  # sixteen times the frequency
    assert 10 < low / high < 26  # 16 for 1/f; 1 for white noise, 256 for a random walk


def test_pink_noise_goes_on_from_its_state():
    pink, shape = PinkNoise(torch.Generator().manual_seed(0)), torch.Size((1, 3))
    for _ in range(5):
        pink(shape)
    other = PinkNoise(torch.Generator())
    other.generator.set_state(pink.generator.get_state())
    other.state = pink.state.clone()
    assert torch.equal(pink(shape), other(shape))


def test_the_average_forgets_the_start_of_a_short_run():
    assert averaging_rate(0.001, 1) == 1.0  # the actor itself
    assert averaging_rate(0.001, 100) == pytest.approx(0.1)  # the last tenth of the updates so far
    assert averaging_rate(0.001, 10_000) == averaging_rate(0.001, 10**6) == 0.001
    assert averaging_rate(1.0, 10**6) == 1.0


@pytest.mark.parametrize("name", ["sac", "td3", "fastsac"])
def test_a_checkpoint_from_before_actors_were_averaged_is_read(name):
    kind = AGENTS[name]
    made = [kind(kind.Config(), LIMITS, make_layer("ddsrad"), 5, seed) for seed in (0, 1)]
    old = {key: x for key, x in made[0].state_dict().items() if key not in ("averaged", "actor_steps", "pink")}
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
