"""How text is written: numbers with a decimal comma, dates with the day or month first, tags with a sign between them."""

from __future__ import annotations

from clnr.errors import DataError, one_line
from clnr.tables.columns.column_queries import ColumnQueries, ColumnQuery, run_column_queries
from clnr.tables.io.source import Column, Table
from clnr.tables.io.sql import Connection, quoted, run, stated, trimmed

DECIMAL_COMMA, THOUSANDS_COMMA, DAY_FIRST, MONTH_FIRST = "decimal comma", "thousands comma", "day first", "month first"
DURATION, SEPARATED = "duration", "separated"
NOTATIONS = {DECIMAL_COMMA: "number", THOUSANDS_COMMA: "number", DAY_FIRST: "datetime", MONTH_FIRST: "datetime"}
NOTATIONS |= {DURATION: "number", SEPARATED: "vector"}
"""The kind of column encoder that reads each notation."""
_GROUP = r"[. \x{00A0}\x{202F}]"
_CLOCK, _PART = r"\d+:[0-5]\d:[0-5]\d(\.\d+)?", r"\d+(\.\d+)? ?(d(ays?)?|h(rs?|ours?)?|m(ins?|inutes?)?|s(ecs?|econds?)?),? ?"
_FRACTION, _POINTED = (rf"[-+]?\d+{each}([eE][-+]?\d+)?" for each in (r"([.,]\d+)?", r"\.\d*"))
# How values are written, and what proves it; other values are read as such only beside one that does.
_PATTERNS = {
    # 1.234,5 and 1234,5, blanks may separate thousands, too; but 1,234 may have either.
    DECIMAL_COMMA: (
        rf"[-+]?(\d+|\d{{1,3}}({_GROUP}\d{{3}})+)(,\d+)?",
        rf",(\d{{1,2}}|\d{{4,}})$|^[-+]?0\d*,|(\d|{_GROUP})\d{{3}},",
    ),
    # 1,234,567 and 1,234.5.
    THOUSANDS_COMMA: (r"[-+]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?", r",\d{3}[,.]"),
    # 1:35:20, 2 h 5 min, PT2H5M; but 5 min alone is a number with a unit.
    DURATION: (rf"(?i)(\d+ ?d(ays?)?,? )?{_CLOCK}|(P(\d+D)?T)?({_PART})+", r"(?i):|^P|[a-z],? ?\d"),
    # 1,5; 2,5 and 0.5 | 7; with blanks or a comma between them, all have a decimal point.
    SEPARATED: (
        rf"\[?\s*({_FRACTION}(\s*[;|]\s*{_FRACTION})+|{_POINTED}(\s+{_POINTED})+)\s*\]?|{_POINTED}(, *{_POINTED})+",
        r"\.\d|,(\d{1,2}|\d{4,})(\D|$)",
    ),
}
_EITHER_COMMA_PATTERN = r"[-+]?[1-9]\d{0,2},\d{3}"
_DATE_PATTERN = r"^(\d{1,2})[./-](\d{1,2})[./-](\d{4})"
_WHOLE_DATE_PATTERN = _DATE_PATTERN + r"([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?$"
_ORDERS = {DAY_FIRST: r"\3-\2-\1", MONTH_FIRST: r"\3-\1-\2"}
# Signs that separate tags, and the share of values that must have them: a comma is common in prose, too.
_SEPARATORS = {"|": 0.25, ";": 0.25, "><": 0.25, ",": 0.5}
_MOST_TAG_WORDS_BY_SEPARATOR = {",": 2.0}
_MOST_TAG_WORDS = 3.0
_TAG_ROWS = 10_000
_SIGNS_AROUND = " \t\n\r\"'<>[]"


def notation_words(notation: str) -> str:
    """A notation in words, for a list of how columns are read; "" for the usual one."""
    words = {"": "", SEPARATED: "", DURATION: "as durations in seconds"}
    words |= {THOUSANDS_COMMA: "with commas between thousands", DECIMAL_COMMA: "with a decimal comma"}
    return words.get(notation, f"with the {notation}")


