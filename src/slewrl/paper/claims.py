"""The paper's statements with numbers in them, and whether our runs bear them out.

A claim has a measure, which takes numbers with their intervals from the runs, and what its rule allows those numbers to
be. Where the paper says "about" or "substantially", the rule says which width it allows. docs/report.md (How a verdict
is made) has the rest; a verdict stands for the budget it was measured at and no other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from slewrl.paper import measures as m
from slewrl.paper.grids import METHODS, TASKS
from slewrl.paper.measures import Measure, Measured
from slewrl.paper.values import STEPS
from slewrl.report.data import Results
from slewrl.report.methods import REFERENCE
from slewrl.report.tables import count_range
from slewrl.report.verdicts import UNDECIDED, Allowed, Verdict, above, below, between, said, verdict


@dataclass(frozen=True)
class Claim:
    """One quantitative statement of the paper."""

    name: str
    says: str
    where: str
    """The paper's section, table or equation."""
    rule: str
    """What is allowed, as text."""
    measure: Measure
    allowed: Allowed
    reads: str = ""
    """Text before each number, where it is not the quantity itself: "off by"."""


@dataclass(frozen=True)
class Finding:
    """A claim and its measurement."""

    claim: Claim
    measured: Measured | None

    @property
    def verdict(self) -> Verdict:
        """The verdict of the numbers."""
        if self.measured is None or self.measured.instead:
            return "not measured here"
        return verdict(list(self.measured.numbers.values()), self.claim.allowed)

    @property
    def judged(self) -> str:
        """The verdict, with a note on a budget below the paper's or the reasons why it is undecided."""
        if self.verdict == "undecided":
            return f"{UNDECIDED}: {'; '.join(self.reasons)}" if self.reasons else UNDECIDED
        budgets = self.measured.budgets if self.measured else {}
        short = any(min(steps) < STEPS[task] for task, steps in budgets.items() if task in STEPS)
        return f"{self.verdict} at this budget" if short and self.verdict != "not measured here" else self.verdict

    @property
    def reasons(self) -> list[str]:
        """Why an undecided claim's numbers decide nothing, each reason once."""
        numbers = self.measured.numbers.values() if self.measured and self.verdict == "undecided" else ()
        return list(dict.fromkeys(number.why for number in numbers if number.why))

    @property
    def said(self) -> str:
        """The numbers as text."""
        if self.measured is None:
            return ""
        texts = [f"{name}: {self.claim.reads}{said(number)}" for name, number in self.measured.numbers.items()]
        texts += [f"{name}: {text}" for name, text in self.measured.beside.items()]
        told = "; ".join(texts)
        if not self.measured.instead:
            return told
        tasks = ", ".join(self.measured.budgets)
        return f"on {tasks} {'with other options' if tasks == m.LAMBDA_TASK else 'instead'}: {told}"

    @property
    def budget(self) -> str:
        """The training budget of the runs, beside the paper's."""
        if self.measured is None:
            return ""
        ours = [steps for there in self.measured.budgets.values() for steps in there]
        paper = [STEPS[task] for task in self.measured.budgets if task in STEPS]
        return f"at {count_range(ours)}" + (f" of {count_range(paper)}" if paper else "") + " steps"


def findings(results: Results) -> list[Finding]:
    """Every claim with its verdict."""
    return [Finding(claim, claim.measure(results)) for claim in CLAIMS]


def rows(found: Sequence[Finding]) -> list[dict[str, str | float | int]]:
    """The findings as rows of a table."""
    return [
        {
            "claim": finding.claim.name,
            "verdict": finding.judged,
            "budget": finding.budget,
            "paper_says": finding.claim.says,
            "where": finding.claim.where,
            "measured": finding.said,
            "rule": finding.claim.rule,
        }
        for finding in found
    ]


BENCHMARK, NOTES = "Section 3.1, Benchmark Performance", "Table 2, notes"
HETEROGENEOUS, SENSITIVITY = "Section 3.2, Heterogeneous Constraints", "Section 3.3, Sensitivity Analysis"
SIMULATION = "Section 4.2, Simulation Results"
SCATTER, DENSITIES = "Appendix H, Reachable Set Scatter of H1 and G1", "Appendix I, Increment Density of H1 and G1"
OTHERS = tuple(method for method in METHODS if method != "ddsrad")
H1, G1 = ("H1-rough", "paper", "fastsac"), ("G1-flat", "paper", "fastsac")
ANT, HUMANOID, CHEETAH = ("Ant-v5", "tight", "sac"), ("Humanoid-v5", "tight", "sac"), ("HalfCheetah-v5", "tight", "sac")

