"""Every answer, and every refusal, says under which id the log knows it."""

import http.client
import re
import socket
from urllib.parse import urlsplit

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from service.api.examples import REQUESTS
from tests.api.asking import BY_NAME, Doors, message_of
from tests.service_process import RunningService
from tonnage import Client, NotFound

MADE = re.compile(r"[0-9a-f]{32}")
RIGHT = REQUESTS["EstimateDecode"]
WRONG = RIGHT | {"model": {"name": "no-such"}}
SWEEP = REQUESTS["RunSweep"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/decode:estimate"),
        ("GET", "/v1/accelerators/h100-sxm"),
        ("GET", "/docs"),
        ("GET", "/metrics"),
        ("GET", "/nowhere"),
        ("PUT", "/v1/decode:estimate"),
        ("POST", "/mcp"),
        ("POST", "/v1/sweeps:run"),
    ],
)
def test_whatever_answers_over_http_repeats_the_id(doors: Doors, method: str, path: str) -> None:
    body = SWEEP if path.startswith("/v1/sweeps") else RIGHT
    for given, expected in (("batch-7/item:3", r"batch-7/item:3"), ("two words", MADE.pattern), (None, MADE.pattern)):
        headers = {} if given is None else {"x-request-id": given}
        answer = doors.http.request(method, path, json=body if method == "POST" else None, headers=headers)
        (told,) = answer.headers.get_list("x-request-id")
        assert re.fullmatch(expected, told)


def test_a_refusal_over_http_names_it_in_its_body_too(doors: Doors) -> None:
    answer = doors.http.post("/v1/decode:estimate", json=WRONG, headers={"x-request-id": "mine"})
    (info,) = [each for each in answer.json()["details"] if each["@type"] == "type.googleapis.com/google.rpc.RequestInfo"]
    assert "mine" == info["request_id"] == answer.headers["x-request-id"]


def test_no_two_requests_on_one_connection_share_an_id(service: RunningService) -> None:
    connection = http.client.HTTPConnection(urlsplit(service.http).netloc)
    told = []
    for _ in range(3):
        connection.request("GET", "/healthz")
        with connection.getresponse() as answer:
            told.append(answer.headers["x-request-id"])
            answer.read()
    connection.close()
    assert 3 == len(set(told))


def test_requests_sent_at_once_keep_their_own(service: RunningService) -> None:
    address = urlsplit(service.http)
    assert address.hostname is not None
    ids = [f"number-{number}" for number in range(5)]
    sent = "".join(f"GET /v1/models/no-such-{name} HTTP/1.1\r\nhost: x\r\nx-request-id: {name}\r\n\r\n" for name in ids)
    with socket.create_connection((address.hostname, address.port or 80), timeout=30) as connection:
        connection.sendall(sent.encode())
        came = b""
        while came.count(b"RequestInfo") < len(ids):
            part = connection.recv(65536)
            assert part
            came += part
    assert ids == re.findall(r"x-request-id: (\S+)", came.decode())
    assert ids == re.findall(r'RequestInfo","request_id":"([^"]+)"', came.decode())


def test_grpc_tells_it_with_the_status(doors: Doors) -> None:
    call = doors.channel.unary_unary(BY_NAME["EstimateDecode"].path, None, None)
    right = message_of("EstimateDecode", RIGHT).SerializeToString()
    for given, expected in (((("x-request-id", "mine"),), "mine"), ((), MADE.pattern)):
        _, answered = call.with_call(right, metadata=given, timeout=60)
        (told,) = [value for name, value in answered.trailing_metadata() if name == "x-request-id"]
        assert re.fullmatch(expected, str(told))


def test_a_refusal_over_grpc_names_it_in_its_status_too(doors: Doors) -> None:
    call = doors.channel.unary_unary(BY_NAME["EstimateDecode"].path, None, None)
    with pytest.raises(grpc.RpcError) as refused:
        call(message_of("EstimateDecode", WRONG).SerializeToString(), metadata=(("x-request-id", "mine"),), timeout=60)
    error = refused.value
    assert isinstance(error, grpc.Call)
    assert [("x-request-id", "mine")] == [each for each in error.trailing_metadata() or () if each[0] == "x-request-id"]
    status = rpc_status.from_call(error)
    assert status is not None
    info = error_details_pb2.RequestInfo()
    assert any(each.Unpack(info) for each in status.details)
    assert "mine" == info.request_id


def test_a_stream_tells_it_at_its_end(doors: Doors) -> None:
    call = doors.channel.unary_stream(BY_NAME["RunSweep"].path, None, None)
    parts = call(message_of("RunSweep", SWEEP).SerializeToString(), metadata=(("x-request-id", "mine"),), timeout=60)
    assert list(parts)
    assert ("x-request-id", "mine") in [tuple(each) for each in parts.trailing_metadata()]


def test_the_client_hands_it_to_whoever_catches_the_error(service: RunningService) -> None:
    with Client(service.grpc) as client, pytest.raises(NotFound) as refused:
        client.get_accelerator("no-such")
    assert MADE.fullmatch(refused.value.request_id)
