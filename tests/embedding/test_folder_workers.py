"""Several workers on a graph folder that is trained from its files: they give what one gives, also when some are killed."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

if not hasattr(os, "fork"):
    pytest.skip("needs fork", allow_module_level=True)

from tests.embedding.folder_worker_checks import BLOCKS, EPOCHS, METHODS, NODES
from tests.embedding.test_from_files import vectors
from tests.session_folders import made_once, run_module

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folders of all cases, and what workers were told."""
    return made_once(tmp_path_factory, "folder-workers", partial(run_module, "tests.embedding.folder_worker_checks"))


@pytest.fixture(scope="module")
def told(made):
    return json.loads((made / "told.json").read_text())


def losses(folder: Path) -> np.ndarray:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return np.array([line["loss"] for line in lines if "loss" in line])


def assert_same_files(one: Path, other: Path) -> None:
    a, b = (safetensors.numpy.load_file(folder / "model.safetensors") for folder in (one, other))
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    shards = sorted(path.name for path in (one / "embeddings").iterdir())
    assert len(shards) >= BLOCKS
    assert shards == sorted(path.name for path in (other / "embeddings").iterdir())
    for name in shards:
        assert (one / "embeddings" / name).read_bytes() == (other / "embeddings" / name).read_bytes(), name


@pytest.mark.parametrize("method", METHODS)
def test_two_workers_take_the_step_that_one_takes(made, method):
    one, two = (torch.load(made / f"{method}-{size}.pt") for size in (1, 2))
    assert one["gradient"].dtype == torch.float64
    assert one["gradient"].abs().max() > 1e-2
    torch.testing.assert_close(two["loss"], one["loss"], rtol=1e-7, atol=0)
    torch.testing.assert_close(two["gradient"], one["gradient"], rtol=0, atol=1e-6 * float(one["gradient"].abs().max()))


@pytest.mark.parametrize("method", METHODS)
def test_after_20_epochs_two_workers_have_what_one_has(made, told, method):
    """But for rounding of float32, which each of 20 epochs enlarges, and more on one processor than on another."""
    assert told[f"{method}-2"][0] == ["", ""]
    one, two = made / f"{method}-1", made / f"{method}-2"
    assert len(losses(one)) == EPOCHS
    np.testing.assert_allclose(losses(two), losses(one), rtol=0, atol=2e-3)
    (ids, a), (others, b) = vectors(one), vectors(two)
    assert ids == others
    assert a.shape == (NODES, 8)
    np.testing.assert_allclose(b, a, rtol=0, atol=1e-2 * max(1.0, float(np.abs(a).max())))


def test_an_embedding_that_is_killed_goes_on_with_other_workers_bit_for_bit(made, told):
    assert all("killed" in each for each in told["embedding-killed"])
    assert told["blocks after two kills"] == 0
    assert_same_files(made / "embedding-killed", made / "CLNR-2")


def test_walks_and_a_read_out_that_are_killed_go_on_bit_for_bit(made, told):
    *killed, last = told["read-out-killed"]
    assert all("killed" in each for each in killed)
    assert last == ["", ""]
    assert_same_files(made / "read-out-killed", made / "CLNR-mix-2")


def test_a_worker_that_does_not_see_the_output_says_so(told, made):
    ((first, second),) = told["unseen"]
    assert second == (
        f"DataError: {made / 'elsewhere'} is not the folder that rank 0 writes to; on several hosts, out must be "
        "on a shared file system"
    )
    assert first.startswith("LostWorker: worker 0 of 2 ")


def test_nothing_is_left_beside_the_outputs(made):
    left = {path.name for path in made.iterdir() if path.name.startswith(".") or path.suffix == ".checkpoint"}
    # A killed process leaves what the next one takes up.
    assert left <= {".unseen.clnr.work", ".unseen.clnr.lock"}
