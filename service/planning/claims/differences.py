"""What each difference between a claim and the figure it equals means, as sentences for the answer."""

from collections.abc import Callable, Iterator
from typing import Final

from service.catalogue.entries import Sparsity, Status
from service.planning.claims.candidates import Candidate, Difference, gpus_per_superchip
from service.planning.claims.claim import Claim
from service.planning.claims.requests import Quantity
from service.planning.claims.shown import ratio_words, shown

_UNITS: Final = {
    Quantity.PEAK: "FLOP/s",
    Quantity.MEMORY_BANDWIDTH: "B/s",
    Quantity.LINK_BANDWIDTH: "B/s",
    Quantity.MEMORY: "B",
    Quantity.POWER: "W",
    Quantity.CLOCK: "Hz",
    Quantity.L2_CACHE: "B",
    Quantity.COMPUTE_UNITS: "units",
}
_NAMES: Final = {
    Quantity.MEMORY_BANDWIDTH: "memory bandwidth",
    Quantity.MEMORY: "memory",
    Quantity.POWER: "power at most",
    Quantity.CLOCK: "boost clock",
    Quantity.L2_CACHE: "L2 cache",
    Quantity.COMPUTE_UNITS: "number of compute units",
}
_MEMORIES: Final = {
    "marketed_memory": "memory as marketed",
    "usable_memory": "memory that the driver reports",
    "framework_visible_memory": "memory that a framework sees",
}


def unit_of(quantity: Quantity) -> str:
    """The base unit of a quantity of an accelerator."""
    return _UNITS[quantity]


def counted(number: int, candidate: Candidate) -> str:
    """So many devices, in words: "one GPU", "72 GPUs", "one superchip of 2 GPUs"."""
    device = "GPU" if candidate.accelerator.vendor in {"NVIDIA", "AMD"} else "chip"
    if number == 1:
        return f"one {device}"
    if number == gpus_per_superchip((candidate.accelerator,)):
        return f"one superchip of {number} {device}s"
    return f"{number} {device}s"


def named(candidate: Candidate) -> str:
    """What the figure is, in words: "BF16 peak with 2:4 sparsity", "memory bandwidth"."""
    if candidate.quantity is Quantity.PEAK:
        dense, sparse = (candidate.sparsity == each.value for each in (Sparsity.DENSE, Sparsity.STRUCTURED_2_4))
        precision = candidate.precision.upper().replace("_", " ").replace("TENSOR", "tensor")
        return f"{'dense ' if dense else ''}{precision} peak{' with 2:4 sparsity' if sparse else ''}"
    if candidate.quantity is Quantity.LINK_BANDWIDTH:
        return (
            f"{candidate.precision} bandwidth, {'both directions together' if candidate.sparsity == 'both_ways' else 'one way'}"
        )
    if candidate.quantity is Quantity.MEMORY:
        return _MEMORIES[candidate.path]
    return _NAMES[candidate.quantity]


def sentences(candidate: Candidate, claim: Claim) -> Iterator[str]:
    """Every difference in a sentence."""
    for each in candidate.differences:
        yield _SENTENCES[each](candidate, claim)


def _sparse(candidate: Candidate, _claim: Claim) -> str:
    dense = candidate.accelerator.peak_dense(candidate.precision)
    start = (
        "it is the rate with 2:4 structured sparsity (two zeros in every four weights), "
        "which an ordinary dense model does not get"
    )
    if dense is None:
        return f"{start}; no dense figure is known."
    value = dense.figure.value * candidate.num_devices
    ratio = candidate.value / value
    halved = (
        "" if abs(ratio - 2) < 0.05 else f"; sparse to dense is {ratio_words(ratio)} here, so that halving it would be wrong"
    )
    return f"{start}: dense is {shown(value, 'FLOP/s')}{halved}."


def _several(candidate: Candidate, _claim: Claim) -> str:
    single = candidate.value / candidate.num_devices
    return f"it counts {counted(candidate.num_devices, candidate)}: {shown(single, unit_of(candidate.quantity))} of one."


def _fewer(candidate: Candidate, claim: Claim) -> str:
    whole = f"a {claim.per_system}" if claim.per_system else f"{claim.subject} as a whole"
    return f"it is of {counted(candidate.num_devices, candidate)} only, not of {whole}."


def _other_sku(candidate: Candidate, _claim: Claim) -> str:
    entry = candidate.accelerator
    memory = f"{entry.marketed_memory.printed_value:g} {entry.marketed_memory.printed_unit}"
    return f"it is of the {entry.title} ({memory}), which is another product than the SXM part of that name."


