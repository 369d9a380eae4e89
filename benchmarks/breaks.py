"""Do the tests notice? Each break of ``breaks.toml`` is applied alone to a copy of the sources, and its tests must fail.

    python -m benchmarks.breaks --jobs 16
    python -m benchmarks.breaks ends-swapped seed-ignored-by-split
    python -m benchmarks.breaks --list

First all named tests run on the sources as they are, where they must pass. A break is missed if its tests pass, end in
another way than by a failed test, or take too long, and if it names no tests or cannot be applied: it replaces texts that
each occur exactly once in a file. Exit code 1 if one is missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks import command, positive
from clnr.errors import ClnrError, UnknownName
from clnr.support.machine.processors import usable_processors

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".toml")
_TESTS_FAILED = 1
# Tests of all marks, without the project's own options.
_PYTEST = ("-m", "pytest", "-o", "addopts=", "-q", "-p", "no:cacheprovider", "--tb=line")


class Break(NamedTuple):
    """A break: its purpose says what goes wrong, its replacements where that is today, ``tests`` what must fail then."""

    name: str
    purpose: str
    file: str
    replacements: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]

    def apply(self, sources: Path) -> None:
        """Change a copy of the sources; a ``ClnrError`` if a text does not occur exactly once."""
        path = sources / self.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for old, new in self.replacements:
            if text.count(old) != 1:
                raise ClnrError(f"cannot be applied: {self.file} has {text.count(old)} times {old!r:.60}")
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")


def read_breaks() -> dict[str, Break]:
    """All breaks by their names."""
    tables = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {
        name: Break(name, row["purpose"], row["file"], tuple(map(tuple, row["replace"])), tuple(row["tests"]))
        for name, row in tables.items()
    }


def run_tests(sources: Path, tests: Sequence[str], scratch: Path, seconds: float, *options: str) -> tuple[int | None, str]:
    """The exit code and output of pytest on a copy of the sources; the code is None if it took too long."""
    words = [sys.executable, *_PYTEST, f"--basetemp={scratch}", *options, *tests]
    env = os.environ | {"PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        words, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        # With the processes that tests have started.
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]


def why_missed(each: Break, original: Path, place: Path, seconds: float) -> str:
    """Why the tests of a break did not catch it; "" if they did."""
    if not each.tests:
        return "names no tests"
    # With compiled files, which are valid for a copy: numba compares the time and size of a source file.
    shutil.copytree(original, place / "src")
    try:
        each.apply(place / "src")
    except ClnrError as error:
        return str(error)
    code, output = run_tests(place / "src", each.tests, place / "scratch", seconds, "-x", "-n0")
    shutil.rmtree(place)
    if code == _TESTS_FAILED:
        return ""
    said = (output.strip().splitlines() or ["nothing"])[-1]
    return f"took more than {seconds:g} s" if code is None else f"pytest ended with {code}: {said}"


def check_unbroken(original: Path, tests: Sequence[str], place: Path, jobs: int) -> None:
    """A ``ClnrError`` unless every test passes on the sources as they are; none may skip, or be expected to fail."""
    report = place / "report.xml"
    code, output = run_tests(original, tests, place / "scratch", 3600, f"-n{jobs}", f"--junit-xml={report}")
    cases = ElementTree.parse(report).iter("testcase") if report.is_file() else ()
    wrong = [f"{each.get('classname')}::{each.get('name')}" for each in cases if len(each)]
    if code or wrong:
        print(output, *wrong, sep="\n")
        raise ClnrError("named tests do not pass, or skip, on the unbroken sources")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of breaks; all by default")
    parser.add_argument("--jobs", type=positive, default=usable_processors(), help="breaks at a time")
    parser.add_argument("--list", action="store_true", help="print the breaks and their purposes, and run nothing")
    parser.add_argument("--unbroken", action=argparse.BooleanOptionalAction, default=True, help="whether tests run first")
    parser.add_argument("--most-seconds", type=float, default=300, help="that the tests of a break may take")
    given, breaks = parser.parse_args(), read_breaks()
    for name in given.names:
        if name not in breaks:
            raise UnknownName("break", name, breaks)
    chosen = [each for name, each in breaks.items() if name in (given.names or breaks)]
    if given.list:
        for each in chosen:
            print(f"{each.name}: {each.purpose}")
        return
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as threads:
        place, original = Path(folder), Path(folder) / "original"
        shutil.copytree(ROOT / "src", original)
        if given.unbroken and (tests := sorted({test for each in chosen for test in each.tests})):
            check_unbroken(original, tests, place, given.jobs)
        reasons = threads.map(lambda each: why_missed(each, original, place / each.name, given.most_seconds), chosen)
        missed = 0
        try:
            for each, reason in zip(chosen, reasons, strict=True):
                missed += bool(reason)
                print(f"{each.name}: {f'MISSED, {reason}' if reason else 'caught'}", flush=True)
        finally:
            # After Ctrl-C no other is begun.
            threads.shutdown(cancel_futures=True)
    print(f"{len(chosen) - missed} of {len(chosen)} breaks were caught in {time.perf_counter() - began:.0f} s")
    sys.exit(missed > 0)


if __name__ == "__main__":
    command(main)
