"""What an encoder is given in place of the features: fitted once on the training graph, without gradients, and saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from clnr.nn.encoders.encoder import DIMENSION
from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import Parameters

if TYPE_CHECKING:
    from torch import Tensor

    from clnr.engine import DeviceGraph, Engine
    from clnr.graph.csr import Array

STEPS = (4, 8, 16)
"""Lengths of walks, in steps: near neighbours, the neighbourhood, the region."""
_BAG = 0.5
_ROWS = 1 << 15

Blocks = Callable[[], Iterable[Any]]
"""Features of all nodes, some rows at a time; each call is another pass over them."""


class Input(ABC):
    """A map of a graph, on a device, to the same graph with other features."""

    @property
    def changes_nothing(self) -> bool:
        """Whether a recipe has turned it off, so that a model leaves it out; by default not."""
        return False

    by_rows: ClassVar[bool] = False
    """Whether it maps each node's features by themselves (``change_rows``), and learns by passes over them (``fit_blocks``)."""

    @property
    def walk_columns(self) -> int:
        """How many columns of each walk it puts beside the features; by default none."""
        return 0

    def width(self, features: int) -> int:
        """How many features a node has afterwards."""
        return features

    def fit_blocks(self, blocks: Blocks, nodes: int, features: int) -> Parameters:
        """``fit`` from blocks of rows of all nodes, each dense or sparse, on the CPU; if it works ``by_rows``."""
        raise NotImplementedError

    def change_rows(self, parameters: Parameters, x: Any, walked: Array | None = None) -> Any:
        """The new features of some nodes, dense or sparse, given where walks from them lead; if it works ``by_rows``."""
        raise NotImplementedError

    def fit(self, device_graph: DeviceGraph, engine: Engine) -> Parameters:
        """What is learned from the training graph; by default nothing, unless it works ``by_rows``."""
        if not self.by_rows:
            return {}
        graph = device_graph.graph
        learned = self.fit_blocks(lambda: [graph.features], graph.num_nodes, graph.num_features)
        return {name: value.to(engine.device) for name, value in learned.items()}

    def empty(self, features: int, nodes: int) -> Parameters:
        """Parameters of the shapes that ``fit`` learns from this number of features and nodes, on torch's default device."""
        return {}

    @abstractmethod
    def __call__(self, parameters: Parameters, device_graph: DeviceGraph, engine: Engine) -> DeviceGraph:
        """The graph with its new features."""


@dataclass(frozen=True)
class WeightFeatures(Input):
    r"""Features on a common scale, as learned from the training graph.

    A bag (no number is negative, and more than half of them are zero): the root of each number, times the rarity of its column
    :math:`\ln \frac{1 + n}{1 + d} + 1` where d of n nodes have it, and rows scaled to length 1. Other dense features: columns
    to mean 0 and deviation 1. Sparse ones with negative numbers stay as they are.
    """

    feature_weights: str = hyper_parameter(
        "rarity", choices=("rarity", "none"), meaning="features weighed by rarity or standardised, or as they are"
    )

    by_rows: ClassVar[bool] = True

    def fit_blocks(self, blocks: Blocks, nodes: int, features: int) -> Parameters:
        import numpy as np
        import scipy.sparse as sp
        import torch

        weight, centre, bag = np.ones(features, np.float32), np.zeros(features, np.float32), False
        if self.feature_weights != "none":
            present, total, negative, sparse = np.zeros(features, np.int64), np.zeros(features), False, False
            for x in blocks():
                sparse, values = sp.issparse(x), x.data if sp.issparse(x) else x
                present += np.bincount(x.indices[x.data != 0], minlength=features) if sparse else (x != 0).sum(0)
                total += 0 if sparse else x.sum(0, dtype=np.float64)
                negative = negative or bool(values.size and values.min() < 0)
            bag = present.sum() <= _BAG * nodes * features and not negative
            if bag:
                # As scikit-learn's TfidfTransformer(smooth_idf=True).
                weight = (np.log((1 + nodes) / (1 + present)) + 1).astype(np.float32)
            elif not sparse and nodes:
                mean = total / nodes
                centre, spread = mean.astype(np.float32), np.sqrt(_squares(blocks, mean) / nodes)
                weight = np.where(spread > 1e-6 * np.abs(centre), 1 / np.where(spread > 0, spread, 1), 0).astype(np.float32)
        learned = {"weight": weight, "centre": centre, "bag": np.array(float(bag), np.float32)}
        return {name: torch.tensor(value) for name, value in learned.items()}

    def empty(self, features: int, nodes: int) -> Parameters:
        import torch

        return {"weight": torch.empty(features), "centre": torch.empty(features), "bag": torch.empty(())}

    def __call__(self, parameters: Parameters, device_graph: DeviceGraph, engine: Engine) -> DeviceGraph:
        return device_graph.with_features(self.change_rows(parameters, device_graph.graph.features))

    def change_rows(self, parameters: Parameters, x: Any, walked: Array | None = None) -> Any:
        import numpy as np
        import scipy.sparse as sp

        weight, centre = (parameters[name].cpu().numpy() for name in ("weight", "centre"))
        if float(parameters["bag"]):
            x = sp.csr_array(x, dtype=np.float32)
            x = x.multiply(x > 0).tocsr().sqrt() @ sp.diags_array(weight)
            length = np.sqrt(np.asarray(x.multiply(x).sum(1)).reshape(-1))
            x = sp.csr_array(sp.diags_array(np.where(length > 0, 1 / np.where(length > 0, length, 1), 0)) @ x, dtype=np.float32)
        elif sp.issparse(x) and not centre.any():
            x = sp.csr_array(x @ sp.diags_array(weight), dtype=np.float32)
        else:
            x = (x.toarray() if sp.issparse(x) else x) - centre
            x *= weight
            x = x.astype(np.float32, copy=False)
        return x


