"""The pipeline of a user's graph: plan, tune, train, checkpoint, save. ``clnr embed`` and ``NodeEmbedder`` both call it."""

from __future__ import annotations

import contextlib
import dataclasses
import numbers
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np

from clnr import methods
from clnr.embedding.artifact import differences, load_folder, name_nodes, save_folder, save_names
from clnr.embedding.artifact_files import OWNED_FILES, RECIPE, SOURCE, ArtifactFiles
from clnr.embedding.defaults import Choice, default_recipe
from clnr.embedding.export import EXPORT_FORMATS, check_formats
from clnr.embedding.fitting import HOLD_OUT, EmbeddingResult, embed_with, fit_along, fit_graph, recipe_beside
from clnr.embedding.preflight import Preflight, facts_line, graph_counts, graph_facts, table_warnings
from clnr.embedding.report_data import report_html
from clnr.embedding.report_file import write_report_file
from clnr.embedding.tuning import tune
from clnr.engine import Engine
from clnr.errors import DataError, RecipeError
from clnr.experiments.run import check_seed
from clnr.experiments.runner import first_use
from clnr.graph import Graph
from clnr.methods import Method
from clnr.methods.recipe import Recipe, check_used
from clnr.support import environment
from clnr.support.arguments import check_int, check_type
from clnr.support.atomic_io import atomic_folder, check_folder, reserve_folder, resolve_path
from clnr.support.humanize import plural
from clnr.support.progress import Bar
from clnr.support.workers import ALONE, Workers
from clnr.tables import TableGraph, load_graph_folder, read_tables
from clnr.tables.column_info import column_lines
from clnr.training.checkpoint import Checkpoint, check_checkpoint, remove_checkpoint
from clnr.training.loop import ProgressCallback


@dataclass(frozen=True, eq=False)
class Settings:
    """How to train on a graph.

    Attributes:
        method: What to train.
        engine: Where to compute.
        recipe: All hyper-parameters, or some by name; the others are chosen for the graph.
        changes: Hyper-parameters that are set in any case; tuning leaves them alone, as it does those of a partial recipe.
        effort: Hyper-parameters that an effort sets, unless a recipe or a change does.
        seed: Decides everything random.
        hold_out: The share of edges that training does not see, to score by; 0 for none.
        tune: How many recipes to try before training (Optuna); 0 for none.
        checkpoint: The file that the state of training is saved to; None for none.
        checkpoint_every: Epochs between two saves; 0 to save none.
        resume: Whether to continue from the checkpoint, if there is one.
        auto: Whether to take a baseline instead of the method where it has a better score by labels of validation nodes or,
            without labels, by held-out edges.
        evaluate: Whether to evaluate the embedding by labels, if there are any.
        baselines: Whether to score raw features and training-free methods beside it, alike.
        ignore_memory_check: Whether to train even if memory seems too small.
        workers: The processes that share the training; the first evaluates and writes.
    """

    method: Method
    engine: Engine
    recipe: Recipe | Mapping[str, Any] | None = None
    changes: Mapping[str, Any] | None = None
    effort: Mapping[str, Any] | None = None
    seed: int = 0
    hold_out: float = HOLD_OUT
    tune: int = 0
    checkpoint: Path | None = None
    checkpoint_every: int = 0
    resume: bool = False
    auto: bool = False
    evaluate: bool = True
    baselines: bool = True
    ignore_memory_check: bool = False
    workers: Workers = ALONE

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if not (isinstance(self.hold_out, numbers.Real) and 0 <= self.hold_out < 1):
            raise RecipeError(f"hold_out must be from 0 to less than 1 (--hold-out), not {self.hold_out!r}")
        for name in ("tune", "checkpoint_every"):
            if check_int(name, getattr(self, name)) < 0:
                raise RecipeError(f"{name} must be 0 or more (--{name.replace('_', '-')}), not {getattr(self, name)}")
        for name in ("resume", "auto", "evaluate", "baselines", "ignore_memory_check"):
            check_type(name, getattr(self, name), bool | np.bool_, "True or False")
        if self.resume and self.checkpoint is None:
            raise RecipeError("resume=True needs checkpoint=FILE, where the state of training is saved")
        if self.tune and not self.workers.alone:
            raise RecipeError("tune tries recipes with one worker (--tune does not go with several workers)")
        if not isinstance(self.recipe, Recipe | Mapping | None):
            raise RecipeError(f"a recipe is a Recipe or hyper-parameters by name, not a {type(self.recipe).__name__}")

    @property
    def fixed(self) -> Collection[str]:
        """The hyper-parameters that the user has set by name."""
        return self._set_by_name.keys()

    @property
    def compared(self) -> tuple[Method, ...]:
        """The baselines that are scored beside the embedding."""
        return methods.BASELINES if self.auto else methods.QUICK_BASELINES if self.baselines else ()

    @property
    def uses_checkpoint(self) -> bool:
        """Whether the state of training is to be saved or resumed from."""
        return self.checkpoint is not None and bool(self.checkpoint_every or self.resume)

    def recipe_for(self, graph: Graph) -> tuple[Recipe, list[Choice]]:
        """The recipe for a graph before tuning, and the choices in it that follow from the graph."""
        if isinstance(self.recipe, Recipe):
            return self.recipe.but(**self._set_by_name), []
        recipe, choices = default_recipe(self.method, graph)
        return recipe.but(**{**(self.effort or {}), **self._set_by_name}), choices

    @property
    def _set_by_name(self) -> dict[str, Any]:
        return {**(self.recipe if isinstance(self.recipe, Mapping) else {}), **(self.changes or {})}


