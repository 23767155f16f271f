"""The incumbents as wrappers, with and without a limit behind them, and as options of a run."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from slewrl import RateLimit, RateLimits
from slewrl.calm.metrics import calm
from slewrl.envs.augment import Augment
from slewrl.envs.smoothing import ActionRatePenalty, FilterCommands
from slewrl.errors import UserFacingError
from slewrl.metrics import rate_use
from slewrl.training.checks import check_spec
from slewrl.training.policy import evaluate_run, load_policy
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import Trainer, train

LIMITS = RateLimits([0.1, 0.3], -1, 1, names=["shoulder", "elbow"])
KINDS = {"ema": {"cutoff": 3.0}, "butterworth": {"cutoff": 3.0}, "delta": {"scale": [0.4, 0.5]}}


def reacher():
    return gym.make("Reacher-v5")


def play(env, steps=50, seed=0):
    """Commands that the environment got, (T + 1, d), of random actions; and the observations."""
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    applied, seen = [np.zeros(2, np.float32)], [observation]
    for _ in range(steps):
        action = rng.choice([-1.0, 1.0], 2).astype(np.float32)
        observation, _, _, _, info = env.step(action)
        applied.append(info["applied_action"])
        seen.append(observation)
    return np.array(applied), np.array(seen)


@pytest.mark.parametrize("kind", KINDS)
def test_with_a_limit_behind_it_the_limit_holds(kind):
    free, _ = play(FilterCommands(reacher(), kind, **KINDS[kind]))
    assert rate_use(free, LIMITS).violations > 0
    env = FilterCommands(RateLimit(reacher(), LIMITS, mode="absolute"), kind, **KINDS[kind])
    held, seen = play(env)
    assert rate_use(held, LIMITS).violations == 0 and np.abs(np.diff(held, axis=0)).max() > 0.09
    assert np.array_equal(seen[:, -2:], held)  # the previous command stays last
    assert env.observation_space.contains(seen[-1])
    clips = np.isclose(np.abs(np.diff(held, axis=0)), LIMITS.delta, rtol=1e-4)
    assert clips.any()


@pytest.mark.parametrize("kind", KINDS)
def test_with_our_layer_behind_it_the_limit_holds(kind):
    """The filter is of latents there: its memory is none of the commands, so a policy has to see it."""
    plain, _ = play(RateLimit(reacher(), LIMITS))
    env = FilterCommands(RateLimit(reacher(), LIMITS), kind, **KINDS[kind])
    held, seen = play(env)
    assert rate_use(held, LIMITS).violations == 0 and np.array_equal(seen[:, -2:], held)
    assert (
        calm(held, 0.02, LIMITS).together()["second_difference"]
        < 0.5 * (calm(plain, 0.02, LIMITS).together()["second_difference"])
    )
    memory = seen[-1][-2 - env.memory.size : -2]
    assert memory == pytest.approx(env.memory.ravel(), rel=1e-5) and env.observation_space.contains(seen[-1])


def test_an_average_of_latents_bounds_the_second_difference():
    """w, in DD-SRad the share of the limit, changes by 2 alpha at most, so the increments over their limits do."""
    slow = RateLimits([0.005, 0.01], -1, 1, names=["shoulder", "elbow"])  # so that no command comes near its range
    env = FilterCommands(RateLimit(reacher(), slow), "ema", cutoff=3.0)
    held, _ = play(env, steps=45)
    v = np.diff(held.astype(float), axis=0) / slow.delta
    assert 0.9 * 2 * env.filter.alpha < np.abs(np.diff(v, axis=0)).max() <= 2 * env.filter.alpha + 1e-4


def test_an_average_behind_a_limit_is_a_smaller_limit():
    env = FilterCommands(RateLimit(reacher(), LIMITS, mode="absolute"), "ema", cutoff=3.0)
    env.reset(seed=0)
    before = np.zeros(2)
    for sign in (1, 1, -1, 1, -1, -1):
        *_, info = env.step((before + sign * LIMITS.delta).astype(np.float32))
        after = info["applied_action"].astype(float)
        assert after - before == pytest.approx(sign * env.filter.alpha * LIMITS.delta, rel=1e-4)
        before = after


def test_an_average_by_hand():
    env = FilterCommands(reacher(), "ema", cutoff=3.0)
    env.reset(seed=0)
    alpha, y = env.filter.alpha, 0.0
    for action in (1.0, 1.0, -0.5):
        y += alpha * (action - y)
        _, _, _, _, info = env.step(np.full(2, action, np.float32))
        assert info["applied_action"] == pytest.approx([y, y], abs=1e-6)
        y = float(info["applied_action"][0])


def test_the_memory_is_observed_unless_the_policy_sees_it_already():
    inner = RateLimit(reacher(), LIMITS, mode="absolute")
    sizes = {}
    for kind in ("ema", "butterworth"):
        for observed in (True, False):
            env = FilterCommands(RateLimit(reacher(), LIMITS, mode="absolute"), kind, cutoff=3.0, observed=observed)
            sizes[kind, observed] = env.observation_space.shape[0] - inner.observation_space.shape[0]
    assert sizes == {("ema", True): 0, ("ema", False): 0, ("butterworth", True): 4, ("butterworth", False): 0}
    bare = FilterCommands(reacher(), "ema", cutoff=3.0)
    applied, seen = play(bare, 5)
    assert seen[:, -2:] == pytest.approx(applied)
    env = FilterCommands(inner, "butterworth", cutoff=3.0)
    _, seen = play(env, 5)
    assert seen[-1][-6:-2] == pytest.approx(env.memory.ravel())


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_around_a_filter_is_refused(kind):
    """It would not see what the filter makes of the commands it allows."""
    with pytest.raises(ValueError, match="put the filter around the RateLimit"):
        RateLimit(gym.wrappers.TimeLimit(FilterCommands(reacher(), kind, **KINDS[kind]), 50), LIMITS, mode="absolute")


def test_the_price_begins_at_the_reset_action():
    limits = RateLimits([0.1, 0.3], -1, 1, reset=[0.5, -0.5])
    for inside in (Augment(reacher(), limits), RateLimit(reacher(), limits, mode="absolute")):
        env = ActionRatePenalty(inside, 1.0)
        env.reset(seed=0)
        assert env.step(np.array([0.5, -0.5], np.float32))[4]["action_rate_l2"] == pytest.approx(0, abs=1e-6)
        moved = env.step(np.array([0.6, -0.5], np.float32))[4]["action_rate_l2"]
        assert moved == pytest.approx(0.01, rel=1e-4)


def test_a_filter_asks_for_a_reset():
    env = FilterCommands(reacher().unwrapped, "ema", cutoff=3.0)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(np.zeros(2, np.float32))


def test_the_price_by_hand():
    plain, priced = reacher(), ActionRatePenalty(reacher(), 0.5)
    plain.reset(seed=0), priced.reset(seed=0)
    before = np.zeros(2)
    for action in np.array([[0.3, 0.0], [-0.1, 0.4], [-0.1, 0.4]], np.float32):
        reward, found = plain.step(action)[1], priced.step(action)
        rate = float(np.square(action.astype(float) - before).sum())
        assert found[1] == pytest.approx(reward - 0.5 * rate) and found[4]["action_rate_l2"] == pytest.approx(rate)
        before = action.astype(float)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("median",), "filter is 'median', expected one of ema, butterworth, delta"),
        (("ema",), "filter 'ema' takes a cutoff, in Hz"),
        (("delta", 3.0), "filter 'delta' takes a scale"),
    ],
)
def test_wrappers_that_do_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        FilterCommands(reacher(), *arguments)


# ---------------------------------------------------------------------- as options of a run

SPEC = RunSpec(
    task="Reacher-v5", limits="tight", steps=360, learning_starts=60, batch_size=16, capacity=200, evaluate_every=120,
    evaluate_episodes=1, seed=3, agent_options={"hidden": [16]},
)  # fmt: skip
OPTIONS = {
    "ema": {"filter": "ema", "cutoff": 4.0},
    "butterworth": {"filter": "butterworth", "cutoff": 4.0},
    "blind": {"filter": "butterworth", "cutoff": 4.0, "observed": False},
    "price": {"action_rate_l2": 0.1},
    "behind a layer": {"filter": "butterworth", "cutoff": 4.0},
}


def spec_of(name):
    return replace(SPEC, task_options=OPTIONS[name], layer="ddsrad" if name in ("price", "behind a layer") else "none")


@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_keeps_the_limit_and_resumes_bit_for_bit(name, tmp_path):
    spec = spec_of(name)
    check_spec(spec)
    whole, cut = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "cut")
    for folder in (whole, cut):
        folder.create(spec)
    assert train(spec, whole)
    trainer = Trainer(spec, cut)
    for _ in range(130):
        trainer.advance()
    trainer.save()
    del trainer
    assert train(spec, cut)
    for log in ("train.csv", "eval.csv"):
        last = [(folder.path / log).read_text().splitlines()[-1] for folder in (whole, cut)]
        assert last[0] == last[1]
    rows = np.genfromtxt(whole.path / "train.csv", delimiter=",", names=True)
    evaluation = np.genfromtxt(whole.path / "eval.csv", delimiter=",", names=True)
    assert (np.atleast_1d(rows["violations"]) == 0).all() and (evaluation["violations"] == 0).all()
    _, result = evaluate_run(whole.path, 2)
    assert result.row()["violations"] == 0 and result.row()["second_difference"] > 0
    assert load_policy(whole.path).evaluate(2).returns.tolist() == result.returns.tolist()


def test_an_evaluation_has_the_tasks_own_reward(tmp_path):
    """With a price of a million in training, a return is what it is without."""
    spec = replace(spec_of("price"), task_options={"action_rate_l2": 1e6})
    folder = RunFolder(tmp_path / "run")
    folder.create(spec)
    assert train(spec, folder)
    rows = [np.genfromtxt(folder.path / name, delimiter=",", names=True) for name in ("train.csv", "eval.csv")]
    assert np.atleast_1d(rows[0]["episode_return"])[-1] < -1e3 < np.atleast_1d(rows[1]["return_mean"])[-1]


def test_a_filter_is_not_exported_silently(tmp_path):
    from slewrl.deploy.export import deployable

    folder = RunFolder(tmp_path / "run")
    folder.create(spec_of("ema"))
    assert train(spec_of("ema"), folder)
    with pytest.raises(UserFacingError, match=r"trained with a filter .* \(task.filter=ema\)"):
        deployable(folder.path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task_options": {"filter": "mean"}}, "task.filter is 'mean', expected 'ema' or 'butterworth'"),
        ({"task_options": {"filter": "ema", "cutoff": 80}}, "cutoff is 80 Hz, expected one between 0 and 25 Hz"),
        ({"task_options": {"cutoff": 2.0}}, "task.cutoff is of a filter, and there is none"),
        ({"task_options": {"action_rate_l2": -1}}, "task.action_rate_l2 is -1, expected a finite number >= 0"),
        ({"task_options": {"observed": 1}}, "task.observed is 1, expected true or false"),
        ({"task_options": {"alpha": 1}}, "--set task.alpha: the task has no such option; it has: filter, cutoff"),
    ],
)
def test_options_that_do_not_fit(changes, message):
    with pytest.raises(ValueError, match=message):
        check_spec(replace(spec_of("ema"), **changes))
