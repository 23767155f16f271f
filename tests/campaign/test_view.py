"""What is seen of a campaign while it runs: on 80 columns, in a file, and how long it has to go."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tiny_campaign import BASE, table

from slewrl.campaign.grids import CAMPAIGNS, mini
from slewrl.campaign.spec import Campaign
from slewrl.campaign.store import Store
from slewrl.campaign.view import campaign_seconds_left, names, watched
from slewrl.io.console import Console

SPECS = [replace(BASE, steps=60_000, learning_starts=5_000, seed=seed) for seed in range(1, 6)]


def begun(path, specs=SPECS, **counts):
    """A campaign of which the runs of some keys have got so far, at ten seconds per thousand steps but the warm-up."""
    store = Store(path)
    store.begin(Campaign("tiny", "", tuple(specs)))
    for spec in specs:
        if thousands := counts.get(f"s{spec.seed}", 0):
            folder = store.prepare(spec.key, spec).path
            steps = range(1_000, 1_000 * thousands + 1, 1_000)
            clock = [min(s, 5_000) / 1_000 + max(0, s - 5_000) / 100 for s in steps]
            table(folder / "train.csv", [{"step": s, "violations": 0} for s in steps])
            timing = [{"step": s, "steps_per_cpu_second": 999, "seconds": c} for s, c in zip(steps, clock, strict=True)]
            table(folder / "timing.csv", timing)
    return store


def runner(store, active, finished=()):
    specs = store.campaign().by_key
    keys = list(specs)
    return SimpleNamespace(
        keys=keys, specs=specs, active={key: None for key in keys if key[-2:] in active},
        finished=[key for key in keys if key[-2:] in finished],
        failed={}, elsewhere=[], resumed=0, stopping=False,
    )  # fmt: skip


def test_the_pace_of_a_run_is_of_its_last_minutes(tmp_path):
    store = begun(tmp_path / "c", s1=11, s2=6)
    runs = list(store.progress())
    assert runs[0].pace == 100 and runs[0].step == 11_000
    assert math.isnan(runs[1].pace) and math.isnan(runs[2].pace)  # ten seconds since the warm-up; not begun


def test_a_campaign_of_two_workers(tmp_path):
    """49 000 steps of one, 60 000 less 6 000 of another, and three to come: 283 000 at 100/s by two."""
    store = begun(tmp_path / "c", s1=11, s2=6)
    found = [run for run in store.progress() if run.key[-2:] in ("s1", "s2")]
    at = runner(store, ("s1", "s2"))
    assert campaign_seconds_left(found, at, {"s1": 100.0}) == pytest.approx(283_000 / 100 / 2)
    assert math.isnan(campaign_seconds_left(found, at, {}))
    slow = replace(found[0], pace=1.0)  # nothing is over before the slowest is
    assert campaign_seconds_left([slow], at, {"s1": 1.0, "s2": 1e9}) >= 49_000


def test_redirected_output_has_a_line_a_run_and_minute(tmp_path, monkeypatch, capsys):
    store = begun(tmp_path / "c", s1=11, s2=6)
    now = [0.0]
    monkeypatch.setattr("slewrl.campaign.view.time.monotonic", lambda: now[0])
    with watched(store, Console()) as watch:
        for _ in range(13):  # two minutes and a bit
            now[0] += 10
            watch(runner(store, ("s1", "s2")))
    said = [line for line in capsys.readouterr().out.splitlines() if line]
    key = "HalfCheetah-v5-tight-sac-ddsrad-normalized-s"
    minute = [
        f"running  {key}1: 11,000 of 60,000 steps, 8 min, 100/s, return -, 0 violations",
        f"running  {key}2: 6,000 of 60,000 steps, estimating, -/s, return -, 0 violations",
        "0 of 5 done; about 24 min left",
    ]
    assert said == minute * 2


def test_names_are_what_differs():
    keys = list(CAMPAIGNS["first"]().by_key)
    short = names(keys)
    assert len(set(short.values())) == len(keys) and max(map(len, short.values())) <= 42
    assert short["HalfCheetah-v5-tight-sac-ddsrad-normalized-recipe=paper-s12345"] == "sac-ddsrad-normalized-s12345"
    assert names(["a-b"]) == {"a-b": "a-b"} and names([]) == {}
    assert names(["a-b", "b-a"]) == {"a-b": "a-b", "b-a": "b-a"}  # where the parts alone would tell nothing


def test_status_fits_80_columns(tmp_path, slewrl, monkeypatch):
    specs = [replace(spec, steps=1_500_000) for spec in CAMPAIGNS["paper-tight"]().runs[::7]]
    store = begun(tmp_path / "c", specs)
    for spec in specs[:20]:
        folder = store.prepare(spec.key, spec).path
        table(folder / "eval.csv", [{"step": 1_234_567, "return_mean": -1234.5, "violations": 123}])
    monkeypatch.setenv("COLUMNS", "80")
    said = slewrl("campaign", "status", "c").stdout.splitlines()
    assert max(map(len, said)) <= 80 and said[0].startswith("all of them: v5")
    rows = [line for line in said if "stopped" in line and "runs" not in line]
    assert len(rows) == 20 and all("82%" in row and "-1,234.5" in row and "123" in row for row in rows)


def test_mini_shows_how_far_its_runs_are(tmp_path):
    """Their thousand steps are one row of train.csv, the last; evaluations come more often."""
    store = Store(tmp_path / "c")
    store.begin(mini())
    key, spec = next(iter(mini().by_key.items()))
    table(store.prepare(key, spec).path / "eval.csv", [{"step": 250, "return_mean": 1.0, "violations": 0}])
    assert store.progress_of(key, spec).step == 250
