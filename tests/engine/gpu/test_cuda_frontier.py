"""Rows of some nodes by the GPU's kernels, interpreted where there is no GPU, against all rows of the reference."""

import numpy as np
import pytest
import torch
from benchmarks._graphs import shaped

from clnr.engine import Drop, Dropout, Engine, Mask, View
from clnr.engine.gpu import cuda_frontier
from clnr.engine.gpu.cuda_engine import KernelEngine
from clnr.engine.gpu.cuda_frontier import ListedFrontier, ListedOperators, capacity
from clnr.engine.operators import SelectedOperators
from clnr.engine.streams import runs_without_sync
from clnr.engine.view import Neighbors
from clnr.graph import Graph
from clnr.methods import CLNR
from clnr.methods.recipe import Recipe
from clnr.nn.objectives import StepContext
from tests.conftest import tiny
from tests.engine.conftest import DROPS, FUSED, KEY, MASKS, OTHER, SMALL_GRAPHS, exact, reference
from tests.engine.dense_views import assert_rows_of_the_whole

csr_layout = pytest.importorskip("clnr.engine.gpu.triton.csr_layout", reason="Triton is not installed")
listed_rows = pytest.importorskip("clnr.engine.gpu.triton.listed_rows", reason="Triton is not installed")

KERNELS = [*FUSED, pytest.param(exact, id="gpu", marks=pytest.mark.gpu)]
NAMES = "usual", "sparse features", "directed, weighted, sparse", "one node", "no edges", "loops of its own"
SOME = {name: SMALL_GRAPHS[name] for name in (*NAMES, "no features but zeros")}
SOME["directed"] = tiny(nodes=10, edges=16, features=5, undirected=False)
PAYS = cuda_frontier.ListedFrontier.pays


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Rows are computed apart, whether or not it pays."""
    monkeypatch.setattr(cuda_frontier.ListedFrontier, "pays", True)


@pytest.fixture(autouse=True)
def nothing_unwritten_is_read():
    """Where kernels are interpreted, memory that nobody has written to is NaN."""
    torch.use_deterministic_algorithms(not torch.cuda.is_available(), warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(params=["own places", "moved together", "large"])
def places(request, monkeypatch):
    """Each node's row at its own place, or rows of reached nodes together, with one place fewer than there are nodes.

    In the first case rows share programs, in the second each has its own; in the third their edges move, too.
    """
    if request.param != "moved together" and not torch.cuda.is_available():
        pytest.skip("no CUDA device; interpreted, which takes long, rows are moved together")
    moved = request.param != "own places"

    def most(links, wanted, rate, hops, draws, sizes):
        return links.shape[0] - (moved and links.shape[0] > 4) if sizes is None else len(links.columns)

    monkeypatch.setattr(listed_rows, "_PLACES_PER_LONG_ROW", (1 << 30) if request.param == "moved together" else 0)
    monkeypatch.setattr(cuda_frontier, "capacity", most)
    monkeypatch.setattr(cuda_frontier, "_NODES_PER_PLACE", 1)
    monkeypatch.setattr(cuda_frontier, "_ENTRIES_OF_LARGE_GRAPH", 0 if request.param == "large" else 1 << 30)


def wanted(graph, device="cpu"):
    """A hub, an isolated node and some others, in no order."""
    count = graph.num_nodes
    return torch.tensor(list(dict.fromkeys([count - 1, 0, *(7 % count, 3 % count)])), device=device)


def assert_rows_equal(engine, graph, drop, mask, neighbors=None):
    view = View(engine.to_device(graph), drop, mask, neighbors=neighbors)
    return assert_rows_of_the_whole(engine, view, wanted(graph).tolist(), rtol=2e-4, atol=3e-5)


VIEWS = [
    *((name, "half", "columns") for name in SOME if name != "sparse features"),
    ("usual", "all", "all"),
    ("usual", "pairs", "elements"),
    ("sparse features", "none left", "all"),
    ("sparse features", "half", "elements"),
]


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize(("name", "drop", "mask"), VIEWS)
@pytest.mark.parametrize("engine", KERNELS, indirect=True)
def test_rows_of_some_nodes_of_every_graph_and_view(engine, name, drop, mask):
    assert isinstance(assert_rows_equal(engine, SOME[name], DROPS[drop], MASKS[mask]), ListedOperators)


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize(
    ("name", "drop", "most", "segment"),
    [
        ("usual", "all", 1, 256),
        ("usual", "half", 2, 4),
        ("directed, weighted, sparse", "half", 2, 256),
        ("usual", "half", 6, 256),
        ("sparse features", "half", None, 4),
        ("directed, weighted, sparse", "half", None, 2),
    ],
)
@pytest.mark.parametrize("engine", KERNELS, indirect=True)
def test_rows_with_a_bound_on_neighbours_and_of_hubs_that_are_split(engine, name, drop, most, segment, monkeypatch):
    """Also where there are fewer neighbours than the bound."""
    monkeypatch.setattr(csr_layout, "SHORT_ROW_ENTRIES", min(csr_layout.SHORT_ROW_ENTRIES, segment // 2))
    monkeypatch.setattr(csr_layout, "SEGMENT_ENTRIES", segment)
    bound = None if most is None else Neighbors(OTHER, most)
    assert isinstance(assert_rows_equal(engine, SOME[name], DROPS[drop], None, bound), ListedOperators)


@pytest.mark.parametrize("engine", KERNELS, indirect=True)
def test_a_bound_on_neighbours_bounds_what_is_reached_from_a_hub(engine, monkeypatch):
    monkeypatch.setattr(cuda_frontier, "_ENTRIES_OF_LARGE_GRAPH", 0)
    rim = np.arange(1, 500)
    graph = Graph.from_edges(np.zeros(len(rim)), rim, np.ones((500, 1)), undirected=True)
    nodes = torch.tensor([0, 7], device=engine.device)
    frontier = ListedFrontier(View(engine.to_device(graph), Drop(KEY, 0.5), neighbors=Neighbors(OTHER, 3)), engine, nodes, None)
    assert [len(frontier.places(hops)) for hops in range(3)] == [2, 8, 32]
    assert sorted(frontier.places(0).nodes.tolist()) == [0, 7]
    reached = [node for node in frontier.places(1).nodes.tolist() if node >= 0]
    assert {0, 7} < set(reached)
    assert len(reached) == 5 == len(set(reached))
    assert frontier.matrix(1)._transposed().shape == (8, 2)


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("engine", KERNELS, indirect=True)
def test_each_edge_and_each_column_has_its_own_rate(engine, pairs):
    graph = SOME["directed, weighted, sparse"]
    links = engine.to_device(graph).edges
    rates = (links.rows + links.columns if pairs else 7 * links.rows + 3 * links.columns) % 10 / 10
    columns = torch.arange(graph.num_features, device=engine.device).double() % 4 / 4
    assert_rows_equal(engine, graph, Drop(KEY, rates.double(), pairs), Mask(OTHER, columns, False, 1.5))


@pytest.mark.parametrize("large", [0, 1 << 30])
@pytest.mark.parametrize("engine", KERNELS, indirect=True)
def test_rows_move_together_where_few_are_reached(engine, large, monkeypatch):
    monkeypatch.setattr(cuda_frontier, "_ENTRIES_OF_LARGE_GRAPH", large)
    graph = shaped(1500, 1500, 5)
    device_graph, nodes = engine.to_device(graph), torch.tensor([3, 1400, 77], device=engine.device)
    frontier = ListedFrontier(View(device_graph, Drop(KEY, 0.5)), engine, nodes, None)
    keep = Drop(KEY, 0.5).keep(device_graph.edges)
    source, target = (t[keep].tolist() for t in (device_graph.edges.columns, device_graph.edges.rows))
    near = {3, 1400, 77}
    for hops in (1, 2):
        near = near | {i for i, j in zip(source, target, strict=True) if j in near}
        places = frontier.places(hops)
        there = [node for node in places.nodes.tolist() if node >= 0]
        assert there == sorted(near)
        assert (len(places) < 750, float(places.excess)) == (True, 0)
        assert [places.place[node].item() for node in there] == list(range(len(there)))
        assert int((places.place >= 0).sum()) == len(there)


@pytest.mark.parametrize("engine", KERNELS, indirect=True)
def test_on_large_graphs_a_step_holds_no_more_edges_than_it_reaches(engine, monkeypatch):
    monkeypatch.setattr(cuda_frontier, "_ENTRIES_OF_LARGE_GRAPH", 0)
    # A ring: 2 neighbours each, and 7 nodes within three hops of one.
    count = 4000
    graph = Graph.from_edges(np.arange(count), (np.arange(count) + 1) % count, np.ones((count, 1)), undirected=True)
    nodes = torch.tensor([5, 2000], device=engine.device)
    frontier = ListedFrontier(View(engine.to_device(graph), Drop(KEY, 0.5)), engine, nodes, None)
    for hops in (1, 2, 3):
        rows, back = (frontier._rows(hops, transposed) for transposed in (False, True))
        matrix = frontier.matrix(hops)
        held = [frontier.places(hops).nodes, matrix._forward.columns, matrix._transposed().columns]
        held += [frontier._kept[hops][0].columns, rows.row, rows.to, back.to]
        assert max(len(each) for each in held) < 1000


@pytest.mark.parametrize(("large", "nodes", "edges"), [(1 << 30, 5, 100), (0, 5, 100), (0, 9, 12)])
@pytest.mark.parametrize("engine", KERNELS, indirect=True)
def test_too_few_places_and_too_little_room_are_noticed(engine, large, nodes, edges, monkeypatch):
    monkeypatch.setattr(cuda_frontier, "_ENTRIES_OF_LARGE_GRAPH", large)
    monkeypatch.setattr(cuda_frontier, "_NODES_PER_PLACE", 1)
    monkeypatch.setattr(cuda_frontier, "capacity", lambda *rest: nodes if rest[-1] is None else edges)
    graph = SOME["usual"]
    operators = engine.sampled_operators(View(engine.to_device(graph)), wanted(graph, engine.device))
    h = torch.ones(nodes, 3, device=engine.device)
    assert operators.within(1).propagate(h).isnan().any()


class Reach:
    """The nodes that 50, drawn anew unless given, are reached from in a graph with hubs, whose edges are dropped anew."""

    def __init__(self):
        self.links, self.generator = reference().to_device(shaped(20_000, 20_000, 1)).edges, np.random.default_rng(0)

    def draw(self):
        return self.generator.choice(20_000, 50, replace=False)

    def __call__(self, rate, hops, nodes=None):
        source, target = self.links.columns.numpy(), self.links.rows.numpy()
        keep = (source == target) | (self.generator.random(len(source)) >= rate)
        near = np.zeros(20_000, bool)
        near[self.draw() if nodes is None else nodes] = True
        for _ in range(hops):
            near[source[keep][near[target[keep]]]] = True
        return near


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("hops", [1, 2])
def test_the_bound_on_reached_nodes_holds_and_is_no_looser_than_it_must(hops, rate):
    reach = Reach()
    bound, counts = capacity(reach.links, 50, rate, hops), [reach(rate, hops).sum() for _ in range(30)]
    assert max(counts) < bound <= 20_000
    if hops == 1:
        # 2^-64 is 9 standard deviations of a normal law, and the bound is no exact one; hubs have a heavier tail still.
        heavy = np.sort(reach.links.indptr.diff().numpy())[-8:].sum()
        assert bound < np.mean(counts) + 20 * np.std(counts) + heavy


def test_the_room_for_edges_holds_and_is_no_looser_than_it_must():
    reach = Reach()
    sizes = reach.links.indptr.diff()
    counts = [int(sizes[reach(0.5, 1)].sum()) for _ in range(30)]
    bound = capacity(reach.links, 50, 0.5, 1, None, sizes)
    assert max(counts) < bound < 8 * max(counts)  # One hub that is reached brings a quarter of that.
    assert capacity(reach.links, 20_000, 0.0, 1, None, sizes) == len(reach.links.columns)


@pytest.mark.parametrize("hops", [1, 2])
def test_the_bound_for_known_draws_holds_and_is_tighter(hops):
    reach = Reach()
    draws = np.stack([reach.draw() for _ in range(20)])
    bound = capacity(reach.links, 50, 0.5, hops, torch.tensor(draws))
    assert max(reach(0.5, hops, draw).sum() for draw in np.tile(draws, (3, 1))) < bound < capacity(reach.links, 50, 0.5, hops)
    if hops == 1:
        # Without dropped edges no draw can reach more than this.
        assert bound < reach.links.indptr.diff().numpy()[draws].sum(1).max() + 64


@pytest.mark.parametrize("engine", KERNELS, indirect=True)
def test_what_cannot_be_computed_apart_is_selected(engine):
    device_graph, nodes = engine.to_device(SOME["usual"]), wanted(SOME["usual"], engine.device)
    order = torch.arange(10, device=engine.device).roll(1)
    assert isinstance(engine.sampled_operators(View(device_graph, node_permutation=order), nodes), SelectedOperators)
    edges = View(device_graph, propagation_matrix=device_graph.edges)
    assert isinstance(engine.sampled_operators(edges, nodes), SelectedOperators)
    apart = engine.sampled_operators(View(device_graph, dropout=Dropout(KEY, 0.5)), nodes)
    assert isinstance(apart, ListedOperators)
    assert isinstance(apart.unpadded().within(1), SelectedOperators)


@pytest.mark.parametrize("engine", KERNELS, indirect=True)
def test_where_it_does_not_pay_all_is_computed_but_for_a_perceptron(engine, monkeypatch):
    monkeypatch.setattr(cuda_frontier.ListedFrontier, "pays", PAYS)
    monkeypatch.setattr(cuda_frontier, "_NODES_PER_PLACE", 1)
    graph = SOME["usual"]
    for few, places, kind in ((0, 9, ListedOperators), (0, 10, SelectedOperators), (1 << 16, 1, SelectedOperators)):
        monkeypatch.setattr(cuda_frontier, "_ENTRIES_WORTH_FINDING", few)
        monkeypatch.setattr(cuda_frontier, "capacity", lambda *rest, places=places: places)
        operators = engine.sampled_operators(View(engine.to_device(graph), DROPS["half"]), wanted(graph, engine.device))
        assert isinstance(operators.within(0), ListedOperators)
        assert isinstance(operators.within(1), kind)
    for neighbors in (None, Neighbors(OTHER, 1)):
        assert_rows_equal(engine, graph, DROPS["half"], None, neighbors=neighbors)


def loss_and_gradients(engine, graph):
    """Of a step of CLNR with sampled moments: its loss and the gradients of its weights."""
    model = CLNR.build(Recipe(hidden=8, dimension=8, sampled_nodes=5, moments="sampled"))
    fresh = model.init(graph.num_features, 0)
    parameters = {key: value.to(engine.device).requires_grad_() for key, value in fresh.items()}
    loss = model.loss(parameters, StepContext(engine, engine.to_device(graph), 0, 0, 5))
    gradients = torch.autograd.grad(loss, [value for value in parameters.values() if value.ndim == 2])
    return [each.detach().cpu() for each in (loss, *gradients)]


@pytest.mark.parametrize("engine", KERNELS, indirect=True)
def test_in_bfloat16_a_step_is_that_with_all_rows_and_near_that_in_float32(engine, monkeypatch):
    narrow = KernelEngine(engine.device, torch.bfloat16)
    apart, exact = (loss_and_gradients(each, SOME["sparse features"]) for each in (narrow, engine))
    monkeypatch.setattr(KernelEngine, "sampled_operators", Engine.sampled_operators)
    for one, other, wide in zip(apart, loss_and_gradients(narrow, SOME["sparse features"]), exact, strict=True):
        assert float((one - other).norm()) <= 0.03 * float(other.norm())
        assert one.dtype == torch.float32
        assert 0 < float((one - wide).norm()) < 0.05 * float(wide.norm())


@pytest.mark.gpu
@pytest.mark.usefixtures("places")
@pytest.mark.parametrize(("encoder", "most"), [("gcn", 0), ("gcn", 3), ("mlp", 0)])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_captured_step_is_replayed_with_other_nodes_and_edges(cuda, encoder, most, sparse):
    engine, graph = exact(), tiny(sparse=sparse)
    sampled = {"sampled_nodes": 10, "moments": "sampled", "max_neighbors": most}
    recipe = Recipe(encoder=encoder, hidden=16, dimension=8, **sampled)
    model = CLNR.build(recipe)
    parameters = {key: value.to(cuda).requires_grad_() for key, value in model.init(graph.num_features, 0).items()}
    epoch, device_graph = torch.zeros((), dtype=torch.int64, device=cuda), engine.to_device(graph)
    losses = torch.zeros(8, device=cuda)
    gradient = torch.zeros(8, len(parameters) - 1, device=cuda)  # The last bias has no effect, hence no gradient.

    def step():
        loss = model.loss(parameters, StepContext(engine, device_graph, 0, epoch, 8))
        found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        gradients = [each for each in found if each is not None]
        losses.index_copy_(0, epoch.reshape(1), loss.detach().reshape(1))
        gradient.index_copy_(0, epoch.reshape(1), torch.stack([each.norm() for each in gradients])[None])
        epoch.add_(1)

    with engine.own_stream():
        for _ in range(8):
            step()
        eager = losses.clone(), gradient.clone()
        epoch.zero_()
        step()
        assert runs_without_sync(step)
        replay = engine.capture([step])
        for _ in range(6):
            replay()
    torch.cuda.synchronize()
    assert len(set(eager[0].tolist())) == 8
    torch.testing.assert_close(losses, eager[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient, eager[1], rtol=1e-3, atol=1e-5)
