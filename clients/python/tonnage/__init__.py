"""Client of Tonnage, the capacity planner for language model serving.

``Client`` blocks, ``AsyncClient`` is awaited; both have the same methods and return messages of ``tonnage.v1``, whose
comments say what each figure means and in which unit. Failed calls raise the exceptions of ``tonnage.errors``.
"""

from tonnage.aio import AsyncClient, AsyncPager
from tonnage.client import Client, Pager
from tonnage.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    Overloaded,
    Refused,
    ServiceFault,
    TonnageError,
    Unanswerable,
    Unavailable,
    Unimplemented,
    Violation,
)
from tonnage.sweeps import AsyncSweep, Sweep
from tonnage.v1.accelerator_pb2 import AcceleratorSpec, InlineAccelerator, NodeSpec
from tonnage.v1.engine_pb2 import EngineSpec
from tonnage.v1.fleet_service_pb2 import Demand, FleetWorkload, ServiceLevel
from tonnage.v1.fusion_pb2 import Attention, Elementwise, Gemm, Normalization, Operator, Reduction, Softmax
from tonnage.v1.kernel_service_pb2 import StructureLayout
from tonnage.v1.model_pb2 import DenseModel, ModelSpec, Parallelism, Precision
from tonnage.v1.roofline_pb2 import OwnPoints
from tonnage.v1.serving_service_pb2 import Disaggregation, PrometheusObservation, ServingObservation, SpeculativeDecoding

__all__ = [
    "AcceleratorSpec",
    "AsyncClient",
    "AsyncPager",
    "AsyncSweep",
    "Attention",
    "Client",
    "DeadlineExceeded",
    "Demand",
    "DenseModel",
    "Disaggregation",
    "Elementwise",
    "EngineSpec",
    "FleetWorkload",
    "Gemm",
    "InlineAccelerator",
    "InvalidRequest",
    "ModelSpec",
    "NodeSpec",
    "Normalization",
    "NotFound",
    "Operator",
    "Overloaded",
    "OwnPoints",
    "Pager",
    "Parallelism",
    "Precision",
    "PrometheusObservation",
    "Reduction",
    "Refused",
    "ServiceFault",
    "ServiceLevel",
    "ServingObservation",
    "Softmax",
    "SpeculativeDecoding",
    "StructureLayout",
    "Sweep",
    "TonnageError",
    "Unanswerable",
    "Unavailable",
    "Unimplemented",
    "Violation",
]
