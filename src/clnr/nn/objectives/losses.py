"""The losses: contrast with negatives, agreement of two views without any, and prediction of edges or labels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import HEAD_WIDTH, Parameters, bilinear, linear_layers, perceptron, prelu, prelu_weights
from clnr.nn.objectives.objective import SOME, Objective, SampledObjective, StepContext

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class NTXent(SampledObjective):
    r"""Normalised temperature-scaled cross entropy over ``sampled_nodes`` nodes, equations 2 and 3 of the paper.

    .. math:: -\frac{1}{2m} \sum_i \left[ \ell(u_i, v_i) + \ell(v_i, u_i) \right]

    Chen et al., "A simple framework for contrastive learning of visual representations" (2020). The losses of several
    encoders are added up.
    """

    temperature: float = hyper_parameter(0.5, 1e-3, 1e3, "of NT-Xent", source="paper, hyper-parameters")

    target: ClassVar[str] = "N-N"
    negatives: ClassVar[bool] = True
    sampled_loss: ClassVar[bool] = True
    all_pairs: ClassVar[bool] = True
    views: ClassVar[range] = range(2, 3)
    shares: ClassVar[bool] = True

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        import torch

        # Of several encoders, each one's two views.
        losses = [self._of_rows(torch.cat(views[i : i + 2]), step) for i in range(0, len(views), 2)]
        return functools.reduce(torch.add, losses)

    def _of_rows(self, rows: Tensor, step: StepContext) -> Tensor:
        from clnr.engine import unit_rows
        from clnr.engine.torch_ntxent import blocked_nt_xent

        if step.workers.alone:
            return step.engine.nt_xent(rows, self.temperature)
        return blocked_nt_xent(unit_rows(rows), self.temperature, workers=step.workers)


@dataclass(frozen=True)
class Infomax(SampledObjective):
    r"""A bilinear discriminator tells the nodes of the graph from those of a corrupted one, by a summary of the graph.

    The first half of the views are of the graph, each summarised by :math:`c = \sigma(\mathrm{mean}_i h_i)` over its rows: of
    all nodes, or of the sampled ones. The second half are their corruptions. With :math:`D(h, c) = h^T W c + b`, the loss is
    the binary cross entropy of D, true for real nodes and false for corrupted ones. A view's nodes are compared with the next
    view's summary: with one view this is Velickovic et al., "Deep graph infomax" (2019); with two, each against the other's,
    Hassani and Khasahmadi, "Contrastive multi-view representation learning on graphs" (2020).
    """

    target: ClassVar[str] = "N-G"
    estimator: ClassVar[bool] = True
    negatives: ClassVar[bool] = True
    views: ClassVar[range] = SOME[1::2]
    shares: ClassVar[bool] = True

    def init(self, width: int, key: rng.Key) -> Parameters:
        import torch

        return {"weight": bilinear(key, width), "bias": torch.zeros(())}

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        import torch
        from torch.nn.functional import softplus

        real, corrupted = views[: len(views) // 2], views[len(views) // 2 :]
        means = step.workers.all_reduce_with_grad(torch.stack([step.workers.mean(h, 0) for h in real]))
        summaries = [parameters["weight"] @ mean.sigmoid() for mean in means]
        terms = []
        for direction, h, other in zip(summaries[1:] + summaries[:1], real, corrupted, strict=True):
            terms.append(softplus(-(h @ direction + parameters["bias"])))
            terms.append(softplus(other @ direction + parameters["bias"]))
        return step.workers.mean(torch.cat(terms))


@dataclass(frozen=True)
class CCA(SampledObjective):
    r"""Invariance of two views and decorrelation of each one's columns.

    .. math:: -\frac{1}{n} \mathrm{tr}(U^T V)
        + \lambda \left( \lVert I - \tfrac{1}{n} U^T U \rVert_F^2 + \lVert I - \tfrac{1}{n} V^T V \rVert_F^2 \right)

    for standardised columns, where the first term is half the mean squared distance of U and V up to a constant. Zhang et
    al., "From canonical correlation analysis to self-supervised graph neural networks" (2021); ``decorrelation`` is their
    lambda. Nothing is larger than the F x F correlations.
    """

    decorrelation: float = hyper_parameter(1e-3, 0.0, 1e6, "weight of the decorrelation of columns", source="CCA-SSG's authors")

    target: ClassVar[str] = "F-F"
    views: ClassVar[range] = range(2, 3)
    shares: ClassVar[bool] = True

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        import torch

        u, v = views
        n = step.workers.num_rows(u)
        agreement = (u * v).sum() / n
        one = torch.eye(u.shape[1], dtype=u.dtype, device=u.device)
        distances = [(one - step.workers.all_reduce_with_grad(z.T @ z) / n).square().sum() for z in views]
        return self.decorrelation * sum(map(step.workers.part, distances)) - agreement


@dataclass(frozen=True)
class Bootstrap(SampledObjective):
    r"""The cosine similarity of each view's predicted rows and the target encoder's rows of the other view.

    .. math:: 2 - \frac{1}{n} \sum_i \left[ \cos(q(u_i), v'_i) + \cos(q(v_i), u'_i) \right]

    for rows u, v of the online encoder and u', v' of the target. The predictor q has one hidden layer with PReLU,
    ``head_width`` wide (0 for twice the rows). Thakoor et al., "Large-scale representation learning on graphs via
    bootstrapping" (2022).
    """

    head_width: int = HEAD_WIDTH.field()

    target: ClassVar[str] = "N-N"
    head: ClassVar[bool] = True
    views: ClassVar[range] = range(2, 3)
    shares: ClassVar[bool] = True
    any_encoder: ClassVar[bool] = False

    def init(self, width: int, key: rng.Key) -> Parameters:
        return linear_layers([width, self.head_width or 2 * width, width], key) | prelu_weights(1)

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        u, v, u_target, v_target = views
        predict = functools.partial(perceptron, parameters, activation=lambda h: prelu(h, parameters["0.slope"]))
        to_v, to_u = _cosines(predict(u), v_target), _cosines(predict(v), u_target)
        return step.workers.part(2.0) - step.workers.mean(to_v) - step.workers.mean(to_u)


def _cosines(a: Tensor, b: Tensor) -> Tensor:
    from clnr.engine import unit_rows

    return (unit_rows(a) * unit_rows(b)).sum(1)


def reconstruction(z: Tensor, step: StepContext) -> Tensor:
    r"""Cross entropy of :math:`\sigma(z_i^T z_j)`: half the mean over edges, half the mean over sampled non-edges.

    Kipf and Welling's loss (2016) gives edges and non-edges the same weight; this samples new non-edges each epoch, as many
    as there are edges and nodes, and has the same expectation. A sampled pair that is an edge is left out, and so is a node
    with itself, which they count as an edge.
    """
    import torch
    from torch.nn.functional import softplus

    from clnr.nn.autograd import RowDots

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
    any_encoder: ClassVar[bool] = False

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
        from torch.nn.functional import cross_entropy

        assert step.supervision is not None
        return cross_entropy(views[0][step.supervision.train_nodes], step.supervision.train_labels)

    def criterion(self, loss: Tensor, embedded: Callable[[], Tensor], step: StepContext) -> Tensor:
        from torch.nn.functional import cross_entropy

        assert step.supervision is not None
        return cross_entropy(embedded()[step.supervision.validation_nodes], step.supervision.validation_labels)
