"""Exports the limiter and small policies for microcontrollers, as one C99 header without dependencies.

    Path("limiter.h").write_text(limiter_header(limits))
    Path("policy.h").write_text(policy_header(bundle.read("policy.bundle")))

The C code is in ``c/``; this module fills in the numbers. The limiter agrees with ``RateLimiter`` bit for bit, a policy
with ``Controller`` to float32 rounding. docs/c.md says how to use it.
"""

import re
import textwrap
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slewrl import __version__
from slewrl.deploy.bundle import Bundle, JointLimits, trained
from slewrl.deploy.limiter import RateLimiter
from slewrl.deploy.network import Activation, Clamp, Dense, LayerNorm, Normalize, Step, read_network
from slewrl.errors import UserFacingError
from slewrl.limits import boxmath

if TYPE_CHECKING:
    from slewrl.deploy.limiter import AnyLimits

TEMPLATES = Path(__file__).parent / "c"
WIDTH = 116
"""The largest line width of the header."""

SPHERICAL, TANH = "u / sqrtf(1.0f + u * u)", "tanhf(u)"
HOLD = """\
    /* R_eff: the distance to the bound on v's side, or the rate if that is smaller. */
    const float radius = fabsf(fminf(fmaxf((v >= 0.0f ? high : low) - prev, -down), up));
    const float command = prev + radius * v;"""
INTERVAL = """\
    /* From the nearer edge, so that v = -1 and 1 land on the edges exactly. */
    const float width = top - bottom;
    const float command = v < 0.0f ? bottom + width * (0.5f + 0.5f * v) : top - width * (0.5f - 0.5f * v);"""
RANGE = "    const float command = 0.5f * (low + high) + 0.5f * (high - low) * v;"
BRAKE_POINT = """\
    /* From the brake point, where full braking leads, to the edge on v's side. */
    const float anchor = fminf(fmaxf(prev, bottom), top);
    const float command = anchor + (v >= 0.0f ? top - anchor : anchor - bottom) * v;"""
TARGET = """\
    /* Towards a target in the range, as fast as lets the joint stop there. */
    const float low = (float)(slewrl_lowest[i] * unit), high = (float)(slewrl_highest[i] * unit);
    const double way = slewrl_way(0.5f * (low + high) + 0.5f * (high - low) * v, q, i);
    const double step = copysign(slewrl_fastest(fabs(way), slewrl_most_deceleration[i]), way);
    const float command = (float)((q + step) * unit);"""
ACCELERATED = {HOLD: BRAKE_POINT, INTERVAL: INTERVAL, RANGE: TARGET}
"""Placement -> the same under acceleration limits."""
LAYERS = {
    "ddsrad": (SPHERICAL, HOLD),
    "dtanh": (TANH, HOLD),
    "interval_tanh": (TANH, INTERVAL),
    "interval_srad": (SPHERICAL, INTERVAL),
    "boxpro": (TANH, RANGE),
}
"""The layers with a C version: squash (latent u to v in [-1, 1]) and placement (v to a command)."""

ARRAYS: dict[type[Step], tuple[str, ...]] = {
    Dense: ("weight", "bias"), Normalize: ("shift", "scale"), Clamp: ("least", "most"),
    LayerNorm: ("gain", "offset"), Activation: (),
}  # fmt: skip
"""Kind of step -> the names of its arrays in C."""

LIMITER_USAGE = ("slewrl_start(&state, pose)", "slewrl_step(&state, command, out)")
CONTROL_USAGE = ("slewrl_control_start(&state, pose, 1)", "slewrl_control(&state, observation, out)")


def limiter_header(
    limits: "AnyLimits", *, dt: float | None = None, longest: float = 1.0, prefix: str = "slewrl", title: str = ""
) -> str:
    """Write the header of a limiter without a policy.

    Args:
        limits: limits of d joints, as ``RateLimiter`` takes them.
        dt: control period in seconds; default: the limits' own. Without one there is no ``slewrl_step_dt``, nor with an
            acceleration limit.
        longest: the most that a late step may move, in nominal steps, >= 1.
        prefix: prefix of every name in the header, so that one program can include several.
        title: title for the first line, such as the source of the limits.
    """
    limiter = RateLimiter(limits, dt, longest)
    joints = _joints(limiter, str(getattr(limits, "units", "")))
    banner = _banner(title or "A rate limiter", [joints], LIMITER_USAGE)
    return _header(prefix, banner, [_limits(limiter), _limiter(limiter, "")])


