"""Figures and the page of a campaign: they show what they should, and a browser agrees."""

import math
import re
import time
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from browser import Tags, dumped, needs_chromium, probed
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Polygon
from tiny_campaign import BASE, Sizes, cell, write_campaign, write_run

from slewrl.campaign.spec import Campaign
from slewrl.campaign.store import Store
from slewrl.commands.pages import Report
from slewrl.paper.grids import METHODS, RIVALS, STEPS
from slewrl.report import curves, density, intervals, plates, radar, scatter, sensitivity
from slewrl.report.build import report
from slewrl.report.campaign_page import headlines, render
from slewrl.report.data import load
from slewrl.report.figures import DARK, LIGHT, as_two_faced_svg
from slewrl.report.pixels import Pixels
from slewrl.report.words import Words

# In a copy of the page only: as wide as a phone; sort, filter, and put what came of it into the title.
PROBE = """<script>addEventListener("load", async () => {
  document.documentElement.style.width = "390px";
  const images = [...document.images];
  await Promise.all(images.map(image => image.decode().catch(() => 0)));
  const table = document.querySelector("#results table"), body = table.tBodies[0];
  const column = () => [...body.rows].filter(row => !row.hidden).map(row => Number(row.cells[1].dataset.value));
  const head = table.tHead.rows[0].cells[1], up = (head.firstChild.click(), column()), sorted = head.ariaSort;
  const down = (head.firstChild.click(), column());
  const box = document.querySelector("#results input");
  box.value = "clip sac"; box.dispatchEvent(new Event("input"));
  document.title = JSON.stringify({
    widths: images.map(i => i.naturalWidth), up, down, sorted, filtered: column(),
    focus: table.querySelectorAll("thead button").length, labels: box.ariaLabel,
    right: Math.max(...[...document.querySelectorAll("main > *")].map(e => e.getBoundingClientRect().right)),
    spilling: [...document.querySelectorAll("header, .card, figure")].filter(e => e.scrollWidth > e.clientWidth).length,
    ground: getComputedStyle(document.querySelector("figure")).backgroundColor});
  console.info("probed");
})</script>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    runs = [
        *cell([100.0, 300.0]),
        *cell([150.0, 250.0, 400.0], layer="boxpro", use=0.7),
    ]
    return write_campaign(tmp_path_factory.mktemp("c") / "tiny", runs)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    runs = [
        *cell([100.0, 300.0]),
        *cell([150.0, 250.0, 400.0], layer="boxpro", use=0.7),
        *cell([90.0, 110.0], limits="wide"),
        *cell([50.0, 60.0], agent="td3"),
        *(run for w in (0.001, 0.1) for run in cell([10.0, 20.0], layer_options={"penalty_weight": w})),
    ]
    return load(write_campaign(tmp_path_factory.mktemp("c") / "more", runs))


@pytest.fixture(scope="module")
def everyone(tmp_path_factory):
    runs = [run for i, layer in enumerate(METHODS + RIVALS) for run in cell([i, i + 1.0], layer=layer)]
    return list(load(write_campaign(tmp_path_factory.mktemp("c") / "all", runs)))


class Panel(NamedTuple):
    words: list
    lines: list


def panels(figure):
    """Title -> what was drawn after it: words and lines."""
    found = {}
    for artist in figure.artists:
        if isinstance(artist, Words) and artist.get_fontweight() == "bold":
            inside = found.setdefault(artist.get_text(), Panel([], []))
        elif isinstance(artist, Words) and found:
            inside.words.append(artist.get_text())
        elif isinstance(artist, Line2D) and found:
            inside.lines.append(artist)
    return found


def words(figure):
    return [artist.get_text() for artist in figure.artists if isinstance(artist, Words)]


def named(figure):
    """The lines a legend is about."""
    return [artist for artist in figure.artists if isinstance(artist, Line2D) and artist.get_label()]


def test_every_figure_there_is_data_for(results):
    assert [plate.name for plate in plates.plates(results)] == [
        "wide-tight-return",
        "wide-tight-radar",
        "lambda-return-HalfCheetah-v5-sac",
        "lambda-radar-HalfCheetah-v5-sac",
        *(f"{kind}-HalfCheetah-v5-tight-sac" for kind in ("learning", "radar", "reachable", "density")),
        *(f"{kind}-HalfCheetah-v5-wide-sac" for kind in ("learning", "radar", "reachable", "density")),
        *(f"{kind}-HalfCheetah-v5-tight-td3" for kind in ("learning", "radar", "reachable", "density")),
        "mean-tight-sac",
        "profile-tight-sac",
    ]


def test_learning_curves_have_a_panel_a_method(everyone):
    found = panels(curves.learning(everyone, LIGHT))
    assert list(found)[:6] == ["BoxPre+", "Post(QP)", "SRad-Strict", "SRad-QP", "D-Tanh", "DD-SRad"]
    assert len(found) == 13
    assert len(found["Clip"].lines) == len(found["DD-SRad"].lines) + 1  # DD-SRad dashed behind
    dashed, own = found["Clip"].lines[:2]
    assert own.get_ydata().tolist() == [3.25, 6.5] and dashed.get_ydata().tolist() == [2.75, 5.5]
    assert found["Clip"].words[0] == "6.50 ± 0.71"
    first, last = found["BoxPre+"].words, found["DD-SRad smooth"].words
    assert first[1:] == ["0", "4", "8", "12"] and "12" not in last and last[1:]  # numbers at the edges only
    assert len([a for a in curves.learning(everyone, LIGHT).artists if isinstance(a, Polygon)]) == 13  # the bands


def test_long_curves_are_thinned():
    steps, returns = curves.thinned(np.arange(300.0), np.zeros((2, 300)))
    assert len(steps) == curves.POINTS and returns.shape == (2, curves.POINTS) and (steps[0], steps[-1]) == (0, 299)


def test_radars(everyone):
    found = panels(radar.radars(everyone, LIGHT))["Clip"]
    assert found.words == list(everyone[0].joints)
    x, y = found.lines[-1].get_data()
    np.testing.assert_allclose(np.hypot(x, y), 0.5)
    assert len(x) == 7 and (x[0], y[0]) == (x[-1], y[-1]) == (0, 0.5)  # six joints, closed; the first at the top


def test_two_joints_make_no_radar(tmp_path):
    runs = [run for w in (0.1, 1.0) for run in cell([1.0], task="Reacher-v5", layer_options={"penalty_weight": w})]
    found = load(write_campaign(tmp_path / "c", runs, joints=("joint0", "joint1")))
    (sweep,) = sensitivity.sweeps(found).values()
    figure = sensitivity.utilisation(sweep, LIGHT)
    assert not any(isinstance(artist, Circle) for artist in figure.artists)
    assert [text for text in words(figure) if "λ" in text] == ["tight, λ = 0.1", "tight, λ = 1"]


def test_sensitivity_curves(results):
    (sweep,) = sensitivity.sweeps(results).values()
    figure = sensitivity.returns(sweep, LIGHT)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["0.001", "0.1"]
    one, other = named(figure)
    assert one.get_linestyle() != other.get_linestyle()


def test_wide_and_tight(results):
    plate = plates.plates(results)[0]
    assert [line.get_label() for line in named(plate.draw(LIGHT))] == ["wide", "tight"]
    assert "HalfCheetah-v5 SAC 100 to 200" in plate.caption


def test_scatter_and_density(everyone):
    figure = scatter.increments(everyone, LIGHT)
    pairs = [("bthigh", "fthigh"), ("bthigh", "bshin"), ("bshin", "bfoot")]  # limits that differ most, then neighbours
    assert scatter.pairs_of(everyone[0]) == pairs
    assert list(panels(figure))[:2] == ["BoxPre+", "Post(QP)"] and len(panels(figure)) == 13
    squares = [artist for artist in figure.artists if isinstance(artist, Line2D)]
    assert len(squares) == 3 * 13 and np.allclose([np.ptp(s.get_data(), axis=1) for s in squares], 2)
    (picture,) = (artist for artist in figure.artists if isinstance(artist, Pixels))
    seen = picture.image[20:124, :104, 3] > 0  # below the first name, the first square: from the top, dots 2 x 2
    dots = [(-1.0, -1.0), (0.0, 0.0), (0.5, 0.5)]
    cells = [(50 - y / 0.025 - a, x / 0.025 + 50 - b) for x, y in dots for a in (0, 1) for b in (0, 1)]
    assert sorted(map(tuple, np.argwhere(seen))) == sorted((int(row), int(column)) for row, column in cells)
    strips = density.strips(everyone, "bthigh")
    assert strips.shape == (13, 5) and np.allclose(strips, 0.5)
    mosaic = density.mosaic([np.full((13, 5), float(i)) for i in range(6)])
    assert [np.sum(mosaic == i) for i in range(6)] == [65] * 6 and np.isnan(mosaic[[0, 1, 15, 16]]).all()
    assert set(everyone[0].joints) <= set(words(density.densities(everyone, LIGHT)))


def test_a_method_that_missed_a_task_is_left_out(tmp_path):
    runs = [
        run
        for task in ("Ant-v5", "Hopper-v5")
        for layer in ("ddsrad", "post")
        for run in cell([1.0, 2.0], task=task, layer=layer)
    ]
    found = load(write_campaign(tmp_path / "c", [*runs, *cell([9.0, 8.0], task="Ant-v5", layer="dtanh")]))
    kept, left_out = plates.complete(list(found))
    assert len(kept) == 4 and left_out == ["dtanh"]
    (plate,) = [plate for plate in plates.plates(found) if plate.name == "mean-tight-sac"]
    assert "Left out, for they were not run on every task: D-Tanh." in plate.caption


def test_one_joint_has_no_pair(tmp_path):
    found = load(write_campaign(tmp_path / "c", cell([1.0, 2.0], task="Pendulum-v1"), joints=("pivot",)))
    names = [plate.name for plate in plates.plates(found)]
    assert names == [f"{kind}-Pendulum-v1-tight-sac" for kind in ("learning", "radar", "density")]
    assert all(plate.draw(LIGHT).artists for plate in plates.plates(found))


def test_scores_are_put_on_one_scale(everyone):
    scores = intervals.normalised(everyone)
    assert scores["boxpre"][0].tolist() == [0, 1 / 12] and scores["ddsrad_smooth"][0].tolist() == [11 / 12, 1]
    assert scores["none"][0].max() > 1  # no contender, so it does not set the scale
    assert intervals.interval([np.array([0.5, 0.5])], True) == (0.5, 0.5, 0.5)
    figure = intervals.means(everyone, DARK)
    assert [text for text in words(figure) if not text.strip("−").replace(".", "").isdigit()][-1] == "No limit"
    assert len(panels(intervals.profiles(everyone, LIGHT))) == 13


def test_means_of_few_runs_have_t_intervals():
    # One task: .2 -/+ 4.303 * .1 / sqrt(3). Two tasks alike: the error is over sqrt(2), with four degrees of freedom.
    runs = np.array([0.1, 0.2, 0.3])
    half = 4.302652729911275 * 0.1 / math.sqrt(3)
    assert intervals.interval([runs], False) == pytest.approx((0.2, 0.2 - half, 0.2 + half))
    half = 2.7764451051977987 * 0.1 / math.sqrt(6)
    assert intervals.interval([runs, runs], False) == pytest.approx((0.2, 0.2 - half, 0.2 + half))


@pytest.mark.parametrize(
    ("seeds", "tasks", "kind"),
    [(5, ("Ant-v5", "Hopper-v5"), "iqm"), (10, ("Ant-v5",), "iqm"), (5, ("Ant-v5",), "mean"), (1, ("Ant-v5",), None)],
)
def test_interquartile_means_are_for_many_runs(tmp_path, seeds, tasks, kind):
    every = [(task, layer) for task in tasks for layer in ("ddsrad", "post")]
    runs = [run for task, layer in every for run in cell(np.arange(seeds) + 1.0, task=task, layer=layer)]
    found = {p.name: p for p in plates.plates(load(write_campaign(tmp_path / "c", runs)))}
    assert {name for name in found if name.startswith(("iqm", "mean"))} == ({f"{kind}-tight-sac"} if kind else set())
    if kind:
        caption = found[f"{kind}-tight-sac"].caption
        assert ("bootstrap" in caption) == (kind == "iqm") and ("t-intervals" in caption) == (kind == "mean")
        assert found[f"{kind}-tight-sac"].draw(LIGHT).artists


def test_bands_are_t_intervals_and_stay_in_their_panel(tmp_path):
    (result,) = load(write_campaign(tmp_path / "c", cell([100.0, 200.0, 300.0])))
    band = curves.band_of(result)
    np.testing.assert_allclose(band.half, 4.302652729911275 * np.array([50.0, 100.0]) / math.sqrt(3))
    figure = curves.learning([result], LIGHT)
    (area,) = (artist for artist in figure.artists if isinstance(artist, Polygon))
    assert area.get_xy()[:, 1].max() <= curves.scales([band])[1][1] < 200 + band.half[1]
    assert any(np.isnan(line.get_ydata()).sum() == 3 for line in panels(figure)["DD-SRad"].lines)  # three seeds


def test_one_svg_has_two_faces(everyone):
    svg = as_two_faced_svg(lambda ground: curves.learning(everyone[:2], ground)).decode()
    rules = re.search(r"<style>(.*?)</style>", svg).group(1)
    assert "@media(prefers-color-scheme:dark)" in rules and LIGHT.quiet in rules and DARK.quiet in rules
    assert not re.search(r"#[0-9a-f]{6}", svg.replace(rules, ""))  # no colour that would not change


def test_one_lambda_is_no_sweep(tmp_path):
    runs = [*cell([1.0, 2.0]), *cell([3.0, 4.0], layer_options={"penalty_weight": 0.01})]
    found = load(write_campaign(tmp_path / "c", runs))
    assert not sensitivity.sweeps(found) and not any("lambda" in plate.name for plate in plates.plates(found))
    (panel,) = plates.configurations(found).values()
    assert [r.cell.method for r in panel] == ["ddsrad", "ddsrad penalty_weight=0.01"]
    assert "DD-SRad (λ = 0.01) has the highest mean return, 3.50" in headlines(found)[0]


def test_sweeps_are_of_one_layer_and_budget(tmp_path):
    def swept(value, **fields):
        return [run for w in (0.1, 1.0) for run in cell([value], layer_options={"penalty_weight": w}, **fields)]

    longer = [(replace(spec, seed=9, steps=4_000), 9.0, use) for spec, _, use in swept(9.0)]
    runs = [*swept(1.0), *swept(2.0, layer="interval_srad"), *longer, *swept(3.0, density="action")]
    found = sensitivity.sweeps(load(write_campaign(tmp_path / "c", runs)))
    means = {(s.method, s.steps): [r.score.mean for r in by["tight"].values()] for s, by in found.items()}
    assert means == {
        ("ddsrad", 2000): [1, 1],
        ("interval_srad", 2000): [2, 2],
        ("ddsrad", 4000): [9, 9],
        ("ddsrad action", 2000): [3, 3],
    }
    names = [plate.name for plate in plates.plates(load(tmp_path / "c"))]
    assert len(names) == len(set(names)) == 8 and "lambda-return-HalfCheetah-v5-sac-ddsrad-action" not in names[:2]


def test_captions_say_what_was_measured(results):
    captions = {plate.name: plate.caption for plate in plates.plates(results)}
    assert "0 of 6 joints of HalfCheetah-v5 with SAC" in captions["wide-tight-radar"]  # 0.5 under both
    assert "tight: λ = 0.001 0.500, λ = 0.1 0.500" in captions["lambda-radar-HalfCheetah-v5-sac"]


def test_a_figure_is_drawn_once(everyone, tmp_path):
    drawn = []
    plate = plates.Plate("a/x", "x", "", lambda ground: drawn.append(ground) or curves.learning(everyone[:2], ground))
    paths, svg = plate.save(tmp_path, html=True)
    assert drawn == [LIGHT] and [path.name for path in paths] == ["a_x.png"]
    assert svg == plate.svg()


def test_pdf_is_for_those_who_ask(everyone, tmp_path):
    plate = plates.Plate("x", "x", "", lambda ground: density.densities(everyone[:2], ground))
    asked, not_asked = tmp_path / "asked", tmp_path / "not"
    for folder in (asked, not_asked):
        folder.mkdir()
        plate.save(folder, pdf=folder is asked)
    assert [path.name for path in not_asked.iterdir()] == ["x.png"]
    assert sorted(path.name for path in asked.iterdir()) == ["x.pdf", "x.png"]
    assert (asked / "x.png").read_bytes() == (not_asked / "x.png").read_bytes()  # the same bytes whoever asks
    assert b"/Font" in (asked / "x.pdf").read_bytes()  # letters, not outlines


def test_headlines(results):
    first, *_, last = headlines(results)
    assert last == (
        "HalfCheetah-v5, tight limits, SAC, 2 000 steps: λ = 0.001 has the highest mean return of 2, 15.0 ± 7.07; "
        "whether it leads is undecided at this budget and number of seeds: nobody learned."
    )
    assert first == (
        "HalfCheetah-v5, tight limits, SAC, 2 000 steps: of the 2 methods with at least two seeds that kept every "
        "limit, Clip has the highest mean return, 267 ± 126; whether it leads is undecided at this budget and number "
        "of seeds: nobody learned; DD-SRad 200 ± 141, behind by 66.7 (−453 to 587; 3 and 2 seeds): "
        "undecided at this budget and number of seeds, nobody learned."
    )


# ---------------------------------------------------------------------- the page


@pytest.fixture(scope="module")
def out(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "report"
    written = report(folder, out, html=True)
    assert all(path.stat().st_size for path in written) and written[-1] == out / "index.html"
    return out


def test_one_file_is_all_but_the_runs(out, folder):
    text = (out / "index.html").read_text(encoding="utf-8")
    tags = Tags(text).seen
    images = [found["src"] for tag, found in tags if tag == "img"]
    assert len(images) == 6 and all(address.startswith("data:image/svg+xml,") for address in images)
    links = [found["href"] for tag, found in tags if tag == "a"]
    assert len([link for link in links if link.startswith("#")]) == 6
    files = [link for link in links if not link.startswith("#")]
    assert len(files) == 3 * 5 and all((out / link).resolve().is_relative_to(folder.resolve()) for link in files)
    assert all((out / link).exists() for link in files)
    assert not {"link", "iframe", "base"} & {tag for tag, _ in tags} and "http://" not in text.split("<main>")[0]


def test_what_the_page_says(out):
    text = (out / "index.html").read_text(encoding="utf-8")
    checked = 5 * (2000 + 60) * 6
    for words in (
        f"0 of {checked:,} actions broke a limit",
        '<td class="number best" data-value="266.6666666666667">267 ± 126</td>',
        "another budget: no verdict",
        "100 training steps per second of CPU time",
        '<td class="verdict holds">holds at this budget<br><small>at 2\u202f000 of 1\u202f500\u202f000 steps</small>',
        '<td class="verdict open">not measured here<br><small></small></td>',
    ):
        assert words in text, words


def test_the_badge_says_who_broke_a_limit(tmp_path):
    found = load(write_campaign(tmp_path / "c", cell([1.0, 2.0]), violations=3))
    text = render(found, [], tmp_path)
    assert '<div class="badge bad">' in text and "6 of 24,720 actions" in text
    assert "DD-SRad on HalfCheetah-v5: 6" in text


def test_the_command(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("slewrl.report.build.plates", lambda results: [])  # drawn elsewhere
    assert Report(folder, out=tmp_path / "out", html=True).run() == 0
    said = capsys.readouterr().out.replace("\n", "")
    assert "5 of 5 runs, 7 tables" in said and "wrote 8 files" in said and "index.html" in said


def test_everything_inserted_is_escaped(tmp_path):
    path = tmp_path / "c"
    store = Store(path)
    store.begin(Campaign("<script>x", 'a "nasty" & <b>', (BASE,)))
    write_run(store, BASE, 1.0, 0.5)
    nasty = '"><script>x'
    text = render(load(path), [(plates.Plate("x", nasty, nasty, lambda ground: Figure()), b'<svg id="&#"/>')], tmp_path)
    assert (
        "<script>x" not in text
        and "data:image/svg+xml,<svg id='%26%23'/>\"" in text
        and "&lt;script&gt;x: a &quot;nasty&quot; &amp; &lt;b&gt;" in text
    )


@needs_chromium
@pytest.mark.parametrize(("scheme", "ground"), [(1, LIGHT), (0, DARK)], ids=["light", "dark"])
def test_in_a_browser(out, tmp_path, scheme, ground):
    text = (out / "index.html").read_text(encoding="utf-8")
    # The policy allows the page's own script by its hash; the probe's is added, so that both are held to it.
    allowed = re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", text)
    found = probed(allowed, PROBE, tmp_path, scheme)
    assert len(found["widths"]) == 6 and min(found["widths"]) > 0
    assert found["up"] == sorted(found["up"]) and found["down"] == found["up"][::-1] and found["sorted"] == "ascending"
    assert found["filtered"] == [pytest.approx(800 / 3)] and found["focus"] == 12 and found["labels"]
    assert found["right"] <= 390 and found["spilling"] == 0  # wide tables scroll in their own boxes
    rgb = tuple(int(ground.card[i : i + 2], 16) for i in (1, 3, 5))
    assert found["ground"] == f"rgb{rgb}"


@needs_chromium
def test_the_policy_lets_the_pages_own_script_run(out, tmp_path):
    dom, console = dumped(out / "index.html", tmp_path, 1)
    assert console == [] and dom.count('<input type="search"') == 5


@pytest.mark.slow
def test_a_thousand_runs_in_ten_seconds(tmp_path):
    """Made up, to be timed: nothing of it is shown to anyone."""
    specs = [replace(BASE, layer=layer, seed=seed) for layer in (METHODS + RIVALS)[:10] for seed in range(100)]
    path = write_campaign(tmp_path / "c", [(spec, float(spec.seed), 0.5) for spec in specs])
    start = time.process_time()
    report(path, tmp_path / "report", html=True)
    assert time.process_time() - start < 10


@pytest.mark.slow
def test_a_page_of_240_runs_is_no_more_than_five_megabytes(tmp_path):
    """Made up, to be weighed: as many evaluations, increments and bins as the paper's runs have."""
    runs = [
        (replace(BASE, task=task, agent=agent, layer=layer, seed=seed), float(seed), 0.5)
        for task, agent, layer, seed in product(STEPS, ("sac", "td3"), METHODS, range(5))
    ]
    found = load(write_campaign(tmp_path / "c", runs, sizes=Sizes(300, 500, 50)))
    text = render(found, [(plate, plate.svg()) for plate in plates.plates(found)], tmp_path)
    assert len(text.encode()) < 5e6
