"""Where raw files are looked for, and how they are fetched from a server that misbehaves in every way servers do."""

from __future__ import annotations

import functools
import http.server
import multiprocessing
import os
import re
import socket
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from clnr.datasets.download import download, locate
from clnr.errors import DataError

LAYOUT = (("Set/raw/a.bin", "Set/raw/b.bin"),)
OTHER = (*LAYOUT, ("Set/packed.zip",))
URLS = ("https://example.org/a.bin", "https://example.org/b.bin")
BODY = bytes(range(256)) * 1200


def put(root: Path, *names: str) -> list[Path]:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"content")
    return [root / name for name in names]


def no_fetch(url: str, target: Path) -> None:
    raise AssertionError(f"must not fetch {url}")


@pytest.fixture
def places(tmp_path, monkeypatch, home) -> dict[str, Path]:
    """The three roots, in the order in which they are looked into."""
    roots = {"--data-root": tmp_path / "given", "CLNR_DATA": tmp_path / "named", "cache": home / "cache" / "data"}
    for folder in roots.values():
        folder.mkdir(parents=True)
    monkeypatch.setenv("CLNR_DATA", str(roots["CLNR_DATA"]))
    return roots


# -- where files are -----------------------------------------------------------------------------------------------------


def test_the_first_complete_layout_counts_of_the_given_folder_clnr_data_and_the_cache(places):
    """A file alone is no layout, and a folder in a file's place is no file."""
    given = places["--data-root"]
    put(given, LAYOUT[0][0])
    (given / LAYOUT[0][1]).mkdir()
    for place in ("cache", "CLNR_DATA"):
        expected = put(places[place], *LAYOUT[0])
        assert locate("set", LAYOUT, URLS, given, no_fetch) == expected
    packed = put(given, "Set/packed.zip")
    assert locate("set", OTHER, URLS, given, no_fetch) == packed
    put(places["CLNR_DATA"], "Set/packed.zip")
    assert locate("set", OTHER, URLS, None, no_fetch) == expected


