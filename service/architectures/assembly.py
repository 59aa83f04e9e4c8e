"""From the layers that a reader lists to an Architecture: storage formats applied, equal layers made one kind."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from service.architectures.architecture import Architecture, Experts, LayerKind, Role, Split, Tensor
from service.architectures.cuts import quantized_cuts
from service.architectures.fields import MAX_TOKENS, Fields
from service.architectures.refusal import UnreadableConfig
from service.architectures.storage import Storage
from service.architectures.weights import Layer, Weight


class Source(Struct, frozen=True):
    """One configuration on its way to a reader: its whole, its text decoder, and how its weights are stored."""

    family: str
    top: Fields
    text: Fields
    storage: Storage


class Model(Struct, frozen=True, kw_only=True):
    """What a reader found."""

    reader: str
    fields: Fields  # as read, for the notes on what fell to class defaults
    hidden_size: int
    vocab_size: int
    layers: Sequence[Layer]
    tied: bool
    layer_numbers: Sequence[int] | None = None  # in the checkpoint's names, where they are not 0, 1, 2, …
    outer: tuple[Weight, ...] = ()  # besides embedding and lm_head: final norm, positions, towers
    embedding_size: int | None = None  # where it is not hidden_size
    lm_head_bias: bool = False
    experts: Experts | None = None
    intermediate_size: int | None = None
    prediction: Sequence[Layer] = ()  # multi-token-prediction layers
    prediction_weights: tuple[Weight, ...] = ()
    notes: tuple[str, ...] = ()


def assemble(source: Source, model: Model) -> Architecture:
    """The architecture of a model as its checkpoint stores it."""
    storage = source.storage
    numbered = tuple(zip(model.layer_numbers or range(len(model.layers)), model.layers, strict=True))
    kinds, order = _kinds(storage, numbered)
    outer = tuple(storage.tensor(weight) for weight in (*_embeddings(model), *model.outer))
    storage_notes = (*storage.notes, *_idle_block_notes(storage, outer, kinds))
    limit = model.fields.maybe_count("max_position_embeddings", at_most=MAX_TOKENS)
    return Architecture(
        family=source.family,
        reader=model.reader,
        hidden_size=model.hidden_size,
        vocab_size=model.vocab_size,
        layer_kinds=kinds,
        layer_order=order,
        outer=outer,
        checkpoint_precision=_bulk_precision(outer, kinds, order),
        kv_cache_precision=storage.kv_cache_precision,
        embeddings_tied=model.tied,
        experts=model.experts,
        intermediate_size=model.intermediate_size,
        quantized_cuts=quantized_cuts(storage, numbered, model.hidden_size, model.experts),
        context_limit_tokens=limit,
        multi_token_prediction=_prediction(storage, model),
        notes=(*storage_notes, *_default_notes(source, model), *model.notes),
    )


def _embeddings(model: Model) -> tuple[Weight, ...]:
    width = model.embedding_size or model.hidden_size
    head = Weight("lm_head", Role.LM_HEAD, Split.EVEN, width, model.vocab_size)
    if model.tied:
        tied = Weight("lm_head (tied with embed_tokens)", Role.LM_HEAD, Split.EVEN, width, model.vocab_size, quantizable=False)
        return (tied,)
    table = Weight("embed_tokens", Role.EMBEDDING, Split.EVEN, width, model.vocab_size, linear=False, quantizable=False)
    if model.lm_head_bias:
        bias = Weight("lm_head.bias", Role.LM_HEAD, Split.EVEN, 1, model.vocab_size, linear=False, quantizable=False)
        return table, head, bias
    return table, head


def _kinds(storage: Storage, layers: Sequence[tuple[int, Layer]]) -> tuple[tuple[LayerKind, ...], tuple[int, ...]]:
    """Layers that are alike and stored alike, each once, and which of them stands where."""
    by_treatment: dict[tuple[int, tuple[frozenset[str], ...]], int] = {}
    by_kind: dict[LayerKind, int] = {}
    order = []
    for number, layer in layers:
        said = storage.said_of_layer(number)
        treatment = (id(layer), said)
        if treatment not in by_treatment:
            kind = _kind(storage, layer, said)
            by_treatment[treatment] = by_kind.setdefault(kind, len(by_kind))
        order.append(by_treatment[treatment])
    return tuple(by_kind), tuple(order)


def _kind(storage: Storage, layer: Layer, said: tuple[frozenset[str], ...]) -> LayerKind:
    return LayerKind(
        mixer=layer.mixer,
        feed_forward=layer.feed_forward,
        tensors=tuple(storage.tensor(weight, said) for weight in layer.weights),
        cache=layer.cache,
        attention=layer.attention,
        divided=layer.divided,
    )


def _idle_block_notes(storage: Storage, outer: Sequence[Tensor], kinds: Sequence[LayerKind]) -> tuple[str, ...]:
    """What to say of a quantisation block that quantises no weight; one that is not of the KV cache alone is refused."""
    tensors = (*outer, *(tensor for kind in kinds for tensor in kind.tensors))
    if not storage.place or any(tensor.precision != storage.plain_precision for tensor in tensors):
        return ()
    if storage.kv_cache_precision is None:
        reason = "It quantises no weight of this model."
        raise UnreadableConfig(storage.place, reason, "Name the modules that it is for, or leave the block out.")
    return (f"The quantisation block is of the KV cache alone: weights are {storage.plain_precision}.",)


def _prediction(storage: Storage, model: Model) -> tuple[Tensor, ...]:
    found = [storage.tensor(weight) for weight in model.prediction_weights]
    for index, layer in enumerate(model.prediction, start=len(model.layers)):
        said = storage.said_of_layer(index)
        found += [storage.tensor(weight, said) for weight in layer.weights]
    return tuple(found)


def _bulk_precision(outer: Sequence[Tensor], kinds: Sequence[LayerKind], order: Sequence[int]) -> str:
    """The number format of most of the weights, the vision tower aside."""
    counts = Counter(order)
    parameters: Counter[str] = Counter()
    for tensor in outer:
        if tensor.role is not Role.VISION:
            parameters[tensor.precision] += int(tensor.num_parameters)
    for index, kind in enumerate(kinds):
        for tensor in kind.tensors:
            parameters[tensor.precision] += int(tensor.num_parameters) * counts[index]
    return parameters.most_common(1)[0][0]


def _default_notes(source: Source, model: Model) -> tuple[str, ...]:
    named = {name: value for name, value in model.fields.defaulted.items() if not isinstance(value, bool) and value != 0}
    if not named:
        return ()
    listed = ", ".join(f"{name} {value}" for name, value in named.items())
    return (f"Absent from the configuration, taken from the class default of {source.family}: {listed}.",)
