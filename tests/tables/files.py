"""Small files to read tables from, and graphs as what a test compares."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

EDGES = "source,target\na,b\nb,c\n"


def saved(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def written(folder, form, columns, name="n"):
    """Columns by name as a table of some form; in CSV all of them are texts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"{name}.{form}"
    rows = list(zip(*columns.values(), strict=True))
    if form == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([list(columns), *rows])
    elif form in ("json", "jsonl"):
        objects = [dict(zip(columns, row, strict=True)) for row in rows]
        text = json.dumps(objects) if form == "json" else "".join(json.dumps(each) + "\n" for each in objects)
        path.write_text(text, encoding="utf-8")
    else:
        table = pa.table({name: pa.array(values) for name, values in columns.items()})
        if form != "parquet":
            return table.to_pandas() if form == "pandas" else table
        pq.write_table(table, path)
    return path


def pairs(*rows):
    """Edges given as source, target and perhaps weight, as a table of Arrow."""
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [[], []]
    return pa.table(dict(zip(("source", "target", "weight"), map(list, columns), strict=False)))


def nodes(ids, **columns):
    import pyarrow as pa

    return pa.table({"id": list(ids)} | columns)


def dense(graph):
    return graph.features.toarray() if sp.issparse(graph.features) else np.asarray(graph.features)


def edge_weights(graph):
    """The weight of each edge, 1 if there are none, by the ids of its ends."""
    source, target, weight = graph.edges()
    ids = graph.node_ids.tolist()
    weights = [1.0] * len(source) if weight is None else weight.tolist()
    return {(ids[a], ids[b]): w for a, b, w in zip(source.tolist(), target.tolist(), weights, strict=True)}


def kinds_of_columns(graph):
    """The kinds of its column encoders, by column."""
    return {each["column"]: each["kind"] for each in graph.info.encoder["columns"]}


def role_of(graph, table="nodes"):
    """The role of each column of a table."""
    return {each.column: each.role for each in graph.info.columns if each.table == table}


def stored(db, given):
    """An Arrow table, columns by name, or rows in SQL, as ``infer`` and encoders take them."""
    import pyarrow as pa

    from clnr.tables.io.open import describe

    if not isinstance(given, str):
        db.register("given_rows", given if isinstance(given, pa.Table) else pa.table(given))
    table = describe(db, "nodes.csv", f"({given})" if isinstance(given, str) else "given_rows")
    db.execute(f"CREATE OR REPLACE TEMP TABLE t AS SELECT row_number() OVER () - 1 AS i, * FROM {table.sql}")
    return replace(table, sql="t")


def encoded(db, table, encoder):
    """The features of all rows of a stored table, as one array or matrix."""
    parts = list(encoder.blocks(db, table))
    return sp.vstack(parts, format="csr") if encoder.sparse else np.concatenate(parts)
