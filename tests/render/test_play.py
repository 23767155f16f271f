"""Looking at walking robots: films, the picture, and a bundle on its task; what is missing is named."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from deployed import bundled
from test_deploy_robot import WALKING

from slewrl import RateLimits
from slewrl.commands.show import Play
from slewrl.envs.tasks import make_vec_env
from slewrl.envs.vec_env import Episode
from slewrl.errors import UserFacingError
from slewrl.render import film, play
from slewrl.robots import ROBOTS
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import train

RESULTS = Path(__file__).parents[2] / "results"
pytest.importorskip("onnxscript", reason='ONNX is not installed: pip install "slewrl[onnx]"')


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of G1-flat with episodes of 10 steps, and its bundle beside it."""
    return bundled(tmp_path_factory.mktemp("play"), **{**WALKING, "task_options": {"seconds": 0.2}})


@pytest.fixture(scope="module")
def run(made):
    return str(made.parent / "run")


# ---------------------------------------------------------------------- walking


def test_a_bundle_walks_as_its_run_does(run, made):
    """The torch policy, and the controller with the bundle: the same walk on the same seed and command."""
    walks = []
    for source, bundle in ((run, None), ("G1-flat", made)):
        walker = play.walker(source, bundle, (0.4, -0.1, 0.2), rendered=False)
        walks.append(film.walk(walker.env, walker.act, 3))
        assert walker.env.command.tolist() == [[0.4, -0.1, 0.2]]
    ours, theirs = walks
    assert len(ours.poses) == 10 and ours.episode.actions.shape == (11, 13) and ours.dt == 0.02
    assert np.abs(ours.episode.actions - theirs.episode.actions).max() < 1e-5
    assert ours.violations == theirs.violations == 0
    again = film.walk(walker.env, walker.act, 3)  # the controller is started anew
    assert np.array_equal(again.episode.actions, theirs.episode.actions)


def test_a_command_is_rounded_towards_where_the_joint_was():
    up = float(np.float32(0.1)) + 0.3 * float(np.spacing(np.float32(0.1)))
    prev, command = np.array([0.0, 1.0, 0.5]), np.array([up, up, 0.5])
    narrow = play._narrow(command, prev)
    assert narrow.dtype == np.float32 and narrow.tolist() == [np.float32(0.1), np.nextafter(np.float32(0.1), 1), 0.5]
    assert (np.abs(narrow - prev) <= np.abs(command - prev)).all()


def test_what_does_not_fit_is_named(run, made, tmp_path):
    with pytest.raises(ValueError, match="G1-flat is a task: say whose policy"):
        Play("G1-flat").run()
    with pytest.raises(ValueError, match="'Reacher-v5' is none of H1-rough, H1-flat, G1-flat, G1-rough"):
        Play("Reacher-v5", made).run()
    with pytest.raises(ValueError, match="left_hip_pitch, left_hip_roll.*expected"):
        play.walker("H1-flat", made, rendered=False)
    with pytest.raises(ValueError, match="expected what G1-rough gives.*height_scan"):
        play.walker("G1-rough", made, rendered=False)
    with pytest.raises(ValueError, match="--command is .*expected finite numbers"):
        play.walker("G1-flat", made, (0.5, float("nan"), 0.0), rendered=False)
    with pytest.raises(FileNotFoundError, match="holds no run"):
        Play(str(tmp_path)).run()
    with pytest.raises(ValueError, match=r"ends in \.mp4 or \.gif"):
        play.walker(run, rendered=False).record(tmp_path / "x.avi", 1, 0)
    with pytest.raises(FileNotFoundError, match="no folder"):
        play.walker(run, rendered=False).picture(tmp_path / "none" / "x.png", 0)


def test_other_runs_have_no_such_options(tmp_path, monkeypatch):
    monkeypatch.setattr(play, "walks", lambda source, bundle: False)
    for options in ({"view": True}, {"command": (0.0, 0.0, 0.0)}):
        with pytest.raises(ValueError, match="are for walking robots"):
            Play("runs/x", **options).run()


@pytest.fixture(scope="module")
def reacher(tmp_path_factory):
    """A run of a Gymnasium task, hardly trained."""
    folder = tmp_path_factory.mktemp("reacher") / "run[/]"  # as rich's markup would have it
    spec = RunSpec("Reacher-v5", "tight", steps=60, learning_starts=50, evaluate_every=60)
    RunFolder(folder).create(spec)
    train(spec, RunFolder(folder))
    return str(folder)


def played(folder, *options, **environment):
    """As a person would, in a process of its own: MuJoCo chooses its GL library when it is first imported."""
    command = [sys.executable, "-m", "slewrl", "play", *map(str, options)]
    said = {**os.environ, "COLUMNS": "300", **environment}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=said)


@pytest.mark.slow
def test_the_increments_of_any_run_are_drawn(reacher, tmp_path):
    import imageio.v3 as iio

    result = played(tmp_path, reacher, "--picture", "x.png")
    assert result.returncode == 0, result.stderr
    assert "wrote x.png: " in result.stdout and "return" in result.stdout and "0 violations" in result.stdout
    seen = "wrote x.png: 50 frames" in result.stdout
    assert seen or "A picture needs a GL library" in result.stdout
    shape = iio.imread(tmp_path / "x.png").shape
    assert shape[1] == 1650 and (shape[0] > 400) == seen  # six frames above, or the panels alone


