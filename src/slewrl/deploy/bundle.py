"""Bundles: one file with a policy, its limits and everything needed to run it. Reading one needs numpy only.

The file is a line with the format version and the SHA-256 of everything after it, followed by a ZIP of

    manifest.json    joints with their limits as exact decimals, the budget they share, dt, units, default pose,
                     scales, observation layout, provenance, and the SHA-256 of every other part
    policy.onnx      (observation, previous_action) -> action: network and layer; with an acceleration limit it takes
                     previous_velocity, too

stored without compression (``unzip`` opens it). Reading checks every byte, runs no code, and accepts only graphs like
those of ``export`` (``graph.py``). The digests detect damage; they are not a signature.
"""

import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slewrl.agents.recipes import agent_options, upgraded
from slewrl.deploy.graph import read_graph
from slewrl.errors import UserFacingError, shortened
from slewrl.io.files import write_atomically
from slewrl.limits.boxmath import exact, round_down
from slewrl.limits.parse import Limits, read_acceleration, read_groups, read_limits, repeated
from slewrl.limits.viability import grid_unit, make_grid

VERSION = 1
MAGIC = b"slewrl-bundle "
MANIFEST, POLICY = "manifest.json", "policy.onnx"
HEADER = len(MAGIC) + 4 + 64 + 1
"""The length of the first line in bytes: magic, version as "%3d ", digest, newline."""
ACCELERATION, GRID = ("acceleration", "deceleration"), "grid_unit"
"""The entries that joints have in addition under acceleration limits, all or none of them."""
LARGEST = 1 << 30
"""The largest accepted file in bytes; a policy has a few megabytes."""


class BundleError(UserFacingError):
    """The file is not a bundle, or is damaged."""


@dataclass(frozen=True)
class JointLimits:
    """The limits of a bundle, as ``RateLimiter`` reads them; float64, rounded inward from the decimals."""

    up: NDArray[np.float64]
    down: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    names: tuple[str, ...]
    groups: tuple[str, ...]
    dt: float | None
    units: str
    acceleration: NDArray[np.float64] | None = None
    """Per control step squared, (d,); None without an acceleration limit."""
    deceleration: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Bundle:
    """The contents of a bundle."""

    limits: JointLimits
    default_pose: NDArray[np.float64]
    """The pose from which the policy starts, (d,), in the units of the limits."""
    observation: tuple[tuple[str, int], ...]
    """The name and length of each part of the observation, in order, without the previous action."""
    manifest: dict[str, Any]
    """The whole manifest, provenance included."""
    onnx: bytes
    budget: float | None = None
    """The budget B over all joints, in joints at full rate, rounded down from the decimal; None without one."""

    @property
    def observation_size(self) -> int:
        """The length of the observation, without the previous action."""
        return sum(size for _, size in self.observation)


def decimal(value: float) -> str:
    """Format a float as its exact decimal value."""
    return format(Decimal(float(value)), "f")


def joint_rows(limits: Any) -> list[dict[str, str]]:
    """The limits of each joint as exact decimals, for a manifest; with an acceleration, its grid of commands, too."""
    columns = {key: getattr(limits, key) for key in ("up", "down", "low", "high")}
    if limits.grid is not None:
        columns |= {**{key: getattr(limits, key) for key in ACCELERATION}, GRID: limits.grid.unit}
    return [
        {"name": name, "group": limits.groups[i], **{key: decimal(column[i]) for key, column in columns.items()}}
        for i, name in enumerate(limits.names)
    ]


# ---------------------------------------------------------------------- how it was trained

KINDS: dict[str, tuple[type, ...]] = {
    "an object": (dict,), "text": (str,), "a whole number": (int,), "a whole number or null": (int, type(None)),
}  # fmt: skip
SPEC = {
    "task": "text", "agent": "text", "layer": "text", "density": "text", "seed": "a whole number or null",
    "steps": "a whole number", "agent_options": "an object", "layer_options": "an object", "recipe": "text",
}  # fmt: skip
"""The entries of a training spec that are read here, with their types."""


