"""A page as a real browser sees it, and the tags in it."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here to open the page with")


class Tags(HTMLParser):
    """Every tag with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.seen = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))


def dumped(page, tmp_path, scheme, *more):
    """What the browser made of a file, and what went to the console; ``scheme``: 0 dark, 1 light; ``more`` options."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"]
    options += [f"--blink-settings=preferredColorScheme={scheme}", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [CHROMIUM, *options, *more, "--virtual-time-budget=5000", "--dump-dom", page.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return result.stdout, [line for line in result.stderr.splitlines() if "CONSOLE" in line]


def probed(text, probe, tmp_path, scheme, *more):
    """What a script put at the end of a page wrote into its title, as JSON; the console had only the probe's line."""
    (tmp_path / "page.html").write_text(text.replace("</body>", probe + "</body>"), encoding="utf-8")
    dom, console = dumped(tmp_path / "page.html", tmp_path, scheme, *more)
    assert len(console) == 1 and "probed" in console[0], console
    return json.loads(re.search("<title>(.*?)</title>", dom).group(1))
