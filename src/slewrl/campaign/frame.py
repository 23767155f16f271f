"""A campaign's runs as tables to work with in Python. Needs no torch; pandas only to make a DataFrame."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from slewrl.campaign.spec import Campaign
from slewrl.campaign.store import joined, state_of
from slewrl.errors import UserFacingError
from slewrl.io.files import FINAL, read_csv
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec

if TYPE_CHECKING:
    import pandas

What = Literal["runs", "evaluations", "training", "episodes"]
FILES = {"evaluations": "eval.csv", "training": "train.csv", "episodes": f"{FINAL}/episodes.csv"}
"""The file of a run that each table is read from."""
FIELDS = ("task", "limits", "agent", "layer", "density", "recipe", "seed", "steps")
"""Fields of a run's spec that are columns, as are its options, such as ``layer.penalty_weight``."""
Row = dict[str, Any]


class CampaignData:
    """The results of a campaign's runs, finished or not; ``folders`` are the runs' folders by key."""

    def __init__(self, campaign: Campaign, folders: dict[str, RunFolder]) -> None:
        self.campaign, self.folders = campaign, folders

    def rows(self, what: What = "runs") -> list[Row]:
        """A table as a list of rows; see ``to_pandas``."""
        if what != "runs" and what not in FILES:
            raise ValueError(f"what is {what!r}, expected of: runs, {', '.join(FILES)}")
        rows = []
        for key, spec in self.campaign.by_key.items():
            folder, columns = self.folders[key], {"run": key, **_columns(spec)}
            if what == "runs":
                rows.append({**columns, "state": state_of(folder, spec.steps), **_final(folder)})
            else:
                rows += [{**columns, **row} for row in _read(folder.path / FILES[what])]
        return rows

    def to_pandas(self, what: What = "runs") -> "pandas.DataFrame":
        """A table as a DataFrame, with the run and its settings in every row.

        Args:
            what: "runs" (state, and return, utilisation and violations of the final evaluation, NaN where there was
                none), "evaluations" (eval.csv), "training" (train.csv) or "episodes" of the final evaluation.
                docs/metrics.md defines the columns.
        """
        try:
            import pandas
        except ImportError:
            raise UserFacingError("to_pandas needs pandas, which is not installed: pip install pandas") from None
        return pandas.DataFrame(self.rows(what))


def load_campaign(*paths: str | Path) -> CampaignData:
    """The campaign in a folder, such as ``results/first``, or the campaigns in several folders as one."""
    if not paths:
        raise ValueError("no campaign is given, expected the folder of one, such as results/first")
    return CampaignData(*joined([Path(path) for path in paths]))


def _columns(spec: RunSpec) -> Row:
    options = {"agent": spec.agent_options, "layer": spec.layer_options, "task": spec.task_options}
    named = {f"{owner}.{name}": value for owner, part in options.items() for name, value in part.items()}
    return {name: getattr(spec, name) for name in FIELDS} | named


def _final(folder: RunFolder) -> Row:
    """Means of the final evaluation; utilisations are weighted by the episodes' lengths, as in a report."""
    rows = _read(folder.path / FILES["episodes"])
    if not rows:
        return dict.fromkeys(("return", "utilisation", "violations"), float("nan"))
    steps = sum(row["length"] for row in rows)
    return {
        "return": sum(row["return"] for row in rows) / len(rows),
        "utilisation": sum(row["utilisation"] * row["length"] for row in rows) / steps,
        "violations": sum(row["violations"] for row in rows),
    }


def _read(path: Path) -> list[Row]:
    """The rows of a CSV file of numbers; none if there is no file."""
    try:
        return [{name: float(value) for name, value in row.items()} for row in read_csv(path)]
    except (TypeError, ValueError, csv.Error) as error:
        raise ValueError(f"{path} is not a table of numbers: {error}") from None
