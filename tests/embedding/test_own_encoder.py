"""NodeEmbedder with an encoder of the user's own, PyG's or hand-written: trained, saved, loaded, and given unseen nodes."""

import pickle
import sys

import numpy as np
import pytest
import torch
from benchmarks._graph_folders import write_graph
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from clnr import NodeEmbedder, load
from clnr.datasets.splits import split_of
from clnr.embedding.baselines import recipe_beside
from clnr.embedding.planning import plan
from clnr.errors import ClnrError, DataError, MethodError, RecipeError
from clnr.methods import SVD_BOTH
from tests.conftest import tiny
from tests.damage import seal


class Mean(torch.nn.Module):
    """A node's features beside the mean of its neighbours', weighted."""

    def __init__(self, inputs, width=8):
        super().__init__()
        self.linear = torch.nn.Linear(2 * inputs, width)
        self.norm = torch.nn.BatchNorm1d(width)

    def forward(self, x, edge_index, edge_weight):
        total = torch.zeros(len(x), 1, device=x.device).index_add(0, edge_index[1], edge_weight[:, None])
        summed = torch.zeros_like(x).index_add(0, edge_index[1], edge_weight[:, None] * x[edge_index[0]])
        return self.norm(self.linear(torch.cat([x, summed / total.clamp(min=1e-6)], 1)))


class Other(Mean):
    pass


def mean(inputs=12, width=8, kind=Mean):
    torch.manual_seed(0)
    return kind(inputs, width)


def embedder(encoder=None, **more):
    return NodeEmbedder(encoder=mean() if encoder is None else encoder, epochs=3, device="cpu", **more)


@pytest.fixture
def saved(tmp_path):
    made = embedder().fit(tiny())
    made.save(tmp_path / "mine")
    return made, tmp_path / "mine"


def test_pygs_graphsage_learns_the_classes_of_a_graph_without_seeing_them():
    GraphSAGE = pytest.importorskip("torch_geometric.nn").GraphSAGE
    graph = load("toy")

    def fitted(epochs):
        torch.manual_seed(0)
        sage = GraphSAGE(graph.num_features, hidden_channels=32, num_layers=2, dropout=0.1, norm="batch_norm")
        faster = {"epochs": epochs, "learning_rate": 0.01, "sampled_nodes": 256}
        return NodeEmbedder(encoder=sage, recipe=faster, device="cpu", threads=1).fit(graph)

    made = fitted(12)
    assert made.embedding_.shape == (graph.num_nodes, 32)
    assert made.recipe_.dimension == 32
    assert np.mean(made.losses_[-3:]) < np.mean(made.losses_[:3]) - 0.1
    z, labels, split = made.embedding_ / made.embedding_.std(0), graph.labels, split_of(graph, 0)
    right = LogisticRegression().fit(z[split.train], labels[split.train]).score(z[split.test], labels[split.test])
    assert right > 2 * np.bincount(labels).max() / len(labels)
    twice = [fitted(2) for _ in range(2)]
    assert np.array_equal(twice[0].embedding_, twice[1].embedding_)
    assert twice[0].losses_ == made.losses_[:2]


@pytest.mark.parametrize("name", ["GIN", "GAT", "GCN", "a stack of TransformerConv"])
def test_other_encoders_of_pyg_train(name):
    nn = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    if hasattr(nn, name):
        encoder = getattr(nn, name)(12, hidden_channels=8, num_layers=2)
    else:
        layers = [(nn.TransformerConv(12, 4, heads=2), "x, edge_index -> x"), torch.nn.ReLU(), torch.nn.Linear(8, 8)]
        encoder = nn.Sequential("x, edge_index", layers)
    made = embedder(encoder).fit(tiny(weighted=True))
    assert made.embedding_.shape == (40, 8)
    assert np.isfinite(made.embedding_).all()


