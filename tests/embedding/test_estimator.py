from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pandas
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from clnr import Graph, NodeEmbedder, Recipe, read_tables
from clnr.embedding.graph_sources import as_graph
from clnr.engine import choose
from clnr.errors import DataError, RecipeError, UnknownName
from clnr.experiments.learn import learn
from clnr.methods import BASELINES, CLNR
from clnr.methods.model import Model
from clnr.training.checkpoint import Checkpoint
from tests.conftest import tiny
from tests.damage import seal

SMALL = Recipe(hidden=16, dimension=8, epochs=3, probe_steps=20)
RING = pa.table({"source": [0, 1, 2, 3, 4, 5], "target": [1, 2, 3, 4, 5, 0]})
AGES = pa.table({"id": list(range(6)), "age": [1.0, 5.0, 2.0, 8.0, 4.0, 9.0], "town": [f"Town {i}" for i in range(6)]})


def embedder(method="CLNR", **changes):
    return NodeEmbedder(method, recipe=SMALL, device="cpu", **changes)


def named(graph, prefix="n"):
    source, target, _ = graph.edges()
    ids = np.array([f"{prefix}{i}" for i in range(graph.num_nodes)], dtype=object)
    return Graph.from_edges(source, target, graph.features, labels=graph.labels, ids=ids)


def learned(graph, seed):
    return learn(CLNR, graph, seed, SMALL, choose("cpu")).z.numpy()


def test_it_is_the_embedding_that_training_gives():
    graph = tiny()
    assert (embedder(hold_out=0).fit_transform(graph) == learned(graph, 0)).all()


@pytest.mark.parametrize("form", ["graph", "pyg", "networkx", "scipy", "pair of frames"])
def test_whatever_a_graph_is_held_in(form):
    graph = named(tiny())
    source, target, _ = graph.edges()
    ids = graph.ids.tolist()
    edges = {"source": graph.ids[source].tolist(), "target": graph.ids[target].tolist()}
    nodes = {"id": ids, "x": graph.features.astype(float).tolist()}
    given = {
        "graph": lambda: graph,
        "pyg": graph.to_pyg,
        "networkx": graph.to_networkx,
        "scipy": lambda: (graph.to_scipy(), graph.features),
        "pair of frames": lambda: (pandas.DataFrame(edges), pandas.DataFrame(nodes)),
    }[form]()
    made = embedder().fit(given)
    z = made.transform(given)
    assert z.shape == (40, 8)
    np.testing.assert_array_equal(z, made.embedding_)
    if form != "scipy":
        assert made.ids_.tolist() == ids
    if form in ("graph", "pyg", "scipy"):
        assert (z == embedder().fit_transform(graph)).all()


def test_frames_of_tomorrow_are_encoded_as_those_of_today():
    made = embedder().fit((RING, AGES))
    shifted = AGES.set_column(1, "age", pa.array([age + 100 for age in AGES["age"].to_pylist()]))
    assert not np.allclose(made.transform((RING, shifted)), made.embedding_)
    assert not np.allclose(made.extend(nodes=shifted).embedding_, made.embedding_)


PAIRS = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("a", "c")]
NUMBERS = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])


@pytest.mark.parametrize(
    ("given", "ids", "weights"),
    [
        (PAIRS, list("abcd"), None),
        ([*PAIRS[:1], *PAIRS[2:3]], list("abcd"), None),
        ([(a, b, 2.5) for a, b in PAIRS], list("abcd"), {2.5}),
        (NUMBERS, [0, 1, 2, 3], None),
        (torch.tensor(NUMBERS.T), [0, 1, 2, 3], None),
        (np.column_stack([NUMBERS, np.full(5, 0.5)]), [0, 1, 2, 3], {0.5}),
        (np.array([[0, 1, 1, 1], [1, 0, 1, 0], [1, 1, 0, 1], [1, 0, 1, 0]]), [0, 1, 2, 3], None),
        ((NUMBERS.T, np.eye(4)), [0, 1, 2, 3], None),
        ((np.concatenate([NUMBERS, NUMBERS[:, ::-1]]), np.eye(4)), [0, 1, 2, 3], None),
    ],
)
def test_edges_may_be_lists_and_arrays(given, ids, weights):
    graph = as_graph(given)
    assert graph.node_ids.tolist() == ids
    assert not graph.directed
    assert graph.num_edges == (4 if isinstance(given, list) and len(given) == 2 else 10)
    assert (None if graph.incoming.weight is None else set(graph.incoming.weight.tolist())) == weights
    if isinstance(given, tuple):
        assert (graph.features == np.eye(4)).all()


