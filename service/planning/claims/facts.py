"""The verdict on figures that stand in the catalogue as they are: of node types, dies and the exposure field."""

from collections.abc import Iterator

from msgspec import Struct

from service.catalogue.entries import Basis, Catalogue, Conflict, ConflictStatus, Figure
from service.planning.claims.candidates import gpus_per_superchip, subjects
from service.planning.claims.claim import Claim, Kind
from service.planning.claims.evidence import Evidence, deviation, equals
from service.planning.claims.requests import Quantity
from service.planning.claims.results import AuditedClaim, ClaimMatch, Verdict
from service.planning.claims.shown import shown

_LENGTH_NAME = (
    "A node's name is the name of a process generation and no dimension: most critical features of a transistor that is called "
    "7 nm are much larger than 7 nm."
)
_LMC = (
    "LMC is proposed instead: logic transistors, memory cells and connections between them, each per area. Compare measured "
    "performance, power and cost of the same work."
)
_NODE_NAME_SOURCE = "spectrum_2020"


class Fact(Struct, frozen=True):
    """A figure with what it is of. ``value`` and ``unit`` are as claims count; ``sources`` are ids."""

    name: str
    title: str
    path: str
    what: str
    value: float
    unit: str
    basis: str
    sources: tuple[str, ...]
    conflicts: tuple[Conflict, ...] = ()
    figure: Figure | None = None
    difference: str = ""


def facts_of(catalogue: Catalogue, claim: Claim) -> Iterator[Fact]:
    """The plain figures that the claim could mean."""
    match claim.quantity:
        case Quantity.POWER | Quantity.NETWORK_BANDWIDTH | Quantity.DEVICES:
            yield from _of_systems(catalogue, claim)
        case Quantity.AREA | Quantity.TRANSISTORS | Quantity.SHARE_OF_EXPOSURE_FIELD | Quantity.LENGTH:
            yield from _of_dies(catalogue, claim)
            yield from _of_exposure_fields(catalogue, claim)


def judge_fact(evidence: Evidence, claim: Claim, facts: list[Fact]) -> AuditedClaim:
    """Holds a claim against plain figures."""
    amount = claim.amount
    assert amount is not None
    found = [(each, remark) for each in facts for same, remark in [equals(amount, each.value)] if same]
    first, remark = found[0] if found else (facts[0], "")
    like = None
    if first.figure is not None:
        like = evidence.like(first.figure, first.value, _base(first.unit), shown(first.value, first.unit), first.what)
    conflicted = [each for each in first.conflicts for figure in each.figures if equals(amount, figure.value)[0]]
    if not found:
        reasons = [
            f"The {each.what} of {each.title} is {shown(each.value, each.unit)}: the claim is "
            f"{deviation(amount.values[0].value, each.value)}, beyond its rounding."
            for each in facts[:3]
        ]
        verdict = Verdict.CONTRADICTED
        if conflicted:
            verdict = Verdict.MATCHES_ANOTHER_BASIS
            reasons.append(f"A source prints it, and the catalogue does not use it: {conflicted[0].reason}")
        return evidence.audited(claim, verdict, reasons, like=like, sources=first.sources)
    reasons = [f"{remark}."] if remark else []
    value = shown(first.value, first.unit)
    exact = "" if value == amount.printed else f" ({value})"
    reasons.append(f"{amount.printed} is the {first.what} of {first.title}{exact}.")
    verdict = Verdict.MATCHES
    if first.difference:
        verdict = Verdict.MATCHES_ANOTHER_BASIS
        reasons.append(first.difference)
    elif any(each.status is not ConflictStatus.RESOLVED for each in conflicted):
        verdict = Verdict.CONFLICTING_SOURCES
    if first.figure is not None and first.figure.note:
        reasons.append(f"Note: {first.figure.note}.")
    matches = [_match(evidence, each) for each, _ in found[:8]]
    return evidence.audited(claim, verdict, reasons, matches=matches, like=like, sources=first.sources)


