"""What the pages say is what the code does."""

import re
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from deployed import bundled
from leg_robot import slewrl, working_in

from slewrl import LAYERS, RateLimit, RateLimits

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def readme_code():
    """The Python of the README: the layer, the wrapper, the loop on a robot."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_the_readme_is_short():
    prose = re.sub(r"^```.*?^```$", "", (ROOT / "README.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    assert len(prose.split()) <= 700
    assert len(re.findall(r"!\[", prose)) == 2


def test_the_readmes_wrappers_limit():
    _, code, _ = readme_code()
    for line in [line for line in code.splitlines() if line.startswith("env = ")]:
        scope: dict = {}
        exec(f"import gymnasium as gym\nimport slewrl\n{line}", scope)
        env = scope["env"]
        before = env.reset(seed=0)[0][-6:]
        after = env.step(np.full(6, np.inf, np.float32))[0][-6:]
        assert isinstance(env, RateLimit) and (after > before).all()
        assert not env.limits.outside(after, before).any()


def test_the_readme_example_prints_what_it_says():
    code, _, _ = readme_code()
    scope: dict = {}
    for line in code.splitlines():
        exec(line.split("#")[0], scope)
        if said := re.search(r"# (tensor|array)(\(.*?\)):?", line):
            value = np.asarray(eval(line.split("#")[0], scope))
            expected = eval(said.group(2), {"False": False})
            assert value.tolist() == pytest.approx(expected, abs=5e-5)
    assert isinstance(scope["action"].executed, torch.Tensor)


def test_the_readmes_loop_runs_a_robot(tmp_path, monkeypatch):
    pytest.importorskip("onnxscript", reason='ONNX is not installed: pip install "slewrl[onnx]"')
    bundled(tmp_path)
    monkeypatch.chdir(tmp_path)
    _, _, code = readme_code()
    sent: list = []

    def send(command):
        sent.append(command)
        scope["running"] = len(sent) < 10

    scope: dict = {"measured_pose": [0.0], "observation": [1.0, 0.0, 0.0], "running": True, "send": send}
    exec(code, scope)
    assert len(sent) == 10 and all(command.shape == (1,) for command in sent)


EXAMPLES = {
    "01_policy.py": " 0 beyond a limit; .* finite: True",
    "02_own_env.py": "200 steps, 0 beyond the limit",
    "03_sb3.py": " 0 of its 200 steps beyond it\nwrote pendulum.bundle",
    "07_datasheet_to_controller.py": "passed: .*500 steps, 10 of them blind: 0 commands beyond a limit",
    "inner_loop.py": " 0 beyond a limit; overshoot 0.000000 rad",
    "08_arm.py": "passed: .*% of an acceleration limit; 0 of 3,500 commands beyond",
    "limit_any_policy.py": " 0 beyond a limit; .* finite: True",
}
"""What each says in the end."""
NEEDS = {"03_sb3.py": "stable_baselines3", "07_datasheet_to_controller.py": "onnxscript", "08_arm.py": "onnxscript"}


SLOW = ("07_datasheet_to_controller.py", "08_arm.py")
"""Examples whose steps the page on the way from a datasheet to the robot has, too, whose commands are run below."""


@pytest.mark.parametrize("name", [pytest.param(x, marks=[pytest.mark.slow] if x in SLOW else []) for x in EXAMPLES])
@pytest.mark.filterwarnings("default")
def test_examples_run(name, tmp_path, monkeypatch, capfd):
    """As ``python EXAMPLE``, but in this process, which has imported what they import."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    example = ROOT / "examples" / name
    monkeypatch.setattr(sys, "argv", [str(example), *(["600"] if name in NEEDS else [])])
    monkeypatch.syspath_prepend(example.parent)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    shown = capfd.readouterr().out  # what the commands that an example starts say, too
    assert re.search(EXAMPLES[name], shown, re.DOTALL), shown
    assert len(example.read_text().splitlines()) <= 50  # one screen


def test_every_example_has_its_test():
    elsewhere = {
        "campaign.ipynb": "campaign/test_frame.py",
        "leg.py": "deploy/test_end_to_end.py",
        "leg.urdf": "deploy/test_end_to_end.py",
        "leg_limits.yaml": "deploy/test_end_to_end.py",
        "panda.py": "docs/test_docs.py",
        "panda_joint_limits.yaml": "limits/test_acceleration_files.py",
        "ros2_node.py": "deploy/test_ros_node.py",
        "04_torchrl.py": "integrations/test_torchrl.py",
        "05_rsl_rl.py": "integrations/test_rsl_rl.py",
        "06_cleanrl_sac.py": "integrations/test_examples_cleanrl.py",
    }
    assert all((ROOT / "tests" / name).exists() for name in elsewhere.values())
    found = {path.name for path in (ROOT / "examples").iterdir() if path.is_file()}
    assert found == elsewhere.keys() | EXAMPLES.keys()


def test_the_limits_page_is_code_that_runs(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "limits.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "robot.urdf").write_text((ROOT / "examples" / "leg.urdf").read_text())
    hinges = '<geom size="1"/><joint name="left_knee" range="0 90"/><joint name="left_hip" axis="1 0 0" range="0 90"/>'
    (tmp_path / "robot.xml").write_text(f"<mujoco><worldbody><body>{hinges}</body></worldbody></mujoco>")
    RateLimits.preset("H1", "paper").to_yaml("limits.yaml")
    (tmp_path / "joint_limits.yaml").write_text("joint_limits: {left_ankle_joint: {max_velocity: 9.0}}")
    for line in code.splitlines():
        assert isinstance(eval(line.split("#")[0], {"RateLimits": RateLimits}), RateLimits)


def test_the_way_from_a_datasheet_to_the_robot(tmp_path, capsys):
    """Every command and every line of Python of the page, in order, as someone who follows it would."""
    page = (ROOT / "docs" / "datasheet_to_robot.md").read_text()
    for name in ("leg.py", "leg.urdf", "panda.py", "panda_joint_limits.yaml"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    scope: dict = {}
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    with working_in(tmp_path):
        for language, text in blocks:
            if language == "python":
                exec(text, scope)
                continue
            for line in text.splitlines():
                command, *arguments = line.split()
                assert command == "slewrl", line
                slewrl(*arguments)
    assert len(blocks) == 11 and {path.name for path in tmp_path.iterdir()} >= {"limits.yaml", "joint_limits.yaml"}
    shown = " ".join(capsys.readouterr().out.split())
    said = re.search(r"print\(controller.fault\)  # (.*)", page).group(1)
    assert said in shown and "violations 0 " in shown
    # What the limiter's comment says: reached, held, risen by its limit.
    limiter, pose = scope["limiter"], scope["robot"].data.qpos
    assert scope["command"].tolist()[1] == pose[1]
    assert scope["command"].tolist()[2] == pytest.approx(min(pose[2] + limiter.up[2], limiter.high[2]))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_paths_exist(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:src|tests|docs|benchmarks|examples)/[\w./]+)`", text):
        assert (ROOT / path).exists(), path


def test_every_layer_has_its_row():
    text = (ROOT / "docs" / "layers.md").read_text()
    assert all(f"| `{name}` |" in text for name in LAYERS)


def test_make_targets_named_in_the_pages_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"`?make ([a-z-]+)`?", page.read_text()):
            if target in ("and", "which", "sets", "its"):
                continue
            assert f"\n{target}:" in makefile, f"{page.name}: make {target}"
