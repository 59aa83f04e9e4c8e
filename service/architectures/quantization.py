"""What the quantisation block of a checkpoint says: number formats, scales, and what is left out.

Blocks come as ``quantization_config`` (or the older ``compression_config``) in config.json, at the top or in
text_config, or as a separate hf_quant_config.json. Each quant_method has its own keys; a method that is not known is
refused, since guessing it would get the bytes wrong by a factor of two to eight.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from service.architectures.fields import REQUIRED, Fields, kind, mapping
from service.architectures.modules import MAX_PATTERNS, Modules
from service.architectures.refusal import UnreadableConfig
from service.architectures.storage import Format, Rule, Storage

#: Formats that one checkpoint may mix; each has a list of modules to be asked for every weight of every layer.
MAX_FORMATS: Final = 32
_SMALLEST_EXPERT_GROUP: Final = 32

_DTYPES: Final = {
    "float32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
}  # fmt: skip

# Weight scales: fp8 blocks carry float32 (DeepSeek-V3 README_WEIGHTS), NVFP4 one fp8 scale a group of 16 and one
# float32 a matrix, MX formats one 8-bit exponent a group of 32 (OCP MX 1.0), integer groups a 16-bit scale.
_NVFP4: Final = Format("nvfp4", 4, 1, 16, scale_bytes=1, matrix_bytes=4)
# Engines give each rank whole groups of MXFP4 experts and pad what the last one lacks (vLLM gpt_oss.py, mxfp4.py).
_MXFP4: Final = Format("mxfp4", 4, 1, 32, scale_bytes=1, expert_cut=1)
_FP8_MATRIX: Final = Format("fp8", 8, matrix_bytes=4)
_FP8_CHANNEL: Final = Format("fp8", 8, 1, None)
_FP8_BLOCK: Final = Format("fp8", 8, 128, 128)

#: quant_algo of NVIDIA ModelOpt → format (modelopt.torch.export, hf_quant_config.json).
_MODELOPT: Final[Mapping[str, Format]] = {
    "FP8": _FP8_MATRIX,
    "FP8_PER_CHANNEL_PER_TOKEN": _FP8_CHANNEL,
    "FP8_PB_WO": _FP8_BLOCK,
    "FP8_PB_REAL": _FP8_BLOCK,
    "MXFP8": Format("fp8", 8, 1, 32, scale_bytes=1),
    "NVFP4": _NVFP4,
    "NVFP4_AWQ": _NVFP4,
    "NVFP4_SVD": _NVFP4,
    "W4A16_NVFP4": _NVFP4,
    "W4A8_NVFP4_FP8": _NVFP4,
    "W4A8_MXFP4_FP8": _MXFP4,
    "MXFP4": _MXFP4,
    "INT4_AWQ": Format("int4", 4, 1, 128, scale_bytes=2),
    "W4A16_AWQ": Format("int4", 4, 1, 128, scale_bytes=2),
    "W4A8_AWQ": Format("int4", 4, 1, 128, scale_bytes=2),
    "W8A16": Format("int8", 8, 1, None, scale_bytes=2),
    "W8A8_SQ_PER_CHANNEL": Format("int8", 8, 1, None),
    "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN": Format("int8", 8, 1, None),
}

_UNKNOWN_METHOD: Final = "Give the unquantised configuration, or the quantisation in one of the known methods."


def storage_of(top: Fields, text: Fields, separate: Mapping[str, object] | None) -> Storage:
    """How the checkpoint stores its weights, from the configuration and a separate hf_quant_config.json, if any."""
    plain, notes = _plain_precision(top, text)
    block = _block(top, text)
    if separate is not None and (block is None or not (block.has("quant_algo") or block.has("producer"))):
        whole_file = Fields(mapping("quantization", separate), path="quantization.")
        block = whole_file.section("quantization") or whole_file
    if block is None:
        return Storage(plain_precision=plain, notes=notes)
    method = block.text("quant_method", "modelopt" if block.has("quant_algo") else "")
    if method == "" and separate is not None:  # hf_quant_config.json with quant_algo null: nothing is quantised
        return Storage(plain_precision=plain, kv_cache_precision=_kv_cache_precision(block), notes=notes)
    read_method = _METHODS.get(method.lower().removeprefix("intel/"))
    if read_method is None:
        raise block.refuse("quant_method", f"The method {method[:40]!r} is not known.", _UNKNOWN_METHOD)
    storage = read_method(block, Storage(plain_precision=plain, place=block.path.rstrip("."), notes=notes))
    if storage.default is not None and text.text("expert_dtype", "") == "fp4":
        # DeepSeek-V4 says fp8 in its block and keeps the routed experts in MXFP4 (32 elements a scale) all the same.
        storage = replace(storage, experts=_MXFP4)
    return replace(storage, kv_cache_precision=storage.kv_cache_precision or _kv_cache_precision(block))


def _block(top: Fields, text: Fields) -> Fields | None:
    for fields in (top, text):
        for name in ("quantization_config", "compression_config"):
            block = fields.section(name)
            if block is not None and block.values:
                return block
    return None


def _plain_precision(top: Fields, text: Fields) -> tuple[str, tuple[str, ...]]:
    for fields in (text, top):
        for name in ("dtype", "torch_dtype"):
            value = fields.given(name)
            if value is None or value == "auto":
                continue
            precision = _DTYPES.get(fields.text(name).removeprefix("torch."))
            if precision is None:
                raise fields.refuse(name, "This number format is not known.", "Give bfloat16, float16 or float32.")
            return precision, ()
    return "bf16", ("The configuration names no dtype: weights are taken as bfloat16.",)


def _kv_cache_precision(block: Fields) -> str | None:
    """What the checkpoint declares for its own KV cache, None where it declares nothing."""
    algorithm = block.text("kv_cache_quant_algo", "")
    if algorithm:
        return {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4"}.get(algorithm)
    scheme = block.section("kv_cache_scheme")
    if scheme is None or scheme.maybe_count("num_bits", at_most=32) != 8:
        return None
    return "int8" if scheme.text("type", "float") == "int" else "fp8"


def _patterns(block: Fields, *names: str) -> list[str]:
    found: list[str] = []
    for name in names:
        value = block.given(name)
        if value is None:
            continue
        items = value if isinstance(value, list | tuple) else [value]
        if len(items) > MAX_PATTERNS:
            raise block.refuse(name, f"It has {len(items):,} entries.", f"Give at most {MAX_PATTERNS:,}.")
        for item in items:
            if not isinstance(item, str):
                raise block.refuse(name, f"A module name is expected, not {kind(item)}.", "Give a list of strings.")
            found.append(item)
    return found


def _excluding(storage: Storage, patterns: Iterable[str], place: str) -> Storage:
    """The storage with the named modules left in the plain dtype, before any other rule."""
    modules = Modules(patterns, place.rstrip("."))
    if not modules and not modules.mentions_vision:
        return storage
    return replace(
        storage,
        rules=(Rule(modules, None), *storage.rules) if modules else storage.rules,
        quantizes_vision=storage.quantizes_vision and not modules.mentions_vision,
    )


def _block_format(block: Fields) -> Format:
    sides = block.counts("weight_block_size", at_least=1, at_most=65_536)
    if sides is None:
        return _FP8_MATRIX
    if len(sides) != 2:
        raise block.refuse("weight_block_size", f"It has {len(sides)} entries.", "Give rows and columns.")
    return Format("fp8", 8, sides[0], sides[1])


def _fp8(block: Fields, plain: Storage) -> Storage:
    storage = replace(plain, default=_block_format(block), rules=_rules_of_layers(block))
    return _excluding(storage, _patterns(block, "modules_to_not_convert", "ignored_layers"), block.path)


def _fbgemm_fp8(block: Fields, plain: Storage) -> Storage:
    # Meta's checkpoints quantise the feed-forward layers alone (The Llama 3 Herd of Models, section 6.2), whether or not
    # the list names the attention of every layer.
    storage = replace(plain, default=_FP8_CHANNEL)
    return _excluding(storage, ["self_attn", *_patterns(block, "modules_to_not_convert")], block.path)


def _mxfp4(block: Fields, plain: Storage) -> Storage:
    # transformers 5.24 quantizer_mxfp4 replaces the experts alone.
    storage = replace(plain, experts=_MXFP4)
    return _excluding(storage, _patterns(block, "modules_to_not_convert"), block.path)


def _mxfp8(block: Fields, plain: Storage) -> Storage:
    storage = replace(plain, default=_MODELOPT["MXFP8"])
    return _excluding(storage, _patterns(block, "modules_to_not_convert", "ignored_layers"), block.path)


def _modelopt(block: Fields, plain: Storage) -> Storage:
    algorithm = block.text("quant_algo", "" if block.has("config_groups") else REQUIRED).upper()
    if block.has("quantized_layers"):
        storage = replace(plain, rules=_rules_of_layers(block))
    elif algorithm in ("MIXED_PRECISION", ""):
        storage = _of_groups(block, plain)
    else:
        storage = replace(plain, default=_modelopt_format(block, algorithm))
    return _excluding(storage, _patterns(block, "ignore", "exclude_modules"), block.path)


def _modelopt_format(block: Fields, algorithm: str) -> Format:
    chosen = _MODELOPT.get(algorithm)
    if chosen is None:
        raise block.refuse("quant_algo", f"The algorithm {algorithm[:40]!r} is not known.", _UNKNOWN_METHOD)
    group = block.maybe_count("group_size", at_most=65_536)
    grouped = chosen.block_rows == 1 and chosen.block_columns is not None
    return replace(chosen, block_columns=group) if grouped and group else chosen


def _rules_of_layers(block: Fields) -> tuple[Rule, ...]:
    """``quantized_layers``: module → its own algorithm, where a checkpoint mixes several."""
    layers = block.section("quantized_layers")
    if layers is None:
        return ()
    if len(layers.values) > MAX_PATTERNS:
        raise block.refuse("quantized_layers", "It has too many entries.", f"Give at most {MAX_PATTERNS:,}.")
    named: dict[Format | None, list[str]] = {}
    formats: dict[tuple[str, str], Format] = {}
    for name, value in layers.values.items():
        entry = mapping(layers.path + name, value)
        key = (repr(entry.get("quant_algo"))[:100], repr(entry.get("group_size"))[:100])
        if key not in formats:
            fields = Fields(entry, path=f"{layers.path}{name}.")
            formats[key] = _modelopt_format(fields, fields.text("quant_algo").upper())
        named.setdefault(formats[key], []).append(name)
    return _rules(named, layers.path)


def _rules(named: Mapping[Format | None, list[str]], place: str) -> tuple[Rule, ...]:
    """One rule a format, for the modules that are named for it."""
    if len(named) > MAX_FORMATS:
        raise UnreadableConfig(place.rstrip("."), f"It mixes {len(named):,} number formats.", f"Give at most {MAX_FORMATS}.")
    return tuple(Rule(Modules(names, place), chosen) for chosen, names in named.items())


def _compressed_tensors(block: Fields, plain: Storage) -> Storage:
    storage = replace(_of_groups(block, plain), quantizes_lm_head=True)
    return _excluding(storage, _patterns(block, "ignore"), block.path)


def _of_groups(block: Fields, plain: Storage) -> Storage:
    """``config_groups``: each has targets, all linear layers or some modules, and a format of their weights."""
    groups = block.section("config_groups")
    default = plain.default
    named: dict[Format | None, list[str]] = {}
    for name in groups.values if groups is not None else ():
        group = groups.section(name) if groups is not None else None
        weights = group.section("weights") if group is not None else None
        if group is None or weights is None:
            continue
        chosen = _group_format(group, weights, plain.plain_bytes)
        targets = _patterns(group, "targets")
        if any(target in ("Linear", "re:.*") for target in targets):
            default = chosen
        else:
            named.setdefault(chosen, []).extend(targets)
    return replace(plain, default=default, rules=_rules(named, block.path + "config_groups"))


def _group_format(group: Fields, weights: Fields, plain_bytes: float) -> Format:
    """The weights of a compressed-tensors group: num_bits, type, strategy, group_size, block_structure."""
    precision, bits = _element(weights, "num_bits", weights.count("num_bits", at_most=64), weights.text("type", "int"))
    size = weights.maybe_count("group_size", at_least=-1, at_most=65_536)
    strategy = weights.text("strategy", "group" if size and size > 0 else "tensor")
    if precision == "fp4":
        return _MXFP4 if size == 32 else replace(_NVFP4, block_columns=size or 16)
    zero_point_bits = 0 if weights.flag("symmetric", True) else bits
    if strategy == "block":
        sides = weights.counts("block_structure", length=2, at_least=1, at_most=65_536) or [128, 128]
        return Format(precision, bits, sides[0], sides[1])
    if strategy in ("group", "tensor_group") and size and size > 0:
        return Format(precision, bits, 1, size, scale_bytes=plain_bytes, zero_point_bits=zero_point_bits)
    if strategy == "channel":
        return Format(precision, bits, 1, None, scale_bytes=plain_bytes, zero_point_bits=zero_point_bits)
    if strategy == "tensor":
        return Format(precision, bits)
    raise group.refuse("weights", f"The strategy {strategy[:40]!r} is not known.", _UNKNOWN_METHOD)


def _element(block: Fields, key: str, bits: int, number: str) -> tuple[str, int]:
    names = {("int", 8): "int8", ("int", 4): "int4", ("float", 8): "fp8", ("float", 4): "fp4"}
    precision = names.get((number, bits))
    if precision is None:
        raise block.refuse(key, f"{bits} bits of type {number[:20]!r} are not known.", _UNKNOWN_METHOD)
    return precision, bits


def _halved_group(group: int) -> int:
    """What a rank's share of an expert must be a multiple of: groups of experts are halved, down to 32 (vLLM moe_wna16.py)."""
    while group % 2 == 0 and group // 2 >= _SMALLEST_EXPERT_GROUP:
        group //= 2
    return group


