"""Formulas about kernels: figures that others printed, properties, and the points a warp's addresses make."""

from hypothesis import given
from hypothesis import strategies as st

from service.formulas.fusion import attainable_flops_per_second, fused_attention_flops, gemm_elements, gemm_flops
from service.formulas.memory_access import SECTOR_BYTES, sectors_per_group
from service.formulas.occupancy import (
    allocated_registers_per_warp,
    allocated_shared_memory_bytes_per_block,
    max_blocks_by_registers,
    max_blocks_by_warps,
    occupancy_ratio,
)


def test_registers_are_handed_out_in_units_of_256_a_warp() -> None:
    taken = [
        allocated_registers_per_warp(registers_per_thread=asked, register_allocation_unit=256)
        for asked in (1, 8, 9, 80, 81, 255)
    ]
    assert taken == [256, 256, 512, 2560, 2816, 8192]


def test_a_warp_finds_no_room_in_what_is_left_over_between_sub_partitions() -> None:
    # 16,384 registers in each of 4: one warp of 8,448 each, and 7,936 left over in each, together enough for 3 more.
    blocks = max_blocks_by_registers(
        registers_per_sm=65536, num_sub_partitions=4, allocated_registers_per_warp=8448, warps_per_block=1
    )
    assert blocks == 4


def test_a_block_without_shared_memory_takes_what_the_system_reserves() -> None:
    taken = allocated_shared_memory_bytes_per_block(
        shared_memory_bytes_per_block=0, reserved_shared_memory_bytes_per_block=1024, shared_memory_allocation_unit_bytes=128
    )
    assert taken == 1024


def test_the_document_s_four_occupancies() -> None:
    ratios = [occupancy_ratio(active_warps_per_sm=blocks * 8, max_warps_per_sm=64) for blocks in (8, 4, 4, 3)]
    assert ratios == [1, 0.5, 0.5, 0.375]
    assert max_blocks_by_warps(max_warps_per_sm=64, warps_per_block=8) == 8


@given(first=st.integers(-(2**20), 2**20), distance=st.integers(-4096, 4096), lanes=st.sampled_from([8, 16, 32]))
def test_sectors_are_the_different_ones_that_the_addresses_lie_in(first: int, distance: int, lanes: int) -> None:
    counted = sectors_per_group(first_address_bytes=first, distance_bytes=distance, lanes_per_group=lanes)
    assert counted == len({(first + lane * distance) // SECTOR_BYTES for lane in range(lanes)})


def test_the_document_s_gemm() -> None:
    assert gemm_flops(num_matrices=1, rows=4096, columns=4096, depth=4096) / 500e12 * 1e6 == 274.877906944
    assert gemm_elements(num_matrices=1, rows=8, columns=4096, depth=4096) * 2 == 2**25 + 2 * 2**16


def test_a_causal_mask_halves_attention() -> None:
    shape = {"num_sequences": 1, "num_query_heads": 32, "query_tokens": 4096, "context_tokens": 4096, "head_dim": 128}
    assert fused_attention_flops(**shape, attended_ratio=1) == 2 * fused_attention_flops(**shape, attended_ratio=0.5)


def test_the_roof_is_flat_beyond_the_ridge() -> None:
    roof = [
        attainable_flops_per_second(
            peak_dense_flops_per_second=500e12,
            arithmetic_intensity_flops_per_byte=intensity,
            memory_bandwidth_bytes_per_second=2e12,
        )
        for intensity in (1.0, 250.0, 1000.0)
    ]
    assert roof == [2e12, 500e12, 500e12]
