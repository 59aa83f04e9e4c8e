"""What can be asked. Field for field the request messages of protos/tonnage/v1, whose comments are the glossary.

The doors fill these by field name. ``None`` means "not given"; defaults that a request may leave out are applied in planning,
which states them in the answer. Shapes and ranges are checked at the doors, meaning here.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class DenseModel(Struct, frozen=True):
    """A decoder by its figures; all but ``num_parameters`` and ``hidden_size`` come together or not at all."""

    num_parameters: float
    num_layers: int | None = None
    num_query_heads: int | None = None
    num_kv_heads: int | None = None
    head_dim: int | None = None
    hidden_size: int | None = None


class ModelSpec(Struct, frozen=True):
    """A model: exactly one of ``name``, ``hf_config`` and ``dense``.

    What keeps answers by what was asked hashes it before anybody has looked at it; mappings cannot be hashed and are left out.
    """

    name: str | None = None
    hf_config: Mapping[str, object] | None = None
    dense: DenseModel | None = None
    hf_quantization: Mapping[str, object] | None = None
    multi_token_prediction: bool = False

    def __hash__(self) -> int:
        return hash((self.name, self.dense, self.multi_token_prediction))


class InlineAccelerator(Struct, frozen=True):
    """An accelerator by its figures, all per device in base units. ``None`` is unknown."""

    title: str = ""
    peak_dense_flops_per_second: Mapping[str, float] = field(default_factory=dict)
    peak_sparse_flops_per_second: Mapping[str, float] = field(default_factory=dict)
    memory_bandwidth_bytes_per_second: float | None = None
    usable_memory_bytes: float | None = None
    link_bandwidth_one_way_bytes_per_second: float | None = None
    num_devices_in_link_domain: int | None = None


class AcceleratorSpec(Struct, frozen=True):
    """An accelerator: exactly one of ``name`` and ``inline``."""

    name: str | None = None
    inline: InlineAccelerator | None = None


class NodeSpec(Struct, frozen=True):
    """A node type of the catalogue."""

    name: str


class Precision(Struct, frozen=True):
    """Number formats; ``None`` is the checkpoint's own."""

    weights: str | None = None
    kv_cache: str | None = None
    compute: str | None = None


class Parallelism(Struct, frozen=True, order=True):
    """How one replica is split over devices."""

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    attention_data: int = 1

    @property
    def num_devices(self) -> int:
        """Devices of one replica."""
        return self.tensor * self.pipeline * self.attention_data

    @property
    def expert_tensor(self) -> int:
        """Ranks that share each expert: tensor × attention_data / expert."""
        return self.tensor * self.attention_data // self.expert


class EngineSpec(Struct, frozen=True):
    """An engine, its release and its flags. ``None`` is what the release takes by itself.

    The three fractions are vLLM's, SGLang's and TensorRT-LLM's own; each engine refuses the others'. ``block_size`` is tokens
    per block (SGLang: page size). ``max_model_len`` is SGLang's context length, ``max_num_batched_tokens`` its chunked
    prefill size. ``num_speculative_tokens`` widens recurrent states; a drafter's own weights and layers are not added.
    """

    name: str
    version: str | None = None
    gpu_memory_utilization: float | None = None
    mem_fraction_static: float | None = None
    free_gpu_memory_fraction: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_running_requests: int | None = None
    kv_cache_dtype: str | None = None
    block_size: int | None = None
    enforce_eager: bool = False
    enable_prefix_caching: bool | None = None
    disable_hybrid_kv_cache_manager: bool = False
    mamba_ssm_cache_dtype: str | None = None
    num_speculative_tokens: int = 0


class EstimateDecodeRequest(Struct, frozen=True):
    """A decode step to bound."""

    model: ModelSpec
    accelerator: AcceleratorSpec
    parallelism: Parallelism = Parallelism()
    precision: Precision = Precision()
    batch_size: int | None = None
    context_tokens: int | None = None
    memory_utilization_ratio: float | None = None
    explain: bool = False


class EstimateKvMemoryRequest(Struct, frozen=True):
    """A memory budget to draw up."""

    model: ModelSpec
    accelerator: AcceleratorSpec
    context_tokens: int
    parallelism: Parallelism = Parallelism()
    precision: Precision = Precision()
    batch_size: int | None = None
    memory_utilization_ratio: float | None = None
    explain: bool = False
    engine: EngineSpec | None = None


class FitNodeRequest(Struct, frozen=True):
    """Shapes to look for."""

    model: ModelSpec
    context_tokens: int
    node: NodeSpec | None = None
    accelerator: AcceleratorSpec | None = None
    devices_per_node: int | None = None
    precision: Precision = Precision()
    concurrency: int | None = None
    memory_utilization_ratio: float | None = None
    max_num_nodes: int | None = None
    explain: bool = False
    engine: EngineSpec | None = None


class Phase(StrEnum):
    """What a run was doing."""

    TRAINING = "TRAINING"
    INFERENCE = "INFERENCE"
    PREFILL = "PREFILL"
    DECODE = "DECODE"


class ComputeUtilizationRequest(Struct, frozen=True):
    """What a run did."""

    model: ModelSpec
    accelerator: AcceleratorSpec
    num_devices: int
    peak_precision: str
    phase: Phase
    tokens_per_second: float
    sequence_tokens: int | None = None
    batch_size: int | None = None
    tokens_include_padding: bool | None = None
    precision: Precision = Precision()
    nvml_gpu_utilization_ratio: float | None = None
    explain: bool = False


class Page(Struct, frozen=True):
    """Which part of a list."""

    page_size: int | None = None
    page_token: str = ""
