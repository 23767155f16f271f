"""Loads a Stable-Baselines3 model of slewrl's integration for export, without unpickling.

``save`` adds a description to the file as plain JSON (``_LimitedAlgorithm.described``), and weights are tensors. A
model of an older slewrl has no description and must be unpickled, which needs the user's trust (docs/trust.md).
"""

import base64
import io
import json
import pickle
import pickletools
import zipfile
from collections.abc import Collection, Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from slewrl.agents.normalize import Normalizer
from slewrl.deploy.bundle import LARGEST
from slewrl.deploy.export import Deployable, DeployedPolicy, describe
from slewrl.deploy.rebuild import Clamped
from slewrl.envs.reset import known_start
from slewrl.errors import UserFacingError, shortened
from slewrl.integrations import MODEL_VERSION, full_name
from slewrl.io.trust import code_named, require_trust
from slewrl.layers import make_layer
from slewrl.limits import RateLimits
from slewrl.limits.parse import Values

ACTORS = {"SAC": ("actor.latent_pi.", "actor.mu."), "TD3": ("actor.mu.",)}
"""Algorithm -> the prefixes of its actor's weights, in the order of layers."""
POLICY = "slewrl.integrations.sb3.{algorithm}Policy"
EXTRACTOR = "stable_baselines3.common.torch_layers.FlattenExtractor"
ACTIVATIONS: dict[str, type[nn.Module]] = {
    full_name(kind): kind for kind in (nn.ReLU, nn.SiLU, nn.Tanh, nn.ELU, nn.GELU, nn.LeakyReLU)
}


def deployable_model(path: Path, trust: bool = False, reset_action: Values | None = None) -> Deployable:
    """Load the policy of a model that ``save`` wrote, to act without exploration.

    Args:
        path: path of the .zip.
        trust: whether code that the model names may run, and a model of an older slewrl may be unpickled.
        reset_action: the pose the policy starts from; default: as in training.
    """
    data, weights, version = _read(path)
    about = data.get("deployment")
    if not isinstance(about, dict) or ":serialized:" in about:
        about = _unpickled(path, data, trust)
    layer = about.get("layer")
    require_trust(code_named(layer=layer) if isinstance(layer, str) else [], path, trust)
    if reset_action is not None:
        about = {**about, "reset_action": reset_action}
    try:
        return _deployable(path, about, _tensors(weights), version)
    except UserFacingError as error:
        raise UserFacingError(f"{path}: {error}") from error.__cause__
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError) as error:
        raise UserFacingError(f"{path}: its description is not understood: {type(error).__name__} {error}") from error


def _deployable(path: Path, about: dict[str, Any], weights: dict[str, Tensor], version: str) -> Deployable:
    if about["version"] != MODEL_VERSION:
        raise UserFacingError(
            f"its description is of version {about['version']}, expected {MODEL_VERSION}: load it and save it again"
        )
    if "failed" in about:
        raise UserFacingError(
            f"it could not be described when it was saved ({shortened(about['failed'], 200)}): load it, give it a "
            "working environment by set_env, and save it again"
        )
    if about["flat"] is not True:
        raise UserFacingError("it sees a Dict of observations, but a bundle's observations are flat")
    _check_known("algorithm", about["algorithm"], ACTORS)
    _check_known("policy", about["policy"], [POLICY.format(algorithm=about["algorithm"])])
    _check_known("features extractor", about["extractor"], [EXTRACTOR])
    _check_known("activation", about["activation"], ACTIVATIONS)
    limits = read_limits(about["limits"])
    layer = make_layer(about["layer"], about["density"], **about["layer_options"])
    net = _network(about["algorithm"], about["activation"], weights, limits)
    inputs = net[0].in_features
    if about["normalizer"] is not None:
        net = nn.Sequential(*_normalizer(inputs, limits.appended, **about["normalizer"]), *net)
    module = DeployedPolicy(net.eval().requires_grad_(False), layer, limits).eval()
    spec = {
        "task": str(about["task"]),
        "agent": f"Stable-Baselines3's {about['algorithm']}",
        **{key: about[key] for key in ("seed", "steps", "layer", "density", "layer_options")},
        "agent_options": {},
    }
    provenance = {"step": int(about["step"]), "spec": spec, "trained_with": {"stable-baselines3": version}}
    pose = known_start(path.name, limits, about["reset_action"], "refuse")
    parts = (("observation", inputs - limits.appended),)
    return Deployable(module, describe(path, module, pose, limits.dt, parts, provenance))


def read_limits(about: Any) -> RateLimits:
    """The limits of a description, whose accelerations are quotients of whole numbers."""
    if not isinstance(about, dict):
        raise UserFacingError(f"its limits are {shortened(about)}, expected names with values")
    arguments: dict[str, Any] = dict(about)
    for key in {"acceleration", "deceleration"} & set(about):
        arguments[key] = [Fraction(above, below) for above, below in about[key]]
    return RateLimits(**arguments)


