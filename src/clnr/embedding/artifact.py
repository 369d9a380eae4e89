"""The folder that a training leaves: what is in it, written whole or not at all, and read back without trust.

recipe.toml                         method, seed and every number
model.safetensors                   what was learned
embeddings.parquet                  id and vector of each node
metrics.jsonl                       loss of each epoch, and the scores
graph.safetensors, nodes.parquet    the graph, and its table of nodes
tables.json                         how tables became the graph, and its classes
digests.json                        SHA-256 of each of these
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from clnr import methods
from clnr.embedding.export import FORMS, table_of, vectors_of
from clnr.embedding.fitting import EmbeddingResult, FittedModel
from clnr.engine import Reference
from clnr.errors import ClnrError, DataError, MethodError
from clnr.experiments.results import without_nan
from clnr.experiments.run import check_seed
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.sparse_formats import check_csr
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.nn.layers import misfit
from clnr.support.atomic_io import OwnedFiles, file_lock, resolve_path, temporary_name, write_atomic
from clnr.support.environment import versions
from clnr.tables import FeatureEncoder, IngestReport, TableGraph
from clnr.tables.columns import check_columns, find_column
from clnr.tables.node_names import can_name
from clnr.tables.source import Column, Table

_REFERENCE = Reference(torch.device("cpu"))
FORMAT_VERSION = 1
RECIPE, MODEL, GRAPH = "recipe.toml", "model.safetensors", "graph.safetensors"
TABLES, NODES, VECTORS, METRICS = "tables.json", "nodes.parquet", "embeddings.parquet", "metrics.jsonl"
REPORT, DIGESTS = "report.html", "digests.json"
_LOADED = (RECIPE, MODEL, GRAPH, TABLES, NODES, VECTORS, METRICS)
_UNFINISHED = [temporary_name(name, what) for name in (REPORT, TABLES, DIGESTS) for what in ("part", "lock")]
_NAMES = frozenset([*_LOADED, DIGESTS, REPORT, *(name for name, _ in FORMS.values()), *_UNFINISHED])


def _marked(folder: Path) -> bool:
    """Whether a folder has a recipe as it is written here; its numbers may be wrong."""
    with contextlib.suppress(OSError), (folder / RECIPE).open("rb") as file:
        return file.read(len(_BEGIN)) == _BEGIN
    return False


_BEGIN = b"form = "
OWNED_FILES = OwnedFiles(_NAMES, _marked)
"""What tells a folder that clnr wrote."""


def save_folder(outcome: EmbeddingResult, folder: Path) -> None:
    """Write all but the report into a folder that is there and empty."""
    import pyarrow.parquet as pq
    import safetensors.numpy
    import safetensors.torch

    trained, read = outcome.trained, outcome.read
    if methods.METHODS.get(trained.method.name) != trained.method:
        raise MethodError(f"{trained.method.name} is a method of your own, which nothing could load again; keep its embedding")
    (folder / RECIPE).write_bytes(_recipe_text(trained).encode())
    parameters = {name: value.contiguous() for name, value in trained.parameters.items()}
    (folder / MODEL).write_bytes(
        safetensors.torch.save(parameters, {"form": str(FORMAT_VERSION), "method": trained.method.name})
    )
    (folder / GRAPH).write_bytes(safetensors.numpy.save(_arrays(read.graph), {"form": str(FORMAT_VERSION)}))
    (folder / TABLES).write_bytes(_tables_text(read).encode())
    pq.write_table(table_of(read.graph, outcome.z), folder / VECTORS)
    if read.columns is not None:
        pq.write_table(read.columns, folder / NODES)
    (folder / METRICS).write_bytes(_metrics_text(outcome).encode())
    (folder / DIGESTS).write_bytes(_digests_text(folder))


def _digests_text(folder: Path) -> bytes:
    digests = {name: _digest(folder / name) for name in _LOADED if (folder / name).is_file()}
    return json.dumps({"form": FORMAT_VERSION, "sha256": digests}, indent=1).encode()


def load_folder(folder: Path) -> EmbeddingResult:
    """Read a folder back; what is not as it should be is refused, and nothing in it is ever run."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    if not (folder / RECIPE).is_file():
        raise DataError(f"{folder}: it holds no {RECIPE}, so that clnr embed has not made it")
    files = _Files.of(folder)
    trained = _trained(files)
    with files.reading(VECTORS) as path:
        ids, z = vectors_of(path)
        width = trained.embed(_bare(trained, 0), _REFERENCE).shape[1]
        if z.shape[1] != width:
            raise DataError(f"vectors have {z.shape[1]} numbers, and the model gives {width}")
    read = _read(files, ids)
    if read.graph.num_features != trained.features:
        raise DataError(
            f"{folder / GRAPH}: nodes have {read.graph.num_features} features, and the model takes {trained.features}"
        )
    losses, scores, remarks = _metrics(files)
    return EmbeddingResult(trained, read, z, losses, scores, remarks)


