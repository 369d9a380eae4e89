"""Every method as one row: which parts, in which places."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from clnr.augment.augmentations import (
    AdaptiveDropEdges,
    AdaptiveMaskFeatures,
    Augmentation,
    Diffuse,
    DropEdges,
    EncoderDropout,
    MaskFeatures,
    ShuffleNodes,
)
from clnr.errors import ClnrError, MethodError, RecipeError, UnknownName
from clnr.methods.settings import Probe, RecipeValues, Training
from clnr.nn.edge_blocks import EdgeWeight, Mix, Walks
from clnr.nn.encoders.encoder import Encoder, Features, NoEncoder
from clnr.nn.encoders.gcn import GAT, GCN, GaussianGCN, PReLUGCN
from clnr.nn.encoders.mlp import Backbone
from clnr.nn.encoders.paired_encoders import GCNAndMLP, MomentumEncoder, MultiViewEncoder
from clnr.nn.hyper_parameters import HyperParameter, declaration, declared
from clnr.nn.inputs import AddStructure, Cleora, FastRP, Input, Spectral, WeightFeatures
from clnr.nn.objectives import CCA, SOME, Bootstrap, CrossEntropy, Infomax, NTXent, Objective, Reconstruct, Variational
from clnr.nn.postprocess import Head, Postprocess, Rescale, ShortcutHead, Standardize, Whiten
from clnr.nn.readout import Readout
from clnr.nn.readout_blocks import Block, FeatureHops, Hops, OwnFeatures, PropagatedFeatures
from clnr.support.arguments import check_choice

if TYPE_CHECKING:
    from clnr.methods.model import Model
    from clnr.nn.encoders.own_encoder import OwnEncoder

__all__ = ["BASELINES", "METHODS", "QUICK_BASELINES", "VARIANTS", "Architecture", "Method", "find"]
__all__ += ["ADAPTIVE", "MASK", "SHUFFLE", "UNIFORM"]
__all__ += ["BGRL", "CCA_SSG", "CLNR", "DCLNR", "DGI", "GAE", "GCA", "GCLNR", "GRACE", "GRACE_ALL"]
__all__ += ["MVGRL", "MVGRL_PLAIN", "NCLNR", "RAW", "RCLNR", "SUPERVISED_GAT", "SUPERVISED_GCN", "UNTRAINED", "VGAE"]
__all__ += ["CLEORA", "CLNR_HOPS", "CLNR_MIX", "CLNR_MLP", "CLNR_TUNED", "FASTRP", "SPECTRAL"]
__all__ += ["SVD", "SVD_BOTH", "SVD_HOPS", "SVD_MIX", "SVD_PROPAGATED"]

Part = TypeVar("Part")


@dataclass(frozen=True)
class Method:
    """A method as data: which parts, in which places. The hyper-parameters that its parts declare are the keys of its recipe.

    Attributes:
        name: As in the literature.
        summary: One line for ``clnr ls methods``.
        encoder: From a view to one row per node; it may be any ``torch.nn.Module`` with ``forward(x, edge_index)``.
        views: The augmentations of each view.
        postprocess: Applied in order to each view's rows.
        objective: The loss; None where nothing is trained.
        parent: The method that this one varies, and whose recipe it inherits.
        inputs: Applied in order to the features before anything else: learned once, without gradients.
        readout: The blocks of columns that make the embedding; without any it is the encoder's output.
    """

    name: str
    summary: str
    encoder: type[Encoder] | OwnEncoder
    views: tuple[tuple[type[Augmentation], ...], ...]
    postprocess: tuple[type[Postprocess], ...] = ()
    objective: type[Objective] | None = None
    parent: Method | None = None
    inputs: tuple[type[Input], ...] = (AddStructure,)
    readout: tuple[type[Block], ...] = ()

    def __post_init__(self) -> None:
        if hasattr(self.encoder, "forward") and not isinstance(self.encoder, type | Encoder):
            from clnr.nn.encoders.own_encoder import OwnEncoder

            object.__setattr__(self, "encoder", OwnEncoder.of(self.encoder))
        if self.own_encoder is not None and self.objective is not None and not self.objective.any_encoder:
            raise MethodError(f"{self.name}: {self.objective.__name__} needs an encoder made for it, not one of your own")
        if not (isinstance(self.views, tuple) and all(isinstance(view, tuple) for view in self.views)):
            raise MethodError(f"{self.name}: views are a tuple of one tuple of parts for each view, not {self.views!r}")
        for place in ("postprocess", "inputs", "readout"):
            if not isinstance(getattr(self, place), tuple):
                raise MethodError(f"{self.name}: {place} is a tuple of parts, not {getattr(self, place)!r}")
        if not isinstance(self.parent, Method | None):
            raise MethodError(f"{self.name}: parent is a Method or None, not {self.parent!r}")
        for place, kind in PLACES.items():
            for part in self._parts_of(place):
                wrong = _mistake(part, kind)
                if wrong is not None:
                    raise MethodError(f"{self.name}, {place}: {getattr(part, '__name__', part)!s} {wrong}")
        right = SOME if self.objective is None else self.objective.views
        if len(self.views) not in right:
            counts = f"{right[0]}, {right[1]}, ..." if len(right) > 1 else str(right[0])
            raise MethodError(f"{self.name}, views: there must be {counts} of them, not {len(self.views)}")
        try:
            declared(self.all_parts)
        except MethodError as error:
            raise MethodError(f"{self.name}: {error}") from None

    def __hash__(self) -> int:
        # Of all fields it would take long, and every recipe asks for the hashes of all methods.
        return hash((self.name, self.encoder, self.objective))

    def _parts_of(self, place: str) -> tuple[Any, ...]:
        """The classes in a place, some maybe more than once."""
        held = getattr(self, place)
        if place == "views":
            return tuple(part for view in held for part in view)
        if place == "encoder":
            return (held if self.own_encoder is None else type(held),)
        if place == "objective":
            return () if held is None else (held,)
        return held

    @property
    def own_encoder(self) -> OwnEncoder | None:
        """The encoder, where it is a module of the user's."""
        if isinstance(self.encoder, type):
            return None
        from clnr.nn.encoders.own_encoder import OwnEncoder

        return self.encoder if isinstance(self.encoder, OwnEncoder) else None

    def with_encoder(self, module: Any) -> Method:
        """This method with an encoder of your own: a ``torch.nn.Module``, of which a copy is trained."""
        from clnr.nn.encoders.own_encoder import OwnEncoder

        own = module if isinstance(module, OwnEncoder) else OwnEncoder.of(module)
        if self.objective is None:
            raise MethodError(f"{self.name} trains no encoder; take a method that does, such as {CLNR.name}")
        if self.encoder.asymmetric or self.encoder.encoders > 1:
            raise MethodError(f"{self.name} has two encoders, and yours is one; take a method with one, such as {CLNR.name}")
        return self.but(f"{self.name} with {own.name}", f"{self.summary}; with an encoder of your own", encoder=own)

    def but(self, name: str, summary: str, **changes: Any) -> Method:
        """A new method: this one with some places changed.

        >>> from clnr import CLNR
        >>> CLNR.but("plain", "CLNR without postprocessing", postprocess=()).ancestry
        ('plain', 'CLNR')
        """
        for place in changes:
            check_choice("place of a method", place, PLACES)
        return dataclasses.replace(self, name=name, summary=summary, parent=self, **changes)

    @property
    def ancestry(self) -> tuple[str, ...]:
        """Its name, then its ancestors'."""
        return (self.name, *(self.parent.ancestry if self.parent else ()))

    @property
    def registered(self) -> Method:
        """The method that a folder names: without an encoder of one's own, if it is one ``with_encoder``."""
        return self if self.own_encoder is None or self.parent is None else self.parent

    def parts(self) -> dict[str, Any]:
        """The names of the parts by place: what distinguishes two methods, whatever their names."""
        return {
            "encoder": self.encoder.__qualname__ if isinstance(self.encoder, type) else self.encoder.class_name,
            "views": [[part.__qualname__ for part in view] for view in self.views],
            "postprocess": [part.__qualname__ for part in self.postprocess],
            "objective": None if self.objective is None else self.objective.__qualname__,
            "inputs": [part.__qualname__ for part in self.inputs],
            "readout": [part.__qualname__ for part in self.readout],
        }

    @property
    def all_parts(self) -> tuple[type[Any], ...]:
        """The classes of all its parts, some maybe more than once."""
        return (*(part for place in PLACES for part in self._parts_of(place)), *([Readout] if self.readout else []))

    @functools.cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys of a recipe that matter to this method."""
        keys = self._training_keys | self._measuring_keys
        if not self.supervised:
            return (*keys, *declared([Probe]))
        # The classes decide how wide a classifier's rows are, and no probe evaluates them.
        return tuple(key for key in keys if key != "dimension")

    @functools.cached_property
    def measuring(self) -> tuple[str, ...]:
        """Those of its keys that training does not read: they draw the views on which its geometry is measured."""
        return tuple(key for key in self._measuring_keys if key not in self._training_keys)

    @property
    def _training_keys(self) -> dict[str, HyperParameter]:
        return declared([*([Training] if self.objective else []), *self.all_parts])

    @property
    def _measuring_keys(self) -> dict[str, HyperParameter]:
        return {} if self.symmetric_views else declared(UNIFORM)

    @property
    def symmetric_views(self) -> bool:
        """Whether its two views have the same augmentations, so that a node's two rows are a positive pair."""
        return len(self.views) == 2 and self.views[0] == self.views[1]

    @property
    def supervised(self) -> bool:
        """Whether it learns from labels."""
        return self.objective is not None and self.objective.supervised

    @property
    def whole_part(self) -> type[Any] | None:
        """A part that needs the rows of all nodes in each step of training, and not only those of a sample, if there is one."""
        parts: list[tuple[type[Any], bool]] = [(part, part.samples) for part in self._parts_of("encoder")]
        parts += [] if self.objective is None else [(self.objective, self.objective.samples)]
        parts += [(part, part.of_moments or not part.columns) for part in self.postprocess]
        return next((part for part, samples in parts if not samples), None)

    @property
    def samples(self) -> bool:
        """Whether it can be trained by sampled steps, which compute what some nodes need."""
        return self.objective is not None and self.whole_part is None

    def architecture(self) -> Architecture | None:
        """Its row of the paper's table of architectures; None where nothing is trained."""
        objective = self.objective
        if objective is None:
            return None
        return Architecture(
            target=objective.target,
            estimator=objective.estimator,
            head=objective.head or any(part.head for part in self.postprocess),
            asymmetric=self.encoder.asymmetric,
            negatives=objective.negatives,
        )

    @property
    def lacks_encoder(self) -> bool:
        """Whether nothing can be computed with it, as its encoder is the user's own and is not there."""
        return self.own_encoder is not None and self.own_encoder.module is None

    def check_encoder(self) -> None:
        """Refuse a method that lacks its encoder."""
        own = self.own_encoder
        if own is not None and own.module is None:
            raise MethodError(f"its encoder is your own {own.name}: NodeEmbedder.load(folder, encoder=...), vectors need none")

    def build(self, recipe: RecipeValues) -> Model:
        """The method with the values of a recipe. A key that the recipe lacks has its default."""
        from clnr.methods.model import Model

        self.check_encoder()
        if not isinstance(recipe, RecipeValues):
            raise RecipeError(f"recipe must be a Recipe, not a value of type {type(recipe).__name__}")
        self.check(recipe)
        blocks = tuple(_fill(part, recipe) for part in self.readout)
        return Model(
            encoder=_fill(self.encoder, recipe).chosen if isinstance(self.encoder, type) else self.encoder,
            views=tuple(tuple(_fill(part, recipe.of_view(i)) for part in view) for i, view in enumerate(self.views)),
            postprocess=tuple(_fill(part, recipe) for part in self.postprocess),
            objective=None if self.objective is None else _fill(self.objective, recipe),
            inputs=tuple(_fill(part, recipe) for part in self.inputs),
            readout=dataclasses.replace(_fill(Readout, recipe), blocks=blocks) if blocks else None,
        )

    def check(self, recipe: RecipeValues) -> None:
        """Refuse values that its parts cannot have together."""
        whole = self.whole_part
        if self.objective is not None and whole is not None and _fill(self.objective, recipe).sampled_moments:
            raise RecipeError(f"{self.name}: {whole.__name__} needs the rows of all nodes, so moments must be 'all'")

    def check_shared(self, recipe: RecipeValues) -> None:
        """Refuse what several workers cannot train together: they share sampled steps, and no others."""
        if self.objective is None:
            raise RecipeError(f"{self.name} trains nothing that several workers could share")
        part = self.whole_part if self.objective.shares else self.objective
        if part is not None:
            raise RecipeError(f"{self.name}: {part.__name__} has no steps that several workers can share")
        if not _fill(self.objective, recipe).sampled_moments:
            raise RecipeError("several workers share sampled steps only: moments must be 'sampled'")


