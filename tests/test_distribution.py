"""The wheel and the sdist: what is in them, and that the wheel works where it is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import clnr
from clnr.support.machine.code_digest import code_version

ROOT = Path(__file__).parents[1]
NEEDED = ("py.typed", "methods/recipes/any.toml", "methods/recipes/toy.toml", "report/page.html", "report/page.css")

pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="not in a checkout or an unpacked sdist")


def package_files() -> set[str]:
    """Every file of the package, from the root of the wheel."""
    source = ROOT / "src"
    files = (path for path in (source / "clnr").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(source).as_posix() for path in files}


def check_wheel(names: set[str]) -> None:
    assert {f"clnr/{name}" for name in NEEDED} <= names
    assert names == package_files()


def check_sdist(names: set[str]) -> None:
    assert {f"src/{name}" for name in package_files()} <= names
    assert {"README.md", "CHANGELOG.md", "Makefile", "constraints.txt", "tests/conftest.py"} <= names
    assert {name.partition("/")[0] for name in names if "/" in name} == {"src", "tests", "benchmarks", "reproduce", "docs"}


def test_the_files_that_a_build_would_take():
    pytest.importorskip("hatchling")
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    wheel, sdist = (
        {Path(file.distribution_path).as_posix() for file in builder(str(ROOT)).recurse_included_files()}
        for builder in (WheelBuilder, SdistBuilder)
    )
    check_wheel(wheel)
    check_sdist(sdist)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the wheel, built from the sdist, and the sdist."""
    for name in ("build", "hatchling"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    folder = tmp_path_factory.mktemp("dist")
    # Without isolation, so that nothing is downloaded.
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return folder


def call(*words: str, **options) -> str:
    done = subprocess.run(words, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A command in a fresh environment with the wheel alone; what it depends on is this environment's."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("pip is not installed")
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder / "venv", system_site_packages=True, symlinks=os.name != "nt")
    scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = str(scripts / "python")
    (wheel,) = built.glob("*.whl")
    call(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    # The system's site packages may be another's than this environment's, as where this is a virtual environment itself. The
    # path files of a folder named in a path file are not read: an editable install of this checkout stays unseen.
    site = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (site / "dependencies.pth").write_text("".join(f"{path}\n" for path in paths))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CLNR"))}
    options = {"cwd": folder, "env": environment | {"CLNR_HOME": str(folder / "home")}}
    where = call(python, "-c", "import clnr; print(clnr.__file__)", **options)
    assert Path(where.strip()).is_relative_to(folder), where
    return lambda *words: call(str(scripts / "clnr"), *words, **options), folder


@pytest.mark.slow
def test_the_wheel_runs_and_embeds_two_small_tables(installed):
    command, folder = installed
    assert clnr.__version__ in command("--version")
    assert "CLNR" in command("run", "CLNR", "toy", "--set", "epochs=2", "--device", "cpu")
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{(i * 7 + 1) % 30}\n" for i in range(30)))
    command("embed", "--edges", "edges.csv", "--out", "mine", "--set", "epochs=2", "--set", "device=cpu")
    assert (folder / "mine" / "report.html").read_text().count("<script") >= 1
    assert f"(code {code_version()})" in command("env")
