"""What a campaign's runs came to, read from their CSV files: the one thing every table and figure is made of."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slewrl.runs import RunSpec

Columns = Mapping[str, NDArray[np.float64]]
"""Name of a column -> its values, one a row."""
Cell = tuple[str, str, str, str]
"""Task, limits, agent, method."""


@dataclass(frozen=True)
class Run:
    """One finished run."""

    path: Path
    spec: RunSpec

    @property
    def key(self) -> str:
        """The name of its folder."""
        return self.path.name

    @property
    def method(self) -> str:
        """The layer, and what sets it apart from the layer's defaults."""
        options = {**self.spec.layer_options, **self.spec.agent_options}
        extras = [self.spec.density] if self.spec.density != "normalized" else []
        extras += [f"{name}={value}" for name, value in sorted(options.items())]
        return " ".join([self.spec.layer, *extras])

    @property
    def cell(self) -> Cell:
        """Where it belongs in a table; runs of one cell differ in their seed alone."""
        return self.spec.task, Path(self.spec.limits).stem, self.spec.agent, self.method

    @cached_property
    def evaluations(self) -> Columns:
        """eval.csv: a row for each evaluation during training."""
        return read_columns(self.path / "eval.csv")

    @cached_property
    def training(self) -> Columns:
        """train.csv: a row each 1 000 steps."""
        return read_columns(self.path / "train.csv")

    @cached_property
    def episodes(self) -> Columns:
        """evaluation/episodes.csv: a row for each episode of the final evaluation."""
        return read_columns(self.path / "evaluation" / "episodes.csv")

    @cached_property
    def density(self) -> Columns:
        """evaluation/density.csv: ``from``, ``to``, and a density for each joint."""
        return read_columns(self.path / "evaluation" / "density.csv")

    @cached_property
    def increments(self) -> Columns:
        """evaluation/increments.csv: some executed increments over their limits, a column for each joint."""
        return read_columns(self.path / "evaluation" / "increments.csv")

    @property
    def joints(self) -> tuple[str, ...]:
        """Names, in the order of the action."""
        return tuple(self.increments)

    @cached_property
    def utilisation(self) -> NDArray[np.float64]:
        """Of each joint at the last evaluation, (d,)."""
        last = [self.evaluations[f"utilisation_{i}"][-1] for i in range(len(self.joints))]
        return np.array(last)

    @property
    def final_return(self) -> float:
        """Mean return of the last evaluation."""
        return float(self.evaluations["return_mean"][-1])

    @property
    def actions_checked(self) -> int:
        """Joint actions compared with their limits in exact arithmetic: in training and in every evaluation."""
        evaluated = self.evaluations["length_mean"].sum() * self.spec.evaluate_episodes + self.episodes["length"].sum()
        return int(self.training["step"][-1] + evaluated) * len(self.joints)

    @property
    def violations(self) -> int:
        """How many of them broke a limit."""
        found = self.evaluations["violations"].sum() + self.episodes["violations"].sum()
        return int(self.training["violations"][-1] + found)

    @property
    def cpu_hours(self) -> float:
        """CPU time of the training."""
        rate = read_columns(self.path / "timing.csv")["steps_per_cpu_second"][-1]
        return float(self.spec.steps / rate / 3600)

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """What it was made with: commit and versions."""
        path = self.path / "provenance.json"
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found


def read_columns(path: Path) -> dict[str, NDArray[np.float64]]:
    """A CSV file of numbers, by column."""
    with open(path, encoding="utf-8") as file:
        names = file.readline().strip().split(",")
        try:
            rows = np.loadtxt(file, delimiter=",", ndmin=2)
        except ValueError as error:
            raise ValueError(f"{path} is not a table of numbers: {error}") from error
    if rows.size and rows.shape[1] != len(names):
        raise ValueError(f"{path} has rows of {rows.shape[1]} entries under {len(names)} names")
    return dict(zip(names, rows.T if rows.size else np.empty((len(names), 0)), strict=True))


def by_cell(runs: Iterable[Run]) -> dict[Cell, list[Run]]:
    """Runs that differ in their seed alone, together; in order of appearance."""
    cells: dict[Cell, list[Run]] = {}
    for run in runs:
        cells.setdefault(run.cell, []).append(run)
    return cells
