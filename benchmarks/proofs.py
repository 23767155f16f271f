"""The certificates of the robots, results/proofs, and their table in docs/proof.md.

    python benchmarks/proofs.py              # what `slewrl prove` does, once per robot; some ten minutes on one core
    python benchmarks/proofs.py --cache DIR  # with the answers that are there, which the certificates mark
    python benchmarks/proofs.py --table      # only the table, from the certificates

CPU-seconds are of the run that solved a lemma. A lemma that is for all limits is solved once, and counted for each.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from page import write

ROOT = Path(__file__).parents[1]
PROOFS = ROOT / "results" / "proofs"
ROBOTS = {
    "franka": "franka.yaml", "franka_acceleration": "franka_acceleration.yaml", "g1": "G1:paper", "h1": "H1:paper",
    "ur5e": "ur5e.yaml", "ur5e_acceleration": "ur5e_acceleration.yaml",
}  # fmt: skip
"""Certificate -> what it is of: a file beside it, or a preset."""


def prove(name: str, source: str, cache: Path) -> None:
    """Prove one robot's limits with the command, and keep the certificate."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "slewrl", "prove", source, "--cache", str(cache), "--out", folder]
        subprocess.run(command, check=True, cwd=PROOFS, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
        (PROOFS / f"{name}.json").write_text((Path(folder) / "certificate.json").read_text(encoding="utf-8"))


def table() -> str:
    """A row per certificate."""
    lines = ["| limits | source | lemmas | verdict | CPU-seconds |", "|---|---|---|---|---|"]
    for name in ROBOTS:
        made: dict[str, Any] = json.loads((PROOFS / f"{name}.json").read_text(encoding="utf-8"))
        counts = f"{len(made['lemmas'])} | {made['verdict']} | {made['cpu_seconds']:.1f}"
        lines.append(f"| {name} | `{made['source']}` | {counts} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, help="answers of earlier times; default: none")
    parser.add_argument("--table", action="store_true", help="prove nothing")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "proof.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as fresh:
        for name, source in () if options.table else ROBOTS.items():
            prove(name, source, (options.cache or Path(fresh)).resolve())
    write(options.page, "proofs", table())


if __name__ == "__main__":
    main()
