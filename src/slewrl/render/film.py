"""Films of walking robots, and pictures of an episode above its increments over their limits."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import fromstring, tostring

import numpy as np
from numpy.typing import NDArray

from slewrl.envs.vec_env import Episode
from slewrl.errors import UserFacingError
from slewrl.io.files import replacing
from slewrl.limits import RateLimits
from slewrl.metrics import increments_and_limits, rate_use

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slewrl.locomotion.env import Locomotion

NO_GL = """
A picture needs a GL library. Without a screen, on Debian or Ubuntu:  apt-get install libegl1 libgl1-mesa-dri"""
NO_SCREEN = "MUJOCO_GL is glfw, which needs a screen, and DISPLAY is not set: unset MUJOCO_GL, or set it to egl"
NO_FFMPEG = """
An .mp4 needs ffmpeg:  pip install imageio-ffmpeg  (or write a .gif)"""
GL_MODULES = ("mujoco", "OpenGL", "glfw", "gymnasium.envs.mujoco.mujoco_rendering")
Image = NDArray[np.uint8]
"""(height, width, 3)"""
Act = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Augmented observations (N, n) to actions (N, d)."""
APART = 0.8
"""Smallest distance between two robots in a picture, in heights of the base."""
MOMENTS = 6
"""Most robots, or frames, in a picture."""
SIGHT = 12.0
"""Metres of rough ground around a walk that are rendered."""
MARGIN = 25
"""Control steps plotted after the last moment shown."""
COLUMNS = 8
"""Most panels in a row."""
INK, QUIET, LINE, LIMIT = "#1f2328", "#656d76", "#0969da", "#cf222e"


# ---------------------------------------------------------------------- episodes


@dataclass(frozen=True)
class Walk:
    """One episode of the first environment."""

    episode: Episode
    limits: RateLimits
    dt: float | None
    """Seconds per step, if known."""
    poses: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    """MuJoCo's positions before each step, (T, nq); of our own robots only."""

    @property
    def violations(self) -> int:
        """Joint steps outside F_t, counted exactly."""
        return rate_use(self.episode.actions, self.limits).violations


def run_episode(env: Any, act: Act, seed: int, before_step: Callable[[], None]) -> Episode:
    """The first episode of the first environment of a VecEnv."""
    env.reset(seed)
    while True:
        before_step()
        if env.step(act(env.observations)).ended[0]:
            return env.episodes[0]


def walk(env: "Locomotion", act: Act, seed: int) -> Walk:
    """An episode of a walking robot, with its poses."""
    poses: list[NDArray[np.float64]] = []
    episode = run_episode(env, act, seed, lambda: poses.append(env.physics.qpos[0].copy()))
    return Walk(episode, env.limits, env.dt, np.stack(poses))


# ---------------------------------------------------------------------- rendering


def prepare_gl(task: str) -> str:
    """Import MuJoCo to render with. Where it cannot, import it without rendering and return why; else ""."""
    why = ""
    headless = sys.platform == "linux" and not os.environ.get("DISPLAY")
    if headless and os.environ.setdefault("MUJOCO_GL", "egl") == "glfw":
        os.environ["MUJOCO_GL"], why = "disable", f"cannot render {task}: {NO_SCREEN}"  # GLFW would end the process
    try:
        import mujoco  # type: ignore[import-untyped]  # noqa: F401
    except Exception as error:  # each GL loader fails in its own way
        why = str(cannot_render(task, error))
        os.environ["MUJOCO_GL"] = "disable"
    return why


def cannot_render(task: str, error: Exception) -> UserFacingError:
    """Why there is no picture, in the words of the error; with a hint at GL only if GL failed."""
    frames = traceback.walk_tb(error.__traceback__)
    gl = any(str(frame.f_globals.get("__name__")).startswith(GL_MODULES) for frame, _ in frames)
    set_so = f" (MUJOCO_GL is {os.environ['MUJOCO_GL']})" if gl and "MUJOCO_GL" in os.environ else ""
    return UserFacingError(f"cannot render {task}: {error or type(error).__name__}{set_so}{NO_GL if gl else ''}")


