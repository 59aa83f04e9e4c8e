"""Words of the field that people mix up, for a tool that is asked what one means. No figure of ours stands here."""

from typing import Final

from msgspec import Struct


class Term(Struct, frozen=True):
    """A word, what it means, and who says so."""

    names: tuple[str, ...]
    meaning: str
    source: str
    ask: str = ""


TERMS: Final = (
    Term(
        ("mfu", "model flops utilization", "model flops utilisation"),
        "MFU is the tokens/s of a run over what the hardware could do at its dense peak, counting only the operations that "
        "the model needs (6N a token in training, plus attention). Recomputation does not count. State attention, precision, "
        "dense or sparse, and padding with it.",
        "Chowdhery et al., PaLM, 2022, appendix B",
        "explain_mfu computes it on every basis",
    ),
    Term(
        ("hfu", "hardware flops utilization", "hardware flops utilisation"),
        "HFU counts recomputed operations too. It depends on what an implementation recomputes, so it does not compare "
        "systems: PaLM 540B had an MFU of 46.2 % and an HFU of 57.8 %.",
        "Chowdhery et al., PaLM, 2022, appendix B",
        "explain_mfu shows it beside MFU",
    ),
    Term(
        ("nvidia-smi", "nvml", "nvidia-smi utilization", "gpu utilization", "gpu utilisation"),
        "What nvidia-smi calls GPU utilisation is the share of a sampling period in which at least one kernel ran. A kernel "
        "that uses a hundredth of the chip counts as much as one that fills it: it is no MFU and cannot be turned into one.",
        "NVIDIA, NVML API reference, nvmlUtilization_t",
        "explain_mfu wants tokens per second instead",
    ),
    Term(
        ("torch.compile", "torch compile", "torchdynamo", "dynamo", "aotautograd", "torchinductor", "inductor", "eager"),
        "Eager mode runs each operator by itself: a call through Python and the dispatcher, an output to allocate, a kernel "
        "to launch, and intermediate results through memory. torch.compile traces them: TorchDynamo captures a graph and "
        "guards its assumptions, AOTAutograd derives the backward graph ahead of time, TorchInductor fuses operators and "
        "writes their kernels. It saves memory traffic and launches, no multiplications. It costs a compilation at the first "
        "call, again where a guard fails (a new shape), and untraceable Python breaks the graph.",
        "PyTorch documentation, torch.compile",
        "explain_kernel with m, n, k shows what fusing saves",
    ),
    Term(
        ("cuda graphs", "cuda graph", "reduce-overhead"),
        "A CUDA Graph submits a recorded chain of kernels at once. It saves launches on the host, and no bytes: it helps "
        "where kernels are short. Shapes and addresses are fixed at capture. torch.compile's mode reduce-overhead uses it.",
        "Gray, Getting Started with CUDA Graphs, NVIDIA technical blog, 2019",
        "explain_kernel shows launches beside traffic",
    ),
    Term(
        ("gang scheduling", "gang", "all-or-nothing", "coscheduling"),
        "Gang scheduling binds all pods of a job or none, so that half a job never holds GPUs while it waits. kube-scheduler "
        "places pod by pod; its own gang scheduling is beta and off by default in Kubernetes 1.37. Kueue evicts and requeues "
        "after a timeout (waitForPodsReady), Volcano uses a PodGroup's minMember. In Slurm's manuals the words mean "
        "time-slicing, which is another thing.",
        "Kubernetes, Kueue, Volcano and Slurm documentation",
        "place_jobs shows what a policy does to jobs",
    ),
    Term(
        ("slurm gang scheduling", "slurm"),
        "In Slurm's manuals gang scheduling is time-slicing: jobs share the same nodes and take turns. It is not "
        "all-or-nothing placement, which Slurm does for every job anyway.",
        "Slurm documentation, Gang Scheduling",
    ),
    Term(
        ("kueue", "waitforpodsready"),
        "Kueue admits whole jobs by quota. With waitForPodsReady it evicts and requeues a job whose pods are not all ready in "
        "time.",
        "Kueue documentation",
        "place_jobs shows what a policy does to jobs",
    ),
    Term(
        ("volcano", "minmember", "podgroup"),
        "Volcano is a batch scheduler for Kubernetes: a PodGroup's minMember says how many pods must fit before any is bound.",
        "Volcano documentation",
        "place_jobs shows what a policy does to jobs",
    ),
    Term(
        ("bin packing", "mostallocated", "leastallocated"),
        "kube-scheduler's default score, LeastAllocated over CPU and memory, spreads pods and does not see GPUs. "
        "MostAllocated with nvidia.com/gpu weighted packs small jobs onto few nodes and keeps whole nodes free.",
        "Kubernetes documentation, NodeResourcesFit",
        "place_jobs compares the two",
    ),
    Term(
        ("extended resource", "nvidia.com/gpu"),
        "A GPU in Kubernetes is an extended resource: whole numbers only, request equal to limit, never overcommitted.",
        "Kubernetes documentation, Extended Resources",
        "place_jobs shows what that does to jobs",
    ),
    Term(
        ("tpot", "itl", "inter-token latency"),
        "TPOT (also ITL) is the time between two tokens of one request's answer.",
        "MLPerf Inference rules",
        "how_fast estimates it",
    ),
    Term(
        ("ttft", "time to first token"),
        "TTFT is the time from a request's arrival to its first token.",
        "MLPerf Inference rules",
        "how_fast estimates it",
    ),
    Term(
        ("structured sparsity", "2:4", "2:4 sparsity", "sparse", "sparsity"),
        "2:4 structured sparsity: where two of every four weights are zero, Tensor Cores from Ampere on work at a higher "
        "rate, most often twice. An ordinary dense model gets none of it. The ratio is not always 2: GB300's FP4 is 4:3.",
        "NVIDIA Ampere architecture whitepaper; GB300 NVL72 page",
        "check_claim says whether a figure is sparse",
    ),
    Term(
        ("bound", "estimate", "expected", "observed"),
        "A bound is physics and nothing measured may beat it; expected_… is the same arithmetic under average conditions; an "
        "estimate is what a named engine will really do by a named calibration, as a range; observed is what a caller "
        "measured.",
        "this service",
    ),
)


def term(name: str) -> Term | None:
    """The term of that name, whatever its case.

    >>> term("Gang Scheduling").names[0]
    'gang scheduling'
    """
    wanted = " ".join(name.casefold().split())
    return next((each for each in TERMS if wanted in each.names), None)