class Trained(NamedTuple):
    """A bundle's record of its training, which a controller does not need."""

    step: int
    """The environment step of the exported checkpoint."""
    spec: dict[str, Any]

    @property
    def tanh_mean(self) -> bool:
        """Whether the actor's mean is bounded by a tanh."""
        try:
            options = agent_options(*(self.spec[name] for name in ("agent", "recipe", "agent_options")))
        except ValueError as error:
            raise BundleError(f"the bundle's {error}: use the slewrl it was exported with") from None
        return options.get("mean_bound") == "tanh"


def trained(bundle: Bundle) -> Trained:
    """Read how a bundle's policy was trained.

    Raises:
        BundleError: an entry of ``SPEC`` is missing or malformed; the message names it.
    """
    provenance = _entry(bundle.manifest, "", "provenance", "an object")
    spec = upgraded(_entry(provenance, "provenance.", "spec", "an object"))
    for key, kind in SPEC.items():
        _entry(spec, "provenance.spec.", key, kind)
    return Trained(_entry(provenance, "provenance.", "step", "a whole number"), spec)


def _entry(found: dict[str, Any], where: str, key: str, kind: str) -> Any:
    if key not in found or type(found[key]) not in KINDS[kind]:
        value = shortened(found[key]) if key in found else "missing"
        raise BundleError(
            f"the bundle does not say with which layer it was trained and how: its {where}{key} is {value}, "
            f"expected {kind}"
        )
    return found[key]


def write(path: Path, manifest: Mapping[str, Any], onnx: bytes) -> None:
    """Write a bundle atomically, adding the digests."""
    text = json.dumps({**manifest, "parts": {POLICY: _digest(onnx)}}, indent=1, allow_nan=False)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {MANIFEST: text.encode(), POLICY: onnx}.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)  # the same bytes at any time
    body = buffer.getvalue()
    write_atomically(path, MAGIC + f"{VERSION:3d} {_digest(body)}\n".encode() + body)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read(path: str | Path) -> Bundle:
    """Read a bundle and check all of it.

    Raises:
        BundleError: the file is not a bundle, has another version, is damaged or incomplete; the message says which.
    """
    if os.path.isdir(path):
        raise BundleError(f"{path} is a folder, expected a bundle (slewrl export {path} --out policy.bundle)")
    try:
        if os.path.getsize(path) > LARGEST:
            raise BundleError(f"it is larger than {LARGEST >> 20} MB, so not a slewrl bundle")
        return parse(Path(path).read_bytes())
    except FileNotFoundError:
        raise BundleError(f"there is no file {str(path)!r} (slewrl export RUN --out {path})") from None
    except (BundleError, OSError) as error:
        raise BundleError(f"{path}: {error}") from error.__cause__


def parse(data: bytes) -> Bundle:
    """Parse and check the bytes of a bundle."""
    parts = _parts(_body(data))
    try:
        manifest = json.loads(parts[MANIFEST], object_pairs_hook=_once)
        if manifest["parts"] != {POLICY: _digest(parts[POLICY])}:
            raise BundleError(f"{POLICY} is not the one its manifest was written for")
        limits = _limits(manifest)
        budget = _budget(manifest.get("budget"), len(limits.names))
        pose = np.array([float(_decimal(x)) for x in list(manifest["default_pose"])])
        observation = tuple((str(part["name"]), _size(part["size"])) for part in manifest["observation"])
    except BundleError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise BundleError(f"{MANIFEST} is not understood: {type(error).__name__} {error}") from error
    try:
        read_graph(parts[POLICY])
    except ValueError as error:
        raise BundleError(f"{POLICY} is refused: {error}") from error
    if pose.shape != limits.up.shape or not np.isfinite(pose).all():
        raise BundleError(f"default_pose has {len(pose)} entries, expected {len(limits.names)} finite numbers")
    if budget is not None and limits.acceleration is not None:
        raise BundleError("it has a budget and an acceleration limit, expected one of them")
    return Bundle(limits, pose, observation, manifest, parts[POLICY], budget)


