"""A model folder: an embedding, its model and its graph, saved and loaded again without trusting the files."""

from __future__ import annotations

import dataclasses
import functools
import json
import tomllib
from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clnr import methods
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel, Provenance
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.store.artifact_files import (
    DIGESTS,
    FORMAT_VERSION,
    GRAPH,
    METRICS,
    MODEL,
    RECIPE,
    SHARDS,
    SOURCE,
    VECTORS,
    ArtifactFiles,
    check_version,
    digests_json,
)
from clnr.embedding.store.artifact_graph import load_table_graph, load_table_info, save_table_graph, tables_json
from clnr.embedding.store.export import id_column, read_vectors, vector_table
from clnr.embedding.store.shards import Shards, TemporaryFolder
from clnr.embedding.store.stored_nodes import StoredNodes
from clnr.engine import DEVICES, PRECISIONS, Reference
from clnr.errors import DataError, MethodError
from clnr.experiments.learn import check_seed
from clnr.experiments.results import without_nan
from clnr.graph import Graph
from clnr.graph.graph_folder import GraphFolder
from clnr.methods import Method
from clnr.methods.recipe import Recipe, with_current_keys
from clnr.nn.layers import Parameters, misfit
from clnr.support.machine.environment import versions
from clnr.support.storage.atomic_io import resolve_path, write_atomic
from clnr.support.storage.checked_files import check_count, check_positive, parse_json, read_stable
from clnr.support.storage.file_locks import file_lock
from clnr.tables.table_graph import TABLES, TableInfo

Metrics = tuple[tuple[float, ...], dict[str, float], tuple[str, ...], dict[str, dict[str, float]]]
"""Losses, scores, warnings, and the scores of baselines, as ``EmbeddingResult`` has them."""
_MARK = "clnr"
_REFERENCE = Reference(torch.device("cpu"))
_META = Reference(torch.device("meta"))


def save_folder(result: EmbeddingResult, folder: Path) -> None:
    """Write everything but the report into an empty folder."""
    import pyarrow.parquet as pq

    model, table_graph = result.model, result.table_graph
    save_model(model, folder)
    save_table_graph(table_graph, folder)
    pq.write_table(vector_table(id_column(table_graph.graph), result.z, table_graph.kind_columns), folder / VECTORS)
    (folder / METRICS).write_bytes(metrics_jsonl(result.losses, result.scores, result.warnings, result.baselines).encode())
    (folder / DIGESTS).write_bytes(digests_json(folder))


def save_model(model: FittedModel, folder: Path) -> None:
    """Write the recipe and the parameters of a model into a folder."""
    import safetensors.torch

    model.method.check_kept()
    if methods.METHODS.get(model.method.name) != model.method:
        raise MethodError(
            f"{model.method.name} is a method of your own, which could not be loaded again; save the embedding by itself"
        )
    (folder / RECIPE).write_bytes(_recipe_toml(model).encode())
    parameters = {name: value.contiguous() for name, value in model.parameters.items()}
    # One key: safetensors writes several in any order.
    metadata = {_MARK: json.dumps({"form": FORMAT_VERSION, "method": model.method.name})}
    (folder / MODEL).write_bytes(safetensors.torch.save(parameters, metadata))


def with_zeros(model: FittedModel) -> FittedModel:
    """A model with zeros in place of what it has not learned yet, so that it can be saved and loaded."""
    empty = _empty_parameters(model.method, model.recipe, model.features, 0)
    zeros = {name: torch.zeros(value.shape, dtype=value.dtype, device="cpu") for name, value in empty.items()}
    return dataclasses.replace(model, parameters=zeros | model.parameters)


def load_result(folder: Path, temporary: TemporaryFolder | None = None) -> EmbeddingResult:
    """Open a folder; a file that is damaged or inconsistent is refused, and nothing in it is ever executed.

    Args:
        folder: Written by ``clnr embed`` or ``NodeEmbedder.save``. Shards are read when they are asked for.
        temporary: What the folder is removed with, if it is a temporary one.
    """
    return read_stable(folder, DIGESTS, lambda: _load(ArtifactFiles.open(folder), temporary))


def load_folder(folder: Path) -> EmbeddingResult:
    """Load a folder whose graph and vectors are in it; one with shards is refused."""
    result = load_result(folder)
    if result.nodes.saved_in is not None:
        raise DataError(f"{folder}: its embedding is in shards, {SHARDS}/part-*.parquet, which are not loaded as a whole")
    return result


