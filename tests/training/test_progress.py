"""How long a run has to go, and what is shown of it where nobody can see a line change."""

import math

import pytest

from slewrl.io.console import Console
from slewrl.training.pace import LEAST, duration, pace, warm_up
from slewrl.training.progress import progress_line
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec

SPEC = RunSpec("Pendulum-v1", steps=60_000, learning_starts=5_000)


def rows(*parts):
    """(steps, seconds for each thousand) in turn, from 0, as a run logs them."""
    step = seconds = 0.0
    found = []
    for steps, each in parts:
        for _ in range(steps // 1_000):
            step, seconds = step + 1_000, seconds + each
            found.append((step, seconds))
    return found


def test_warm_up_does_not_count():
    """At a tenth of a run, of which nine tenths were ten times as fast: 54 000 steps at 100/s are nine minutes."""
    run = rows((5_000, 1.0), (6_000, 10.0))
    assert pace(run, 5_000) == 100
    assert duration((60_000 - 11_000) / pace(run, 5_000)) == "8 min"
    assert pace(run, 0) > 150  # what was said before


def test_a_recent_window():
    """An hour at 100/s, then ten minutes at 50/s, as another process takes the core: five minutes decide."""
    assert pace(rows((360_000, 10.0), (30_000, 20.0))) == 50


def test_rows_further_apart_than_the_window():
    assert pace(rows((3_000, 1_000.0))) == 1.0


def test_no_number_in_the_first_half_minute():
    assert math.isnan(pace([])) and math.isnan(pace([(1_000, 5.0)]))
    early = rows((5_000, 1.0), (2_000, 10.0))  # 20 s since the warm-up
    assert math.isnan(pace(early, 5_000)) and duration((60_000 - 7_000) / pace(early, 5_000)) == "estimating"
    assert pace(early, 5_000, least=0.0) == 100
    assert not math.isnan(pace(rows((5_000, 1.0), (3_000, LEAST / 2)), 5_000))


def test_a_run_that_was_taken_up_again():
    """Its clock begins anew, and so do its steps after a kill."""
    before = rows((40_000, 1.0))
    assert pace([*before, *((41_000 + 1_000 * i, 10.0 * i) for i in range(5))]) == 100
    assert pace([*before, *((30_000 + 1_000 * i, 50 + 10.0 * i) for i in range(5))]) == 100


def test_a_run_that_never_learns_has_no_warm_up():
    assert warm_up(SPEC) == 5_000
    assert warm_up(RunSpec("Pendulum-v1", steps=1_000, learning_starts=10_000)) == 0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (math.nan, "estimating"),
        (0, "<1 min"),
        (59, "<1 min"),
        (60, "1 min"),
        (3_599, "1 h 00 min"),
        (7_500, "2 h 05 min"),
    ],
)
def test_durations(seconds, said):
    assert duration(seconds) == said


@pytest.fixture
def clock(monkeypatch):
    """A clock on the wall that is set by hand."""
    now = [0.0]
    monkeypatch.setattr("slewrl.training.progress.time.monotonic", lambda: now[0])
    return now


def row(step, **more):
    return {"step": step, "episode_return": -5.0, "utilisation": 0.5, "violations": 0, **more}


def test_redirected_output_has_a_line_a_minute(clock, capsys):
    """Ten seconds a row: six lines and a last one for 38 rows, none within a minute of another but the last."""
    with progress_line(SPEC, Console()) as report:
        report({"message": "resumed"})
        for i in range(1, 39):
            clock[0] += 10
            report(row(1_000 * i))
            if i % 5 == 0:
                report({"step": 1_000 * i, "return_mean": -7.0, "utilisation": 1, "violations": 3})
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "resumed" and [line.split()[0] for line in said[1:]] == [
        "6,000", "12,000", "18,000", "24,000", "30,000", "36,000", "38,000"
    ]  # fmt: skip
    assert said[1] == ("6,000 of 60,000 steps, estimating, 100/s, return -5, eval -7, use 50%, violations 0")
    assert "12,000 of 60,000 steps, 8 min, 100/s" in said[2]


def test_a_short_run_ends_with_a_line(clock, capsys):
    with progress_line(SPEC, Console()) as report:
        report(row(60_000))
    assert capsys.readouterr().out.startswith("60,000 of 60,000 steps, done, ")


def test_nothing_is_said_of_a_run_that_logged_nothing(clock, capsys):
    with progress_line(SPEC, Console()):
        pass
    assert capsys.readouterr().out == ""


def test_a_terminal_has_one_line(clock, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with progress_line(SPEC, Console()) as report:
        for i in range(1, 20):
            clock[0] += 10
            report(row(1_000 * i))
    last = capsys.readouterr().out.splitlines()[-2]  # then the cursor is shown again
    assert "19,000 steps" in last and "7 min" in last and "100/s" in last and "violations" in last


def test_timing_of_an_older_run_keeps_its_columns(tmp_path):
    from slewrl.training.logging import Logs

    (tmp_path / "timing.csv").write_text("step,steps_per_cpu_second\n1000,100\n")
    for path in (tmp_path, tmp_path / "new"):
        path.mkdir(exist_ok=True)
        with Logs(RunFolder(path), 1_000, lambda row: None) as logs:
            logs.write("train.csv", {"step": 2_000})
    assert [line.count(",") for line in (tmp_path / "timing.csv").read_text().splitlines()] == [1, 1, 1]
    assert (tmp_path / "new" / "timing.csv").read_text().splitlines()[0] == "step,steps_per_cpu_second,seconds"
