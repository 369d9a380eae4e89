from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from clnr import NodeEmbedder
from clnr.embedding.reporting.drawing_time import drawing_note
from clnr.embedding.reporting.map_layouts import DEFAULT_LAYOUT, MAP_LAYOUTS, check_layout
from clnr.embedding.search.neighbors import neighbor_lists
from clnr.errors import UnknownName
from tests.conftest import tiny
from tests.embedding.reporting.test_projection import ODD, clusters

installed = [name for name, row in MAP_LAYOUTS.items() if row.needs is None or importlib.util.find_spec(row.needs)]


def drawn(name, z, k=10, seed=0):
    z = np.asarray(z, np.float32)
    return MAP_LAYOUTS[name].draw(z, neighbor_lists(z, k), seed)


@pytest.mark.full
@pytest.mark.parametrize("name", installed)
def test_neighbours_lie_together_and_at_the_same_place_with_any_number_of_threads(name):
    z, cluster = clusters(4, 25)
    maps = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            maps.append(drawn(name, z))
    assert all((each == maps[0]).all() for each in maps)
    distance = ((maps[0][:, None] - maps[0]) ** 2).sum(2)
    np.fill_diagonal(distance, np.inf)
    assert (cluster[distance.argsort(1)[:, :10]] == cluster[:, None]).mean() > 0.97


@pytest.mark.parametrize("name", [each for each in installed if each != DEFAULT_LAYOUT])
@pytest.mark.parametrize("z", ODD.values(), ids=ODD.keys())
def test_odd_embeddings_have_finite_maps(name, z):
    points = drawn(name, z)
    assert points.shape == (len(z), 2)
    assert np.isfinite(points).all()


def test_a_slow_map_is_announced_with_an_estimate():
    few, many = np.empty((100, 8)), np.empty((30_000, 8))
    assert drawing_note(few, "tsne") == "drawing the map for the report"
    assert drawing_note(many, "tsne") == "drawing the map for the report (tsne): about 4 min"
    assert drawing_note(many, "fast") == "drawing the map for the report"


def test_an_embedder_draws_with_any_layout(tmp_path):
    embedder = NodeEmbedder("Raw").fit(tiny())
    assert '<meta name="layout" content="tsne">' in embedder.report(tmp_path / "a.html", layout="tsne").read_text()
    embedder.save(tmp_path / "folder", report=True, layout="tsne")
    assert "t-SNE, of scikit-learn" in (tmp_path / "folder" / "report.html").read_text()
    with pytest.raises(UnknownName, match="unknown layout 'TSNE'; did you mean 'tsne'"):
        embedder.report(tmp_path / "b.html", layout="TSNE")
    with pytest.raises(UnknownName, match="known: fast, tsne, umap"):
        check_layout(None)
