"""The folder of a campaign: campaign.json and one run folder per run. Needs no torch.

``results/`` has the same layout without checkpoints and replays, so a report reads either.
"""

import csv
import dataclasses
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slewrl.campaign.spec import Campaign
from slewrl.errors import shortened
from slewrl.io.files import FINAL, open_own, read_csv, read_json, read_text, refuse_linked_folders, write_atomically
from slewrl.training.pace import pace, warm_up
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec, difference, read_spec

VERSION, BEFORE_POSES, BEFORE_RECIPES = 3, 2, 1
"""Versions of campaign.json: the one that is written, and older ones that are read as well."""
State = Literal["waiting", "running", "stopped", "failed", "done"]
KEPT = ("run.json", "provenance.json", "limits.yaml", "train.csv", "eval.csv", "timing.csv", "DONE")
"""The files of a run worth committing, besides its final evaluation."""
EVALUATED = tuple(f"{FINAL}/{name}.csv" for name in ("density", "increments", "calm", "statue", "episodes"))
LOCK = "campaign.lock"
ELSEWHERE = "choose another folder (slewrl campaign run: --out FOLDER)"


@dataclass(frozen=True)
class Progress:
    """How far one run has got."""

    key: str
    spec: RunSpec
    state: State
    step: int = 0
    last_return: float = float("nan")
    """Mean return of the final evaluation, or of the last one so far."""
    violations: int = 0
    """Violations in training and evaluations so far."""
    rate: float = float("nan")
    """Steps per CPU second over the whole run."""
    pace: float = float("nan")
    """Steps per wall-clock second over the last minutes; NaN while too little is known."""


