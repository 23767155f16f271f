"""Soft actor-critic under rate limits in one file, in the manner of CleanRL: read it top to bottom, change anything.

python examples/06_cleanrl_sac.py --env-id HalfCheetah-v5 --limits tight --seed 1
tensorboard --logdir runs

Four things differ from SAC without limits, each marked LIMIT:
1. the observation ends in the previous executed action, since what is allowed next depends on it;
2. the actor's latent goes through an action layer, the last operation before env.step;
3. warm-up actions are drawn inside the feasible box, too;
4. the critic judges, and the replay stores, what the layer says was executed.
"""

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import nn, optim
from torch.utils.tensorboard import SummaryWriter

from slewrl import Action, RateLimits, make_layer
from slewrl.envs.augment import AugmentVector


@dataclass
class Args:
    """What can be changed from the command line."""

    exp_name: str = Path(__file__).stem
    """the name of this experiment"""
    seed: int = 1
    """seed of everything random"""
    torch_deterministic: bool = True
    """let cuDNN use deterministic algorithms only"""
    cuda: bool = True
    """use a GPU if there is one"""

    env_id: str = "HalfCheetah-v5"
    """a Gymnasium id with a bounded Box action"""
    limits: str = "tight"
    """a preset of the task, or a YAML file that RateLimits.to_yaml wrote"""
    layer: str = "ddsrad"
    """from latent to action: a name of slewrl.LAYERS"""
    total_timesteps: int = 1_000_000
    """environment steps, over all environments"""
    num_envs: int = 1
    """environments stepped side by side"""
    buffer_size: int = 1_000_000
    """transitions in the replay"""
    gamma: float = 0.99
    """discount"""
    tau: float = 0.005
    """how far the targets go towards the critics at each update"""
    batch_size: int = 256
    """transitions in a batch"""
    learning_starts: int = 5_000
    """steps of warm-up"""
    policy_lr: float = 3e-4
    """learning rate of the actor"""
    q_lr: float = 1e-3
    """learning rate of critics and temperature"""
    policy_frequency: int = 2
    """the actor is updated this many times, every so many steps"""
    autotune: bool = True
    """adapt the temperature to the target entropy"""
    alpha: float = 0.2
    """temperature, if it is not adapted"""


def make_env(env_id: str):
    """A function that makes one environment."""
    return lambda: gym.wrappers.RecordEpisodeStatistics(gym.make(env_id))


def read_limits(task: str, limits: str) -> RateLimits:
    """From a file, or the task's preset."""
    return RateLimits.from_yaml(limits) if Path(limits).is_file() else RateLimits.preset(task, limits)


