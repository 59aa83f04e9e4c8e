"""The page's files: sent with a strict policy, kept by the browser until they change, part of every distribution."""

import re
from pathlib import Path

import httpx
import pytest
from google.protobuf.descriptor import Descriptor
from hatchling.builders.wheel import WheelBuilder

from service.api.descriptors import descriptor_of
from service.api.explorer.page import explorer_pages
from service.api.schema import RPCS
from tests.service_process import RunningService

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


@pytest.mark.parametrize("path", explorer_pages({}))
def test_every_file_comes_with_the_policy_and_a_tag(service: RunningService, path: str) -> None:
    with httpx.Client(base_url=service.http) as http:
        answer = http.get(path)
        assert 200 == answer.status_code
        assert answer.headers["content-type"].startswith(TYPES["html" if path == "/" else path.rpartition(".")[2]])
        assert POLICY == answer.headers["content-security-policy"]
        assert ("nosniff", "no-referrer", "no-cache") == (
            answer.headers["x-content-type-options"],
            answer.headers["referrer-policy"],
            answer.headers["cache-control"],
        )
        kept = http.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert (304, b"", POLICY) == (kept.status_code, kept.content, kept.headers["content-security-policy"])
        assert 200 == http.get(path, headers={"if-none-match": '"another"'}).status_code
        head = http.head(path)
        assert (200, b"", answer.headers["content-length"]) == (head.status_code, head.content, head.headers["content-length"])


def test_a_file_that_is_not_there_is_refused_in_our_words(service: RunningService) -> None:
    for path in ("/explorer/", "/explorer/none.js", "/explorer/../page.py", "/explorer/%2e%2e/page.py"):
        answer = httpx.get(f"{service.http}{path}")
        assert (404, "UNKNOWN_PATH") == (answer.status_code, answer.json()["details"][0]["reason"])


def test_nothing_in_the_files_names_another_host_or_runs_inline(repository_root: Path) -> None:
    for each in sorted((repository_root / "service/api/explorer/assets").iterdir()):
        text = each.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")  # a name, which nobody fetches
        assert "://" not in text, each.name
        for wrong in (
            "innerHTML",
            "insertAdjacentHTML",
            "eval(",
            "document.write",
            " style=",
            "onclick=",
            "localStorage",
            "@import",
        ):
            assert wrong not in text, f"{each.name}: {wrong}"


def test_the_page_reads_no_field_that_the_schema_does_not_have(repository_root: Path) -> None:
    # A field that was renamed would be shown as a dash, and nothing would break.
    scripts = "".join(
        each.read_text(encoding="utf-8") for each in (repository_root / "service/api/explorer/assets").glob("*.js")
    )
    read = set(re.findall(r"\.([a-z0-9]+(?:_[a-z0-9]+)+)\b", scripts))
    read |= set(re.findall(r"(?:plainly|milliseconds|interval)\(\"(\w+)\"", scripts))
    choices = set(re.findall(r"^  (\w+): \{ initial", scripts, re.MULTILINE))
    fields: set[str] = set()
    for rpc in RPCS:
        _collect(descriptor_of(rpc.response), fields, set())
    assert len(read) > 50
    # Of google.rpc.BadRequest, of a config.json, and of the requests that a refusal names.
    assert {"field_violations", "model_type", "exchange_rates"} == read - fields - choices


def _collect(descriptor: Descriptor, fields: set[str], seen: set[str]) -> None:
    seen.add(descriptor.full_name)
    for field in descriptor.fields:
        fields.add(field.name)
        if field.message_type is not None and field.message_type.full_name not in seen:
            _collect(field.message_type, fields, seen)


def test_the_files_are_in_the_wheel(repository_root: Path) -> None:
    packed = {each.distribution_path for each in WheelBuilder(str(repository_root)).recurse_included_files()}
    assets = {f"service/api/explorer/assets/{path.rpartition('/')[2] or 'index.html'}" for path in explorer_pages({})}
    assert assets <= packed