# -- training ---------------------------------------------------------------------------------------------------------------


def plan(table_graph: TableGraph, settings: Settings, workers: int | None = None) -> tuple[Recipe, Preflight]:
    """The recipe for a graph before tuning, and everything that can be known before training.

    Args:
        table_graph: The graph.
        settings: How to train.
        workers: How many processes would share the training, if not as the settings say; all on this machine.
    """
    if settings.method.supervised and table_graph.graph.labels is None:
        raise _labels_missing(settings.method)
    check_used(settings.method, settings.fixed)
    recipe, choices = settings.recipe_for(table_graph.graph)
    settings.method.check(recipe)
    size = workers or settings.workers.size
    check_workers(size, settings.method, recipe, table_graph.graph.num_nodes)
    judged = settings.evaluate * (1 + len(settings.compared))
    beside = workers or settings.workers.local_size
    tuned = (settings.tune, settings.fixed)
    return recipe, Preflight.of(table_graph, settings.method, recipe, choices, settings.engine, judged, size, beside, *tuned)


def check_workers(workers: int, method: Method, recipe: Recipe, nodes: int) -> None:
    """Fail if so many workers cannot share a training on a graph of so many nodes."""
    if workers > 1:
        method.check_shared(recipe)
        rows = min(nodes, recipe.sampled_nodes or nodes)
        if workers > rows:
            raise RecipeError(f"{workers} workers cannot share {plural(rows, 'node')} of a step; start at most {rows}")


def fit(table_graph: TableGraph, settings: Settings, bar: Bar | None = None) -> EmbeddingResult:
    """Plan, check memory, tune, train, and resume from a checkpoint: whatever the settings ask for.

    Args:
        table_graph: The graph.
        settings: How to train.
        bar: Shows progress; None for none.
    """
    recipe, preflight = plan(table_graph, settings)
    return _fit(table_graph, settings, recipe, preflight, bar)


def fit_along_others(table_graph: TableGraph, settings: Settings, bar: Bar | None = None) -> EmbeddingResult | None:
    """``fit`` by workers, all of which call this with the same graph; all but the first return None."""
    recipe, preflight = plan(table_graph, settings)
    settings.workers.agree(lambda: training_about(table_graph.graph.digest, settings, recipe))
    if settings.workers.first:
        return _fit(table_graph, settings, recipe, preflight, bar)
    _fit_share(table_graph, settings, recipe)
    return None


def _fit_share(table_graph: TableGraph, settings: Settings, recipe: Recipe) -> None:
    """Do another worker's share of ``_fit``."""
    hold_out, workers = settings.hold_out, settings.workers
    fit_along(table_graph, settings.method, recipe, settings.seed, settings.engine, hold_out=hold_out, workers=workers)


