"""What a layer costs: forward + backward of every layer, of the formula written plainly, and of three QP peers.

    make bench            # or: python benchmarks/layers.py

CPU time on one core, best of several interleaved rounds, on the same batches of Humanoid-v5 (17 joints). "Whole
action" is what SAC needs (action, log-probability term, penalty); "action only" is the action alone. The box is
built inside the timed region. The QP rows project onto the same boxes: cvxpylayers is differentiable, a problem a row
as its pages have it, or 256 rows as one block-diagonal problem, which is our layer `qp`; OSQP (set up once, then
updated) is forward only. They need the `bench` extra.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from page import write
from torch import Tensor

from slewrl import LAYERS, RateLimits, make_layer

LIMITS = RateLimits.preset("Humanoid-v5", "tight")
LOW, HIGH = (torch.tensor(a, dtype=torch.float32) for a in (LIMITS.low, LIMITS.high))
DELTA = torch.tensor(LIMITS.delta, dtype=torch.float32)


def plain_action(u: Tensor, prev: Tensor) -> Tensor:
    """Eq. (reff) and (ddsrad), as anyone would write them."""
    radius = torch.where(u >= 0, torch.minimum(DELTA, HIGH - prev), torch.minimum(DELTA, prev - LOW))
    return prev + radius * (u / torch.sqrt(1 + u**2))


def plain_whole(u: Tensor, prev: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same with Eq. (logdet) in normalised units and the penalty of Eq. (actor_loss)."""
    return plain_action(u, prev), (-1.5 * torch.log1p(u**2)).sum(-1), (u**2).sum(-1)


def forward_backward(
    function: Callable[[Tensor], tuple[Tensor, ...]], u: Tensor, grads: list[Tensor]
) -> Callable[[], None]:
    """One forward and one backward through every output."""

    def call() -> None:
        leaf = u.detach().requires_grad_()
        # A penalty or a log_det of zeros has no gradient.
        pairs = [(out, grad) for out, grad in zip(function(leaf), grads, strict=False) if out.requires_grad]
        torch.autograd.backward(*zip(*pairs, strict=True))

    return call


def layer_whole(name: str, prev: Tensor) -> Callable[[Tensor], tuple[Tensor, ...]]:
    layer = make_layer(name)

    def function(u: Tensor) -> tuple[Tensor, ...]:
        action = layer(u, LIMITS.box(prev, check=False))
        return action.judged, action.log_det, action.penalty  # judged is what the critic differentiates

    return function


def best_times(calls: dict[str, Callable[[], None]], rounds: int, repeats: int) -> dict[str, float]:
    """CPU seconds per call, the best over rounds; the calls take turns, so a busy machine hits all alike."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(repeats):
                call()
            best[name] = min(best[name], (time.process_time() - start) / repeats)
    return best


def qp_rows(u: Tensor, prev: Tensor, grad: Tensor) -> dict[str, float]:
    """CPU seconds to project the same batch with cvxpylayers (forward + backward) and with OSQP (forward)."""
    import cvxpy as cp
    import osqp
    from cvxpylayers.torch import CvxpyLayer
    from scipy import sparse

    d = u.shape[-1]
    box = LIMITS.box(prev)
    wanted, low, high = (t.double() for t in (prev + u, box.low, box.high))
    y, lo, hi, x = cp.Parameter(d), cp.Parameter(d), cp.Parameter(d), cp.Variable(d)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - y)), [x >= lo, x <= hi])
    projection = CvxpyLayer(problem, parameters=[y, lo, hi], variables=[x])

    def through_cvxpylayers() -> None:
        (projected,) = projection(wanted.detach().requires_grad_(), low, high)
        projected.backward(grad.double())

    layer = make_layer("qp")

    def through_blocks() -> None:
        for rows in zip(wanted.float().split(256), prev.split(256), grad.split(256), strict=True):
            layer.enter(rows[0].requires_grad_(), LIMITS.box(rows[1], check=False)).backward(rows[2])

    solver = osqp.OSQP()
    eye = sparse.csc_matrix(np.eye(d))
    solver.setup(
        P=2 * eye, q=np.zeros(d), A=eye, l=-np.ones(d), u=np.ones(d), verbose=False, eps_abs=1e-6, eps_rel=1e-6
    )
    rows = [(-2 * w, a, b) for w, a, b in zip(wanted.numpy(), low.numpy(), high.numpy(), strict=True)]

    def through_osqp() -> None:
        for q, a, b in rows:
            solver.update(q=q, l=a, u=b)
            solver.solve()

    return {
        "QP: cvxpylayers, a problem a row": best_times({"": through_cvxpylayers}, 2, 1)[""],
        "QP: cvxpylayers, one problem of 256 rows": best_times({"": through_blocks}, 2, 1)[""],
        "QP: OSQP, set-up reused, forward only": best_times({"": through_osqp}, 2, 1)[""],
    }


def measure(batch: int, rounds: int, with_qp: bool) -> dict[str, float]:
    """Microseconds per call at one batch size."""
    generator = torch.Generator().manual_seed(0)
    u = 2 * torch.randn(batch, 17, generator=generator)
    prev = 0.4 * (2 * torch.rand(batch, 17, generator=generator) - 1) * (1 - 2**-20)
    grads = [torch.randn(s, generator=generator) for s in ((batch, 17), (batch,), (batch,))]
    ddsrad = make_layer("ddsrad")
    functions: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
        "formula as written, action only": lambda x: (plain_action(x, prev),),
        "ddsrad, action only": lambda x: (ddsrad.execute(x, LIMITS.box(prev, check=False)),),
        "formula as written, whole action": lambda x: plain_whole(x, prev),
    }
    functions |= {f"{name}, whole action": layer_whole(name, prev) for name in LAYERS}
    calls = {name: forward_backward(function, u, grads) for name, function in functions.items()}
    times = best_times(calls, rounds, repeats=max(10, 20_000 // batch))
    if with_qp:
        times |= qp_rows(u, prev, grads[0])
    return {name: 1e6 * seconds for name, seconds in times.items()}


def table(columns: dict[int, dict[str, float]]) -> str:
    """One row per function: microseconds and the ratio to the formula written plainly, at each batch size."""
    lines = [
        f"torch {torch.__version__}, {time.strftime('%Y-%m-%d')}, microseconds of CPU time:",
        "",
        "| forward + backward | 256 x 17 | x formula | 4096 x 17 | x formula |",
        "|---|---|---|---|---|",
    ]
    for name in columns[256]:
        cells = [name]
        for times in columns.values():
            base = times["formula as written, " + ("action only" if "action only" in name else "whole action")]
            cells += [f"{times[name]:,.0f}", f"{times[name] / base:,.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    for batch, times in columns.items():
        if peers := [seconds for name, seconds in times.items() if name.startswith("QP: cvxpylayers")]:
            ratio = min(peers) / times["ddsrad, whole action"]
            lines += ["", f"{batch} x 17: ddsrad is {ratio:,.0f} times faster than the faster differentiable QP."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds, of which the best counts")
    parser.add_argument("--no-qp", action="store_true", help="leave out the QP peers (and their dependencies)")
    parser.add_argument("--write", type=Path, help="put the table between the markers of this page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    columns = {batch: measure(batch, args.rounds, not args.no_qp) for batch in (256, 4096)}
    text = table(columns)
    print(text)
    if args.write:
        write(args.write, "layers", text)


if __name__ == "__main__":
    main()
