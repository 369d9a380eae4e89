from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from benchmarks import breaks

from clnr.errors import ClnrError

BREAKS = breaks.read_breaks()
SOURCES = breaks.ROOT / "src"


def test_there_are_sixty_over_all_packages_each_with_a_purpose():
    packages = {path.parent.name for path in (SOURCES / "clnr").glob("*/__init__.py")}
    assert {PurePosixPath(each.file).parts[1] for each in BREAKS.values()} >= packages
    purposes = {each.purpose for each in BREAKS.values()}
    assert len(purposes) == len(BREAKS) >= 60
    assert all(purpose.endswith(".") for purpose in purposes)


@pytest.mark.parametrize("name", BREAKS)
def test_it_can_be_applied_and_names_tests_of_other_modules(name, tmp_path):
    each = BREAKS[name]
    copy = tmp_path / each.file
    copy.parent.mkdir(parents=True)
    copy.write_bytes((SOURCES / each.file).read_bytes())
    each.apply(tmp_path)
    compile(copy.read_text(encoding="utf-8"), copy, "exec")
    assert copy.read_bytes() != (SOURCES / each.file).read_bytes()
    assert each.tests
    own = Path(each.file).relative_to("clnr")
    for test in each.tests:
        path, _, function = test.partition("::")
        assert Path(path) != "tests" / own.with_name(f"test_{own.name}")
        assert f"def {function.partition('[')[0]}(" in (breaks.ROOT / path).read_text(encoding="utf-8")


def test_what_has_moved_cannot_be_applied(tmp_path):
    each = next(iter(BREAKS.values()))
    for text in ("", 2 * each.replacements[0][0]):
        path = tmp_path / each.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        with pytest.raises(ClnrError, match="cannot be applied"):
            each.apply(tmp_path)
