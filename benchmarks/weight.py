"""How much there is to read: lines, words, functions and options, at one revision or at two, side by side.

    python -m benchmarks.weight                   # the working tree
    python -m benchmarks.weight 955f4ba1          # a commit
    python -m benchmarks.weight 955f4ba1 .        # a commit, and the working tree

Lines are those of Python files, empty ones too; characters a line are of the others, without their indent. Words of docs are
those of all Markdown below ``docs``, and of it, apart, the pages that ``reproduce`` writes. A function is any def, without its
docstring; what is nested in it counts for both. Branches are if, loops, except, case, and each further value of and/or. Options
are the rows of ``clnr embed --help``, as the Python that runs this shows it.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks import command
from clnr.errors import ClnrError

ROOT = Path(__file__).parents[1]
LONGEST = 10
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.comprehension, ast.ExceptHandler, ast.match_case)


def unpack(revision: str, folder: Path) -> Path:
    """The folder with the files of a revision, which is unpacked for it; ``.`` is the working tree."""
    if revision == ".":
        return ROOT
    made = subprocess.run(["git", "archive", revision, "src", "tests", "docs"], cwd=ROOT, capture_output=True)
    if made.returncode:
        raise ClnrError(f"{revision} is no revision of {ROOT}: {made.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as files:
        files.extractall(folder / revision, filter="data")
    return folder / revision


def weigh(root: Path) -> tuple[dict[str, str], list[str]]:
    """The rows of a revision's column, by name, and its longest functions."""
    source, lines, lengths, functions = root / "src" / "clnr", Counter[str](), list[int](), list[tuple[int, str, int, int]]()
    for path in source.rglob("*.py"):
        text, place = path.read_text(), path.relative_to(source)
        lines["src/clnr/" + (f"{place.parts[0]}/" if len(place.parts) > 1 else "*.py")] += len(text.splitlines())
        lengths += [len(line.strip()) for line in text.splitlines() if line.strip()]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inside = [each for child in node.body[ast.get_docstring(node) is not None :] for each in ast.walk(child)]
                branches = sum(isinstance(each, BRANCHES) for each in inside)
                branches += sum(len(each.values) - 1 for each in inside if isinstance(each, ast.BoolOp))
                statements = sum(isinstance(each, ast.stmt) for each in inside)
                functions.append(((node.end_lineno or 0) - node.lineno + 1, f"{place}:{node.name}", statements, branches))
    tests = sum(len(path.read_text().splitlines()) for path in (root / "tests").rglob("*.py"))
    words = {path: len(path.read_text().split()) for path in (root / "docs").rglob("*.md")}
    written = sum(count for path, count in words.items() if path.parent.name == "paper" and path.name != "README.md")
    rows = {name: f"{lines[name]:,}" for name in sorted(lines)}
    rows |= {"lines of src": f"{lines.total():,}", "lines of tests": f"{tests:,}"}
    rows |= {"words of docs": f"{sum(words.values()):,}", "of them written by reproduce": f"{written:,}"}
    rows["characters a line of src"] = f"{sum(lengths) / len(lengths):.1f}"
    rows["functions of src"] = f"{len(functions):,}"
    rows["statements a function"] = f"{sum(each[2] for each in functions) / len(functions):.2f}"
    rows["branches a function"] = f"{sum(each[3] for each in functions) / len(functions):.2f}"
    rows["options of clnr embed"] = str(options(root) or "its help fails")
    return rows, [f"{name}, {length} lines" for length, name, *_ in sorted(functions, reverse=True)[:LONGEST]]


def options(root: Path) -> int:
    """How many options ``clnr embed --help`` shows."""
    variables = os.environ | {"PYTHONPATH": str(root / "src"), "COLUMNS": "200", "PYTHONUTF8": "1", "NO_COLOR": "1"}
    shown = subprocess.run([sys.executable, "-m", "clnr", "embed", "--help"], env=variables, capture_output=True, text=True)
    return len(re.findall(r"^\W*(?:-\w,? +)?--[a-z]", shown.stdout, re.MULTILINE))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revisions", nargs="*", default=["."], metavar="REVISION", help="of git; . for the working tree")
    revisions = parser.parse_args().revisions
    with tempfile.TemporaryDirectory() as folder:
        weights = [weigh(unpack(each, Path(folder))) for each in revisions]
    print(f"| | {' | '.join(revisions)} |\n|---|{'---:|' * len(revisions)}")
    for name in dict.fromkeys(name for rows, _ in weights for name in rows):
        print(f"| {name} | {' | '.join(rows.get(name, '') for rows, _ in weights)} |")
    for number in range(LONGEST):
        print(f"| longest, {number + 1} | {' | '.join(longest[number] for _, longest in weights)} |")


if __name__ == "__main__":
    command(main)