def test_what_is_saved_is_loaded_with_the_module_and_embeds_the_same(saved):
    made, folder = saved
    assert f'encoder_class = "{__name__}.Mean"' in (folder / "recipe.toml").read_text()
    given = mean()
    torch.nn.init.zeros_(given.linear.weight)
    back = NodeEmbedder.load(folder, device="cpu", encoder=given)
    assert np.array_equal(back.embedding_, made.embedding_)
    other = tiny(seed=3, weighted=True)
    np.testing.assert_array_equal(back.transform(other), made.transform(other))
    assert back.transform(other).shape == (40, 8)
    assert not given.linear.weight.any()
    assert back.get_params()["encoder"] is given
    assert back.fit(tiny()).embedding_.shape == (40, 8)
    back.save(folder, force=True)


def test_the_saved_state_is_the_modules_state_dict(saved):
    from safetensors.torch import load_file

    made, folder = saved
    state = {name.removeprefix("encoder."): value for name, value in load_file(folder / "model.safetensors").items()}
    module = mean()
    module.load_state_dict(state)
    source, target, _ = tiny().edges()
    with torch.no_grad():
        z = module.eval()(torch.tensor(tiny().features), torch.tensor(np.stack([source, target])), torch.ones(len(source)))
    np.testing.assert_allclose(made.embedding_, z.numpy(), rtol=1e-4, atol=1e-5)


def test_without_the_module_the_vectors_are_read_and_the_model_says_what_it_needs(saved, clnr, tmp_path):
    _, folder = saved
    with pytest.raises(MethodError, match=r"its encoder is your own Mean: NodeEmbedder.load\(folder, encoder=...\)"):
        NodeEmbedder.load(folder)
    assert clnr("similar", folder, "3").code == 0
    assert clnr("clusters", folder, "-k", "2").code == 0
    assert clnr("report", folder).code == 0
    (tmp_path / "e.csv").write_text("source,target\n1,2\n")
    ended = clnr("transform", folder, "--edges", tmp_path / "e.csv", "--out", tmp_path / "more")
    assert ended.code == 2
    assert "its encoder is your own Mean" in ended.err
    assert not (tmp_path / "more").exists()


def test_another_class_or_other_sizes_are_refused_and_no_class_is_imported(saved, tmp_path):
    made, folder = saved
    for encoder, words in (
        (mean(kind=Other), "its encoder is a Mean, not a Other"),
        (mean(width=7), "it does not fit the encoder: 'encoder.linear.bias' is of another shape"),
        (mean(11), "Mean fails on nodes with 12 features"),
        ("Mean", "encoder must be a torch.nn.Module"),
    ):
        with pytest.raises(DataError, match=words):
            NodeEmbedder.load(folder, encoder=encoder)
    recipe = folder / "recipe.toml"
    recipe.write_text(recipe.read_text().replace(f'"{__name__}.Mean"', '"this.Mean"'))
    seal(folder)
    sys.modules.pop("this", None)
    assert np.array_equal(NodeEmbedder.load(folder, encoder=mean()).embedding_, made.embedding_)
    assert "this" not in sys.modules
    recipe.write_text(recipe.read_text().replace('"this.Mean"', r'"\u001b[1m.Mean"'))
    seal(folder)
    with pytest.raises(DataError, match="which is not the name of a class"):
        NodeEmbedder.load(folder, encoder=mean())
    NodeEmbedder("CLNR", epochs=1).fit(tiny()).save(tmp_path / "ours")
    with pytest.raises(DataError, match="CLNR has an encoder of clnr's: leave out encoder"):
        NodeEmbedder.load(tmp_path / "ours", encoder=mean())


def test_it_can_be_cloned_and_pickled():
    made = embedder().fit(tiny())
    back = pickle.loads(pickle.dumps(made))
    other = tiny(seed=4)
    assert np.array_equal(back.transform(other), made.transform(other))
    assert np.array_equal(clone(made).fit(tiny()).embedding_, made.embedding_)


