"""Vocabularies of text columns, against scikit-learn's TfidfVectorizer."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from clnr.tables import FeatureEncoder
from clnr.tables.columns.text_words import learn_vocabulary
from clnr.tables.io.source import describe, store
from clnr.tables.io.sql import connect

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

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

        def make(given):
            db.execute("DROP TABLE IF EXISTS t")
            db.register("given", pa.table({"x": pa.array(given, pa.string())}))
            return db, store(db, describe(db, "nodes.csv", "given"), "t")

        yield make


def learned(table, given):
    db, people = table(given)
    feature_encoder = FeatureEncoder.fit(db, people, ["x"])
    (encoder,) = feature_encoder.column_encoders
    assert encoder.kind == "text"
    return feature_encoder, encoder, feature_encoder.transform(db, people)


def test_all_words_are_kept_and_weighted_as_by_scikit_learn(table):
    given = [text for text in texts() if text and text.strip()]
    _, encoder, x = learned(table, given)
    vectorizer = oracle()
    expected = vectorizer.fit_transform(given)
    assert encoder.values == tuple(vectorizer.get_feature_names_out())
    assert np.allclose(encoder.weights, vectorizer.idf_, rtol=1e-12)
    assert (encoder.buckets, encoder.distinct, encoder.missing) == (0, len(encoder.values), False)
    assert abs(x - expected).max() < 1e-6
    lengths = sp.linalg.norm(x, axis=1)
    assert np.allclose(lengths, [text != "!! , ?" for text in given], atol=1e-6)


def test_missing_texts_are_no_texts(table):
    """They do not count as texts without the word."""
    _, encoder, x = learned(table, texts())
    vectorizer = oracle().fit([text for text in texts() if text and text.strip()])
    assert np.allclose(encoder.weights, vectorizer.idf_, rtol=1e-12)
    assert np.flatnonzero(x[:, [encoder.width]].toarray()).tolist() == [15, 22]


def test_unseen_words_have_no_feature(table):
    feature_encoder, encoder, _ = learned(table, texts())
    given = ["graph Graphs", "Graphs and more", "of naïve neighbours unheard", "ΟΔΟΣ ΝΕΟΣ", "x_1x"]
    db, people = table(given)
    expected = oracle().fit([text for text in texts() if text and text.strip()]).transform(given)
    x = feature_encoder.transform(db, people)[:, : encoder.width]
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
    rows = feature_encoder.transform(db, people).toarray()
    assert np.array_equal(rows[: len(given)], x.toarray())
    for text, row in zip([*given, *more], rows, strict=True):
        found = sorted({feature_of(word) for word in split(text)})
        expected = np.zeros(encoder.width)
        expected[found] = weights[found]
        assert np.allclose(row, expected / max(1, np.linalg.norm(expected)), atol=1e-6)
    assert all(rows[i].any() for i, text in enumerate(given) if "only" in text)


@pytest.mark.usefixtures("bounds")
def test_words_of_one_text_are_never_kept_beyond_the_bound(table):
    _, encoder, x = learned(table, [f"{word}{i} {word}x{i}" for i in range(40) for word in ("a", "b")] + ["c c", "c d"])
    assert (encoder.values, encoder.buckets) == (("c",), BUCKETS)
    assert np.diff(x.indptr).all()
    _, encoder, x = learned(table, [f"a{i} b{i}" for i in range(60)])
    assert (encoder.values, encoder.width, encoder.summary) == (
        (),
        BUCKETS,
        "120 words hashed into 8 features, weighted by rarity",
    )
    assert np.diff(x.indptr).all()


@pytest.mark.parametrize("bound", [BOUND, 1 << 14])
@pytest.mark.parametrize("rows", [7, 64, 1 << 18])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_chunks_and_threads_do_not_matter(table, monkeypatch, bound, rows, threads):
    monkeypatch.setattr("clnr.tables.columns.infer._MOST_WORDS", bound)
    given = texts()
    _, encoder, x = learned(table, given)
    monkeypatch.setattr("clnr.tables.io.source._CHUNK_ROWS", rows)
    before = pa.cpu_count()
    pa.set_cpu_count(threads)
    try:
        order = np.random.default_rng(rows).permutation(300)
        _, again, y = learned(table, [given[i] for i in order])
    finally:
        pa.set_cpu_count(before)
    assert again == encoder
    assert np.array_equal(y.toarray(), x.toarray()[order])


@pytest.mark.parametrize("bound", [BOUND, 1 << 14])
def test_a_vocabulary_is_the_same_after_a_file(table, monkeypatch, bound):
    monkeypatch.setattr("clnr.tables.columns.infer._MOST_WORDS", bound)
    feature_encoder, encoder, x = learned(table, texts())
    read = FeatureEncoder.from_json(feature_encoder.to_json())
    assert read == feature_encoder
    assert read.column_encoders[0].weights == encoder.weights
    db, people = table(texts())
    assert np.array_equal(read.transform(db, people).toarray(), x.toarray())


def test_texts_without_words_are_categories(table):
    db, people = table([f"! {'?' * i} !" for i in range(60)])
    (encoder,) = FeatureEncoder.fit(db, people, ["x"]).column_encoders
    assert (encoder.kind, encoder.width) == ("category", 256)


def test_no_texts_have_no_vocabulary():
    nothing = pa.array([], pa.string())
    assert learn_vocabulary([nothing], 10, 5) == ((), (), 0)
    assert learn_vocabulary([pa.array([None, "", "a"])], 10, 5) == (("a",), (pytest.approx(np.log(3 / 2) + 1),), 1)


def test_of_equally_frequent_words_the_first_are_kept():
    given = pa.array(["d c é b", "b c é d", "once a", "a twice a"])
    assert learn_vocabulary([given], 3, 5).words == ("a", "b", "c")


def test_a_bucket_is_in_all_texts_at_most():
    words, weights, _ = learn_vocabulary([pa.array(["a b c d", "b a d c"])], 1, 1)
    assert (words, weights) == (("a",), (1.0, 1.0))
