"""The study of moments."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.moments import equivalence
from scipy import stats


@pytest.mark.parametrize("shift", [0.0, 0.2, -0.45, 3.0])
def test_equivalence_is_two_one_sided_tests(shift):
    differences = np.random.default_rng(0).normal(shift, 0.5, 20)
    above = stats.ttest_1samp(differences, -0.5, alternative="greater").pvalue
    below = stats.ttest_1samp(differences, 0.5, alternative="less").pvalue
    assert equivalence(differences, 0.5) == pytest.approx(max(above, below), rel=1e-9)


def test_equivalence_of_constant_differences():
    assert [equivalence(each, 0.5) for each in ([0.1] * 5, [0.5] * 5, [0.0], [])] == [0, 1, 1, 1]
