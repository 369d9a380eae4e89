"""The paper's quantitative claims, and whether they hold."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass

from clnr import methods
from clnr.paper import result_tables
from clnr.paper.claim_tests import (
    CCA_SSG,
    CLNR,
    GRACE,
    MARGIN,
    Test,
    above,
    between,
    but,
    clusters,
    columns_help,
    faster,
    gain,
    leads,
    less_sensitive,
    like_none,
    rounder,
    rows_gain_on_photo,
    rows_trade,
    under_noise,
)
from clnr.paper.exhibits import EXHIBITS, needs
from clnr.paper.paper_runs.result_set import ResultSet
from clnr.paper.paper_runs.scope import SETS, Scope
from clnr.paper.stats import ClaimResult, Verdict
from clnr.paper.table_format import Row, Table, row, wrapped


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        says: The claim in short, and where the paper makes it.
        tested: How it is tested, and on which runs.
        test: The test.
        effect: What is measured, for the axis of its picture.
        aside: What is worth knowing whatever the verdict is.
    """

    says: str
    tested: str
    test: Test
    effect: str
    aside: str = ""


_BY_SEEDS = "strict accuracy, same seeds; holds if every difference does"
_PLANE = "figure 2's runs; lower is better for both, and a positive difference is a gain"
_LESS_GRACE = "points of accuracy, CLNR less GRACE"
_LESS_OTHER = "points of accuracy, CLNR less the other"
_GAIN = "gain"

