"""How serving engines allot a device's memory: what profiling finds, what is left for the cache, and how blocks divide it."""

from collections.abc import Callable

from service.formulas.registry import formula

_VLLM_LOGS = "vLLM start-up logs, 2024-2026: the terms add up to the logged pool within 0.01 GiB"
_VLLM_CACHE = "vLLM, kv_cache_utils.py and kv_cache_interface.py, 2026"
_SGLANG_LOGS = "SGLang start-up logs, 2025-2026: exact on three"
_TRTLLM_DOCS = "TensorRT-LLM documentation, Memory Usage; exact on four start-up logs"


@formula("M · u − W − A − N − G", source=_VLLM_LOGS)
def pool_bytes_by_utilization(
    *,
    physical_memory_bytes: float,
    gpu_memory_utilization: float,
    loaded_weight_bytes: float,
    activation_peak_bytes: float,
    non_torch_bytes: float,
    deducted_graph_bytes: float,
) -> float:
    """Memory of a device that vLLM gives to the KV cache; negative where not even the rest fits.

    The fraction is of the physical memory, whatever else is on the device. Graphs are deducted from 0.21 on, before that 0.

    >>> gib = 2**30
    >>> round(pool_bytes_by_utilization(physical_memory_bytes=79.18 * gib, gpu_memory_utilization=0.9,
    ...     loaded_weight_bytes=14.99 * gib, activation_peak_bytes=4.76 * gib, non_torch_bytes=0.13 * gib,
    ...     deducted_graph_bytes=0) / gib, 2)
    51.38
    """
    claimed = physical_memory_bytes * gpu_memory_utilization
    return claimed - loaded_weight_bytes - activation_peak_bytes - non_torch_bytes - deducted_graph_bytes


@formula("F_after − F_before · (1 − f)", source=_SGLANG_LOGS)
def pool_bytes_by_static_fraction(
    *, free_before_load_bytes: float, loaded_weight_bytes: float, mem_fraction_static: float
) -> float:
    """Memory of a device that SGLang gives to the KV cache; negative where the weights exceed the fraction.

    F_after is F_before less the weights. The fraction covers weights and cache alone, of what was free before loading;
    activations, graphs and the request table come out of the rest.

    >>> gib = 2**30
    >>> round(pool_bytes_by_static_fraction(free_before_load_bytes=21.67 * gib, loaded_weight_bytes=15.58 * gib,
    ...     mem_fraction_static=0.85) / gib, 2)
    2.84
    """
    free_after_load = free_before_load_bytes - loaded_weight_bytes
    return free_after_load - free_before_load_bytes * (1 - mem_fraction_static)


@formula("F_after · f", source=_TRTLLM_DOCS)
def pool_bytes_by_free_fraction(*, free_after_load_bytes: float, free_gpu_memory_fraction: float) -> float:
    """Memory of a device that TensorRT-LLM gives to the KV cache: a share of what the engine leaves, whatever the need.

    >>> round(pool_bytes_by_free_fraction(free_after_load_bytes=70.48 * 2**30, free_gpu_memory_fraction=0.9) / 2**30, 2)
    63.43
    """
    return free_after_load_bytes * free_gpu_memory_fraction


@formula("(b + c) · V · S + r · V + b · h · (T + 2 · S)", source="fitted on start-up logs: decision 0006")
def sampler_peak_bytes(
    *,
    vocab_size: float,
    hidden_size: float,
    sampled_sequences: float,
    profiled_tokens: float,
    activation_bytes_per_element: float,
    sampler_bytes_per_logit: float,
    row_buffer_bytes_per_vocabulary_entry: float,
) -> float:
    """Memory at the sampler's height in the profiling run: S rows of logits in several copies, and the hidden states.

    Tensor parallelism changes none of it: logits are gathered on every rank. The logits stand in the model's own format (b),
    and c bytes a logit of copies in fp32 beside them; the hidden states are those of all T tokens and two copies of the
    sampled ones. The buffer holds one fp32 row per multiprocessor, from vLLM 0.17 on.

    >>> round(sampler_peak_bytes(vocab_size=128256, hidden_size=4096, sampled_sequences=1024, profiled_tokens=8192,
    ...     activation_bytes_per_element=2, sampler_bytes_per_logit=12, row_buffer_bytes_per_vocabulary_entry=528) / 2**30, 2)
    1.85
    """
    logits = (activation_bytes_per_element + sampler_bytes_per_logit) * vocab_size * sampled_sequences
    rows = row_buffer_bytes_per_vocabulary_entry * vocab_size
    return logits + rows + activation_bytes_per_element * hidden_size * (profiled_tokens + 2 * sampled_sequences)


@formula("b · T · (3 · w + m · h)", source="fitted on start-up logs: decision 0006")
def forward_peak_bytes(
    *,
    profiled_tokens: float,
    mlp_width_per_device: float,
    hidden_size: float,
    forward_hidden_multiples: float,
    activation_bytes_per_element: float,
) -> float:
    """Memory at the height of the forward pass: a gated MLP's two halves and their product, and m hidden vectors a token.

    >>> round(forward_peak_bytes(profiled_tokens=20000, mlp_width_per_device=14336, hidden_size=4096,
    ...     forward_hidden_multiples=3, activation_bytes_per_element=2) / 2**30, 2)
    2.06
    """
    per_token = 3 * mlp_width_per_device + forward_hidden_multiples * hidden_size
    return activation_bytes_per_element * profiled_tokens * per_token