def test_without_gl_the_increments_are_drawn_and_the_reason_is_said(reacher, made, tmp_path):
    headless = {"MUJOCO_GL": "glfw", "DISPLAY": ""}
    for options in ([reacher], ["G1-flat", "--bundle", made]):
        (tmp_path / "x.png").unlink(missing_ok=True)
        result = played(tmp_path, *options, "--picture", "x.png", **headless)
        assert result.returncode == 0, result.stderr
        assert "wrote x.png: the increments only" in result.stdout and "Traceback" not in result.stderr
        assert "MUJOCO_GL is glfw, which needs a screen, and DISPLAY is not set" in result.stdout
        assert (tmp_path / "x.png").stat().st_size > 1000
    refused = played(tmp_path, reacher, "--video", "x.mp4", MUJOCO_GL="nonsense")
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert "invalid value for environment variable MUJOCO_GL: nonsense" in refused.stderr


def test_a_reason_that_is_not_gl_does_not_blame_it():
    told = str(film.cannot_render("Arm-v0", RuntimeError("the camera is on fire")))
    assert told == "cannot render Arm-v0: the camera is on fire"


def test_an_environment_that_renders_nothing_is_named():
    env = SimpleNamespace(spec=SimpleNamespace(id="Arm-v0"), render=lambda: None)
    with pytest.raises(UserFacingError, match=r"cannot render Arm-v0: its render\(\) gave NoneType, expected an array"):
        play._render(env, "")


def test_a_missing_ffmpeg_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.delitem(sys.modules, "imageio.plugins.ffmpeg", raising=False)  # another test may have loaded it
    with (
        pytest.raises(UserFacingError, match=r"(?s)cannot write .*x\.mp4.*An \.mp4 needs ffmpeg.*or write a \.gif"),
        film.filming(tmp_path / "x.mp4", 30) as add,
    ):
        add(np.zeros((64, 64, 3), np.uint8))
    assert not list(tmp_path.iterdir())


def test_pictures_of_a_long_episode_are_evenly_apart():
    strip = film.Strip(lambda: np.full((2, 3, 3), step % 256, np.uint8))
    for step in range(1000):  # noqa: B007
        strip.look()
    steps, pixels = strip.side_by_side()
    assert len(set(np.diff(steps))) == 1 and 4 <= len(steps) <= 6 and steps[0] == 0 and steps[-1] > 700
    assert (
        len(strip.kept) < 12
        and pixels.shape == (2, 3 * len(steps), 3)
        and pixels[0, ::3, 0].tolist() == [step % 256 for step in steps]
    )


def test_another_simulators_run_is_not_played(tmp_path):
    RunFolder(tmp_path / "r").create(RunSpec("mjlab:Some-Task"))
    with pytest.raises(ValueError, match="'mjlab:Some-Task', which another simulator shows"):
        Play(str(tmp_path / "r")).run()


