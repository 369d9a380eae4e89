"""The arguments that say which tables are read and how: each with its name, type, default and help text.

``read_tables`` and ``ingest`` take them, and the options of the command line are made of them. Nothing heavy is imported here,
so that the command line's help is quick.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

if TYPE_CHECKING:
    from clnr.tables.columns.feature_encoder import FeatureEncoder
    from clnr.tables.table_graph import TableGraph

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_OPTION = "option"

COLUMN_WORDS = ("text", "category", "number", "date", "bool", "tags", "id")
"""What a user can say that a column holds: the words of ``COLUMN_TYPES``, or an id, which is no feature."""


REPEATABLE = ("source", "target", "weight", "id")
"""The arguments that name a column, or one for each table."""


class Option(NamedTuple):
    """How an argument is given on the command line.

    Attributes:
        help: Its help text.
        type: The type of its value; of a list, an option is repeatable.
        metavar: What its help calls the value; None for the name of the type.
        flags: How it is written; None for the argument's name.
    """

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
        "Edge table: a CSV, Parquet or JSON file, a quoted glob, or a SELECT (DuckDB). Several kinds of edges: NAME=FILE "
        "for each; between kinds of nodes: user,bought,item=FILE.",
        list[str],
        "[NAME=]FILE",
    )
    nodes: Any = _option(  # noqa: RUF009
        "Node table, one row per node. Without it, features come from the structure. Several kinds of nodes: "
        "NAME=FILE for each.",
        list[str],
        "[NAME=]FILE",
    )
    _: KW_ONLY
    feature_matrix: Any = None
    source: str | Iterable[str] | None = _option(
        "Column of edge sources; default: found by name, such as source or from. Repeatable: each edge table takes its own.",
        *(list[str], "COLUMN"),
    )
    target: str | Iterable[str] | None = _option(
        "Column of edge targets; default: found by name. Repeatable, as --source.", list[str], "COLUMN"
    )
    weight: str | Iterable[str] | None = _option(
        "Column of edge weights; default: found by name. Repeatable, as --source.", list[str], "COLUMN"
    )
    edge_type: str | None = _option("Column of kinds of edges: each kind is normalised separately.", metavar="COLUMN")
    until: str | None = _option("Leave out edges that are later, by a column of dates or numbers.", metavar="COLUMN=DATE")
    id: str | Iterable[str] | None = _option(
        "Column of node ids; default: found by its values. Repeatable, as --source.", list[str], "COLUMN"
    )
    label: str | None = _option("Column of class labels, for evaluation and supervised methods; never a feature.")
    names: str | None = _option("Column of display names, for the report and search; features stay the same.")
    features: Iterable[str] | None = _option(
        "Node columns to use as features; default: all suitable ones. Also a matrix beside them, .npy or .npz, whose rows "
        "are in the order of --nodes.",
        *(list[str], "COLUMN"),
    )
    ignore: Iterable[str] = _option("Columns to leave out; repeatable, or comma-separated.", list[str], "COLUMN", default=())
    types: Mapping[str, str] = _option(
        f"What a node column holds: {', '.join(COLUMN_WORDS[:-1])} or {COLUMN_WORDS[-1]}.",
        *(list[str], "COLUMN=KIND"),
        default_factory=dict,
    )
    header: bool | None = _option(
        "Whether text files have a header line; default: detected.", bool, flags="--header/--no-header"
    )
    encoding: str | None = _option("Encoding of text files, such as cp1252; default: detected.", metavar="NAME")
    directed: bool | None = _option("Treat edges as directed.", bool, flags="--directed")
    feature_encoder: FeatureEncoder | None = None
    base: TableGraph | None = None
    memory: str | None = None
    name: str | None = None
    progress: Callable[[str], None] | None = None

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Those that are options of the command line, by the names of the arguments."""
        return {each.name: each.metadata[_OPTION] for each in fields(cls) if _OPTION in each.metadata}

    def columns_named(self, argument: str) -> tuple[str, ...]:
        """The columns that one of ``REPEATABLE`` names: each holds for the tables that have it."""
        named = getattr(self, argument)
        return (named,) if isinstance(named, str) else tuple(named or ())

    @property
    def has_edge_kinds(self) -> bool:
        """Whether edges are of several kinds: by a column, or by the names of their tables."""
        return self.edge_type is not None or isinstance(self.edges, Mapping)

    @property
    def edge_time(self) -> str | None:
        """The column of edges that ``until`` names; its date is ``last_time``."""
        return None if self.until is None else self.until.rpartition("=")[0]

    @property
    def last_time(self) -> str:
        return (self.until or "").rpartition("=")[2]

    @property
    def is_directed(self) -> bool:
        """Whether edges are directed: as in ``base``, if there is one."""
        if self.base is not None:
            return self.base.ingest_report.directed or self.base.graph.directed
        return bool(self.directed)

    @property
    def graph_name(self) -> str:
        return self.name or ("graph" if self.base is None else self.base.graph.name)


def takes(declared: Callable[_Arguments, Any]) -> Callable[[Callable[..., _Result]], Callable[_Arguments, _Result]]:
    """A function that is called as a dataclass is: for help, editors and type checkers it has the same parameters."""

    def decorate(function: Callable[..., _Result]) -> Callable[_Arguments, _Result]:
        returned = inspect.signature(function).return_annotation
        function.__signature__ = inspect.signature(declared).replace(return_annotation=returned)  # type: ignore[attr-defined]
        return function

    return decorate
