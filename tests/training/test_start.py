"""``--from RUN``: the networks of another run, nothing else of it, and a run that can be made again."""

import shutil
from dataclasses import replace

import pytest
import torch

from slewrl.agents import agent_class
from slewrl.training import checkpoint
from slewrl.training.checks import check_spec
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import Trainer, train

SMALL = {
    "sac": {"hidden": [16, 16]},
    "td3": {"hidden": [16, 16]},
    "fastsac": {"actor_hidden": [8], "critic_hidden": [8], "atoms": 11},
    "ppo": {"hidden": [8], "rollout": 64, "normalize": True, "advantage": "action", "q_hidden": [8], "q_updates": 0.1},
    "ppo_lag": {"hidden": [8], "rollout": 64},
}
SPEC = RunSpec(
    task="Pendulum-v1", steps=200, learning_starts=100, batch_size=16, capacity=300, evaluate_every=100, seed=7,
    evaluate_episodes=1, agent_options=SMALL["sac"],
)  # fmt: skip


def of(agent: str, **fields) -> RunSpec:
    layer = "none" if agent == "ppo_lag" else "ddsrad"
    return replace(SPEC, agent=agent, agent_options=SMALL[agent], layer=layer, **fields)


def trained(path, spec) -> RunFolder:
    folder = RunFolder(path)
    folder.create(spec)
    assert train(spec, folder)
    return folder


def equal(one, two) -> bool:
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(equal(one[key], two[key]) for key in one)
    return torch.equal(one, two) if isinstance(one, torch.Tensor) else one == two


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("start") / "source", SPEC)


@pytest.mark.parametrize("agent", SMALL)
def test_the_networks_are_the_others_and_the_rest_is_new(agent, tmp_path):
    there = trained(tmp_path / "there", of(agent))
    spec, folder = of(agent, start=str(there.path), seed=8, limits="wide"), RunFolder(tmp_path / "here")
    check_spec(spec)
    folder.create(spec)
    weights = checkpoint.use_newest(there.checkpoints, dict)[0]["agent"]
    found = Trainer(spec, folder).agent.state_dict()
    folder.start.unlink()
    fresh = Trainer(replace(spec, start=""), RunFolder(tmp_path / "fresh")).agent.state_dict()
    networks = agent_class(agent).networks
    for name, value in found.items():
        if name == "action_value":
            assert equal(value["critics"], weights[name]["critics"]) and equal(value["step"], fresh[name]["step"])
        else:
            assert equal(value, (weights if name in networks else fresh)[name]), name
    assert not equal(weights[networks[0]], fresh[networks[0]])


def test_it_goes_on_bit_for_bit_and_is_made_again_though_the_other_is_gone(source, tmp_path):
    there = tmp_path / "there"
    shutil.copytree(source.path, there)
    spec = replace(SPEC, start=str(there), seed=8)
    whole, parts = trained(tmp_path / "whole", spec), RunFolder(tmp_path / "parts")
    parts.create(spec)
    shutil.rmtree(there)
    assert parts.spec() == spec and parts.spec().start == str(there)
    trainer = Trainer(parts.spec(), parts)
    while trainer.step < 130:
        trainer.advance()
    trainer.save()
    assert train(parts.spec(), parts)
    ours, theirs = (checkpoint.use_newest(folder.checkpoints, dict)[0]["agent"] for folder in (whole, parts))
    assert equal(ours, theirs)
    last = [(folder.path / "eval.csv").read_text().splitlines()[-1] for folder in (whole, parts)]
    assert last[0] == last[1]
    plain = trained(tmp_path / "plain", replace(spec, start=""))
    assert (plain.path / "eval.csv").read_text() != (whole.path / "eval.csv").read_text()
    assert not plain.start.exists() and spec.key != replace(spec, start="").key


@pytest.mark.parametrize("agent", ["sac", "td3"])
def test_under_an_acceleration_limit_a_policy_of_the_rate_limit_goes_on(agent, tmp_path):
    """Its networks give the same latents and values, whatever v_prev is."""
    there = trained(tmp_path / "there", of(agent, limits="tight"))
    spec, folder = of(agent, start=str(there.path), seed=8, limits="tight_acceleration"), RunFolder(tmp_path / "here")
    check_spec(spec)
    folder.create(spec)
    before, after = (Trainer(*pair).agent for pair in ((there.spec(), there), (spec, folder)))
    before.load_weights(checkpoint.use_newest(there.checkpoints, dict)[0]["agent"])
    rng = torch.Generator().manual_seed(3)
    observation, velocity = torch.randn(64, 3, generator=rng), torch.rand(64, 1, generator=rng)
    prev = 4 * torch.rand(64, 1, generator=rng) - 2
    rows = [torch.cat(parts, -1) for parts in ((observation, prev), (observation, velocity, prev))]
    latents = [one.latent_module()(row) for one, row in zip((before, after), rows, strict=True)]
    assert torch.allclose(*latents, atol=1e-6)
    actions = torch.rand(64, 1, generator=rng)
    pairs = zip((before.critics, after.critics), rows, strict=True)
    assert torch.allclose(*[net.forward(torch.cat([row, actions], -1)).clone() for net, row in pairs], atol=1e-5)
    assert train(spec, folder)


