from __future__ import annotations

import threading
import time
from types import SimpleNamespace

from clnr.embedding.stages.stages import KeptStage, Stage, run_stages


class Kept(KeptStage):
    """Keeps a file, which the other worker is slow to read."""

    name = "embed"

    def run(self, job):
        pass

    def is_kept(self, work):
        return work.path.is_file()

    def save(self, job, work):
        work.path.write_text("kept")

    def load(self, job, work):
        time.sleep(0.2)
        job.loaded = work.path.read_text()


class Last(Stage):
    """The first worker removes what was kept."""

    name = "write"

    def run(self, job):
        if job.settings.workers.first:
            job.work.path.unlink()


def test_nothing_is_removed_that_another_worker_still_reads(tmp_path, monkeypatch):
    """Two workers, as threads."""
    monkeypatch.setattr("clnr.embedding.stages.stages.check_unchanged", lambda folder: None)
    meeting, said = threading.Barrier(2, timeout=60), {}

    def worker(first):
        def broadcast(value):
            if first:
                said["value"] = value
            meeting.wait()
            return said["value"]

        workers = SimpleNamespace(first=first, broadcast_object=broadcast, barrier=meeting.wait)
        work = SimpleNamespace(path=tmp_path / "kept", folder=None)
        return SimpleNamespace(settings=SimpleNamespace(workers=workers), work=work, loaded=None)

    jobs = [worker(first) for first in (True, False)]
    threads = [threading.Thread(target=run_stages, args=(job, (Kept(), Last()))) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [job.loaded for job in jobs] == [None, "kept"]
    assert not (tmp_path / "kept").exists()
