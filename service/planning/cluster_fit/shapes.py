"""The model's side of the question: how a replica can be laid out over the nodes of each accelerator."""

from typing import Final

from service.planning import defaults
from service.planning.cluster_fit.device_groups import DeviceGroup
from service.planning.cluster_fit.layouts import Layout, NoLayout, given_layout, per_node, searched_layouts
from service.planning.cluster_fit.requests import FitClusterRequest
from service.planning.cures import Question
from service.planning.engine_view import EngineQuestion, check_engine
from service.planning.errors import Unanswerable
from service.planning.node_fit import check_memory
from service.planning.resolve import Resolver
from service.planning.shape import check_shape
from service.planning.shape_search import ShapeSearch

#: Sizes of nodes of one accelerator that are looked at, those with most devices.
_MAX_SIZES: Final = 3


class Shapes:
    """Lays replicas of the request's model out. InvalidRequest or NotFound where the model cannot be read or split so."""

    def __init__(self, resolver: Resolver, request: FitClusterRequest) -> None:
        self._resolver, self._request = resolver, request
        self._builder, notes = resolver.builder(request.model, request.precision)
        check_engine(request.engine, request.context_tokens, request.memory_utilization_ratio)
        self._ratio, ratio_note = defaults.memory_ratio(request.memory_utilization_ratio)
        if request.parallelism is not None:
            check_shape(self._builder.architecture, request.parallelism, self._builder.quantized_cuts)
        concurrency_note = None if request.concurrency else f"concurrency {defaults.CONCURRENCY} (default)"
        beyond = defaults.context_note(request.context_tokens, self._builder.architecture.context_limit_tokens)
        plain = () if request.engine else (ratio_note, defaults.NOT_COUNTED)
        said = (*notes, concurrency_note, beyond, *plain)
        #: What was assumed about the model and its memory.
        self.assumptions = tuple(note for note in said if note)

    def of(self, group: DeviceGroup) -> tuple[Layout, ...] | NoLayout | Unanswerable:
        """The layouts for the sizes of node that the group has; or why there is none."""
        found: dict[Layout, None] = {}
        reasons = []
        for size in group.sizes()[:_MAX_SIZES]:
            try:
                check_memory(self._builder, group.device)
                layouts = self._layouts(group, size)
            except Unanswerable as unknown:
                return unknown
            if isinstance(layouts, NoLayout):
                reasons.append(layouts.reason)
            else:
                found.update(dict.fromkeys(layouts))
        return tuple(found) or NoLayout(reasons[0])

    def _layouts(self, group: DeviceGroup, size: int) -> tuple[Layout, ...] | NoLayout:
        request = self._request
        search = self._search(group, per_node(size))
        if request.parallelism is not None:
            given = given_layout(search, request.parallelism, group)
            return given if isinstance(given, NoLayout) else (given,)
        return searched_layouts(search, group, request.max_num_nodes)

    def _search(self, group: DeviceGroup, devices_per_node: int) -> ShapeSearch:
        request, device = self._request, group.device
        concurrency = request.concurrency or defaults.CONCURRENCY
        asked = Question(concurrency, "concurrency", request.context_tokens, self._ratio, self._builder, (), ())
        engine = EngineQuestion(self._resolver, device, request.engine, asked) if request.engine else None
        return ShapeSearch(asked, device, devices_per_node, engine)
