"""Messages of these tests have the words of the command line; tests/test_errors.py has those of Python."""

import pytest

from clnr.errors import command_line


@pytest.fixture(autouse=True)
def options():
    with command_line(()):
        yield