def policy_header(bundle: Bundle, *, longest: float = 1.0, prefix: str = "slewrl") -> str:
    """Write the header of a bundle's policy with its limiter, for the layers in ``LAYERS``."""
    how = trained(bundle)
    layer = how.spec["layer"]
    if layer not in LAYERS:
        raise UserFacingError(
            f"there is no C for the layer {layer!r}, only for {', '.join(LAYERS)}; "
            "the limiter alone works with any policy (slewrl export limits.yaml --format c)"
            + ("" if bundle.budget is None else ", but keeps no budget")
        )
    limiter, net = RateLimiter(bundle.limits, longest=longest), read_network(bundle)
    observation = "observation: " + ", ".join(f"{name} ({size})" for name, size in bundle.observation)
    lines = [_joints(limiter, bundle.limits.units), observation]
    title = f"{bundle.manifest.get('name', 'a policy')}, step {how.step}, layer {layer}"
    constants = _constants(bundle, limiter)
    parts = [_limits(limiter), _limiter(limiter, _template("policy_state.h")), constants, _weights(net)]
    return _header(prefix, _banner(title, lines, CONTROL_USAGE), [*parts, _policy(net, layer, how.tanh_mean, limiter)])


def _numbered(net: list[Step]) -> Iterator[tuple[Step, int]]:
    """Yield each step with the number of earlier steps of its kind."""
    for i, step in enumerate(net):
        yield step, sum(type(before) is type(step) for before in net[:i])


def _limits(limiter: RateLimiter) -> str:
    """The joint names, limits and dt as C, exact to the bit."""
    names = _array("const char *const", "names", "JOINTS", [_string(name) for name in limiter.names])
    keys = ("up", "down", "low", "high")
    arrays = [_array("const double", key, "JOINTS", _doubles(getattr(limiter, key))) for key in keys]
    dt = [] if limiter.dt is None else [f"#define SLEWRL_DT {limiter.dt.hex()} /* {limiter.dt!r} seconds */"]
    count = f"#define SLEWRL_JOINTS {len(limiter.names)}"
    note = "/* Largest rise and fall per control step, and the range; exact, as hexadecimal floats. */"
    return "\n".join([count, *dt, "", names, note, *arrays, *_grid(limiter)])


GRID = {
    "lowest": "low", "highest": "high", "fastest_rise": "up", "fastest_fall": "down",
    "most_acceleration": "acceleration", "most_deceleration": "deceleration",
}  # fmt: skip
"""Name of an array in C -> field of the grid."""


def _grid(limiter: RateLimiter) -> list[str]:
    """The grid of commands and the limits in its units as C, if there is an acceleration limit."""
    if limiter.motion is None:
        return []
    grid = limiter.motion.full
    lines = ["", "/* The grid of commands, and the limits in its units, per step and rounded inward. */"]
    lines.append(_array("const double", "unit", "JOINTS", _doubles(grid.unit)))
    return lines + [_array("const double", name, "JOINTS", _doubles(getattr(grid, key))) for name, key in GRID.items()]


def _constants(bundle: Bundle, limiter: RateLimiter) -> str:
    """The limits in float32, rounded inward and guarded as in training, and the policy's default pose, as C."""
    limits = bundle.limits
    _check_floats(limits)
    low, high = -_cast_down(-limits.low), _cast_down(limits.high)
    up, down = (boxmath.guard(_cast_down(rate), low, high) for rate in (limits.up, limits.down))
    floats = {"up_float": up, "down_float": down, "low_float": low, "high_float": high}
    pose = np.clip(bundle.default_pose, limits.low, limits.high)
    lines = [f"#define SLEWRL_OBSERVATIONS {bundle.observation_size}", "", "/* The policy's default pose. */"]
    pose = pose if limiter.motion is None else limiter.motion.nearest(pose)
    lines += [_array("const double", "target", "JOINTS", _doubles(pose))]
    if limiter.motion is not None:
        return "\n".join(lines)
    lines += ["/* The limits in float32, rounded inward. */"]
    lines += [_array("const float", name, "JOINTS", _floats(values)) for name, values in floats.items()]
    return "\n".join(lines)


