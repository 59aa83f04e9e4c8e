"""Occupancy: NVIDIA's own calculator row by row, what compilers print, monotonicity, launches that are refused, clusters."""

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from service.catalogue.loader import load
from service.formulas import REGISTRY
from service.planning.errors import InvalidRequest, NotFound, TooLarge
from service.planning.kernels.kernel_occupancy import MAX_KERNELS
from service.planning.kernels.requests import ComputeOccupancyRequest
from service.planning.kernels.results import KernelOccupancy, LimitingFactor
from service.planning.planner import Planner
from service.settings import specs_dir

ROWS = list(csv.DictReader((Path(__file__).parents[1] / "data" / "occupancy_vectors.csv").read_text("utf-8").splitlines()))
BITS = {"WARPS": 1, "REGISTERS": 2, "SHARED_MEMORY": 4, "BLOCKS": 8, "BARRIERS": 16}
PLANNER = Planner(load(specs_dir()))
CAPABILITIES = sorted(PLANNER.catalogue.compute_capabilities)
HOPPER = ComputeOccupancyRequest(threads_per_block=256, compute_capability="9.0", registers_per_thread=32)

PTXAS = """\
ptxas info    : 0 bytes gmem, 24 bytes cmem[4]
ptxas info    : Function properties for helper
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function '_Z4gemmPKfS0_Pf' for 'sm_90'
ptxas info    : Function properties for _Z4gemmPKfS0_Pf
    0 bytes stack frame, 16 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers, 49152 bytes smem, 376 bytes cmem[0]
ptxas info    : Compile time = 12.345 ms
ptxas info    : Compiling entry function '_Z4copyPf' for 'sm_80'
ptxas info    : Function properties for _Z4copyPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, 16+8 bytes smem, 360 bytes cmem[0]
"""


def kernel(request: ComputeOccupancyRequest) -> KernelOccupancy:
    (found,) = PLANNER.compute_occupancy(request).kernels
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(list(row.values())[:4]))
def test_every_row_of_nvidias_calculator(row: dict[str, str]) -> None:
    found = kernel(
        ComputeOccupancyRequest(
            compute_capability=row["compute_capability"],
            threads_per_block=int(row["threads_per_block"]),
            registers_per_thread=int(row["registers_per_thread"]),
            shared_memory_bytes_per_block=int(row["shared_memory_bytes"]),
        )
    )
    expected = [int(row[name]) for name in ("active_blocks", "active_warps", "limit_warps", "limit_registers", "limit_blocks")]
    terms = (found.max_blocks_by_warps, found.max_blocks_by_registers, found.max_blocks_per_sm)
    assert expected == [found.active_blocks_per_sm, found.active_warps_per_sm, *terms]
    # The calculator writes −1 where shared memory is no limit.
    shared = -1 if found.max_blocks_by_shared_memory is None else found.max_blocks_by_shared_memory
    assert int(row["limit_shared_memory"]) == shared
    assert int(row["limiting_factors"]) == sum(BITS[factor] for factor in found.limiting_factors)


def test_the_rows_are_of_every_compute_capability() -> None:
    assert set(CAPABILITIES) == {row["compute_capability"] for row in ROWS}


# -- monotonicity -----------------------------------------------------------------------------------------------------

LAUNCHES = st.builds(
    ComputeOccupancyRequest,
    compute_capability=st.sampled_from(CAPABILITIES),
    threads_per_block=st.integers(1, 1100),
    registers_per_thread=st.integers(1, 260),
    shared_memory_bytes_per_block=st.integers(0, 240_000),
    barriers_per_block=st.one_of(st.none(), st.integers(0, 18)),
)


@given(
    LAUNCHES,
    st.sampled_from(["threads_per_block", "registers_per_thread", "shared_memory_bytes_per_block"]),
    st.integers(1, 400),
)
def test_who_takes_more_never_gets_more_blocks(launch: ComputeOccupancyRequest, field: str, more: int) -> None:
    greedier = replace(launch, **{field: getattr(launch, field) + more})
    assert kernel(greedier).active_blocks_per_sm <= kernel(launch).active_blocks_per_sm


@given(LAUNCHES)
def test_what_is_held_fits_and_no_limit_is_beaten(launch: ComputeOccupancyRequest) -> None:
    found = kernel(launch)
    limits = [found.max_blocks_by_warps, found.max_blocks_by_registers, found.max_blocks_per_sm]
    limits += [each for each in (found.max_blocks_by_shared_memory, found.max_blocks_by_barriers) if each is not None]
    assert 0 <= found.active_warps_per_sm <= found.max_warps_per_sm
    if found.obstacles:
        assert found.active_blocks_per_sm == 0
    else:
        assert found.active_blocks_per_sm == min(limits) > 0
        assert found.limiting_factors