_ACCURACY = (
    Claim(
        "CLNR is above GRACE on all data sets but Photo (section 3)",
        _BY_SEEDS,
        above(but("photo"), CLNR, GRACE),
        _LESS_GRACE,
    ),
    Claim(
        "CLNR is above GRACE by up to 1.5 points (the text)",
        "strict accuracy, same seeds: 1.5, after rounding, lies within or below the 95 % interval of the largest mean "
        "difference, corrected for the number of data sets",
        gain(1.5),
        _LESS_GRACE,
        "The largest difference in the paper's own table is 1.4, on PubMed: 83.0 and 81.6.",
    ),
    Claim("CLNR is above GRACE by up to 1.4 points (its own table)", "the same with 1.4", gain(1.4), _LESS_GRACE),
    Claim(
        "CLNR is the best self-supervised method on 6 of 8 data sets (abstract)",
        "strict accuracy of CLNR minus that of each other method, all significant on at least 6",
        leads(6, SETS),
        _LESS_OTHER,
        "The paper compares means; here each lead must be larger than the spread over seeds explains.",
    ),
    Claim(
        "CLNR is above every other self-supervised method on all data sets but CiteSeer (the text)",
        "the same on all 7",
        leads(7, but("citeseer")),
        _LESS_OTHER,
        "On Photo the paper's own table has GRACE above CLNR.",
    ),
    Claim(
        "CLNR is above every other self-supervised method on all but CiteSeer and Photo (its own table)",
        "the same on all 6",
        leads(6, but("citeseer", "photo")),
        _LESS_OTHER,
    ),
    Claim(
        "MVGRL is above CLNR on CiteSeer (section 3)",
        _BY_SEEDS,
        above(("citeseer",), methods.MVGRL, CLNR),
        "points of accuracy, MVGRL less CLNR",
    ),
    Claim(
        "CLNR is above supervised GCN and GAT on all data sets but Physics and ogbn-arxiv (section 3)",
        _BY_SEEDS,
        above(but("physics", "ogbn-arxiv"), CLNR, *result_tables.SUPERVISED),
        _LESS_OTHER,
        "The paper does not say how its GCN and GAT were trained. Ours stop early, by the loss on validation nodes.",
    ),
    Claim(
        "CCA-SSG is above BGRL on all data sets but Computers and ogbn-arxiv (section 3)",
        _BY_SEEDS,
        above(but("computers", "ogbn-arxiv"), CCA_SSG, methods.BGRL),
        "points of accuracy, CCA-SSG less BGRL",
    ),
)
_TIME = (
    Claim(
        "CLNR trains up to 20 times faster than GRACE (the text)",
        "table 3's runs, each made alone: 20 lies within or below the bounds of the largest ratio, which are GRACE's fastest "
        "seed to CLNR's slowest, and the reverse",
        faster(20, result_tables.TIMED_SETS),
        "GRACE's time over CLNR's",
        "Most of it is epochs. On Photo GRACE has 1,000 and CLNR 100: were an epoch of both the same, the ratio would be 10.",
    ),
    Claim(
        "CLNR trains 18.2 times faster than GRACE on Photo (its own table)",
        "the same with 18.2 on Photo",
        faster(18.2, ("photo",)),
        "GRACE's time over CLNR's",
    ),
)
_GEOMETRY = (
    Claim(
        "in two dimensions on Cora, CLNR is significantly more uniform than GRACE (figure 1)",
        "figure 1's runs, same seeds: uniformity",
        rounder,
        "uniformity, GRACE's less CLNR's",
        "The paper draws one run of each.",
    ),
    Claim(
        "column-wise postprocessing improves both alignment and uniformity on 5 of 6 data sets (section 4)",
        f"CLNR against nCLNR, {_PLANE}",
        columns_help,
        _GAIN,
    ),
    Claim(
        "row-wise postprocessing gains alignment and loses uniformity, but on Photo (section 4)",
        f"GRACE against nCLNR, {_PLANE}",
        rows_trade,
        "gain of alignment, loss of uniformity",
    ),
    Claim(
        "row-wise postprocessing gains both on Photo (section 4)",
        f"GRACE against nCLNR, {_PLANE}",
        rows_gain_on_photo,
        _GAIN,
    ),
    Claim(
        "GCLNR lies between CLNR and GRACE (section 4)",
        f"both metrics, {_PLANE}",
        between,
        "how far it is on the right side",
    ),
    Claim(
        "surprisingly, dCLNR is like nCLNR in both (section 4): as the authors ran it, rCLNR",
        f"95 % intervals of the differences, corrected for their number, lie within {MARGIN:g} of zero",
        like_none(methods.RCLNR),
        "difference from nCLNR",
        "As it was run, it divides all columns by one number: a covariance of 1 x 1. No wonder, then.",
    ),
    Claim(
        "true whitening, dCLNR, is like nCLNR in both, as section 4 says",
        "the same",
        like_none(methods.DCLNR),
        "difference from nCLNR",
    ),
)
_ROBUSTNESS = (
    Claim(
        "CLNR is more stable across dimensions than nCLNR and CCA-SSG (section 5)",
        "figure 3's runs: for each seed the range of strict accuracy over dimensions, theirs minus CLNR's",
        less_sensitive,
        "range of accuracy, the other's less CLNR's",
    ),
    Claim(
        "under edge noise, CLNR is above nCLNR, GRACE and CCA-SSG on all data sets but CiteSeer (section 5)",
        "figure 4's runs: for each seed the mean strict accuracy over noise levels above 0, CLNR's minus theirs",
        under_noise(lost=False),
        _LESS_OTHER,
    ),
    Claim(
        "CLNR is the most robust to edge noise (section 5, by its title)",
        "the same runs: for each seed the accuracy without noise minus that mean, theirs minus CLNR's",
        under_noise(lost=True),
        "points lost to noise, the other's less CLNR's",
    ),
    Claim(
        "on Cora, CLNR has the best silhouette, CCA-SSG the best two other scores, GRACE is behind CLNR (appendix B)",
        "table 6's runs: silhouette, Davies-Bouldin and Calinski-Harabasz, each two neighbours in the order",
        clusters,
        "by how much it is before the next",
        "The Calinski-Harabasz score grows with the number of nodes. Ours is of all 2,708; the paper's would fit 1,000.",
    ),
)
SECTIONS = {
    "Accuracy": _ACCURACY,
    "Training time": _TIME,
    "Alignment and uniformity": _GEOMETRY,
    "Dimensions, noise and clusters": _ROBUSTNESS,
}
CLAIMS = tuple(claim for section in SECTIONS.values() for claim in section)


@dataclass(frozen=True)
class TestedClaim:
    """A claim with its number and what its test gave."""

    number: int
    claim: Claim
    result: ClaimResult

    @property
    def name(self) -> str:
        """As in a file name."""
        return f"claim-{self.number:02}"