def _check_floats(limits: JointLimits) -> None:
    """Refuse limits beyond float32, in which the policy is computed."""
    most = boxmath.largest(np.finfo(np.float32))
    for key in ("up", "down", "low", "high"):
        for name, value in zip(limits.names, getattr(limits, key), strict=True):
            if abs(value) > most:
                raise UserFacingError(
                    f"{key} of {name!r} is {value}, expected at most {boxmath.as_power(most)} in magnitude: "
                    "the policy is computed in float32"
                )


def _weights(net: list[Step]) -> str:
    """The network's arrays as C, with nine digits, which identify a float32."""
    lines = ["/* The network: a row of weights for each output. */"]
    for step, k in _numbered(net):
        arrays = [np.ravel(part) for part in step if isinstance(part, np.ndarray)]
        for name, values in zip(ARRAYS[type(step)], arrays, strict=True):
            lines += [_array("const float", f"{name}{k}", str(values.size), _floats(values))]
    return "\n".join(lines)


def _cast_down(values: NDArray[np.float64]) -> NDArray[np.float32]:
    return boxmath.cast_down(values, values.astype(np.float32))


def _array(kind: str, name: str, size: str, values: Iterable[str]) -> str:
    """Define a C array, wrapped; a number with a comment gets its own line."""
    lines: list[str] = []
    row = "   "
    for value in values:
        if len(row) + len(value) > WIDTH or value.endswith("*/"):
            lines, row = ([*lines, row] if row.strip() else lines), "   "
        row += f" {value}" if value.endswith("*/") else f" {value},"
    length = f"SLEWRL_{size}" if not size.isdigit() else size
    return "\n".join([f"static {kind} slewrl_{name}[{length}] = {{", *lines, row, "};"])


def _doubles(values: NDArray[np.float64]) -> list[str]:
    return [f"{float(value).hex()}, /* {float(value)!r} */" for value in values]


def _floats(values: Iterable[float]) -> list[str]:
    texts = [f"{value:.9g}" for value in values]
    return [f"{text}f" if re.search(r"[.e]", text) else f"{text}.0f" for text in texts]


def _string(text: str) -> str:
    """Quote a C string, with octal escapes for all but plain characters."""
    plain = (chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode())
    return f'"{"".join(plain)}"'


def _limiter(limiter: RateLimiter, control_state: str) -> str:
    dt = "" if limiter.dt is None else _template("limiter_dt.h")
    bounds = {"LARGEST": boxmath.LARGEST.hex(), "LONGEST": limiter.longest.hex()}
    code = _template("arithmetic.h") + "\n" + _template("limiter.h" if limiter.motion is None else "accelerated.h")
    return _filled(code, {**bounds, "CONTROL_STATE": control_state, "DT": dt})


PLAIN = {
    "VELOCITY": "", "LAST": "", "LASTS": "", "VELOCITIES": "", "MOVING": "", "STEPS": "double steps,", "HOW": "steps",
    "ONE": "1.0,", "INPUTS": "SLEWRL_OBSERVATIONS + SLEWRL_JOINTS",
    "HISTORY": "    memcpy(input + SLEWRL_OBSERVATIONS, previous_action, SLEWRL_JOINTS * sizeof(float));",
}  # fmt: skip
MOVING = {
    "VELOCITY": " const float *previous_velocity,", "LAST": " previous_velocity[i],", "LASTS": " last,",
    "VELOCITIES": "    float last[SLEWRL_JOINTS];\n    for (int i = 0; i < SLEWRL_JOINTS; i++)\n"
    "        last[i] = (float)state->velocity[i];\n",
    "MOVING": "state->velocity[i] != 0.0 || ", "STEPS": "", "HOW": "state->ramping", "ONE": "",
    "INPUTS": "SLEWRL_OBSERVATIONS + 2 * SLEWRL_JOINTS",
    "HISTORY": "    memcpy(input + SLEWRL_OBSERVATIONS, previous_velocity, SLEWRL_JOINTS * sizeof(float));\n"
    "    memcpy(input + SLEWRL_OBSERVATIONS + SLEWRL_JOINTS, previous_action, SLEWRL_JOINTS * sizeof(float));",
}  # fmt: skip
"""The parts of ``policy.h`` without and with an acceleration limit: what it knows of the last increment."""