def _fit(table_graph: TableGraph, settings: Settings, recipe: Recipe, preflight: Preflight, bar: Bar | None) -> EmbeddingResult:
    log = (bar or Bar(None, quiet=True)).note
    method, engine, seed = settings.method, settings.engine, settings.seed
    for line in preflight.lines:
        log(line)
    if not settings.ignore_memory_check:
        preflight.check_memory()
    if settings.checkpoint is not None and settings.uses_checkpoint:
        check_checkpoint(settings.checkpoint)
    if settings.tune:
        recipe = tune(table_graph, method, recipe, seed, engine, settings.tune, settings.hold_out, settings.fixed, log, bar)
    checkpoint = checkpoint_of(table_graph.graph.digest, settings, recipe, log)
    if checkpoint is not None and settings.resume:
        path = checkpoint.path
        log(f"resuming from {path}" if path.is_file() else f"there is no checkpoint {path}: training starts from scratch")
    with engine.use_threads(), shown(settings, recipe, table_graph.graph.num_nodes, bar) as progress:
        result = fit_graph(
            table_graph,
            method,
            recipe,
            seed,
            engine,
            hold_out=settings.hold_out,
            progress=progress,
            checkpoint=checkpoint,
            evaluate=settings.evaluate,
            baselines=settings.compared,
            workers=settings.workers,
        )
    if not settings.workers.alone:
        log(f"this worker sent {settings.workers.sent / 1e6:,.1f} MB to others")
    return _winner(result, settings, log) if settings.auto else result


def _winner(result: EmbeddingResult, settings: Settings, log: Callable[[str], None]) -> EmbeddingResult:
    """The result itself, or that of the baseline with the best score by validation nodes or, without labels, by edges."""
    measure = "validation_accuracy" if "validation_accuracy" in result.scores else "link_auc"
    own = result.scores.get(measure, nan)
    found = {result.model.method.name: own} | {
        name: scores[measure] for name, scores in result.baselines.items() if measure in scores
    }
    best = max(found, key=found.__getitem__)
    if isnan(found[best]) or best == result.model.method.name:
        return result
    log(f"{best} has the better {measure.replace('_', ' ')}, {found[best]:.4g} against {own:.4g}: it is taken")
    method = methods.find(best)
    recipe = recipe_beside(method, settings.method, result.model.recipe, result.table_graph.graph)
    with settings.engine.use_threads():
        taken = fit_graph(
            result.table_graph,
            method,
            recipe,
            settings.seed,
            settings.engine,
            hold_out=settings.hold_out,
            evaluate=settings.evaluate,
            baselines=[each for each in settings.compared if each != method],
        )
    scored = {name: value for name, value in result.scores.items() if name.startswith(("link_a", "strict", "validation"))}
    return dataclasses.replace(taken, baselines=taken.baselines | {result.model.method.name: scored})


@contextlib.contextmanager
def shown(settings: Settings, recipe: Recipe, nodes: int, bar: Bar | None) -> Iterator[ProgressCallback | None]:
    """The progress of training, on a bar if there is one."""
    if bar is None:
        yield None
        return
    epochs = recipe.epochs if settings.method.objective else 0
    what = f"{settings.method.name} on {nodes:,} nodes"
    with first_use(settings.engine, bar), bar.training(what, epochs) as progress:
        yield progress


def checkpoint_of(graph: str, settings: Settings, recipe: Recipe, log: Callable[[str], None]) -> Checkpoint | None:
    """The checkpoint of this very training on the graph with a digest; None if none is asked for."""
    if settings.checkpoint is None or not settings.uses_checkpoint:
        return None
    about = training_about(graph, settings, recipe) | {"versions": environment.versions()}
    say = log if settings.engine.device.type == "cpu" else None
    return Checkpoint(settings.checkpoint, settings.checkpoint_every or recipe.epochs + 1, about, settings.resume, say)


def training_about(graph: str, settings: Settings, recipe: Recipe) -> dict[str, object]:
    """What a training depends on besides versions: another one cannot resume its checkpoint, nor share its steps."""
    return {
        "tables": graph,
        "method": settings.method.name,
        "seed": int(settings.seed),
        "recipe": recipe.to_dict(),
        "hold_out": float(settings.hold_out),
        "engine": settings.engine.name,
        "precision": settings.engine.precision,
    }


def _labels_missing(method: Method) -> DataError:
    return DataError(
        f"{method.name} is supervised, and there are no labels to train by; name their column in the node table (--label), or "
        f"choose a method that needs none, such as {methods.CLNR.name}"
    )


# -- an earlier model -------------------------------------------------------------------------------------------------------


