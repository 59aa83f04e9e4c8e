"""How the command line ends where there is no answer: exit code and message, never a traceback."""

import json
import re
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2

from tests.client.conftest import Run, ScriptedServer, fails, made_status
from tonnage.cli.exits import Exit
from tonnage.v1.capacity_service_pb2 import (
    EstimateDecodeResponse,
)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, Exit.BAD_REQUEST),
        (grpc.StatusCode.NOT_FOUND, Exit.NOT_FOUND),
        (grpc.StatusCode.FAILED_PRECONDITION, Exit.UNANSWERABLE),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Exit.OVERLOADED),
        (grpc.StatusCode.UNAVAILABLE, Exit.UNREACHABLE),
        (grpc.StatusCode.INTERNAL, Exit.SERVICE_FAILED),
    ],
    ids=lambda value: value.name,
)
def test_each_failure_has_its_exit_code(run: Run, scripted: ScriptedServer, status: grpc.StatusCode, expected: Exit) -> None:
    scripted.script["GetModel"] = fails(made_status(status, "what happened"))

    code, shown, said = run("models", "show", "m")

    assert (expected, "") == (code, shown)
    assert said.startswith("tonnage: ")
    assert "Traceback" not in said


def test_violations_name_their_options(run: Run, scripted: ScriptedServer) -> None:
    fault = error_details_pb2.BadRequest()
    fault.field_violations.add(field="parallelism.tensor", description="9 does not divide 64 query heads.")
    fault.field_violations.add(field="model.hf_config.num_hidden_layers", description="is missing.")
    scripted.script["EstimateDecode"] = fails(made_status(grpc.StatusCode.INVALID_ARGUMENT, "2 fields", fault))

    _, _, said = run("decode", "m", "a", "--tp", "9")

    assert "parallelism.tensor (--tensor): 9 does not divide 64 query heads." in said
    assert "model.hf_config.num_hidden_layers (--config): is missing." in said


def test_what_is_missing_comes_with_its_remedy(run: Run, scripted: ScriptedServer) -> None:
    info = error_details_pb2.ErrorInfo(reason="FIGURE_MISSING", metadata={"remedy": "ask with --compute bf16"})
    scripted.script["EstimateDecode"] = fails(made_status(grpc.StatusCode.FAILED_PRECONDITION, "no fp4 peak", info))

    assert (Exit.UNANSWERABLE, "", "tonnage: no fp4 peak\n  → ask with --compute bf16\n") == run("decode", "m", "a")


def test_a_failure_as_json_is_the_status(run: Run, scripted: ScriptedServer) -> None:
    info = error_details_pb2.ErrorInfo(reason="MODEL_NOT_FOUND", domain="tonnage")
    scripted.script["GetModel"] = fails(made_status(grpc.StatusCode.NOT_FOUND, "no such model", info))

    code, shown, said = run("models", "show", "m", "--json")

    assert (Exit.NOT_FOUND, "") == (code, shown)
    detail = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "MODEL_NOT_FOUND",
        "domain": "tonnage",
        "metadata": {},
    }
    assert {"code": 5, "message": "no such model", "details": [detail]} == json.loads(said)


def test_what_never_reaches_the_service_is_refused_alike(run: Run, scripted: ScriptedServer) -> None:
    code, _, said = run("decode", "m", "a", "--tp", str(2**40))

    assert Exit.BAD_REQUEST == code
    assert "parallelism.tensor (--tensor)" in said
    assert [] == scripted.requests


