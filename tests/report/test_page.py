"""Pages: whole in one file, everything escaped, and right in a browser; the demo's and the certificate's among them."""

import math
import re
import subprocess
import sys

import pytest
from browser import Tags, dumped, needs_chromium, probed

from slewrl.deploy.certificate import page as certificate_page
from slewrl.deploy.trial import Trial
from slewrl.layers.audit import Tally
from slewrl.report.colours import COLOURS, DARK, LIGHT, OWN, legible
from slewrl.report.page import (
    Badge,
    Bullets,
    Card,
    Cell,
    Commands,
    DataTable,
    Facts,
    Folded,
    Heading,
    Page,
    Picture,
    Words,
    svg_address,
)

# In a copy of the page only: as wide as a phone, then what the browser made of it goes into the title.
PROBE = """<script>addEventListener("load", () => {
  document.documentElement.style.width = "390px";
  document.title = JSON.stringify({
    widths: [...document.images].map(i => i.naturalWidth),
    right: Math.max(...[...document.querySelectorAll("main > *")].map(e => e.getBoundingClientRect().right)),
    theme: getComputedStyle(document.querySelector(".card")).backgroundColor});
  console.info("probed");
})</script>"""
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path d="M 1 100" id="&amp;"/></svg>'
CERTIFICATE = {
    "passed": True,
    "bundle": "arm.bundle",
    "slewrl": "9.9",
    "date": "2026-01-01",
    "units": "rad",
    "dt": 0.02,
    "budget": None,
    "sha256": "ab" * 32,
    "provenance": {
        "step": 10,
        "spec": {"task": "Toy-v0", "agent": "sac", "layer": "ddsrad", "seed": 1, "steps": 20},
    },
    "trial": {
        **{name: 0 for name in Trial.__dataclass_fields__},
        **{"steps": 1000, "seed": 0, "joint_steps": 2000, "first_misbehaviour": ""},
    },
    "parity": {"cases": 5, "largest_difference": 0.0, "tolerance": 1e-5, "passed": True},
    "latency_us": {"p50": 1.0, "p99": 2.0, "max": 3.0},
    "limits": [{"name": "elbow", "up": 0.1, "down": 0.1, "low": -1, "high": 1}],
    "default_pose": [0.0],
}


def every_block(text):
    """A page with each kind of block in it, all of the same words."""
    row = (Cell(text, small=text, links=[(text, text)], head=True), Cell(text, 1.5, "best"), Cell(text, math.nan))
    blocks = [
        DataTable(text, (text, f"#{text}", text), [row], text),
        Words(text, code=text),
        Bullets([text]),
        Commands("run", [text]),
        Facts({text: text}),
        Heading(text),
        Folded(text, [Words(text)]),
    ]
    pictures = [Picture(text, text, svg_address(SVG))]
    return Page(text, text, Badge(True, text, text), [Card("a", text, blocks), Card("b", text, pictures, "pictures")])


@pytest.fixture(scope="module")
def page():
    return every_block("said 1 500 times").html()


def test_one_file_is_all(page):
    tags = Tags(page).seen
    assert not {"link", "iframe", "base"} & {tag for tag, _ in tags}
    assert [found["src"][:19] for tag, found in tags if tag == "img"] == ["data:image/svg+xml,"]
    assert not re.search(r"https?://(?!www.w3.org/2000/svg)|@import|url\(", page)
    policy = next(found["content"] for _, found in tags if found.get("http-equiv") == "Content-Security-Policy")
    assert re.fullmatch(
        r"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-[\w+/]{43}='", policy
    )


def test_everything_inserted_is_escaped():
    nasty = "\"><script>alert('x')</script>{{ 7 * 7 }}&"
    text = every_block(nasty).html()
    assert text.count("<script>") == 1 and "alert('x')" not in text and "{{ 7 * 7 }}" in text
    assert [tag for tag, _ in Tags(text).seen].count("script") == 1
    assert all(found["alt"] == f"{nasty}. {nasty}" for tag, found in Tags(text).seen if tag == "img")


