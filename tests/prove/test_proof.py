"""``slewrl prove``: what it proves, what it does not decide, what it remembers, and the certificates in results/."""

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from deployed import untrained

from slewrl import RateLimits
from slewrl.deploy.limiter import RateLimiter
from slewrl.errors import UserFacingError
from slewrl.prove.arithmetic import FASTEST, GUARD, LIMITER
from slewrl.prove.case import Case
from slewrl.prove.lemmas import (
    FALL,
    POSE,
    RISE,
    braking_lemmas,
    dt_lemmas,
    guard_lemmas,
    guarded,
    limiter_lemmas,
    room_lemmas,
)
from slewrl.prove.smt import Statement
from slewrl.prove.trying import EveryRoom

pytest.importorskip("bitwuzla", reason='the solvers are not installed: pip install "slewrl[prove]"')
pytest.importorskip("z3", reason='the solvers are not installed: pip install "slewrl[prove]"')
from slewrl.prove.page import headline, page
from slewrl.prove.proof import Source, certificate, lemmas_for, prove, read_source, verdict_of
from slewrl.prove.solve import Memory, ask, digest_of, solve, tool_version

PROOFS = Path(__file__).parents[2] / "results" / "proofs"
HARD = " has no rounding error"
"""The lemmas that take seconds."""
ARM = RateLimits(0.0435, -2.8973, 2.8973, names=["elbow"], dt=0.02)
MOVING = RateLimits(0.0435, -2.8973, 2.8973, names=["elbow"], dt=0.02, acceleration=15, deceleration=20)


def proved(lemmas, seconds=120):
    return [lemma.name for lemma in lemmas if ask(lemma.statement, seconds).verdict != "proved"] == []


def test_the_quick_lemmas_of_the_limiter():
    quick = [lemma for lemma in limiter_lemmas() if HARD not in lemma.name]
    assert len(quick) == 12 and proved(quick)


@pytest.mark.slow
def test_the_sums_of_twosum_are_exact():
    hard = [lemma for lemma in limiter_lemmas() if HARD in lemma.name]
    assert len(hard) == 6 and proved(hard, 600)


@pytest.mark.slow
def test_in_float16_the_edges_are_proved_at_one_go():
    """Without the argument by hand that joins the lemmas; in float64 no solver has an answer."""
    known = (("LARGEST", 2.0**13),)
    edges = {RISE: "rate_top == below(prev + rise)", FALL: "rate_bottom == above(prev - fall)"}
    for rate, claim in edges.items():
        whole = Statement(LIMITER, claim, (POSE, rate), constants=known, numbers="float16")
        assert ask(whole, 600).verdict == "proved"


def test_the_rate_of_a_measured_dt():
    assert proved(dt_lemmas())


def test_braking():
    motion = RateLimiter(MOVING).motion
    assert proved([*braking_lemmas(), *room_lemmas(motion.full, motion.names)])


def test_every_room_finds_the_one_that_is_wrong():
    late = FASTEST.edited("steps = max(ceil(", "steps = max(floor(")
    answer = ask(EveryRoom(5.0, 1_000.0, 50.0, late), 10)
    assert answer.verdict == "refuted"
    room = answer.model["room"]
    given = {"room": np.float64(room), "brakes": np.float64(5.0)}
    assert late.compute("fastest", given) > FASTEST.compute("fastest", given)
    far = FASTEST.edited("- brakes * (whole", "- 2.0 * brakes * (whole")
    assert "speed" in ask(EveryRoom(5.0, 1_000.0, 50.0, far), 10).model
    wide = FASTEST.edited("along <= taken * brakes", "along <= (taken + 1.0) * brakes")
    assert "room" in ask(EveryRoom(5.0, 1_000.0, 50.0, wide), 10).model


def test_the_guard_in_float32():
    assert proved(guard_lemmas(ARM))


def test_without_the_guard_float32_breaks_the_rate():
    """The guarded rates replaced by the rates themselves: the clip that people write."""
    (constants,) = guarded(ARM, "float32")
    bare = dict(constants) | {"up": dict(constants)["rate_up"]}
    upper = next(lemma for lemma in guard_lemmas(ARM) if lemma.name == "the upper edge is within the rate")
    answer = ask(replace(upper.statement, constants=tuple(sorted(bare.items()))), 60)
    assert answer.verdict == "refuted"
    given = {key: np.float32(value) for key, value in bare.items()} | {"prev": np.float32(answer.model["prev"])}
    top, prev = float(GUARD.compute("top", given)), answer.model["prev"]
    assert Fraction(top) - Fraction(prev) > Fraction(bare["rate_up"])
    kept = {**given, "up": np.float32(dict(constants)["up"])}
    assert Fraction(float(GUARD.compute("top", kept))) - Fraction(prev) <= Fraction(bare["rate_up"])


