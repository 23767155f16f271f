"""The results of a campaign's runs, read from their CSV files: what every table and figure is made of.

Files are read when a figure asks for them, and once: a table of a thousand runs opens no file it does not need.
"""

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from slewrl.agents import recipes
from slewrl.campaign.store import joined, last_row, state_of
from slewrl.io.files import read_json, read_text
from slewrl.report.sections import PAPER
from slewrl.report.stats import mean_std
from slewrl.training.spec import RunSpec

Array = NDArray[np.float64]
FIELDS = ("environments", "learning_starts", "batch_size", "capacity", "evaluate_every", "evaluate_episodes")
"""Fields of a run that are named only where they vary between runs that are compared with each other."""
PAPERS_OPTIONS = {"mean_bound=tanh"}
"""Options of the paper's runs; a method's name has them even if all runs of the campaign share them."""
PRINTED = "everything as the paper prints it"
DEFAULTS = {name: getattr(RunSpec(), name) for name in FIELDS}
Item = TypeVar("Item")
Key = TypeVar("Key")


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Key -> its items, both in order of appearance."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


class Columns(dict[str, Array]):
    """A CSV file of numbers with at least one row: name of a column -> its values.

    Args:
        path: the file.
        values: its columns.
    """

    def __init__(self, path: Path, values: dict[str, Array]) -> None:
        super().__init__(values)
        self.path = path

    def __missing__(self, name: str) -> Array:
        raise ValueError(f"{self.path} has no column {name!r}; it has: {', '.join(self)}")


class Cell(NamedTuple):
    """A cell of the tables; its runs differ in their seed alone, so another budget is another cell."""

    task: str
    limits: str
    agent: str
    method: str
    """The layer, and what sets it apart from the other runs of its campaign (`Names`)."""
    steps: int

    @property
    def place(self) -> "Cell":
        """The cell without its method: methods with the same place are compared with each other."""
        return self._replace(method="")


class Names:
    """Names for the parts of a campaign's runs, such that two runs share a cell only if their seed alone differs.

    Args:
        specs: all of the campaign, finished or not: a name should not change while the campaign goes on.
    """

    def __init__(self, specs: Sequence[RunSpec]) -> None:
        self._printed = all(map(_is_printed, specs))
        self._shared = set.intersection(*(set(self._options(spec)) for spec in specs)) - PAPERS_OPTIONS
        of_tasks = grouped(specs, lambda spec: spec.task).items()
        self._of_task = {
            task: set.intersection(*(set(_words(spec.task_options)) for spec in some)) for task, some in of_tasks
        }
        """Task -> its options that all its runs set, which are no method's."""
        places = grouped(specs, lambda spec: (spec.task, spec.limits, spec.agent, spec.steps)).values()
        self._varied = [name for name in FIELDS if any(len({getattr(s, name) for s in runs}) > 1 for runs in places)]
        self._recipes = Counter(agent for agent, _ in {(spec.agent, _recipe(spec)) for spec in specs})
        self._files = Counter(Path(limits).stem for limits in {spec.limits for spec in specs})

    @property
    def shared(self) -> list[str]:
        """Options that all runs set."""
        return [PRINTED] * self._printed + sorted(self._shared)

    def cell(self, spec: RunSpec) -> Cell:
        """The cell of a run."""
        return Cell(spec.task, self.limits(spec), spec.agent, self.method(spec), spec.steps)

    def limits(self, spec: RunSpec) -> str:
        """The name of a preset or of a file; with its folder where two files have the same name."""
        stem = Path(spec.limits).stem
        return stem if self._files[stem] == 1 else spec.limits

    def method(self, spec: RunSpec) -> str:
        """The layer and its changed options, without those that all runs of the campaign share."""
        extras = [spec.density] if spec.density != "normalized" and not self._printed else []
        extras += [option for option in self._options(spec) if option not in self._shared | self._of_task[spec.task]]
        usual = {**DEFAULTS, **recipes.find(spec.agent, spec.recipe).run}
        changed = [name for name in self._varied if getattr(spec, name) != usual[name]]
        extras += [f"{name}={getattr(spec, name)}" for name in changed]
        varied = self._recipes[spec.agent] > 1 and _recipe(spec) != recipes.default(spec.agent)
        if varied or _looks_printed(spec):
            extras.append(f"recipe={_recipe(spec)}")
        return " ".join([spec.layer, *extras])

    def _options(self, spec: RunSpec) -> list[str]:
        return changes(spec) if self._printed else options(spec)


