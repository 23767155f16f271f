"""RunSpec: what decides the result of a run. Plain data, read without torch."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Fixed, Suppress, arg

from slewrl.agents import recipes
from slewrl.errors import shortened

FORMER_POSE = {"pose": "rl_gym"}
"""The task option that gives G1 the default pose it had before there was a choice."""
EVALUATION_SEED = 1_000_000
"""The first seed of every evaluation; episode k is reset with this plus k."""


@dataclass(frozen=True)
class RunSpec:
    """What decides the result of a run."""

    task: str = ""
    """A Gymnasium id with a Box action (HalfCheetah-v5), a walking robot (G1-flat), robot:my.urdf, or mjlab:TASK."""
    limits: str = "tight"
    """A preset (wide, tight; of robots paper, spec, tight), or a limits.yaml of your own (slewrl limits writes one)."""
    reset_action: str = ""
    """Where the joints are before an episode's first step, unless the environment says so (info["reset_action"]): a
    number for all, one per joint (0.1,-0.5), hip=0.1,knee=-0.5, or middle."""
    layer: str = "ddsrad"
    """The action layer: ddsrad, interval_srad, boxpro, ... (docs/layers.md), or package.module:Class."""
    agent: str = "sac"
    """sac, td3, fastsac, ppo, ppo_lag, or package.module:Class."""
    recipe: str = ""
    """Hyperparameters that go together. sac, td3: ours (the default) or paper; fastsac: cpu (the default, 128
    environments) or gpu (4096); ppo: sb3 (the default) or cpu (256 environments, to walk). Sets what has its usual
    value."""
    start: Annotated[str, arg(name="from", metavar="RUN")] = ""
    """A run whose networks this one begins with: same agent, network sizes and observations; all else begins anew. The
    warm-up acts by them, and this run may have an acceleration limit where that one has none (docs/acceleration.md)."""
    seed: int = 12345
    """Of everything random: the same seed gives the same run, to the byte."""
    steps: Suppress[Fixed[int]] = 1_000_000  # an option of Train's own, which tells whether it was given
    """Environment steps, over all environments."""
    density: str = "normalized"
    """Units of the policy's entropy: normalized, action_scaled, or action (the paper's)."""
    environments: int = 1
    """How many step together; SAC and TD3 make their updates per step of each, FastSAC a few of all, PPO collects."""
    learning_starts: int = 10_000
    """Steps with random actions, uniform over what the layer may execute, before the first update; PPO has none."""
    batch_size: Suppress[Fixed[int]] = 128  # likewise: a recipe has its own
    """Transitions per update, from the replay; PPO's own is agent.minibatch."""
    capacity: int = 1_000_000
    """Rows of the replay that are sampled from, where the agent has one."""
    evaluate_every: int = 5_000
    """Steps between evaluations; checkpoints are taken then, too."""
    evaluate_episodes: int = 5
    """Episodes per evaluation."""
    final_episodes: Suppress[Fixed[int]] = 0  # an option of campaigns, which alone evaluate at the end
    """Episodes of the evaluation after a campaign's run; 0: 10, of robots 100."""
    agent_options: Suppress[dict[str, Any]] = field(default_factory=dict)
    """Fields of the agent's config that differ from its defaults."""
    layer_options: Suppress[dict[str, Any]] = field(default_factory=dict)
    """Fields of the layer that differ from its defaults."""
    task_options: Suppress[dict[str, Any]] = field(default_factory=dict)
    """Options of the task that differ from its defaults; Gymnasium tasks have none."""

    def __post_init__(self) -> None:
        """Refuse values of the wrong type, which a file written by hand may hold."""
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            unnamed = isinstance(value, dict) and not all(isinstance(key, str) for key in value)
            if type(value) is not type(default) or unnamed:
                kind = {int: "a whole number", str: "a word", dict: "names and values"}[type(default)]
                raise ValueError(f"{name} is {shortened(value)}, expected {kind}")

    @property
    def key(self) -> str:
        """A readable name: task, limits, agent, layer, density, the options that were set, and the seed."""
        options = {**self.agent_options, **self.layer_options, **self.task_options}
        usual = _DEFAULTS | recipes.find(self.agent, self.recipe).run
        for name in ("batch_size", "environments"):
            if getattr(self, name) != usual[name]:
                options[name] = getattr(self, name)
        recipe = self.recipe if self.recipe != recipes.default(self.agent) else ""
        named = {"recipe": recipe, "reset_action": _brief(self.reset_action), "from": _brief(self.start)}
        options |= {name: value for name, value in named.items() if value}
        chosen = [f"{name}={_word(value)}" for name, value in sorted(options.items())]
        parts = (self.task, Path(self.limits).stem, self.agent, self.layer, self.density, *chosen, f"s{self.seed}")
        return "-".join(str(part).replace(":", ".").replace("/", ".") for part in parts)


