"""The questions that people asked first, as they put them; the tool calls that answer each; the figures that its summary holds.

The figures are the worked ones. The order is that of the questions; a row's name says which worked figures it holds.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """One tool call, and texts that its summary must hold."""

    tool: str
    arguments: dict[str, Any]
    holds: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """A question as a person puts it, and the one or two calls that answer it."""

    rows: str
    question: str
    calls: tuple[Call, ...]


def call(tool: str, *holds: str, **arguments: Any) -> Call:
    return Call(tool, arguments, holds)


def claim(text: str, *holds: str) -> Call:
    return call("check_claim", *holds, text=text)


SHAPE = {"num_layers": 32, "num_query_heads": 32, "num_kv_heads": 8, "head_dim": 128}
SEVEN_B = {"model": "7B", "hardware": "H100", **SHAPE}
TRAINING = {
    "model": "7B",
    "hardware": "8x H100",
    "tokens_per_second": "72,018 tokens/s",
    "sequence_tokens": 4096,
    "num_layers": 32,
    "num_query_heads": 32,
    "head_dim": 128,
}
PALM = {
    "model": "540.35B",
    "hardware": "6144x TPU v4",
    "tokens_per_second": 238300,
    "sequence_tokens": 2048,
    "num_layers": 118,
    "num_query_heads": 48,
    "head_dim": 256,
}
BLOCK = {"hardware": "H100", "threads_per_block": 256}
LAYER = {"n": 4096, "k": 4096, "memory_bandwidth": "2 TB/s", "peak_flops": "500 TFLOP/s"}
CLUSTER = {"nodes": "3 nodes of 8 GPUs", "jobs": "a: 4, b: 4, T16: 2x8, T8: 8"}

QUESTIONS = (
    Question(
        "C11",
        "Is a 7 nm transistor 7 nm large, and if not, what should I compare?",
        (claim("7 nm", "name of a process generation", "much larger than 7 nm", "LMC", "performance, power and cost"),),
    ),
    Question(
        "C8",
        "TSMC says N4P is 11 % faster. Than what?",
        (claim("N4P: +11 %", "against TSMC N5", "names no baseline"),),
    ),
    Question(
        "C9",
        "Does N2P give me 18 % more speed and 36 % less power than N3E?",
        (claim("N2P: 18 % faster and 36 % less power than N3E", "18 % faster at the same power", "usually not both at once"),),
    ),
    Question(
        "C10",
        "Are NVIDIA's 4N and 4NP the same as TSMC's N4?",
        (
            claim("4N", "custom process", "no public statement says how it differs"),
            claim("4NP", "custom process", "no public statement says how it differs"),
        ),
    ),
    Question(
        "C12",
        "How large can one die be, and how close is GH100 with 814 mm²?",
        (
            claim("reticle: 26 mm × 33 mm = 858 mm²", "26 mm", "33 mm", "858 mm² is the area"),
            claim("GH100's 814 mm² die is 95 % of the reticle", "814 mm²", "858 mm²", "94.87 %"),
        ),
    ),
    Question(
        "A1 A2",
        "How fast can one H100 decode a 7B model for a single user, and what stops it?",
        (
            call(
                "how_fast",
                *(
                    "239.4 tokens/s",
                    "14 GB",
                    "4.177 ms",
                    "14.15 µs",
                    "intensity 1 FLOP/byte",
                    "295.2",
                    "Memory bandwidth binds",
                ),
                model="7B",
                hardware="H100",
            ),
        ),
    ),
    Question(
        "A3",
        "Up to which batch does throughput grow, if only weights count?",
        (
            call("how_fast", "intensity 64 FLOP/byte", "15,323 tokens/s", model="7B", hardware="H100", batch_size=64),
            call("how_fast", "compute from batch 296", model="7B", hardware="H100", batch_size=128),
        ),
    ),
    Question(
        "A4 A5",
        "And with 64 requests of 4,096 tokens each?",
        (
            call(
                "how_fast",
                *("4,436 tokens/s", "48.36 GB", "14.43 ms", "attention alone 4 at any batch"),
                **SEVEN_B,
                batch_size=64,
                context_tokens="4,096",
            ),
        ),
    ),
    Question(
        "A6",
        "Do 128 of them fit on one H100?",
        (
            call(
                "will_it_fit",
                *("No", "77.04 GiB", "5.36 GiB short", "memory ratio of 0.968"),
                **SEVEN_B | {"hardware": "1x H100"},
                batch_size=128,
                context_tokens=4096,
            ),
        ),
    ),
    Question(
        "A7",
        "Which limit do I hit first as the batch grows?",
        (
            call(
                "how_fast",
                *("KV bandwidth from batch 27", "KV capacity from batch 118", "compute never at this context", "367 tokens"),
                **SEVEN_B,
                batch_size=128,
                context_tokens=4096,
            ),
        ),
    ),
    Question(
        "D1",
        "256 threads per block and 32 registers on an H100: what occupancy is that?",
        (
            call(
                "explain_kernel", "100 % occupancy", "8 blocks", "64 of 64 warps", "not speed", **BLOCK, registers_per_thread=32
            ),
        ),
    ),
    Question(
        "D2 D3",
        "And with 64 registers, or with 48 KB of shared memory?",
        (
            call("explain_kernel", "50 % occupancy", "4 blocks", "limited by registers", **BLOCK, registers_per_thread=64),
            call(
                "explain_kernel",
                *("50 % occupancy", "4 blocks", "limited by shared memory"),
                **BLOCK,
                shared_memory_per_block="48 KB",
            ),
        ),
    ),
    Question(
        "D4",
        "With 80 registers?",
        (call("explain_kernel", "37.5 % occupancy", "3 blocks", "2,560 per warp", **BLOCK, registers_per_thread=80),),
    ),
    Question(
        "D6",
        "A warp reads 32 neighbouring floats: how much moves?",
        (call("explain_kernel", "4 sectors", "128 bytes", "100 %", stride_elements=1),),
    ),
    Question(
        "D7",
        "My array starts one element off. Do I lose a fifth of the bandwidth?",
        (call("explain_kernel", "5 sectors", "80 %", "V100", "9/10", "not the 4/5", offset_elements=1),),
    ),
    Question(
        "D8",
        "Why is it slow to read a row-major matrix by column?",
        (call("explain_kernel", "32 sectors", "1,024 bytes", "12.5 %", "threadIdx.x", stride_elements=32),),
    ),
    Question(
        "C1",
        "The data sheet says 1,979 TFLOPS for the H100 in BF16. Is that what I get?",
        (claim("H100: 1,979 TFLOPS BF16", "2:4 sparsity", "ordinary dense model does not get", "989.4 TFLOPS"),),
    ),
    Question(
        "C2",
        "GB300 NVL72: 1,440 PFLOPS FP4. So 720 dense?",
        (claim("GB300 NVL72: FP4 1,440 PFLOPS", "1,080 PFLOPS", "4:3", "halving it would be wrong", "15 PFLOPS"),),
    ),
    Question(
        "C3",
        "Somebody says the H100 has 3.9 TB/s.",
        (claim("H100: 3.9 TB/s", "H100 NVL", "94 GB", "80 GB", "3.352 TB/s"),),
    ),
    Question(
        "C4",
        "What is one GB200, and what does an HGX page count?",
        (claim("GB200", "1 Grace", "2 GPUs", "HGX board of 8", "normalise to one GPU"),),
    ),
    Question(
        "C5",
        "I read 1,000 TFLOPS and 3,000 GB/s for the H100.",
        (claim("H100: 1,000 TFLOPS, 3,000 GB/s", "preliminary", "final figure differs", "989.4 TFLOPS", "3.352 TB/s"),),
    ),
    Question(
        "C7",
        "From V100 to GB300, how much faster did GPUs become, and does decode follow?",
        (call("look_up", "dense peak × 120", "bandwidth × 8.9", "follows the bandwidth", name="V100 vs GB300"),),
    ),
    Question(
        "C6",
        "How much memory bandwidth does Rubin have?",
        (claim("Rubin memory bandwidth", "22 TB/s", "19.2 TB/s", "never averaged", "official sources disagree"),),
    ),
    Question(
        "B5 B7",
        "What are MFU and HFU, and what did PaLM reach?",
        (
            call("explain_mfu", "46.23 %", "61.64 %", "does not compare systems", **PALM),
            call("look_up", "46.2 %", "57.8 %", "does not compare", name="HFU"),
        ),
    ),
    Question(
        "B6",
        "nvidia-smi shows 97 %. Is that my MFU?",
        (call("look_up", "at least one kernel ran", "no MFU", name="nvidia-smi"),),
    ),
    Question(
        "B1 B2 B3 B4 B6",
        "We train a 7B on 8 H100s at 72,018 tokens/s: what MFU may we report?",
        (
            call(
                "explain_mfu",
                *("44.08 %", "38.21 %", "50.95 %", "19.11 %", "Not to be quoted: 19.11 %", "attention counted", "dense bf16"),
                *("padding", "no sparsity"),
                **TRAINING,
            ),
        ),
    ),
    Question(
        "D9 compile",
        "What does torch.compile save for relu(x @ w + b) with 4096 × 4096, and how?",
        (
            call(
                "explain_kernel",
                *("128 MiB", "67.11 µs", "64 MiB", "33.55 µs", "epilogue 0 MiB", "274.9 µs", "24.41 %", "3 launches"),
                m=4096,
                **LAYER,
            ),
            call(
                "look_up",
                *("TorchDynamo", "AOTAutograd", "TorchInductor", "no multiplications", "new shape", "breaks the graph"),
                name="torch.compile",
            ),
        ),
    ),
    Question(
        "D10",
        "And when M is only 8?",
        (
            call(
                "explain_kernel", *("256 KiB", "0.1311 µs", "32 MiB", "16.78 µs", "2 of 3 launches", "CUDA Graph"), m=8, **LAYER
            ),
            call("look_up", "chain of kernels", "no bytes", "reduce-overhead", name="CUDA Graphs"),
        ),
    ),
    Question(
        "E1 E3 E4",
        "3 nodes of 8 GPUs; two jobs of 4, then one of 2 pods × 8, then one of 8: how many GPUs work, and what helps?",
        (
            call(
                "place_jobs",
                "Default (one pod at a time, scores by CPU and memory alone): 8 of 24 GPUs work (8 held idle",
                "Gang (whole jobs or nothing, scores by CPU and memory alone): 16 of 24 GPUs work; a, b and T8 run; T16 waits",
                "Gang and bin packing (whole jobs or nothing, nodes filled up: MostAllocated, GPUs weighted 5): 24 of 24 GPUs "
                "work; a, b and T16 run; T8 waits",
                **CLUSTER,
            ),
        ),
    ),
    Question(
        "E2",
        "What if a second job like it arrives at the same time?",
        (
            call(
                "place_jobs",
                *("8 of 24 GPUs work (16 held idle", "Deadlock", "T16 holds 8 devices", "waits for U16"),
                nodes="3 nodes of 8 GPUs",
                jobs="a: 4, b: 4, T16: 2x8, U16: 2x8",
                policy="bin packing",
                interleave_pods=True,
            ),
        ),
    ),
    Question(
        "E5",
        "Can two jobs share a GPU, or a pod ask for half of one?",
        (call("look_up", "whole numbers only", "never overcommitted", name="nvidia.com/gpu"),),
    ),
    Question(
        "E6",
        "Which schedulers do gang scheduling, and is Slurm's the same?",
        (
            call(
                "look_up",
                *("beta and off by default in Kubernetes 1.37", "waitForPodsReady", "minMember", "time-slicing"),
                name="gang scheduling",
            ),
        ),
    ),
)
