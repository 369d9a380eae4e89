from __future__ import annotations

import pytest

from clnr.embedding.graph_sources import as_table_graph
from clnr.embedding.tuning import tune
from clnr.engine import cpu_engine
from clnr.errors import DataError
from clnr.methods import CLNR
from clnr.methods.recipe import Recipe
from tests.conftest import tiny

optuna = pytest.importorskip("optuna")
RECIPE = Recipe(hidden=8, dimension=4, epochs=2, probe_steps=5)


@pytest.mark.parametrize("graph", [tiny(), tiny(3, 1).without_labels()], ids=["tuned", "refused"])
def test_optunas_verbosity_is_put_back(graph):
    optuna.logging.set_verbosity(optuna.logging.DEBUG)
    said = []
    try:
        tune(as_table_graph(graph), CLNR, RECIPE, 0, cpu_engine(), 2, 0.05, {}, said.append)
    except DataError:
        assert graph.labels is None
    finally:
        assert optuna.logging.get_verbosity() == optuna.logging.DEBUG
        optuna.logging.set_verbosity(optuna.logging.WARNING)
    assert len(said) == (0 if graph.labels is None else 2)
