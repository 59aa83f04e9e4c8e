"""One request per RPC, for the documentation; a test sends each."""

from typing import Any, Final

REQUESTS: Final[dict[str, dict[str, Any]]] = {
    "EstimateDecode": {
        "model": {"name": "llama-3.1-70b"},
        "accelerator": {"name": "h100-sxm"},
        "parallelism": {"tensor": 8},
        "batch_size": 64,
        "context_tokens": 4096,
    },
    "EstimateKvMemory": {
        "model": {"name": "deepseek-v3"},
        "accelerator": {"name": "h200-sxm"},
        "parallelism": {"tensor": 8},
        "precision": {"kv_cache": "bf16"},
        "batch_size": 64,
        "context_tokens": 4096,
    },
    "FitNode": {
        "model": {"name": "llama-3.1-70b"},
        "node": {"name": "dgx-h100"},
        "context_tokens": 4096,
        "concurrency": 8,
    },
    "ComputeUtilization": {
        "model": {
            "dense": {
                "num_parameters": 7e9,
                "num_layers": 32,
                "num_query_heads": 32,
                "num_kv_heads": 32,
                "head_dim": 128,
            }
        },
        "accelerator": {"name": "h100-sxm"},
        "num_devices": 8,
        "peak_precision": "bf16",
        "phase": "TRAINING",
        "tokens_per_second": 72018,
        "sequence_tokens": 4096,
    },
    "EstimateServing": {
        "model": {"name": "meta-llama/Llama-3.1-70B"},
        "accelerator": {"name": "h200-sxm"},
        "engine": {"name": "vllm", "version": "0.19"},
        "precision": {"weights": "fp8"},
        "parallelism": {"tensor": 8},
        "workload": {"input_tokens": 1024, "output_tokens": 1024, "concurrency": 64},
    },
    "PlanFleet": {
        "model": {"name": "llama-3.1-70b"},
        "workloads": [
            {"input_tokens": 2000, "output_tokens": 500, "requests_per_second": {"low": 5, "mid": 10, "high": 20}},
        ],
        "service_level": {"ttft_seconds": 1, "tpot_seconds": 0.05, "percentile": "P90"},
        "node_types": ["aws-p5.48xlarge", "aws-p4d.24xlarge"],
        "redundant_nodes": 1,
    },
    "CompareAccelerators": {
        "model": {"name": "llama-3.1-8b"},
        "accelerators": ["v100-sxm2-32", "h100-sxm", "gb300"],
        "precision": {"compute": "fp16"},
        "input_tokens": 1024,
        "output_tokens": 256,
        "concurrency": 16,
    },
    "ListAccelerators": {"page_size": 20},
    "GetAccelerator": {"name": "h100-sxm"},
    "ListNodeTypes": {"page_size": 20},
    "GetNodeType": {"name": "dgx-h100"},
    "ListModels": {"page_size": 20},
    "GetModel": {"name": "meta-llama/Llama-3.1-70B"},
    "ListPrices": {"accelerator": "h100-sxm", "term": "ON_DEMAND"},
    "ComputeOccupancy": {
        "compute_capability": "9.0",
        "threads_per_block": 256,
        "registers_per_thread": 64,
        "shared_memory_bytes_per_block": 16384,
    },
    "AnalyzeMemoryAccess": {"element_bytes": 4, "stride_elements": 32},
    "AnalyzeFusion": {
        "operators": [
            {"name": "matmul", "gemm": {"m": 4096, "n": 4096, "k": 4096}},
            {"name": "add", "elementwise": {}},
            {"name": "relu", "elementwise": {}},
        ],
        "accelerator": {"name": "h100-sxm"},
        "precision": "bf16",
    },
    "DrawRoofline": {
        "decode": {
            "model": {"name": "llama-3.1-8b"},
            "accelerator": {"name": "h100-sxm"},
            "batch_size": 64,
            "context_tokens": 4096,
        },
    },
    "RunSweep": {
        "kind": "DECODE",
        "models": [{"name": "llama-3.1-70b"}],
        "accelerators": [{"name": "h100-sxm"}, {"name": "h200-sxm"}],
        "shapes": [{"tensor": 4}, {"tensor": 8}],
        "batch_sizes": [1, 16, 64],
        "context_tokens": [1024, 4096],
    },
    "AuditClaim": {"text": "H100: 1,979 TFLOPS BF16. GB300 NVL72: FP4 1,440 PFLOPS"},
    "AuditQuote": {
        "document": (
            "Product;Qty;Unit price (EUR/h);Memory (GB);Bandwidth (TB/s);FP8 TFLOPS;Total\n"
            "NVIDIA H100 SXM5 80GB;64;2,45;80;3,35;3.958;156,80\n"
            "NVIDIA H100 NVL;16;2,10;94;3,35;1.671;33,60\n"
        ),
        "term": "ON_DEMAND",
        "price_list": {"exchange_rates": [{"from_currency": "USD", "to_currency": "EUR", "rate": 0.9, "date": "2026-07-01"}]},
    },
    "SimulatePlacement": {
        "cluster": {"nodes": [{"count": 3, "devices": 8}]},
        "jobs": [
            {"name": "a", "num_pods": 1, "devices_per_pod": 4},
            {"name": "b", "num_pods": 1, "devices_per_pod": 4},
            {"name": "T16", "num_pods": 2, "devices_per_pod": 8},
            {"name": "T8", "num_pods": 1, "devices_per_pod": 8},
        ],
        # Weights of {"cpu": 1, "memory": 1} are the default; {"nvidia.com/gpu": 5} with MOST_ALLOCATED packs.
        "policy": {"gang": False, "scoring": "LEAST_ALLOCATED"},
    },
    "FitCluster": {
        "cluster": {"nodes": [{"count": 3, "node_type": "dgx-h100"}]},
        "model": {"name": "meta-llama/Llama-3.1-70B"},
        "context_tokens": 8192,
        "concurrency": 16,
        "manifests": {"namespace": "serving"},
    },
}
