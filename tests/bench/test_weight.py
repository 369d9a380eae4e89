from __future__ import annotations

from benchmarks import weight

CODE = 'def f(x):\n    """Says."""\n    if x and x > 1:\n\n        return [y for y in x]\n    return 0\n'


def test_what_is_there_is_counted(tmp_path):
    files = {"src/clnr/a.py": CODE, "src/clnr/inner/b.py": "x = 1\n", "tests/t.py": "\n\n", "docs/paper/table.md": "five"}
    for name, text in (files | {"docs/page.md": "three words here"}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    rows, longest = weight.weigh(tmp_path)
    assert [rows[each] for each in ("src/clnr/*.py", "src/clnr/inner/", "lines of src", "lines of tests")] == [*"6172"]
    assert [rows[each] for each in ("words of docs", "of them written by reproduce", "functions of src")] == [*"411"]
    assert [rows[f"{each} a function"] for each in ("statements", "branches")] == ["3.00", "3.00"]
    assert rows["characters a line of src"] == f"{(9 + 11 + 15 + 21 + 8 + 5) / 6:.1f}"
    assert longest == ["a.py:f, 6 lines"]
    assert weight.options(weight.ROOT) > 20
