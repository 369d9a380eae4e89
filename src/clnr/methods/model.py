"""A method's parts with their numbers in them, as one function of parameters and a graph."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from clnr import rng
from clnr.augment.augmentations import Augmentation
from clnr.engine import Dense, DeviceGraph, Engine, View
from clnr.nn.encoders import Encoder
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.nn.lazy_linear import Known, Rows, Some, count, formed, known, picked, sampled
from clnr.nn.objectives import Objective, StepContext
from clnr.nn.postprocess import Postprocess

_WORTH_WAITING = 3


@dataclass(frozen=True)
class Model:
    """A method's parts with their numbers: pure functions of parameters, a placed graph, and a seed."""

    encoder: Encoder
    views: tuple[tuple[Augmentation, ...], ...]
    postprocess: tuple[Postprocess, ...]
    objective: Objective | None

    def init(self, inputs: int, seed: int) -> Parameters:
        """Fresh parameters, on torch's default device: the same numbers on any."""
        parameters = add_prefix("encoder", self.encoder.init(inputs, rng.key(seed, "encoder")))
        width = self.encoder.width(inputs)
        stages: list[tuple[str, Postprocess | Objective]] = [*self._stages()]
        if self.objective is not None:
            stages.append(("objective", self.objective))
        for place, part in stages:
            parameters |= add_prefix(place, part.init(width, rng.key(seed, place)))
        return parameters

    @property
    def cuda_graph_safe(self) -> bool:
        """Whether a step of its training can be recorded on a GPU and played back."""
        return all(part.cuda_graph_safe for part in self.postprocess)

    def augment(self, device_graph: DeviceGraph, seed: int, stream: str, epoch: int | Tensor) -> list[View]:
        """The views of one epoch of a stream: ``train``, or another name for views that training never saw."""
        seen = []
        for index, augmentations in enumerate(self.views):
            view = View(device_graph)
            for augmentation in augmentations:
                view = augmentation(view, rng.key(seed, stream, index, augmentation.stream, epoch))
            seen.append(view)
        return seen

    def eval_views(self, view: View) -> list[View]:
        """A view as each of the method's views shows it with nothing random about it, each once."""
        deterministic = dict.fromkeys(
            tuple(augmentation for augmentation in augmentations if augmentation.deterministic) for augmentations in self.views
        )
        return [
            functools.reduce(lambda seen, augmentation: augmentation(seen, rng.key(0)), augmentations, view)
            for augmentations in deterministic
        ]

    def project(self, parameters: Parameters, engine: Engine, views: list[View], nodes: Tensor | None = None) -> list[Tensor]:
        """The views' rows as the objective sees them; those of some nodes, if so asked."""
        beside = engine.lanes(views[0].device_graph, len(views))
        seen, done = [], []
        if nodes is not None:
            beside.used(nodes)
        for view in views:
            engine.prepare(view)
        with beside:
            for index, view in enumerate(views):
                with beside.lane(index):
                    seen.append(engine.operators(view, beside, index))
        with beside:
            for index, rows in enumerate(self.encoder.rows(sub_dict(parameters, "encoder"), seen)):
                with beside.lane(index % len(views)):
                    done.append(self._processed(parameters, rows, nodes, engine.dense))
        return done

    def _processed(self, parameters: Parameters, rows: Rows, nodes: Tensor | None, dense: Dense) -> Tensor:
        """One view's rows after all stages, of which only the last that looks at columns, and those before it, see them all."""
        stages = self._stages()
        whole = sum(any(part.columns for _, part in stages[i:]) for i in range(len(stages)))
        seen = self._seen(rows, nodes, [part for _, part in stages[:whole]], dense)
        for place, part in stages[:whole]:
            seen = part.sampled(sub_dict(parameters, place), seen, dense)
        z = known(seen)
        if nodes is not None and whole and not isinstance(seen, Some):
            z = picked(z, nodes, dense)
        for place, part in stages[whole:]:
            z = part(sub_dict(parameters, place), z)
        return z

    def _seen(self, rows: Rows, nodes: Tensor | None, whole: list[Postprocess], dense: Dense) -> Known:
        """What stages that look at whole columns are given: all rows, or those of some nodes where moments tell the rest."""
        if nodes is None:
            return formed(rows, dense)
        if not whole:
            return picked(rows, nodes, dense)
        # To leave a last layer unformed pays where few of many rows are wanted.
        few = isinstance(rows, Tensor) or count(rows) >= _WORTH_WAITING * len(nodes)
        if few and all(part.of_moments for part in whole):
            return sampled(rows, nodes, dense)
        return formed(rows, dense)

    def loss(self, parameters: Parameters, step: StepContext) -> Tensor:
        """The objective of one epoch."""
        assert self.objective is not None
        views = self.augment(step.device_graph, step.seed, "train", step.epoch)
        nodes = self.objective.nodes(step.device_graph.graph.num_nodes, step)
        # Views may lie in lanes of their own: through aliases made here, their gradients are added up here.
        parameters = {name: value.view_as(value) for name, value in parameters.items()}
        rows = self.project(parameters, step.engine, views, nodes)
        return self.objective(sub_dict(parameters, "objective"), rows, step)

    @torch.no_grad()
    def criterion(self, parameters: Parameters, loss: Tensor, step: StepContext) -> Tensor:
        """What early stopping watches in one epoch."""
        assert self.objective is not None
        whole = View(step.device_graph)
        return self.objective.criterion(loss.detach(), lambda: self.embed(parameters, step.engine, whole), step)

    def update_ema(self, parameters: Parameters, epoch: int | Tensor, epochs: int) -> None:
        """After the step of an epoch: change in place what no gradient changes."""
        self.encoder.update_ema(sub_dict(parameters, "encoder"), epoch, epochs)

    @torch.no_grad()
    def finalize(self, parameters: Parameters, engine: Engine, device_graph: DeviceGraph) -> Parameters:
        """After training: parameters complete with what embedding needs."""
        eval_views = [engine.operators(view) for view in self.eval_views(View(device_graph))]
        return parameters | add_prefix("encoder", self.encoder.finalize(sub_dict(parameters, "encoder"), eval_views))

    @torch.no_grad()
    def embed(self, parameters: Parameters, engine: Engine, view: View) -> Tensor:
        """The encoder's raw output, of the whole, unperturbed graph where that is the view: what is evaluated and given."""
        z = self.encoder.embed(sub_dict(parameters, "encoder"), [engine.operators(each) for each in self.eval_views(view)])
        return formed(z, engine.dense)

    def _stages(self) -> list[tuple[str, Postprocess]]:
        return [(f"postprocess.{i}", part) for i, part in enumerate(self.postprocess)]
