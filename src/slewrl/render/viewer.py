"""A live view of a walking robot in a browser, with sliders for the command: the MuJoCo model in viser."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slewrl.errors import UserFacingError
from slewrl.render.film import Act, visible

if TYPE_CHECKING:
    from slewrl.locomotion.env import Locomotion

PORT = 8080
SHOWN = 3
"""Geoms of groups below this are drawn, as in MuJoCo's viewer; the others are for collision."""
COARSE = 4
"""Every COARSE-th sample of a height field is drawn, along each side."""


def view(
    env: "Locomotion", act: Act, seed: int, say: Callable[[str], None], running: Callable[[], bool] = lambda: True
) -> None:
    """Serve the first environment in real time, episode after episode, until Ctrl-C or not ``running``.

    ``say`` is called with the address: port 8080, or the next free one.
    """
    try:
        import viser
    except ImportError as error:
        raise UserFacingError(f'a live view needs viser ({error}): pip install "slewrl[viewer]"') from None
    server = viser.ViserServer("localhost", PORT, verbose=False)
    away = 2 * env.robot.base_height
    server.initial_camera.position, server.initial_camera.look_at = (away, -away, away), (0, 0, 0.4 * away)
    say(f"walking at http://localhost:{server.get_port()}; Ctrl-C ends it")
    env.options = replace(env.options, heading=False)  # the sliders give a yaw rate
    scene, due = _Scene(server, env), time.monotonic()
    env.reset(seed)
    try:
        while running():
            scene.show(env.physics.qpos[0])
            scene.steer(env.command[0])
            env.step(act(env.observations))
            due = max(due + env.dt, time.monotonic())  # a slow machine does not catch up
            time.sleep(max(due - time.monotonic(), 0))
    except KeyboardInterrupt:
        say("ended")
    finally:
        server.stop()


class _Scene:
    """The robot in the browser. It stays in the middle and the ground moves, so that the mouse can orbit it."""

    def __init__(self, server: Any, env: "Locomotion") -> None:
        import mujoco  # type: ignore[import-untyped]

        self.model, self.scene = visible(env), server.scene
        self.data = mujoco.MjData(self.model)
        self.world = self.scene.add_frame("/world", show_axes=False)
        self.bodies = [self.scene.add_frame(f"/world/{b}", show_axes=False) for b in range(self.model.nbody)]
        for g in np.flatnonzero(self.model.geom_group < SHOWN).tolist():
            self._add(g, f"/world/{self.model.geom_bodyid[g]}/{g}")
        o = env.options
        ranges = {"ahead, m/s": o.forward, "to the left, m/s": o.sideways, "turning, rad/s": o.turning}
        self.drawn = server.gui.add_checkbox("command drawn at random", True)
        self.sliders = [
            server.gui.add_slider(name, low, max(high, low + 0.05), 0.05, (low + high) / 2)
            for name, (low, high) in ranges.items()
        ]

    def _add(self, g: int, name: str) -> None:
        """Add a geom at its place on its body."""
        import mujoco

        model = self.model
        if model.geom_type[g] == mujoco.mjtGeom.mjGEOM_PLANE:
            self.scene.add_grid(name, infinite_grid=True, fade_distance=30.0)
            return
        colour = tuple(model.mat_rgba[model.geom_matid[g], :3].astype(float))
        place = {"position": model.geom_pos[g], "wxyz": model.geom_quat[g]}
        self.scene.add_mesh_simple(name, *_mesh(model, g), color=colour, **place)

    def show(self, pose: Any) -> None:
        """Move the robot to a pose."""
        import mujoco

        self.data.qpos[:] = pose
        mujoco.mj_kinematics(self.model, self.data)
        self.world.position = (-pose[0], -pose[1], 0.0)
        for frame, place, turn in zip(self.bodies, self.data.xpos, self.data.xquat, strict=True):
            frame.position, frame.wxyz = place, turn

    def steer(self, command: Any) -> None:
        """Overwrite a command (3,) with the sliders' values, unless it is drawn at random."""
        if not self.drawn.value:
            command[:] = [slider.value for slider in self.sliders]


def _mesh(model: Any, g: int) -> tuple[Any, Any]:
    """A geom's vertices (v, 3), in its own frame, and triangles (f, 3)."""
    import mujoco
    from trimesh import creation

    kind, size = mujoco.mjtGeom(model.geom_type[g]).name.removeprefix("mjGEOM_"), model.geom_size[g]
    if kind == "MESH":
        mesh = model.mesh(model.geom_dataid[g])
        first, faces = int(mesh.vertadr[0]), int(mesh.faceadr[0])
        corners = model.mesh_face[faces : faces + int(mesh.facenum[0])]
        return model.mesh_vert[first : first + int(mesh.vertnum[0])], corners
    if kind == "HFIELD":
        return _field(model, model.geom_dataid[g])
    make = {
        "BOX": lambda: creation.box(2 * size),
        "CAPSULE": lambda: creation.capsule(2 * size[1], size[0]),
        "CYLINDER": lambda: creation.cylinder(size[0], 2 * size[1]),
        "SPHERE": lambda: creation.icosphere(3, size[0]),
        "ELLIPSOID": lambda: creation.icosphere(3).apply_scale(size),
    }
    mesh = make[kind]()
    return mesh.vertices, mesh.faces


def _field(model: Any, h: int) -> tuple[Any, Any]:
    """Vertices and triangles of a height field, coarsely sampled."""
    shape, first = (model.hfield_nrow[h], model.hfield_ncol[h]), model.hfield_adr[h]
    high = model.hfield_data[first : first + shape[0] * shape[1]].reshape(shape)[::COARSE, ::COARSE]
    across, along, top, _ = model.hfield_size[h]
    x, y = np.meshgrid(np.linspace(-across, across, high.shape[1]), np.linspace(-along, along, high.shape[0]))
    corner = np.arange(high.size).reshape(high.shape)
    a, b, c, d = (part.ravel() for part in (corner[:-1, :-1], corner[:-1, 1:], corner[1:, :-1], corner[1:, 1:]))
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([b, d, c], 1)])
    return np.stack([x, y, top * high], -1).reshape(-1, 3), faces
