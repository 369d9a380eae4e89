"""What the commands print as tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from clnr.datasets import DATASETS
from clnr.experiments.results import Run, Summary
from clnr.methods import METHODS, Method
from clnr.methods.presets import ANY_DATASET, Published, preset
from clnr.methods.recipe import recipe_keys
from clnr.support.console import Table
from clnr.support.humanize import plural

if TYPE_CHECKING:
    from clnr.embedding.result.clusters import Clusters
    from clnr.embedding.scoring.baseline_comparison import BaselineComparison
    from clnr.experiments.comparison import Comparison

_MIB = 2**20
_SCORES = ("strict\n%", "paper\nrule % *")
_WITH_PUBLISHED = (*_SCORES, "publi-\nshed %")


def summaries(rows: Iterable[tuple[Summary, Published | None]]) -> Table:
    """One row per method: its scores, the published result, the geometry, and the cost."""
    rows = list(rows)
    shown = any(result for _, result in rows)
    costs = ("align-\nment", "uniform-\nity", "eff.\nrank", "epochs", "train\ns", "ms an\nepoch", "peak\nMiB")
    table = _table("method", numbers=(*(_WITH_PUBLISHED if shown else _SCORES), *costs))
    for summary, result in rows:
        cells = _scored(summary, result, shown)
        cells += [f"{summary.mean(name):.0f}" for name in ("effective_rank", "epochs")]
        cells += [f"{summary.mean('train_seconds'):.2f}"]
        cells += ["-" if summary.epoch_ms is None else f"{summary.epoch_ms:.1f}"]
        table.add_row(*cells, f"{summary.peak_memory_bytes / _MIB:.0f}")
    return table


def _scored(summary: Summary, published: Published | None, shown: bool) -> list[str]:
    """The method, its accuracies and, if it is shown, the published one; alignment and uniformity."""
    accuracies = [_accuracy(summary, protocol) for protocol in ("strict", "paper")]
    if shown:
        accuracies.append(f"{published.accuracy:.1f}" if published else "-")
    return [summary.runs[0].method, *accuracies, *(f"{summary.mean(name):.2f}" for name in ("alignment", "uniformity"))]


def _accuracy(summary: Summary, protocol: str) -> str:
    values = summary.accuracy(protocol)
    spread = f"±{values['std']:.1f}" if len(summary.runs) > 1 else ""
    return f"{values['mean']:.1f}{spread}"


def runs(rows: Iterable[tuple[str, Run]]) -> Table:
    """One row per run, as the run cache has it."""
    table = _table("made (UTC)", "method", "data set", numbers=("seed", *_SCORES, "train\ns"))
    for name in ("device", "code", "changed in the recipe"):
        table.add_column(name)
    for made, run in rows:
        names = made.replace("T", " ")[:16], run.method, run.dataset
        numbers = str(run.seed), f"{run.strict:.1f}", f"{run.paper:.1f}", f"{run.train_seconds:.2f}"
        table.add_row(*names, *numbers, run.device, run.versions["code"][:6], _changes(run))
    return table


def _changes(run: Run) -> str:
    """How a run's recipe differs from the shipped one."""
    if run.method not in METHODS:
        return ""
    method = METHODS[run.method]
    usual = preset(method, run.dataset if run.dataset in DATASETS else ANY_DATASET).recipe.to_dict()
    relevant = {name: value for name, value in run.recipe.items() if name in method.keys or name not in usual}
    return ", ".join(f"{name}={value}" for name, value in relevant.items() if usual.get(name) != value)


def comparison(compared: Comparison, published: list[Published | None]) -> Table:
    """One row per method, with its difference from the first and the p-value."""
    shown = any(published)
    costs = ("align-\nment", "uniform-\nity", "epochs", "train\ns", "differ-\nence", "p **")
    table = _table("method", numbers=(*(_WITH_PUBLISHED if shown else _SCORES), *costs))
    for summary, result, difference in zip(compared.summaries, published, (None, *compared.differences), strict=True):
        cells = _scored(summary, result, shown)
        cells += [f"{summary.mean('epochs'):.0f}", f"{summary.mean('train_seconds'):.2f}"]
        cells += ["", ""] if difference is None else [f"{difference.mean:+.2f}", _p(difference.corrected)]
        table.add_row(*cells)
    return table


