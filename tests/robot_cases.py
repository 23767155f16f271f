"""Walking runs written by hand: the paper's table of its robots, and each of its claims about them true and false."""

from tiny_campaign import cell

from slewrl.paper.grids import METHODS
from slewrl.paper.values import paper_values
from slewrl.report.methods import LABELS

LEGS = ("left", "right")
JOINTS = {
    "H1-rough": tuple(f"{side}_{j}" for side in LEGS for j in ("hip_yaw", "hip_roll", "hip_pitch", "knee", "ankle")),
    "G1-flat": (
        *(
            f"{side}_{joint}"
            for side in LEGS
            for joint in ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
        ),
        "waist_yaw",
    ),
}
"""In the order of the robots' actions."""
PROXIMAL = {"H1-rough": "hip", "G1-flat": "hip_pitch"}


def walked(task, layer, value=100.0, near=0.4, far=0.1, vte=0.2, fall_pct=10.0, steps=900, budget=2_000, seeds=2):
    """Runs of a robot: ``near``, ``far`` the use of its proximal and distal joints, .9 of the others."""
    use = [near if PROXIMAL[task] in joint else far if "ankle" in joint else 0.9 for joint in JOINTS[task]]
    measures = {"vte": vte, "speed": 0.5, "commanded": 0.6, "fell": fall_pct / 100, "exploded": 0.0, "length": steps}
    fields = {"task": task, "limits": "paper", "agent": "fastsac", "layer": layer, "steps": budget}
    return cell([value] * seeds, use, measures, **fields)


def as_printed(task, budget=2_000, methods=METHODS):
    """The paper's six methods on one robot, with its own numbers."""
    found = []
    for layer in methods:
        names = ("return", "util_p", "util_d", "vte", "fall_pct", "steps")
        numbers = [paper_values()["official", "FastSAC", task, LABELS[layer], name].mean for name in names]
        found += walked(task, layer, *numbers, budget=budget)
    return found


def changed(task, layer, **numbers):
    """The paper's table but for one method's numbers."""
    others = [method for method in METHODS if method != layer]
    return [*as_printed(task, methods=others), *walked(task, layer, **numbers)]


G1, H1 = as_printed("G1-flat"), as_printed("H1-rough")
ROBOT_CASES = {
    "robots-lead": (G1, changed("G1-flat", "post", value=5500)),
    "robots-second": (G1, changed("G1-flat", "dtanh", value=5300)),
    "boxpre-tracks-worse": (G1, changed("G1-flat", "boxpre", vte=0.15)),
    "robots-track-best": (G1, changed("G1-flat", "post", vte=0.137)),
    "robots-fall-least": (H1, changed("H1-rough", "dtanh", fall_pct=40.0)),
    "robots-ball-falls": (H1, changed("H1-rough", "srad_ball", fall_pct=79.0)),
    "robots-ball-collapses": (G1, changed("G1-flat", "srad_ball", value=3000)),
    "robots-ball": (H1, changed("H1-rough", "srad_ball", near=0.21)),
    "robots-balanced": (H1, changed("H1-rough", "ddsrad", near=0.1, far=0.35)),
    "robots-hips": (G1, changed("G1-flat", "ddsrad", near=0.1, far=0.4)),
    "boxpre-even": (G1, changed("G1-flat", "boxpre", near=0.3, far=0.4)),
    "robots-post-trails": (G1, changed("G1-flat", "post", value=5400)),
}
"""Claim -> runs for which it holds, all of them the paper's own numbers, and runs for which it does not."""
