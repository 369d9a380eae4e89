"""A contract that every method keeps: it builds, its loss falls, it embeds, it repeats bit for bit, on odd graphs too."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import pickle
import tomllib

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr.augment.augmentations import AdaptiveDropEdges, DropEdges, EncoderDropout, MaskFeatures
from clnr.datasets import DATASETS
from clnr.engine import Reference, View, cpu_engine
from clnr.engine.cpu.cpu_engine import CompiledEngine
from clnr.engine.gpu.cuda_engine import KernelEngine
from clnr.errors import ClnrError, MethodError, UnknownName
from clnr.experiments.learn import supervision_of
from clnr.experiments.run import run
from clnr.graph import Graph, Split
from clnr.methods import BASELINES, CLNR, METHODS, RAW, SVD_MIX, UNIFORM, UNTRAINED, Architecture, find
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe, parse, recipe_keys
from clnr.methods.settings import Probe, Training
from clnr.nn.hyper_parameters import declared, hyper_parameter
from clnr.nn.inputs import Cleora
from clnr.nn.objectives import Objective, StepContext, Supervision
from clnr.nn.postprocess import Head, Postprocess, Standardize
from clnr.training.loop import fit
from tests.cases import in_tiers, tier_of
from tests.conftest import tiny

SMALL = Recipe(hidden=16, dimension=8, heads=2, epochs=12, learning_rate=1e-2, sampled_nodes=25)
ENGINE = cpu_engine()
ODD = {
    "an isolated node": tiny(),
    "no edges": Graph.from_edges([], [], np.random.default_rng(0).random((30, 4)), labels=np.arange(30) % 2),
    "one feature": tiny(features=1),
    "two nodes, one of them linked to itself": Graph.from_edges([0, 0], [0, 1], np.eye(2), labels=[0, 1]),
    "features all zero": Graph.from_edges([0], [1], np.zeros((20, 3)), undirected=True, labels=np.arange(20) % 2),
    "constant features": dataclasses.replace(tiny(), features=np.full((40, 5), 3.25, np.float32)),
    "one feature of one node": dataclasses.replace(
        tiny(), features=sp.csr_array(([1.0], ([3], [3])), shape=(40, 300), dtype=np.float32)
    ),
    "more features than nodes": dataclasses.replace(tiny(), features=np.random.default_rng(1).random((40, 700), np.float32)),
    "weighted and directed": tiny(weighted=True, undirected=False),
    "sparse features": tiny(sparse=True),
}

# How many columns come from how many features, where those may be fewer than the recipe's 8.
WIDEST = {
    "Raw": lambda features: features,
    "SVD": lambda features: min(8, features),
    "SVD-propagated": lambda features: min(8, features),
    "SVD-both": lambda features: min(8, 2 * features),
    "SVD-hops": lambda features: min(8, 3 * features),
}

# The paper's table of architectures, typed from its print: target, MI estimator, head, asymmetric, negative samples.
TABLE_1 = """
DGI     N-G yes no  no  yes
MVGRL   N-G yes yes yes yes
BGRL    N-N no  yes yes no
CCA-SSG F-F no  no  no  no
GRACE   N-N no  yes no  yes
CLNR    N-N no  no  no  yes
"""


def planted(nodes=120, classes=4):
    """Classes that features and edges both tell of, so that there is something to learn."""
    random = np.random.default_rng(0)
    labels = np.arange(nodes) % classes
    source = random.integers(0, nodes, 6 * nodes)
    target = random.integers(0, nodes // classes, 6 * nodes) * classes + labels[source]
    apart = source != target
    x = random.random((nodes, 24)) < 0.1 + 0.4 * (np.arange(24) % classes == labels[:, None])
    return Graph.from_edges(source[apart], target[apart], x, undirected=True, labels=labels, name="planted")


def lesson_in(method, graph):
    """The first third of the nodes to learn from and the second to stop by, for a method that is taught."""
    if not method.supervised:
        return None
    nodes, labels = torch.arange(graph.num_nodes), torch.tensor(graph.labels)
    train, validation = nodes[0::3], nodes[1::3]
    return Supervision(train, labels[train], validation, labels[validation])


def trained(method, graph, recipe=SMALL, seed=0):
    model = method.build(recipe)
    _, device_graph = model.fit_inputs(ENGINE.to_device(graph), ENGINE)
    fitted = fit(model, ENGINE, device_graph, recipe, seed, supervision=lesson_in(method, graph))
    return fitted, model.embed(fitted.parameters, ENGINE, View(device_graph))


def kinds():
    for method in METHODS.values():
        for encoder in ("gcn", "mlp") if "encoder" in method.keys else ("gcn",):
            yield pytest.param(method, encoder, id=f"{method.name}-{encoder}", marks=tier_of(method.name))


@pytest.mark.parametrize(("method", "encoder"), [*kinds()])
def test_its_loss_falls(method, encoder):
    recipe = SMALL.but(encoder=encoder, sampled_nodes=0, edge_drop=0.3, hidden=32, dimension=16, epochs=30)
    fitted, _ = trained(method, planted(), recipe)
    assert len(fitted.losses) == (30 if method.objective else 0)
    if method.objective is not None:
        assert fitted.losses[-8:].mean() < fitted.losses[:8].mean() - 0.05


@pytest.mark.parametrize(("method", "encoder"), [*kinds()])
def test_it_repeats_bit_for_bit_whatever_ran_between_and_another_seed_is_another_run(method, encoder, threads):
    recipe = SMALL.but(encoder=encoder, epochs=4, dropout=0.2, patience=3)
    torch_state = torch.random.get_rng_state()
    first, z = trained(method, tiny(), recipe)
    _, other = trained(method, tiny(), recipe, seed=1)
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    torch.manual_seed(123)
    second, again = trained(method, tiny(), recipe)
    assert torch.equal(z, again)
    assert torch.equal(first.losses, second.losses)
    assert torch.equal(z, other) is (method in (RAW, SVD_MIX, *BASELINES))


@pytest.mark.parametrize(("method", "encoder"), [*kinds()])
def test_every_method_survives_odd_graphs(method, encoder):
    samplings = [{}, *([{"sampled_nodes": 1, "moments": "sampled", "max_neighbors": 1}] if method.samples else [])]
    for name, sampled in itertools.product(ODD, samplings):
        graph = ODD[name]
        fitted, z = trained(method, graph, SMALL.but(encoder=encoder, epochs=2, **sampled))
        assert z.shape == (graph.num_nodes, WIDEST.get(method.name, lambda _: 8)(graph.num_features)), name
        assert z.isfinite().all(), name
        assert fitted.losses.isfinite().all(), name


SPLIT = Split(np.arange(0, 20), np.arange(20, 30), np.arange(30, 60))


def split_without(part, missing):
    """A graph of three classes of which one is not among a part's nodes."""
    graph = tiny(60, 150)
    nodes = SPLIT._asdict()
    nodes[part] = nodes[part][graph.labels[nodes[part]] != missing]
    return dataclasses.replace(graph, split=Split(**nodes))


