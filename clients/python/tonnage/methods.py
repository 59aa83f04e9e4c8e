"""The table of calls, from which both clients are made: path, how the request is built, what comes back."""

import copy
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeAlias, TypeVar

from google.protobuf.message import Message

from tonnage import (
    claim_requests,
    cluster_requests,
    fleet_requests,
    kernel_requests,
    placement_requests,
    price_requests,
    quote_requests,
    requests,
    serving_requests,
    sweep_requests,
)
from tonnage.v1 import capacity_service_pb2 as capacity
from tonnage.v1 import catalogue_service_pb2 as catalogue
from tonnage.v1 import claim_service_pb2 as claim
from tonnage.v1 import cluster_fit_pb2 as cluster_fit
from tonnage.v1 import fleet_service_pb2 as fleet
from tonnage.v1 import fusion_pb2 as fusion
from tonnage.v1 import kernel_service_pb2 as kernel
from tonnage.v1 import placement_service_pb2 as placement
from tonnage.v1 import roofline_pb2 as roofline
from tonnage.v1 import serving_service_pb2 as serving
from tonnage.v1 import sweep_service_pb2 as sweep

PageRequest: TypeAlias = (
    catalogue.ListAcceleratorsRequest
    | catalogue.ListNodeTypesRequest
    | catalogue.ListModelsRequest
    | catalogue.ListPricesRequest
)
Page: TypeAlias = (
    catalogue.ListAcceleratorsResponse
    | catalogue.ListNodeTypesResponse
    | catalogue.ListModelsResponse
    | catalogue.ListPricesResponse
)

P = ParamSpec("P")
RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)
PageRequestT = TypeVar("PageRequestT", bound=PageRequest)
PageT = TypeVar("PageT", bound=Page)
EntryT = TypeVar("EntryT", bound=Message)
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True)
class Method(Generic[P, RequestT, ResponseT]):
    """One call of the service."""

    path: str
    build: Callable[P, RequestT]
    request: type[RequestT]
    response: type[ResponseT]


@dataclass(frozen=True)
class Listing(Method[P, PageRequestT, PageT], Generic[P, PageRequestT, PageT, EntryT]):
    """A call that is answered page by page."""

    entries: Callable[[PageT], Iterable[EntryT]]

    def following(self, request: PageRequestT, page: PageT) -> PageRequestT | None:
        """The request for the page after this one. None after the last."""
        if not page.next_page_token:
            return None
        following = copy.deepcopy(request)
        following.page_token = page.next_page_token
        return following


class Streaming(Method[P, RequestT, ResponseT]):
    """A call that is answered in parts."""


def presented(call: Callable[P, AnswerT], build: Callable[..., object], answer: object) -> Callable[P, AnswerT]:
    """The call under its builder's name, signature and docstring, so that ``help()`` and editors show what to give."""
    built = inspect.signature(build)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    call.__name__ = build.__name__
    call.__qualname__ = build.__name__
    call.__doc__ = build.__doc__
    signature = built.replace(parameters=[own, *built.parameters.values()], return_annotation=answer)
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


