"""The families kept for comparison: a QP solver as a layer, and acceptance-rejection with augmented transitions."""

import math
import re
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import slewrl
from slewrl import LAYERS, RateLimits, make_layer
from slewrl.deploy.export import DeployedPolicy, to_onnx
from slewrl.errors import UserFacingError
from slewrl.layers import BENCHMARK_LAYERS
from slewrl.layers.audit import audit, executed_by, random_limits
from slewrl.layers.hook import TrainingHook
from slewrl.paper.rivals import qp
from slewrl.training.checks import check_spec
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import Trainer, train

ANT = RateLimits.preset("Ant-v5", "tight")
SPEC = RunSpec(
    task="Pendulum-v1", layer="aram", steps=400, learning_starts=100, batch_size=16, capacity=300, evaluate_every=200,
    evaluate_episodes=1, seed=7, agent_options={"hidden": [16, 16]},
)  # fmt: skip
solver = pytest.mark.skipif(find_spec("cvxpylayers") is None, reason='needs cvxpylayers: pip install "slewrl[dev]"')
# Raised inside cvxpy and diffcp.
quiet = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def test_they_are_usable_by_name_and_not_among_the_layers():
    assert list(BENCHMARK_LAYERS) == ["qp", "aram"] and not set(BENCHMARK_LAYERS) & set(LAYERS)
    assert make_layer("aram", tries=3).tries == 3


def test_without_a_solver_the_error_says_what_to_do(monkeypatch):
    def absent(name):
        raise ImportError(f"No module named {name!r}")

    qp.projection.cache_clear()
    monkeypatch.setattr(qp, "import_module", absent)
    for attempt in (lambda: make_layer("qp"), lambda: check_spec(replace(SPEC, layer="qp"))):
        with pytest.raises(UserFacingError, match=r"'qp' needs cvxpylayers.*'cvxpy'.*pip install \"slewrl\[dev\]\""):
            attempt()


# ---------------------------------------------------------------- qp


@solver
@quiet
def test_the_solver_projects_and_the_guard_does_the_rest():
    layer, clip = make_layer("qp"), make_layer("boxpro")
    generator = torch.Generator().manual_seed(0)
    prev = 0.9 * (2 * torch.rand(20, 8, generator=generator) - 1)
    u = torch.randn(20, 8, generator=generator)
    leaves = [u.clone().requires_grad_() for _ in range(2)]
    ours, theirs = (kind(leaf, ANT.box(prev)) for kind, leaf in zip((layer, clip), leaves, strict=True))
    assert torch.allclose(ours.executed, theirs.executed, atol=1e-5) and torch.equal(ours.log_det, theirs.log_det)
    assert not ANT.outside(ours.executed.detach().numpy(), prev.numpy()).any()
    judged = ours.judged.sum() + theirs.judged.sum()
    grads = torch.autograd.grad(judged, leaves)
    assert torch.allclose(*grads, atol=1e-3)
    counts = {**layer.counts()}
    assert counts["calls"] == 1 and counts["actions"] == 20 and 0 <= counts["outside"] <= 20
    layer._count(torch.full((5, 8), 9.0), ANT.box(prev[:5]))  # answers of a solver that failed
    expected = {"solver_calls": 2, "solver_outside": (counts["outside"] + 5) / 25, "solver_failed": 0.0}
    assert layer.columns() == expected
    assert math.isnan(layer.columns()["solver_outside"])  # they began again


