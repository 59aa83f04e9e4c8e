"""The bound on a decode step.

Every sequence gains one token per step. With pipeline stages the batch is cut into as many microbatches in flight; a step is
then one microbatch's way through all stages, since by symmetry every device is busy that long. All figures of a step are
those of the busiest device, experts apart: the bound takes them spread as evenly as they can be.
"""

import math
from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from service.formulas.attention import attention_intensity_flops_per_byte
from service.formulas.collectives import (
    all_reduce_bytes_at_least,
    all_reduce_message_bytes,
    expert_exchange_bytes,
)
from service.formulas.kv_cache import kv_cache_bytes
from service.formulas.roofline import (
    arithmetic_intensity_flops_per_byte,
    interconnect_seconds,
    memory_seconds,
    ridge_point_flops_per_byte,
    seconds_at_peak,
    step_seconds,
    tokens_per_second,
)
from service.planning.defaults import ACTIVATION_BYTES_PER_ELEMENT, NOT_COUNTED, memory_note
from service.planning.device import Device
from service.planning.explain import Apply, plainly
from service.planning.footprint import Footprint
from service.planning.formats import Arithmetic
from service.planning.pick import FLOATS, Pick
from service.planning.results import DecodeBound, Limit


class Load(Struct, frozen=True):
    """A batch as one device sees it. A sweep holds arrays in the same fields."""

    batch_size: int
    active_groups: float  # attention groups that have a sequence
    in_flight: float  # microbatches that fill the pipeline
    sequences: float  # of one microbatch on one device

    @classmethod
    def of(cls, footprint: Footprint, batch_size: int, pick: Pick = FLOATS) -> "Load":
        """The batch spread over attention groups and microbatches as evenly as can be."""
        shape = footprint.shape
        active = pick.smaller(shape.attention_data, batch_size) * 1.0
        per_group = batch_size / active
        in_flight = pick.smaller(shape.pipeline * 1.0, per_group)
        return cls(batch_size, active, in_flight, per_group / in_flight)


