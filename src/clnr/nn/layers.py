"""Layers as functions of plain dictionaries of weights, for encoders, heads and objectives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from clnr import rng
from clnr.nn.hyper_parameters import HyperParameter

if TYPE_CHECKING:
    from torch import Tensor

    from clnr.engine.dense import Dense

Parameters = dict[str, "Tensor"]

# What projection and prediction heads share.
HEAD_WIDTH = HyperParameter(0, 0, 65536, "width inside a projection or prediction head; 0 for twice its rows'")

_VARIANCE_EPSILON = 1e-5


def sub_dict(parameters: Parameters, place: str) -> Parameters:
    """The parameters with a prefix, without it."""
    return {name[len(place) + 1 :]: value for name, value in parameters.items() if name.startswith(place + ".")}


def add_prefix(place: str, parameters: Parameters) -> Parameters:
    """The parameters with a prefix added: the inverse of ``sub_dict``."""
    return {f"{place}.{name}": value for name, value in parameters.items()}


def misfit(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> str | None:
    """How tensors differ from the expected ones in name, shape or type; None where they do not."""
    for name in sorted(expected.keys() | given.keys()):
        if name not in given:
            return f"'{name}' is not there"
        if name not in expected:
            return f"{name!r:.40} is not of this model"
        if expected[name].shape != given[name].shape or expected[name].dtype != given[name].dtype:
            return f"'{name}' is of another shape or type"
    return None


def within(bound: float, key: rng.Key, *shape: int) -> Tensor:
    """Uniform samples from -bound to bound."""
    return ((2 * rng.uniform(key, math.prod(shape)) - 1) * bound).reshape(shape)


def glorot(key: rng.Key, rows: int, columns: int) -> Tensor:
    """A matrix drawn uniformly within sqrt(6 / (rows + columns)) (Glorot and Bengio, 2010)."""
    return within(math.sqrt(6 / (rows + columns)), key, rows, columns)


def bilinear(key: rng.Key, width: int) -> Tensor:
    """A bilinear form of one output, drawn as DGI's and MVGRL's programs do.

    They call torch's ``xavier_uniform_`` on its 1 x F x F weight, which counts F squared inputs and F outputs.
    """
    return within(math.sqrt(6 / (width * width + width)), key, width, width)


def convolution_layers(widths: list[int], key: rng.Key) -> Parameters:
    """Graph convolutions between the given widths, initialised as PyG's ``GCNConv``: Glorot-uniform weights, zero biases."""
    import torch

    parameters: Parameters = {}
    for layer, (rows, columns) in enumerate(itertools.pairwise(widths)):
        parameters[f"{layer}.weight"] = glorot(rng.branch(key, layer), rows, columns)
        parameters[f"{layer}.bias"] = torch.zeros(columns)
    return parameters


def linear_layers(widths: list[int], key: rng.Key) -> Parameters:
    """Linear layers between the given widths, initialised as ``torch.nn.Linear``: uniform within 1 / sqrt(inputs)."""
    parameters: Parameters = {}
    for layer, (rows, columns) in enumerate(itertools.pairwise(widths)):
        bound = 1 / math.sqrt(rows) if rows else 0.0
        parameters[f"{layer}.weight"] = within(bound, rng.branch(key, layer), rows, columns)
        parameters[f"{layer}.bias"] = within(bound, rng.branch(key, layer, "bias"), columns)
    return parameters


def prelu_weights(layers: int) -> Parameters:
    """The slope of each layer's ``prelu``, initially 0.25."""
    import torch

    return {f"{layer}.slope": torch.tensor(0.25) for layer in range(layers)}


def prelu(h: Tensor, slope: Tensor) -> Tensor:
    """ReLU with a learned slope below zero (He et al., 2015)."""
    import torch

    return torch.prelu(h, slope.to(h.dtype).reshape(1))


def norms(widths: list[int]) -> Parameters:
    """Scale and shift of each layer's ``batch_norm``."""
    import torch

    ones = {f"{layer}.scale": torch.ones(width) for layer, width in enumerate(widths)}
    return ones | {f"{layer}.shift": torch.zeros(width) for layer, width in enumerate(widths)}


def batch_norm(
    parameters: Parameters,
    layer: int,
    h: Tensor,
    statistics: Parameters | None,
    dense: Dense,
    nodes: Callable[[], Tensor | None] = lambda: None,
) -> Tensor:
    """Columns standardised, then scaled and shifted (Ioffe and Szegedy, 2015).

    By the mean and variance in the parameters where they have them, else by those of the batch, which are also written to
    ``statistics`` where that is given. Where workers share a step, a batch has the rows of all of them, each node's once;
    ``nodes`` gives those that the rows are of, as ``Operators.nodes``.
    """
    import torch

    scale, shift = parameters[f"{layer}.scale"], parameters[f"{layer}.shift"]
    mean, variance = (parameters.get(f"{layer}.{name}") for name in ("mean", "variance"))
    if mean is not None and variance is not None:
        return ((h - mean) * (scale * (variance + _VARIANCE_EPSILON).rsqrt()) + shift).to(h.dtype)
    wide = torch.promote_types(h.dtype, torch.float32)
    if statistics is not None:
        variance, mean = torch.var_mean(h.to(wide), 0, correction=0)
        statistics |= {f"{layer}.mean": mean, f"{layer}.variance": variance}
    return dense.batch_norm(h, scale.to(wide), shift.to(wide), _VARIANCE_EPSILON, dense.workers.weights(h, nodes))


def perceptron(parameters: Parameters, z: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """Two linear layers with an activation between."""
    h = activation(z @ parameters["0.weight"] + parameters["0.bias"])
    return h @ parameters["1.weight"] + parameters["1.bias"]
