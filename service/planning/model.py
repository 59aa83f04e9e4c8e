"""Which model a request means: the catalogue's, an inline config.json, or bare figures."""

from service.architectures import Architecture, UnreadableConfig, read
from service.architectures.architecture import (
    AttentionShape,
    CacheEntry,
    FeedForward,
    LayerKind,
    Mixer,
    Role,
    Split,
    Tensor,
)
from service.catalogue.entries import Catalogue, Model
from service.catalogue.lookup import UnknownName
from service.catalogue.lookup import model as look_up
from service.planning.errors import InvalidRequest, NotFound, Violation
from service.planning.requests import DenseModel, ModelSpec
from service.units import BYTES_PER_ELEMENT

_DENSE_PRECISION = "bf16"


def find_model(catalogue: Catalogue, name: str, field: str = "model.name") -> Model:
    """The catalogue's model of that name or alias. NotFound, with the nearest names, where there is none."""
    try:
        return look_up(catalogue, name)
    except UnknownName as unknown:
        raise NotFound(field, "model", name, unknown.nearest) from None


def check_spec(spec: ModelSpec) -> None:
    """InvalidRequest where a quantisation file is given beside something else than a config.json."""
    if spec.hf_quantization is not None and spec.hf_config is None:
        reason = "a hf_quant_config.json goes with a config.json"
        raise InvalidRequest(Violation("model.hf_quantization", reason, "give model.hf_config too, or leave it out"))


def read_inline(spec: ModelSpec) -> Architecture:
    """The architecture of a model given as config.json or as figures. InvalidRequest where it cannot be read."""
    if spec.dense is not None:
        return dense_architecture(spec.dense)
    if spec.hf_config is None:
        raise InvalidRequest(Violation("model", "no model is given", "give name, hf_config or dense"))
    try:
        return read(spec.hf_config, quantization=spec.hf_quantization)
    except UnreadableConfig as refusal:
        path = f"model.hf_config.{refusal.field}" if refusal.field else "model.hf_config"
        raise InvalidRequest(Violation(path, phrase(refusal.reason), phrase(refusal.remedy))) from None


def phrase(sentence: str) -> str:
    """A whole sentence as part of a longer one, as reasons and assumptions are: "The family …." becomes "the family …".

    >>> phrase("The configuration names no dtype: weights are taken as bfloat16.")
    'the configuration names no dtype: weights are taken as bfloat16'
    >>> phrase("MLA keeps one latent.")
    'MLA keeps one latent'
    """
    body = sentence.rstrip(".")
    return body[:1].lower() + body[1:] if body[1:2].islower() or body[1:2] == " " else body


def dense_architecture(dense: DenseModel) -> Architecture:
    """A decoder whose parameters are all read, and multiplied, once per token.

    Without layers there is no cache: the answer then covers the weights alone. InvalidRequest where the shape is incomplete.
    """
    _check_dense(dense)
    weights = Tensor(
        name="weights",
        role=Role.ALL,
        num_parameters=dense.num_parameters,
        split=Split.EVEN,
        precision=_DENSE_PRECISION,
        num_bytes=dense.num_parameters * BYTES_PER_ELEMENT[_DENSE_PRECISION],
        num_matmul_parameters=dense.num_parameters,
    )
    kind = _dense_layer(dense)
    query_width = (dense.num_query_heads or 0) * (dense.head_dim or 0)
    return Architecture(
        family="dense",
        reader="figures",
        hidden_size=dense.hidden_size or query_width,
        vocab_size=0,
        layer_kinds=() if kind is None else (kind,),
        layer_order=() if kind is None else (0,) * (dense.num_layers or 0),
        outer=(weights,),
        checkpoint_precision=_DENSE_PRECISION,
        notes=("KV cache left out: num_layers, num_query_heads, num_kv_heads and head_dim are not given",)
        if kind is None
        else (),
    )


def _dense_layer(dense: DenseModel) -> LayerKind | None:
    heads, kv_heads, head_dim = dense.num_query_heads, dense.num_kv_heads, dense.head_dim
    if dense.num_layers is None or heads is None or kv_heads is None or head_dim is None:
        return None
    return LayerKind(
        mixer=Mixer.FULL,
        feed_forward=FeedForward.DENSE,
        tensors=(),
        cache=(CacheEntry("kv", 2.0 * kv_heads * head_dim, Split.KV_HEADS),),
        attention=AttentionShape(heads, kv_heads, head_dim, head_dim),
    )


def _check_dense(dense: DenseModel) -> None:
    names = ("num_layers", "num_query_heads", "num_kv_heads", "head_dim")
    missing = [name for name in names if getattr(dense, name) is None]
    if missing and len(missing) < len(names):
        reason = "the shape of the KV cache needs num_layers, num_query_heads, num_kv_heads and head_dim together"
        raise InvalidRequest(*(Violation(f"model.dense.{name}", reason, "give it, or leave out all four") for name in missing))
    heads, kv_heads = dense.num_query_heads, dense.num_kv_heads
    if heads is not None and kv_heads is not None and heads % kv_heads:
        raise InvalidRequest(
            Violation(
                "model.dense.num_kv_heads",
                f"{kv_heads} KV heads do not divide {heads} query heads",
                "each KV head serves the same number of query heads",
            )
        )
