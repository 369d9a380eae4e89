from __future__ import annotations

import csv
import io

from reproduce.table_format import Cell, Table, row

TABLE = Table(
    "table-9",
    "Table 9. Of 100 % & more",
    ("Method", "a_b", "c"),
    ((row("one", Cell("1.0 ± 0.1", bold=True), "no data"),), (row("two|three", "2", 'say "x", y'),)),
    ("A note.", "Another\nin two lines."),
)


def test_markdown_is_a_table_with_notes_below():
    assert TABLE.markdown() == (
        "## Table 9. Of 100 % & more\n\n"
        "| Method | a_b | c |\n| --- | ---: | ---: |\n"
        "| one | **1.0 ± 0.1** | no data |\n"
        '| two\\|three | 2 | say "x", y |\n\n'
        "A note.\n\nAnother\nin two lines.\n"
    )


def test_a_wide_table_is_split_into_parts_that_lose_no_cell():
    names = [f"column {i}" for i in range(20)]
    table = Table("t", "T", ("Method", *names), ((row("one", *(f"cell {i}" for i in range(20))),),), ("word " * 60,))
    lines = table.markdown().splitlines()
    assert max(map(len, lines)) <= 120
    assert [line for line in lines if line.startswith("| ---")] == ["| --- " + "| ---: " * 7 + "|"] * 2 + [
        "| --- " + "| ---: " * 6 + "|"
    ]
    found = [cell.strip() for line in lines if line.startswith("| one") for cell in line.strip("|").split("|")[1:]]
    assert found == [f"cell {i}" for i in range(20)]
    assert sum(line.count("word") for line in lines) == 60


def test_latex_is_booktabs_with_nothing_unescaped():
    text = TABLE.latex()
    lines = text.splitlines()
    assert "\\caption{Table 9. Of 100 \\% \\& more}\\label{tab:clnr-table-9}" in lines
    assert "\\begin{tabular}{lrr}" in lines
    assert "Method & a\\_b & c \\\\" in lines
    assert "one & \\textbf{1.0 $\\pm$ 0.1} & no data \\\\" in lines
    assert [lines.count(f"\\{rule}rule") for rule in ("top", "mid", "bottom")] == [1, 2, 1]
    assert lines.count("\\begin{table}") == lines.count("\\end{table}") == 1
    # Notes are comments, each line of them.
    assert lines[-3:] == ["% A note.", "% Another", "% in two lines."]


def test_latex_breaks_long_cells_and_pages():
    words = Table("claims", "Claims", ("a", "b"), ((row("p < 0.001 ~ {x} \\ ^", "word " * 60),),), text_columns=2).latex()
    assert "\\begin{longtable}{p{" in words
    assert "p $<$ 0.001 \\textasciitilde{} \\{x\\} \\textbackslash{} \\textasciicircum{}" in words
    assert "longtable}" in words.splitlines()[0]


def test_csv_repeats_what_a_reader_sees_from_the_row_above():
    table = Table("t", "T", ("m", "x"), ((row("one", "1"), row("", "2")),))
    assert list(csv.reader(io.StringIO(table.csv()))) == [["m", "x"], ["one", "1"], ["one", "2"]]
