"""`slewrl limits` over a folder of URDFs, as one table: read, or refused, why, and what mends it.

    pip download --no-deps example-robot-data==6.0.0 && unzip -q example_robot_data-*.whl -d robots
    python benchmarks/urdfs.py robots
    python benchmarks/urdfs.py robots --write docs/limits.md

Where the refusal says "Perhaps: ...", that is tried as it stands, and the table says what it was and whether it helped.
Nothing that needs a number from a datasheet is made up.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from page import write

from slewrl import RateLimits, __version__
from slewrl.limits.files import from_sheet, read_sheet
from slewrl.limits.rates import DatasheetError

DT = 0.02


def read(path: Path, **said: Any) -> RateLimits:
    """As the command reads it."""
    return RateLimits(**from_sheet(read_sheet(path), DT, **said).arguments)


def outcome(path: Path) -> tuple[str, str, str]:
    """What became of a file: "read", "mended" or "refused", how or why, and what a user can do."""
    try:
        return "read", f"{read(path).dim} joints", ""
    except DatasheetError as error:
        reasons = _reasons(error)
        if not error.suggestions:
            return "refused", reasons, _options(error)
        words = {option.removeprefix("--"): names for option, names in error.suggestions.items()}
        tried = " ".join(f"`{option} …` ({len(names)})" for option, names in error.suggestions.items())
        try:
            return "mended", f"{reasons}; then {read(path, **words).dim} joints", tried
        except DatasheetError as left:
            return "refused", reasons, f"{tried}, and for the others {_options(left)}"
    except ValueError as error:
        return "refused", str(error).replace(f"{path}: ", ""), "none: there is nothing to limit"


def _reasons(error: DatasheetError) -> str:
    counts = Counter(fault.reason for fault in error.faults)
    return "; ".join(f"{count} × {reason}" for reason, count in counts.items())


def _options(error: DatasheetError) -> str:
    options = dict.fromkeys(option for fault in error.faults for option in fault.fixes)
    return " or ".join(f"`{option}`" for option in options)


def main() -> None:
    """Read the folder and print the table, or write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path, help="page to put the table into")
    options = parser.parse_args()
    files = sorted(options.folder.rglob("*.urdf"))
    if not files:
        raise SystemExit(f"no URDF in {options.folder}")
    found = [(path, *outcome(path)) for path in files]
    counts = Counter(kind for _, kind, _, _ in found)
    summary = f"{len(files)} files: " + ", ".join(f"{counts[kind]} {kind}" for kind in ("read", "mended", "refused"))
    rows = [f"| {path.parents[1].name}/{path.name} | {kind} | {how} | {mend} |" for path, kind, how, mend in found]
    head = f"slewrl {__version__}, `python benchmarks/urdfs.py FOLDER`, dt = {DT} s. {summary}.\n"
    columns = "| file | | joints, or the reason | what mends it; “…”: these joints, tried |"
    lines = [head, columns, "|---|---|---|---|", *rows]
    if options.write:
        write(options.write, "urdfs", "\n".join(lines))
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
