"""What ``read_tables`` and ``ingest`` take: each argument with its type, default, check, and option of the command line.

Nothing heavy is imported here, so that the command line's help is quick.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from clnr.errors import DataError, UnknownName, did_you_mean, one_line, option
from clnr.support.arguments import check_choice, check_type
from clnr.tables.kinds import check_kinds, edges_by_kind, node_kinds, nodes_by_kind

if TYPE_CHECKING:
    from clnr.graph import Graph

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_OPTION = "option"
TYPES = ("number", "category", "text", "time", "list", "boolean")
"""The types of columns."""
UNKNOWN_ENDS = ("keep", "drop")
_SEVERAL = ("source", "target", "weight", "id", "features", "ignore")


class Option(NamedTuple):
    """How an argument is given on the command line: its help, the type of its value, and what the help calls that."""

    help: str
    type: Any = str
    metavar: str | None = None
    flags: str | None = None


def _option(text: str, kind: Any = str, metavar: str | None = None, flags: str | None = None, **default: Any) -> Any:
    """A field that is also an option of the command line, with its ``default`` or ``default_factory``; else None."""
    return field(**(default or {"default": None}), metadata={_OPTION: Option(text, kind, metavar, flags)})


@dataclass(frozen=True)
class TableArguments:
    """What ``read_tables`` is given; its docstring says more of each."""

    edges: Any = _option(  # noqa: RUF009
        "Edge table: CSV, Parquet, JSON, a quoted glob, or a SELECT (DuckDB). Several kinds of edges: NAME=FILE for each; "
        "between kinds of nodes: user,bought,item=FILE.",
        list[str],
        "[NAME=]FILE",
    )
    nodes: Any = _option(  # noqa: RUF009
        "Node table, one row per node. Without it, features come from the structure. Several kinds: NAME=FILE for each.",
        list[str],
        "[NAME=]FILE",
    )
    _: KW_ONLY
    feature_matrix: Any = None
    source: str | Iterable[str] | None = _option("Column of edge sources; repeatable, for several tables.", list[str], "COLUMN")
    target: str | Iterable[str] | None = _option("Column of edge targets, likewise.", list[str], "COLUMN")
    weight: str | Iterable[str] | None = _option("Column of edge weights; default: one called so.", list[str], "COLUMN")
    until: str | None = _option("Leave out later edges, by a column of times or numbers.", metavar="COLUMN=DATE")
    directed: bool | None = _option("Treat edges as directed.", bool, flags="--directed")
    unknown_ends: str | None = _option("Edges whose ends the node table lacks: keep or drop them.", metavar="keep|drop")
    id: str | Iterable[str] | None = _option("Column of node ids.", list[str], "COLUMN")
    label: str | None = _option("Column of class labels, for evaluation and supervised methods; never a feature.")
    names: str | None = _option("Column of display names; never a feature.", metavar="COLUMN")
    features: Iterable[str] | None = _option(
        "Node columns that are features; default: all suitable ones. Also a matrix beside them, .npy or .npz, in the order "
        "of --nodes.",
        *(list[str], "COLUMN"),
    )
    ignore: Iterable[str] = _option("Columns to leave out; repeatable, or comma-separated.", list[str], "COLUMN", default=())
    types: Mapping[str, str] = _option(
        f"The type of a node column: {', '.join(TYPES[:-1])} or {TYPES[-1]}.", *(list[str], "COLUMN=TYPE"), default_factory=dict
    )
    header: bool | None = _option("Whether text files begin with a header.", bool, flags="--header/--no-header")
    encoding: str | None = _option("Encoding of text files, such as cp1252; default: UTF-8 or UTF-16.", metavar="NAME")
    base: Graph | None = None
    encoder: Mapping[str, Any] | None = None
    memory: str | None = None
    name: str | None = None
    progress: Callable[[str], None] | None = None

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Those that are options of the command line, by the names of the arguments."""
        return {each.name: each.metadata[_OPTION] for each in fields(cls) if _OPTION in each.metadata}

    def names_of(self, argument: str) -> tuple[str, ...]:
        """The columns that an argument names."""
        named = getattr(self, argument)
        return (named,) if isinstance(named, str) else tuple(named or ())

    @property
    def until_column(self) -> str | None:
        return None if self.until is None else self.until.rpartition("=")[0]

    @property
    def has_edge_kinds(self) -> bool:
        """Whether edges are of several kinds, each in a table of its own."""
        return isinstance(self.edges, Mapping)

    @property
    def is_directed(self) -> bool:
        """Whether edges are directed: as in ``base``, if there is one."""
        return bool(self.directed) if self.base is None else self.base.info.directed or self.base.directed

    @property
    def graph_name(self) -> str:
        return self.name or ("graph" if self.base is None else self.base.name)

    @property
    def fitted(self) -> Mapping[str, Any] | None:
        """The encoder of an earlier graph, as its ``info`` has it, if there is one."""
        return self.encoder if self.base is None else self.base.info.encoder


def takes(declared: Callable[_Arguments, Any]) -> Callable[[Callable[..., _Result]], Callable[_Arguments, _Result]]:
    """A function that is called as a dataclass is: for help, editors and type checkers it has the same parameters."""

    def decorate(function: Callable[..., _Result]) -> Callable[_Arguments, _Result]:
        returned = inspect.signature(function).return_annotation
        function.__signature__ = inspect.signature(declared).replace(return_annotation=returned)  # type: ignore[attr-defined]
        return function

    return decorate