def _awq(block: Fields, plain: Storage) -> Storage:
    key = "w_bit" if block.has("w_bit") and not block.has("bits") else "bits"
    bits = block.count(key, 4, at_most=64)
    group = block.count("group_size", block.count("q_group_size", 128, at_least=-1), at_least=-1, at_most=65_536)
    zero = bits if block.flag("zero_point", True) else 0
    precision, bits = _element(block, key, bits, "int")
    columns, cut = (group, _halved_group(group)) if group > 0 else (None, None)
    chosen = Format(precision, bits, 1, columns, scale_bytes=2, zero_point_bits=zero, expert_cut=cut)
    storage = replace(plain, default=chosen, quantizes_vision=False)
    return _excluding(storage, _patterns(block, "modules_to_not_convert"), block.path)


def _gptq(block: Fields, plain: Storage) -> Storage:
    bits, group = block.count("bits", at_most=64), block.count("group_size", 128, at_least=-1, at_most=65_536)
    storage = replace(
        plain,
        default=_gptq_format(block, bits, group),
        quantizes_vision=False,
        quantizes_lm_head=block.flag("lm_head"),
    )
    patterns = _patterns(block, "modules_to_not_convert", "modules_in_block_to_not_quantize")
    named: dict[Format | None, list[str]] = {None: patterns} if patterns else {}
    dynamic = block.section("dynamic")  # "-:expression" leaves modules out, "+:expression" quantises them otherwise
    for name in dynamic.values if dynamic is not None else ():
        own = dynamic.section(name) if dynamic is not None and not name.startswith("-:") else None
        chosen = (
            None if own is None else _gptq_format(own, own.count("bits", bits), own.count("group_size", group, at_least=-1))
        )
        named.setdefault(chosen, []).append(f"re:{name.removeprefix('-:').removeprefix('+:')}")
    return replace(storage, rules=_rules(named, f"{block.path}dynamic"))


