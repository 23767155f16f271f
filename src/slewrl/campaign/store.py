"""Where a campaign lives: a folder with campaign.json and one run folder per run. Needs no torch.

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
from slewrl.io.files import FINAL, open_own, read_json, read_text, refuse_linked_folders, write_atomically
from slewrl.training.pace import pace, warm_up
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec, difference, read_spec

VERSION, BEFORE_RECIPES = 2, 1
"""Of campaign.json: what is written, and what is read as well."""
State = Literal["waiting", "running", "stopped", "failed", "done"]
KEPT = ("run.json", "provenance.json", "limits.yaml", "train.csv", "eval.csv", "timing.csv", "DONE")
"""What of a run is worth committing, besides its final evaluation."""
EVALUATED = tuple(f"{FINAL}/{name}.csv" for name in ("density", "increments", "episodes"))
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
    """Exact ones, in training and evaluations so far."""
    rate: float = float("nan")
    """Steps per CPU-second, over all of it."""
    pace: float = float("nan")
    """Steps per second by the clock on the wall over the last minutes; NaN while too little is known."""


class Store:
    """The folder of a campaign.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names: dict[str, str] | None = None

    @property
    def description(self) -> Path:
        """The file that says which runs belong here."""
        return self.path / "campaign.json"

    def begin(self, campaign: Campaign, extend: bool = False) -> None:
        """Make this the folder of ``campaign``, or check that it is; runs that are new to it are added.

        ``extend``: runs that are there with fewer steps, and else the same, get the larger budget.
        """
        # The description last: another shard may write it in between.
        if self.path.exists() and self._strangers() and not self.description.exists():
            raise FileExistsError(f"{self.path} is not empty and holds no campaign: {ELSEWHERE}")
        self.path.mkdir(parents=True, exist_ok=True)
        with open_own(self.path / LOCK, "a") as lock:  # a hundred shards may begin at once
            fcntl.flock(lock, fcntl.LOCK_EX)
            there = self.campaign() if self.description.exists() else None
            joined = self._joined(there, campaign, extend) if there else campaign
            if joined != there:
                self._describe(joined)

    def _strangers(self) -> list[Path]:
        return [path for path in self.path.iterdir() if path.name != LOCK and path.suffix != ".tmp"]

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
            raise FileExistsError(f"{self.path} holds another {min(taken)}, from before recipes: {ELSEWHERE}")
        return Campaign(new.name, new.about, tuple({**old.by_key, **new.by_key}.values()))

    def campaign(self) -> Campaign:
        """What this folder holds."""
        return self._read()[0]

    def _read(self) -> tuple[Campaign, dict[str, str]]:
        """The campaign, and key -> folder of the runs whose key was another when they were made."""
        if not self.description.exists():
            run = "; it holds a run (slewrl evaluate shows one)" if (self.path / "run.json").exists() else ""
            raise FileNotFoundError(f"{self.path} holds no campaign: there is no campaign.json{run}")
        data = read_json(self.description)
        found = data.get("version")
        if found not in (VERSION, BEFORE_RECIPES):
            raise ValueError(
                f"{self.description} has version {shortened(found)}, expected {VERSION}: use the slewrl it came from"
            )
        try:
            runs = {_word(name): read_spec(spec, found == BEFORE_RECIPES) for name, spec in data["runs"].items()}
            campaign = Campaign(data["name"], data["about"], tuple(runs.values()))
            return campaign, {spec.key: name for name, spec in runs.items() if name != spec.key}
        except (KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"{self.description} is no campaign of this slewrl's: {error}") from error

    def folder(self, key: str) -> RunFolder:
        """Where a run lives: in a folder of its key's name, or of what that was when the run was made."""
        if self._names is None and self.description.exists():
            self._names = self._read()[1]
        return RunFolder(self.path / (self._names or {}).get(key, key))

    def prepare(self, key: str, spec: RunSpec) -> RunFolder:
        """The folder of a run, made if there is none; refuses one that holds anything but it with at most its steps."""
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
        try:
            return self._progress_of(key, spec)
        except (ValueError, csv.Error) as error:
            raise ValueError(f"the logs in {self.folder(key).path} are damaged: {error}") from None

    def _progress_of(self, key: str, spec: RunSpec) -> Progress:
        folder = self.folder(key)
        train, evaluated = (last_row(folder.path / name) for name in ("train.csv", "eval.csv"))
        timing = last_rows(folder.path / "timing.csv")
        logs = (folder.path / "eval.csv", folder.path / FINAL / "episodes.csv")
        final = _final_return(folder.path)
        return Progress(
            key,
            spec,
            state_of(folder, spec.steps),
            max(int(float(row.get("step", 0))) for row in (train, evaluated)),
            float(evaluated.get("return_mean", "nan")) if final is None else final,
            int(float(train.get("violations", 0))) + sum(map(_violations, logs)),
            _number(timing[-1] if timing else {}, "steps_per_cpu_second"),
            pace([(_number(row, "step"), _number(row, "seconds")) for row in timing], warm_up(spec)),
        )

    def collect(self, to: Path) -> int:
        """Copy what a report needs of every finished run to another folder; returns how many runs are there now."""
        finished = [p.key for p in self.progress() if p.state == "done"]
        target = Store(to)
        target.begin(self.campaign())
        for key in finished:
            if state_of(target.folder(key)) != "done":  # what was collected stays as it is
                _copy_run(self.folder(key).path, target.folder(key).path)
        return len(finished)


