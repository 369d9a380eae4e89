"""Small files to read tables from, and graphs as what a test compares."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import scipy.sparse as sp

from clnr.tables.columns.feature_encoder import FeatureEncoder

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


def dense(features):
    return features.toarray() if sp.issparse(features) else features


def edge_weights(graph):
    """The weight of each edge, 1 if there are none, by the ids of its ends."""
    source, target, weight = graph.edges()
    ids = graph.ids.tolist()
    weights = [1.0] * len(source) if weight is None else weight.tolist()
    return {(ids[a], ids[b]): w for a, b, w in zip(source.tolist(), target.tolist(), weights, strict=True)}


def columns_of(graph):
    """How each column of the node table was read: its role, or its type."""
    return {each.column: each.type or each.role for each in graph.info.columns if each.table.startswith("nodes")}


def encoder_of(graph):
    return FeatureEncoder.of(graph.info.encoder)
