"""Tables: what they say, and that they fit a terminal of 80 columns."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from clnr.cli import console_tables
from clnr.embedding.scoring.baseline_comparison import compare
from clnr.experiments.comparison import Comparison
from clnr.experiments.results import Summary
from clnr.experiments.run_cache import RunCache
from clnr.methods import CLNR, METHODS
from clnr.methods.presets import Published, preset
from clnr.methods.recipe import recipe_keys
from tests.cases import in_tiers
from tests.command_line import only_json
from tests.experiments.test_run_cache import made


def shown(table, width=80):
    """What a terminal of that width shows, line by line."""
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def summary(method, above=0.0, seeds=20):
    """Numbers as long as they usually get."""
    costs = {"epochs": 10000, "train_seconds": 123.45, "epoch_ms": 167.9, "peak_memory_bytes": 86 * 2**30}
    shape = {"alignment": 0.55, "uniformity": -3.49, "effective_rank": 126.4}
    scores = [{"strict": 80 + seed / 7 + above, "paper": 81 + seed / 7 + above} for seed in range(seeds)]
    return Summary.of([made(seed, method=method, **costs, **shape, **score) for seed, score in enumerate(scores)])


PUBLISHED = [Published(84.3, 0.6, "x"), Published(83.6, 0.8, "x"), None]


def lineup(seeds=20):
    return [summary("CLNR", 0, seeds), summary("GRACE", -1.0, seeds), summary("CCA-SSG", 2.5, seeds)]


@pytest.mark.parametrize("published", [PUBLISHED, [None] * 3], ids=["published", "unpublished"])
def test_tables_fit_80_columns(published):
    for table in (
        console_tables.summaries(zip(lineup(), published, strict=True)),
        console_tables.comparison(Comparison.of(lineup()), published),
    ):
        assert len(lines := shown(table)) == 5
        assert lines == shown(table, 200)
    scores = {"link_auc": 0.9, "strict_accuracy": 80.0, "validation_accuracy": 80.0}
    beside = compare(CLNR, scores, {"Raw": scores, "SVD-propagated": {**scores, "validation_accuracy": 81.0}})
    for table in (console_tables.methods(), console_tables.datasets(), console_tables.baselines(beside)):
        assert "\u2026" not in "".join(shown(table))


def test_a_comparison_says_by_how_much_and_how_surely():
    *_, first, second, third = shown(console_tables.comparison(Comparison.of(lineup()), PUBLISHED), 200)
    assert first.split() == ["CLNR", "81.4±0.8", "82.4±0.8", "84.3", "0.55", "-3.49", "10000", "123.45"]
    assert second.split()[3:] == ["83.6", "0.55", "-3.49", "10000", "123.45", "-1.00", "3.8e-06"]
    assert third.split()[3:] == ["-", "0.55", "-3.49", "10000", "123.45", "+2.50", "3.8e-06"]


@pytest.mark.parametrize(("seeds", "count"), [(5, 1), (5, 2), (1, 2)])
def test_the_note_says_how_small_a_p_value_can_get(seeds, count):
    compared = Comparison.of(lineup(seeds)[: count + 1])
    note = console_tables.test_note(compared)
    assert ("Holm-corrected for 2 comparisons" in note) is (count == 2)
    least = min(difference.corrected for difference in compared.differences)
    assert least == pytest.approx(min(1, count * 2.0 ** (1 - seeds)))
    assert note.endswith(f"cannot give less than {least:.3f}")


@pytest.mark.parametrize("method", in_tiers(METHODS.values()))
def test_show_lists_the_keys_that_have_a_say_and_no_others(clnr, method):
    told, values = only_json(clnr("recipe", method.name, "cora", "--json")), preset(method, "cora").recipe.to_dict()
    assert told["recipe"] == {key: values[key] for key in method.keys}
    assert list(told["sources"]) == list(method.keys)
    lines = [line.split() for line in clnr("recipe", method.name, "cora").out.splitlines() if line.strip()]
    shown = [["none" if each is None else each for each in pair] for pair in told["recipe"].items()]
    assert [words[:2] for words in lines if words[0] in recipe_keys()] == [[key, str(value)] for key, value in shown]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], [("Raw", 0), ("CLNR", 0), ("CLNR", 1), ("CLNR", 2)]),
        (["--dataset", "Cora", "--last", "2"], [("CLNR", 0), ("CLNR", 1)]),
        (["--device", "cuda", "--method", "clnr"], [("CLNR", 2)]),
        (["--dataset", "pubmed"], []),
    ],
    ids=lambda value: " ".join(value) if value and isinstance(value[0], str) else "",
)
def test_runs_lists_what_was_run_by_filters(clnr, filters, expected):
    changes = [{"method": "Raw", "epoch_ms": None}, {}, {"seed": 1}, {"seed": 2, "dataset": "photo", "device": "cuda"}]
    for each in changes:
        RunCache().add("key", made(**each), rerun=True)
    rows = only_json(clnr("runs", *filters, "--json"))
    assert [(row["method"], row["seed"]) for row in rows] == expected
    ended = clnr("runs", *filters)
    lines = [line.split() for line in ended.out.splitlines() if re.match(r"\d{4}-", line)]
    assert [(words[2], int(words[4])) for words in lines] == expected
    if not expected:
        assert (ended.code, ended.out) == (0, "")
        assert f"{RunCache().path} yet; to make one: clnr run" in ended.err


def test_runs_tell_no_change_that_has_no_say(clnr):
    usual = preset(CLNR, "cora").recipe
    RunCache().add("key", made(recipe=usual.but(momentum=0.5, ppr_alpha=0.5, temperature=0.25).to_dict()))
    RunCache().add("older", made(recipe={"epochs": 7, "gone": 1}))
    RunCache().add("other", made(method="mine"))
    lines = [line.split() for line in clnr("runs").out.splitlines() if re.match(r"\d{4}-", line)]
    changes = [[word for word in words if "=" in word] for words in lines]
    assert changes == [["temperature=0.25"], ["epochs=7,", "gone=1"], []]
