"""The paper's quantitative claims, and whether they hold."""

from __future__ import annotations

from collections import Counter
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
from clnr.paper.result_set import ResultSet
from clnr.paper.scope import SETS, Scope
from clnr.paper.stats import Verdict
from clnr.paper.table_format import Table, row


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        says: The claim in short, and where the paper makes it.
        tested: How it is tested, and on which runs.
        test: The test.
    """

    says: str
    tested: str
    test: Test


_BY_SEEDS = "strict accuracy, same seeds; holds if every difference does"
_PLANE = "figure 2's runs; lower is better for both, and a positive difference is a gain"

CLAIMS = (
    Claim("CLNR is above GRACE on all data sets but Photo (section 3)", _BY_SEEDS, above(but("photo"), CLNR, GRACE)),
    Claim(
        "by up to 1.5 points (the text)",
        "strict accuracy, same seeds: 1.5, after rounding, lies within or below the 95 % interval of the largest mean "
        "difference, corrected for the number of data sets",
        gain(1.5),
    ),
    Claim("by up to 1.4 points (its own table)", "the same with 1.4", gain(1.4)),
    Claim(
        "CLNR is the best self-supervised method on 6 of 8 data sets (abstract)",
        "strict accuracy of CLNR minus that of each other method, all significant on at least 6",
        leads(6, SETS),
    ),
    Claim(
        "CLNR is above every other self-supervised method on all data sets but CiteSeer (the text)",
        "the same on all 7",
        leads(7, but("citeseer")),
    ),
    Claim("on all but CiteSeer and Photo (its own table)", "the same on all 6", leads(6, but("citeseer", "photo"))),
    Claim("MVGRL is above CLNR on CiteSeer (section 3)", _BY_SEEDS, above(("citeseer",), methods.MVGRL, CLNR)),
    Claim(
        "CLNR is above supervised GCN and GAT on all data sets but Physics and ogbn-arxiv (section 3)",
        _BY_SEEDS,
        above(but("physics", "ogbn-arxiv"), CLNR, *result_tables.SUPERVISED),
    ),
    Claim(
        "CCA-SSG is above BGRL on all data sets but Computers and ogbn-arxiv (section 3)",
        _BY_SEEDS,
        above(but("computers", "ogbn-arxiv"), CCA_SSG, methods.BGRL),
    ),
    Claim(
        "CLNR trains up to 20 times faster than GRACE (the text)",
        "table 3's runs, each made alone: 20 lies within or below the bounds of the largest ratio, which are GRACE's fastest "
        "seed to CLNR's slowest, and the reverse",
        faster(20, result_tables.TIMED),
    ),
    Claim("18.2 times on Photo (its own table)", "the same with 18.2 on Photo", faster(18.2, ("photo",))),
    Claim(
        "in two dimensions on Cora, CLNR is significantly more uniform than GRACE (figure 1)",
        "figure 1's runs, same seeds: uniformity",
        rounder,
    ),
    Claim(
        "column-wise postprocessing improves both alignment and uniformity on 5 of 6 data sets (section 4)",
        f"CLNR against nCLNR, {_PLANE}",
        columns_help,
    ),
    Claim(
        "row-wise postprocessing gains alignment and loses uniformity, but on Photo (section 4)",
        f"GRACE against nCLNR, {_PLANE}",
        rows_trade,
    ),
    Claim("on Photo it gains both (section 4)", f"GRACE against nCLNR, {_PLANE}", rows_gain_on_photo),
    Claim("GCLNR lies between CLNR and GRACE (section 4)", f"both metrics, {_PLANE}", between),
    Claim(
        "surprisingly, dCLNR is like nCLNR in both (section 4): as the authors ran it, rCLNR",
        f"95 % intervals of the differences, corrected for their number, lie within {MARGIN:g} of zero",
        like_none(methods.RCLNR),
    ),
    Claim("the same of true whitening, dCLNR", "the same", like_none(methods.DCLNR)),
    Claim(
        "CLNR is more stable across dimensions than nCLNR and CCA-SSG (section 5)",
        "figure 3's runs: for each seed the range of strict accuracy over dimensions, theirs minus CLNR's",
        less_sensitive,
    ),
    Claim(
        "under edge noise, CLNR is above nCLNR, GRACE and CCA-SSG on all data sets but CiteSeer (section 5)",
        "figure 4's runs: for each seed the mean strict accuracy over noise levels above 0, CLNR's minus theirs",
        under_noise(lost=False),
    ),
    Claim(
        "CLNR is the most robust to it (section 5, by its title)",
        "the same runs: for each seed the accuracy without noise minus that mean, theirs minus CLNR's",
        under_noise(lost=True),
    ),
    Claim(
        "on Cora, CLNR has the best silhouette, CCA-SSG the best Davies-Bouldin and Calinski-Harabasz scores, and CLNR is "
        "before GRACE in all three (appendix B)",
        "table 6's runs: each two neighbours in the order",
        clusters,
    ),
)


def table(scope: Scope, results: ResultSet) -> Table:
    """Every claim, how it is tested, the verdict, and the numbers."""
    batches = needs(EXHIBITS, scope)
    here = results.on_one_platform(batches)
    outcomes = [(claim, claim.test(scope, here)) for claim in CLAIMS]
    rows = tuple(row(claim.says, claim.tested, str(out.verdict), out.numbers) for claim, out in outcomes)
    counts = Counter(out.verdict for _, out in outcomes)
    hold, fail, open_ = (counts[verdict] for verdict in (Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED))
    notes = (
        f"Of {len(CLAIMS)} claims {hold} hold, {fail} fail and {open_} are undecided.",
        "Differences are tested by Wilcoxon's signed-rank test on pairs of equal seeds, two-sided and exact; where a method "
        "has three to five seeds, by the Mann-Whitney test on all seeds. Only runs of one machine and precision are compared. "
        "The level is 5 %, corrected within each claim for the number of comparisons by Holm's method. A comparison that is "
        "not significant, or that has too few runs, is undecided.",
        *([scope.caution] if scope.caution else []),
        here.provenance(f"clnr {'paper' + scope.words if scope.words else 'claims'}", batches),
    )
    return Table(
        "claims", "The paper's claims", ("Claim", "How it is tested", "Verdict", "Numbers"), (rows,), notes, text_columns=4
    )
