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
from tonnage.v1.accelerator_pb2 import AcceleratorSpec, InlineAccelerator, NodeSpec
from tonnage.v1.engine_pb2 import EngineSpec
from tonnage.v1.model_pb2 import DenseModel, ModelSpec, Parallelism, Precision

__all__ = [
    "AcceleratorSpec",
    "AsyncClient",
    "AsyncPager",
    "Client",
    "DeadlineExceeded",
    "DenseModel",
    "EngineSpec",
    "InlineAccelerator",
    "InvalidRequest",
    "ModelSpec",
    "NodeSpec",
    "NotFound",
    "Overloaded",
    "Pager",
    "Parallelism",
    "Precision",
    "Refused",
    "ServiceFault",
    "TonnageError",
    "Unanswerable",
    "Unavailable",
    "Unimplemented",
    "Violation",
]
