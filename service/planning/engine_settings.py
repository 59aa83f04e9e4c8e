"""A serving engine's settings: what the caller gives, what the release takes where the caller is silent, what is refused."""

from collections.abc import Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from service.architectures import Architecture
from service.catalogue.engines import Engine, EngineFigure, Version, parse_version
from service.catalogue.entries import Catalogue
from service.catalogue.lookup import UnknownName
from service.catalogue.lookup import engine as look_up
from service.planning.device import Device
from service.planning.errors import InvalidRequest, NotFound, Unanswerable, Violation
from service.planning.footprint import FootprintBuilder
from service.planning.requests import EngineSpec, Parallelism

_GIB = 2.0**30
_MIN_CHUNK_TOKENS = 2048

#: The field that carries each engine's memory fraction, by what the fraction is of.
FRACTION_FIELDS = {
    "physical_memory": "gpu_memory_utilization",
    "free_before_load": "mem_fraction_static",
    "free_after_load": "free_gpu_memory_fraction",
}

#: What engines call the formats of a cache.
_CACHE_FORMATS = {
    "auto": None,
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "fp16": "fp16",
    "float32": "fp32",
    "fp32": "fp32",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "int8": "int8",
    "nvfp4": "nvfp4",
}


class EngineRun(Struct, frozen=True):
    """One release of an engine on one kind of device, with every setting decided. ``notes`` say which by default."""

    engine: Engine
    version: Version
    version_text: str
    device: Device
    shape: Parallelism
    memory_fraction: float
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    num_requests: int
    block_tokens: int
    context_limit_tokens: int
    settings: EngineSpec
    notes: tuple[str, ...] = field(default=())

    @property
    def memory_gib(self) -> float:
        """Memory of a device as the driver reports it, in GiB: what engines choose their defaults by."""
        return (self.device.usable_memory_bytes or 0.0) / _GIB

    def known(self, name: str) -> EngineFigure | None:
        """The constant as it holds for this release and device, or None where nothing is known."""
        return self.engine.figure(
            name, self.version, devices=self.shape.tensor, memory_gib=self.memory_gib, accelerator=self.device.title
        )

    def constant(self, name: str) -> EngineFigure:
        """The constant as it holds for this release and device. Unanswerable where nothing is known."""
        found = self.known(name)
        if found is None:
            raise self.unknown(f"{name.replace('_', ' ')} is not known")
        return found

    def word(self, name: str) -> str:
        """What the release does. Unanswerable where nothing is known."""
        found = self.engine.behaviour(name, self.version)
        if found is None:
            raise self.unknown(f"{name.replace('_', ' ')}: what it does is not known")
        return found.word

    def unknown(self, what: str) -> Unanswerable:
        """The refusal for something that is not known of this release."""
        title = f"{self.engine.title} {self.version_text}"
        return Unanswerable("engine", f"{title}: {what}", "leave the engine out for the plain arithmetic")

    @property
    def writes_fp32_states(self) -> bool:
        """Whether recurrent states may stay in fp32 where the model says so; else they follow the model's own format."""
        return self.settings.mamba_ssm_cache_dtype in {"float32", "fp32"}


def resolve_run(
    catalogue: Catalogue, settings: EngineSpec, architecture: Architecture, device: Device, shape: Parallelism
) -> EngineRun:
    """The engine's release with every setting decided.

    NotFound where the catalogue has no such engine; InvalidRequest where a flag is not the engine's or out of range;
    Unanswerable where nothing is known of the release.
    """
    try:
        engine = look_up(catalogue, settings.name)
    except UnknownName as unknown:
        raise NotFound("engine.name", "engine", settings.name, unknown.nearest) from None
    version_text = settings.version or engine.newest_version
    version = _version(engine, version_text)
    bare = EngineRun(
        engine, version, version_text, device, shape, 0.0, 1, 1, 1, 1, 1, architecture.context_limit_tokens or 0, settings
    )
    violations = tuple(_violations(bare, architecture))
    if violations:
        raise InvalidRequest(*violations)
    return _decided(bare, architecture)


def _version(engine: Engine, text: str) -> Version:
    version = parse_version(text)
    if version is None:
        raise InvalidRequest(Violation("engine.version", f"{text!r} is no release", "give it like 0.19.1"))
    if version not in engine.versions:
        missing = f"how {engine.title} {text} allots memory is not known; {engine.versions.text} is"
        raise Unanswerable("engine.version", missing, "leave the engine out for the plain arithmetic")
    return version


