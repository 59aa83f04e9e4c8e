"""The planner: one method a question, over one catalogue. Stateless: equal questions get equal answers, in any order."""

from collections.abc import Callable
from typing import TypeVar

from service.catalogue.entries import Catalogue
from service.catalogue.lookup import UnknownName, accelerator_by_any_name, node_type
from service.planning.claims.audit import audit_claim
from service.planning.claims.requests import AuditClaimRequest
from service.planning.claims.results import AuditClaimResponse
from service.planning.cluster_fit.question import fit_cluster
from service.planning.cluster_fit.requests import FitClusterRequest
from service.planning.cluster_fit.results import FitClusterResponse
from service.planning.decode import estimate_decode
from service.planning.errors import NotFound
from service.planning.fleet.compare import compare_accelerators
from service.planning.fleet.plan import plan_fleet
from service.planning.fleet.requests import CompareAcceleratorsRequest, PlanFleetRequest
from service.planning.fleet.results import CompareAcceleratorsResponse, PlanFleetResponse
from service.planning.kernels.fusion import analyze_fusion
from service.planning.kernels.kernel_occupancy import compute_occupancy
from service.planning.kernels.memory_access import analyze_memory_access
from service.planning.kernels.requests import (
    AnalyzeFusionRequest,
    AnalyzeMemoryAccessRequest,
    ComputeOccupancyRequest,
    DrawRooflineRequest,
)
from service.planning.kernels.results import (
    AnalyzeFusionResponse,
    AnalyzeMemoryAccessResponse,
    ComputeOccupancyResponse,
    DrawRooflineResponse,
)
from service.planning.kernels.roofline import draw_roofline
from service.planning.kv_memory import estimate_kv_memory
from service.planning.listing import (
    GetAcceleratorResponse,
    GetModelResponse,
    GetNodeTypeResponse,
    ListAcceleratorsResponse,
    Lister,
    ListModelsResponse,
    ListNodeTypesResponse,
    page_of,
)
from service.planning.model import find_model
from service.planning.node_fit import fit_node
from service.planning.placement.question import simulate_placement
from service.planning.placement.requests import SimulatePlacementRequest
from service.planning.placement.results import SimulatePlacementResponse
from service.planning.price_listing import ListPricesRequest, ListPricesResponse, list_prices
from service.planning.quotes.audit import audit_quote
from service.planning.quotes.requests import AuditQuoteRequest
from service.planning.quotes.results import AuditQuoteResponse
from service.planning.requests import (
    ComputeUtilizationRequest,
    EstimateDecodeRequest,
    EstimateKvMemoryRequest,
    FitNodeRequest,
    Page,
)
from service.planning.resolve import Resolver
from service.planning.results import (
    ComputeUtilizationResponse,
    EstimateDecodeResponse,
    EstimateKvMemoryResponse,
    FitNodeResponse,
)
from service.planning.serving.estimate import ServingEstimator
from service.planning.serving.requests import EstimateServingRequest
from service.planning.serving.results import EstimateServingResponse
from service.planning.streams import NEVER, Stop, Stream
from service.planning.sweep.grid import SweepLimits
from service.planning.sweep.requests import RunSweepRequest
from service.planning.sweep.results import RunSweepResponse
from service.planning.sweep.run import run_sweep
from service.planning.unknown_names import Question, all_unknown
from service.planning.utilization import compute_utilization

_QuestionT = TypeVar("_QuestionT", bound=Question)
_AnswerT = TypeVar("_AnswerT")