def _recipe(spec: RunSpec) -> str:
    return spec.recipe or recipes.default(spec.agent)


def _is_printed(spec: RunSpec) -> bool:
    """Whether a run does as the paper prints it."""
    return bool(PAPER["is_printed"](spec))


def _looks_printed(spec: RunSpec) -> bool:
    """Whether a run has the paper's entropy and mean, but not its recipe."""
    return spec.density == "action" and set(options(spec)) >= PAPERS_OPTIONS and not _is_printed(spec)


def options(spec: RunSpec) -> list[str]:
    """The options of a run's layer, agent and task, a word each: ``hidden=32x32``."""
    every = [*_words(spec.layer_options), *_words(spec.agent_options), *_words(spec.task_options)]
    return sorted(every, key=lambda option: option.partition("=")[0])


def _words(given: Mapping[str, object]) -> list[str]:
    return [f"{name}={word(value)}" for name, value in given.items()]


def changes(spec: RunSpec) -> list[str]:
    """The options that are neither our defaults nor, in a run as the paper prints it, the paper's."""
    if not _is_printed(spec):
        return options(spec)
    parts = PAPER["printed_options"](spec.agent, spec.layer)
    papers = [f"{name}={word(value)}" for part in parts for name, value in part.items()]
    return [option for option in options(spec) if option not in papers]


def word(value: object) -> str:
    """An option's value without a blank in it: lists as 32x32."""
    if isinstance(value, list | tuple):
        return "x".join(map(word, value))
    return str(value).replace(" ", "")


class Broken(NamedTuple):
    """Joint actions that broke a limit, of all that were compared with theirs in exact arithmetic."""

    actions: int
    of: int

    @classmethod
    def sum(cls, counts: "Iterable[Broken]") -> "Broken":
        """The counts of several runs together."""
        actions, of = zip((0, 0), *counts, strict=True)
        return cls(sum(actions), sum(of))

    @property
    def text(self) -> str:
        """Both numbers, as a cell of a table shows them."""
        return f"{self.actions:,} of {self.of:,}"