def _p(value: float) -> str:
    return f"{value:.1e}" if value < 1e-3 else f"{value:.3f}"


def test_note(compared: Comparison) -> str:
    """What the p-values of a comparison are, and how small they can be."""
    seeds, tests = len(compared.summaries[0].runs), len(compared.differences)
    corrected = f", Holm-corrected for {tests} comparisons" if tests > 1 else ""
    least = min(1.0, tests * 2.0 ** (1 - seeds))
    test = f"Wilcoxon's signed-rank test over seeds, exact, two-sided{corrected}"
    return f"{test}; {plural(seeds, 'seed')} cannot give less than {_p(least)}"


def methods() -> Table:
    """All methods, as in the paper's table of architectures, from their declarations."""
    table = _table("method", "what it does", "target")
    for name in ("MI esti-\nmator", "proj/pred\nhead", "asym-\nmetric", "negative\nsamples"):
        table.add_column(name, justify="center", no_wrap=True)
    for method in METHODS.values():
        target, *traits = method.architecture() or ("-", *[False] * 4)
        table.add_row(method.name, method.summary, str(target), *("\u2713" if trait else "-" for trait in traits))
    return table


def datasets() -> Table:
    """All data sets, as in the paper's table."""
    table = _table("name", "what it is", numbers=("nodes", "edges", "features", "classes"))
    table.add_column("split")
    for row in DATASETS.values():
        sizes = (f"{size:,}" for size in (row.nodes, row.edges, row.features, row.classes))
        table.add_row(row.name, row.about, *sizes, row.split)
    return table


_DATASET_FIELDS = ("name", "title", "about", "nodes", "edges", "features", "classes", "split")


def listed(what: str) -> list[dict[str, Any]]:
    """What ``clnr ls --json`` prints."""
    if what == "datasets":
        return [{name: getattr(row, name) for name in _DATASET_FIELDS} for row in DATASETS.values()]
    rows = [(method, method.architecture()) for method in METHODS.values()]
    return [{"name": m.name, "summary": m.summary, "architecture": row and row._asdict()} for m, row in rows]


def recipe(method: Method, dataset: str) -> Table:
    """The hyper-parameters of a method with their values, meanings and sources."""
    shipped = preset(method, dataset)
    table = _table("key", "value", "meaning", "source")
    for name in method.keys:
        value = getattr(shipped.recipe, name)
        meaning = recipe_keys(method)[name].meaning + (" (only to measure the geometry)" if name in method.measuring else "")
        table.add_row(name, "none" if value is None else str(value), meaning, shipped.sources[name])
    return table


def _table(*words: str, numbers: tuple[str, ...] = ()) -> Table:
    """Columns of text, then columns of numbers; narrow enough that the usual tables fit 80 columns."""
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    for name in words:
        table.add_column(name, vertical="top", no_wrap=name in ("method", "name", "key", "made (UTC)", "data set"))
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def baselines(compared: BaselineComparison) -> Table:
    """Raw features, the best training-free baseline and this embedding, a row each."""
    table = _table(compared.headings[0], numbers=compared.headings[1:])
    for row in compared.rows:
        table.add_row(*row)
    return table


def clusters(found: Clusters) -> Table:
    """Clusters: sizes, typical nodes, and what sets each apart."""
    table = _table("cluster", "nodes", "typical nodes", "what sets it apart: inside (outside)")
    for each in found.clusters:
        table.add_row(str(each.number), f"{each.size:,}", "; ".join(each.typical_texts), "; ".join(map(str, each.traits)))
    return table
