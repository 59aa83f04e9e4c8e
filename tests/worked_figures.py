"""The worked figures, sections A and B: each question as it is put to a door, and what the answer must hold.

Both doors are asked the same JSON; the gRPC door gets it as the message that it parses to. Tolerance 0.1 % unless said.
"""

from dataclasses import dataclass
from typing import Any

DECODE, UTILIZATION = "EstimateDecode", "ComputeUtilization"
SEVEN_B = {"num_parameters": 7e9, "num_layers": 32, "num_query_heads": 32, "num_kv_heads": 8, "head_dim": 128}
GIB = 2**30
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Figure:
    """One row: what is asked, and the value at a path of the answer ("limits[KV_BANDWIDTH].binds_from_batch_size")."""

    row: str
    rpc: str
    question: dict[str, Any]
    path: str
    value: Any
    tolerance: float = TOLERANCE


def decode(dense: dict[str, Any], **asked: Any) -> dict[str, Any]:
    """A question to EstimateDecode on one H100 SXM."""
    return {"model": {"dense": dense}, "accelerator": {"name": "h100-sxm"}, **asked}


WEIGHTS_ONLY = decode({"num_parameters": 7e9}, batch_size=1)
BATCH_64 = decode(SEVEN_B, batch_size=64, context_tokens=4096)
BATCH_128 = decode(SEVEN_B, batch_size=128, context_tokens=4096)
TRAINING = {
    "model": {"dense": SEVEN_B | {"num_kv_heads": 32}},
    "accelerator": {"name": "h100-sxm"},
    "num_devices": 8,
    "peak_precision": "bf16",
    "phase": "TRAINING",
    "tokens_per_second": 72018,
    "sequence_tokens": 4096,
}
PALM = {
    "model": {
        "dense": {
            "num_parameters": 540.35e9,
            "num_layers": 118,
            "num_query_heads": 48,
            "num_kv_heads": 1,
            "head_dim": 256,
        }
    },
    "accelerator": {"inline": {"title": "TPU v4", "peak_dense_flops_per_second": {"bf16": 275e12}}},
    "num_devices": 6144,
    "peak_precision": "bf16",
    "phase": "TRAINING",
    "tokens_per_second": 238300,
    "sequence_tokens": 2048,
}

#: Attention a third more than in MFU: 6N alone is B1, 6N and attention B2.
SELECTIVE = 0.3821 + (0.4408 - 0.3821) * 4 / 3

FIGURES = (
    Figure("A1", DECODE, WEIGHTS_ONLY, "bound.ridge_point_flops_per_byte", 295.17),
    Figure("A2", DECODE, WEIGHTS_ONLY, "bound.weight_bytes", 1.4e10),
    Figure("A2", DECODE, WEIGHTS_ONLY, "bound.flops", 1.4e10),
    Figure("A2", DECODE, WEIGHTS_ONLY, "bound.arithmetic_intensity_flops_per_byte", 1),
    Figure("A2", DECODE, WEIGHTS_ONLY, "bound.memory_seconds", 4.1766e-3),
    Figure("A2", DECODE, WEIGHTS_ONLY, "bound.compute_seconds", 0.01415e-3),
    Figure("A2", DECODE, WEIGHTS_ONLY, "bound.tokens_per_second", 239.4),
    Figure("A2", DECODE, WEIGHTS_ONLY, "bound.binding_limit", "MEMORY_BANDWIDTH"),
    *(
        Figure("A3", DECODE, WEIGHTS_ONLY | {"batch_size": batch}, path, value)
        for batch in (2, 64, 294)
        for path, value in (
            ("bound.arithmetic_intensity_flops_per_byte", batch),
            ("bound.tokens_per_second", 239.43 * batch),
            ("bound.binding_limit", "MEMORY_BANDWIDTH"),
        )
    ),
    *(
        Figure("A3", DECODE, WEIGHTS_ONLY | {"batch_size": batch}, path, value)
        for batch in (296, 1024)
        for path, value in (("bound.tokens_per_second", 989.4e12 / 1.4e10), ("bound.binding_limit", "COMPUTE"))
    ),
    *(
        Figure("A4", DECODE, BATCH_64 | {"batch_size": batch}, "bound.attention_intensity_flops_per_byte", 4.0)
        for batch in (1, 64)
    ),
    Figure("A4", "EstimateKvMemory", BATCH_64, "kv_bytes_per_token", 131_072),
    Figure("A5", DECODE, BATCH_64, "bound.bytes_per_device", 4.836e10),
    Figure("A5", DECODE, BATCH_64, "bound.step_seconds", 14.427e-3),
    Figure("A5", DECODE, BATCH_64, "bound.tokens_per_second", 4436),
    Figure("A5", DECODE, BATCH_64, "fits", True),
    Figure("A6", DECODE, BATCH_128, "fits", False),
    Figure("A6", DECODE, BATCH_128, "shortfall.required_bytes_per_device", 77.04 * GIB),
    Figure("A6", DECODE, BATCH_128, "shortfall.available_bytes_per_device", 0.9 * 79.65 * GIB),
    Figure("A6", DECODE, BATCH_128, "shortfall.short_bytes_per_device", 5.36 * GIB),
    Figure("A6", DECODE, BATCH_128 | {"memory_utilization_ratio": 1}, "fits", True),
    Figure("A7", DECODE, BATCH_64, "limits[KV_BANDWIDTH].binds_from_batch_size", 27, 0),
    Figure("A7", DECODE, BATCH_64, "limits[KV_CAPACITY].binds_from_batch_size", 118, 0),
    Figure("A7", DECODE, BATCH_64, "limits[COMPUTE].binds_from_batch_size", None),
    Figure("A7", DECODE, BATCH_64, "limits[COMPUTE].binds_only_below_context_tokens", 370, 0.01),
    Figure("B1", UTILIZATION, TRAINING, "utilizations[MFU_6N].ratio", 0.3821),
    Figure("B2", UTILIZATION, TRAINING, "utilizations[MFU_6N_ATTENTION_FULL].ratio", 0.4408),
    Figure("B3", UTILIZATION, TRAINING, "utilizations[HFU_6N_FULL_RECOMPUTATION].ratio", 0.5095),
    Figure("B4", UTILIZATION, TRAINING, "utilizations[MFU_6N_SPARSE_PEAK].ratio", 0.1911),
    Figure("B4", UTILIZATION, TRAINING, "utilizations[MFU_6N_SPARSE_PEAK].valid", False),
    Figure("B5", UTILIZATION, TRAINING, "utilizations[MFU_6N_ATTENTION_CAUSAL].ratio", (0.3821 + 0.4408) / 2),
    Figure("B5", UTILIZATION, TRAINING, "utilizations[HFU_6N_ATTENTION_FULL_SELECTIVE_RECOMPUTATION].ratio", SELECTIVE),
    Figure("B7", UTILIZATION, PALM, "utilizations[MFU_6N_ATTENTION_FULL].ratio", 0.462),
    Figure("B7", UTILIZATION, PALM, "utilizations[HFU_6N_ATTENTION_FULL_FULL_RECOMPUTATION].ratio", 0.616),
)


def at(answer: dict[str, Any], path: str) -> Any:
    """The value at a path of a JSON answer; None where it is left out. ``[X]`` picks the item whose first field is X."""
    value: Any = answer
    for part in path.split("."):
        name, _, key = part.rstrip("]").partition("[")
        value = value.get(name)
        if key:
            value = next(item for item in value if next(iter(item.values())) == key)
    return value
