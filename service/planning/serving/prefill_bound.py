"""The shortest time in which a prompt can be computed: its arithmetic at the dense peak, or reading the weights once."""

from msgspec import Struct

from service.architectures.architecture import Role
from service.formulas.roofline import memory_seconds
from service.formulas.roofline import prefill_bound_seconds as longer_of_both
from service.planning.decode_step import DecodePlan
from service.planning.explain import Apply, plainly
from service.planning.pick import FLOATS, Pick
from service.planning.resolve import SplitModel
from service.planning.serving.step import pairs_seconds
from service.planning.serving.work import ServingWork, serving_work
from service.planning.shape import share_on_device


class PrefillBound(Struct, frozen=True):
    """What of a deployment bounds its prompts. Floats, or arrays in a sweep; seconds at the dense peak of one device."""

    seconds_per_token: float
    head_seconds_per_token: float  # of it: the output projection, which is of a prompt's last token alone
    weights_seconds: float
    num_stages: float
    num_groups: float  # attention groups, each of which computes prompts of its own

    def arithmetic_seconds(self, work: ServingWork, new_tokens: float, cached_tokens: float, pick: Pick = FLOATS) -> float:
        """Seconds of one prompt's arithmetic. With stages these are taken to work on parts of the prompt at once."""
        matrices = self.seconds_per_token * new_tokens - self.head_seconds_per_token * pick.larger(new_tokens - 1, 0.0)
        return matrices + pairs_seconds(work, new_tokens, cached_tokens, pick) / self.num_stages

    def seconds(self, work: ServingWork, new_tokens: float, cached_tokens: float, pick: Pick = FLOATS) -> float:
        """Seconds of one prompt, collectives left out."""
        arithmetic = self.arithmetic_seconds(work, new_tokens, cached_tokens, pick)
        return longer_of_both(prompt_compute_seconds=arithmetic, weights_seconds=self.weights_seconds, maximum=pick.larger)


def prefill_bound(split: SplitModel, plan: DecodePlan, work: ServingWork) -> PrefillBound:
    """The bound of a split model on a device; ``work``: what it asks of the device."""
    each, experts = work.peak_seconds_per_token, work.expert_peak_seconds_per_token
    return PrefillBound(
        seconds_per_token=sum((each.sixteen, each.eight, each.four, experts.sixteen, experts.eight, experts.four)),
        head_seconds_per_token=_head_seconds(split, plan),
        weights_seconds=plan.weight_bytes_read_per_device / plan.bandwidth,
        num_stages=float(split.footprint.shape.pipeline),
        num_groups=float(split.footprint.shape.attention_data),
    )


def prefill_bound_seconds(split: SplitModel, plan: DecodePlan, input_tokens: int, apply: Apply = plainly) -> float:
    """Seconds of one prompt on all devices of a replica."""
    work = serving_work(split, plan)
    weights = apply(
        memory_seconds,
        bytes_per_device=plan.weight_bytes_read_per_device,
        memory_bandwidth_bytes_per_second=plan.bandwidth,
    )
    arithmetic = prefill_bound(split, plan, work).arithmetic_seconds(work, input_tokens, 0.0)
    return apply(longer_of_both, prompt_compute_seconds=arithmetic, weights_seconds=weights)


def _head_seconds(split: SplitModel, plan: DecodePlan) -> float:
    """Seconds at the peak of one token's output projection on one device, as the step of a token counts it."""
    shape, formats = split.footprint.shape, split.builder.formats
    seconds = 0.0
    for tensor in split.architecture.outer:
        if tensor.role is Role.LM_HEAD and tensor.num_matmul_parameters:
            share = share_on_device(tensor.split, shape, None)
            seconds += 2.0 * tensor.num_matmul_parameters * share / plan.peaks[formats.precision_of(tensor)]
    return seconds