PLACES: dict[str, type[Any]] = {
    "encoder": Encoder,
    "views": Augmentation,
    "postprocess": Postprocess,
    "objective": Objective,
    "inputs": Input,
    "readout": Block,
}


def _mistake(part: Any, kind: type) -> str | None:
    """Why something cannot be a part of a kind; None where it can."""
    if not isinstance(part, type):
        return f"is not a class; give the {kind.__name__} itself, and the recipe fills in its values"
    if not issubclass(part, kind):
        return f"is not a subclass of {kind.__name__}"
    if inspect.isabstract(part):
        missing = sorted(part.__abstractmethods__)  # type: ignore[attr-defined]
        return f"does not define {', '.join(missing)}"
    if not (dataclasses.is_dataclass(part) and part.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        return "is not declared with @dataclass(frozen=True)"
    if issubclass(part, Objective) and not hasattr(part, "target"):
        return "does not say its target, as in: target: ClassVar[str] = 'N-N'"
    if issubclass(part, Augmentation) and not hasattr(part, "stream"):
        return "does not name its random stream, as in: stream: ClassVar[str] = 'DropEdges'"
    for field in dataclasses.fields(part):
        hyper_parameter = declaration(field)
        if hyper_parameter is not None:
            try:
                hyper_parameter.check(field.name, field.default)
            except ClnrError as error:
                return f"declares a default that it does not allow: {error}"
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            return f"does not declare {field.name}, as in: {field.name}: float = hyper_parameter(0.5, 0.0, 1.0, 'what it is')"
    return None


class Architecture(NamedTuple):
    """A row of the paper's table of architectures: the target (nodes, graph, features, classes), and what the method needs."""

    target: str
    estimator: bool
    head: bool
    asymmetric: bool
    negatives: bool


def _fill(part: type[Part], recipe: RecipeValues) -> Part:
    """A part with the values of a recipe."""
    values = recipe.to_dict()
    names = [field.name for field in dataclasses.fields(part) if declaration(field)]  # type: ignore[arg-type]
    return part(**{name: values[name] for name in names if name in values})


UNIFORM = (DropEdges, MaskFeatures)
MASK = (MaskFeatures,)
ADAPTIVE = (AdaptiveDropEdges, AdaptiveMaskFeatures)
SHUFFLE = (ShuffleNodes,)

CLNR = Method("CLNR", "contrast nodes of two views, columns standardised", Backbone, (UNIFORM, UNIFORM), (Standardize,), NTXent)
NCLNR = CLNR.but("nCLNR", "CLNR without postprocessing", postprocess=())
DCLNR = CLNR.but("dCLNR", "CLNR with whitened (decorrelated) columns", postprocess=(Whiten,))
RCLNR = CLNR.but("rCLNR", "CLNR with one scale for all columns: dCLNR as the paper ran it", postprocess=(Rescale,))
GRACE = CLNR.but("GRACE", "contrast nodes through a learned head", postprocess=(Head,))
GRACE_ALL = GRACE.but("GRACE-all", "GRACE with all nodes in the loss, as in its own paper")
GCLNR = CLNR.but("GCLNR", "GRACE's head, then CLNR's standardisation", postprocess=(Head, Standardize))
GCA = GRACE.but("GCA", "GRACE with rates that spare central nodes and features", views=(ADAPTIVE, ADAPTIVE))
CCA_SSG = CLNR.but("CCA-SSG", "correlate columns of two views, decorrelate them within", objective=CCA)
BGRL = NCLNR.but("BGRL", "predict the output of a momentum encoder", encoder=MomentumEncoder, objective=Bootstrap)
DGI = NCLNR.but(
    "DGI", "discriminate nodes from corrupted ones by a graph summary", encoder=PReLUGCN, views=((), SHUFFLE), objective=Infomax
)
MVGRL = DGI.but(
    "MVGRL",
    "DGI across two views: edges and their diffusion",
    encoder=MultiViewEncoder,
    views=((), (Diffuse,), SHUFFLE, (Diffuse, ShuffleNodes)),
    postprocess=(ShortcutHead,),
)
MVGRL_PLAIN = MVGRL.but("MVGRL-plain", "MVGRL without a head, as in its authors' code for nodes", postprocess=())
GAE = NCLNR.but("GAE", "reconstruct edges from inner products", encoder=GCN, views=((),), objective=Reconstruct)
VGAE = GAE.but("VGAE", "GAE with a normal distribution for each node", encoder=GaussianGCN, objective=Variational)
SUPERVISED_GCN = NCLNR.but(
    "GCN", "supervised graph convolutions", encoder=GCN, views=((EncoderDropout,),), objective=CrossEntropy
)
SUPERVISED_GAT = SUPERVISED_GCN.but("GAT", "supervised graph attention", encoder=GAT)
UNTRAINED = CLNR.but("Untrained", "CLNR's encoder with its initial weights, untrained", objective=None)
RAW = UNTRAINED.but(
    "Raw", "the features themselves, no encoder", encoder=Features, views=(MASK, MASK), postprocess=(), inputs=()
)

# Without training.
SVD = RAW.but("SVD", "an SVD of the features", encoder=NoEncoder, readout=(OwnFeatures,))
SVD_PROPAGATED = SVD.but(
    "SVD-propagated", "an SVD of the features propagated twice", views=(UNIFORM, UNIFORM), readout=(PropagatedFeatures,)
)
SVD_BOTH = SVD_PROPAGATED.but("SVD-both", "both SVDs side by side", readout=(OwnFeatures, PropagatedFeatures))
SVD_HOPS = SVD_PROPAGATED.but("SVD-hops", "an SVD of the features, then propagated 0, 1 and 2 times", readout=(FeatureHops,))
SVD_MIX = SVD_BOTH.but(
    "SVD-mix",
    "CLNR-mix without its encoders: SVDs of the features, propagated, and the structure",
    inputs=(WeightFeatures, AddStructure),
    readout=(FeatureHops, PropagatedFeatures, Walks, EdgeWeight, Mix),
)
SPECTRAL = RAW.but("Spectral", "an SVD of the normalised adjacency matrix", inputs=(Spectral,))
FASTRP = SPECTRAL.but("FastRP", "random projections of powers of the transition matrix", inputs=(FastRP,))
CLEORA = SPECTRAL.but("Cleora", "random vectors, repeatedly averaged over neighbours and normalised", inputs=(Cleora,))

# CLNR with another read-out.
CLNR_HOPS = CLNR.but("CLNR-hops", "CLNR's vectors, propagated 0, 1 and 2 times, side by side", readout=(Hops,))
CLNR_MLP = CLNR_HOPS.but("CLNR-MLP", "CLNR with an MLP; only its vectors are propagated, 0, 1 and 2 times")
CLNR_MIX = CLNR_HOPS.but(
    "CLNR-mix",
    "clnr embed's default: a GCN and an MLP, each trained as CLNR, beside features and structure",
    encoder=GCNAndMLP,
    inputs=(WeightFeatures, AddStructure),
    readout=(Hops, OwnFeatures, PropagatedFeatures, Walks, EdgeWeight, Mix),
)
CLNR_TUNED = CLNR_HOPS.but(
    "CLNR-tuned",
    "CLNR-mix with one encoder and a recipe for each data set, chosen by validation accuracy",
    inputs=CLNR_MIX.inputs,
    readout=CLNR_MIX.readout,
)

VARIANTS = (CLNR_MIX, CLNR_TUNED, CLNR_HOPS, CLNR_MLP)
"""Rows that train as CLNR and that the paper does not have."""
BASELINES = (SVD, SVD_PROPAGATED, SVD_BOTH, SVD_HOPS, SPECTRAL, FASTRP, CLEORA)
"""What takes no training, to compare with."""
QUICK_BASELINES = (SVD_PROPAGATED, SVD_BOTH, CLEORA)
"""Scored beside every embedding: mostly the best where neighbours are alike, where they are not, and without features."""

METHODS = {
    method.name: method
    for method in (
        *VARIANTS,
        *(RAW, UNTRAINED, GAE, VGAE, DGI, MVGRL, MVGRL_PLAIN, CCA_SSG, BGRL, GRACE, GRACE_ALL, GCA),
        *(CLNR, NCLNR, DCLNR, RCLNR, GCLNR, SUPERVISED_GCN, SUPERVISED_GAT),
        *(SVD_MIX, *BASELINES),
    )
}


def find(name: str) -> Method:
    """A method by name, in any case."""
    for method in METHODS.values():
        if isinstance(name, str) and method.name.casefold() == name.casefold():
            return method
    raise UnknownName("method", name, METHODS)


def method_of(method: Method | str) -> Method:
    """The method itself, or the one of this name."""
    chosen = find(method) if isinstance(method, str) else method
    if not isinstance(chosen, Method):
        raise MethodError(f"a method is a Method or a name, not a {type(method).__name__}; it comes before the data set")
    return chosen
