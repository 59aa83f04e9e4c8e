"""Model, hardware and bandwidth utilisation: what a run did over what its hardware could have done.

MFU counts the operations that forward and backward need; HFU also counts what an implementation recomputed and is not
comparable between systems (Chowdhery et al., PaLM, 2022, appendix B).
"""

from service.formulas.registry import formula

_PALM = "Chowdhery et al., PaLM, 2022, appendix B"


@formula("(6 · N + a) · tokens/s", source=_PALM)
def training_flops_per_second(*, num_parameters: float, attention_flops_per_token: float, tokens_per_second: float) -> float:
    """Operations per second that forward and backward need.

    2 for the forward pass (multiply and add) and 4 for the backward pass (gradients of inputs and of weights).

    >>> training_flops_per_second(num_parameters=7e9, attention_flops_per_token=0.0, tokens_per_second=72018)
    3024756000000000.0
    """
    return (6 * num_parameters + attention_flops_per_token) * tokens_per_second


@formula("12 · L · H · Q · T", source=_PALM)
def training_attention_flops_per_token(
    *, num_layers: float, num_query_heads: float, head_dim: float, sequence_tokens: float
) -> float:
    """Operations of attention per token of training, as if every token saw all T tokens of its sequence.

    Scores and weighted sum take 2 · 2 · H · Q · T forward, twice that backward. The causal mask halves what is needed.

    >>> training_attention_flops_per_token(num_layers=32, num_query_heads=32, head_dim=128, sequence_tokens=4096)
    6442450944
    """
    return 12 * num_layers * num_query_heads * head_dim * sequence_tokens


@formula("(8 · N + 4/3 · a) · tokens/s", source="one more forward pass: 2 of 6; Korthikanti et al., 2022")
def full_recomputation_flops_per_second(
    *, num_parameters: float, attention_flops_per_token: float, tokens_per_second: float
) -> float:
    """Operations per second of training that recomputes every activation in the backward pass.

    >>> full_recomputation_flops_per_second(num_parameters=7e9, attention_flops_per_token=0.0, tokens_per_second=72018)
    4033008000000000.0
    """
    return (8 * num_parameters + attention_flops_per_token * 4 / 3) * tokens_per_second


@formula("(6 · N + 4/3 · a) · tokens/s", source="Korthikanti et al., 2022: only attention is recomputed")
def selective_recomputation_flops_per_second(
    *, num_parameters: float, attention_flops_per_token: float, tokens_per_second: float
) -> float:
    """Operations per second of training that recomputes only attention's scores and weighted sums.

    >>> selective_recomputation_flops_per_second(num_parameters=1e9, attention_flops_per_token=3e9, tokens_per_second=1)
    10000000000.0
    """
    return (6 * num_parameters + attention_flops_per_token * 4 / 3) * tokens_per_second


@formula("(2 · N + a) · tokens/s", source="forward pass only: a third of training's 6 · N")
def inference_flops_per_second(*, num_parameters: float, attention_flops_per_token: float, tokens_per_second: float) -> float:
    """Operations per second that a forward pass needs.

    >>> inference_flops_per_second(num_parameters=7e9, attention_flops_per_token=0.0, tokens_per_second=1000)
    14000000000000.0
    """
    return (2 * num_parameters + attention_flops_per_token) * tokens_per_second


@formula("bytes_step · tokens/s / B", source="a decode step yields one token per sequence of the batch")
def decode_bytes_per_second(*, bytes_per_step: float, tokens_per_second: float, batch_size: float) -> float:
    """Bytes per second that decoding must read at least: those of a step, as often as steps are made.

    >>> decode_bytes_per_second(bytes_per_step=1.4e10, tokens_per_second=100, batch_size=1)
    1400000000000.0
    """
    return bytes_per_step * tokens_per_second / batch_size


@formula("achieved / (devices · peak)", source=_PALM)
def utilization_ratio(*, achieved_per_second: float, num_devices: float, peak_per_second_per_device: float) -> float:
    """What was achieved over what all devices together could do, a fraction.

    >>> round(utilization_ratio(achieved_per_second=3.024756e15, num_devices=8, peak_per_second_per_device=989.4e12), 4)
    0.3821
    """
    return achieved_per_second / (num_devices * peak_per_second_per_device)