def test_tables_may_be_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in PAIRS))
    (tmp_path / "n.csv").write_text("id,age\na,1\nb,5\nc,2\nd,9\n")
    assert as_graph("e.csv").node_ids.tolist() == list("abcd")
    assert as_graph("e*.csv").num_edges == 10
    read = as_graph((tmp_path / "e.csv", "n.csv"))
    assert (read.graph.num_features, read.feature_encoder.column_encoders[0].column) == (1, "age")
    assert as_graph((PAIRS, "n.csv")).digest == read.graph.digest
    with pytest.raises(DataError, match="edges must have ids of one type"):
        as_graph([(1, "a"), ("b", 2)])


def test_verbose_shows_the_plan_through_logging(caplog):
    import logging

    embedder(verbose=True).fit(tiny())
    assert all(each.name == "clnr" and each.levelno == logging.INFO for each in caplog.records)
    assert "memory: at most " in caplog.text
    caplog.clear()
    embedder().fit(tiny())
    assert not caplog.records
    with caplog.at_level(logging.INFO, "clnr"):
        embedder(epochs=0).fit(tiny())
    assert "epochs=0: nothing is trained" in caplog.text


@pytest.mark.parametrize(
    "given",
    [3, None, "edges.csv", np.eye(3), np.ones((2, 3)), [[0, 1], [1, 2]], [1, 2], (1, 2)],
)
def test_what_is_no_graph_is_said(given):
    with pytest.raises(DataError, match="is not a graph; pass"):
        embedder().fit(given)


@pytest.mark.parametrize("form", ["networkx", "scipy"])
def test_without_features_they_come_from_structure(form):
    import networkx

    graph = networkx.Graph(networkx.karate_club_graph().edges(data=True))
    given = graph if form == "networkx" else networkx.to_scipy_sparse_array(graph)
    made = embedder().fit(given)
    assert made.n_features_in_ == 4
    with pytest.raises(DataError, match="12 features per node, and this model takes 4"):
        made.transform(tiny())
    np.testing.assert_array_equal(made.transform(given), made.embedding_)


def test_what_is_not_used_of_a_networkx_graph_is_said():
    import networkx

    graph = networkx.Graph([("a", "b", {"weight": 2.0, "kind": "k"}), ("b", "c", {})])
    graph.nodes["a"]["club"] = "x"
    with pytest.warns(UserWarning, match="not used .* 'club' of nodes, 'kind' of edges"):
        plan = embedder().plan(graph)
    assert "'club' of nodes" in plan.warnings[-1]
    labelled = named(tiny()).to_networkx()
    assert embedder().plan(labelled).counts["classes"] == tiny().num_classes
    with pytest.raises(DataError, match="the graph has no nodes"):
        embedder().fit(networkx.Graph())
    graph["a"]["b"]["weight"] = -1.0
    with pytest.raises(DataError, match=r"from node 0 to 1 \(from 0\) has weight -1.0; edge weights must be finite"):
        embedder().fit(graph)


@pytest.mark.parametrize("given", [Graph.from_edges([], [], np.zeros((0, 3))), (np.zeros((0, 2), int), np.zeros((0, 3)))])
def test_a_graph_without_nodes_is_refused(given):
    with pytest.raises(DataError, match="the graph has 0 nodes"):
        embedder().fit(given)


def test_matrices_that_are_swapped_or_negative_are_refused():
    graph = tiny(30, 60)
    a, x = graph.to_scipy(), graph.features
    for pair in ((x, a), (x, a.toarray()), (sp.csr_array(x), a)):
        with pytest.raises(DataError, match=r"shape \[30, \d+\]|30 x \d+"):
            embedder().plan(pair)
    signed = a.tolil()
    signed[2, 5] = -3
    for given in (signed.tocsr(), (signed.tocsr(), x), signed.toarray()):
        with pytest.raises(DataError, match=r"from node 2 to 5 \(from 0\) has weight -3.0"):
            embedder().plan(given)


def test_numbers_beside_edges_that_are_not_used_are_warned_of(tmp_path):
    path = tmp_path / "signed.csv"
    path.write_text("truster,trustee,trust,note\na,b,9,x\nb,c,-3,y\nc,a,1,z\n")
    with pytest.warns(UserWarning, match="'trust'; read_tables takes one of them as weight") as caught:
        embedder().plan(str(path))
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="'trust'"):
        embedder().plan({"met": path})
    # Nothing is said where weights are known, or the user has said what columns are.
    embedder().plan(pa.table({"a": [0, 1], "b": [1, 2], "weight": [1.0, 2.0], "year": [1, 2]}))
    embedder().plan(read_tables(path, ignore=["trust"]))