def _match(evidence: Evidence, fact: Fact) -> ClaimMatch:
    ratio = fact.unit == "ratio" or fact.unit == "%"
    return ClaimMatch(
        name=fact.name,
        title=fact.title,
        figure=fact.path,
        value=fact.value / 100 if fact.unit == "%" else fact.value,
        unit="1" if ratio else _base(fact.unit),
        printed=shown(fact.value, fact.unit),
        basis=fact.basis,
        sparsity="",
        precision="",
        counted_unit=fact.what,
        num_devices=1,
        baseline="",
        status="final",
        differences=(fact.difference,) if fact.difference else (),
        sources=evidence.sources(fact.sources),
    )


def _base(unit: str) -> str:
    return "1" if unit in {"devices", "units", "transistors", "%", "x", "ratio"} else unit


# -- systems ----------------------------------------------------------------------------------------------------------


def _of_systems(catalogue: Catalogue, claim: Claim) -> Iterator[Fact]:
    for name in claim.of(Kind.NODE_TYPE):
        node = catalogue.node_types[name]
        if claim.quantity is Quantity.POWER and node.max_power and not claim.per_device:
            figure = node.max_power
            yield Fact(
                name, node.title, "max_power", "power at most", figure.value, "W", figure.basis, figure.sources, (), figure
            )
        if claim.quantity is Quantity.NETWORK_BANDWIDTH and node.network_bandwidth_one_way:
            figure = node.network_bandwidth_one_way
            what, path = "network bandwidth, one way, of the whole node", "network_bandwidth_one_way"
            yield Fact(name, node.title, path, what, figure.value, "B/s", figure.basis, figure.sources, (), figure)
            both = "It counts both directions together."
            yield Fact(name, node.title, path, what, 2 * figure.value, "B/s", figure.basis, figure.sources, (), figure, both)
        if claim.quantity is Quantity.DEVICES:
            what = "number of accelerators"
            yield Fact(name, node.title, "num_devices", what, node.num_devices, "devices", Basis.DATASHEET, node.sources)
    if claim.quantity is Quantity.DEVICES and claim.of(Kind.ACCELERATOR):
        for entry in subjects(catalogue, claim):
            number = gpus_per_superchip((entry,)) if claim.per_superchip else 1
            what = "number of GPUs of one superchip" if claim.per_superchip else "number of accelerators counted as one"
            sources = entry.marketed_memory.sources
            yield Fact(entry.name, entry.title, "counted_unit", what, number, "devices", Basis.DATASHEET, sources)


# -- dies and the field they are exposed in ---------------------------------------------------------------------------


def _of_dies(catalogue: Catalogue, claim: Claim) -> Iterator[Fact]:
    wanted = set(claim.of(Kind.DIE))
    architectures = _words_of_architectures(catalogue, claim)
    field = next(iter(catalogue.exposure_fields.values()), None)
    for process in catalogue.processes.values():
        for die in process.dies:
            if die.name not in wanted | architectures:
                continue
            title = f"the die {die.name.upper()} ({process.title})"
            if claim.quantity is Quantity.AREA:
                area = die.area
                yield Fact(die.name, title, "dies.area", "area", area.value, "mm2", area.basis, area.sources, (), area)
            if claim.quantity is Quantity.TRANSISTORS:
                count = die.num_transistors
                what = "number of transistors"
                yield Fact(
                    die.name,
                    title,
                    "dies.num_transistors",
                    what,
                    count.value,
                    "transistors",
                    count.basis,
                    count.sources,
                    (),
                    count,
                )
            if claim.quantity is Quantity.SHARE_OF_EXPOSURE_FIELD and field:
                share = die.area.value / field.area.value * 100
                what = (
                    f"share of the {field.width.value:g} × {field.height.value:g} mm exposure field ({field.area.value:g} mm²)"
                )
                sources = (*die.area.sources, *field.area.sources)
                yield Fact(die.name, title, "dies.share_of_exposure_field", what, share, "%", Basis.DERIVED, sources)


