"""What is only HTTP's: bodies, headers, methods, paths, pages."""

import gzip
import json
import socket
from urllib.parse import urlsplit

import pytest

from service.api import examples
from service.api.errors import MAX_VIOLATIONS
from tests.api.asking import BY_NAME, POSTED, Doors, refusal_in

DECODE = "EstimateDecode"
BODY = json.dumps(examples.REQUESTS[DECODE]).encode()
PATH = BY_NAME[DECODE].http.template


# What is not JSON, and where parsing stops.
NOT_JSON = [
    (b"", "the body is empty"),
    (b"hello", "line 1, column 1"),
    (b'{"model": ', "character 10"),
    (b'{"model": {}} x', "character 14"),
    (b'{"batch_size": NaN}', "NaN is no number in JSON"),
    (b'{"batch_size": Infinity}', "Infinity is no number in JSON"),
    (b'{"batch_size": -Infinity}', "Infinity is no number in JSON"),
    (b'{"batch_size": 1e999}', "infinity"),
    (b'{"model": "\xff"}', "UTF-8"),
    (b"[" * 100_000, "depth"),
    (b'{"a":' * 100_000, "depth"),
    (b"model=llama", "line 1"),
]


@pytest.mark.parametrize(("body", "words"), NOT_JSON, ids=lambda value: str(value)[:20])
def test_a_body_that_is_not_json_is_told_where_parsing_stopped(doors: Doors, body: bytes, words: str) -> None:
    refusal = refusal_in(doors.post_bytes(DECODE, body))
    assert ("INVALID_ARGUMENT", 400, "UNREADABLE_REQUEST") == (refusal.code, refusal.http_status, refusal.reason)
    assert words in refusal.message


# JSON that is no message: body, field, description.
NOT_A_MESSAGE = [
    ("[]", "", "an object is expected, not an array"),
    ("7", "", "an object is expected, not the number 7"),
    ("null", "", "an object is expected, not null"),
    ('{"modle": {}}', "modle", "there is no such field; did you mean model?"),
    ('{"model": {"nmae": "x"}}', "model.nmae", "there is no such field; did you mean name?"),
    ('{"zzz": null}', "zzz", "there is no such field; the fields are model, accelerator"),
    ('{"batch_size": "64"}', "batch_size", "not the string '64'; write it without quotes"),
    ('{"batch_size": "many"}', "batch_size", "a number is expected, not the string 'many'"),
    ('{"batch_size": true}', "batch_size", "a number is expected, not true"),
    ('{"batch_size": 64.5}', "batch_size", "64.5 is not a whole number"),
    ('{"batch_size": 1e300}', "batch_size", "is out of range"),
    ('{"batch_size": 4294967296}', "batch_size", "4294967296 is out of range"),
    ('{"batch_size": []}', "batch_size", "a number is expected, not an array"),
    ('{"explain": 1}', "explain", "true or false is expected, not the number 1"),
    ('{"explain": "true"}', "explain", "true or false is expected, not the string 'true'"),
    ('{"model": "llama"}', "model", "an object is expected, not the string 'llama'"),
    ('{"model": {"name": 7}}', "model.name", "a string is expected, not the number 7"),
    ('{"model": {"hf_config": []}}', "model.hf_config", "an object is expected, not an array"),
    ('{"model": {"name": "a", "dense": {}}}', "model.dense", "it excludes name"),
    ('{"batch_size": 1, "batchSize": 2}', "batch_size", "it is given twice, also as batchSize"),
    (
        '{"accelerator": {"inline": {"peak_dense_flops_per_second": {"bf16": "x"}}}}',
        'accelerator.inline.peak_dense_flops_per_second["bf16"]',
        "a number is expected",
    ),
]


@pytest.mark.parametrize(("body", "field", "words"), NOT_A_MESSAGE, ids=lambda value: str(value)[:40])
def test_json_that_is_no_message_is_told_field_by_field(doors: Doors, body: str, field: str, words: str) -> None:
    refusal = refusal_in(doors.post_bytes(DECODE, body.encode()))
    assert ("INVALID_ARGUMENT", 400, "INVALID_REQUEST") == (refusal.code, refusal.http_status, refusal.reason)
    assert words in refusal.violations[field]


def test_an_enum_is_given_by_name(doors: Doors) -> None:
    for phase in (1, "training", "PHASE", True):
        refusal = doors.rest_refusal("ComputeUtilization", examples.REQUESTS["ComputeUtilization"] | {"phase": phase})
        assert "it is one of TRAINING, INFERENCE, PREFILL, DECODE" in refusal.violations["phase"]


