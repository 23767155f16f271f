"""PPO of rsl_rl under rate limits: on rsl_rl itself where it is installed, and (slow) on mjlab's G1."""

import dataclasses
import importlib.util
import inspect
import sys

import numpy as np
import pytest
import torch

from slewrl import RateLimits, make_layer
from slewrl.errors import UserFacingError
from slewrl.metrics import rate_use

RSL_RL, MJLAB = (importlib.util.find_spec(name) is not None for name in ("rsl_rl", "mjlab"))
HERE = "slewrl.integrations.rsl_rl"
LIMITS = RateLimits({"hip": "0.1", "knee": "0.3", "ankle": "0.2"}, [-1, -0.7, -1], [1, 1, 0.6])
SHARP = RateLimits(**LIMITS._parts() | {"acceleration": "0.02", "deceleration": "0.03"})
COUNT, STEPS = 8, 16
START = LIMITS.clamp(torch.tensor([0.1, 0.2, -0.3]))
needs_rsl_rl = pytest.mark.skipif(not RSL_RL, reason="needs rsl_rl")

if RSL_RL:
    from rsl_rl.env import VecEnv
    from rsl_rl.runners import OnPolicyRunner
    from tensordict import TensorDict

    from slewrl.integrations.rsl_rl import RateLimitedVecEnv
else:
    VecEnv = object


def test_without_rsl_rl_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "rsl_rl.algorithms", None)
    monkeypatch.delitem(sys.modules, HERE, raising=False)
    with pytest.raises(UserFacingError, match=r"pip install 'slewrl\[rsl_rl\]'"):
        importlib.import_module(HERE)


class Follow(VecEnv):
    """Reward for a command near a goal that is seen; episodes end after 7 to 14 steps, by time-out or otherwise."""

    num_actions, max_episode_length, device, cfg = 3, 14, "cpu", {}

    def __init__(self, count=COUNT, limits=LIMITS):
        self.num_envs, self.ids, self.judge = count, torch.arange(count), limits
        self.start = limits.clamp(START).numpy()
        self.episode_length_buf = torch.zeros(count, dtype=torch.long)
        self.goal = torch.zeros(count, 3)
        self.chains, self.episodes = [[self.start] for _ in range(count)], []
        """What ``step`` was handed, by environment and episode, the reset action first."""
        self._begin(self.ids >= 0)

    def _begin(self, ids):
        self.goal[ids] = torch.rand(int(ids.sum()), 3) - 0.5
        self.episode_length_buf[ids] = 0
        for k in ids.nonzero().squeeze(1).tolist():
            self.episodes.append(np.array(self.chains[k]))
            self.chains[k] = [self.start]

    def get_observations(self):
        return TensorDict({"policy": 100 + 10 * self.goal}, [self.num_envs])

    def reset(self):
        self._begin(self.ids >= 0)
        return self.get_observations(), {}

    def step(self, actions):
        assert actions.dtype == torch.float32 and actions.shape == (self.num_envs, 3)
        for chain, action in zip(self.chains, actions.numpy().copy(), strict=True):
            chain.append(action)
        reward = -(actions - self.goal).square().sum(1)
        self.episode_length_buf += 1
        over = self.episode_length_buf >= 7 + self.ids % 8
        self._begin(over)
        return self.get_observations(), reward, over.long(), {"time_outs": over & (self.ids % 2 == 0)}

    def violations(self):
        chains = [*self.episodes, *(np.array(chain) for chain in self.chains)]
        return sum(rate_use(chain, self.judge).violations for chain in chains)


