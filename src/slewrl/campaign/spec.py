"""A campaign: a named set of runs, mostly a grid, built in or from a file of the user's."""

import dataclasses
import math
import runpy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from slewrl.errors import shortened
from slewrl.registry import Registry, did_you_mean
from slewrl.training.spec import RunSpec, with_recipe

FIELDS = tuple(field.name for field in dataclasses.fields(RunSpec))
MOST_RUNS = 100_000
"""The most runs a grid may have."""
VARIANTS = Registry("recipe", {"ours": "slewrl.paper.printed:as_ours", "paper": "slewrl.paper.printed:as_printed"})
"""Each value of `Selection.recipe`, and the function that gives a run that recipe."""


@dataclass(frozen=True)
class Campaign:
    """Runs that belong together. Two runs of one campaign never share a key."""

    name: str
    about: str
    """Its purpose, in a line."""
    runs: tuple[RunSpec, ...]

    def __post_init__(self) -> None:
        """Refuse a campaign without a name or runs, and runs that would share a folder."""
        if not isinstance(self.name, str) or not self.name.strip(" ./") or Path(self.name).name != self.name:
            raise ValueError(f"name is {shortened(self.name)}, expected a word: the campaign's folder is named so")
        if not isinstance(self.about, str):
            raise ValueError(f"about is {shortened(self.about)}, expected a line of text")
        if not self.runs:
            raise ValueError(f"campaign {self.name!r} has no runs: what was asked for leaves none of them")
        seen: dict[str, RunSpec] = {}
        for spec in self.runs:
            if seen.setdefault(spec.key, spec) != spec:
                names = [n for n in FIELDS if getattr(seen[spec.key], n) != getattr(spec, n)]
                raise ValueError(
                    f"campaign {self.name!r} has two different runs named {spec.key}: {', '.join(names)} is no part of "
                    "a run's name, so make it a campaign for each value"
                )

    @property
    def by_key(self) -> dict[str, RunSpec]:
        """Runs by their key, in order; a run given twice appears once."""
        return {spec.key: spec for spec in self.runs}


def grid(base: RunSpec | None = None, **axes: Iterable[Any]) -> tuple[RunSpec, ...]:
    """Every combination of values, as runs that otherwise equal ``base``; the last axis changes fastest.

    An axis is a field of RunSpec; the values of ``agent_options`` and ``layer_options`` are dictionaries.
    """
    if unknown := set(axes) - set(FIELDS):
        raise ValueError(f"a run has no field {', '.join(sorted(unknown))}; it has: {', '.join(FIELDS)}")
    lists = {name: list(values) for name, values in axes.items()}
    if (count := math.prod(map(len, lists.values()))) > MOST_RUNS:
        sizes = ", ".join(f"{name} ({len(values)})" for name, values in lists.items())
        raise ValueError(f"grid has {count:,} runs, expected at most {MOST_RUNS:,}; its lists are: {sizes}")
    runs = (replace(base or RunSpec(), **dict(zip(lists, values, strict=True))) for values in product(*lists.values()))
    return tuple(map(with_recipe, runs))


@dataclass(frozen=True)
class Selection:
    """A part of a campaign, and what to change in it."""

    tasks: tuple[str, ...] = ()
    """Only these tasks (default: all of the campaign's)."""
    limits: tuple[str, ...] = ()
    """Only runs under these limits."""
    agents: tuple[str, ...] = ()
    """Only these backbones."""
    layers: tuple[str, ...] = ()
    """Only these layers. One that the campaign does not have, by its name or as module:Class (with --trust), is added
    wherever the campaign compares layers, with all else as it is there."""
    seeds: tuple[int, ...] = ()
    """These seeds instead of the campaign's."""
    seed_count: int | None = None
    """Only the first N of the campaign's seeds."""
    steps: int | None = None
    """Another budget for every run; what a report says of it is labelled so. Runs that are there with a smaller one are
    extended, for which those with a replay need it still (--keep-replays)."""
    learning_starts: int | None = None
    """Another length of the warm-up for every run."""
    final_episodes: int | None = None
    """Another number of episodes for every run's final evaluation (usual: 10, of robots 100; the paper has 1 000)."""
    recipe: Literal["ours", "paper"] | None = None
    """The same cells with our recipe, or as the paper prints them; a campaign that this changes is named after it."""

    def of(self, campaign: Campaign) -> Campaign:
        """The part of ``campaign`` that was asked for."""
        campaign = with_other_recipe(campaign, self.recipe) if self.recipe else campaign
        runs: Sequence[RunSpec] = campaign.runs
        for name, field in (("tasks", "task"), ("limits", "limits"), ("agents", "agent")):
            runs = _only(runs, field, getattr(self, name), campaign.name)
        runs = _only([*runs, *_added(runs, self.layers)], "layer", self.layers, campaign.name)
        runs = self._seeded(runs)
        changes = {name: getattr(self, name) for name in ("steps", "learning_starts", "final_episodes")}
        changes = {name: value for name, value in changes.items() if value is not None}
        return Campaign(campaign.name, campaign.about, tuple(replace(spec, **changes) for spec in runs))

    def _seeded(self, runs: Sequence[RunSpec]) -> Sequence[RunSpec]:
        if self.seed_count is not None and self.seed_count < 1:
            raise ValueError(f"--seed-count is {self.seed_count}, expected at least 1")
        if self.seeds and self.seed_count:
            raise ValueError("--seeds and --seed-count exclude each other")
        if any(seed < 0 for seed in self.seeds):
            raise ValueError(f"--seeds is {self.seeds}, expected numbers of at least 0")
        if not self.seeds:
            kept = list(dict.fromkeys(spec.seed for spec in runs))[: self.seed_count]
            return [spec for spec in runs if spec.seed in kept]
        cells = {replace(spec, seed=0).key: spec for spec in runs}
        return [replace(spec, seed=seed) for spec in cells.values() for seed in self.seeds]


