"""Short ways to write the questions that the tests ask."""

from service.planning.requests import (
    AcceleratorSpec,
    DenseModel,
    EstimateDecodeRequest,
    EstimateKvMemoryRequest,
    FitNodeRequest,
    InlineAccelerator,
    ModelSpec,
    NodeSpec,
    Parallelism,
    Precision,
)

SEVEN_B = DenseModel(num_parameters=7e9, num_layers=32, num_query_heads=32, num_kv_heads=8, head_dim=128)
H100 = AcceleratorSpec(name="h100-sxm")


def model(name_or_dense: str | DenseModel) -> ModelSpec:
    return ModelSpec(name=name_or_dense) if isinstance(name_or_dense, str) else ModelSpec(dense=name_or_dense)


def accelerator(name_or_inline: str | InlineAccelerator) -> AcceleratorSpec:
    if isinstance(name_or_inline, str):
        return AcceleratorSpec(name=name_or_inline)
    return AcceleratorSpec(inline=name_or_inline)


def decode(
    what: str | DenseModel,
    on: str | InlineAccelerator = "h100-sxm",
    *,
    shape: Parallelism = Parallelism(),
    precision: Precision = Precision(),
    batch: int | None = None,
    context: int | None = None,
    ratio: float | None = None,
    explain: bool = False,
) -> EstimateDecodeRequest:
    return EstimateDecodeRequest(
        model=model(what),
        accelerator=accelerator(on),
        parallelism=shape,
        precision=precision,
        batch_size=batch,
        context_tokens=context,
        memory_utilization_ratio=ratio,
        explain=explain,
    )


def kv_memory(
    what: str | DenseModel,
    on: str | InlineAccelerator = "h100-sxm",
    *,
    context: int,
    shape: Parallelism = Parallelism(),
    precision: Precision = Precision(),
    batch: int | None = None,
    ratio: float | None = None,
    explain: bool = False,
) -> EstimateKvMemoryRequest:
    return EstimateKvMemoryRequest(
        model=model(what),
        accelerator=accelerator(on),
        context_tokens=context,
        parallelism=shape,
        precision=precision,
        batch_size=batch,
        memory_utilization_ratio=ratio,
        explain=explain,
    )


def fit(
    what: str | DenseModel,
    node: str = "dgx-h100",
    *,
    context: int = 4096,
    concurrency: int | None = None,
    precision: Precision = Precision(),
    max_num_nodes: int | None = None,
    explain: bool = False,
) -> FitNodeRequest:
    return FitNodeRequest(
        model=model(what),
        context_tokens=context,
        node=NodeSpec(node),
        precision=precision,
        concurrency=concurrency,
        max_num_nodes=max_num_nodes,
        explain=explain,
    )
