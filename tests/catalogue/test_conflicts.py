"""Where sources were found to disagree: each case stands in the catalogue, resolved with its reason or shown as open.

A case is kept where a reader meets it: as a conflict of the field, or as a note of the entry or of the figure where it is
about something that the catalogue does not hold as a field.
"""

from collections.abc import Mapping

import pytest

from service.catalogue.entries import Accelerator, Catalogue, Conflict, ConflictStatus
from service.catalogue.processes import ExposureField, Process

Entry = Accelerator | Process | ExposureField
R, OPEN, U = ConflictStatus.RESOLVED, ConflictStatus.OPEN, ConflictStatus.UNVERIFIED

#: entry, field, how far it is settled
OF_A_FIELD = [
    *[
        ("h100-sxm", f, R)
        for f in ("peaks.bf16", "peaks.fp8", "peaks.fp32", "memory_bandwidth", "boost_clock", "usable_memory")
    ],
    *[("h100-pcie", "peaks.bf16", R), ("h100-pcie", "boost_clock", R), ("h100-nvl", "marketed_memory", R)],
    *[("h200-nvl", "memory_bandwidth", OPEN), ("h200-nvl", "peaks.bf16", R)],
    *[("h200-sxm", f, R) for f in ("memory_bandwidth", "usable_memory", "links.nvlink")],
    *[("gh200-144", "marketed_memory", R), ("gh200-144", "memory_bandwidth", R)],
    *[("h20", "peaks.bf16", U), ("h20", "max_power", U), ("h800", "peaks.fp64", U)],
    *[("a100-pcie-80", "l2_cache", R), ("a100-sxm-40", "usable_memory", R), ("a100-pcie-40", "usable_memory", R)],
    *[("v100-sxm2-16", "max_power", R), ("v100-sxm2-16", "memory_bandwidth", R), ("t4", "memory_bandwidth", R)],
    *[("a10g", f, U) for f in ("peaks.bf16", "max_power", "num_compute_units")],
    *[("a10g", "usable_memory", R), ("a30", "usable_memory", U)],
    *[(name, "peaks.bf16", R) for name in ("rtx-a6000", "rtx-3090", "rtx-4090", "l40s", "mi355x", "trainium1")],
    *[(name, "peaks.fp16", R) for name in ("rtx-3090", "rtx-4090", "rtx-5090")],
    *[("l4", "num_compute_units", R), ("l4", "usable_memory", R)],
    *[("l40s", f, R) for f in ("l2_cache", "boost_clock", "usable_memory")],
    *[("rtx-pro-6000-ws", "peaks.bf16", R), ("rtx-pro-6000-server", "l2_cache", U)],
    *[("b200", f, R) for f in ("marketed_memory", "usable_memory", "l2_cache", "peaks.tf32", "peaks.fp32", "peaks.fp64")],
    *[("b200", "memory_bandwidth", OPEN), ("b200", "links.pcie", OPEN)],
    *[("gb200", f, R) for f in ("marketed_memory", "usable_memory", "peaks.fp64", "links.nvlink")],
    *[("b300", f, OPEN) for f in ("marketed_memory", "memory_bandwidth", "peaks.fp4", "peaks.int8", "max_power")],
    *[("b300", "peaks.fp64", R), ("b300", "usable_memory", R)],
    *[("gb300", f, R) for f in ("peaks.fp4", "peaks.int8", "peaks.fp64", "links.nvlink", "usable_memory")],
    *[("gb300", "marketed_memory", OPEN), ("gb300", "links.pcie", OPEN), ("thor-t5000", "peaks", U)],
    *[("rubin", f, OPEN) for f in ("memory_bandwidth", "links.nvlink", "peaks.fp4", "peaks.fp8")],
    *[("rubin", "num_compute_units", U), ("mi325x", "marketed_memory", R)],
    *[("mi300a", "num_compute_units", R), ("mi300a", "marketed_memory", R)],
    *[("mi300x", "links.infinity_fabric", R), ("mi300x", "peaks.fp8", R), ("mi355x", "peaks.fp4", OPEN)],
    *[("mi455x", "peaks.fp8", U), ("mi455x", "peaks.fp4", U), ("mi455x", "memory_bandwidth", OPEN), ("mi210", "l2_cache", R)],
    *[("gaudi3", "peaks.bf16", OPEN), ("gaudi2", "memory_bandwidth", R), ("max1550", "peaks.bf16", U)],
    *[("tpu-v6e", "memory_bandwidth", OPEN), ("tpu-v6e", "links.ici", OPEN), ("tpu7x", "memory_bandwidth", OPEN)],
    *[("tpu-v5e", "memory_bandwidth", R), ("tpu-v5e", "peaks.int8", R), ("trainium1", "memory_bandwidth", R)],
    *[("gaudi3", "peaks.fp8", OPEN), ("rtx-4090", "peaks.fp8", R), ("rtx-5090", "peaks.fp8", R)],
    *[("t4", "usable_memory", R), ("v100-sxm2-16", "usable_memory", R), ("rtx-pro-6000-server", "usable_memory", R)],
    *[("rtx-pro-6000-ws", "l2_cache", U)],
    *[("trainium3", "links.neuronlink", OPEN)],
    *[("n2", "improvements.mixed_density.n3e", R), ("n2p", "improvements.speed.n3e", R), ("n2p", "improvements.power.n3e", R)],
    *[("n5", "improvements.logic_density.n7", R), ("n3e", "improvements.power.n5", OPEN), ("full-field", "area", R)],
]