def joined(paths: Sequence[Path]) -> tuple[Campaign, dict[str, RunFolder]]:
    """The campaigns in several folders as one, and the folder of each of its runs.

    A run that is in two of them counts once, from the first folder where it is finished. Two different runs of one key
    are refused: a table could not tell them apart.
    """
    stores = [Store(path) for path in paths]
    campaigns = [store.campaign() for store in stores]
    specs: dict[str, RunSpec] = {}
    homes: dict[str, Store] = {}
    for store, campaign in zip(stores, campaigns, strict=True):
        for key, spec in campaign.by_key.items():
            specs.setdefault(key, spec)
            homes[key] = _home(key, homes[key], specs[key], store, spec) if key in homes else store
    name, about = (
        separator.join(dict.fromkeys(texts))
        for separator, texts in ((" + ", [c.name for c in campaigns]), ("; ", [c.about for c in campaigns if c.about]))
    )
    return Campaign(name, about, tuple(specs.values())), {key: home.folder(key) for key, home in homes.items()}


def _home(key: str, first: Store, spec: RunSpec, second: Store, other: RunSpec) -> Store:
    """Which of two folders a run is taken from that both have."""
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


def _word(name: str) -> str:
    """The name of a folder of the campaign's own."""
    if name in ("", ".", "..") or Path(name).name != name:
        raise ValueError(f"a run's folder is {shortened(name)}, expected a word")
    return name


def _final_return(run: Path) -> float | None:
    """Mean return of the final evaluation, if there was one."""
    path = run / FINAL / "episodes.csv"
    if not path.exists():
        return None
    returns = [float(row["return"]) for row in csv.DictReader(read_text(path).splitlines()) if row.get("return")]
    return sum(returns) / len(returns) if returns else None


def _copy_run(source: Path, copy: Path) -> None:
    """Copy the files that belong to a run; what a link leads to does not."""
    for folder in (source, source / FINAL):
        if folder.is_symlink():
            raise OSError(f"{folder} is a symbolic link, expected a folder of the campaign's own: remove it")
    refuse_linked_folders(copy)
    (copy / FINAL).mkdir(parents=True, exist_ok=True)
    for name in (*EVALUATED, *KEPT):  # DONE is the last of them
        if (source / name).is_file():
            with open_own(source / name, "rb") as there, open_own(copy / name, "wb") as here:
                shutil.copyfileobj(there, here)


def _violations(path: Path) -> int:
    """Of all rows of a CSV file."""
    if not path.exists():
        return 0
    rows = csv.DictReader(read_text(path).splitlines())
    return sum(int(float(row["violations"])) for row in rows if row.get("violations"))


def state_of(folder: RunFolder, steps: int = 0) -> State:
    """Finished means trained, for ``steps`` at least, evaluated and written down."""
    evaluated = folder.done and (folder.path / FINAL / "episodes.csv").exists()
    if evaluated and (not steps or int(last_row(folder.path / "train.csv").get("step", steps)) >= steps):
        return "done"
    if not (folder.path / "run.json").exists():
        return "waiting"
    if folder.locked:
        return "running"
    return "failed" if error_file(folder).exists() else "stopped"


def error_file(folder: RunFolder) -> Path:
    """The traceback of a run that failed."""
    return folder.path / "error.txt"


def note_error(folder: RunFolder, text: str) -> str:
    """Write down how a run failed, if the disk takes it: a full disk is one of the ways. Returns the text."""
    with suppress(OSError):
        write_atomically(error_file(folder), text)
    return text


def noted_error(folder: RunFolder) -> str:
    """How a run failed."""
    path = error_file(folder)
    return path.read_text(encoding="utf-8") if path.exists() else "it failed and could not write down how: disk full?"


def last_row(path: Path) -> dict[str, str]:
    """The last whole row of a CSV file; empty if there is none."""
    return next(reversed(last_rows(path, 2_000)), {})


def last_rows(path: Path, size: int = 20_000) -> list[dict[str, str]]:
    """The whole rows in the last bytes of a CSV file."""
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
    """What a row says; NaN if it does not."""
    return float(row.get(name) or "nan")


def extends(spec: RunSpec, there: RunSpec) -> bool:
    """Whether ``spec`` is the run that is there with a larger budget."""
    return there.steps < spec.steps and not _difference(dataclasses.replace(there, steps=spec.steps), spec)


def _difference(there: RunSpec, wanted: RunSpec) -> str:
    return difference(dataclasses.asdict(there), dataclasses.asdict(wanted))
