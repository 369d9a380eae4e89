"""Damaged model folders and checkpoints: whatever is in them, they are read as they were, or refused in one line."""

from __future__ import annotations

import copy
import json
import shutil
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clnr.embedding.reporting.report_data import report_html
from clnr.embedding.store.artifact import load_folder, save_folder
from clnr.embedding.store.artifact_files import DIGESTS, GRAPH, METRICS, MODEL, RECIPE, VECTORS
from clnr.engine import cpu_engine
from clnr.errors import ClnrError
from clnr.methods import METHODS
from clnr.methods.presets import preset
from clnr.support.machine import memory
from clnr.tables.ingest_report import NODES, TABLES
from clnr.training.checkpoint import Checkpoint
from clnr.training.loop import fit
from tests.conftest import tiny
from tests.fuzz import examples

pytestmark = pytest.mark.fuzz
OLD = Path(__file__).parent / "old"
LOADED = (RECIPE, MODEL, GRAPH, TABLES, NODES, VECTORS, METRICS)
ABOUT = {"graph": "tiny"}
MEMORY = 600 * 2**20


def fuzzed(count: int):
    """The same cases each time; so many of them in make test."""
    unhealthy = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
    number = examples(count)
    return settings(derandomize=True, max_examples=number, deadline=None, database=None, suppress_health_check=unhealthy)


@pytest.fixture(scope="module", autouse=True)
def bounded_memory():
    meter = memory.MemoryMeter(torch.device("cpu"))
    before = meter.peak()
    yield
    if sys.platform == "linux":
        assert meter.peak() - before < MEMORY


# -- damage -----------------------------------------------------------------------------------------------------------------


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
def changes(draw) -> dict[str, bytes]:
    """Some files of a folder, changed."""
    made = {}
    for name in draw(st.lists(st.sampled_from(LOADED), min_size=1, max_size=2, unique=True)):
        content = (OLD / "folder" / name).read_bytes()
        ways = [damaged(content), NOTHING, st.sampled_from(LOADED).map(lambda other: (OLD / "folder" / other).read_bytes())]
        if name == TABLES:
            ways += [edited(json.loads(content)).map(as_json)] * 4
        elif name == METRICS:
            lines = [json.loads(line) for line in content.splitlines()]
            ways += [edited(lines).map(lambda rows: b"\n".join(map(as_json, rows)))] * 4
        elif name == RECIPE:
            ways += [edited(tomllib.loads(content.decode())).map(as_toml)] * 4
        elif name in (MODEL, GRAPH):
            ways += [rearranged(content)] * 4
        made[name] = draw(st.one_of(ways))
    return made


# -- folders ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole():
    return load_folder(OLD / "folder")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzzed")


def attempted(call):
    """What is returned, or None where it is refused in one line; nothing else may happen."""
    try:
        return call()
    except ClnrError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 1000
    return None


def load(folder, source, changed):
    """What is loaded from a folder with some files changed."""
    for path in source.iterdir():
        shutil.copy(path, folder)
    for name, content in changed.items():
        (folder / name).write_bytes(content)
    return attempted(lambda: load_folder(folder))


@fuzzed(30)
@given(changed=changes())
def test_a_folder_of_before_there_were_digests(changed, whole, folder):
    """What is loaded can be used: it embeds, and has a report."""
    (folder / DIGESTS).unlink(missing_ok=True)
    back = load(folder, OLD / "folder", changed)
    if back is None:
        return
    assert back.z.shape == whole.z.shape
    assert len(back.table_graph.graph.ids) == len(set(back.table_graph.graph.ids.tolist())) == 20
    assert np.isfinite(back.z).all()
    assert back.model.embed(back.table_graph.graph, cpu_engine()).shape == back.z.shape
    attempted(lambda: report_html(back, "fuzzed"))


@pytest.fixture(scope="module")
def sealed(whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sealed")
    save_folder(whole, folder)
    return folder


@fuzzed(30)
@given(data=st.data())
def test_a_folder_is_loaded_as_it_was_or_not_at_all(data, whole, sealed, folder):
    names = data.draw(st.lists(st.sampled_from((*LOADED, DIGESTS)), min_size=1, max_size=2, unique=True))
    changed = {name: data.draw(damaged((sealed / name).read_bytes())) for name in names}
    back = load(folder, sealed, changed)
    if back is None:
        return
    assert (back.z == whole.z).all()
    assert (back.losses, back.scores, back.warnings) == (whole.losses, whole.scores, whole.warnings)
    assert (back.model.recipe, back.model.seed) == (whole.model.recipe, whole.model.seed)
    assert all(torch.equal(value, whole.model.parameters[name]) for name, value in back.model.parameters.items())
    assert back.table_graph.graph.digest == whole.table_graph.graph.digest
    assert back.table_graph.columns.equals(whole.table_graph.columns)
    assert (back.table_graph.classes, back.table_graph.feature_encoder) == (
        whole.table_graph.classes,
        whole.table_graph.feature_encoder,
    )


# -- checkpoints ------------------------------------------------------------------------------------------------------------


def resumed(path):
    method = METHODS["CLNR"]
    recipe = preset(method, "tiny").recipe.but(hidden=6, dimension=4, epochs=9)
    checkpoint = Checkpoint(path, 100, ABOUT, resume=True)
    return fit(method.build(recipe), cpu_engine(), cpu_engine().to_device(tiny()), recipe, 3, checkpoint=checkpoint)


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The content of a checkpoint of before there were digests, and of one with its digest."""
    before = OLD / "state.checkpoint"
    path = tmp_path_factory.mktemp("states") / "state"
    Checkpoint(path, 1, ABOUT, resume=True).save(*Checkpoint(before, 1, ABOUT, resume=True).load())
    return before.read_bytes(), path.read_bytes()


@st.composite
def retold(draw, content: bytes) -> bytes:
    """A checkpoint with something else told of it."""
    import safetensors.torch

    size = int.from_bytes(content[:8], "little")
    told = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["clnr"])
    state = safetensors.torch.load(content)
    return safetensors.torch.save(state, {"clnr": as_json(draw(edited(told))).decode()})


@fuzzed(30)
@given(data=st.data())
def test_a_checkpoint_is_gone_on_from_or_refused(data, states, folder):
    path = folder / "state"
    content = states[data.draw(st.integers(0, 1))]
    how = data.draw(st.sampled_from([damaged, rearranged, retold]))
    path.write_bytes(data.draw(how(content)))
    fitted = attempted(lambda: resumed(path))
    assert fitted is None or fitted.losses.isfinite().all()


@fuzzed(30)
@given(data=st.data())
def test_a_checkpoint_with_a_digest_is_gone_on_from_as_it_was_or_not_at_all(data, states, folder):
    path = folder / "state"
    path.write_bytes(states[1])
    done, state = Checkpoint(path, 1, ABOUT, resume=True).load()
    path.write_bytes(data.draw(damaged(states[1])))
    found = attempted(Checkpoint(path, 1, ABOUT, resume=True).load)
    if found is None:
        return
    other, back = found
    assert other == done
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], value) for name, value in state.items())