class DecodePlan(Struct, frozen=True, dict=True):
    """A footprint on a device: everything about a decode step that does not depend on batch and context."""

    footprint: Footprint
    device: Device
    bandwidth: float  # bytes/s
    peaks: Mapping[str, float]  # FLOP/s by stored format
    attention_peak: float
    main_peak: float
    link_bandwidth: float | None  # bytes/s one way, the fastest link: for the bound
    ring_bandwidth: float | None  # bytes/s one way, of the link that joins the whole group: for the expected step
    dispatch_bytes_per_element: float
    assumptions: tuple[str, ...] = ()

    @cached_property
    def bound_experts_read_per_device(self) -> float:
        """Experts of a layer that one device reads for a single token at least, in whole experts of its group."""
        return float(-(-self.footprint.num_experts_per_token // self.footprint.shape.expert))

    @cached_property
    def sends(self) -> bool:
        """Whether devices send each other anything."""
        return self.footprint.shape.num_devices > 1 and self.footprint.hidden_size > 0

    @cached_property
    def bound_remote_groups(self) -> int:
        """Groups besides a token's own that hold experts of it at the least, where tokens go to their experts."""
        footprint, shape = self.footprint, self.footprint.shape
        if shape.attention_data == 1:
            return 0
        return math.ceil(footprint.num_experts_per_token / (footprint.num_experts / shape.expert)) - 1

    @cached_property
    def bytes_per_expert(self) -> float:
        """Bytes of one expert in all expert layers, on one of the devices that share it."""
        held = self.footprint.num_experts / self.footprint.shape.expert
        return self.footprint.expert_bytes_per_device / held if held else 0.0

    @cached_property
    def weight_bytes_read_per_device(self) -> float:
        """Weights that the busiest device reads at the very least: of routed experts, its share of one token's."""
        return self.footprint.read_bytes_per_device + self.bound_experts_read_per_device * self.bytes_per_expert

    @cached_property
    def matmul_seconds_per_sequence(self) -> float:
        """Arithmetic of the weight matrices for one sequence on every device."""
        groups = float(self.footprint.shape.attention_data)
        return compute_seconds(self, Load(1, groups, 1.0, 1.0), attention=0.0)

    @cached_property
    def link_seconds_per_sequence(self) -> float:
        """Collectives for one sequence on every device."""
        if not self.link_bandwidth:
            return 0.0
        return interconnect_bytes(self, Load(1, 1.0, 1.0, 1.0)) / self.link_bandwidth

    def compute_seconds_per_sequence(self, context_tokens: float) -> float:
        """Arithmetic for one sequence on every device, attention included."""
        attention = self.footprint.attention_flops_per_device.at(context_tokens)
        return self.matmul_seconds_per_sequence + attention / self.attention_peak

    @cached_property
    def context_below_which_compute_can_bind(self) -> float:
        """The context at which a sequence's arithmetic takes as long as its cache; 0 or infinite where that is at none.

        Arithmetic starts from a constant (the weights) and the cache from next to nothing, so where the cache overtakes at
        all it does so once.
        """

        def surplus(tokens: float) -> float:
            cache = self.footprint.cache_read_bytes_per_device.at(tokens)
            return self.compute_seconds_per_sequence(tokens) - cache / self.bandwidth

        low, high = 0.0, 1.0
        while surplus(high) > 0:
            low, high = high, high * 2
            if high > _LONGEST_CONTEXT:
                return math.inf
        while high - low > 0.5:
            middle = (low + high) / 2
            low, high = (middle, high) if surplus(middle) > 0 else (low, middle)
        return high if low else 0.0


#: Beyond any context that a request may ask for.
_LONGEST_CONTEXT = 2.0**31


def decode_plan(footprint: Footprint, device: Device, arithmetic: Arithmetic, notes: tuple[str, ...]) -> DecodePlan:
    """Joins a footprint with a device. Unanswerable where a peak or the bandwidth that it needs is not known."""
    field = "precision.compute"
    shape = footprint.shape
    ranks = shape.tensor * shape.attention_data
    ring = device.link_over(ranks)
    link_notes = _link_notes(footprint, device, ranks)
    return DecodePlan(
        footprint=footprint,
        device=device,
        bandwidth=device.memory_bandwidth(),
        peaks={stored: device.peak_dense(peak, field) for stored, peak in arithmetic.by_stored_format.items()},
        attention_peak=device.peak_dense(arithmetic.attention, field),
        main_peak=device.peak_dense(arithmetic.main, field),
        link_bandwidth=device.links[0].bandwidth_one_way_bytes_per_second if device.links else None,
        ring_bandwidth=ring.bandwidth_one_way_bytes_per_second if ring else None,
        dispatch_bytes_per_element=1.0 if arithmetic.main in {"fp8", "fp4"} else ACTIVATION_BYTES_PER_ELEMENT,
        assumptions=(*notes, *arithmetic.notes, *link_notes, memory_note(device), NOT_COUNTED),
    )


def _link_notes(footprint: Footprint, device: Device, ranks: int) -> tuple[str, ...]:
    if footprint.shape.num_devices == 1:
        return ()
    if footprint.hidden_size == 0:
        return ("collectives are left out: the model is given without layers",)
    if not device.links:
        return (f"collectives are left out: no link between devices is known for {device.title}",)
    if device.link_over(ranks) is None:
        link = device.links[0]
        return (
            f"{ranks} ranks reach beyond the {link.num_devices_in_domain} devices of {link.name}: the bound takes all traffic "
            "at its speed, and so does the expected step, since the network between nodes is not given",
        )
    return ()


# -- the bound --------------------------------------------------------------------------------------------------------


def compute_seconds(plan: DecodePlan, load: Load, attention: float, apply: Apply = plainly, pick: Pick = FLOATS) -> float:
    """Seconds of arithmetic on the busiest device; each stored format at its own peak."""
    footprint = plan.footprint
    routed = load.sequences * load.active_groups
    total = 0.0
    for stored, peak in plan.peaks.items():
        flops = footprint.flops_per_device.get(stored, 0.0) * load.sequences
        flops = flops + footprint.expert_flops_per_device.get(stored, 0.0) * routed
        if pick.any(flops):
            total = total + apply(seconds_at_peak, flops_per_device=flops, peak_dense_flops_per_second=peak)
    if pick.any(attention):
        flops = attention * load.sequences
        total = total + apply(seconds_at_peak, flops_per_device=flops, peak_dense_flops_per_second=plan.attention_peak)
    return total


def interconnect_bytes(plan: DecodePlan, load: Load, apply: Apply = plainly, pick: Pick = FLOATS) -> float:
    """Bytes that a device sends in a step at the very least: all-reduces, expert exchange, stage hand-over."""
    footprint, shape = plan.footprint, plan.footprint.shape
    if not plan.sends:
        return 0.0
    total = 0.0
    message = message_bytes(plan, load, apply)
    if pick.any(footprint.num_all_reduces):
        total = apply(all_reduce_bytes_at_least, num_all_reduces=footprint.num_all_reduces, message_bytes=message)
    if pick.any(shape.attention_data > 1):
        total = total + exchange_bytes(plan, load, plan.bound_remote_groups, apply)
    return total + (shape.pipeline - 1) * message / shape.tensor


def message_bytes(plan: DecodePlan, load: Load, apply: Apply) -> float:
    """Bytes of one all-reduce."""
    return apply(
        all_reduce_message_bytes,
        batch_size=load.sequences,
        hidden_size=plan.footprint.hidden_size,
        activation_bytes_per_element=ACTIVATION_BYTES_PER_ELEMENT,
    )


def exchange_bytes(plan: DecodePlan, load: Load, remote_groups: float, apply: Apply) -> float:
    """Bytes that a device sends to so many other groups of experts, over all layers."""
    each = apply(
        expert_exchange_bytes,
        num_tokens=load.sequences / plan.footprint.shape.tensor,
        num_remote_groups=remote_groups,
        hidden_size=plan.footprint.hidden_size,
        dispatch_bytes_per_element=plan.dispatch_bytes_per_element,
        combine_bytes_per_element=ACTIVATION_BYTES_PER_ELEMENT,
    )
    return each * plan.footprint.num_expert_layers


def decode_bytes(footprint: Footprint, batch_size: int, context_tokens: int) -> float:
    """Bytes that a decode step reads at the very least over all devices; needs no device."""
    shape = footprint.shape
    weights = weight_bytes_read(footprint, Load.of(footprint, batch_size), footprint.num_experts_per_token)
    return weights + batch_size * footprint.cache_read_bytes_per_device.at(context_tokens) * shape.tensor


class DecodeTerms(Struct, frozen=True):
    """What makes up a bound: floats for a point, arrays for many. Fields as in ``DecodeBound``."""

    step_seconds: float
    tokens_per_second: float
    tokens_per_second_per_user: float
    tokens_per_second_per_device: float
    weight_bytes: float
    kv_cache_bytes: float
    bytes_per_device: float
    interconnect_bytes_per_device: float
    memory_seconds: float
    compute_seconds: float
    interconnect_seconds: float
    binding_place: int  # in BINDING_LIMITS
    cache_bytes_per_sequence: float  # on each device, as are the next
    attention_flops_per_sequence: float


#: Limits that a bound knows, by ``DecodeTerms.binding_place``.
BINDING_LIMITS = (Limit.MEMORY_BANDWIDTH, Limit.COMPUTE, Limit.INTERCONNECT)


def decode_terms(plan: DecodePlan, load: Load, context_tokens: int, apply: Apply = plainly, pick: Pick = FLOATS) -> DecodeTerms:
    """The terms of the bound; with ``pick=ARRAYS`` for arrays of batches and contexts, and a plan that holds arrays itself."""
    footprint, shape = plan.footprint, plan.footprint.shape
    cache = footprint.cache_read_bytes_per_device.at(context_tokens, pick.smaller)
    attention = footprint.attention_flops_per_device.at(context_tokens, pick.smaller)
    bytes_per_device = plan.weight_bytes_read_per_device + load.sequences * cache
    sent = interconnect_bytes(plan, load, apply, pick)
    memory = apply(memory_seconds, bytes_per_device=bytes_per_device, memory_bandwidth_bytes_per_second=plan.bandwidth)
    compute = compute_seconds(plan, load, attention, apply, pick)
    link = 0.0
    if pick.any(sent) and plan.link_bandwidth is not None:
        link = apply(
            interconnect_seconds,
            interconnect_bytes_per_device=sent,
            link_bandwidth_one_way_bytes_per_second=plan.link_bandwidth,
        )
    step = apply(step_seconds, memory_seconds=memory, compute_seconds=compute, interconnect_seconds=link, maximum=pick.larger)
    rate = apply(tokens_per_second, batch_size=load.batch_size, step_seconds=step)
    weights = weight_bytes_read(footprint, load, footprint.num_experts_per_token, pick)
    cache_read = apply(kv_cache_bytes, batch_size=load.batch_size, cache_bytes_per_sequence=cache * shape.tensor)
    return DecodeTerms(
        step_seconds=step,
        tokens_per_second=rate,
        tokens_per_second_per_user=1 / step,
        tokens_per_second_per_device=rate / shape.num_devices,
        weight_bytes=weights,
        kv_cache_bytes=cache_read,
        bytes_per_device=bytes_per_device,
        interconnect_bytes_per_device=sent,
        memory_seconds=memory,
        compute_seconds=compute,
        interconnect_seconds=link,
        binding_place=_binding(memory, compute, link, pick),
        cache_bytes_per_sequence=cache,
        attention_flops_per_sequence=attention,
    )


def decode_bound(plan: DecodePlan, load: Load, context_tokens: int, apply: Apply = plainly) -> DecodeBound:
    """The bound on one step of the whole replica."""
    return bound_of(plan, decode_terms(plan, load, context_tokens, apply), load.batch_size, context_tokens, apply)


def bound_of(plan: DecodePlan, terms: DecodeTerms, batch_size: int, context_tokens: int, apply: Apply = plainly) -> DecodeBound:
    """The bound whose terms these are."""
    footprint = plan.footprint
    flops = batch_size * (footprint.flops_per_token + footprint.attention_flops.at(context_tokens))
    return DecodeBound(
        step_seconds=terms.step_seconds,
        tokens_per_second=terms.tokens_per_second,
        tokens_per_second_per_user=terms.tokens_per_second_per_user,
        tokens_per_second_per_device=terms.tokens_per_second_per_device,
        weight_bytes=terms.weight_bytes,
        kv_cache_bytes=terms.kv_cache_bytes,
        bytes_per_device=terms.bytes_per_device,
        flops=flops,
        interconnect_bytes_per_device=terms.interconnect_bytes_per_device,
        memory_seconds=terms.memory_seconds,
        compute_seconds=terms.compute_seconds,
        interconnect_seconds=terms.interconnect_seconds,
        arithmetic_intensity_flops_per_byte=apply(
            arithmetic_intensity_flops_per_byte, flops=flops, num_bytes=terms.weight_bytes + terms.kv_cache_bytes
        ),
        attention_intensity_flops_per_byte=_attention_intensity(footprint, terms, apply),
        ridge_point_flops_per_byte=apply(
            ridge_point_flops_per_byte,
            peak_dense_flops_per_second=plan.main_peak,
            memory_bandwidth_bytes_per_second=plan.bandwidth,
        ),
        binding_limit=BINDING_LIMITS[terms.binding_place],
    )


def _binding(memory: float, compute: float, link: float, pick: Pick) -> int:
    """The place of the slowest in ``BINDING_LIMITS``; of several alike the first."""
    place: int = pick.where((memory >= compute) & (memory >= link), 0, pick.where(compute >= link, 1, 2))
    return place


def weight_bytes_read(footprint: Footprint, load: Load, experts: float, pick: Pick = FLOATS) -> float:
    """Weights read in a step over all devices; ``experts`` of each layer are touched."""
    copies = footprint.shape.tensor * load.active_groups
    routed = footprint.total_expert_bytes * experts / pick.larger(footprint.num_experts, 1)
    return (footprint.read_bytes_per_device * copies + routed) * load.in_flight


def _attention_intensity(footprint: Footprint, terms: DecodeTerms, apply: Apply) -> float | None:
    cache = terms.cache_bytes_per_sequence - footprint.cache_read_bytes_per_device.fixed
    if cache <= 0:
        return None
    return apply(
        attention_intensity_flops_per_byte,
        attention_flops_per_sequence=terms.attention_flops_per_sequence,
        cache_bytes_per_sequence=cache,
    )
