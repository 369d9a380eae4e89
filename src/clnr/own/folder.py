"""The folder that a training leaves: what is in it, written whole or not at all, and read back without trust.

recipe.toml                         method, seed and every number
model.safetensors                   what was learned
embeddings.parquet                  id and vector of each node
metrics.jsonl                       loss of each epoch, and the scores
graph.safetensors, nodes.parquet    the graph, and its table of nodes
tables.json                         how tables became the graph, and its classes
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from clnr import methods
from clnr.edges import Array
from clnr.engine import Reference
from clnr.errors import ClnrError, DataError, MethodError
from clnr.graph import Graph
from clnr.layers import Parameters
from clnr.machine import versions
from clnr.methods import Method
from clnr.own.forms import FORMS, table_of, vectors_of
from clnr.own.learning import Outcome, Trained
from clnr.recipe import Recipe
from clnr.results import without_nan
from clnr.tables import Encoding, Findings, Read
from clnr.tables.columns import check_columns

_REFERENCE = Reference(torch.device("cpu"))
FORM = 1
RECIPE, MODEL, GRAPH = "recipe.toml", "model.safetensors", "graph.safetensors"
TABLES, NODES, VECTORS, METRICS = "tables.json", "nodes.parquet", "embeddings.parquet", "metrics.jsonl"
REPORT = "report.html"
OURS = frozenset([RECIPE, MODEL, GRAPH, TABLES, NODES, VECTORS, METRICS, REPORT, *(name for name, _ in FORMS.values())])
"""Every file that may be in a folder that clnr wrote."""


def save_folder(outcome: Outcome, folder: Path) -> None:
    """Write all but the report into a folder that is there and empty."""
    import pyarrow.parquet as pq
    import safetensors.numpy
    import safetensors.torch

    trained, read = outcome.trained, outcome.read
    if methods.METHODS.get(trained.method.name) != trained.method:
        raise MethodError(f"{trained.method.name} is a method of your own, which nothing could load again; keep its embedding")
    (folder / RECIPE).write_text(_recipe_text(trained), encoding="utf-8")
    parameters = {name: value.contiguous() for name, value in trained.parameters.items()}
    (folder / MODEL).write_bytes(safetensors.torch.save(parameters, {"form": str(FORM)}))
    (folder / GRAPH).write_bytes(safetensors.numpy.save(_arrays(read.graph), {"form": str(FORM)}))
    (folder / TABLES).write_text(_tables_text(read), encoding="utf-8")
    pq.write_table(table_of(read.graph, outcome.z), folder / VECTORS)
    if read.columns is not None:
        pq.write_table(read.columns, folder / NODES)
    (folder / METRICS).write_text(_metrics_text(outcome), encoding="utf-8")


def load_folder(folder: Path) -> Outcome:
    """Read a folder back; what is not as it should be is refused, and nothing in it is ever run."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    if not (folder / RECIPE).is_file():
        raise DataError(f"{folder}: it holds no {RECIPE}, so that clnr embed has not made it")
    trained = _trained(folder)
    with _reading(folder / VECTORS):
        ids, z = vectors_of(folder / VECTORS)
    width = trained.embed(_one_node(trained), _REFERENCE).shape[1]
    if z.shape[1] != width:
        raise DataError(f"{folder / VECTORS}: vectors have {z.shape[1]} numbers, and the model gives {width}")
    read = _read(folder, ids)
    if read.graph.num_features != trained.features:
        raise DataError(
            f"{folder / GRAPH}: nodes have {read.graph.num_features} features, and the model takes {trained.features}"
        )
    losses, scores, remarks = _metrics(folder / METRICS)
    return Outcome(trained, read, z, losses, scores, remarks)


def differences(kept: Outcome, read: Read, method: Method, recipe: Recipe | None, seed: int) -> list[str]:
    """In what a training that was kept is not the one that is asked for; a recipe that is None does not matter."""
    trained = kept.trained
    differs = [] if kept.read.graph.digest == read.graph.digest else ["its tables were others"]
    if trained.method != method:
        differs.append(f"its method is {trained.method.name}")
    if trained.seed != seed:
        differs.append(f"its seed is {trained.seed}")
    if recipe is not None:
        # What is taught by labels is as wide as there are classes.
        keys = [key for key in method.keys if not (method.supervised and key == "dimension")]
        differs += [f"its {key} is {was}" for key in keys if (was := getattr(trained.recipe, key)) != getattr(recipe, key)]
    return differs


# -- the model --------------------------------------------------------------------------------------------------------------


def _recipe_text(trained: Trained) -> str:
    made = "\n".join(f"{name} = {json.dumps(value)}" for name, value in versions().items())
    return (
        f"form = {FORM}\nmethod = {json.dumps(trained.method.name)}\nseed = {trained.seed}\nfeatures = {trained.features}\n\n"
        f"[recipe]\n{trained.recipe.to_toml()}\n[versions]\n{made}\n"
    )


def _trained(folder: Path) -> Trained:
    path = folder / RECIPE
    with _reading(path):
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        _form(given["form"])
        method, recipe = methods.find(str(given["method"])), Recipe.of(given["recipe"])
        seed, features = _count(given["seed"]), _count(given["features"])
    path = folder / MODEL
    with _reading(path):
        import safetensors.torch

        parameters = safetensors.torch.load(path.read_bytes())
    trained = Trained(method, seed, recipe, parameters, features)
    _check_parameters(trained, path)
    return trained


