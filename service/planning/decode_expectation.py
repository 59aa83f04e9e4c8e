"""The decode step to expect on average: uniform routing, ring collectives, nothing overlapped. No measurement, and no bound."""

from service.formulas.collectives import expected_num_remote_expert_groups, ring_all_reduce_bytes
from service.formulas.roofline import expected_step_seconds, interconnect_seconds, memory_seconds
from service.formulas.transformer import expected_num_experts_read
from service.planning.decode_step import DecodePlan, DecodeTerms, Load, exchange_bytes, message_bytes, weight_bytes_read
from service.planning.explain import Apply, plainly
from service.planning.pick import FLOATS, Pick
from service.planning.results import DecodeExpectation


def decode_expectation(
    plan: DecodePlan, load: Load, terms: DecodeTerms, apply: Apply = plainly, pick: Pick = FLOATS
) -> DecodeExpectation:
    """The step under uniform routing and ring collectives, with nothing overlapped; ``terms`` are those of its bound."""
    footprint = plan.footprint
    touched = 0.0
    if footprint.num_experts:
        touched = apply(
            expected_num_experts_read,
            num_experts=footprint.num_experts,
            num_experts_per_token=footprint.num_experts_per_token,
            num_tokens=load.sequences * load.active_groups,
        )
    # At least the bound's: with few tokens the busiest group reads more than the average over groups.
    read = pick.larger(touched / footprint.shape.expert, plan.bound_experts_read_per_device)
    experts = read * plan.bytes_per_expert
    memory = apply(
        memory_seconds,
        bytes_per_device=footprint.read_bytes_per_device + experts + load.sequences * terms.cache_bytes_per_sequence,
        memory_bandwidth_bytes_per_second=plan.bandwidth,
    )
    link = 0.0
    sent = _expected_interconnect_bytes(plan, load, apply)
    if pick.any(sent) and plan.ring_bandwidth:
        link = apply(
            interconnect_seconds,
            interconnect_bytes_per_device=sent,
            link_bandwidth_one_way_bytes_per_second=plan.ring_bandwidth,
        )
    # Where no link is known to join the whole group, the bound's is the least that it takes.
    link = pick.larger(link, terms.interconnect_seconds)
    step = apply(
        expected_step_seconds,
        expected_memory_seconds=memory,
        expected_compute_seconds=terms.compute_seconds,
        expected_interconnect_seconds=link,
    )
    return DecodeExpectation(
        expected_step_seconds=step,
        expected_tokens_per_second=load.batch_size / step,
        expected_tokens_per_second_per_user=1 / step,
        expected_weight_bytes=weight_bytes_read(footprint, load, touched, pick),
        expected_memory_seconds=memory,
        expected_compute_seconds=terms.compute_seconds,
        expected_interconnect_seconds=link,
    )


def _expected_interconnect_bytes(plan: DecodePlan, load: Load, apply: Apply) -> float:
    footprint, shape = plan.footprint, plan.footprint.shape
    if shape.num_devices == 1 or footprint.hidden_size == 0:
        return 0.0
    message = message_bytes(plan, load, apply)
    total = 0.0
    if footprint.num_all_reduces:
        total += apply(
            ring_all_reduce_bytes,
            num_all_reduces=footprint.num_all_reduces,
            num_ranks=shape.tensor,
            message_bytes=message,
        )
    if shape.attention_data > 1:
        # Experts that are not grouped are cut over all ranks: every token then goes to every other attention group.
        remote = float(shape.attention_data - 1)
        if shape.expert > 1:
            remote = apply(
                expected_num_remote_expert_groups,
                num_expert_groups=shape.expert,
                num_experts_per_token=footprint.num_experts_per_token,
            )
        total += exchange_bytes(plan, load, remote, apply)
    return total + (shape.pipeline - 1) * message / shape.tensor
