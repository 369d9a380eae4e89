"""bfloat16 on a CPU: when it is taken, and how far its results are from float32."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr.engine import choice as module
from clnr.engine import choose, cpu_engine, unit_rows
from clnr.engine.cpu.cpu_engine import CompiledEngine
from clnr.engine.cpu.csr_arrays import CSRArrays
from clnr.engine.torch_ntxent import FewRowsNTXent
from clnr.errors import DeviceError
from tests import oracles

ASKED = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
NARROW = CompiledEngine(torch.bfloat16)
AMX = "flags\t\t: fpu avx512f avx512_bf16 amx_tile amx_bf16\n"
OTHERS = ("flags\t\t: fpu avx512f avx512_bf16 amx_tile\n", "Features\t: fp asimd bf16 i8mm\n", "flags\t\t: fpu\n", "")


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    """Which flags Linux tells of the processor, with a torch that uses AMX, and nothing forced."""
    monkeypatch.delenv(module.PRECISION_VARIABLE, raising=False)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)

    def write(text):
        (tmp_path / "cpuinfo").write_text(text)
        return tmp_path / "cpuinfo"

    return write


def test_auto_is_bfloat16_on_a_cpu_with_amx_alone(cpuinfo, tmp_path, monkeypatch):
    assert module.preferred_dtype(cpuinfo(AMX)) == torch.bfloat16
    for text in OTHERS:
        assert module.preferred_dtype(cpuinfo(text)) == torch.float32
    assert module.preferred_dtype(tmp_path / "nothing") == torch.float32
    # AMX is not enough without what uses it.
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert module.preferred_dtype(cpuinfo(AMX)) == torch.float32


def test_it_can_be_forced_on_any_cpu(cpuinfo, monkeypatch):
    monkeypatch.setattr("clnr.engine.choice.has_bfloat16", lambda: False)
    for forced in ("bfloat16", "float32"):
        monkeypatch.setenv(module.PRECISION_VARIABLE, forced)
        assert {module.preferred_dtype(cpuinfo(text)) for text in (AMX, *OTHERS)} == {getattr(torch, forced)}
        engine = choose("cpu")
        # As if it had been asked for by name.
        assert engine.precision == engine.choices["precision"] == forced
        assert choose("cpu", forced).precision == forced
    monkeypatch.setenv(module.PRECISION_VARIABLE, "float16")
    with pytest.raises(DeviceError, match="CLNR_PRECISION must be float32 or bfloat16, not 'float16'"):
        choose("cpu")


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("processor\t: 0\nmodel name\t: X\nflags\t\t: fpu avx512f avx512_bf16 amx_tile\n", True),
        ("flags\t\t: fpu sse amx_bf16\n", True),
        ("Features\t: fp asimd bf16 i8mm\n", True),
        ("processor\t: 0\nFeatures\t: fp asimd fphp\n", False),
        ("flags\t\t: fpu sse avx512f amx_tile\n", False),
        ("model name\t: amx_bf16 bf16\n", False),
    ],
)
def test_what_linux_says_about_the_processor(text, there, tmp_path, monkeypatch):
    for name in ASKED:
        monkeypatch.delattr(torch.cpu, name, raising=False)
    (tmp_path / "cpuinfo").write_text(text)
    assert module.has_bfloat16(tmp_path / "cpuinfo") is there


@pytest.mark.parametrize("name", ASKED)
def test_what_torch_says_about_the_processor(name, tmp_path, monkeypatch):
    for each in ASKED:
        monkeypatch.setattr(torch.cpu, each, lambda each=each: each == name, raising=False)
    assert module.has_bfloat16(tmp_path / "nothing")


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("width", [1, 7, 64])
def test_a_sparse_product_of_bfloat16_is_exact_up_to_its_last_rounding(width, relu):
    random = np.random.default_rng(0)
    matrix = sp.csr_array((random.random((30, 20)) < 0.3) * random.standard_normal((30, 20)).astype(np.float32))
    arrays = CSRArrays(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
    h, mask = (torch.tensor(random.standard_normal((rows, width))).bfloat16() for rows in (20, 30))
    bias = torch.linspace(-1, 1, width)
    for above in (None, mask):
        got = arrays.multiply(h, relu, bias, above)
        wide = arrays.multiply(h.float(), relu, bias, None if above is None else above.float())
        assert torch.equal(got, wide.bfloat16())
    x = h.double().relu() if relu else h.double()
    expected = torch.tensor(matrix.toarray().astype(np.float64)) @ x + bias
    torch.testing.assert_close(wide.double(), torch.where(mask > 0, expected, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("large", [False, True], ids=["kept", "in blocks"])
@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0])
def test_the_contrastive_loss_and_its_gradient_are_near(temperature, large, monkeypatch):
    torch.manual_seed(0)
    if large:
        monkeypatch.setattr(FewRowsNTXent, "LARGEST", 0)
        monkeypatch.setattr("clnr.engine.torch_ntxent._SIMILARITIES_PER_BLOCK", 120 * 50)
    u = torch.randn(60, 32)
    rows = torch.cat([u, u + 0.5 * torch.randn(60, 32)])
    outcomes = []
    for engine in (cpu_engine(), NARROW):
        z = rows.clone().requires_grad_()
        loss = engine.nt_xent(z, temperature)
        outcomes.append((loss.detach(), *torch.autograd.grad(loss, z)))
    (exact, slope), (near, other) = outcomes
    assert near.dtype == other.dtype == torch.float32
    oracle = oracles.nt_xent(unit_rows(rows[:60]).double().numpy(), unit_rows(rows[60:]).double().numpy(), temperature)
    assert float(exact) == pytest.approx(oracle, rel=1e-5)
    assert float(near) == pytest.approx(oracle, rel=1e-3, abs=1e-3)
    assert float((other - slope).norm()) < 0.01 * float(slope.norm())
