"""Renders a certificate as an HTML page."""

from collections.abc import Mapping
from typing import Any

from slewrl.report.page import Badge, Block, Card, Cell, DataTable, Page, Words

NOT_CHECKED = (
    "That the policy is good, that the limits are those of your robot, or that the file comes from "
    "who you think it does. Digests find damage; they are no signature."
)
BROKEN = ("over_rate", "over_acceleration", "out_of_range")
"""The counts of a trial by the limit that was broken."""


def page(certificate: dict[str, Any]) -> str:
    """Render the certificate as one self-contained HTML page."""
    lead = f"slewrl {certificate['slewrl']}, {certificate['date']}"
    trial, budget = certificate["trial"], certificate["budget"]
    about_trial = Words(
        f"{trial['steps']:,} steps of the controller that runs on the robot, seed {trial['seed']}. Each command "
        "was compared with the one before and with the limits without rounding error. On the way:",
        kind="",
    )
    limits = f"Limits per control step and the first pose, in {certificate['units']}"
    cards = [
        Card("file", "The file", [_facts("The file", _file_rows(certificate))]),
        Card("trial", "The trial", [about_trial, _facts("The trial", _trial_rows(trial, budget))]),
        Card("parity", "Torch and ONNX Runtime", [_facts("Parity", _parity_rows(certificate["parity"]))]),
        Card("time", "Time per step on this machine", [_facts("Time", _latency_rows(certificate["latency_us"]))]),
        Card("limits", limits, _limits(certificate)),
        Card("not", "What this does not say", [Words(NOT_CHECKED)]),
    ]
    return Page(f"{certificate['bundle']}: certificate", lead, _badge(certificate), cards).html()


def _badge(certificate: dict[str, Any]) -> Badge:
    passed, trial = certificate["passed"], certificate["trial"]
    over = "" if certificate["budget"] is None else f", {trial['over_budget']:,} steps over the budget"
    good = (
        f"Passed: {trial['joint_steps']:,} commands to joints checked in exact arithmetic, "
        f"{trial['violations']:,} outside the limits{over}."
    )
    bad = (
        f"NOT passed: {trial['violations']:,} commands outside the limits{over}, "
        f"{trial['bad_observations'] - trial['held']:,} bad observations not held, "
        f"{trial['misbehaved']:,} other failures ({trial['first_misbehaviour'] or 'none'}), "
        f"ONNX parity {'held' if certificate['parity']['passed'] else 'broken'}."
    )
    return Badge(passed, good if passed else bad)


def _facts(name: str, facts: Mapping[str, str]) -> DataTable:
    rows = [(Cell(key, kind="words", head=True), Cell(x, kind="long number")) for key, x in facts.items()]
    return DataTable(name, (), rows)


def _file_rows(certificate: dict[str, Any]) -> dict[str, str]:
    provenance, spec = certificate["provenance"], certificate["provenance"]["spec"]
    return {
        "SHA-256": certificate["sha256"],
        "trained on": f"{spec['task']}, {spec['agent']} with {spec['layer']}, seed {spec['seed']}",
        "at step": f"{provenance['step']:,} of {spec['steps']:,}",
        "control period": f"{float(certificate['dt']):g} s" if certificate["dt"] else "not stated",
    }


def _trial_rows(trial: dict[str, Any], budget: str | None) -> dict[str, str]:
    return {
        "commands to joints": f"{trial['joint_steps']:,}",
        "outside the limits": f"{trial['violations']:,}",
        "of which beyond the rate, the acceleration, the range": ", ".join(f"{trial[key]:,}" for key in BROKEN),
        **({} if budget is None else {"steps over the budget": f"{trial['over_budget']:,}"}),
        "steps with the network's output replaced by NaN, infinities, edges to the ulp": f"{trial['mad_commands']:,}",
        "observations with NaN or infinity": f"{trial['bad_observations']:,}",
        "of which the last command was held, or the joints braked": f"{trial['held']:,}",
        "faults after too many in a row": f"{trial['faults']:,}",
        "restarts and starts, some from outside the range": f"{trial['restarts']:,}",
        "changes of rates and accelerations while running": f"{trial['deratings']:,}",
        "joint steps in which a lower deceleration waited until the joint could stop": f"{trial['waited']:,}",
        "steps with a measured dt (short, late, 0, negative, NaN)": f"{trial['timed_steps']:,}",
        "emergency holds": f"{trial['holds']:,}",
        "ramps to the default pose": f"{trial['ramps']:,}",
        "steps at which a joint moved": f"{trial['moved']:,}",
        "times it did not hold, fault, ramp or start as it should": f"{trial['misbehaved']:,}",
    }


def _parity_rows(parity: dict[str, Any]) -> dict[str, str]:
    return {
        "random inputs": f"{parity['cases']:,}",
        "largest difference, as a share of a joint's range": f"{parity['largest_difference']:.3g}",
        "allowed": f"{parity['tolerance']:.3g}",
        "weights": "those in the file",
    }


def _latency_rows(timing: dict[str, float]) -> dict[str, str]:
    names = {"p50": "median", "p99": "99 % below", "max": "longest", "onnxruntime_p50": "ONNX Runtime alone, median"}
    return {names[key]: f"{value:.1f} us" for key, value in timing.items()}


def _limits(certificate: dict[str, Any]) -> list[Block]:
    budget, start = certificate["budget"], "starts from"
    joints = [{**row, start: x} for row, x in zip(certificate["limits"], certificate["default_pose"], strict=True)]
    moving = [name for name in ("acceleration", "deceleration") if name in joints[0]]
    columns = ("up", "down", *moving, "low", "high", start)
    rows = [
        (Cell(str(row["name"]), head=True), *(Cell(f"{float(row[name]):.6g}", float(row[name])) for name in columns))
        for row in joints
    ]
    table = DataTable("Limits", ("joint", *(f"#{name}" for name in columns)), rows)
    if budget is None:
        return [table]
    spend = f"All joints together spend at most {float(budget):.6g} joints at full rate: the sum of |change| / rate,"
    return [table, Words(f"{spend} in the rates of that step.", kind="")]