def test_pictures_are_not_words(page):
    """Thousands are kept together in words; the same in a figure's path would break it."""
    assert "said 1\u202f500 times" in page and "1 500" not in page.replace("1\u202f500", "")
    assert "M 1 100" in page and "%26amp;" in page


def test_numbers_sort_by_their_exact_value(page):
    assert '<td class="number best" data-value="1.5">' in page and '<td class="number" data-value="">' in page


def test_badges_are_good_or_bad():
    good, bad = (Page("t", "", Badge(good, "news"), []).html() for good in (True, False))
    assert '<div class="badge good">' in good and '<div class="badge bad">' in bad
    assert ".badge.bad { background: var(--bad); }" in bad and f"--bad: {LIGHT.bad};" in bad


def test_a_certificate_is_a_page_like_the_others():
    good = certificate_page(CERTIFICATE)
    assert '<div class="badge good">' in good and "Passed: 2,000 commands to joints checked" in good
    assert "Content-Security-Policy" in good and "prefers-color-scheme: dark" in good and "elbow" in good
    nasty = certificate_page({**CERTIFICATE, "bundle": "<script>x", "passed": False})
    assert '<div class="badge bad">' in nasty and "NOT passed" in nasty and "<script>x" not in nasty


def test_the_demos_own_cards():
    """What the demo adds to its report: the audit, and the check of the exported policy."""
    from slewrl.commands import demo

    figure = demo.CampaignFigure("x", "Reach", "What to see.", lambda look: None)
    attacked = demo._attacked({"ddsrad": Tally(), "clip by hand": Tally(10, 3, overshoot=1e-9)}, 10, SVG, figure)
    text = Page("t", "", None, [section.card for section in (attacked, demo._exported(Trial()), demo._longer())]).html()
    assert '<td class="number" data-value="3.0">3</td>' in text and "What to see." in text
    assert "pip install &#34;slewrl[onnx]&#34;" in text and "--layer boxpro" in text


def contrast(one, other):
    def luminance(colour):
        parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        red, green, blue = ((c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dim, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_can_be_read(theme):
    for colour in (*COLOURS.values(), *OWN):
        assert contrast(legible(colour, theme), theme.card) > 2.95  # a hex colour is rounded
        assert contrast(legible(colour, theme, 4.5), theme.card) > 4.4
    for colour, behind in ((theme.text, theme.page), (theme.quiet, theme.card), ("#ffffff", theme.good)):
        assert contrast(colour, behind) > 4.5
    assert contrast("#ffffff", theme.bad) > 4.5


def test_pages_need_neither_torch_nor_matplotlib_nor_the_paper():
    hidden = "sys.modules.update({name: None for name in ('torch', 'matplotlib', 'slewrl.paper')})"
    code = f"import sys; {hidden}; import slewrl.report.page, slewrl.deploy.certificate"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_report_imports_the_paper_only_when_it_is_asked():
    code = "import sys, slewrl.report.build; print(*(m for m in sys.modules if m.startswith('slewrl.paper')))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []


@needs_chromium
@pytest.mark.parametrize(("scheme", "theme"), [(1, LIGHT), (0, DARK)], ids=["light", "dark"])
def test_in_a_browser(page, tmp_path, scheme, theme):
    # The policy stays in force but for the probe, so that a forbidden fetch would be an error on the console.
    allowed = re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", page)
    found = probed(allowed, PROBE, tmp_path, scheme)
    assert found["widths"] == [9] and found["right"] <= 390
    assert found["theme"] == "rgb({}, {}, {})".format(*(int(theme.card[i : i + 2], 16) for i in (1, 3, 5)))


@needs_chromium
def test_the_policy_lets_the_certificates_script_run(tmp_path):
    (tmp_path / "certificate.html").write_text(certificate_page(CERTIFICATE), encoding="utf-8")
    assert dumped(tmp_path / "certificate.html", tmp_path, 1)[1] == []