def test_a_root_that_is_no_folder_is_refused_by_name(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for what, place in (("CLNR_DATA", tmp_path / "missing"), ("data_root", tmp_path / "file")):
        monkeypatch.setenv("CLNR_DATA", str(tmp_path / "missing"))
        with pytest.raises(DataError, match=f"{what} names {re.escape(str(place))}, which is not a folder"):
            locate("set", LAYOUT, URLS, place if what == "data_root" else None, no_fetch)


def test_what_is_missing_is_fetched_into_the_cache_and_what_is_there_is_not(places):
    put(places["cache"], LAYOUT[0][0])
    asked = []

    def fetch(url: str, target: Path) -> None:
        asked.append((url, target))
        target.write_bytes(b"fetched")

    expected = [places["cache"] / name for name in LAYOUT[0]]
    assert locate("set", LAYOUT, URLS, places["--data-root"], fetch) == expected
    assert asked == [(URLS[1], expected[1])]
    assert list(places["--data-root"].iterdir()) == list(places["CLNR_DATA"].iterdir()) == []


def test_a_missing_file_is_named_with_every_place_and_its_url(places):
    """A folder that lacks one file of a set is the likeliest mistake; naming another file would mislead."""

    def failing(url: str, target: Path) -> None:
        raise DataError(f"its download from {url} failed: no route to host")

    put(places["--data-root"], LAYOUT[0][0])
    with pytest.raises(DataError, match=f"^set needs {LAYOUT[0][1]}") as caught:
        locate("set", LAYOUT, URLS, places["--data-root"], failing)
    for part in (*places.values(), URLS[1], "no route to host"):
        assert str(part) in str(caught.value)


# -- how files get there ---------------------------------------------------------------------------------------------------


class Server(http.server.ThreadingHTTPServer):
    """Serves BODY, each request by the next step of a script; the last step is repeated."""

    daemon_threads = True

    def __init__(self, *script: str):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = script
        self.asked: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/set/file.bin"

    def handle_error(self, request, client_address):
        """Clients that go away early are part of the tests."""


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        asked = self.headers.get("Range")
        step = self.server.script[min(len(self.server.asked), len(self.server.script) - 1)]
        self.server.asked.append(asked)
        if step.isdigit():
            self.send_error(int(step))
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and step != "no ranges" else 0
        if start >= len(BODY):
            self.send_error(416)
            return
        if step == "elsewhere":
            start = 1000
        rest = BODY[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        if step == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n" % len(rest) + rest[: len(rest) // 2])
            return
        if step != "no length":
            self.send_header("Content-Length", "many" if step == "bad length" else str(len(rest)))
        self.end_headers()
        if step == "slow":
            time.sleep(0.2)
        self.wfile.write(rest[: len(rest) // 3] if step == "break" else rest)

    def log_message(self, *arguments):
        """Quiet."""


@pytest.fixture
def serve(monkeypatch):
    """Starts a server that follows a script."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(urllib.request, "_opener", None)
    started = []

    def start(*script: str) -> Server:
        server = Server(*script)
        thread = threading.Thread(target=functools.partial(server.serve_forever, poll_interval=0.01))
        thread.start()
        started.append((server, thread))
        return server

    yield start
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def target(tmp_path) -> Path:
    return tmp_path / "cache" / "set" / "file.bin"


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Three tries, with no pause between them."""
    monkeypatch.setattr("clnr.datasets.download._PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("clnr.datasets.download._TRIES", 3)


def left(target: Path) -> set[str]:
    """What stands in the target's folder."""
    return {path.name for path in target.parent.iterdir()}


PART = f"bytes={len(BODY) // 3}-"
SCRIPTS = {
    "whole": [None],
    "no length": [None],
    "bad length": [None],
    "break, whole": [None, PART],
    "chunked, whole": None,
    "break, no ranges": [None, PART],
    "break, elsewhere, no ranges": None,
    "429, 503, whole": [None] * 3,
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_file_arrives_whole_and_alone_whatever_the_server_does_first(serve, target, script):
    """A broken connection is resumed where it broke; nothing becomes a patchwork."""
    server, told = serve(*script.split(", ")), []
    download(server.url, target, lambda *news: told.append(news))
    assert target.read_bytes() == BODY
    assert left(target) == {"file.bin"}
    assert SCRIPTS[script] in (None, server.asked)
    counts = [have for _, have, _ in told]
    assert counts[-1] == len(BODY)
    if script in ("whole", "break, whole"):
        assert {(name, total) for name, _, total in told} == {("file.bin", len(BODY))}
        assert counts == sorted(counts)


def test_a_later_call_resumes_what_an_earlier_one_left(serve, target, monkeypatch):
    server = serve("break", "whole")
    with monkeypatch.context() as patch:
        patch.setattr("clnr.datasets.download._TRIES", 1)
        with pytest.raises(DataError):
            download(server.url, target)
    assert left(target) == {"file.bin.part"}
    download(server.url, target)
    assert target.read_bytes() == BODY
    assert server.asked[1] == PART


@pytest.mark.parametrize("extra", [0, 7], ids=["complete but not renamed", "too long"])
def test_a_part_that_the_server_cannot_continue_is_begun_anew(serve, target, extra):
    target.parent.mkdir(parents=True)
    target.with_name("file.bin.part").write_bytes(b"x" * (len(BODY) + extra))
    server = serve("whole")
    download(server.url, target)
    assert target.read_bytes() == BODY
    assert server.asked == [f"bytes={len(BODY) + extra}-", None]


@pytest.mark.parametrize(
    ("step", "requests", "said"),
    [
        *((code, 1, f"the server answers {code}") for code in ("403", "404")),
        *((code, 3, f"the server answers {code}") for code in ("503", "416")),
        ("break", 3, r"the connection broke at [\d,]+ of 307,200 bytes"),
    ],
)
def test_a_fault_that_does_not_pass_ends_after_the_tries_and_a_lasting_refusal_at_once(serve, target, step, requests, said):
    server = serve(step)
    with pytest.raises(DataError, match=f"{re.escape(server.url)} failed: .*{said}"):
        download(server.url, target)
    assert len(server.asked) == requests
    assert left(target) == ({"file.bin.part"} if step == "break" else set())


@pytest.mark.parametrize("proxy", ["", "http://[::1", "http://127.0.0.1:none", "socks5://127.0.0.1:1080"])
@pytest.mark.usefixtures("serve")
def test_an_address_or_a_proxy_that_leads_nowhere_is_a_data_error(target, monkeypatch, proxy):
    if proxy:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
    with pytest.raises(DataError, match=r"http://127\.0\.0\.1:1/x failed"):
        download("http://127.0.0.1:1/x", target)
    assert left(target) == set()


def test_a_server_that_says_nothing_is_a_data_error(target, monkeypatch):
    monkeypatch.setattr("clnr.datasets.download._TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(DataError, match="timed out"):
        download(f"http://127.0.0.1:{listening.getsockname()[1]}/file.bin", target)
    assert not target.exists()


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX file locks")
def test_two_processes_at_once_fetch_one_whole_file(serve, target):
    server = serve("slow")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=download, args=(server.url, target)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert target.read_bytes() == BODY
    assert left(target) == {"file.bin"}
    assert server.asked == [None]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_a_data_error_at_once(serve, target):
    target.parent.mkdir(parents=True)
    target.with_name("file.bin.part").symlink_to("/dev/full")
    server = serve("whole")
    with pytest.raises(DataError, match=f"failed: .*{os.strerror(28)}"):
        download(server.url, target)
    assert not target.exists()
    assert len(server.asked) == 1
