"""What engines share whose sampled steps are on nodes that a CPU finds: from memory or from files, alone or among workers."""

from __future__ import annotations

from torch import Tensor

from clnr.engine.cpu.frontier_operators import FrontierOperators
from clnr.engine.distributed.shared_rows import SharedOperators, is_whole
from clnr.engine.files.mapped_graph import map_folder, measured_nodes
from clnr.engine.operators import Operators
from clnr.engine.sparse_engine import BlockEngine
from clnr.engine.streams import Streams
from clnr.engine.view import DeviceGraph, View
from clnr.graph import Graph
from clnr.graph.graph_folder import GraphFolder


class FrontierEngine(BlockEngine):
    """An engine that computes rows of nodes that a CPU finds, and so also those of a graph that stays in files."""

    def to_device(self, graph: Graph) -> DeviceGraph:
        """Move a graph to the device; one in a folder stays in its files."""
        return map_folder(graph) if isinstance(graph, GraphFolder) else super().to_device(graph)

    def operators(self, view: View, streams: Streams | None = None) -> Operators:
        """The linear maps of a view; of a graph in files those of a fixed sample of nodes, for statistics of all."""
        if view.device_graph.in_files:
            return self.block_operators(view, measured_nodes(view.device_graph.graph.num_nodes))
        if not self.workers.alone and is_whole(view):
            return SharedOperators(view, self)
        return super().operators(view, streams)

    def block_operators(self, view: View, nodes: Tensor) -> Operators:
        """``sampled_operators`` whose nodes a CPU finds."""
        return FrontierOperators(view, self, view.device_graph.frontier(view, nodes.numpy(force=True)))
