"""The data sets of the paper: one row each, with its source, its sizes and the digest of its content."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from clnr.errors import DataError
from clnr.support.arguments import check_choice

if TYPE_CHECKING:
    from clnr.datasets import download
    from clnr.graph import Graph


@dataclass(frozen=True)
class Dataset:
    """A data set: where its files are, and what they must contain.

    Attributes:
        name: As typed.
        title: As printed.
        about: One line for ``clnr ls datasets``.
        layouts: Alternative lists of files below a data root; the first complete one is read, and the first is downloaded.
        urls: Where the files of the first layout are published.
        reader: The function of ``formats`` that reads a graph from those files.
        nodes: Number of nodes in the paper's table, like the next three; its directed edges count an undirected one twice.
        split: Description of the split.
        content: The digest of the graph as read, the same for every packing of the data; None if unknown.
        loaded_edges: Number of edges of the graph, if the paper's table counts them differently.
        rows_sum_to_one: Whether features are row-normalized after reading.
    """

    name: str
    title: str
    about: str
    layouts: tuple[tuple[str, ...], ...]
    urls: tuple[str, ...]
    reader: str
    nodes: int
    edges: int
    features: int
    classes: int
    split: str
    content: str | None
    loaded_edges: int | None = None
    rows_sum_to_one: bool = False

    def load(self, root: str | Path | None = None, fetch: download.Fetch | None = None) -> Graph:
        """Read and verify the graph."""
        from clnr.datasets import download, formats

        files = download.locate(self.name, self.layouts, self.urls, root, fetch) if self.layouts else []
        graph = self.verify(formats.read(getattr(formats, self.reader), files), files)
        graph = replace(graph, name=self.name, dataset=self.name)
        return graph.row_normalize() if self.rows_sum_to_one else graph

    def verify(self, graph: Graph, files: list[Path]) -> Graph:
        """The graph; raises if its sizes or its content differ from this row."""
        where = f" in {files[0].parent}" if files else ""
        edges = self.edges if self.loaded_edges is None else self.loaded_edges
        sizes = {"nodes": self.nodes, "edges": edges, "features": self.features, "classes": self.classes}
        for what, expected in sizes.items():
            actual = getattr(graph, f"num_{what}")
            if actual != expected:
                raise DataError(f"{self.name}{where} has {actual:,} {what} instead of {expected:,}: altered data?")
        if self.content is not None and graph.digest != self.content:
            raise DataError(
                f"{self.name}{where} has the right sizes but altered content (sha256 {graph.digest[:12]}..., not "
                f"{self.content[:12]}...); replace the files, or delete them to have them downloaded again"
            )
        return graph


# The digests of the graphs as read.
_CONTENT = {
    "toy": "b994d1716a5ca75073a3c6b3d8015499e7a4f189b4d4daa202fe91f0ee235cd7",
    "cora": "e98be161dff87adfb733dfd799224b02cc99b51dc29eabeb658e0069d1b70b69",
    "citeseer": "7835aa05ec8f2936d0dba930bee80c76535e02551cf9b81fb751874d0f243936",
    "pubmed": "0a5170d456dc184329abd8c8efe86e7dbac3190af0391ad13de3fbb91960e658",
    "computers": "fe281375413a77a7f0a494e451515ef742446f720456d609759ef722545719c3",
    "photo": "c08a9f56e72c44d620593a133dea5006713b9df071ecb5f73d9fc433fafb3139",
    "cs": "5bf55d4c0d9f0b98a8516dd0dc542519b541e70a96e3634e1ecebdc0ea39b8eb",
    "physics": "c8ed79c92291757c818fdaed18e8e0a6224f929d0e89fa9d7a4caff91a65b6c8",
}
_PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
_Sizes = tuple[int, int, int, int]


def _planetoid(title: str, *sizes: *_Sizes) -> Dataset:
    name = title.lower()
    files = [f"ind.{name}.{part}" for part in _PLANETOID_PARTS]
    return Dataset(
        name,
        title,
        "papers that cite each other, bags of words",
        (tuple(f"Planetoid/{title}/raw/{file}" for file in files),),
        tuple(f"https://github.com/kimiyoung/planetoid/raw/master/data/{file}" for file in files),
        "planetoid",
        *sizes,
        split="public",
        content=_CONTENT[name],
        rows_sum_to_one=True,
    )


def _npz(collection: str, title: str, file: str, *sizes: *_Sizes) -> Dataset:
    about = {"Amazon": "goods bought together, words of reviews", "Coauthor": "authors who wrote together, key words"}
    return Dataset(
        title.lower(),
        title,
        about[collection],
        ((f"{collection}/{title}/raw/{file}.npz",),),
        (f"https://github.com/shchur/gnn-benchmark/raw/master/data/npz/{file}.npz",),
        "npz",
        *sizes,
        split="random 1:1:8 per seed",
        content=_CONTENT[title.lower()],
    )


OGB_TABLES = (
    "raw/edge.csv.gz",
    "raw/node-feat.csv.gz",
    "raw/node-label.csv.gz",
    "raw/num-node-list.csv.gz",
    "raw/num-edge-list.csv.gz",
    "split/time/train.csv.gz",
    "split/time/valid.csv.gz",
    "split/time/test.csv.gz",
)

_CATALOG = (
    Dataset(
        *("toy", "Toy", "built in: a small synthetic citation graph, no download", (), (), "toy"),
        *(2_400, 10_386, 720, 6),
        split="fixed: 20 a class, 500, 1,000",
        content=_CONTENT["toy"],
    ),
    _planetoid("Cora", 2_708, 10_556, 1_433, 7),
    _planetoid("CiteSeer", 3_327, 9_104, 3_703, 6),
    _planetoid("PubMed", 19_717, 88_648, 500, 3),
    _npz("Amazon", "Computers", "amazon_electronics_computers", 13_752, 491_722, 767, 10),
    _npz("Amazon", "Photo", "amazon_electronics_photo", 7_650, 238_162, 745, 8),
    _npz("Coauthor", "CS", "ms_academic_cs", 18_333, 163_788, 6_805, 15),
    _npz("Coauthor", "Physics", "ms_academic_phy", 34_493, 495_924, 8_415, 5),
    Dataset(
        "ogbn-arxiv",
        "ogbn-arxiv",
        "computer-science papers on arXiv that cite each other, averaged word vectors",
        (("ogbn_arxiv/arxiv.zip",), tuple(f"ogbn_arxiv/{table}" for table in OGB_TABLES)),
        ("http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip",),
        "ogb",
        *(169_343, 1_166_243, 128, 40),
        split="by time, OGB's own",
        content=None,
        loaded_edges=2_315_598,
    ),
)
DATASETS = {row.name: row for row in _CATALOG}


def find(name: str) -> Dataset:
    """A data set by name, in any case."""
    return DATASETS[check_choice("data set", name.lower() if isinstance(name, str) else name, DATASETS)]


def name_of(name: str) -> str:
    """The name of a data set as in the catalogue; the path of a graph folder as it is."""
    return name if _is_folder(name) else find(name).name


def _is_folder(name: str) -> bool:
    """Whether a word is a folder and no data set's name."""
    return isinstance(name, str) and bool(name) and name.lower() not in DATASETS and Path(name).is_dir()


def load(name: str = "toy", root: str | Path | None = None, fetch: download.Fetch | None = None) -> Graph:
    """A graph by name, or that of a graph folder.

    >>> from clnr import load
    >>> load("toy")
    Graph(toy: 2400 nodes, 10386 edges, 720 sparse features, 6 classes)

    Args:
        name: One of ``clnr ls datasets``, in any case; or the path of a folder that ``clnr ingest`` wrote.
        root: Folder with data in PyG's layout, searched first; then the folder CLNR_DATA, then the user's cache, to which
            missing files are downloaded.
        fetch: How to download, for tests and progress bars.
    """
    if _is_folder(name):
        from clnr.graph.folder import open_graph

        return open_graph(name).in_memory().named(Path(name).resolve().name)
    return find(name).load(root, fetch)
