"""``slewrl prove``: what it proves, what it does not decide, what it remembers, and the certificates in results/."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
from deployed import untrained

from slewrl import RateLimits
from slewrl.commands.prove import Answers
from slewrl.deploy.limiter import RateLimiter
from slewrl.errors import UserFacingError
from slewrl.io.console import Console
from slewrl.layers import LAYERS
from slewrl.prove.arithmetic import FASTEST, GUARD, LIMITER
from slewrl.prove.case import Case
from slewrl.prove.lemmas import (
    FALL,
    POSE,
    RISE,
    Lemma,
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
from slewrl.prove.page import headline, page, write
from slewrl.prove.proof import Source, certificate, lemmas_for, prove, read_source, verdict_of
from slewrl.prove.solve import Answer, Memory, ask, digest_of, solve, tool_version

PROOFS = Path(__file__).parents[2] / "results" / "proofs"
HARD = " has no rounding error"
"""The lemmas that take seconds."""
ARM = RateLimits(0.0435, -2.8973, 2.8973, names=["elbow"], dt=0.02)
MOVING = RateLimits(0.0435, -2.8973, 2.8973, names=["elbow"], dt=0.02, acceleration=15, deceleration=20)


def proved(lemmas, seconds=120):
    return [lemma.name for lemma in lemmas if ask(lemma.statement, seconds).verdict != "proved"] == []


def test_the_quick_lemmas_of_the_limiter():
    quick = [lemma for lemma in limiter_lemmas() if HARD not in lemma.name]
    assert len(quick) == 11 and proved(quick)


@pytest.mark.slow
def test_the_sums_of_twosum_are_exact():
    hard = [lemma for lemma in limiter_lemmas() if HARD in lemma.name]
    assert len(hard) == 6 and proved(hard, 600)


@pytest.mark.slow
def test_in_float16_the_edges_are_proved_at_one_go():
    """Without lemmas that are joined; in float64 no solver has an answer."""
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
    with pytest.raises(ValueError, match="'far': delta 1e-06 is too small to resolve in torch.float32"):
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
    assert len(first) == 6 and not any(answer.remembered for answer in first.values())
    assert len(list((tmp_path / "answers").iterdir())) == 5  # asked once
    again = dict(solve(statements, 1, 60, memory))
    assert all(answer.remembered for answer in again.values())
    assert {i: answer.verdict for i, answer in again.items()} == {i: first[i].verdict for i in again}
    other = replace(statements[0], claim="dt > 1 or steps == 0")
    assert digest_of(other) != digest_of(statements[0]) and memory.recall(digest_of(other)) is None
    (tmp_path / "answers" / f"{digest_of(statements[0])}.json").write_text("{")
    assert memory.recall(digest_of(statements[0])) is None
    for damaged in ({"cpu_seconds": None}, {"cpu_seconds": "much"}, {"tool": 3}, {"model": []}, {"verdict": "perhaps"}):
        memory.keep(replace(first[0], **damaged))
        assert memory.recall(first[0].digest) is None, damaged
    undecided = replace(first[0], verdict="not decided", digest="f" * 64)
    memory.keep(undecided)
    assert memory.recall("f" * 64) is None


def test_another_version_of_a_solver_is_asked_again(tmp_path, monkeypatch):
    statement = dt_lemmas()[0].statement
    ((_, first),) = solve([statement], 1, 60, Memory(tmp_path))
    monkeypatch.setattr("slewrl.prove.solve.version", lambda package: "0.0.1")
    assert digest_of(statement) != first.digest and Memory(tmp_path).recall(digest_of(statement)) is None


def test_a_missing_solver_is_named_with_the_command_that_installs_it(slewrl, monkeypatch):
    def no_version(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr("slewrl.prove.solve.version", no_version)
    found = slewrl("prove", "arm.yaml")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == 'error: prove needs bitwuzla: pip install "slewrl[prove]"\n'


def test_an_answer_that_is_only_believed_is_marked(tmp_path):
    """Whoever can write to the folder of answers can forge a proof: the certificate says which are from there."""
    memory, (lemma, *_) = Memory(tmp_path), dt_lemmas()
    memory.keep(Answer("proved", "a forger", digest_of(lemma.statement), 1.0))
    ((_, believed),) = solve([lemma.statement], 1, 60, memory)
    made = certificate(Source("arm", ARM), [lemma], [believed], [], 1.0)
    assert made["remembered"] == 1 and made["lemmas"][0]["remembered"]
    text = page(made)
    assert "1 answers were remembered" in text and "can forge them" in text and "--fresh" in text
    ((_, asked),) = solve([lemma.statement], 1, 60, Memory(tmp_path, fresh=True))
    assert not asked.remembered and asked.tool != "a forger"


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


def test_after_the_death_of_the_command_nothing_goes_on_and_answers_are_kept(tmp_path):
    ARM.to_yaml(tmp_path / "arm.yaml")
    words = (sys.executable, "-u", "-m", "slewrl", "prove", "arm.yaml", "--cache", "answers", "--workers", "2")
    with subprocess.Popen(words, cwd=tmp_path, text=True, start_new_session=True, stdout=subprocess.PIPE) as run:
        assert "proved" in run.stdout.readline()
        run.kill()
    kept = len(list((tmp_path / "answers").glob("*.json")))
    end = time.monotonic() + 60
    while (left := in_session(run.pid)) and time.monotonic() < end:
        time.sleep(0.2)
    assert left == [] and kept >= 1
    lemmas = lemmas_for(ARM)
    memory = Memory(tmp_path / "answers")
    assert sum(memory.recall(digest_of(lemma.statement)) is not None for lemma in lemmas) >= kept


def in_session(session):
    """The processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, *_, number = path.read_text().rpartition(")")[2].split()[:4]
            found += [int(path.parent.name)] if int(number) == session and state != "Z" else []
    return found


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
    words_after, errors = run.communicate(timeout=60)
    assert "Traceback" not in errors and len(list((tmp_path / "answers").glob("*.json"))) >= 1
    if how == signal.SIGINT:
        assert (run.returncode, errors) == (130, "")
        assert "answers are kept: the same command goes on from there" in words_after
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


