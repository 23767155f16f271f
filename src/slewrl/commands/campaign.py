"""``slewrl campaign``: run, status, retry, collect, list."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.text import Text

from slewrl.campaign.runner import Runner, cores, shard
from slewrl.campaign.spec import Campaign, Selection, load_campaign
from slewrl.campaign.store import Store, noted_error
from slewrl.campaign.view import COLOURS, names, table, watched
from slewrl.io.console import Console, bold, number_table
from slewrl.io.trust import allow_modules_here, code_named, require_trust
from slewrl.training.spec import RunSpec


@dataclass(frozen=True)
class Where:
    """The machine or cluster that makes the runs of a campaign."""

    workers: int | None = None
    """Runs at a time (default: one per core)."""
    shard: str | None = None
    """k/n: only every n-th run, starting with the k-th; for a Slurm array that shares the folder."""
    ray: str | None = None
    """Address of a Ray cluster that shares the folder, or "auto" (pip install "slewrl[cluster]")."""
    trust: bool = False
    """Run the code that the campaign's .yaml or folder names (layers or tasks of a module's); see docs/trust.md."""
    keep_replays: bool = False
    """Keep the replays of finished runs, so that they can be extended (campaign run with more --steps); up to 1.6 GB
    each, of short runs far less."""

    def run(self, store: Store, keys: list[str]) -> int:
        """Make the runs. The exit code: 0 all finished, 1 some failed, 130 stopped, 4 some left to other processes."""
        console, chosen = Console(), self.mine(keys)
        if self.workers is not None and (self.workers < 1 or self.ray):
            raise ValueError(f"--workers is {self.workers}, expected at least 1, and Ray counts cores by itself")
        if self.ray:
            from slewrl.campaign.cluster import RayRunner

            runner: Runner = RayRunner(
                store, chosen, self.workers or 0, self.trust, self.keep_replays, address=self.ray
            )
        else:
            runner = Runner(store, chosen, self.workers or cores(), self.trust, self.keep_replays)
        at_a_time = f", {min(runner.workers, len(chosen))} at a time" if runner.workers else ""
        console.print(bold(store.path), f": {len(chosen)} runs{at_a_time}", sep="")
        with watched(store, console) as watch:
            complete = runner.run(watch)
        for key, how in runner.failed.items():
            console.print(f"{key} failed:\n{how}", style="red")
        again = "retry" if runner.failed else "status"
        after = f"slewrl report {store.path}" if complete else f"slewrl campaign {again} {store.path}"
        if runner.stopping:
            after = "the same command, which goes on from here"
        done = f"{len(runner.finished)} of {len(chosen)} done in "
        console.print(done, bold(store.path), f"; next: {after}", sep="")
        if runner.failed or runner.stopping:
            return 1 if runner.failed else 130
        return 0 if complete else 4

    def mine(self, keys: list[str]) -> list[str]:
        """The runs that are for this process."""
        return shard(keys, self.shard) if self.shard else keys


@dataclass(frozen=True)
class Run:
    """Run a campaign, or resume it: finished runs are kept, stopped ones go on from their checkpoint.

    With more --steps than the runs in the folder have, they are extended, finished or not.

    slewrl campaign run mini

    slewrl campaign run paper-tight --tasks HalfCheetah-v5 --agents sac --seed-count 3 --steps 60000

    slewrl campaign run paper-tight --recipe ours

    slewrl campaign run first --layers ddsrad mylayer:Class --trust

    slewrl campaign run mine.yaml --out runs/mine
    """

    campaign: tyro.conf.Positional[str]
    """One of ``slewrl campaign list``, or a .yaml or .py file of your own (docs/scale.md)."""
    select: Annotated[Selection, tyro.conf.arg(name="")] = Selection()
    where: Annotated[Where, tyro.conf.arg(name="")] = Where()
    out: Path | None = None
    """Folder of the campaign (default: runs/ and its name)."""

    def run(self) -> int:
        """Check every run before the first one starts, then make them."""
        trust = self.where.trust
        if Path(self.campaign).suffix == ".py":  # to name a program is to run it
            trust = True
            allow_modules_here()
        whole = load_campaign(self.campaign)
        campaign = self.select.of(whole)
        require_trust(code_of(campaign.runs), self.campaign if code_of(whole.runs) else "--layers", trust)
        check(campaign)
        store = Store(self.out or Path("runs") / campaign.name)
        store.begin(campaign, extend=self.select.steps is not None)
        return replace(self.where, trust=trust).run(store, list(campaign.by_key))


@dataclass(frozen=True)
class Status:
    """Show how far a campaign has got, wherever it runs."""

    folder: tyro.conf.Positional[Path]
    """The campaign's folder."""
    all: bool = False
    """Show finished and waiting runs, too, not only those under way, stopped or failed."""

    def run(self) -> int:
        """Print counts, runs, and the tracebacks of failed runs."""
        store, console = Store(self.folder), Console()
        runs = list(store.progress())
        shown = [run for run in runs if self.all or run.state not in ("done", "waiting")]
        if shown:
            console.print(table(shown, names([run.key for run in shown]), console.width))
        for run in runs:
            if run.state == "failed":
                text = noted_error(store.folder(run.key))
                console.print(f"{run.key} failed (slewrl campaign retry {self.folder}):\n{text}", style="red")
        counts = Counter(run.state for run in runs)
        parts = [Text(f"{count} {state}", style=COLOURS[state]) for state, count in counts.most_common()]
        console.print(f"{store.campaign().name}: {len(runs)} runs, ", Text(", ").join(parts), sep="")
        return 0


