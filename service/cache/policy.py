"""Which RPC is kept where: one table from RPC name to cost class.

Measured on a 2-core machine: an in-process hit costs 0.1 to 1 µs, a whole estimate 20 to 30 µs, and a Redis GET 83 to
116 µs of wall time, 29 to 43 µs of it our own CPU. So Redis makes a point estimate three times slower even when it
hits, and pays only for what takes longer than about 0.5 ms to compute. The in-process tier pays for everything.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class CostClass(StrEnum):
    """How long an RPC computes, as far as caching cares."""

    POINT = "point"  #: one point or one look-up, tens of microseconds: in-process tier only
    SEARCH = "search"  #: many points or a simulation, from about 0.5 ms: in-process tier, then Redis
    STREAM = "stream"  #: parts without end, sent as they are made: kept nowhere


#: RPC name (the last part of the full method name) → cost class.
COST_CLASSES: Final[Mapping[str, CostClass]] = MappingProxyType(
    {
        # One configuration on one accelerator: closed-form arithmetic, 20 to 30 µs.
        "EstimateDecode": CostClass.POINT,
        "EstimatePrefill": CostClass.POINT,
        "EstimateServing": CostClass.POINT,
        "EstimateKvMemory": CostClass.POINT,
        "ComputeUtilization": CostClass.POINT,
        "ComputeOccupancy": CostClass.POINT,
        "AnalyzeMemoryAccess": CostClass.POINT,
        "AnalyzeFusion": CostClass.POINT,
        # The catalogue lies in memory already.
        "ListAccelerators": CostClass.POINT,
        "GetAccelerator": CostClass.POINT,
        "ListModels": CostClass.POINT,
        "GetModel": CostClass.POINT,
        "ListNodeTypes": CostClass.POINT,
        "GetNodeType": CostClass.POINT,
        "ListPrices": CostClass.POINT,
        # Every node type times every parallel shape, or every accelerator, or a whole cluster: 0.5 ms and up.
        "FitNode": CostClass.SEARCH,
        "PlanFleet": CostClass.SEARCH,
        "CompareAccelerators": CostClass.SEARCH,
        "SimulatePlacement": CostClass.SEARCH,
        "FitCluster": CostClass.SEARCH,
        # Up to gigabytes; a grid of ten thousand points takes a few milliseconds to compute anew.
        "RunSweep": CostClass.STREAM,
        # Several decode estimates, or a graph of operators, and a picture of them.
        "DrawRoofline": CostClass.SEARCH,
        # Up to fifty claims, each held against every basis of a family of accelerators: 0.5 to 5 ms a claim.
        "AuditClaim": CostClass.SEARCH,
        # Up to two hundred lines, each with some claims.
        "AuditQuote": CostClass.SEARCH,
    }
)


def uses_redis(rpc: str, *, every_rpc: bool = False) -> bool:
    """Whether this RPC's answers go to Redis; ``every_rpc`` is the operator's setting that widens it to all.

    An RPC that the table does not name is treated as a point: a row forgotten must not slow a request down.

    >>> uses_redis("FitNode"), uses_redis("EstimateDecode"), uses_redis("EstimateDecode", every_rpc=True)
    (True, False, True)
    """
    cost = COST_CLASSES.get(rpc)
    return cost is CostClass.SEARCH or (every_rpc and cost is not CostClass.STREAM)