class Store:
    """The folder of a campaign."""

    def __init__(self, path: Path) -> None:
        self.path, self.description = path, path / "campaign.json"
        self._names: dict[str, str] | None = None

    def begin(self, campaign: Campaign, extend: bool = False) -> None:
        """Make this the folder of ``campaign``, or check that it is and add the runs that are new.

        ``extend``: runs that differ only in having fewer steps get the larger budget.
        """
        others = self.path.exists() and any(p.name != LOCK and p.suffix != ".tmp" for p in self.path.iterdir())
        if others and not self.description.exists():  # in this order: another shard may write it in between
            raise FileExistsError(f"{self.path} is not empty and holds no campaign: {ELSEWHERE}")
        self.path.mkdir(parents=True, exist_ok=True)
        with open_own(self.path / LOCK, "a") as lock:  # a hundred shards may begin at once
            fcntl.flock(lock, fcntl.LOCK_EX)
            there = self.campaign() if self.description.exists() else None
            joined = self._joined(there, campaign, extend) if there else campaign
            if joined != there:
                self._describe(joined)

    def _describe(self, campaign: Campaign) -> None:
        runs = {self.folder(key).path.name: dataclasses.asdict(spec) for key, spec in campaign.by_key.items()}
        data = {"version": VERSION, "name": campaign.name, "about": campaign.about, "runs": runs}
        write_atomically(self.description, json.dumps(data, indent=1) + "\n")

    def _joined(self, old: Campaign, new: Campaign, extend: bool) -> Campaign:
        if old.name != new.name:
            raise FileExistsError(f"{self.path} holds campaign {old.name!r}, not {new.name!r}: {ELSEWHERE}")
        for key, spec in new.by_key.items():
            there = old.by_key.get(key, spec)
            shorter = extends(spec, there)
            if (differ := _difference(there, spec)) and not (extend and shorter):
                how = f", or extend its runs (--steps {spec.steps})" if shorter else ""
                raise FileExistsError(f"{self.path} holds another {key} ({differ}): {ELSEWHERE}{how}")
        if taken := (new.by_key.keys() - old.by_key.keys()) & {self.folder(key).path.name for key in old.by_key}:
            raise FileExistsError(f"{self.path} holds another {min(taken)}, of an older slewrl: {ELSEWHERE}")
        return Campaign(new.name, new.about, tuple({**old.by_key, **new.by_key}.values()))

    def campaign(self) -> Campaign:
        """The campaign in this folder."""
        return self._read()[0]

    def _read(self) -> tuple[Campaign, dict[str, str]]:
        """The campaign, and the folders by key of the runs that were made when their key was another."""
        if not self.description.exists():
            run = "; it holds a run (slewrl evaluate shows one)" if (self.path / "run.json").exists() else ""
            raise FileNotFoundError(f"{self.path} holds no campaign: there is no campaign.json{run}")
        data = read_json(self.description)
        found = data.get("version")
        if found not in (VERSION, BEFORE_POSES, BEFORE_RECIPES):
            raise ValueError(
                f"{self.description} has version {shortened(found)}, expected {VERSION}: use the slewrl it came from"
            )
        try:
            versions = found == BEFORE_RECIPES, found != VERSION
            runs = {_folder_name(name): read_spec(spec, *versions) for name, spec in data["runs"].items()}
            campaign = Campaign(data["name"], data["about"], tuple(runs.values()))
            return campaign, {spec.key: name for name, spec in runs.items() if name != spec.key}
        except (KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"{self.description} is no campaign of this slewrl's: {error}") from error

    def folder(self, key: str) -> RunFolder:
        """The folder of a run, named after its key or what that was when the run was made."""
        if self._names is None and self.description.exists():
            self._names = self._read()[1]
        return RunFolder(self.path / (self._names or {}).get(key, key))

    def prepare(self, key: str, spec: RunSpec) -> RunFolder:
        """The folder of a run, made if there is none; refuses one that holds another run or more steps."""
        folder = self.folder(key)
        if not (folder.path / "run.json").exists():
            folder.create(spec)
        elif (differ := _difference(folder.spec(), spec)) and not extends(spec, folder.spec()):
            raise FileExistsError(f"{folder.path} holds another run ({differ})")
        return folder

    def progress(self) -> Iterator[Progress]:
        """How far every run has got, read from its files."""
        for key, spec in self.campaign().by_key.items():
            yield self.progress_of(key, spec)

    def progress_of(self, key: str, spec: RunSpec) -> Progress:
        """How far one run has got."""
        folder = self.folder(key)
        try:
            train, evaluated = (last_row(folder.path / name) for name in ("train.csv", "eval.csv"))
            timing = last_rows(folder.path / "timing.csv")
            episodes = read_csv(folder.path / FINAL / "episodes.csv")
            returns = [float(row["return"]) for row in episodes if row.get("return")]
            counted = [train, *read_csv(folder.path / "eval.csv"), *episodes]
            return Progress(
                key,
                spec,
                state_of(folder, spec.steps),
                max(int(float(row.get("step", 0))) for row in (train, evaluated)),
                sum(returns) / len(returns) if returns else float(evaluated.get("return_mean", "nan")),
                sum(int(float(row.get("violations") or 0)) for row in counted),
                _number(timing[-1] if timing else {}, "steps_per_cpu_second"),
                pace([(_number(row, "step"), _number(row, "seconds")) for row in timing], warm_up(spec)),
            )
        except (ValueError, csv.Error) as error:
            raise ValueError(f"the logs in {folder.path} are damaged: {error}") from None

    def collect(self, to: Path) -> int:
        """Copy what a report needs of every finished run to another folder; returns the number of finished runs."""
        finished = [p.key for p in self.progress() if p.state == "done"]
        target = Store(to)
        target.begin(self.campaign())
        for key in finished:
            if state_of(target.folder(key)) != "done":  # what was collected stays as it is
                _copy_run(self.folder(key).path, target.folder(key).path)
        return len(finished)


def joined(paths: Sequence[Path]) -> tuple[Campaign, dict[str, RunFolder]]:
    """The campaigns in several folders as one, and the folder of each of its runs.

    A run that is in two of them counts once, from the first folder where it is finished; two different runs of one
    key are refused.
    """
    stores = [Store(path) for path in paths]
    campaigns = [store.campaign() for store in stores]
    specs: dict[str, RunSpec] = {}
    homes: dict[str, Store] = {}
    for store, campaign in zip(stores, campaigns, strict=True):
        for key, spec in campaign.by_key.items():
            specs.setdefault(key, spec)
            homes[key] = _home(key, homes[key], specs[key], store, spec) if key in homes else store
    name = " + ".join(dict.fromkeys(campaign.name for campaign in campaigns))
    about = "; ".join(dict.fromkeys(campaign.about for campaign in campaigns if campaign.about))
    return Campaign(name, about, tuple(specs.values())), {key: home.folder(key) for key, home in homes.items()}