@pytest.mark.parametrize("missing", [0, 2])
@pytest.mark.parametrize("part", ["train", "validation"])
@pytest.mark.parametrize("method", [CLNR, *(method for method in METHODS.values() if method.supervised)])
def test_a_class_may_be_missing_from_what_is_learned_from_or_chosen_by(method, part, missing):
    recipe = SMALL.but(epochs=3, patience=2, probe_steps=10)
    result = run(method, split_without(part, missing), recipe=recipe, device="cpu")
    assert 0 <= result.strict <= result.paper <= 100
    assert 0 <= result.validation <= 100


@pytest.mark.parametrize("method", in_tiers(METHODS.values()))
def test_any_number_of_epochs_will_do(method):
    """With the method's own warm-up, schedule and patience; what is not trained knows of none."""
    for epochs in (0, 1, 2, 3) if method.objective else (0, 3):
        recipe = preset(method, "toy").recipe.but(hidden=16, dimension=8, heads=2, epochs=epochs, probe_steps=5)
        result = run(method, tiny(60, 150), recipe=recipe, device="cpu")
        assert result.epochs == (epochs if method.objective else 0)
        assert (result.epoch_ms is None) is (result.epochs == 0)
        assert np.isfinite([result.alignment, result.uniformity, result.effective_rank]).all()


def test_the_papers_table_of_architectures_follows_from_the_declarations():
    for line in TABLE_1.strip().splitlines():
        name, target, *traits = line.split()
        assert METHODS[name].architecture() == Architecture(target, *(trait == "yes" for trait in traits)), name
    assert RAW.architecture() is UNTRAINED.architecture() is None


@pytest.mark.parametrize("name", ["nCLNR", "dCLNR", "rCLNR", "GCLNR", "Untrained"])
def test_the_papers_ablation_shares_clnrs_recipe(name):
    for dataset in DATASETS:
        shipped = preset(METHODS[name], dataset)
        assert (shipped.recipe, shipped.row, shipped.published) == (preset(CLNR, dataset).recipe, "CLNR", None), dataset


