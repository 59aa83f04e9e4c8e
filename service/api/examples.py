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
    "ListAccelerators": {"page_size": 20},
    "GetAccelerator": {"name": "h100-sxm"},
    "ListNodeTypes": {"page_size": 20},
    "GetNodeType": {"name": "dgx-h100"},
    "ListModels": {"page_size": 20},
    "GetModel": {"name": "meta-llama/Llama-3.1-70B"},
}