def _home(key: str, first: Store, spec: RunSpec, second: Store, other: RunSpec) -> Store:
    """The folder, of two that have a run, which it is taken from."""
    if differ := _difference(spec, other):
        raise ValueError(
            f"{first.path} and {second.path} hold different runs named {key} ({differ}): report on them one by one"
        )
    done = [store for store in (first, second) if state_of(store.folder(key), spec.steps) == "done"]
    if len(done) == 2 and len({read_text(s.folder(key).path / FINAL / "episodes.csv") for s in done}) == 2:
        raise ValueError(
            f"{first.path} and {second.path} hold {key} with different results, as another version or processor gives "
            "them: report on them one by one"
        )
    return done[0] if done else first


def _folder_name(name: str) -> str:
    """Refuse a name that would lead out of the campaign's folder."""
    if name in ("", ".", "..") or Path(name).name != name:
        raise ValueError(f"a run's folder is {shortened(name)}, expected a word")
    return name


def _copy_run(source: Path, copy: Path) -> None:
    """Copy the files of a run; links are refused."""
    for folder in (source, source / FINAL):
        if folder.is_symlink():
            raise OSError(f"{folder} is a symbolic link, expected a folder of the campaign's own: remove it")
    refuse_linked_folders(copy)
    (copy / FINAL).mkdir(parents=True, exist_ok=True)
    for name in (*EVALUATED, *KEPT):  # DONE is the last of them
        if (source / name).is_file():
            with open_own(source / name, "rb") as there, open_own(copy / name, "wb") as here:
                shutil.copyfileobj(there, here)


def state_of(folder: RunFolder, steps: int = 0) -> State:
    """The state of a run; it is done when it was trained for ``steps`` at least, and evaluated."""
    evaluated = folder.done and (folder.path / FINAL / "episodes.csv").exists()
    if evaluated and (not steps or int(last_row(folder.path / "train.csv").get("step", steps)) >= steps):
        return "done"
    if not (folder.path / "run.json").exists():
        return "waiting"
    if folder.locked:
        return "running"
    return "failed" if error_file(folder).exists() else "stopped"


def error_file(folder: RunFolder) -> Path:
    """The file with the traceback of a run that failed."""
    return folder.path / "error.txt"


def note_error(folder: RunFolder, text: str) -> str:
    """Write why a run failed to its error file, unless the disk is full, and return it."""
    with suppress(OSError):
        write_atomically(error_file(folder), text)
    return text


def noted_error(folder: RunFolder) -> str:
    """Why a run failed, from its error file."""
    path = error_file(folder)
    return path.read_text(encoding="utf-8") if path.exists() else "it failed and could not write down how: disk full?"


def last_row(path: Path) -> dict[str, str]:
    """The last complete row of a CSV file; empty if there is none."""
    return next(reversed(last_rows(path, 2_000)), {})


def last_rows(path: Path, size: int = 20_000) -> list[dict[str, str]]:
    """The complete rows in the last ``size`` bytes of a CSV file."""
    try:
        with open(path, "rb") as file:
            header = file.readline().decode().strip()
            start = file.tell()
            file.seek(max(start, os.fstat(file.fileno()).st_size - size))
            cut = file.tell() > start
            lines = file.read().decode().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text: it is damaged") from None
    commas = header.count(",")
    whole = [line for line in lines[cut:] if line.endswith("\n") and line.count(",") == commas]
    return list(csv.DictReader([header, *whole]))


def _number(row: dict[str, str], name: str) -> float:
    """A number of a row; NaN if it is missing."""
    return float(row.get(name) or "nan")


def extends(spec: RunSpec, there: RunSpec) -> bool:
    """Whether ``spec`` is the same run as ``there`` with a larger budget."""
    return there.steps < spec.steps and not _difference(dataclasses.replace(there, steps=spec.steps), spec)


def _difference(there: RunSpec, wanted: RunSpec) -> str:
    return difference(dataclasses.asdict(there), dataclasses.asdict(wanted))