def visible(env: "Locomotion", poses: NDArray[np.float64] | None = None) -> Any:
    """The robot's MuJoCo model with its visual geoms.

    It has all of a rough ground or, since rendering that takes seconds, the part around the given positions (k, nq).
    """
    import mujoco

    from slewrl.robots.looks import dressed
    from slewrl.robots.mjcf import mjcf

    terrain, robot = env.terrain, dressed(env.robot)
    if terrain is None:
        return mujoco.MjModel.from_xml_string(mjcf(robot))
    middle = np.zeros(2)
    if poses is not None:
        half = np.array([terrain.radius_x, terrain.radius_y])
        ends = np.stack([poses[:, :2].min(0) - SIGHT, poses[:, :2].max(0) + SIGHT]).clip(-half, half)
        (left, lower), (right, upper) = np.round((ends + half) / terrain.cell).astype(int)
        terrain = replace(terrain, heights=terrain.heights[lower : upper + 1, left : right + 1])
        middle = np.array([left + right, lower + upper]) * terrain.cell / 2 - half
    root = fromstring(mjcf(robot, terrain=terrain))
    for ground in root.findall("worldbody/geom"):
        ground.set("pos", f"{middle[0]} {middle[1]} {terrain.lowest}")
    model = mujoco.MjModel.from_xml_string(tostring(root, encoding="unicode"))
    model.hfield_data[:] = terrain.hfield_data
    return model


class Camera:
    """Renders a robot of our own.

    Args:
        env: the environment with the robot and its ground.
        poses: the positions (k, nq) to be rendered.
        width: of an image, in pixels.
        height: of an image, in pixels.
        shadow: side of the shadow map, in pixels; 4096 takes twice as long as 1024.
    """

    def __init__(
        self, env: "Locomotion", poses: NDArray[np.float64], width: int = 640, height: int = 480, shadow: int = 1024
    ) -> None:
        import mujoco

        self.model, self.height = visible(env, poses), env.robot.base_height
        self.model.vis.quality.shadowsize = shadow
        self.data, self.aspect = mujoco.MjData(self.model), width / height
        try:
            self.renderer = mujoco.Renderer(self.model, height, width)
        except Exception as error:  # each GL loader fails in its own way
            raise cannot_render(env.robot.name, error) from error

    def follow(self, pose: NDArray[np.float64]) -> Image:
        """The robot in the middle of the image, from a camera that tracks it."""
        self._set_pose(pose)
        self.renderer.update_scene(self.data, camera="track")
        return self.renderer.render()

    def together(self, poses: NDArray[np.float64]) -> Image:
        """The robot at several poses (k, nq) in one image, from the side, walking from left to right."""
        import mujoco

        self._set_pose(poses[0])
        self.renderer.update_scene(self.data, self._side_camera(poses))
        for pose in poses[1:]:
            self._set_pose(pose)
            seen = (mujoco.MjvOption(), mujoco.MjvPerturb(), mujoco.mjtCatBit.mjCAT_DYNAMIC)
            mujoco.mjv_addGeoms(self.model, self.data, *seen, self.renderer.scene)
        return self.renderer.render()

    def _set_pose(self, pose: NDArray[np.float64]) -> None:
        import mujoco

        self.data.qpos[:] = pose
        mujoco.mj_forward(self.model, self.data)

    def _side_camera(self, poses: NDArray[np.float64]) -> Any:
        """A camera that sees the whole walk."""
        import mujoco

        way = poses[-1, :2] - poses[0, :2]
        seen = 2 * np.tan(np.deg2rad(self.model.vis.global_.fovy) / 2)  # height of what is seen, over the distance
        camera = mujoco.MjvCamera()
        camera.lookat[:] = (*(poses[0, :2] + way / 2), poses[0, 2] - 0.13 * self.height)
        wide = (np.hypot(*way) + 1.5 * self.height) / self.aspect
        camera.distance = max(wide, 2.3 * self.height) / seen
        camera.azimuth, camera.elevation = np.rad2deg(np.arctan2(way[0], -way[1])), -8
        return camera

    def close(self) -> None:
        """Give the GL context back."""
        self.renderer.close()