def config(**changed):
    network = {"hidden_dims": [32], "activation": "elu", "obs_normalization": True}
    cfg = {
        "num_steps_per_env": STEPS,
        "save_interval": 1000,
        "obs_groups": {"actor": ["previous_action", "policy"], "critic": ["policy", "previous_action"]},
        "algorithm": {"class_name": f"{HERE}:RateLimitedPPO", "rnd_cfg": None, "learning_rate": 3e-3},
        "actor": {
            "class_name": f"{HERE}:RateLimitedActor",
            **network,
            "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0},
        },
        "critic": {"class_name": f"{HERE}:RateLimitedCritic", **network},
    }
    for path, value in changed.items():
        part, key = path.split("__")
        cfg[part][key] = value
    return cfg


def make_runner(env=None, **changed):
    torch.manual_seed(0)
    env = env or RateLimitedVecEnv(Follow(), LIMITS, reset_action=START)
    return OnPolicyRunner(env, config(**changed), None, "cpu")


# ---------------------------------------------------------------------- what reaches the environment


@needs_rsl_rl
@pytest.mark.parametrize("layer", ["ddsrad", "dtanh", "boxpro"])
def test_every_command_is_in_its_limits_in_training_after_resets_and_after_loading(layer, tmp_path):
    env = RateLimitedVecEnv(Follow(), LIMITS, layer, START)
    runner = make_runner(env)
    runner.learn(4, init_at_random_ep_len=True)
    runner.save(str(tmp_path / "model.pt"))
    again = make_runner(env)
    again.load(str(tmp_path / "model.pt"))
    obs = env.get_observations()
    assert torch.equal(again.get_inference_policy()(obs), runner.get_inference_policy()(obs))
    again.learn(2)
    env.reset()
    assert torch.equal(env.get_observations()["previous_action"], START.expand(COUNT, 3))
    policy = again.get_inference_policy()
    with torch.inference_mode():
        for _ in range(20):
            env.step(policy(env.get_observations()))
    assert env.violations() == 0 and sum(map(len, env.episodes)) > 600
    assert all((episode[0] == START.numpy()).all() for episode in env.episodes)


def sharp_env(layer="ddsrad"):
    return RateLimitedVecEnv(Follow(limits=SHARP), SHARP, layer, START)


@needs_rsl_rl
@pytest.mark.parametrize("layer", ["ddsrad", "boxpro"])
def test_so_it_is_under_an_acceleration_limit(layer, tmp_path):
    """Actor and critic see the last increment and the last command to the bit, and the rest normalised."""
    env = sharp_env(layer)
    runner = make_runner(env)
    runner.learn(4, init_at_random_ep_len=True)
    obs = env.get_observations()
    assert obs["previous_action"].shape == (COUNT, 6)
    for model in (runner.alg.actor, runner.alg.critic):
        seen = model.get_latent(obs)
        assert seen.shape == (COUNT, 9) and torch.equal(seen[:, 3:], obs["previous_action"])
        assert seen[:, :3].abs().max() < 10 < obs["policy"].min()
    runner.save(str(tmp_path / "model.pt"))
    again = make_runner(env)
    again.load(str(tmp_path / "model.pt"))
    again.learn(2)
    env.reset()
    start = SHARP.clamp(START).expand(COUNT, 3)
    assert torch.equal(env.get_observations()["previous_action"], torch.cat([torch.zeros(COUNT, 3), start], 1))
    policy = again.get_inference_policy()
    with torch.inference_mode():
        for t in range(40):
            before = env.commands.last.clone()
            latent = policy(env.get_observations()) if t % 2 else 10 * torch.randn(COUNT, 3)
            obs, _, dones, _ = env.step(latent)
            executed = torch.tensor(np.array([chain[-1] for chain in env.chains]))
            moved = torch.cat([executed - before, executed], 1)[~dones.bool()]
            assert torch.equal(obs["previous_action"][~dones.bool()], moved)
    assert env.violations() == 0 and sum(map(len, env.episodes)) > 600


