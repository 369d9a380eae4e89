"""What sets groups of nodes apart: values, words and tags that are commoner in one, and numbers that are larger or smaller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from clnr.errors import shorten
from clnr.graph.csr import Array
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.kinds import kind_of

if TYPE_CHECKING:
    from clnr.embedding.result.nodes import Nodes

_MOST_TRAITS, _MOST_LETTERS = 5, 40
# Cohen's small effect; what a single node has is its own; and a value of fewer nodes says little about the group.
_LEAST_DIFFERENCE, _LEAST_NODES, _LEAST_SHARE = 0.2, 2, 0.05
_LEAST_VARIANCE = 1e-9
# A mean below this share of the standard deviation is 0 but for rounding.
_ZERO = 1e-6
# How far, in standard errors, a title is beyond chance, as many values are compared; its least share inside, and of how many
# nodes that must be known.
_TELLING_ERRORS, _TELLING_SHARE, _TELLING_NODES = 4.0, 0.2, 5
# The share of empty values from which a share is said to be of the others.
_MANY_EMPTY = 0.2


class Trait(NamedTuple):
    """What sets a group of nodes apart from all others.

    Attributes:
        column: The column of the node table; ``label`` for labels without one.
        value: The value, word or tag that is commoner inside; None for a column of numbers.
        inside: Of the nodes with a value in the column, the share that has this one; or the mean of a number, or of a date in
            seconds since 1970.
        outside: The same for all other nodes.
        difference: Standardised: inside less outside, over the standard deviation of all nodes with a value.
        kind: ``share``, ``number`` or ``time``.
        telling: Whether it can name the group: beyond chance, known of five nodes inside and, if it is a value, shared by a
            fifth of them.
        filled: The share of the group's nodes that have a value in the column.
    """

    column: str
    value: str | None
    inside: float
    outside: float
    difference: float
    kind: str
    telling: bool = False
    filled: float = 1.0

    def __str__(self) -> str:
        name = self.column if self.value is None else f"{self.column} '{shorten(self.value, _MOST_LETTERS)}'"
        some = f" of the {self.filled:.0%} with a value" if self.kind == "share" and self.filled < 1 - _MANY_EMPTY else ""
        return f"{name} {self._text(self.inside)} ({self._text(self.outside)}){some}"

    @property
    def short(self) -> str:
        """A word or two: the value, if that says something without its column."""
        if self.value is not None and any(map(str.isalpha, self.value)):
            return shorten(self.value, _MOST_LETTERS)
        return f"{self.column} {self._text(self.inside) if self.value is None else self.value}"

    def _text(self, number: float) -> str:
        if self.kind == "time":
            return str(np.datetime64(round(number), "s")).partition("T")[0]
        return f"{number:.0%}" if self.kind == "share" else f"{number:.4g}"


class _Values(NamedTuple):
    """Numbers of nodes, [n, m]; which nodes may have them, and which do; the names of the m values, None for numbers.

    Numbers were divided by ``scale``, after ``centre`` was subtracted.
    """

    column: str
    names: tuple[str, ...] | None
    kind: str
    numbers: Any
    possible: Array
    known: Array
    scale: float = 1.0
    centre: float = 0.0


def traits_of(nodes: Nodes, sample: Array, groups: Array, count: int) -> list[tuple[Trait, ...]]:
    """What sets each of ``count`` groups apart, by a sample of nodes whose groups are given; by features and labels."""
    traits: list[list[Trait]] = [[] for _ in range(count)]
    for values in _values(nodes, sample):
        for group, trait in _differences(values, groups, count):
            traits[group].append(trait)
    return [
        tuple(sorted(each, key=lambda trait: (not trait.telling, -abs(trait.difference)))[:_MOST_TRAITS]) for each in traits
    ]


def _values(nodes: Nodes, sample: Array) -> Iterator[_Values]:
    everyone = np.ones(len(sample), np.bool_)
    codes = nodes.labels_of(sample)
    if codes is not None:
        classes = np.unique(codes[codes >= 0])
        names = tuple(nodes.graph.info.class_name(label) for label in classes.tolist())
        column, one_hot = nodes.graph.info.label_column, sp.csc_array(codes[:, None] == classes)
        yield _Values(column, names, "share", one_hot, everyone, codes >= 0)
    graph = nodes.graph
    encoder = None if graph.info.encoder is None else FeatureEncoder.of(graph.info.encoder)
    if encoder is None or graph.num_features != encoder.width:
        return
    features: Any = sp.csc_array(graph.take_sparse_features(sample)) if graph.sparse else graph.features[sample].astype("f4")
    kinds = np.array([kind_of(str(each)) for each in nodes.ids[sample].tolist()]) if encoder.node_kinds else None
    first = 0
    for each in encoder.columns:
        block, last = features[:, first : first + each.width], first + each.width + each.missing
        possible = everyone if not each.node_kind or kinds is None else kinds == each.node_kind
        known = possible & (_dense(features[:, last - 1 : last])[:, 0] == 0) if each.missing else possible
        if each.sparse:
            named = block[:, : len(each.values)]
            yield _Values(each.column, each.values, "share", sp.csc_array(named != 0), possible, known)
        elif each.kind != "vector":
            kind = "share" if each.kind == "boolean" else each.kind
            yield _Values(each.column, None, kind, _dense(block), possible, known, each.scale, each.centre)
        first = last


def _dense(block: Any) -> Array:
    return block.toarray() if sp.issparse(block) else block


def _differences(values: _Values, groups: Array, count: int) -> Iterator[tuple[int, Trait]]:
    """The traits of each group that are large enough; of named values, those that are commoner inside."""
    places = np.flatnonzero(values.known)
    member = sp.csr_array((np.ones(len(places)), (groups[places], places)), shape=(count, len(groups)))
    sizes = member.sum(1)[:, None]
    numbers = values.numbers.astype(np.float64)
    inside_sums, inside_squares = (_dense(member @ each) for each in (numbers, numbers * numbers))
    # A group that has none or all of the nodes is not set apart from any.
    with np.errstate(invalid="ignore", divide="ignore"):
        inside = inside_sums / sizes
        outside = (inside_sums.sum(0) - inside_sums) / (len(places) - sizes)
        variance = inside_squares.sum(0) / len(places) - (inside_sums.sum(0) / len(places)) ** 2
        difference = np.where(variance > _LEAST_VARIANCE, (inside - outside) / np.sqrt(variance), 0)
        large = (np.abs(difference) >= _LEAST_DIFFERENCE) & (sizes >= _LEAST_NODES)
        if values.names is not None:
            large &= (difference > 0) & (inside_sums >= _LEAST_NODES) & (inside >= _LEAST_SHARE)
        telling = np.abs(difference) >= _TELLING_ERRORS * np.sqrt(1 / sizes + 1 / (len(places) - sizes))
        telling &= sizes >= _TELLING_NODES
        if values.names is not None:
            telling &= inside >= _TELLING_SHARE
        filled = sizes[:, 0] / np.bincount(groups[values.possible], minlength=count)
    for group, at in zip(*np.nonzero(large), strict=True):
        name = None if values.names is None else values.names[at]
        pair = (float(each[group, at] * values.scale + values.centre) for each in (inside, outside))
        within, beyond = (0.0 if abs(each) < _ZERO * values.scale else each for each in pair)
        how = float(difference[group, at]), values.kind, bool(telling[group, at]), float(filled[group])
        yield int(group), Trait(values.column, name, within, beyond, *how)
