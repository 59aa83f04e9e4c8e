"""Which layers attend to a window, and which have experts: the several ways in which configurations say so."""

from typing import Final

from service.architectures.fields import MAX_LAYERS, MAX_TOKENS, Fields, whole

_SLIDING: Final = {"sliding_attention", "sliding", "local", "local_attention", "chunked_attention", "swa"}
_FULL: Final = {"full_attention", "attention", "global", "global_attention", "full"}


def layer_windows(fields: Fields, num_layers: int, *, period: int | None = None) -> list[int | None]:
    """The attention window of every layer in tokens, None where it attends to everything.

    ``layer_types`` decides where it is given; else every ``period``-th layer (sliding_window_pattern, or the family's
    own) is full; without a period every layer has the window.
    """
    window = _window(fields)
    types = fields.texts("layer_types", length=num_layers)
    if types is not None:
        return [window if _slides(fields, index, name) else None for index, name in enumerate(types)]
    if window is None:
        return [None] * num_layers
    given = fields.given("sliding_window_pattern") or fields.given("_sliding_window_pattern")
    if isinstance(given, str) and given and set(given) <= {"L", "G"}:  # EXAONE 4 writes "LLLG"
        return [window if given[index % len(given)] == "L" else None for index in range(num_layers)]
    if given is not None:
        period = whole(fields.place("sliding_window_pattern"), given, 1, MAX_LAYERS)
    if period is None:
        return [window] * num_layers
    return [window if (index + 1) % period else None for index in range(num_layers)]


def switched_windows(fields: Fields, num_layers: int) -> list[int | None]:
    """Qwen's way: a window counts only with use_sliding_window, and only from layer max_window_layers on."""
    if fields.has("layer_types"):
        return layer_windows(fields, num_layers)
    if not fields.flag("use_sliding_window"):
        return [None] * num_layers
    window = _window(fields)
    first = fields.count("max_window_layers", 28, at_least=0)
    return [window if index >= first else None for index in range(num_layers)]


def _window(fields: Fields) -> int | None:
    return fields.maybe_count("sliding_window", at_least=0, at_most=MAX_TOKENS) or None


def no_windows(fields: Fields, num_layers: int) -> list[int | None]:
    """Full attention everywhere, whatever sliding_window says (the family's code ignores it)."""
    del fields
    return [None] * num_layers


def _slides(fields: Fields, index: int, name: str) -> bool:
    if name in _SLIDING:
        return True
    if name in _FULL:
        return False
    raise fields.refuse(
        "layer_types",
        f"Layer {index} is of the type {name[:40]!r}, which this family's reader does not know.",
        "Use full_attention or sliding_attention, or a model_type that has such layers.",
    )


def expert_layers(fields: Fields, num_layers: int) -> list[bool]:
    """Which layers have experts rather than a dense MLP."""
    types = fields.texts("mlp_layer_types", length=num_layers)
    if types is not None:
        return [name in ("sparse", "moe", "hash_moe") for name in types]
    if isinstance(fields.given("moe_layer_freq"), list):
        flags = fields.counts("moe_layer_freq", length=num_layers, at_most=1) or []
        return [bool(flag) for flag in flags]
    if fields.has("moe_layers"):
        chosen = set(fields.counts("moe_layers", at_most=MAX_LAYERS) or [])
        return [index in chosen for index in range(num_layers)]
    if fields.has("moe_layers_enum"):
        chosen = _numbers(fields, "moe_layers_enum")
        return [index in chosen for index in range(num_layers)]
    if fields.has("interleave_moe_layer_step"):
        step = fields.count("interleave_moe_layer_step", at_least=0, at_most=MAX_LAYERS)
        return [bool(step) and (index + 1) % step == 0 for index in range(num_layers)]
    if fields.has("moe_layer_start_index") or fields.has("moe_layer_interval"):
        return _from_start(fields, num_layers)
    if fields.has("expert_layer_period"):
        period = fields.count("expert_layer_period", at_most=MAX_LAYERS)
        offset = fields.count("expert_layer_offset", 1, at_least=0, at_most=MAX_LAYERS)
        return [index % period == offset for index in range(num_layers)]
    if fields.has("mlp_only_layers") or fields.has("decoder_sparse_step"):
        dense = set(fields.counts("mlp_only_layers", at_most=MAX_LAYERS) or [])
        step = fields.count("decoder_sparse_step", 1, at_most=MAX_LAYERS)
        return [index not in dense and (index + 1) % step == 0 for index in range(num_layers)]
    first = fields.count("first_k_dense_replace", 0, at_least=0, at_most=MAX_LAYERS)
    step = fields.count("moe_layer_freq", 1, at_most=MAX_LAYERS)
    return [index >= first and index % step == 0 for index in range(num_layers)]


def _from_start(fields: Fields, num_layers: int) -> list[bool]:
    """ERNIE's way: every interval-th layer from a first to a last one (each may be a list, text first)."""

    def first_of(name: str, default: int, *, at_least: int = 0) -> int:
        value = fields.given(name)
        value = value[0] if isinstance(value, list) and value else value
        return default if value is None else whole(fields.place(name), value, at_least, MAX_LAYERS)

    start = first_of("moe_layer_start_index", 0)
    end = first_of("moe_layer_end_index", num_layers - 1, at_least=-1)
    end = num_layers - 1 if end < 0 else end
    step = first_of("moe_layer_interval", 1, at_least=1)
    return [start <= index <= end and (index + 1) % step == 0 for index in range(num_layers)]


def _numbers(fields: Fields, name: str) -> set[int]:
    text = fields.text(name)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() and len(part) < 6 for part in parts):
        raise fields.refuse(name, "Layer numbers between commas are expected.", 'Give for example "3,4,5".')
    return {int(part) for part in parts}
