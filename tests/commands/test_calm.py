"""``slewrl calm`` as a person meets it: the table, the picture, and what it says of files that cannot be measured."""

import gymnasium as gym
import numpy as np
import pytest

from slewrl import RateLimits

LIMITS = RateLimits([0.5, 1.0], low=-4.0, high=4.0, names=["hip", "knee"], dt=0.02)


def write(path, commands, header="hip,knee"):
    path.write_text("\n".join([*[header] * bool(header), *(",".join(map(str, row)) for row in commands)]) + "\n")


@pytest.fixture
def shaking():
    """The hip shakes by its limit at every step, the knee moves on a line."""
    hip, knee = np.resize([0.0, 0.5], 100), np.arange(100) / 50
    return np.stack([hip, knee], 1)


def test_the_table_and_the_picture(slewrl, tmp_path, shaking, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    write(tmp_path / "c.csv", shaking)
    LIMITS.to_yaml(tmp_path / "limits.yaml")
    result = slewrl("calm", "c.csv", "--limits", "limits.yaml")
    assert result.returncode == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines() if line.strip()}
    assert rows["hip"][:4] == ["100%", "100%", "2", "2"] and rows["knee"][1] == "0%"
    assert rows["all"][:3] == ["50%", "50%", "1"]
    picture = (tmp_path / "c.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    again = slewrl("calm", "c.csv", "--limits", "limits.yaml")
    assert again.returncode == 2 and "c.png exists: pass --force" in again.stderr
    assert slewrl("calm", "c.csv", "--limits", "limits.yaml", "--force").returncode == 0


def test_without_limits_and_names(slewrl, tmp_path, shaking):
    write(tmp_path / "c.csv", shaking, header="")
    result = slewrl("calm", "c.csv", "--dt", "0.02")
    assert result.returncode == 0, result.stderr
    assert "joint 1" in result.stdout and "at limit" not in result.stdout and "the command's own unit" in result.stdout


def test_one_column(slewrl, tmp_path, shaking):
    write(tmp_path / "c.csv", shaking[:, :1], header="hip")
    result = slewrl("calm", "c.csv", "--dt", "0.02", "--picture", "p.png")
    assert result.returncode == 0 and (tmp_path / "p.png").exists() and "all" not in result.stdout.split()


def test_names_as_other_programs_write_them(slewrl, tmp_path, shaking):
    """pandas numbers columns that have no names; a name may hold what matplotlib takes for mathematics."""
    write(tmp_path / "pandas.csv", shaking, header="0,1")
    result = slewrl("calm", "pandas.csv", "--dt", "0.02")
    assert result.returncode == 0 and "99 steps" in result.stdout, result.stderr
    write(tmp_path / "c.csv", shaking, header="$hip_{x$,knee_y^")
    result = slewrl("calm", "c.csv", "--dt", "0.02")
    assert result.returncode == 0 and "$hip_{x$" in result.stdout, result.stderr
    (tmp_path / "ends.csv").write_text("\nhip\n1\n3\n2\n\n\n")
    assert slewrl("calm", "ends.csv", "--dt", "0.02").returncode == 0


def test_a_column_of_times_is_checked_and_left_out(slewrl, tmp_path, shaking):
    timed = np.column_stack([np.arange(100) * 0.02, shaking])
    write(tmp_path / "c.csv", timed, "time,hip,knee")
    result = slewrl("calm", "c.csv", "--dt", "0.02")
    rows = [line.split()[0] for line in result.stdout.splitlines() if line.strip()]
    assert result.returncode == 0 and "hip" in rows and "time" not in rows
    wrong = slewrl("calm", "c.csv", "--dt", "0.01")
    assert wrong.returncode == 2 and "--dt is 0.01 s, but the rows of c.csv are 0.02 s apart" in wrong.stderr
    write(tmp_path / "numpy.csv", timed, "# time,hip,knee")  # as numpy.savetxt writes a header; its times say dt
    alone = slewrl("calm", "numpy.csv")
    assert alone.returncode == 0 and "99 steps of 0.02 s" in alone.stdout
    assert "time" not in [line.split()[0] for line in alone.stdout.splitlines() if line.split()]
    write(tmp_path / "gap.csv", np.delete(timed, 40, axis=0), "time,hip,knee")
    gap = slewrl("calm", "gap.csv", "--dt", "0.02")
    assert gap.returncode == 2 and "gap.csv, line 42: 0.04 s after the row before, expected 0.02 s" in gap.stderr


def test_names_choose_the_joints(slewrl, tmp_path, shaking):
    """Columns in another order, and one that is no joint of the limits."""
    write(tmp_path / "c.csv", np.column_stack([shaking[:, 1], np.zeros(100), shaking[:, 0]]), "knee,lamp,hip")
    LIMITS.to_yaml(tmp_path / "limits.yaml")
    result = slewrl("calm", "c.csv", "--limits", "limits.yaml")
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines() if line.strip()}
    assert rows["hip"][0] == "100%" and rows["knee"][0] == "0%" and "lamp" not in rows
    assert "left out, no joints of the limits: lamp" in result.stdout
    one = slewrl("calm", "c.csv", "--dt", "0.02", "--joints", "hip", "--force")
    assert one.returncode == 0 and "knee" not in one.stdout
    none = slewrl("calm", "c.csv", "--dt", "0.02", "--joints", "elbow", "--force")
    assert none.returncode == 2 and "has no column 'elbow'; it has: knee, lamp, hip" in none.stderr


