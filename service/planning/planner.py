"""The planner: one method a question, over one catalogue. Stateless: equal questions get equal answers, in any order."""

from service.catalogue.entries import Catalogue
from service.catalogue.lookup import UnknownName, accelerator, node_type
from service.planning.decode import estimate_decode
from service.planning.errors import NotFound
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
from service.planning.utilization import compute_utilization


class Planner:
    """Answers from one catalogue. Every method raises InvalidRequest, NotFound or Unanswerable where there is no answer."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.resolver = Resolver(catalogue)
        self._lister = Lister(catalogue)

    def warm_up(self) -> None:
        """Reads every model of the catalogue, so that the first request of each pays nothing and a bad one stops the start."""
        for name in self.catalogue.models:
            self.resolver.named_architecture(name)

    def estimate_decode(self, request: EstimateDecodeRequest) -> EstimateDecodeResponse:
        """The bound on a decode step."""
        return estimate_decode(self.resolver, request)

    def estimate_kv_memory(self, request: EstimateKvMemoryRequest) -> EstimateKvMemoryResponse:
        """What weights and cache take and what fits."""
        return estimate_kv_memory(self.resolver, request)

    def fit_node(self, request: FitNodeRequest) -> FitNodeResponse:
        """Every legal shape over nodes, and the smallest that fits."""
        return fit_node(self.resolver, request)

    def compute_utilization(self, request: ComputeUtilizationRequest) -> ComputeUtilizationResponse:
        """A run's utilisation on every basis."""
        return compute_utilization(self.resolver, request)

    def list_accelerators(self, page: Page) -> ListAcceleratorsResponse:
        """A page of accelerators."""
        chosen, token = page_of(self.catalogue.accelerators, page)
        return ListAcceleratorsResponse(tuple(map(self._lister.accelerator, chosen)), token, self.catalogue.revision)

    def get_accelerator(self, name: str) -> GetAcceleratorResponse:
        """An accelerator by name or alias."""
        try:
            entry = accelerator(self.catalogue, name)
        except UnknownName as unknown:
            raise NotFound("name", "accelerator", name, unknown.nearest) from None
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