def _words_of_architectures(catalogue: Catalogue, claim: Claim) -> set[str]:
    """The words of the subject's architectures, of which one can be a die: "Hopper GH100"."""
    return {word.casefold() for each in subjects(catalogue, claim) for word in each.architecture.split()}


def _of_exposure_fields(catalogue: Catalogue, claim: Claim) -> Iterator[Fact]:
    for name in claim.of(Kind.EXPOSURE_FIELD):
        field = catalogue.exposure_fields[name]
        title = f"the {field.title[0].lower()}{field.title[1:]}"
        sides = f"{field.width.value:g} mm × {field.height.value:g} mm"
        if claim.quantity is Quantity.AREA:
            figure = field.area
            what = f"area, {sides}, which caps a single die,"
            yield Fact(name, title, "area", what, figure.value, "mm2", figure.basis, figure.sources, field.conflicts, figure)
        if claim.quantity is Quantity.LENGTH:
            for path, figure in (("width", field.width), ("height", field.height)):
                yield Fact(name, title, path, path, figure.value * 1e6, "nm", figure.basis, figure.sources)


def judge_node_name(evidence: Evidence, claim: Claim) -> AuditedClaim:
    """A length in the name of a process: a name, and no dimension."""
    process = evidence.catalogue.processes[claim.of(Kind.PROCESS)[0]] if claim.of(Kind.PROCESS) else None
    if process is None or process.node_name is None:
        reasons = [_LENGTH_NAME, "The catalogue holds no length of it."]
        return evidence.audited(claim, Verdict.UNKNOWN, reasons, sources=(_NODE_NAME_SOURCE,))
    assert claim.amount is not None
    named = float(process.node_name.partition(" ")[0])
    if not equals(claim.amount, named)[0]:
        reasons = [f"{process.title} is called {process.node_name}. {_LENGTH_NAME}"]
        return evidence.audited(claim, Verdict.CONTRADICTED, reasons, sources=(*process.sources, _NODE_NAME_SOURCE))
    if claim.is_dimension:
        reasons = [_LENGTH_NAME, _LMC]
        return evidence.audited(claim, Verdict.CONTRADICTED, reasons, sources=(*process.sources, _NODE_NAME_SOURCE))
    reasons = [f"{claim.amount.printed} is in the name of {process.title} and its kind. {_LENGTH_NAME}", _LMC]
    return evidence.audited(claim, Verdict.MATCHES_ANOTHER_BASIS, reasons, sources=(*process.sources, _NODE_NAME_SOURCE))


def judge_made_in(evidence: Evidence, claim: Claim) -> AuditedClaim:
    """The process of a die, against the one that is claimed. The baselines of the claim are what it names."""
    catalogue = evidence.catalogue
    wanted = {*claim.of(Kind.DIE), *_words_of_architectures(catalogue, claim)}
    found = [(process, die) for process in catalogue.processes.values() for die in process.dies if die.name in wanted]
    claimed = [catalogue.processes[name.name] for name in claim.baselines if name.kind is Kind.PROCESS]
    if not found or not claimed:
        reasons = [f"The catalogue does not say in which process {claim.subject} is made."]
        return evidence.audited(claim, Verdict.UNKNOWN, reasons, to_add=("the die, or a source for its process",))
    process, die = found[0]
    sources = (*die.area.sources, *process.sources)
    reasons = [f"{die.name.upper()} is made in {process.title}."]
    if process in claimed:
        return evidence.audited(claim, Verdict.MATCHES, [*reasons, *process.notes], sources=sources)
    reasons.append(f"{claimed[0].title} is another process.")
    return evidence.audited(claim, Verdict.CONTRADICTED, [*reasons, *process.notes], sources=sources)