def with_other_recipe(campaign: Campaign, recipe: Literal["ours", "paper"]) -> Campaign:
    """The campaign with another recipe for the runs of the paper's agents; itself if they have it already."""
    varied, change = VARIANTS["slewrl.paper.printed:AGENTS"], VARIANTS[recipe]
    if not any(spec.agent in varied for spec in campaign.runs):
        agents = ", ".join(dict.fromkeys(spec.agent for spec in campaign.runs))
        raise ValueError(f"--recipe is for {', '.join(varied)}; campaign {campaign.name!r} has {agents}")
    runs = tuple(change(spec) if spec.agent in varied else spec for spec in campaign.runs)
    if runs == campaign.runs:
        return campaign
    about = campaign.about.removesuffix(", as printed")
    how = {"ours": "our recipe", "paper": "as printed"}[recipe]
    return Campaign(f"{campaign.name}-{recipe}", f"{about}, {how}", runs)


def _added(runs: Sequence[RunSpec], wanted: tuple[str, ...]) -> list[RunSpec]:
    """Runs of the wanted layers that ``runs`` lack, in every cell (runs that differ in the layer alone) of two layers.

    A cell of a single layer, such as DD-SRad with another density, studies that layer, unless all cells have one.
    """
    if not wanted:
        return []
    from slewrl.layers import BENCHMARK_LAYERS, LAYERS

    known = [layer for layer in wanted if ":" in layer or layer in LAYERS or layer in BENCHMARK_LAYERS]
    new = [layer for layer in known if layer not in {spec.layer for spec in runs}]
    cells: dict[str, tuple[RunSpec, set[str]]] = {}
    for spec in runs:
        cells.setdefault(str(_with_layer(spec, "")), (spec, set()))[1].add(spec.layer)
    shared = [spec for spec, layers in cells.values() if len(layers) > 1] or [spec for spec, _ in cells.values()]
    return [_with_layer(spec, layer) for layer in new for spec in shared]


def _with_layer(spec: RunSpec, layer: str) -> RunSpec:
    """The same run with another layer and no layer options, as printed if the old run is."""
    from slewrl.paper import printed

    other = replace(printed.as_ours(spec) if printed.is_printed(spec) else spec, layer=layer, layer_options={})
    return printed.as_printed(other) if printed.is_printed(spec) else other


def _only(runs: Sequence[RunSpec], field: str, wanted: tuple[str, ...], name: str) -> Sequence[RunSpec]:
    """The runs whose ``field`` is one of ``wanted``; all runs if that is empty."""
    there = list(dict.fromkeys(getattr(spec, field) for spec in runs))
    if missing := [value for value in wanted if value not in there]:
        has = f"campaign {name!r} has no {field} {missing[0]!r}; it has: {', '.join(there)}."
        raise ValueError(has + did_you_mean(missing[0], there))
    return [spec for spec in runs if not wanted or getattr(spec, field) in wanted]


def load_campaign(name: str) -> Campaign:
    """A built-in campaign by name, or the user's own from a .py file, which defines CAMPAIGN, or a .yaml file."""
    from slewrl.campaign.grids import CAMPAIGNS

    path = Path(name)
    if path.suffix not in (".py", ".yaml", ".yml"):
        if name not in list(CAMPAIGNS):  # a path "module:function" is no name: it would run what it names
            there = f"no campaign {name!r}; there are: {', '.join(CAMPAIGNS)}, or a .yaml or .py file."
            raise ValueError(there + did_you_mean(name, CAMPAIGNS))
        return CAMPAIGNS[name]()
    if not path.exists():
        raise FileNotFoundError(f"no file {name!r} with a campaign in it")
    return _from_python(path) if path.suffix == ".py" else _from_yaml(path)


def _from_python(path: Path) -> Campaign:
    found = runpy.run_path(str(path)).get("CAMPAIGN")
    if not isinstance(found, Campaign):
        raise ValueError(f"{path} defines no CAMPAIGN = slewrl.campaign.spec.Campaign(name, about, runs)")
    return found


def _from_yaml(path: Path) -> Campaign:
    """The campaign in a YAML file with ``name``, ``about``, ``base`` (shared fields) and ``grid`` (lists of values)."""
    from slewrl.io.plain_yaml import UsualLoader, load_yaml

    data = load_yaml(path, UsualLoader)
    if not isinstance(data, dict) or not isinstance(data.get("grid"), dict):
        raise ValueError(f"{path} has no grid: expected entries such as  grid: {{layer: [ddsrad, boxpro]}}")
    if unknown := set(data) - {"name", "about", "base", "grid"}:
        raise ValueError(f"{path} has unknown entries {sorted(map(str, unknown))}; there are: name, about, base, grid")
    try:
        return _campaign(data.get("name", path.stem), data.get("about", ""), data.get("base") or {}, data["grid"])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _campaign(name: str, about: str, base: Any, axes: dict[str, Any]) -> Campaign:
    if wrong := [key for key, values in axes.items() if not isinstance(values, list)]:
        raise ValueError(f"grid.{wrong[0]} is {shortened(axes[wrong[0]])}, expected a list of values")
    if not isinstance(base, dict):
        raise ValueError(f"base is {shortened(base)}, expected fields and their values")
    if bad := {str(key) for key in base} - set(FIELDS):
        raise ValueError(f"base has no field {', '.join(sorted(bad))}; a run has: {', '.join(FIELDS)}")
    return Campaign(name, about, grid(RunSpec(**base), **{str(key): values for key, values in axes.items()}))
