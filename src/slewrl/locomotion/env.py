"""Walking robots: N environments in which a humanoid follows velocity commands, on CPU MuJoCo.

An action is the joints' position targets in radians, passed to the actuators unchanged. ``tasks.layout`` says what an
observation holds.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slewrl.copying import Uncopied
from slewrl.envs.history import CountedHistory
from slewrl.envs.reset import start_action
from slewrl.envs.vec_env import Episode, StepResult, check_period
from slewrl.limits import RateLimits
from slewrl.locomotion import frames
from slewrl.locomotion.models import sensor_columns, variants
from slewrl.locomotion.physics import Physics
from slewrl.locomotion.rewards import TOUCH, Feet, Moment
from slewrl.locomotion.tasks import SHAPE, Task, layout, standing
from slewrl.locomotion.terrain import SCAN_POINTS, Terrain, rough
from slewrl.robots import ROBOTS
from slewrl.robots.spec import RobotSpec

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

STANDS_BELOW = 0.1
"""A command of a smaller norm than this (m/s and rad/s) is to stand; ours."""
GAIT = (0.8, 1.2)
"""Gait frequency, drawn for each episode, Hz; holosoma's."""
POSE_SPREAD, SPEED_SPREAD = 0.05, 0.1
"""Joints begin at most this far from the default pose (rad) and from rest (rad/s); ours."""
PUSH_EVERY = (5.0, 10.0)
"""Seconds between pushes; holosoma's."""
SCAN_CLIP = 1.0
"""Largest height difference the scan shows, m."""
FIRST_LEVELS = 6
"""Episodes begin on terrain levels below this."""


