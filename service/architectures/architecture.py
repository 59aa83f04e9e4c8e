"""What a language model is made of, as far as memory, bandwidth and arithmetic are concerned.

A reader turns one ``config.json`` into one ``Architecture``: which tensors each layer stores and how they can be split over
devices, what each layer keeps in the cache, and the shape of its attention. Everything here is a frozen noun; the
arithmetic over it is in ``service.formulas``, joined in ``service.planning``.
"""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property

from msgspec import Struct


class Role(StrEnum):
    """What a tensor is for."""

    EMBEDDING = "EMBEDDING"
    PER_LAYER_EMBEDDING = "PER_LAYER_EMBEDDING"
    LM_HEAD = "LM_HEAD"
    ATTENTION = "ATTENTION"
    LINEAR_ATTENTION = "LINEAR_ATTENTION"
    CROSS_ATTENTION = "CROSS_ATTENTION"
    MLP = "MLP"
    ROUTED_EXPERTS = "ROUTED_EXPERTS"
    SHARED_EXPERTS = "SHARED_EXPERTS"
    ROUTER = "ROUTER"
    NORMS = "NORMS"
    VISION = "VISION"
    ALL = "ALL"  # a caller's bare parameter count, not broken down


class Split(StrEnum):
    """How tensor parallelism divides a tensor or a cache entry over n ranks."""

    EVEN = "EVEN"  # columns, rows, vocabulary or query heads: n ways
    KV_HEADS = "KV_HEADS"  # by KV heads, replicated when there are more ranks than heads
    REPLICATED = "REPLICATED"  # whole on every rank (norms, routers, latent down-projections, the latent cache)
    EXPERTS = "EXPERTS"  # over the expert group: whole experts, then tensor parallel within each


class Mixer(StrEnum):
    """How a layer mixes tokens."""

    FULL = "FULL"
    SLIDING = "SLIDING"
    CHUNKED = "CHUNKED"
    LATENT = "LATENT"
    SPARSE_LATENT = "SPARSE_LATENT"
    LINEAR = "LINEAR"
    CROSS = "CROSS"
    NONE = "NONE"


class FeedForward(StrEnum):
    """What a layer does to each token by itself."""

    DENSE = "DENSE"
    EXPERTS = "EXPERTS"
    NONE = "NONE"


class Tensor(Struct, frozen=True):
    """One weight tensor, or several of one role and one treatment taken together, of one layer."""

    name: str  # as the checkpoint calls it: "q_proj", "experts.gate_up_proj"
    role: Role
    num_parameters: float  # all of it: for routed experts, over all experts of the layer
    split: Split
    precision: str  # a key of service.units.BYTES_PER_ELEMENT: what the checkpoint stores
    num_bytes: float  # as stored, block scales included
    num_matmul_parameters: float  # those that cost 2 FLOPs a token (0 for norms, biases, looked-up tables)


class CacheEntry(Struct, frozen=True):
    """One thing that a layer keeps for a sequence.

    A sequence of T tokens holds ``floor(min(T, window_tokens or T) / tokens_per_entry)`` entries, or ``fixed_entries``
    where given, whatever T is (a recurrent state, the keys of an image).
    """

    name: str  # "kv", "latent", "indexer", "conv_state", "recurrent_state", "cross_kv"
    num_elements: float  # per entry, over all heads of the layer, on one replica
    split: Split
    precision: str | None = None  # None: whatever precision the KV cache has; else its own ("fp32" recurrent state)
    window_tokens: int | None = None
    tokens_per_entry: int = 1
    fixed_entries: int | None = None


class AttentionShape(Struct, frozen=True):
    """What the attention arithmetic of one layer depends on. Latent layers carry their latent dimensions as well."""

    num_query_heads: int
    num_kv_heads: int
    query_key_head_dim: int
    value_head_dim: int
    window_tokens: int | None = None  # at most so many earlier tokens are attended (window, chunk, sparse top-k)
    tokens_per_compressed_entry: int | None = None  # besides: one entry for every so many tokens (DeepSeek-V4)
    max_compressed_entries: int | None = None  # of which an indexer picks at most so many; None attends to all
    kv_lora_rank: int | None = None
    rope_head_dim: int | None = None


class Divided(Struct, frozen=True):
    """Something that tensor parallelism divides besides attention heads: heads or channels of a recurrent layer."""

    what: str  # in the plural: "linear-attention key heads"
    number: int


