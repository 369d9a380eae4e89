"""How much is compiled at first use."""

from __future__ import annotations

import pytest

from tests.command_line import run_script

SCRIPT = """
import numpy as np
import torch
from clnr.engine.cpu.csr_arrays import CSRArrays, numba_kernels

matrix = CSRArrays(np.array([0, 1, 2]), np.array([1, 0], np.int32), np.ones(2, np.float32))
h, factor = torch.eye(2), torch.ones(2)
products = [matrix.multiply(h, relu, bias, None) for relu in (False, True) for bias in (None, torch.zeros(2))]
products += [matrix.multiply_columns(factor, h, None), matrix.multiply_rows(factor, h)]
assert all((each == h.flip(0)).all() for each in products)
print(len(numba_kernels()._add.signatures))
"""


@pytest.mark.full
def test_the_inner_loops_of_products_are_compiled_twice_with_and_without_relu(tmp_path):
    """Another constant among their arguments would be a type of its own, and take a second more."""
    ended = run_script(SCRIPT, NUMBA_CACHE_DIR=str(tmp_path))
    assert (ended.stdout, ended.stderr) == ("2\n", "")
