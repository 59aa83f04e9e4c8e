"""Figures that matter, and what holds for every entry that ships."""

import math
from collections.abc import Iterator

import pytest

from service.catalogue.compute_capabilities import ComputeCapability
from service.catalogue.engines import Engine
from service.catalogue.entries import (
    Accelerator,
    Basis,
    Catalogue,
    Conflict,
    ConflictStatus,
    Figure,
    Model,
    NodeType,
    Sparsity,
    Status,
)
from service.catalogue.prices import PublishedPrices
from service.catalogue.processes import ExposureField, Process
from service.units import UNITS, in_base_units

Entry = Accelerator | NodeType | Model | Engine | PublishedPrices | ComputeCapability | Process | ExposureField


def figures(entry: Entry) -> Iterator[Figure]:
    for name in entry.__struct_fields__:
        value = getattr(entry, name)
        if isinstance(value, Figure):
            yield value
    if isinstance(entry, Accelerator):
        yield from (peak.figure for peak in entry.peaks)
        yield from (link.bandwidth_one_way for link in entry.links)
        yield from (link.domain for link in entry.links if link.domain)
        yield from (figure for conflict in entry.conflicts for figure in conflict.figures)
    if isinstance(entry, Engine):
        yield from (each.figure for each in entry.figures)
    if isinstance(entry, PublishedPrices):
        yield from (each.amount_per_hour for each in entry.prices)
    if isinstance(entry, ComputeCapability):
        yield from entry.shared_memory_carveouts
    if isinstance(entry, Process):
        yield from (each.figure for each in entry.improvements)
        yield from (figure for die in entry.dies for figure in (die.area, die.num_transistors))
    if isinstance(entry, Process | ExposureField):
        yield from (figure for conflict in entry.conflicts for figure in conflict.figures)


def every_entry(catalogue: Catalogue) -> list[Entry]:
    plain = (catalogue.accelerators, catalogue.node_types, catalogue.models, catalogue.engines, catalogue.prices)
    kinds = (*plain, catalogue.compute_capabilities, catalogue.processes, catalogue.exposure_fields)
    return [entry for entries in kinds for entry in entries.values()]


def dense(accelerator: Accelerator, precision: str) -> float:
    peak = accelerator.peak_dense(precision)
    assert peak is not None
    return peak.figure.value


def sparse(accelerator: Accelerator, precision: str) -> float:
    peak = accelerator.peak_sparse(precision)
    assert peak is not None
    return peak.figure.value


def bandwidth(accelerator: Accelerator) -> float:
    assert accelerator.memory_bandwidth is not None
    return accelerator.memory_bandwidth.value


def conflict(accelerator: Accelerator, field: str) -> Conflict:
    (found,) = (each for each in accelerator.conflicts if each.field == field)
    return found


def test_every_figure_is_sourced_and_in_base_units(catalogue: Catalogue) -> None:
    for entry in every_entry(catalogue):
        for figure in figures(entry):
            assert figure.sources
            assert set(figure.sources) <= catalogue.sources.keys(), entry.name
            assert in_base_units(figure.printed_value, figure.printed_unit) == figure.value
            assert UNITS[figure.printed_unit][0] == figure.unit
            assert math.isfinite(figure.value)
            assert figure.note or figure.basis is not Basis.DERIVED, entry.name


def test_every_source_is_named_by_something(catalogue: Catalogue) -> None:
    named = {source for entry in every_entry(catalogue) for figure in figures(entry) for source in figure.sources}
    for entry in every_entry(catalogue):
        named.update(entry.sources if isinstance(entry, NodeType | Model | Process) else ())
        named.update(*(each.sources for each in entry.behaviours) if isinstance(entry, Engine) else ())
    named.update(*(each.sources for each in catalogue.calibrations.values()))
    assert catalogue.sources.keys() == named


def test_what_a_conflict_chose_is_what_the_field_holds(catalogue: Catalogue) -> None:
    for accelerator in catalogue.accelerators.values():
        for each in accelerator.conflicts:
            assert "unattributed" not in (each.chosen.sources if each.chosen else ())
            if each.chosen is None:
                assert each.status is not ConflictStatus.RESOLVED
            else:
                assert each.chosen.value == held(accelerator, each.field), f"{accelerator.name} {each.field}"


def held(accelerator: Accelerator, field: str) -> float:
    kind, _, name = field.partition(".")
    if kind == "peaks":
        return dense(accelerator, name)
    if kind == "links":
        (link,) = (each for each in accelerator.links if each.name.lower().replace(" ", "_").startswith(name))
        return link.bandwidth_one_way.value
    figure = getattr(accelerator, field)
    assert isinstance(figure, Figure)
    return figure.value