def test_null_is_not_given(doors: Doors) -> None:
    plain = examples.REQUESTS[DECODE]
    assert doors.post(DECODE, plain).json() == doors.post(DECODE, plain | {"precision": None, "explain": None}).json()


def test_faults_of_both_kinds_are_told_together_and_none_twice(doors: Doors) -> None:
    refusal = doors.rest_refusal(DECODE, {"model": {"nam": "x"}, "accelerator": 7, "batch_size": "64", "context_tokens": 0})
    assert {"model.nam", "accelerator", "batch_size", "context_tokens"} == refusal.violations.keys()


def test_a_deep_config_is_refused_and_a_less_deep_one_read(doors: Doors) -> None:
    def config(depth: int) -> str:
        return '{"a":' * depth + "1" + "}" * depth

    def body(depth: int) -> bytes:
        return f'{{"accelerator": {{"name": "l4"}}, "model": {{"hf_config": {config(depth)}}}}}'.encode()

    assert "nested more than 28 deep" in refusal_in(doors.post_bytes(DECODE, body(29))).violations["model.hf_config"]
    assert "model.hf_config.model_type" in refusal_in(doors.post_bytes(DECODE, body(28))).violations
    lists = b'{"model": {"hf_config": {"a": ' + b"[" * 500 + b"]" * 500 + b"}}}"
    assert "nested more than 28 deep" in refusal_in(doors.post_bytes(DECODE, lists)).violations["model.hf_config"]


def test_thousands_of_faults_are_not_all_listed(doors: Doors) -> None:
    refusal = doors.rest_refusal(DECODE, {f"field_{number}": number for number in range(5_000)})
    assert MAX_VIOLATIONS == len(refusal.violations)


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"]
)
@pytest.mark.parametrize("rpc", POSTED)
def test_a_body_of_another_type_is_415(doors: Doors, rpc: str, content_type: str) -> None:
    response = doors.post_bytes(rpc, BODY, content_type)
    refusal = refusal_in(response)
    assert (415, "UNSUPPORTED_CONTENT_TYPE") == (refusal.http_status, refusal.reason)
    assert "application/json" == response.headers["accept"] == refusal.metadata["supported"]


def test_a_compressed_body_is_415(doors: Doors) -> None:
    body = gzip.compress(b'{"model": {"name": "' + b"x" * 10_000_000 + b'"}}')
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    refusal = refusal_in(doors.http.post(PATH, content=body, headers=headers))
    assert (415, "UNSUPPORTED_CONTENT_ENCODING") == (refusal.http_status, refusal.reason)


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'])
def test_a_charset_may_be_given(doors: Doors, content_type: str) -> None:
    assert 200 == doors.post_bytes(DECODE, BODY, content_type).status_code


def test_a_body_of_50_megabytes_is_413(doors: Doors) -> None:
    refusal = refusal_in(doors.post_bytes(DECODE, b" " * 50_000_000))
    assert ("RESOURCE_EXHAUSTED", 413, "BODY_TOO_LARGE") == (refusal.code, refusal.http_status, refusal.reason)
    assert str(4 * 2**20) == refusal.metadata["limit_bytes"]
    assert 200 == doors.post_bytes(DECODE, BODY).status_code


def test_a_body_without_a_declared_length_is_counted_while_read(doors: Doors) -> None:
    headers = {"content-type": "application/json"}
    chunks = (b" " * 2**20 for _ in range(20))
    assert 413 == refusal_in(doors.http.post(PATH, content=chunks, headers=headers)).http_status
    assert 200 == doors.http.post(PATH, content=iter([BODY[:20], BODY[20:]]), headers=headers).status_code


def test_a_body_just_within_the_limit_is_read(doors: Doors) -> None:
    assert 200 == doors.post_bytes(DECODE, BODY.ljust(4 * 2**20)).status_code
    assert 413 == doors.post_bytes(DECODE, BODY.ljust(4 * 2**20 + 1)).status_code


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD"])
def test_another_method_is_405_with_those_that_are_taken(doors: Doors, method: str) -> None:
    response = doors.http.request(method, PATH)
    assert 405 == response.status_code
    assert "OPTIONS, POST" == response.headers["allow"]
    if method != "HEAD":
        assert ("UNIMPLEMENTED", "METHOD_NOT_ALLOWED") == (refusal_in(response).code, refusal_in(response).reason)


