"""Messages of these tests name options; those of tests/test_errors.py name arguments of Python."""

import pytest


@pytest.fixture(autouse=True)
def name_options(options):
    return options
