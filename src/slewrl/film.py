"""What a walk looks like: a film of it, and one picture of it above its increments over their limits."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import fromstring, tostring

import numpy as np
from numpy.typing import NDArray

from slewrl.envs.worlds import Episode
from slewrl.errors import UserFacingError
from slewrl.limits import RateLimits
from slewrl.metrics import increments_and_limits, rate_use

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slewrl.envs.locomotion import Locomotion

NO_GL = """cannot render {task}: {error}
A picture needs a GL library. Without a screen, on Debian or Ubuntu:  apt-get install libegl1 libgl1-mesa-dri
Pendulum and other classic tasks need pygame:  pip install pygame"""
Pixels = NDArray[np.uint8]
"""(height, width, 3)"""
Act = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Augmented observations (N, n) to actions (N, d)."""
APART, MOMENTS = 0.8, 6
"""Robots in a picture: so far apart, at least, as a multiple of the height of the base; and so many, at most."""
SIGHT = 12.0
"""Metres of rough ground around a walk that are rendered."""
MARGIN = 25
"""Control steps that are plotted after the last moment shown."""
INK, QUIET, LINE, LIMIT = "#1f2328", "#656d76", "#0969da", "#cf222e"


# ---------------------------------------------------------------------- walking


@dataclass(frozen=True)
class Walk:
    """One episode of a robot."""

    poses: NDArray[np.float64]
    """(T, nq): MuJoCo's positions before each step."""
    episode: Episode
    limits: RateLimits
    dt: float
    """Seconds per step."""

    @property
    def violations(self) -> int:
        """Joint steps outside F_t, counted exactly."""
        return rate_use(self.episode.chain, self.limits).violations


def walk(worlds: "Locomotion", act: Act, seed: int) -> Walk:
    """The first episode of the first of the worlds."""
    worlds.reset(seed)
    poses: list[NDArray[np.float64]] = []
    while True:
        poses.append(worlds.physics.qpos[0].copy())
        if worlds.step(act(worlds.observations)).ended[0]:
            return Walk(np.stack(poses), worlds.episodes[0], worlds.limits, worlds.dt)


# ---------------------------------------------------------------------- looking


def choose_gl() -> None:
    """Have MuJoCo render without a screen where there is none; before its first import."""
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")


def prepare_gl(task: str) -> None:
    """Import MuJoCo to render with; says what is missing where it cannot."""
    choose_gl()
    try:
        import mujoco  # type: ignore[import-untyped]  # noqa: F401
    except Exception as error:  # each GL loader fails in its own way
        raise UserFacingError(NO_GL.format(task=task, error=error)) from error


def visible(worlds: "Locomotion", poses: NDArray[np.float64] | None = None) -> Any:
    """The robot's MuJoCo model with the geoms that are only for the eye.

    Of rough ground it has all or, since that takes seconds a picture, what lies around given positions (k, nq).
    """
    import mujoco

    from slewrl.robots.mjcf import mjcf

    terrain = worlds.terrain
    if terrain is None:
        return mujoco.MjModel.from_xml_string(mjcf(worlds.robot))
    middle = np.zeros(2)
    if poses is not None:
        half = np.array([terrain.radius_x, terrain.radius_y])
        ends = np.stack([poses[:, :2].min(0) - SIGHT, poses[:, :2].max(0) + SIGHT]).clip(-half, half)
        (left, lower), (right, upper) = np.round((ends + half) / terrain.cell).astype(int)
        terrain = replace(terrain, heights=terrain.heights[lower : upper + 1, left : right + 1])
        middle = np.array([left + right, lower + upper]) * terrain.cell / 2 - half
    root = fromstring(mjcf(worlds.robot, terrain=terrain))
    for ground in root.findall("worldbody/geom"):
        ground.set("pos", f"{middle[0]} {middle[1]} {terrain.lowest}")
    model = mujoco.MjModel.from_xml_string(tostring(root, encoding="unicode"))
    model.hfield_data[:] = terrain.hfield_data
    return model