@dataclass(frozen=True)
class Run:
    """One finished run."""

    path: Path
    spec: RunSpec
    cell: Cell

    @cached_property
    def evaluations(self) -> Columns:
        """eval.csv: a row for each evaluation during training."""
        return read_columns(self.path / "eval.csv")

    @cached_property
    def episodes(self) -> Columns:
        """final/episodes.csv: a row for each episode of the final evaluation."""
        return read_columns(self.path / "final" / "episodes.csv")

    @cached_property
    def density(self) -> Columns:
        """final/density.csv: ``from``, ``to``, and a density for each joint."""
        return read_columns(self.path / "final" / "density.csv")

    def increments(self, most: int) -> Columns:
        """final/increments.csv: executed increments over their limits, a column for each joint.

        ``most``: rows to read, evenly from all; reading them is what takes time.
        """
        return read_columns(self.path / "final" / "increments.csv", most)

    @cached_property
    def commands(self) -> Columns:
        """final/commands.csv: the commands of the first episode, a column for each joint; not in results/."""
        return read_columns(self.path / "final" / "commands.csv")

    @cached_property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints, in the order of the action."""
        return tuple(read_text(self.path / "final" / "increments.csv").partition("\n")[0].strip().split(","))

    @cached_property
    def joint_utilisation(self) -> Array:
        """Utilisation of each joint, (d,): in the final evaluation, or at the last one of a run from before."""
        if self.final_joint_utilisation is not None:
            return self.final_joint_utilisation
        return np.array([self.evaluations[f"utilisation_{i}"][-1] for i in range(len(self.joints))])

    @cached_property
    def final_joint_utilisation(self) -> Array | None:
        """Utilisation of each joint in the final evaluation, (d,); None of a run from before it was kept."""
        path = self.path / "final" / "calm.csv"
        with suppress(FileNotFoundError):
            rows = list(csv.DictReader(read_text(path).splitlines()))
            if rows and "utilisation" in rows[0]:
                return np.array([float(row["utilisation"]) for row in rows if row["joint"] != "all"])
        return None

    @property
    def final_return(self) -> float:
        """Mean return of the final evaluation, which has more episodes than the last one of the training."""
        return float(self.episodes["return"].mean())

    @property
    def final_utilisation(self) -> float:
        """Utilisation in the final evaluation, its episodes weighted by their lengths."""
        return float(np.average(self.episodes["utilisation"], weights=self.episodes["length"]))

    @property
    def final_acceleration(self) -> float:
        """Utilisation of the acceleration in the final evaluation; NaN without such limits, and of older runs."""
        used = self.episodes.get("acceleration_utilisation")
        return math.nan if used is None else float(np.average(used, weights=self.episodes["length"]))

    @property
    def too_sharp(self) -> int | None:
        """Violations of the acceleration in every evaluation; None without such a limit."""
        tables = [table for table in (self.evaluations, self.episodes) if "acceleration_violations" in table]
        return sum(int(table["acceleration_violations"].sum()) for table in tables) if tables else None

    @cached_property
    def trained(self) -> Broken:
        """Violations in training, warm-up and exploration included; the last row of train.csv has their sum."""
        row, path = last_row(self.path / "train.csv"), self.path / "train.csv"
        for name in ("violations", "step"):
            if name not in row:
                raise ValueError(f"{path} has no row with {name!r}, expected one for each 1 000 steps")
        return Broken(int(float(row["violations"])), round(float(row["step"])) * len(self.joints))

    @cached_property
    def evaluated(self) -> Broken:
        """Violations in every evaluation, the final one included: without exploration, so mostly fewer."""
        steps = self.evaluations["length_mean"].sum() * self.spec.evaluate_episodes + self.episodes["length"].sum()
        found = self.evaluations["violations"].sum() + self.episodes["violations"].sum()
        return Broken(int(found), round(steps) * len(self.joints))

    @property
    def violations(self) -> int:
        """Joint actions that broke a limit, in training and in every evaluation."""
        return self.trained.actions + self.evaluated.actions

    @cached_property
    def rate(self) -> float:
        """Training steps per second of CPU time, updates and evaluations included; nan if it was not measured."""
        return float(last_row(self.path / "timing.csv").get("steps_per_cpu_second", "nan"))

    @property
    def cpu_hours(self) -> float:
        """CPU time of the training; nan if it was not measured."""
        return self.spec.steps / self.rate / 3600

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Commit and versions it was made with."""
        path = self.path / "provenance.json"
        return read_json(path) if path.exists() else {}


class Score(NamedTuple):
    """Mean and standard deviation over seeds; one seed has no deviation (nan)."""

    mean: float
    std: float

    @property
    def cv(self) -> float:
        """100 std / |mean|: the paper's CV, in percent."""
        return 100 * self.std / abs(self.mean) if self.mean else math.nan


