"""The site: every page is in the navigation, numbers are those of results/, code runs, links lead somewhere."""

import importlib.util
import re
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
import yaml
from symbols import ROOT, dotted_exists, exists

from slewrl import LAYERS

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
API = sorted((DOCS / "api").glob("*.md"))


def module(name):
    """docs/NAME.py, which is in no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


hooks, make_methods, make_calm = module("hooks"), module("make_methods"), module("make_calm")


def named(page):
    return page.relative_to(DOCS).as_posix()


# ---------------------------------------------------------------------- navigation


def test_every_page_is_in_the_navigation():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))

    def leaves(entry):
        if isinstance(entry, str):
            return [entry]
        return [leaf for part in (entry.values() if isinstance(entry, dict) else entry) for leaf in leaves(part)]

    found = leaves(config["nav"])
    ours = [uri for uri in found if not uri.startswith("files/")]
    assert sorted(ours) == sorted(map(named, PAGES))
    assert {uri.removeprefix("files/") for uri in found if uri not in ours} == set(hooks.ALWAYS)


# ---------------------------------------------------------------------- method cards


def test_the_cards_numbers_are_those_of_results():
    assert make_methods.main(["--check"]) == 0


def test_the_finals_of_calm_are_those_of_results(tmp_path, monkeypatch, capsys):
    page = make_calm.PAGE.read_text(encoding="utf-8")
    assert make_calm.main(["--check"]) == 0
    monkeypatch.setattr(make_calm, "PAGE", tmp_path / "calm.md")
    make_calm.PAGE.write_text(page.replace(make_calm.BEGIN, f"{make_calm.BEGIN}\nstale"), encoding="utf-8")
    assert make_calm.main(["--check"]) == 1 and "run python docs/make_calm.py" in capsys.readouterr().out


def test_the_verdicts_of_calm_in_words():
    rows = [
        {"task": task, "method": method, "verdict": verdict}
        for task, method, verdict in (("B", "x", "holds"), ("A", "x", "undecided"), ("A", "y", "does not hold"))
    ]
    assert make_calm.said(rows) == "- A: y: does not hold; x: undecided.\n- B: x: holds."
    assert "no verdict" in make_calm.said([])


def test_cards_have_the_runs_of_both_campaigns():
    rows = make_methods.measured()
    assert [(r.where, r.steps, r.seeds, r.score) for r in rows["budget"]] == [("SAC", 60_000, 3, "1,472 ± 870")]
    assert {"SAC", "PPO, `rollout=500`"} <= {r.where for r in rows["ddsrad"]}


def test_a_stale_number_is_found_and_a_second_time_changes_nothing(tmp_path, monkeypatch, capsys):
    page = make_methods.PAGE.read_text(encoding="utf-8")
    stale = re.sub(r"\d ± ", "7777 ± ", page, count=1)
    monkeypatch.setattr(make_methods, "PAGE", tmp_path / "methods.md")
    make_methods.PAGE.write_text(stale, encoding="utf-8")
    assert make_methods.main(["--check"]) == 1 and "run python docs/make_methods.py" in capsys.readouterr().out
    assert make_methods.main([]) == 0 and make_methods.PAGE.read_text(encoding="utf-8") == page
    assert make_methods.filled(page) == page
    with pytest.raises(ValueError, match="no block <!-- begin: all layers -->"):
        make_methods.filled(page.replace("<!-- begin: all layers -->", ""))


def test_every_layer_has_a_card():
    page = make_methods.PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", page.partition("## References")[0], re.MULTILINE) == list(LAYERS)
    assert re.findall(r"^<!-- begin: (\w+) -->$", page, re.MULTILINE) == list(LAYERS)
    for name in LAYERS:
        card = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        said = re.search(r"\| hard \| (\W*)(yes|no)", card)
        assert (said[2] == "yes") == LAYERS[name].hard
        weight = LAYERS[name]().penalty_weight
        asked = re.search(r"\| penalised \| .*?(?:λ = |weight )([\d.]+)", card)
        assert float(asked[1]) == weight if asked else weight == 0, name


def test_numbers_by_hand(tmp_path, monkeypatch):
    """One seed has no deviation; a method that is not shipped as such is named; the paper's rows come last."""
    tables = tmp_path / "report" / "tables"
    tables.mkdir(parents=True)
    head = "limits,backbone,task,method,metric,mean,std,seeds,steps\n"
    rows = ["ddsrad,return,-1234.5,,1", "ddsrad,utilisation,0.5,,1", "ddsrad action,return,10,2,3"]
    rows += ["ddsrad action,utilisation,0.25,0.125,3", "ddsrad,return_cv,3,,1"]
    lines = [f"tight,SAC,HalfCheetah-v5,{row},60000\n" for row in rows]
    lines += ["wide,SAC,HalfCheetah-v5,ddsrad,return,1,1,3,60000\n"]
    (tables / "results.csv").write_text(head + "".join(lines))
    more = tmp_path / "more" / "report" / "tables"
    more.mkdir(parents=True)
    (more / "results.csv").write_text(head)
    head = "limits,backbone,task,method,metric,paper_mean,paper_std,paper_steps\n"
    lines = [f"tight,SAC,HalfCheetah-v5,DD-SRad,{row},1500000\n" for row in ("return,4290,682", "utilisation,.6,.1")]
    (tables / "compare.csv").write_text(head + "".join(lines))
    monkeypatch.setattr(make_methods, "CAMPAIGN", tmp_path)
    monkeypatch.setattr(make_methods, "MORE", tmp_path / "more")
    row = make_methods.Row
    assert make_methods.measured() == {
        "ddsrad": [
            row("SAC", 60000, 1, "−1,234", "0.50"),
            row('SAC, `density="action"`', 60000, 3, "10 ± 2", "0.25 ± 0.12"),
            row("SAC in the paper", 1500000, 5, "4,290 ± 682", "0.60 ± 0.10"),
        ]
    }