def test_what_float32_does_not_resolve_is_refused():
    with pytest.raises(ValueError, match="rates of 'far' are less than float32 resolves in its range"):
        guard_lemmas(RateLimits(1e-6, 1000, 1001, names=["far"]))


# ---------------------------------------------------------------------- verdicts and memory


def test_what_takes_too_long_is_not_decided():
    hard = next(lemma for lemma in limiter_lemmas() if HARD in lemma.name)
    answer = ask(hard.statement, 0.02)
    assert (answer.verdict, answer.why) == ("not decided", "no answer in 0.02 CPU-seconds")
    good, bad = replace(answer, verdict="proved"), replace(answer, verdict="refuted")
    assert verdict_of([good]) == "proved"
    assert verdict_of([good, answer]) == "not decided"
    assert verdict_of([good, answer, bad]) == "refuted"


def test_answers_are_remembered_by_their_question(tmp_path):
    statements = [lemma.statement for lemma in dt_lemmas()]
    memory = Memory(tmp_path / "answers")
    first = dict(solve([*statements, statements[0]], 1, 60, memory))
    assert len(first) == 5 and not any(answer.remembered for answer in first.values())
    assert len(list((tmp_path / "answers").iterdir())) == 4  # asked once
    again = dict(solve(statements, 1, 60, memory))
    assert all(answer.remembered for answer in again.values())
    assert {i: answer.verdict for i, answer in again.items()} == {i: first[i].verdict for i in again}
    other = replace(statements[0], claim="dt > 1 or steps == 0")
    assert digest_of(other) != digest_of(statements[0]) and memory.recall(digest_of(other)) is None
    (tmp_path / "answers" / f"{digest_of(statements[0])}.json").write_text("{")
    assert memory.recall(digest_of(statements[0])) is None
    undecided = replace(first[0], verdict="not decided", digest="f" * 64)
    memory.keep(undecided)
    assert memory.recall("f" * 64) is None


def test_fresh_answers_replace_remembered_ones(tmp_path):
    statement = dt_lemmas()[0].statement
    ((_, first),) = solve([statement], 1, 60, Memory(tmp_path))
    Memory(tmp_path).keep(replace(first, cpu_seconds=99.0))
    ((_, again),) = solve([statement], 1, 60, Memory(tmp_path, fresh=True))
    assert not again.remembered and Memory(tmp_path).recall(first.digest).cpu_seconds == again.cpu_seconds < 99