@pytest.mark.parametrize(
    "arguments",
    [
        ("decode",),
        ("decode", "m"),
        ("decode", "m", "a", "b"),
        ("decode", "m", "a", "--num-parameters", "7e9"),
        ("decode", "a", "--num-layers", "3"),
        ("decode", "a", "--num-parameters", "7e9", "--num-layers", str(2**40)),
        ("decode", "a", "--model", "m", "--config", "{json}"),
        ("decode", "m", "a", "--quantization", "{json}"),
        ("decode", "a", "--config", "{broken}"),
        ("decode", "a", "--config", "{list}"),
        ("decode", "a", "--config", "{deep}"),
        ("decode", "a", "--config", "no-such-file"),
        ("decode", "m", "--accelerator-file", "{json}"),
        ("decode", "m", "--accelerator", "a", "--accelerator-file", "{json}"),
        ("decode", "m", "a", "--tp", "two"),
        ("decode", "m", "a", "--timeout", "0"),
        ("decode", "m", "a", "--no-such-option"),
        ("kv", "m", "a"),
        ("fit", "m", "--context-tokens", "1"),
        ("fit", "m", "n", "--accelerator", "a", "--context-tokens", "1"),
        ("mfu", "m", "a"),
        ("models", "show"),
        ("models", "show", "m", "n"),
        ("no-such-command",),
        (),
    ],
    ids=" ".join,
)
def test_misuse_is_told_and_ends_with_2(run: Run, scripted: ScriptedServer, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    contents = {"json": '{"figures": 1}', "broken": "{", "list": "[]", "deep": '{"a":' * 300 + "1" + "}" * 300}
    files = {name: tmp_path / f"{name}.json" for name in contents}
    for name, content in contents.items():
        files[name].write_text(content)

    code, shown, said = run(*(argument.format(**files) for argument in arguments))

    assert (Exit.BAD_REQUEST, "") == (code, shown)
    assert "Usage:" in said
    assert [] == scripted.requests


def test_an_unreachable_service_is_one_line_that_says_what_to_run(run: Run, down: ScriptedServer) -> None:
    code, shown, said = run("decode", "m", "a", "--server", down.target)

    assert (Exit.UNREACHABLE, "") == (code, shown)
    assert 1 == len(said.splitlines())
    assert down.target in said
    assert "`make serve`" in said
    assert "`tonnage serve`" in said
    assert "--local" in said


def test_an_address_that_does_not_resolve_is_told_apart(run: Run) -> None:
    code, _, said = run("models", "--server", "no-such-host.invalid:50051")

    assert Exit.UNREACHABLE == code
    assert "has no address" in said


def test_a_slow_service_is_told_apart(run: Run, scripted: ScriptedServer) -> None:
    def slow(request: object, context: grpc.ServicerContext) -> EstimateDecodeResponse:
        while context.is_active():
            pass
        return EstimateDecodeResponse()

    scripted.script["EstimateDecode"] = slow

    code, _, said = run("decode", "m", "a", "--timeout", "0.2")

    assert Exit.UNREACHABLE == code
    assert "within 0.2 s" in said


def test_a_defect_of_ours_is_a_line_and_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*_: object) -> str:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("tonnage.cli.session.rest_json", defect)

    code, shown, said = run("models", "--json")

    assert (Exit.SERVICE_FAILED, "") == (code, shown)
    assert "tonnage: unexpected ZeroDivisionError: of ours\n" == said


@pytest.mark.parametrize("command", ["decode", "kv", "fit", "mfu", "explain-log", "accelerators", "models", "nodes", "prices"])
def test_every_command_has_help_with_an_example(run: Run, command: str) -> None:
    code, shown, _ = run(command, "--help")

    assert 0 == code
    assert f"  tonnage {command}" in shown
    assert "TONNAGE_SERVER" in shown


def test_exit_codes_are_documented(run: Run) -> None:
    _, shown, _ = run("--help")

    assert [str(int(code)) for code in Exit] == re.findall(r"^    (\d)  ", shown, re.MULTILINE)


@pytest.mark.parametrize("command", ["decode", "kv"])
def test_a_file_in_place_of_a_name_is_told_where_it_goes(run: Run, tmp_path: Path, command: str) -> None:
    config = tmp_path / "config.json"
    context = ("--context-tokens", "8")
    for name, hint in ((config, config), (tmp_path, config)):  # before it exists, too
        for given in ((str(name), "h100-sxm"), ("h100-sxm", "--model", str(name))):
            code, _, said = run(command, *given, *context)
            assert Exit.BAD_REQUEST == code
            assert f"--config {hint}" in said


def test_an_unknown_model_is_told_how_to_be_given(run: Run, scripted: ScriptedServer) -> None:
    info = error_details_pb2.ErrorInfo(reason="NAME_NOT_FOUND", metadata={"kind": "model", "name": "m", "nearest": ""})
    scripted.script["EstimateDecode"] = fails(made_status(grpc.StatusCode.NOT_FOUND, "no model m", info))

    code, _, said = run("decode", "m", "h100-sxm")

    assert Exit.NOT_FOUND == code
    assert "given by its config.json, with --config" in said
