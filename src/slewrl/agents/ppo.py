"""PPO under rate limits (Schulman et al. 2017): the latent is PPO's action, and the layer maps it into F_t.

For a fixed previous action the layer is one fixed map, whose Jacobian is the same in both halves of the ratio
pi_new(a | s~) / pi_old(a | s~) and cancels. So ratio, KL divergence and entropy are those of the latent
u ~ N(mean, std), exactly, whatever the layer, and also where it clips and a has no density. The layer's
``penalty_weight`` times its penalty is part of the actor's loss, as in `sac.py`.

Collecting and learning take turns: T steps of every environment (`rollout.py`), then ``epochs`` passes over them in
minibatches. Networks run forward and backward by hand (`nets.py`), and actor, critic and log std lie in one vector, so
that clipping and Adam are one operation each. Values, means and log-probabilities of a rollout are computed in one
pass at its end, since the policy does not change before.
"""

import copy
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from slewrl.agents.action_value import ActionValue
from slewrl.agents.base import Agent, Floats, Sample
from slewrl.agents.config import COUNT, NETWORK, NOT_NEGATIVE, POSITIVE, SHARE, SWITCH, WIDTHS, check_config, one_of
from slewrl.agents.nets import Adam, Ensemble, as_module
from slewrl.agents.normalize import Normalizer
from slewrl.agents.replay import Batch
from slewrl.agents.rollout import Rollout, gae
from slewrl.copying import Copied
from slewrl.layers.base import ActionLayer, Decision
from slewrl.limits import RateLimits
from slewrl.limits.augmented import previous_action

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
SLOWEST, FASTEST = 1e-5, 1e-2
"""The adaptive learning rate stays between these, as in rsl_rl."""
AT_ONCE = 2048
"""Rows of a rollout that pass through a network together: more would only take memory, and fall out of the cache."""


@dataclass(frozen=True)
class PPOConfig:
    """Stable-Baselines3's PPO (2.x); what is not its own is marked ours."""

    rollout: Annotated[int, COUNT] = 2048
    """T: steps of each environment between two updates."""
    minibatch: Annotated[int, COUNT] = 64
    """Steps per gradient step."""
    epochs: Annotated[int, COUNT] = 10
    """Passes over a rollout."""
    learning_rate: Annotated[float, POSITIVE] = 3e-4
    """Of Adam (epsilon 1e-5), for everything."""
    clip_range: Annotated[float, POSITIVE] = 0.2
    """The ratio counts up to 1 + this, or down to 1 - this."""
    discount: Annotated[float, SHARE] = 0.99
    """gamma."""
    gae_lambda: Annotated[float, SHARE] = 0.95
    """lambda of the advantage estimates."""
    value_weight: Annotated[float, NOT_NEGATIVE] = 0.5
    """Of the squared error of the value in the loss."""
    entropy_weight: Annotated[float, NOT_NEGATIVE] = 0.0
    """Of the latent's entropy in the loss."""
    max_grad_norm: Annotated[float, POSITIVE] = 0.5
    """The gradient of all parameters together is clipped to this norm."""
    normalize_advantage: Annotated[bool, SWITCH] = True
    """Whether advantages have mean 0 and standard deviation 1 in each minibatch."""
    hidden: Annotated[tuple[int, ...], WIDTHS, NETWORK] = (64, 64)
    """Widths of the hidden layers of actor and critic, tanh between them."""
    normalize: Annotated[bool, SWITCH, NETWORK] = False
    """Whether to normalise observations, all but the previous action; ours. The statistics are those of the rollouts
    before, so that a rollout is learned from as it was collected."""
    desired_kl: Annotated[float, NOT_NEGATIVE] = 0.0
    """Above 0: the learning rate follows the KL divergence of each minibatch, as rsl_rl has it."""
    advantage: Annotated[str, one_of("gae", "action"), NETWORK] = "gae"
    """"gae", or "action": from a Q network of executed actions with replay (`action_value.py`); ours."""
    q_hidden: Annotated[tuple[int, ...], WIDTHS, NETWORK] = (128, 128)
    """Widths of each critic of "action"; ours."""
    q_updates: Annotated[float, POSITIVE] = 0.5
    """Updates of "action"'s critics per environment step, made before each update of the policy; ours."""
    q_draws: Annotated[int, COUNT] = 8
    """Actions drawn for the baseline of "action"; ours."""

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        check_config(self)


# ---------------------------------------------------------------------- formulas


def log_density(latent: NDArray[Any], mean: NDArray[Any], std: NDArray[Any]) -> NDArray[Any]:
    """log N(latent; mean, std) over joints: (B, d), (B, d) and (d,) to (B,)."""
    return standard_density(np.square((latent - mean) / std), std)


