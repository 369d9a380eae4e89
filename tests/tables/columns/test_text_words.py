"""Words of text columns: their vocabulary against scikit-learn's TfidfVectorizer, their hashes against zlib's."""

from __future__ import annotations

import re
import zlib

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.text_words import learn_vocabulary, split_words, text_buckets
from clnr.tables.io.sql import connect
from tests.tables.files import encoded, stored

WORDS = ["Graph", "naïve", "ΟΔΟΣ", "of", "İ", "漢字", "x_1", "it's", "3.5", "A-B", "the", "neighbours", "٣", "Straße"]


def oracle(**more):
    return TfidfVectorizer(token_pattern=r"\w+", lowercase=True, smooth_idf=True, binary=True, **more)


def texts(count=300, seed=0):
    """Texts of frequent words, rare words, and words of one text only; some have no word, some are missing."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        rare = [f"rare{k}" for k in rng.geometric(0.05, 3)]
        made.append(" ".join([*rng.choice(WORDS, 1 + i % 5), *rare, f"only{i}"]) if i % 7 else f"only{i} lone{i} , !")
    made[8], made[15], made[22] = "!! , ?", None, "   "
    return made


@pytest.fixture
def table():
    """Stores texts as column ``x`` of a table."""
    with connect() as db:
        yield lambda given: (db, stored(db, {"x": pa.array(given, pa.string())}))


def learned(table, given):
    db, people = table(given)
    encoder = FeatureEncoder.fit(db, people, ["x"], {"x": "text"}, asked=False)
    (column,) = encoder.columns
    assert column.kind == "text"
    return encoder, column, encoded(db, people, encoder)


def test_all_words_are_kept_and_weighted_as_by_scikit_learn(table):
    """Missing texts do not count as texts without the word."""
    _, encoder, x = learned(table, texts())
    known = [i for i, text in enumerate(texts()) if text and text.strip()]
    vectorizer = oracle()
    expected = vectorizer.fit_transform([texts()[i] for i in known])
    assert encoder.values == tuple(vectorizer.get_feature_names_out())
    assert np.allclose(encoder.weights, vectorizer.idf_, rtol=1e-12)
    assert (encoder.buckets, encoder.distinct, encoder.missing) == (0, len(encoder.values), True)
    assert abs(x[known, : encoder.width] - expected).max() < 1e-6
    assert np.flatnonzero(x[:, [encoder.width]].toarray()).tolist() == [15, 22]


def test_unseen_words_have_no_feature(table):
    feature_encoder, encoder, _ = learned(table, texts())
    given = ["graph Graphs", "Graphs and more", "of naïve neighbours unheard", "ΟΔΟΣ ΝΕΟΣ", "x_1x"]
    db, people = table(given)
    expected = oracle().fit([text for text in texts() if text and text.strip()]).transform(given)
    x = encoded(db, people, feature_encoder)[:, : encoder.width]
    assert abs(x - expected).max() < 1e-6
    assert np.diff(x.indptr).tolist() == [1, 0, 3, 1, 0]


BOUND, BUCKETS = 20, 8


def kept_words(given):
    """The most frequent of the words of two texts or more, by definition; and the texts of each word."""
    vectorizer = oracle()
    counts = np.diff((vectorizer.fit_transform(given) != 0).tocsc().indptr)
    frequency = dict(zip(vectorizer.get_feature_names_out().tolist(), counts.tolist(), strict=True))
    frequent = sorted((word for word, count in frequency.items() if count > 1), key=lambda word: (-frequency[word], word))
    return sorted(frequent[:BOUND]), frequency


@pytest.fixture
def bounds(monkeypatch):
    monkeypatch.setattr("clnr.tables.columns.infer._MOST_WORDS", BOUND)
    monkeypatch.setattr("clnr.tables.columns.infer._WORD_BUCKETS", BUCKETS)


@pytest.mark.usefixtures("bounds")
def test_words_of_one_text_are_never_kept_beyond_the_bound(table):
    _, encoder, x = learned(table, [f"a{i} b{i}" for i in range(60)] + ["c c", "c d"])
    assert (encoder.values, encoder.buckets) == (("c",), BUCKETS)
    assert np.diff(x.indptr).all()


@pytest.mark.usefixtures("bounds")
def test_beyond_the_bound_the_most_frequent_words_are_kept_and_the_others_hashed(table):
    given = [text for text in texts() if text and text.strip()]
    feature_encoder, encoder, x = learned(table, given)
    words, frequency = kept_words(given)
    assert encoder.values == tuple(words)
    assert (encoder.buckets, encoder.width, encoder.distinct) == (BUCKETS, BOUND + BUCKETS, len(frequency))
    summary = f"20 most frequent of {len(frequency)} words, weighted by rarity, the others hashed into 8 features"
    assert encoder.summary == summary

    def feature_of(word):
        return words.index(word) if word in words else BOUND + zlib.crc32(word.encode()) % BUCKETS

    counts = np.zeros(encoder.width)
    for word, count in frequency.items():
        counts[feature_of(word)] += count
    weights = np.log((1 + len(given)) / (1 + np.minimum(len(given), counts))) + 1
    assert np.allclose(encoder.weights, weights, rtol=1e-12)
    split = oracle().build_analyzer()
    more = ["unheard words only", "graph unheard", ""]
    db, people = table([*given, *more])
    rows = encoded(db, people, feature_encoder).toarray()
    assert np.array_equal(rows[: len(given)], x.toarray())
    for text, row in zip([*given, *more], rows, strict=True):
        found = sorted({feature_of(word) for word in split(text)})
        expected = np.zeros(encoder.width)
        expected[found] = weights[found]
        assert np.allclose(row, expected / max(1, np.linalg.norm(expected)), atol=1e-6)
    assert all(rows[i].any() for i, text in enumerate(given) if "only" in text)


@pytest.mark.parametrize(("bound", "rows", "threads"), [(20, 7, 3), (1 << 14, 64, 1), (20, 1 << 18, 1)])
def test_rows_chunks_threads_and_a_file_do_not_matter(table, monkeypatch, bound, rows, threads):
    monkeypatch.setattr("clnr.tables.columns.infer._MOST_WORDS", bound)
    given = texts()
    _, encoder, x = learned(table, given)
    monkeypatch.setattr("clnr.tables.columns.feature_encoder._CHUNK_ROWS", rows)
    before = pa.cpu_count()
    pa.set_cpu_count(threads)
    try:
        order = np.random.default_rng(rows).permutation(300)
        again, same, y = learned(table, [given[i] for i in order])
    finally:
        pa.set_cpu_count(before)
    assert same == encoder
    assert np.array_equal(y.toarray(), x.toarray()[order])
    assert FeatureEncoder.of(again.to_json()).columns == (encoder,)


@pytest.mark.parametrize("given", [[f"! {'?' * i} !" for i in range(60)], [f"only{i} seven{i}" for i in range(60)]])
def test_texts_without_words_or_of_which_no_two_share_one_are_no_feature_unless_asked_for(table, given):
    db, people = table(given)
    assert FeatureEncoder.fit(db, people, ["x"], {}, asked=False).columns == ()
    has_words = "only" in given[1]
    assert len(FeatureEncoder.fit(db, people, ["x"], {"x": "text"}, asked=False).columns) == has_words


def test_no_texts_have_no_vocabulary():
    nothing = pa.array([], pa.string())
    assert learn_vocabulary([nothing], 10, 5)[:3] == ((), (), 0)
    assert learn_vocabulary([pa.array([None, "", "a"])], 10, 5)[:3] == (("a",), (pytest.approx(np.log(3 / 2) + 1),), 1)


def test_of_equally_frequent_words_the_first_are_kept():
    given = pa.array(["d c é b", "b c é d", "once a", "a twice a"])
    assert learn_vocabulary([given], 3, 5).words == ("a", "b", "c")


def test_a_bucket_is_in_all_texts_at_most():
    words, weights, *_ = learn_vocabulary([pa.array(["a b c d", "b a d c"])], 1, 1)
    assert (words, weights) == (("a",), (1.0, 1.0))


# -- split and hashed, against Python's own words and zlib's CRC, one by one ----------------------------------------------

# Letters that are lower-cased by what stands around them, into several or from other alphabets; digits of many kinds; marks.
ODD = "ΑΣσςİıſKẞßÅǅ漢字٣²½Ⅷ\u0301\u200d\u00b7😀'.:^`_-\n\t\x00\u00a0\u2028 aZ09"
TEXT = st.one_of(st.text(st.sampled_from(ODD), max_size=12), st.text(max_size=20), st.text(st.characters(codec="ascii")))


def check_words(texts, array):
    row, word, words = split_words(array)
    words = words.to_pylist()
    assert (np.diff(row) >= 0).all()
    assert len(set(words)) == len(words)
    found = [[words[k] for k in word[row == i]] for i in range(len(texts))]
    assert [sorted(each) for each in found] == [sorted(re.findall(r"\w+", text.lower())) for text in texts]


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(st.lists(TEXT, max_size=6))
def test_words_are_those_of_python(texts):
    # A slice of an array does not start where its bytes do.
    check_words(texts, pa.array(["before", *texts, "after"]).slice(1, len(texts)))


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(st.lists(st.one_of(TEXT, st.text("ab", min_size=60, max_size=70)), max_size=6))
def test_texts_have_the_buckets_of_their_crc(texts):
    assert text_buckets(pa.array(texts, pa.string()), 256).tolist() == [zlib.crc32(text.encode()) % 256 for text in texts]


def test_a_sigma_is_lower_cased_as_in_the_whole_text():
    texts = ["ΑΣ'Α", "ΑΣ' Α", "ΟΔΟΣ ΟΔΟΣ.", "ΑΣ.:^`", "ΣΑΣ-ΣΑΣ"]
    check_words(texts, pa.array(texts))