def check_arguments(function: str, /, edges: Any = None, nodes: Any = None, **named: Any) -> TableArguments:
    """The checked arguments of a call, with lists of columns as tuples; raises if one is wrong or two contradict each other."""
    known = [each.name for each in fields(TableArguments)]
    for name in named.keys() - known:
        near = did_you_mean(name, known).rstrip() or f"see help(clnr.{function})"
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}; {near}")
    given = TableArguments(edges, nodes, **named)
    for name in ("until", "label", "names", "encoding", "memory", "name"):
        check_type(name, getattr(given, name), str | None, "text", DataError)
    for name in ("header", "directed"):
        check_type(name, getattr(given, name), bool | None, "True or False", DataError)
    check_type("types", given.types, Mapping, "types by the names of columns", DataError)
    if given.encoding is not None:
        from clnr.tables.io.text_files import check_encoding

        check_encoding(given.encoding)
    if given.unknown_ends is not None:
        check_choice("unknown_ends", given.unknown_ends, UNKNOWN_ENDS)
    for column, kind in given.types.items():
        check_type("each column of types", column, str, "text", DataError)
        if kind not in TYPES:
            raise UnknownName(f"type of '{column}':", str(kind), TYPES)
    lists: dict[str, Any] = {
        name: _columns(name, getattr(given, name)) for name in _SEVERAL if getattr(given, name) is not None
    }
    given = replace(given, **lists)
    if given.until is not None and not all(given.until.partition("=")):
        raise DataError(f"{option('until')} must be COLUMN=DATE, such as date=2020-12-31, not '{one_line(given.until, 80)}'")
    roles = {"a feature": given.names_of("features"), "of a type": tuple(given.types), "the label": (given.label,)}
    for role, columns in roles.items():
        if both := [column for column in columns if column in given.names_of("ignore")]:
            raise DataError(f"column '{both[0]}' cannot be both {role} and ignored; leave out one of the two")
    for name in ("features", "types"):
        if given.label is not None and given.label in given.names_of(name):
            raise DataError(f"column '{given.label}' is the label, which is never a feature; leave it out of {option(name)}")
    check_kinds(given.edges, given.nodes, extends=given.base is not None)
    if given.feature_matrix is not None and node_kinds(given.edges, given.nodes):
        raise DataError("a feature matrix does not work with several kinds of nodes: leave it out")
    _check_earlier(given)
    return given


def check_files(edges: Any = None, nodes: Any = None, feature_matrix: Any = None, **others: Any) -> None:
    """Fail early if a file is missing, or is not in a format of tables."""
    from clnr.tables.io.open import find_files, is_query

    for each in (*edges_by_kind(edges), *nodes_by_kind(nodes)):
        if isinstance(each.table, str | Path) and not is_query(each.table):
            find_files(str(each.table))
    if isinstance(feature_matrix, str | Path) and not Path(feature_matrix).is_file():
        raise DataError(f"{one_line(str(feature_matrix))}: there is no such file")


def _columns(argument: str, given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (None,)
    if not all(isinstance(each, str) for each in names):
        raise DataError(f"{argument} must be a list of names of columns, not a value of type {type(given).__name__}")
    return names


def _check_earlier(given: TableArguments) -> None:
    """Check ``base`` and ``encoder``, which decide much that cannot be said again."""
    base = given.base
    check_type("encoder", given.encoder, Mapping | None, "the encoder of a graph's info", DataError)
    if base is not None:
        from clnr.graph import Graph

        check_type("base", base, Graph, "a graph", DataError)
    if given.edges is None and (base is None or given.nodes is None):
        raise DataError("there is nothing to read: pass a table of edges or, to extend an earlier graph (base), one of nodes")
    if given.fitted is not None and (given.features is not None or given.types):
        which = option("types" if given.types else "features")
        raise DataError(f"the earlier graph decides how columns are read: leave out {which}")
    if base is None:
        return
    if base.info.encoder is None:
        raise DataError("the earlier graph did not come from tables, so nothing says how to read new ones")
    if given.feature_matrix is not None and given.nodes is None:
        raise DataError(f"a feature matrix needs the table of its nodes: {option('nodes')}")
    if given.directed not in (None, given.is_directed):
        kind = "directed" if given.is_directed else "undirected"
        raise DataError(f"the earlier graph is {kind}, so {option('directed', given.directed)} cannot extend it")
    if given.edges is not None and bool(base.info.edge_kinds) != given.has_edge_kinds:
        if not base.info.edge_kinds:
            raise DataError(f"the earlier graph has one kind of edges: give these without a name, {option('edges', 'FILE')}")
        known = list(base.info.edge_kinds)
        form = option("edges", {known[0]: "FILE"})
        raise DataError(f"the earlier graph has edges of the kinds {'; '.join(known)}: name the kind of these: {form}")
    kinds, named = base.info.node_kinds, node_kinds(given.edges, given.nodes)
    if bool(kinds) != bool(named):
        has = f"the kinds {', '.join(kinds)}" if kinds else "one kind"
        raise DataError(f"the earlier graph has nodes of {has}; declare these alike")
    if new := [kind for kind in named if kind not in kinds]:
        raise DataError(f"the earlier graph has no nodes of the kind '{new[0]}', only {', '.join(kinds)}")