@solver
@quiet
def test_the_solver_knows_no_units():
    """Joints whose limits differ by seven decades, off-centre: as near to the clip as the tolerance, in F_t's width."""
    limits = random_limits()
    prev = limits.clamp(torch.lerp(torch.tensor(limits.low), torch.tensor(limits.high), 0.6))
    box = limits.box(prev.expand(4, -1))
    u = torch.randn(4, limits.dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours, theirs = (make_layer(name).execute(u, box) for name in ("qp", "boxpro"))
    assert ((ours - theirs).abs() <= 1e-4 * (box.high - box.low) + 2 * ulp(theirs)).all()


def ulp(x):
    return (torch.nextafter(x, torch.full_like(x, math.inf)) - x).abs()


@solver
@pytest.mark.parametrize("fault", ["nan", "error"])
def test_a_solver_that_fails_holds_and_is_counted(monkeypatch, fault):
    def projection(size):
        def solve(wanted, **options):
            if fault == "error":
                raise RuntimeError("infeasible or unbounded, says the solver")
            return (torch.full_like(wanted, math.nan),)

        return solve

    layer, box = make_layer("qp"), ANT.box(torch.full((3, 8), 0.3))
    monkeypatch.setattr(qp, "projection", projection)
    u = torch.ones(3, 8, requires_grad=True)
    assert torch.equal(layer(u, box).executed, box.prev)
    assert layer.columns() == {"solver_calls": 1, "solver_outside": 1.0, "solver_failed": 1.0}


@solver
@quiet
def test_the_solvers_layer_is_hard():
    tally = audit(executed_by(make_layer("qp")), ANT, torch.float32, 800)
    assert tally.violations == 0 and tally.cases >= 800
    held = make_layer("qp").execute(torch.full((1, 8), math.nan), ANT.box(torch.full((1, 8), 0.3)))
    assert torch.equal(held, torch.full((1, 8), 0.3))
    with pytest.raises(UserFacingError, match="'qp' is for benchmarks and is not exported; 'boxpro'"):
        make_layer("qp").exported(torch.zeros(1, 8), ANT.box(torch.zeros(1, 8)))


@solver
@quiet
def test_a_run_with_a_solver(tmp_path):
    spec, folder = replace(SPEC, layer="qp", steps=110, evaluate_every=200), RunFolder(tmp_path)
    folder.create(spec)
    trainer = Trainer(spec, folder)
    while trainer.step < spec.steps:
        trainer.advance()
    counts = {**trainer.agent.layer.counts()}
    trainer.evaluation_row()  # its 200 calls are no part of the training's
    assert trainer.agent.layer.counts() == counts
    row = trainer.train_row()
    assert (
        row["violations"] == 0 and row["solver_calls"] == 10 + 2 * 10
    )  # acting, and two updates a step; a batch is one call


# ---------------------------------------------------------------- aram


def test_the_acceptance_rate_is_the_mass_in_the_box():
    """u ~ N(.3, .7), a~ = tanh(u), F_t = [-.2, .2]: the mass between the two arctanhs."""
    limits, rows = RateLimits(0.2, low=-1.0, high=1.0), 4000
    layer, generator = make_layer("aram", tries=4), torch.Generator().manual_seed(0)
    full, noise = torch.ones(rows, 1), torch.randn(rows, 1, generator=generator)
    drawn = layer.draw(0.3 * full, 0.7 * full, noise, limits.box(torch.zeros(rows, 1)))
    ends = [0.5 * math.erf((math.atanh(edge) - 0.3) / 0.7 / math.sqrt(2)) for edge in (-0.2, 0.2)]
    mass = ends[1] - ends[0]
    columns = layer.columns()
    assert columns["acceptance"] == pytest.approx(mass, abs=0.02)
    assert columns["projected"] == pytest.approx((1 - mass) ** 4, abs=0.02)
    assert torch.equal(drawn.executed, drawn.judged)
    assert not limits.outside(drawn.executed.numpy(), np.zeros((rows, 1))).any()
    edge = (drawn.executed.abs() - 0.2).abs() < 1e-6
    assert edge.float().mean().item() == pytest.approx((1 - mass) ** 4, abs=0.02)


def test_the_first_draw_inside_is_executed():
    limits = RateLimits(0.2, low=-1.0, high=1.0)
    commands = torch.tensor([0.5, 0.1, -0.15, 0.9])[:, None, None]
    drawn = make_layer("aram", tries=4)._first_inside(torch.atanh(commands), limits.box(torch.zeros(1, 1)), None)
    assert drawn.executed.item() == pytest.approx(0.1)


def test_rejected_draws_are_given_once_and_as_often_as_wanted():
    limits, layer = RateLimits([0.2, 0.2], low=-1.0, high=1.0), make_layer("aram")
    mean = torch.tensor([[2.0, 2.0], [0.0, 0.0]]).repeat(2000, 1)  # odd rows are always inside
    layer.draw(mean, torch.full_like(mean, 1e-3), torch.randn(4000, 2), limits.box(torch.zeros(4000, 2)))
    taken = layer.take_rejected()
    assert all(k % 2 == 0 and action.tolist() == pytest.approx([math.tanh(2)] * 2, abs=0.01) for k, action in taken)
    assert len(taken) / 2000 == pytest.approx(0.2 / 0.8, abs=0.03)  # one loop for four steps: a fifth
    assert layer.take_rejected() == []


def test_a_rejected_draw_is_its_own_environments():
    """A share of a half keeps them all: those of the first and the third, at tanh 2 and -tanh 2."""
    layer, mean = make_layer("aram", augmented_share=0.5), torch.tensor([[2.0], [0.0], [-2.0]])
    box = RateLimits(0.2, low=-1.0, high=1.0).box(torch.zeros(3, 1))
    layer.draw(mean, torch.zeros(3, 1), torch.zeros(3, 1), box)
    taken = [(k, action.item()) for k, action in layer.take_rejected()]
    assert taken == [(0, pytest.approx(math.tanh(2))), (2, pytest.approx(-math.tanh(2)))]


def test_a_draw_depends_on_its_noise_alone():
    layer, box = make_layer("aram"), ANT.box(torch.zeros(5, 8))
    noise = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    one, two = (layer.draw(torch.zeros(5, 8), torch.ones(5, 8), noise, box).executed for _ in range(2))
    assert torch.equal(one, two)
    other = layer.draw(torch.zeros(5, 8), torch.ones(5, 8), noise + 1e-6, box).executed
    assert not torch.equal(one, other)


def test_every_action_has_second_draws_of_its_own():
    """First draws far outside, second ones inside with the probability .16 of |u| < atanh .2."""
    layer, box = make_layer("aram", tries=2), RateLimits(0.2, low=-1.0, high=1.0).box(torch.zeros(1, 1))
    firsts = 3 + torch.rand(300, 1, 1, generator=torch.Generator().manual_seed(0))
    drawn = [layer.draw(torch.zeros(1, 1), torch.ones(1, 1), first, box).executed.item() for first in firsts]
    inside = [x for x in drawn if abs(x) < 0.2 - 1e-6]
    assert len(set(inside)) == len(inside) and len(inside) / 300 == pytest.approx(0.16, abs=0.07)


def test_it_is_hard_whatever_the_latents():
    layer = make_layer("aram", tries=5)

    def drawn(latent, box):
        return layer.draw(latent, latent.roll(1, 0).abs(), latent.roll(2, 0), box).executed

    for mapping in (executed_by(layer), drawn, lambda latent, box: layer.random(box)):
        assert audit(mapping, ANT, torch.float32, 50_000).violations == 0


def test_it_leaves_no_trace_where_it_is_not_used():
    """What its runs need stands in its own file, behind the one hook that every layer has."""
    src = Path(slewrl.__file__).parent
    rooms = [*(src / "training").glob("*.py"), *(src / "agents").glob("*.py"), src / "layers" / "base.py"]
    words = re.compile(r"reject|self_loop|\baram\b", re.IGNORECASE)
    assert {path.name: words.findall(path.read_text()) for path in rooms if words.search(path.read_text())} == {}
    for name in LAYERS:
        hook = make_layer(name).hook
        assert hook is TrainingHook and hook.extra_rows == 0 and hook.ours_alone == ""


def test_loops_in_the_replay(tmp_path):
    """A rejected draw is a row that leads to its own observation, at the penalty; the step's own row follows it."""
    spec = replace(SPEC, layer_options={"rejection_penalty": 3.0}, capacity=1000, environments=2)
    trainer = Trainer(spec, RunFolder(tmp_path))
    while trainer.step < 200:
        trainer.advance()
    replay, n = trainer.replay, trainer.vec_env.layout.size
    for k in range(2):  # each in the ring of its own environment
        rows = replay._table[k * replay.rows :][: int(replay.written[k])]
        loops = np.flatnonzero(rows[:, -2] == -3.0)
        assert 10 < len(loops) < 40 and len(rows) == 100 + len(loops)
        assert np.array_equal(rows[loops, :n], rows[loops + 1, :n]) and not rows[loops, -1].any()
        prev = rows[:, n - 1 : n]
        assert trainer.limits.outside(rows[loops, n:-2], prev[loops]).any(-1).all()
        steps = np.setdiff1d(np.arange(len(rows)), loops)
        assert not trainer.limits.outside(rows[steps, n:-2], prev[steps]).any()
    assert trainer.train_row()["violations"] == 0


def test_a_run_goes_on_bit_for_bit(tmp_path):
    """Stopped between two rows of the log, with a ring that has wrapped; the columns are there."""
    whole, parts = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "parts")
    for folder in (whole, parts):
        folder.create(SPEC)
    assert train(SPEC, whole)
    trainer = Trainer(SPEC, parts)
    while trainer.step < 237:
        trainer.advance()
    trainer.save()
    assert train(SPEC, parts)
    names = ("train.csv", "eval.csv")
    for name in names:
        ours, theirs = ((folder.path / name).read_text() for folder in (whole, parts))
        assert ours.splitlines()[-1] == theirs.splitlines()[-1], name
    header, row = (whole.path / "train.csv").read_text().splitlines()
    values = dict(zip(header.split(","), row.split(","), strict=True))
    assert 0 < float(values["acceptance"]) < 1 and 0 <= float(values["projected"]) < 1
    assert float(values["violations"]) == 0


