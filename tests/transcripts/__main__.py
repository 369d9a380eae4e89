"""What commands print, for review: ``python -m tests.transcripts`` writes it anew, git diff shows what changed.

A transcript reads like a terminal: ``$ command``, what it printed, and the exit code of clnr. To add one, write
its lines with ``$`` to a new file. Standard output and standard error stand together, in order, as a terminal
shows them, but as wide as in a pipe or a log, and without progress bars.

``embed.txt`` is played first, beside the tables below; all others in copies of the folder that it leaves, by one
process with an environment of its own. What still differs between machines and runs is masked.
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
# Of the caller's environment: what libraries need to start, and where numba keeps compiled code.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "NUMBA_CACHE_DIR")
_PINNED = (
    "COLUMNS=100 TERM=dumb NO_COLOR=1 LANG=C.UTF-8 TZ=UTC PYTHONUTF8=1 CUDA_VISIBLE_DEVICES= "
    "CLNR_PRECISION=float32 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1"
)

# A number beside two blanks, with a few that follow at the end of the line; or any decimal between blanks.
_CELL = r"(?<=  )NUMBER(?= |$)( {1,5}$)?|(?<= )NUMBER(?=  |$)|(?<= )[-+]?\d+\.\d[\d±.]*(?= )"
_CELL = _CELL.replace("NUMBER", r"[-+]?\d[\d.,±]*")
_CONSTANT = {"ls", "recipe"}  # They print only what is written in the package.
# What differs between machines and runs, in order.
_MASKS = (
    # Lines that a slow machine or a first run prints.
    (r"^.*: epoch \d+ of .*\n", ""),
    (r"(\bunder )?\b\d[\d.,]* (s|min|h)\b", "# s"),
    (r"\b\d[\d.,]* [kMGT]B\b", "# MB"),
    # Numbers in a row of a table that has decimals or ends with a number: each leaves a # where it ended.
    (r"^.*\S {2,}.*(\d\.\d| \d+ *$).*$", lambda row: re.sub(_CELL, lambda it: "#".rjust(len(it[0])), row[0])),
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
    """120 people of three fields, each of whom follows six of it and another; and four who come later."""
    draw, people, follows = random.Random(7), [], []
    for number in range(124):
        age, field = draw.randint(20, 70), _FIELDS[number % 12]
        name = f"{_NAMES[number // 10]} {'ABCDEFGHIJ'[number % 10]}"
        words = _WORDS[field if draw.random() < 0.8 else draw.choice(_FIELDS)].split()
        people.append(f"p{number:03},{name},{age},{' '.join(draw.sample(words, 3))},{field}")
        # The next on a ring, so that nobody is followed back; less than half of the 30 who study history.
        ring = [other % 120 for other in range(number + 1, number + 120)]
        near = [other for other in ring if _FIELDS[other % 12] == field][:14]
        followed = [*draw.sample(near, 6), draw.choice([other for other in ring[:60] if other not in near])]
        follows += [f"p{number:03},p{other:03}" for other in followed]
    for file, rows in {"people": people[:120], "new_people": people[120:]}.items():
        (folder / f"{file}.csv").write_text("\n".join(["id,name,age,interests,field", *rows, ""]))
    for file, rows in {"follows": follows[:840], "new_follows": follows[840:]}.items():
        (folder / f"{file}.csv").write_text("\n".join(["source,target", *rows, ""]))


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
    """All transcripts as they are now, by the names of their files; made in a folder, which must be empty."""
    env = {name: os.environ[name] for name in _KEPT if name in os.environ}
    env |= dict(pair.split("=") for pair in _PINNED.split()) | {"HOME": str(folder / "home")}
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
