"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from clnr.data import DATASETS
from clnr.methods import METHODS, Method
from clnr.recipe import SPECS, Published
from clnr.run import Run, Summary, shelf

_MIB = 2**20


def summaries(rows: Iterable[tuple[Summary, Published | None]]) -> Table:
    """One line a method: what it scored, what was published, the geometry, and what it cost."""
    rows = list(rows)
    published = any(result for _, result in rows)
    scores = ("strict\n%", "paper\nrule % *", *(["published\n%"] if published else []))
    table = _table(
        "method", numbers=(*scores, "align-\nment", "uniform-\nity", "eff.\nrank", "train\ns", "ms an\nepoch", "peak\nMiB")
    )
    for summary, result in rows:
        cells = [summary.runs[0].method, *(_accuracy(summary, protocol) for protocol in ("strict", "paper"))]
        if published:
            cells.append(f"{result.accuracy:.1f}±{result.spread:.1f}" if result else "-")
        cells += [f"{summary.mean(name):.2f}" for name in ("alignment", "uniformity")]
        cells += [f"{summary.mean('effective_rank'):.0f}", f"{summary.mean('train_seconds'):.2f}"]
        cells += ["-" if summary.epoch_ms is None else f"{summary.epoch_ms:.1f}"]
        table.add_row(*cells, f"{summary.peak_memory_bytes / _MIB:.0f}")
    return table


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
    usual = shelf(METHODS[run.method], run.dataset).recipe.to_dict()
    return ", ".join(f"{name}={value}" for name, value in run.recipe.items() if usual.get(name) != value)


def methods() -> Table:
    """Every method, from its declaration."""
    table = _table("method", "what it does", "views", "encoder", "postprocess", "objective")
    for method in METHODS.values():
        parts = method.parts()
        views = " | ".join(" + ".join(view) for view in dict.fromkeys(map(tuple, parts["views"])))
        postprocess = " + ".join(parts["postprocess"]) or "-"
        table.add_row(method.name, method.summary, views, parts["encoder"], postprocess, parts["objective"] or "-")
    return table


def datasets() -> Table:
    """Every data set, as in the paper's table."""
    table = _table("name", "what it is", numbers=("nodes", "edges", "features", "classes"))
    table.add_column("split")
    for row in DATASETS.values():
        sizes = (f"{size:,}" for size in (row.nodes, row.edges, row.features, row.classes))
        table.add_row(row.name, row.about, *sizes, row.split)
    return table


def recipe(method: Method, dataset: str) -> Table:
    """Every number of a recipe, what it means and where it comes from."""
    found = shelf(method, dataset)
    table = _table("key", "value", "meaning", "comes from")
    for name, value in found.recipe.to_dict().items():
        table.add_row(name, str(value), SPECS[name].metadata["meaning"], found.sources[name])
    return table


def _table(*words: str, numbers: tuple[str, ...] = ()) -> Table:
    """Columns of words, then columns of numbers; narrow enough that the usual ones fit 80 letters."""
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    for name in words:
        table.add_column(name, vertical="top", no_wrap=name in ("method", "name", "key", "made (UTC)", "data set"))
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table