ESTIMATE_DECODE = Method(
    "/tonnage.v1.CapacityService/EstimateDecode",
    requests.estimate_decode,
    capacity.EstimateDecodeRequest,
    capacity.EstimateDecodeResponse,
)
ESTIMATE_KV_MEMORY = Method(
    "/tonnage.v1.CapacityService/EstimateKvMemory",
    requests.estimate_kv_memory,
    capacity.EstimateKvMemoryRequest,
    capacity.EstimateKvMemoryResponse,
)
FIT_NODE = Method(
    "/tonnage.v1.CapacityService/FitNode",
    requests.fit_node,
    capacity.FitNodeRequest,
    capacity.FitNodeResponse,
)
COMPUTE_UTILIZATION = Method(
    "/tonnage.v1.CapacityService/ComputeUtilization",
    requests.compute_utilization,
    capacity.ComputeUtilizationRequest,
    capacity.ComputeUtilizationResponse,
)
LIST_ACCELERATORS = Listing(
    "/tonnage.v1.CatalogueService/ListAccelerators",
    requests.list_accelerators,
    catalogue.ListAcceleratorsRequest,
    catalogue.ListAcceleratorsResponse,
    lambda page: page.accelerators,
)
GET_ACCELERATOR = Method(
    "/tonnage.v1.CatalogueService/GetAccelerator",
    requests.get_accelerator,
    catalogue.GetAcceleratorRequest,
    catalogue.GetAcceleratorResponse,
)
LIST_NODE_TYPES = Listing(
    "/tonnage.v1.CatalogueService/ListNodeTypes",
    requests.list_node_types,
    catalogue.ListNodeTypesRequest,
    catalogue.ListNodeTypesResponse,
    lambda page: page.node_types,
)
GET_NODE_TYPE = Method(
    "/tonnage.v1.CatalogueService/GetNodeType",
    requests.get_node_type,
    catalogue.GetNodeTypeRequest,
    catalogue.GetNodeTypeResponse,
)
LIST_MODELS = Listing(
    "/tonnage.v1.CatalogueService/ListModels",
    requests.list_models,
    catalogue.ListModelsRequest,
    catalogue.ListModelsResponse,
    lambda page: page.models,
)
GET_MODEL = Method(
    "/tonnage.v1.CatalogueService/GetModel",
    requests.get_model,
    catalogue.GetModelRequest,
    catalogue.GetModelResponse,
)
LIST_PRICES = Listing(
    "/tonnage.v1.CatalogueService/ListPrices",
    price_requests.list_prices,
    catalogue.ListPricesRequest,
    catalogue.ListPricesResponse,
    lambda page: page.prices,
)
COMPUTE_OCCUPANCY = Method(
    "/tonnage.v1.KernelService/ComputeOccupancy",
    kernel_requests.compute_occupancy,
    kernel.ComputeOccupancyRequest,
    kernel.ComputeOccupancyResponse,
)
ANALYZE_MEMORY_ACCESS = Method(
    "/tonnage.v1.KernelService/AnalyzeMemoryAccess",
    kernel_requests.analyze_memory_access,
    kernel.AnalyzeMemoryAccessRequest,
    kernel.AnalyzeMemoryAccessResponse,
)
ANALYZE_FUSION = Method(
    "/tonnage.v1.KernelService/AnalyzeFusion",
    kernel_requests.analyze_fusion,
    fusion.AnalyzeFusionRequest,
    fusion.AnalyzeFusionResponse,
)
DRAW_ROOFLINE = Method(
    "/tonnage.v1.KernelService/DrawRoofline",
    kernel_requests.draw_roofline,
    roofline.DrawRooflineRequest,
    roofline.DrawRooflineResponse,
)
ESTIMATE_SERVING = Method(
    "/tonnage.v1.ServingService/EstimateServing",
    serving_requests.estimate_serving,
    serving.EstimateServingRequest,
    serving.EstimateServingResponse,
)
RUN_SWEEP = Streaming(
    "/tonnage.v1.SweepService/RunSweep",
    sweep_requests.run_sweep,
    sweep.RunSweepRequest,
    sweep.RunSweepResponse,
)
PLAN_FLEET = Method(
    "/tonnage.v1.FleetService/PlanFleet",
    fleet_requests.plan_fleet,
    fleet.PlanFleetRequest,
    fleet.PlanFleetResponse,
)
COMPARE_ACCELERATORS = Method(
    "/tonnage.v1.FleetService/CompareAccelerators",
    fleet_requests.compare_accelerators,
    fleet.CompareAcceleratorsRequest,
    fleet.CompareAcceleratorsResponse,
)
AUDIT_CLAIM = Method(
    "/tonnage.v1.ClaimService/AuditClaim",
    claim_requests.audit_claim,
    claim.AuditClaimRequest,
    claim.AuditClaimResponse,
)
AUDIT_QUOTE = Method(
    "/tonnage.v1.ClaimService/AuditQuote",
    quote_requests.audit_quote,
    claim.AuditQuoteRequest,
    claim.AuditQuoteResponse,
)
SIMULATE_PLACEMENT = Method(
    "/tonnage.v1.PlacementService/SimulatePlacement",
    placement_requests.simulate_placement,
    placement.SimulatePlacementRequest,
    placement.SimulatePlacementResponse,
)
FIT_CLUSTER = Method(
    "/tonnage.v1.PlacementService/FitCluster",
    cluster_requests.fit_cluster,
    cluster_fit.FitClusterRequest,
    cluster_fit.FitClusterResponse,
)