# ---------------------------------------------------------------------- quick start and concepts


def test_the_quick_start_runs():
    wrapper, layer = re.findall(r"```python\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    scope: dict = {}
    exec(layer, scope)
    said = re.search(r"action.executed  # tensor\((.*?)\)", layer)
    assert scope["action"].executed.tolist() == pytest.approx(eval(said[1]), abs=5e-5)
    assert len([line for line in layer.splitlines() if line]) <= 10 and len(wrapper.split("\n")) <= 4
    exec(wrapper, scope)
    env = scope["env"]
    before = env.reset(seed=0)[0][-6:]
    after = env.step(np.ones(6, np.float32))[0][-6:]
    assert isinstance(env, gym.Env) and (after > before).all()


INTEGRATIONS = sorted((DOCS / "integrations").glob("*.md"))


def diffs(page):
    return re.findall(r"^```diff\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", INTEGRATIONS, ids=named)
def test_an_integration_takes_at_most_ten_lines(page):
    """Each diff by itself, and on TorchRL's page both of its script's files together."""
    found = [[line for line in diff.splitlines() if line.startswith("+")] for diff in diffs(page)]
    assert found and all(len(added) <= 10 for added in found)
    if page.stem == "torchrl":
        assert sum(map(len, found)) <= 10


@pytest.mark.parametrize(("page", "few"), [("gymnasium", {}), ("sb3", {"60_000": "120"})])
@pytest.mark.filterwarnings("ignore:.*not wrapped with a ``Monitor``.*:UserWarning")
def test_the_diffs_are_code_that_runs(page, few, tmp_path, monkeypatch):
    pytest.importorskip("stable_baselines3")
    code = "\n".join(
        line[1:] for line in diffs(DOCS / "integrations" / f"{page}.md")[0].splitlines() if line[:1] != "-"
    )
    for much, little in few.items():
        assert much in code
        code = code.replace(much, little)
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    exec(code, scope)
    assert type(scope["env"]).__name__ == "RateLimit"


@pytest.mark.parametrize(
    "symbol", sorted(set(re.findall(r"`(slewrl[\w.]*:[\w.]+)`", (DOCS / "concepts.md").read_text())))
)
def test_concepts_name_what_is_there(symbol):
    assert exists(symbol)


@pytest.mark.parametrize("page", API, ids=named)
def test_the_api_pages_name_what_is_there(page):
    for path, options in re.findall(r"^::: (\S+)\n(    options: .*)?", page.read_text(encoding="utf-8"), re.MULTILINE):
        assert dotted_exists(path), path
        members = yaml.safe_load(options)["options"].get("members") if options else None
        for member in members or ():
            assert dotted_exists(f"{path}.{member}"), f"{path}.{member}"


# ---------------------------------------------------------------------- links


@pytest.mark.parametrize(
    ("path", "link", "expected"),
    [
        ("docs/training.md", "limits.md", "limits.md"),
        ("docs/scale.md", "../src/slewrl/training/spec.py", "files/src/slewrl/training/spec.py.md"),
        ("docs/integrations/sb3.md", "../../examples/03_sb3.py", "../files/examples/03_sb3.py.md"),
        ("docs/datasheet_to_robot.md", "../examples", "files/examples.md"),
        ("docs/training.md", "../results/backbones/README.md", "files/results/backbones/README.md"),
        ("docs/training.md", "../nothing.py", "../nothing.py"),
        ("docs/training.md", "https://example.org/x.md", "https://example.org/x.md"),
        ("CHANGELOG.md", "docs/limits.md", "../limits.md"),
        ("examples", "examples/leg.py", "examples/leg.py.md"),
    ],
)
def test_links_lead_to_pages_of_the_site(path, link, expected):
    uri = hooks.uri_of(path)
    assert hooks.rewritten(f"see [it]({link}#there) `[it](x`", path, uri) == f"see [it]({expected}#there) `[it](x`"
    assert hooks.path_of(uri) == path


def test_a_file_is_shown_with_what_it_links_to():
    found = hooks.outside([("docs/x.md", "[a](../examples) [b](../README.md) [c](limits.md)")])
    assert {"examples", "examples/leg.py", "README.md", *hooks.ALWAYS} <= set(found) and "docs/limits.md" not in found
    assert found["examples/leg.py"].startswith(
        "---\nsearch:\n  exclude: true\n---\n# examples/leg.py\n\n``````python\n"
    )


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in hooks.LINK.finditer(text):
        assert ":" in link[0] or hooks.linked(f"docs/{named(page)}", link[0]), link[0]


def test_it_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocstrings", reason='the tools of the site are not installed: pip install "slewrl[docs]"')
    # Not --quiet: it hides the warnings from --strict, too.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    run = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert (tmp_path / "site" / "files" / "examples" / "leg.py.html").exists()
