"""Keys, scopes and limits at both doors of a running service; TLS on both, renewed while it runs; slow and endless callers."""

import contextlib
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
import trustme

from service.api.access.keys import hash_of
from tests.service_process import RunningService, free_port, running_service
from tonnage import Client, TonnageError

READER, PLANNER, SLOW = "reader-key-0123456789", "planner-key-0123456789", "slow-key-0123456789"
KEYS = f"""keys:
- {{name: reader, sha256: {hash_of(READER)}, scopes: [read]}}
- {{name: planner, sha256: {hash_of(PLANNER)}, scopes: [read, plan, admin]}}
- {{name: slow, sha256: {hash_of(SLOW)}, scopes: [read], requests_per_second: 0.01}}
"""
POINT = {"model": {"name": "llama-3.1-8b"}, "accelerator": {"name": "h100-sxm"}, "batch_size": 1, "context_tokens": 1024}
SEARCH = {"model": {"name": "llama-3.1-8b"}, "node": {"name": "dgx-h100"}, "context_tokens": 1024}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    keys = tmp_path_factory.mktemp("keys") / "keys.yaml"
    keys.write_text(KEYS)
    operations = free_port()
    with running_service(
        TONNAGE_API_KEYS_FILE=str(keys),
        TONNAGE_OPERATIONS_PORT=str(operations),
        TONNAGE_HTTP_ARRIVAL_SECONDS="1",
        TONNAGE_HTTP_MAX_HEAD_BYTES="4096",
        TONNAGE_HTTP_MAX_CONNECTIONS="20",
        TONNAGE_HTTP_MAX_PENDING_BODY_BYTES="65536",
        TONNAGE_MAX_REQUEST_BYTES="262144",
    ) as running:
        yield running


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_rest_asks_for_a_key_and_tells_what_it_may(guarded: RunningService) -> None:
    with httpx.Client(base_url=guarded.http) as http:
        refused = http.post("/v1/decode:estimate", json=POINT)
        assert 401 == refused.status_code
        assert "Bearer" in refused.headers["www-authenticate"]
        assert 401 == http.get("/v1/models", headers=bearer("wrong")).status_code
        assert 200 == http.post("/v1/decode:estimate", json=POINT, headers=bearer(READER)).status_code
        assert 200 == http.get("/v1/models", headers={"x-api-key": READER}).status_code
        denied = http.post("/v1/nodes:fit", json=SEARCH, headers=bearer(READER))
        assert (403, "PERMISSION_DENIED") == (denied.status_code, denied.json()["details"][0]["reason"])
        assert 200 == http.post("/v1/nodes:fit", json=SEARCH, headers=bearer(PLANNER)).status_code
        assert 403 == http.get("/metrics", headers=bearer(READER)).status_code
        assert 'tonnage_callers_refused_total{reason="unauthenticated"}' in http.get("/metrics", headers=bearer(PLANNER)).text
        for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
            assert 200 == http.get(path).status_code


def test_the_explorer_page_loads_without_a_key_and_asks_for_one(guarded: RunningService) -> None:
    with httpx.Client(base_url=guarded.http) as http:
        assert (200, 200) == (http.get("/").status_code, http.get("/explorer/main.js").status_code)
        assert b'name="key"' in http.get("/").content


def test_grpc_asks_for_a_key_and_tells_what_it_may(guarded: RunningService) -> None:
    with Client(guarded.grpc) as client:
        with pytest.raises(TonnageError, match="no credentials"):
            client.get_accelerator("h100-sxm")
        with pytest.raises(TonnageError, match="unknown credentials"):
            client.with_options(metadata=list(bearer("wrong").items())).get_accelerator("h100-sxm")
        reader = client.with_options(metadata=list(bearer(READER).items()))
        assert "h100-sxm" == reader.get_accelerator("h100-sxm").accelerator.name
        with pytest.raises(TonnageError, match="needs the scope plan"):
            reader.fit_node(model="llama-3.1-8b", node="dgx-h100", context_tokens=1024)


def test_who_asks_too_often_is_told_when_to_come_back(guarded: RunningService) -> None:
    with httpx.Client(base_url=guarded.http, headers=bearer(SLOW)) as http:
        assert 200 == http.get("/v1/accelerators/h100-sxm").status_code
        refused = http.get("/v1/accelerators/h100-sxm")
        assert 429 == refused.status_code
        assert 0 < int(refused.headers["retry-after"]) <= 100


