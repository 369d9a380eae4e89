"""What each command imports: those that only show something do without torch, and answer at once."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr.cli.app import COMMANDS
from tests.command_line import run_script

HEAVY = (
    *("torch", "numpy", "scipy", "sklearn", "numba", "duckdb", "pyarrow", "matplotlib", "torch_geometric", "safetensors"),
    *("networkx", "pandas", "triton", "sympy", "scipy.stats", "joblib", "threadpoolctl"),
)
SHOWS = ("ls methods", "ls datasets", "ls methods --json", "recipe", "recipe MVGRL cora", "runs", "runs --device cpu")
LIGHT = ("", "--help", "--version", *SHOWS, *(f"{command} --help" for command in COMMANDS))
# With the files of ``files`` below.
EMBED = "embed --edges e.csv --nodes n.csv --out new"
MISTAKES = (
    *("run clrn", "run CLNR coar", "run --set epoch=3", "run --seeds 0", "compare toy --methods CLNR", "recipe CLNR coar"),
    *("ls method", "runs --method clrn", "bogus", "run --bogus", "embed", "embed --bogus"),
    *("embed --edges no.csv --out new", "embed --edges e.csv --nodes no.csv --out new", "embed --edges no.csv --dry-run"),
    *("embed --edges e.what --out new", "embed --edges empty --out new", "embed --edges https://host/e.csv --out new"),
    *("embed --graph no --out new", "embed --graph empty --out new", "transform no --edges e.csv --out new"),
    *("transform empty --edges e.csv --out new", "transform finished --edges no.csv --out new"),
    *("embed --edges e.csv --out finished", "embed --edges e.csv --out foreign --force", "embed --edges e.csv --out e.csv"),
    "embed --edges no.csv --out new --workers 2",
    *("embed --edges e.csv --out new --set method=GCN", "embed --edges e.csv"),
    *(f"{EMBED} --set {each}" for each in ("precision=half", "threads=0", "threads=x", "epoch=3", "epochs=-1")),
    *(f"{EMBED} --set {each}" for each in ("device=gpu", "method=clrn", "seed=-1", "hold_out=1", "method=GCN")),
    *(f"{EMBED} --{each}" for each in ("effort slow", "set method=DGI --set temperature=1")),
    *(f"{EMBED} --{each}" for each in ("effort quick --set method=CLNR", "memory x", "as a=thing", "until 2020")),
    *(f"{EMBED} --{each}" for each in ("unknown-ends lose", "features no.npy")),
    *("ingest --edges no.csv --out new", "similar no a", "similar empty a", "report no", "run --device gpu"),
    *("compare --threads 0", "compare --precision half"),
)

SCRIPT = f"""
import sys
from clnr.__main__ import main
for command in sys.argv[1:]:
    sys.argv = ["clnr", *command.split()]
    before = set(sys.modules)
    try:
        main()
    except SystemExit as end:
        print("code", end.code or 0, file=sys.stderr)
    print("imported", *(name for name in {HEAVY} if name in sys.modules and name not in before), file=sys.stderr)
"""


@pytest.fixture
def files(tmp_path):
    for name in ("e.csv", "n.csv", "e.what"):
        (tmp_path / name).write_text("source,target\na,b\n")
    for name in ("empty", "finished", "foreign"):
        (tmp_path / name).mkdir()
    (tmp_path / "finished" / "recipe.toml").write_text("form = 1\n")
    (tmp_path / "foreign" / "mine.txt").touch()
    return tmp_path


def imported(commands, home, code=0) -> list[set[str]]:
    """The heavy packages that each of some commands imports, one after the other in one process; they end with ``code``."""
    ended = run_script(SCRIPT, *commands, cwd=home, CLNR_HOME=str(home))
    assert "Traceback" not in ended.stderr, ended.stderr
    assert ended.stderr.count(f"code {code}\n") == len(commands)
    return [set(line.split()[1:]) for line in ended.stderr.splitlines() if line.startswith("imported")]


def test_what_only_shows_something_imports_nothing_heavy(tmp_path):
    assert {words: heavy for words, heavy in zip(LIGHT, imported(LIGHT, tmp_path), strict=True) if heavy} == {}


def test_a_mistake_is_told_without_importing_anything_heavy(files):
    before = sorted(files.rglob("*"))
    heavy = imported(MISTAKES, files, 2)
    assert {words: each for words, each in zip(MISTAKES, heavy, strict=True) if each} == {}
    assert sorted(files.rglob("*")) == before


@pytest.mark.full
def test_what_computes_imports_what_it_needs(tmp_path):
    env, run = imported(["env", "run CLNR toy --device cpu --set epochs=1 --set probe_steps=1"], tmp_path)
    assert {"torch", "numpy"} <= env
    assert {"torch", "numpy", "scipy"} <= env | run
    heavy = {"sklearn", "duckdb", "pyarrow", "matplotlib", "torch_geometric", "networkx", "pandas"}
    assert not (env | run) & heavy


@pytest.mark.full
@pytest.mark.parametrize("effort", ["quick", "standard"])
def test_embedding_two_tables_imports_only_what_it_computes_with(tmp_path, effort):
    """Where pandas is installed, pyarrow imports it."""
    ids = [f"p{i}" for i in range(60)]
    edges = pa.table({"source": ids, "target": [ids[(7 * i + 1) % 60] for i in range(60)]})
    texts = [f"word{i % 4} other{i % 5}" for i in range(60)]
    nodes = pa.table({"id": ids, "age": range(60), "words": texts, "label": [f"c{i % 3}" for i in range(60)]})
    pq.write_table(edges, tmp_path / "e.parquet")
    pq.write_table(nodes, tmp_path / "n.parquet")
    words = f"embed --edges e.parquet --nodes n.parquet --label label --out o --no-report --set device=cpu --effort {effort}"
    (heavy,) = imported([words], tmp_path)
    allowed = {"torch", "numpy", "scipy", "numba", "duckdb", "pyarrow", "safetensors", "pandas"}
    assert heavy <= allowed


WATCH = """
import os, sys, threading

def start(thread):
    print("torch" in sys.modules, flush=True)
    os._exit(0)

threading.Thread.start = start
{}
"""


@pytest.mark.full
def test_a_worker_watches_for_the_end_of_its_launcher_before_it_imports_torch(tmp_path):
    begin = "from clnr.__main__ import main; sys.argv = 'clnr embed --edges e.csv --out o'.split(); main()"
    told = {"RANK": "0", "WORLD_SIZE": "2", "CLNR_RENDEZVOUS": str(tmp_path / "meeting")}
    ended = run_script(WATCH.format(begin), cwd=tmp_path, **told)
    assert (ended.stdout, ended.stderr) == ("False\n", "")


@pytest.mark.parametrize(("words", "code"), [("ls methods --json", 0), ("bogus", 2)])
def test_a_process_ends_at_once_after_all_was_said_and_exit_functions_ran(words, code, tmp_path):
    ended = run_script(
        "import atexit, sys; from clnr.__main__ import run; atexit.register(print, 'last'); run(); print('not reached')",
        *words.split(),
        cwd=tmp_path,
    )
    assert ended.returncode == code
    assert ended.stdout.endswith("last\n")
    assert "not reached" not in ended.stdout
    assert ended.stderr.startswith("clnr: ") if code else "SVD-mix" in ended.stdout
