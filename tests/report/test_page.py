"""The demo's page: whole in one file, honest about violations, and right in a browser."""

import base64
import dataclasses
import re
import subprocess
import sys

import numpy as np
import pytest
from browser import Tags, needs_chromium, probed
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from slewrl.report.figures import DARK, LIGHT, increment_densities, learning_curves, legible
from slewrl.report.page import Demo, RunResult, render, write_page
from slewrl.report.reachable import COLOURS

# In a copy of the page only: as wide as a phone, then what the browser made of it goes into the title.
PROBE = """<script>addEventListener("load", () => {
  document.documentElement.style.width = "390px";
  const images = [...document.images];
  document.title = JSON.stringify({
    widths: images.map(i => i.naturalWidth), dark: images.map(i => i.currentSrc != i.src),
    right: Math.max(...[...document.querySelectorAll("main > *")].map(e => e.getBoundingClientRect().right)),
    ground: getComputedStyle(document.querySelector("figure")).backgroundColor});
  console.info("probed");
})</script>"""


def synthetic_run(name, label, **changes):
    """Made up, and looking it: a straight line, round numbers, uniform increments."""
    row = {"return_mean": -10.0, "return_std": 1.0, "utilisation": 0.5, "utilisation_mean": 0.25, "length_mean": 50.0}
    row |= {"violations": 0, "violation_rate": 0.0, "raw_violation_rate": 0.125}
    increments = np.linspace([-1.0, 0.5], [1.0, -0.5], 100)
    steps, use = np.arange(1, 6) * 1000, np.array([0.5, 0.25])
    run = RunResult(name, label, steps, np.linspace(-50, -10, 5), row, use, increments, 2000, 0, "made up")
    return dataclasses.replace(run, **changes)


def synthetic_demo(**changes):
    runs = (synthetic_run("ddsrad", "DD-SRad"), synthetic_run("boxpro", "Box-Pro"))
    facts = {"versions": {"slewrl": "9.9"}, "seeds": {"training": 7}, "commands": ("slewrl train --steps 1",)}
    demo = Demo("Toy-v0", "tight", "SAC", ("shoulder", "elbow"), 5000, 20, 12.3, runs, **facts)
    return dataclasses.replace(demo, **changes)


def extra_figure():
    figure = Figure(figsize=(13, 9))
    figure.subplots().plot([0, 1])
    return figure


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "demo.html"
    write_page(path, synthetic_demo(), [("Extra", "What to see in it.", extra_figure())])
    return path.read_text(encoding="utf-8")


def test_one_file_is_all(page):
    tags = Tags(page).seen
    addresses = [value for _, found in tags for key, value in found.items() if key in ("src", "srcset", "href")]
    assert len(addresses) == 3 * 2 + 1 and all(address.startswith("data:image/") for address in addresses)
    assert not {"script", "link", "iframe", "base"} & {tag for tag, _ in tags}
    assert not re.search(r"https?://|@import|url\(", page)
    assert len(page.encode()) < 5_000_000
    for address in addresses:
        if address.startswith("data:image/svg"):
            svg = base64.b64decode(address.split(",", 1)[1]).decode()
            assert not re.search(r'(href|src)="(?!#)', svg) and "<script" not in svg


def test_every_figure_has_words(page):
    tags = Tags(page).seen
    alts = [found.get("alt", "") for tag, found in tags if tag == "img"]
    assert len(alts) == 4 and all(alts) and len(set(alts)) == 4
    assert "DD-SRad from −50.00 to −10.00" in alts[0] and "DD-SRad 50%, 25%" in alts[1] and alts[3] == "Extra"
    assert page.count("<figcaption") == 4 and "What to see in it." in page


def test_what_was_run_is_said(page):
    for words in (
        "SAC was trained on Toy-v0 under the “tight” limits",
        "5,000 steps each, 12 seconds in all",
        "Final evaluation, 20 episodes",
        "<td>−10.00</td><td>−10.00</td>",
        "<td>0 (0%)</td>",
        "<td>12.5%</td>",
        "slewrl 9.9",
        "training 7",
        "slewrl train --steps 1",
    ):
        assert words in page, words