def test_edges_that_lead_nowhere_are_warned_of_and_other_warnings_listed():
    edges = pa.table({"source": ["a", "b", "c", "b"], "target": ["b", "c", "ghost", "b"]})
    nodes = pa.table({"id": ["a", "b", "c"], "x": [1.0, 2.0, 4.0]})
    with pytest.warns(UserWarning, match="1 edge of 4 with an end that is not in the node table, such as 'ghost'") as caught:
        made = embedder().fit((edges, nodes))
    assert caught[0].filename == __file__
    assert made.ingest_report_.dangling == 1
    for said in ("1 edge from a node to itself", "too few edges"):
        assert any(said in line for line in made.warnings_)


def test_values_edges_and_weights_that_an_extension_loses_are_warned_of():
    count = 12
    ids = [f"n{i}" for i in range(count)]
    edges = pa.table({"source": ids, "target": [*ids[1:], ids[0]], "weight": [1.0 + i for i in range(count)]})
    nodes = pa.table({"id": ids, "zone": ["01", "02", "03"] * 4, "day": [f"2020-01-{i + 1:02}" for i in range(count)]})
    made = embedder().fit(read_tables(edges, nodes, types={"zone": "category"}))
    new_edges = pa.table({"source": ["n0", "n1", "new 1"], "target": ["n2", "new2", "n3"]})
    new_nodes = pa.table({"id": ["new1", "new2", "new3"], "zone": ["1", "2", "3"], "day": ["13.1.2020"] * 3})
    with warnings.catch_warnings(record=True, action="always") as caught:
        larger = made.extend(new_edges, new_nodes)
    messages = [str(each.message) for each in caught]
    for fact in ("such as 'new 1'", "2 of 3 new nodes", "no weights", "'zone' .* such as '1'", "'day' .* such as '13.1.2020'"):
        assert sum(bool(re.search(fact, message)) for message in messages) == 1, fact
    assert {each.filename for each in caught} == {__file__}
    assert larger.warnings_[0].startswith("warning: ")
    # Of nodes without edges on purpose, nothing is said.
    with warnings.catch_warnings(action="error"):
        made.extend(nodes=pa.table({"id": ["x"], "zone": ["01"], "day": ["2020-01-05"]}))


def test_tables_that_transform_cannot_read_are_for_extend():
    ids = [f"n{i}" for i in range(12)]
    played = pa.table({"id": range(12), "rated": ["yes", "no"] * 6, "white": ids, "black": [*ids[1:], ids[0]]})
    made = embedder().fit(read_tables(played, source="white", target="black"))
    with pytest.raises(DataError):
        made.transform(played)
    assert made.extend(played).embedding_.shape == made.embedding_.shape


def test_save_and_load(tmp_path):
    made = embedder(seed=3).fit(named(tiny()))
    made.save(tmp_path / "model")
    back = NodeEmbedder.load(tmp_path / "model", device="cpu")
    assert (back.embedding_ == made.embedding_).all()
    assert (back.transform(tiny(seed=9)) == made.transform(tiny(seed=9))).all()
    assert back.similar("n3", 4) == made.similar("n3", 4)
    assert (back.scores_, back.losses_, back.ids_.tolist()) == (made.scores_, made.losses_, made.ids_.tolist())
    assert (back.seed, back.method, back.recipe) == (3, "CLNR", made.recipe_)
    provenance = back._result.model.provenance
    assert provenance == made._result.model.provenance
    assert provenance[:3] == (made.hold_out, "cpu", choose("cpu").precision)
    assert provenance.threads >= 1


@pytest.mark.parametrize("begun", ["float32", "bfloat16"])
@pytest.mark.full
def test_a_training_is_resumed_in_the_precision_that_it_began_in(tmp_path, monkeypatch, begun):
    monkeypatch.setattr("clnr.engine.choice.has_bfloat16", lambda: True)
    monkeypatch.setattr(Checkpoint, "seconds", 0.0)
    how = {"epochs": 5, "checkpoint": tmp_path / "state", "resume": True}
    monkeypatch.setenv("CLNR_PRECISION", begun)
    whole = embedder(**how).fit(tiny())
    # As on a machine that prefers the other one.
    monkeypatch.setenv("CLNR_PRECISION", {"float32": "bfloat16", "bfloat16": "float32"}[begun])
    again = embedder(**how).fit(tiny())
    assert again._result.model.provenance == whole._result.model.provenance
    assert again._result.model.provenance.precision == begun
    assert again.losses_ == whole.losses_
    assert (again.embedding_ == whole.embedding_).all()
    with pytest.raises(DataError, match=f"precision was {begun} and is .*; undo that, or start again without resume=True"):
        embedder(**how, precision={"float32": "bfloat16", "bfloat16": "float32"}[begun]).fit(tiny())


