"""TorchRL's SAC under rate limits: a transform for the environment, a distribution for the actor, and its own loss.

python examples/04_torchrl.py --frames 10000        # needs pip install "slewrl[torchrl]"
"""

import torch
import tyro
from tensordict.nn import InteractionType, TensorDictModule
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import CatTensors, Compose, DoubleToFloat, GymEnv, InitTracker, RewardSum, TransformedEnv
from torchrl.modules import MLP, NormalParamExtractor, ProbabilisticActor, ValueOperator
from torchrl.objectives import SACLoss, SoftUpdate

from slewrl import RateLimits
from slewrl.integrations.torchrl import RateLimitedNormal, RateLimitTransform, uniform_policy


def main(task: str = "Pendulum-v1", limits: str = "tight", frames: int = 10_000, warm_up: int = 1_000) -> None:
    """Train, and say how many of the steps broke a limit."""
    bounds = RateLimits.preset(task, limits)
    # F_t depends on the previous action, so actor and critic must see it; the distribution reads it by itself.
    joined = CatTensors(["observation", "previous_action"], "observation", del_keys=False)
    more = (joined, DoubleToFloat(), InitTracker(), RewardSum())
    env = TransformedEnv(GymEnv(task), Compose(RateLimitTransform(bounds), *more))
    net = torch.nn.Sequential(MLP(out_features=2 * bounds.dim, num_cells=[256, 256]), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale", "previous_action"],
        distribution_class=RateLimitedNormal,
        distribution_kwargs={"limits": bounds},
        default_interaction_type=InteractionType.RANDOM,
    )
    critic = ValueOperator(MLP(out_features=1, num_cells=[256, 256]), in_keys=["observation", "action"])
    replay = TensorDictReplayBuffer(storage=LazyTensorStorage(frames + warm_up), batch_size=256)
    start = env.rollout(warm_up, uniform_policy(bounds), break_when_any_done=False)
    critic(actor(start[:1].clone()))  # fills in the networks' input sizes
    replay.extend(start)
    loss = SACLoss(actor, critic, loss_function="l2", target_entropy=-bounds.dim)
    target, optimiser = SoftUpdate(loss, tau=0.005), torch.optim.Adam(loss.parameters(), lr=3e-4)
    for data in Collector(env, actor, frames_per_batch=100, total_frames=frames):
        replay.extend(data.reshape(-1).select(*start.keys(True, True)))
        for _ in range(len(data)):
            batch = replay.sample()
            losses = loss(batch)
            penalty = actor.get_dist(batch).penalty().mean()  # lambda E|u|^2, which keeps latents off the plateau
            sum((losses["loss_actor"], losses["loss_qvalue"], losses["loss_alpha"], penalty)).backward()
            optimiser.step()
            optimiser.zero_grad()
            target.step()
        if len(returns := data["next", "episode_reward"][data["next", "done"]]):
            print(f"{env.transform[0].counts.steps:,} steps: return {returns.mean().item():.0f}")
    counts = env.transform[0].counts
    print(f"{counts.steps:,} steps, {counts.violations} beyond a limit, {counts.moved} commands moved by the guard")


if __name__ == "__main__":
    tyro.cli(main)