def _check_known(what: str, name: Any, known: Collection[str]) -> None:
    """Refuse a class other than the known ones, which a bundle could not represent."""
    if name not in known:
        raise UserFacingError(f"its {what} is {shortened(name, 120)}, expected {' or '.join(known)}, as it is")


def _network(algorithm: str, activation: str, weights: dict[str, Tensor], limits: RateLimits) -> Any:
    """Rebuild the network from a flat observation (N, n) to the mean latent (N, d)."""
    names = [name for begin in ACTORS[algorithm] for name in weights if name.startswith(begin)]
    linears = [name.removesuffix(".weight") for name in names if name.endswith(".weight")]
    shapes = [tuple(weights[f"{name}.weight"].shape) for name in linears]
    matrices = bool(shapes) and all(len(shape) == 2 for shape in shapes)
    fitting = matrices and all(after[1] == before[0] for before, after in pairwise(shapes))
    if not fitting or shapes[-1][0] != limits.dim or shapes[0][1] < limits.appended:
        raise UserFacingError(f"its actor has weights {shapes}, expected a network that ends in {limits.dim} joints")
    layers: list[nn.Module] = []
    for name in linears:
        outputs, columns = weights[f"{name}.weight"].shape
        linear = nn.Linear(columns, outputs)
        linear.load_state_dict({key: weights[f"{name}.{key}"] for key in ("weight", "bias")})
        layers += [linear, ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1])


def _normalizer(
    inputs: int, kept: int, mean: list[float], variance: list[float], epsilon: float, clip: float
) -> tuple[Normalizer, Clamped]:
    """Rebuild VecNormalize for observations (N, n), whose last entries, the history of actions, are ``kept``."""
    if len(mean) != inputs or len(variance) != inputs:
        raise UserFacingError(f"its normalizer has {len(mean)} means and {len(variance)} variances, expected {inputs}")
    scaled, n = Normalizer(inputs, kept), inputs - kept
    scaled.shift[:n] = torch.tensor(mean[:n], dtype=torch.float64)
    scaled.scale[:n] = torch.from_numpy(1 / np.sqrt(np.array(variance[:n]) + epsilon))
    high = torch.full((inputs,), torch.finfo(torch.float32).max)
    high[:n] = clip
    return scaled, Clamped(-high, high)


def _read(path: Path) -> tuple[dict[str, Any], bytes, str]:
    """The data and weights of a model file, without unpickling, and the version of Stable-Baselines3."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > LARGEST:
                raise UserFacingError(f"{path} is larger than {LARGEST >> 20} MB: no model of slewrl's policies")
            data = json.loads(archive.read("data"))
            version = archive.read("_stable_baselines3_version")[:40].decode("ascii", "replace").strip()
            weights = archive.read("policy.pth")
    except (zipfile.BadZipFile, KeyError, ValueError, RecursionError, NotImplementedError) as error:
        raise UserFacingError(f"{path} is no model of Stable-Baselines3's: {error}") from error
    if not isinstance(data, dict):
        raise UserFacingError(f"{path} is no model of Stable-Baselines3's: its data are a {type(data).__name__}")
    return data, weights, version


def _tensors(data: bytes) -> dict[str, Tensor]:
    try:
        found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserFacingError("policy.pth holds more than tensors, and is not unpickled") from error
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise UserFacingError("policy.pth holds no names with tensors")
    return found


def _unpickled(path: Path, data: dict[str, Any], trust: bool) -> dict[str, Any]:
    """Describe a model that was saved without a description, by unpickling it."""
    named = sorted({name for item in data.values() for name in _globals(item)})
    require_trust([f"pickles that call what they please, of {', '.join(named[:40]) or 'nothing'}"], path, trust)
    from slewrl.integrations.sb3 import load

    return load(path).described()


def _globals(item: Any) -> Iterator[str]:
    """The globals that a pickled entry of ``data`` names, read without running it; a pickle can hide some."""
    if not isinstance(item, dict) or ":serialized:" not in item:
        return
    strings: list[str] = []
    memo: list[str] = []
    try:
        argument: Any
        for operation, argument, _ in pickletools.genops(base64.b64decode(item[":serialized:"])):
            if operation.name == "GLOBAL":
                yield argument.replace(" ", ".")
            elif operation.name == "STACK_GLOBAL":
                yield ".".join(strings[-2:])
            elif operation.name == "MEMOIZE":
                memo.append(strings[-1] if strings else "")
            elif operation.name in ("BINGET", "LONG_BINGET") and argument < len(memo):
                strings.append(memo[argument])
            elif "UNICODE" in operation.name:
                strings.append(argument)
    except (ValueError, TypeError, AttributeError):
        yield "something unreadable"
