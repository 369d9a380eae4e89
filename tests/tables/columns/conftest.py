"""A connection to DuckDB, as columns are read by."""

from __future__ import annotations

import pytest

from clnr.tables.io.sql import connect


@pytest.fixture
def db():
    db = connect()
    yield db
    db.close()