def check_video(video: Path) -> None:
    """Refuse a file name that no film can be written to."""
    if video.suffix not in (".mp4", ".gif"):
        raise ValueError(f"--video is {str(video)!r}, expected a name that ends in .mp4 or .gif")
    check_folder(video)


def check_folder(file: Path) -> None:
    """Refuse a file in a folder that does not exist."""
    if not file.parent.is_dir():
        raise FileNotFoundError(f"no folder {str(file.parent)!r} to write {file.name} to")


@contextmanager
def filming(video: Path, fps: float) -> Iterator[Callable[[Image], None]]:
    """A function that adds an image to a film; the file is complete at the end, or not there."""
    import imageio.v2 as imageio

    with replacing(video) as temporary:
        forever: Any = {"loop": 0} if video.suffix == ".gif" else {}
        writer: Any = _writing(video, imageio.get_writer)(temporary, fps=fps, **forever)  # opens at the first image
        with writer:
            yield _writing(video, writer.append_data)


def _writing(video: Path, write: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, whose errors are reported as the user's."""

    def attempt(*given: Any, **named: Any) -> Any:
        try:
            return write(*given, **named)
        except Exception as error:  # imageio's backends fail in their own ways
            hint = NO_FFMPEG if video.suffix == ".mp4" else ""
            raise UserFacingError(f"cannot write {video}: {str(error).strip()}{hint}") from error

    return attempt


def film(env: "Locomotion", act: Act, video: Path, episodes: int, seed: int) -> list[Walk]:
    """Film episodes from consecutive seeds, in real time; the camera tracks the robot."""
    walks = []
    with filming(video, round(1 / env.dt)) as add:
        for k in range(episodes):
            walks.append(walk(env, act, seed + k))
            with closing(Camera(env, walks[-1].poses)) as camera:
                for pose in walks[-1].poses:
                    add(camera.follow(pose))
    return walks


# ---------------------------------------------------------------------- pictures


def moments(walk: Walk, apart: float) -> list[int]:
    """Steps at which the robot is at least ``apart`` metres from where it was at the previous one."""
    found = [0]
    for t, place in enumerate(walk.poses[:, :2]):
        if len(found) < MOMENTS and np.hypot(*(place - walk.poses[found[-1], :2])) >= apart:
            found.append(t)
    last = len(walk.poses) - 1
    if len(found) < MOMENTS and last > found[-1]:
        found.append(last)  # how a walk that went nowhere, or ended early, ended
    return found


def picture(env: "Locomotion", act: Act, seed: int, out: Path, render: bool = True) -> tuple[Walk, str]:
    """Draw a walk to ``out``: the robot at several moments, above |da| / delta of every joint over time.

    Without ``render``, the increments alone. Returns the walk, and why the robot could not be rendered.
    """
    made = walk(env, act, seed)
    shown = moments(made, APART * env.robot.base_height)
    poses, image, why = made.poses[shown], None, ""
    if render:
        try:
            with closing(Camera(env, poses, 1600, 560, shadow=4096)) as camera:
                image = camera.together(poses)
        except UserFacingError as error:
            why = str(error)
    draw(made, shown if image is not None else [], image).savefig(out)
    return made, why


class Strip:
    """Frames of an episode of unknown length, evenly apart; at most twice MOMENTS are kept.

    Args:
        render: returns the current frame.
    """

    def __init__(self, render: Callable[[], Image]) -> None:
        self.render, self.step, self.every = render, 0, 1
        self.kept: list[tuple[int, Image]] = []

    def look(self) -> None:
        """Render the frame before the next step, if it is one to keep."""
        if self.step % self.every == 0:
            self.kept.append((self.step, np.asarray(self.render(), np.uint8)[..., :3]))
        if len(self.kept) == 2 * MOMENTS:
            self.kept, self.every = self.kept[::2], 2 * self.every
        self.step += 1

    def side_by_side(self) -> tuple[list[int], Image]:
        """The steps of at most MOMENTS frames, and those frames as one image."""
        steps, frames = zip(*self.kept[:: -(-len(self.kept) // MOMENTS)], strict=True)
        return list(steps), np.concatenate(frames, axis=1)


def draw(walk: Walk, shown: Sequence[int], image: Image | None) -> "Figure":
    """The image, and below it a panel per joint from the start to some time after the last moment shown."""
    from matplotlib.figure import Figure

    length = len(walk.episode.actions) - 1
    steps = max(min(shown[-1] + MARGIN, length), min(2 * MARGIN, length)) if shown else length
    actions, dt = walk.episode.actions[: steps + 1], walk.dt or 1.0
    increments, allowed = increments_and_limits(actions, walk.limits)
    violations = rate_use(actions, walk.limits).violations
    share, time = np.abs(increments) / allowed, dt * np.arange(1, steps + 1)
    rows = panels(walk.limits.names)
    width, above = 11.0, 0.0 if image is None else 11.0 * image.shape[0] / image.shape[1]
    height = above + 0.5 + 1.05 * len(rows)
    figure = Figure((width, height), dpi=150)
    if image is not None:
        figure.add_axes((0, 1 - above / height, 1, above / height)).imshow(image, aspect="auto")
        figure.axes[0].set_axis_off()
    for r, row in enumerate(rows):
        for c, joint in enumerate(row):
            if joint is None:
                continue
            wide, left, bottom = 10.3 / len(row) / width, (0.5 + 10.3 * c / len(row)) / width, len(rows) - 1 - r
            axis = figure.add_axes((left, (0.45 + 1.05 * bottom) / height, wide - 0.12 / width, 0.68 / height))
            _panel(axis, walk.limits, joint, time, share[:, joint])
            axis.vlines([dt * t for t in shown], 0, 1, color=QUIET, linewidth=0.5, alpha=0.5)
            lowest = r == len(rows) - 1 or rows[r + 1][c] is None
            axis.tick_params(labelleft=c == 0, labelbottom=lowest)
    unit = "seconds" if walk.dt else "control steps"
    caption = f"{unit}; how far each command is from the last one, over the limit stated ({share.size:,} changes, "
    caption += f"{violations} beyond)" + ("; grey: the moments shown above" if shown else "")
    figure.text(0.5, 0.06 / height, caption, ha="center", fontsize=8, color=QUIET)
    return figure


def panels(names: Sequence[str]) -> list[list[int | None]]:
    """Joints in pairs of rows, the left side above the right; joints of neither side come last."""
    sides = [[i for i, name in enumerate(names) if name.startswith(side)] for side in ("left_", "right_")]
    if len(sides[0]) != len(sides[1]):
        sides = [[], []]
    middle = [i for i in range(len(names)) if i not in sides[0] + sides[1]]
    half = -(-len(middle) // 2)
    pair = [sides[0] + middle[:half], sides[1] + middle[half:]]
    columns = min(len(pair[0]), COLUMNS)
    chunks = [row[first : first + columns] for first in range(0, len(pair[0]), columns) for row in pair]
    return [[*row, *[None] * (columns - len(row))] for row in chunks if row]


def _panel(axis: "Axes", limits: RateLimits, joint: int, time: NDArray[Any], share: NDArray[Any]) -> None:
    axis.fill_between(time, share, color=LINE, alpha=0.15, linewidth=0)
    axis.plot(time, share, color=LINE, linewidth=0.8)
    axis.axhline(1, color=LIMIT, linewidth=1)
    axis.set(xlim=(0, time[-1]), ylim=(0, 1.12), yticks=(0, 1))
    axis.locator_params(axis="x", nbins=3, prune="upper")
    name = limits.names[joint].replace("_", " ").removesuffix(" joint")
    title = f"{name}  {limits.delta[..., joint].max():.3g} {limits.units}".replace("$", r"\$")
    axis.set_title(title, fontsize=7, color=INK, pad=3)
    axis.tick_params(labelsize=7, colors=QUIET, length=2)
    axis.spines[:].set_visible(False)
