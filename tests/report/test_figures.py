"""Figures and the page of a campaign: they show what they should, and a browser agrees."""

import math
import re
import time
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from browser import Tags, dumped, needs_chromium, probed
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from tiny_campaign import BASE, Sizes, cell, write_campaign, write_run

from slewrl.campaign.spec import Campaign
from slewrl.campaign.store import Store
from slewrl.commands.pages import Report
from slewrl.paper.grids import METHODS, RIVALS, STEPS
from slewrl.report.build import report
from slewrl.report.campaign_page import headlines, render
from slewrl.report.colours import COLOURS, DARK, LIGHT
from slewrl.report.data import load
from slewrl.report.figures import (
    CampaignFigure,
    complete,
    configurations,
    curves,
    figures_of,
    increments,
    look_of,
    means,
    radar,
    sensitivity,
)
from slewrl.report.figures.small_multiples import folded
from slewrl.report.figures.style import Look, saved
from slewrl.report.sections import sections_of

LOOK = Look()
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
    theme: getComputedStyle(document.querySelector("figure")).backgroundColor});
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


def panels(figure):
    """Title -> axes."""
    return {axis.get_title(): axis for axis in figure.axes}


def named(figure):
    """What the legend of a figure names."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_every_figure_there_is_data_for(results):
    assert [figure.name for figure in figures_of(results)] == [
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
    found = panels(curves.learning(everyone, LOOK))
    assert list(found)[:6] == ["BoxPre+", "Post(QP)", "SRad-Strict", "SRad-QP", "D-Tanh", "DD-SRad"]
    assert len(found) == 13
    assert len(found["Clip"].lines) == len(found["DD-SRad"].lines) + 1  # DD-SRad dashed behind
    dashed, own = found["Clip"].lines[:2]
    assert own.get_ydata().tolist() == [3.25, 6.5] and dashed.get_ydata().tolist() == [2.75, 5.5]
    assert [text.get_text() for text in found["Clip"].texts] == ["6.50 ± 0.71"]
    assert found["Clip"].lines[-1].get_ydata().tolist() == [6, 7]  # a dot a seed
    assert all(len(axis.collections) == 1 for axis in found.values())  # the band
    assert len({axis.get_ylim() for axis in found.values()}) == 1


def test_one_seed_has_neither_band_nor_dots(tmp_path):
    found = list(load(write_campaign(tmp_path / "c", [*cell([5.0]), *cell([6.0], layer="boxpro")])))
    axis = panels(curves.learning(found, LOOK))["DD-SRad"]
    assert not axis.collections and len(axis.lines) == 1
    names = [figure.name.partition("-")[0] for figure in figures_of(load(tmp_path / "c"))]
    assert names == ["learning", "radar", "reachable", "density"]  # no means, no profile


def test_an_overlay_is_for_those_who_ask(everyone, results):
    assert not any("overlay" in figure.name for figure in figures_of(results))
    asked = [figure for figure in figures_of(results, overlay=True) if figure.name.startswith("overlay")]
    assert [figure.name for figure in asked] == ["overlay-HalfCheetah-v5-tight-sac"]  # the others have one method
    figure = asked[0].draw(LOOK)
    assert len(figure.axes) == 1 and named(figure) == ["Clip", "DD-SRad"] and len(figure.axes[0].collections) == 2
    crowded = curves.overlay(everyone, LOOK)
    assert named(crowded)[0] == "No limit" and not crowded.axes[0].collections  # of thirteen no band can be told


def test_wider_figures_have_more_beside_each_other(everyone):
    narrow, wide = (curves.learning(everyone, Look(width=width)) for width in (4.4, 9.0))
    assert narrow.axes[0].get_gridspec().ncols == 3 and wide.axes[0].get_gridspec().ncols == 6
    assert wide.get_figwidth() == 9.0


def test_layers_of_ones_own_have_colours_of_their_own(tmp_path):
    runs = [*cell([1.0]), *cell([2.0], layer="toy_layer:Mine"), *cell([3.0], layer="toy_layer:Yours")]
    found = load(write_campaign(tmp_path / "c", runs))
    look = look_of(found, 4.4)
    axes = panels(curves.learning(list(found), look))
    hues = {to_hex(axes[name].lines[-1].get_color()) for name in ("DD-SRad", "Mine", "Yours")}
    assert look.own == ("toy_layer:Mine", "toy_layer:Yours") and len(hues) == 3
    assert not any(len({hue[i : i + 2] for i in (1, 3, 5)}) == 1 for hue in hues)  # none of them is grey


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_no_two_layers_look_alike(theme):
    colours = {layer: Look(theme).colour(layer) for layer in COLOURS}
    rgb = {layer: np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) for layer, c in colours.items()}
    pairs = [(a, b) for a in rgb for b in rgb if a < b]
    near = {(a, b): float(np.linalg.norm(rgb[a] - rgb[b])) for a, b in pairs}
    assert min(near.values()) > 20, min(near.items(), key=lambda pair: pair[1])


def test_long_curves_are_thinned():
    steps, returns = curves.thinned(np.arange(300.0), np.zeros((2, 300)))
    assert len(steps) == curves.POINTS and returns.shape == (2, curves.POINTS) and (steps[0], steps[-1]) == (0, 299)


def test_radars(everyone):
    axis = panels(radar.radars(everyone, LOOK))["Clip"]
    assert [label.get_text() for label in axis.get_xticklabels()] == list(everyone[0].joints)
    angles, radii = axis.lines[-1].get_data()
    np.testing.assert_allclose(radii, 0.5)
    assert len(angles) == 7 and angles[0] == angles[-1] == 0 and axis.get_theta_offset() == np.pi / 2  # closed; top


def test_two_joints_make_no_radar(tmp_path):
    runs = [run for w in (0.1, 1.0) for run in cell([1.0], task="Reacher-v5", layer_options={"penalty_weight": w})]
    found = load(write_campaign(tmp_path / "c", runs, joints=("joint0", "joint1")))
    (sweep,) = sensitivity.sweeps(found).values()
    figure = sensitivity.utilisation(sweep, LOOK)
    assert {axis.name for axis in figure.axes} == {"rectilinear"}
    assert list(panels(figure)) == ["tight, λ = 0.1", "tight, λ = 1"]


def test_sensitivity_curves(results):
    (sweep,) = sensitivity.sweeps(results).values()
    figure = sensitivity.returns(sweep, LOOK)
    assert named(figure) == ["0.001", "0.1"]
    one, other = (line for line in figure.axes[0].lines if not line.get_label().startswith("_"))
    assert one.get_linestyle() != other.get_linestyle() and one.get_color() != other.get_color()


def test_how_training_began_does_not_hide_the_curves(tmp_path):
    runs = [run for w in (0.1, 1.0) for run in cell([10.0 + w, 11.0], layer_options={"penalty_weight": w})]
    path = write_campaign(tmp_path / "c", runs)
    for file in path.glob("*/eval.csv"):
        head, first, *rest = file.read_text().splitlines()
        step, _, *others = first.split(",")
        rows = [",".join(["100", "-9999", *others]), first, *rest]
        file.write_text("\n".join([head, *rows]) + "\n")
        assert step == "1000"
    (sweep,) = sensitivity.sweeps(load(path)).values()
    assert sensitivity.returns(sweep, LOOK).axes[0].get_ylim()[0] > -1


def test_wide_and_tight(results):
    figure = figures_of(results)[0]
    assert named(figure.draw(LOOK)) == ["wide", "tight"]
    assert "HalfCheetah-v5 SAC 100 to 200" in figure.caption


def test_scatter_and_density(everyone):
    assert increments.pair_of(everyone[0]) == ("bthigh", "fthigh")  # limits that differ most
    figure = increments.scatter(everyone, LOOK)
    assert list(panels(figure))[:2] == ["BoxPre+", "Post(QP)"] and len(figure.axes) == 13
    axis = figure.axes[0]
    (square,) = axis.patches
    assert square.get_bbox().bounds == (-1, -1, 2, 2)
    (dots,) = (artist for artist in axis.collections if isinstance(artist, PathCollection))
    assert {tuple(point) for point in dots.get_offsets().tolist()} == {(-1.0, -1.0), (0.0, 0.0), (0.5, 0.5)}
    assert dots.get_rasterized()  # one image, not thousands of circles
    drawn = panels(increments.densities(everyone, LOOK))
    assert set(everyone[0].joints) <= set(drawn)
    strips = drawn["bthigh"].images[0].get_array()
    assert strips.shape == (13, 5) and np.allclose(strips, 0.5)
    assert [label.get_text() for label in drawn["bthigh"].get_yticklabels()][:2] == ["BoxPre+", "Post(QP)"]


def test_a_method_that_missed_a_task_is_left_out(tmp_path):
    runs = [
        run
        for task in ("Ant-v5", "Hopper-v5")
        for layer in ("ddsrad", "post")
        for run in cell([1.0, 2.0], task=task, layer=layer)
    ]
    found = load(write_campaign(tmp_path / "c", [*runs, *cell([9.0, 8.0], task="Ant-v5", layer="dtanh")]))
    kept, left_out = complete(list(found))
    assert len(kept) == 4 and left_out == ["dtanh"]
    (figure,) = [figure for figure in figures_of(found) if figure.name == "mean-tight-sac"]
    assert "Left out, for they were not run on every task: D-Tanh." in figure.caption


def test_one_joint_has_no_pair(tmp_path):
    found = load(write_campaign(tmp_path / "c", cell([1.0, 2.0], task="Pendulum-v1"), joints=("pivot",)))
    names = [figure.name for figure in figures_of(found)]
    assert names == [f"{kind}-Pendulum-v1-tight-sac" for kind in ("learning", "radar", "density")]
    assert all(figure.draw(LOOK).axes for figure in figures_of(found))


def test_scores_are_put_on_one_scale(everyone):
    scores = means.normalised(everyone)
    assert scores["boxpre"][0].tolist() == [0, 1 / 12] and scores["ddsrad_smooth"][0].tolist() == [11 / 12, 1]
    assert scores["none"][0].max() > 1  # no contender, so it does not set the scale
    assert means.interval([np.array([0.5, 0.5])], True) == (0.5, 0.5, 0.5)
    (axis,) = means.means(everyone, LOOK).axes
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert names[0] == "No limit" and names[-1] == "BoxPre+" and axis.yaxis_inverted()  # the best is at the top
    dots, line, mean = axis.lines[:3]
    assert len(dots.get_xdata()) == 2 and len(line.get_xdata()) == 2 and len(mean.get_xdata()) == 1  # a dot a seed
    assert len(panels(means.profiles(everyone, LOOK))) == 13


def test_means_of_few_runs_have_t_intervals():
    # One task: .2 -/+ 4.303 * .1 / sqrt(3). Two tasks alike: the error is over sqrt(2), with four degrees of freedom.
    runs = np.array([0.1, 0.2, 0.3])
    half = 4.302652729911275 * 0.1 / math.sqrt(3)
    assert means.interval([runs], False) == pytest.approx((0.2, 0.2 - half, 0.2 + half))
    half = 2.7764451051977987 * 0.1 / math.sqrt(6)
    assert means.interval([runs, runs], False) == pytest.approx((0.2, 0.2 - half, 0.2 + half))


@pytest.mark.parametrize(
    ("seeds", "tasks", "kind"),
    [(5, ("Ant-v5", "Hopper-v5"), "iqm"), (10, ("Ant-v5",), "iqm"), (5, ("Ant-v5",), "mean"), (1, ("Ant-v5",), None)],
)
def test_interquartile_means_are_for_many_runs(tmp_path, seeds, tasks, kind):
    every = [(task, layer) for task in tasks for layer in ("ddsrad", "post")]
    runs = [run for task, layer in every for run in cell(np.arange(seeds) + 1.0, task=task, layer=layer)]
    found = {p.name: p for p in figures_of(load(write_campaign(tmp_path / "c", runs)))}
    assert {name for name in found if name.startswith(("iqm", "mean"))} == ({f"{kind}-tight-sac"} if kind else set())
    if kind:
        caption = found[f"{kind}-tight-sac"].caption
        assert ("bootstrap" in caption) == (kind == "iqm") and ("t-intervals" in caption) == (kind == "mean")
        assert found[f"{kind}-tight-sac"].draw(LOOK).axes


def test_bands_are_t_intervals_and_stay_in_their_panel(tmp_path):
    (result,) = load(write_campaign(tmp_path / "c", cell([100.0, 200.0, 300.0])))
    band = curves.band_of(result)
    np.testing.assert_allclose(band.half, 4.302652729911275 * np.array([50.0, 100.0]) / math.sqrt(3))
    (axis,) = curves.learning([result], LOOK).axes
    (area,) = axis.collections
    top = area.get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(200 + band.half[1]) and top > axis.get_ylim()[1]
    assert area.get_clip_on()
    assert len(axis.lines) == 1 + 3 + 1  # the mean, three seeds, and their dots


def test_a_long_name_is_folded_above_its_panel():
    assert folded("DD-SRad (λ = 0.1)") == "DD-SRad\n(λ = 0.1)" and folded("DD-SRad smooth") == "DD-SRad smooth"
    assert folded("Clip (caps=1.0, l2c2=0.1)").splitlines() == ["Clip", "(caps=1.0,", "l2c2=0.1)"]


def test_one_svg_has_two_faces(everyone):
    svg = saved(lambda look: curves.learning(everyone[:2], look), LOOK, ["svg"])["svg"].decode()
    rules = re.search(r"<style>(.*?)</style>", svg).group(1)
    assert "@media(prefers-color-scheme:dark)" in rules and LIGHT.quiet in rules and DARK.quiet in rules
    assert not re.search(r"#[0-9a-f]{6}", svg.replace(rules, ""))  # no colour that would not change


def test_one_lambda_is_no_sweep(tmp_path):
    runs = [*cell([1.0, 2.0]), *cell([3.0, 4.0], layer_options={"penalty_weight": 0.01})]
    found = load(write_campaign(tmp_path / "c", runs))
    assert not sensitivity.sweeps(found) and not any("lambda" in figure.name for figure in figures_of(found))
    (panel,) = configurations(found).values()
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
    names = [figure.name for figure in figures_of(load(tmp_path / "c"))]
    assert len(names) == len(set(names)) == 8 and "lambda-return-HalfCheetah-v5-sac-ddsrad-action" not in names[:2]


def test_captions_say_what_was_measured(results):
    captions = {figure.name: figure.caption for figure in figures_of(results)}
    assert "0 of 6 joints of HalfCheetah-v5 with SAC" in captions["wide-tight-radar"]  # 0.5 under both
    assert "tight: λ = 0.001 0.500, λ = 0.1 0.500" in captions["lambda-radar-HalfCheetah-v5-sac"]


def test_a_figure_is_drawn_once(everyone, tmp_path):
    drawn = []
    figure = CampaignFigure("a/x", "x", "", lambda look: drawn.append(look) or curves.learning(everyone[:2], look))
    paths, svg = figure.save(tmp_path, LOOK, html=True)
    assert drawn == [LOOK] and [path.name for path in paths] == ["a_x.png"] and svg.startswith(b"<?xml")


def test_pdf_is_for_those_who_ask(everyone, tmp_path):
    figure = CampaignFigure("x", "x", "", lambda look: increments.densities(everyone[:2], look))
    asked, not_asked = tmp_path / "asked", tmp_path / "not"
    for folder in (asked, not_asked):
        folder.mkdir()
        figure.save(folder, LOOK, pdf=folder is asked)
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
        "of seeds: nobody learned; DD-SRad 200 ± 141, behind by 66.7 (−453 to 587; 3 and 2 seeds)."
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
        '<td class="verdict holds">holds<br><small>at 2\u202f000 of 1\u202f500\u202f000 steps</small>',
        '<td class="verdict undecided">undecided<br><small>nobody learned; at 2\u202f000 of',
        '<td class="verdict open">not measured here</td>',
    ):
        assert words in text, words


def test_results_are_sorted_by_return(out):
    text = (out / "index.html").read_text(encoding="utf-8")
    table = text.partition('id="results"')[2].partition("</table>")[0]
    assert re.findall(r'<th scope="row" class="placed">(.*?)<br>', table) == ["Clip", "DD-SRad"]


def test_a_campaign_that_is_not_the_papers_has_nothing_of_it(tmp_path):
    path = write_campaign(tmp_path / "c", cell([1.0, 2.0], task="Pendulum-v1"), joints=("pivot",))
    assert sections_of(load(path), path) == []
    assert "paper’s" not in render(load(path), [], tmp_path)


def test_the_badge_says_who_broke_a_limit(tmp_path):
    found = load(write_campaign(tmp_path / "c", cell([1.0, 2.0]), violations=3))
    text = render(found, [], tmp_path)
    assert '<div class="badge bad">' in text and "6 of 24,720 actions" in text
    assert "DD-SRad on HalfCheetah-v5: 6" in text


def test_the_command(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("slewrl.report.build.figures_of", lambda results, overlay: [])  # drawn elsewhere
    assert Report((folder,), out=tmp_path / "out", html=True).run() == 0
    said = capsys.readouterr().out.replace("\n", "")
    assert "5 of 5 runs, 7 tables" in said and "wrote 8 files" in said and "index.html" in said


def test_everything_inserted_is_escaped(tmp_path):
    path = tmp_path / "c"
    store = Store(path)
    store.begin(Campaign("<script>x", 'a "nasty" & <b>', (BASE,)))
    write_run(store, BASE, 1.0, 0.5)
    nasty = '"><script>x'
    drawn = [(CampaignFigure("x", nasty, nasty, lambda look: Figure()), b'<svg id="&#"/>')]
    text = render(load(path), drawn, tmp_path, sections_of(load(path), path))
    assert (
        "<script>x" not in text
        and "data:image/svg+xml,<svg id='%26%23'/>\"" in text
        and "&lt;script&gt;x: a &#34;nasty&#34; &amp; &lt;b&gt;" in text
    )


@needs_chromium
@pytest.mark.parametrize(("scheme", "theme"), [(1, LIGHT), (0, DARK)], ids=["light", "dark"])
def test_in_a_browser(out, tmp_path, scheme, theme):
    text = (out / "index.html").read_text(encoding="utf-8")
    # The policy allows the page's own script by its hash; the probe's is added, so that both are held to it.
    allowed = re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", text)
    found = probed(allowed, PROBE, tmp_path, scheme)
    assert len(found["widths"]) == 6 and min(found["widths"]) > 0
    assert found["up"] == sorted(found["up"]) and found["down"] == found["up"][::-1] and found["sorted"] == "ascending"
    assert found["filtered"] == [pytest.approx(800 / 3)] and found["focus"] == 9 and found["labels"]
    assert found["right"] <= 390 and found["spilling"] == 0  # wide tables scroll in their own boxes
    rgb = tuple(int(theme.card[i : i + 2], 16) for i in (1, 3, 5))
    assert found["theme"] == f"rgb{rgb}"


@needs_chromium
def test_the_policy_lets_the_pages_own_script_run(out, tmp_path):
    dom, console = dumped(out / "index.html", tmp_path, 1)
    assert console == [] and dom.count('<input type="search"') == 5


@pytest.mark.slow
def test_a_thousand_runs_in_a_minute(tmp_path):
    """Made up, to be timed: nothing of it is shown to anyone."""
    specs = [replace(BASE, layer=layer, seed=seed) for layer in (METHODS + RIVALS)[:10] for seed in range(100)]
    path = write_campaign(tmp_path / "c", [(spec, float(spec.seed), 0.5) for spec in specs])
    start = time.process_time()
    report(path, tmp_path / "report", html=True)
    assert time.process_time() - start < 60


@pytest.mark.slow
def test_a_page_of_240_runs_is_no_more_than_five_megabytes(tmp_path):
    """Made up, to be weighed: as many evaluations, increments and bins as the paper's runs have."""
    runs = [
        (replace(BASE, task=task, agent=agent, layer=layer, seed=seed), float(seed), 0.5)
        for task, agent, layer, seed in product(STEPS, ("sac", "td3"), METHODS, range(5))
    ]
    found = load(write_campaign(tmp_path / "c", runs, sizes=Sizes(300, 500, 50)))
    drawn = [(f, saved(f.draw, LOOK, ["svg"])["svg"]) for f in figures_of(found)]
    text = render(found, drawn, tmp_path, sections_of(found, tmp_path))
    assert len(text.encode()) < 5e6