def _policy(net: list[Step], layer: str, bounded: bool, limiter: RateLimiter) -> str:
    sizes = {f"layer{k}": len(step.bias) for step, k in _numbered(net) if isinstance(step, Dense)}
    last = f"{list(sizes)[-1]}[i]"
    squash, place = LAYERS[layer]
    moving = limiter.motion is not None
    history = MOVING if moving else PLAIN
    words = {"LAYER": layer, "SQUASH": squash, "PLACE": ACCELERATED[place] if moving else place}
    code = _filled(_template("accelerated_layer.h" if moving else "layer.h"), words).rstrip("\n")
    plain = all(isinstance(step, Dense) or getattr(step, "name", "") == "relu" for step in net)
    fields = {
        **history, "LAYER_CODE": code + "\n",
        "NORMED": "" if plain else _template("normed.h"),
        "BUFFERS": f"    float {', '.join(f'{name}[{size}]' for name, size in sizes.items())};",
        "FORWARD": "\n".join(_forward(net, history["INPUTS"])),
        "LATENT": f"tanhf({last})" if bounded else last,
    }  # fmt: skip
    timed = limiter.dt is not None and not moving
    return _filled(_template("policy.h"), fields) + (_template("policy_dt.h") if timed else "")


def _forward(net: list[Step], inputs: str) -> Iterator[str]:
    """Yield a C call per step: a linear layer writes to a new array, other steps work in place."""
    at, size = "input", inputs
    for step, k in _numbered(net):
        arrays = "".join(f", slewrl_{name}{k}" for name in ARRAYS[type(step)])
        if isinstance(step, Dense):
            rows, columns = step.weight.shape
            yield f"    slewrl_dense(layer{k}{arrays}, {at}, {rows}, {columns});"
            at, size = f"layer{k}", f"{rows}"
        elif isinstance(step, LayerNorm):
            yield f"    slewrl_layer_norm({at}{arrays}, {_floats([step.epsilon])[0]}, {size});"
        else:
            kind = step.name if isinstance(step, Activation) else type(step).__name__.lower()
            yield f"    slewrl_{kind}({at}{arrays}, {size});"


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _filled(template: str, fields: dict[str, str]) -> str:
    """Replace each ``@NAME@`` of a template by its value."""
    return re.sub(r"@([A-Z_]+)@", lambda match: fields[match[1]], template)


def _joints(limiter: RateLimiter, units: str) -> str:
    period = "" if limiter.dt is None else f", every {limiter.dt:g} s"
    return f"{len(limiter.names)} joints{f', in {units}' if units else ''}{period}: {', '.join(limiter.names)}"


def _banner(title: str, lines: list[str], usage: tuple[str, ...]) -> str:
    """The leading comment, escaped so that no name can end it."""
    lines = [f"{title}. Written by slewrl {__version__}; do not edit.", *lines]
    plain = [re.sub(r"[^ -~]|[\\\\?]", "_", line).replace("*/", "* /").replace("/*", "/ *") for line in lines]
    wrapped = [part for line in plain for part in textwrap.wrap(line, WIDTH, subsequent_indent="  ")]
    calls = ("static slewrl_state state", "slewrl_init(&state)", *usage)
    return "\n".join(["/*", *(f" * {line}" for line in wrapped), " *", *(f" *     {call};" for call in calls), " */"])


def _header(prefix: str, banner: str, parts: list[str]) -> str:
    """Assemble the header under ``prefix``, with an include guard of its own."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", prefix):
        raise ValueError(f"prefix is {prefix!r}, expected small letters, digits and _ such as left_arm")
    text = "\n\n".join(part.strip("\n") for part in parts)
    mark = f"0x{zlib.crc32(text.encode()):08x}"  # tells this header from another one under the same prefix
    body = _filled(_template("header.h"), {"MARK": mark, "TEXT": text})
    return _renamed(banner, prefix) + "\n" + _renamed(body, prefix)


def _renamed(text: str, prefix: str) -> str:
    """Rename all identifiers to ``prefix``, except in string literals such as joint names."""
    names = {"slewrl_": f"{prefix}_", "SLEWRL_": f"{prefix.upper()}_"}
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|\b(?:slewrl|SLEWRL)_', lambda found: names.get(found[0], found[0]), text)
