"""PPO under rate limits (Schulman et al. 2017): the latent is PPO's action, and the layer maps it into F_t.

For a given previous action the layer is a fixed map, whose Jacobian cancels in pi_new(a | s~) / pi_old(a | s~). So
ratio, KL divergence and entropy are exactly those of the latent u ~ N(mean, std), whatever the layer, even where it
clips. The layer's penalty is part of the actor's loss, as in `sac.py`.

Networks have hand-written backward passes (`nets.py`), and actor, critic and log std lie in one vector, so that
gradient clipping and Adam are one operation each. Values, means and log-probabilities of a rollout are computed in one
pass at its end.
"""

import copy
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from slewrl.agents.action_value import ActionValue
from slewrl.agents.base import Agent, Bools, Floats, Layout, Sample
from slewrl.agents.config import (
    COUNT,
    FINITE,
    NETWORK,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    SWITCH,
    WIDTHS,
    Checked,
    one_of,
)
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
"""Bounds of the adaptive learning rate, as in rsl_rl."""
CHUNK = 2048
"""Rows of a rollout that pass through a network at once, so that they fit the cache."""


@dataclass(frozen=True)
class PPOConfig(Checked):
    """The defaults of Stable-Baselines3's PPO (2.x); what is not its own is marked ours."""

    rollout: Annotated[int, COUNT] = 2048
    """T: steps of each environment between two updates."""
    minibatch: Annotated[int, COUNT] = 64
    """Steps per gradient step."""
    epochs: Annotated[int, COUNT] = 10
    """Passes over a rollout."""
    learning_rate: Annotated[float, POSITIVE] = 3e-4
    """Learning rate of Adam (epsilon 1e-5)."""
    clip_range: Annotated[float, POSITIVE] = 0.2
    """The ratio is clipped to 1 - this and 1 + this."""
    discount: Annotated[float, SHARE] = 0.99
    """Discount factor gamma."""
    gae_lambda: Annotated[float, SHARE] = 0.95
    """lambda of the generalised advantage estimates."""
    value_weight: Annotated[float, NOT_NEGATIVE] = 0.5
    """Weight of the squared error of the value in the loss."""
    entropy_weight: Annotated[float, NOT_NEGATIVE] = 0.0
    """Weight of the latent's entropy in the loss."""
    max_grad_norm: Annotated[float, POSITIVE] = 0.5
    """The gradient of all parameters together is clipped to this norm."""
    normalize_advantage: Annotated[bool, SWITCH] = True
    """Whether advantages have mean 0 and standard deviation 1 in each minibatch."""
    hidden: Annotated[tuple[int, ...], WIDTHS, NETWORK] = (64, 64)
    """Widths of the hidden layers of actor and critic."""
    activation: Annotated[str, one_of("tanh", "relu"), NETWORK] = "tanh"
    """What stands between the layers."""
    initial_log_std: Annotated[float, FINITE] = 0.0
    """The logarithm of the latent's first standard deviation, of every joint."""
    normalize: Annotated[bool, SWITCH, NETWORK] = False
    """Whether to normalise observations, all but the previous action, by the statistics of earlier rollouts; ours."""
    normalize_previous: Annotated[bool, SWITCH, NETWORK] = False
    """Whether the networks see the previous action normalised, too, while the layer reads it as it is; ours."""
    sees_all: Annotated[bool, SWITCH, NETWORK] = True
    """Whether the actor sees the privileged entries (the base's velocity), too: then the robot needs an estimator."""
    symmetry: Annotated[bool, SWITCH] = False
    """Whether to learn from every step's mirror image, too, where the task has one; ours, as rsl_rl's augmentation."""
    desired_kl: Annotated[float, NOT_NEGATIVE] = 0.0
    """Above 0: the learning rate is adapted to the KL divergence, as in rsl_rl."""
    adapts: Annotated[str, one_of("minibatch", "rollout")] = "minibatch"
    """Where it is: at each "minibatch", as in rsl_rl, which swings over few of them, or once a "rollout"; ours."""
    advantage: Annotated[str, one_of("gae", "action"), NETWORK] = "gae"
    """How advantages are estimated: "gae", or "action", by a Q network with replay (`action_value.py`); ours."""
    q_hidden: Annotated[tuple[int, ...], WIDTHS, NETWORK] = (128, 128)
    """Widths of the hidden layers of each critic of "action"; ours."""
    q_updates: Annotated[float, POSITIVE] = 0.5
    """Updates of the critics of "action" per environment step, made before each update of the policy; ours."""
    q_draws: Annotated[int, COUNT] = 8
    """Actions sampled for the baseline of "action"; ours."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.normalize_previous and not self.normalize:
            raise ValueError("normalize_previous is true, but normalize is false: expected both")
        if self.normalize_previous and self.advantage == "action":
            raise ValueError("normalize_previous is true, but the critics of advantage 'action' need the action itself")


# ---------------------------------------------------------------------- formulas


def log_density(latent: NDArray[Any], mean: NDArray[Any], std: NDArray[Any]) -> NDArray[Any]:
    """log N(latent; mean, std), summed over joints: (B, d), (B, d) and (d,) to (B,)."""
    return standard_density(np.square((latent - mean) / std), std)


def standard_density(squares: NDArray[Any], std: NDArray[Any]) -> NDArray[Any]:
    """The same from the squares (B, d) of ``(latent - mean) / std``."""
    # A matrix product is faster than ``sum`` over a short axis.
    exponent: NDArray[Any] = squares @ np.full(len(std), -0.5, squares.dtype)
    return exponent - float(np.log(std).sum() + len(std) * LOG_SQRT_2PI)


def clipped_loss(ratio: NDArray[Any], advantage: NDArray[Any], clip: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """-min(A r, A clip(r, 1 - c, 1 + c)) of each step, and its derivative by log r; (B,) each."""
    plain, limited = advantage * ratio, advantage * np.minimum(np.maximum(ratio, 1 - clip), 1 + clip)
    return -np.minimum(plain, limited), np.where(plain <= limited, -plain, 0)


def divergence(mean: NDArray[Any], std: NDArray[Any], new_mean: NDArray[Any], new_std: NDArray[Any]) -> NDArray[Any]:
    """KL(N(mean, std) || N(new_mean, new_std)), summed over joints: (B, d) and (d,) twice, to (B,)."""
    squares = (np.square(std) + np.square(mean - new_mean)) / (2 * np.square(new_std))
    return (np.log(new_std / std) + squares - 0.5).sum(-1)


def adapted_rate(rate: float, kl: float, desired: float) -> float:
    """rsl_rl's rule: divide the rate by 1.5 if the KL divergence is above twice the desired, multiply it below half."""
    if kl > 2 * desired:
        return max(SLOWEST, rate / 1.5)
    return min(FASTEST, rate * 1.5) if 0 < kl < desired / 2 else rate