def _squares(blocks: Blocks, mean: Array) -> Array:
    """The sum of the squared deviations of each column from its mean."""
    import numpy as np

    total = np.zeros(len(mean))
    for x in blocks():
        deviation = x - mean
        total += np.square(deviation, out=deviation).sum(0)
    return total


@dataclass(frozen=True)
class AddStructure(Input):
    """Columns from edges alone beside the features: walks of 4, 8 and 16 steps, ``structure`` columns each.

    Features are divided by the root mean square length of the training nodes' rows; the walks' columns have length 1.
    """

    structure: int = hyper_parameter(
        0, 0, 65536, "columns from edges alone beside the features, for each of 4, 8 and 16 steps; 0 for none"
    )

    @property
    def changes_nothing(self) -> bool:
        return not self.structure

    def width(self, features: int) -> int:
        return features + len(STEPS) * self.structure

    by_rows: ClassVar[bool] = True

    @property
    def walk_columns(self) -> int:
        return self.structure

    def fit_blocks(self, blocks: Blocks, nodes: int, features: int) -> Parameters:
        import numpy as np
        import scipy.sparse as sp
        import torch

        total = sum(np.square((x.data if sp.issparse(x) else x).astype(np.float64)).sum() for x in blocks())
        return {"length": torch.tensor((total / max(1, nodes)) ** 0.5 or 1.0, dtype=torch.float32)}

    def empty(self, features: int, nodes: int) -> Parameters:
        import torch

        return {"length": torch.empty(())}

    def __call__(self, parameters: Parameters, device_graph: DeviceGraph, engine: Engine) -> DeviceGraph:
        import torch

        from clnr.engine.products import empty_rows
        from clnr.nn.structure import put_walks

        x = device_graph.graph.features
        nodes, count = x.shape
        both = empty_rows(nodes, self.width(count), engine.device)
        for start in range(0, nodes, _ROWS):
            own = self._own_columns(parameters, x[start : start + _ROWS])
            both[start : start + _ROWS, :count] = torch.from_numpy(own).to(engine.device)
        put_walks(engine, device_graph, both[:, count:], STEPS, len(STEPS) ** 0.5)
        return device_graph.with_features(both)

    def change_rows(self, parameters: Parameters, x: Any, walked: Array | None = None) -> Any:
        import numpy as np

        assert walked is not None
        return np.concatenate([self._own_columns(parameters, x), walked / np.float32(len(STEPS) ** 0.5)], 1)

    def _own_columns(self, parameters: Parameters, x: Any) -> Array:
        import numpy as np
        import scipy.sparse as sp

        return (x.toarray() if sp.issparse(x) else x) / np.float32(parameters["length"].item())


@dataclass(frozen=True)
class StructureInput(Input):
    """The features are not looked at: vectors from edges alone take their place."""

    dimension: int = DIMENSION.field()

    def width(self, features: int) -> int:
        return self.dimension

    def __call__(self, parameters: Parameters, device_graph: DeviceGraph, engine: Engine) -> DeviceGraph:
        return device_graph.with_features(self.rows(parameters, engine.float32, device_graph))

    @abstractmethod
    def rows(self, parameters: Parameters, engine: Engine, device_graph: DeviceGraph) -> Tensor:
        """One row per node."""


@dataclass(frozen=True)
class Cleora(StructureInput):
    """Random vectors repeatedly averaged over neighbours and scaled to length 1 (Rychalska et al., "Cleora", 2021)."""

    walk_steps: int = hyper_parameter(8, 1, 1000, "steps of averaging over neighbours", source="ours, docs/choosing.md")

    def rows(self, parameters: Parameters, engine: Engine, device_graph: DeviceGraph) -> Tensor:
        from clnr.nn.structure import walks

        return walks(engine, device_graph, self.dimension, (self.walk_steps,))[0]


@dataclass(frozen=True)
class FastRP(StructureInput):
    r"""A sum of random projections of the powers of :math:`D^{-1} A`, rows scaled to length 1 before they are added.

    Random rows are scaled by a power of a node's degree (Chen et al., "Fast and accurate network embeddings via very sparse
    random projection", 2019). As there, the first power does not count.
    """

    power: int = hyper_parameter(4, 2, 1000, "highest power of the transition matrix", source="FastRP's authors")
    degree_power: float = hyper_parameter(-0.5, -2.0, 2.0, "of the scale of random rows")

    def rows(self, parameters: Parameters, engine: Engine, device_graph: DeviceGraph) -> Tensor:
        from clnr.nn.structure import projections

        return projections(engine, device_graph, self.dimension, self.power, self.degree_power)


@dataclass(frozen=True)
class Spectral(StructureInput):
    r"""The principal directions of :math:`D^{-1/2} A D^{-1/2}`, both directions of every edge, no self-loops.

    What is saved is a row for each training node, found again by its id; an unseen node is the sum of its known neighbours'.
    """

    def fit(self, device_graph: DeviceGraph, engine: Engine) -> Parameters:
        from clnr.nn.structure import spectral

        return spectral(engine, device_graph, self.dimension)

    def empty(self, features: int, nodes: int) -> Parameters:
        import torch

        return {"rows": torch.empty(nodes, self.dimension), "ids": torch.empty(nodes, dtype=torch.int64)}

    def rows(self, parameters: Parameters, engine: Engine, device_graph: DeviceGraph) -> Tensor:
        from clnr.nn.structure import spectral_rows

        return spectral_rows(engine, device_graph, parameters)
