"""Reads what ``nvcc --resource-usage`` and ``ptxas -v`` print about each kernel."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

_COMPILING: Final = re.compile(r"Compiling entry function '([^']*)' for '(sm_\d+[af]?)'")
_PROPERTIES: Final = re.compile(r"Function properties for (\S.*)")
_STACK: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED: Final = re.compile(r"Used (\d+) registers?\b(.*)")
_BARRIERS: Final = re.compile(r"used (\d+) barriers?\b")
#: "16+0 bytes smem": what the kernel declares, and what the compiler adds.
_SHARED: Final = re.compile(r"(\d+)(?:\+(\d+))? bytes smem\b")
#: More digits than any such figure has, and fewer than a 32-bit integer holds.
_MAX_DIGITS: Final = 9


class ResourceUsage(Struct, frozen=True):
    """What a compiler says of one kernel; ``architecture`` is "sm_90", or empty where no line names it."""

    name: str
    architecture: str
    registers_per_thread: int
    static_shared_memory_bytes: int
    barriers_per_block: int | None
    stack_frame_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


def read_resource_usage(text: str) -> Iterator[ResourceUsage]:
    """The kernels in the order of the text. Lines about device functions, and whatever else is printed, are passed over.

    >>> lines = '''ptxas info    : Compiling entry function '_Z3addPf' for 'sm_90'
    ... ptxas info    : Used 32 registers, used 1 barriers, 4096 bytes smem, 360 bytes cmem[0]'''
    >>> [(each.name, each.registers_per_thread, each.static_shared_memory_bytes) for each in read_resource_usage(lines)]
    [('_Z3addPf', 32, 4096)]
    """
    unnamed = ResourceUsage("", "", 0, 0, None, 0, 0, 0)
    kernel, is_about_kernel = unnamed, True
    for line in text.splitlines():
        if found := _COMPILING.search(line):
            kernel, is_about_kernel = replace(unnamed, name=found[1], architecture=found[2]), True
        elif found := _PROPERTIES.search(line):
            is_about_kernel = kernel.name in {"", found[1].strip()}
        elif (found := _STACK.search(line)) and is_about_kernel:
            frame, stores, loads = (_number(each) for each in found.groups())
            kernel = replace(kernel, stack_frame_bytes=frame, spill_store_bytes=stores, spill_load_bytes=loads)
        elif found := _USED.search(line):
            yield _with_usage(kernel, found)
            kernel, is_about_kernel = unnamed, True


def _with_usage(kernel: ResourceUsage, used: re.Match[str]) -> ResourceUsage:
    barriers, shared = _BARRIERS.search(used[2]), _SHARED.search(used[2])
    return replace(
        kernel,
        registers_per_thread=_number(used[1]),
        barriers_per_block=_number(barriers[1]) if barriers else None,
        static_shared_memory_bytes=_number(shared[1]) + _number(shared[2] or "0") if shared else 0,
    )


def _number(digits: str) -> int:
    return int(digits[:_MAX_DIGITS])
