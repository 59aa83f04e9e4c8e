"""Which figures of the catalogue a claim about an accelerator or a system could mean, and how far each is from its words.

Every candidate carries its differences from a like-for-like basis, each with a weight: the fewer and lighter they are, the
likelier it is that the figure is what the claim is about. Weights only order candidates; no verdict depends on their size.
"""

import math
import re
from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from service.catalogue.entries import Accelerator, Basis, Catalogue, ConflictStatus, Figure, Sparsity, Status
from service.planning.claims.claim import Claim, Kind
from service.planning.claims.requests import Quantity


class Difference(StrEnum):
    """In which way a figure is of something else than the claim says, or lets one think."""

    SPARSE = "sparse"
    DENSE = "dense"
    SEVERAL_DEVICES = "several devices"
    FEWER_DEVICES = "fewer devices"
    SUPERCHIP = "superchip"
    OTHER_SKU = "other SKU"
    OTHER_PRODUCT = "other product"
    OTHER_PRECISION = "other precision"
    MATRIX_UNITS = "matrix units"
    PRELIMINARY = "preliminary"
    REJECTED = "rejected"
    BOTH_WAYS = "both ways"
    ONE_WAY = "one way"
    BINARY_UNIT = "binary unit"
    USABLE = "usable"
    OTHER_QUANTITY = "other quantity"


_WEIGHTS = {
    Difference.SPARSE: 1.0,
    Difference.DENSE: 1.0,
    Difference.SEVERAL_DEVICES: 1.2,
    Difference.FEWER_DEVICES: 1.2,
    Difference.SUPERCHIP: 0.15,  # GB200 is its name, too
    Difference.OTHER_SKU: 0.9,
    Difference.OTHER_PRODUCT: 4.0,
    Difference.OTHER_PRECISION: 3.0,
    Difference.MATRIX_UNITS: 0.4,
    Difference.PRELIMINARY: 0.8,
    Difference.REJECTED: 1.5,
    Difference.BOTH_WAYS: 0.5,
    Difference.ONE_WAY: 0.5,
    Difference.BINARY_UNIT: 0.3,
    Difference.USABLE: 0.4,
    Difference.OTHER_QUANTITY: 3.5,
}

_BINARY_UNIT = re.compile(r"[kmgt]ib\b", re.IGNORECASE)
_LEAST_RACK = 32
#: What a number of one of the two is where it is taken for the other.
_GIGA = {"GB": 2.0**30, "GiB": 1e9}


class Candidate(Struct, frozen=True):
    """A figure on one basis: ``figure.value`` of one device, ``value`` of ``num_devices`` together and in all directions."""

    accelerator: Accelerator
    path: str
    figure: Figure
    value: float
    quantity: Quantity
    precision: str = ""
    sparsity: str = ""
    num_devices: int = 1
    differences: tuple[Difference, ...] = ()
    conflict: ConflictStatus | None = None  # where the sources of the figure disagree
    is_chosen: bool = True

    @property
    def weight(self) -> float:
        """How far it is from the words of the claim."""
        return sum(_WEIGHTS[each] for each in self.differences)

    def differing(self, *differences: Difference) -> "Candidate":
        """The same with further differences."""
        return replace(self, differences=(*self.differences, *differences))


def candidates(catalogue: Catalogue, claim: Claim) -> Iterator[Candidate]:
    """Every figure that the claim could mean."""
    for accelerator, of_sku in _accelerators(catalogue, claim):
        for single in _of_one_device(accelerator, claim):
            for several in _counted(catalogue, single, claim):
                yield several.differing(*of_sku)


def subjects(catalogue: Catalogue, claim: Claim) -> tuple[Accelerator, ...]:
    """The accelerators that the subject can mean: of a bare family name the SXM parts first."""
    names = [*claim.of(Kind.ACCELERATOR), *(catalogue.node_types[name].accelerator for name in claim.of(Kind.NODE_TYPE))]
    found = [catalogue.accelerators[name] for name in dict.fromkeys(names)]
    return tuple(sorted(found, key=lambda each: (not _is_lead(each, found), each.status is Status.PRELIMINARY)))


def leads(found: tuple[Accelerator, ...]) -> tuple[Accelerator, ...]:
    """Those that a bare family name is taken for: its SXM parts, or all where there is none."""
    return tuple(each for each in found if _is_lead(each, found))


def _is_lead(accelerator: Accelerator, found: tuple[Accelerator, ...] | list[Accelerator]) -> bool:
    return "sxm" in accelerator.name or not any("sxm" in each.name for each in found)


def _accelerators(catalogue: Catalogue, claim: Claim) -> Iterator[tuple[Accelerator, tuple[Difference, ...]]]:
    named = subjects(catalogue, claim)
    for accelerator in named:
        yield accelerator, () if _is_lead(accelerator, named) else (Difference.OTHER_SKU,)
    if claim.of(Kind.NODE_TYPE):
        return
    generations = {(each.vendor, each.architecture) for each in named}
    for accelerator in catalogue.accelerators.values():
        if accelerator not in named and (accelerator.vendor, accelerator.architecture) in generations:
            yield accelerator, (Difference.OTHER_PRODUCT,)


