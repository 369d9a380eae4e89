"""The record of runs that the paper is made from, a CSV file with a line for each: read, asked, and added to."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from sklearn import metrics

import clnr
from clnr import datasets, runs
from clnr.datasets.splits import split_of
from clnr.engine import choose
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
CLUSTER_SCORES = ("silhouette", "davies_bouldin", "calinski_harabasz")
SEEDS = 20
# CLNR and GRACE are so close on CS that 20 seeds do not tell them apart (claim 1).
_MORE_SEEDS = {("CLNR", "cs"): 120, ("GRACE", "cs"): 120}
# Of the slowest methods.
_MOST_SEEDS = {"BGRL": 10, "GRACE-all": 10}
_WARM_UP_EPOCHS = 5


class Run(NamedTuple):
    """A line of the record: a run as ``clnr.run`` returns it, its day, and how its recipe differs from the preset.

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


_KINDS = (get_type_hints(Run) | {"extra_metrics": lambda text: dict(json.loads(text or "{}"))}).values()


class Batch(NamedTuple):
    """Runs of a method on a data set with one recipe, seeds 0, 1, 2 ..., perhaps with an extra metric.

    ``changed`` is how the recipe differs from the preset, in the keys that the method uses.
    """

    method: Method
    dataset: str
    recipe: Recipe
    seeds: int
    changed: str
    extra: str = ""


def batch(method: Method, dataset: str, seeds: int | None = None, extra: str = "", **changes: Any) -> Batch:
    """A batch with the preset recipe and some changes; of a slow method, with fewer seeds than asked for."""
    usual = preset(method, dataset).recipe
    recipe = usual.but(**changes)
    pairs = [(key, getattr(recipe, key)) for key in method.keys]
    changed = " ".join(f"{key}={value}" for key, value in pairs if value != getattr(usual, key))
    wanted = seeds or _MORE_SEEDS.get((method.name, dataset), SEEDS)
    return Batch(method, dataset, recipe, min(wanted, _MOST_SEEDS.get(method.name, wanted)), changed, extra)


class Record:
    """Runs, looked up by batch. Of two runs of one seed the later counts; ``asked`` are the batches looked up."""

    def __init__(self, lines: Iterable[Run] = ()):
        self.lines = list(lines)
        self.asked: list[Batch] = []
        self._by_batch: dict[tuple[str, ...], list[Run]] = defaultdict(list)
        for run in self.lines:
            self._by_batch[run.method, run.dataset, run.changed].append(run)

    @classmethod
    def read(cls, path: Path) -> Record:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            try:
                if next(rows, None) != list(Run._fields):
                    raise ValueError(f"its columns are not {', '.join(Run._fields)}")
                cells = (zip(_KINDS, row, strict=True) for row in rows)
                return cls([Run(*(kind(cell) for kind, cell in row)) for row in cells])
            except (ValueError, TypeError, csv.Error) as error:
                raise DataError(f"{path}, line {rows.line_num}: {error}") from None

    def write(self, path: Path) -> None:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(Run._fields)
        for *cells, extra in self.lines:
            words = [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in cells]
            writer.writerow([*words, json.dumps(extra, separators=(",", ":")) if extra else ""])
        write_bytes(path, out.getvalue().encode())

    def seeds(self, batch: Batch) -> dict[int, Run]:
        """The runs of a batch by seed, in order."""
        self.asked.append(batch)
        found = self._by_batch[batch.method.name, batch.dataset, batch.changed]
        wanted = [run for run in found if run.seed < batch.seeds and batch.extra in ("", *run.extra_metrics)]
        return {run.seed: run for run in sorted(wanted, key=lambda run: run.seed)}

    def find(self, batch: Batch) -> list[Run]:
        return list(self.seeds(batch).values())

    def of(self, batches: Iterable[Batch]) -> list[Run]:
        """The runs of some batches, each once."""
        return list({id(run): run for batch in tuple(batches) for run in self.find(batch)}.values())

    def on_one_platform(self, batches: Iterable[Batch]) -> Record:
        """The runs of the machine and precision that has most of some batches: only such runs are compared."""
        most = Counter(run.platform for run in self.of(batches)).most_common(1)
        return Record(run for run in self.lines if most and run.platform == most[0][0])

    def provenance(self, command: str) -> str:
        """Of what was looked up so far: the command, seeds, machine, versions and duration."""
        found, made = self.of(self.asked), f"Made by `python -m reproduce {command}`"
        if not found:
            return f"{made}."
        codes = defaultdict(set)
        for run in found:
            codes[run.clnr, run.torch, run.python].add(run.code)
        versions = [
            f"clnr {clnr} (code {', '.join(sorted(digests))}), torch {torch}, Python {python}"
            for (clnr, torch, python), digests in sorted(codes.items())
        ]
        seeds, days = (sorted({getattr(run, name) for run in found}) for name in ("seed", "made"))
        parts = [
            f"{made} from {plural(len(found), 'run')}, {'seed' if len(seeds) == 1 else 'seeds'} {_span(seeds)}",
            *sorted({run.platform for run in found}),
            *versions,
            _span(days),
            f"the runs took {sum(run.seconds for run in found):,.0f} s of that machine's time.",
        ]
        return "; ".join(parts)