@dataclass(frozen=True)
class Retry:
    """Run what failed or was stopped again, each run from its last checkpoint."""

    folder: tyro.conf.Positional[Path]
    """The campaign's folder."""
    where: Annotated[Where, tyro.conf.arg(name="")] = Where()

    def run(self) -> int:
        """Make the failed and stopped runs."""
        store = Store(self.folder)
        states = {run.key: run.state for run in store.progress()}
        keys = [key for key in self.where.mine(list(states)) if states[key] in ("failed", "stopped")]
        if not keys:
            Console().print("nothing failed and nothing was stopped")
            return 0
        known = store.campaign().by_key
        require_trust(code_of(known[key] for key in keys), self.folder, self.where.trust)
        return replace(self.where, shard=None).run(store, keys)


@dataclass(frozen=True)
class Collect:
    """Copy what a report needs of every finished run (CSV and JSON, no checkpoints) to a folder to commit."""

    folder: tyro.conf.Positional[Path]
    """The campaign's folder."""
    to: tyro.conf.Positional[Path]
    """Where to, e.g. results/first."""

    def run(self) -> int:
        """Copy the runs and print their number."""
        count = Store(self.folder).collect(self.to)
        after = f"; next: slewrl report {self.to}" if count else ": there is nothing to report yet"
        Console().print(f"{count} finished runs in ", bold(self.to), after, sep="")
        return 0


@dataclass(frozen=True)
class List:
    """List the built-in campaigns."""

    def run(self) -> int:
        """Print a table."""
        from slewrl.campaign.grids import CAMPAIGNS

        shown = number_table("campaign", "runs", "steps", "what for", text=("campaign", "what for"))
        for name, make in CAMPAIGNS.items():
            campaign = make()
            total = sum(run.steps for run in campaign.runs)
            shown.add_row(name, str(len(campaign.runs)), f"{total:,}", campaign.about)
        Console().print(shown)
        return 0


@dataclass(frozen=True)
class CampaignCommand:
    """Run many training runs as one: the paper's grids, ours, or your own."""

    command: Annotated[Run | Status | Retry | Collect | List, tyro.conf.arg(name="")]

    def run(self) -> int:
        """Run the subcommand."""
        return self.command.run()


def code_of(runs: Iterable[RunSpec]) -> list[str]:
    """The code that runs would import besides slewrl's own."""
    return [what for spec in runs for what in code_named(spec.task, spec.layer, spec.agent)]


def check(campaign: Campaign) -> None:
    """Refuse a campaign with a run that could not begin, before anything is written."""
    from slewrl.training.checks import check_spec

    seen = set()
    for spec in campaign.runs:
        kind = str(replace(spec, seed=0))
        if kind not in seen or spec.seed < 0:  # a seed changes nothing else, and making an environment takes time
            seen.add(kind)
            check_spec(spec)