@needs_rsl_rl
def test_whatever_the_policy_sends():
    env = RateLimitedVecEnv(Follow(), LIMITS, reset_action=START)
    for t in range(100):
        latent = 10 * torch.randn(COUNT, 3)
        latent[t % COUNT, t % 3] = (float("nan"), float("inf"), -float("inf"), 1e30)[t % 4]
        before = env.get_observations()["previous_action"]
        obs, _, dones, _ = env.step(latent)
        after = torch.where(dones.bool()[:, None], START, env.commands.last)
        assert torch.equal(obs["previous_action"], after)
        held = latent.isnan() & ~dones.bool()[:, None]
        assert torch.equal(after[held], before[held])
    assert env.violations() == 0 and env.commands.nans == 25


@needs_rsl_rl
def test_stock_ppo_with_the_clip_by_hand_breaks_them():
    """The same runner and environment, rsl_rl's own classes, np.clip(action, prev - delta, prev + delta)."""

    class Clipped(Follow):
        def step(self, actions):
            prev = np.array([chain[-1] for chain in self.chains])
            delta = LIMITS.delta.astype(np.float32)
            low, high = LIMITS.low.astype(np.float32), LIMITS.high.astype(np.float32)
            wanted = np.clip(actions.numpy(), low, high)
            return super().step(torch.from_numpy(np.clip(wanted, prev - delta, prev + delta)))

    env = Clipped()
    cfg = config(algorithm__class_name="PPO", actor__class_name="MLPModel", critic__class_name="MLPModel")
    cfg["obs_groups"] = {"actor": ["policy"], "critic": ["policy"]}
    OnPolicyRunner(env, cfg, None, "cpu").learn(4)
    assert env.violations() > 50


# ---------------------------------------------------------------------- what PPO learns from


@needs_rsl_rl
def test_stored_actions_are_latents_and_the_first_ratio_is_one():
    runner = make_runner()
    ppo, env = runner.alg, runner.env
    obs = env.get_observations()
    latents = []
    with torch.inference_mode():
        for _ in range(STEPS):
            before = env.commands.last.clone()
            latents.append(ppo.act(obs))
            obs, rewards, dones, _ = env.step(latents[-1])
            executed = torch.tensor(np.array([chain[-1] for chain in env.chains]))
            expected = make_layer("ddsrad").execute(latents[-1], LIMITS.box(before))
            assert torch.equal(executed[~dones.bool()], expected[~dones.bool()])
            # The normaliser has to stand still for this: its statistics are part of the policy.
            ppo.transition.rewards, ppo.transition.dones = rewards.clone(), dones
            assert torch.equal(ppo.transition.observations["previous_action"], before)  # not written over by the step
            ppo.storage.add_transition(ppo.transition)
            ppo.transition.clear()
    assert torch.equal(ppo.storage.actions, torch.stack(latents))
    flat = ppo.storage.observations.flatten(0, 1)
    ppo.actor(flat, stochastic_output=True)
    again = ppo.actor.get_output_log_prob(ppo.storage.actions.flatten(0, 1))
    torch.testing.assert_close(again, ppo.storage.actions_log_prob.flatten())
    mean, std = ppo.actor.output_mean, ppo.actor.output_std
    gaussian = -0.5 * ((torch.cat(latents) - mean) / std).square() - std.log() - 0.5 * np.log(2 * np.pi)
    torch.testing.assert_close(again, gaussian.sum(1))


@needs_rsl_rl
def test_the_networks_see_the_previous_action_as_it_is():
    runner = make_runner()
    runner.learn(2)
    obs = runner.env.get_observations()
    for model in (runner.alg.actor, runner.alg.critic):
        seen = model.get_latent(obs)
        assert seen.shape == (COUNT, 6) and torch.equal(seen[:, 3:], obs["previous_action"])
        assert seen[:, :3].abs().max() < 10 < obs["policy"].min()  # the rest is normalised
        assert model.obs_normalizer.seen.count == 2 * STEPS * COUNT


