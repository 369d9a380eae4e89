"""What torch does not promise to keep is called by name in few places. Where it is gone, the comment says what to do."""

from __future__ import annotations

import ast
from pathlib import Path

import clnr

SOURCE = Path(clnr.__file__).parent
PRIVATE = {
    # Dense.adam: call torch.optim.Adam and AdamW with fused=True on the same state, whose step these kernels are. They are not
    # called today, as their import takes seconds. tests/test_frozen.py tells whether the bits stay.
    "torch._fused_adam_",
    "torch._fused_adamw_",
    # worker_group.join: where Ray Train has made the group, let the first worker start a torch.distributed.TCPStore and send
    # its port to the others by broadcast_object_list.
    "torch.distributed.distributed_c10d._get_default_store",
    # choice.has_bfloat16: without these the processor's flags decide alone.
    "torch.cpu._is_amx_tile_supported",
    "torch.cpu._is_avx512_bf16_supported",
}


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
    """One that is added gets a comment here, too."""
    assert set().union(*map(private_names, SOURCE.rglob("*.py"))) == PRIVATE
