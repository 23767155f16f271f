"""Renders a certificate as an HTML page."""

from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #ff7b72; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { font-size: 1.25rem; font-weight: 600; color: var(--good); } .failed { color: var(--bad); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td:first-child { min-width: 9rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
code { overflow-wrap: anywhere; font-size: .85rem; } small { opacity: .75; }
"""


def page(certificate: dict[str, Any]) -> str:
    """Render the certificate as one self-contained HTML page."""
    passed, trial = certificate["passed"], certificate["trial"]
    budget = certificate["budget"]
    over = "" if budget is None else f", {trial['over_budget']:,} steps over the budget"
    verdict = (
        f"Passed: {trial['joint_steps']:,} commands to joints checked in exact arithmetic, "
        f"{trial['violations']:,} outside the limits{over}."
        if passed
        else f"NOT passed: {trial['violations']:,} commands outside the limits{over}, "
        f"{trial['bad_observations'] - trial['held']:,} bad observations not held, "
        f"{trial['misbehaved']:,} other failures ({trial['first_misbehaviour'] or 'none'}), "
        f"ONNX parity {'held' if certificate['parity']['passed'] else 'broken'}."
    )
    parts = [
        f"<h1>{escape(certificate['bundle'])}</h1>",
        f"<p><small>slewrl {escape(certificate['slewrl'])}, {escape(certificate['date'])}</small></p>",
        f'<p class="verdict{"" if passed else " failed"}">{escape(verdict)}</p>',
        _section("The file", _table(_file_rows(certificate))),
        _section("The trial", _trial_text(trial) + _table(_trial_rows(trial, budget))),
        _section("Torch and ONNX Runtime", _table(_parity_rows(certificate["parity"]))),
        _section("Time per step on this machine", _table(_latency_rows(certificate["latency_us"]))),
        _section(f"Limits per control step and the first pose, in {certificate['units']}", _limits(certificate)),
        "<p><small>What this does not say: that the policy is good, that the limits are those of your robot, or that "
        "the file comes from who you think it does. Digests find damage; they are no signature.</small></p>",
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
    title = f"<title>{escape(certificate['bundle'])}: certificate</title>"
    return f'<!doctype html><html lang="en"><head>{head}{title}</head><body>{"".join(parts)}</body></html>\n'


def _section(title: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2>{body}"


def _table(rows: dict[str, str]) -> str:
    cells = "".join(
        f'<tr><td>{escape(key)}</td><td class="number">{escape(value)}</td></tr>' for key, value in rows.items()
    )
    return f'<div class="wide"><table>{cells}</table></div>'


def _file_rows(certificate: dict[str, Any]) -> dict[str, str]:
    provenance = certificate["provenance"]
    spec = provenance["spec"]
    return {
        "SHA-256": certificate["sha256"],
        "trained on": f"{spec['task']}, {spec['agent']} with {spec['layer']}, seed {spec['seed']}",
        "at step": f"{provenance['step']:,} of {spec['steps']:,}",
        "control period": f"{float(certificate['dt']):g} s" if certificate["dt"] else "not stated",
    }


def _trial_text(trial: dict[str, Any]) -> str:
    return (
        f"<p>{trial['steps']:,} steps of the controller that runs on the robot, seed {trial['seed']}. Each command "
        "was compared with the one before and with the limits without rounding error. On the way:</p>"
    )


def _trial_rows(trial: dict[str, Any], budget: str | None) -> dict[str, str]:
    return {
        "commands to joints": f"{trial['joint_steps']:,}",
        "outside the limits": f"{trial['violations']:,}",
        **({} if budget is None else {"steps over the budget": f"{trial['over_budget']:,}"}),
        "steps with the network's output replaced by NaN, infinities, edges to the ulp": f"{trial['mad_commands']:,}",
        "observations with NaN or infinity": f"{trial['bad_observations']:,}",
        "of which the last command was held": f"{trial['held']:,}",
        "faults after too many in a row": f"{trial['faults']:,}",
        "restarts and starts, some from outside the range": f"{trial['restarts']:,}",
        "changes of the rates while running": f"{trial['deratings']:,}",
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


def _limits(certificate: dict[str, Any]) -> str:
    budget, start = certificate["budget"], "starts from"
    joints = [{**row, start: x} for row, x in zip(certificate["limits"], certificate["default_pose"], strict=True)]
    columns = ("up", "down", "low", "high", start)
    head = "<th>joint</th>" + "".join(f'<th class="number">{name}</th>' for name in columns)
    rows = [
        f"<tr><td>{escape(str(row['name']))}</td>"
        + "".join(f'<td class="number">{float(row[name]):.6g}</td>' for name in columns)
        + "</tr>"
        for row in joints
    ]
    table = f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'
    if budget is None:
        return table
    spend = f"All joints together spend at most {float(budget):.6g} joints at full rate: the sum of |change| / rate,"
    return f"{table}<p>{spend} in the rates of that step.</p>"