def test_what_is_refused():
    for options, message in (
        ({"tries": 0}, "tries is 0"),
        ({"augmented_share": 0.6}, "augmented_share is 0.6"),
        ({"augmented_share": "abc"}, r"augmented_share is 'abc', expected a number in \[0, .5\]"),
        ({"augmented_share": False}, "augmented_share is False"),
        ({"rejection_penalty": -1.0}, "rejection_penalty is -1.0"),
        ({"rejection_penalty": "abc"}, "rejection_penalty is 'abc', expected a finite number >= 0"),
    ):
        with pytest.raises(ValueError, match=message):
            make_layer("aram", **options)
    with pytest.raises(UserFacingError, match="'aram' is for benchmarks and is not exported; 'post'"):
        to_onnx(DeployedPolicy(torch.nn.Linear(16, 8), make_layer("aram"), ANT), (8, 8), {})
    for agent in ("td3", "fastsac"):
        with pytest.raises(
            ValueError, match=f"layer aram puts what it rejects .*; {agent} has other ones: --agent sac"
        ):
            check_spec(replace(SPEC, agent=agent, agent_options={}))
    with pytest.raises(ValueError, match="has no such option; it has: penalty_weight, tries, augmented_share"):
        check_spec(replace(SPEC, layer_options={"_counts": {}}))


# ---------------------------------------------------------------- how they are measured


def test_the_share_of_the_box_reached_is_a_volume(monkeypatch):
    """A ball of the narrowest joint's radius, half of the cube, and all of it."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    table1 = import_module("table1")
    narrow, middle, wide = (table1.LIMITS.delta[k] for k in (table1.NARROW, table1.MIDDLE, table1.WIDE))
    ball = 4 / 3 * math.pi * narrow**3 / (8 * narrow * middle * wide)
    assert table1.coverage("srad_ball") == pytest.approx(ball, abs=0.01) and ball < 0.06
    assert table1.coverage("budget") == pytest.approx(0.5, abs=0.02)  # of three joints, one and a half
    assert table1.coverage("ddsrad") == table1.coverage("boxpro") == table1.coverage("interval_srad") == 1
