"""Start-up logs of serving engines: what was started, with which flags, and what it said about memory.

``read`` is a pure function of a log's text. It knows vLLM (the wordings of V0 and V1), SGLang and TensorRT-LLM.
"""

from tonnage.logs.gpu import named_gpu
from tonnage.logs.reading import LOOKED_FOR, read
from tonnage.logs.startup_log import Outcome, StartupLog

__all__ = ["LOOKED_FOR", "Outcome", "StartupLog", "named_gpu", "read"]
