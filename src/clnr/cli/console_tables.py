"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from clnr.bench import BenchmarkResult
from clnr.datasets import DATASETS
from clnr.experiments.comparison import Comparison
from clnr.experiments.grid_search import Trial
from clnr.experiments.results import Run, Summary
from clnr.methods import METHODS, Method
from clnr.methods.presets import ANY, Published, preset
from clnr.methods.recipe import SPECS
from clnr.support.console import Table

_MIB = 2**20


def summaries(rows: Iterable[tuple[Summary, Published | None]]) -> Table:
    """One line a method: what it scored, what was published, the geometry, and what it cost."""
    rows = list(rows)
    published = [result for _, result in rows]
    costs = ("align-\nment", "uniform-\nity", "eff.\nrank", "epochs", "train\ns", "ms an\nepoch", "peak\nMiB")
    scores = ("strict\n%", "paper\nrule % *", *(["publi-\nshed %"] if any(published) else []))
    table = _table("method", numbers=(*scores, *costs))
    for summary, result in rows:
        cells = _scored(summary)
        if any(published):
            cells.append(f"{result.accuracy:.1f}" if result else "-")
        cells += [f"{summary.mean(name):.2f}" for name in ("alignment", "uniformity")]
        cells += [f"{summary.mean(name):.0f}" for name in ("effective_rank", "epochs")]
        cells += [f"{summary.mean('train_seconds'):.2f}"]
        cells += ["-" if summary.epoch_ms is None else f"{summary.epoch_ms:.1f}"]
        table.add_row(*cells, f"{summary.peak_memory_bytes / _MIB:.0f}")
    return table


def _scored(summary: Summary) -> list[str]:
    return [summary.runs[0].method, *(_accuracy(summary, protocol) for protocol in ("strict", "paper"))]


def _accuracy(summary: Summary, protocol: str) -> str:
    values = summary.accuracy(protocol)
    spread = f"±{values['std']:.1f}" if len(summary.runs) > 1 else ""
    return f"{values['mean']:.1f}{spread}"


def runs(rows: Iterable[tuple[str, Run]]) -> Table:
    """One line a run, as recorded."""
    table = _table("made (UTC)", "method", "data set", numbers=("seed", "strict\n%", "paper\nrule % *", "train\ns"))
    for name in ("device", "code", "changed in the recipe"):
        table.add_column(name)
    for made, run in rows:
        table.add_row(
            made.replace("T", " ")[:16],
            run.method,
            run.dataset,
            str(run.seed),
            f"{run.strict:.1f}",
            f"{run.paper:.1f}",
            f"{run.train_seconds:.2f}",
            run.device,
            run.versions["code"][:6],
            _changes(run),
        )
    return table


def _changes(run: Run) -> str:
    """What a run's recipe has otherwise than the shelf's."""
    if run.method not in METHODS:
        return ""
    method = METHODS[run.method]
    usual = preset(method, run.dataset if run.dataset in DATASETS else ANY).recipe.to_dict()
    has_a_say = {name: value for name, value in run.recipe.items() if name in method.keys or name not in usual}
    return ", ".join(f"{name}={value}" for name, value in has_a_say.items() if usual.get(name) != value)


def comparison(compared: Comparison, published: list[Published | None]) -> Table:
    """One line a method, with its difference from the first and how sure that is."""
    shown = any(published)
    scores = ("strict\n%", "paper\nrule % *", *(["publi-\nshed %"] if shown else []))
    costs = ("align-\nment", "uniform-\nity", "epochs", "train\ns", "differ-\nence", "p **")
    table = _table("method", numbers=(*scores, *costs))
    for summary, result, difference in zip(compared.summaries, published, (None, *compared.differences), strict=True):
        cells = _scored(summary)
        if shown:
            cells.append(f"{result.accuracy:.1f}" if result else "-")
        cells += [f"{summary.mean(name):.2f}" for name in ("alignment", "uniformity")]
        cells += [f"{summary.mean('epochs'):.0f}", f"{summary.mean('train_seconds'):.2f}"]
        cells += ["", ""] if difference is None else [f"{difference.mean:+.2f}", _p(difference.corrected)]
        table.add_row(*cells)
    return table


def _p(value: float) -> str:
    return f"{value:.1e}" if value < 1e-3 else f"{value:.3f}"


