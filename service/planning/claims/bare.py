"""What can be said to a name without a figure: what one of it is, and what the catalogue knows that names like it hide."""

from collections.abc import Iterator

from service.catalogue.entries import ConflictStatus, Status
from service.planning.claims.candidates import gpus_per_superchip, leads, subjects
from service.planning.claims.claim import Claim, Kind
from service.planning.claims.devices import like_for_like_of
from service.planning.claims.evidence import Evidence
from service.planning.claims.requests import Quantity
from service.planning.claims.results import AuditedClaim, Verdict

_TO_ADD = ("a figure with its unit",)
_FIELDS = {
    Quantity.MEMORY_BANDWIDTH: "memory_bandwidth",
    Quantity.MEMORY: "marketed_memory",
    Quantity.POWER: "max_power",
}


def judge_name(evidence: Evidence, claim: Claim) -> AuditedClaim:
    """Tells what one of the subject is. UNKNOWN, unless the quantity it asks for is one that sources disagree about."""
    if claim.of(Kind.PROCESS):
        return _process(evidence, claim)
    found = subjects(evidence.catalogue, claim)
    reasons = list(_counting(evidence, claim))
    sources = [source for each in found for source in each.marketed_memory.sources]
    field = _FIELDS.get(claim.quantity) if claim.quantity else None
    like = like_for_like_of(evidence, claim, leads(found)[0]) if field and found else None
    verdict = Verdict.UNKNOWN
    for entry in found:
        for conflict in entry.conflicts:
            if conflict.field != field:
                continue
            printed = "; ".join(
                f"{each.printed_value:,g} {each.printed_unit} ({evidence.titles(each)})" for each in conflict.figures
            )
            reasons.append(f"Sources disagree ({conflict.status}) about the {entry.title}: {printed}. {conflict.reason}")
            sources += [source for figure in conflict.figures for source in figure.sources]
            if conflict.status is not ConflictStatus.RESOLVED:
                verdict = Verdict.CONFLICTING_SOURCES
    if like is not None:
        reasons.append(f"The catalogue uses {like.printed}: {like.description}.")
    to_add = _TO_ADD if verdict is Verdict.UNKNOWN else ()
    return evidence.audited(claim, verdict, reasons, like=like, to_add=to_add, sources=sources)


def _counting(evidence: Evidence, claim: Claim) -> Iterator[str]:
    for name in claim.of(Kind.NODE_TYPE):
        node = evidence.catalogue.node_types[name]
        number = node.num_devices
        yield f"The {node.title} holds {number} of {node.accelerator}: divide its totals by {number} before comparing."
    for name in claim.of(Kind.DIE):
        yield f"{name.upper()} is a die, not a product: the catalogue holds its area and transistors."
    for name in claim.of(Kind.EXPOSURE_FIELD):
        field = evidence.catalogue.exposure_fields[name]
        area = f"{field.width.value:g} mm × {field.height.value:g} mm = {field.area.value:g} mm²"
        yield f"{field.title}: {area}, which caps a single die."
    accelerators = [evidence.catalogue.accelerators[each] for each in claim.of(Kind.ACCELERATOR)]
    if len(accelerators) > 1:
        yield f"{claim.subject} names several products: {', '.join(each.title for each in accelerators)}."
    for entry in accelerators:
        yield f"{entry.title}: figures are for {entry.counted_unit}."
        if gpus_per_superchip((entry,)) > 1:
            yield (
                "Figures of a superchip are of 1 Grace and 2 GPUs, those of a rack of 72 GPUs, those of an HGX board of 8: "
                "normalise to one GPU."
            )
        if entry.status is Status.PRELIMINARY:
            yield f"The {entry.title} is preliminary: its vendor may still change what it says."


def _process(evidence: Evidence, claim: Claim) -> AuditedClaim:
    reasons: list[str] = []
    sources: list[str] = []
    for name in claim.of(Kind.PROCESS):
        process = evidence.catalogue.processes[name]
        sources += process.sources
        if process.customised_for:
            reasons.append(f"{process.title} is a custom process for {process.customised_for}: how it differs is unknown.")
        reasons += process.notes
        if process.node_name:
            reasons.append(f"{process.node_name} in its name is the name of a generation and no dimension.")
        for each in process.improvements:
            baseline = evidence.catalogue.processes[each.baseline].title
            value = f"{each.figure.printed_value:g}{' %' if each.figure.printed_unit == 'percent' else ''}"
            reasons.append(f"Published against {baseline}: {each.quantity.value.replace('_', ' ')} {value}.")
    return evidence.audited(claim, Verdict.UNKNOWN, reasons, to_add=_TO_ADD, sources=sources)
