from __future__ import annotations

import numpy as np
import torch

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


def test_a_plain_encoder_does_the_same_with_every_view_and_needs_nothing_else():
    one, two = operators(tiny()), operators(tiny(seed=1))
    encoder = Features()
    for index, view in enumerate((one, two, one)):
        (rows,) = encoder.rows({}, view, index)
        assert torch.equal(rows.materialize(), view.features)
    parameters = {}
    assert encoder.finalize(parameters, [one]) is parameters
    encoder.update_ema(parameters, 0, 2)
    assert parameters == {}


def test_no_encoder_gives_nothing():
    seen = operators(tiny())
    encoder = NoEncoder()
    assert encoder.init(12, rng.key(0)) == {}
    assert encoder.width(12) == 0
    assert encoder.outputs({}, [seen]) == []
    assert encoder({}, seen).shape == encoder.embed({}, [seen]).shape == (40, 0)