def distances(runner):
    """How far from the goal after each of six steps, without noise, rad."""
    env, policy = runner.env, runner.get_inference_policy()
    env.reset()
    with torch.inference_mode():
        for _ in range(6):
            env.step(policy(env.get_observations()))
            yield (env.commands.last - env.goal).abs().mean().item()


@needs_rsl_rl
def test_it_learns_under_the_limits():
    runner = make_runner(RateLimitedVecEnv(Follow(64), LIMITS, reset_action=START), algorithm__entropy_coef=0.0)
    before = list(distances(runner))
    runner.learn(20)
    after = list(distances(runner))
    assert after[-1] < 0.25 and before[-1] > 0.5 and runner.env.violations() == 0


# ---------------------------------------------------------------------- what is exported


@needs_rsl_rl
@pytest.mark.filterwarnings("ignore")
def test_an_exported_policy_has_the_layer_in_it(tmp_path):
    onnx = pytest.importorskip("onnx")
    runner = make_runner()
    runner.learn(2)
    runner.export_policy_to_onnx(str(tmp_path), "policy.onnx")
    runner.export_policy_to_jit(str(tmp_path), "policy.pt")
    prev = LIMITS.box(START.expand(COUNT, 3)).sample()
    obs = TensorDict({"policy": 100 + 5 * torch.randn(COUNT, 3), "previous_action": prev}, [COUNT])
    latent = runner.get_inference_policy()(obs).detach()
    expected = make_layer("ddsrad").execute(latent, LIMITS.box(prev))
    scripted = torch.jit.load(str(tmp_path / "policy.pt"))(obs["policy"], prev)
    torch.testing.assert_close(scripted, expected)
    graph = onnx.load(str(tmp_path / "policy.onnx"))
    names = [[value.name for value in side] for side in (graph.graph.input, graph.graph.output)]
    assert names == [["observation", "previous_action"], ["action"]]
    evaluator = onnx.reference.ReferenceEvaluator(graph)
    for k in range(COUNT):
        row = {"observation": obs["policy"][k : k + 1].numpy(), "previous_action": prev[k : k + 1].numpy()}
        (action,) = evaluator.run(None, row)
        np.testing.assert_allclose(action, expected[k : k + 1], atol=1e-6)
        assert not LIMITS.outside(action, prev[k : k + 1].numpy()).any()


@needs_rsl_rl
@pytest.mark.filterwarnings("ignore")
def test_so_it_has_under_an_acceleration_limit_with_the_velocity_as_an_input(tmp_path):
    from slewrl.deploy.export import DeployedPolicy

    onnx = pytest.importorskip("onnx")
    runner = make_runner(sharp_env())
    runner.learn(2)
    with pytest.raises(UserFacingError, match="cannot be traced as TorchScript.*export_policy_to_onnx"):
        runner.export_policy_to_jit(str(tmp_path), "policy.pt")
    if len(inspect.signature(DeployedPolicy.forward).parameters) < 4:
        pytest.skip("needs DeployedPolicy under acceleration limits")
    runner.export_policy_to_onnx(str(tmp_path), "policy.onnx")
    before = SHARP.clamp(START.expand(COUNT, 3))
    prev = SHARP.box(before, velocity=0 * before).sample()
    obs = TensorDict({"policy": 100 + 5 * torch.randn(COUNT, 3)}, [COUNT])
    obs["previous_action"] = torch.cat([prev - before, prev], 1)
    latent = runner.get_inference_policy()(obs).detach()
    expected = make_layer("ddsrad").execute(latent, SHARP.box(prev, velocity=prev - before))
    graph = onnx.load(str(tmp_path / "policy.onnx"))
    names = [[value.name for value in side] for side in (graph.graph.input, graph.graph.output)]
    assert names == [["observation", "previous_action", "previous_velocity"], ["action"]]
    evaluator = onnx.reference.ReferenceEvaluator(graph)
    for k in range(COUNT):
        rows = (x[k : k + 1].numpy() for x in (obs["policy"], prev, prev - before))
        (action,) = evaluator.run(None, dict(zip(names[0], rows, strict=True)))
        np.testing.assert_allclose(action, expected[k : k + 1], atol=1e-5)
        assert not SHARP.outside(action, prev[k : k + 1].numpy(), before[k : k + 1].numpy()).any()


