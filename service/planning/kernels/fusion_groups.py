"""Which operators share a kernel: neighbours that pass elements on, and what goes into the kernel of a GEMM."""

import math
from collections.abc import Sequence

from msgspec import Struct, field

from service.planning.kernels.operator_graph import Kind, Node
from service.planning.kernels.results import FusionPlace


class Grouping(Struct):
    """Operators by kernel, while it is being decided. ``group_of[i]`` is the index of one operator of i's kernel."""

    nodes: Sequence[Node]
    group_of: list[int] = field(default_factory=list)
    places: dict[int, FusionPlace] = field(default_factory=dict)
    refusals: dict[int, str] = field(default_factory=dict)  # why an operator did not join the one that it reads
    consumers: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.group_of = list(range(len(self.nodes)))
        self.consumers = [[] for _ in self.nodes]
        for node in self.nodes:
            for each in node.inputs:
                self.consumers[each].append(node.index)

    def members(self, group: int) -> list[Node]:
        """The operators of a kernel, in order."""
        return [node for node in self.nodes if self.group_of[node.index] == group]

    def groups(self) -> list[list[Node]]:
        """The kernels in an order in which they can run."""
        left = {group: self.members(group) for group in dict.fromkeys(self.group_of)}
        ordered: list[list[Node]] = []
        done: set[int] = set()
        while left:
            ready = next(
                group for group, members in left.items() if self._reads(members) <= done | {node.index for node in members}
            )
            done |= {node.index for node in left[ready]}
            ordered.append(left.pop(ready))
        return ordered

    @staticmethod
    def _reads(members: Sequence[Node]) -> set[int]:
        return {each for node in members for each in node.inputs}

    def merge(self, one: int, other: int) -> bool:
        """Joins the kernels of two operators; false, and nothing done, where one would have to wait for its own result."""
        joined = {self.group_of[one], self.group_of[other]}
        if self._waits_for_itself(joined):
            return False
        first = self.group_of[one]
        self.group_of = [first if group in joined else group for group in self.group_of]
        return True

    def _waits_for_itself(self, joined: set[int]) -> bool:
        """Whether another kernel lies on a way from the joined ones back to them."""
        readers: dict[int, set[int]] = {}
        for node in self.nodes:
            for each in node.inputs:
                readers.setdefault(self.group_of[each], set()).add(self.group_of[node.index])
        reached: set[int] = set()
        ahead = {reader for group in joined for reader in readers.get(group, ())} - joined
        while ahead:
            if ahead & joined:
                return True
            reached |= ahead
            ahead = {reader for group in ahead for reader in readers.get(group, ())} - reached
        return False


def eager(nodes: Sequence[Node]) -> Grouping:
    """Each operator by itself."""
    return Grouping(nodes)


def fused(nodes: Sequence[Node]) -> Grouping:
    """Neighbours that pass elements on share a kernel; GEMMs and attention stay by themselves."""
    grouping = Grouping(nodes)
    _fuse_neighbours(grouping)
    return grouping


def epilogue_fused(nodes: Sequence[Node]) -> Grouping:
    """As ``fused``; but first, what follows or precedes a GEMM element by element goes into its kernel."""
    grouping = Grouping(nodes)
    for node in nodes:
        if node.kind is Kind.ELEMENTWISE:
            _into_epilogue(grouping, node)
    for node in reversed(nodes):
        if node.kind is Kind.ELEMENTWISE and node.index not in grouping.places:
            _into_prologue(grouping, node)
    _fuse_neighbours(grouping)
    return grouping


def _into_epilogue(grouping: Grouping, node: Node) -> None:
    for each in sorted(node.inputs, reverse=True):
        host = next((mate for mate in grouping.members(grouping.group_of[each]) if mate.kind is Kind.GEMM), None)
        in_reach = each == (host.index if host else None) or grouping.places.get(each) is FusionPlace.GEMM_EPILOGUE
        if host is None or not in_reach or math.prod(node.shape) != math.prod(host.shape):
            continue
        if grouping.merge(each, node.index):
            grouping.places[node.index] = FusionPlace.GEMM_EPILOGUE
            grouping.places[host.index] = FusionPlace.GEMM_HOST
            return