def test_the_plan_says_that_it_is_slower_and_what_it_ignores():
    nn = pytest.importorskip("torch_geometric.nn")
    sage = nn.GraphSAGE(12, hidden_channels=8, num_layers=2)
    lines = str(embedder(sage).plan(tiny(weighted=True)))
    assert "CLNR with GraphSAGE, 3 epochs" in lines
    assert "GraphSAGE is your own encoder: slower than clnr's" in lines
    assert "GraphSAGE takes no edge_weight: weights of edges are ignored" in lines
    assert "ignored" not in str(embedder(sage).plan(tiny()))
    assert "ignored" not in str(embedder().plan(tiny(weighted=True)))


def test_few_features_get_no_columns_that_the_module_does_not_expect():
    graph = tiny(features=5)
    assert embedder(mean(5)).fit(graph).embedding_.shape == (40, 8)
    wider = embedder(mean(5 + 3 * 4), recipe={"structure": 4}).fit(graph)
    assert wider.embedding_.shape == (40, 8)
    with pytest.raises(MethodError, match=r"Mean fails on nodes with 5 features: .*\(2x10 and 12x8\)$"):
        embedder(mean(6)).plan(graph)
    with pytest.raises(MethodError, match=r"17 features: .*; the graph has 5, and structure=4 adds 12$"):
        embedder(mean(5), recipe={"structure": 4}).plan(graph)


@pytest.mark.parametrize("structure", [0, 4])
def test_lazy_widths_are_those_of_the_graph(tmp_path, structure):
    """As if it had been made with the number of features, whatever torch's generator has drawn since."""
    GraphSAGE = pytest.importorskip("torch_geometric.nn").GraphSAGE
    sage, graph = GraphSAGE(-1, hidden_channels=8, num_layers=2), tiny(features=5)
    made = embedder(sage, recipe={"structure": structure}).fit(graph)
    torch.rand(9)
    again = clone(made)
    state = torch.get_rng_state()
    again.fit(graph)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(again.embedding_, made.embedding_)
    assert torch.nn.parameter.is_lazy(sage.convs[0].lin_l.weight)
    made.save(tmp_path / "mine")
    back = NodeEmbedder.load(tmp_path / "mine", encoder=GraphSAGE(-1, hidden_channels=8, num_layers=2))
    back.set_params(device="cpu")
    np.testing.assert_array_equal(back.transform(tiny(seed=2, features=5)), made.transform(tiny(seed=2, features=5)))
    eager = GraphSAGE(5 + 3 * structure, hidden_channels=8, num_layers=2)
    torch.manual_seed(0)
    eager.convs[0].reset_parameters()
    eager.convs[1].load_state_dict(sage.convs[1].state_dict())
    assert np.array_equal(embedder(eager, recipe={"structure": structure}).fit(graph).embedding_, made.embedding_)


def test_a_read_out_is_fitted_to_its_rows_and_saved(tmp_path):
    made = embedder(method="CLNR-tuned", dimension=10).fit(tiny())
    assert made.embedding_.shape == (40, 10)
    made.save(tmp_path / "mine")
    back = NodeEmbedder.load(tmp_path / "mine", encoder=mean())
    np.testing.assert_allclose(back.transform(tiny(seed=2)), made.transform(tiny(seed=2)), rtol=1e-5, atol=1e-6)


def test_baselines_are_as_wide_as_its_rows():
    settings = embedder()._settings()
    recipe, _ = settings.recipe_for(tiny())
    assert recipe_beside(SVD_BOTH, settings.method, recipe, tiny()).dimension == 8


def test_what_does_not_go_with_it_is_refused():
    for more, words in (({"effort": "best"}, "leave one out"), ({"dimension": 9}, "has no use for dimension")):
        with pytest.raises(RecipeError, match=words):
            embedder(**more).fit(tiny())


def test_a_graph_that_stays_in_files_is_refused(tmp_path, monkeypatch):
    write_graph(tiny(), tmp_path / "graph")
    monkeypatch.setattr(plan, "fits_memory", lambda *_: False)
    with pytest.raises(ClnrError, match="OwnEncoder needs the rows of all nodes"):
        embedder().fit(tmp_path / "graph")