@formula("b · T · k · (max(w, h) + max(2 · w, h))", source="vLLM, fused expert kernels, 2025: two workspaces")
def expert_workspace_bytes(
    *,
    profiled_tokens: float,
    num_experts_per_token: float,
    expert_width_per_device: float,
    hidden_size: float,
    activation_bytes_per_element: float,
    maximum: Callable[[float, float], float] = max,
) -> float:
    """Memory of the two workspaces in which each token's k experts are computed.

    >>> expert_workspace_bytes(profiled_tokens=8192, num_experts_per_token=8, expert_width_per_device=768,
    ...     hidden_size=2048, activation_bytes_per_element=2) / 2**20
    512.0
    """
    first = maximum(expert_width_per_device, hidden_size)
    second = maximum(2 * expert_width_per_device, hidden_size)
    return activation_bytes_per_element * profiled_tokens * num_experts_per_token * (first + second)


@formula("T_max · d · b", source="vLLM start-up logs: Llama-3.1-8B loads 0.031 GiB more than its tensors, Qwen3-14B 0.010")
def rotary_table_bytes(*, context_limit_tokens: float, head_dim: float, activation_bytes_per_element: float) -> float:
    """Memory of the table of rotary cosines and sines, which is computed at loading and shared by the layers.

    >>> rotary_table_bytes(context_limit_tokens=131072, head_dim=128, activation_bytes_per_element=2) / 2**30
    0.03125
    """
    return context_limit_tokens * head_dim * activation_bytes_per_element


@formula("G_0 + g · n", source="vLLM start-up logs, 2026: the log adds it up so")
def graph_bytes(*, graph_base_bytes: float, graph_bytes_per_capture: float, num_captures: float) -> float:
    """Memory of the CUDA graphs of n batch sizes.

    >>> graph_bytes(graph_base_bytes=180, graph_bytes_per_capture=18, num_captures=50)
    1080
    """
    return graph_base_bytes + graph_bytes_per_capture * num_captures


@formula("⌈n / g⌉ · g", source=_VLLM_CACHE)
def padded_num_layers(*, num_layers: float, group_size: float) -> float:
    """Layers of one kind once their groups are filled up to the common size.

    >>> padded_num_layers(num_layers=52, group_size=10)
    60
    """
    return -(-num_layers // group_size) * group_size


@formula("⌈T / b⌉", source=_VLLM_CACHE)
def sequence_blocks(*, sequence_tokens: float, block_tokens: float) -> float:
    """Blocks of a group of layers that keep all of a sequence.

    >>> sequence_blocks(sequence_tokens=8192, block_tokens=16)
    512
    """
    return -(-sequence_tokens // block_tokens)


@formula("⌈min(w − 1 + T_batch, T) / b⌉ + 1", source=_VLLM_CACHE)
def windowed_sequence_blocks(
    *,
    sequence_tokens: float,
    window_tokens: float,
    max_num_batched_tokens: float,
    block_tokens: float,
    minimum: Callable[[float, float], float] = min,
) -> float:
    """Blocks that a windowed group is charged for a sequence: the window, what one step may add, and a block begun midway.

    With as many batched tokens as the sequence has, the window saves nothing.

    >>> windowed_sequence_blocks(sequence_tokens=8192, window_tokens=128, max_num_batched_tokens=8192, block_tokens=16)
    513
    """
    return -(-minimum(window_tokens - 1 + max_num_batched_tokens, sequence_tokens) // block_tokens) + 1


@formula("a · ⌈s / (a · k)⌉", source="vLLM: an attention page is made at least as large as a recurrent state")
def hybrid_block_tokens(*, state_bytes: float, attention_bytes_per_token: float, alignment_tokens: float) -> float:
    """Tokens of a block that is at least as large as one layer's recurrent state.

    >>> hybrid_block_tokens(state_bytes=1603584, attention_bytes_per_token=1024, alignment_tokens=16)
    1568
    """
    return -(-state_bytes // (alignment_tokens * attention_bytes_per_token)) * alignment_tokens


@formula("⌊P / B⌋", source="definition")
def num_blocks(*, pool_bytes: float, block_bytes: float) -> float:
    """Whole blocks in the pool, over all layers of the stage.

    >>> num_blocks(pool_bytes=59.32 * 2**30, block_bytes=12 * 16384)
    323966.0
    """
    return pool_bytes // block_bytes


@formula("N / n", source=_VLLM_CACHE)
def max_concurrency(*, num_blocks: float, blocks_per_sequence: float) -> float:
    """Sequences of the longest allowed length that the pool holds at once, parts counted.

    >>> round(max_concurrency(num_blocks=323970, blocks_per_sequence=512 + 513), 2)
    316.07
    """
    return num_blocks / blocks_per_sequence


@formula("R · T · b", source="SGLang start-up logs, 2025: 2,049 × 131,072 × 4 B")
def request_table_bytes(*, num_requests: float, sequence_tokens: float, request_table_bytes_per_token: float) -> float:
    """Memory of the table from requests to their tokens' places, which SGLang keeps outside the pool.

    >>> round(request_table_bytes(num_requests=2049, sequence_tokens=131072, request_table_bytes_per_token=4) / 2**30, 2)
    1.0
    """
    return num_requests * sequence_tokens * request_table_bytes_per_token