# -- keys ------------------------------------------------------------------------------------------------------------------

# Numbers at which every key has something to change, and another value for each.
FROM_VALUES = """
layers=2 hidden=6 dimension=5 heads=2 head_width=7 epochs=2 learning_rate=0.02 weight_decay=0.1 sampled_nodes=20
moments=sampled dropout=0.3 momentum=0.8 diffusion_error=1e-2 probe_steps=3
"""
TO_VALUES = """
encoder=mlp layers=3 hidden=7 dimension=6 epochs=3 learning_rate=0.03 warmup=0.5 schedule=cosine weight_decay=0.2
weight_decay_mode=decoupled patience=1 temperature=0.3 sampled_nodes=10 edge_drop=0.2 edge_drop_2=0.3 edge_noise=0.3
edge_drop_mode=pairs feature_mask=0.5 feature_mask_2=0.6 feature_mask_mode=elements centrality=pagerank head_width=8
decorrelation=0.1 momentum=0.5 ppr_alpha=0.5 diffusion_error=0.1 diffusion_scale=columns heads=3 output_heads=2 dropout=0.5
probe_steps=4 probe_learning_rate=0.02 probe_weight_decay=0.3 structure=3 walk_steps=3 power=3 degree_power=0.5 hops=1
hop_rows=unit reduced=4 walk_columns=5 edge_weight=measured mix=own feature_weights=none moments=all max_neighbors=2
"""
FROM, TO = Recipe.of(parse(FROM_VALUES.split())), parse(TO_VALUES.split())


@pytest.fixture
def told(monkeypatch):
    """What a run measures, but for its times; and the numbers that its probe was given."""
    asked = []
    module = importlib.import_module("clnr.experiments.run")
    probes = module.probes

    def listening(tasks, labels, steps):
        asked.extend((steps, task.learning_rate, task.weight_decay) for task in tasks)
        return probes(tasks, labels, steps)

    monkeypatch.setattr(module, "probes", listening)

    graph = tiny(60, 150)

    def tell(method, recipe):
        asked.clear()
        result = run(method, graph, recipe=recipe, device="cpu")
        return result.alignment, result.uniformity, result.effective_rank, result.validation, result.epochs, *asked

    return tell


def test_another_value_is_tried_for_every_key():
    assert TO.keys() == recipe_keys().keys()
    assert all(getattr(FROM, name) != value for name, value in TO.items())


# Of methods with the same parts for numbers, one stands for all; likewise for what training and the probe declare.
EXAMPLES = {method.keys: method for method in METHODS.values()}.values()
COMMON = declared([Training, Probe])
COMMON_EXAMPLES = {tuple(name for name in method.keys if name in COMMON): method for method in EXAMPLES}.values()


@pytest.mark.parametrize("method", in_tiers(EXAMPLES))
@pytest.mark.full
def test_its_keys_are_those_that_have_a_say(method, told):
    """The run changes if and only if the method lists the key: those are changed one at a time, all others together."""
    # What samples no nodes has no say in how.
    whole = {} if method.whole_part is None else {"moments": "all", "max_neighbors": 0}
    start = FROM.but(**whole)
    before = told(method, start)
    tried = TO.keys() - whole.keys() - (set() if method in COMMON_EXAMPLES else COMMON.keys())
    keys = [name for name in TO if name in method.keys and name in tried]
    assert [name for name in keys if told(method, start.but(**{name: TO[name]})) != before] == keys
    others = {name: value for name, value in TO.items() if name not in method.keys and name not in whole}
    assert told(method, start.but(**others)) == before, [
        name for name, value in others.items() if told(method, start.but(**{name: value})) != before
    ]


def test_keys_are_a_recipes_each_declared_and_documented_with_its_part():
    for method in METHODS.values():
        probe = {"probe_steps", "probe_learning_rate", "probe_weight_decay"}
        assert not probe & set(method.keys) if method.supervised else probe <= set(method.keys)
        for part in method.all_parts:
            # The blocks of a read-out are the method's own choice.
            assert {field.name for field in dataclasses.fields(part)} - {"blocks"} <= set(declared([part]))
    assert {name for method in METHODS.values() for name in method.keys} == set(recipe_keys())
    for name, each in recipe_keys().items():
        assert each.meaning, name
        assert each.source, name
        assert each.choices or each.low < each.high, name


