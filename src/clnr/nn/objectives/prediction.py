"""Prediction of what is known: of edges, by graph auto-encoders; or, for comparison, of labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.layers import Parameters
from clnr.nn.objectives.objective import Objective, StepContext
from clnr.support.lazy import lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn.functional import cross_entropy, softplus

    from clnr.nn.autograd import RowDots
else:
    torch = lazy("torch")
    cross_entropy, softplus = (lazy("torch.nn.functional", name) for name in ("cross_entropy", "softplus"))
    RowDots = lazy("clnr.nn.autograd", "RowDots")


def reconstruction(z: Tensor, step: StepContext) -> Tensor:
    r"""Cross entropy of :math:`\sigma(z_i^T z_j)`: half the mean over edges, half the mean over sampled non-edges.

    Kipf and Welling's loss (2016) gives edges and non-edges the same weight; this samples new non-edges each epoch, as many
    as there are edges and nodes, and has the same expectation. A sampled pair that is an edge is left out, and so is a node
    with itself, which they count as an edge.
    """
    links = step.device_graph.edges
    nodes = z.shape[0]
    apart = links.rows != links.columns
    pairs = max(len(links.rows), 1)
    key = rng.key(step.seed, "pairs", step.epoch)
    count = torch.arange(pairs, device=z.device)
    i, j = (rng.draw(rng.branch(key, end), count) % nodes for end in ("row", "column"))
    # Entries are ordered by row, then column, so that row * N + column is sorted.
    edge = links.rows * nodes + links.columns
    other = i * nodes + j
    is_edge = edge[torch.searchsorted(edge, other).clamp(max=len(edge) - 1)] == other
    missing = _mean(softplus(-RowDots.apply(z, links.rows, links.columns)), apart)
    return (missing + _mean(softplus(RowDots.apply(z, i, j)), ~is_edge)) / 2


def _mean(values: Tensor, among: Tensor) -> Tensor:
    return (values * among).sum() / among.sum().clamp(min=1)


@dataclass(frozen=True)
class Reconstruct(Objective):
    """``reconstruction`` of edges from the rows: the graph auto-encoder of Kipf and Welling (2016)."""

    target: ClassVar[str] = "N-N"
    negatives: ClassVar[bool] = True
    views: ClassVar[range] = range(1, 2)

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        return reconstruction(views[0], step)


@dataclass(frozen=True)
class Variational(Objective):
    r"""``reconstruction`` from a sample of each node's normal distribution, kept near the standard one.

    Rows are means, then logarithms of standard deviations. The second term is
    :math:`\frac{1}{n} \cdot \frac{1}{n} \sum_{ik} -\frac{1}{2} (1 + 2 \log \sigma_{ik} - \mu_{ik}^2 - \sigma_{ik}^2)`, the mean
    divergence weighed by 1/n as in the authors' program (Kipf and Welling, "Variational graph auto-encoders", 2016).
    """

    target: ClassVar[str] = "N-N"
    negatives: ClassVar[bool] = True
    views: ClassVar[range] = range(1, 2)

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        mean, log_deviation = views[0].chunk(2, 1)
        # Larger deviations make no difference, and their squares would overflow.
        log_deviation = log_deviation.clamp(max=10)
        noise = rng.normal(rng.key(step.seed, "noise", step.epoch), mean.numel(), mean.device)
        z = mean + noise.reshape(mean.shape) * log_deviation.exp()
        divergence = (mean.square() + (2 * log_deviation).exp() - 1 - 2 * log_deviation).sum(1).mean() / 2
        return reconstruction(z, step) + divergence / mean.shape[0]


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Cross entropy of the training nodes, with the rows as logits; early stopping monitors that of the validation nodes."""

    target: ClassVar[str] = "N-Y"
    supervised: ClassVar[bool] = True
    views: ClassVar[range] = range(1, 2)

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        assert step.supervision is not None
        return cross_entropy(views[0][step.supervision.train_nodes], step.supervision.train_labels)

    def criterion(self, loss: Tensor, embedded: Callable[[], Tensor], step: StepContext) -> Tensor:
        assert step.supervision is not None
        return cross_entropy(embedded()[step.supervision.validation_nodes], step.supervision.validation_labels)