def _check_parameters(trained: Trained, path: Path) -> None:
    """Names and shapes must be those that the method has with this recipe, which are found out without making its numbers."""
    model, given = trained.method.build(trained.recipe), trained.parameters
    with torch.device("meta"):
        fresh = model.init(trained.features, 0)
    _compare(fresh, {name: value for name, value in given.items() if name in fresh}, path)
    settled = model.settle({name: given[name] for name in fresh}, _REFERENCE, _REFERENCE.place(_one_node(trained)))
    _compare(settled, given, path)
    for name, value in given.items():
        if not value.isfinite().all():
            raise DataError(f"{path}: '{name}' has a number that is not finite")


def _compare(expected: Parameters, there: Parameters, path: Path) -> None:
    for name in sorted(expected.keys() | there.keys()):
        if name not in there:
            wrong = "is not there"
        elif name not in expected:
            wrong = "is not of this model"
        elif expected[name].shape != there[name].shape or expected[name].dtype != there[name].dtype:
            wrong = "is of another shape"
        else:
            continue
        raise DataError(f"{path}: it does not fit {RECIPE}: '{name}' {wrong}")


def _one_node(trained: Trained) -> Graph:
    return Graph.from_edges([], [], np.zeros((1, trained.features), np.float32))


# -- the graph --------------------------------------------------------------------------------------------------------------


def _arrays(graph: Graph) -> dict[str, Array]:
    x = graph.features
    features = {"x.start": x.indptr, "x.columns": x.indices, "x.values": x.data} if sp.issparse(x) else {"x": x}
    size = {"size": np.array(x.shape, np.int64)}
    edges = {f"edges.{name}": part for name, part in graph.incoming._asdict().items() if part is not None}
    labels = {} if graph.labels is None else {"labels": graph.labels}
    return {name: np.ascontiguousarray(part) for name, part in (size | features | edges | labels).items()}


def _graph(arrays: Mapping[str, Array], ids: Array) -> Graph:
    nodes, width = (int(each) for each in arrays["size"])
    if nodes != len(ids):
        raise DataError(f"it has {nodes:,} nodes, and {VECTORS} has {len(ids):,}")
    if "x" in arrays:
        features: Any = arrays["x"]
    else:
        parts = (arrays["x.values"], arrays["x.columns"], arrays["x.start"])
        features = sp.csr_array(parts, shape=(nodes, width))
        features.check_format(full_check=True)
    if features.shape != (nodes, width):
        raise DataError("features are not of the size that it says")
    start = arrays["edges.start"]
    if start.shape != (nodes + 1,) or start[0] != 0 or (np.diff(start) < 0).any() or start[-1] != len(arrays["edges.nodes"]):
        raise DataError("its edges are not in compressed rows")
    target = np.repeat(np.arange(nodes), np.diff(start))
    weight, labels = arrays.get("edges.weight"), arrays.get("labels")
    return Graph.from_edges(arrays["edges.nodes"], target, features, weight=weight, labels=labels, ids=ids)


def _tables_text(read: Read) -> str:
    encoding = None if read.encoding is None else json.loads(read.encoding.to_json())
    findings = dataclasses.asdict(read.findings)
    return json.dumps({"form": FORM, "encoding": encoding, "classes": read.classes, "findings": findings}, indent=1)


def _read(folder: Path, ids: Array) -> Read:
    with _reading(folder / GRAPH):
        import safetensors.numpy

        graph = _graph(safetensors.numpy.load((folder / GRAPH).read_bytes()), ids)
    with _reading(folder / TABLES):
        given = json.loads((folder / TABLES).read_text(encoding="utf-8"))
        _form(given["form"])
        encoding = None if given["encoding"] is None else Encoding.from_json(json.dumps(given["encoding"]))
        classes = tuple(str(name) for name in given["classes"])
        findings = _findings(given["findings"])
    columns = None
    if (folder / NODES).is_file():
        with _reading(folder / NODES):
            import pyarrow.parquet as pq

            columns = pq.read_table(folder / NODES)
            check_columns(columns)
            if columns.num_rows != graph.num_nodes:
                raise DataError(f"it has {columns.num_rows:,} rows for {graph.num_nodes:,} nodes")
    return Read(graph, encoding, classes, findings, columns)


def _findings(given: Mapping[str, Any]) -> Findings:
    first = given["first_dangling"]
    counts = {name: _count(given[name]) for name in ("rows", "dangling", "loops", "duplicates", "isolated")}
    return Findings(
        **counts,
        first_dangling=None if first is None else str(first),
        remarks=tuple(str(each) for each in given["remarks"]),
        directed=bool(given["directed"]),
    )


# -- metrics ----------------------------------------------------------------------------------------------------------------


def _metrics_text(outcome: Outcome) -> str:
    lines: list[dict[str, Any]] = [{"epoch": i, "loss": loss} for i, loss in enumerate(outcome.losses, 1)]
    last = {"scores": without_nan(outcome.scores), "remarks": outcome.remarks}
    return "".join(json.dumps(line) + "\n" for line in [*lines, last])


def _metrics(path: Path) -> tuple[tuple[float, ...], dict[str, float], tuple[str, ...]]:
    with _reading(path):
        *epochs, last = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        losses = tuple(float(each["loss"]) for each in epochs)
        scores = {str(name): nan if value is None else float(value) for name, value in last["scores"].items()}
        return losses, scores, tuple(str(each) for each in last["remarks"])


def _form(given: object) -> None:
    if given != FORM:
        raise DataError(f"it is of form {given!r}; this clnr knows forms up to {FORM}: a newer one may read it")


def _count(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ValueError(f"{given!r} is no whole number from 0 on")
    return given


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file becomes one line that names it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: it is not there") from None
    except ClnrError as error:
        raise DataError(f"{path}: {error}") from None
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"{path}: it cannot be read, {said[:200]}") from None