def test_a_misspelt_joint_is_refused_and_an_order_is_said(slewrl, tmp_path, shaking):
    LIMITS.to_yaml(tmp_path / "limits.yaml")
    write(tmp_path / "c.csv", shaking, "hip,kene")
    result = slewrl("calm", "c.csv", "--limits", "limits.yaml")
    assert result.returncode == 2 and "(kene)" in result.stderr and "(knee)" in result.stderr
    write(tmp_path / "c.csv", shaking, "a,b")
    assert "taken for the joints in their order: a, b" in slewrl("calm", "c.csv", "--limits", "limits.yaml").stdout


def test_limits_that_do_not_fit_are_doubted(slewrl, tmp_path, shaking):
    write(tmp_path / "c.csv", 3 * shaking)
    LIMITS.to_yaml(tmp_path / "limits.yaml")
    result = slewrl("calm", "c.csv", "--limits", "limits.yaml")
    shown = " ".join(result.stdout.split())
    assert "99 of 198 joint steps are beyond the limit, hip by most, 3 times its limit" in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("hip,knee\n", "has 0 rows of commands, expected at least 3"),
        ("1,2\n1,2\n", "has 2 rows of commands, expected at least 3"),
        ("hip,knee\n1,2\n1,nan\n1,2\n1,2\n", "line 3: column 'knee' is 'nan', expected a finite number"),
        ("1,2\n1,inf\n1,2\n", "line 2: column 2 is 'inf', expected a finite number"),
        ("hip,knee\n1,2\n1,\n1,2\n", "line 3: column 'knee' is empty, expected a number in every row"),
        ("hip,knee\n1,2\n1\n1,2\n", "line 3 has 1 entries, expected 2"),
        ("hip,knee\n1,2\n1,two\n1,2\n", "line 3: column 'knee' is 'two', expected a finite number"),
        ("hip,knee\n1,2\n\n1,2\n1,2\n", "line 3 is empty, expected a row per step: what is missing there is a gap"),
        ("hip\n1\n\n2\n3\n", "line 3 is empty"),
        ("hip,knee\n1,2\n1,1_0\n1,2\n", "line 3: column 'knee' is '1_0', expected a finite number"),
        ("1,2\n1,1e300\n1,2\n", "line 2: column 2 is '1e300', expected a finite number"),
        (f"hip,knee\n1,{'9' * 200_000}\n1,2\n1,2\n", "is no CSV (field larger than field limit"),
        ("hip;knee\n1;2\n1;2\n1;2\n", "is '1;2', expected a finite number, and commas between columns"),
        ("hip,hip\n1,2\n1,2\n1,2\n", "has two columns 'hip'"),
        ("time\n0\n1\n2\n", "has a column 'time' alone"),
        ("time,hip\n0,1\n0,1\n0,2\n", "column 'time' does not rise"),
    ],
)
def test_files_that_cannot_be_measured(slewrl, tmp_path, text, message):
    (tmp_path / "c.csv").write_text(text)
    result = slewrl("calm", "c.csv", "--dt", "0.02")
    assert result.returncode == 2 and message in result.stderr and "c.csv" in result.stderr
    assert not (tmp_path / "c.png").exists()


def test_what_is_no_text(slewrl, tmp_path):
    (tmp_path / "c.csv").write_bytes(b"\xff\xfe\x00")
    result = slewrl("calm", "c.csv", "--dt", "0.02")
    assert result.returncode == 2 and "c.csv is no text" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--dt is missing: seconds from one row to the next"),
        (("--dt", "0"), "--dt is 0, expected seconds > 0"),
        (("--dt", "nan"), "--dt is nan, expected seconds > 0"),
        (("--dt", "0.2"), "--above is 5 Hz, but commands every 0.2 s have no frequency above 2.5 Hz"),
        (("--dt", "0.02", "--above", "-1"), "--above is -1, expected a frequency in Hz > 0"),
        (("--dt", "0.01", "--limits", "limits.yaml"), "the limits of limits.yaml are per step of 0.02 s"),
        (("--dt", "0.02", "--limits", "none.yaml"), "--limits: there is no file 'none.yaml'"),
        (("--dt", "0.02", "--limits", "G1:paper"), "c.csv has 2 columns (joint 1, joint 2), the limits 13 joints"),
    ],
)
def test_options_that_do_not_fit(slewrl, tmp_path, shaking, options, message):
    write(tmp_path / "c.csv", shaking, header="")
    LIMITS.to_yaml(tmp_path / "limits.yaml")
    result = slewrl("calm", "c.csv", *options)
    assert result.returncode == 2 and message in result.stderr, result.stderr


def test_a_missing_file(slewrl):
    result = slewrl("calm", "c.csv", "--dt", "0.02")
    assert result.returncode == 2 and "no file 'c.csv' with commands" in result.stderr


def test_what_runs_record(slewrl, tmp_path):
    """commands.csv of an evaluation can be measured; increments.csv, of steps that are not successive, is refused."""
    run = ("--task", "Reacher-v5", "--steps", "60", "--learning-starts", "40", "--evaluate-every", "60", "--out", "r")
    assert slewrl("train", *run, "--no-tensorboard").returncode == 0
    assert slewrl("evaluate", "r", "--episodes", "1").returncode == 0
    dt = gym.make("Reacher-v5").unwrapped.dt
    result = slewrl("calm", "r/evaluation/commands.csv", "--dt", dt, "--limits", "Reacher-v5:tight")
    assert result.returncode == 0 and "50 steps" in result.stdout, result.stderr
    sparse = slewrl("calm", "r/evaluation/increments.csv", "--dt", dt)
    assert sparse.returncode == 2 and "evenly spaced steps, not of successive ones" in sparse.stderr


def test_the_help_teaches(slewrl):
    result = slewrl("calm", "--help")
    for word in ("a row for each control step", "--limits limits.yaml", "reversals:", "2nd diff", "fast power", "Sm:"):
        assert word in " ".join(result.stdout.replace("│", " ").split()), word
