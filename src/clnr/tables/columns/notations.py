"""How text is written: numbers with a decimal comma, dates with the day or month first, tags with a sign between them."""

from __future__ import annotations

import re
from typing import NamedTuple

from clnr.errors import DataError, one_line
from clnr.support.humanize import option
from clnr.tables.columns.column_queries import ColumnQueries, ColumnQuery, run_column_queries
from clnr.tables.io.source import Column, Table
from clnr.tables.io.sql import Connection, looks_like_datetime, quoted, run, trimmed

DECIMAL_COMMA, THOUSANDS_COMMA, DAY_FIRST, MONTH_FIRST = "decimal comma", "thousands comma", "day first", "month first"
NOTATIONS = {DECIMAL_COMMA: "number", THOUSANDS_COMMA: "number", DAY_FIRST: "datetime", MONTH_FIRST: "datetime"}
"""The kind of column encoder that reads each notation."""
# 1.234,5 and 1234,5; blanks may separate thousands, too. What may be either is read as such only beside one that is not.
_COMMA_PATTERN = r"[-+]?(\d+|\d{1,3}([. \x{00A0}\x{202F}]\d{3})+)(,\d+)?"
_EITHER_COMMA_PATTERN = r"[-+]?[1-9]\d{0,2},\d{3}"
_GROUP_PATTERN = r"[. \x{00A0}\x{202F}]"
# 1,234,567 and 1,234.5, and what may be either beside one of them.
_THOUSANDS_PATTERN = r"[-+]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?"
_DATE_PATTERN = r"^(\d{1,2})[./-](\d{1,2})[./-](\d{4})"
_ANY_DATE_PATTERN = r"^(\d{1,2})([./-])(\d{1,2})[./-](\d{4}|\d{2})(?:([ T])\d{1,2}:\d{2}(:\d{2})?)?$"
_WHOLE_DATE_PATTERN = _DATE_PATTERN + r"([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?$"
_ORDERS = {DAY_FIRST: r"\3-\2-\1", MONTH_FIRST: r"\3-\1-\2"}
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
# Signs that separate tags, and the share of values that must have them: a comma is common in prose, too.
_SEPARATORS = {"|": 0.25, ";": 0.25, "><": 0.25, ",": 0.5}
# Words of a tag, on average.
_MOST_TAG_WORDS_BY_SEPARATOR = {",": 2.0}
_MOST_TAG_WORDS = 3.0
# Rows that are looked at for tags.
_TAG_ROWS = 10_000
# Labels that are hardly classes are as many as nodes, or nearly; fewer nodes do not tell.
_NEARLY_ALL, _LEAST_LABELLED = 0.8, 20
_SIGNS_AROUND = " \t\n\r\"'<>[]"


class _Counts(NamedTuple):
    """How many values of a column can be read in a notation, and how many of these cannot be read in any other."""

    readable: int
    certain: int


def notation_words(notation: str) -> str:
    """A notation in words, for a list of how columns are read; "" for the usual one."""
    if not notation:
        return ""
    if notation == THOUSANDS_COMMA:
        return "with commas between thousands"
    return f"with {'a ' if notation == DECIMAL_COMMA else 'the '}{notation}"


def usual_sql(text: str, notation: str) -> str:
    """Text of a number or date in the notation that is always read, in SQL; text in no such notation stays as it is."""
    if notation == DECIMAL_COMMA:
        plain = f"replace(regexp_replace({text}, {quoted(_GROUP_PATTERN)}, '', 'g'), ',', '.')"
        return f"CASE WHEN regexp_full_match({text}, {quoted(_COMMA_PATTERN)}) THEN {plain} ELSE {text} END"
    if notation == THOUSANDS_COMMA:
        grouped = f"regexp_full_match({text}, {quoted(_THOUSANDS_PATTERN)})"
        return f"CASE WHEN {grouped} THEN replace({text}, ',', '') ELSE {text} END"
    return f"regexp_replace({text}, {quoted(_DATE_PATTERN)}, {quoted(_ORDERS[notation])})"


def find_notation(db: Connection, table: Table, column: str) -> str:
    """The notation that all values of a column of text can be read in, and at least one in no other; "" if there is none."""
    return run_column_queries(db, table.name, [query_notation(table, column)])[0]


