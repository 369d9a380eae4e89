"""What torch does not promise to keep. Where one of these tests fails, its sentence says what to do."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest
import torch

import clnr

SOURCE = Path(clnr.__file__).parent
# Without these something would fail.
NEEDED = {
    "torch._fused_adam_": "Dense.adam: call torch.optim.Adam(fused=True) on the same state, whose step is this kernel. It is "
    "not called today, as its import takes seconds. tests/test_frozen.py tells whether the bits stay.",
    "torch._fused_adamw_": "Dense.adam: call torch.optim.AdamW(fused=True) on the same state, as for Adam.",
    "torch.distributed.distributed_c10d._get_default_store": "worker_group.join: where Ray Train has made the group, let the "
    "first worker start a torch.distributed.TCPStore and send its port to the others by broadcast_object_list.",
}
# Without these the processor's flags decide alone, see choice.py: the names can go from there, and from here.
OPTIONAL = ("torch.cpu._is_amx_tile_supported", "torch.cpu._is_avx512_bf16_supported")


def found(name: str) -> bool:
    module, _, function = name.rpartition(".")
    return hasattr(importlib.import_module(module), function)


@pytest.mark.parametrize("name", NEEDED)
def test_a_private_function_is_still_there(name):
    if not name.startswith("torch.distributed") or torch.distributed.is_available():
        assert found(name), f"torch {torch.__version__} has no {name} any more. In {NEEDED[name]}"


def test_one_of_the_optional_functions_is_still_there():
    assert any(map(found, OPTIONAL)), f"torch {torch.__version__} has none of {OPTIONAL}: let engine/choice.py no longer ask"


def dotted(node: ast.AST) -> str:
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def private_names(file: Path) -> set[str]:
    """The private names of torch and Triton that a file mentions."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            names.add(dotted(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("_is_"):
            names.add(f"torch.cpu.{node.value}")
    last = {name: name.rpartition(".")[2] for name in names if name.split(".")[0] in ("torch", "dist", "triton", "tl")}
    return {name for name, end in last.items() if end.startswith("_") and not end.startswith("__")}


def test_no_other_private_function_is_called():
    """One that is added gets a sentence here, too."""
    assert set().union(*map(private_names, SOURCE.rglob("*.py"))) == {*NEEDED, *OPTIONAL}