# -- one device -------------------------------------------------------------------------------------------------------


def _of_one_device(accelerator: Accelerator, claim: Claim) -> Iterator[Candidate]:
    match claim.quantity:
        case Quantity.PEAK:
            yield from _peaks(accelerator, claim)
        case Quantity.MEMORY_BANDWIDTH:
            yield from _plain(accelerator, "memory_bandwidth", Quantity.MEMORY_BANDWIDTH)
            for link in _links(accelerator, claim):
                yield link.differing(Difference.OTHER_QUANTITY)
        case Quantity.LINK_BANDWIDTH:
            yield from _links(accelerator, claim)
        case Quantity.MEMORY:
            yield from _memories(accelerator, claim)
        case Quantity.POWER:
            yield from _plain(accelerator, "max_power", Quantity.POWER)
        case Quantity.CLOCK:
            yield from _plain(accelerator, "boost_clock", Quantity.CLOCK)
        case Quantity.L2_CACHE:
            yield from _plain(accelerator, "l2_cache", Quantity.L2_CACHE)
        case Quantity.COMPUTE_UNITS:
            yield from _plain(accelerator, "num_compute_units", Quantity.COMPUTE_UNITS)


def _plain(accelerator: Accelerator, field: str, quantity: Quantity) -> Iterator[Candidate]:
    figure: Figure | None = getattr(accelerator, field)
    if figure is not None:
        yield _settled(accelerator, field, figure, quantity)
    yield from _disputed(accelerator, field, quantity)


def _settled(
    accelerator: Accelerator, field: str, figure: Figure, quantity: Quantity, *, precision: str = "", sparsity: str = ""
) -> Candidate:
    disputed = next((each for each in accelerator.conflicts if each.field == field), None)
    status = disputed.status if disputed else None
    return Candidate(accelerator, field, figure, figure.value, quantity, precision, sparsity, conflict=status)


def _disputed(accelerator: Accelerator, field: str, quantity: Quantity) -> Iterator[Candidate]:
    """What other sources print for a field."""
    for conflict in accelerator.conflicts:
        if conflict.field != field:
            continue
        for figure in conflict.figures:
            if figure is conflict.chosen:
                continue
            candidate = Candidate(accelerator, field, figure, figure.value, quantity, conflict=conflict.status, is_chosen=False)
            yield candidate.differing(*_standing(figure, conflict.status, accelerator))


def _standing(figure: Figure, status: ConflictStatus, accelerator: Accelerator) -> tuple[Difference, ...]:
    if figure.basis is Basis.PRELIMINARY and accelerator.status is Status.FINAL:
        return (Difference.PRELIMINARY,)
    return (Difference.REJECTED,) if status is ConflictStatus.RESOLVED else ()


def _peaks(accelerator: Accelerator, claim: Claim) -> Iterator[Candidate]:
    for peak in accelerator.peaks:
        field = f"peaks.{peak.precision}"
        precision, sparsity = peak.precision, peak.sparsity.value
        settled = _settled(accelerator, field, peak.figure, Quantity.PEAK, precision=precision, sparsity=sparsity)
        if peak.sparsity is not Sparsity.DENSE:  # conflicts are about dense peaks
            settled = replace(settled, conflict=None)
        yield settled.differing(*_of_precision(precision, claim), *_of_sparsity(sparsity, claim))
    for precision in dict.fromkeys(each.field.partition(".")[2] for each in accelerator.conflicts):
        for disputed in _disputed(accelerator, f"peaks.{precision}", Quantity.PEAK):
            if "sparsity" in (disputed.figure.note or "") and disputed.figure.basis is not Basis.DERIVED:
                continue  # which is the sparse peak itself
            # A peak that was not established was printed without saying whether with sparsity.
            established = accelerator.peak_dense(precision) is not None
            stated = replace(disputed, precision=precision, sparsity=Sparsity.DENSE.value if established else "")
            of_sparsity = _of_sparsity(Sparsity.DENSE.value, claim) if established else ()
            yield stated.differing(*_of_precision(precision, claim), *of_sparsity)


def _of_precision(precision: str, claim: Claim) -> tuple[Difference, ...]:
    if not claim.precisions or precision in claim.precisions:
        return ()
    is_matrix = precision.removesuffix("_tensor") in claim.precisions
    return (Difference.MATRIX_UNITS,) if is_matrix else (Difference.OTHER_PRECISION,)


def _of_sparsity(sparsity: str, claim: Claim) -> tuple[Difference, ...]:
    if sparsity == Sparsity.DENSE.value:
        return (Difference.DENSE,) if claim.sparsity == Sparsity.STRUCTURED_2_4.value else ()
    return () if claim.sparsity == sparsity else (Difference.SPARSE,)