class Locomotion(Uncopied):
    """The VecEnv of one walking task.

    Args:
        task: the task.
        limits: rate limits of the robot's joints, in radians per control step.
        count: N.
        threads: threads of the simulator; results do not depend on it.
        training: whether terrain levels follow the curriculum and penalties grow with the mean episode length (c_f);
            else levels are drawn uniformly and penalties count in full.
        robot: the robot; default: the task's.
    """

    instead = "make others of the same task, reset them, and set_state with what these get_state() gives"

    def __init__(
        self,
        task: Task,
        limits: RateLimits,
        count: int,
        threads: int = 1,
        training: bool = True,
        robot: RobotSpec | None = None,
    ) -> None:
        self.task, self.options, self.limits, self.count, self.training = task, task.options, limits, count, training
        chosen = robot or ROBOTS[task.robot]
        chosen.checked(limits)
        self.robot: RobotSpec = standing(task, chosen, limits)
        """In the task's default pose."""
        self.terrain: Terrain | None = rough() if task.ground == "rough" else None
        self.physics = Physics(variants(self.robot, self.terrain, self.options), count, threads=threads)
        self.dt = self.physics.period
        check_period(self.robot.name, limits, self.dt)
        self.seconds = (training and self.options.practice) or self.options.seconds
        """Length of an episode, s."""
        self.length = round(self.seconds / self.dt)
        self.reset_action = start_action(limits, self.robot.default_pose, np.float32)
        self.pose = self.reset_action.astype(np.float64)
        kinds = [name.removeprefix("left_").removeprefix("right_") for name in limits.names]
        self.part = {kind: np.flatnonzero([k == kind for k in kinds]) for kind in kinds}
        self.sensor = sensor_columns(self.physics.models[0])
        self.layout = layout(self.task, self.robot, limits)
        widths = [np.full(size, 2 * self.options.noise * task.noise.get(name, 0.0)) for name, size in self.layout.parts]
        self.noise_width = np.concatenate(widths).astype(np.float32)
        """(m,): full width of the noise of each entry that an actor sees, without the previous action."""
        self.weights = np.array([weight for _, weight, _ in task.terms])
        self.episodes: list[Episode] = []
        self._allocate()

    def _allocate(self) -> None:
        n = self.count
        self.everyone = np.arange(n)
        self.rng = np.random.default_rng()
        self.clock = np.zeros(n, np.int64)
        """Control steps since the current episode began."""
        self.history = CountedHistory(self.limits, np.tile(self.reset_action, (n, 1)))
        """What the actuators got."""
        least = 1 if self.limits.grid is None else 2  # its last increment is part of what it sees
        self.given = np.tile(self.reset_action, (n, max(self.options.delay + 1, least), 1))
        """(N, at least delay + 1, d): the policy's last actions, newest first."""
        self.delay = np.zeros(n, np.int64)
        self.command, self.target_heading, self.turns = np.zeros((n, 3)), np.zeros(n), np.zeros(n)
        self.frequency, self.first_phase = np.ones(n), np.zeros(n)
        self.push_at = np.zeros(n, np.int64)
        self.level, self.column = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.start = np.zeros((n, 2))
        """Where the episode began, m."""
        self.total = np.zeros(n)
        """Return of the current episode."""
        self.sums = np.zeros((n, len(self.task.terms) + 3))
        """Sums over the episode: each reward term, velocity error, speed along the command, commanded speed."""
        self.mean_length = 0.0
        """Moving average of episode lengths, control steps."""
        self.observations = np.zeros((n, self.layout.size), np.float32)

    # ------------------------------------------------------------------ one step

    def reset(self, seed: int) -> None:
        """See ``VecEnv``."""
        self.rng = np.random.default_rng(seed)
        self.mean_length = 0.0
        if self.terrain is not None:
            self.level = self.rng.integers(0, self._first_levels(), self.count)
            self.column = self.rng.integers(0, self.terrain.origins.shape[1], self.count)
        self._begin(self.everyone)
        self.episodes = []
        self.observations = self._observe(self.everyone)

    def step(self, executed: NDArray[np.float32]) -> StepResult:
        """See ``VecEnv``."""
        control = self._delayed(executed)
        exploded = self.physics.step(control)
        self.history.append(control)
        base, reward = self.judge()
        reward[exploded] = 0.0
        self.total += reward
        fell = self._fallen() & ~exploded
        terminated = fell | exploded
        ended = terminated | (self.clock >= self.length)
        if self.disturb():
            base = frames.base(self.physics.qpos, self.physics.qvel)
        next_obs = self._observe(self.everyone, base)
        next_obs[exploded, : -self.limits.appended] = self.observations[exploded, : -self.limits.appended]
        self.episodes = []
        self.observations = next_obs
        if ended.any():
            self._end(np.flatnonzero(ended), fell, exploded)
            self.observations = next_obs.copy()
            self.observations[ended] = self._observe(np.flatnonzero(ended))
        return StepResult(next_obs, reward.astype(np.float32), terminated, ended)

    def judge(self) -> tuple[frames.Base, Floats]:
        """Count a control step that ends in the present state: the base's motion, and the reward (N,)."""
        self.clock += 1
        base = frames.base(self.physics.qpos, self.physics.qvel)
        if self.options.heading:
            self._steer(base, self.everyone)
        return base, self._reward(self._moment(base))

    def _delayed(self, executed: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the actuators get now, (N, d): the actions of ``delay`` steps ago."""
        self.given[:, 1:] = self.given[:, :-1]
        self.given[:, 0] = executed
        return self.given[self.everyone, self.delay]

    def _reward(self, moment: Moment) -> Floats:
        """The reward (N,), times the control period; updates the sums over the episode."""
        terms = len(self.weights)
        step = np.empty((self.count, terms + 3))
        for k, (_, _, phi) in enumerate(self.task.terms):
            step[:, k] = phi(moment)
        commanded = np.hypot(*moment.command[:, :2].T)
        along = np.einsum("ij,ij->i", moment.velocity, moment.command[:, :2])
        step[:, terms] = np.hypot(*(moment.velocity - moment.command[:, :2]).T)
        step[:, terms + 1] = along / np.maximum(commanded, 1e-9)
        step[:, terms + 2] = commanded
        self.sums += step
        return step[:, :terms] @ self.weights * self.dt

    def disturb(self) -> bool:
        """Draw new commands and push robots where it is due; returns whether any robot was pushed."""
        due = self.clock % round(self.options.resample / self.dt) == 0
        if due.any():
            self._command(np.flatnonzero(due))
        pushed = np.flatnonzero(self.clock == self.push_at) if self.options.push else self.everyone[:0]
        if len(pushed):
            self.physics.qvel[pushed, :2] += self.rng.uniform(-1, 1, (len(pushed), 2)) * self.options.push
            self._plan_push(pushed)
        return len(pushed) > 0

    # ------------------------------------------------------------------ observations

    def _moment(self, base: frames.Base) -> Moment:
        """What the rewards are computed from."""
        joints = self.physics.qpos[:, 7:]
        return Moment(
            velocity=base.velocity[:, :2],
            yaw_rate=base.yaw_rate,
            gravity=base.gravity,
            command=self.command,
            joints=joints,
            bend=joints - self.pose,
            part=self.part,
            feet=self._feet(base) if self.task.gait else None,
            curriculum=self.curriculum,
            **{name: getattr(self.options, name) for name in SHAPE},
        )

    def _feet(self, base: frames.Base) -> Feet:
        seen, at = self.physics.sensors, self.sensor
        soles = seen[:, at["foot_pos"]].reshape(-1, 2, 3)
        ahead = frames.to_heading(soles[:, :, :2] - base.position[:, None, :2], base.forward[:, None])
        height = soles[:, :, 2] - self._ground(soles)
        speed = seen[:, at["foot_vel"]].reshape(-1, 2, 3)
        force = seen[:, at["foot_force"]].reshape(-1, 2, 3)
        return Feet(
            place=np.concatenate([ahead, height[:, :, None]], 2),
            speed=np.hypot(speed[:, :, 0], speed[:, :, 1]),
            yaw=frames.yaw(frames.heading(seen[:, at["foot_quat"]].reshape(-1, 2, 4))),
            force=np.sqrt(np.einsum("ijk,ijk->ij", force, force)),
            phase=self._phase(self.everyone),
            moves=self._moves().astype(np.float64),
            stride=self.command[:, 0] / (4 * self.frequency),
        )

    def _fallen(self) -> NDArray[np.bool_]:
        """Which robots touch the ground with torso, head, hands or pelvis, (N,)."""
        force = self.physics.sensors[:, self.sensor["fall_force"]]
        return np.einsum("ij,ij->i", force, force) > TOUCH**2

    def _observe(self, ids: Ids, base: frames.Base | None = None) -> NDArray[np.float32]:
        """Observations (k, n) of k environments, whose ``base`` may be known already."""
        qpos, qvel = self.physics.qpos[ids], self.physics.qvel[ids]
        base = base or frames.base(qpos, qvel)
        parts: list[NDArray[Any]] = [
            base.velocity,
            base.turning,
            base.gravity,
            self.command[ids],
            qpos[:, 7:] - self.pose,
            qvel[:, 6:],
        ]
        if self.task.gait:
            phase = self._phase(ids)
            parts += [np.sin(phase), np.cos(phase)]
        if self.terrain is not None:
            ground = self.terrain.scan(base.position[:, :2], frames.yaw(base.forward))
            parts.append((base.position[:, 2:] - self.robot.base_height).astype(np.float32) - ground)
        if self.limits.grid is not None:
            parts.append(self.given[ids, 0] - self.given[ids, 1])
        # The previous action is float32 already, so that it stays the same to the bit.
        seen = np.concatenate([*parts, self.given[ids, 0]], 1, dtype=np.float32, casting="same_kind")
        self._blur(seen[:, self.layout.privileged : -self.limits.appended])
        return seen

    def _blur(self, seen: NDArray[np.float32]) -> None:
        """Add noise to the sensors' values (k, m), in place, and clip the height scan."""
        if self.options.noise:
            noise = self.rng.random(seen.shape, np.float32)
            noise -= 0.5
            noise *= self.noise_width
            seen += noise
        if self.terrain is not None:
            scan = seen[:, -SCAN_POINTS:]
            np.clip(scan, -SCAN_CLIP, SCAN_CLIP, out=scan)

    def _phase(self, ids: Ids) -> Floats:
        """Gait phases (k, 2) of left and right foot, half a cycle apart; both pi where the command is to stand."""
        left = 2 * np.pi * self.frequency[ids] * self.clock[ids] * self.dt + self.first_phase[ids]
        both = left[:, None] + np.array([0.0, np.pi])
        both[~self._moves()[ids]] = np.pi
        return both

    def _moves(self) -> NDArray[np.bool_]:
        return np.einsum("ij,ij->i", self.command, self.command) > STANDS_BELOW**2

    def _ground(self, points: Floats) -> Any:
        """Height of the ground at points (..., 3), m."""
        return 0.0 if self.terrain is None else self.terrain.height(points[..., 0], points[..., 1])

    @property
    def curriculum(self) -> float:
        """c_f = min(mean length / L*, 1) (App. reward)."""
        full = self.options.lenient
        return min(self.mean_length / full, 1.0) if self.training and full else 1.0

    # ------------------------------------------------------------------ episodes

    def _begin(self, ids: Ids) -> None:
        """Begin an episode in these environments."""
        k, rng, physics = len(ids), self.rng, self.physics
        physics.variant[ids] = rng.integers(0, len(physics.models), k)
        physics.state[ids] = 0.0
        origin = np.zeros((k, 3)) if self.terrain is None else self.terrain.origins[self.level[ids], self.column[ids]]
        physics.qpos[ids, :3] = origin + np.array([0, 0, self.robot.base_height])
        half_yaw = rng.uniform(-np.pi, np.pi, k) / 2
        physics.qpos[ids, 3], physics.qpos[ids, 6] = np.cos(half_yaw), np.sin(half_yaw)
        d = self.limits.dim
        pose = self.pose + rng.uniform(-POSE_SPREAD, POSE_SPREAD, (k, d))
        physics.qpos[ids, 7:] = np.clip(pose, self.limits.low, self.limits.high)
        physics.qvel[ids, 6:] = rng.uniform(-SPEED_SPREAD, SPEED_SPREAD, (k, d))
        self.start[ids] = origin[:, :2]
        for sums in (self.clock, self.total, self.sums):
            sums[ids] = 0
        self.given[ids] = self.reset_action
        self.history.restart(self.reset_action, np.isin(self.everyone, ids))
        self.delay[ids] = rng.integers(0, self.options.delay + 1, k)
        if self.options.always_delayed:
            self.delay[ids] = self.options.delay
        self.frequency[ids] = rng.uniform(*GAIT, k)
        self.first_phase[ids] = np.where(rng.random(k) < 0.5, np.pi / 2, -np.pi / 2)  # a foot begins its swing
        self._plan_push(ids)
        self._command(ids)
        if self.training and self.options.running:
            self._run(ids, frames.heading(physics.qpos[ids, 3:7]))

    def _run(self, ids: Ids, forward: Floats) -> None:
        """Give the base up to ``running`` of the commanded velocity; ``forward`` (k, 2) is its heading."""
        ahead, left, turning = (self.rng.uniform(0, self.options.running, (len(ids), 1)) * self.command[ids]).T
        cos, sin = forward.T
        self.physics.qvel[ids, 0], self.physics.qvel[ids, 1] = cos * ahead - sin * left, sin * ahead + cos * left
        self.physics.qvel[ids, 5] = turning

    def _plan_push(self, ids: Ids) -> None:
        if self.options.push:
            self.push_at[ids] = self.clock[ids] + np.round(self.rng.uniform(*PUSH_EVERY, len(ids)) / self.dt)

    def _command(self, ids: Ids) -> None:
        """Draw new commands."""
        o, k = self.options, len(ids)
        drawn = [self.rng.uniform(*between, k) for between in (o.forward, o.sideways, o.turning)]
        stands = self.rng.random(k) < o.standing
        self.command[ids] = np.where(stands[:, None], 0.0, np.stack(drawn, 1))
        if o.heading:
            self.target_heading[ids], self.turns[ids] = self.rng.uniform(-np.pi, np.pi, k), ~stands
            self._steer(frames.base(self.physics.qpos[ids], self.physics.qvel[ids]), ids)

    def _steer(self, base: frames.Base, ids: Ids) -> None:
        """Set the commanded yaw rate that turns to the target heading: half the remaining angle per second."""
        left = frames.wrapped(self.target_heading[ids] - frames.yaw(base.forward))
        self.command[ids, 2] = self.turns[ids] * np.clip(0.5 * left, *self.options.turning)

    def _end(self, ids: Ids, fell: NDArray[np.bool_], exploded: NDArray[np.bool_]) -> None:
        """Record the episodes that ended, and begin the next ones."""
        lengths = self.clock[ids]
        share = min(len(ids) / (4 * self.count), 1.0)  # a moving average over some four episodes per environment
        self.mean_length += share * (float(lengths.mean()) - self.mean_length)
        for k in ids:
            measures = self._measures(k) | {"fell": float(fell[k]), "exploded": float(exploded[k])}
            total = float(self.total[k]) / self.task.return_unit
            self.episodes.append(Episode(total, self.history.actions(k), measures))
        if self.terrain is not None:
            self._relocate(ids[~exploded[ids]])  # MuJoCo has reset those that exploded
        self._begin(ids)

    def _measures(self, k: int) -> dict[str, float]:
        means = self.sums[k] / self.clock[k]
        terms = len(self.weights)
        measured = dict(zip(("vte", "speed", "commanded"), means[terms:].tolist(), strict=True))
        names = [f"reward_{name}" for name, _, _ in self.task.terms]
        return measured | dict(zip(names, (means[:terms] * self.weights).tolist(), strict=True))

    def _relocate(self, ids: Ids) -> None:
        """Choose the terrain levels of the next episodes: by the curriculum in training, else at random."""
        assert self.terrain is not None
        if not self.training:
            self.level[ids] = self.rng.integers(0, self._first_levels(), len(ids))
            return
        walked = np.hypot(*(self.physics.qpos[ids, :2] - self.start[ids]).T)
        commanded = self.sums[ids, -1] / self.clock[ids] * self.seconds
        self.level[ids] = self.terrain.promote(self.level[ids], walked, commanded, self.rng)

    def _first_levels(self) -> int:
        assert self.terrain is not None
        levels = int(self.terrain.origins.shape[0])
        return min(FIRST_LEVELS, levels) if self.training else levels

    def violations(self) -> int:
        """See ``VecEnv``."""
        return int(self.history.violations.sum())

    def episode_actions(self) -> list[NDArray[Any]]:
        """See ``VecEnv``."""
        return [self.history.actions(k) for k in range(self.count)]

    # ------------------------------------------------------------------ saving

    def get_state(self) -> dict[str, Any]:
        """See ``VecEnv``."""
        state: dict[str, Any] = {name: array.copy() for name, array in self._arrays()}
        chain = np.zeros((self.count, self.clock.max() + 1, self.limits.dim), np.float32)
        for row, actions in zip(chain, self.episode_actions(), strict=True):
            row[: len(actions)] = actions
        state |= {"chain": chain, "broken": self.history.violations.copy()}
        return state | {"mean_length": self.mean_length, "random": self.rng.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """See ``VecEnv``."""
        for name, array in self._arrays():
            array[:] = state[name]
        self.history.load([row[: steps + 1] for row, steps in zip(state["chain"], self.clock, strict=True)])
        self.history.violations[:] = state["broken"]
        self.mean_length = state["mean_length"]
        self.rng.bit_generator.state = state["random"]

    def _arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """The arrays that the next step depends on, without the history."""
        yield "physics", self.physics.state
        yield "variant", self.physics.variant
        names = "clock given delay command target_heading turns frequency first_phase push_at level column start"
        for name in (*names.split(), "total", "sums", "observations"):
            yield name, getattr(self, name)