def _load(files: ArtifactFiles, temporary: TemporaryFolder | None) -> EmbeddingResult:
    if files.has(SOURCE):
        return stored_result(load_model(files), Shards.open(files, temporary), load_table_info(files), load_metrics(files))
    model, folder = load_model(files), files.folder
    with files.reading(VECTORS) as path:
        ids, z = read_vectors(path)
        width = z.shape[1] if model.method.removed else model.embed(_featureless(model, 0), _REFERENCE).shape[1]
        if z.shape[1] != width:
            raise DataError(f"vectors have {z.shape[1]} numbers, and the model gives {width}")
    table_graph = load_table_graph(files, ids)
    if table_graph.graph.num_features != model.features:
        raise DataError(
            f"{folder / GRAPH}: nodes have {table_graph.graph.num_features} features, and the model takes {model.features}"
        )
    return EmbeddingResult.of(model, table_graph, z, *load_metrics(files))


def stored_result(
    model: FittedModel, shards: Shards, info: TableInfo, metrics: Metrics, folder: GraphFolder | None = None
) -> EmbeddingResult:
    """What is in shards, of a graph that is in a folder; None to look for the graph folder where it was."""
    return EmbeddingResult(model, StoredNodes(shards, info, folder), shards, *metrics)


def differences(model: FittedModel, settings: Settings, recipe: Recipe | None) -> list[str]:
    """How an earlier training differs from the one asked for, a phrase each; a recipe of None is not compared."""
    method, made, asked = settings.method, model.provenance, settings.engine.asked
    differs = [] if model.method == method else [f"its method is {model.method.name}"]
    wanted = {"seed": (model.seed, int(settings.seed)), "hold_out": (made.hold_out, float(settings.hold_out))}
    if recipe is not None:
        # The dimension of a supervised method is its number of classes, whatever the recipe says.
        keys = [key for key in method.keys if not (method.supervised and key == "dimension")]
        wanted |= {key: (getattr(model.recipe, key), getattr(recipe, key)) for key in keys}
    # What was chosen for the machine may be otherwise on another one.
    wanted |= {name: (getattr(made, name), value) for name, value in asked._asdict().items() if value not in ("auto", None)}
    return differs + [f"its {name} is {was}" for name, (was, now) in wanted.items() if was is not None and was != now]


def not_asked_for(folder: Path, differs: Sequence[str]) -> DataError:
    """What to say of a finished folder that is to be resumed, and differs."""
    return DataError(
        f"{folder} is finished, but not what is asked for: {'; '.join(differs)}; overwrite it with --force (force=True)"
    )


# -- names of nodes ---------------------------------------------------------------------------------------------------------


def name_nodes(result: EmbeddingResult, column: str, where: Path | str = "the graph") -> EmbeddingResult:
    """The same result with a column of its node table as the names of nodes; the column of ids stands for no names.

    Args:
        result: What to show names for.
        column: The column, whatever its case.
        where: What to call the result in errors: its folder.
    """
    return dataclasses.replace(result, nodes=result.nodes.with_names(column, where))


def save_names(result: EmbeddingResult, folder: Path) -> None:
    """Let a folder remember which column has the names of nodes."""
    with file_lock(resolve_path(folder)):
        # A folder without digests can be read: if this is interrupted, the folder still opens.
        (folder / DIGESTS).unlink(missing_ok=True)
        write_atomic(folder / TABLES, tables_json(result.table_graph))
        write_atomic(folder / DIGESTS, digests_json(folder))


# -- the model --------------------------------------------------------------------------------------------------------------


def _recipe_toml(model: FittedModel) -> str:
    made_with = "\n".join(f"{name} = {json.dumps(value)}" for name, value in versions().items())
    how = "".join(f"{name} = {json.dumps(value)}\n" for name, value in model.provenance._asdict().items() if value is not None)
    return (
        f"form = {FORMAT_VERSION}\nmethod = {json.dumps(model.method.name)}\n"
        f"seed = {model.seed}\nfeatures = {model.features}\n{how}loop_weight = {model.loop_weight!r}\n\n"
        f"[recipe]\n{model.recipe.to_toml()}\n[versions]\n{made_with}\n"
    )


