"""What the command line asks: from names, options and files to the request."""

from pathlib import Path

from google.protobuf import json_format

from tests.client.conftest import Run, ScriptedServer


def asked(server: ScriptedServer) -> object:
    return json_format.MessageToDict(server.requests[-1], preserving_proto_field_name=True)


def test_names_in_order_and_short_options(run: Run, scripted: ScriptedServer) -> None:
    run("decode", "llama-3.1-70b", "h100-sxm", "--tp", "8", "--pp", "2", "--ep", "4", "--dp", "1", "--weights", "fp8")

    expected = {
        "model": {"name": "llama-3.1-70b"},
        "accelerator": {"name": "h100-sxm"},
        "parallelism": {"tensor": 8, "pipeline": 2, "expert": 4, "attention_data": 1},
        "precision": {"weights": "fp8"},
    }
    assert expected == asked(scripted)


def test_options_in_place_of_names(run: Run, scripted: ScriptedServer) -> None:
    run("kv", "--model", "m", "--accelerator", "a", "--context-tokens", "4096", "--batch-size", "2", "--kv-cache", "fp8")

    expected = {
        "model": {"name": "m"},
        "accelerator": {"name": "a"},
        "precision": {"kv_cache": "fp8"},
        "batch_size": 2,
        "context_tokens": 4096,
    }
    assert expected == asked(scripted)


def test_a_config_json_leaves_the_first_name_to_the_accelerator(run: Run, scripted: ScriptedServer, tmp_path: Path) -> None:
    config, quantization = tmp_path / "config.json", tmp_path / "hf_quant_config.json"
    config.write_text('{"num_hidden_layers": 32}')
    quantization.write_text('{"quant_algo": "FP8"}')

    run("decode", "h100-sxm", "--config", str(config), "--quantization", str(quantization), "--multi-token-prediction")

    expected = {
        "model": {
            "hf_config": {"num_hidden_layers": 32.0},
            "hf_quantization": {"quant_algo": "FP8"},
            "multi_token_prediction": True,
        },
        "accelerator": {"name": "h100-sxm"},
    }
    assert expected == asked(scripted)


def test_figures_in_place_of_names(run: Run, scripted: ScriptedServer, tmp_path: Path) -> None:
    accelerator = tmp_path / "mine.json"
    accelerator.write_text('{"title": "Mine", "memory_bandwidth_bytes_per_second": 1e12}')

    run("decode", "--num-parameters", "7e9", "--num-layers", "32", "--accelerator-file", str(accelerator), "--explain")

    expected = {
        "model": {"dense": {"num_parameters": 7e9, "num_layers": 32}},
        "accelerator": {"inline": {"title": "Mine", "memory_bandwidth_bytes_per_second": 1e12}},
        "explain": True,
    }
    assert expected == asked(scripted)


def test_a_node_by_name_or_by_accelerator(run: Run, scripted: ScriptedServer) -> None:
    run("fit", "m", "dgx-h100", "--context-tokens", "4096", "--concurrency", "2", "--max-num-nodes", "4")
    assert {"name": "dgx-h100"} == scripted_field(scripted, "node")

    run("fit", "m", "--accelerator", "h100-sxm", "--devices-per-node", "8", "--context-tokens", "4096")
    assert {"name": "h100-sxm"} == scripted_field(scripted, "accelerator")
    assert 8 == scripted_field(scripted, "devices_per_node")


def scripted_field(server: ScriptedServer, name: str) -> object:
    request = asked(server)
    assert isinstance(request, dict)
    return request[name]


def test_what_a_run_did(run: Run, scripted: ScriptedServer) -> None:
    run(
        *("mfu", "m", "a", "--num-devices", "8", "--phase", "training", "--tokens-per-second", "72018"),
        *("--peak-precision", "bf16", "--sequence-tokens", "4096", "--no-padding"),
    )

    expected = {
        "model": {"name": "m"},
        "accelerator": {"name": "a"},
        "num_devices": 8,
        "peak_precision": "bf16",
        "phase": "TRAINING",
        "tokens_per_second": 72018.0,
        "sequence_tokens": 4096,
        "tokens_include_padding": False,
    }
    assert expected == asked(scripted)