def check_latent(layer: ActionLayer) -> None:
    """Refuse a layer whose samples are not a map of a Gaussian latent: there the Jacobian does not cancel."""
    if type(layer).sample is not ActionLayer.sample or type(layer).draw is not ActionLayer.draw:
        raise ValueError(
            f"layer {type(layer).__name__} does not map one draw of a Gaussian latent, whose ratio PPO needs: "
            "take one that does (interval_tanh and boxpro reach the same set)"
        )


# ---------------------------------------------------------------------- the agent


class PPO(Copied, Agent):
    """The PPO agent; its arguments are those of ``SAC``, with a layer that has a latent, unlike ``truncnorm``."""

    Config: ClassVar[type[PPOConfig]] = PPOConfig
    on_policy = True
    networks = ("parameters", "normalizer")
    values = 1
    """How many value functions there are with the advantage "gae"."""
    columns: tuple[str, ...] = ("critic_loss", "entropy", "kl", "clipped", "learning_rate")

    def __init__(
        self,
        config: PPOConfig,
        limits: RateLimits,
        layer: ActionLayer,
        observation_size: int,
        seed: int,
        layout: Layout | None = None,
    ) -> None:
        check_latent(layer)
        self.config, self.limits, self.layer, self.joints = config, limits, layer, limits.dim
        self.privileged = 0 if layout is None or config.sees_all else layout.privileged
        self.mirror = layout.mirror if layout and config.symmetry else None
        self.generator = torch.Generator().manual_seed(seed)
        n, d, hidden = observation_size, self.joints, config.hidden
        gains = (math.sqrt(2),) * len(hidden)
        self.actor = Ensemble(1, (n - self.privileged, *hidden, d), self.generator, config.activation)
        self.actor.make_orthogonal((*gains, 0.01), self.generator)
        values = 0 if config.advantage == "action" else self.values
        self.critics = [Ensemble(1, (n, *hidden, 1), self.generator, config.activation) for _ in range(values)]
        for critic in self.critics:
            critic.make_orthogonal((*gains, 1.0), self.generator)
        parameters = sum(len(net.flat) for net in (self.actor, *self.critics)) + d
        self.flat, self.grad = torch.zeros(parameters), torch.zeros(parameters)
        self._join()
        self.log_std.fill_(config.initial_log_std)
        self.optimiser = Adam(self.flat, self.grad, config.learning_rate, config.max_grad_norm, 1e-5)
        self.normalizer = Normalizer(n, 0 if config.normalize_previous else limits.appended)
        self.rollout: Rollout | None = None
        """The steps since the last update; None before the first step."""
        self.action_value = self._action_value(n)
        if self.action_value:
            self.columns = (*self.columns[1:], "q_loss")  # instead of the loss of V

    @classmethod
    def make(cls, config: PPOConfig, limits: RateLimits, layer: ActionLayer, layout: Layout, seed: int) -> Self:
        """See ``Agent``."""
        return cls(config, limits, layer, layout.size, seed, layout)

    @property
    def replays(self) -> bool:
        """See ``Agent``."""
        return self.action_value is not None

    def steps_before_learning(self, environments: int) -> int:
        """See ``Agent``."""
        return self.config.rollout * environments

    # ------------------------------------------------------------------ acting

    def act(self, observation: Tensor, explore: bool = True, averaged: bool = True) -> Decision:
        """See ``Agent``; an explored step becomes part of the rollout, and ``record`` must come next."""
        mean = self._mean(self._seen(observation))
        box = self.limits.box_after(observation)
        if not explore:
            return self.layer.decide(mean, box)
        latent = torch.addcmul(mean, self.log_std.exp(), self._noise(mean.shape))
        if self.rollout is None:
            self.rollout = Rollout(self.config.rollout, len(observation), observation.shape[1], self.joints)
        self.rollout.begin(observation, latent)
        executed = self.layer.decide(latent, box).executed
        return Decision(executed, executed)

    def record(self, reward: Floats, next_observation: Floats, terminated: Bools, ended: Bools) -> bool:
        """See ``Agent``; an update is due when the rollout is full."""
        self._collected.end(reward, next_observation, terminated, ended)
        return self._collected.full

    def abandon(self) -> None:
        """See ``Agent``."""
        if self.rollout:
            self.rollout.abandon()

    def latent_module(self) -> nn.Module:
        """See ``Agent``; the mean latent."""
        normalizer = [self.normalizer.part(self.privileged)] if self.config.normalize else []
        return nn.Sequential(*normalizer, *as_module(self.actor, self.joints))

    # ------------------------------------------------------------------ learning

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # the trainer reports divergence
    def improve(self, sample: Sample, environments: int = 1, log: bool = True) -> dict[str, float]:
        """Learn from the rollout and begin another; always returns the values to log."""
        seen = self._seen(torch.from_numpy(_flat(self._collected.observation)))
        mean, std = outputs(self.actor, self._shown(seen)), self._std()
        advantage, targets, judged = self.judge(seen, sample)
        table = self._table(seen.numpy(), mean, std, advantage, targets)
        losses = np.array([self._descend(batch) for _ in range(self.config.epochs) for batch in self._shuffled(table)])
        kl = divergence(mean, std, outputs(self.actor, self._shown(seen)), self._std()).mean()
        if self.config.normalize:  # only now: the rollout was collected with the old statistics
            raw = _flat(self._collected.observation)
            self.normalizer.update(torch.from_numpy(raw))
            if self.mirror is not None:
                self.normalizer.update(torch.from_numpy(_image(raw, *self.mirror.of_observations)))
        self._collected.filled = 0
        critic_loss, clipped = losses.mean(0).tolist()
        entropy = float(self.log_std.sum()) + self.joints * (0.5 + LOG_SQRT_2PI)
        rate = self.optimiser.learning_rate
        about = {"critic_loss": critic_loss, "entropy": entropy, "kl": float(kl), "clipped": clipped}
        about |= {"learning_rate": rate, **judged}
        if self.config.desired_kl and self.config.adapts == "rollout":
            self.optimiser.learning_rate = adapted_rate(rate, float(kl), self.config.desired_kl)
        return {name: about[name] for name in self.columns}

    def judge(self, seen: Tensor, sample: Sample) -> tuple[NDArray[Any], list[NDArray[Any]], dict[str, float]]:
        """Advantages (T, N) of the rollout, targets of the value functions, and values to log.

        ``seen`` (T N, n) are the rollout's observations as the networks see them.
        """
        if self.action_value is not None:
            return self._judge_actions(self.action_value, seen, sample)
        advantage, target = self.estimate(self.critics[0], seen, self._collected.reward)
        return advantage, [target], {}

    def _judge_actions(
        self, critics: ActionValue, seen: Tensor, sample: Sample
    ) -> tuple[NDArray[Any], list[NDArray[Any]], dict[str, float]]:
        """The same for the action-conditioned advantage: Q is fitted first, and there is no V to fit."""
        updates = max(1, round(self.config.q_updates * len(seen)))
        loss = np.mean([self._fit_action_value(critics, sample()) for _ in range(updates)])
        executed = torch.from_numpy(previous_action(_flat(self._collected.next_observation), self.joints))
        chunks = zip(torch.split(seen, CHUNK), torch.split(executed, CHUNK), strict=True)
        judged = [critics.advantage(x, a, self._draw, self.config.q_draws) for x, a in chunks]
        return np.concatenate(judged).reshape(self._collected.reward.shape), [], {"q_loss": float(loss)}

    def estimate(self, critic: Ensemble, seen: Tensor, signal: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The advantages of a reward or cost (T, N) whose value is ``critic``, and the returns to fit it to."""
        rollout, config = self._collected, self.config
        next_seen = self._seen(torch.from_numpy(_flat(rollout.next_observation)))
        value, next_value = (outputs(critic, x).reshape(signal.shape) for x in (seen, next_seen))
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
        """All that minibatches need, one row per step of the rollout, so that a minibatch takes one copy."""
        raw, latent = _flat(self._collected.observation), _flat(self._collected.latent)
        numbers = [log_density(latent, mean, std), advantage.ravel(), *(target.ravel() for target in targets)]
        self._std_before, rest = std, np.stack(numbers, -1)  # all steps share std
        table = self._rows(raw, seen, latent, mean, rest)
        if self.mirror is None:
            return table
        # The image of a step is one of the policy's image, as likely there and worth as much. Its mean is the policy's
        # own, so that the KL divergence is that of the update.
        raw, latent = _image(raw, *self.mirror.of_observations), _image(latent, *self.mirror.of_actions)
        shown = self._seen(torch.from_numpy(raw))
        mean = outputs(self.actor, self._shown(shown))
        return np.concatenate([table, self._rows(raw, shown.numpy(), latent, mean, rest)])

    def _rows(
        self, raw: NDArray[Any], seen: NDArray[Any], latent: NDArray[Any], mean: NDArray[Any], rest: NDArray[Any]
    ) -> Floats:
        history = [raw[:, -self.kept :]] if self.kept else []
        return np.concatenate([seen, latent, mean, *history, rest], -1, dtype=np.float32)

    def _shuffled(self, table: Floats) -> Any:
        """Minibatches of one epoch, each in a buffer that the next one of its size overwrites.

        A single step left over joins the last minibatch, since one advantage cannot be normalised.
        """
        order = torch.randperm(len(table), generator=self.generator).numpy()
        starts = list(range(0, len(order), self.config.minibatch))
        if len(order) % self.config.minibatch == 1 and len(starts) > 1:
            starts.pop()
        for rows in np.split(order, starts[1:]):
            if len(rows) not in self._batches:
                self._batches[len(rows)] = _Minibatch(len(rows), table.shape[1], self.size, self.joints, self.kept)
            batch = self._batches[len(rows)]
            table.take(rows, axis=0, out=batch.table, mode="clip")  # "clip": the default would copy twice
            yield batch

    def _descend(self, batch: "_Minibatch") -> tuple[float, float]:
        """One gradient step on E[clipped loss + lambda penalty] - c_H entropy + c_V squared error of the value.

        Returns the squared error, and the share of ratios outside the clip range.
        """
        config, size, std = self.config, len(batch.table), self._std()
        mean = self._mean(batch.seen).numpy()
        if config.desired_kl and config.adapts == "minibatch":
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
        self.actor.backward(self._shown(batch.seen), torch.from_numpy(to_mean)[None])
        self.log_std_grad.copy_(torch.from_numpy(to_log_std))
        error = 0.0
        for critic, target in zip(self.critics, batch.targets, strict=True):
            errors = critic.fit(batch.seen, target).numpy().ravel()
            critic.grad.mul_(config.value_weight)
            error += float(errors @ errors) / size
        self.optimiser.step()
        return error, float(np.count_nonzero(np.abs(ratio - 1) > config.clip_range)) / size

    def _penalty(self, mean: NDArray[Any], std: NDArray[Any], batch: "_Minibatch") -> tuple[NDArray[Any], NDArray[Any]]:
        """The gradient (B, d) of lambda E[penalty] by newly sampled latents, and their noise."""
        noise = self._noise(mean.shape)
        latent = torch.from_numpy(mean + std * noise.numpy())
        judged, penalty, vjp_fn = self.layer.vjp(latent, self.limits.box_after(batch.history))
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
        """Sample executed actions (B, d) from the policy, for observations (B, n) as the networks see them."""
        mean = self._mean(seen)
        latent = torch.addcmul(mean, self.log_std.exp(), self._noise(mean.shape))
        return self.layer.decide(latent, self.limits.box_after(seen)).executed

    # ------------------------------------------------------------------ parts

    def _join(self) -> None:
        """Make networks and log std views of one vector of parameters and one of gradients."""
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
        """What the networks see: observations, normalised if the config says so."""
        return self.normalizer(observation) if self.config.normalize else observation

    def _shown(self, seen: Tensor) -> Tensor:
        """The part of what the networks see that is for the actor, (N, n - privileged)."""
        return seen[:, self.privileged :] if self.privileged else seen

    def _mean(self, seen: Tensor) -> Tensor:
        """The mean latent (N, d), in a buffer that the next call with the same N overwrites."""
        return self.actor.forward(self._shown(seen))[0]

    @property
    def size(self) -> int:
        """n."""
        return len(self.normalizer.shift)

    @property
    def kept(self) -> int:
        """How many columns of a table hold what F_t depends on, where the networks see it normalised."""
        return self.limits.appended if self.config.normalize_previous else 0

    def _std(self) -> NDArray[np.float32]:
        return np.exp(self.log_std.numpy())

    def _noise(self, shape: Any) -> Tensor:
        return torch.randn(shape, generator=self.generator)

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """See ``Agent``."""
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
        """See ``Agent``."""
        self.flat.copy_(state["parameters"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.optimiser.learning_rate = state["learning_rate"]
        self.normalizer.load_state_dict(state["normalizer"])
        self.generator.set_state(state["generator"])
        self.rollout = Rollout.from_state(state["rollout"]) if state["rollout"] else None
        if self.action_value:
            self.action_value.load_state_dict(state["action_value"])

    def load_weights(self, state: dict[str, Any]) -> None:
        """See ``Agent``; includes the networks of the action-conditioned advantage."""
        super().load_weights(state)
        if self.action_value:
            self.action_value.load_weights(state["action_value"])


class _Minibatch:
    """A minibatch of B steps: views of the columns of one buffer."""

    def __init__(self, size: int, width: int, n: int, d: int, kept: int) -> None:
        self.table = np.empty((size, width), np.float32)
        whole = torch.from_numpy(self.table)
        self.seen = whole[:, :n]
        """(B, n), as the networks see it."""
        self.latent, self.mean = self.table[:, n : n + d], self.table[:, n + d : n + 2 * d]
        """(B, d) each: the latent and the mean it was sampled about."""
        first = n + 2 * d + kept
        self.history = whole[:, first - kept : first] if kept else self.seen
        """(B, at least d): ends in what F_t depends on, the previous action at last."""
        self.log_prob, self.advantage = self.table[:, first], self.table[:, first + 1]
        """(B,) each: at the time of the rollout."""
        self.targets = list(whole[:, first + 2 :].unbind(-1))
        """(B,) for each value function."""


def outputs(net: Ensemble, x: Tensor) -> NDArray[np.float32]:
    """Outputs (B, out) of a network with one member, for inputs (B, in)."""
    return np.concatenate([net.forward(chunk)[0].numpy().copy() for chunk in torch.split(x, CHUNK)])


def normalized(x: NDArray[Any]) -> NDArray[Any]:
    """Shift and scale (B,) to mean 0 and sample standard deviation 1."""
    centred = x - x.mean()
    return centred / (math.sqrt(float(centred @ centred) / (len(x) - 1)) + 1e-8)


def _image(x: NDArray[Any], index: NDArray[np.int64], sign: Floats) -> NDArray[Any]:
    """The mirror image of (N, k)."""
    return x[:, index] * sign


def _flat(x: NDArray[Any]) -> NDArray[Any]:
    """Reshape (T, N, k) to (T N, k)."""
    return x.reshape(-1, x.shape[-1])