#: entry, what its notes say
IN_A_NOTE = [
    ("h100-sxm", "NVIDIA-H100-SXM5-80GB"),
    ("a100-sxm-40", "HBM2e"),
    ("l4", "compute capability 10.0"),
    ("b300", "compute capability 10.0"),
    ("rubin", "NVL144"),
    ("trainium2", "collective cores"),
    ("n5p", "not to be mixed"),
    ("gb200-nvl72", "125"),
    ("gb300-nvl72", "155"),
    ("dgx-b300", "14.5"),
    ("aws-p6e-gb200.36xlarge", "36 GPUs"),
    ("gcp-a3-ultragpu-8g", "2,944"),
    ("azure-standard_nd128isr_ndr_gb200_v6", "swapped"),
]


def entry(catalogue: Catalogue, name: str) -> Entry:
    kinds: tuple[Mapping[str, Entry], ...] = (catalogue.accelerators, catalogue.processes, catalogue.exposure_fields)
    return next(entries[name] for entries in kinds if name in entries)


@pytest.mark.parametrize(("name", "field", "status"), OF_A_FIELD, ids=lambda each: str(each))
def test_a_disagreement_about_a_field_is_kept_with_its_reason(
    name: str, field: str, status: ConflictStatus, catalogue: Catalogue
) -> None:
    found: list[Conflict] = [each for each in entry(catalogue, name).conflicts if each.field == field]
    assert 1 == len(found)
    assert status is found[0].status
    assert found[0].reason
    assert len({each.value for each in found[0].figures}) > 1 or len({each.note for each in found[0].figures}) > 1


@pytest.mark.parametrize(("name", "words"), IN_A_NOTE)
def test_a_disagreement_about_something_else_is_told_in_a_note(name: str, words: str, catalogue: Catalogue) -> None:
    if name in catalogue.node_types:
        node = catalogue.node_types[name]
        told = [*node.notes, node.max_power.note if node.max_power and node.max_power.note else ""]
    else:
        told = list(entry(catalogue, name).notes)
    assert words in " ".join(told)


def test_limits_that_sources_count_otherwise_are_told_with_the_limit(catalogue: Catalogue) -> None:
    registers = catalogue.compute_capabilities["9.0"].max_registers_per_thread
    assert 255 == registers.value
    assert "256" in (registers.note or "")


def test_prices_that_moved_are_kept_with_their_dates(catalogue: Catalogue) -> None:
    dates = {each.date for name, each in catalogue.prices.items() if name.startswith("lambda")}
    assert len(dates) > 1


def test_every_conflict_that_ships_is_listed_here(catalogue: Catalogue) -> None:
    entries: list[Entry] = [
        *catalogue.accelerators.values(),
        *catalogue.processes.values(),
        *catalogue.exposure_fields.values(),
    ]
    shipped = {(each.name, conflict.field) for each in entries for conflict in each.conflicts}
    twins = {
        "v100-sxm2-32": "v100-sxm2-16",
        "rtx-pro-6000-server": "rtx-pro-6000-ws",
        "rtx-pro-6000-maxq": "rtx-pro-6000-server",
    }
    listed = {(name, field) for name, field, _ in OF_A_FIELD}
    alike = {
        (name, field) for name, twin in twins.items() for _, field in listed | shipped if (twin, field) in listed | shipped
    }
    assert shipped - alike - listed == set()