class Planner:
    """Answers from one catalogue. Every method raises InvalidRequest, NotFound or Unanswerable where there is no answer."""

    def __init__(self, catalogue: Catalogue, sweep_limits: SweepLimits | None = None) -> None:
        self.catalogue = catalogue
        self.resolver = Resolver(catalogue)
        self.serving = ServingEstimator(self.resolver)
        self._lister = Lister(catalogue)
        self._sweep_limits = sweep_limits or SweepLimits()

    def warm_up(self) -> None:
        """Reads every model of the catalogue, so that the first request of each pays nothing and a bad one stops the start."""
        for name in self.catalogue.models:
            self.resolver.named_architecture(name)

    def estimate_decode(self, request: EstimateDecodeRequest) -> EstimateDecodeResponse:
        """The bound on a decode step."""
        return self._answered(estimate_decode, request)

    def estimate_kv_memory(self, request: EstimateKvMemoryRequest) -> EstimateKvMemoryResponse:
        """What weights and cache take and what fits."""
        return self._answered(estimate_kv_memory, request)

    def fit_node(self, request: FitNodeRequest) -> FitNodeResponse:
        """Every legal shape over nodes, and the smallest that fits."""
        return self._answered(fit_node, request)

    def estimate_serving(self, request: EstimateServingRequest) -> EstimateServingResponse:
        """What an engine really serves, by its calibration."""
        return self.serving.estimate_serving(request)

    def run_sweep(self, request: RunSweepRequest, stop: Stop | None = None) -> Stream[RunSweepResponse]:
        """Every point of a grid, in parts. TooLarge where there are too many."""
        return run_sweep(self.resolver, self.serving, self._sweep_limits, request, stop)

    def plan_fleet(self, request: PlanFleetRequest, stop: Stop = NEVER) -> PlanFleetResponse:
        """How much hardware carries a demand, ranked. OutOfTime where it was stopped."""
        return plan_fleet(self.serving, request, stop)

    def compare_accelerators(self, request: CompareAcceleratorsRequest) -> CompareAcceleratorsResponse:
        """Accelerators side by side under one workload."""
        return compare_accelerators(self.serving, request)

    def compute_utilization(self, request: ComputeUtilizationRequest) -> ComputeUtilizationResponse:
        """A run's utilisation on every basis."""
        return self._answered(compute_utilization, request)

    def compute_occupancy(self, request: ComputeOccupancyRequest) -> ComputeOccupancyResponse:
        """What an SM holds of a kernel, or of several."""
        return compute_occupancy(self.catalogue, request)

    def analyze_memory_access(self, request: AnalyzeMemoryAccessRequest) -> AnalyzeMemoryAccessResponse:
        """What one load or store of a warp moves."""
        return analyze_memory_access(request, self.catalogue.revision)

    def analyze_fusion(self, request: AnalyzeFusionRequest) -> AnalyzeFusionResponse:
        """Operators eager, fused, and fused into GEMMs."""
        return analyze_fusion(self.resolver, request)

    def draw_roofline(self, request: DrawRooflineRequest) -> DrawRooflineResponse:
        """A roofline as data and as a picture."""
        return draw_roofline(self.resolver, request)

    def _answered(self, answer: Callable[[Resolver, _QuestionT], _AnswerT], request: _QuestionT) -> _AnswerT:
        try:
            return answer(self.resolver, request)
        except NotFound as unknown:
            raise all_unknown(self.catalogue, request, unknown) from None

    def list_accelerators(self, page: Page) -> ListAcceleratorsResponse:
        """A page of accelerators."""
        chosen, token = page_of(self.catalogue.accelerators, page)
        return ListAcceleratorsResponse(tuple(map(self._lister.accelerator, chosen)), token, self.catalogue.revision)

    def get_accelerator(self, name: str) -> GetAcceleratorResponse:
        """An accelerator by name, alias or GPU product label."""
        try:
            entry = accelerator_by_any_name(self.catalogue, name)
        except UnknownName as unknown:
            raise NotFound("name", unknown.kind, name, unknown.nearest) from None
        return GetAcceleratorResponse(self._lister.accelerator(entry), self.catalogue.revision)

    def list_node_types(self, page: Page) -> ListNodeTypesResponse:
        """A page of node types."""
        chosen, token = page_of(self.catalogue.node_types, page)
        return ListNodeTypesResponse(tuple(map(self._lister.node_type, chosen)), token, self.catalogue.revision)

    def get_node_type(self, name: str) -> GetNodeTypeResponse:
        """A node type by name or alias."""
        try:
            entry = node_type(self.catalogue, name)
        except UnknownName as unknown:
            raise NotFound("name", "node type", name, unknown.nearest) from None
        return GetNodeTypeResponse(self._lister.node_type(entry), self.catalogue.revision)

    def list_models(self, page: Page) -> ListModelsResponse:
        """A page of models."""
        chosen, token = page_of(self.catalogue.models, page)
        models = (self._lister.model(entry, self.resolver.named_architecture(entry.name)) for entry in chosen)
        return ListModelsResponse(tuple(models), token, self.catalogue.revision)

    def get_model(self, name: str) -> GetModelResponse:
        """A model by name or alias."""
        entry = find_model(self.catalogue, name, "name")
        model = self._lister.model(entry, self.resolver.named_architecture(entry.name))
        return GetModelResponse(model, self.catalogue.revision)

    def list_prices(self, request: ListPricesRequest) -> ListPricesResponse:
        """A page of published prices."""
        return list_prices(self.catalogue, request)

    def audit_claim(self, request: AuditClaimRequest) -> AuditClaimResponse:
        """Claims, each with its verdict."""
        return audit_claim(self.catalogue, request)

    def audit_quote(self, request: AuditQuoteRequest) -> AuditQuoteResponse:
        """An offer, each line audited and normalised."""
        return audit_quote(self.catalogue, request)

    def simulate_placement(self, request: SimulatePlacementRequest, stop: Stop = NEVER) -> SimulatePlacementResponse:
        """Where a scheduler would put jobs on a cluster. OutOfTime where it was stopped."""
        return simulate_placement(self.catalogue, request, stop)

    def fit_cluster(self, request: FitClusterRequest, stop: Stop = NEVER) -> FitClusterResponse:
        """Where replicas of a model fit a cluster as it stands. OutOfTime where it was stopped."""
        try:
            return fit_cluster(self.resolver, request, stop)
        except NotFound as unknown:
            raise all_unknown(self.catalogue, request, unknown) from None