def test_a_reopened_model_keeps_what_decides_its_vectors_and_no_machine(tmp_path):
    made = embedder(hold_out=0.25, threads=2).fit(named(tiny()))
    made.save(tmp_path / "model")
    recipe = tmp_path / "model" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('device = "cpu"', 'device = "cuda"').replace("threads = 2", "threads = 999"))
    seal(tmp_path / "model")
    back = NodeEmbedder.load(tmp_path / "model")
    assert (back.hold_out, back.device, back.precision, back.threads) == (0.25, "auto", "auto", None)
    back = NodeEmbedder.load(tmp_path / "model", device="cpu")
    np.testing.assert_allclose(back.transform(tiny(seed=9)), made.transform(tiny(seed=9)), rtol=1e-5, atol=1e-6)


def test_similar_nodes_are_found_by_id_and_by_name():
    nodes = {"id": np.arange(40), "x": np.arange(40) % 7, "title": [f"Item {chr(97 + i % 26)}{i}" for i in range(40)]}
    edges = {"source": np.arange(40), "target": (np.arange(40) * 3 + 1) % 40}
    made = embedder().fit(read_tables(pa.table(edges), pa.table(nodes)))
    near = made.similar(5, k=3)
    unit = made.embedding_ / np.linalg.norm(made.embedding_, axis=1, keepdims=True)
    cosine = unit @ unit[5]
    cosine[5] = -2
    assert [name for name, _ in near] == np.argsort(-cosine)[:3].tolist()
    assert made.similar("item f5", k=3, names=True) == [(node, cosine, nodes["title"][node]) for node, cosine in near]
    with pytest.raises(DataError, match=r"no node 'item g5'; did you mean '\d+' \(Item "):
        made.similar("item g5")
    unnamed = embedder().fit(named(tiny()))
    assert unnamed.similar("n5", names=True) == [(*each, None) for each in unnamed.similar("n5")]


def test_hyper_parameters_can_be_given():
    some = NodeEmbedder("CLNR", recipe={"epochs": 2, "hidden": 8}, device="cpu").fit(tiny())
    assert (some.recipe_.epochs, some.recipe_.hidden, some.recipe_.dimension) == (2, 8, 128)
    made = NodeEmbedder("CLNR", dimension=16, epochs=2, device="cpu").fit(tiny())
    assert (made.recipe_.dimension, made.recipe_.epochs) == (16, 2)
    assert made.embedding_.shape[1] == 16
    asked = SMALL.but(sampled_nodes=10, moments="sampled", max_neighbors=2)
    sampled, of_all = (embedder("CLNR-mix").set_params(recipe=each).fit(tiny()) for each in (asked, asked.but(moments="all")))
    assert (sampled.recipe_.moments, sampled.recipe_.max_neighbors) == ("sampled", 2)
    assert (sampled.embedding_ != of_all.embedding_).any()
    # A whole recipe may have what a method has no use for.
    assert embedder("Raw").fit_transform(tiny()).shape == (40, 12)


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"method": "CLRN"}, UnknownName, "CLRN"),
        ({"seed": None}, RecipeError, "seed"),
        ({"resume": True}, RecipeError, "checkpoint=FILE"),
        ({"recipe": {"epoch": 3}}, UnknownName, "epoch"),
        ({"device": "tpu"}, UnknownName, "tpu"),
        ({"method": "Raw", "epochs": 3}, RecipeError, "Raw has no use for epochs"),
        ({"method": "dCLNR", "recipe": {"moments": "sampled"}}, RecipeError, "Whiten needs the rows of all nodes, so moments"),
    ],
)
def test_what_is_wrong_is_said_when_it_is_fitted(changes, kind, said):
    with pytest.raises(kind, match=said):
        NodeEmbedder(**{"device": "cpu", **changes}).fit(tiny())


