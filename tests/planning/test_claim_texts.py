"""Whatever the text, a claim gets a verdict and a reason, in a time that grows with its length and no faster."""

import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.catalogue.entries import Catalogue
from service.catalogue.loader import load
from service.planning.claims.amounts import amounts
from service.planning.claims.audit import audit_claim
from service.planning.claims.names import like_products, names_of
from service.planning.claims.reading import MAX_CLAIMS
from service.planning.claims.requests import AuditClaimRequest, ClaimFields, Quantity
from service.planning.claims.results import AuditClaimResponse, Verdict
from service.planning.claims.shown import shown
from service.planning.errors import InvalidRequest, PlanningError, TooLarge

PIECES = (
    *(
        "H100",
        "h100 sxm",
        "H100-SXM5-80GB",
        "GB200 NVL72",
        "GB300",
        "HGX B200",
        "DGX H100",
        "MI300X",
        "Rubin",
        "V100",
        "H101",
        "TPU v5e",
    ),
    *("N4P", "N5", "N2P", "4N", "7 nm", "GH100", "reticle", "A100 80GB", "RTX 4090 Ti", "superchip", "p5.48xlarge"),
    *(
        "1,979 TFLOPS",
        "1.979 TFLOPS",
        "3.9 TB/s",
        "80 GB",
        "80GiB",
        "1.4 EFLOPS",
        "700W",
        "+11 %",
        "-30%",
        "×120",
        "8x",
        "8 GPUs",
    ),
    *("858 mm²", "1,2,3 GB", "0 GB", "0,0 TB/s", "999999999999999 EFLOPS", "00.1 W", "1e9 GB", "٣ GB", "900 gb/s", "10-15%"),
    *(
        "BF16",
        "FP4",
        "NVFP4",
        "INT8",
        "with sparsity",
        "dense",
        "per GPU",
        "bidirectional",
        "NVLink",
        "faster",
        "less power",
        "up to",
    ),
    *(
        "vs",
        "than",
        "→",
        "and",
        "or",
        ",",
        ";",
        ".",
        "\n",
        ":",
        "(",
        ")",
        "-",
        "/",
        "İ",
        "ß",
        "\x00",
        "\u202f",
        "💥",
        "over",
        "from",
    ),
)
TEXTS = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(PIECES), max_size=24).map(" ".join),
    st.lists(st.sampled_from(PIECES), max_size=24).map("".join),
)


@lru_cache
def shipped() -> Catalogue:
    """The catalogue that ships; no fixture, whose whole content a failing example would print."""
    return load(Path(__file__).resolve().parents[2] / "specs")


def audited(catalogue: Catalogue, text: str) -> AuditClaimResponse | None:
    """The answer; None where the text is refused for a reason of its own."""
    try:
        return audit_claim(catalogue, AuditClaimRequest(text=text))
    except PlanningError:
        return None


@settings(max_examples=400, deadline=2000)
@given(text=TEXTS)
def test_any_text_gets_a_verdict_with_its_reasons(text: str) -> None:
    answer = audited(shipped(), text)
    for claim in answer.claims if answer else ():
        assert claim.reasons
        assert all(reason.strip() for reason in claim.reasons)
        if claim.verdict in {Verdict.MATCHES, Verdict.CONTRADICTED}:
            assert claim.reading.value is not None or claim.reading.quantity is Quantity.MADE_IN
            assert claim.sources
        if claim.verdict is Verdict.MATCHES and claim.reading.value is not None:
            assert claim.matches
        if claim.verdict is Verdict.UNKNOWN and not claim.reading.names:
            assert claim.to_add


@settings(max_examples=300, deadline=2000)
@given(
    fields=st.builds(
        ClaimFields,
        subject=st.one_of(st.sampled_from(PIECES), st.text(min_size=1, max_size=30)),
        value=st.none() | st.floats(-1e30, 1e30, allow_nan=False),
        unit=st.sampled_from(
            ("TFLOPS", "TB/s", "GB", "GiB", "%", "x", "nm", "mm2", "W", "GPUs", "SMs", "MHz", "billion transistors", "", "?")
        ),
        quantity=st.none() | st.sampled_from(list(Quantity)),
        precision=st.sampled_from(("", "bf16", "nvfp4", "fp64", "?")),
        sparsity=st.sampled_from(("", "dense", "sparse", "?")),
        num_devices=st.none() | st.integers(1, 100_000),
        baseline=st.sampled_from(("", "N5", "V100", "?")),
        direction=st.sampled_from(("", "one_way", "both_ways")),
    )
)
def test_any_fields_get_a_verdict_or_a_reason(fields: ClaimFields) -> None:
    try:
        answer = audit_claim(shipped(), AuditClaimRequest(claims=(fields,)))
    except InvalidRequest as refusal:
        told = [violation.reason for violation in refusal.violations]
    else:
        told = list(answer.claims[0].reasons)
    assert told
    assert all(told)


