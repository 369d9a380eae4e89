import pytest
import torch

from clnr.engine import cpu_engine, gpu_engine
from clnr.errors import ClnrError, DataError
from clnr.methods import METHODS
from clnr.methods.presets import preset
from clnr.nn.objectives import Supervision
from clnr.training.checkpoint import Checkpoint, check_checkpoint, remove_checkpoint
from clnr.training.loop import fit
from tests.cases import in_tiers
from tests.conftest import tiny

ABOUT = {"graph": "tiny", "recipe": {"epochs": 9, "learning_rate": 1e-3}}
LABELS = torch.arange(40) % 3
STATE = {"written": torch.ones(2, 3)}


def saved(tmp_path, about=ABOUT, state=STATE):
    Checkpoint(tmp_path / "state", about, resume=True).save(1, state)
    return tmp_path / "state"


def loaded(path, about=ABOUT):
    return Checkpoint(path, about, resume=True).load()


class Killed(BaseException):
    """As by kill -9: nothing that training does may catch it."""


class Mortal(Checkpoint):
    """Dies right after the state of so many epochs was kept."""

    seconds = 0.0

    def __init__(self, path, last, resume=True):
        super().__init__(path, ABOUT, resume)
        self.last = last

    def save(self, done, state):
        super().save(done, state)
        if done == self.last:
            raise Killed


def trained(method, recipe, checkpoint=None, engine=None):
    engine = engine or cpu_engine()
    parts = (torch.arange(10), LABELS[:10], torch.arange(10, 20), LABELS[10:20])
    supervision = Supervision(*(part.to(engine.device) for part in parts)) if method.supervised else None
    return fit(
        method.build(recipe), engine, engine.to_device(tiny()), recipe, 3, supervision=supervision, checkpoint=checkpoint
    )


def same(a, b):
    assert a.losses.tolist() == b.losses.tolist()
    assert a.parameters.keys() == b.parameters.keys()
    for name in a.parameters:
        assert torch.equal(a.parameters[name], b.parameters[name]), name


def recipe_of(method):
    return preset(method, None).recipe.but(hidden=16, dimension=3 if method.supervised else 8, epochs=9, head_width=0)


@pytest.mark.parametrize("name", in_tiers())
def test_a_training_that_died_goes_on_bit_for_bit(name, tmp_path):
    method = METHODS[name]
    recipe = recipe_of(method)
    whole = trained(method, recipe)
    if not len(whole.losses):
        return
    path = tmp_path / "state"
    for last in (4, 8):
        with pytest.raises(Killed):
            trained(method, recipe, Mortal(path, last))
    same(trained(method, recipe, Checkpoint(path, ABOUT, resume=True)), whole)


SCHEDULED, SAMPLED = {"schedule": "cosine", "warmup": 0.3}, {"sampled_nodes": 10, "moments": "sampled", "max_neighbors": 3}


@pytest.mark.parametrize(("died", "changes"), [*((died, SCHEDULED) for died in (1, 2, 3, 8, 9)), (4, SAMPLED)])
def test_it_goes_on_from_any_epoch(died, changes, tmp_path):
    recipe = recipe_of(METHODS["CLNR"]).but(**changes)
    whole = trained(METHODS["CLNR"], recipe)
    with pytest.raises(Killed):
        trained(METHODS["CLNR"], recipe, Mortal(tmp_path / "state", died, resume=False))
    same(trained(METHODS["CLNR"], recipe, Checkpoint(tmp_path / "state", ABOUT, resume=True)), whole)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["CLNR", "BGRL", "GCN"])
def test_on_a_gpu_it_goes_on_as_well(name, tmp_path, cuda):
    method, engine = METHODS[name], gpu_engine(torch.float32)
    recipe = recipe_of(method).but(epochs=30)
    with pytest.raises(Killed):
        trained(method, recipe, Mortal(tmp_path / "state", 12), engine)
    resumed = trained(method, recipe, Checkpoint(tmp_path / "state", ABOUT, resume=True), engine)
    torch.testing.assert_close(resumed.losses, trained(method, recipe, None, engine).losses, rtol=1e-4, atol=1e-4)


def test_what_is_kept_can_be_left_aside(tmp_path):
    recipe, path = recipe_of(METHODS["CLNR"]), saved(tmp_path, {"graph": "another"})
    checkpoint = Checkpoint(path, ABOUT, resume=False)
    same(trained(METHODS["CLNR"], recipe, checkpoint), trained(METHODS["CLNR"], recipe))
    with pytest.raises(DataError, match="another training"):
        loaded(path)  # A minute had not passed.
    checkpoint.seconds = 0.0
    trained(METHODS["CLNR"], recipe, checkpoint)
    assert loaded(path)[0] == 9


def test_a_state_of_another_training_is_refused_by_what_differs(tmp_path):
    with pytest.raises(DataError, match=r"graph was tiny and is another.*without resume=True"):
        loaded(saved(tmp_path), {**ABOUT, "graph": "another"})


def test_a_file_that_was_cut_is_refused_and_a_flipped_bit_is_noticed(tmp_path):
    state = STATE | {"parameters.x": torch.arange(12.0).reshape(3, 4), "waited": torch.tensor(3)}
    path = saved(tmp_path, state=state)
    whole = path.read_bytes()
    for cut in (0, 1, 8, 60, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError, match="not a checkpoint"):
            loaded(path)
    path.write_bytes(whole)
    done, back = loaded(path)
    assert done == 1
    assert all(torch.equal(back[name], value) for name, value in state.items())
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            done, other = loaded(path)
        except DataError:
            continue
        # A blank of the header, or a name in it that means nothing.
        assert (done, other.keys()) == (1, state.keys())
        assert all(torch.equal(other[name], value) for name, value in state.items())


def test_a_file_of_somebody_elses_is_neither_overwritten_nor_removed(tmp_path):
    path = tmp_path / "thesis.checkpoint"
    path.write_bytes(b"years of work")
    for call in (lambda: check_checkpoint(path), lambda: Checkpoint(path, ABOUT, resume=False).save(1, STATE)):
        with pytest.raises(DataError, match="is not a checkpoint of clnr"):
            call()
    remove_checkpoint(path)
    assert path.read_bytes() == b"years of work"
    path.unlink()
    Checkpoint(path, ABOUT, resume=False).save(1, STATE)
    check_checkpoint(path)
    remove_checkpoint(path)
    assert not any(tmp_path.glob("*thesis*"))
    remove_checkpoint(path)


def test_a_name_that_is_too_long_is_refused(tmp_path):
    check_checkpoint(tmp_path / ("x" * 244))
    with pytest.raises(ClnrError, match="cannot be written"):
        check_checkpoint(tmp_path / ("x" * 245))


def test_a_loss_that_is_not_finite_is_not_kept(tmp_path):
    path = saved(tmp_path)
    Checkpoint(path, ABOUT, resume=False).save(2, {"written": torch.tensor([[1.0, torch.nan, 1.0]] * 2)})
    assert loaded(path)[0] == 1