# ---------------------------------------------------------------------- looking


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # imageio's
def test_a_film_and_a_picture(run, made, tmp_path):
    """As a person would, in a process of its own: MuJoCo chooses its GL library when it is first imported."""
    options = ["--bundle", made, "--video", "x.mp4", "--picture", "x.png", "--command", "0.5", "0", "-0.2"]
    command = [sys.executable, "-m", "slewrl", "play", "G1-flat", *options, "--episodes", "2", "--seed", "4"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if result.returncode:
        assert "A picture needs a GL library" in result.stderr and "Traceback" not in result.stderr
        pytest.skip("no GL library on this machine: Debian's libegl1 and libgl1-mesa-dri")
    said = " ".join(result.stdout.split())
    assert "wrote x.png: 10 frames" in said and "wrote x.mp4: 20 frames" in said and said.count("0 violations") == 2
    import imageio.v3 as iio

    frames = iio.imread(tmp_path / "x.mp4")
    assert frames.shape == (20, 480, 640, 3) and iio.immeta(tmp_path / "x.mp4")["fps"] == 50
    # The robot is dark on a pale ground, in the middle of every frame.
    assert (frames[:, 100:400, 200:440].min((1, 2, 3)) < 40).all() and frames[:, :, :60].min() > 100
    picture = iio.imread(tmp_path / "x.png")
    assert picture.shape[1] == 1650 and picture[:570, :, :3].min() < 40
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.mp4", "x.png"]


def test_a_missing_gl_library_is_named(run, tmp_path, monkeypatch):
    import mujoco

    def fails(*_):
        raise AttributeError("'NoneType' object has no attribute 'eglQueryString'")

    monkeypatch.setattr(mujoco, "Renderer", fails)
    with pytest.raises(UserFacingError, match="cannot render G1: 'NoneType' object has no attribute 'eglQueryString'"):
        play.walker(run, rendered=False).record(tmp_path / "x.mp4", 1, 0)
    assert not list(tmp_path.iterdir())


def test_rough_ground_around_a_walk_is_where_it_is():
    """The patch that is rendered has the heights of the whole, by a ray from above."""
    import mujoco

    vec_env = make_vec_env("H1-rough", RateLimits.preset("H1-rough", "paper"), 1, {}, training=False)
    vec_env.reset(3)
    poses = vec_env.physics.qpos.copy()
    model = film.visible(vec_env, poses)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert model.nq == poses.shape[1] and model.hfield_data.size < vec_env.terrain.hfield_data.size / 10
    geom, rng = np.zeros(1, np.int32), np.random.default_rng(0)
    for place in poses[0, :2] + rng.uniform(-6, 6, (40, 2)):
        ray = mujoco.mj_ray(model, data, np.array([*place, 9.0]), np.array([0, 0, -1.0]), None, 1, -1, geom)
        assert 9 - ray == pytest.approx(vec_env.terrain.height(*place), abs=1e-4)


def test_robots_in_the_picture_are_apart():
    poses = np.zeros((100, 9))
    poses[:, 0] = 0.1 * np.arange(100)
    walk = SimpleNamespace(poses=poses)
    assert film.moments(walk, 0.45) == [0, 5, 10, 15, 20, 25]
    assert film.moments(walk, 4.0) == [0, 40, 80, 99]
    assert film.moments(SimpleNamespace(poses=poses[:1]), 1.0) == [0]


def test_a_panel_for_each_joint_left_above_right():
    names = RateLimits.preset("G1", "paper").names
    rows = film.panels(names)
    assert [[names[i] if i is not None else "" for i in row][::3] for row in rows] == [
        ["left_hip_pitch", "left_knee", "waist_yaw"], ["right_hip_pitch", "right_knee", ""],
    ]  # fmt: skip
    assert film.panels(["a", "b", "c"]) == [[0, 1], [2, None]]
    assert film.panels(["left_a", "b"]) == [[0], [1]]
    assert film.panels(["a"]) == [[0]]
    many = film.panels([f"j{i}" for i in range(19)])
    assert [len(row) for row in many] == [8] * 4 and many[2] == [8, 9, *[None] * 6] and many[3] == [18, *[None] * 7]


def test_the_figure_shows_increments_over_limits():
    limits = RateLimits(delta=[0.1, 0.2], low=-1.0, high=1.0, names=["left_knee", "right_knee"], units="rad")
    actions = np.zeros((61, 2))
    actions[:, 0] = 0.05 * (np.arange(61) % 2)  # half of the limit, up and down
    walk = film.Walk(Episode(0.0, actions), limits, 0.02)
    figure = film.draw(walk, [0, 10], np.zeros((56, 160, 3), np.uint8))
    _, left, right = figure.axes
    assert [axis.get_title() for axis in (left, right)] == ["left knee  0.1 rad", "right knee  0.2 rad"]
    time, share = left.lines[0].get_data()
    assert share == pytest.approx(np.full(50, 0.5)) and time[[0, -1]] == pytest.approx([0.02, 1.0])
    assert left.lines[1].get_ydata() == [1, 1] and (right.lines[0].get_ydata() == 0).all()
    assert "100 changes, 0 beyond" in figure.texts[0].get_text()


def test_a_live_view_needs_viser_or_serves(run, monkeypatch):
    from slewrl.render.viewer import view

    walker = play.walker(run, rendered=False)
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(UserFacingError, match=r"a live view needs viser .*slewrl\[viewer\]"):
        view(walker.env, walker.act, 0, print)
    monkeypatch.undo()
    pytest.importorskip("viser", reason='viser is not installed: pip install "slewrl[viewer]"')
    said, left = [], iter([True] * 14)
    view(walker.env, walker.act, 0, said.append, lambda: next(left, False))
    assert "walking at http://localhost:" in said[0] and walker.env.clock[0] == 14 - 10


def test_the_acceleration_of_a_bundle_is_that_of_its_world():
    for dt in (None, 0.02):
        limits = RateLimits(0.1, -1, 1, names=["a", "b"], dt=dt, acceleration=[60, 0.02], deceleration=[70, 0.05])
        found = SimpleNamespace(limits=limits, default_pose=np.array([0.5, -0.5]))
        assert play.limits_of(found) == limits.with_reset([0.5, -0.5])
    g1 = RateLimits.preset("G1", "paper")
    assert play.limits_of(SimpleNamespace(limits=g1, default_pose=g1.reset)).grid is None


def test_the_published_bundle_walks_from_the_pose_it_was_trained_with():
    walker = play.walker("G1-flat", RESULTS / "walk" / "g1-flat-ddsrad.bundle", command=(0.5, 0, 0), rendered=False)
    former = ROBOTS["g1"].in_pose("rl_gym")
    assert np.array_equal(walker.env.reset_action, former.default_pose)
    assert walker.env.robot.base_height == former.base_height and walker.env.pose[3] == np.float32(0.3)
    walker.env.reset(7)
    for _ in range(250):
        ended = walker.env.step(walker.act(walker.env.observations)).ended[0]
        assert not ended and walker.env.violations() == 0
