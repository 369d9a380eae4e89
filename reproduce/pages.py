"""The pages of the paper: each table and figure, ours beside the authors', and all claims, tested."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from clnr.support.storage import write_bytes
from reproduce import figures, tables
from reproduce.claims import CLAIMS, HOW_TESTED, Claim
from reproduce.figures import DIMENSIONS, NOISES, SMALL_POINTS
from reproduce.formats import Table, page, pipe_table
from reproduce.record import Batch, Record
from reproduce.verdicts import ClaimResult, Effect, Verdict

Fill = Callable[[Record], Table]
Judged = tuple[Claim, ClaimResult]
TABLES: tuple[Fill, ...] = (
    *(tables.architectures, tables.accuracies, tables.times, tables.sizes, tables.settings, tables.clusters),
)
FIGURES: tuple[tuple[Fill, Callable[[Record], Figure | None]], ...] = (
    (figures.circle, figures.draw_circle),
    (figures.plane, figures.draw_plane),
    (DIMENSIONS.table, DIMENSIONS.draw),
    (NOISES.table, NOISES.draw),
)
_COLOURS = {Verdict.HOLDS: "#0072B2", Verdict.FAILS: "#D55E00", Verdict.UNDECIDED: "#999999"}


def needs() -> list[Batch]:
    """All runs behind the paper, the most important first: what its tables and figures ask an empty record for."""
    record = Record()
    first = (tables.accuracies, figures.plane, tables.clusters, figures.circle, tables.times)
    for fill in (*first, NOISES.table, DIMENSIONS.table):
        fill(record)
    return list(dict.fromkeys(record.asked))


def table(number: int, record: Record) -> Table:
    """A table of the paper, with a note on where its numbers come from."""
    return _sourced(TABLES[number - 1], f"table {number}", record)


def _sourced(fill: Fill, command: str, record: Record) -> Table:
    asked = Record(record.lines)
    filled = fill(asked)
    return filled._replace(notes=(*filled.notes, asked.provenance(command)))


def write_figure(number: int, record: Record, folder: Path) -> None:
    """Write a figure as PNG and SVG, its numbers as CSV, and a page that shows it."""
    fill, draw = FIGURES[number - 1]
    filled, drawn = _sourced(fill, f"figure {number}", record), draw(record)
    shown = [f"![{filled.title}]({filled.name}.png)"] if drawn else []
    link = f"All numbers: [{filled.name}.csv]({filled.name}.csv)."
    _write(folder, filled, page(f"## {filled.title}", *shown, link, *filled.notes))
    if drawn:
        write_picture(drawn, folder / f"{filled.name}.png")
        write_picture(drawn, folder / f"{filled.name}.svg")


def write_paper(record: Record, folder: Path) -> None:
    """Write all pages."""
    filled = [table(number, record) for number in range(1, len(TABLES) + 1)]
    for each in (*filled, _sourced(tables.beside, "paper", record)):
        _write(folder, each, each.markdown())
    for number in range(1, len(FIGURES) + 1):
        write_figure(number, record, folder)
    judged, provenance = judge(record)
    for number, (claim, result) in enumerate(judged, 1):
        if drawn := draw_effects(result, claim.effect):
            write_picture(drawn, folder / f"claim-{number:02}.svg")
    _write(folder, claims_table(judged), claims_page(judged, provenance))


def _write(folder: Path, filled: Table, text: str) -> None:
    """Write a page, and a table as CSV beside it."""
    write_bytes(folder / f"{filled.name}.md", text.encode())
    write_bytes(folder / f"{filled.name}.csv", filled.csv().encode())


def write_picture(figure: Figure, path: Path) -> None:
    """Write a figure in the form of the path's ending; the same numbers give the same file."""
    out, form = io.BytesIO(), path.suffix[1:]
    with matplotlib.rc_context({"svg.hashsalt": "clnr", "svg.fonttype": "path"}):
        figure.savefig(out, format=form, dpi=200, metadata={"Date": None} if form == "svg" else {"Software": None})
    write_bytes(path, out.getvalue())


# -- claims ------------------------------------------------------------------------------------------------


def judge(record: Record) -> tuple[list[Judged], str]:
    """Every claim, tested on runs of one platform, and where these come from."""
    batches = needs()
    here = record.on_one_platform(batches)
    judged = [(claim, claim.test(here)) for claim in CLAIMS]
    here.asked = batches
    return judged, here.provenance("paper")