def query_notation(table: Table, column: str, by_first_rows: bool = False, least: float = 1.0) -> ColumnQueries[str]:
    """The steps of ``find_notation``; the first rows may decide, and a share of values may be enough."""
    certain = ""
    for rows in (table.first_rows,) if by_first_rows else (table.first_rows, table.sql):
        present, counts = yield from _count(table, column, rows)
        all_read = {notation: each for notation, each in counts.items() if present and each.readable >= least * present}
        if not all_read:
            return ""
        certain = next((notation for notation, each in all_read.items() if each.certain), "")
    return certain


def query_wanted_notation(db: Connection, table: Table, column: str, wanted: str, usual: int) -> ColumnQueries[tuple[str, str]]:
    """The notation of a column that the user calls one of numbers or dates, and a hint if it may be in two of them.

    It reads more values than the usual notation does.
    """
    _, counts = yield from _count(table, column, table.sql)
    better = {key: each for key, each in counts.items() if NOTATIONS[key] == wanted and each.readable > usual}
    certain = [notation for notation, each in better.items() if each.certain]
    if len(certain) == 1:
        return certain[0], ""
    if not better:
        return "", ""
    return "", date_query(db, table, "nodes", column) if wanted == "datetime" else number_hint(db, table, column)


def number_hint(db: Connection, table: Table, column: str) -> str:
    """How a query reads a column of text whose first values may be numbers in one of two notations; "" if they are in none."""
    name, rows = sql_name(db, column), f"(SELECT {trimmed(table.columns[column].sql)} AS v FROM {table.first_rows})"
    either = f"bool_and({_IS_COMMA}), any_value(v) FILTER (regexp_full_match(v, {quoted(_EITHER_COMMA_PATTERN)}))"
    ((all_numbers, number),) = run(db, f"SELECT {either} FROM {rows}", table.name)
    if not all_numbers or number is None:
        return ""
    ways = f"replace({name}, ',', '.')::DOUBLE, or replace({name}, ',', '')::DOUBLE"
    return f"'{one_line(number, 40)}' may have a decimal comma or a thousands separator; decide in a query: {ways}"


def date_query(db: Connection, table: Table, role: str, column: str) -> str:
    """The query in place of a table that reads the days of a column of text, in all their notations; "" if it has none."""
    name, text = sql_name(db, column), trimmed(table.columns[column].sql)
    parts = f"regexp_extract(v, {quoted(_ANY_DATE_PATTERN)}, ['a', 'sign', 'b', 'year', 'between', 'seconds'])"
    forms = "d.sign, len(d.year), d.between, len(d.seconds)"
    rows = f"(SELECT v, {parts} AS d FROM (SELECT {text} AS v FROM {table.sql})) WHERE d.sign <> ''"
    beyond = ", ".join(f"max(max(d.{part}::INT)) OVER (PARTITION BY d.sign) > 12" for part in "ab")
    found = f"SELECT {forms}, {beyond}, min(v) FROM {rows} GROUP BY {forms} ORDER BY ALL"
    formats, unsure = [], ""
    # Years of two digits come first, since %Y would read them, too.
    for sign, year, between, seconds, first, second, value in run(db, found, table.name):
        order = ("%m", "%d") if second and not first else ("%d", "%m")
        time = f"{between}%H:%M{':%S' if seconds else ''}" if between else ""
        formats.append(quoted(sign.join((*order, "%Y" if year == 4 else "%y")) + time))
        unsure = unsure or (value if first == second else "")
    if not formats:
        return ""
    read = f"try_strptime({name}, [{', '.join(formats)}])"
    if run(db, f"SELECT 1 FROM (SELECT {text} AS v FROM {table.sql}) WHERE {looks_like_datetime('v')} LIMIT 1", table.name):
        read = f"coalesce({read}, try_cast({name} AS TIMESTAMP))"
    which = f"'{one_line(unsure, 40)}' may have the day or the month first; " if unsure else ""
    does = "reads the day first (else, swap %d and %m)" if unsure else "reads them"
    return f"{which}{in_place(table, role, does, name, read)}"


def sql_name(db: Connection, column: str) -> str:
    """A column's name as it is written in a query."""
    reserved = "SELECT 1 FROM duckdb_keywords() WHERE keyword_category = 'reserved' AND keyword_name = lower(?)"
    if _IDENTIFIER.fullmatch(column) and not run(db, reserved, column, [column]):
        return column
    return '"' + column.replace('"', '""') + '"'


