"""Which column says what nodes are called."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

from clnr.embedding.result.nodes import Nodes
from clnr.errors import DataError
from clnr.tables import read_tables

EDGES = pandas.DataFrame({"source": [0, 1, 2], "target": [1, 2, 3]})
FOUR = ["Ada", "Bob", "Cy", "Dee"]


def frame(**columns):
    return pandas.DataFrame({"id": range(4), "size": [1.5, 2, 3, 5], **columns})


def names(nodes, **asked):
    return read_tables(EDGES, nodes, **asked).ingest_report.names


@pytest.mark.parametrize("column", ["name", "title", "page_name", "Full Name", "jobTitle", " Title "])
def test_a_column_of_short_differing_texts_that_is_called_a_name_is_one(column):
    assert names(frame(**{column: FOUR})) == column


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("who", FOUR),  # called otherwise
        ("name", ["a", "b", "a", "b"]),  # only half of them differ
        ("name", ["Ada", None, " ", None]),  # most have none
        ("name", ["12", "7", "-3.5", "Dee"]),  # mostly numbers
        ("name", [1, 2, 3, 4]),
        ("name", [["Ada"], ["Bob"], ["Cy"], ["Dee"]]),
        ("title", [f"{each} " * 40 for each in FOUR]),  # long
        ("name", [None] * 4),
    ],
)
def test_others_are_none(column, values):
    assert names(frame(**{column: values})) is None


def test_the_plain_word_comes_first_and_ids_and_classes_are_no_names():
    assert names(frame(nickname=FOUR, title=FOUR[::-1])) == "title"
    assert names(frame(nickname=FOUR, title=FOUR), label="title") == "nickname"
    assert names(frame(name=FOUR), label="name") is None
    assert names(pandas.DataFrame({"name": range(4), "size": [1, 2, 3, 5]})) is None


def test_a_name_that_is_asked_for_is_taken_whatever_it_is():
    assert names(frame(name=FOUR, kind=["x", "x", "y", "y"]), names="KIND") == "kind"
    assert names(frame(name=FOUR), names="id") is None
    with pytest.raises(DataError, match=r"there is no column 'list' for names; there are id, size$"):
        names(frame(list=[[1]] * 4), names="list")


def test_it_is_a_feature_or_not_as_it_was():
    nodes = frame(name=FOUR)
    with_names, without = read_tables(EDGES, nodes), read_tables(EDGES, nodes, names="id")
    assert (with_names.ingest_report.names, without.ingest_report.names) == ("name", None)
    assert with_names.graph.digest == without.graph.digest


def test_names_are_those_of_the_nodes_trimmed_and_empty_where_there_are_none():
    read = read_tables(EDGES, frame(name=[" Ada ", None, "2", ""]), names="name")
    assert Nodes.of_tables(read).names_of(np.array([3, 2, 1, 0])) == ["", "", "", "Ada"]
    numbers = read_tables(EDGES, frame(size_=[1, 2, 3, 4]), names="size")
    assert Nodes.of_tables(numbers).names_of(np.array([0, 1])) == ["1.5", "2"]
    assert Nodes.of_tables(read_tables(EDGES, frame())).names_of(np.arange(4)) == [""] * 4
