"""Texts split into words and hashed all at once, against Python's own words and zlib's CRC, one by one."""

from __future__ import annotations

import re
import zlib

import numpy as np
import pytest

from clnr.tables.columns.text_words import split_words, text_buckets

pa = pytest.importorskip("pyarrow")
hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

# Letters that are lower-cased by what stands around them, into several or from other alphabets; digits of many kinds; marks.
ODD = "ΑΣσςİıſKẞßÅǅ漢字٣²½Ⅷ\u0301\u200d\u00b7😀'.:^`_-\n\t\x00\u00a0\u2028 aZ09"
TEXT = st.one_of(st.text(st.sampled_from(ODD), max_size=12), st.text(max_size=20), st.text(st.characters(codec="ascii")))


def check(texts, array):
    row, word, words = split_words(array)
    words = words.to_pylist()
    assert (np.diff(row) >= 0).all()
    assert len(set(words)) == len(words)
    found = [[words[k] for k in word[row == i]] for i in range(len(texts))]
    assert [sorted(each) for each in found] == [sorted(re.findall(r"\w+", text.lower())) for text in texts]


@hypothesis.settings(max_examples=300, deadline=None)
@hypothesis.given(st.lists(TEXT, max_size=6))
def test_words_are_those_of_python(texts):
    # A slice of an array does not start where its bytes do.
    check(texts, pa.array(["before", *texts, "after"]).slice(1, len(texts)))


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(st.lists(st.one_of(TEXT, st.text("ab", min_size=60, max_size=70)), max_size=6))
def test_texts_have_the_buckets_of_their_crc(texts):
    assert text_buckets(pa.array(texts, pa.string()), 256).tolist() == [zlib.crc32(text.encode()) % 256 for text in texts]


def test_a_sigma_is_lower_cased_as_in_the_whole_text():
    texts = ["ΑΣ'Α", "ΑΣ' Α", "ΟΔΟΣ ΟΔΟΣ.", "ΑΣ.:^`", "ΣΑΣ-ΣΑΣ"]
    check(texts, pa.array(texts))