def test_so_it_does_with_another_option_of_the_task(tmp_path):
    there = trained(tmp_path / "there", of("sac", limits="tight"))
    here = of("sac", start=str(there.path), limits="tight_acceleration", task_options={"action_rate_l2": 0.1})
    check_spec(here)


def test_what_an_acceleration_limit_does_not_let_over_is_refused(tmp_path):
    sharp = trained(tmp_path / "sharp", of("sac", limits="tight_acceleration"))
    with pytest.raises(ValueError, match="its limits have an acceleration, this run's have none"):
        check_spec(of("sac", start=str(sharp.path), limits="tight"))
    options = {**SMALL["sac"], "critic_input": "increment"}
    plain = trained(tmp_path / "plain", replace(of("sac", limits="tight"), agent_options=options))
    with pytest.raises(ValueError, match="critic_input=increment has another meaning"):
        check_spec(replace(of("sac", start=str(plain.path), limits="tight_acceleration"), agent_options=options))


def test_networks_without_v_prev_are_refused_where_they_are_not_widened(tmp_path):
    there = trained(tmp_path / "there", of("ppo", limits="tight"))
    with pytest.raises(ValueError, match="its networks are not of this run's size or kind"):
        check_spec(of("ppo", start=str(there.path), limits="tight_acceleration"))


def test_the_warm_up_acts_by_the_weights(source, tmp_path):
    """Uniform actions would fill the replay buffer with what no policy here does."""
    spec, folder = replace(SPEC, start=str(source.path), seed=8), RunFolder(tmp_path / "here")
    folder.create(spec)
    acted, uniform = Trainer(spec, folder), Trainer(replace(spec, start=""), RunFolder(tmp_path / "plain"))
    for trainer in (acted, uniform):
        while trainer.step < 50:
            trainer.advance()
    fresh = Trainer(spec, folder).agent.generator.get_state()
    assert not equal(acted.agent.generator.get_state(), fresh)  # which the policy's noise is drawn from
    assert equal(uniform.agent.generator.get_state(), fresh)


def test_a_copy_that_was_changed_is_refused(source, tmp_path):
    folder = trained(tmp_path / "here", replace(SPEC, start=str(source.path)))
    folder.start.write_bytes(folder.start.read_bytes()[:-1])
    (folder.path / "DONE").unlink()
    with pytest.raises(ValueError, match="start.ckpt is damaged"):
        train(folder.spec(), folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agent": "td3"}, "its agent is sac, this run's is td3"),
        ({"agent_options": {"hidden": [8, 8]}}, r"hidden is \(16, 16\) there, \(8, 8\) here"),
        ({"recipe": "paper"}, "layer_norm is True there, False here"),
        ({"task": "Reacher-v5"}, "its joints are .*, this run's are "),
    ],
)
def test_what_does_not_fit_is_refused(source, change, message):
    with pytest.raises(ValueError, match=f"--from .*: its weights do not fit this run: {message}"):
        check_spec(replace(SPEC, start=str(source.path), **change))


def test_weights_of_other_sizes_are_refused(source, tmp_path):
    """Whatever the other run.json says."""
    state, _ = checkpoint.use_newest(source.checkpoints, dict)
    other = tmp_path / "other"
    shutil.copytree(source.path, other)
    state["agent"]["actor"] = torch.zeros(5)
    checkpoint.save(other / "checkpoint", state["step"], state)
    with pytest.raises(ValueError, match=r"its networks are not of this run's size or kind \("):
        check_spec(replace(SPEC, start=str(other)))
    del state["agent"]["actor"]
    checkpoint.save(other / "checkpoint", state["step"], state)
    with pytest.raises(ValueError, match="there is no 'actor': it is of another version"):
        check_spec(replace(SPEC, start=str(other)))


def test_a_task_with_other_observations_is_refused(tmp_path):
    there = RunFolder(tmp_path / "there")
    spec = replace(of("fastsac"), task="G1-flat", limits="tight", environments=2)
    there.create(spec)
    trainer = Trainer(spec, there)
    trainer.save()
    with pytest.raises(ValueError, match="of G1-flat's observations is .*, of G1-rough's"):
        check_spec(replace(spec, task="G1-rough", start=str(there.path)))


def test_a_run_without_weights_is_refused(slewrl, source, tmp_path):
    empty = RunFolder(tmp_path / "empty")
    empty.create(SPEC)
    refused = slewrl("train", "--task", "Pendulum-v1", "--from", "empty", "--set", "agent.hidden=[16,16]")
    assert refused.returncode == 2 and "there is no checkpoint, so no weights to begin with" in refused.stderr
    assert slewrl("train", "--task", "Pendulum-v1", "--from", "nowhere").returncode == 2
    words = ("--steps", 60, "--learning-starts", 50, "--evaluate-episodes", 1, "--no-tensorboard", "--out", "r")
    made = slewrl("train", "--task", "Pendulum-v1", "--from", source.path, "--set", "agent.hidden=[16,16]", *words)
    assert made.returncode == 0 and "from the weights of" in made.stdout
    assert RunFolder(tmp_path / "r").spec().start == str(source.path)
