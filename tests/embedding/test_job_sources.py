"""New tables with an earlier model; what is embedded then is tested with folders in test_artifact.py."""

from __future__ import annotations

import pytest

from clnr.embedding.job import fit
from clnr.embedding.job_sources import plan_extension
from clnr.methods import METHODS
from clnr.tables import read_tables
from tests.embedding.test_fit_settings import settings


@pytest.mark.parametrize("kind", [None, "met"])
def test_the_plan_of_an_extension_says_how_new_columns_are_read(kind, tables):
    def named(edges):
        return {**tables, "edges": edges if kind is None else {kind: edges}}

    earlier = fit(read_tables(**named(tables["edges"])), settings(method=METHODS["Raw"], recipe={}, evaluate=False))
    plan = plan_extension(earlier, {"edges": named(tables["edges"])["edges"]})
    assert plan.new_nodes == 0
    assert any("'source': source" in line for line in plan.columns)
    assert not any("nodes" in line.partition(":")[0] for line in plan.columns)
