"""Files that are damaged by hand or at random, to see that they are refused in one line or read as they were."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from clnr.embedding.result.artifact_files import DIGESTS
from clnr.errors import ClnrError
from clnr.graph.folder import array_types
from clnr.graph.manifest import MANIFEST, TABLES, array_file
from clnr.support.storage import sha256
from tests.fuzz import examples


def seal(folder: Path) -> None:
    """Let a model folder have the digests of the files in it, so that all else is checked."""
    content = json.loads((folder / DIGESTS).read_text())
    there = {name: sha256(folder / name) for name in content["sha256"] if (folder / name).is_file()}
    (folder / DIGESTS).write_text(json.dumps(content | {"sha256": there}))


def reseal(graph: Path) -> None:
    """Let a graph folder have the sizes and digests of the files in it, so that all else is checked."""
    content = json.loads((graph / MANIFEST).read_text())
    for name, info in content["files"].items():
        info.update(bytes=(graph / name).stat().st_size, sha256=sha256(graph / name))
    (graph / MANIFEST).write_text(json.dumps(content))


def rewritten(graph: Path, change: Callable[[dict[str, np.ndarray]], object], **counts: int) -> None:
    """Write a graph folder with some of its arrays changed, and other counts, as if the graph were such."""
    content = json.loads((graph / MANIFEST).read_text()) | counts
    arrays = {name: np.fromfile(graph / array_file(name), dtype) for name, dtype in array_types(content).items()}
    change(arrays)
    for name, array in arrays.items():
        array.tofile(graph / array_file(name))
    (graph / MANIFEST).write_text(json.dumps(content))
    reseal(graph)


def fuzzed(count: int):
    """The same cases each time; so many of them in make test."""
    unhealthy = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
    number = examples(count)
    return settings(derandomize=True, max_examples=number, deadline=None, database=None, suppress_health_check=unhealthy)


def attempted(call):
    """What is returned, or None where it is refused in one line; nothing else may happen."""
    try:
        return call()
    except ClnrError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 1000
    return None


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """Bytes with some changed, cut off, taken out or put in."""
    done = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        how = draw(st.sampled_from(["flip", "set", "cut", "take", "put"]))
        place = draw(st.integers(0, max(0, len(done) - 1)))
        if how == "flip" and done:
            done[place] ^= 1 << draw(st.integers(0, 7))
        elif how == "set" and done:
            done[place] = draw(st.integers(0, 255))
        elif how == "cut":
            del done[place:]
        elif how == "take":
            del done[place : place + draw(st.integers(1, 9))]
        else:
            done[place:place] = draw(st.binary(min_size=1, max_size=9))
    return bytes(done)


EXTREME = (-1, 0, 1, -2, 1000, 2**31 - 1, 2**31, 2**40, 2**62, -(2**31), -(2**63))
ODD_NUMBERS = (np.nan, np.inf, -np.inf, -1.0, -0.0, 1e-40, 3e38, -3e38)
ODD = st.sampled_from(
    [
        *(None, True, -1, 0, 1, 2, 7, 2**31, 2**40, 2**62, 2**63, 2**200, -(2**70), 0.5, 1e300, -1e-300),
        *(float("nan"), float("inf"), "", "x", "1", "CLNR", "nCLNR", "GAT", "\ud800", "a\x1b[31m\n", "long " * 9999),
        *([], {}, [[]], [1, 2], {"form": 1}, {"a": None}),
    ]
)


NOTHING = st.sampled_from([b"", b"\0" * 1000, b"[" * 100_000, b'{"a":' * 50_000, b"form = " + b"[" * 100_000])


def leaves(value, path=()):
    """The path to each value in what JSON or TOML holds, and to what holds them."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from leaves(each, (*path, key))


@st.composite
def edited(draw, value):
    """Values with one replaced, taken away or put beside."""
    made = copy.deepcopy(value)
    *above, last = draw(st.sampled_from([path for path in leaves(made) if path]))
    holder = made
    for key in above:
        holder = holder[key]
    how = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
    if how == "remove":
        del holder[last]
    elif how == "add":
        holder.append(draw(ODD)) if isinstance(holder, list) else holder.update({"more": draw(ODD)})
    else:
        holder[last] = draw(ODD)
    return made


