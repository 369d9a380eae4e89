"""Drawing the paper's four figures and what its claims are judged by: legible at column width, also if colour-blind."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clnr.graph.csr import Array
from reproduce import figures
from reproduce.claim_verdicts import ClaimResult, Effect, Verdict
from reproduce.paper_runs.run_index import ResultSet, title_of
from reproduce.paper_runs.scope import Scope

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours (2008), each with its own marker.
_STYLES = {
    "nCLNR": ("#999999", "s"),
    "CLNR": ("#D55E00", "o"),
    "dCLNR": ("#CC79A7", "v"),
    "rCLNR": ("#F0E442", "^"),
    "GRACE": ("#0072B2", "D"),
    "GCLNR": ("#56B4E9", "P"),
    "CCA-SSG": ("#009E73", "X"),
}
_OTHER_STYLE = ("#000000", "*")
_PANELS_PER_ROW = 3
# Inches and points of a printed page, so that fonts keep their size.
_WIDTH_INCHES = 6.5
_SMALL_POINTS, _LARGE_POINTS = 7, 8.5


def circle(scope: Scope, results: ResultSet) -> Figure | None:
    """Figure 1: a row for each method: distances of positive pairs, all nodes by angle, and three single classes."""
    batches = {batch: summary for batch in figures.circle_batches(scope) if (summary := results.run_index.find(batch))}
    if not batches:
        return None
    figure, axes = _axes(len(batches), 5, 1.5)
    for line, (batch, summary) in zip(axes, batches.items(), strict=True):
        first = summary.runs[0]
        points = first.extra_metrics["points"]
        u, v, classes = (np.array(points[name]) for name in ("u", "v", "classes"))
        _distances(line[0], batch.method.name, np.linalg.norm(u - v, axis=1))
        _ring(line[1], u, f"all nodes\nuniformity {first.uniformity:.2f}", "#0072B2")
        largest = np.argsort(-np.bincount(classes), kind="stable")[:3]
        for axis, each in zip(line[2:], sorted(largest), strict=False):
            _ring(axis, u[classes == each], f"class {each}\n{int((classes == each).sum())} nodes", "#D55E00")
    return figure


def _distances(axis: Axes, method: str, distance: Array) -> None:
    axis.hist(distance, bins=30, range=(0, 2), color="#0072B2")
    axis.axvline(distance.mean(), color="#D55E00", linestyle="--", linewidth=1.5)
    axis.set_title(f"positive pairs\nmean distance {distance.mean():.2f}", fontsize=_SMALL_POINTS)
    axis.set(xlim=(0, 2))
    axis.set_xlabel("distance", fontsize=_SMALL_POINTS)
    axis.set_ylabel(method, fontsize=_LARGE_POINTS, fontweight="bold")


def _ring(axis: Axes, points: Array, title: str, colour: str) -> None:
    """Points on the unit circle, with a histogram of their directions around it."""
    angle = np.arctan2(points[:, 1], points[:, 0])
    count, edge = np.histogram(angle, bins=36, range=(-math.pi, math.pi))
    middle = (edge[:-1] + edge[1:]) / 2
    height = 0.9 * count / max(1, count.max())
    for direction, length in zip(middle, height, strict=True):
        wedge = direction + np.array([-1, 1, 1, -1]) * math.pi / 40
        radius = 1.08 + np.array([0, 0, length, length])
        axis.fill(radius * np.cos(wedge), radius * np.sin(wedge), color=colour, linewidth=0)
    axis.scatter(points[:, 0], points[:, 1], s=3, color="#000000", alpha=0.4, linewidths=0)
    axis.set(xlim=(-2.05, 2.05), ylim=(-2.05, 2.05), aspect="equal", xticks=[], yticks=[])
    axis.set_title(title, fontsize=_SMALL_POINTS)
    for side in axis.spines.values():
        side.set_visible(False)


def plane(scope: Scope, results: ResultSet) -> Figure | None:
    """Figure 2: a panel for each data set, a mark for each method, coloured by strict accuracy."""
    from matplotlib.lines import Line2D

    panels = []
    for name in scope.sets(figures.SIX_SETS):
        summaries = {each.name: results.run_index.find(scope.batch(each, name)) for each in scope.lineup(figures.ABLATION)}
        means = {
            method: tuple(summary.mean(metric) for metric in ("uniformity", "alignment", "strict"))
            for method, summary in summaries.items()
            if summary is not None
        }
        panels += [(name, means, _top([y for _, y, _ in means.values()]))] if means else []
    if not panels:
        return None
    figure, axes = _grid(len(panels), 2.05)
    for axis, (name, means, top) in zip(axes, panels, strict=True):
        values = [strict for _, _, strict in means.values()]
        # A method that fails outright would leave one colour for all others.
        low = max(min(values), sorted(values)[len(values) // 2] - 5)
        for method, (x, y, strict) in means.items():
            _, marker = _STYLES.get(method, _OTHER_STYLE)
            drawn = axis.scatter(
                x, min(y, top), c=[strict], vmin=low, vmax=max(values), cmap="viridis", marker=marker, s=36,
                edgecolors="#000000", linewidths=0.6, zorder=3,
            )  # fmt: skip
            if y > top:
                axis.annotate(f"({y:.2f})", (x, top), (6, -2), textcoords="offset points", fontsize=_SMALL_POINTS)
        axis.set_title(title_of(name), fontsize=_LARGE_POINTS)
        axis.grid(alpha=0.25)
        axis.margins(0.22)
        bar = figure.colorbar(drawn, ax=axis, pad=0.02)
        bar.ax.tick_params(labelsize=_SMALL_POINTS)
        if axis in axes[_PANELS_PER_ROW - 1 :: _PANELS_PER_ROW] or axis is axes[-1]:
            bar.set_label("strict accuracy, %", fontsize=_SMALL_POINTS)
    figure.supxlabel("uniformity (lower is better)", fontsize=_LARGE_POINTS)
    figure.supylabel("alignment (lower is better)", fontsize=_LARGE_POINTS)
    names = dict.fromkeys(method for _, means, _ in panels for method in means)
    styles: dict[str, Any] = {"linestyle": "", "color": "#FFFFFF", "markeredgecolor": "#000000", "markeredgewidth": 0.6}
    handles = [Line2D([], [], marker=_STYLES.get(each, _OTHER_STYLE)[1], label=each, **styles) for each in names]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(names), frameon=False, fontsize=_LARGE_POINTS)
    return figure


def _top(values: list[float]) -> float:
    """Where a panel ends: at the largest value, unless that is far above all others and would leave them no room."""
    *rest, largest = sorted(values)
    return 1.6 * rest[-1] if rest and largest > 2 * rest[-1] > 0 else largest


def curves(shown: figures.Curves, scope: Scope, results: ResultSet) -> Figure | None:
    """A panel for each data set, a curve for each method with its standard deviation as a band: strict accuracies."""
    panels, columns = [], scope.some(shown.values)
    for name in scope.sets(figures.FIVE_SETS):
        curves: dict[str, list[tuple[float, float, float]]] = {}
        for method, value in itertools.product(scope.lineup(figures.CURVE_METHODS), columns):
            if (summary := results.run_index.find(shown.batch(scope, method, name, value))) is not None:
                values = summary.accuracy("strict")
                curves.setdefault(method.name, []).append((value, values["mean"], values["std"]))
        panels += [(name, curves)] if curves else []
    if not panels:
        return None
    figure, axes = _grid(len(panels), 1.9)
    for axis, (name, curves) in zip(axes, panels, strict=True):
        for label, points in curves.items():
            colour, marker = _STYLES.get(label, _OTHER_STYLE)
            x, y, spread = (np.array(part) for part in zip(*points, strict=True))
            axis.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=1.2, label=label)
            axis.fill_between(x, y - spread, y + spread, color=colour, alpha=0.15, linewidth=0)
        axis.set_title(title_of(name), fontsize=_LARGE_POINTS)
        axis.grid(alpha=0.25)
        if shown.log_scale:
            axis.set_xscale("log", base=2)
            axis.minorticks_off()
        axis.set_xticks(columns, [str(each) for each in columns])
    figure.supxlabel(shown.axis, fontsize=_LARGE_POINTS)
    figure.supylabel("strict accuracy, %", fontsize=_LARGE_POINTS)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=_LARGE_POINTS)
    return figure


_VERDICT_COLOURS = {Verdict.HOLDS: "#0072B2", Verdict.FAILS: "#D55E00", Verdict.UNDECIDED: "#999999"}


def effects(result: ClaimResult, what: str) -> Figure | None:
    """What was measured for a claim: a line for each mean with its interval, coloured by what it says.

    Effects named "A on B" of several A and several B have a panel for each B; others are in one panel. A panel's scale is not
    stretched by a few large ones: they are triangles at the edge.
    """
    if not result.effects:
        return None
    panels = _panels(result.effects)
    columns = min(len(panels), _PANELS_PER_ROW + 1)
    rows = -(-len(panels) // columns)
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    height = 0.17 * len(names) + (0.35 if len(panels) > 1 else 0.2) + 0.35 / rows
    figure, axes = _grid(len(panels), height, columns)
    for place, (axis, (title, panel)) in enumerate(zip(axes, panels.items(), strict=True)):
        left, right = _limits(list(panel.values()), result.line, result.margin)
        if title:
            axis.set_title(title, fontsize=_SMALL_POINTS)
        if result.margin:
            axis.axvspan(result.line - result.margin, result.line + result.margin, color="#009E73", alpha=0.15, linewidth=0)
        axis.axvline(result.line, color="#000000", linewidth=0.7)
        for name, effect in panel.items():
            _effect(axis, names.index(name), effect, left, right)
        axis.set_yticks(range(len(names)), names if place % columns == 0 else [""] * len(names))
        axis.set(xlim=(left, right), ylim=(len(names) - 0.5, -0.5))
        axis.locator_params(axis="x", nbins=8 if columns == 1 else 4)
        axis.grid(axis="x", alpha=0.25)
        axis.tick_params(length=2)
    figure.supxlabel(what, fontsize=_SMALL_POINTS)
    return figure


def _panels(effects: Sequence[Effect]) -> dict[str, dict[str, Effect]]:
    """Effects by panel, and there by the name of their line."""
    pairs = [(effect.what.rpartition(" on ")[::2], effect) for effect in effects]
    first, second = ({names[side] for names, _ in pairs} for side in (0, 1))
    several = len(first) > 1 and len(second) > 1
    panels: dict[str, dict[str, Effect]] = {}
    for (one, other), effect in pairs:
        panels.setdefault(other if several else "", {})[one if several else effect.what] = effect
    return panels


def _limits(panel: Sequence[Effect], line: float, margin: float) -> tuple[float, float]:
    """The ends of the scale: those of the intervals, but no farther than four times as far as the middle one."""
    far = sorted(max(abs(end - line) for end in effect.bounds if math.isfinite(end)) for effect in panel)
    most = 4 * max(far[len(far) // 2], margin) or 1.0
    ends = [line - margin, line + margin, *(end for effect in panel for end in effect.bounds if math.isfinite(end))]
    low, high = max(min(ends), line - most), min(max(ends), line + most)
    room = 0.08 * (high - low or 1.0)
    return low - room, high + room


def _effect(axis: Axes, place: int, effect: Effect, left: float, right: float) -> None:
    colour = _VERDICT_COLOURS[effect.verdict]
    low, middle, high = effect.bounds
    axis.plot([max(low, left), min(high, right)], [place, place], color=colour, linewidth=1.2)
    marker = "<" if middle < left else ">" if middle > right else "o"
    axis.plot([min(max(middle, left), right)], [place], color=colour, marker=marker, markersize=4, clip_on=False)


def _grid(count: int, height: float, columns: int = _PANELS_PER_ROW) -> tuple[Figure, list[Axes]]:
    figure, axes = _axes(-(-count // columns), columns, height)
    flat = [axis for line in axes for axis in line]
    for axis in flat[count:]:
        axis.remove()
    return figure, flat[:count]


def _axes(rows: int, columns: int, height: float) -> tuple[Figure, list[list[Axes]]]:
    """Panels that fill the width of a page, each ``height`` inches high."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_INCHES, rows * height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.tick_params(labelsize=_SMALL_POINTS)
    return figure, [list(line) for line in axes]