def test_what_is_not_proved_is_not_claimed():
    """The page of an undecided proof must not say that anything is proved."""
    lemma = dt_lemmas()[0]
    good = ask(lemma.statement, 10)
    heads = {"proved": "What is proved", "not decided": "NOT proved yet", "refuted": "NOT proved: what would follow"}
    for verdict, head in heads.items():
        text = page(certificate(Source("arm", ARM), [lemma], [replace(good, verdict=verdict)], [], 1.0))
        assert [other for other in heads.values() if f"{other}" in text] == [head]


def test_limits_that_float32_does_not_resolve_are_proved_for_the_limiter():
    fine = RateLimits(1e-6, 1000, 1001, names=["far"])
    lemmas = lemmas_for(fine)
    assert lemmas and not any("guard" in lemma.part for lemma in lemmas)
    made = certificate(Source("fine", fine), [], [], [], 1.0)
    assert any("float32, which refuse these limits: 'far': delta 1e-06" in text for text in made["not_proved"])
    assert not any("float32" in text for text in made["says"])
    wide = lemmas_for(fine, ("float32", "float64"))
    assert {lemma.part for lemma in wide} - {lemma.part for lemma in lemmas} == {"the layers' guard, float64"}
    both = certificate(Source("arm", ARM), [], [], [], 1.0, ("float32", "float64"))
    assert any("float32 and float64" in text for text in both["says"])
    assert any(text.startswith("Layers in float16, bfloat16") for text in both["not_proved"])


@pytest.mark.slow
def test_the_guard_in_float64():
    assert proved(guard_lemmas(ARM, numbers="float64"), 600)


def test_a_certificate_is_json_for_any_reader(tmp_path):
    case = Case({"up": 0.1, "down": 0.2, "low": -1.0, "high": 1.0}, 0.5, math.nan, 0.7, "NaN moves the joint")
    made = certificate(Source("arm", ARM), [], [], [case], 1.0)
    write(made, tmp_path)
    refused = {"parse_constant": lambda text: pytest.fail(f"{text} is no JSON")}
    assert json.loads((tmp_path / "certificate.json").read_text(), **refused)["cases"][0]["wanted"] == "nan"


def test_the_time_left_is_at_the_pace_so_far(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("slewrl.commands.prove.time.perf_counter", lambda: now[0])
    lemmas = [Lemma("a", "part", dt_lemmas()[0].statement, cost=cost) for cost in (2.0, 4.0, 6.0, 300.0)]
    said, answer = Answers(Console(), lemmas), Answer("proved", "z3", "", 1.0)
    seen = []
    for i, (lemma, remembered) in enumerate(zip(lemmas, (True, False, False, False), strict=True)):
        now[0] += 0.0 if remembered else 3 * lemma.cost
        said.heard(lemma, replace(answer, remembered=remembered), lemmas[i + 1 :])
        seen.append(said.tasks[0].description)
    # What is remembered says nothing of the pace; then three seconds for each that was guessed.
    assert seen == ["estimating", "about 15 min left", "about 15 min left", "done"]


def test_a_refutation_is_shown_with_the_lines_that_repeat_it():
    case = Case(
        {"up": 0.1, "down": 0.2, "low": -1.0, "high": 1.0}, 0.5, math.inf, 0.7, "0.1 more than the rate up, 0.1"
    )
    *_, last = lines = case.lines()
    assert len(lines) == 3 and last.endswith("# [0.7]: 0.1 more than the rate up, 0.1")
    scope = {"print": lambda command: scope.update(printed=command)}
    exec("\n".join(lines), scope)
    assert scope["printed"] == [0.6]  # what the real limiter does
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


def test_a_bundle_is_proved_by_the_command(slewrl, tmp_path):
    pytest.importorskip("onnxscript", reason='ONNX is not installed: pip install "slewrl[onnx]"')
    untrained(tmp_path / "policy.bundle", MOVING)
    found = slewrl("prove", "policy.bundle", "--cache", "answers", "--workers", "1")
    assert found.returncode == 0, found.stderr
    made = json.loads((tmp_path / "policy.proof" / "certificate.json").read_text())
    assert made["verdict"] == "proved" and made["source"] == "policy.bundle" and len(made["sha256"]) == 64


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


def test_the_page_accounts_for_every_hard_layer():
    text = (PROOFS.parents[1] / "docs" / "proof.md").read_text(encoding="utf-8")
    assert "DD-SRad's fused path has a lemma of its own" in text
    assert [name for name in LAYERS if LAYERS[name].hard and f"`{name}`" not in text] == ["ddsrad"]


def test_the_table_of_the_page_is_that_of_the_certificates(tmp_path):
    """What ``python benchmarks/proofs.py --table`` would write is there already."""
    page = PROOFS.parents[1] / "docs" / "proof.md"
    copied = tmp_path / "proof.md"
    copied.write_text(page.read_text(encoding="utf-8").replace("proved | ", "refuted | "), encoding="utf-8")
    script = [sys.executable, str(PROOFS.parents[1] / "benchmarks" / "proofs.py"), "--table", "--page", str(copied)]
    result = subprocess.run(script, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert copied.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