def _other_product(candidate: Candidate, _claim: Claim) -> str:
    return f"it is of the {candidate.accelerator.title}, which is another product."


def _other_precision(candidate: Candidate, claim: Claim) -> str:
    return f"it is of {candidate.precision.upper()}, not of {'/'.join(each.upper() for each in claim.precisions)}."


def _matrix_units(candidate: Candidate, _claim: Claim) -> str:
    vector = candidate.accelerator.peak_dense(candidate.precision.removesuffix("_tensor"))
    beside = f"; without them it is {shown(vector.figure.value * candidate.num_devices, 'FLOP/s')}" if vector else ""
    return f"it is the rate of the matrix units{beside}."


def _preliminary(candidate: Candidate, _claim: Claim) -> str:
    note = f" ({candidate.figure.note})" if candidate.figure.note else ""
    return f"it is preliminary{note}; the final figure differs."


def _rejected(candidate: Candidate, _claim: Claim) -> str:
    reason = next(each.reason for each in candidate.accelerator.conflicts if each.field == candidate.path)
    note = f" ({candidate.figure.note})" if candidate.figure.note else ""
    return f"a source prints it{note}, and the catalogue does not use it: {reason}"


def _both_ways(candidate: Candidate, _claim: Claim) -> str:
    one_way = shown(candidate.value / 2, "B/s")
    of_all = "" if candidate.num_devices == 1 else f" over {counted(candidate.num_devices, candidate)}"
    return f"it counts both directions together: {one_way}{of_all} one way, which is what a transfer gets."


def _one_way(_candidate: Candidate, _claim: Claim) -> str:
    return "it is of one direction, not of both together."


def _binary(candidate: Candidate, _claim: Claim) -> str:
    marketed, usable = candidate.accelerator.marketed_memory, candidate.accelerator.usable_memory
    reported = f"; the driver reports {usable.value / 2**30:.2f} GiB" if usable else ""
    return (
        f"the number is right and the unit is not: GB is 10^9 bytes and GiB 2^30, and {marketed.printed_value:g} "
        f"{marketed.printed_unit} is the name of the product{reported}."
    )


def _usable(candidate: Candidate, _claim: Claim) -> str:
    marketed = candidate.accelerator.marketed_memory
    return f"it is the {named(candidate)}; {marketed.printed_value:g} {marketed.printed_unit} are marketed."


def _other_quantity(candidate: Candidate, _claim: Claim) -> str:
    return f"it is the {named(candidate)}, not the memory bandwidth."


def _dense(_candidate: Candidate, _claim: Claim) -> str:
    return "it is the dense rate, although the claim says with sparsity."


_SENTENCES: Final[dict[Difference, Callable[[Candidate, Claim], str]]] = {
    Difference.SPARSE: _sparse,
    Difference.DENSE: _dense,
    Difference.SEVERAL_DEVICES: _several,
    Difference.FEWER_DEVICES: _fewer,
    Difference.SUPERCHIP: _several,
    Difference.OTHER_SKU: _other_sku,
    Difference.OTHER_PRODUCT: _other_product,
    Difference.OTHER_PRECISION: _other_precision,
    Difference.MATRIX_UNITS: _matrix_units,
    Difference.PRELIMINARY: _preliminary,
    Difference.REJECTED: _rejected,
    Difference.BOTH_WAYS: _both_ways,
    Difference.ONE_WAY: _one_way,
    Difference.BINARY_UNIT: _binary,
    Difference.USABLE: _usable,
    Difference.OTHER_QUANTITY: _other_quantity,
}


def remarks(candidate: Candidate, claim: Claim) -> Iterator[str]:
    """What to know of a figure that is no difference: what is counted, whether it may change, that decode follows bandwidth."""
    entry = candidate.accelerator
    if claim.sparsity and candidate.sparsity == claim.sparsity == Sparsity.STRUCTURED_2_4.value:
        text = _sparse(candidate, claim)
        yield text[0].upper() + text[1:]
    told = {Difference.SEVERAL_DEVICES, Difference.SUPERCHIP} & set(candidate.differences)
    if candidate.num_devices > 1 and not told:
        single = shown(candidate.value / candidate.num_devices, unit_of(candidate.quantity))
        yield f"It counts {counted(candidate.num_devices, candidate)}: {single} of one."
    if entry.status is Status.PRELIMINARY:
        yield f"The {entry.title} is preliminary: its vendor may still change what it says."