def test_usable_memory_is_measured_and_below_what_is_marketed(catalogue: Catalogue) -> None:
    for accelerator in catalogue.accelerators.values():
        usable, marketed = accelerator.usable_memory, accelerator.marketed_memory
        if usable:
            assert usable.basis is Basis.MEASURED
            # "80 GB" is a product name: of a part with 80 GiB the driver reports more than 80e9 bytes.
            assert usable.value <= marketed.printed_value * 2**30, accelerator.name
        if accelerator.framework_visible_memory and usable:
            assert accelerator.framework_visible_memory.value <= usable.value, accelerator.name


def test_sparsity_never_slows_a_peak_and_wider_formats_are_never_faster(catalogue: Catalogue) -> None:
    for accelerator in catalogue.accelerators.values():
        for peak in accelerator.peaks:
            if peak.sparsity is Sparsity.STRUCTURED_2_4 and (other := accelerator.peak_dense(peak.precision)):
                assert 1.25 < peak.figure.value / other.figure.value < 2.03, f"{accelerator.name} {peak.precision}"
        for narrow, wide in (("fp4", "fp8"), ("fp8", "bf16"), ("bf16", "tf32"), ("tf32", "fp32")):
            fast, slow = accelerator.peak_dense(narrow), accelerator.peak_dense(wide)
            if fast and slow:
                assert fast.figure.value >= slow.figure.value, f"{accelerator.name} {narrow} {wide}"


def test_what_is_preliminary_says_so(catalogue: Catalogue) -> None:
    names = {each.name for each in catalogue.accelerators.values() if each.status is Status.PRELIMINARY}
    assert {"b100", "rubin", "rubin-cpx", "mi455x"} == names
    for name in names:
        bandwidth = catalogue.accelerators[name].memory_bandwidth
        assert bandwidth is None or bandwidth.basis is Basis.PRELIMINARY
        assert {Basis.PRELIMINARY, Basis.DERIVED} >= {peak.figure.basis for peak in catalogue.accelerators[name].peaks}


def test_h100_sxm(catalogue: Catalogue) -> None:
    h100 = catalogue.accelerators["h100-sxm"]
    assert pytest.approx(989.4e12) == dense(h100, "bf16")
    assert pytest.approx(1978.9e12) == sparse(h100, "bf16")
    assert pytest.approx(3.352e12) == bandwidth(h100)
    assert h100.usable_memory is not None
    assert 81559 * 2**20 == h100.usable_memory.value
    assert 80e9 == h100.marketed_memory.value
    assert (450e9, 8) == (h100.links[0].bandwidth_one_way.value, h100.links[0].num_devices_in_domain)
    assert (64e9, None) == (h100.links[1].bandwidth_one_way.value, h100.links[1].num_devices_in_domain)
    assert ("NVIDIA-H100-80GB-HBM3",) == h100.gpu_product_labels


def test_c1_the_h100_product_page_is_with_sparsity(catalogue: Catalogue) -> None:
    h100 = catalogue.accelerators["h100-sxm"]
    page = {figure.printed_value for figure in conflict(h100, "peaks.bf16").figures if figure.sources == ("h100_page",)}
    assert {1979} == page
    assert pytest.approx(1979e12, rel=1e-3) == sparse(h100, "bf16")
    assert pytest.approx(1979e12 / 2, rel=1e-3) == dense(h100, "bf16")


def test_c2_a_gb300_rack_is_4_to_3_at_fp4(catalogue: Catalogue) -> None:
    gb300, rack = catalogue.accelerators["gb300"], catalogue.node_types["gb300-nvl72"]
    assert pytest.approx(15e15) == dense(gb300, "fp4")
    assert pytest.approx(20e15) == sparse(gb300, "fp4")
    assert pytest.approx(1080e15) == rack.num_devices * dense(gb300, "fp4")
    assert pytest.approx(1440e15) == rack.num_devices * sparse(gb300, "fp4")


def test_c3_the_h100_with_3_9_terabytes_a_second_is_the_nvl(catalogue: Catalogue) -> None:
    nvl, sxm = catalogue.accelerators["h100-nvl"], catalogue.accelerators["h100-sxm"]
    assert (3.9e12, 94e9) == (bandwidth(nvl), nvl.marketed_memory.value)
    assert pytest.approx(3.35e12, rel=1e-3) == bandwidth(sxm)
    assert [(2, 300e9), (None, 64e9)] == [(link.num_devices_in_domain, link.bandwidth_one_way.value) for link in nvl.links]