def test_a_folder_that_cannot_hold_answers_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserFacingError, match=r"answers cannot be kept in .*file.* \(--cache FOLDER\)"):
        Memory(tmp_path / "file").prepare()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_in_the_middle_it_keeps_what_it_has(tmp_path, how):
    """By Ctrl-C, which all processes of a terminal get, and by the death of one that solves."""
    ARM.to_yaml(tmp_path / "arm.yaml")
    words = ("prove", "arm.yaml", "--cache", "answers", "--workers", "1")
    # As from a terminal: a shell's background job, which a test run may be, ignores SIGINT, and children inherit that.
    start = "import signal as s; s.signal(s.SIGINT, s.default_int_handler); from slewrl.cli import main; main()"
    run = subprocess.Popen(
        [sys.executable, "-u", "-c", start, *words], cwd=tmp_path, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert "proved" in run.stdout.readline()
    if how == signal.SIGINT:
        os.killpg(run.pid, how)
    else:
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        os.kill(max(map(int, children)), how)
    _, errors = run.communicate(timeout=60)
    assert "Traceback" not in errors and len(list((tmp_path / "answers").glob("*.json"))) >= 1
    if how == signal.SIGINT:
        assert (run.returncode, errors) == (130, "")
    else:
        assert run.returncode == 2 and "a process that solves was ended from outside" in errors


def test_a_certificate_says_what_is_not_proved(tmp_path):
    heard = []
    made = prove(Source("arm", MOVING), 1, 60, Memory(tmp_path), lambda *answer: heard.append(answer))
    assert made["verdict"] == "proved" and headline(made) == f"Proved: all {len(made['lemmas'])} lemmas."
    assert len(heard) == len(made["lemmas"]) == 7 and heard[-1][2] == []
    text = page(made)
    for words in ("What is not proved", "the drive follows its commands", "Compiler, processor", made["tools"][0]):
        assert words in text
    assert [row["name"] for row in made["limits"]] == ["elbow"] and "deceleration" in made["limits"][0]
    budget = Source("arm", ARM, budget=1.5)
    answers = [ask(dt_lemmas()[0].statement, 10)]
    assert any("Theorem 3" in x for x in certificate(budget, dt_lemmas()[:1], answers, [], 1.0)["not_proved"])


def test_a_refutation_is_shown_with_the_lines_that_repeat_it():
    case = Case(
        {"up": 0.1, "down": 0.2, "low": -1.0, "high": 1.0}, 0.5, math.inf, 0.7, "0.1 more than the rate up, 0.1"
    )
    *_, last = lines = case.lines()
    assert len(lines) == 3 and last.endswith("# 0.7: 0.1 more than the rate up, 0.1")
    scope = {"print": lambda command: scope.update(printed=command)}
    exec("\n".join(lines), scope)
    assert scope["printed"].tolist() == [0.6]  # what the real limiter does
    answer = replace(ask(dt_lemmas()[0].statement, 10), verdict="refuted")
    made = certificate(Source("arm", ARM), dt_lemmas()[:1], [answer], [case], 1.0)
    assert made["verdict"] == "refuted" and "REFUTED: 1 of 1 lemmas." in page(made)
    assert "A step that breaks a limit" in page(made)


def test_the_command(slewrl, tmp_path):
    MOVING.to_yaml(tmp_path / "arm.yaml")
    options = ("--cache", "answers", "--workers", "1")
    first = slewrl("prove", "arm.yaml", *options)
    assert first.returncode == 0, first.stderr
    assert "Proved: all 7 lemmas." in first.stdout and "7/7, done" in first.stdout
    made = json.loads((tmp_path / "arm.proof" / "certificate.json").read_text())
    assert made["verdict"] == "proved" and (tmp_path / "arm.proof" / "certificate.html").exists()
    again = slewrl("prove", "arm.yaml", *options)
    assert again.returncode == 0 and "7 of 7 answers are remembered" in again.stdout
    ARM.to_yaml(tmp_path / "rates.yaml")
    short = slewrl("prove", "rates.yaml", *options, "--timeout", "0.02")
    assert short.returncode == 1 and "NOT decided" in short.stdout
    wrong = slewrl("prove", "arm.yaml", "--timeout", "0")
    assert wrong.returncode == 2 and "--timeout is 0.0, expected CPU-seconds above 0" in wrong.stderr


def test_a_bundle_is_read_with_its_limits(tmp_path):
    pytest.importorskip("onnxscript", reason='ONNX is not installed: pip install "slewrl[onnx]"')
    path = untrained(tmp_path / "policy.bundle", ARM)
    source = read_source(str(path))
    assert source.limits.names == ("elbow",) and source.name == "policy.bundle" and len(source.sha256) == 64
    of_file = [digest_of(lemma.statement) for lemma in lemmas_for(ARM)]
    assert [digest_of(lemma.statement) for lemma in lemmas_for(source.limits)] == of_file


# ---------------------------------------------------------------------- the robots


@pytest.mark.parametrize("path", sorted(PROOFS.glob("*.json")), ids=lambda path: path.stem)
def test_the_certificates_in_results_are_of_todays_code(path):
    made = json.loads(path.read_text())
    assert made["verdict"] == "proved" and made["proved"] == len(made["lemmas"])
    source = read_source(str(PROOFS / made["source"]) if made["source"].endswith(".yaml") else made["source"])
    assert source.sha256 == made["sha256"]
    if [tool_version(tool) for tool in ("bitwuzla", "z3", "numpy")] != made["tools"]:
        pytest.skip("other versions of the solvers than those of the certificates")
    asked = [(lemma.name, digest_of(lemma.statement)) for lemma in lemmas_for(source.limits)]
    assert asked == [(row["name"], row["digest"]) for row in made["lemmas"]]


def test_the_robots_have_their_certificates():
    assert {"ur5e", "franka", "h1", "g1"} <= {path.stem for path in PROOFS.glob("*.json")}


def test_the_table_of_the_page_is_that_of_the_certificates():
    text = (PROOFS.parents[1] / "docs" / "proof.md").read_text(encoding="utf-8")
    table = text.partition("<!-- begin: results/proofs -->\n")[2].partition("<!-- end")[0].splitlines()[2:]
    rows = []
    for path in sorted(PROOFS.glob("*.json")):
        made = json.loads(path.read_text())
        count, seconds = len(made["lemmas"]), made["cpu_seconds"]
        rows.append(f"| {path.stem} | `{made['source']}` | {count} | {made['verdict']} | {seconds:.1f} |")
    assert table == rows
