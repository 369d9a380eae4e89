"""The paper's four figures: the runs that each needs, its numbers as a table, and how it is drawn: legible at column width,
also if colour-blind."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from clnr import methods
from clnr.graph.csr import Array
from clnr.methods import CCA_SSG, CLNR, GRACE, NCLNR, Method
from reproduce.formats import Row, Table
from reproduce.record import SEEDS, Batch, Record, batch
from reproduce.tables import MISSING, OPTIMISTIC, PAIR, accuracy, mean, title_of, values

ABLATION = (NCLNR, CLNR, methods.DCLNR, methods.RCLNR, GRACE, methods.GCLNR)
CURVE_METHODS = (NCLNR, CLNR, GRACE, CCA_SSG)
FIVE_SETS = ("cora", "citeseer", "pubmed", "computers", "photo")
SIX_SETS = (*FIVE_SETS, "physics")
_FEW_SEEDS = 10
_NO_NUMBERS = "The paper prints no numbers for this figure."
_HEAD = ("Alignment", "Uniformity", "strict", "paper rule", "seeds")

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
_PANELS_PER_ROW = 3
# Inches and points of a printed page, so that fonts keep their size.
_WIDTH_INCHES = 6.5
SMALL_POINTS, LARGE_POINTS = 7, 8.5


def _geometry(record: Record, asked: Batch) -> Row:
    """Alignment, uniformity, both accuracies, and the number of seeds."""
    runs = record.find(asked)
    means = [f"{mean(runs, name):.3f}" if runs else MISSING for name in ("alignment", "uniformity")]
    accuracies = (accuracy(runs, protocol, len(runs)) for protocol in ("strict", "paper"))
    return (*means, *accuracies, str(len(runs)))


# -- figure 1 ----------------------------------------------------------------------------------------------


def circle_batch(method: Method) -> Batch:
    """Embeddings of two dimensions, with all nodes in the loss."""
    return batch(method, "cora", _FEW_SEEDS, "points", dimension=2, sampled_nodes=0)


def circle(record: Record) -> Table:
    """Figure 1: validation nodes on the circle."""
    rows = [(each.name, title_of("cora"), *_geometry(record, circle_batch(each))) for each in PAIR]
    notes = (
        "Embeddings of two dimensions, trained with all nodes in the loss: validation nodes in two views unseen in "
        "training, after postprocessing and normalisation. The figure shows seed 0. Lower is better for alignment and "
        f"uniformity. {OPTIMISTIC}",
        _NO_NUMBERS,
    )
    title = "Figure 1. Validation nodes on the circle"
    return Table("figure-1", title, ("Method", "Data set", *_HEAD), rows, notes, text_columns=2)


def draw_circle(record: Record) -> Figure | None:
    """A row for each method: distances of positive pairs, all nodes by angle, and three single classes."""
    drawn = {each.name: runs[0] for each in PAIR if (runs := record.find(circle_batch(each)))}
    if not drawn:
        return None
    columns = 5
    figure, axes = panels(columns * len(drawn), 1.5, columns)
    for row, (method, first) in enumerate(drawn.items()):
        line = axes[columns * row : columns * (row + 1)]
        u, v, classes = (np.array(first.extra_metrics["points"][name]) for name in ("u", "v", "classes"))
        distance = np.linalg.norm(u - v, axis=1)
        line[0].hist(distance, bins=30, range=(0, 2), color="#0072B2")
        line[0].axvline(distance.mean(), color="#D55E00", linestyle="--", linewidth=1.5)
        line[0].set_title(f"positive pairs\nmean distance {distance.mean():.2f}", fontsize=SMALL_POINTS)
        line[0].set(xlim=(0, 2))
        line[0].set_xlabel("distance", fontsize=SMALL_POINTS)
        line[0].set_ylabel(method, fontsize=LARGE_POINTS, fontweight="bold")
        _ring(line[1], u, f"all nodes\nuniformity {first.uniformity:.2f}", "#0072B2")
        largest = np.argsort(-np.bincount(classes), kind="stable")[:3]
        for axis, each in zip(line[2:], sorted(largest), strict=False):
            _ring(axis, u[classes == each], f"class {each}\n{int((classes == each).sum())} nodes", "#D55E00")
    return figure


def _ring(axis: Axes, points: Array, title: str, colour: str) -> None:
    """Points on the unit circle, with a histogram of their directions around it."""
    angle = np.arctan2(points[:, 1], points[:, 0])
    count, edge = np.histogram(angle, bins=36, range=(-math.pi, math.pi))
    height = 0.9 * count / max(1, count.max())
    for direction, length in zip((edge[:-1] + edge[1:]) / 2, height, strict=True):
        wedge = direction + np.array([-1, 1, 1, -1]) * math.pi / 40
        radius = 1.08 + np.array([0, 0, length, length])
        axis.fill(radius * np.cos(wedge), radius * np.sin(wedge), color=colour, linewidth=0)
    axis.scatter(points[:, 0], points[:, 1], s=3, color="#000000", alpha=0.4, linewidths=0)
    axis.set(xlim=(-2.05, 2.05), ylim=(-2.05, 2.05), aspect="equal", xticks=[], yticks=[])
    axis.set_title(title, fontsize=SMALL_POINTS)
    for side in axis.spines.values():
        side.set_visible(False)


# -- figure 2 ----------------------------------------------------------------------------------------------


def plane(record: Record) -> Table:
    """Figure 2: alignment against uniformity."""
    rows = [
        (title_of(name), method.name, *_geometry(record, batch(method, name)))
        for name, method in itertools.product(SIX_SETS, ABLATION)
    ]
    notes = (
        "Measured on validation nodes in two views unseen in training, after postprocessing and normalisation; lower is "
        "better for both. dCLNR is true whitening; rCLNR, one scale for all columns, is what the paper's authors ran as "
        f"dCLNR. A number in brackets is an alignment beyond its panel. {OPTIMISTIC}",
        _NO_NUMBERS,
    )
    title = "Figure 2. Alignment against uniformity"
    return Table("figure-2", title, ("Data set", "Method", *_HEAD), rows, notes, text_columns=2)


def draw_plane(record: Record) -> Figure | None:
    """A panel for each data set, a mark for each method, coloured by strict accuracy."""
    means: dict[str, dict[str, list[float]]] = {}
    for name, method in itertools.product(SIX_SETS, ABLATION):
        if runs := record.find(batch(method, name)):
            numbers = [mean(runs, metric) for metric in ("uniformity", "alignment", "strict")]
            means.setdefault(name, {})[method.name] = numbers
    if not means:
        return None
    figure, axes = panels(len(means), 2.05)
    for axis, marks in zip(axes, means.values(), strict=True):
        accuracies, top = [strict for _, _, strict in marks.values()], _top([y for _, y, _ in marks.values()])
        # A method that fails outright would leave one colour for all others.
        low = max(min(accuracies), sorted(accuracies)[len(accuracies) // 2] - 5)
        for label, (x, y, strict) in marks.items():
            drawn = axis.scatter(
                x, min(y, top), c=[strict], vmin=low, vmax=max(accuracies), cmap="viridis", marker=_STYLES[label][1],
                s=36, edgecolors="#000000", linewidths=0.6, zorder=3,
            )  # fmt: skip
            if y > top:
                axis.annotate(f"({y:.2f})", (x, top), (6, -2), textcoords="offset points", fontsize=SMALL_POINTS)
        axis.margins(0.22)
        bar = figure.colorbar(drawn, ax=axis, pad=0.02)
        bar.ax.tick_params(labelsize=SMALL_POINTS)
        if axis in axes[_PANELS_PER_ROW - 1 :: _PANELS_PER_ROW] or axis is axes[-1]:
            bar.set_label("strict accuracy, %", fontsize=SMALL_POINTS)
    names = dict.fromkeys(label for marks in means.values() for label in marks)
    style: dict[str, Any] = {"linestyle": "", "color": "#FFFFFF", "markeredgecolor": "#000000", "markeredgewidth": 0.6}
    handles = [Line2D([], [], marker=_STYLES[each][1], label=each, **style) for each in names]
    _label(figure, axes, means, "uniformity (lower is better)", "alignment (lower is better)", handles)
    return figure


def _top(values: list[float]) -> float:
    """Where a panel ends: at the largest value, unless that is far above all others and would leave them no room."""
    *rest, largest = sorted(values)
    return 1.6 * rest[-1] if rest and largest > 2 * rest[-1] > 0 else largest


# -- figures 3 and 4 ---------------------------------------------------------------------------------------


class Curves(NamedTuple):
    """A figure with a panel for each data set and a curve for each method: accuracy against ``axis``."""

    number: int
    title: str
    values: tuple[Any, ...]
    batch: Callable[[Method, str, Any], Batch]
    about: str
    axis: str

    def along(self, method: Method, dataset: str) -> list[Batch]:
        return [self.batch(method, dataset, value) for value in self.values]

    def table(self, record: Record) -> Table:
        """The curve of each method under both protocols."""
        rows = []
        for name, method in itertools.product(FIVE_SETS, CURVE_METHODS):
            for protocol, title in (("strict", "strict"), ("paper", "paper rule")):
                batches = self.along(method, name)
                cells = [accuracy(record.find(each), protocol, each.seeds) for each in batches]
                rows.append((title_of(name), method.name, title, *cells))
        head = ("Data set", "Method", "Protocol", *(f"{each:g}" for each in self.values))
        notes = (f"Accuracy in percent against {self.about} {OPTIMISTIC}", _NO_NUMBERS)
        title = f"Figure {self.number}. {self.title}"
        return Table(f"figure-{self.number}", title, head, rows, notes, text_columns=3)

    def draw(self, record: Record) -> Figure | None:
        """Strict accuracies, with their standard deviation as a band."""
        curves: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
        for name, method in itertools.product(FIVE_SETS, CURVE_METHODS):
            for value, each in zip(self.values, self.along(method, name), strict=True):
                if strict := values(record.find(each), "strict"):
                    points = curves.setdefault(name, {}).setdefault(method.name, [])
                    points.append((value, statistics.fmean(strict), statistics.pstdev(strict)))
        if not curves:
            return None
        figure, axes = panels(len(curves), 1.9)
        for axis, lines in zip(axes, curves.values(), strict=True):
            for label, points in lines.items():
                colour, marker = _STYLES[label]
                x, y, spread = (np.array(part) for part in zip(*points, strict=True))
                axis.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=1.2, label=label)
                axis.fill_between(x, y - spread, y + spread, color=colour, alpha=0.15, linewidth=0)
            if self is DIMENSIONS:
                axis.set_xscale("log", base=2)
                axis.minorticks_off()
            axis.set_xticks(self.values, [str(each) for each in self.values])
        handles, _ = axes[0].get_legend_handles_labels()
        _label(figure, axes, curves, self.axis, "strict accuracy, %", handles)
        return figure


DIMENSIONS = Curves(
    3,
    "Accuracy against dimension",
    (64, 128, 256, 512),
    lambda method, name, value: batch(method, name, _FEW_SEEDS, dimension=value, hidden=value),
    f"the embedding dimension, which is also the hidden width; over {_FEW_SEEDS} seeds, or the number in brackets.",
    "dimension",
)
NOISES = Curves(
    4,
    "Accuracy against edge noise",
    (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    lambda method, name, value: batch(method, name, edge_noise=value),
    "p: for each edge, p random edges are added before training, different ones for each seed; the clean graph is "
    f"embedded and evaluated; over {SEEDS} seeds, or the number in brackets.",
    "random edges added, per edge",
)


def panels(count: int, height: float, columns: int = _PANELS_PER_ROW) -> tuple[Figure, list[Axes]]:
    """So many panels, each ``height`` inches high, that fill the width of a page."""
    rows = -(-count // columns)
    figure = Figure(figsize=(_WIDTH_INCHES, rows * height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes:
        axis.tick_params(labelsize=SMALL_POINTS)
    for axis in axes[count:]:
        axis.remove()
    return figure, axes[:count]


def _label(figure: Figure, axes: Sequence[Axes], sets: Iterable[str], x: str, y: str, handles: Sequence[Artist]) -> None:
    """Name panels by their data sets, both scales, and above all what is drawn in them."""
    size = LARGE_POINTS
    for axis, name in zip(axes, sets, strict=True):
        axis.set_title(title_of(name), fontsize=size)
        axis.grid(alpha=0.25)
    figure.supxlabel(x, fontsize=size)
    figure.supylabel(y, fontsize=size)
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=size)