def in_place(table: Table, role: str, does: str, name: str, value: str, where: str = "") -> str:
    """What a query with another value of a column does in place of a table; of what no query can replace, this value alone."""
    if not table.from_sql:
        return f"in the table itself, DuckDB's SQL {does}: {value if value != name else ''}{where}"
    query = f"SELECT {f'* REPLACE ({value} AS {name})' if value != name else '*'} FROM {table.from_sql}{where}"
    return f"in place of --{role}, a query {does}: {option(f'--{role}-query', query)}"


def plain_number(number: str, notation: str) -> str:
    """Text of a number in the usual notation, as it is written in a query."""
    plain = {DECIMAL_COMMA: f"translate({number}, ',. ', '.')", THOUSANDS_COMMA: f"replace({number}, ',', '')"}
    return plain.get(notation, number)


_IS_COMMA = f"regexp_full_match(v, {quoted(_COMMA_PATTERN)})"
_IS_DATE = f"regexp_matches(v, {quoted(_WHOLE_DATE_PATTERN)})"
_PARSES = {notation: f"TRY_CAST({usual_sql('v', notation)} AS TIMESTAMP) IS NOT NULL" for notation in _ORDERS}


def number_tests(v: str) -> dict[str, tuple[str, str]]:
    """For each notation of numbers, whether a text can be read in it, and whether in no other, in SQL."""
    either = f"regexp_full_match({v}, {quoted(_EITHER_COMMA_PATTERN)})"
    comma = f"regexp_full_match({v}, {quoted(_COMMA_PATTERN)})"
    thousands = f"regexp_full_match({v}, {quoted(_THOUSANDS_PATTERN)})"
    return {
        DECIMAL_COMMA: (comma, f"{comma} AND contains({v}, ',') AND NOT {either}"),
        THOUSANDS_COMMA: (thousands, f"{thousands} AND regexp_matches({v}, ',[0-9]{{3}}[,.]')"),
    }


def _count(table: Table, column: str, rows: str) -> ColumnQueries[tuple[int, dict[str, _Counts]]]:
    """How many values there are, and the counts of each notation."""
    day, month = (f"{_IS_DATE} AND {_PARSES[order]}" for order in (DAY_FIRST, MONTH_FIRST))
    tests = number_tests("v")
    tests |= {DAY_FIRST: (day, f"{day} AND NOT {_PARSES[MONTH_FIRST]}")}
    tests |= {MONTH_FIRST: (month, f"{month} AND NOT {_PARSES[DAY_FIRST]}")}
    counts = (f"count(*) FILTER ({test})" for pair in tests.values() for test in pair)
    present, *numbers = yield ColumnQuery(table.columns[column], rows, ("count(v)", *counts), trimmed("c"))
    return present, {notation: _Counts(*numbers[2 * i : 2 * i + 2]) for i, notation in enumerate(tests)}


# -- tags -----------------------------------------------------------------------------------------------------------------


def tags_sql(column: Column, separator: str) -> str:
    """The tags of a column as a list of text; empty ones are left out, and what is around a tag: quotes, brackets, blanks."""
    c, kind = column
    if kind.endswith("]"):
        items, around = f"CAST({c} AS VARCHAR[])", " \t\n\r"
    else:
        items, around = f"string_split({trimmed(c)}, {quoted(separator or ',')})", _SIGNS_AROUND
    return f"[trim(x, {quoted(around)}) FOR x IN {items} IF trim(x, {quoted(around)}) <> '']"


def query_bracketed(table: Table, column: str) -> ColumnQueries[bool]:
    """Whether all texts of a column are lists in brackets, as JSON and Python write them."""
    for rows in (table.first_rows, table.sql):
        (other,) = yield ColumnQuery(table.columns[column], rows, ("bool_or(v NOT LIKE '[%]')",), trimmed("c"))
        if other:
            return False
    return True