class Camera:
    """Renders a robot of our own.

    Args:
        worlds: whose robot and ground it is.
        poses: the positions (k, nq) it will be rendered in.
        width: of a picture, in pixels.
        height: likewise.
        shadow: side of the map of shadows, in pixels; 4096 takes twice as long as 1024.
    """

    def __init__(
        self, worlds: "Locomotion", poses: NDArray[np.float64], width: int = 640, height: int = 480, shadow: int = 1024
    ) -> None:
        import mujoco

        self.model, self.height = visible(worlds, poses), worlds.robot.base_height
        self.model.vis.quality.shadowsize = shadow
        self.data, self.aspect = mujoco.MjData(self.model), width / height
        try:
            self.renderer = mujoco.Renderer(self.model, height, width)
        except Exception as error:  # each GL loader fails in its own way
            raise UserFacingError(NO_GL.format(task=worlds.robot.name, error=error)) from error

    def follow(self, pose: NDArray[np.float64]) -> Pixels:
        """One robot, in the middle, from a camera that goes with it."""
        self._put(pose)
        self.renderer.update_scene(self.data, camera="track")
        pixels: Pixels = self.renderer.render()
        return pixels

    def together(self, poses: NDArray[np.float64]) -> Pixels:
        """The robot at several moments (k, nq), all in one picture, from the side; it goes from left to right."""
        import mujoco

        self._put(poses[0])
        self.renderer.update_scene(self.data, self._aside(poses))
        for pose in poses[1:]:
            self._put(pose)
            seen = (mujoco.MjvOption(), mujoco.MjvPerturb(), mujoco.mjtCatBit.mjCAT_DYNAMIC)
            mujoco.mjv_addGeoms(self.model, self.data, *seen, self.renderer.scene)
        pixels: Pixels = self.renderer.render()
        return pixels

    def _put(self, pose: NDArray[np.float64]) -> None:
        import mujoco

        self.data.qpos[:] = pose
        mujoco.mj_forward(self.model, self.data)

    def _aside(self, poses: NDArray[np.float64]) -> Any:
        """A camera that has all the way in its picture."""
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
    """Refuse a file that no film could be written to."""
    if video.suffix not in (".mp4", ".gif"):
        raise ValueError(f"--video is {str(video)!r}, expected a name that ends in .mp4 or .gif")
    if not video.parent.is_dir():
        raise FileNotFoundError(f"no folder {str(video.parent)!r} to write {video.name} to")


@contextmanager
def filming(video: Path, fps: float) -> Iterator[Callable[[Pixels], None]]:
    """A function that adds a picture to a film; the file is whole at the end, or not there."""
    import imageio.v2 as imageio

    aside = video.with_stem(f".{video.stem}")  # no film that was broken off takes the place of a whole one
    try:
        forever: Any = {"loop": 0} if video.suffix == ".gif" else {}
        writer: Any = imageio.get_writer(aside, fps=fps, **forever)  # opens at the first picture
        with writer:
            yield writer.append_data
        os.replace(aside, video)
    finally:
        aside.unlink(missing_ok=True)


def film(worlds: "Locomotion", act: Act, video: Path, episodes: int, seed: int) -> list[Walk]:
    """Film first episodes from seeds that follow each other, in real time; the camera goes with the robot."""
    walks = []
    with filming(video, round(1 / worlds.dt)) as add:
        for k in range(episodes):
            walks.append(walk(worlds, act, seed + k))
            with closing(Camera(worlds, walks[-1].poses)) as camera:
                for pose in walks[-1].poses:
                    add(camera.follow(pose))
    return walks


# ---------------------------------------------------------------------- the picture


def moments(walk: Walk, apart: float) -> list[int]:
    """Steps at which the robot is at least ``apart`` metres from where it was at the one before."""
    found = [0]
    for t, place in enumerate(walk.poses[:, :2]):
        if len(found) < MOMENTS and np.hypot(*(place - walk.poses[found[-1], :2])) >= apart:
            found.append(t)
    last = len(walk.poses) - 1
    if len(found) < MOMENTS and last > found[-1]:
        found.append(last)  # a walk that went nowhere, or ended early, shows how
    return found


