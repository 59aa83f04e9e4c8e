"""The worked figures, sections A to D: each question as it is put to a door, and what the answer must hold.

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

OCCUPANCY, ACCESS, FUSION = "ComputeOccupancy", "AnalyzeMemoryAccess", "AnalyzeFusion"
MIB, MICROSECOND = 2**20, 1e-6


def occupancy(**asked: Any) -> dict[str, Any]:
    """A question to ComputeOccupancy: 256 threads and 32 registers at compute capability 9.0, unless said otherwise."""
    return {"compute_capability": "9.0", "threads_per_block": 256, "registers_per_thread": 32, **asked}


def linear_layer(rows: int) -> dict[str, Any]:
    """relu(x @ w + b) with so many rows, 4096 columns and 4096 deep, in BF16 at 2 TB/s and 500 TFLOP/s."""
    return {
        "operators": [
            {"name": "matmul", "gemm": {"m": rows, "n": 4096, "k": 4096}},
            {"name": "add", "elementwise": {}},
            {"name": "relu", "elementwise": {}},
        ],
        "accelerator": {
            "inline": {"memory_bandwidth_bytes_per_second": 2e12, "peak_dense_flops_per_second": {"bf16": 500e12}},
        },
        "precision": "bf16",
    }


D9, D10 = linear_layer(4096), linear_layer(8)

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
    *(
        Figure(row, OCCUPANCY, occupancy(**asked), path, value, 0)
        for row, asked, blocks, warps, ratio, factors in (
            ("D1", {}, 8, 64, 1.0, ["WARPS", "REGISTERS"]),
            ("D2", {"registers_per_thread": 64}, 4, 32, 0.5, ["REGISTERS"]),
            ("D3", {"shared_memory_bytes_per_block": 48 * 1024}, 4, 32, 0.5, ["SHARED_MEMORY"]),
            ("D4", {"registers_per_thread": 80}, 3, 24, 0.375, ["REGISTERS"]),
        )
        for path, value in (
            ("active_blocks_per_sm", blocks),
            ("active_warps_per_sm", warps),
            ("occupancy_ratio", ratio),
            ("limiting_factors", factors),
        )
    ),
    *(
        Figure(row, ACCESS, {"element_bytes": 4, **asked}, path, value, 0)
        for row, asked, sectors, moved, ratio in (
            ("D6", {}, 4, 128.0, 1.0),
            ("D7", {"offset_elements": 1}, 5, 160.0, 0.8),
            ("D8", {"stride_elements": 32}, 32, 1024.0, 0.125),
        )
        for path, value in (
            ("sectors_per_request", sectors),
            ("moved_bytes", moved),
            ("used_bytes", 128.0),
            ("efficiency_ratio", ratio),
        )
    ),
    Figure("D9", FUSION, D9, "forms[EAGER].other_bytes", 128 * MIB, 0),
    Figure("D9", FUSION, D9, "forms[EAGER].other_seconds", 67.1 * MICROSECOND),
    Figure("D9", FUSION, D9, "forms[FUSED].other_bytes", 64 * MIB, 0),
    Figure("D9", FUSION, D9, "forms[FUSED].other_seconds", 33.55 * MICROSECOND),
    Figure("D9", FUSION, D9, "forms[EPILOGUE_FUSED].other_bytes", 0.0, 0),
    Figure("D9", FUSION, D9, "forms[EAGER].gemm_seconds", 274.9 * MICROSECOND),
    Figure("D9", FUSION, D9, "forms[EAGER].other_to_gemm_ratio", 0.2441),
    Figure("D10", FUSION, D10, "forms[EAGER].other_bytes", 256 * 1024, 0),
    Figure("D10", FUSION, D10, "forms[EAGER].other_seconds", 0.1311 * MICROSECOND),
    Figure("D10", FUSION, D10, "operators[matmul].limit", "MEMORY"),
    Figure("D10", FUSION, D10, "operators[matmul].weight_bytes", 32 * MIB, 0),
    Figure("D10", FUSION, D10, "operators[matmul].weight_seconds", 16.78 * MICROSECOND),
    Figure("D10", FUSION, D10, "operators[matmul].kernel_seconds", 16.84 * MICROSECOND),
    Figure("D10", FUSION, D10, "forms[EAGER].num_launches", 3, 0),
    Figure("D10", FUSION, D10, "forms[EPILOGUE_FUSED].num_launches", 1, 0),
)


def audit(text: str) -> dict[str, Any]:
    """A question to AuditClaim."""
    return {"text": text}


AUDIT, ANOTHER = "AuditClaim", "MATCHES_ANOTHER_BASIS"
C2, C5 = audit("GB300 NVL72: FP4 1,440 PFLOPS"), audit("H100: 1,000 TFLOPS, 3,000 GB/s")
C7 = audit("V100 FP16 → GB300 NVFP4: dense peak × 120, bandwidth × 8.9")
C9 = audit("N2P: 18 % faster and 36 % less power")
C12 = audit("reticle: 26 mm × 33 mm = 858 mm²; GH100's 814 mm² is 94.9 % of the reticle")

#: Section C: the verdict and the like-for-like figure of each claim, and a part of what the reasons must say.
CLAIM_FIGURES = (
    Figure("C1", AUDIT, audit("H100: 1,979 TFLOPS BF16"), "claims.0.verdict", ANOTHER),
    Figure("C1", AUDIT, audit("H100: 1,979 TFLOPS BF16"), "claims.0.matches.0.sparsity", "structured_2_4"),
    Figure("C1", AUDIT, audit("H100: 1,979 TFLOPS BF16"), "claims.0.like_for_like.value", 989.4e12),
    Figure("C2", AUDIT, C2, "claims.0.verdict", ANOTHER),
    Figure("C2", AUDIT, C2, "claims.0.matches.0.sparsity", "structured_2_4"),
    Figure("C2", AUDIT, C2, "claims.0.matches.0.num_devices", 72),
    Figure("C2", AUDIT, C2, "claims.0.like_for_like.value", 15e15),
    Figure("C3", AUDIT, audit("H100: 3.9 TB/s"), "claims.0.verdict", ANOTHER),
    Figure("C3", AUDIT, audit("H100: 3.9 TB/s"), "claims.0.matches.0.name", "h100-nvl"),
    Figure("C3", AUDIT, audit("H100: 3.9 TB/s"), "claims.0.like_for_like.value", 3.352e12),
    Figure("C4", AUDIT, audit("GB200"), "claims.0.verdict", "UNKNOWN"),
    Figure("C4", AUDIT, audit("HGX B200: 144 PFLOPS FP4"), "claims.0.matches.0.num_devices", 8),
    Figure("C4", AUDIT, audit("GB200 superchip: 372 GB"), "claims.0.matches.0.num_devices", 2),
    Figure("C5", AUDIT, C5, "claims.0.verdict", ANOTHER),
    Figure("C5", AUDIT, C5, "claims.0.matches.0.basis", "preliminary"),
    Figure("C5", AUDIT, C5, "claims.0.like_for_like.value", 989.4e12),
    Figure("C5", AUDIT, C5, "claims.1.verdict", ANOTHER),
    Figure("C5", AUDIT, C5, "claims.1.matches.0.basis", "preliminary"),
    Figure("C5", AUDIT, C5, "claims.1.like_for_like.value", 3.352e12),
    Figure("C6", AUDIT, audit("Rubin: 22 TB/s"), "claims.0.verdict", "CONFLICTING_SOURCES"),
    Figure("C6", AUDIT, audit("Rubin: 19.2 TB/s"), "claims.0.verdict", "CONFLICTING_SOURCES"),
    Figure("C6", AUDIT, audit("Rubin memory bandwidth"), "claims.0.verdict", "CONFLICTING_SOURCES"),
    Figure("C7", AUDIT, C7, "claims.0.matches.0.value", 120),
    Figure("C7", AUDIT, C7, "claims.0.verdict", ANOTHER),
    Figure("C7", AUDIT, C7, "claims.0.like_for_like.value", 20),
    Figure("C7", AUDIT, C7, "claims.1.matches.0.value", 8.889),
    Figure("C7", AUDIT, C7, "claims.1.verdict", "MATCHES"),
    Figure("C8", AUDIT, audit("N4P: +11 %"), "claims.0.matches.0.baseline", "n5"),
    Figure("C8", AUDIT, audit("N4P: +11 %"), "claims.0.verdict", ANOTHER),
    Figure("C8", AUDIT, audit("N4P: 11 % faster than N5"), "claims.0.verdict", "MATCHES"),
    Figure("C9", AUDIT, C9, "claims.0.verdict", ANOTHER),
    Figure("C9", AUDIT, C9, "claims.0.matches.0.baseline", "n3e"),
    Figure("C9", AUDIT, C9, "claims.1.verdict", ANOTHER),
    Figure("C9", AUDIT, C9, "claims.1.matches.0.baseline", "n3e"),
    *(Figure("C10", AUDIT, audit("4N, 4NP, N4"), f"claims.{place}.verdict", "UNKNOWN") for place in range(3)),
    Figure("C11", AUDIT, audit("7 nm"), "claims.0.verdict", ANOTHER),
    *(Figure("C12", AUDIT, C12, f"claims.{place}.verdict", "MATCHES") for place in range(5)),
    Figure("C12", AUDIT, C12, "claims.2.like_for_like.value", 858),
    Figure("C12", AUDIT, C12, "claims.4.matches.0.value", 0.9487),
)

CLAIM_REASONS = (
    ("C1", "H100: 1,979 TFLOPS BF16", "which an ordinary dense model does not get: dense is 989.4 TFLOPS"),
    ("C2", C2["text"], "dense is 1,080 PFLOPS; sparse to dense is 4:3 here, so that halving it would be wrong"),
    ("C3", "H100: 3.9 TB/s", "H100 NVL 94GB (94 GB)"),
    ("C3", "H100: 3.9 TB/s", "H100 SXM5 80GB (80 GB) has 3.352 TB/s"),
    ("C4", "GB200", "a superchip = 1 Grace + 2 GPUs"),
    ("C4", "GB200", "those of an HGX board of 8: normalise to one GPU"),
    ("C5", C5["text"], "preliminary (March 2022); the final figure differs"),
    ("C6", "Rubin: 22 TB/s", "19.2 TB/s"),
    ("C6", "Rubin: 22 TB/s", "never averaged"),
    ("C7", C7["text"], "its gain follows the bandwidth"),
    ("C8", "N4P: +11 %", "it is against TSMC N5"),
    ("C8", "N4P: +11 %", "Against TSMC N4 it is 6 %"),
    ("C9", C9["text"], "usually not both at once"),
    ("C10", "4NP", "no public statement says how it differs"),
    ("C11", "7 nm", "the name of a process generation and no dimension"),
    ("C11", "7 nm", "LMC"),
    ("C12", C12["text"], "caps a single die"),
)


def at(answer: dict[str, Any], path: str) -> Any:
    """The value at a path of a JSON answer; None where it is left out.

    ``[X]`` picks the item whose first field is X, ``.0`` the first item.
    """
    value: Any = answer
    for part in path.split("."):
        if part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
            continue
        name, _, key = part.rstrip("]").partition("[")
        value = (value or {}).get(name)
        if key:
            value = next(item for item in value if next(iter(item.values())) == key)
    return value
