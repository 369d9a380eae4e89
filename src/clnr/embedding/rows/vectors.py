"""The vectors of all nodes: an array, or shards that are written block after block."""

from __future__ import annotations

from pathlib import Path

from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.result.artifact_files import SHARDS
from clnr.embedding.result.shards import Shards, shard_path, write_shard
from clnr.embedding.rows.block_rows import BlockRows
from clnr.embedding.rows.passes import Passes
from clnr.embedding.rows.whole import RowMaker, Whole
from clnr.embedding.workspace import Workspace
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.nn.layers import sub_dict
from clnr.support.machine.memory import enough_memory


def write_vectors(model: FittedModel, rows: RowMaker, graph: Graph, workspace: Workspace) -> Array | Shards:
    """The vectors of all nodes, from the rows of the whole graph; workers share those that are in shards."""
    if isinstance(rows, Whole):
        with enough_memory(), rows.engine.use_threads():
            return rows.embed(model).cpu().numpy()
    _write_shards(model, rows, graph, workspace.folder)
    return Shards(workspace.folder, workspace.holds)


def _write_shards(model: FittedModel, passes: Passes, graph: Graph, folder: Path) -> None:
    """Write the vectors in shards of a folder, which has its name once all of them are there."""
    unfinished, built = folder / "unfinished", model.method.build(model.recipe)
    if not passes.workers.broadcast_object((folder / SHARDS).is_dir()):
        number_of = {block.start: number for number, block in enumerate(passes.blocks())}
        if passes.workers.first:
            (unfinished / SHARDS).mkdir(parents=True, exist_ok=True)
        passes.workers.barrier()

        def take(part: slice, rows: Array) -> None:
            write_shard(shard_path(unfinished, number_of[part.start]), graph, part.start, rows)

        if built.readout is None:
            passes.each_block("embedding all nodes", *passes.layers(model), take)
        else:
            built.readout(sub_dict(model.parameters, "readout"), BlockRows(model, passes, take=take))
        if passes.workers.first:
            (unfinished / SHARDS).replace(folder / SHARDS)
        passes.workers.barrier()
