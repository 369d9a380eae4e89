"""Pieces of networks, as functions of plain dictionaries of weights: what encoders, heads and objectives are built of."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from clnr import chance

Parameters = dict[str, Tensor]

_EPSILON = 1e-5


def under(parameters: Parameters, place: str) -> Parameters:
    """The parameters of one place, without its name before theirs."""
    return {name[len(place) + 1 :]: value for name, value in parameters.items() if name.startswith(place + ".")}


def at(place: str, parameters: Parameters) -> Parameters:
    """Parameters with a place's name before theirs: what ``under`` undoes."""
    return {f"{place}.{name}": value for name, value in parameters.items()}


def misfit(expected: Mapping[str, Tensor], there: Mapping[str, Tensor]) -> str | None:
    """In what tensors differ from those expected by name, shape or type, if they do."""
    for name in sorted(expected.keys() | there.keys()):
        if name not in there:
            return f"'{name}' is not there"
        if name not in expected:
            return f"{name!r:.40} is not of this model"
        if expected[name].shape != there[name].shape or expected[name].dtype != there[name].dtype:
            return f"'{name}' is of another shape or type"
    return None


def glorot(key: chance.Key, rows: int, columns: int) -> Tensor:
    """A matrix drawn uniformly within sqrt(6 / (rows + columns)) (Glorot and Bengio, 2010)."""
    unit = chance.uniform(key, rows * columns)
    return ((2 * unit - 1) * math.sqrt(6 / (rows + columns))).reshape(rows, columns)


def linear_layers(widths: list[int], key: chance.Key) -> Parameters:
    """Glorot-uniform weights and zero biases for layers between the given widths."""
    parameters: Parameters = {}
    for layer, (rows, columns) in enumerate(itertools.pairwise(widths)):
        parameters[f"{layer}.weight"] = glorot(chance.branch(key, layer), rows, columns)
        parameters[f"{layer}.bias"] = torch.zeros(columns)
    return parameters


def slopes(layers: int) -> Parameters:
    """The slope of each layer's ``prelu``, a quarter to begin with."""
    return {f"{layer}.slope": torch.tensor(0.25) for layer in range(layers)}


def prelu(h: Tensor, slope: Tensor) -> Tensor:
    """ReLU with a learned slope below zero (He et al., 2015)."""
    return torch.where(h > 0, h, slope * h)


def norms(widths: list[int]) -> Parameters:
    """Scale and shift of each layer's ``batch_norm``."""
    ones = {f"{layer}.scale": torch.ones(width) for layer, width in enumerate(widths)}
    return ones | {f"{layer}.shift": torch.zeros(width) for layer, width in enumerate(widths)}


def batch_norm(parameters: Parameters, layer: int, h: Tensor, statistics: Parameters | None = None) -> Tensor:
    """Columns standardised, then scaled and shifted (Ioffe and Szegedy, 2015).

    By the batch's own mean and variance, which are noted in ``statistics`` where that is given, unless the parameters hold
    some from before.
    """
    scale, shift = parameters[f"{layer}.scale"], parameters[f"{layer}.shift"]
    mean, variance = (parameters.get(f"{layer}.{name}") for name in ("mean", "variance"))
    if mean is not None and variance is not None:
        return ((h - mean) * (scale * (variance + _EPSILON).rsqrt()) + shift).to(h.dtype)
    wide = torch.promote_types(h.dtype, torch.float32)
    if statistics is not None:
        variance, mean = torch.var_mean(h.to(wide), 0, correction=0)
        statistics |= {f"{layer}.mean": mean, f"{layer}.variance": variance}
    return torch.batch_norm(h, scale.to(wide), shift.to(wide), None, None, True, 0.0, _EPSILON, False)


def perceptron(parameters: Parameters, z: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """Two linear layers with an activation between."""
    h = activation(z @ parameters["0.weight"] + parameters["0.bias"])
    return h @ parameters["1.weight"] + parameters["1.bias"]
