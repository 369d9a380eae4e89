"""All claims of the paper, tested: as a page, as a table, and as every difference behind them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from reproduce import drawing
from reproduce.claim_verdicts import ClaimResult, Verdict
from reproduce.claims import CLAIMS, SECTIONS, Claim
from reproduce.exhibits import EXHIBITS, needs, write_forms, write_picture
from reproduce.paper_runs.run_index import ResultSet
from reproduce.paper_runs.scope import Scope
from reproduce.table_format import Row, Table, row, wrapped


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

    def paragraphs(self, drawn: bool) -> list[str]:
        """Its part of the page."""
        claim, result = self.claim, self.result
        says = claim.says[0].upper() + claim.says[1:]
        parts = [f"#### {self.number}. {says}", f"**{result.verdict.capitalize()}.** {result.words}"]
        if claim.aside:
            parts.append(claim.aside)
        if drawn:
            parts.append(f"![{claim.effect}, with 95 % intervals]({self.name}.svg)")
        return [*parts, f"*Tested by:* {claim.tested}."]

    def rows(self) -> list[Row]:
        """Every difference behind it."""
        names = (str(self.number), self.claim.says, self.result.verdict)
        rows = [
            row(
                *names,
                effect.what,
                *(f"{effect.bounds[i]:.6g}" for i in (1, 0, 2)),
                "" if effect.p is None else f"{effect.p:.3g}",
                effect.verdict,
                str(effect.seeds or ""),
                str(effect.needed or ""),
            )
            for effect in self.result.effects
        ]
        return rows + [row(*names, what, *[""] * 4, "too few runs", "", "") for what in self.result.missing]


@dataclass(frozen=True)
class ClaimReport:
    """All claims, tested, in the paper's order; and notes on how they were tested, and where the runs come from."""

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
        numbers = {one: [str(each.number) for each in self.tested if each.result.verdict is one] for one in Verdict}
        overview = [row(verdict, ", ".join(listed) or "none") for verdict, listed in numbers.items()]
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
                parts += each.paragraphs(each.name in pictures)
        parts += ["### How they are tested", *self.notes]
        return "\n\n".join(wrapped(part) for part in parts) + "\n"

    def latex(self) -> str:
        """As a table: claim, verdict, and the verdict in words."""
        rows = tuple(row(each.claim.says, each.result.verdict, each.result.words) for each in self.tested)
        head = ("Claim", "Verdict", "In words")
        return Table("claims", "The paper's claims", head, (rows,), (self.count, *self.notes), text_columns=3).latex()

    def csv(self) -> str:
        """Every difference behind them, one a line."""
        rows = tuple(line for each in self.tested for line in each.rows())
        head = ("claim", "says", "verdict", "what", "mean", "low", "high", "p", "this one", "seeds", "seeds to decide it")
        return Table("claims", "", head, (rows,)).csv()

    def write(self, folder: Path) -> list[Path]:
        """Write them as a page with a picture of each, as LaTeX, and every difference as CSV."""
        drawn = {each.name: drawing.effects(each.result, each.claim.effect) for each in self.tested}
        pictures = {name: figure for name, figure in drawn.items() if figure is not None}
        written = write_forms(folder / "claims", self.markdown(pictures), self.latex(), self.csv())
        return written + [write_picture(figure, folder / f"{name}.svg") for name, figure in pictures.items()]


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
        'For an open claim, "some 100 seeds" would decide it in four of five trials, if mean and spread are as measured.',
        *scope.cautions,
        here.provenance(f"python -m reproduce {'paper' + scope.words if scope.words else 'claims'}", batches),
    )
    return ClaimReport(tested, notes)
