"""Edges in arrays have the ids that the same edges in a data frame have."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from clnr.embedding.graph_sources import as_graph


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", [np.inf, -np.inf, 1e19, -1e19, 2.0**54, 2.0**53, -7.0, 0.5])
@pytest.mark.parametrize("weights", [[], [[1.0, 2.0, 3.0, 4.0]]])
def test_ids_of_a_float_array_are_those_of_a_frame(odd, weights):
    columns = [[0.0, 1.0, 2.0, 1.0], [1.0, odd, 1.0, 3.0], *weights]
    names = ("source", "target", "weight")
    frame = pd.DataFrame(dict(zip(names, columns, strict=False)))
    found, expected = (as_graph(given).ids.tolist() for given in (np.array(columns).T, frame))
    # An array has no types of columns: its ids are whole numbers if all are.
    assert [str(each) for each in found] == expected
    # What is not finite is no node.
    assert len(found) == (5 if np.isfinite(odd) else 4)
