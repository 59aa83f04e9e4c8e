"""What is served is what the schema declares: RPCs, routes, fields, documentation."""

import json
import re
import typing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor
from msgspec import Struct, defstruct

from service.api import examples
from service.api.descriptors import descriptor_of, is_map, is_struct
from service.api.messages import reader, writer
from service.api.openapi import document
from service.api.openapi_schemas import comments
from service.api.pairing import pairs
from service.api.rest import starlette_path
from service.api.rules import field_rules
from service.api.schema import FILES, RPCS, Rpc
from service.api.servicers import Servicer, servicers
from service.cache.cache import Cache
from service.cache.keys import KeySpace
from service.cache.local import LocalTier
from service.cache.policy import COST_CLASSES
from service.catalogue.loader import load
from service.planning.planner import Planner
from service.settings import specs_dir
from service.telemetry import RpcName, Telemetry
from tonnage.v1.capacity_service_pb2 import LimitOnset
from tonnage.v1.model_pb2 import DenseModel

RPC_IDS = [rpc.name for rpc in RPCS]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Servicer, ...]]:
    telemetry = Telemetry([RpcName(rpc.service, rpc.name) for rpc in RPCS], version="test")
    cache = Cache(keys=KeySpace(catalogue_revision="test", code_version="test"), local=LocalTier(max_bytes=0, max_entries=0))
    with ThreadPoolExecutor(1) as executor:
        planner = Planner(load(specs_dir()))
        yield servicers(planner, cache, telemetry, executor, redis_for_every_rpc=False)


def messages_of(descriptor: Descriptor, seen: dict[str, Descriptor] | None = None) -> dict[str, Descriptor]:
    """The message and all that it holds, by full name."""
    seen = {} if seen is None else seen
    if descriptor.full_name not in seen:
        seen[descriptor.full_name] = descriptor
        for field in descriptor.fields:
            if field.message_type is not None and not is_map(field) and not is_struct(field):
                messages_of(field.message_type, seen)
    return seen


def all_messages() -> dict[str, Descriptor]:
    found: dict[str, Descriptor] = {}
    for rpc in RPCS:
        found |= messages_of(descriptor_of(rpc.request)) | messages_of(descriptor_of(rpc.response))
    return found


def test_every_rpc_has_a_servicer_whose_fields_match_the_planners(served: tuple[Servicer, ...]) -> None:
    # Made from descriptors and annotations together: a field on one side only is refused while making them.
    assert RPC_IDS == [each.rpc.name for each in served]


@pytest.mark.parametrize("rpc", RPCS, ids=RPC_IDS)
def test_answer_fields_are_struct_fields_and_the_other_way_round(rpc: Rpc) -> None:
    method = getattr(Planner, re.sub(r"(?<!^)(?=[A-Z])", "_", rpc.name).lower())
    answer = typing.get_type_hints(method)["return"]
    if rpc.is_streaming:
        (answer,) = typing.get_args(answer)
    compared = compare_fields(descriptor_of(rpc.response), answer)
    assert compared >= {rpc.response.DESCRIPTOR.full_name}


def compare_fields(descriptor: Descriptor, kind: type) -> set[str]:
    compared = {descriptor.full_name}
    matched = pairs(descriptor, kind)
    assert {field.name for field in descriptor.fields} == {pair.name for pair in matched}
    for pair in matched:
        if pair.message is not None and not pair.is_struct:
            compared |= compare_fields(pair.message, pair.item if pair.descriptor.is_repeated else pair.annotation)
    return compared


class Wrong(StrEnum):
    MEMORY_BANDWIDTH = "MEMORY_BANDWIDTH"


class Onset(Struct, frozen=True):
    limit: Wrong
    binds_from_batch_size: float | None
    binds_only_below_context_tokens: float | None
    description: str


def test_a_field_on_one_side_only_is_refused() -> None:
    with pytest.raises(TypeError, match="do not share description"):
        writer(LimitOnset, defstruct("Fewer", [(name, Any) for name in Onset.__annotations__ if name != "description"]))
    more = defstruct("More", [*((field.name, Any) for field in DenseModel.DESCRIPTOR.fields), ("more", int)])
    with pytest.raises(TypeError, match="do not share more"):
        reader(DenseModel, more)


def test_a_field_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match=r"LimitOnset\.limit is not of the kind"):
        writer(LimitOnset, Onset)  # its enum lacks members


def test_everything_in_the_schema_has_a_comment() -> None:
    documented = comments()
    names = [file.name for file in FILES]
    for rpc in RPCS:
        names += [rpc.service, rpc.descriptor.full_name]
    for name, descriptor in all_messages().items():
        names += [name, *(field.full_name for field in descriptor.fields)]
        for field in descriptor.fields:
            if field.enum_type is not None:
                names += [f"{field.enum_type.full_name}.{value.name}" for value in field.enum_type.values]
    assert [] == [name for name in names if not documented.get(name)]


def test_every_rpc_states_its_cost() -> None:
    assert [] == [rpc.name for rpc in RPCS if rpc.name not in COST_CLASSES]


def test_every_rule_is_known_to_the_doors() -> None:
    for descriptor in all_messages().values():
        for field in descriptor.fields:
            field_rules(field)


def test_every_rpc_has_one_path_in_the_openapi_document() -> None:
    paths = document()["paths"]
    documented = {(method.upper(), path, made["operationId"]) for path, of in paths.items() for method, made in of.items()}
    expected = {(rpc.http.method, rpc.http.template.replace("=**", ""), rpc.name) for rpc in RPCS}
    assert expected == documented


def test_the_committed_openapi_document_is_fresh(repository_root: Path) -> None:
    committed = json.loads((repository_root / "clients" / "openapi.json").read_text(encoding="utf-8"))
    assert document() == committed


def test_every_reference_in_the_openapi_document_leads_somewhere() -> None:
    made = document()
    references = re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(made))
    assert set(references) <= made["components"]["schemas"].keys()


def test_every_operation_has_an_example_and_describes_all_its_fields() -> None:
    assert set(RPC_IDS) == examples.REQUESTS.keys()
    for name, schema in document()["components"]["schemas"].items():
        assert schema["description"], name
        for field, each in schema["properties"].items():
            if name not in {"Status", "ErrorInfo", "BadRequest", "FieldViolation", "RetryInfo", "RequestInfo"}:
                assert each["description"], f"{name}.{field}"


def test_a_pattern_that_cannot_be_mounted_is_refused() -> None:
    with pytest.raises(ValueError, match="can be mounted"):
        starlette_path("/v1/{name=models/*}")
