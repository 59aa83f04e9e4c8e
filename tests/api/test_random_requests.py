"""Random requests over both doors get an answer or a refusal as the table has it; never a 500, and never a broken connection.

``pytest --hypothesis-profile=search tests/api/test_random_requests.py tests/api/test_openapi_document.py`` sends some 40,000.
"""

import json
from typing import Any

import grpc
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.asking import BY_NAME, POSTED, Doors, Refusal, message_of, refusal_in, refusal_of
from tests.api.random_requests import EXAMPLES, careless_json, careless_message, plausible_json

#: What a request can end in by its own fault.
REFUSED = {(400, "INVALID_ARGUMENT"), (400, "FAILED_PRECONDITION"), (404, "NOT_FOUND"), (429, "RESOURCE_EXHAUSTED")}
READ = ["GetAccelerator", "GetNodeType", "GetModel", "ListAccelerators", "ListNodeTypes", "ListModels", "ListPrices"]


def as_python_writes(question: Any) -> bytes:
    """A body as json.dumps gives it, which writes the infinity that some config.json files hold."""
    return json.dumps(question).encode()


def check_response(response: httpx.Response) -> None:
    if response.status_code == 200:
        assert response.json()
        assert "NaN" not in response.text
    else:
        refusal = refusal_in(response)
        assert (refusal.http_status, refusal.code) in REFUSED, response.text
        check_refusal(refusal)


def check_call(doors: Doors, rpc: str, request: bytes) -> None:
    try:
        BY_NAME[rpc].response.FromString(doors.call_bytes(rpc, request))
    except grpc.RpcError as error:
        refusal = refusal_of(error)
        assert refusal.code in {code for _, code in REFUSED}, refusal
        check_refusal(refusal)


def check_refusal(refusal: Refusal) -> None:
    """It says why, and is never short of room for one caller at a time: what is exhausted is what one question may ask."""
    assert refusal.message
    assert refusal.code != "RESOURCE_EXHAUSTED" or refusal.reason == "TOO_LARGE", refusal


@pytest.mark.parametrize("rpc", POSTED)
@EXAMPLES
@given(data=st.data())
def test_plausible_json(doors: Doors, rpc: str, data: st.DataObject) -> None:
    check_response(doors.post_bytes(rpc, as_python_writes(data.draw(plausible_json(BY_NAME[rpc].request)))))


@pytest.mark.parametrize("rpc", POSTED)
@EXAMPLES
@given(data=st.data())
def test_careless_json(doors: Doors, rpc: str, data: st.DataObject) -> None:
    check_response(doors.post_bytes(rpc, as_python_writes(data.draw(careless_json(BY_NAME[rpc].request)))))


@pytest.mark.parametrize("rpc", [*POSTED, *READ])
@EXAMPLES
@given(data=st.data())
def test_careless_messages(doors: Doors, rpc: str, data: st.DataObject) -> None:
    check_call(doors, rpc, data.draw(careless_message(BY_NAME[rpc].request)).SerializeToString())


@pytest.mark.parametrize("rpc", POSTED)
@EXAMPLES
@given(data=st.data())
def test_plausible_messages(doors: Doors, rpc: str, data: st.DataObject) -> None:
    check_call(doors, rpc, message_of(rpc, data.draw(plausible_json(BY_NAME[rpc].request))).SerializeToString())


@pytest.mark.parametrize("rpc", [*POSTED, *READ])
@EXAMPLES
@given(request=st.binary(max_size=300))
def test_random_bytes_as_messages(doors: Doors, rpc: str, request: bytes) -> None:
    check_call(doors, rpc, request)


@pytest.mark.parametrize("rpc", POSTED)
@EXAMPLES
@given(body=st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))))
def test_random_bytes_as_bodies(doors: Doors, rpc: str, body: bytes) -> None:
    check_response(doors.post_bytes(rpc, body))


@EXAMPLES
@given(cut=st.integers(0, 150), extra=st.binary(max_size=5))
def test_bodies_cut_short(doors: Doors, cut: int, extra: bytes) -> None:
    body = json.dumps({"model": {"name": "llama-3.1-8b"}, "accelerator": {"name": "l4"}, "context_tokens": 8}).encode()
    check_response(doors.post_bytes("EstimateDecode", body[:cut] + extra))


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/{}", "/v1/accelerators/{}", "/v1/nodes"])
@EXAMPLES
@given(name=st.text(min_size=1, max_size=60), query=st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=3))
def test_random_paths_and_queries(doors: Doors, path: str, name: str, query: dict[str, Any]) -> None:
    escaped = "".join(f"%{byte:02X}" for byte in name.encode("utf-8", "replace"))
    response = doors.http.get(path.format(escaped), params=query)
    if response.status_code == 404 and "UNKNOWN_PATH" in response.text:
        refusal_in(response)
    else:
        check_response(response)
