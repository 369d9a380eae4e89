import numpy as np
import pytest
import torch

from clnr import rng
from clnr.nn.low_rank import orthonormal, principal_directions

CPU = torch.device("cpu")
KEY = rng.key(0, "test")


def directions_of(matrix, count):
    map_ = torch.tensor(matrix, dtype=torch.float32)
    return principal_directions(lambda weight: map_ @ weight, matrix.shape[1], count, KEY, CPU).numpy()


def spectrum(rows, columns, values, seed=0):
    """A matrix with given singular values."""
    random = np.random.default_rng(seed)
    u, _ = np.linalg.qr(random.standard_normal((rows, len(values))))
    v, _ = np.linalg.qr(random.standard_normal((columns, len(values))))
    return u * values @ v.T


@pytest.mark.parametrize("shape", [(60, 30), (30, 60), (200, 100), (5, 40), (40, 5), (1, 7), (7, 1)])
def test_singular_values_and_spaces_are_numpys(shape):
    matrix = spectrum(*shape, 0.8 ** np.arange(min(shape)))
    count = min(4, *shape)
    found = directions_of(matrix, count)
    _, values, vectors = np.linalg.svd(matrix)
    np.testing.assert_allclose(found.T @ found, np.eye(count), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(matrix @ found, axis=0), values[:count], rtol=1e-4)
    np.testing.assert_allclose(found @ found.T, vectors[:count].T @ vectors[:count], atol=2e-3)
    assert (found[np.abs(found).argmax(0), np.arange(count)] > 0).all()


def test_a_flat_spectrum_loses_hardly_any_of_the_best_variance():
    """Where many singular values are alike, the space is not unique; what it holds is."""
    matrix = np.random.default_rng(0).standard_normal((500, 300))
    found = directions_of(matrix, 40)
    best = (np.linalg.svd(matrix)[1][:40] ** 2).sum()
    assert 0.97 * best <= ((matrix @ found) ** 2).sum() <= best * (1 + 1e-5)


@pytest.mark.parametrize("rank", [0, 1, 2, 5])
@pytest.mark.parametrize(("rows", "columns", "count"), [(40, 30, 12), (800, 600, 256), (2, 700, 256)])
def test_a_deficient_rank_is_no_trouble(rank, rows, columns, count):
    rank = min(rank, rows)
    matrix = spectrum(rows, columns, np.linspace(5, 1, rank))
    found = directions_of(matrix, count)
    assert found.shape == (columns, count)
    assert np.isfinite(found).all()
    images = matrix @ found
    np.testing.assert_allclose(images @ images.T, matrix @ matrix.T, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e-6, 1e6, 1e12, 1e30])
def test_scale_does_not_matter(scale):
    matrix = spectrum(40, 30, 0.5 ** np.arange(8))
    np.testing.assert_allclose(directions_of(matrix * scale, 3), directions_of(matrix, 3), atol=1e-3)


@pytest.mark.full
def test_many_equal_columns_are_no_trouble():
    """As many as the widest read-outs ask for: rounding errors grow with their number."""
    for columns in (np.ones((2000, 1500)), np.eye(2000, 1500)[:, :1] * np.ones(1500)):
        found = orthonormal(torch.tensor(columns, dtype=torch.float32))
        assert found.isfinite().all()


FIRST = np.arange(9)


@pytest.mark.parametrize(
    ("rows", "columns", "values"),
    [(3, 5, 1), (3, slice(None), 1), (slice(None), 5, 2), (FIRST, FIRST, 1), (FIRST, FIRST, 10.0**-FIRST)],
    ids=["one entry", "one row", "one column", "few words, each in one row", "powers of ten"],
)
def test_exact_dependencies_of_columns(rows, columns, values):
    """Products without any rounding error to hide that they are singular."""
    matrix = np.zeros((300, 400))
    matrix[rows, columns] = values
    found = directions_of(matrix, 256)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(np.linalg.norm(matrix @ found), np.linalg.norm(matrix), rtol=1e-5)


def test_without_columns_or_rows_there_are_none():
    assert directions_of(np.zeros((5, 0)), 3).shape == (0, 0)
    empty = directions_of(np.zeros((0, 5)), 3)
    assert empty.shape == (5, 3)
    assert np.isfinite(empty).all()
    assert directions_of(np.ones((4, 5)), 0).shape == (5, 0)


def test_orthonormal_spans_what_it_is_given():
    columns = np.random.default_rng(3).standard_normal((50, 6)) @ np.diag(10.0 ** -np.arange(6))
    found = orthonormal(torch.tensor(columns, dtype=torch.float32)).numpy()
    np.testing.assert_allclose(found.T @ found, np.eye(6), atol=1e-5)
    expected, _ = np.linalg.qr(columns)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-3)
