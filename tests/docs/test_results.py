"""The tables of docs/results.md are those of results/, and each section says which command makes it."""

import csv
import importlib.util
import json
import re
import sys
from statistics import mean, stdev

import numpy as np
import pytest
from symbols import ROOT

from slewrl.campaign.grids import CAMPAIGNS
from slewrl.report.stats import difference_interval

PAGE = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
RESULTS = ROOT / "results"
SEEDS = ("12345", "22345", "32345")


def rows(path, **wanted):
    with (RESULTS / path).open(encoding="utf-8", newline="") as file:
        found = csv.DictReader(file, delimiter=";" if path.endswith("violations.csv") else ",")
        return [row for row in found if wanted.items() <= row.items()]


def spread(values):
    """Mean ± sample deviation, as the page writes it."""
    return f"{mean(values):,.0f} ± {stdev(values):,.0f}".replace("-", "−")


def sections():
    parts = re.split(r"^##+ (.*)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def cells(title, start):
    """The cells of the one row of a section's tables that begins with ``start``."""
    (line,) = [line for line in sections()[title].splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def metric(path, name, **wanted):
    (row,) = rows(path, metric=name, **wanted)
    return float(row["mean"]), float(row["std"] or 0)


# ---------------------------------------------------------------------- commands


@pytest.mark.parametrize("title", [title for title in sections() if title != "Speed"])
def test_every_section_has_its_command(title):
    blocks = re.findall(r"^```\n(.*?)^```$", sections()[title], re.DOTALL | re.MULTILINE)
    assert blocks
    for line in "".join(blocks).splitlines():
        assert line.startswith(("slewrl ", "python ", "pip install ")), line
        for path in re.findall(r"(?:benchmarks|examples)/\S+", line):
            assert (ROOT / path).exists(), line
        for name in re.findall(r"slewrl campaign run ([\w-]+)", line):
            assert name in CAMPAIGNS, line


# ---------------------------------------------------------------------- numbers


def test_the_guarantee_is_that_of_its_page():
    page = (ROOT / "docs" / "guarantee.md").read_text(encoding="utf-8")
    counts = [int(found.replace(",", "")) for found in re.findall(r"\*\*([\d,]+) cases, 0 violations\*\*", page)]
    assert len(counts) == 2 and all(f"{count:,}" in PAGE for count in (*counts, sum(counts)))
    shares = [row.split("(")[1].split("%")[0] for row in page.splitlines() if re.match(r"\| (the form|hand)", row)]
    assert len(shares) == 4 and all(f"{share} %" in sections()["The guarantee"] for share in shares)


FRAMEWORKS = {
    "Gymnasium, latent wrapper, actions three times too large with NaN and ±inf": (
        "Gymnasium, latent, wild actions",
        "by hand, the same actions",
    ),
    "Gymnasium, absolute wrapper, the same actions": ("Gymnasium, absolute, wild actions",),
    "Gymnasium, eight environments in a vector": ("Gymnasium, 8 environments",),
    "Stable-Baselines3 SAC": ("SB3 SAC, our policy", "stock SAC, clip by hand"),
    "Stable-Baselines3 TD3, action noise": ("SB3 TD3, our policy, noise", "stock TD3, noise, clip by hand"),
    "Stable-Baselines3 PPO, latent wrapper": ("SB3 PPO, latent wrapper", "stock PPO, clip by hand"),
    "SBX SAC, action noise": ("SBX SAC, our policy, noise", "stock SAC of SBX, noise, clip by hand"),
    "SBX CrossQ, action noise": ("SBX CrossQ, our policy, noise",),
    "TorchRL SAC, exploration noise": (
        "TorchRL SAC, transform and distribution, noise",
        "stock TanhNormal, noise, clip by hand",
    ),
    "rsl_rl PPO": ("rsl_rl PPO, our classes", "stock PPO of rsl_rl, clip by hand"),
    "CleanRL-style SAC": ("CleanRL style SAC", "the same with tanh, clip by hand"),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_violations_in_other_frameworks(name):
    for cell, run in zip(cells("Other frameworks", name), FRAMEWORKS[name], strict=False):
        (row,) = rows("integrations/violations.csv", run=run)
        assert cell.replace("*", "") == f"{int(row['outside']):,} of {int(row['steps']):,}"


def test_stable_baselines3_with_our_policy():
    found = rows("integrations/sb3_return.csv")
    for key in ("slewrl", "Stable-Baselines3"):
        assert spread([float(row[key]) for row in found]) in sections()["Other frameworks"]


LAYERS_TABLE = re.findall(r"^\| (`(\w+)`(?: \(.*\))?) \|", sections()["Layers compared"], re.MULTILINE)


@pytest.mark.parametrize(("start", "layer"), LAYERS_TABLE)
def test_returns_of_layers(start, layer):
    for cell, agent in zip(cells("Layers compared", start), ("SAC", "TD3"), strict=True):
        found = rows("first/report/tables/results.csv", metric="return", backbone=agent, method=layer)
        assert cell == (f"{float(found[0]['mean']):,.0f} ± {float(found[0]['std']):,.0f}" if found else "–")


def test_what_breaks_without_a_limit():
    broken = dict.fromkeys(("none", "hard"), 0)
    for run in sorted((RESULTS / "first").glob("HalfCheetah-*")):
        name = f"first/{run.name}"
        evaluations = [*rows(f"{name}/eval.csv"), *rows(f"{name}/final/episodes.csv"), rows(f"{name}/train.csv")[-1]]
        broken["none" if "-none-" in run.name else "hard"] += sum(int(float(row["violations"])) for row in evaluations)
    assert broken == {"none": 1_358_772, "hard": 0} and "1,358,772" in PAGE


@pytest.mark.parametrize(
    ("start", "file", "column"),
    [
        ("scalar advantage (GAE)", "advantage", "gae"),
        ("action-conditioned advantage", "advantage", "action"),
        ("scalar advantage, KL-limited steps", "kl-advantage", "gae"),
        ("action-conditioned advantage, KL-limited steps", "kl-advantage", "action"),
    ],
)
def test_ppos_advantages(start, file, column):
    found = rows(f"ppo/{file}-HalfCheetah-v5.csv")
    assert cells("PPO", start) == [spread([float(row[f"kappa {k}, {column}"]) for row in found]) for k in (1, 10)]
    share = mean(
        float(row["clipped"]) for row in rows(f"ppo/{file}-HalfCheetah-v5-runs.csv") if row["run"].endswith(column)
    )
    assert f"{share:.0%}".replace("%", " %") in sections()["PPO"]


def test_ppo_at_60000_steps_and_with_long_rollouts():
    value, deviation = metric("table1-60k/report/tables/results.csv", "return", backbone="PPO")
    assert f"{value:,.0f} ± {deviation:.0f}" in sections()["PPO"]
    assert max(float(row["return_mean"]) for row in rows("ppo/rollout-2048-HalfCheetah-v5.csv")) < 570


@pytest.mark.parametrize("start", ["0.1 (default)", "0.5", "2.0"])
def test_ppo_lagrangian(start):
    shares, returns = [], []
    for seed in SEEDS:
        wanted = {"multiplier_rate": start.split()[0], "seed": seed}
        count = {
            float(row["step"]): float(row["violations"]) for row in rows("ppo/lagrangian-HalfCheetah-v5.csv", **wanted)
        }
        shares.append((count[150_000] - count[140_000]) / (6 * 10_000))
        last = rows("ppo/lagrangian-HalfCheetah-v5-evaluations.csv", **wanted)[-1]
        returns.append(f"{float(last['return_mean']):.0f}".replace("-", "−"))
        assert float(last["violation_rate"]) > 0
    assert cells("PPO-Lagrangian", start) == [", ".join(f"{100 * x:.1f}" for x in shares), ", ".join(returns)]


@pytest.mark.parametrize("name", ["slewrl SAC", "Stable-Baselines3 SAC", "SBX SAC", "SBX CrossQ"])
def test_returns_per_cpu_time(name):
    row = next(line for line in sections()["Return per CPU-time"].splitlines() if line.startswith(f"| {name} |"))
    cells = [cell.strip().replace("−", "-").split(", ") for cell in row.split("|")[2:-1]]
    said = [[float(value.replace(",", "")) for value in cell] for cell in cells]
    files = sorted((ROOT / "results" / "learning").glob(f"{name.lower().replace(' ', '-')}-s*.csv"))
    curves = [np.genfromtxt(path, delimiter=",", names=True) for path in files]
    for minutes, values in zip((2, 5, 10, 20), said, strict=True):
        reached = [curve for curve in curves if curve["cpu_seconds"][-1] >= 60 * minutes]
        found = [curve["return_mean"][np.searchsorted(curve["cpu_seconds"], 60 * minutes)] for curve in reached]
        assert [round(x) for x in found] == values


@pytest.mark.parametrize(
    ("limits", "start", "steps"),
    [
        ("tight", "", "30,000"),
        ("tight", "", "60,000"),
        ("tight_acceleration", "", "60,000"),
        ("half", "tight", "30,000 + 30,000"),
        ("tight_acceleration", "tight", "30,000 + 30,000"),
    ],
)
def test_learning_under_acceleration_limits(limits, start, steps):
    said = f"| `{limits}`, from `{start}` | {steps} |" if start else f"| `{limits}` | {steps} |"
    row = next(line for line in sections()["Acceleration limits"].splitlines() if line.startswith(said))
    wanted = {"limits": limits, "start": start, "steps": steps.split(" + ")[-1].replace(",", "")}
    found = rows("acceleration/chatter.csv", **wanted)
    assert len(found) == 3
    assert ", ".join(f"{float(run['return']):,.0f}" for run in found) in row
    for measure in ("second_difference", "speed"):
        assert f"| {mean(float(run[measure]) for run in found):.2f} |" in row
    assert f"| {100 * mean(float(run['reversals']) for run in found):.0f} % |" in row
    assert sum(int(run[key]) for run in found for key in ("violations", "acceleration_violations")) == 0


@pytest.mark.parametrize("layer", ["boxpre", "post", "boxpro", "ddsrad"])
def test_td3_with_noise_in_the_units_of_the_latent(layer):
    found = rows("td3-noise/report/tables/results.csv", method=layer, metric="return")[0]
    *first, last = (f"{float(value):,.0f}" for value in found["by_seed"].split())
    assert f"{', '.join(first)} and {last}" in " ".join(PAGE.split())
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    said = next(line for line in page.splitlines() if line.startswith(f"| `{layer}` |") and "**" in line)
    sweep = rows("td3-noise/report/tables/results.csv", metric="return", limits="tight")
    swept = [row["by_seed"].split()[0] for row in sweep if row["method"].split()[0] == layer]
    assert len(swept) == 3 and all(f"{float(value):,.0f}" in said for value in swept)


def test_parity_with_stable_baselines3():
    found = rows("ppo/parity-Hopper-v5.csv")
    theirs = [spread([float(row[key]) for row in found]) for key in ("slewrl", "Stable-Baselines3")]
    assert cells("Without a limit", "PPO, Hopper-v5, 150,000 steps") == ["8", *theirs]
    for agent in ("sac", "td3"):
        runs = [[rows(f"backbones/{who}-{agent}-s{seed}.csv") for seed in SEEDS] for who in ("none", "sb3")]
        last = [[float(run[-1]["return_mean"]) for run in side] for side in runs]
        assert cells("Without a limit", f"{agent.upper()}, HalfCheetah-v5, 50,000 steps") == ["3", *map(spread, last)]
    six = [[f"backbones/{who}-sac-hopper-s{n}2345.csv" for n in range(1, 7)] for who in ("none", "sb3")]
    last = [[float(rows(path)[-1]["return_mean"]) for path in side] for side in six]
    assert cells("Without a limit", "SAC, Hopper-v5, 40,000 steps") == ["6", *map(spread, last)]
    low, high = difference_interval(*last)
    text = " ".join(PAGE.split()).replace("−", "-")
    assert f"is {mean(last[0]) - mean(last[1]):.0f}, with a 95 % interval from {low:.0f} to {high:.0f}" in text


@pytest.mark.parametrize("weight", ["0.0001", "0.001", "0.01", "0.1", "1.0"])
def test_penalty_weights(weight):
    expected = []
    for limits in ("wide", "tight"):
        wanted = {"limits": limits, "method": f"ddsrad penalty_weight={weight}"}
        value, deviation = metric("first-sensitivity/report/tables/results.csv", "return", **wanted)
        use, _ = metric("first-sensitivity/report/tables/results.csv", "utilisation", **wanted)
        expected += [f"{value:.2f} ± {deviation:.2f}".replace("-", "−"), f"{use:.3f}"]
    assert cells("Penalty weight", weight) == expected


@pytest.mark.parametrize("start", ["`ddsrad`", "`boxpro` (the clip)", "`srad_ball`"])
def test_walking(start):
    layer = start.split("`")[1]
    names = ("return", "steps", "fall_pct", "speed", "commanded", "vte", "utilisation")
    value = {name: metric("walk/report/tables/results.csv", name, method=layer)[0] for name in names}
    (run,) = (RESULTS / "walk").glob(f"G1-*-{layer}-*")
    broken = rows(f"walk/{run.name}/train.csv")[-1]["violations"]
    walks = value["steps"] >= 500 and value["speed"] >= value["commanded"] / 2
    assert cells("Walking", start) == [
        f"{value['return']:,.0f}", f"{value['steps']:,.0f}", f"{value['fall_pct']:.0f} %",
        f"{value['speed']:.2f} of {value['commanded']:.2f}", f"{value['vte']:.3f}", f"{value['utilisation']:.2f}",
        broken, "walks" if walks else "does not walk",
    ]  # fmt: skip


def test_h1_falls():
    found = rows("walk/h1-rough-stopped/episodes.csv")
    length = [float(row["length"]) for row in found]
    speed, commanded = (
        sum(n * float(row[key]) for n, row in zip(length, found, strict=True)) / sum(length)
        for key in ("speed", "commanded")
    )
    assert f"{mean(length):.0f} steps per episode" in PAGE and all(float(row["fell"]) for row in found)
    assert len(found) == 100 and f"{speed:.2f} of {commanded:.2f} m/s until then" in PAGE


def test_the_cost_of_a_layer_is_that_of_its_page():
    page = (ROOT / "docs" / "layers.md").read_text(encoding="utf-8")
    shares = re.findall(
        r"^\| ddsrad, (?:whole action|action only) \| .*? \| (.*?) \| .*? \| (.*?) \|", page, re.MULTILINE
    )
    times = re.findall(r"ddsrad is ([\d,]+) times faster", page)
    assert len(shares) == len(times) == 2
    assert all(number in sections()["A layer"] for number in (*sum(shares, ()), *times))


def test_a_run_of_every_campaign_is_named():
    """But for those that have pages of their own."""
    named = {json.loads(path.read_text())["name"] for path in RESULTS.glob("*/campaign.json")}
    assert named - {"recipe", "calm", "calm-finals"} <= set(re.findall(r"slewrl campaign run ([\w-]+)", PAGE))


def test_where_chatter_is_born():
    spec = importlib.util.spec_from_file_location("gradients", ROOT / "benchmarks" / "gradients.py")
    gradients = importlib.util.module_from_spec(spec)
    sys.modules["gradients"] = gradients  # where its dataclass looks for itself
    spec.loader.exec_module(gradients)
    page = (ROOT / "docs" / "calm.md").read_text(encoding="utf-8")
    section = page.split("## Where chatter is born")[1].split("\n## ")[0]
    assert re.findall(r"^\| `.*$", section, re.MULTILINE) == gradients.rows()


def of_the_final_episodes(run, name):
    """A measure of a run's final evaluation, its episodes weighted by their lengths."""
    episodes = rows(f"{run}/final/episodes.csv")
    return np.average([float(e[name]) for e in episodes], weights=[float(e["length"]) for e in episodes])


def test_increments_tell_nothing_of_shaking():
    """What would come of increments.csv, whose rows are 20 steps apart, beside what the commands had."""
    run = "calm/HalfCheetah-v5-tight-sac-post-normalized-s12345"
    v = np.genfromtxt(RESULTS / run / "final" / "increments.csv", delimiter=",", skip_header=1)
    found = (np.abs(np.diff(v, axis=0)).mean(), 100 * (v[1:] * v[:-1] < 0).mean())
    there = (of_the_final_episodes(run, "second_difference"), 100 * of_the_final_episodes(run, "reversals"))
    page = " ".join((ROOT / "docs" / "calm.md").read_text(encoding="utf-8").split())
    said = "they would come to {:.2f} and {:.0f} %, where the commands had {:.2f} and {:.0f} %"
    assert said.format(*found, *there) in page


FINALS = RESULTS / "calm-finals"


def test_the_finals_of_calm_are_those_of_the_runs():
    """Every finished run counts, and the table has its numbers, taken here from the episodes themselves."""
    page = (ROOT / "docs" / "calm.md").read_text(encoding="utf-8").split("<!-- begin: finals -->")[1]
    cells = {}
    for done in sorted(FINALS.glob("*/DONE")):
        cells.setdefault(done.parent.name.rpartition("-s")[0], []).append(f"calm-finals/{done.parent.name}")
    lines = [line for line in page.splitlines() if line.startswith("| ") and "tight, " not in line]
    assert len(lines) == len(cells) > 0
    for name, runs in cells.items():
        digits = 2 if name.startswith("Reacher") else 0
        returned = mean(mean(float(e["return"]) for e in rows(f"{run}/final/episodes.csv")) for run in runs)
        shaking, reversals = (mean(of_the_final_episodes(run, key) for run in runs) for key in SHAKING)
        start = f" | {len(runs)} | {returned:,.{digits}f} | ".replace("-", "−")
        assert any(start in line and f"| {shaking:.2f} |" in line and f"| {100 * reversals:.0f} % |" in line
                   for line in lines), name  # fmt: skip


SHAKING = ("second_difference", "reversals")


def test_the_readme_says_of_calm_what_was_measured():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    runs = [f"calm/Reacher-v5-tight-sac-{layer}-normalized-s12345" for layer in ("boxpro", "ddsrad")]
    clip, ours = (100 * of_the_final_episodes(run, "reversals") for run in runs)
    assert f"turn round at {clip:.0f} % of the steps, DD-SRad's at {ours:.0f} %" in " ".join(page.split())


@pytest.mark.parametrize("task, digits", [("HalfCheetah-v5", 0), ("Reacher-v5", 2)])
def test_the_tables_of_calm_are_those_of_the_runs(task, digits):
    page = (ROOT / "docs" / "calm.md").read_text(encoding="utf-8")
    table = re.search(rf"^\| {task} tight.*\n(?:\|.*\n)+", page, re.MULTILINE)[0].splitlines()[2:]
    found = {
        f"{float(row['return']):,.{digits}f} | {100 * float(row['at_limit']):.0f} % | "
        f"{float(row['second_difference']):.2f} | {100 * float(row['reversals']):.0f} % |"
        for row in rows("calm/report/tables/calm.csv", task=task)
    }
    assert len(table) > 10 and [line for line in table if line.split("|", 2)[2].strip() not in found] == []