def extend(
    earlier: EmbeddingResult,
    tables: Mapping[str, Any],
    engine: Engine,
    *,
    standalone: bool = False,
    bar: Bar | None = None,
) -> EmbeddingResult:
    """New tables embedded with an earlier model; nothing is trained.

    Args:
        earlier: What to embed with, and the graph that the tables are added to.
        tables: The arguments of ``read_tables``.
        engine: Where to compute.
        standalone: Whether the tables are a graph of their own instead.
        bar: Shows what was read; None for none.
    """
    log = (bar or Bar(None, quiet=True)).note
    plan = plan_extension(earlier, tables, standalone=standalone)
    for line in plan.lines:
        log(line)
    return embed_with(earlier, plan.table_graph, engine)


@dataclass(frozen=True)
class ExtensionPlan:
    """New tables that are read to be embedded with an earlier model; ``print`` shows it in lines.

    Attributes:
        table_graph: Their graph, with that of the model or by itself.
        columns: How each of their columns was read, a line each.
        new_nodes: How many nodes the model's graph did not have; None if the tables are a graph of their own.
    """

    table_graph: TableGraph
    columns: tuple[str, ...]
    new_nodes: int | None

    @property
    def lines(self) -> list[str]:
        """All of it, a line each."""
        new = [] if self.new_nodes is None else [plural(self.new_nodes, "new node")]
        more = (*new, *self.columns, *table_warnings(self.table_graph))
        return [facts_line(graph_facts(self.table_graph.graph)), *(f"- {line}" for line in more)]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``clnr embed --model --dry-run --json`` prints them."""
        return {
            "graph": graph_counts(self.table_graph.graph),
            "new_nodes": self.new_nodes,
            "columns": list(self.columns),
            "warnings": table_warnings(self.table_graph),
        }


def plan_extension(earlier: EmbeddingResult, tables: Mapping[str, Any], *, standalone: bool = False) -> ExtensionPlan:
    """What ``extend`` would embed; its arguments."""
    base = earlier.table_graph
    if base.feature_encoder is None:
        raise DataError("this model was fitted on a graph in Python, not on tables: NodeEmbedder.load(...).transform(graph)")
    table_graph = read_tables(**tables, **({"feature_encoder": base.feature_encoder} if standalone else {"base": base}))
    given = {role for role in ("edges", "nodes") if any(tables.get(each) is not None for each in (role, f"{role}_query"))}
    # The title of a table of a kind has its name behind its role.
    columns = column_lines(info for info in table_graph.ingest_report.columns if info.table.split()[0] in given)
    new_nodes = None if standalone else table_graph.graph.num_nodes - base.graph.num_nodes
    return ExtensionPlan(table_graph, tuple(columns), new_nodes)


# -- folders ----------------------------------------------------------------------------------------------------------------


def read_source(tables: Mapping[str, Any]) -> TableGraph:
    """The graph of tables, or of a graph folder: the arguments of ``read_tables``, or ``graph`` alone."""
    return read_tables(**tables) if tables.get("graph") is None else load_graph_folder(tables["graph"])


def embed_tables(
    tables: Mapping[str, Any],
    folder: Path,
    settings: Settings,
    *,
    model: Path | None = None,
    standalone: bool = False,
    force: bool = False,
    formats: Collection[str] = (),
    report: bool = True,
    bar: Bar | None = None,
) -> EmbeddingResult | None:
    """From tables to a folder of vectors, model and report, as ``clnr embed``; None if the folder was finished already.

    Where workers share the training, all of them call this; all but the first return None.

    Args:
        tables: The arguments of ``read_tables``; or ``graph``, the path of a graph folder.
        folder: Where to write.
        settings: How to train.
        model: An earlier folder to embed with, instead of training.
        standalone: With a model: the tables are a graph of their own, and are not added to the model's.
        force: Whether a folder that clnr wrote may be overwritten.
        formats: Further export formats.
        report: Whether to write report.html.
        bar: Shows progress; None for none.
    """
    labelled = any(tables.get(name) is not None for name in ("nodes", "nodes_query", "graph"))
    if settings.method.supervised and model is None and not labelled:
        raise _labels_missing(settings.method)
    check_used(settings.method, settings.fixed)
    if not settings.workers.first:
        _work_along(tables, settings)
        return None
    with reserve_folder(folder, OWNED_FILES):
        finished = settings.resume and (folder / RECIPE).is_file()
        if force or not finished:
            check_folder(folder, force, OWNED_FILES)
        if settings.checkpoint is not None and settings.uses_checkpoint:
            check_checkpoint(settings.checkpoint)
        if model is not None:
            result = extend(load_folder(model), tables, settings.engine, standalone=standalone, bar=bar)
        else:
            table_graph = read_source(tables)
            recipe, preflight = plan(table_graph, settings)
            settings.workers.agree(lambda: training_about(table_graph.graph.digest, settings, recipe))
            finished = finished and _is_finished(folder, table_graph, settings, recipe, tables.get("names"), force)
            if settings.workers.from_first(finished):
                _remove_checkpoint(settings)
                return None
            if not settings.workers.alone and not settings.resume:
                # Workers that are started again go on from a checkpoint: it must be one of this training.
                _remove_checkpoint(settings)
            check_formats(formats, table_graph.graph)
            result = _fit(table_graph, settings, recipe, preflight, bar)
        if report and bar is not None:
            bar.note("drawing the map for the report")
        _write(result, folder, force, formats, report)
        _remove_checkpoint(settings)
    return result


def _work_along(tables: Mapping[str, Any], settings: Settings) -> None:
    """Do a worker's share of the training in ``embed_tables``."""
    table_graph = read_source(tables)
    recipe, _ = plan(table_graph, settings)
    settings.workers.agree(lambda: training_about(table_graph.graph.digest, settings, recipe))
    if not settings.workers.from_first(False):
        _fit_share(table_graph, settings, recipe)


