"""Damaged model folders and checkpoints: whatever is in them, they are read as they were, or refused in one line."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clnr.embedding.result.artifact import load_result, save_folder
from clnr.embedding.result.artifact_files import GRAPH, GRAPH_FILE, METRICS, MODEL, RECIPE, VECTORS
from clnr.embedding.result.report_data import report_html
from clnr.engine import cpu_engine
from clnr.methods import METHODS
from clnr.methods.presets import preset
from clnr.support.machine import memory
from clnr.training.checkpoint import Checkpoint
from clnr.training.loop import fit
from tests.conftest import tiny
from tests.damage import (
    NOTHING,
    as_json,
    as_toml,
    attempted,
    changed_graph,
    damaged,
    edited,
    fuzzed,
    rearranged,
    reseal,
    seal,
)
from tests.embedding.result.test_artifact import fitted, tables

pytestmark = pytest.mark.fuzz
LOADED = (RECIPE, MODEL, VECTORS, METRICS, GRAPH)
ABOUT = {"graph": "tiny"}
MEMORY = 600 * 2**20


@pytest.fixture(scope="module", autouse=True)
def bounded_memory():
    meter = memory.MemoryMeter(torch.device("cpu"))
    before = meter.peak()
    yield
    if sys.platform == "linux":
        assert meter.peak() - before < MEMORY


@st.composite
def changes(draw, folder: Path) -> dict[str, bytes]:
    """Some files of a folder, changed."""
    made = {}
    for name in draw(st.lists(st.sampled_from(LOADED), min_size=1, max_size=2, unique=True)):
        if name == GRAPH:
            of_graph = draw(changed_graph(folder / GRAPH))
            made |= {f"{GRAPH}/{each}": content for each, content in of_graph.items()}
            continue
        content = (folder / name).read_bytes()
        other = (folder / draw(st.sampled_from((*LOADED[:-1], GRAPH_FILE)))).read_bytes()
        ways = [damaged(content), NOTHING, st.just(other)]
        if name == METRICS:
            lines = [json.loads(line) for line in content.splitlines()]
            ways += [edited(lines).map(lambda rows: b"\n".join(map(as_json, rows)))] * 4
        elif name == RECIPE:
            ways += [edited(tomllib.loads(content.decode())).map(as_toml)] * 4
        elif name == MODEL:
            ways += [rearranged(content)] * 4
        made[name] = draw(st.one_of(ways))
    return made


# -- folders ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return fitted(graph=tables(tmp_path_factory.mktemp("tables")))


@pytest.fixture(scope="module")
def sealed(whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sealed")
    save_folder(whole, folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzzed")


def load(folder, source, changed, sealed=True):
    """What is loaded from a folder with some files changed."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    for name, content in changed.items():
        (folder / name).write_bytes(content)
    if not sealed and GRAPH_FILE not in changed:
        reseal(folder / GRAPH)
    if not sealed:
        seal(folder)
    return attempted(lambda: load_result(folder))


@fuzzed(30)
@given(data=st.data())
def test_a_folder_with_right_digests_is_read_as_it_can_be_or_not_at_all(data, whole, sealed, folder):
    """What is loaded can be used: it embeds, and has a report."""
    back = load(folder, sealed, data.draw(changes(sealed)), sealed=False)
    if back is None:
        return
    assert back.z.shape == whole.z.shape
    assert len(back.nodes.ids) == 20
    assert np.isfinite(back.z).all()
    assert back.model.embed(back.graph, cpu_engine()).shape == back.z.shape
    attempted(lambda: report_html(back, "fuzzed"))


@fuzzed(30)
@given(data=st.data())
def test_a_folder_is_loaded_as_it_was_or_not_at_all(data, whole, sealed, folder):
    files = sorted(path.relative_to(sealed).as_posix() for path in sealed.rglob("*") if path.is_file())
    names = data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=2, unique=True))
    changed = {name: data.draw(damaged((sealed / name).read_bytes())) for name in names}
    back = load(folder, sealed, changed)
    if back is None:
        return
    assert (back.z == whole.z).all()
    assert (back.losses, back.scores, back.warnings) == (whole.losses, whole.scores, whole.warnings)
    assert (back.model.recipe, back.model.seed) == (whole.model.recipe, whole.model.seed)
    assert all(torch.equal(value, whole.model.parameters[name]) for name, value in back.model.parameters.items())
    assert back.graph.digest == whole.graph.digest
    assert back.graph.columns.table().equals(whole.graph.columns.table())
    assert back.graph.info == whole.graph.info


# -- checkpoints ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """The content of a checkpoint."""
    path, method = tmp_path_factory.mktemp("states") / "state", METHODS["CLNR"]
    recipe = preset(method, "tiny").recipe.but(hidden=6, dimension=4, epochs=9)
    graph, checkpoint = cpu_engine().to_device(tiny()), Checkpoint(path, ABOUT, resume=True)
    checkpoint.seconds = 0.0
    fit(method.build(recipe), cpu_engine(), graph, recipe, 3, checkpoint=checkpoint)
    return path.read_bytes()


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
def test_a_checkpoint_is_gone_on_from_as_it_was_or_not_at_all(data, state, folder):
    path = folder / "state"
    path.write_bytes(state)
    done, whole = Checkpoint(path, ABOUT, resume=True).load()
    path.write_bytes(data.draw(data.draw(st.sampled_from([damaged, rearranged, retold]))(state)))
    found = attempted(Checkpoint(path, ABOUT, resume=True).load)
    if found is None:
        return
    other, back = found
    assert other == done
    assert back.keys() == whole.keys()
    assert all(torch.equal(back[name], value) for name, value in whole.items())
