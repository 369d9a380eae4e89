from __future__ import annotations

import difflib

import numpy as np
import pyarrow as pa
import pytest

from clnr.embedding.search import node_search
from clnr.embedding.search.node_search import NodeTexts, near_texts
from clnr.errors import DataError

WORDS = ["graph", "learning", "belief", "network", "random", "forest", "neural", "decision"]


def parts(texts, size=7):
    return [pa.array(texts[at : at + size], pa.string()) for at in range(0, len(texts), size)]


def test_near_texts_are_those_that_difflib_finds_among_all():
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("abcdef"), 8)) for _ in range(300)]
    for node in range(0, 300, 10):
        letters = list(texts[node])
        letters[random.integers(8)] = "z"
        wanted = "".join(letters)
        found = [texts[each.node] for each in near_texts(parts(texts), wanted, 3)]
        assert found[0] == difflib.get_close_matches(wanted, texts, 1)[0] == texts[node]
        ratio = [difflib.SequenceMatcher(None, each, wanted).ratio() for each in found]
        assert ratio == sorted(ratio, reverse=True)


def test_few_are_compared_and_the_most_alike_are_among_them(monkeypatch):
    monkeypatch.setattr(node_search, "_MOST_COMPARED_TEXTS", 20)
    texts = [f"{WORDS[i % 8]} {WORDS[i // 8 % 8]} {i}" for i in range(2000)]
    (found,) = near_texts(parts(texts, 300), texts[1700].replace("e", "3", 1), 1)
    assert found.node == 1700


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("p1", r"did you mean 'P1' \(Deep Sea\)\?"),
        ("sea", r"did you mean 'P1' \(Deep Sea\), 'P2' \(Deep Seas\)\?"),
        ("montain", r"did you mean 'P3' \(High Mountain, far away\)\?"),
        ("(", "and no id or name is like it; ids are such as 'P1' .Deep Sea., 'P2' .Deep Seas., 'P3'"),
        ("", "and no id or name is like it"),
    ],
)
def test_an_unknown_node_is_answered_with_near_ones(wanted, said):
    ids, names = ["P1", "P2", "P3", "X4"], ["Deep Sea", "Deep Seas", "High Mountain, far away", None]
    texts = NodeTexts(lambda: parts(ids, 2), lambda: parts(names, 2))
    with pytest.raises(DataError, match=f"^there is no node '{'[(]' if wanted == '(' else wanted}'.*{said}"):
        texts.find_named(wanted)


def test_a_name_is_found_in_its_own_case_first():
    texts = NodeTexts(lambda: parts(list("abcd"), 2), lambda: parts(["Oak", "oak", "Elm", None], 2))
    assert [texts.find_named(name) for name in ("Oak", "oak", "ELM")] == [0, 1, 2]
    with pytest.raises(DataError, match="2 nodes are called 'OAK'; take the id of one: 'a', 'b'"):
        texts.find_named("OAK")


def test_no_node_at_all():
    assert str(NodeTexts(list).unknown("a")) == "there is no node 'a', and no id is like it"


def test_an_id_without_its_kind_is_answered_with_that_of_each_kind():
    ids = parts([f"{kind}:{i}" for kind in ("user", "movie") for i in range(1, 20)])
    assert "did you mean 'user:1', 'movie:1', 'user:10'" in str(NodeTexts(lambda: ids).unknown("1"))
