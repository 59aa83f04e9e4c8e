"""The table of calls against the schema, and the clients against the table."""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from typing import get_args, get_type_hints

import pytest
from google.protobuf.descriptor import MethodDescriptor

from tonnage import AsyncClient, Client, methods
from tonnage.channel import service_config
from tonnage.v1 import (
    capacity_service_pb2,
    catalogue_service_pb2,
    claim_service_pb2,
    fleet_service_pb2,
    kernel_service_pb2,
    placement_service_pb2,
    serving_service_pb2,
    sweep_service_pb2,
)
from tonnage.v1.serving_service_pb2 import Workload

TABLE = {method.path: method for method in vars(methods).values() if isinstance(method, methods.Method)}


def rpcs() -> list[MethodDescriptor]:
    modules = (
        capacity_service_pb2,
        catalogue_service_pb2,
        claim_service_pb2,
        fleet_service_pb2,
        kernel_service_pb2,
        placement_service_pb2,
        serving_service_pb2,
        sweep_service_pb2,
    )
    files = [module.DESCRIPTOR for module in modules]
    return [rpc for file in files for service in file.services_by_name.values() for rpc in service.methods]


def path(rpc: MethodDescriptor) -> str:
    return f"/{rpc.containing_service.full_name}/{rpc.name}"


def test_every_rpc_is_in_the_table_and_nothing_else() -> None:
    assert {path(rpc) for rpc in rpcs()} == set(TABLE)


@pytest.mark.parametrize("rpc", rpcs(), ids=lambda rpc: rpc.name)
def test_the_types_are_those_of_the_schema(rpc: MethodDescriptor) -> None:
    method = TABLE[path(rpc)]

    assert rpc.input_type.full_name == method.request.DESCRIPTOR.full_name
    assert rpc.output_type.full_name == method.response.DESCRIPTOR.full_name


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_both_clients_offer_every_call_with_its_arguments_and_documentation(client: type) -> None:
    for method in TABLE.values():
        call = getattr(client, method.build.__name__)
        _, *given = inspect.signature(call).parameters.values()

        assert list(inspect.signature(method.build).parameters.values()) == given
        assert method.build.__doc__ == call.__doc__


def keywords(build: Callable[..., object]) -> set[str]:
    """The names of all arguments, those of a typed ``**rest`` included."""
    found: set[str] = set()
    for each in inspect.signature(build).parameters.values():
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            (options,) = get_args(each.annotation)
            found |= get_type_hints(options).keys()
        else:
            found.add(each.name)
    return found


def test_questions_have_a_keyword_for_every_field() -> None:
    flattened = {
        "parallelism": {"tensor", "pipeline", "expert", "attention_data"},
        "precision": {"weights", "kv_cache", "compute"},
        "workload": set(Workload.DESCRIPTOR.fields_by_name),
        "cluster": {"nodes", "snapshot", "without_waiting_pods"},
    }
    for method in TABLE.values():
        if not any(verb in method.path for verb in ("/Estimate", "/Fit", "/Compute", "/Analyze", "/Draw")):
            continue
        names = set(method.request.DESCRIPTOR.fields_by_name) - {"nvml_gpu_utilization_ratio"}  # always refused
        messages = {name for name in names if method.request.DESCRIPTOR.fields_by_name[name].message_type is not None}
        expected = set().union(*(flattened.get(name, {name}) if name in messages else {name} for name in names))

        assert expected == keywords(method.build) - {"request"}


def test_the_service_config_covers_every_service() -> None:
    config = json.loads(service_config())

    named = {entry["service"] for entry in config["methodConfig"][0]["name"]}
    assert {rpc.containing_service.full_name for rpc in rpcs()} == named
    assert ["UNAVAILABLE"] == config["methodConfig"][0]["retryPolicy"]["retryableStatusCodes"]
    assert [{"round_robin": {}}] == config["loadBalancingConfig"]
    assert {"serviceName": ""} == config["healthCheckConfig"]


def test_the_client_does_not_need_the_server() -> None:
    script = "import sys, tonnage, tonnage.cli; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert {"service", "fastapi", "numpy", "redis", "yaml", "protovalidate"}.isdisjoint(loaded)
    assert {"grpc", "click", "rich"} <= set(loaded)


def test_importing_the_client_does_not_load_the_command_line() -> None:
    script = "import sys, tonnage; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert {"click", "rich"}.isdisjoint(loaded)