def name_nodes(kept: EmbeddingResult, column: str, folder: Path) -> EmbeddingResult:
    """Call nodes by a column of their table, from now on: the folder remembers it."""
    columns = kept.read.columns
    if columns is None:
        raise DataError(f"{folder}: there is no table of nodes in it, and so no column '{column}' for names")
    plain = {field.name: Column("", str(field.type)) for field in columns.schema if can_name(field.type)}
    names = find_column(Table(str(folder / NODES), "", plain), column, (), "names")
    read = kept.read._replace(ingest_report=dataclasses.replace(kept.read.ingest_report, names=names))
    with file_lock(resolve_path(folder)):
        # Without digests in between: a folder that has none is read as well.
        (folder / DIGESTS).unlink(missing_ok=True)
        write_atomic(folder / TABLES, _tables_text(read).encode())
        write_atomic(folder / DIGESTS, _digests_text(folder))
    return dataclasses.replace(kept, read=read)


def differences(kept: EmbeddingResult, read: TableGraph, method: Method, recipe: Recipe | None, seed: int) -> list[str]:
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


def _recipe_text(trained: FittedModel) -> str:
    made = "\n".join(f"{name} = {json.dumps(value)}" for name, value in versions().items())
    return (
        f"form = {FORMAT_VERSION}\nmethod = {json.dumps(trained.method.name)}\n"
        f"seed = {trained.seed}\nfeatures = {trained.features}\n\n"
        f"[recipe]\n{trained.recipe.to_toml()}\n[versions]\n{made}\n"
    )


def _trained(files: _Files) -> FittedModel:
    with files.reading(RECIPE) as path:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        _form(given["form"])
        method, recipe = methods.find(str(given["method"])), Recipe.of(given["recipe"])
        seed, features = check_seed(given["seed"]), _count(given["features"])
    with files.reading(MODEL) as path:
        import safetensors

        with safetensors.safe_open(str(path), "pt") as file:
            of = (file.metadata() or {}).get("method", method.name)
            # Copied: the file may be written to while they are in use.
            parameters = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        if of != method.name:
            raise DataError(f"it does not fit {RECIPE}: it was learned by {of!r:.40}, not by {method.name}")
        trained = FittedModel(method, seed, recipe, parameters, features)
        _check_parameters(trained)
        return trained


def _check_parameters(trained: FittedModel) -> None:
    """Names and shapes must be those that the method has with this recipe, which are found out without making its numbers."""
    model, given = trained.method.build(trained.recipe), trained.parameters
    with torch.device("meta"):
        fresh = model.init(trained.features, 0)
    wrong = misfit(fresh, {name: value for name, value in given.items() if name in fresh})
    if wrong is None:
        known = {name: given[name] for name in fresh}
        wrong = misfit(model.finalize(known, _REFERENCE, _REFERENCE.to_device(_bare(trained, 1))) if known else {}, given)
    if wrong is not None:
        raise DataError(f"it does not fit {RECIPE}: {wrong}")
    for name, value in given.items():
        if not value.isfinite().all():
            raise DataError(f"'{name}' has a number that is not finite")


def _bare(trained: FittedModel, nodes: int) -> Graph:
    """A graph of which nothing matters but its sizes."""
    return Graph.from_edges([], [], np.zeros((nodes, trained.features), np.float32))


# -- the graph --------------------------------------------------------------------------------------------------------------


def _arrays(graph: Graph) -> dict[str, Array]:
    x = graph.features
    features = {"x.start": x.indptr, "x.columns": x.indices, "x.values": x.data} if sp.issparse(x) else {"x": x}
    size = {"size": np.array(x.shape, np.int64)}
    incoming = {"start": graph.incoming.indptr, "nodes": graph.incoming.indices, "weight": graph.incoming.weight}
    edges = {f"edges.{name}": part for name, part in incoming.items() if part is not None}
    labels = {} if graph.labels is None else {"labels": graph.labels}
    return {name: np.ascontiguousarray(part) for name, part in (size | features | edges | labels).items()}


def _graph(arrays: Mapping[str, Array], ids: Array) -> Graph:
    nodes, width = (_count(each) for each in arrays["size"].tolist())
    if nodes != len(ids):
        raise DataError(f"it has {nodes:,} nodes, and {VECTORS} has {len(ids):,}")
    if "x" in arrays:
        features: Any = arrays["x"]
    else:
        features = check_csr(arrays["x.values"], arrays["x.columns"], arrays["x.start"], (nodes, width))
    if features.shape != (nodes, width):
        raise DataError("features are not of the size that it says")
    links = check_csr(arrays["edges.nodes"], arrays["edges.nodes"], arrays["edges.start"], (nodes, nodes))
    target = np.repeat(np.arange(nodes), np.diff(links.indptr))
    weight, labels = arrays.get("edges.weight"), arrays.get("labels")
    return Graph.from_edges(arrays["edges.nodes"], target, features, weight=weight, labels=labels, ids=ids)