def test_a_plan_says_what_fit_will_do(monkeypatch):
    made = NodeEmbedder("CLNR", epochs=7, device="cpu")
    plan = made.plan(tiny())
    assert plan.counts["nodes"] == 40
    assert {choice.key for choice in plan.choices} == {"dimension", "hidden", "edge_drop", "feature_mask", "structure"}
    assert str(plan).splitlines()[0].startswith("read: 40 nodes, 74 undirected edges, 12 features")
    assert json.loads(json.dumps(plan.to_dict()))["memory_bytes"] == plan.memory
    assert not hasattr(made, "embedding_")
    assert embedder(graph=tiny()).plan().counts == plan.counts


def test_it_is_evaluated_by_labels_only_if_asked():
    plain, judged = embedder().fit(tiny()), embedder(evaluate=True).fit(tiny())
    assert judged.scores_.keys() - plain.scores_.keys() == {
        "strict_accuracy",
        "strict_macro_f1",
        "validation_accuracy",
        "majority_accuracy",
    }
    assert {name: judged.scores_[name] for name in plain.scores_} == plain.scores_
    assert plain.baselines_ == {}
    assert {"Raw"} < judged.baselines_.keys() <= {"Raw", *(method.name for method in BASELINES)}
    assert all(scores.keys() >= {"link_auc", "strict_accuracy"} for scores in judged.baselines_.values())


def test_a_fit_goes_on_from_its_checkpoint_and_save_removes_it_but_no_other_file(tmp_path, monkeypatch):
    path, other = tmp_path / "state", tmp_path / "thesis"
    how = {"epochs": 9, "checkpoint": path}
    save = Checkpoint.save
    monkeypatch.setattr(Checkpoint, "seconds", 0.0)
    monkeypatch.setattr(Checkpoint, "save", lambda self, done, state: done == 9 or save(self, done, state))
    whole = embedder(**how).fit(tiny())
    with pytest.raises(DataError, match=r"seed was 0 and is 1.*start again without resume=True"):
        embedder(**how, seed=1, resume=True).fit(tiny())
    epochs, loss = [], Model.loss
    monkeypatch.setattr(Model, "loss", lambda *arguments: epochs.append(arguments[2].epoch) or loss(*arguments))
    made = embedder(**how, resume=True).fit(tiny())
    assert epochs == [8]
    assert (made.embedding_ == whole.embedding_).all()
    assert made.losses_ == whole.losses_
    made.save(tmp_path / "model")
    assert not path.exists()
    other.write_text("years of work")
    with pytest.raises(DataError, match="is not a checkpoint of clnr"):
        embedder(checkpoint=other).fit(tiny())
    assert other.read_text() == "years of work"


def test_a_report_is_written(tmp_path):
    made = embedder().fit((RING, AGES))
    plain = made.report(tmp_path / "plain.html")
    assert plain == tmp_path / "plain.html"
    assert "<title>graph</title>" in plain.read_text()
    named = made.report(str(tmp_path / "named.html"), title="Towns & roads", name="TOWN").read_text()
    assert "<title>Towns &amp; roads</title>" in named
    assert '"names":["Town 0"' in named
    assert '"ids":["0","1","2","3","4","5"]' in named
    with pytest.raises(UnknownName, match="unknown column 'village'; known: id, age, town"):
        made.report(tmp_path / "named.html", name="village")


def test_unfitted_it_says_so():
    for call in ("transform", "save", "similar", "report"):
        with pytest.raises(NotFittedError):
            getattr(embedder(), call)("x")


CHECKS = [
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
]


@pytest.mark.parametrize("name", [name for name in CHECKS if hasattr(estimator_checks, name)])
def test_estimator_checks_that_apply(name):
    getattr(estimator_checks, name)("NodeEmbedder", NodeEmbedder())


def test_a_clone_is_unfitted_and_gives_the_same():
    made = embedder(seed=2).fit(tiny())
    assert made.get_feature_names_out().tolist() == [f"nodeembedder{i}" for i in range(8)]
    copy = clone(made)
    assert not hasattr(copy, "embedding_")
    assert copy.get_params() == made.get_params()
    assert (copy.fit_transform(tiny()) == made.embedding_).all()


def test_what_follows_it_is_cross_validated_over_nodes():
    graph = named(tiny())
    pipeline = make_pipeline(embedder(graph=graph), LogisticRegression(max_iter=200))
    scores = cross_val_score(pipeline, graph.ids, graph.labels, cv=3)
    z = embedder().fit_transform(graph)
    right = cross_val_score(LogisticRegression(max_iter=200), z, graph.labels, cv=3)
    np.testing.assert_allclose(scores, right)
