from __future__ import annotations

import numpy as np

from clnr import rng
from clnr.nn.encoders import Features, NoEncoder
from tests.conftest import tiny
from tests.nn.encoders.exact import operators
from tests.oracles import dense


def test_features_are_the_features():
    graph = tiny(sparse=True)
    x = dense(graph.features).astype(np.float32)
    encoder = Features()
    assert encoder.init(12, rng.key(0)) == {}
    assert encoder.width(12) == 12
    np.testing.assert_array_equal(encoder({}, operators(graph)).numpy(), x)
    np.testing.assert_array_equal(encoder.embed({}, [operators(graph)]).numpy(), x)


def test_no_encoder_gives_nothing():
    seen = operators(tiny())
    encoder = NoEncoder()
    assert encoder.init(12, rng.key(0)) == {}
    assert encoder.width(12) == 0
    assert encoder.outputs({}, [seen]) == []
    assert encoder({}, seen).shape == encoder.embed({}, [seen]).shape == (40, 0)
