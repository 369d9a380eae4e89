"""What would give garbage without a word: refused, unless the user has said that it is meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clnr.errors import DataError, one_line, option
from clnr.support.humanize import plural
from clnr.tables.columns.column_types import ColumnEncoder
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.io.sql import Connection, plain_id, run
from clnr.tables.kinds import qualified_name
from clnr.tables.node_rows import StagedKind, StagedNodes
from clnr.tables.roles import columns_called

# The most edges with an end that is no node, of all, that are left out unasked.
_MOST_UNKNOWN = 0.5
# A column gives the label away if it alone is wrong this rarely, for every node that the commonest class is wrong about.
_WRONG_SHARE, _LEAST_LABELLED, _LEAST_ACCURACY = 0.05, 20, 0.95
_BINS = 64
_MOST_CATEGORIES = 1000
_NUMBERS = ("number", "time", "boolean")
# The most columns, and values of these, that are looked at together.
_QUERY_COLUMNS, _QUERY_VALUES = 100, 1 << 22
_ALIKE_SHARE = 0.5


def check_unknown_ends(db: Connection, title: str, nodes: str, asked: str | None, counts: dict[str, int]) -> list[str]:
    """Count the edges that have an end which is no node; raise if they are most of them, unless the user drops them."""
    run(db, "CREATE TEMP TABLE unknown AS SELECT s AS id FROM edges UNION SELECT t FROM edges", title)
    run(db, "DELETE FROM unknown WHERE id IN (SELECT id FROM ids)", title)
    of_edges = "edges WHERE s IN (SELECT id FROM unknown) OR t IN (SELECT id FROM unknown)"
    ((lost, first),) = run(db, f"SELECT count(*), (SELECT min(id) FROM unknown) FROM {of_edges}", title)
    counts["unknown"] = int(lost)
    if not lost:
        return []
    ((rows,),) = run(db, "SELECT count(*) FROM edges", title)
    unknown = f"an end that is not in {nodes}, such as '{one_line(first, 80)}'"
    if asked is None and lost > _MOST_UNKNOWN * rows:
        ways = f"{option('unknown_ends', 'keep')} makes nodes of them, {option('unknown_ends', 'drop')} leaves the edges out"
        ((node,),) = run(db, "SELECT id FROM ids LIMIT 1", title)
        found = f"{lost:,} of {plural(rows, 'edge')} {'has' if lost == 1 else 'have'} {unknown}"
        raise DataError(f"{title}: {found}; ids there are such as '{one_line(node, 80)}'; {ways}")
    return [f"left out: {plural(lost, 'edge')} of {counts['rows']:,} with {unknown}"]


def check_labels_hidden(db: Connection, staged: StagedNodes, encoder: FeatureEncoder, asked: tuple[str, ...]) -> None:
    """Raise if a feature alone tells the label of nearly every node, unless the user has named it as a feature."""
    label = staged.label
    if label is None:
        return
    of_kind = next(each for each in staged.kinds if each.roles.label is not None)
    value = plain_id(staged.table.columns[label].sql)
    sizes = f"SELECT count(*) AS n FROM (SELECT {value} AS v FROM node_rows) WHERE v IS NOT NULL GROUP BY v"
    ((labelled, commonest),) = run(db, f"SELECT sum(n), max(n) FROM ({sizes})", of_kind.table.name)
    if not labelled or labelled < _LEAST_LABELLED or commonest == labelled:
        return
    named = {qualified_name(of.kind, name) for of in staged.kinds for name in columns_called(asked, of.table, of.kind)}
    single = [each for each in encoder.columns if each.kind in _NUMBERS or each.kind == "category"]
    there = [each for each in single if each.column in staged.table.columns and each.column not in named]
    some = [each for each in there if len(each.values) + each.buckets <= _MOST_CATEGORIES]
    for each, right in _accuracies(db, staged, of_kind, some, value, int(labelled)):
        wrong, least = 1 - right, (labelled - commonest) / labelled
        if right >= _LEAST_ACCURACY and wrong <= _WRONG_SHARE * least:
            what = f"'{each.column}' alone tells the label '{label}' of {100 * right:.0f} % of the nodes"
            leave = f"if it was filled in after the label, leave it out: {option('ignore', [each.column])}"
            cure = f"{leave}; else name it among {option('features')}"
            raise DataError(f"{of_kind.table.name}: {what}; {cure}")


def _accuracies(
    db: Connection, staged: StagedNodes, of: StagedKind, encoders: Sequence[ColumnEncoder], label: str, labelled: int
) -> Iterator[tuple[ColumnEncoder, float]]:
    """How many labelled nodes have the commonest class of those with their value, or part of the range of values.

    What a single node has tells nothing of others. Columns stand one below the other, as planning a query for each takes long.
    """
    at_once = max(1, min(_QUERY_COLUMNS, _QUERY_VALUES // labelled))
    for first in range(0, len(encoders), at_once):
        some = encoders[first : first + at_once]
        values = [each.sql(staged.table.columns[each.column]) for each in some]
        texts = ", ".join(value if each.kind == "category" else "NULL" for each, value in zip(some, values, strict=True))
        numbers = ", ".join(value if each.kind in _NUMBERS else "NULL" for each, value in zip(some, values, strict=True))
        below = f"unnest(range({len(some)})) AS place, unnest([{texts}]::VARCHAR[]) AS v, unnest([{numbers}]::DOUBLE[]) AS x"
        rows = f"SELECT i, class, {below} FROM (SELECT *, {label} AS class FROM node_rows) WHERE class IS NOT NULL"
        run(db, f"CREATE OR REPLACE TEMP TABLE told AS {rows}", of.table.name)
        bins = f"ntile({_BINS}) OVER (PARTITION BY place ORDER BY x, i)"
        many = f"SELECT place, count(DISTINCT x) > {_BINS} AS many FROM told GROUP BY place"
        part = f"CASE WHEN many AND x IS NOT NULL THEN {bins} ELSE x END AS x"
        binned = f"SELECT place, class, v, {part} FROM told JOIN ({many}) USING (place)"
        pairs = f"SELECT place, v, x, class, count(*) AS n FROM ({binned}) GROUP BY ALL"
        by_value = f"SELECT place, v, x, sum(n) AS total, max(n) AS most FROM ({pairs}) GROUP BY ALL"
        share = "sum(CASE WHEN total > 1 THEN most ELSE 0 END) / sum(total)"
        for place, right in run(db, f"SELECT place, {share} FROM ({by_value}) GROUP BY place ORDER BY place", of.table.name):
            yield some[place], float(right)


def alike_rows(db: Connection, staged: StagedNodes, encoder: FeatureEncoder) -> list[str]:
    """A warning where most rows are the same in every column that makes features."""
    notes = []
    for of in staged.kinds:
        names = [
            each.column for each in encoder.columns if each.column in staged.table.columns and each.node_kind == (of.kind or "")
        ]
        if len(names) < 2:
            continue
        values = ", ".join(f"CAST({staged.table.columns[name].sql} AS VARCHAR)" for name in names)
        sizes = f"SELECT count(*) AS n FROM {of.table.sql} GROUP BY hash({values})"
        ((rows, most),) = run(db, f"SELECT sum(n), max(n) FROM ({sizes})", of.table.name)
        if rows > 2 and most > _ALIKE_SHARE * rows:
            notes.append(
                f"warning: {of.table.name}: {most:,} of {plural(rows, 'row')} are the same in all columns that make features"
            )
    return notes