def _gptq_format(block: Fields, bits: int, group: int) -> Format:
    """GPTQ's weights: zeros are stored in symmetric schemes too, and g_idx names the group of every input (int32)."""
    precision, bits = _element(block, "bits", bits, "int")
    columns, cut = (group, _halved_group(group)) if group > 0 else (None, None)
    return Format(precision, bits, 1, columns, scale_bytes=2, zero_point_bits=bits, input_bytes=4, expert_cut=cut)


def _quark(block: Fields, plain: Storage) -> Storage:
    overall = block.section("global_quant_config")
    weight = overall.section("weight") if overall is not None else None
    storage = replace(plain, default=_quark_format(weight) if weight is not None else None)
    layers = block.section("layer_quant_config")
    named: dict[Format | None, list[str]] = {}
    for name in layers.values if layers is not None else ():
        entry = layers.section(name) if layers is not None else None
        own = entry.section("weight") if entry is not None else None
        named.setdefault(_quark_format(own) if own is not None else None, []).append(name)
    storage = replace(storage, rules=_rules(named, block.path + "layer_quant_config"))
    return _excluding(storage, _patterns(block, "exclude"), block.path)


def _quark_format(weight: Fields) -> Format:
    dtype = weight.text("dtype")
    group = weight.maybe_count("group_size", at_least=-1, at_most=65_536)
    columns = group if group and group > 0 else None
    scheme = weight.text("qscheme", "per_tensor")
    if dtype in ("fp4", "mxfp4", "mx"):
        return replace(_MXFP4, block_columns=columns or 32)
    if dtype in ("fp8_e4m3", "fp8_e5m2"):
        return _FP8_CHANNEL if scheme == "per_channel" else _FP8_MATRIX
    if dtype in ("int8", "uint8", "int4", "uint4"):
        bits = int(dtype[-1])
        return Format(f"int{bits}", bits, None if scheme == "per_tensor" else 1, columns, scale_bytes=2)
    raise weight.refuse("dtype", f"The number format {dtype[:40]!r} is not known.", _UNKNOWN_METHOD)