# -- declarations ----------------------------------------------------------------------------------------------------------


def test_places_that_a_row_does_not_name_are_its_parents():
    mix = METHODS["CLNR-mix"]
    assert mix.parts()["inputs"] == ["WeightFeatures", "AddStructure"]
    assert mix.parts()["readout"] == ["Hops", "OwnFeatures", "PropagatedFeatures", "Walks", "EdgeWeight", "Mix"]
    plain = mix.but("plain", "its encoders alone", readout=())
    assert plain.inputs == mix.inputs
    assert plain.build(SMALL).readout is None
    assert [type(block).__name__ for block in mix.build(SMALL).readout.blocks] == mix.parts()["readout"]
    assert mix.build(SMALL.but(hops=1, dimension=7)).readout.dimension == 7
    assert mix.build(SMALL.but(hops=1)).readout.blocks[0].hops == 1
    assert set(mix.keys) > {"hops", "reduced", "walk_columns", "structure", "dimension"}
    assert all(method.objective is None and not method.supervised for method in BASELINES)


@dataclasses.dataclass(frozen=True)
class Scale(Postprocess):
    """A part with a constant that no recipe has."""

    factor: float = 3.0

    def init(self, width, key):
        return {"weight": torch.ones(width)}

    def __call__(self, parameters, z):
        return z * parameters["weight"] * self.factor


@dataclasses.dataclass(frozen=True)
class Sharpen(Scale):
    """A part with hyper-parameters that no other has."""

    sharpness: float = hyper_parameter(0.5, 0.0, 10.0, "of rows", source="ours", second_view=True)
    kind: str = hyper_parameter("soft", choices=("soft", "hard"), meaning="of sharpening")

    def __call__(self, parameters, z):
        return z * parameters["weight"] * self.sharpness


@dataclasses.dataclass(frozen=True)
class Tilt(Scale):
    tilt: int = hyper_parameter(1, 0, 3, "of rows")


SHARP = CLNR.but("Sharp", "", postprocess=(Sharpen,))


def test_a_part_brings_its_hyper_parameters():
    assert set(SHARP.keys) - set(CLNR.keys) == {"sharpness", "sharpness_2", "kind"}
    recipe = preset(SHARP, "cora").recipe
    assert recipe.to_dict() == preset(CLNR, "cora").recipe.to_dict() | {"sharpness": 0.5, "sharpness_2": None, "kind": "soft"}
    assert preset(SHARP, "cora").sources["sharpness"] == "ours"
    assert SHARP.build(recipe.but(sharpness=2)).postprocess == (Sharpen(3.0, 2.0, "soft"),)
    assert recipe.but(sharpness_2=4).of_view(1).sharpness == 4.0
    assert Recipe.of(tomllib.loads(recipe.but(kind="hard").to_toml()), SHARP) == recipe.but(kind="hard")
    assert pickle.loads(pickle.dumps(recipe.but(epochs=7))) == recipe.but(epochs=7)
    for changes, words in (({"sharpness": 11}, "sharpness must be from 0 to 10"), ({"kind": "sof"}, "did you mean 'soft'")):
        with pytest.raises(ClnrError, match=words):
            recipe.but(**changes)
    with pytest.raises(UnknownName, match="unknown recipe key 'sharpnes'; did you mean 'sharpness'"):
        recipe.but(sharpnes=1)
    assert Recipe().to_dict().keys() == recipe_keys().keys()
    with pytest.raises(UnknownName, match="unknown recipe key 'sharpness'"):
        Recipe(sharpness=1)


def test_a_recipe_that_lacks_a_methods_keys_gets_their_defaults():
    assert SHARP.build(SMALL).postprocess == (Sharpen(),)
    quick = SMALL.but(epochs=1, probe_steps=5)
    ended = run(SHARP, tiny(60, 150), recipe=quick, device="cpu")
    assert ended.recipe == quick.to_dict() | {"sharpness": 0.5, "sharpness_2": None, "kind": "soft"}
    assert quick.of_method(CLNR) is quick
    assert quick.of_method(SHARP).of_method(CLNR) == quick.of_method(SHARP)
    other = CLNR.but("Other", "", postprocess=(Tilt,))
    assert list(quick.of_method(SHARP).of_method(other).to_dict())[-2:] == ["kind", "tilt"]