def _into_prologue(grouping: Grouping, node: Node) -> None:
    readers = grouping.consumers[node.index]
    if len(readers) != 1:
        return
    reader = grouping.nodes[readers[0]]
    is_factor = reader.kind is Kind.GEMM and reader.inputs[:1] == (node.index,)
    is_before_factor = grouping.places.get(reader.index) is FusionPlace.GEMM_PROLOGUE and reader.shape == node.shape
    if (is_factor or is_before_factor) and grouping.merge(reader.index, node.index):
        grouping.places[node.index] = FusionPlace.GEMM_PROLOGUE
        if is_factor:
            grouping.places[reader.index] = FusionPlace.GEMM_HOST


def _fuse_neighbours(grouping: Grouping) -> None:
    for node in grouping.nodes:
        if not node.is_soft or node.index in grouping.places:
            continue
        for each in sorted(node.inputs, reverse=True):
            reason = _apart(grouping, grouping.nodes[each], node)
            if not reason and not grouping.merge(each, node.index):
                reason = f"between {grouping.nodes[each].name} and it runs something that needs the one and makes the other"
            if reason:
                grouping.refusals[node.index] = reason
    for group in dict.fromkeys(grouping.group_of):
        members = grouping.members(group)
        if len(members) > 1:
            for node in members:
                grouping.places.setdefault(node.index, FusionPlace.WITH_NEIGHBOURS)


def _apart(grouping: Grouping, producer: Node, node: Node) -> str:
    """Why the two cannot share a kernel; empty where they can."""
    if producer.kind is Kind.GEMM and node.kind is not Kind.ELEMENTWISE:
        return f"it needs whole rows, and a tile of {producer.name}'s product holds only a part of each"
    if not producer.is_soft or grouping.places.get(producer.index) in {FusionPlace.GEMM_EPILOGUE, FusionPlace.GEMM_PROLOGUE}:
        needs_rows = "" if node.kind is Kind.ELEMENTWISE else ", whose tiles hold only a part of each row,"
        return f"{producer.name} is in the kernel of a matrix product{needs_rows} and it is not"
    mates = grouping.members(grouping.group_of[producer.index])
    spaces = {math.prod(mate.work) for mate in mates} | {math.prod(mate.shape) for mate in mates if mate.kind is Kind.REDUCTION}
    if math.prod(node.work) not in spaces:
        return f"it goes over {list(node.work)}, and {producer.name} over {list(producer.work)}"
    if node.axis is not None:
        for mate in mates:
            if mate.axis is not None and (mate.axis, len(mate.work)) != (node.axis, len(node.work)):
                return (
                    f"it reduces over axis {node.axis}, and {mate.name} over axis {mate.axis}: all of that must be done first"
                )
    return ""


def place_of(grouping: Grouping, node: Node) -> tuple[FusionPlace, str]:
    """Where an operator goes, and why, in a sentence."""
    place = grouping.places.get(node.index, FusionPlace.OWN_KERNEL)
    mates = [mate for mate in grouping.members(grouping.group_of[node.index]) if mate is not node]
    names = ", ".join(mate.name for mate in mates)
    if place is FusionPlace.GEMM_EPILOGUE:
        host = next(mate.name for mate in mates if mate.kind is Kind.GEMM)
        return place, f"applied to the tile of {host} before it is written"
    if place is FusionPlace.GEMM_PROLOGUE:
        host = next(mate.name for mate in mates if mate.kind is Kind.GEMM)
        return place, f"applied to the factor of {host} as it is read; computed again for each tile of columns"
    if place is FusionPlace.GEMM_HOST:
        return place, f"takes in {names}"
    if place is FusionPlace.WITH_NEIGHBOURS:
        return place, f"shares a kernel with {names}"
    if node.kind is Kind.ATTENTION:
        return place, "one kernel already, which keeps the scores on the chip"
    if node.kind is Kind.GEMM:
        return place, "a matrix product, with nothing element by element next to it that could go in"
    return place, grouping.refusals.get(node.index, "no neighbour goes over the same elements")
