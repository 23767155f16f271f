"""The files ``slewrl export`` writes, by format."""

import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, get_args

from slewrl.deploy import Format, bundle
from slewrl.deploy.c_export import limiter_header, policy_header
from slewrl.errors import UserFacingError
from slewrl.io.files import is_yaml, replacing
from slewrl.limits.resolve import resolve_limits

if TYPE_CHECKING:
    import torch

    from slewrl.deploy.export import DeployedPolicy
    from slewrl.limits.parse import Values

DEFAULT_OUT: dict[Format, str] = {
    "bundle": "policy.bundle", "c": "policy.h", "onnx": "policy.onnx",
    "torch": "policy.pt2",
}  # fmt: skip


def default_out(source: Path, kind: Format) -> Path:
    """The default output path of a format."""
    return Path("limiter.h") if _is_limits(source) and kind == "c" else Path(DEFAULT_OUT[kind])


class Said(TypedDict, total=False):
    """Options for exporting a run or a model."""

    trust: bool
    """Whether code that the source names or contains may run (docs/trust.md)."""
    reset_action: "Values | None"
    """The pose the policy starts from; default: as in training."""


def export(source: Path, out: Path, kind: Format, prefix: str = "slewrl", **said: Unpack[Said]) -> str:
    """Export ``source`` to ``out``, atomically, and return a short description of the file.

    Args:
        source: run folder, or Stable-Baselines3 model (.zip); for ``c`` also a limits.yaml or a bundle, for ``onnx``
            also a bundle.
        out: path of the file to write.
        kind: "bundle", "c", "onnx" or "torch" (a torch.export program).
        prefix: prefix of the names in a C header.
        **said: ``trust`` and ``reset_action``, for a run or a model.
    """
    if kind not in get_args(Format):
        raise ValueError(f"format is {kind!r}, expected one of {', '.join(get_args(Format))}")
    if kind != "c" and prefix != "slewrl":
        raise ValueError(f"--prefix is for --format c; a {kind} file has no names in it")
    if not source.exists():
        raise FileNotFoundError(f"there is no run, bundle or limits file {str(source)!r}")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"no folder {str(out.parent)!r} to write {out.name} to")
    if source.is_file() and source.suffix != ".zip" and kind not in ("c", "onnx"):
        raise ValueError(
            f"--format {kind} is made from a run, and {source} is a file: name the folder of a run, or a .zip"
        )
    if _is_limits(source) and kind != "c":
        raise ValueError(f"{source} holds limits, not a policy: a limiter is made with --format c")
    if source.is_file() and source.suffix != ".zip" and said.get("reset_action") is not None:
        raise ValueError(f"--reset-action is for a run or a model; {source} has its pose already, or needs none")
    writers: dict[Format, Callable[[Path, Path, Said], str]] = {
        "bundle": _bundle, "c": partial(_c, prefix=prefix), "onnx": _onnx, "torch": _torch,
    }  # fmt: skip
    with replacing(out) as aside:
        return writers[kind](source, aside, said)


def _is_limits(source: Path) -> bool:
    return source.is_file() and is_yaml(source)


# ---------------------------------------------------------------------- one function per format


def _bundle(run: Path, out: Path, said: Said) -> str:
    from slewrl.deploy.export import export_bundle

    return _about(export_bundle(run, out, **said))


def _c(source: Path, out: Path, said: Said, prefix: str) -> str:
    if not _is_limits(source):
        made = _made(source, said)
        out.write_text(policy_header(made, prefix=prefix), encoding="utf-8")
        return f"C99, {_about(made)}"
    limits = resolve_limits(source)
    out.write_text(limiter_header(limits, prefix=prefix, title=f"A rate limiter from {source.name}"), encoding="utf-8")
    return f"C99, a rate limiter for {limits.dim} joints"


def _onnx(source: Path, out: Path, said: Said) -> str:
    made = _made(source, said)
    out.write_bytes(made.onnx)
    return f"the ONNX graph alone, without the limiter: {_about(made)}"


def _torch(run: Path, out: Path, said: Said) -> str:
    import torch

    module, program = _program(run, said)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the last layer, a view of the trained one; harmless
        torch.export.save(program, out)
    _check(module, torch.export.load(out).module())
    return "a torch.export program of the policy, without the limiter"


def _made(source: Path, said: Said) -> bundle.Bundle:
    """Read the bundle ``source``, or make one of a run or model."""
    if source.is_file() and source.suffix != ".zip":
        return bundle.read(source)
    from slewrl.deploy.export import export_bundle

    with tempfile.TemporaryDirectory() as folder:
        return export_bundle(source, Path(folder) / "policy.bundle", **said)


def _about(made: bundle.Bundle) -> str:
    step = bundle.trained(made).step
    pose = ", ".join(f"{name} {x:.4g}" for name, x in zip(made.limits.names, made.default_pose, strict=True))
    size = f"{made.observation_size} observations, {len(made.limits.names)} joints"
    return f"the policy at step {step:,}, {size}; it starts from {pose} ({made.limits.units})"


def _program(run: Path, said: Said) -> tuple["DeployedPolicy", "torch.export.ExportedProgram"]:
    """The policy of a run as a module, and as an exported program for any batch size."""
    import torch

    from slewrl.deploy.export import deployable

    policy, batch = deployable(run, **said), torch.export.Dim("batch")
    module, example = policy.module, tuple(torch.zeros(2, size) for size in policy.sizes)
    return module, torch.export.export(module, example, dynamic_shapes=({0: batch}, {0: batch}))


def _check(module: "DeployedPolicy", loaded: Any) -> None:
    """Refuse an exported file whose outputs differ from the policy's."""
    import torch

    limits, generator = module.limits, torch.Generator().manual_seed(0)
    size = int(next(module.net.parameters()).shape[1]) - limits.dim
    for rows in (1, 2, 100):
        observation = 3 * torch.randn(rows, size, generator=generator)
        share = torch.rand(rows, limits.dim, generator=generator, dtype=torch.float64)
        low, high = torch.tensor(limits.low), torch.tensor(limits.high)
        previous = limits.clamp(torch.lerp(low, high, share).float())
        ours, theirs = module(observation, previous), loaded(observation, previous)
        if not torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5):
            raise UserFacingError(f"the file gives other numbers than the policy, by {(ours - theirs).abs().max():.2g}")