class Critic(nn.Module):
    """Q(s, a); s ends in the previous action."""

    def __init__(self, observations: int, actions: int) -> None:
        super().__init__()
        sizes = (observations + actions, 256)
        self.net = nn.Sequential(nn.Linear(*sizes), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, observation: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """The value of each row, (B,)."""
        return self.net(torch.cat([observation, action], -1)).squeeze(-1)


class Actor(nn.Module):
    """A Gaussian latent, and the layer that makes an action of it."""

    def __init__(self, observations: int, limits: RateLimits, layer: str) -> None:
        super().__init__()
        self.limits, self.layer = limits, make_layer(layer)
        self.net = nn.Sequential(nn.Linear(observations, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.mean, self.log_std = nn.Linear(256, limits.dim), nn.Linear(256, limits.dim)

    def box(self, observation: torch.Tensor):
        """What is allowed next: F_t of the previous action, which the observation ends in."""
        return self.limits.box_after(observation)

    def get_action(self, observation: torch.Tensor) -> tuple[Action, torch.Tensor]:
        """An action drawn, with its log-probability (B,)."""
        hidden = self.net(observation)
        mean, std = self.mean(hidden), self.log_std(hidden).clamp(-20, 2).exp()
        # LIMIT 2: no tanh and no correction for it; the layer returns the log-probability of what it made.
        return self.layer.sample(mean, std, torch.randn_like(mean), self.box(observation))

    def get_random(self, observation: torch.Tensor) -> torch.Tensor:
        """An action uniform in what is allowed."""
        return self.layer.random(self.box(observation))


class Batch(NamedTuple):
    """Transitions, (B, ...) each."""

    observations: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    next_observations: torch.Tensor
    terminated: torch.Tensor


class ReplayBuffer:
    """A ring of transitions in float32, which holds actions of float32 environments without loss."""

    def __init__(self, size: int, observations: int, actions: int, device: torch.device) -> None:
        widths = (observations, actions, 1, observations, 1)
        self.columns = [np.zeros((size, width), np.float32) for width in widths]
        self.size, self.written, self.device = size, 0, device

    def add(self, *rows: np.ndarray) -> None:
        """As many transitions as there are environments."""
        where = np.arange(self.written, self.written + len(rows[0])) % self.size
        for column, values in zip(self.columns, rows, strict=True):
            column[where] = values.reshape(len(values), -1)
        self.written += len(rows[0])

    def sample(self, count: int) -> Batch:
        """Uniformly, with replacement."""
        where = np.random.randint(0, min(self.written, self.size), count)
        o, a, r, following, over = (torch.from_numpy(c[where]).to(self.device) for c in self.columns)
        return Batch(o, a, r.squeeze(-1), following, over.squeeze(-1))


if __name__ == "__main__":
    args = tyro.cli(Args)
    run_name = f"{args.env_id}__{args.exp_name}__{args.seed}__{int(time.time())}"
    writer = SummaryWriter(os.path.join("runs", run_name))
    rows = "\n".join(f"|{key}|{value}|" for key, value in vars(args).items())
    writer.add_text("hyperparameters", f"|param|value|\n|-|-|\n{rows}")

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")

    limits = read_limits(args.env_id, args.limits)
    makers = [make_env(args.env_id)] * args.num_envs
    envs = gym.vector.SyncVectorEnv(makers, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    envs = AugmentVector(envs, limits)  # LIMIT 1: observations end in the previous action
    n, d = envs.single_observation_space.shape[0], limits.dim

    actor = Actor(n, limits, args.layer).to(device)
    critics = nn.ModuleList(Critic(n, d) for _ in range(2)).to(device)
    targets = nn.ModuleList(Critic(n, d) for _ in range(2)).to(device).requires_grad_(False)
    targets.load_state_dict(critics.state_dict())
    q_optimizer = optim.Adam(critics.parameters(), lr=args.q_lr)
    actor_optimizer = optim.Adam(actor.parameters(), lr=args.policy_lr)

    target_entropy = actor.layer.target_entropy(limits)  # -d, in the units of the layer's density
    log_alpha = torch.zeros(1, requires_grad=True, device=device)
    a_optimizer = optim.Adam([log_alpha], lr=args.q_lr)
    alpha = log_alpha.exp().item() if args.autotune else args.alpha

    rb = ReplayBuffer(min(args.buffer_size, args.total_timesteps + args.num_envs), n, d, device)
    violations, episodes, start_time = 0, 0, time.time()
    obs, _ = envs.reset(seed=args.seed)
    for global_step in range(0, args.total_timesteps, args.num_envs):
        with torch.no_grad():
            seen = torch.from_numpy(obs).to(device)
            if global_step < args.learning_starts:
                executed = judged = actor.get_random(seen)  # LIMIT 3
            else:
                action, _ = actor.get_action(seen)
                executed, judged = action.executed, action.judged

        actions = executed.cpu().numpy()
        violations += int(envs.history.outside(actions).sum())  # decided exactly
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)

        # What the episode ended in, not what the next one begins with.
        real_next_obs = next_obs.copy()
        for k in np.flatnonzero(terminations | truncations):
            real_next_obs[k] = infos["final_obs"][k]
            use, episode = infos["rate_use"][k], infos["final_info"]["episode"]
            episodes += 1
            print(f"global_step={global_step}, episodic_return={episode['r'][k]:.1f}, violations={violations}")
            writer.add_scalar("charts/episodic_return", episode["r"][k], global_step)
            writer.add_scalar("charts/episodic_length", episode["l"][k], global_step)
            writer.add_scalar("charts/utilisation", use.utilisation, global_step)
            writer.add_scalar("charts/violations", violations, global_step)
        rb.add(obs, judged.cpu().numpy(), rewards, real_next_obs, terminations)  # LIMIT 4
        obs = next_obs
        if global_step < args.learning_starts:
            continue

        data = rb.sample(args.batch_size)
        with torch.no_grad():
            action, log_pi = actor.get_action(data.next_observations)
            values = torch.stack([q(data.next_observations, action.judged) for q in targets]).amin(0) - alpha * log_pi
            y = data.rewards + args.gamma * (1 - data.terminated) * values
        q_values = torch.stack([q(data.observations, data.actions) for q in critics])
        q_loss = (q_values - y).square().mean(-1).sum()
        q_optimizer.zero_grad()
        q_loss.backward()
        q_optimizer.step()

        step = global_step // args.num_envs
        if step % args.policy_frequency == 0:
            for _ in range(args.policy_frequency):  # makes up for the steps it was not updated in
                action, log_pi = actor.get_action(data.observations)
                q_pi = torch.stack([q(data.observations, action.judged) for q in critics]).amin(0)
                # The last term keeps latents where the layer has slope.
                actor_loss = (alpha * log_pi - q_pi + actor.layer.penalty_weight * action.penalty).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()
                if args.autotune:
                    alpha_loss = (-log_alpha.exp() * (log_pi.detach() + target_entropy)).mean()
                    a_optimizer.zero_grad()
                    alpha_loss.backward()
                    a_optimizer.step()
                    alpha = log_alpha.exp().item()

        with torch.no_grad():
            for slow, fast in zip(targets.parameters(), critics.parameters(), strict=True):
                slow.lerp_(fast, args.tau)

        if step % 100 == 0:
            sps = int(global_step / (time.time() - start_time))
            print("SPS:", sps)
            charts = {"losses/qf_values": q_values.mean(), "losses/qf_loss": q_loss / 2, "losses/alpha": alpha}
            charts |= {"losses/actor_loss": actor_loss, "losses/entropy": -log_pi.mean(), "charts/SPS": sps}
            for name, value in charts.items():
                writer.add_scalar(name, float(value), global_step)

    steps = global_step + args.num_envs
    print(f"{steps:,} steps, {episodes} episodes, {violations} violations of the rate limits (exact)")
    envs.close()
    writer.close()