def _tables_text(read: TableGraph) -> str:
    feature_encoder = None if read.feature_encoder is None else json.loads(read.feature_encoder.to_json())
    ingest_report = dataclasses.asdict(read.ingest_report)
    return json.dumps(
        {"form": FORMAT_VERSION, "encoding": feature_encoder, "classes": read.classes, "findings": ingest_report}, indent=1
    )


def _read(files: _Files, ids: Array) -> TableGraph:
    with files.reading(TABLES) as path:
        given = _json(path.read_text(encoding="utf-8"))
        _form(given["form"])
        feature_encoder = None if given["encoding"] is None else FeatureEncoder.from_json(json.dumps(given["encoding"]))
        classes = tuple(str(name) for name in given["classes"])
        ingest_report = _findings(given["findings"])
    with files.reading(GRAPH) as path:
        import safetensors.numpy

        graph = _graph(safetensors.numpy.load(path.read_bytes()), ids)
        # Classes of tables have names; a graph from elsewhere has numbers of its own.
        if feature_encoder is not None and graph.num_classes > len(classes):
            raise DataError(f"a node is of class {graph.num_classes - 1}, and {TABLES} has {len(classes):,} classes")
    columns = None
    if files.has(NODES):
        with files.reading(NODES) as path:
            import pyarrow.parquet as pq

            columns = pq.read_table(path)
            columns.validate(full=True)
            check_columns(columns)
            if columns.num_rows != graph.num_nodes:
                raise DataError(f"it has {columns.num_rows:,} rows for {graph.num_nodes:,} nodes")
    there = [] if columns is None else [field.name for field in columns.schema if can_name(field.type)]
    if ingest_report.names is not None and there.count(ingest_report.names) != 1:
        raise DataError(f"{files.folder / TABLES}: names are to be in column '{ingest_report.names}', which {NODES} lacks")
    return TableGraph(graph, feature_encoder, classes, ingest_report, columns)


def _findings(given: Mapping[str, Any]) -> IngestReport:
    first, names = given["first_dangling"], given.get("names")
    counts = {name: _count(given[name]) for name in ("rows", "dangling", "loops", "duplicates", "isolated")}
    return IngestReport(
        **counts,
        first_dangling=None if first is None else str(first),
        remarks=tuple(str(each) for each in given["remarks"]),
        directed=bool(given["directed"]),
        names=None if names is None else str(names),
    )


# -- metrics ----------------------------------------------------------------------------------------------------------------


def _metrics_text(outcome: EmbeddingResult) -> str:
    lines: list[dict[str, Any]] = [{"epoch": i, "loss": loss} for i, loss in enumerate(outcome.losses, 1)]
    last = {"scores": without_nan(outcome.scores), "remarks": outcome.remarks}
    return "".join(json.dumps(line) + "\n" for line in [*lines, last])


def _metrics(files: _Files) -> tuple[tuple[float, ...], dict[str, float], tuple[str, ...]]:
    with files.reading(METRICS) as path:
        *epochs, last = [_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
        losses = tuple(float(each["loss"]) for each in epochs)
        scores = {str(name): nan if value is None else float(value) for name, value in last["scores"].items()}
        return losses, scores, tuple(str(each) for each in last["remarks"])


# -- reading ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Files:
    """The files of a folder.

    Attributes:
        folder: The folder.
        digests: Of the files that were written into it; None in a folder of before there were any.
    """

    folder: Path
    digests: Mapping[str, str] | None

    @classmethod
    def of(cls, folder: Path) -> _Files:
        path = folder / DIGESTS
        if not path.is_file():
            return cls(folder, None)
        with _reading(path):
            given = _json(path.read_text(encoding="utf-8"))
            _form(given["form"])
            return cls(folder, dict(given["sha256"]))

    def has(self, name: str) -> bool:
        return (self.folder / name).is_file() or name in (self.digests or {})

    @contextmanager
    def reading(self, name: str) -> Iterator[Path]:
        """A file that is as it was written; whatever is wrong with it becomes one line that names it."""
        path = self.folder / name
        with _reading(path):
            if self.digests is not None and self.digests.get(name) != _digest(path):
                raise DataError(f"it is damaged, or was edited; restore it, or remove {DIGESTS} to load it all the same")
            yield path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _json(text: str) -> Any:
    """What a text in JSON says, all of it text that can be written again: no half of a surrogate pair."""
    given = json.loads(text)
    json.dumps(given, ensure_ascii=False).encode()
    return given


def _form(given: object) -> None:
    if given != FORMAT_VERSION:
        raise DataError(f"it is of form {given!r:.40}; this clnr knows forms up to {FORMAT_VERSION}: a newer one may read it")


def _count(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ValueError(f"{given!r:.40} is no whole number from 0 on")
    return given


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file becomes one line that names it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: it is not there") from None
    except ClnrError as error:
        raise DataError(f"{path}: {_line(error)}") from None
    except Exception as error:
        raise DataError(f"{path}: it cannot be read, {type(error).__name__}: {_line(error)}") from None


def _line(error: Exception) -> str:
    """What an error says, on one line, which may be long where it repeats what is in a file."""
    return " ".join(str(error).split())[:400]