@dataclass(frozen=True)
class ClaimReport:
    """All claims, tested; ``markdown``, ``latex`` and ``csv`` write them.

    Attributes:
        tested: The claims, in the paper's order.
        notes: How they were tested, and where the runs come from.
    """

    tested: tuple[TestedClaim, ...]
    notes: tuple[str, ...]

    @property
    def count(self) -> str:
        """How many hold."""
        counts = Counter(each.result.verdict for each in self.tested)
        hold, fail, open_ = (counts[verdict] for verdict in (Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED))
        return f"Of {len(self.tested)} claims {hold} hold, {fail} fail and {open_} are undecided."

    def markdown(self, pictures: Container[str] = ()) -> str:
        """A page of them, with the pictures that there are, by ``TestedClaim.name``."""
        overview = [row(verdict, ", ".join(_numbers(self.tested, verdict)) or "none") for verdict in Verdict]
        parts = [
            "## The paper's claims",
            f"{self.count} A picture shows what was measured: means with 95 % intervals, blue where they are as the paper "
            "says, orange where they are the other way, grey where the seeds do not tell. A triangle at the edge is a mean "
            "beyond it. [Every difference](claims.csv) is a line of a table.",
            Table("", "", ("Verdict", "Claims"), (tuple(overview),), text_columns=2).pipe_table(),
        ]
        numbered = iter(self.tested)
        for title, claims in SECTIONS.items():
            parts.append(f"### {title}")
            for each in itertools.islice(numbered, len(claims)):
                parts += _paragraphs(each, each.name in pictures)
        parts += ["### How they are tested", *self.notes]
        return "\n\n".join(wrapped(part) for part in parts) + "\n"

    def latex(self) -> str:
        """As a table: claim, verdict, and the verdict in words."""
        rows = tuple(row(each.claim.says, each.result.verdict, each.result.words) for each in self.tested)
        head = ("Claim", "Verdict", "In words")
        return Table("claims", "The paper's claims", head, (rows,), (self.count, *self.notes), text_columns=3).latex()

    def csv(self) -> str:
        """Every difference behind them, one a line."""
        rows = tuple(line for each in self.tested for line in _lines(each))
        head = ("claim", "says", "verdict", "what", "mean", "low", "high", "p", "this one", "seeds", "seeds to decide it")
        return Table("claims", "", head, (rows,)).csv()


def report(scope: Scope, results: ResultSet) -> ClaimReport:
    """Test every claim."""
    batches = needs(EXHIBITS, scope)
    here = results.on_one_platform(batches)
    tested = tuple(TestedClaim(number, claim, claim.test(scope, here)) for number, claim in enumerate(CLAIMS, 1))
    notes = (
        "Differences are tested by Wilcoxon's signed-rank test on pairs of equal seeds, two-sided and exact; where a method "
        "has half as many seeds or fewer, by the Mann-Whitney test on all seeds. Only runs of one machine and precision are "
        "compared. The level is 5 %, corrected within each claim for the number of comparisons by Holm's method. A comparison "
        "that is not significant, or that has too few runs, is undecided. Intervals are Student's t, with Bonferroni's "
        "correction: they may touch zero where the test does not.",
        'Of what is open, "some 100 seeds" means: so many would decide it in four of five trials, if mean and spread are what '
        "was measured.",
        *([scope.caution] if scope.caution else []),
        here.provenance(f"clnr {'paper' + scope.words if scope.words else 'claims'}", batches),
    )
    return ClaimReport(tested, notes)


def _numbers(tested: Iterable[TestedClaim], verdict: Verdict) -> list[str]:
    return [str(each.number) for each in tested if each.result.verdict is verdict]


def _paragraphs(each: TestedClaim, drawn: bool) -> list[str]:
    claim, result = each.claim, each.result
    says = claim.says[0].upper() + claim.says[1:]
    parts = [f"#### {each.number}. {says}", f"**{result.verdict.capitalize()}.** {result.words}"]
    if claim.aside:
        parts.append(claim.aside)
    if drawn:
        parts.append(f"![{claim.effect}, with 95 % intervals]({each.name}.svg)")
    return [*parts, f"*Tested by:* {claim.tested}."]


def _lines(each: TestedClaim) -> list[Row]:
    names = (str(each.number), each.claim.says, each.result.verdict)
    lines = [
        row(
            *names,
            effect.what,
            *(f"{effect.bounds[i]:.6g}" for i in (1, 0, 2)),
            "" if effect.p is None else f"{effect.p:.3g}",
            effect.verdict,
            str(effect.seeds or ""),
            str(effect.needed or ""),
        )
        for effect in each.result.effects
    ]
    return lines + [row(*names, what, *[""] * 4, "too few runs", "", "") for what in each.result.missing]