def test_health_and_metrics_have_a_port_of_their_own(guarded: RunningService) -> None:
    port = next(word for word in guarded.log.read_text().split() if word.startswith("127.0.0.1:") and word != guarded.grpc)
    with httpx.Client(base_url=f"http://{port}") as http:
        assert {"status": "ready"} == http.get("/readyz").json()
        assert "grpc_server_started_total" in http.get("/metrics").text
        assert 404 == http.get("/v1/models").status_code
        assert 405 == http.post("/metrics").status_code


def connected(running: RunningService) -> socket.socket:
    host, port = running.http.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def told(connection: socket.socket) -> bytes:
    """What is said until the connection is closed."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            said += part
    return said


def test_who_says_nothing_or_too_slowly_or_too_much_is_cut_off(guarded: RunningService) -> None:
    head = (
        b"POST /v1/decode:estimate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        + b"x-api-key: %b\r\n" % READER.encode()
    )
    for sent, status in (
        (b"", b"408"),
        (b"GET / HTTP/1.1\r\nhost", b"408"),
        (head + b"content-length: 100\r\n\r\n{", b"408"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 2000, b"431"),
        (b"nonsense\r\n\r\n", b"400"),
    ):
        with connected(guarded) as connection:
            connection.sendall(sent)
            answer = told(connection)
        assert answer.startswith(b"HTTP/1.1 " + status), sent[:60]
        assert b'"domain":"tonnage"' in answer


def test_bodies_on_their_way_share_a_limit(guarded: RunningService) -> None:
    head = b"POST /v1/decode:estimate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n"
    head += b"x-api-key: %b\r\n\r\n" % READER.encode()
    with connected(guarded) as first, connected(guarded) as second:
        first.sendall(head + b" " * 50_000)
        time.sleep(0.2)
        second.sendall(head + b" " * 50_000)
        second.settimeout(0.8)
        assert second.recv(65536).startswith(b"HTTP/1.1 429")


def test_connections_without_end_leave_the_service_answering(guarded: RunningService) -> None:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(guarded)) for _ in range(40)]
        assert any(told(each).startswith(b"HTTP/1.1 503") for each in held[25:])
    deadline = time.monotonic() + 5
    while httpx.get(f"{guarded.http}/readyz").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def written(authority: trustme.CA, folder: Path, name: str) -> None:
    """A certificate of localhost in the two files, put there as a whole."""
    issued = authority.issue_cert("localhost", "127.0.0.1", common_name=name)
    issued.private_key_pem.write_to_path(str(folder / "next.key"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "next.crt"))
    os.replace(folder / "next.key", folder / "tls.key")
    os.replace(folder / "next.crt", folder / "tls.crt")


def shown(address: str, context: ssl.SSLContext) -> bytes:
    """The certificate that a port shows."""
    host, port = address.rsplit(":", 1)
    with (
        socket.create_connection((host, int(port)), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        found = wrapped.getpeercert(binary_form=True)
        assert found is not None
        return found


def test_both_doors_speak_tls_and_take_a_renewed_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    written(authority, tmp_path, "first")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    settings = {"TONNAGE_TLS_CERT_FILE": str(tmp_path / "tls.crt"), "TONNAGE_TLS_KEY_FILE": str(tmp_path / "tls.key")}
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    operations = str(free_port())
    with running_service(ready_port=operations, TONNAGE_OPERATIONS_PORT=operations, **settings) as running:
        https = running.http.replace("http://", "https://")
        target = running.http.removeprefix("http://")
        credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
        with httpx.Client(base_url=https, verify=context) as http, Client(running.grpc, credentials=credentials) as client:
            assert 200 == http.get("/v1/accelerators/h100-sxm").status_code
            assert "h100-sxm" == client.get_accelerator("h100-sxm").accelerator.name
            context.set_alpn_protocols(["h2"])
            before = shown(target, context), shown(running.grpc, context)
            written(authority, tmp_path, "second")
            shown(target, context)  # the handshake that notices
            after = shown(target, context), shown(running.grpc, context)
            assert not set(before) & set(after)
            assert 200 == http.get("/v1/accelerators/h100-sxm").status_code  # on the connection that was open
            assert "h100-sxm" == client.get_accelerator("h100-sxm").accelerator.name
            (tmp_path / "tls.crt").write_text("no certificate")
            assert after == (shown(target, context), shown(running.grpc, context))
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{running.http}/readyz")
