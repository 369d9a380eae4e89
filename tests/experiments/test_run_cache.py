"""The run cache: nothing lost, nothing half written, and a clear error where it cannot be used."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clnr.errors import RunCacheError
from clnr.experiments.results import Run
from clnr.experiments.run_cache import RunCache
from clnr.methods.recipe import recipe_keys

CACHE_OF_0_1 = Path(__file__).parent / "old" / "runs.sqlite"


def made(seed: int = 0, **changes) -> Run:
    """A run whose numbers all follow from its seed, so that a mixed-up row would show."""
    values = {"method": "CLNR", "dataset": "cora", "seed": seed, "epochs": seed, "threads": seed or None}
    values |= {"strict": 80 + seed / 7, "paper": 81 + seed / 7, "validation": 79 + seed / 7}
    values |= {"alignment": 0.1 * seed, "uniformity": -2.5 - seed, "effective_rank": 100.25 + seed}
    values |= {"train_seconds": 1e-9 * seed, "epoch_ms": 3.5, "seconds": 0.1 + 0.2}
    values |= {"parallel_seeds": 1, "peak_memory_bytes": 2**40 + seed, "content": "c" * 64}
    values |= {"device": "cpu", "engine": "cpu", "precision": "float32", "machine": "a processor, ½ core"}
    values |= {"recipe": {"epochs": seed, "edge_drop_mode": "pairs", "learning_rate": 1e-3}}
    values |= {"versions": {"clnr": "0.1.0", "code": "0123456789abcdef"}}
    return Run(**(values | changes))


@pytest.fixture
def run_cache(tmp_path) -> RunCache:
    return RunCache(tmp_path / "place" / "runs.sqlite")


# -- what goes in comes out ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run",
    [made(), made(3), made(1, epoch_ms=None, threads=None), made(2**63 - 1, peak_memory_bytes=0, alignment=float("inf"))],
    ids=["first", "third", "untrained", "extreme"],
)
def test_a_run_comes_back_equal(run_cache, run):
    run_cache.add("key", run)
    assert run_cache.find("key") == run
    assert [each for _, each in run_cache.runs()] == [run]


def test_where_nothing_was_recorded_nothing_is_found_and_nothing_made(run_cache):
    assert run_cache.find("key") is None
    assert run_cache.runs() == []
    assert not run_cache.path.parent.exists()


def test_a_run_that_is_there_is_not_written_twice_unless_it_has_more_or_was_to_be_run_again(run_cache):
    run_cache.add("key", made())
    run_cache.add("key", made(seconds=7.0))
    assert [run for _, run in run_cache.runs()] == [made()]
    run_cache.add("key", made(extra_metrics={"time": {}}))
    run_cache.add("key", made(extra_metrics={"clusters": {}, "time": {}}))
    run_cache.add("key", made(extra_metrics={"clusters": {}}))
    assert [sorted(run.extra_metrics) for _, run in run_cache.runs()] == [[], ["time"], ["clusters", "time"]]
    run_cache.add("key", made(1), rerun=True)
    assert run_cache.find("key") == made(1)
    assert run_cache.find("other") is None
    assert len(run_cache.runs()) == 4


def test_the_time_of_a_run_is_recorded_in_utc(run_cache):
    run_cache.add("key", made())
    ((when, _),) = run_cache.runs()
    assert abs(datetime.fromisoformat(when) - datetime.now(UTC)) < timedelta(seconds=30)


@pytest.mark.parametrize(
    ("filters", "seeds"),
    [
        ({"method": "clnr"}, [0, 1, 3]),
        ({"device": "CUDA"}, [3, 4]),
        ({"method": "raw", "dataset": "Cora"}, [2]),
        ({"method": "' OR 1=1 --"}, []),
        ({"last": 99}, [0, 1, 2, 3, 4]),
        ({"method": "CLNR", "last": 1}, [3]),
    ],
)
def test_runs_are_filtered_oldest_first(run_cache, filters, seeds):
    raw, photo, cuda = {"method": "Raw"}, {"dataset": "photo"}, {"device": "cuda"}
    for seed, changes in enumerate(({}, photo, raw, cuda, raw | photo | cuda)):
        run_cache.add(f"{seed}", made(seed, **changes))
    assert [run.seed for _, run in run_cache.runs(**filters)] == seeds


def test_preparing_makes_an_empty_run_cache_keeps_what_is_there_and_does_not_grow_each_time(run_cache):
    run_cache.prepare()
    assert run_cache.runs() == []
    run_cache.add("key", made())
    run_cache.prepare()
    size = run_cache.path.stat().st_size
    for _ in range(5):
        run_cache.prepare()
    assert run_cache.path.stat().st_size == size
    assert len(run_cache.runs()) == 1


def test_without_a_path_the_run_cache_is_under_clnr_home(home):
    RunCache().add("key", made())
    assert (home / "state" / "runs.sqlite").is_file()


# -- run caches of an older form -----------------------------------------------------------------------------------------------

FORM_1 = (
    *("method", "dataset", "seed", "strict", "paper", "validation", "alignment", "uniformity", "effective_rank"),
    *("train_seconds", "epoch_ms", "peak_memory_bytes", "device", "engine", "precision", "content", "recipe", "versions"),
    *("machine", "seconds"),
)
FORMS = {
    1: FORM_1,
    2: (*FORM_1, "epochs"),
    3: (*FORM_1, "epochs", "together"),
    4: (*FORM_1, "epochs", "together", "more"),
}
RENAMED = {"together": "parallel_seeds", "more": "extra_metrics"}
OLD = [
    made(0, recipe={"epochs": 50, "edge_drop_mode": "pairs"}, epochs=50),
    made(1, recipe={"epochs": 7}, epochs=7, threads=None),
    made(2, method="Raw", recipe={"epochs": 50}, epoch_ms=None, epochs=0, threads=None),
    made(3, recipe={"epochs": 0}, epoch_ms=None, epochs=0, threads=None),
]


def earlier(run_cache: RunCache, number: int = 1) -> RunCache:
    """A run cache as an earlier form had it."""
    names = FORMS[number]
    run_cache.path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(run_cache.path)) as base, base:
        base.execute(f"CREATE TABLE runs (id INTEGER PRIMARY KEY, key NOT NULL, made NOT NULL, {', '.join(names)})")
        base.execute("CREATE INDEX runs_key ON runs (key)")
        for run in OLD:
            values = [getattr(run, RENAMED.get(name, name)) for name in names]
            values = [json.dumps(value) if isinstance(value, dict) else value for value in values]
            marks = ", ".join("?" * (len(values) + 2))
            row = [f"key {run.seed}", "2026-01-01T00:00:00+00:00", *values]
            base.execute(f"INSERT INTO runs (key, made, {', '.join(names)}) VALUES ({marks})", row)
        base.execute(f"PRAGMA user_version = {number}")
    return run_cache


@pytest.fixture(params=FORMS)
def old(run_cache, request) -> RunCache:
    return earlier(run_cache, request.param)


def form(run_cache):
    with closing(sqlite3.connect(run_cache.path)) as base:
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return base.execute("PRAGMA user_version").fetchone()[0]


def test_reading_an_older_run_cache_changes_nothing(old):
    before = old.path.read_bytes()
    assert [run for _, run in old.runs()] == OLD
    assert old.find("key 1") == OLD[1]
    assert old.path.read_bytes() == before


@pytest.mark.parametrize("first", [lambda run_cache: run_cache.prepare(), lambda run_cache: run_cache.add("new", made(9))])
def test_an_older_run_cache_is_brought_up_to_date_by_whoever_writes_first(old, first):
    first(old)
    assert form(old) == 5
    assert [run for _, run in old.runs()][:4] == OLD
    assert [old.find(f"key {seed}") for seed in range(4)] == OLD
    assert old.runs()[0][0] == "2026-01-01T00:00:00+00:00"
    old.add("newer", made(10))
    assert old.find("newer") == made(10)


def test_a_run_cache_of_before_opens_under_todays_names(clnr, tmp_path):
    path = shutil.copy(CACHE_OF_0_1, tmp_path)
    cache = RunCache(Path(path))
    runs = [run for _, run in cache.runs()]
    assert [(run.method, run.dataset, run.seed, run.parallel_seeds) for run in runs] == [
        ("CLNR", "toy", 0, 1),
        ("CLNR", "toy", 1, 1),
        ("MVGRL", "toy", 0, 1),
    ]
    assert [run.method for _, run in cache.runs(dataset="TOY", last=1)] == ["MVGRL"]
    cache.prepare()
    assert len(cache.runs()) == 3
    assert all(re.fullmatch("[0-9a-f]{16}", run.versions["code"]) for run in runs)
    # Later keys are missing, and none has an old name.
    assert all(set(run.recipe) < recipe_keys().keys() for run in runs)
    RunCache().path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(CACHE_OF_0_1, RunCache().path)
    ended = clnr("runs")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("toy") == 3


# -- several writers, and kills --------------------------------------------------------------------------------------------


def write_rows(path: Path, writer: int, count: int, barrier, old: Path) -> None:
    run_cache = RunCache(path)
    barrier.wait(60)
    for seed in range(count):
        run_cache.add(f"{writer}-{seed}", made(seed, dataset=f"writer {writer}"))
    run_cache = RunCache(old)
    barrier.wait(60)
    assert len(run_cache.runs()) >= len(OLD)
    run_cache.add(f"{writer}", made(100 + writer))


def test_two_processes_at_once_lose_nothing_in_a_new_run_cache_or_an_old_one(run_cache, tmp_path):
    earlier(RunCache(tmp_path / "old.sqlite"))
    old = RunCache(tmp_path / "old.sqlite")
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    workers = [context.Process(target=write_rows, args=(run_cache.path, i, 50, barrier, old.path)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    runs = [run for _, run in run_cache.runs()]
    assert len(runs) == 100
    for writer in range(2):
        mine = [run for run in runs if run.dataset == f"writer {writer}"]
        assert mine == [made(seed, dataset=f"writer {writer}") for seed in range(50)]
        assert run_cache.find(f"{writer}-49") == mine[-1]
    assert form(old) == 5
    runs = [run for _, run in old.runs()]
    assert runs[:4] == OLD
    assert sorted(run.seed for run in runs[4:]) == [100, 101]


KILLED = """
import json, os, random, signal, sys, time
from pathlib import Path
from clnr.experiments.run_cache import RunCache
from tests.experiments.test_run_cache import made