def _violations(run: EngineRun, architecture: Architecture) -> Iterator[Violation]:
    settings, own = run.settings, FRACTION_FIELDS[run.word("memory_fraction_of")]
    for name in FRACTION_FIELDS.values():
        given = getattr(settings, name)
        if given is not None and name != own:
            yield Violation(f"engine.{name}", f"{run.engine.title} has no such flag", f"its own is {own}")
        elif given is not None and not 0 < given <= 1:
            yield Violation(f"engine.{name}", "must be above 0 and at most 1")
    for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "max_running_requests", "block_size"):
        given = getattr(settings, name)
        if given is not None and given < 1:
            yield Violation(f"engine.{name}", "must be at least 1")
    if settings.max_model_len is None and architecture.context_limit_tokens is None:
        yield Violation("engine.max_model_len", "the model's own limit is not known", "give it")
    try:
        cache_format(settings.kv_cache_dtype)
    except InvalidRequest as unknown:
        yield from unknown.violations


def _decided(run: EngineRun, architecture: Architecture) -> EngineRun:
    settings, notes = run.settings, []
    if settings.version is None:
        notes.append(f"{run.engine.title} {run.version_text} (no version given: the newest known)")

    def decide(name: str, constant: str) -> int:
        given: int | None = getattr(settings, name)
        if given is not None:
            return given
        value = int(run.constant(constant).value)
        notes.append(f"{name} {value} (default of {run.engine.title} {run.version_text})")
        return value

    max_model_len = settings.max_model_len or architecture.context_limit_tokens or 1
    if settings.max_model_len is None:
        notes.append(f"max_model_len {max_model_len} (the model's own limit)")
    has_table = run.known("default_max_running_requests") is not None
    sequences = 1 if has_table else decide("max_num_seqs", "default_max_num_seqs")
    batched = decide("max_num_batched_tokens", "default_max_num_batched_tokens")
    requests = decide("max_running_requests", "default_max_running_requests") if has_table else sequences
    fraction, fraction_note = _fraction(run, batched)
    return replace(
        run,
        memory_fraction=fraction,
        max_model_len=max_model_len,
        max_num_seqs=sequences,
        max_num_batched_tokens=batched,
        num_requests=requests,
        block_tokens=decide("block_size", "default_block_tokens"),
        notes=tuple(notes) + ((fraction_note,) if fraction_note else ()),
    )


def _fraction(run: EngineRun, batched_tokens: int) -> tuple[float, str]:
    """The memory fraction, and the sentence that says so where it is the release's own."""
    name = FRACTION_FIELDS[run.word("memory_fraction_of")]
    given: float | None = getattr(run.settings, name)
    if given is not None:
        return given, ""
    default = run.known("default_memory_fraction")
    fraction = default.value if default else _fraction_by_reserve(run, batched_tokens)
    return fraction, f"{name} {fraction:g} (default of {run.engine.title} {run.version_text})"


def _fraction_by_reserve(run: EngineRun, chunk_tokens: int) -> float:
    """What is left of the driver's memory beside a reserve for activations, graphs and the number of devices."""
    total = run.device.usable_memory_bytes or 0.0
    reserve = (
        run.constant("fraction_reserve_base").value
        + run.constant("fraction_reserve_per_chunk_token").value * max(chunk_tokens, _MIN_CHUNK_TOKENS)
        + run.constant("fraction_reserve_per_graph_sequence").value * run.constant("default_graph_max_sequences").value
        + run.constant("fraction_reserve_per_device").value * run.shape.tensor * run.shape.pipeline
    )
    floor = run.known("fraction_reserve_floor")
    return round(1 - max(reserve, floor.value if floor else 0.0) / total, 3)


def cache_format(dtype: str | None) -> str | None:
    """The number format of the cache that an engine's word means; None for "auto". InvalidRequest for an unknown word."""
    word = dtype or "auto"
    if word not in _CACHE_FORMATS:
        known = ", ".join(sorted(_CACHE_FORMATS))
        raise InvalidRequest(Violation("engine.kv_cache_dtype", f"{word!r} is not known", f"choose one of {known}"))
    return _CACHE_FORMATS[word]


def cached_as_asked(builder: FootprintBuilder, settings: EngineSpec) -> tuple[FootprintBuilder, str]:
    """The model with its cache in the engine's format, and the sentence that says which.

    "auto" is the checkpoint's own format of the cache, else that of the model, which is fp32 where it is loaded so; it does
    not follow quantised weights.
    """
    asked = _CACHE_FORMATS.get(settings.kv_cache_dtype or "auto")  # an unknown word is refused with all other flags
    chosen = asked or ("fp32" if builder.formats.weights == "fp32" else builder.formats.kv_cache)
    note = f"KV cache in {chosen}" + ("" if asked else " (auto)")
    if chosen == builder.formats.kv_cache:
        return builder, note
    formats = replace(builder.formats, kv_cache=chosen)
    return FootprintBuilder(builder.architecture, formats, builder.multi_token_prediction), note
