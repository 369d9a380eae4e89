"""The record of runs that the paper is made from, a CSV file with a line for each: read, asked, and added to."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from sklearn import metrics

import clnr
from clnr import datasets, runs
from clnr.datasets import DATASETS
from clnr.datasets.splits import split_of
from clnr.engine import Engine, choose
from clnr.errors import ClnrError, DataError
from clnr.evaluation.metrics import positive_pairs
from clnr.experiments.learn import learn
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods import Method
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe
from clnr.support.humanize import plural
from clnr.support.storage import lock, write_bytes

PAPER = Path(__file__).parents[1] / "docs" / "paper"
SETS = ("cora", "citeseer", "pubmed", "computers", "photo", "cs", "physics", "ogbn-arxiv")
SEEDS = 20
MISSING = "no data"
# Methods whose runs take tens of seconds come last, the slowest with fewer seeds.
_SLOW_SEEDS = {
    **dict.fromkeys(("DGI", "GAT", "GAE", "VGAE", "MVGRL", "MVGRL-plain", "dCLNR"), SEEDS),
    **dict.fromkeys(("BGRL", "GRACE-all"), 10),
}
# CLNR and GRACE are so close on CS that 20 seeds do not tell them apart (claim 1).
_CLOSE_SEEDS = {("CLNR", "cs"): 120, ("GRACE", "cs"): 120}
_WARM_UP_EPOCHS = 5


class Run(NamedTuple):
    """A line of the record: a run as ``clnr.run`` returns it, the day it was made, and how its recipe differs from the preset.

    ``extra_metrics`` are ``clusters``, ``points`` and ``time``, each where a table or figure needs it.
    """

    method: str
    dataset: str
    seed: int
    strict: float
    paper: float
    validation: float
    alignment: float
    uniformity: float
    effective_rank: float
    epochs: int
    train_seconds: float
    parallel_seeds: int
    seconds: float
    machine: str
    device: str
    precision: str
    clnr: str
    code: str
    torch: str
    python: str
    made: str
    changed: str = ""
    extra_metrics: dict[str, Any] = {}  # noqa: RUF012

    @property
    def platform(self) -> str:
        """The hardware and precision, on which results and times depend."""
        return f"{self.machine}, {self.precision}"


_KINDS = get_type_hints(Run)


class Batch(NamedTuple):
    """Runs of a method on a data set with one recipe, seeds 0, 1, 2 ..., for which some extra metrics are known."""

    method: Method
    dataset: str
    recipe: Recipe
    seeds: int
    extra: frozenset[str]

    @property
    def changed(self) -> str:
        """How the recipe differs from the preset, in the keys that the method uses."""
        usual = preset(self.method, self.dataset).recipe
        pairs = [(key, getattr(self.recipe, key)) for key in self.method.keys]
        return " ".join(f"{key}={value}" for key, value in pairs if value != getattr(usual, key))

    @property
    def slow(self) -> bool:
        return self.method.name in _SLOW_SEEDS


def batch(method: Method, dataset: str, seeds: int | None = None, extra: str | None = None, **changes: Any) -> Batch:
    """A batch with the preset recipe and some changes; of a slow method, with fewer seeds than asked for."""
    wanted = seeds or _CLOSE_SEEDS.get((method.name, dataset), SEEDS)
    recipe = preset(method, dataset).recipe.but(**changes)
    return Batch(
        method, dataset, recipe, min(wanted, _SLOW_SEEDS.get(method.name, wanted)), frozenset([extra] if extra else [])
    )


class Record:
    """Runs, looked up by batch. Of two runs of one seed the later counts; ``asked`` are the batches looked up so far."""

    def __init__(self, lines: Iterable[Run] = ()):
        self.lines = list(lines)
        self.asked: list[Batch] = []
        self._by_batch: dict[tuple[str, ...], list[Run]] = defaultdict(list)
        for run in self.lines:
            self._by_batch[run.method, run.dataset, run.changed].append(run)

    @classmethod
    def read(cls, path: Path) -> Record:
        try:
            rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
            return cls([_parse(row, f"{path}, line {rows.line_num}") for row in rows])
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
        except (UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"{path} is not a CSV file in UTF-8: {error}") from None

    def write(self, path: Path) -> None:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(Run._fields)
        for run in self.lines:
            extra = json.dumps(run.extra_metrics, separators=(",", ":")) if run.extra_metrics else ""
            cells = run._replace(extra_metrics=extra)  # type: ignore[arg-type]
            writer.writerow(f"{cell:.6g}" if isinstance(cell, float) else cell for cell in cells)
        write_bytes(path, out.getvalue().encode())

    def seeds(self, batch: Batch) -> dict[int, Run]:
        """The runs of a batch by seed."""
        self.asked.append(batch)
        found = self._by_batch[batch.method.name, batch.dataset, batch.changed]
        return {run.seed: run for run in found if run.seed < batch.seeds and batch.extra <= run.extra_metrics.keys()}

    def find(self, batch: Batch) -> list[Run]:
        return sorted(self.seeds(batch).values(), key=lambda run: run.seed)

    def of(self, batches: Iterable[Batch]) -> list[Run]:
        """The runs of some batches, each once."""
        return list({id(run): run for batch in tuple(batches) for run in self.seeds(batch).values()}.values())

    def on_one_platform(self, batches: Iterable[Batch]) -> Record:
        """The runs of the machine and precision that has most of some batches: only such runs are compared."""
        counts = Counter(run.platform for run in self.of(batches))
        return Record([run for run in self.lines if run.platform == counts.most_common(1)[0][0]] if counts else [])

    def provenance(self, command: str) -> str:
        """Of what was looked up so far: the command, seeds, machine, versions and duration."""
        found, made = self.of(self.asked), f"Made by `python -m reproduce {command}`"
        if not found:
            return f"{made}."
        first, last = min(run.seed for run in found), max(run.seed for run in found)
        seeds = f"seed {first}" if first == last else f"seeds {first} to {last}"
        codes = defaultdict(set)
        for run in found:
            codes[run.clnr, run.torch, run.python].add(run.code)
        versions = [
            f"clnr {clnr} (code {', '.join(sorted(digests))}), torch {torch}, Python {python}"
            for (clnr, torch, python), digests in sorted(codes.items())
        ]
        days = sorted({run.made for run in found})
        return (
            f"{made} from {plural(len(found), 'run')}, {seeds}; {'; '.join(sorted({run.platform for run in found}))}; "
            f"{'; '.join(versions)}; {days[0] if len(days) == 1 else f'{days[0]} to {days[-1]}'}; "
            f"the runs took {sum(run.seconds for run in found):,.0f} s of that machine's time."
        )


def _parse(row: dict[Any, Any], where: str) -> Run:
    if row.keys() != set(Run._fields) or None in row.values():
        raise DataError(f"{where}: its columns are not {', '.join(Run._fields)}")
    try:
        values = {name: kind(row[name]) for name, kind in _KINDS.items() if name != "extra_metrics"}
        return Run(**values, extra_metrics=dict(json.loads(row["extra_metrics"] or "{}")))
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{where}: {error}") from None


def title_of(dataset: str) -> str:
    """The name of a data set as in the paper."""
    return DATASETS[dataset].title


# -- making runs ----------------------------------------------------------------------------------------------


def make_missing(path: Path, batches: Iterable[Batch], device: str, precision: str, show: Callable[[str], None]) -> list[str]:
    """Make the runs of some batches that a record lacks, and add each to it as it is finished; returns failures.

    Slow methods come last, and first what needs extra metrics, since its runs serve other batches too.
    """
    failures = []
    with lock(path.with_name(f"{path.name}.making")):
        record = Record.read(path) if path.exists() else Record([])
        for each in sorted(batches, key=lambda each: (each.slow, -len(each.extra))):
            missing = [seed for seed in range(each.seeds) if seed not in record.seeds(each)]
            name = " ".join(filter(None, [each.method.name, each.dataset, each.changed, *each.extra]))
            try:
                for run in make(each, missing, device, precision):
                    record = Record([*record.lines, run])
                    record.write(path)
                    show(f"{name}, seed {run.seed}: {run.strict:.2f} %")
            except ClnrError as error:
                failures.append(f"{name}: {error}")
                show(failures[-1])
    return failures


def make(batch: Batch, seeds: list[int], device: str = "auto", precision: str = "auto") -> Iterator[Run]:
    """Make runs; those that are timed one at a time, after a warm-up."""
    if not seeds:
        return
    graph = datasets.load(batch.dataset)
    where: dict[str, Any] = {"device": device, "precision": precision}
    if "time" in batch.extra:
        warm = batch.recipe.but(epochs=min(_WARM_UP_EPOCHS, batch.recipe.epochs), probe_steps=1)
        list(runs(batch.method, graph, seeds[:1], recipe=warm, **where))
        where["parallel_seeds"] = 1
    for run in runs(batch.method, graph, seeds, recipe=batch.recipe, **where):
        shared = {name: getattr(run, name) for name in Run._fields if hasattr(run, name)}
        shared |= {name: run.versions.get(name, "") for name in ("clnr", "code", "torch", "python")}
        shared |= {"made": datetime.now(UTC).date().isoformat(), "changed": batch.changed}
        yield Run(**shared, extra_metrics=extra_metrics(batch, graph, run, choose(device, precision)))


def extra_metrics(batch: Batch, graph: Graph, run: clnr.Run, engine: Engine) -> dict[str, Any]:
    """What some exhibits need beside the accuracies of a run, rounded as all numbers of the record.

    ``time``: the training time, of a run made alone (table 3); ``clusters``: scores of the classes as clusters of the
    embedding (table 6); ``points``: validation nodes on the circle in two views unseen in training (figure 1).
    """
    extra: dict[str, Any] = {}
    if "time" in batch.extra:
        extra["time"] = {"train_seconds": _rounded(run.train_seconds), "parallel_seeds": run.parallel_seeds}
    if batch.extra <= {"time"}:
        return extra
    assert graph.labels is not None
    learned = learn(batch.method, graph, run.seed, batch.recipe, engine)
    if "clusters" in batch.extra:
        labelled = graph.labels >= 0
        extra["clusters"] = cluster_scores(learned.z.cpu().numpy()[labelled], graph.labels[labelled])
    if "points" in batch.extra:
        split = split_of(graph, run.seed)
        views = positive_pairs(batch.method, engine.float32, learned, split)
        u, v = ([[round(x, 5) for x in row] for row in view.double().tolist()] for view in views)
        extra["points"] = {"u": u, "v": v, "classes": graph.labels[split.validation].tolist()}
    return extra


def cluster_scores(z: Array, labels: Array) -> dict[str, float]:
    """The silhouette coefficient (Rousseeuw, 1987; higher is better, at most 1), the Davies-Bouldin index (1979; lower is
    better) and the Calinski-Harabasz score (1974; higher is better)."""
    names = ("silhouette", "davies_bouldin", "calinski_harabasz")
    return {name: _rounded(getattr(metrics, f"{name}_score")(z, labels)) for name in names}


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")
