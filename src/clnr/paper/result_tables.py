"""The paper's six tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from clnr import methods
from clnr.experiments.results import Summary
from clnr.methods import METHODS, Method
from clnr.methods.presets import preset
from clnr.paper import published
from clnr.paper.result_set import Holdings, accuracy, mean, title_of
from clnr.paper.scope import SETS, Batch, Scope
from clnr.paper.table_format import NO_DATA, Cell, Row, Sheet, row
from clnr.support.humanize import plural

CLNR, GRACE, CCA_SSG = methods.CLNR, methods.GRACE, methods.CCA_SSG

SELF_SUPERVISED = (methods.GAE, methods.DGI, methods.MVGRL, CCA_SSG, methods.BGRL, GRACE, CLNR)
SUPERVISED = (methods.SUPERVISED_GCN, methods.SUPERVISED_GAT)
BESIDE = tuple(method for method in METHODS.values() if method not in (*SELF_SUPERVISED, *SUPERVISED))
TIMED = ("ogbn-arxiv", "photo", "computers", "pubmed")
CLUSTERED = (CLNR, GRACE, CCA_SSG)

OPTIMISTIC = (
    "*strict*: the probe's step is chosen by validation accuracy, and the test set is read once. *paper rule*: the authors', "
    "optimistic, since the test set chooses among steps."
)


def architectures(scope: Scope, holdings: Holdings) -> Sheet:
    """Table 1, derived from the methods' declarations."""
    rows, differing = [], []
    for name in published.ARCHITECTURES:
        made = METHODS[name].architecture()
        assert made is not None
        if tuple(made) != published.ARCHITECTURES[name]:
            differing.append(name)
        rows.append(row(name, str(made.target), *("✓" if trait else "-" for trait in made[1:])))
    said = f"differs from the paper's for {', '.join(differing)}" if differing else "every cell is as in the paper"
    head = ("Method", "Target", "MI estimator", "Proj./pred. head", "Asymmetric", "Negative samples")
    note = f"Derived from the declarations of `src/clnr/methods.py`: {said}."
    return Sheet("table-1", "Table 1. Architectures", head, (tuple(rows),), (note,), words=2)


def accuracy_batches(scope: Scope) -> list[Batch]:
    lineup = scope.lineup((*SELF_SUPERVISED, *SUPERVISED, *(() if scope.quick else BESIDE)))
    return [scope.batch(method, name) for method in lineup for name in scope.sets(SETS)]


def accuracies(scope: Scope, holdings: Holdings) -> Sheet:
    """Table 2: every method on every data set, both protocols and what was published."""
    sets = scope.sets(SETS)
    groups = [scope.lineup(part) for part in (SELF_SUPERVISED, SUPERVISED, () if scope.quick else BESIDE)]
    best = {name: _best(scope, holdings, groups[0], name) for name in sets}
    rows = tuple(
        tuple(line for method in group for line in _lines(scope, holdings, method, sets, best)) for group in groups if group
    )
    usual = scope.batch(CLNR, "cora").seeds
    notes = (
        OPTIMISTIC + " *published*: the paper's table 2.",
        f"Means and population standard deviations over {plural(usual, 'seed')}, or as many as stand in brackets; in bold, "
        "the best strict mean of the self-supervised methods of the paper's table. GCN and GAT are judged by their own "
        f"predictions, for which both protocols are one. From {BESIDE[0].name} on: what the paper's table does not have.",
    )
    head = ("Method", "Protocol", *(title_of(name) for name in sets))
    return Sheet("table-2", "Table 2. Accuracy in percent", head, rows, notes, words=2)


def _best(scope: Scope, holdings: Holdings, lineup: Sequence[Method], dataset: str) -> str | None:
    means = {method.name: mean(holdings.find(scope.batch(method, dataset))) for method in lineup}
    known = {name: value for name, value in means.items() if value is not None}
    return max(known, key=lambda name: known[name]) if known else None


def _lines(scope: Scope, holdings: Holdings, method: Method, sets: list[str], best: dict[str, str | None]) -> list[Row]:
    usual = scope.batch(CLNR, "cora").seeds
    found = {name: holdings.find(scope.batch(method, name)) for name in sets}
    strict = [Cell(accuracy(found[name], "strict", usual), best[name] == method.name) for name in sets]
    lines = [row(method.name, "strict", *strict)]
    if not method.supervised:
        lines.append(row("", "paper rule", *(accuracy(found[name], "paper", usual) for name in sets)))
    printed = [_published(method, name) for name in sets]
    if any(printed):
        lines.append(row("", "published", *(cell or "-" for cell in printed)))
    return lines


def _published(method: Method, dataset: str) -> str | None:
    result = preset(method, dataset).published
    if result is None:
        return published.INSTEAD.get((method.name, dataset))
    return f"{result.accuracy:.1f} ± {result.spread:.1f}"


def time_batches(scope: Scope) -> list[Batch]:
    lineup = scope.lineup((CLNR, GRACE))
    return [time_batch(scope, method, name) for name in scope.sets(TIMED) for method in lineup]


def time_batch(scope: Scope, method: Method, dataset: str) -> Batch:
    return scope.batch(method, dataset, 5, measures=("time",))