def test_a_registered_methods_keys_are_every_recipes(monkeypatch):
    monkeypatch.setitem(METHODS, "Sharp", SHARP)
    assert Recipe(sharpness=1).sharpness == 1.0
    assert parse(["sharpness=2", "kind=hard", "sharpness_2=none"]) == {"sharpness": 2.0, "kind": "hard", "sharpness_2": None}


def test_names_in_any_case():
    assert find("clnr") is CLNR
    assert find("CLNR") is CLNR
    assert find("grace-ALL") is METHODS["GRACE-all"]
    with pytest.raises(UnknownName, match="unknown method 'CLRN'; did you mean 'CLNR'"):
        find("CLRN")
    assert len({name.casefold() for name in METHODS}) == len(METHODS)


# -- mistakes in a declaration ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Lacks(Objective):
    def __call__(self, parameters, views, step):
        return views[0].sum()


class Bare(Postprocess):
    def __call__(self, parameters, z):
        return z


def declaring(name, *field):
    return dataclasses.make_dataclass(name, [field], bases=(Bare,), frozen=True)


Contrary = declaring("Contrary", "layers", int, hyper_parameter(3, 1, 64, "layers of the encoder", source="paper, section 3"))
OutOfRange = declaring("OutOfRange", "sharpness", float, hyper_parameter(2.0, 0.0, 1.0, "of an edge"))
Unfilled = declaring("Unfilled", "sharpness", float)


@dataclasses.dataclass(frozen=True)
class Unfinished(Postprocess):
    pass


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objective": Lacks}, "New, objective: Lacks does not say its target"),
        ({"postprocess": (Standardize(),)}, r"New, postprocess: Standardize\(\) is not a class; give the Postprocess itself"),
        ({"postprocess": (Bare,)}, r"New, postprocess: Bare is not declared with @dataclass\(frozen=True\)"),
        ({"postprocess": (Contrary,)}, "New: .*Backbone and .*Contrary declare layers differently; share one declaration, or"),
        ({"postprocess": (OutOfRange,)}, "New, postprocess: OutOfRange declares a default that .* from 0 to 1, not 2.0"),
        ({"postprocess": (Unfilled,)}, "New, postprocess: Unfilled does not declare sharpness, as in: sharpness: float ="),
        ({"postprocess": (Unfinished,)}, "New, postprocess: Unfinished does not define __call__"),
        ({"views": UNIFORM}, "New: views are a tuple of one tuple of parts for each view"),
        ({"views": (UNIFORM, (Standardize,))}, "New, views: Standardize is not a subclass of Augmentation"),
        ({"inputs": Cleora}, "New: inputs is a tuple of parts, not .*Cleora"),
        ({"head": Bare}, "unknown place of a method 'head'; .*known: encoder, views, postprocess, objective, inputs, readout"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value),
)
def test_a_mistake_in_a_declaration_is_told_where_it_was_made(changes, said):
    with pytest.raises(ClnrError, match=said):
        CLNR.but("New", "", **changes)


@pytest.mark.parametrize("twice", [(DropEdges, AdaptiveDropEdges), (MaskFeatures, EncoderDropout)], ids=["edges", "features"])
def test_two_parts_that_change_the_same_thing_are_refused(twice):
    method = CLNR.but("New", "", views=(twice, twice))
    recipe = Recipe(hidden=4, dimension=3, epochs=1, dropout=0.5)
    with pytest.raises(MethodError, match=r"two parts of one view both set its (drop|mask)"):
        run(method, tiny(60, 150), recipe=recipe)
    run(method, tiny(60, 150), recipe=recipe.but(edge_drop=0, feature_mask=0))


def test_keys_that_only_measure_are_told_apart():
    assert METHODS["CLNR"].measuring == METHODS["BGRL"].measuring == ()
    rates = ("edge_drop", "edge_drop_2", "edge_drop_mode", "feature_mask", "feature_mask_2", "feature_mask_mode")
    assert METHODS["DGI"].measuring == METHODS["GCN"].measuring == rates
    assert set(rates) <= set(METHODS["DGI"].keys)


# -- rows that are not formed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["gcn", "mlp"])
@pytest.mark.parametrize("name", in_tiers(name for name, each in METHODS.items() if each.objective and not each.supervised))
def test_what_is_not_formed_changes_nothing(monkeypatch, name, encoder):
    """The loss and its gradients, with few of many nodes sampled, as if all rows had been formed."""
    graph, method = tiny(80, 200), METHODS[name]
    model = method.build(Recipe(encoder=encoder, layers=3, hidden=8, dimension=8, sampled_nodes=9))
    device_graph = ENGINE.to_device(graph)
    step = StepContext(ENGINE, device_graph, 1, 4, 10)

    def learned():
        parameters = {key: value.requires_grad_() for key, value in model.init(graph.num_features, 1).items()}
        loss = model.loss(parameters, step)
        return loss, torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)

    late = learned()
    monkeypatch.setattr("clnr.nn.lazy_linear._ROWS_PER_SAMPLED_ROW", 1e9)
    torch.testing.assert_close(late, learned(), rtol=1e-4, atol=1e-5)