@dataclass(frozen=True)
class Result:
    """The runs of one cell, one for each seed."""

    cell: Cell
    runs: tuple[Run, ...]

    @property
    def layer(self) -> str:
        """The name of the action layer, which decides colour and place."""
        return self.runs[0].spec.layer

    @property
    def as_shipped(self) -> bool:
        """Whether no option of the layer, the agent or the task was changed, not even for the whole campaign.

        What the paper prints is no change in a campaign that does all as printed.
        """
        return self.cell.method == self.layer and not changes(self.runs[0].spec)

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints, in the order of the action."""
        return self.runs[0].joints

    def by_seed(self, number: Callable[[Run], float]) -> Array:
        """A number of every run, (seeds,)."""
        return np.array([number(run) for run in self.runs])

    @cached_property
    def returns(self) -> Array:
        """Return of the final evaluation, (seeds,)."""
        return self.by_seed(lambda run: run.final_return)

    @cached_property
    def utilisations(self) -> Array:
        """Utilisation in the final evaluation, (seeds,)."""
        return self.by_seed(lambda run: run.final_utilisation)

    @cached_property
    def accelerations(self) -> Array:
        """Utilisation of the acceleration in the final evaluation, (seeds,); NaN where it was not measured."""
        return self.by_seed(lambda run: run.final_acceleration)

    @property
    def accelerates(self) -> bool:
        """Whether all runs have measured how they used the acceleration."""
        return not bool(np.isnan(self.accelerations).any())

    @cached_property
    def joint_utilisation(self) -> Array:
        """Utilisation of each joint, mean over the seeds, (d,)."""
        return np.mean([run.joint_utilisation for run in self.runs], axis=0)

    @cached_property
    def score(self) -> Score:
        """The return over the seeds."""
        return score(self.returns)

    @cached_property
    def utilisation(self) -> Score:
        """The utilisation over the seeds."""
        return score(self.utilisations)

    @cached_property
    def acceleration(self) -> Score:
        """The utilisation of the acceleration over the seeds; NaN where it was not measured."""
        return score(self.accelerations) if self.accelerates else Score(math.nan, math.nan)

    @cached_property
    def trained(self) -> Broken:
        """Violations in training, over all runs."""
        return Broken.sum(run.trained for run in self.runs)

    @cached_property
    def evaluated(self) -> Broken:
        """Violations in evaluations, over all runs."""
        return Broken.sum(run.evaluated for run in self.runs)

    @cached_property
    def broken(self) -> Broken:
        """Violations in training and evaluations, over all runs."""
        return Broken.sum((self.trained, self.evaluated))

    @property
    def violations(self) -> int:
        """Joint actions that broke a limit, over all runs."""
        return self.broken.actions

    def curve(self) -> tuple[Array, Array]:
        """Steps (n,) and mean return at each evaluation by seed, (seeds, n); as far as all seeds have got."""
        tables = [run.evaluations for run in self.runs]
        n = min(len(table["step"]) for table in tables)
        return tables[0]["step"][:n], np.array([table["return_mean"][:n] for table in tables])


class Results:
    """Everything a report is about.

    Args:
        name: of the campaign.
        about: what it is for, in a line.
        results: one for each cell.
        planned: how many runs the campaign has, finished or not.
        shared: options that all runs set, which no method's name repeats.
    """

    def __init__(
        self, name: str, about: str, results: Iterable[Result], planned: int, shared: Sequence[str] = ()
    ) -> None:
        self.name, self.about, self.planned, self.shared = name, about, planned, tuple(shared)
        self.by_cell = {result.cell: result for result in results}

    def __iter__(self) -> Iterator[Result]:
        return iter(self.by_cell.values())

    def __len__(self) -> int:
        return len(self.by_cell)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All finished runs."""
        return tuple(run for result in self for run in result.runs)

    def where(self, **cell: Any) -> list[Result]:
        """The results whose cell has these values, such as ``where(task="Ant-v5", method="ddsrad")``."""
        return [r for r in self if all(getattr(r.cell, name) == value for name, value in cell.items())]

    def get(self, task: str, limits: str, agent: str, layer: str) -> Result | None:
        """The result of a layer as it ships, at the largest budget there is; None if it was not run."""
        found = [r for r in self.where(task=task, limits=limits, agent=agent, method=layer) if r.as_shipped]
        return max(found, key=lambda result: result.cell.steps, default=None)


def score(values: Array) -> Score:
    """Mean and deviation of one number per seed."""
    return Score(*mean_std(values))


def load(*paths: Path) -> Results:
    """The finished runs of the campaign in a folder, or of those in several, as one."""
    campaign, folders = joined(paths)
    names = Names(campaign.runs)
    runs = [
        Run(folders[key].path, spec, names.cell(spec))
        for key, spec in campaign.by_key.items()
        if state_of(folders[key], spec.steps) == "done"
    ]
    if not runs:
        where = f"{' and '.join(map(str, paths))} {'has' if len(paths) == 1 else 'have'}"
        raise ValueError(f"{where} no finished run of {len(campaign.by_key)}, expected at least one to report on")
    results = [Result(cell, tuple(found)) for cell, found in grouped(runs, lambda run: run.cell).items()]
    return Results(campaign.name, campaign.about, results, len(campaign.by_key), names.shared)


def read_columns(path: Path, most: int | None = None) -> Columns:
    """A CSV file of numbers, by column, or ``most`` of its rows; refuses one that was not written to its end."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: a finished run has it")
    text = read_text(path)
    names, _, body = text.partition("\n")
    if not body:
        raise ValueError(f"{path} has no rows, expected at least one under its names")
    if not body.endswith("\n"):
        raise ValueError(f"{path} ends in the middle of a row ({body.splitlines()[-1][:40]!r}): it is half-written")
    try:
        lines = body.splitlines()
        rows = np.loadtxt(lines[:: -(-len(lines) // most) if most else 1], delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path} is not a table of numbers: {error}") from error
    header = names.strip().split(",")
    if rows.shape[1] != len(header):
        raise ValueError(f"{path} has rows of {rows.shape[1]} entries under {len(header)} names")
    return Columns(path, dict(zip(header, rows.T, strict=True)))
