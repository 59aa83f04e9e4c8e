"""What a serving engine's step takes in practice: kernel floors, reached bandwidth, collectives, prefill, waiting.

Each formula is physics times a ratio, or a time that a calibration gives: specs/calibrations/README.md says how they were
fitted and how right they are. The bodies take floats or arrays.
"""

from service.formulas.registry import formula

_MODEL = "specs/calibrations/README.md"
_LITTLE = "Little, A proof for the queuing formula L = λW, Operations Research 9(3), 1961"


@formula("bytes / (BW · η)", source=_MODEL)
def streaming_seconds(*, num_bytes: float, bandwidth_bytes_per_second: float, bandwidth_ratio: float) -> float:
    """Seconds to read bytes at the part of the memory bandwidth that kernels reach.

    >>> streaming_seconds(num_bytes=3.2e9, bandwidth_bytes_per_second=4e12, bandwidth_ratio=0.8)
    0.001
    """
    return num_bytes / (bandwidth_bytes_per_second * bandwidth_ratio)


@formula("1 − (1 − k/E)^(B^γ)", source="uniform routing, with the tokens of a batch alike: " + _MODEL)
def expert_read_ratio(*, num_experts: float, num_experts_per_token: float, num_tokens: float, routing_exponent: float) -> float:
    """The part of a layer's experts that a step reads.

    An exponent under 1 says that the tokens of a batch choose alike, so that they touch fewer experts than chance would.

    >>> round(expert_read_ratio(num_experts=128, num_experts_per_token=4, num_tokens=16, routing_exponent=1), 4)
    0.3983
    """
    untouched: float = (1 - num_experts_per_token / num_experts) ** (num_tokens**routing_exponent)
    return 1 - untouched


@formula("a + b·log₂ n + c·√m + 2·(n−1)/n·m / BW_link", source="all-reduce latencies by message size: " + _MODEL)
def collective_seconds(
    *,
    message_bytes: float,
    num_devices: float,
    log2_num_devices: float,
    link_bandwidth_one_way_bytes_per_second: float,
    collective_base_seconds: float,
    collective_doubling_seconds: float,
    collective_seconds_per_root_byte: float,
) -> float:
    """Seconds of one all-reduce: a start, one hop more a doubling, the ramp of medium messages, and the ring's bytes.

    >>> round(1e6 * collective_seconds(message_bytes=65536, num_devices=8, log2_num_devices=3,
    ...     link_bandwidth_one_way_bytes_per_second=450e9, collective_base_seconds=3.8e-6,
    ...     collective_doubling_seconds=0.4e-6, collective_seconds_per_root_byte=0.012e-6), 2)
    8.33
    """
    ring = 2 * (num_devices - 1) / num_devices * message_bytes / link_bandwidth_one_way_bytes_per_second
    ramp: float = collective_seconds_per_root_byte * message_bytes**0.5
    return collective_base_seconds + collective_doubling_seconds * log2_num_devices + ramp + ring


@formula("(cache³ + arithmetic³)^⅓", source="both proceed together, and neither quite hides the other: " + _MODEL)
def decode_attention_seconds(*, cache_seconds: float, arithmetic_seconds: float) -> float:
    """Seconds of decode attention: reading the cache and multiplying with it overlap.

    >>> round(decode_attention_seconds(cache_seconds=2e-3, arithmetic_seconds=0), 6)
    0.002
    """
    both: float = (cache_seconds**3 + arithmetic_seconds**3) ** (1 / 3)
    return both


@formula("(compute^p + fixed^p)^(1/p), p = 1.5", source="kernels hide part of their own launches: " + _MODEL)
def prefill_pass_seconds(*, compute_seconds: float, fixed_seconds: float) -> float:
    """Seconds of prefill: arithmetic, and what its passes cost whatever their size (launches, weights read once).

    >>> round(prefill_pass_seconds(compute_seconds=0.2, fixed_seconds=0), 6)
    0.2
    """
    both: float = (compute_seconds**1.5 + fixed_seconds**1.5) ** (1 / 1.5)
    return both


@formula("decode step + prefill of others in between", source="each request brings its prompt once in its output's steps")
def inter_token_seconds(*, decode_step_seconds: float, interference_seconds: float) -> float:
    """TPOT: seconds between two tokens of one request.

    >>> inter_token_seconds(decode_step_seconds=0.014, interference_seconds=0.001)
    0.015
    """
    return decode_step_seconds + interference_seconds


@formula("host + prefill + wait", source=_MODEL)
def first_token_seconds(*, host_seconds: float, prefill_seconds: float, wait_seconds: float) -> float:
    """TTFT without a queue for memory: the host's share, the own prompt, and the wait for the steps and prompts of others.

    >>> round(first_token_seconds(host_seconds=0.03, prefill_seconds=0.1, wait_seconds=0.22), 3)
    0.35
    """
    return host_seconds + prefill_seconds + wait_seconds


@formula("N · D / (D + W)", source=_LITTLE)
def decoding_batch_size(*, num_running: float, decode_seconds: float, first_token_seconds: float) -> float:
    """Requests that decode at a time, out of those that are in the engine: the others wait for their first token.

    >>> decoding_batch_size(num_running=64, decode_seconds=15, first_token_seconds=1)
    60.0
    """
    return num_running * decode_seconds / (decode_seconds + first_token_seconds)


@formula("N / (D + W)", source=_LITTLE)
def requests_per_second(*, num_running: float, decode_seconds: float, first_token_seconds: float) -> float:
    """Requests finished per second by so many in flight.

    >>> requests_per_second(num_running=64, decode_seconds=15, first_token_seconds=1)
    4.0
    """
    return num_running / (decode_seconds + first_token_seconds)


@formula("ρ^(√(2(c+1)) − 1) / (c·(1 − ρ)) · S · (1 + cv²)/2", source="Sakasegawa, Ann. Inst. Stat. Math. 29, 1977")
def queue_seconds(*, utilization_ratio: float, num_slots: float, service_seconds: float, squared_variation: float) -> float:
    """Mean wait for one of several slots under random (Poisson) arrivals.

    Exact for one slot (M/G/1); for several a close fit. ``squared_variation``: of the service time, 0 where all are alike.

    >>> round(queue_seconds(utilization_ratio=0.5, num_slots=1, service_seconds=1, squared_variation=1), 6)
    1.0
    """
    tail: float = utilization_ratio ** ((2 * (num_slots + 1)) ** 0.5 - 1)
    return tail / (num_slots * (1 - utilization_ratio)) * service_seconds * (1 + squared_variation) / 2
