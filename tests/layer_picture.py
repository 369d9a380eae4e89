"""The picture of the layers in CONTRIBUTING.md, made from the imports: ``python -m tests.layer_picture`` writes it anew."""

from __future__ import annotations

from pathlib import Path

import networkx as nx

from tests.test_layers import ORDER, arrows

TEXT = Path(__file__).parents[1] / "CONTRIBUTING.md"
BEGIN, END = "```mermaid\n", "```\n"


def picture() -> str:
    """An arrow from each package to those that it imports, without arrows that follow from others."""

    def package(module: str) -> str:
        return module.split(".")[1]

    inner = [arrow for arrow in arrows() if "." in arrow.source and "." in arrow.target]
    pairs = {(package(arrow.source), package(arrow.target)) for arrow in inner}
    graph = nx.DiGraph((source, target) for source, target in pairs if source != target)
    graph.remove_nodes_from([name for name in ("version", "__main__") if name in graph])
    reduced = nx.transitive_reduction(graph)
    order = {name: place for place, name in enumerate(ORDER)}
    edges = sorted(reduced.edges, key=lambda edge: (-order[edge[0]], -order[edge[1]]))
    return "graph TD\n" + "".join(f"    {source} --> {target}\n" for source, target in edges)


def parts() -> tuple[str, str, str]:
    """The text of CONTRIBUTING.md before the picture, the picture, and the text after it."""
    text = TEXT.read_text(encoding="utf-8")
    begin = text.index(BEGIN) + len(BEGIN)
    end = text.index(END, begin)
    return text[:begin], text[begin:end], text[end:]


if __name__ == "__main__":
    before, _, after = parts()
    TEXT.write_text(before + picture() + after, encoding="utf-8")
