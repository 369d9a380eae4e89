"""runs.csv: every run behind the tables, figures and claims, one per line. All of them can be made from it again."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clnr.errors import ClnrError, DataError, shorten
from clnr.experiments.results import Run, map_floats
from clnr.experiments.run_cache import check_run
from clnr.methods import METHODS, find
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe, parse
from clnr.support.storage.atomic_io import write_atomic
from reproduce.paper_runs.run_index import ResultSet
from reproduce.paper_runs.scope import Batch

# Fields of a run and their types, in the order of the file.
_FIELDS: dict[str, type] = {
    "method": str,
    "dataset": str,
    "seed": int,
    **dict.fromkeys(("strict", "paper", "validation", "alignment", "uniformity", "effective_rank"), float),
    "epochs": int,
    "train_seconds": float,
    "parallel_seeds": int,
    "seconds": float,
    **dict.fromkeys(("machine", "device", "precision"), str),
}
_VERSION_COLUMNS = ("clnr", "code", "torch", "python")
COLUMNS = (*_FIELDS, *_VERSION_COLUMNS, "made", "changed", "extra_metrics")
# What no table needs, and the file does not have.
_UNKNOWN_FIELDS: dict[str, Any] = {"epoch_ms": None, "peak_memory_bytes": 0, "engine": "", "content": ""}


def write_runs(results: ResultSet, batches: Iterable[Batch], folder: Path) -> Path:
    """Write all runs, numbers with six digits.

    ``changed`` is what differs from the preset recipe; the rest of the recipe is not written.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for run in sorted(results.runs(batches), key=lambda run: (run.method, run.dataset, str(run.recipe), run.seed)):
        fields = {name: getattr(run, name) for name in _FIELDS}
        values = {name: f"{value:.6g}" if _FIELDS[name] is float else value for name, value in fields.items()}
        values |= {name: run.versions.get(name, "") for name in _VERSION_COLUMNS}
        changed = Batch(METHODS[run.method], run.dataset, Recipe.of(run.recipe), 1).changed
        rounded = map_floats(run.extra_metrics, lambda number: float(f"{number:.6g}"))
        extra = json.dumps(rounded, separators=(",", ":")) if rounded else ""
        day = results.run_index.day(run)
        writer.writerow({**values, "made": day, "changed": " ".join(changed), "extra_metrics": extra})
    return write_atomic(folder / "runs.csv", out.getvalue().encode())


class RunsFiles:
    """Runs of such files, for a ``RunIndex``. Of two runs of one seed, that of the later file counts."""

    def __init__(self, paths: Iterable[Path]):
        self._made = [pair for path in paths for pair in _read(path)]

    def runs(self, method: str | None = None, dataset: str | None = None) -> list[tuple[str, Run]]:
        """Runs with the day on which each was made, all or those of a method and a data set."""
        return [(day, run) for day, run in self._made if method in (None, run.method) and dataset in (None, run.dataset)]


def _read(path: Path) -> list[tuple[str, Run]]:
    try:
        rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
        missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
        if missing:
            raise DataError(f"--runs {path} has no column {missing[0]}; give a runs.csv that reproduce wrote")
        return [(row["made"], _run(row, f"--runs {path}, line {rows.line_num}")) for row in rows]
    except OSError as error:
        raise DataError(f"--runs {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"--runs {path} is not a CSV file in UTF-8: {error}") from None


def _run(row: dict[str, Any], where: str) -> Run:
    if None in row or None in row.values():
        raise DataError(f"{where}, has another number of cells than there are columns")
    try:
        changed = parse(row["changed"].split())
        recipe = preset(find(row["method"]), row["dataset"]).recipe.but(**changed).to_dict()
        values: dict[str, Any] = {name: kind(row[name]) for name, kind in _FIELDS.items()}
        return check_run(
            Run(
                **values,
                **_UNKNOWN_FIELDS,
                recipe=recipe,
                versions={name: row[name] for name in _VERSION_COLUMNS},
                extra_metrics=_document(row["extra_metrics"]),
            )
        )
    except (ClnrError, ValueError) as error:
        raise DataError(f"{where}: {error}") from None


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text or "{}")
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ValueError(f"extra_metrics must be a JSON object, not {shorten(text, 60)}")
    return document