@needs_rsl_rl
def test_an_actor_without_limits_exports_no_latents():
    runner = make_runner(algorithm__class_name="PPO")
    with pytest.raises(UserFacingError, match="would export latents: name '.*RateLimitedPPO' as the algorithm"):
        runner.export_policy_to_jit("nowhere")


# ---------------------------------------------------------------------- bad input


@needs_rsl_rl
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"actor__class_name": "MLPModel"}, "expected '.*RateLimitedActor': another one normalises"),
        ({"critic__class_name": "MLPModel"}, "expected '.*RateLimitedCritic': another one normalises"),
        ({"obs_groups__actor": ["policy"]}, r"obs_groups\['actor'\] is \['policy'\], expected 'previous_action' among"),
        ({"obs_groups__critic": ["policy"]}, r"obs_groups\['critic'\] is \['policy'\]"),
    ],
)
def test_a_configuration_that_would_not_do(changed, message):
    with pytest.raises(ValueError, match=message):
        make_runner(**changed)


@needs_rsl_rl
def test_an_environment_that_would_not_do(monkeypatch):
    with pytest.raises(ValueError, match=r"2 joints \(joint0, joint1\), but the environment takes 3 actions"):
        RateLimitedVecEnv(Follow(), RateLimits([0.1, 0.2], -1, 1))
    with pytest.raises(ValueError, match="'none' limits nothing"):
        RateLimitedVecEnv(Follow(), LIMITS, "none")
    with pytest.raises(ValueError, match="Follow: reset_action is <function .*expected one fixed pose"):
        RateLimitedVecEnv(Follow(), LIMITS, reset_action=lambda env: [0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"wrap it in RateLimitedVecEnv\(env, limits\)"):
        make_runner(Follow())
    monkeypatch.setattr(Follow, "clip_actions", 1.0, raising=False)
    with pytest.raises(ValueError, match="clip_actions is 1.0: it would change commands after the limit"):
        RateLimitedVecEnv(Follow(), LIMITS)
    monkeypatch.setattr(Follow, "clip_actions", None)
    monkeypatch.setattr(Follow, "action_manager", None, raising=False)
    with pytest.raises(ValueError, match="scale and shift actions after the limit.*RateLimitedJointPositionActionCfg"):
        RateLimitedVecEnv(Follow(), LIMITS)


@needs_rsl_rl
def test_a_previous_action_that_was_changed_on_its_way_is_refused(monkeypatch):
    env = RateLimitedVecEnv(Follow(), LIMITS, reset_action=START)
    shown = env._augmented
    monkeypatch.setattr(env, "_augmented", lambda obs: shown(obs).update({"previous_action": 5 * env.commands.last}))
    with pytest.raises(ValueError, match="'previous_action' of 'hip' in robot 0 is 0.5, but 0.1 was commanded"):
        make_runner(env)
    monkeypatch.setattr(env, "_augmented", lambda obs: shown(obs).update({"previous_action": 0.5 * env.commands.last}))
    with pytest.raises(ValueError, match="'previous_action' of 'hip' in robot 0 is 0.05, but 0.1 was commanded"):
        make_runner(env)  # in range, and yet not what was commanded
    monkeypatch.setattr(env, "_augmented", lambda obs: obs)
    with pytest.raises(ValueError, match=r"no observations 'previous_action', only \['policy'\]: give it a group"):
        make_runner(env)


@needs_rsl_rl
def test_so_is_a_velocity(monkeypatch):
    env = sharp_env()
    shown, commands = env._augmented, env.commands
    monkeypatch.setattr(env, "_augmented", lambda obs: shown(obs).update({"previous_action": commands.last.clone()}))
    with pytest.raises(ValueError, match=r"shape \(8, 3\), expected \(8, 6\): two entries, velocity and action, per"):
        make_runner(env)
    doubled = torch.tensor([2.0, 2.0, 2.0, 1.0, 1.0, 1.0])
    changed = lambda obs: shown(obs).update({"previous_action": commands.appended * doubled})  # noqa: E731
    monkeypatch.setattr(env, "_augmented", changed)
    runner = make_runner(env)  # at rest it looks the same
    with pytest.raises(ValueError, match="'previous_action' of the velocity of 'hip' in robot 0 is .* was commanded"):
        runner.learn(1)


@needs_rsl_rl
def test_one_that_is_changed_from_the_first_step_on_is_refused_then(monkeypatch):
    """A reset action of 0 looks the same in all units."""
    env = RateLimitedVecEnv(Follow(), LIMITS, reset_action=0)
    shown = env._augmented
    monkeypatch.setattr(env, "_augmented", lambda obs: shown(obs).update({"previous_action": 0.5 * env.commands.last}))
    runner = make_runner(env)
    with pytest.raises(ValueError, match="'previous_action' of 'hip' in robot 0 is .* was commanded"):
        runner.learn(1)


# ---------------------------------------------------------------------- mjlab


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not MJLAB, reason="needs mjlab")
def test_ppo_on_mjlabs_g1_never_breaks_the_limits_at_the_actuators(tmp_path, monkeypatch):
    import mjlab.tasks  # noqa: F401
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.rl import RslRlVecEnvWrapper
    from mjlab.tasks.registry import load_env_cfg, load_rl_cfg, load_runner_cls

    from slewrl.integrations.mjlab_action import ActuatorAudit, rate_limit

    monkeypatch.setenv("WANDB_MODE", "disabled")
    task, limits = "Mjlab-Velocity-Flat-Unitree-G1", RateLimits.preset("G1", "paper")
    cfg, agent = load_env_cfg(task), load_rl_cfg(task)
    rate_limit(cfg, agent, "G1:paper", hold_others=True)
    cfg.scene.num_envs, agent.logger, agent.num_steps_per_env = COUNT, "tensorboard", 12
    env = ManagerBasedRlEnv(cfg, device="cpu")
    audit = ActuatorAudit(env, limits)
    wrapped = RslRlVecEnvWrapper(env)
    runner = load_runner_cls(task)(wrapped, dataclasses.asdict(agent), str(tmp_path), "cpu")
    env.episode_length_buf[:2] = env.max_episode_length - 5  # two episodes are cut off
    runner.learn(4)
    assert audit.steps == 4 * 12 * COUNT and audit.violations == 0, str(audit)
    assert env.common_step_counter == 48 and (env.episode_length_buf < 48).sum() >= 2
    # mjlab's runner has exported the policy as it saved it: with the layer, and mjlab's own metadata.
    import onnx

    (exported,) = tmp_path.glob("*.onnx")
    graph = onnx.load(str(exported))
    assert [value.name for value in graph.graph.input] == ["observation", "previous_action"]
    said = {prop.key: prop.value for prop in graph.metadata_props}
    assert said["action_scale"] == "1.0" and "left_knee_joint" in said["joint_names"]
    # Into a fresh runner: rsl_rl's own normaliser cannot be loaded into once it has learned.
    again = load_runner_cls(task)(wrapped, dataclasses.asdict(agent), None, "cpu")
    again.load(str(tmp_path / "model_3.pt"))
    assert torch.equal(again.alg.actor.mlp[0].weight, runner.alg.actor.mlp[0].weight)
    again.learn(1, init_at_random_ep_len=True)
    assert audit.steps == 5 * 12 * COUNT and audit.violations == 0 and audit.worst == 0, str(audit)