CLAIMS = (
    Claim(
        "zero-violations",
        "CVR = 0: no constrained method breaks a limit",
        f"{BENCHMARK}; {NOTES}",
        "no joint action outside its limit, in exact arithmetic, of any method whose layer promises the limit",
        m.violations,
        between(0, 0),
    ),
    Claim(
        "post-raw-violations",
        "Post(QP) shows a CVR above 0 under tight limits",
        BENCHMARK,
        "what its critic sees is outside the limits at times; what is executed never is",
        m.everywhere(m.raw_rate, "post", agents=("sac",)),
        above(0.0),
    ),
    Claim(
        "highest-return",
        "DD-SRad has the highest return in all 8 configurations under tight limits",
        BENCHMARK,
        "its mean return is above the best of the other five in every configuration run",
        m.everywhere(m.lead, "ddsrad", *OTHERS),
        above(0.0),
        "ahead by ",
    ),
    Claim(
        "matches-unconstrained",
        "DD-SRad matches or exceeds the unconstrained upper bound",
        f"Abstract; {BENCHMARK}",
        "at least 95 % of the mean return without a limit",
        m.everywhere(m.ratio, "ddsrad", "none"),
        above(0.95),
    ),
    Claim(
        "coverage",
        "30–50 % more constraint-space coverage than spherical baselines",
        "Abstract; Section 6, Conclusion",
        "utilisation higher than SRad-Strict’s by .30 to .50, SAC: the one reading the paper’s own table bears out",
        m.everywhere(m.more_use, "ddsrad", "srad_ball", agents=("sac",)),
        between(0.30, 0.50),
    ),
    Claim(
        "dtanh-trails",
        "D-Tanh trails DD-SRad by 5–14 % under SAC",
        f"{BENCHMARK} (the paper’s table gives 2 to 13 %)",
        "5 to 14 % of DD-SRad’s mean return in every task run",
        m.everywhere(m.shortfall, "dtanh", "ddsrad", agents=("sac",)),
        between(0.05, 0.14),
    ),
    Claim(
        "dtanh-uses-more",
        "D-Tanh trails despite a higher utilisation",
        BENCHMARK,
        "D-Tanh’s mean utilisation is higher in every task run",
        m.everywhere(m.more_use, "dtanh", "ddsrad", agents=("sac",)),
        above(0.0),
        "higher by ",
    ),
    Claim(
        "humanoid-dtanh-below-boxpre",
        "On Humanoid, D-Tanh falls below BoxPre+ while DD-SRad leads",
        BENCHMARK,
        "mean returns in the order D-Tanh < BoxPre+ < DD-SRad, SAC",
        m.ascending(*HUMANOID, "dtanh", "boxpre", "ddsrad"),
        above(0.0),
    ),
    Claim(
        "srad-strict-varies",
        "SRad-Strict collapses: CV 68.8 % on Ant, 49.3 % on Humanoid",
        BENCHMARK,
        "CV above 40 % on both, SAC",
        m.together(
            m.cell(*ANT, "srad_ball", m.cv, "CV on Ant", REFERENCE),
            m.cell(*HUMANOID, "srad_ball", m.cv, "CV on Humanoid", REFERENCE),
        ),
        above(40.0),
    ),
    Claim(
        "srad-strict-collapses",
        "SRad-Strict’s return is far below DD-SRad’s",
        f"{BENCHMARK}; Table 2",
        "less than 85 % of it in every configuration run (the paper’s table: 33 to 84 %)",
        m.everywhere(m.ratio, "srad_ball", "ddsrad"),
        below(0.85),
    ),
    Claim(
        "srad-strict-ankles",
        "SRad-Strict uses .081 of the ankles’ limit on Ant, far below the bound of .40",
        BENCHMARK,
        "mean utilisation of the ankles below .20",
        m.cell(*ANT, "srad_ball", m.use_of("ankle"), "ankles", REFERENCE),
        below(0.20),
    ),
    Claim(
        "ball-truncates",
        "A ball of radius min δ uses at most min δ / δ of a wide joint: .40 for δ = .2 and .5",
        f"{BENCHMARK}; Eq. (11)",
        "SRad-Strict’s utilisation of HalfCheetah’s front joints (δ = .5) at most .40",
        m.together(*(m.cell(*CHEETAH, "srad_ball", m.use_of(f"f{part}"), part) for part in ("thigh", "shin", "foot"))),
        between(0.0, 0.40),
    ),
    Claim(
        "boxpre-trails",
        "BoxPre+ trails DD-SRad substantially on Ant: 1998 against 3112",
        BENCHMARK,
        "less than 80 % of its mean return, SAC (the paper’s: 64 %)",
        m.everywhere(m.ratio, "boxpre", "ddsrad", agents=("sac",), tasks=("Ant-v5",)),
        below(0.8),
    ),
    Claim(
        "post-inflated",
        "Post(QP)’s utilisation is inflated by dwelling on the boundary",
        NOTES,
        "higher than BoxPre+’s in every configuration run",
        m.everywhere(m.more_use, "post", "boxpre"),
        above(0.0),
        "higher by ",
    ),
    Claim(
        "utilisation",
        "DD-SRad’s utilisation under tight limits, such as .626 on HalfCheetah with SAC",
        "Table 2",
        "ours within .10 of it in every configuration run",
        m.use_against_paper,
        Allowed(-0.10, 0.10, open=True),
        "off by ",
    ),
    Claim(
        "cheetah-loss",
        "HalfCheetah loses about 40 % of its return under tight limits",
        f"{HETEROGENEOUS} (the paper’s tables give 28 %)",
        "30 to 50 % less than under wide limits at the same budget, DD-SRad with SAC",
        m.lost_under_tight("HalfCheetah-v5"),
        between(0.30, 0.50),
    ),
    Claim(
        "cheetah-loses-most",
        "HalfCheetah loses most of the four tasks under tight limits",
        HETEROGENEOUS,
        "the largest of the four shares lost",
        m.loses_most("HalfCheetah-v5", TASKS),
        above(0.0),
        "more by ",
    ),
    Claim(
        "layered-utilisation",
        "Ant’s hips (δ = .2) and ankles (δ = .5) each approach their own limit",
        HETEROGENEOUS,
        "DD-SRad’s mean utilisation above .40 for both: what a ball of radius .2 could give the ankles at most",
        m.together(
            m.cell(*ANT, "ddsrad", m.use_of("hip"), "hips"), m.cell(*ANT, "ddsrad", m.use_of("ankle"), "ankles")
        ),
        above(0.40),
    ),
    Claim(
        "wide-gaps-narrow",
        "Under wide limits the gaps between methods narrow",
        "Appendix D, Extended Benchmark Performance",
        "(best − worst) / best of the paper’s six, on average, smaller under wide limits than under tight ones",
        m.gaps,
        below(0.0),
    ),
    Claim(
        "small-lambda-wide",
        "λ = 1e-4 costs about 20 % of the return under wide limits: regularisation fails",
        SENSITIVITY,
        "10 to 30 % below the mean of the other λ, Ant with SAC",
        m.swept("wide", m.loss_at_smallest),
        between(0.10, 0.30),
    ),
    Claim(
        "lambda-robust",
        "λ from .001 to 1 converge comparably under wide limits; robust over two orders of magnitude",
        f"{SENSITIVITY}; Section 6, Conclusion",
        "(best − worst) / best at most .15 for λ in [.001, 1], Ant with SAC",
        m.swept("wide", m.spread_between, 0.001, 1.0),
        between(0.0, 0.15),
    ),
    Claim(
        "best-lambda-tight",
        "Under tight limits λ = .01 is best and λ = 1e-4 worst",
        SENSITIVITY,
        "the same best and worst of the sweep, Ant with SAC",
        m.swept("tight", m.extremes, 0.01, 1e-4),
        above(0.0),
    ),
    Claim(
        "best-lambda-wide",
        "Wide limits favour λ = .001",
        SENSITIVITY,
        "the best of the sweep, Ant with SAC",
        m.swept("wide", m.extremes, 0.001),
        above(0.0),
    ),
    Claim(
        "large-lambda-suppresses",
        "λ = 1 suppresses utilisation to about .2 under tight limits",
        SENSITIVITY,
        "mean utilisation of all joints from .10 to .30, Ant with SAC",
        m.swept("tight", m.use_at, 1.0),
        between(0.10, 0.30),
    ),
    Claim(
        "small-lambda-ankles",
        "At λ = 1e-4 the ankles overexpand above .65 under tight limits",
        SENSITIVITY,
        "mean utilisation of the ankles above .65, Ant with SAC",
        m.swept("tight", m.use_at, 1e-4, "ankle"),
        above(0.65),
    ),
    Claim(
        "robots-lead",
        "DD-SRad has the highest return on H1 and on G1",
        SIMULATION,
        "its mean return is above the best of the other five on every robot run",
        m.on_robots(m.lead, "ddsrad", *OTHERS),
        above(0.0),
        "ahead by ",
    ),
    Claim(
        "robots-second",
        "On G1 BoxPre+ is second in return (5213), slightly above D-Tanh (5145)",
        SIMULATION,
        "mean returns in the order D-Tanh < BoxPre+ < DD-SRad",
        m.ascending(*G1, "dtanh", "boxpre", "ddsrad"),
        above(0.0),
    ),
    Claim(
        "boxpre-tracks-worse",
        "BoxPre+ has a 62 % higher velocity error than DD-SRad on G1 (.224 against .138)",
        f"{SIMULATION}; {SCATTER}",
        "higher by at least 31 %, half of that",
        m.on_robots(m.higher("vte"), "boxpre", "ddsrad", tasks=G1[:1]),
        above(0.31),
    ),
    Claim(
        "robots-track-best",
        "DD-SRad has the lowest velocity error of all methods on G1 (.138; Post(QP) .139)",
        f"Table 3; {DENSITIES}",
        "its mean VTE is below the lowest of the other five",
        m.on_robots(m.lowest("vte"), "ddsrad", *OTHERS, tasks=G1[:1]),
        above(0.0),
        "lower by ",
    ),
    Claim(
        "robots-fall-least",
        "DD-SRad falls least on H1: in 48.7 % of episodes",
        f"Table 3; {SIMULATION}",
        "its fall rate is below the lowest of the other five (number: by how many points)",
        m.on_robots(m.lowest("fall_pct"), "ddsrad", *OTHERS, tasks=H1[:1]),
        above(0.0),
    ),
    Claim(
        "robots-ball-falls",
        "SRad-Strict falls in 100 % of episodes on H1 and in 91 % on G1",
        SIMULATION,
        "in more than 80 % on every robot run",
        m.on_robots(m.mean_of("fall_pct"), "srad_ball", reference=REFERENCE),
        above(80.0),
    ),
    Claim(
        "robots-ball-collapses",
        "SRad-Strict’s return collapses on both robots: 1312 against 5473 on G1",
        SIMULATION,
        "less than half of DD-SRad’s mean return on every robot run (the paper’s G1: 24 %)",
        m.on_robots(m.ratio, "srad_ball", "ddsrad"),
        below(0.5),
    ),
    Claim(
        "robots-ball",
        "SRad-Strict uses .08 of the proximal joints’ limit, far below min δ / δ of them, .45",
        SIMULATION,
        "Util-P below .20 on every robot run (min δ / δ is .45 on H1, .25 on G1)",
        m.on_robots(m.mean_of("util_p"), "srad_ball", reference=REFERENCE),
        below(0.20),
    ),
    Claim(
        "robots-balanced",
        "DD-SRad balances proximal and distal joints on H1 (Gap .10)",
        SIMULATION,
        "Gap at most .20",
        m.cell(*H1, "ddsrad", m.mean_of("gap"), "Gap"),
        between(0.0, 0.20),
    ),
    Claim(
        "robots-hips",
        "DD-SRad relies on the hips on G1 (Util-P .40, Util-D about .02, Gap .38)",
        SIMULATION,
        "Util-P above Util-D by at least .19, half of that",
        m.cell(*G1, "ddsrad", m.nearer, "Util-P above Util-D by"),
        Allowed(low=0.19),
    ),
    Claim(
        "boxpre-even",
        "BoxPre+ uses proximal and distal joints nearly equally (Gap about .01)",
        f"{SIMULATION}; {SCATTER}",
        "Gap at most .05 on every robot run (the paper’s table: .02 and .01)",
        m.on_robots(m.mean_of("gap"), "boxpre"),
        between(0.0, 0.05),
    ),
    Claim(
        "robots-post-trails",
        "Post(QP)’s return is about 10 % below DD-SRad’s on G1 (4954)",
        SCATTER,
        "5 to 15 % below it",
        m.on_robots(m.shortfall, "post", "ddsrad", tasks=G1[:1]),
        between(0.05, 0.15),
    ),
)
