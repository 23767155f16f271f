"""Walking robots under acceleration limits: what the actuators get, what is seen, and what is saved."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from slewrl.layers import make_layer
from slewrl.limits import RateLimits
from slewrl.limits.viability import too_sharp
from slewrl.locomotion.env import Locomotion
from slewrl.locomotion.tasks import TASKS

HARSH = {"noise": 2, "friction": (0.4, 1.2), "push": 1.0, "resample": 0.5}


def accelerated(task, share=0.3):
    """The paper's limits, with an acceleration of a share of the rate in a step."""
    plain = RateLimits.preset(task, "paper")
    return RateLimits(**plain._parts() | {"acceleration": share * plain.delta / plain.dt**2})


def vec_env(task, count, limits=None, **changes):
    made = Locomotion(replace(TASKS[task], options=replace(TASKS[task].options, **changes)),
                      limits or accelerated(task), count)  # fmt: skip
    made.reset(0)
    return made


def wild(of, generator, layer="ddsrad"):
    """Actions of random latents about a drift, NaNs and infinities among them."""
    drift = 2 * torch.randint(-1, 2, (of.limits.dim,), generator=generator)
    latent = drift + torch.randn(of.count, of.limits.dim, generator=generator)
    odd = torch.rand(latent.shape, generator=generator)
    latent[odd < 0.01], latent[odd > 0.99] = float("nan"), float("inf")
    box = of.limits.box_after(torch.from_numpy(of.observations))
    return make_layer(layer).execute(latent, box).numpy()


@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("task", ["G1-flat", "H1-flat"])
def test_no_violation_at_the_actuator_and_the_last_increment_is_seen(task, delay):
    made = vec_env(task, 8, delay=delay, **HARSH)
    limits, d = made.limits, made.limits.dim
    generator, checked, given = torch.Generator().manual_seed(0), 0, []
    step = made.physics.step
    made.physics.step = lambda control: (given.append(control.copy()), step(control))[1]
    running = [[made.reset_action] * 2 for _ in range(8)]
    assert not made.observations[:, -2 * d : -d].any()
    for _ in range(100):
        before, actions = made.observations[:, -d:], wild(made, generator)
        moved = made.step(actions)
        assert np.array_equal(moved.next_obs[:, -2 * d :], np.concatenate([actions - before, actions], 1))
        assert not made.observations[moved.ended, -2 * d : -d].any()
        over = iter(made.episodes)
        for k, chain in enumerate(running):
            chain.append(given[-1][k])
            if made.clock[k] == 0:
                path = np.stack(chain)
                assert np.array_equal(next(over).actions, path[1:])  # what is audited is what MuJoCo got
                assert not limits.outside(path[2:], path[1:-1], path[:-2]).any()
                assert not too_sharp(path[2:], path[1:-1], path[:-2], limits.acceleration, limits.deceleration).any()
                checked += len(path) - 2
                running[k] = [made.reset_action] * 2
    assert made.violations() == 0 and checked > 100


def test_a_saved_state_goes_on_to_the_bit():
    made, again = (vec_env("G1-flat", 4, delay=1, **HARSH) for _ in range(2))
    generator = torch.Generator().manual_seed(1)
    for _ in range(40):
        made.step(wild(made, generator))
    again.set_state(made.get_state())
    for _ in range(30):
        actions = wild(made, generator)
        for one, other in zip(made.step(actions), again.step(actions), strict=True):
            assert np.array_equal(one, other)
        assert np.array_equal(made.observations, again.observations)
    assert made.violations() == again.violations() == 0


def test_a_world_that_blows_up_keeps_the_rest_of_what_it_saw():
    made = vec_env("G1-flat", 2)
    made.physics.qvel[1, 8] = 1e12
    before, hold = made.observations.copy(), made.observations[:, -13:].copy()
    moved = made.step(hold)
    assert moved.terminated.tolist() == [False, True]
    assert np.array_equal(moved.next_obs[1, :-26], before[1, :-26])
    assert np.array_equal(moved.next_obs[1, -13:], hold[1])


def test_the_last_increment_is_mirrored_as_the_action_is():
    plain, made = vec_env("G1-flat", 1, RateLimits.preset("G1-flat", "paper")), vec_env("G1-flat", 1)
    assert made.layout.parts == plain.layout.parts and made.layout.size == plain.layout.size + 13 == 68
    index, sign = made.layout.mirror.observation_index, made.layout.mirror.observation_sign
    assert np.array_equal(index[-26:-13] + 13, index[-13:]) and np.array_equal(sign[-26:-13], sign[-13:])
    assert np.array_equal(index[-13:] - 55, made.layout.mirror.action_index)
    assert np.array_equal(np.sort(index), np.arange(68))


def test_there_is_no_mirror_image_under_an_acceleration_of_one_side():
    plain = RateLimits.preset("G1-flat", "paper")
    uneven = dict.fromkeys(plain.names, 50.0) | {plain.names[0]: 60.0}
    assert vec_env("G1-flat", 1, RateLimits(**plain._parts() | {"acceleration": uneven})).layout.mirror is None
