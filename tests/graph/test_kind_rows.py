from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler, normalize

from clnr.evaluation.link_prediction import kind_cosines
from clnr.graph.kind_rows import KindScale, sparse_unit

random = np.random.default_rng(0)
Z = random.normal(2, 3, (30, 6)).astype(np.float32)
KINDS = random.integers(0, 3, 30)
LINKED = sp.csr_array(np.triu(random.random((30, 30)) < 0.2, 1).astype(np.float32) * 0.5)
LINKED = (LINKED + LINKED.T).tocsr()
PAIRS = random.integers(0, 30, (2, 200))


def by_hand(c, a, b):
    if KINDS[a] == KINDS[b]:
        return c[a] @ c[b]
    total = 0.0
    for one, other in ((a, b), (b, a)):
        near = [j for j in range(30) if LINKED[one, j] and KINDS[j] == KINDS[other]]
        if near:
            mean = np.mean([c[j] for j in near], axis=0)
            total += mean @ c[other] / np.linalg.norm(mean)
    return total / 2


@pytest.mark.parametrize("sparse", [False, True])
def test_pairs_of_two_kinds_are_compared_by_their_neighbours(sparse):
    c = normalize(Z) if sparse else np.empty_like(Z)
    for kind in range(0 if sparse else 3):
        c[kind == KINDS] = normalize(StandardScaler().fit_transform(Z[kind == KINDS]))
    found = kind_cosines(sp.csr_array(Z) if sparse else Z, PAIRS, KINDS, LINKED)
    np.testing.assert_allclose(found, [by_hand(c, a, b) for a, b in PAIRS.T], atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_a_sparse_matrix_become_those_of_scikit_learn(dtype):
    rows = sp.csr_array(np.where(random.random((40, 300)) < 0.1, random.normal(size=(40, 300)), 0).astype(dtype))
    rows.data[rows.indptr[3] : rows.indptr[4]] = 0
    before = rows.toarray()
    np.testing.assert_allclose(sparse_unit(rows).toarray(), normalize(rows).toarray(), rtol=2 * np.finfo(dtype).eps)
    assert (rows.toarray() == before).all()
    assert sparse_unit(sp.csr_array((0, 3), dtype=dtype)).shape == (0, 3)


def test_rows_in_parts_are_standardised_as_all_at_once():
    scale = KindScale(6)
    for part in np.split(Z, [4, 4, 17]):
        scale.add(part)
    np.testing.assert_allclose(scale.standardise(Z), normalize(StandardScaler().fit_transform(Z)), atol=1e-5)


@pytest.mark.parametrize("z", [np.ones((5, 3)), np.zeros((5, 3)), np.ones((1, 2)), np.zeros((0, 2))])
def test_rows_that_do_not_differ_become_zeros(z):
    scale = KindScale(z.shape[1])
    scale.add(z)
    np.testing.assert_array_equal(scale.standardise(z), np.zeros_like(z))