@given(LAUNCHES)
def test_every_step_holds_what_it_promises_and_a_little_more_would_not(launch: ComputeOccupancyRequest) -> None:
    before = kernel(launch)
    for step in before.next_steps:
        changed = {
            name: value
            for name in ("threads_per_block", "registers_per_thread", "shared_memory_bytes_per_block")
            if (value := getattr(step, name)) is not None
        }
        after = kernel(replace(launch, **changed))
        assert after.active_warps_per_sm == step.active_warps_per_sm > before.active_warps_per_sm
        if len(changed) == 1 and "threads_per_block" not in changed:
            ((name, value),) = changed.items()
            if value + 1 <= getattr(launch, name):
                little_more = kernel(replace(launch, **{name: value + 1}))
                assert little_more.active_warps_per_sm <= before.active_warps_per_sm


# -- what compilers print ---------------------------------------------------------------------------------------------


def test_each_kernel_of_a_text_is_answered_for_at_its_own_architecture() -> None:
    answer = PLANNER.compute_occupancy(ComputeOccupancyRequest(threads_per_block=256, resource_usage_text=PTXAS))
    gemm, copy = answer.kernels
    assert (gemm.name, gemm.compute_capability, gemm.registers_per_thread) == ("_Z4gemmPKfS0_Pf", "9.0", 80)
    assert (gemm.shared_memory_bytes_per_block, gemm.barriers_per_block) == (49152, 1)
    assert "16 bytes stored, 12 loaded" in gemm.notes[0]
    assert (copy.name, copy.compute_capability, copy.registers_per_thread) == ("_Z4copyPf", "8.0", 12)
    assert (copy.shared_memory_bytes_per_block, copy.barriers_per_block, copy.notes) == (24, None, ())
    # What is said for the whole is said of the lowest.
    assert answer.occupancy_ratio == gemm.occupancy_ratio == 0.375 < copy.occupancy_ratio


def test_a_capability_picks_its_kernels_and_dynamic_memory_is_added() -> None:
    request = ComputeOccupancyRequest(
        threads_per_block=256, compute_capability="sm_80", resource_usage_text=PTXAS, shared_memory_bytes_per_block=1000
    )
    answer = PLANNER.compute_occupancy(request)
    assert [(each.name, each.shared_memory_bytes_per_block) for each in answer.kernels] == [("_Z4copyPf", 1024)]
    assert "1 kernels compiled for other targets left out" in answer.assumptions


def test_a_capability_that_nothing_was_compiled_for_is_answered_with_a_warning() -> None:
    request = ComputeOccupancyRequest(threads_per_block=256, compute_capability="8.6", resource_usage_text=PTXAS)
    answer = PLANNER.compute_occupancy(request)
    assert {each.compute_capability for each in answer.kernels} == {"8.6"}
    assert any("as compiled for sm_80, sm_90" in each for each in answer.assumptions)


def test_a_bare_line_needs_the_capability() -> None:
    line = "ptxas info    : Used 40 registers, 8 bytes smem, 352 bytes cmem[0]"
    with pytest.raises(InvalidRequest, match="compute_capability"):
        PLANNER.compute_occupancy(ComputeOccupancyRequest(threads_per_block=128, resource_usage_text=line))
    named = ComputeOccupancyRequest(threads_per_block=128, compute_capability="7.5", resource_usage_text=line)
    assert kernel(named).registers_per_thread == 40


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (ComputeOccupancyRequest(threads_per_block=128, resource_usage_text="nothing"), "resource_usage_text"),
        (replace(HOPPER, resource_usage_text=PTXAS), "registers_per_thread"),
        (ComputeOccupancyRequest(threads_per_block=128, compute_capability="9.0"), "registers_per_thread"),
        (replace(HOPPER, compute_capability="", registers_per_thread=None), "compute_capability"),
        (replace(HOPPER, registers_per_thread=None, resource_usage_text="Used 0 registers"), "resource_usage_text"),
        (
            replace(
                HOPPER,
                registers_per_thread=None,
                resource_usage_text="Used 8 registers, 999999999 bytes smem",
                shared_memory_bytes_per_block=999_999_999,
            ),
            "shared_memory_bytes_per_block",
        ),
    ],
)
def test_what_cannot_be_answered_names_the_field(request_: ComputeOccupancyRequest, field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        PLANNER.compute_occupancy(request_)
    assert field in [violation.field for violation in refusal.value.violations]


def test_an_architecture_that_is_not_known_is_not_found() -> None:
    with pytest.raises(NotFound, match=r"no compute capability called '6\.1'"):
        PLANNER.compute_occupancy(replace(HOPPER, compute_capability="6.1"))
    with pytest.raises(NotFound, match="resource_usage_text"):
        PLANNER.compute_occupancy(
            ComputeOccupancyRequest(threads_per_block=128, resource_usage_text=PTXAS.replace("sm_80", "sm_61"))
        )


def test_a_text_of_too_many_kernels_is_refused() -> None:
    text = "\n".join(["Used 32 registers"] * (MAX_KERNELS + 1))
    with pytest.raises(TooLarge):
        PLANNER.compute_occupancy(ComputeOccupancyRequest(128, "9.0", resource_usage_text=text))


# -- what the hardware refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field", "limit"),
    [
        ({"threads_per_block": 1025}, "threads_per_block", 1024),
        ({"registers_per_thread": 256}, "registers_per_thread", 255),
        ({"shared_memory_bytes_per_block": 227 * 1024 + 1}, "shared_memory_bytes_per_block", 227 * 1024),
        ({"threads_per_block": 1024, "registers_per_thread": 72}, "registers_per_thread", 65536),
        ({"barriers_per_block": 17}, "barriers_per_block", 16),
        ({"blocks_per_cluster": 17}, "blocks_per_cluster", 16),
    ],
)
def test_a_launch_beyond_the_architecture_is_answered_with_the_reason(change: dict[str, Any], field: str, limit: int) -> None:
    answer = PLANNER.compute_occupancy(replace(HOPPER, **change))
    (obstacle,) = answer.kernels[0].obstacles
    assert (obstacle.field, obstacle.limit) == (field, limit)
    assert obstacle.required > limit
    assert (answer.can_launch, answer.active_blocks_per_sm, answer.occupancy_ratio) == (False, 0, 0.0)