def load_model(files: ArtifactFiles) -> FittedModel:
    """Read the model of a folder; it must be complete, and fit its recipe."""
    with files.reading(RECIPE) as path:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        check_version(content["form"])
        method = methods.find(str(content["method"]), saved=True)
        recipe = Recipe.of(with_current_keys(content["recipe"]))
        seed, features = check_seed(content["seed"]), check_count(content["features"])
        provenance = _load_provenance(content)
        loop_weight = check_positive(content.get("loop_weight", 1.0))
    with files.reading(MODEL) as path:
        import safetensors

        with safetensors.safe_open(str(path), "pt") as file:
            metadata = file.metadata() or {}
            # Earlier versions had the method as a key of its own.
            trained_by = parse_json(metadata[_MARK])["method"] if _MARK in metadata else metadata.get("method", method.name)
            # Copied: the file may be written to while they are in use.
            parameters = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        if trained_by != method.name:
            raise DataError(f"it does not fit {RECIPE}: it was learned by {trained_by!r:.40}, not by {method.name}")
        model = FittedModel(method, seed, recipe, parameters, features, provenance, loop_weight)
        _check_parameters(model)
        return model


def _load_provenance(content: Mapping[str, Any]) -> Provenance:
    """Of what is recorded; earlier versions recorded less."""
    recorded = {name: content[name] for name in Provenance._fields if name in content}
    for name, known in (("device", DEVICES), ("precision", PRECISIONS)):
        if name in recorded and recorded[name] not in known:
            raise DataError(f"{name} is {recorded[name]!r:.40}, which is none of {', '.join(known)}")
    if "threads" in recorded:
        check_count(recorded["threads"])
    hold_out = recorded.get("hold_out", 0.0)
    if not (isinstance(hold_out, float) and 0 <= hold_out < 1):
        raise DataError(f"hold_out is {hold_out!r:.40}, and not from 0 to less than 1")
    return Provenance(**recorded)


def _check_parameters(fitted: FittedModel) -> None:
    """Names and shapes must be those of the method with this recipe; of one that was removed they are not known."""
    parameters = fitted.parameters
    if not fitted.method.removed:
        # An input may have learned a row for each node of a training graph whose size is not known.
        nodes = max((len(value) for name, value in parameters.items() if name.startswith("input.") and value.ndim), default=0)
        wrong = misfit(_empty_parameters(fitted.method, fitted.recipe, fitted.features, nodes), parameters)
        if wrong is not None:
            raise DataError(f"it does not fit {RECIPE}: {wrong}")
    for name, value in parameters.items():
        if not value.isfinite().all():
            raise DataError(f"'{name}' has a number that is not finite")


@functools.lru_cache(maxsize=64)
def _empty_parameters(method: Method, recipe: Recipe, features: int, nodes: int) -> Parameters:
    """Parameters of the right names and shapes, on the meta device: not allocated."""
    model = method.build(recipe)
    width = model.input_width(features)
    one = _META.to_device(Graph.from_edges([], [], np.zeros((1, 0), np.float32)))
    with torch.device("meta"):
        inputs, fresh = model.empty_inputs(features, nodes), model.init(width, 0)
        return inputs | model.finalize(fresh, _META, dataclasses.replace(one, features=torch.empty(1, width)))


def _featureless(model: FittedModel, nodes: int) -> Graph:
    """A graph of a given size without edges, all features 0."""
    return Graph.from_edges([], [], np.zeros((nodes, model.features), np.float32))


# -- metrics ----------------------------------------------------------------------------------------------------------------


def metrics_jsonl(
    losses: Sequence[float], scores: Mapping[str, float], warnings: Sequence[str], baselines: Mapping[str, Any]
) -> str:
    """The content of metrics.jsonl."""
    lines: list[dict[str, Any]] = [{"epoch": i, "loss": loss} for i, loss in enumerate(losses, 1)]
    last = {"scores": without_nan(scores), "remarks": warnings}
    if baselines:
        last["baselines"] = without_nan(baselines)
    return "".join(json.dumps(line) + "\n" for line in [*lines, last])


def load_metrics(files: ArtifactFiles) -> Metrics:
    """Losses, scores, warnings, and the scores of baselines, which older folders do not have."""
    with files.reading(METRICS) as path:
        *epochs, last = [parse_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
        losses = tuple(float(each["loss"]) for each in epochs)
        baselines = {str(name): _scores(scores) for name, scores in last.get("baselines", {}).items()}
        return losses, _scores(last["scores"]), tuple(str(each) for each in last["remarks"]), baselines


def _scores(content: dict[str, Any]) -> dict[str, float]:
    return {str(name): nan if value is None else float(value) for name, value in content.items()}
