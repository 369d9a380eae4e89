"""The principal directions of a linear map that is given only as a function."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from clnr import rng

_EXTRA_COLUMNS = 16
_ITERATIONS = 4
_SHIFT_PER_COLUMN = 1e-12


def principal_directions(
    apply: Callable[[Tensor], Tensor], width: int, count: int, key: rng.Key, device: torch.device
) -> Tensor:
    """The right singular vectors of the largest singular values of a linear map, as orthonormal columns.

    ``apply(directions)`` are then the left ones times their singular values; the transpose of the map is its gradient. There
    are never more than ``width``, the number of columns of the map.
    """

    def inner(directions: Tensor) -> Tensor:
        images = _scaled(apply(directions).to(torch.float32))
        return images.T @ images

    return _subspace(lambda directions: _squared(apply, directions), inner, width, count, key, device)


def principal_axes(rows: Tensor, count: int, key: rng.Key) -> Tensor:
    """``principal_directions`` of a matrix with few columns, from their inner products."""
    rows = _scaled(rows.to(torch.float32))
    return axes_of_inner_products(rows.T @ rows, count, key)


def axes_of_inner_products(inner: Tensor, count: int, key: rng.Key) -> Tensor:
    """``principal_axes`` of a matrix, given the inner products of its columns."""
    inner = _scaled(inner).to(torch.float32)

    def of(directions: Tensor) -> Tensor:
        return directions.T @ (inner @ directions)

    return _subspace(lambda directions: inner @ directions, of, len(inner), count, key, inner.device)


def _subspace(
    multiply: Callable[[Tensor], Tensor],
    inner: Callable[[Tensor], Tensor],
    width: int,
    count: int,
    key: rng.Key,
    device: torch.device,
) -> Tensor:
    """The principal directions of a matrix by subspace iteration from random ones (Halko, Martinsson and Tropp, 2011).

    ``multiply`` is by its square, up to a factor, and ``inner`` has the inner products of some directions' images. The sign of
    each column is such that its largest number is positive.
    """
    count = min(count, width)
    if not count:
        return torch.zeros(width, 0, device=device)
    if device.type == "meta":
        # Only the shape is asked for, and to follow it through every step takes half a second.
        return torch.empty(width, count, device=device)
    some = min(width, count + _EXTRA_COLUMNS)
    with torch.no_grad():
        if some == width:
            directions = torch.eye(width, device=device)
        else:
            directions = rng.normal(key, width * some, device).reshape(width, some)
            for _ in range(_ITERATIONS - 1):
                # Only the last ones must be orthonormal; the others need not be far from that.
                directions = _apart(multiply(directions).double()).to(torch.float32)
            directions = orthonormal(multiply(directions))
        # A GPU takes longer for a small matrix than a CPU.
        _, mixing = torch.linalg.eigh(inner(directions).double().cpu())
        vectors = directions @ mixing.flip(1)[:, :count].to(directions)
        largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
        return vectors * torch.where(largest < 0, -1, 1)


def _squared(apply: Callable[[Tensor], Tensor], directions: Tensor) -> Tensor:
    """The product of the map's transpose, the map, and some directions, up to a factor."""
    with torch.enable_grad():
        given = directions.clone().requires_grad_()
        images = apply(given)
        with warnings.catch_warnings():  # Where it is the first gradient on a GPU, torch says that it sets up cuBLAS for it.
            warnings.filterwarnings("ignore", "Attempting to run cuBLAS", UserWarning)
            # The gradient of this sum at the images are those factors, exactly. Given to torch as such, it would import SymPy.
            (back,) = torch.autograd.grad((images * _scaled(images.detach())).sum(), given)
    return back.to(torch.float32)


def _scaled(rows: Tensor) -> Tensor:
    """Rows of which no number is larger than 1, so that their products do not overflow."""
    return rows / rows.abs().amax().clamp(min=1e-30) if rows.numel() else rows


def orthonormal(columns: Tensor) -> Tensor:
    """Orthonormal columns that span the same space.

    By Cholesky factors of their inner products, in float64 and more than once: many times faster on some machines than
    Householder's reflections (Fukaya et al., "Shifted Cholesky QR for computing the QR factorization of ill-conditioned
    matrices", 2020).
    """
    if columns.device.type == "meta":
        return columns
    wide = columns.double()
    for _ in range(3):
        wide = _apart(wide)
    return wide.to(columns.dtype)


def _apart(columns: Tensor) -> Tensor:
    """Columns that span the same space, closer to orthonormal; in float64.

    What is added to the diagonal keeps factors defined where columns depend on each other: rounding errors of the products, and
    of the factors, grow with the number of columns. Factors are small, and are found on the CPU.
    """
    unit = columns / columns.norm(dim=0).clamp(min=1e-300)
    one = torch.eye(columns.shape[1], dtype=unit.dtype, device="cpu")
    factor = torch.linalg.cholesky((unit.T @ unit).cpu() + len(one) * _SHIFT_PER_COLUMN * one)
    return unit @ torch.linalg.solve_triangular(factor, one, upper=False).mT.to(unit.device)