def test_a_head_sees_only_the_rows_that_are_asked_for(monkeypatch):
    seen = []
    call = Head.__call__
    monkeypatch.setattr(Head, "__call__", lambda self, parameters, z: seen.append(len(z)) or call(self, parameters, z))
    for name in ("GRACE", "GCLNR"):
        model = METHODS[name].build(SMALL.but(sampled_nodes=9))
        device_graph = ENGINE.to_device(tiny(80, 200))
        model.loss(model.init(device_graph.graph.num_features, 0), StepContext(ENGINE, device_graph, 0, 0, 1))
    assert seen == [9, 9, 80, 80]


# Between them they have every part of the paper's methods but for a diffusion's, and a read-out of features.
QUICK = ("CLNR", "GCLNR", "rCLNR", "CCA-SSG", "GCA", "BGRL", "DGI", "VGAE", "GAT", "Spectral", "SVD-mix")


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(each, marks=[pytest.mark.slow if name not in QUICK else pytest.mark.full] * (each is not CLNR))
        for name, each in METHODS.items()
    ],
    ids=METHODS,
)
@pytest.mark.full
def test_it_learns_the_same_by_kernels_in_either_precision(method, monkeypatch):
    """By Triton's interpreter where there is no GPU."""
    pytest.importorskip("clnr.engine.gpu.triton", reason="Triton is not installed")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    monkeypatch.setattr(KernelEngine, "dense_above", 1.0)
    assert_learns_alike(
        method, tiny(18, 32, sparse=True), Reference(device), KernelEngine(device), KernelEngine(device, torch.bfloat16)
    )


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", in_tiers())
def test_it_learns_the_same_on_a_cpu_in_bfloat16(name, sparse, monkeypatch):
    monkeypatch.setattr(CompiledEngine, "dense_above", 1.0)
    assert_learns_alike(METHODS[name], tiny(sparse=sparse), cpu_engine(), CompiledEngine(torch.bfloat16))


def assert_learns_alike(method, graph, *engines):
    """Each loss of an epoch with dropout and all is the first engine's, as near as the precision lets it be."""
    recipe = Recipe(
        hidden=16, dimension=3, epochs=1, sampled_nodes=10, dropout=0.2, heads=2, reduced=4, walk_columns=2, walk_steps=2
    )
    losses = []
    for engine in engines:
        model, supervision = method.build(recipe), None
        if method.supervised:
            supervision, _ = supervision_of(graph, 0, engine.device)
        _, device_graph = model.fit_inputs(engine.to_device(graph), engine)
        fitted = fit(model, engine, device_graph, recipe, 0, supervision=supervision)
        losses.append(fitted.losses)
        within = 2e-2 if engine.dtype == torch.bfloat16 else 1e-4
        torch.testing.assert_close(losses[0], losses[-1], rtol=within, atol=within if within > 1e-2 else 1e-5)
        for each in {engine, engine.float32}:
            z = model.embed(fitted.parameters, each, View(device_graph))
            assert z.dtype == torch.float32
            assert z.isfinite().all()


@pytest.mark.parametrize("name", ["CLNR", "rCLNR", "GCLNR", "CCA-SSG", "BGRL", "MVGRL"])
def test_the_reference_runs_no_kernel_that_it_is_the_oracle_of(name, monkeypatch):
    """Not on a GPU, either, where its tensors are those of the kernels' engine."""
    kernels = pytest.importorskip("clnr.engine.gpu.triton", reason="Triton is not installed")
    for each in [name for name, value in vars(kernels).items() if callable(value)]:
        monkeypatch.setattr(kernels, each, None)
    engine = Reference(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    for sampled in (0, 9):
        recipe = SMALL.but(sampled_nodes=sampled, epochs=2)
        model, device_graph = METHODS[name].build(recipe), engine.to_device(tiny(80, 200))
        fitted = fit(model, engine, device_graph, recipe, 0)
        assert model.embed(fitted.parameters, engine, View(device_graph)).isfinite().all()
