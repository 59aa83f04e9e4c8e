"""Requests from a file or standard input: the same as by options, which go before what stands there."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import json_format

from tests.architectures.published import configurations
from tests.client.conftest import Run, ScriptedServer
from tonnage import cli
from tonnage.cli.exits import Exit
from tonnage.cli.request_file import Question
from tonnage.cli.yaml_text import yaml_text

DECODE = {
    "model": {"name": "llama-3.1-70b"},
    "accelerator": {"name": "h100-sxm"},
    "parallelism": {"tensor": 8},
    "batch_size": 64,
    "context_tokens": 4096,
}
FIT = {"model": {"name": "llama-3.1-70b"}, "node": {"name": "dgx-h100"}, "context_tokens": 4096}
SERVING = {
    **{name: DECODE[name] for name in ("model", "accelerator", "parallelism")},
    "engine": {"name": "vllm"},
    "workload": {"input_tokens": 2000, "output_tokens": 500, "concurrency": 8.0},
}
PLAN = {
    "model": {"name": "llama-3.1-70b"},
    "workloads": [{"input_tokens": 2000, "output_tokens": 500, "requests_per_second": {"mid": 10.0}}],
    "service_level": {"ttft_seconds": 1.0},
    "max_plans": 2,
}
COMPARE = {
    "model": {"name": "llama-3.1-8b"},
    "accelerators": ["h100-sxm", "h200-sxm"],
    "input_tokens": 512,
    "output_tokens": 64,
    "concurrency": 4,
}
SWEEP = {
    "kind": "SERVING",
    "models": [{"name": "llama-3.1-8b"}],
    "accelerators": [{"name": "h100-sxm"}],
    "engines": [{"name": "vllm"}],
    "concurrencies": [1.0, 2.0],
    "lengths": [{"input_tokens": 512, "output_tokens": 64}],
    "time_limit_seconds": 5.0,
}
MFU = {
    "model": {"name": "llama-3.1-8b"},
    "accelerator": {"name": "h100-sxm"},
    "num_devices": 8,
    "peak_precision": "bf16",
    "phase": "TRAINING",
    "tokens_per_second": 72018.0,
    "sequence_tokens": 4096,
}
PLACE = {
    "cluster": {"nodes": [{"count": 3, "devices": 8}]},
    "jobs": [{"name": "T16", "num_pods": 2, "devices_per_pod": 8}],
    "policy": {"gang": True, "horizon_seconds": 60.0},
}
CLUSTER = {
    "cluster": {"nodes": [{"count": 3, "node_type": "dgx-h100"}]},
    "model": {"name": "llama-3.1-70b"},
    "context_tokens": 4096,
    "parallelism": {"tensor": 4},
}
OCCUPANCY = {"compute_capability": "9.0", "threads_per_block": 256, "registers_per_thread": 64}
ACCESS = {"element_bytes": 4, "stride_elements": 32}
FUSION = {"operators": [{"gemm": {"m": 8, "n": 4096, "k": 4096}}, {"elementwise": {}}], "accelerator": {"name": "h100-sxm"}}
CLAIM = {"text": "H100: 1,979 TFLOPS BF16"}
QUOTE = {"document": "SKU,Units,Price per GPU-hour ($)\nH100,8,2.99\n", "currency": "USD"}

QUESTIONS: dict[str, dict[str, Any]] = {
    "decode": DECODE,
    "kv": DECODE,
    "fit": FIT,
    "serving": SERVING,
    "plan": PLAN,
    "compare": COMPARE,
    "mfu": MFU,
    "place": PLACE,
    "fit-cluster": CLUSTER,
    "occupancy": OCCUPANCY,
    "memory-access": ACCESS,
    "fusion": FUSION,
    "claim": CLAIM,
    "quote": QUOTE,
}


def asked(server: ScriptedServer) -> dict[str, Any]:
    body: dict[str, Any] = json_format.MessageToDict(server.requests[-1], preserving_proto_field_name=True)
    return body


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def written(body: object, name: str = "request.json") -> str:
        file = tmp_path / name
        file.write_text(json.dumps(body) if name.endswith("json") else yaml.safe_dump(body))
        return str(file)

    return written


def test_every_question_but_that_of_a_stream_stands_here() -> None:
    commands = {name for name, command in cli.tonnage.commands.items() if isinstance(command, Question)}

    assert {*QUESTIONS, "sweep"} == commands


@pytest.mark.parametrize("command", QUESTIONS)
def test_what_stands_in_the_file_is_asked(run: Run, scripted: ScriptedServer, write: Callable[..., str], command: str) -> None:
    code, _, said = run(command, "--json", "--request", write(QUESTIONS[command]))

    assert (Exit.DOES_NOT_FIT if command == "plan" else Exit.ANSWERED, "") == (code, said)
    assert QUESTIONS[command] == asked(scripted)


@pytest.mark.parametrize("command", QUESTIONS)
def test_a_person_gets_the_answer_to_it(run_for_real: Run, write: Callable[..., str], command: str) -> None:
    code, shown, said = run_for_real(command, "--request", write(QUESTIONS[command]))

    assert (Exit.ANSWERED, "") == (code, said)
    assert "None" not in shown


@pytest.mark.parametrize("command", QUESTIONS)
def test_whoever_can_explain_does(run: Run, scripted: ScriptedServer, write: Callable[..., str], command: str) -> None:
    code, _, _ = run(command, "--request", write(QUESTIONS[command]), "--explain")

    if scripted.requests:
        assert asked(scripted)["explain"] is True
    else:  # there is no such option, and so there must be no such field
        assert Exit.BAD_REQUEST == code
        run(command, "--request", write(QUESTIONS[command]))
        assert "explain" not in scripted.requests[-1].DESCRIPTOR.fields_by_name


def test_the_answer_is_the_same_by_options_and_by_file(run_for_real: Run, write: Callable[..., str]) -> None:
    options = ("decode", "llama-3.1-70b", "h100-sxm", "--tp", "8", "--batch-size", "64", "--context-tokens", "4096")

    assert run_for_real(*options) == run_for_real("decode", "--request", write(DECODE))
    assert run_for_real("fit", "llama-3.1-70b", "dgx-h100", "--context-tokens", "4096") == run_for_real(
        "fit", "--request", write(FIT)
    )


def test_a_sweep_from_a_file(run_for_real: Run, write: Callable[..., str]) -> None:
    code, shown, said = run_for_real("sweep", "--request", write(SWEEP))
    by_options = run_for_real(
        *("sweep", "--model", "llama-3.1-8b", "--accelerator", "h100-sxm", "--engine", "vllm"),
        *("--concurrency", "1,2", "--length", "512+64"),
    )

    assert Exit.ANSWERED == code
    assert "2 of 2 points" in said
    assert by_options[1] == shown


def test_options_go_before_the_file(run: Run, scripted: ScriptedServer, write: Callable[..., str]) -> None:
    run("decode", "mixtral-8x7b", "--request", write(DECODE), "--batch-size", "128", "--pp", "2", "--explain")

    expected = {**DECODE, "model": {"name": "mixtral-8x7b"}, "batch_size": 128, "explain": True}
    assert {**expected, "parallelism": {"tensor": 8, "pipeline": 2}} == asked(scripted)


def test_a_model_by_other_means_replaces_the_files(run: Run, scripted: ScriptedServer, write: Callable[..., str]) -> None:
    run("decode", "--num-parameters", "7e9", "--request", write(DECODE))

    assert {"dense": {"num_parameters": 7e9}} == asked(scripted)["model"]


def test_lists_are_replaced_as_a_whole(run: Run, scripted: ScriptedServer, write: Callable[..., str]) -> None:
    run("compare", "--request", write(COMPARE), "llama-3.1-70b", "b200", "mi300x")

    assert ["b200", "mi300x"] == asked(scripted)["accelerators"]
    assert 512 == asked(scripted)["input_tokens"]  # no default of an option takes its place


def test_demand_options_change_the_one_workload_of_the_file(
    run: Run, scripted: ScriptedServer, write: Callable[..., str]
) -> None:
    run("plan", "--request", write(PLAN), "--rate", "5:10:20", "--ttft", "2")

    demand = {"low": 5.0, "mid": 10.0, "high": 20.0}
    assert [{**PLAN["workloads"][0], "requests_per_second": demand}] == asked(scripted)["workloads"]  # type: ignore[index]
    assert {"ttft_seconds": 2.0} == asked(scripted)["service_level"]


def test_demand_options_beside_several_workloads_are_refused(
    run: Run, scripted: ScriptedServer, write: Callable[..., str]
) -> None:
    two = {**PLAN, "workloads": PLAN["workloads"] * 2}  # type: ignore[operator]

    code, _, said = run("plan", "--request", write(two), "--rate", "5")

    assert Exit.BAD_REQUEST == code
    assert "2 workloads" in said
    assert [] == scripted.requests


@pytest.mark.parametrize("name", ["request.yaml", "request.yml"])
def test_yaml(run: Run, scripted: ScriptedServer, write: Callable[..., str], name: str) -> None:
    run("decode", "--request", write(DECODE, name))

    assert DECODE == asked(scripted)


@pytest.mark.parametrize("text", [json.dumps(DECODE), yaml.safe_dump(DECODE)], ids=["json", "yaml"])
def test_standard_input(run: Run, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    run("decode", "--request", "-")

    assert DECODE == asked(scripted)


def test_a_published_config_with_infinity(run_for_real: Run, write: Callable[..., str]) -> None:
    config = configurations()["nvidia/Nemotron-H-56B-Base-8K"]
    body = {"model": {"hf_config": config}, "accelerator": {"name": "h200-sxm"}, "context_tokens": 8192}
    file = write(body)
    assert "Infinity" in Path(file).read_text()

    code, shown, _ = run_for_real("kv", "--request", file, "--tp", "8", "--json")

    assert Exit.ANSWERED == code
    assert 10 * 8 * 128 * 2 * 2 == json.loads(shown)["kv_bytes_per_token"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"batch_sise": 1}', "batch_sise"),
        ('{"batch_size": "many"}', "batch_size"),
        ('{"batch_size": 1e400}', "batch_size"),
        ("[1]", "holds no request"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("\ud800".encode("utf-16", "surrogatepass").decode("latin-1"), "is not JSON"),
    ],
)
def test_what_is_no_request_is_refused(run: Run, scripted: ScriptedServer, tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "request.json"
    file.write_text(content)

    code, shown, said = run("decode", "--request", str(file))

    assert (Exit.BAD_REQUEST, "") == (code, shown)
    assert expected in said
    assert "Traceback" not in said
    assert [] == scripted.requests


def test_a_file_that_is_not_there_or_no_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")

    assert "No such file" in run("decode", "--request", str(tmp_path / "none.json"))[2]
    assert "UTF-8" in run("decode", "--request", str(tmp_path / "bytes"))[2]
    assert Exit.BAD_REQUEST == run("decode", "--request", str(tmp_path))[0]


def test_without_a_file_what_was_required_still_is(run: Run, scripted: ScriptedServer) -> None:
    assert "--context-tokens" in run("kv", "m", "a")[2]
    assert "name a model" in run("decode")[2]
    assert "Missing argument" in run("plan", "--rate", "1")[2]
    assert [] == scripted.requests


def test_answers_in_yaml_hold_what_those_in_json_do(run_for_real: Run, write: Callable[..., str]) -> None:
    request = write({**DECODE, "explain": True})
    as_json = run_for_real("decode", "--request", request, "--format", "json")[1]

    assert json.loads(as_json) == yaml.safe_load(run_for_real("decode", "--request", request, "--format", "yaml")[1])


@pytest.mark.parametrize(
    "body",
    [
        {"a": [[1, 2], [], {}, [{"b": None}]], "": "", "no": "no", "1": "1.5", "x y": "a: b # c", "t": "2026-01-01"},
        {"tab": "\t\n\x7f\u2028", "emoji": "😀 ≥", "numbers": [1e-05, 1e16, -0.0, 1.5, 3, 1e300], "flags": [True, False]},
        [],
        "text",
    ],
)
def test_yaml_reads_back(body: object) -> None:
    assert body == yaml.safe_load(yaml_text(body))


def test_forms_that_contradict_each_other_or_do_not_exist(run: Run, scripted: ScriptedServer) -> None:
    assert "contradict" in run("models", "--json", "--format", "csv")[2]
    assert "no table" in run("models", "show", "m", "--format", "csv")[2]
    assert Exit.BAD_REQUEST == run("decode", "m", "a", "--format", "csv")[0]