def standard_density(squares: NDArray[Any], std: NDArray[Any]) -> NDArray[Any]:
    """The same of the squares of standardised latents, (B, d)."""
    # As a product, which is faster than ``sum`` over a short axis.
    exponent: NDArray[Any] = squares @ np.full(len(std), -0.5, squares.dtype)
    return exponent - float(np.log(std).sum() + len(std) * LOG_SQRT_2PI)


def clipped_loss(ratio: NDArray[Any], advantage: NDArray[Any], clip: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """-min(A r, A clip(r, 1 - c, 1 + c)) of each step, and its slope in log r; (B,) each."""
    plain, limited = advantage * ratio, advantage * np.minimum(np.maximum(ratio, 1 - clip), 1 + clip)
    return -np.minimum(plain, limited), np.where(plain <= limited, -plain, 0)


def divergence(mean: NDArray[Any], std: NDArray[Any], new_mean: NDArray[Any], new_std: NDArray[Any]) -> NDArray[Any]:
    """KL(N(mean, std) || N(new_mean, new_std)) over joints: (B, d) and (d,) twice, to (B,)."""
    squares = (np.square(std) + np.square(mean - new_mean)) / (2 * np.square(new_std))
    kl: NDArray[Any] = (np.log(new_std / std) + squares - 0.5).sum(-1)
    return kl


def adapted_rate(rate: float, kl: float, desired: float) -> float:
    """rsl_rl's learning rate: 1.5 times less where the KL divergence is above twice the desired, more below half."""
    if kl > 2 * desired:
        return max(SLOWEST, rate / 1.5)
    return min(FASTEST, rate * 1.5) if 0 < kl < desired / 2 else rate


def check_latent(layer: ActionLayer) -> None:
    """Refuse a layer whose draws are no map of a Gaussian latent: there the Jacobian does not cancel."""
    if type(layer).sample is not ActionLayer.sample or type(layer).draw is not ActionLayer.draw:
        raise ValueError(
            f"layer {type(layer).__name__} does not map one draw of a Gaussian latent, whose ratio PPO needs: "
            "take one that does (interval_tanh and boxpro reach the same set)"
        )


# ---------------------------------------------------------------------- the agent


class PPO(Copied, Agent):
    """See the module.

    Args:
        config: hyperparameters.
        limits: of the d joints.
        layer: from latent to action; it needs a latent, which ``truncnorm`` has not.
        observation_size: n of the augmented observation.
        seed: of initial weights and of all noise.
    """

    Config: ClassVar[type[PPOConfig]] = PPOConfig
    on_policy = True
    networks = ("parameters", "normalizer")
    values = 1
    """How many critics of the state there are; an advantage that is not theirs needs none."""
    columns: tuple[str, ...] = ("critic_loss", "entropy", "kl", "clipped", "learning_rate")
    """What train.csv has of the last update; docs/metrics.md."""

    def __init__(
        self, config: PPOConfig, limits: RateLimits, layer: ActionLayer, observation_size: int, seed: int
    ) -> None:
        check_latent(layer)
        self.config, self.limits, self.layer, self.joints = config, limits, layer, limits.dim
        self.generator = torch.Generator().manual_seed(seed)
        n, d, hidden = observation_size, self.joints, config.hidden
        gains = (math.sqrt(2),) * len(hidden)
        self.actor = Ensemble(1, (n, *hidden, d), self.generator, "tanh")
        self.actor.make_orthogonal((*gains, 0.01), self.generator)
        values = 0 if config.advantage == "action" else self.values
        self.critics = [Ensemble(1, (n, *hidden, 1), self.generator, "tanh") for _ in range(values)]
        for critic in self.critics:
            critic.make_orthogonal((*gains, 1.0), self.generator)
        parameters = sum(len(net.flat) for net in (self.actor, *self.critics)) + d
        self.flat, self.grad = torch.zeros(parameters), torch.zeros(parameters)
        self._join()
        self.optimiser = Adam(self.flat, self.grad, config.learning_rate, config.max_grad_norm, 1e-5)
        self.normalizer = Normalizer(n, d)
        self.rollout: Rollout | None = None
        """The steps since the last update; None before the first step."""
        self.action_value = self._action_value(n)
        if self.action_value:
            self.columns = (*self.columns[1:], "q_loss")  # its critics' loss in the place of V's

    @property
    def replays(self) -> bool:
        """Whether the agent learns from a replay, too."""
        return self.action_value is not None

    def steps_before_learning(self, environments: int) -> int:
        """Steps of all environments before the first update."""
        return self.config.rollout * environments

    # ------------------------------------------------------------------ acting

    def act(self, observation: Tensor, explore: bool = True, averaged: bool = True) -> Decision:
        """An action for augmented observations (N, n): drawn, to be learned from, or that of the mean latent.

        What was drawn is part of the rollout; ``record`` has to follow.
        """
        mean = self.actor.forward(self._seen(observation))[0]
        box = self.limits.box_after(observation)
        if not explore:
            return self.layer.decide(mean, box)
        latent = torch.addcmul(mean, self.log_std.exp(), self._noise(mean.shape))
        if self.rollout is None:
            self.rollout = Rollout(self.config.rollout, len(observation), observation.shape[1], self.joints)
        self.rollout.begin(observation, latent)
        executed = self.layer.decide(latent, box).executed
        return Decision(executed, executed)

    def record(
        self, reward: Floats, following: Floats, terminated: NDArray[np.bool_], ended: NDArray[np.bool_]
    ) -> bool:
        """What came of the actions drawn last: (N,), (N, n), (N,), (N,); returns whether an update is due."""
        self._collected.end(reward, following, terminated, ended)
        return self._collected.full

    def abandon(self) -> None:
        """The episodes under way will not go on."""
        if self.rollout:
            self.rollout.abandon()

    def latent_module(self) -> nn.Module:
        """The mean latent (N, d) of augmented observations (N, n), as a module of its own, for export."""
        normalizer = [copy.deepcopy(self.normalizer)] if self.config.normalize else []
        return nn.Sequential(*normalizer, *as_module(self.actor, self.joints))

    # ------------------------------------------------------------------ learning

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what diverges is refused in plain words afterwards
    def improve(self, sample: Sample, environments: int = 1, log: bool = True) -> dict[str, float]:
        """Learn from the rollout and begin another; returns what to log.

        Args:
            sample: a batch of the replay; asked only where the agent ``replays``.
            environments: the rollout knows how many.
            log: whether they are read; there are few enough to make them always.
        """
        seen = self._seen(torch.from_numpy(_flat(self._collected.observation)))
        mean, std = outputs(self.actor, seen), self._std()
        advantage, targets, judged = self.judge(seen, sample)
        table = self._table(seen.numpy(), mean, std, advantage, targets)
        losses = np.array([self._descend(batch) for _ in range(self.config.epochs) for batch in self._shuffled(table)])
        kl = divergence(mean, std, outputs(self.actor, seen), self._std()).mean()
        if self.config.normalize:  # only now: a rollout is learned from as it was collected
            self.normalizer.update(torch.from_numpy(_flat(self._collected.observation)))
        self._collected.filled = 0
        critic_loss, clipped = losses.mean(0).tolist()
        entropy = float(self.log_std.sum()) + self.joints * (0.5 + LOG_SQRT_2PI)
        rate = self.optimiser.learning_rate
        about = {"critic_loss": critic_loss, "entropy": entropy, "kl": float(kl), "clipped": clipped}
        about |= {"learning_rate": rate, **judged}
        return {name: about[name] for name in self.columns}

    def judge(self, seen: Tensor, sample: Sample) -> tuple[NDArray[Any], list[NDArray[Any]], dict[str, float]]:
        """Of the rollout, as the networks see it (T N, n): advantages (T, N), targets of the critics, what to log."""
        if self.action_value is not None:
            return self._judge_actions(self.action_value, seen, sample)
        advantage, target = self.estimate(self.critics[0], seen, self._collected.reward)
        return advantage, [target], {}

    def _judge_actions(
        self, critics: ActionValue, seen: Tensor, sample: Sample
    ) -> tuple[NDArray[Any], list[NDArray[Any]], dict[str, float]]:
        """The same of the action-conditioned advantage: Q is fitted first, and there is no V to fit."""
        updates = max(1, round(self.config.q_updates * len(seen)))
        loss = np.mean([self._fit_action_value(critics, sample()) for _ in range(updates)])
        executed = torch.from_numpy(previous_action(_flat(self._collected.following), self.joints))
        some = zip(parts(seen), parts(executed), strict=True)
        judged = [critics.advantage(x, a, self._draw, self.config.q_draws) for x, a in some]
        return np.concatenate(judged).reshape(self._collected.reward.shape), [], {"q_loss": float(loss)}

    def estimate(self, critic: Ensemble, seen: Tensor, signal: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The advantages of a signal (T, N) that ``critic`` foresees, and the returns it is to be fitted to."""
        rollout, config = self._collected, self.config
        following = self._seen(torch.from_numpy(_flat(rollout.following)))
        value, next_value = (outputs(critic, x).reshape(signal.shape) for x in (seen, following))
        ends = (rollout.terminated, rollout.ended)
        advantage = gae(signal, value, next_value, *ends, config.discount, config.gae_lambda)
        return advantage, advantage + value

    def _table(
        self,
        seen: NDArray[Any],
        mean: NDArray[Any],
        std: NDArray[Any],
        advantage: NDArray[Any],
        targets: list[NDArray[Any]],
    ) -> Floats:
        """A row for each step of the rollout: all that a minibatch needs, side by side, so that it takes one copy."""
        latent = _flat(self._collected.latent)
        numbers = [log_density(latent, mean, std), advantage.ravel(), *(target.ravel() for target in targets)]
        self._std_before = std  # all steps share it
        return np.concatenate([seen, latent, mean, np.stack(numbers, -1)], -1, dtype=np.float32)

    def _shuffled(self, table: Floats) -> Any:
        """Minibatches of one pass, each in a buffer that the next one of its size overwrites.

        A last one of a single step joins the one before: alone its advantage could not be normalised.
        """
        order = torch.randperm(len(table), generator=self.generator).numpy()
        starts = list(range(0, len(order), self.config.minibatch))
        if len(order) % self.config.minibatch == 1 and len(starts) > 1:
            starts.pop()
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            some = order[start:end]
            if len(some) not in self._batches:
                self._batches[len(some)] = _Minibatch(len(some), table.shape[1], self.actor.sizes[0], self.joints)
            batch = self._batches[len(some)]
            table.take(some, axis=0, out=batch.table, mode="clip")  # "clip": the default would copy twice
            yield batch

    def _descend(self, batch: "_Minibatch") -> tuple[float, float]:
        """One gradient step on E[clipped loss + lambda penalty] - c_H entropy + c_V squared error of the value.

        Returns the squared error, and the share of ratios beyond the clip range.
        """
        config, size, std = self.config, len(batch.table), self._std()
        mean = self.actor.forward(batch.seen)[0].numpy()
        if config.desired_kl:
            kl = float(divergence(batch.mean, self._std_before, mean, std).mean())
            self.optimiser.learning_rate = adapted_rate(self.optimiser.learning_rate, kl, config.desired_kl)
        z = (batch.latent - mean) / std
        squares = z * z
        ratio = np.exp(standard_density(squares, std) - batch.log_prob)
        advantage = normalized(batch.advantage) if config.normalize_advantage and size > 1 else batch.advantage
        slope = clipped_loss(ratio, advantage, config.clip_range)[1] / size
        # d log N / d mean = z / std, and d log N / d log std = z^2 - 1
        to_mean, to_log_std = slope[:, None] * (z / std), slope @ (squares - 1) - config.entropy_weight
        if self.layer.penalty_weight:
            to_latent, noise = self._penalty(mean, std, batch)
            to_mean, to_log_std = to_mean + to_latent, to_log_std + (to_latent * noise * std).sum(0)
        self.actor.backward(batch.seen, torch.from_numpy(to_mean)[None])
        self.log_std_grad.copy_(torch.from_numpy(to_log_std))
        error = 0.0
        for critic, target in zip(self.critics, batch.targets, strict=True):
            errors = critic.fit(batch.seen, target).numpy().ravel()
            critic.grad.mul_(config.value_weight)
            error += float(errors @ errors) / size
        self.optimiser.step()
        return error, float(np.count_nonzero(np.abs(ratio - 1) > config.clip_range)) / size

    def _penalty(self, mean: NDArray[Any], std: NDArray[Any], batch: "_Minibatch") -> tuple[NDArray[Any], NDArray[Any]]:
        """The gradient of lambda E[penalty] in latents drawn anew, (B, d), and the noise they were drawn with."""
        noise = self._noise(mean.shape)
        latent = torch.from_numpy(mean + std * noise.numpy())
        judged, penalty, vjp_fn = self.layer.vjp(latent, self.limits.box(batch.previous, check=False))
        weight = torch.full_like(penalty, self.layer.penalty_weight / len(mean))
        return vjp_fn(torch.zeros_like(judged), weight).numpy(), noise.numpy()

    # ------------------------------------------------------------------ the action-conditioned advantage

    def _action_value(self, size: int) -> ActionValue | None:
        config = self.config
        if config.advantage != "action":
            return None
        return ActionValue(size, self.joints, config.q_hidden, config.learning_rate, config.discount, self.generator)

    def _fit_action_value(self, critics: ActionValue, batch: Batch) -> float:
        if self.config.normalize:
            batch.observations.copy_(self._seen(batch.observations))
        return critics.update(batch, self._draw)

    def _draw(self, seen: Tensor) -> Tensor:
        """Executed actions (B, d), drawn from the policy, for observations (B, n) as the networks see them."""
        mean = self.actor.forward(seen)[0]
        latent = torch.addcmul(mean, self.log_std.exp(), self._noise(mean.shape))
        return self.layer.decide(latent, self.limits.box_after(seen)).executed

    # ------------------------------------------------------------------ parts

    def _join(self) -> None:
        """Keep all parameters in one vector, their gradient in another, and the log std in both."""
        nets = [self.actor, *self.critics]
        sizes = [*(len(net.flat) for net in nets), self.joints]
        parts = list(zip(self.flat.split(sizes), self.grad.split(sizes), strict=True))  # type: ignore[no-untyped-call]
        for net, (flat, grad) in zip(nets, parts, strict=False):
            net.move(flat, grad)
        self.log_std, self.log_std_grad = parts[-1]
        self._batches: dict[int, _Minibatch] = {}

    @property
    def _collected(self) -> Rollout:
        if self.rollout is None:
            raise RuntimeError("no step was taken yet: act first")
        return self.rollout

    def _seen(self, observation: Tensor) -> Tensor:
        """What the networks are given; the previous action is as it was."""
        seen: Tensor = self.normalizer(observation) if self.config.normalize else observation
        return seen

    def _std(self) -> NDArray[np.float32]:
        std: NDArray[np.float32] = np.exp(self.log_std.numpy())
        return std

    def _noise(self, shape: Any) -> Tensor:
        return torch.randn(shape, generator=self.generator)

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """Everything the next step depends on, as tensors and numbers."""
        state: dict[str, Any] = {
            "parameters": self.flat,
            "optimiser": self.optimiser.state_dict(),
            "learning_rate": self.optimiser.learning_rate,
            "normalizer": self.normalizer.state_dict(),
            "generator": self.generator.get_state(),
            "rollout": self.rollout.state_dict() if self.rollout else None,
        }
        if self.action_value:
            state["action_value"] = self.action_value.state_dict()
        return copy.deepcopy(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where ``state_dict`` was taken."""
        self.flat.copy_(state["parameters"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.optimiser.learning_rate = state["learning_rate"]
        self.normalizer.load_state_dict(state["normalizer"])
        self.generator.set_state(state["generator"])
        self.rollout = Rollout.from_state(state["rollout"]) if state["rollout"] else None
        if self.action_value:
            self.action_value.load_state_dict(state["action_value"])

    def load_weights(self, state: dict[str, Any]) -> None:
        """Take the networks alone, those of the action-conditioned advantage with them."""
        super().load_weights(state)
        if self.action_value:
            self.action_value.load_weights(state["action_value"])


class _Minibatch:
    """The columns of B rows, as views into one buffer."""

    def __init__(self, size: int, width: int, n: int, d: int) -> None:
        self.table = np.empty((size, width), np.float32)
        whole = torch.from_numpy(self.table)
        self.seen, self.previous = whole[:, :n], previous_action(whole[:, :n], d)
        """(B, n), as the networks see it, and (B, d)."""
        self.latent, self.mean = self.table[:, n : n + d], self.table[:, n + d : n + 2 * d]
        """(B, d) each: what was drawn, and the mean it was drawn about."""
        self.log_prob, self.advantage = self.table[:, n + 2 * d], self.table[:, n + 2 * d + 1]
        """(B,) each: of what was drawn, when it was."""
        self.targets = list(whole[:, n + 2 * d + 2 :].unbind(-1))
        """(B,) for each critic."""


def outputs(net: Ensemble, x: Tensor) -> NDArray[np.float32]:
    """(B, out) of a network with one member, for (B, in)."""
    return np.concatenate([net.forward(part)[0].numpy().copy() for part in parts(x)])


def parts(x: Tensor) -> list[Tensor]:
    """Of ``AT_ONCE`` rows each, the last of what is left."""
    return [x[start : start + AT_ONCE] for start in range(0, len(x), AT_ONCE)]


def normalized(x: NDArray[Any]) -> NDArray[Any]:
    """To mean 0 and (sample) standard deviation 1, (B,)."""
    centred = x - x.mean()
    result: NDArray[Any] = centred / (math.sqrt(float(centred @ centred) / (len(x) - 1)) + 1e-8)
    return result


def _flat(x: NDArray[Any]) -> NDArray[Any]:
    """(T, N, k) to (T N, k)."""
    return x.reshape(-1, x.shape[-1])
