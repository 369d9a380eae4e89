from __future__ import annotations

import pytest
import torch

from clnr.engine import gram


@pytest.mark.parametrize("width", [1, 2, 255, 256, 257, 512, 600])
def test_the_half_of_a_gram_matrix_is_the_whole(width):
    p = torch.randn(33, width, dtype=torch.float64)
    torch.testing.assert_close(gram(p), p.T @ p)
    assert torch.equal(gram(p), gram(p).T) or width < 256


def test_the_sums_of_bfloat16_are_float32():
    p = torch.randn(1000, 8).bfloat16()
    assert gram(p).dtype == torch.float32
    torch.testing.assert_close(gram(p), p.float().T @ p.float())