def with_recipe(spec: RunSpec, recipe: str | None = None) -> RunSpec:
    """The spec with what its recipe, or another, sets, where it has the default or its own recipe's value."""
    recipe = spec.recipe if recipe is None else recipe
    before, now = (_DEFAULTS | recipes.find(spec.agent, name).run for name in (spec.recipe, recipe))
    fields = {name: now[name] for name, x in before.items() if getattr(spec, name) in (_DEFAULTS[name], x)}
    return dataclasses.replace(spec, **{**fields, "recipe": recipe})


def difference(there: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Says which fields of two specs differ and how; empty if none does.

    Tuples equal the lists JSON makes of them, and "" the recipe it stands for.
    """
    old, new = (json.loads(json.dumps(_DEFAULTS | spec)) for spec in (there, wanted))
    for spec in (old, new):
        spec["recipe"] = spec["recipe"] or recipes.default(spec["agent"])
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(f"{name} is {old.get(name)!r} there, {new.get(name)!r} here" for name in names)


def read_spec(data: Any, before_recipes: bool = False, before_poses: bool = False) -> RunSpec:
    """A spec from a file; ``before_recipes``, ``before_poses``: a file of a version without them."""
    if not isinstance(data, dict):
        raise ValueError(f"spec is {shortened(data)}, expected names and values")
    data = recipes.upgraded(data) if before_recipes else data
    data = posed(data) if before_poses else data
    if unknown := set(data) - set(_DEFAULTS):
        raise ValueError(f"unknown entries {sorted(unknown)}: use the slewrl it came from")
    return RunSpec(**data)


def posed(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec from before robots had a choice of poses, when G1's was unitree_rl_gym's; any other is unchanged."""
    options = spec.get("task_options", {})
    if not str(spec.get("task")).startswith("G1-") or not isinstance(options, dict) or "pose" in options:
        return spec
    return {**spec, "task_options": {**options, **FORMER_POSE}}


def check_numbers(spec: RunSpec) -> None:
    """Refuse numbers that are out of range."""
    for name in ("environments", "steps", "batch_size", "evaluate_every", "evaluate_episodes", "capacity"):
        if getattr(spec, name) < 1:
            raise ValueError(f"{name} is {getattr(spec, name)}, expected at least 1")
    for name in ("seed", "learning_starts", "final_episodes"):
        if getattr(spec, name) < 0:
            raise ValueError(f"{name} is {getattr(spec, name)}, expected at least 0")
    if spec.seed >= 2**63:
        raise ValueError(f"seed is {shortened(spec.seed)}, expected less than 2**63")


def _word(value: Any) -> str:
    """A value as part of a file name."""
    return "x".join(str(x) for x in value) if isinstance(value, (list, tuple)) else str(value)


def _brief(text: str) -> str:
    """A text as part of a file name: itself or, if it is long, a hash of it."""
    return text if len(text) <= 24 else hashlib.sha256(text.encode()).hexdigest()[:8]


_DEFAULTS: dict[str, Any] = {
    f.name: f.default if f.default is not dataclasses.MISSING else {} for f in dataclasses.fields(RunSpec)
}