def _span(values: list[Any]) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


def make_missing(path: Path, batches: Iterable[Batch], device: str, precision: str) -> bool:
    """Make the runs of some batches that a record lacks, and add each to it as it is finished; whether all could be.

    What needs extra metrics comes first, since its runs serve other batches too.
    """
    complete = True
    with lock(path.with_name(f"{path.name}.making")):
        record = Record.read(path) if path.exists() else Record()
        for each in sorted(batches, key=lambda each: not each.extra):
            missing = sorted(set(range(each.seeds)) - record.seeds(each).keys())
            name = " ".join(filter(None, [each.method.name, each.dataset, each.changed, each.extra]))
            try:
                for run in make(each, missing, device, precision):
                    record = Record([*record.lines, run])
                    record.write(path)
                    print(f"{name}, seed {run.seed}: {run.strict:.2f} %", flush=True)
            except ClnrError as error:
                complete = False
                print(f"{name}: {error}", flush=True)
    return complete


def make(batch: Batch, seeds: list[int], device: str, precision: str = "auto") -> Iterator[Run]:
    """Make runs; those that are timed one at a time, after a warm-up."""
    if not seeds:
        return
    graph = datasets.load(batch.dataset)
    where: dict[str, Any] = {"device": device, "precision": precision}
    if batch.extra == "time":
        warm = batch.recipe.but(epochs=min(_WARM_UP_EPOCHS, batch.recipe.epochs), probe_steps=1)
        list(runs(batch.method, graph, seeds[:1], recipe=warm, **where))
        where["parallel_seeds"] = 1
    for run in runs(batch.method, graph, seeds, recipe=batch.recipe, **where):
        known = vars(run) | run.versions | {"changed": batch.changed, "extra_metrics": {}}
        known["made"] = datetime.now(UTC).date().isoformat()
        if batch.extra:
            known["extra_metrics"] = {batch.extra: measure(batch, graph, run, device, precision)}
        yield Run(**{name: known.get(name, "") for name in Run._fields})


def measure(batch: Batch, graph: Graph, run: clnr.Run, device: str, precision: str) -> dict[str, Any]:
    """What three exhibits need of a run, rounded as all numbers of the record.

    ``time``: that of its training (table 3); ``clusters``: scores of the classes as clusters of its embedding
    (table 6); ``points``: validation nodes on the circle in two views unseen in training (figure 1).
    """
    if batch.extra == "time":
        return {"train_seconds": _rounded(run.train_seconds), "parallel_seeds": run.parallel_seeds}
    assert graph.labels is not None
    engine = choose(device, precision)
    learned = learn(batch.method, graph, run.seed, batch.recipe, engine)
    if batch.extra == "clusters":
        labelled = graph.labels >= 0
        return cluster_scores(learned.z.cpu().numpy()[labelled], graph.labels[labelled])
    split = split_of(graph, run.seed)
    views = positive_pairs(batch.method, engine.float32, learned, split)
    u, v = ([[round(x, 5) for x in row] for row in view.double().tolist()] for view in views)
    return {"u": u, "v": v, "classes": graph.labels[split.validation].tolist()}


def cluster_scores(z: Array, labels: Array) -> dict[str, float]:
    """The silhouette coefficient (Rousseeuw, 1987; higher is better, at most 1), the Davies-Bouldin index (1979; lower
    is better) and the Calinski-Harabasz score (1974; higher is better)."""
    return {name: _rounded(getattr(metrics, f"{name}_score")(z, labels)) for name in CLUSTER_SCORES}


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")