def test_note(compared: Comparison) -> str:
    """What the comparison's p-values are, and how small they can get."""
    seeds, tests = len(compared.summaries[0].runs), len(compared.differences)
    corrected = f", Holm-corrected for {tests} comparisons" if tests > 1 else ""
    least = min(1.0, tests * 2.0 ** (1 - seeds))
    count = f"{seeds} seed{'s' if seeds > 1 else ''}"
    return f"Wilcoxon's signed-rank test over seeds, exact, two-sided{corrected}; {count} cannot give less than {_p(least)}"


def trials(found: list[Trial]) -> Table:
    """One line a trial: what was changed, and the validation accuracy that it reached."""
    table = _table(*found[0].changes, numbers=("validation\n%", "epochs\nmade", "train\ns"))
    for trial in found:
        changes = [f"{value:g}" if isinstance(value, float) else str(value) for value in trial.changes.values()]
        if not trial.runs:
            table.add_row(*changes, "failed", "", "")
            continue
        summary = Summary(trial.runs)
        means = (f"{summary.mean('epochs'):.0f}", f"{summary.mean('train_seconds'):.2f}")
        table.add_row(*changes, _accuracy(summary, "validation"), *means)
    return table


def methods() -> Table:
    """Every method, as in the paper's table of architectures, from the declarations."""
    table = _table("method", "what it does", "target")
    for name in ("MI esti-\nmator", "proj/pred\nhead", "asym-\nmetric", "negative\nsamples"):
        table.add_column(name, justify="center", no_wrap=True)
    for method in METHODS.values():
        row = method.architecture()
        target, *traits = ("-", *[False] * 4) if row is None else row
        table.add_row(method.name, method.summary, str(target), *("\u2713" if trait else "-" for trait in traits))
    return table


def datasets() -> Table:
    """Every data set, as in the paper's table."""
    table = _table("name", "what it is", numbers=("nodes", "edges", "features", "classes"))
    table.add_column("split")
    for row in DATASETS.values():
        sizes = (f"{size:,}" for size in (row.nodes, row.edges, row.features, row.classes))
        table.add_row(row.name, row.about, *sizes, row.split)
    return table


_OF_DATASETS = ("name", "title", "about", "nodes", "edges", "features", "classes", "split")


def listed(what: str) -> list[dict[str, Any]]:
    """What ``clnr ls --json`` prints: the same as the tables."""
    if what == "datasets":
        return [{name: getattr(row, name) for name in _OF_DATASETS} for row in DATASETS.values()]
    rows = [(method, method.architecture()) for method in METHODS.values()]
    return [{"name": m.name, "summary": m.summary, "architecture": row and row._asdict()} for m, row in rows]


def recipe(method: Method, dataset: str) -> Table:
    """Every number of a recipe that the method has a use for, what it means and where it comes from."""
    found = preset(method, dataset)
    table = _table("key", "value", "meaning", "comes from")
    for name in method.keys:
        value = getattr(found.recipe, name)
        meaning = SPECS[name].metadata["meaning"] + (" (only to measure geometry with)" if name in method.measuring else "")
        table.add_row(name, "none" if value is None else str(value), meaning, found.sources[name])
    return table


def _table(*words: str, numbers: tuple[str, ...] = ()) -> Table:
    """Columns of words, then columns of numbers; narrow enough that the usual ones fit 80 letters."""
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    for name in words:
        table.add_column(name, vertical="top", no_wrap=name in ("method", "name", "key", "made (UTC)", "data set"))
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def measured(rows: Sequence[BenchmarkResult]) -> Table:
    """Epochs of both contenders on each graph."""
    table = _table("graph", numbers=("nodes", "edges", "plain PyG ms", "clnr ms", "ratio", "PyG MiB", "clnr MiB"))
    for row in rows:
        plain, ours = (_spread(times) for times in (row.plain, row.ours))
        peaks = ("-" if peak is None else f"{peak / 2**20:,.0f}" for peak in (row.plain_bytes, row.our_bytes))
        ratio = "-" if row.ratio is None else f"{row.ratio:.1f}"
        table.add_row(row.graph, f"{row.nodes:,}", f"{row.edges:,}", plain, ours, ratio, *peaks)
    return table


def _spread(times: tuple[float, float, float] | None) -> str:
    if times is None:
        return "-"
    low, middle, high = times
    return f"{middle:,.2f} ({low:,.2f}-{high:,.2f})"