def _links(accelerator: Accelerator, claim: Claim) -> Iterator[Candidate]:
    for link in accelerator.links:
        kind = link.name.casefold()
        if claim.link not in {"", "any"} and claim.link not in kind:
            continue
        field = "links." + kind.partition(" ")[0].replace(" ", "_")
        settled = _settled(accelerator, field, link.bandwidth_one_way, Quantity.LINK_BANDWIDTH, precision=link.name)
        both = replace(settled, value=2 * settled.value, sparsity="both_ways")
        yield replace(settled, sparsity="one_way").differing(*((Difference.ONE_WAY,) if claim.direction == "both_ways" else ()))
        yield both.differing(*((Difference.BOTH_WAYS,) if claim.direction != "both_ways" else ()))


def _memories(accelerator: Accelerator, claim: Claim) -> Iterator[Candidate]:
    yield from _plain(accelerator, "marketed_memory", Quantity.MEMORY)
    marketed = accelerator.marketed_memory
    if marketed.printed_unit in _GIGA:
        taken = _settled(accelerator, "marketed_memory", marketed, Quantity.MEMORY)
        yield replace(taken, value=marketed.printed_value * _GIGA[marketed.printed_unit]).differing(Difference.BINARY_UNIT)
    for field in ("usable_memory", "framework_visible_memory"):
        figure: Figure | None = getattr(accelerator, field)
        if figure is None:
            continue
        reported = () if claim.is_usable else (Difference.USABLE,)
        # In decimal bytes it is a number that nobody prints: 179.06 GiB are 192.3 GB by chance, not by name.
        if claim.is_usable or (claim.amount and _BINARY_UNIT.search(claim.amount.printed)):
            yield _settled(accelerator, field, figure, Quantity.MEMORY).differing(*reported)
        in_decimal = replace(_settled(accelerator, field, figure, Quantity.MEMORY), value=figure.value / 2**30 * 1e9)
        yield in_decimal.differing(*reported, Difference.BINARY_UNIT)
    for disputed in _disputed(accelerator, "usable_memory", Quantity.MEMORY):
        yield disputed.differing(Difference.USABLE)


# -- several devices --------------------------------------------------------------------------------------------------


def expected_devices(catalogue: Catalogue, claim: Claim) -> int:
    """How many devices the claim is about by its words."""
    if claim.per_device:
        return 1
    if claim.num_devices is not None:
        return claim.num_devices
    systems = {catalogue.node_types[name].num_devices for name in claim.of(Kind.NODE_TYPE)}
    if claim.per_superchip:
        return gpus_per_superchip(subjects(catalogue, claim))
    return systems.pop() if len(systems) == 1 else 1


def gpus_per_superchip(accelerators: tuple[Accelerator, ...]) -> int:
    """GPUs of one superchip: two of the Blackwell ones, else one."""
    return 2 if any("2 GPUs" in each.counted_unit for each in accelerators) else 1


def _counted(catalogue: Catalogue, single: Candidate, claim: Claim) -> Iterator[Candidate]:
    """The figure of one device, and of all the numbers of devices that it is sold or sized in."""
    expected = expected_devices(catalogue, claim)
    if claim.quantity in {Quantity.CLOCK, Quantity.L2_CACHE, Quantity.COMPUTE_UNITS}:
        yield single
        return
    superchip = gpus_per_superchip((single.accelerator,))
    sizes = {1, expected, superchip} | _system_sizes(catalogue, single.accelerator.name)
    if claim.quantity is Quantity.POWER:
        sizes = {1, expected}
    for size in sorted(sizes):
        several = replace(single, value=single.value * size, num_devices=size)
        if claim.per_system and claim.num_devices is None and not claim.of(Kind.NODE_TYPE):
            several = several.differing(*_of_system(size, claim.per_system))
        elif size > expected == 1 and size == superchip and _may_be_a_superchip(claim):
            several = several.differing(Difference.SUPERCHIP)
        elif size > expected:
            several = several.differing(Difference.SEVERAL_DEVICES)
        elif size < expected:
            several = several.differing(Difference.FEWER_DEVICES)
        yield several


def _may_be_a_superchip(claim: Claim) -> bool:
    """Whether the bare name can stand for the superchip: links are always printed per GPU."""
    return bool(claim.of(Kind.ACCELERATOR)) and not claim.per_device and claim.quantity is not Quantity.LINK_BANDWIDTH


def _of_system(size: int, system: str) -> tuple[Difference, ...]:
    """Whether so many devices make such a system: a rack or pod from 32 on, a board or node from 2 on."""
    least, most = (_LEAST_RACK, math.inf) if system in {"rack", "pod"} else (2, _LEAST_RACK - 1)
    if size < least:
        return (Difference.FEWER_DEVICES,)
    return (Difference.SEVERAL_DEVICES,) if size > most else ()


def _system_sizes(catalogue: Catalogue, accelerator: str) -> set[int]:
    return {each.num_devices for each in catalogue.node_types.values() if each.accelerator == accelerator}
