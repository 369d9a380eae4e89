"""The model in a model folder: recipe.toml and model.safetensors, read without trusting them."""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clnr import methods
from clnr.embedding.defaults import PURPOSES
from clnr.embedding.fitted_model import FittedModel, Provenance
from clnr.embedding.result.artifact_files import FORMAT_VERSION, MODEL, RECIPE, ArtifactFiles
from clnr.engine import Reference
from clnr.errors import DataError, MethodError
from clnr.graph import Graph
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.nn.encoders.own_encoder import OwnEncoder
from clnr.nn.layers import Parameters, misfit
from clnr.support.arguments import check_choice, check_hold_out, check_seed
from clnr.support.machine.devices import DEVICES, PRECISIONS
from clnr.support.machine.environment import versions
from clnr.support.storage import check_count, check_positive, check_version

_ENCODER_KEY = "encoder_class"
_META = Reference(torch.device("meta"))


def write_model(model: FittedModel, folder: Path) -> None:
    """Write recipe.toml and model.safetensors; a method that could not be loaded again is refused."""
    import safetensors.torch

    model.method.check_encoder()
    named, own = model.method.registered, model.method.own_encoder
    if methods.METHODS.get(named.name) != named or (own is not None and named.with_encoder(own) != model.method):
        raise MethodError(f"{model.method.name} is a method of your own, which could not be loaded again")
    facts = {"form": FORMAT_VERSION, "method": named.name, _ENCODER_KEY: None if own is None else own.class_name}
    facts |= {"seed": model.seed, "features": model.features, **model.provenance._asdict(), "loop_weight": model.loop_weight}
    text = f"{_toml(facts)}\n[recipe]\n{model.recipe.to_toml()}\n[versions]\n{_toml(versions())}"
    (folder / RECIPE).write_bytes(text.encode())
    parameters = {name: value.contiguous() for name, value in model.parameters.items()}
    (folder / MODEL).write_bytes(safetensors.torch.save(parameters))


def _toml(values: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items() if value is not None)


def load_model(files: ArtifactFiles, encoder: Any = None) -> FittedModel:
    """Read the model of a folder; it must be complete, and fit its recipe and, if it has one of the user's own, the encoder."""
    with files.reading(RECIPE) as path:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        check_version(content["form"], FORMAT_VERSION)
        method = _with_encoder(methods.find(str(content["method"])), content.get(_ENCODER_KEY), encoder)
        recipe = Recipe.of(content["recipe"])
        seed, features = check_seed(content["seed"]), check_count(content["features"])
        provenance = _load_provenance(content)
        loop_weight = check_positive(content["loop_weight"])
    with files.reading(MODEL) as path:
        import safetensors

        with safetensors.safe_open(str(path), "pt") as file:
            # Copied: the file may be written to while they are in use.
            parameters = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        model = FittedModel(method, seed, recipe, parameters, features, provenance, loop_weight)
        _check_parameters(model)
        return model


def _with_encoder(method: Method, class_name: Any, encoder: Any) -> Method:
    """The method that was saved, with the encoder that is given; by name alone, which is never imported, if there is none."""
    if class_name is None:
        if encoder is not None:
            raise MethodError(f"{method.name} has an encoder of clnr's: leave out encoder")
        return method
    if not str(class_name).replace(".<locals>", "").replace(".", "").isidentifier():
        raise DataError(f"{_ENCODER_KEY} is {class_name!r:.40}, which is not the name of a class")
    saved = OwnEncoder(None, str(class_name))
    given = saved if encoder is None else OwnEncoder.of(encoder)
    if given.name != saved.name:
        raise MethodError(f"its encoder is a {saved.name}, not a {given.name}")
    return method.with_encoder(given)


def _load_provenance(content: Mapping[str, Any]) -> Provenance:
    purpose, threads = content.get("purpose"), content.get("threads")
    return Provenance(
        check_hold_out(content["hold_out"]),
        check_choice("device", content["device"], DEVICES),
        check_choice("precision", content["precision"], PRECISIONS),
        None if threads is None else check_count(threads),
        None if purpose is None else check_choice("purpose", purpose, PURPOSES),
    )


def _check_parameters(fitted: FittedModel) -> None:
    """Names and shapes must be those of the method with this recipe, if they are known."""
    parameters = fitted.parameters
    if not fitted.method.lacks_encoder:
        # An input may have learned a row for each node of a training graph whose size is not known.
        nodes = max((len(value) for name, value in parameters.items() if name.startswith("input.") and value.ndim), default=0)
        wrong = misfit(_empty_parameters(fitted.method, fitted.recipe, fitted.features, nodes), parameters)
        if wrong is not None:
            raise DataError(f"it does not fit {RECIPE if fitted.method.own_encoder is None else 'the encoder'}: {wrong}")
    for name, value in parameters.items():
        if not value.isfinite().all():
            raise DataError(f"'{name}' has a number that is not finite")


@functools.lru_cache(maxsize=64)
def _empty_parameters(method: Method, recipe: Recipe, features: int, nodes: int) -> Parameters:
    """Parameters of the right names and shapes, on the meta device: not allocated."""
    model = method.build(recipe)
    width = model.input_width(features)
    one = _META.to_device(Graph.from_edges([], [], np.zeros((1, 0), np.float32)))
    with torch.device("meta"):
        inputs, fresh = model.empty_inputs(features, nodes), model.init(width, 0)
        return inputs | model.finalize(fresh, _META, one.with_features(np.zeros((1, width), np.float32)))
