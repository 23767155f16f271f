"""The files ``slewrl export`` writes, by format."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from slewrl.deploy import Format, bundle
from slewrl.errors import UserFacingError
from slewrl.io.files import is_yaml, replacing
from slewrl.limits.resolve import resolve_limits

if TYPE_CHECKING:
    from slewrl.deploy.export import DeployedPolicy
    from slewrl.limits.parse import Values

SUFFIXES: dict[Format, str] = {"bundle": "bundle", "c": "h", "onnx": "onnx", "torch": "pt2"}


def default_out(source: Path, kind: Format) -> Path:
    """The default output path of a format."""
    return Path("limiter.h") if _is_limits(source) and kind == "c" else Path(f"policy.{SUFFIXES[kind]}")


def export(
    source: Path,
    out: Path,
    kind: Format,
    prefix: str = "slewrl",
    trust: bool = False,
    reset_action: "Values | None" = None,
) -> str:
    """Export ``source`` to ``out``, atomically, and return a short description of the file.

    Args:
        source: run folder, or Stable-Baselines3 model (.zip); for ``c`` also a limits.yaml or a bundle, for ``onnx``
            also a bundle.
        out: path of the file to write.
        kind: "bundle", "c", "onnx" or "torch" (a torch.export program).
        prefix: prefix of the names in a C header.
        trust: whether code that a run or model names or contains may run (docs/trust.md).
        reset_action: the pose the policy of a run or model starts from; default: as in training.
    """
    if kind not in get_args(Format):
        raise ValueError(f"format is {kind!r}, expected one of {', '.join(get_args(Format))}")
    if kind != "c" and prefix != "slewrl":
        raise ValueError(f"--prefix is for --format c; a {kind} file has no names in it")
    if not source.exists():
        raise FileNotFoundError(f"there is no run, bundle or limits file {str(source)!r}")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"no folder {str(out.parent)!r} to write {out.name} to")
    if _is_ready(source) and kind not in ("c", "onnx"):
        raise ValueError(
            f"--format {kind} is made from a run, and {source} is a file: name the folder of a run, or a .zip"
        )
    if _is_limits(source) and kind != "c":
        raise ValueError(f"{source} holds limits, not a policy: a limiter is made with --format c")
    if _is_ready(source) and reset_action is not None:
        raise ValueError(f"--reset-action is for a run or a model; {source} has its pose already, or needs none")
    with replacing(out) as aside:
        if _is_limits(source):
            from slewrl.deploy.c_export import limiter_header

            limits, title = resolve_limits(source), f"A rate limiter from {source.name}"
            aside.write_text(limiter_header(limits, prefix=prefix, title=title), encoding="utf-8")
            return f"C99, a rate limiter for {limits.dim} joints"
        if kind == "torch":
            return _torch(source, aside, trust, reset_action)
        return _from_bundle(_bundle(source, aside, trust, reset_action), aside, kind, prefix)


def _is_limits(source: Path) -> bool:
    return source.is_file() and is_yaml(source)


def _is_ready(source: Path) -> bool:
    """Whether the source is a bundle or a limits file, rather than a run or a model."""
    return source.is_file() and source.suffix != ".zip"


def _bundle(source: Path, out: Path, trust: bool, reset_action: "Values | None") -> bundle.Bundle:
    """Read the bundle ``source``, or export a run or model to the bundle ``out``."""
    if _is_ready(source):
        return bundle.read(source)
    from slewrl.deploy.export import export_bundle

    return export_bundle(source, out, trust, reset_action)


def _from_bundle(made: bundle.Bundle, out: Path, kind: Format, prefix: str) -> str:
    """Replace the bundle at ``out`` by the C header or the ONNX graph that is asked for; return a description."""
    about = _about(made)
    if kind == "c":
        from slewrl.deploy.c_export import policy_header

        out.write_text(policy_header(made, prefix=prefix), encoding="utf-8")
        return f"C99, {about}"
    if kind == "onnx":
        out.write_bytes(made.onnx)
        return f"the ONNX graph alone, without the limiter: {about}"
    return about


def _torch(run: Path, out: Path, trust: bool, reset_action: "Values | None") -> str:
    import torch

    from slewrl.deploy.export import deployable

    policy, batch = deployable(run, trust, reset_action), torch.export.Dim("batch")
    example = tuple(torch.zeros(2, size) for size in policy.sizes)
    program = torch.export.export(policy.module, example, dynamic_shapes=({0: batch},) * len(example))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the last layer, a view of the trained one; harmless
        torch.export.save(program, out)
    _check(policy.module, torch.export.load(out).module())
    return "a torch.export program of the policy, without the limiter"


def _about(made: bundle.Bundle) -> str:
    step = bundle.trained(made).step
    pose = ", ".join(f"{name} {x:.4g}" for name, x in zip(made.limits.names, made.default_pose, strict=True))
    size = f"{made.observation_size} observations, {len(made.limits.names)} joints"
    return f"the policy at step {step:,}, {size}; it starts from {pose} ({made.limits.units})"


def _check(module: "DeployedPolicy", loaded: Any) -> None:
    """Refuse an exported file whose outputs differ from the policy's."""
    import torch

    from slewrl.deploy.export import random_history

    limits, rng = module.limits, np.random.default_rng(0)
    size = int(next(module.net.parameters()).shape[1]) - limits.appended
    for rows in (1, 2, 100):
        history = random_history(limits, rows, rng).values()
        given = [torch.from_numpy(x) for x in (3 * rng.standard_normal((rows, size), np.float32), *history)]
        ours, theirs = module(*given), loaded(*given)
        if not torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5):
            raise UserFacingError(f"the file gives other numbers than the policy, by {(ours - theirs).abs().max():.2g}")