class QuantizedCut(Struct, frozen=True):
    """A width that ranks divide, of weights with one scale a block or group: each share must be a multiple of ``multiple``.

    A rank's share is never below ``smallest`` (one KV head, where there are more ranks than heads). Where ``of_experts``,
    the ranks that share an expert divide it, else all tensor-parallel ones.
    """

    name: str  # of a weight that has it
    width: int
    multiple: int
    smallest: int = 1
    of_experts: bool = False


class LayerKind(Struct, frozen=True):
    """One kind of layer: all layers of a kind are alike."""

    mixer: Mixer
    feed_forward: FeedForward
    tensors: tuple[Tensor, ...]
    cache: tuple[CacheEntry, ...] = ()
    attention: AttentionShape | None = None  # None where nothing attends to a growing context (linear, none)
    divided: tuple[Divided, ...] = ()


class Experts(Struct, frozen=True):
    """The routed experts of a model (all its expert layers alike)."""

    num_experts: int
    num_experts_per_token: int
    intermediate_size: int


class Architecture(Struct, frozen=True, dict=True):
    """A language model as its config.json describes it.

    ``layer_order`` lists the layers from first to last as indices into ``layer_kinds``, so that pipeline stages can be cut.
    ``outer`` holds what stands before the first layer and after the last (embedding, final norm, lm_head, vision tower).
    ``multi_token_prediction`` holds prediction layers, which are not loaded unless asked for; layer order, totals and
    cache exclude them.
    """

    family: str  # model_type as read
    reader: str  # which reader read it; "generic" where the family is unknown but the decoder keys are all there
    hidden_size: int
    vocab_size: int
    layer_kinds: tuple[LayerKind, ...]
    layer_order: tuple[int, ...]
    outer: tuple[Tensor, ...]
    checkpoint_precision: str  # of the bulk of the weights: "bf16", "fp8", "mxfp4", …
    kv_cache_precision: str | None = None  # what the checkpoint itself declares (an fp8 KV scheme), else None
    embeddings_tied: bool = False  # the lm_head is the embedding table: stored once, read as lm_head
    experts: Experts | None = None
    intermediate_size: int | None = None  # of the dense MLP, where there is one
    quantized_cuts: tuple[QuantizedCut, ...] = ()  # of the weights as the checkpoint stores them
    context_limit_tokens: int | None = None
    multi_token_prediction: tuple[Tensor, ...] = ()
    notes: tuple[str, ...] = ()  # what the reader assumed, in sentences

    @cached_property
    def layer_counts(self) -> tuple[int, ...]:
        """How many layers there are of each kind, in the order of ``layer_kinds``."""
        counts = Counter(self.layer_order)
        return tuple(counts[index] for index in range(len(self.layer_kinds)))

    @property
    def num_layers(self) -> int:
        """Decoder layers, multi-token-prediction layers excluded."""
        return len(self.layer_order)

    def tensors(self) -> Iterator[tuple[Tensor, int]]:
        """Every tensor with the number of times it occurs, multi-token-prediction layers excluded."""
        for tensor in self.outer:
            yield tensor, 1
        for kind, count in zip(self.layer_kinds, self.layer_counts, strict=True):
            for tensor in kind.tensors:
                yield tensor, count

    @cached_property
    def num_parameters(self) -> float:
        """All unique parameters, embeddings included (tied ones once), multi-token-prediction layers excluded."""
        return sum(tensor.num_parameters * count for tensor, count in self.tensors())

    @cached_property
    def num_bytes(self) -> float:
        """Bytes of all weights as the checkpoint stores them, multi-token-prediction layers excluded."""
        return sum(tensor.num_bytes * count for tensor, count in self.tensors())

    @cached_property
    def num_active_parameters(self) -> float:
        """Parameters that one token passes: k of E experts; input embedding and lm_head included, vision tower excluded."""
        return sum(
            tensor.num_parameters * count * self.active_ratio(tensor)
            for tensor, count in self.tensors()
            if tensor.role is not Role.VISION
        )

    def active_ratio(self, tensor: Tensor) -> float:
        """The share of a tensor that one token passes: k/E for routed experts, 1 for all else."""
        if tensor.role is Role.ROUTED_EXPERTS and self.experts is not None:
            return self.experts.num_experts_per_token / self.experts.num_experts
        return 1.0