def test_the_most_shared_memory_is_what_is_not_reserved() -> None:
    assert not kernel(replace(HOPPER, shared_memory_bytes_per_block=227 * 1024)).obstacles
    beyond = kernel(replace(HOPPER, shared_memory_bytes_per_block=228 * 1024))
    assert "1024 reserved in each block" in beyond.obstacles[0].description
    assert "opted in" in kernel(replace(HOPPER, shared_memory_bytes_per_block=48 * 1024 + 1)).notes[0]


def test_clusters_are_bounded_and_never_ignored() -> None:
    silent = PLANNER.compute_occupancy(HOPPER)
    assert "launched without thread-block clusters: blocks_per_cluster is not given" in silent.assumptions
    bounded = kernel(replace(HOPPER, registers_per_thread=64, blocks_per_cluster=8, num_sms=132)).cluster
    assert bounded is not None
    assert bounded.max_active_clusters == 132 * 4 // 8
    assert "GPC" in bounded.description
    unbounded = kernel(replace(HOPPER, blocks_per_cluster=16)).cluster
    assert unbounded is not None
    assert unbounded.max_active_clusters is None
    assert "give num_sms" in unbounded.description
    assert "NonPortable" in unbounded.description
    older = kernel(replace(HOPPER, compute_capability="8.0", blocks_per_cluster=2))
    assert "no thread-block clusters" in older.obstacles[0].description
    assert not kernel(replace(HOPPER, compute_capability="8.0", blocks_per_cluster=1)).obstacles


def test_a_carve_out_is_rounded_up_to_one_that_exists_and_holds_a_block() -> None:
    small = PLANNER.compute_occupancy(
        replace(HOPPER, shared_memory_bytes_per_block=8192, shared_memory_carveout_bytes_per_sm=30_000)
    )
    assert small.kernels[0].shared_memory_carveout_bytes_per_sm == 32 * 1024
    assert small.limiting_factors == (LimitingFactor.SHARED_MEMORY,)
    assert small.active_blocks_per_sm == 3
    raised = kernel(replace(HOPPER, shared_memory_bytes_per_block=100_000, shared_memory_carveout_bytes_per_sm=30_000))
    assert raised.shared_memory_carveout_bytes_per_sm == 100 * 1024
    assert raised.active_blocks_per_sm == 1


def test_barriers_limit_where_they_are_counted() -> None:
    many = kernel(replace(HOPPER, threads_per_block=32, barriers_per_block=16))
    assert (many.active_blocks_per_sm, many.limiting_factors) == (4, (LimitingFactor.BARRIERS,))


def test_every_step_of_the_explanation_replays() -> None:
    request = replace(
        HOPPER, shared_memory_bytes_per_block=1000, barriers_per_block=1, blocks_per_cluster=2, num_sms=132, explain=True
    )
    explanation = PLANNER.compute_occupancy(request).explanation
    assert explanation is not None
    assert {"occupancy_ratio", "max_blocks_by_registers", "max_active_clusters"} <= {step.name for step in explanation.steps}
    for step in explanation.steps:
        assert REGISTRY[step.name].body(**step.inputs) == step.value
    assert all(figure.sources for figure in explanation.figures)
    assert "9.0.registers_per_sm" in {figure.name for figure in explanation.figures}
