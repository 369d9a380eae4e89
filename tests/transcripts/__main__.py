"""What commands print, to be read in review: ``python -m tests.transcripts`` writes all anew, ``git diff`` shows what changed.

A transcript reads like a terminal: ``$ command``, what it printed, and the exit code of clnr. To add one, write its
lines with ``$`` to a new file. Standard output and standard error stand together, in order, as a terminal shows them;
tables are as wide as in a pipe or a log, and there are no progress bars.

``embed.txt`` is played first, in a folder with the tables below; each other one in a copy of the folder that it leaves.
All are played by one process with an environment of its own (one thread, no GPU, float32, no home folder), so that the
caller's does not matter. What differs all the same between machines and runs is masked.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

HERE = Path(__file__).parent
_FIRST = HERE / "embed.txt"
# Of the caller's environment: what Python and its libraries need to start, and where numba keeps what it compiled.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "NUMBA_CACHE_DIR")
_PINNED = {
    "COLUMNS": "100",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONUTF8": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "CLNR_PRECISION": "float32",
}

# A number beside two blanks, with a few that follow at the end of the line; or any decimal between blanks.
_CELL = r"(?<=  )NUMBER(?= |$)( {1,5}$)?|(?<= )NUMBER(?=  |$)|(?<= )[-+]?\d+\.\d[\d±.]*(?= )"
_CELL = _CELL.replace("NUMBER", r"[-+]?\d[\d.,±]*")
# Commands that print only what is written in the package.
_CONSTANT = {"ls", "recipe"}
# What differs between machines and runs, in order.
_MASKS = (
    # Lines that a slow machine or a first run prints; an estimate lists the stages that take long enough.
    (r"^(now: |compiling for this machine|.*: epoch \d+ of ).*\n", ""),
    (r"^time: [^;]*;", "time: #;"),
    (r"(\bunder )?\b\d[\d.,]* (s|min|h)\b", "# s"),
    (r"\b\d[\d.,]* [kMGT]B\b", "# MB"),
    # Numbers in a row of a table that has decimals, or that ends with a number: each leaves one # where it ended.
    (r"^.*\S {2,}.*(\d\.\d| \d+ *$).*$", lambda row: re.sub(_CELL, lambda cell: "#".rjust(len(cell[0])), row[0])),
    # Decimals elsewhere, but of chance and of limits; and a number of three digits that may have none.
    (r"(?<=effective rank )[\d.]+", "#"),
    (r"(?<!chance: )(?<!below )-?\b\d+\.\d+\b", "#.#"),
)

_WORDS = {
    "biology": "animals cells evolution forests genes plants",
    "economics": "banks labour markets prices taxes trade",
    "history": "archives cities empires letters sources wars",
}
_FIELDS = ("biology", "economics", "history") * 3 + ("biology", "economics", "biology")
_NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hugo", "Ida", "Jon", "Kim", "Leo", "Mia")


def write_tables(folder: Path) -> None:
    """120 people of three fields, each of whom follows six of the field and another; and four who come later."""
    draw, people, follows = random.Random(7), [], []
    for number in range(124):
        name, age, field = f"{_NAMES[number // 10]} {'ABCDEFGHIJ'[number % 10]}", draw.randint(20, 70), _FIELDS[number % 12]
        words = _WORDS[field if draw.random() < 0.8 else draw.choice(_FIELDS)].split()
        people.append(f"p{number:03},{name},{age},{' '.join(draw.sample(words, 3))},{field}")
        # The next on a ring, so that nobody is followed back; less than half of the 30 who study history.
        ring = [other % 120 for other in range(number + 1, number + 120)]
        near = [other for other in ring if _FIELDS[other % 12] == field][:14]
        followed = [*draw.sample(near, 6), draw.choice([other for other in ring[:60] if other not in near])]
        follows += [f"p{number:03},p{other:03}" for other in followed]
    tables = {"people": people[:120], "new_people": people[120:], "follows": follows[:840], "new_follows": follows[840:]}
    for table, rows in tables.items():
        header = "id,name,age,interests,field" if rows[0] in people else "source,target"
        (folder / f"{table}.csv").write_text("\n".join([header, *rows, ""]), encoding="utf-8")


def printed(command: str, folder: Path) -> str:
    """What a command prints in the current folder, masked; of clnr with its exit code."""
    from torch import device

    from clnr.__main__ import main
    from clnr.support.machine.environment import describe

    program, *words = shlex.split(command)
    if program != "clnr":
        return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    sys.argv, code, output = ["clnr", *words], 0, StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    text = output.getvalue().replace(str(folder), "/here").replace(describe(device("cpu")), "PROCESSOR")
    for pattern, mask in () if words[0] in _CONSTANT else _MASKS:
        text = re.sub(pattern, mask, text, flags=re.MULTILINE)
    return re.sub(r" +$", "", f"{text}exit {code}\n", flags=re.MULTILINE)


def play(folder: Path) -> None:
    """Write all transcripts, as they are now, to a folder."""
    for file in sorted(HERE.glob("*.txt"), key=lambda file: (file != _FIRST, file)):
        place = folder / file.stem
        if file == _FIRST:
            place.mkdir()
            write_tables(place)
        else:
            shutil.copytree(folder / _FIRST.stem, place)
        os.chdir(place)
        os.environ["CLNR_HOME"] = str(place / ".clnr")
        commands = re.findall(r"^\$ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        text = "".join(f"$ {command}\n{printed(command, place)}" for command in commands)
        (folder / file.name).write_text(text, encoding="utf-8")


def transcripts(folder: Path) -> dict[str, str]:
    """All transcripts by the name of their file, as they are now; an empty folder is needed to make them in."""
    env = {name: os.environ[name] for name in _KEPT if name in os.environ} | _PINNED | {"HOME": str(folder / "home")}
    env["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), *filter(None, sys.path)])
    words = [sys.executable, "-m", "tests.transcripts", str(folder.resolve())]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.txt"))}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        play(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            for name, text in transcripts(Path(made)).items():
                (HERE / name).write_text(text, encoding="utf-8")
