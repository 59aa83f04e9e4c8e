"""The shortest time in which a prompt can be computed: its arithmetic at the dense peak, or reading the weights once."""

from service.architectures.architecture import Role
from service.planning.decode_step import DecodePlan
from service.planning.resolve import SplitModel
from service.planning.serving.work import serving_work
from service.planning.shape import share_on_device


def prefill_bound_seconds(split: SplitModel, plan: DecodePlan, input_tokens: int) -> float:
    """Seconds of one prompt on all devices of a replica, collectives left out; the output projection is of one token alone.

    With pipeline stages the stages are taken to work on parts of the prompt at once.
    """
    work = serving_work(split, plan)
    each, experts = work.peak_seconds_per_token, work.expert_peak_seconds_per_token
    per_token = sum((each.sixteen, each.eight, each.four, experts.sixteen, experts.eight, experts.four))
    pairs = work.prefill_seconds_per_pair * input_tokens * input_tokens / 2
    for window, seconds in work.prefill_seconds_per_windowed_pair:
        within = min(float(input_tokens), window)
        pairs += seconds * (within * within / 2 + (input_tokens - within) * window)
    stages = float(split.footprint.shape.pipeline)
    arithmetic = per_token * input_tokens - _head_seconds(split, plan) * (input_tokens - 1) + pairs / stages
    return max(arithmetic, plan.weight_bytes_read_per_device / plan.bandwidth)


def _head_seconds(split: SplitModel, plan: DecodePlan) -> float:
    """Seconds at the peak of one token's output projection on one device, as the step of a token counts it."""
    shape, formats = split.footprint.shape, split.builder.formats
    seconds = 0.0
    for tensor in split.architecture.outer:
        if tensor.role is Role.LM_HEAD and tensor.num_matmul_parameters:
            share = share_on_device(tensor.split, shape, None)
            seconds += 2.0 * tensor.num_matmul_parameters * share / plan.peaks[formats.precision_of(tensor)]
    return seconds
