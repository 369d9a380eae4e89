import pytest
import torch

from clnr.nn.autograd import inverse_root_gradient, square_roots
from clnr.nn.postprocess import FLOOR, inverse_root

WIDTH = 48
LOW = FLOOR / (1 + FLOOR) / WIDTH
SPECTRA = {
    "one direction": [1.0] + [0.0] * (WIDTH - 1),
    "a few": [3.0, 2.0, 2.0] + [0.0] * (WIDTH - 3),
    "a power": [1 / (1 + i) ** 2 for i in range(WIDTH)],
    "equal": [1.0] * WIDTH,
    "tiny": [1e-14] * WIDTH,
    "huge": [1e14 / (1 + i) for i in range(WIDTH)],
}


def covariance(spectrum):
    """A matrix with these eigenvalues, and the floor that whitening adds."""
    torch.manual_seed(0)
    q = torch.linalg.qr(torch.randn(WIDTH, WIDTH, dtype=torch.float64))[0]
    values = torch.tensor(spectrum, dtype=torch.float64)
    return (q * (values + FLOOR * values.mean())) @ q.T


@pytest.mark.parametrize("name", SPECTRA)
def test_roots_are_those_of_eigenvalues(name):
    matrix = covariance(SPECTRA[name])
    matrix = (matrix + matrix.T) / 2
    values, q = torch.linalg.eigh(matrix)
    root, inverse = square_roots(matrix, LOW)
    expected, inverted = (q * values.sqrt()) @ q.T, (q / values.sqrt()) @ q.T
    assert (root - expected).norm() <= 1e-8 * expected.norm()
    assert (inverse - inverted).norm() <= 1e-8 * inverted.norm()


@pytest.mark.parametrize("name", SPECTRA)
def test_the_gradient_is_that_of_eigenvalues(name):
    matrix = covariance(SPECTRA[name])
    matrix = ((matrix + matrix.T) / 2).requires_grad_()
    grad = torch.randn(WIDTH, WIDTH, dtype=torch.float64)
    (expected,) = torch.autograd.grad(inverse_root(matrix), matrix, grad)
    roots = square_roots(matrix.detach(), LOW)
    found = inverse_root_gradient(*roots, (grad + grad.T) / 2, LOW)
    assert (found - expected).norm() <= 1e-8 * expected.norm()