def usual_sql(text: str, notation: str) -> str:
    """SQL that rewrites a number or date from this notation to the standard one; other text is unchanged."""
    if notation in _ORDERS:
        return f"regexp_replace({text}, {quoted(_DATE_PATTERN)}, {quoted(_ORDERS[notation])})"
    parts = f"array_to_string(regexp_extract_all({text}, {quoted(_FRACTION)}), ';')"
    plain = {
        DECIMAL_COMMA: f"replace(regexp_replace({text}, {quoted(_GROUP)}, '', 'g'), ',', '.')",
        THOUSANDS_COMMA: f"replace({text}, ',', '')",
        DURATION: f"epoch(TRY_CAST(replace(regexp_replace({text}, '^P(\\d+D)?T', '\\1'), ',', '') AS INTERVAL))::VARCHAR",
        SEPARATED: f"'[' || translate({parts}, ',;', '.,') || ']'",
    }
    matches, _ = pattern_tests(text, notation)
    return f"CASE WHEN {matches} THEN {plain[notation]} ELSE {text} END"


def pattern_tests(v: str, notation: str) -> tuple[str, str]:
    """SQL tests: whether a text fits a notation, and whether it fits no other."""
    pattern, proof = map(quoted, _PATTERNS[notation])
    matches = f"regexp_full_match({v}, {pattern})"
    return matches, f"{matches} AND regexp_matches({v}, {proof})"


def find_notation(db: Connection, table: Table, column: str) -> str:
    """The notation that fits all values of a text column and is proved by at least one of them; "" if there is none."""
    return run_column_queries(db, table.name, [query_notation(table, column)])[0]


def query_notation(table: Table, column: str, by_first_rows: bool = False, least: float = 1.0) -> ColumnQueries[str]:
    """The steps of ``find_notation``; the first rows may decide, and a share of values may be enough."""
    certain = ""
    for rows in (table.first_rows,) if by_first_rows else (table.first_rows, table.sql):
        present, counts = yield from _count(table, column, rows)
        all_read = {notation: proved for notation, (read, proved) in counts.items() if present and read >= least * present}
        if not all_read:
            return ""
        certain = next((notation for notation, proved in all_read.items() if proved), "")
    return certain


def query_wanted_notation(
    db: Connection, table: Table, column: str, wanted: str, usual: int
) -> ColumnQueries[tuple[str, int, str]]:
    """The notation of a column that the user calls one of numbers or dates, and a hint if it may be in two of them.

    It reads more values than the usual notation does; between them stands how many can be read.
    """
    _, counts = yield from _count(table, column, table.sql)
    better = {key: proved for key, (read, proved) in counts.items() if NOTATIONS[key] == wanted and read > usual}
    certain = [notation for notation, proved in better.items() if proved]
    if len(certain) == 1:
        return certain[0], counts[certain[0]][0], ""
    if not better:
        return "", usual, ""
    return "", usual, "" if wanted == "datetime" else unclear_number(db, table, column)


def unclear_number(db: Connection, table: Table, column: str) -> str:
    """Says so where the first values of text are numbers that may have one of two notations; else ""."""
    rows = f"(SELECT {stated(table.columns[column].sql)} AS v FROM {table.first_rows})"
    unclear = f"any_value(v) FILTER (regexp_full_match(v, {quoted(_EITHER_COMMA_PATTERN)}))"
    matches, _ = pattern_tests("v", DECIMAL_COMMA)
    ((all_numbers, number),) = run(db, f"SELECT bool_and({matches}), {unclear} FROM {rows}", table.name)
    if not all_numbers or number is None:
        return ""
    return f"'{one_line(number, 40)}' may have a decimal comma or a thousands separator; write it without"


_IS_DATE = f"regexp_matches(v, {quoted(_WHOLE_DATE_PATTERN)})"
_PARSES = {notation: f"TRY_CAST({usual_sql('v', notation)} AS TIMESTAMP) IS NOT NULL" for notation in _ORDERS}


def _count(table: Table, column: str, rows: str) -> ColumnQueries[tuple[int, dict[str, tuple[int, int]]]]:
    """How many values there are; and for each notation, how many can be read in it, and how many of these prove it."""
    tests = {notation: pattern_tests("v", notation) for notation in _PATTERNS}
    for order, other in ((DAY_FIRST, MONTH_FIRST), (MONTH_FIRST, DAY_FIRST)):
        date = f"{_IS_DATE} AND {_PARSES[order]}"
        tests[order] = (date, f"{date} AND NOT {_PARSES[other]}")
    counts = (f"count(*) FILTER ({test})" for pair in tests.values() for test in pair)
    present, *numbers = yield ColumnQuery(table.columns[column], rows, ("count(v)", *counts), stated("c"))
    return present, dict(zip(tests, zip(numbers[::2], numbers[1::2], strict=True), strict=True))


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
        raise DataError(
            f"{table.name}: the label '{label}' has several values in a row, such as '{one_line(value, 80)}' in row "
            f"{row + 1:,}, but a node has one class"
        )


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