def pathological(length: int) -> Iterator[str]:
    for piece in (
        "1,",
        "1 111",
        "9",
        "x",
        " ",
        "1 ",
        "over ",
        "a-",
        "a1-",
        "H100 ",
        "H100-",
        "vs ",
        "fp",
        "8x",
        "GB",
        "mm",
        "(",
        "2:4 ",
        "- ",
    ):
        yield (piece * length)[:length]
    yield "H100: 3.35 TB/s " + "and " * (length // 4)
    yield ("H100 8 GPUs " * length)[:length]
    yield "H100 " * (length // 10) + "8x " * (length // 6)


@pytest.mark.parametrize("text", list(pathological(20_000)), ids=lambda text: text[:8])
def test_a_text_of_the_longest_kind_is_read_at_once(text: str, catalogue: Catalogue) -> None:
    started = time.perf_counter()
    audited(catalogue, text)
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize("text", ["1,", "1 111", "H100 ", "a1-", "x"])
def test_the_time_to_read_grows_with_the_length(text: str, catalogue: Catalogue) -> None:
    def seconds(length: int) -> float:
        repeated = (text * length)[:length]
        started = time.perf_counter()
        (
            sum(1 for _ in amounts(repeated)),
            sum(1 for _ in like_products(repeated)),
            sum(1 for _ in names_of(catalogue).mentions(repeated)),
        )
        return time.perf_counter() - started

    short, long = min(seconds(50_000) for _ in range(3)), seconds(400_000)
    assert long < 40 * short + 0.5  # eight times the length; quadratic would be 64 times the time


def test_more_claims_than_a_request_may_hold_are_refused(catalogue: Catalogue) -> None:
    with pytest.raises(TooLarge, match=str(MAX_CLAIMS)):
        audit_claim(catalogue, AuditClaimRequest(text="H100: 80 GB\n" * (MAX_CLAIMS + 1)))


def test_every_figure_of_the_catalogue_holds_as_it_is_printed(catalogue: Catalogue) -> None:
    """A claim that says exactly what the catalogue holds is never contradicted."""
    for entry in catalogue.accelerators.values():
        for peak in entry.peaks:
            sparse = " with sparsity" if peak.sparsity.value != "dense" else " dense"
            text = f"{peak.figure.printed_value:g} {peak.figure.printed_unit} {peak.precision.replace('_', ' ')}{sparse}"
            fields = ClaimFields(
                entry.name,
                peak.figure.value / 1e12,
                "TFLOPS",
                precision=peak.precision,
                sparsity=peak.sparsity.value,
            )
            claim = audit_claim(catalogue, AuditClaimRequest(claims=(fields,))).claims[0]
            assert claim.verdict in {Verdict.MATCHES, Verdict.CONFLICTING_SOURCES}, f"{entry.name}: {text}: {claim.reasons}"
        if entry.memory_bandwidth:
            fields = ClaimFields(entry.name, entry.memory_bandwidth.printed_value, entry.memory_bandwidth.printed_unit)
            claim = audit_claim(catalogue, AuditClaimRequest(claims=(fields,))).claims[0]
            assert claim.verdict in {Verdict.MATCHES, Verdict.CONFLICTING_SOURCES}, claim.reasons


def test_every_name_of_the_catalogue_is_read(catalogue: Catalogue) -> None:
    for spelling, name in catalogue.accelerator_names.items():
        claim = audit_claim(catalogue, AuditClaimRequest(claims=(ClaimFields(spelling),))).claims[0]
        assert (name,) == claim.reading.names
    for name in (*catalogue.processes, *catalogue.node_types):
        assert audit_claim(catalogue, AuditClaimRequest(claims=(ClaimFields(name),))).claims[0].reading.names == (name,)


def test_a_figure_is_shown_with_a_prefix() -> None:
    assert ["26 mm", "7 nm", "80 billion transistors", "700 W"] == [
        shown(26e6, "nm"), shown(7, "nm"), shown(80e9, "transistors"), shown(700, "W")
    ]  # fmt: skip
