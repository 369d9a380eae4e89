"""A method's parts with their hyper-parameters, as one function of parameters and a graph."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from clnr import rng
from clnr.augment.augmentations import Augmentation
from clnr.engine import DeviceGraph, Engine, Neighbors, Operators, View
from clnr.engine.products import at_least_float32
from clnr.graph.csr import Array
from clnr.nn.encoders.encoder import Encoder
from clnr.nn.inputs import Input
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.nn.lazy_linear import LazyLinear
from clnr.nn.objectives import Objective, StepContext
from clnr.nn.postprocess import Postprocess
from clnr.nn.readout import Readout
from clnr.nn.whole_rows import WholeRows
from clnr.support.processes.workers import ALONE, Workers

MEASURED_NODES = 1 << 14
"""The most nodes whose rows are measured for the statistics of batch normalisation."""


@dataclass(frozen=True)
class Model:
    """A method's parts with their hyper-parameters: pure functions of parameters, a graph on a device, and a seed."""

    encoder: Encoder
    views: tuple[tuple[Augmentation, ...], ...]
    postprocess: tuple[Postprocess, ...]
    objective: Objective | None
    inputs: tuple[Input, ...] = ()
    readout: Readout | None = None

    def fit_inputs(self, device_graph: DeviceGraph, engine: Engine) -> tuple[Parameters, DeviceGraph]:
        """What the inputs learn from the training graph, and that graph with the features that the encoder is given.

        Methods with the same inputs share both.
        """

        def fit() -> tuple[Parameters, DeviceGraph]:
            parameters, given = Parameters(), device_graph
            for place, part in self.input_places():
                fitted = part.fit(given, engine)
                parameters |= add_prefix(place, fitted)
                given = part(fitted, given, engine)
            return parameters, given

        if not self.input_places():
            return Parameters(), device_graph
        return device_graph.once(("inputs", self.inputs), fit)

    def empty_inputs(self, features: int, nodes: int) -> Parameters:
        """Parameters of the shapes that ``fit_inputs`` learns, on torch's default device."""
        parameters: Parameters = {}
        for place, part in self.input_places():
            parameters |= add_prefix(place, part.empty(features, nodes))
            features = part.width(features)
        return parameters

    def prepare(self, parameters: Parameters, device_graph: DeviceGraph, engine: Engine) -> DeviceGraph:
        """A graph with the features that the encoder is given. All other functions here take a graph that is prepared."""
        for place, part in self.input_places():
            device_graph = part(sub_dict(parameters, place), device_graph, engine)
        return device_graph

    def input_width(self, features: int) -> int:
        """How many features a node of a prepared graph has."""
        return functools.reduce(lambda width, part: part.width(width), self.inputs, features)

    def input_places(self) -> list[tuple[str, Input]]:
        """The inputs that change something, and where each has its parameters."""
        return [(f"input.{i}", part) for i, part in enumerate(self.inputs) if not part.changes_nothing]

    def init(self, inputs: int, seed: int) -> Parameters:
        """Fresh parameters, on torch's default device: the same numbers on every device."""
        parameters = add_prefix("encoder", self.encoder.init(inputs, rng.key(seed, "encoder")))
        width = self.encoder.width(inputs)
        stages: list[tuple[str, Postprocess | Objective]] = [*self._stages()]
        if self.objective is not None:
            stages.append(("objective", self.objective))
        for place, part in stages:
            parameters |= add_prefix(place, part.init(width, rng.key(seed, place)))
        return parameters

    def whole_graph_reason(self, nodes: int) -> str | None:
        """Why a graph of ``nodes`` nodes must be in memory, and cannot be trained and embedded from files; None if it can."""
        inputs = [part for _, part in self.input_places() if not part.by_rows]
        for part in (*inputs, *(part for view in self.views for part in view if part.whole_graph)):
            return f"{type(part).__name__} looks at all of the graph"
        if self.encoder.num_outputs and not self.encoder.samples:
            return f"{type(self.encoder).__name__} needs the rows of all nodes"
        if self.objective is not None and not self.objective.takes_some(nodes):
            return "each step computes the rows of all nodes, unless moments=sampled and sampled_nodes is below their number"
        return None

    def embed_layer(self, parameters: Parameters, operators: Operators) -> Tensor:
        """The embedding of some nodes, without a read-out, from operators that give their rows.

        From ``LayerOperators`` it is that of a block, in its last layer's pass; before that, ``LayerEndError`` has the layer's
        rows.
        """
        return at_least_float32(self.encoder.embed(sub_dict(parameters, "encoder"), [operators]))

    def augment(self, device_graph: DeviceGraph, seed: int, stream: str, epoch: int | Tensor) -> list[View]:
        """The views of one epoch of a random stream: ``train``, or another name for views that training never saw."""
        seen = []
        for index, augmentations in enumerate(self.views):
            view = View(device_graph)
            if self.objective is not None and self.objective.max_neighbors:
                key = rng.key(seed, stream, index, "neighbors", epoch)
                view = view.but(neighbors=Neighbors(key, self.objective.max_neighbors))
            for augmentation in augmentations:
                view = augmentation(view, rng.key(seed, stream, index, augmentation.stream, epoch))
            seen.append(view)
        return seen

    def eval_views(self, view: View) -> list[View]:
        """A view after the deterministic augmentations of each of the method's views, without duplicates."""
        deterministic = dict.fromkeys(
            tuple(augmentation for augmentation in augmentations if augmentation.deterministic) for augmentations in self.views
        )
        return [
            functools.reduce(lambda seen, augmentation: augmentation(seen, rng.key(0)), augmentations, view)
            for augmentations in deterministic
        ]

    def project(
        self,
        parameters: Parameters,
        engine: Engine,
        views: list[View],
        nodes: Tensor | None = None,
        sampled: bool = False,
        draws: Tensor | None = None,
        workers: Workers = ALONE,
    ) -> list[Tensor]:
        """The views' rows as the objective sees them: of all nodes, or of some, the columns' moments being those of all.

        With ``sampled`` the moments are those of ``nodes``, and of other rows only those are computed that these need; where
        ``workers`` share the step, they are those of all workers' nodes. ``draws`` are the nodes of all epochs, where known.
        """

        def encode(operators: Operators, shared: Parameters, index: int) -> list[Tensor]:
            operators.dense = operators.dense.among(workers)
            encoded = self.encoder.rows(sub_dict(shared, "encoder"), operators, index)
            return [self._postprocessed(shared, rows, None if sampled else nodes) for rows in encoded]

        at_once = [views] if self.encoder.pure else [[view] for view in views]
        per_view = [rows for some in at_once for rows in engine.map_views(encode, some, parameters, nodes, sampled, draws)]
        return [rows for of_all_views in zip(*per_view, strict=True) for rows in of_all_views]

    def _postprocessed(self, parameters: Parameters, rows: LazyLinear, nodes: Tensor | None) -> Tensor:
        """One view's rows after all stages.

        Rows that are not wanted are left out as early as possible: after the last stage that looks at whole columns, or from
        the start where all such stages need only the columns' moments.
        """
        stages = self._stages()
        last = sum(any(part.columns for _, part in stages[i:]) for i in range(len(stages)))
        moments_alone = all(part.of_moments for _, part in stages[:last])
        if nodes is not None and (not last or (moments_alone and rows.sampling_pays(len(nodes)))):
            rows, nodes = rows.rows(nodes), None
        for i, (place, part) in enumerate(stages):
            if nodes is not None and i == last:
                rows, nodes = rows.rows(nodes), None
            rows = part.apply(sub_dict(parameters, place), rows)
        return (rows if nodes is None else rows.rows(nodes)).materialize()

    def read_ahead(self, step: StepContext) -> None:
        """Begin to read what a coming step needs, where its graph is in blocks."""
        assert self.objective is not None
        count = step.device_graph.graph.num_nodes
        nodes = self.objective.nodes(count, step) if self.objective.sampled_moments else None
        if nodes is not None:
            share = step.workers.sharing(len(nodes)).share(nodes, step.engine.device)
            assert share is not None
            step.engine.read_ahead(self.augment(step.device_graph, step.seed, "train", step.epoch), share)

    def loss(self, parameters: Parameters, step: StepContext) -> Tensor:
        """The objective of one epoch; where workers share it, this one's part."""
        assert self.objective is not None
        views = self.augment(step.device_graph, step.seed, "train", step.epoch)
        count, sampled = step.device_graph.graph.num_nodes, self.objective.sampled_moments
        nodes = self.objective.nodes(count, step)
        # Where a GPU counts epochs, memory is set aside once for all of them.
        known = sampled and nodes is not None and isinstance(step.epoch, Tensor) and step.workers.alone
        draws = self.objective.all_nodes(count, step) if known else None
        workers = step.workers.sharing(count if nodes is None else len(nodes))
        share = workers.share(nodes, step.engine.device)
        if sampled:
            parameters = parameters | {name: parameters[name].detach() for name in self._without_effect}
        with self.encoder.training(rng.key(step.seed, "encoder", "train", step.epoch), step.engine.device):
            rows = self.project(parameters, step.engine, views, share, sampled, draws, workers)
        step = dataclasses.replace(step, workers=workers)
        return self.objective(sub_dict(parameters, "objective"), rows, step)

    @property
    def _without_effect(self) -> list[str]:
        """Parameters whose gradient is zero up to rounding, which Adam would take for a direction: another one each time."""
        ignored = self.postprocess and self.postprocess[0].ignores_shifts
        return [f"encoder.{name}" for name in self.encoder.shifts] if ignored else []

    def learns(self, name: str) -> bool:
        """Whether gradients change one of its parameters."""
        place, _, rest = name.partition(".")
        return place != "encoder" or self.encoder.learns(rest)

    def learned(self, parameters: Parameters) -> Parameters:
        """Those of its parameters that have gradients in a sampled step."""
        without = self._without_effect
        return {name: value for name, value in parameters.items() if self.learns(name) and name not in without}

    @torch.no_grad()
    def criterion(self, parameters: Parameters, loss: Tensor, step: StepContext) -> Tensor:
        """What early stopping watches in one epoch."""
        assert self.objective is not None
        whole = View(step.device_graph)
        return self.objective.criterion(loss.detach(), lambda: self.embed(parameters, step.engine, whole), step)

    def update_ema(self, parameters: Parameters, epoch: int | Tensor, epochs: int) -> None:
        """After the step of an epoch: update in place what is not learned by gradients."""
        self.encoder.update_ema(sub_dict(parameters, "encoder"), epoch, epochs)

    @torch.no_grad()
    def finalize(self, parameters: Parameters, engine: Engine, device_graph: DeviceGraph) -> Parameters:
        """After training: the parameters, completed with what embedding needs."""
        view = View(device_graph)
        eval_views = [self._measured(engine, each) for each in self.eval_views(view)]
        parameters = parameters | add_prefix("encoder", self.encoder.finalize(sub_dict(parameters, "encoder"), eval_views))
        if self.readout is None:
            return parameters
        return parameters | add_prefix("readout", self.readout.fit(self.rows(parameters, engine, view)))

    def _measured(self, engine: Engine, view: View) -> Operators:
        """The maps by which the statistics of all nodes are measured: of many, of the same uniform sample at every call."""
        count, in_blocks = view.device_graph.graph.num_nodes, view.device_graph.in_blocks
        if not in_blocks and (count <= MEASURED_NODES or not self.encoder.samples):
            return engine.operators(view)
        nodes = rng.permute(rng.key(0, "measured"), torch.arange(min(count, MEASURED_NODES)), count)
        return engine.sampled_operators(view, nodes.to(engine.device))

    @torch.no_grad()
    def embed(self, parameters: Parameters, engine: Engine, view: View) -> Tensor:
        """The embedding: what the read-out makes of the encoder's output; without one, that output before postprocessing."""
        if self.readout is not None:
            return self.readout(sub_dict(parameters, "readout"), self.rows(parameters, engine, view))
        z = self.encoder.embed(sub_dict(parameters, "encoder"), [engine.operators(each) for each in self.eval_views(view)])
        return at_least_float32(z)

    def rows(self, parameters: Parameters, engine: Engine, view: View, sample: Array | None = None) -> WholeRows:
        """What the read-out is made from, in float32 whatever the engine trains in."""
        engine = engine.float32
        eval_views = [engine.operators(each) for each in self.eval_views(view)]
        outputs = self.encoder.outputs(sub_dict(parameters, "encoder"), eval_views)
        return WholeRows(engine, view, list(outputs), self.encoder.own_outputs, sample)

    def _stages(self) -> list[tuple[str, Postprocess]]:
        return [(f"postprocess.{i}", part) for i, part in enumerate(self.postprocess)]