def _bitsandbytes(block: Fields, plain: Storage) -> Storage:
    if block.flag("load_in_4bit") or block.flag("_load_in_4bit"):
        nested = block.flag("bnb_4bit_use_double_quant")  # scales of 64 elements, themselves 8 bits per 256
        chosen = Format("int4", 4, 1, 64, scale_bytes=1 + 4 / 256 if nested else 4, cut=1)
        note = "bitsandbytes NF4 weights are counted as a 4-bit integer format."
    else:
        chosen, note = Format("int8", 8, 1, None), ""
    storage = replace(plain, default=chosen, notes=(*plain.notes, note) if note else plain.notes)
    return _excluding(storage, _patterns(block, "llm_int8_skip_modules"), block.path)


def _auto_round(block: Fields, plain: Storage) -> Storage:
    storage = _gptq(block, plain)
    extra = block.section("extra_config")
    excluded = []
    for name in extra.values if extra is not None else ():
        entry = extra.section(name) if extra is not None else None
        if entry is not None and entry.count("bits", 16, at_most=64) >= 16:
            excluded.append(name)
    return _excluding(storage, excluded, block.path)


_METHODS: Final[Mapping[str, Callable[[Fields, Storage], Storage]]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm_fp8,
    "mxfp4": _mxfp4,
    "mxfp8": _mxfp8,
    "modelopt": _modelopt,
    "modelopt_mixed": _modelopt,
    "modelopt_fp4": _modelopt,
    "compressed-tensors": _compressed_tensors,
    "awq": _awq,
    "gptq": _gptq,
    "quark": _quark,
    "bitsandbytes": _bitsandbytes,
    "auto-round": _auto_round,
}