def as_json(value) -> bytes:
    return json.dumps(value).encode()


def as_toml(value: dict) -> bytes:
    plain = "".join(f"{key} = {_toml(each)}\n" for key, each in value.items() if not isinstance(each, dict) or not each)
    tables = "".join(f"\n[{key}]\n{as_toml(each).decode()}" for key, each in value.items() if isinstance(each, dict) and each)
    return (plain + tables).encode(errors="replace")


def _toml(value) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return {"NaN": "nan", "Infinity": "inf", "null": "'null'", "{}": "{}"}.get(text := json.dumps(value), text)


@st.composite
def rearranged(draw, content: bytes) -> bytes:
    """A safetensors file with one of its arrays changed in its numbers, its type or its shape, taken away or renamed."""
    import safetensors.numpy

    arrays = {name: each.copy() for name, each in safetensors.numpy.load(content).items()}
    name = draw(st.sampled_from(sorted(arrays)))
    array = arrays.pop(name)
    how = draw(st.sampled_from(["number", "number", "number", "type", "shape", "length", "away", "rename"]))
    if how == "number" and array.size:
        value = draw(st.sampled_from([-1, -2, 5, 20, 100_000, 2**31, 2**40, 2**62, -(2**63)]))
        with np.errstate(all="ignore"):
            array.reshape(-1)[draw(st.integers(0, array.size - 1))] = np.int64(value).astype(array.dtype)
    elif how == "type":
        with np.errstate(all="ignore"):
            array = array.astype(draw(st.sampled_from(["f8", "f4", "f2", "i1", "u1", "i4", "u4", "u8", "?"])))
    elif how == "shape":
        array = array.reshape(draw(st.sampled_from([(-1,), (1, *array.shape), (*array.shape, 1)])))
    elif how == "length":
        array = array.reshape(-1)[: draw(st.integers(0, array.size))] if draw(st.booleans()) else np.tile(array, 2)
    if how != "away":
        arrays["more" if how == "rename" else name] = array
    return safetensors.numpy.save(arrays, {"form": "1"})


@st.composite
def renumbered(draw, content: bytes, dtype: str, nodes: int) -> bytes:
    """An array of a graph folder with some of its numbers replaced, or a range of them."""
    values = np.frombuffer(content, dtype).copy()
    if not len(values):
        return content
    first = draw(st.integers(0, len(values) - 1))
    last = draw(st.sampled_from([first + 1, first + 1, first + 3, len(values)]))
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            values[first:last] = draw(st.sampled_from(ODD_NUMBERS))
    else:
        bits, number = np.iinfo(values.dtype).bits, draw(st.sampled_from([*EXTREME, nodes - 1, nodes]))
        values[first:last] = np.array(number % 2**bits, f"u{bits // 8}").view(values.dtype)
    return values.tobytes()


@st.composite
def changed_graph(draw, folder: Path) -> dict[str, bytes]:
    """Some files of a graph folder, changed."""
    manifest, made = json.loads((folder / MANIFEST).read_bytes()), {}
    names = sorted(path.name for path in folder.iterdir())
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)):
        content = (folder / name).read_bytes()
        dtype = array_types(manifest).get(name.removesuffix(".bin"))
        first = draw(st.integers(0, len(content)))
        zeros = content[:first] + bytes(len(content) - first)
        other = (folder / draw(st.sampled_from(names))).read_bytes()
        ways = [damaged(content), NOTHING, st.sampled_from([zeros, other, content[::-1]])]
        # As long as it was, so that no size gives it away.
        ways += [damaged(content).map(functools.partial(_fitted, len(content)))]
        if dtype is not None:
            ways += [renumbered(content, dtype, manifest["nodes"])] * 6
        elif name in (MANIFEST, TABLES):
            ways += [edited(json.loads(content)).map(as_json)] * 8
        made[name] = draw(st.one_of(ways))
    return made


def _fitted(size: int, content: bytes) -> bytes:
    return content[:size].ljust(size, b"\0")