def test_options_says_what_a_path_takes(doors: Doors) -> None:
    for path, allowed in ((PATH, "OPTIONS, POST"), ("/v1/models", "GET, HEAD, OPTIONS"), ("/healthz", "GET, HEAD, OPTIONS")):
        response = doors.http.options(path)
        assert (204, allowed, b"") == (response.status_code, response.headers["allow"], response.content)


def test_head_is_get_without_the_body(doors: Doors) -> None:
    for path in ("/v1/models", "/v1/models/llama-3.1-8b", "/openapi.json", "/readyz"):
        got, head = doors.http.get(path), doors.http.head(path)
        assert (200, got.headers["content-length"], b"") == (head.status_code, head.headers["content-length"], head.content)


@pytest.mark.parametrize(
    "path", ["/explorer", "/v1", "/v2/models", "/v1/decode", "/v1/decode:estimate/", "/v1/models/", "/a\nb", "/v1/nodes/a/b"]
)
def test_an_unknown_path_is_404_in_our_words(doors: Doors, path: str) -> None:
    refusal = refusal_in(doors.http.get(path.replace("\n", "%0A")))
    if path == "/v1/models/":  # a model without a name
        assert (400, ["name"]) == (refusal.http_status, [*refusal.violations])
    else:
        assert ("UNIMPLEMENTED", 404, "UNKNOWN_PATH") == (refusal.code, refusal.http_status, refusal.reason)
    assert 404 == doors.http.options(path.replace("\n", "%0A") + "x/y/z").status_code or "models" in path


QUERIES = [
    ("page_size=0", "page_size", "0 is out of range"),
    ("page_size=501", "page_size", "501 is out of range"),
    ("page_size=many", "page_size", "a number is expected, not the string 'many'"),
    ("page_size=", "page_size", "a number is expected"),
    ("page_size=1.5", "page_size", "1.5 is not a whole number"),
    ("page_size=99999999999999999999999", "page_size", "is out of range"),
    ("page_size=1&page_size=2", "page_size", "it is given twice"),
    ("page_size=1&pageSize=2", "page_size", "it is given twice"),
    ("page=1", "page", "did you mean page_size"),
    ("page_token=nonsense", "page_token", "it is not a token"),
    (f"page_token={'x' * 201}", "page_token", "at most 200"),
]


@pytest.mark.parametrize(("query", "field", "words"), QUERIES, ids=lambda value: str(value)[:30])
def test_a_query_is_as_strict_as_a_body(doors: Doors, query: str, field: str, words: str) -> None:
    refusal = refusal_in(doors.http.get(f"/v1/models?{query}"))
    assert (400, "INVALID_REQUEST") == (refusal.http_status, refusal.reason)
    assert words in refusal.violations[field]


@pytest.mark.parametrize("query", ["%ff=1", "page_size", "&".join(["a=1"] * 200), "page_token=%ff"])
def test_a_query_that_cannot_be_taken_apart_is_400(doors: Doors, query: str) -> None:
    assert "UNREADABLE_REQUEST" == refusal_in(doors.http.get(f"/v1/models?{query}")).reason


def test_the_name_in_the_path_cannot_be_given_again(doors: Doors) -> None:
    refusal = refusal_in(doors.http.get("/v1/models/llama-3.1-8b?name=mixtral-8x7b"))
    assert {"name": "it stands in the path already; leave it out of the query"} == refusal.violations
    assert "name: it stands in the path already; leave it out of the query" == refusal.message


def test_where_no_field_is_taken_none_is_listed(doors: Doors) -> None:
    refusal = refusal_in(doors.http.get("/v1/models/llama-3.1-8b?zzz=1"))
    assert {"zzz": "there is no such field; none is taken here"} == refusal.violations


def test_the_pages(doors: Doors) -> None:
    assert {"status": "alive"} == doors.http.get("/healthz").json()
    assert {"status": "ready"} == doors.http.get("/readyz").json()
    metrics = doors.http.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    for name in (
        "grpc_server_started_total",
        "http_server_requests_total",
        "tonnage_cache_requests_total",
        "tonnage_catalogue_info",
    ):
        assert name in metrics.text


def test_the_documentation_loads_nothing_from_elsewhere(doors: Doors) -> None:
    page = doors.http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for rpc in BY_NAME:
        assert f'id="{rpc}"' in page.text
    for attribute in ("src=", "<link", "<script", "@import", "url("):
        assert attribute not in page.text


def test_bytes_that_are_no_http_do_no_harm(doors: Doors) -> None:
    address = urlsplit(str(doors.http.base_url))
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=5) as connection:
        connection.sendall(b"\x00\x01\x02 this is not HTTP\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 400")
    assert 200 == doors.http.get("/healthz").status_code
