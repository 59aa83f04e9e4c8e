"""A full disk: the service starts, serves and stops all the same; what needs the disk is refused and leaves nothing."""

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from service.api import examples
from tests.api.asking import refusal_in
from tests.service_process import free_port, running_service

FULL = Path("/dev/full")
SWEEP = "/v1/sweeps:run"
#: Its workbook is some megabytes.
WIDE = examples.REQUESTS["RunSweep"] | {"batch_sizes": list(range(1, 1000)), "context_tokens": [1024, 4096, 8192]}
TABLES = {"format": "xlsx"}


@contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """Processes that are started meanwhile cannot write a longer file: the nearest to a full disk that needs no disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_full_disk_behind_output_and_log_stops_nothing(processes: str) -> None:
    ports = {name: str(free_port()) for name in ("TONNAGE_HTTP_PORT", "TONNAGE_GRPC_PORT")}
    settings = {**ports, "TONNAGE_PROCESSES": processes, "TONNAGE_LOG_LEVEL": "debug"}
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "service"]
        process = subprocess.Popen(command, env=os.environ | settings, stdout=full, stderr=full)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{ports['TONNAGE_HTTP_PORT']}", timeout=30) as http:
            until_ready(http)
            for number in range(1, 30):
                question = examples.REQUESTS["EstimateDecode"] | {"context_tokens": number}
                assert 200 == http.post("/v1/decode:estimate", json=question).status_code
            assert 400 == http.post("/v1/decode:estimate", json={}).status_code
    finally:
        process.terminate()
        code = process.wait(30)
    assert 0 == code


def until_ready(http: httpx.Client) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            assert 200 == http.get("/readyz").status_code
            return
        except (httpx.TransportError, AssertionError):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_workbook_that_finds_no_room_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    settings = {"TMPDIR": str(tmp_path), "TONNAGE_LOG_LEVEL": "warning"}
    with files_of_at_most(100_000), running_service(**settings) as running, httpx.Client(base_url=running.http) as http:
        refusal = refusal_in(http.post(SWEEP, json=WIDE, params=TABLES, timeout=60))
        assert (503, "UNAVAILABLE") == (refusal.http_status, refusal.code)
        assert "disk is full" in refusal.message
        assert refusal.retry_seconds
        assert 200 == http.post(SWEEP, json=WIDE, params={"format": "csv"}, timeout=60).status_code
        assert 200 == http.post(SWEEP, json=examples.REQUESTS["RunSweep"], params=TABLES, timeout=60).status_code
        assert "no room on the disk" in running.log.read_text()
        assert [] == list(tmp_path.iterdir())


def test_a_workbook_that_nobody_waits_for_leaves_nothing(tmp_path: Path) -> None:
    with running_service(TMPDIR=str(tmp_path)) as running:
        for _ in range(3):
            with connection_asking(running.http, json.dumps(WIDE).encode()):
                until(lambda: any(tmp_path.iterdir()))
            until(lambda: not any(tmp_path.iterdir()))


def connection_asking(http: str, body: bytes) -> socket.socket:
    """Has asked for the workbook and read nothing of the answer."""
    address = urlsplit(http)
    connection = socket.create_connection((address.hostname, address.port), timeout=30)
    fields = ["Host: tonnage", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    head = "\r\n".join([f"POST {SWEEP}?format=xlsx HTTP/1.1", *fields, "", ""])
    connection.sendall(head.encode() + body)
    return connection


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_temporary_files_are_where_they_are_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    from tonnage.tabular.xlsx import WorkbookWriter

    writer = WorkbookWriter()
    writer.streamed("Results", ["a"]).append([1])
    assert 1 <= len(list(tmp_path.iterdir()))
    del writer
    assert [] == list(tmp_path.iterdir())