def picture(worlds: "Locomotion", act: Act, seed: int, out: Path) -> Walk:
    """Draw a real walk to ``out``: the robot at several moments, above |da| / delta of every joint over time."""
    made = walk(worlds, act, seed)
    shown = moments(made, APART * worlds.robot.base_height)
    poses = made.poses[shown]
    with closing(Camera(worlds, poses, 1600, 560, shadow=4096)) as camera:
        seen = camera.together(poses)
    draw(made, shown, seen).savefig(out, dpi=150, facecolor="white")
    return made


def draw(walk: Walk, shown: Sequence[int], seen: Pixels) -> "Figure":
    """The figure: ``seen``, and below it a panel per joint from the start to some time after the last moment."""
    from matplotlib.figure import Figure

    steps = max(min(shown[-1] + MARGIN, len(walk.poses)), min(2 * MARGIN, len(walk.poses)))
    chain = walk.episode.chain[: steps + 1]
    increments, allowed = increments_and_limits(chain, walk.limits)
    beyond = rate_use(chain, walk.limits).violations
    share, time = np.abs(increments) / allowed, walk.dt * np.arange(1, steps + 1)
    rows = panels(walk.limits.names)
    width, above = 11.0, 11.0 * seen.shape[0] / seen.shape[1]
    height = above + 0.5 + 1.05 * len(rows)
    figure = Figure((width, height))
    figure.add_axes((0, 1 - above / height, 1, above / height)).imshow(seen, aspect="auto")
    figure.axes[0].set_axis_off()
    for r, row in enumerate(rows):
        for c, joint in enumerate(row):
            if joint is None:
                continue
            wide, left, bottom = 10.3 / len(row) / width, (0.5 + 10.3 * c / len(row)) / width, len(rows) - 1 - r
            axis = figure.add_axes((left, (0.45 + 1.05 * bottom) / height, wide - 0.12 / width, 0.68 / height))
            _panel(axis, walk.limits, joint, time, share[:, joint])
            axis.vlines([walk.dt * t for t in shown], 0, 1, color=QUIET, linewidth=0.5, alpha=0.5)
            lowest = r == len(rows) - 1 or rows[r + 1][c] is None
            axis.tick_params(labelleft=c == 0, labelbottom=lowest)
    words = f"seconds; how far each command is from the last one, over the limit stated ({share.size:,} changes, "
    words += f"{beyond} beyond); grey: the moments shown above"
    figure.text(0.5, 0.06 / height, words, ha="center", fontsize=8, color=QUIET)
    return figure


def panels(names: Sequence[str]) -> list[list[int | None]]:
    """Joints in two rows, the left side above the right one; those of neither side come last."""
    sides = [[i for i, name in enumerate(names) if name.startswith(side)] for side in ("left_", "right_")]
    if len(sides[0]) != len(sides[1]):
        sides = [[], []]
    middle = [i for i in range(len(names)) if i not in sides[0] + sides[1]]
    half = -(-len(middle) // 2)
    rows = [sides[0] + middle[:half], sides[1] + middle[half:]]
    return [[*row, *[None] * (len(rows[0]) - len(row))] for row in rows]


def _panel(axis: "Axes", limits: RateLimits, joint: int, time: NDArray[Any], share: NDArray[Any]) -> None:
    axis.fill_between(time, share, color=LINE, alpha=0.15, linewidth=0)
    axis.plot(time, share, color=LINE, linewidth=0.8)
    axis.axhline(1, color=LIMIT, linewidth=1)
    axis.set(xlim=(0, time[-1]), ylim=(0, 1.12), yticks=(0, 1))
    axis.locator_params(axis="x", nbins=3, prune="upper")
    name = limits.names[joint].replace("_", " ").removesuffix(" joint")
    axis.set_title(f"{name}  {limits.delta[joint]:.3g} {limits.units}", fontsize=7, color=INK, pad=3)
    axis.tick_params(labelsize=7, colors=QUIET, length=2)
    for spine in axis.spines.values():
        spine.set_visible(False)