def test_the_badge_is_red_when_a_limit_was_broken(page):
    assert '<div class="badge good">' in page and "0 of 4,000 actions broke a limit, checked in exact" in page
    runs = (synthetic_run("ddsrad", "DD-SRad"), synthetic_run("none", "None", violations=1234))
    broken = render(synthetic_demo(runs=runs))
    assert '<div class="badge bad">' in broken and "1,234 of 4,000 actions broke a limit" in broken
    assert "DD-SRad 0 of 2,000; None 1,234 of 2,000" in broken and "badge good" not in broken
    assert ".badge.bad { background: var(--bad); }" in broken and f"--bad: {LIGHT.bad};" in broken


def test_everything_inserted_is_escaped():
    nasty = '<script>"$x&'
    run = synthetic_run("ddsrad", nasty, about=nasty)
    facts = {"task": nasty, "limits": nasty, "agent": nasty, "joints": (nasty, nasty), "runs": (run,)}
    facts |= {"versions": {nasty: nasty}, "commands": (nasty,)}
    text = render(synthetic_demo(**facts, seeds={nasty: 0}), [(nasty, nasty, extra_figure())])
    assert "<script" not in text and "&lt;script&gt;&quot;$x&amp;" in text
    assert all(found["alt"].count("<script>") for tag, found in Tags(text).seen if tag == "img")


def test_the_same_results_give_the_same_page(page):
    assert render(synthetic_demo(), [("Extra", "What to see in it.", extra_figure())]) == page


def test_a_broken_limit_shows_in_the_density():
    far = synthetic_run("none", "None", increments=np.array([[0.0, 1.7], [0.0, -0.2]]))
    axis = increment_densities([far], ["shoulder", "elbow"], LIGHT).axes[1]
    values, edges, _ = axis.patches[0].get_data()
    assert edges[-1] == pytest.approx(1.7) and values[-1] == 0.5


def test_names_of_equal_curves_do_not_overlap():
    axis = learning_curves(synthetic_demo().runs, LIGHT).axes[0]
    low, high = sorted(text.xy[1] for text in axis.texts)
    assert high - low > 0.08 * np.diff(axis.get_ylim())


def contrast(one, other):
    def luminance(colour):
        red, green, blue = ((c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for c in to_rgb(colour))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dim, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("ground", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_can_be_read(ground):
    for name in (*COLOURS, "unknown"):
        assert contrast(legible(name, ground), ground.card) > 2.95  # a hex colour is rounded
        assert contrast(legible(name, ground, 4.5), ground.card) > 4.4
    for colour, behind in ((ground.text, ground.page), (ground.quiet, ground.card), ("white", ground.good)):
        assert contrast(colour, behind) > 4.5
    assert contrast("white", ground.bad) > 4.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"returns": np.zeros(4)}, "ddsrad: 5 steps, 4 returns"),
        ({"increments": np.zeros((9, 3))}, r"increments have shape \(9, 3\), expected \(T, 2\)"),
        ({"increments": np.zeros((0, 2))}, "with T > 0"),
        ({"actions_checked": 0}, "actions_checked is 0: nothing was checked"),
    ],
)
def test_results_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        synthetic_run("ddsrad", "DD-SRad", **changes)


def test_runs_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="ddsrad has 2 joints, expected 1"):
        synthetic_demo(joints=("shoulder",))
    with pytest.raises(ValueError, match="runs is empty"):
        synthetic_demo(runs=())


def test_the_page_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; import slewrl.report.page"
    subprocess.run([sys.executable, "-c", code], check=True)


@needs_chromium
@pytest.mark.parametrize(("scheme", "ground"), [(1, LIGHT), (0, DARK)], ids=["light", "dark"])
def test_in_a_browser(page, tmp_path, scheme, ground):
    # The policy stays in force but for the probe, so that a forbidden fetch would be an error on the console.
    allowed = page.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
    found = probed(allowed, PROBE, tmp_path, scheme)
    assert len(found["widths"]) == 4 and min(found["widths"]) > 0
    assert found["dark"] == [ground is DARK] * 3 + [False]
    assert found["right"] <= 390
    assert found["ground"] == "rgb({}, {}, {})".format(*(round(255 * c) for c in to_rgb(ground.card)))