def test_c4_a_gb200_counts_one_gpu_of_a_superchip(catalogue: Catalogue) -> None:
    gb200, tray = catalogue.accelerators["gb200"], catalogue.node_types["gcp-a4x-highgpu-4g"]
    assert "a superchip = 1 Grace + 2 GPUs" in gb200.counted_unit
    assert 372e9 / 2 == gb200.marketed_memory.value
    assert (4, 72) == (tray.num_devices, tray.num_devices_per_scale_up_domain)


def test_c5_the_preliminary_h100_is_kept_beside_the_final_one(catalogue: Catalogue) -> None:
    h100 = catalogue.accelerators["h100-sxm"]
    for field, value in (("peaks.bf16", 1e15), ("memory_bandwidth", 3e12)):
        told = conflict(h100, field)
        early = [figure for figure in told.figures if figure.basis is Basis.PRELIMINARY]
        assert [value] == [figure.value for figure in early]
        assert told.chosen is not None
        assert told.chosen not in early
        assert told.status is ConflictStatus.RESOLVED


def test_c6_both_bandwidths_of_rubin_are_shown(catalogue: Catalogue) -> None:
    told = conflict(catalogue.accelerators["rubin"], "memory_bandwidth")
    assert {22e12, 19.2e12} < {figure.value for figure in told.figures}
    assert told.status is ConflictStatus.OPEN


def test_c7_peak_grew_120_fold_and_bandwidth_9_fold(catalogue: Catalogue) -> None:
    v100, gb300 = catalogue.accelerators["v100-sxm2-32"], catalogue.accelerators["gb300"]
    assert pytest.approx(120) == dense(gb300, "fp4") / dense(v100, "fp16")
    assert pytest.approx(8.9, abs=0.05) == bandwidth(gb300) / bandwidth(v100)


def test_what_a_part_does_not_have_is_absent(catalogue: Catalogue) -> None:
    absent = [("v100-sxm2-16", "bf16"), ("a100-sxm-80", "fp8"), ("a100-sxm-80", "fp4"), ("a10g", "bf16"), ("gb10", "fp4")]
    for name, precision in absent:
        assert catalogue.accelerators[name].peak_dense(precision) is None
    assert () == catalogue.accelerators["mi455x"].links
    assert catalogue.accelerators["h200-nvl"].usable_memory is None
    assert catalogue.accelerators["rubin-cpx"].memory_bandwidth is None
    assert () == catalogue.accelerators["rubin-cpx"].peaks


def test_four_bit_peaks_name_their_format(catalogue: Catalogue) -> None:
    for accelerator in catalogue.accelerators.values():
        for peak in accelerator.peaks:
            if peak.precision == "fp4":
                assert peak.figure.note
                assert "FP4" in peak.figure.note


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("llama-3.1-70b", 70.6e9, None),
        ("mixtral-8x7b", 46.7e9, 12.9e9),
        ("deepseek-v3", 671e9, 37e9),
        ("gpt-oss-120b", 116.83e9, 5.13e9),
        ("kimi-k2.5", 1e12, 32e9),
    ],
)
def test_declared_parameters(catalogue: Catalogue, name: str, total: float, active: float | None) -> None:
    model = catalogue.models[name]
    assert pytest.approx(total) == model.declared_parameters.value
    declared = model.declared_active_parameters
    assert pytest.approx(active) == (declared.value if declared else None)


def test_a_mixture_of_experts_declares_what_is_active(catalogue: Catalogue) -> None:
    for model in catalogue.models.values():
        merged = {**model.hf_config, **text_config(model)}
        experts = any(value for key, value in merged.items() if "experts" in key)  # null where the family can have them
        declared = model.declared_active_parameters
        assert experts == (declared is not None), model.name
        assert declared is None or declared.value < model.declared_parameters.value


def text_config(model: Model) -> dict[str, object]:
    config = model.hf_config.get("text_config", {})
    assert isinstance(config, dict)
    return config


def test_nodes(catalogue: Catalogue) -> None:
    p5 = catalogue.node_types["aws-p5.48xlarge"]
    assert ("h100-sxm", 8, 192) == (p5.accelerator, p5.num_devices, p5.num_vcpus)
    assert p5.memory_bytes is not None
    assert 2 * 2**40 == p5.memory_bytes.value
    assert p5.network_bandwidth_one_way is not None
    assert 400e9 == p5.network_bandwidth_one_way.value
    for node_type in catalogue.node_types.values():
        assert node_type.accelerator in catalogue.accelerators
        domain = node_type.num_devices_per_scale_up_domain
        assert domain is None or domain > node_type.num_devices