def write_folder(
    result: EmbeddingResult, folder: Path, *, force: bool = False, formats: Collection[str] = (), report: bool = False
) -> None:
    """Write a result to a folder, complete or not at all.

    Args:
        result: What to write.
        folder: Where to.
        force: Whether a folder that clnr wrote may be overwritten.
        formats: Further export formats.
        report: Whether to write report.html.
    """
    check_formats(formats, result.table_graph.graph)
    with reserve_folder(folder, OWNED_FILES):
        check_folder(folder, force, OWNED_FILES)
        _write(result, folder, force, formats, report)


def write_report(folder: Path, name: str | None = None) -> Path:
    """Write the report of a folder again, and return its path.

    Args:
        folder: Written by ``clnr embed`` or ``NodeEmbedder.save``.
        name: The column of node names, which the folder remembers; None for no change.
    """
    files = ArtifactFiles.open(folder)
    if files.has(SOURCE):
        from clnr.embedding.sample_report import write_sample_report

        if name is not None:
            raise DataError(f"{folder}: the names of its nodes are those that clnr ingest was told (--name)")
        return write_sample_report(files)
    result = load_folder(folder)
    if name is not None:
        result = name_nodes(result, name, folder)
        save_names(result, folder)
    title = resolve_path(folder).name
    return write_report_file(folder, title, report_html(result, title))


def _remove_checkpoint(settings: Settings) -> None:
    if settings.checkpoint is not None:
        remove_checkpoint(settings.checkpoint)


def _is_finished(
    folder: Path, table_graph: TableGraph, settings: Settings, recipe: Recipe, names: str | None, force: bool
) -> bool:
    """Whether a folder already holds what is asked for; if it holds something else, it must be free to overwrite."""
    earlier = load_folder(folder)
    # A tuned recipe is not known beforehand, nor which method wins.
    known = recipe if not (settings.tune or settings.auto) else None
    one_of = (settings.method, *settings.compared) if settings.auto else (settings.method,)
    method = earlier.model.method if earlier.model.method in one_of else settings.method
    differs = differences(earlier, table_graph, method, known, settings.seed)
    if names is not None and table_graph.ingest_report.names != earlier.table_graph.ingest_report.names:
        differs.append(f"its names are those of another column, which clnr report {folder} --name {names} changes")
    if differs and not force:
        raise DataError(
            f"{folder} is finished, but not what is asked for: {'; '.join(differs)}; overwrite it with --force (force=True)"
        )
    return not differs


def _write(result: EmbeddingResult, folder: Path, force: bool, formats: Collection[str], report: bool) -> None:
    """Write a result to a folder that is reserved."""
    title = resolve_path(folder).name
    html = report_html(result, title) if report else None
    with atomic_folder(folder, force, OWNED_FILES) as part:
        save_folder(result, part)
        for name in formats:
            file, write = EXPORT_FORMATS[name]
            write(result.table_graph.graph, result.z, part / file, result.table_graph.kind_columns)
        if html is not None:
            write_report_file(part, title, html)