def times(scope: Scope, holdings: Holdings) -> Sheet:
    """Table 3: how long CLNR and GRACE train, on one machine."""
    here, rows = holdings.in_one_place(time_batches(scope)), []
    lineup = scope.lineup((CLNR, GRACE))
    for name in scope.sets(TIMED):
        batches = [time_batch(scope, method, name) for method in (CLNR, GRACE)]
        clnr, grace = found = [here.find(batch) if batch.method in lineup else "-" for batch in batches]
        then = published.SECONDS.get(name)
        printed = ("-", "-", "-") if then is None else (f"{then[0]:,.2f}", f"{then[1]:,.2f}", f"{then[1] / then[0]:.1f}")
        epochs, seeds = " / ".join(str(batch.recipe.epochs) for batch in batches), " / ".join(map(count_of, found))
        rows.append(row(title_of(name), epochs, seeds, _seconds(clnr), _seconds(grace), _ratio(clnr, grace), *printed))
    head = ("Data set", "epochs", "seeds", "CLNR, s", "GRACE, s", "GRACE / CLNR")
    paper = ("paper: CLNR, s", "paper: GRACE, s", "paper: ratio")
    note = (
        "Training alone, of CLNR / GRACE, each run by itself after a warm-up; medians and, in brackets, lowest and highest "
        "over seeds. The paper's times are of another machine and another program: what can be compared is the ratio."
    )
    return Sheet("table-3", "Table 3. Training time", (*head, *paper), (tuple(rows),), (note,), words=3)


def count_of(found: Summary | str) -> str:
    """How many seeds there are."""
    return "0" if isinstance(found, str) else str(len(found.runs))


def _seconds(found: Summary | str) -> str:
    if isinstance(found, str):
        return found
    values = seconds(found)
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def _ratio(clnr: Summary | str, grace: Summary | str) -> str:
    if isinstance(clnr, str) or isinstance(grace, str):
        return next(each for each in (clnr, grace) if isinstance(each, str))
    return f"{statistics.median(seconds(grace)) / statistics.median(seconds(clnr)):.1f}"


def seconds(found: Summary) -> list[float]:
    """Training times of runs that were timed."""
    return [run.extra_metrics["time"]["train_seconds"] for run in found.runs]


def sizes(scope: Scope, holdings: Holdings) -> Sheet:
    """Table 4: the data sets, counted in the data where it is there."""
    rows, differing = [], []
    for name in scope.sets(SETS):
        graph = holdings.load(name)
        counts = () if graph is None else (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes)
        printed = published.SIZES.get(name)
        if counts and printed and counts != printed:
            differing.append(f"{title_of(name)} ({_counts(counts)})")
        cells = [f"{count:,}" for count in counts] or [NO_DATA] * 4
        rows.append(row(title_of(name), *cells, "-" if printed is None else _counts(printed)))
    said = f"They differ for {', '.join(differing)}." if differing else "They agree wherever the data is there."
    head = ("Data set", "Nodes", "Edges", "Features", "Classes", "paper: the same four")
    note = f"Counted in the graphs as loaded; an undirected edge counts twice. {said}"
    return Sheet("table-4", "Table 4. Data sets", head, (tuple(rows),), (note,))


def _counts(counts: tuple[int, ...]) -> str:
    return " / ".join(f"{count:,}" for count in counts)


def settings(scope: Scope, holdings: Holdings) -> Sheet:
    """Table 5: CLNR's recipes."""
    rows, differing = [], []
    for name in scope.sets(SETS):
        recipe, printed = preset(CLNR, name).recipe, published.SETTINGS.get(name)
        own = published.Settings(*(getattr(recipe, key) for key in published.Settings._fields))
        if printed is not None and own != printed:
            differing.append(title_of(name))
        rows.append(row(title_of(name), *(f"{value:g}" for value in own)))
    said = f"differs from the paper's for {', '.join(differing)}" if differing else "every number is the paper's"
    head = ("Data set", "epochs", "layers", "dimension", "tau", "lr1", "wd1", "p_f", "p_e", "lr2", "wd2")
    note = f"As the shipped recipes have it (`clnr recipe CLNR NAME`): {said}."
    return Sheet("table-5", "Table 5. Hyper-parameters of CLNR", head, (tuple(rows),), (note,))


def cluster_batches(scope: Scope) -> list[Batch]:
    return [
        scope.batch(method, name, measures=("clusters",))
        for name in scope.sets(("cora",))
        for method in scope.lineup(CLUSTERED)
    ]


SCORES = ("silhouette", "davies_bouldin", "calinski_harabasz")


def clusters(scope: Scope, holdings: Holdings) -> Sheet:
    """Table 6: the classes as clusters of raw embeddings."""
    groups = []
    for name in scope.sets(("cora",)):
        rows = []
        for method in scope.lineup(CLUSTERED):
            found = holdings.find(scope.batch(method, name, measures=("clusters",)))
            printed = published.CLUSTERS[method.name] if name == "cora" else ()
            cells = [found] * 3 if isinstance(found, str) else [_spread(scores(found, score)) for score in SCORES]
            then = [f"{value:.3f}" for value in printed] or ["-"] * 3
            rows.append(row(method.name, title_of(name), *cells, count_of(found), *then))
        groups.append(tuple(rows))
    head = ("Method", "Data set", "SC", "DB", "CH", "seeds", "paper: SC", "paper: DB", "paper: CH")
    note = (
        "Silhouette coefficient (higher is better), Davies-Bouldin index (lower), Calinski-Harabasz score (higher) of the raw "
        "embeddings of all nodes against their classes: means and standard deviations over seeds."
    )
    return Sheet("table-6", "Table 6. Clustering scores", head, tuple(groups), (note,), words=2)


def scores(found: Summary, score: str) -> list[float]:
    return [run.extra_metrics["clusters"][score] for run in found.runs]


def _spread(values: list[float]) -> str:
    spread = f" ± {statistics.pstdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"
