"""Short ways to ask what is served."""

from typing import Any

from service.planning.requests import AcceleratorSpec, EngineSpec, InlineAccelerator, ModelSpec, Parallelism, Precision
from service.planning.serving.requests import EstimateServingRequest, Workload

#: An accelerator of a caller's own, on which nothing was measured.
OWN = InlineAccelerator(
    title="own",
    peak_dense_flops_per_second={"bf16": 1e15, "fp8": 2e15, "fp4": 4e15},
    memory_bandwidth_bytes_per_second=3e12,
    usable_memory_bytes=1.5e11,
    link_bandwidth_one_way_bytes_per_second=4e11,
    num_devices_in_link_domain=8,
)


def serving(
    model: str = "llama-3.1-8b",
    on: str | InlineAccelerator = "h100-sxm",
    *,
    engine: str | EngineSpec = "vllm",
    tokens: tuple[int, int] = (1024, 256),
    concurrency: float | None = None,
    rate: float | None = None,
    tensor: int = 1,
    shape: Parallelism | None = None,
    precision: Precision = Precision(),
    **rest: Any,
) -> EstimateServingRequest:
    """A question. ``rest``: further fields of the request, or of its workload."""
    of_request = {
        name: rest.pop(name) for name in ("observation", "explain", "memory_utilization_ratio", "observe") if name in rest
    }
    return EstimateServingRequest(
        model=ModelSpec(name=model),
        accelerator=AcceleratorSpec(name=on) if isinstance(on, str) else AcceleratorSpec(inline=on),
        engine=EngineSpec(name=engine) if isinstance(engine, str) else engine,
        workload=Workload(*tokens, concurrency, rate, **rest),
        parallelism=shape or Parallelism(tensor=tensor),
        precision=precision,
        **of_request,
    )