def _body(data: bytes) -> bytes:
    """The bytes after the first line, checked against its digest."""
    if not data.startswith(MAGIC):
        raise BundleError(f"this is no slewrl bundle: it begins with {data[: len(MAGIC)]!r}")
    line, body = data[:HEADER], data[HEADER:]
    if len(line) < HEADER or not line.endswith(b"\n"):
        raise BundleError("its first line is cut off")
    version = line[len(MAGIC) : len(MAGIC) + 4]
    if version != f"{VERSION:3d} ".encode():
        raise BundleError(f"it has format {version.strip()!r}, expected {VERSION}: use the slewrl it was exported with")
    if line[len(MAGIC) + 4 : -1].decode("ascii", "replace") != _digest(body):
        raise BundleError("it is damaged: its bytes do not have the SHA-256 of its first line; copy or export it anew")
    return body


def _parts(body: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            if names != [MANIFEST, POLICY]:
                raise BundleError(f"it holds {', '.join(names) or 'nothing'}, expected {MANIFEST} and {POLICY} only")
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise BundleError("its parts are compressed, expected them stored without compression")
            return {name: archive.read(name) for name in names}
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, ValueError, OSError) as error:
        raise BundleError(f"its parts cannot be read: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of a JSON object, refusing duplicate keys, which readers treat differently."""
    if twice := repeated(key for key, _ in pairs):
        raise ValueError(f"the key {twice[0][:60]!r} is there twice")
    return dict(pairs)


def _limits(manifest: dict[str, Any]) -> JointLimits:
    rows = manifest["joints"]
    columns = {key: [_decimal(row[key]) for row in rows] for key in ("up", "down", "low", "high")}
    names = [str(row["name"]) for row in rows]
    checked = read_limits(None, columns["low"], columns["high"], columns["up"], columns["down"], names)
    groups = read_groups([row["group"] for row in rows], checked.names)
    dt = None if manifest["dt"] is None else float(_decimal(manifest["dt"]))
    if dt is not None and not dt > 0:
        raise ValueError(f"dt is {dt}, expected a positive control period in seconds")
    return JointLimits(*checked, groups, dt, str(manifest["units"]), *_accelerations(rows, checked))


def _accelerations(rows: list[dict[str, Any]], limits: Limits) -> tuple[Any, Any]:
    """Parse acceleration and deceleration per step; None each if the joints have none of the three entries."""
    keys = (*ACCELERATION, GRID)
    if not any(key in row for row in rows for key in keys):
        return None, None
    columns = {key: [_decimal(row[key]) for row in rows] for key in keys}
    faster, slower = read_acceleration(columns["acceleration"], columns["deceleration"], limits, None)
    make_grid(limits, faster, slower)
    for name, low, high, said in zip(limits.names, limits.low, limits.high, columns[GRID], strict=True):
        if exact(said) != exact(unit := grid_unit(float(low), float(high))):
            raise ValueError(f"{GRID} of {name!r} is {said[:40]}, expected {decimal(unit)}, that of its range")
    return faster, slower


def _budget(text: Any, joints: int) -> float | None:
    """Parse the budget; None if the bundle has none."""
    if text is None:
        return None
    given = exact(_decimal(text))
    if not (0 < given <= joints and round_down(given) > 0):
        raise ValueError(f"budget is {text[:40]}, expected a number in (0, {joints}]: joints at full rate, or null")
    return round_down(given)


def _decimal(text: Any) -> str:
    """Check that text is a decimal such as ``decimal`` writes: no exponent, no fraction, bounded length."""
    if not isinstance(text, str) or not re.fullmatch(r"-?[0-9]{1,400}(\.[0-9]{1,1200})?", text):
        raise ValueError(f"{str(text)[:40]!r}, expected a decimal such as '0.25' (a finite number)")
    return text


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"a part of the observation has size {value!r}, expected a whole number")
    return value
