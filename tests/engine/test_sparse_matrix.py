from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr.engine import to_sparse_matrix

CPU = torch.device("cpu")


@pytest.mark.parametrize("shape", [(7, 5), (1, 4), (4, 0), (0, 0)])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_a_matrix_of_some_entries_is_scipys(shape, share):
    random = np.random.default_rng(0)
    whole = sp.random_array(shape, density=0.6, rng=random, format="csr")
    matrix = to_sparse_matrix(whole, CPU)
    keep = torch.tensor(random.random(whole.nnz) < share)
    rows, columns = matrix.rows[keep].numpy(), matrix.columns[keep].numpy()
    expected = to_sparse_matrix(sp.csr_array((matrix.values[keep].numpy(), (rows, columns)), shape=shape), CPU)
    found = matrix.only(keep)
    assert found.shape == shape
    for name in (
        "indptr",
        "columns",
        "rows",
        "values",
        "transposed_indptr",
        "transposed_columns",
        "transposed_values",
        "order",
    ):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