random.seed(0)
told = []
for round in range(int(sys.argv[2])):
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        cache = RunCache(Path(sys.argv[1]))
        cache.prepare()
        for seed in range(10**6):
            cache.add(f"{round}-{seed}", made(seed, dataset=f"round {round}"))
            os.write(send, b".")
    seen = len(os.read(receive, 1)) if round % 2 else 0
    time.sleep(random.random() * 0.08)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(send)
    with os.fdopen(receive, "rb") as stream:
        told.append(seen + len(stream.read()))
print(json.dumps(told))
"""


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_a_writer_killed_at_any_moment_leaves_whole_rows_and_loses_none_that_it_was_told_of(run_cache):
    rounds = 30
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-W", "ignore", "-c", KILLED, str(run_cache.path), str(rounds)]
    told = json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert sum(told) >= rounds // 2, "the writers must get somewhere, or the test shows nothing"

    runs = [run for _, run in run_cache.runs()]
    for number, count in enumerate(told):
        mine = [run for run in runs if run.dataset == f"round {number}"]
        assert mine == [made(seed, dataset=f"round {number}") for seed in range(len(mine))]
        assert count <= len(mine) <= count + 1
    with closing(sqlite3.connect(run_cache.path)) as base:
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    run_cache.add("after", made(5))
    assert run_cache.find("after") == made(5)


def test_a_file_left_empty_by_a_kill_is_an_empty_run_cache(run_cache):
    run_cache.path.parent.mkdir()
    run_cache.path.touch()
    assert run_cache.runs() == []
    assert run_cache.find("key") is None
    run_cache.add("key", made())
    assert run_cache.find("key") == made()


def test_reading_does_not_wait_for_a_writer(run_cache):
    run_cache.add("key", made())
    with closing(sqlite3.connect(run_cache.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert run_cache.find("key") == made()


# -- where it cannot be used -----------------------------------------------------------------------------------------------

USES = {
    "prepare": lambda run_cache: run_cache.prepare(),
    "add": lambda run_cache: run_cache.add("key", made()),
    "find": lambda run_cache: run_cache.find("key"),
    "runs": lambda run_cache: run_cache.runs(),
}
USE = pytest.mark.parametrize("use", USES.values(), ids=USES)
WRITE = pytest.mark.parametrize("use", [USES["prepare"], USES["add"]], ids=["prepare", "add"])


def assert_unusable(run_cache: RunCache, use) -> str:
    with pytest.raises(RunCacheError, match=re.escape(str(run_cache.path))) as caught:
        use(run_cache)
    said = str(caught.value)
    assert "CLNR_HOME" in said
    assert "\n" not in said
    return said


@WRITE
def test_a_place_below_a_regular_file_is_a_run_cache_error(tmp_path, use):
    (tmp_path / "file").write_text("")
    assert_unusable(RunCache(tmp_path / "file" / "below" / "runs.sqlite"), use)


def changed(run_cache: RunCache, *statements: str, values: tuple = ()) -> bytes:
    """What is in the file after somebody else has been at it."""
    with closing(sqlite3.connect(run_cache.path)) as base, base:
        for statement in statements:
            base.execute(statement, values)
    return run_cache.path.read_bytes()


BY_OTHERS = {
    "text": b"garbage",
    "a head": b"SQLite format 3\0" + b"x" * 5000,
    "zeros": b"\0" * 4096,
    "half of it": None,
    "a newer version": ["PRAGMA user_version = 6"],
    "another program's": ["ALTER TABLE runs RENAME TO walks", "PRAGMA user_version = 0"],
    "another program's, of a version": ["ALTER TABLE runs RENAME TO walks"],
    "no version": ["PRAGMA user_version = 0"],
    "a negative version": ["PRAGMA user_version = -1"],
    "an earlier version": ["PRAGMA user_version = 2"],
    "a column less": ["ALTER TABLE runs DROP COLUMN strict"],
    "a column more": ["ALTER TABLE runs ADD COLUMN banana"],
    "a view": ["ALTER TABLE runs RENAME TO walks", "CREATE VIEW runs AS SELECT * FROM walks"],
}


@USE
@pytest.mark.parametrize("case", BY_OTHERS)
def test_a_file_that_is_no_run_cache_is_an_error_and_left_alone(run_cache, use, case):
    for seed in range(40 if case == "half of it" else 1):
        run_cache.add(f"other {seed}", made(seed))
    content = BY_OTHERS[case]
    if isinstance(content, list):
        changed(run_cache, *content)
    else:
        whole = run_cache.path.read_bytes()
        run_cache.path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    before = run_cache.path.read_bytes()
    assert ("newer clnr" in assert_unusable(run_cache, use)) is (case == "a newer version")
    assert run_cache.path.read_bytes() == before


NESTED = '{"a":' + "[" * 900 + "]" * 900 + "}"
DAMAGED = [
    *((name, value) for name in ("seed", "strict", "epoch_ms") for value in (b"5", "5", "nan", "")),
    *((name, value) for name in ("seed", "together", "peak_memory_bytes") for value in (None, 1.5, -1, float("inf"))),
    *((name, value) for name in ("strict", "train_seconds") for value in (-0.5, float("inf"), float("-inf"))),
    *((name, value) for name in ("method", "made", "content") for value in (b"x", 5)),
    *((name, NESTED.replace("[", "[" * times).replace("]", "]" * times)) for name in ("recipe", "more") for times in (1, 1000)),
    *((name, value) for name in ("recipe", "versions", "more") for value in (None, b"{}", "[]", "null", "{")),
    *(("versions", value) for value in ('{"code": 5}', '{"clnr": "1"}')),
]


@pytest.mark.parametrize("use", [USES["find"], USES["runs"]], ids=["find", "runs"])
def test_a_row_that_someone_else_damaged_is_a_run_cache_error(run_cache, use):
    run_cache.add("key", made())
    for name, value in DAMAGED:
        before = changed(run_cache, f"UPDATE runs SET {name} = ?", values=(value,))
        said = assert_unusable(run_cache, use)
        assert f"for its {name}" in said
        assert len(said) < 300 + len(str(run_cache.path))
        assert run_cache.path.read_bytes() == before
        run_cache.path.unlink()
        run_cache.add("key", made())


@pytest.mark.parametrize(
    "run",
    [made(2**63), made(-1), made(strict=float("inf")), made(machine=None), made(extra_metrics={"x": object()}), made(recipe=7)],
    ids=["huge", "negative", "infinite", "no text", "no document", "no recipe"],
)
def test_a_run_that_could_not_be_read_again_is_not_written(run_cache, run):
    run_cache.add("key", made())
    before = run_cache.path.read_bytes()
    assert_unusable(run_cache, lambda run_cache: run_cache.add("other", run))
    assert run_cache.path.read_bytes() == before


class Small(RunCache):
    """A run cache on a disk with room for so many pages."""

    pages = 2

    def _connect(self):
        base = super()._connect()
        base.execute(f"PRAGMA max_page_count = {self.pages}")
        return base


def test_after_preparing_a_run_can_be_written_though_the_disk_is_full_and_later_ones_fail_whole(run_cache):
    run_cache.prepare()
    full, written = Small(run_cache.path), 0
    full.pages = run_cache.path.stat().st_size // 4096
    with suppress(RunCacheError):
        while written < 200:
            full.add("key", made(), rerun=True)
            written += 1
    assert 20 <= written < 200
    assert "full" in assert_unusable(full, lambda run_cache: run_cache.add("key", made(), rerun=True))
    assert [run for _, run in run_cache.runs()] == [made()] * written


@WRITE
def test_where_a_new_run_cache_finds_no_room_nothing_is_left(run_cache, use):
    assert "full" in assert_unusable(Small(run_cache.path), use)
    assert list(run_cache.path.parent.iterdir()) == []


@WRITE
def test_where_an_older_run_cache_cannot_be_brought_up_to_date_it_is_left_as_it_is(old, use):
    before = changed(old, f"UPDATE runs SET machine = '{'x' * 3900}'")
    full = Small(old.path)
    full.pages = len(before) // 4096
    assert "full" in assert_unusable(full, use)
    assert old.path.read_bytes() == before


def test_a_run_cache_that_is_made_while_it_is_read_is_no_stranger(run_cache, tmp_path, monkeypatch):
    """What is read is one state of the file: before another process has given it its form, or after."""
    run_cache.path.parent.mkdir(parents=True, exist_ok=True)
    run_cache.path.touch()
    whole = RunCache(tmp_path / "whole.sqlite")
    whole.add("key", made())
    with closing(sqlite3.connect(whole.path)) as base:
        form = "\n".join([*base.iterdump(), "PRAGMA user_version = 5;"])
    tried = []

    class Meanwhile(sqlite3.Connection):
        def execute(self, sql, *given):
            if "sqlite_master" in sql:
                tried.append(sql)
                with suppress(sqlite3.OperationalError), closing(sqlite3.connect(run_cache.path, timeout=0)) as other:
                    other.executescript(form)
            return super().execute(sql, *given)

    monkeypatch.setattr(run_cache, "_connect", lambda: sqlite3.connect(run_cache.path, factory=Meanwhile), raising=False)
    assert len(run_cache.runs()) in (0, 1)
    assert tried
