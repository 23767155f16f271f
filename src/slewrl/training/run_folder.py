"""The folder of a run: its spec (run.json), its logs (CSV), its checkpoints, and DONE once it is finished.

Everything but timing.csv and TensorBoard's files is the same to the byte for the same RunSpec on the same machine,
however often the run was killed.
"""

import csv
import dataclasses
import fcntl
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from slewrl.errors import shortened
from slewrl.io.files import is_yaml, open_own, read_json, write_atomically
from slewrl.training.spec import RunSpec, check_numbers, read_spec

VERSION, BEFORE_POSES, BEFORE_RECIPES = 4, 3, 2
"""Versions of run.json: the one that is written, and older ones that are read as well; they have no ``config``."""
ROBOT_COPIES = ("robot.urdf", "robot.xml")
START = "start.ckpt"
COPIES = ("limits.yaml", *ROBOT_COPIES, "robot.robot.yaml", START)
"""A run's own copies of the user's files, which decide its result, too."""
LOGS = ("train.csv", "eval.csv")
"""The logs that are the same to the byte for the same RunSpec."""


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoint"
        """The folder of its checkpoints."""
        self.limits = path / "limits.yaml"
        """The run's own copy of its limits, if they came from a file."""
        self.start = path / START
        """The run's own copy of the checkpoint whose weights it begins with, if there is one."""

    @property
    def robot(self) -> Path | None:
        """The run's own copy of the user's robot, if its task is one."""
        return next((self.path / name for name in ROBOT_COPIES if (self.path / name).exists()), None)

    @property
    def done(self) -> bool:
        """Whether the run has finished."""
        return (self.path / "DONE").exists()

    def create(self, spec: RunSpec) -> None:
        """Begin a run here, with copies of the files it names; refuses a folder that holds a run."""
        if (self.path / "run.json").exists():
            raise FileExistsError(
                f"{self.path} already holds a run: resume it (--resume {self.path}), or choose another --out"
            )
        if (self.path / "DONE").exists() or any((self.path / name).exists() for name in LOGS):
            raise FileExistsError(f"{self.path} holds logs of another run: choose another --out")
        self.path.mkdir(parents=True, exist_ok=True)
        if is_yaml(spec.limits):
            write_atomically(self.limits, Path(spec.limits).read_bytes())
        if spec.task.startswith("robot:"):
            source = Path(spec.task.removeprefix("robot:"))
            copy = self.path / (ROBOT_COPIES[0] if source.suffix == ".urdf" else ROBOT_COPIES[1])
            write_atomically(copy, source.read_bytes())
            if (beside := source.with_suffix(".robot.yaml")).exists():
                write_atomically(copy.with_suffix(".robot.yaml"), beside.read_bytes())
        if spec.start:
            write_atomically(self.start, newest_checkpoint(Path(spec.start)).read_bytes())
        write_atomically(self.path / "provenance.json", json.dumps(provenance(), indent=2) + "\n")
        self.describe(spec, {})

    def describe(self, spec: RunSpec, config: dict[str, Any]) -> None:
        """Write run.json; ``config`` has every value of the agent's config, and is empty until the run begins."""
        data = {"version": VERSION, "spec": dataclasses.asdict(spec), "config": config}
        write_atomically(self.path / "run.json", json.dumps(data, indent=2) + "\n")

    def spec(self) -> RunSpec:
        """The spec of the run, from which alone it can be made again."""
        path, data = self.path / "run.json", self._described()
        try:
            spec = read_spec(data.get("spec"), data["version"] == BEFORE_RECIPES, data["version"] != VERSION)
            check_numbers(spec)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return spec

    def config(self) -> dict[str, Any]:
        """The values that the run's agent was made with, whatever a recipe's are today; empty if none are noted."""
        config = self._described().get("config", {}) if (self.path / "run.json").exists() else {}
        if not isinstance(config, dict):
            raise ValueError(f"{self.path / 'run.json'}: config is {shortened(config)}, expected names and values")
        return config

    def _described(self) -> dict[str, Any]:
        """What run.json holds."""
        path = self.path / "run.json"
        if not path.exists():
            many = "; it holds a campaign, with a run in each folder" if (self.path / "campaign.json").exists() else ""
            raise FileNotFoundError(f"{self.path} holds no run: there is no run.json{many}")
        data = read_json(path)
        found = data.get("version")
        if found not in (VERSION, BEFORE_POSES, BEFORE_RECIPES):
            raise ValueError(
                f"{path} is of version {shortened(found)}, expected {VERSION}: use the slewrl it came from"
            )
        return data

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Add a row to a CSV file, with a header if it is the first."""
        path = self.path / name
        text = io.StringIO()
        writer = csv.DictWriter(text, row, lineterminator="\n")
        if not path.exists() or path.stat().st_size == 0:
            writer.writeheader()
        writer.writerow(row)
        with open_own(path, "a") as file:
            file.write(text.getvalue())

    def fitted(self, name: str, row: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """A row with the columns that a CSV file of an older slewrl has, missing ones NaN, and what was left out."""
        path = self.path / name
        if not path.exists() or path.stat().st_size == 0:
            return row, []
        with open(path, encoding="utf-8", errors="replace") as file:
            header = file.readline().rstrip("\n").split(",")
        return {column: row.get(column, float("nan")) for column in header}, [c for c in row if c not in header]

    def sizes(self) -> dict[str, int]:
        """The size of each of LOGS, in bytes."""
        return {path.name: path.stat().st_size for path in self._logs()}

    def log_state(self) -> dict[str, dict[str, Any]]:
        """The size and SHA-256 of each of LOGS, for a checkpoint."""
        return {"csv": self.sizes(), "csv_digests": {path.name: _digest(path) for path in self._logs()}}

    def digests(self) -> dict[str, str]:
        """The SHA-256 of each of COPIES that is there, for a checkpoint."""
        return {name: _digest(self.path / name) for name in COPIES if (self.path / name).is_file()}

    def changed(self, digests: dict[str, str]) -> str:
        """Says which of COPIES is no longer what it was at a checkpoint; empty if none is."""
        there = self.digests()
        names = [name for name in COPIES if there.get(name) != digests.get(name)]
        how = "is not what the run was trained with" if names and names[0] in there else "is gone"
        return f"{self.path / names[0]} {how}" if names else ""

    def sync(self) -> None:
        """Make what was logged durable."""
        for path in self._logs():
            with open(path, "rb") as file:
                os.fsync(file.fileno())

    def _logs(self) -> list[Path]:
        """The logs that are there and not empty."""
        paths = (self.path / name for name in LOGS)
        return [path for path in paths if path.exists() and path.stat().st_size]

    def cut(self, sizes: dict[str, int]) -> None:
        """Truncate the logs to the sizes of a checkpoint: the resumed run writes the rest again."""
        for path in self._logs():
            with open_own(path, "r+b") as file:
                file.truncate(sizes.get(path.name, 0))

    def lost(self, sizes: dict[str, int], digests: dict[str, str]) -> str:
        """Says which log has lost or changed what it had at a checkpoint; empty if none has."""
        there = self.sizes()
        for name, size in sizes.items():
            if there.get(name, 0) < size:
                return f"{self.path / name} has {there.get(name, 0)} bytes, fewer than the {size} it had"
        damaged = [name for name in digests if _digest(self.path / name, sizes[name]) != digests[name]]
        return f"{self.path / damaged[0]} is damaged: its SHA-256 does not match" if damaged else ""

    @contextmanager
    def lock(self, patience: float = 2.0) -> Iterator[None]:
        """Keep other processes from training here until the block or the process ends.

        ``patience``: seconds to wait for another process, of which one that only looks (``locked``) needs two.
        """
        with open_own(self.path / "lock", "a") as file:
            deadline = time.monotonic() + patience
            while not _flock(file, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise BlockingIOError(f"{self.path}: another process is training this run") from None
                time.sleep(0.05)
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield

    @property
    def locked(self) -> bool:
        """Whether a process is training here, on this machine or one that shares the folder."""
        path = self.path / "lock"
        if not path.is_file():
            return False
        with open(path, "rb") as file:
            return not _flock(file, fcntl.LOCK_SH)

    def finish(self) -> None:
        """Mark the run as finished."""
        write_atomically(self.path / "DONE", "")


def newest_checkpoint(run: Path) -> Path:
    """The newest checkpoint of a run, for another one to begin with."""
    if not (found := sorted(path for path in run.glob("checkpoint/*.ckpt") if path.stem.isdigit())):
        raise FileNotFoundError(f"--from {run}: there is no checkpoint, so no weights to begin with")
    return found[-1]


def _digest(path: Path, size: int = -1) -> str:
    """SHA-256 of a file, or of its first ``size`` bytes."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read(size)).hexdigest()


def _flock(file: Any, kind: int) -> bool:
    """Lock a file and return whether that could be done at once."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def provenance() -> dict[str, str]:
    """What decides a run's numbers besides its spec: versions, the commit of a checkout, and the processor."""
    made = {name: version(name) for name in ("slewrl", "torch", "numpy", "gymnasium", "mujoco")}
    made |= {"python": platform.python_version(), "processor": processor()}
    checkout = Path(__file__).parents[3]
    if (checkout / ".git").exists():
        command = ["git", "-C", str(checkout), "--no-optional-locks", "describe", "--always", "--dirty", "--abbrev=10"]
        with suppress(OSError):
            made["commit"] = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return made


def processor() -> str:
    """The model name of this machine's processor."""
    with suppress(OSError):
        names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if names:
            return str(names[0])
    return platform.processor() or platform.machine()


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a whole CSV file at once, and its folder if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue())
