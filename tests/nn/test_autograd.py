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
def test_roots_and_their_gradient_are_those_of_eigenvalues(name):
    matrix = covariance(SPECTRA[name])
    matrix = ((matrix + matrix.T) / 2).requires_grad_()
    values, q = torch.linalg.eigh(matrix.detach())
    roots, grad = square_roots(matrix.detach(), LOW), torch.randn(WIDTH, WIDTH, dtype=torch.float64)
    (expected,) = torch.autograd.grad(inverse_root(matrix), matrix, grad)
    found = inverse_root_gradient(*roots, (grad + grad.T) / 2, LOW)
    exact = (q * values.sqrt()) @ q.T, (q / values.sqrt()) @ q.T
    for one, other in zip((*roots, found), (*exact, expected), strict=True):
        assert (one - other).norm() <= 1e-8 * other.norm()