def query_separator(table: Table, column: str) -> ColumnQueries[str | None]:
    """The sign that separates the tags of a column of text; None if it holds none.

    It is in many values, and what it separates is short and recurs: each tag twice on average. Commas within numbers do not
    count. Only the first rows are looked at.
    """
    has = {sign: f"contains(v, {quoted(sign)})" for sign in _SEPARATORS}
    has[","] = "regexp_matches(v, '[^0-9], ?[^0-9 ]')"
    counts = (f"count(*) FILTER ({condition})" for condition in has.values())
    rows = f"{table.sql} WHERE i < {_TAG_ROWS}"
    present, *separated = yield ColumnQuery(table.columns[column], rows, ("count(v)", *counts), trimmed("c"))
    for (sign, share), count in zip(_SEPARATORS.items(), separated, strict=True):
        if count and count >= share * present and (yield from _query_recurring(table, column, sign)):
            return sign
    return None


def check_one_class(db: Connection, table: Table, label: str) -> None:
    """Raise if the labels of a stored table are lists as text: in brackets, or tags in more combinations than tags."""
    if table.columns[label].kind != "VARCHAR":
        return
    ((separator, value, row),) = run_column_queries(db, table.name, [_query_lists(table, label)])
    if separator:
        name = sql_name(db, label)
        first = f"string_split({name}, {quoted(separator)})[1]"
        first = first if value[0] not in "[<" else f"trim({first}, '[]<> ' || chr(34) || chr(39))"
        raise DataError(
            f"{table.name}: the label '{label}' has several values in a row, such as '{one_line(value, 80)}' in row "
            f"{row + 1:,}, and a node is of one class; {in_place(table, 'nodes', 'takes the first of them', name, first)}"
        )


def label_warning(db: Connection, table: Table, label: str) -> list[str]:
    """A note if nearly every class of a stored table is of a single node, as numbers are; a query makes five of these."""
    counts = "count(v), count(DISTINCT v), count(TRY_CAST(v AS DOUBLE))"
    rows = f"(SELECT {trimmed(table.columns[label].sql)} AS v FROM {table.sql})"
    ((labelled, classes, numbers),) = run(db, f"SELECT {counts} FROM {rows}", table.name)
    if labelled < _LEAST_LABELLED or classes < _NEARLY_ALL * labelled:
        return []
    name = sql_name(db, label)
    x = f"try_cast({name} AS DOUBLE)" if table.columns[label].kind == "VARCHAR" else name
    bins = f"CASE WHEN {x} IS NOT NULL THEN ntile(5) OVER (PARTITION BY {x} IS NULL ORDER BY {x}) END"
    query = f", or {in_place(table, 'nodes', 'makes 5 classes', name, bins)}" if numbers == labelled else ""
    return [f"{table.name}: nearly every class of '{label}' has a single node; name another --label{query}"]


def _query_lists(table: Table, column: str) -> ColumnQueries[tuple[str, str, int]]:
    """What separates the parts of lists as text, and the first such list with its row; "" if the texts are single values."""
    bracketed = yield from query_bracketed(table, column)
    separator = "," if bracketed else (yield from query_separator(table, column)) or ""
    if not separator:
        return "", "", 0
    tags = f"(SELECT unnest({tags_sql(table.columns[column], separator)}) AS tag FROM {table.sql})"
    (parts,) = yield ColumnQuery(Column("tag", "VARCHAR"), tags, ("count(DISTINCT v)",))
    several = f"FILTER (contains(v, {quoted(separator)}))"
    counts = ("count(DISTINCT v)", f"arg_min(v, i) {several}", f"min(i) {several}")
    values, value, row = yield ColumnQuery(table.columns[column], table.sql, counts, trimmed("c"), "i")
    # Classes such as 'Paris, France' have more parts.
    return (separator, value, row) if value is not None and parts < values + bracketed else ("", "", 0)


def _query_recurring(table: Table, column: str, separator: str) -> ColumnQueries[bool]:
    tags = f"(SELECT unnest({tags_sql(table.columns[column], separator)}) AS tag FROM {table.sql} WHERE i < {_TAG_ROWS})"
    words = "avg(1 + len(v) - len(replace(v, ' ', '')))"
    total, distinct, length = yield ColumnQuery(Column("tag", "VARCHAR"), tags, ("count(*)", "count(DISTINCT v)", words))
    return bool(total) and 2 * distinct <= total and length <= _MOST_TAG_WORDS_BY_SEPARATOR.get(separator, _MOST_TAG_WORDS)