def claims_page(judged: Sequence[Judged], provenance: str) -> str:
    numbers = {
        verdict: [str(number) for number, (_, result) in enumerate(judged, 1) if result.verdict is verdict]
        for verdict in Verdict
    }
    hold, fail, undecided = map(len, numbers.values())
    parts = [
        "## The paper's claims",
        f"Of {len(judged)} claims {hold} hold, {fail} fail and {undecided} are undecided. A picture shows what was "
        "measured: means with 95 % intervals, blue where they are as the paper says, orange where they are the other way, "
        "grey where the seeds do not tell. A triangle at the edge is a mean beyond it. [Every difference](claims.csv) is a "
        "line of a table.",
        pipe_table(("Verdict", "Claims"), [(each, ", ".join(found) or "none") for each, found in numbers.items()], 2),
    ]
    section = ""
    for number, (claim, result) in enumerate(judged, 1):
        parts += [f"### {claim.section}"] if claim.section != section else []
        section = claim.section
        parts.append(f"#### {number}. {claim.says[0].upper()}{claim.says[1:]}")
        parts.append(f"**{result.verdict.capitalize()}.** {result.words}")
        parts += [claim.aside] if claim.aside else []
        parts += [f"![{claim.effect}, with 95 % intervals](claim-{number:02}.svg)"] if result.effects else []
        parts.append(f"*Tested by:* {claim.tested}.")
    return page(
        *parts,
        "### How they are tested",
        *HOW_TESTED,
        provenance,
    )


def claims_table(judged: Sequence[Judged]) -> Table:
    """Every difference behind the claims, one a line."""
    rows = []
    for number, (claim, result) in enumerate(judged, 1):
        names = (str(number), claim.says, result.verdict)
        for what, (low, middle, high), verdict, p, *seeds in result.effects:
            numbers = (f"{middle:.6g}", f"{low:.6g}", f"{high:.6g}", "" if p is None else f"{p:.3g}")
            rows.append((*names, what, *numbers, verdict, *(str(each or "") for each in seeds)))
        rows += [(*names, what, *[""] * 4, "too few runs", "", "") for what in result.missing]
    head = ("claim", "says", "verdict", "what", "mean", "low", "high", "p", "this one", "seeds", "seeds to decide it")
    return Table("claims", "", head, rows)


def draw_effects(result: ClaimResult, what: str) -> Figure | None:
    """What was measured for a claim: a line for each mean with its interval, coloured by what it says.

    Effects named "A on B" of several A and several B have a panel for each B; others are in one panel.
    """
    if not result.effects:
        return None
    pairs = [(effect.what.rpartition(" on ")[::2], effect) for effect in result.effects]
    is_grid = all(len({names[side] for names, _ in pairs}) > 1 for side in (0, 1))
    panels: dict[str, dict[str, Effect]] = {}
    for (one, other), effect in pairs:
        panels.setdefault(other if is_grid else "", {})[one if is_grid else effect.what] = effect
    columns = min(len(panels), 4)
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    height = 0.17 * len(names) + (0.35 if len(panels) > 1 else 0.2) + 0.35 / -(-len(panels) // columns)
    figure, axes = figures.panels(len(panels), height, columns)
    for place, (axis, (title, panel)) in enumerate(zip(axes, panels.items(), strict=True)):
        left, right = _limits(list(panel.values()), result.line, result.margin)
        if title:
            axis.set_title(title, fontsize=SMALL_POINTS)
        if result.margin:
            inside = (result.line - result.margin, result.line + result.margin)
            axis.axvspan(*inside, color="#009E73", alpha=0.15, linewidth=0)
        axis.axvline(result.line, color="#000000", linewidth=0.7)
        for name, effect in panel.items():
            _draw_effect(axis, names.index(name), effect, left, right)
        axis.set_yticks(range(len(names)), names if place % columns == 0 else [""] * len(names))
        axis.set(xlim=(left, right), ylim=(len(names) - 0.5, -0.5))
        axis.locator_params(axis="x", nbins=8 if columns == 1 else 4)
        axis.grid(axis="x", alpha=0.25)
        axis.tick_params(length=2)
    figure.supxlabel(what, fontsize=SMALL_POINTS)
    return figure


def _limits(panel: Sequence[Effect], line: float, margin: float) -> tuple[float, float]:
    """The ends of the scale: those of the intervals, but no farther than four times as far as the middle one."""
    far = sorted(max(abs(end - line) for end in effect.bounds if math.isfinite(end)) for effect in panel)
    most = 4 * max(far[len(far) // 2], margin) or 1.0
    ends = [line - margin, line + margin, *(end for effect in panel for end in effect.bounds if math.isfinite(end))]
    low, high = max(min(ends), line - most), min(max(ends), line + most)
    room = 0.08 * (high - low or 1.0)
    # The last bits differ between machines, and matplotlib names clip paths by all of them.
    return round(low - room, 9), round(high + room, 9)


def _draw_effect(axis: Axes, place: int, effect: Effect, left: float, right: float) -> None:
    low, middle, high = effect.bounds
    colour, marker = _COLOURS[effect.verdict], "<" if middle < left else ">" if middle > right else "o"
    axis.plot([max(low, left), min(high, right)], [place, place], color=colour, linewidth=1.2)
    axis.plot([min(max(middle, left), right)], [place], color=colour, marker=marker, markersize=4, clip_on=False)
