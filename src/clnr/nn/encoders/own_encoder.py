"""An encoder of your own: any ``torch.nn.Module`` whose ``forward`` takes ``x`` and ``edge_index``, as PyG's do."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from clnr import rng
from clnr.errors import MethodError, shorten, show
from clnr.nn.encoders.encoder import PlainEncoder
from clnr.nn.layers import Parameters

if TYPE_CHECKING:
    from clnr.engine import Operators, View

_WEIGHTS = "edge_weight"
_LETTERS_SHOWN = 40


@dataclass(frozen=True, eq=False)
class OwnEncoder(PlainEncoder):
    """A copy of a module, which is given a view's features and remaining edges, without the self-loops that convolutions add.

    Its parameters and buffers are passed by ``torch.func.functional_call``, so that they are trained, kept and saved as those
    of any encoder; the first ones are the module's own, whatever the seed; those of lazy layers are drawn with torch's seed 0.
    ``class_name`` is qualified. Without a module, as loaded from a folder, nothing can be computed.
    """

    module: Any = None
    class_name: str = ""
    _widths: dict[int, int] = field(default_factory=dict, repr=False)

    pure: ClassVar[bool] = False

    @classmethod
    def of(cls, module: Any) -> OwnEncoder:
        """A copy of a module, if it can be trained."""
        if not isinstance(module, torch.nn.Module):
            raise MethodError(f"encoder must be a torch.nn.Module, not {show(module)}")
        own, name = cls(module, f"{type(module).__module__}.{type(module).__qualname__}"), type(module).__name__
        for place, each in own._tensors.items():
            if each.is_floating_point() and each.dtype != torch.float32:
                raise MethodError(f"{name}: {place} is {each.dtype}, and clnr trains in float32")
        if not any(each.requires_grad for each in module.parameters()):
            raise MethodError(f"{name} has no parameters to train")
        for place, each in module.named_modules():
            if getattr(each, "cached", False) is True:
                raise MethodError(f"{name}: {place or name} would keep the edges of the first view (cached=True)")
        with torch.random.fork_rng([]):  # PyG 2.6 draws weights to copy a layer.
            return cls(copy.deepcopy(module).eval(), own.class_name)

    @property
    def name(self) -> str:
        """The last part of its class's name."""
        return shorten(self.class_name.rpartition(".")[2], _LETTERS_SHOWN)

    @property
    def _tensors(self) -> dict[str, Tensor]:
        return {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        device = torch.empty(0).device
        self.width(inputs)  # lazy layers have their shapes then
        return {name: value.detach().to(device, copy=True).contiguous() for name, value in self._tensors.items()}

    def learns(self, name: str) -> bool:
        return self._tensors[name].requires_grad

    def width(self, inputs: int) -> int:
        if inputs not in self._widths:
            self._widths[inputs] = self._measure(inputs)
        return self._widths[inputs]

    def _measure(self, inputs: int) -> int:
        """The width of the rows of two nodes, each the other's neighbour."""
        with torch.no_grad(), torch.device("cpu"), torch.random.fork_rng([]):
            pair = torch.zeros(2, inputs), torch.tensor([[0, 1], [1, 0]]), torch.ones(2)
            try:
                if any(map(torch.nn.parameter.is_lazy, self._tensors.values())):
                    torch.default_generator.manual_seed(0)
                    self.module.cpu()
                    self._rows({}, *pair)
                rows = self._rows({name: value.cpu() for name, value in self._tensors.items()}, *pair)
            except Exception as error:
                what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                raise MethodError(f"{self.name} fails on nodes with {inputs:,} features: {what}") from error
        shape = tuple(rows.shape) if isinstance(rows, torch.Tensor) else type(rows).__name__
        if len(shape) != 2 or shape[0] != 2:
            raise MethodError(f"{self.name} must give a tensor with one row per node; for 2 nodes it gave {shape}")
        return rows.shape[1]

    @property
    def _takes_weights(self) -> bool:
        # PyG's models all have the argument, and say by this whether they use it.
        used = getattr(self.module, f"supports_{_WEIGHTS}", True)
        return used and _WEIGHTS in inspect.signature(self.module.forward).parameters

    def notes(self, weighted: bool) -> list[str]:
        slower = f"{self.name} is your own encoder: slower than clnr's, as each step computes all nodes"
        ignored = f"{self.name} takes no {_WEIGHTS}: weights of edges are ignored"
        return [slower, *([ignored] if weighted and not self._takes_weights else [])]

    @contextmanager
    def training(self, key: rng.Key, device: torch.device) -> Iterator[None]:
        seed, cuda = int(rng.draw(key, 0)), device.type == "cuda"
        with torch.random.fork_rng([device] if cuda else []):
            torch.default_generator.manual_seed(seed)
            if cuda:
                torch.cuda.manual_seed(seed)
            self.module.train()
            try:
                yield
            finally:
                self.module.eval()

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        if operators.view.propagation_matrix is not None:
            raise MethodError(f"{self.name} takes edges, and a view here has a matrix in place of them (Diffuse)")
        x = operators.features
        if x.is_meta or not len(x):
            return x.new_empty(len(x), self.width(x.shape[1]))
        return self._rows(parameters, x, *_edges(operators.view))

    def _rows(self, parameters: Parameters, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        weights = {_WEIGHTS: edge_weight} if self._takes_weights else {}
        return torch.func.functional_call(self.module, parameters, (x, edge_index), weights)


def _edges(view: View) -> tuple[Tensor, Tensor]:
    """The remaining edges of a view, sources above targets, and their weights."""
    links = view.device_graph.edges

    def given() -> Tensor:
        source, target, _ = view.device_graph.graph.edges()
        loops = torch.zeros(links.shape[0], dtype=torch.bool)
        loops[torch.from_numpy(target[source == target])] = True
        return (links.rows != links.columns) | loops.to(links.device)[links.rows]

    kept = (view.kept & links.once("edges of the graph", given)).nonzero()[:, 0]
    return torch.stack([links.columns[kept], links.rows[kept]]).long(), links.values[kept]
