"""The question that a start-up log asks: what it says, completed by options and by the catalogue."""

from collections.abc import Iterator
from dataclasses import dataclass

import click

from tonnage import requests
from tonnage.cli import catalogue, options, titles
from tonnage.cli.engine_options import EngineOptions, engine_spec
from tonnage.cli.subject import PartialSubject
from tonnage.client import Client
from tonnage.errors import NotFound
from tonnage.logs import StartupLog, named_gpu
from tonnage.v1.accelerator_pb2 import AcceleratorSpec
from tonnage.v1.capacity_service_pb2 import EstimateKvMemoryRequest, EstimateKvMemoryResponse
from tonnage.v1.catalogue_service_pb2 import Accelerator, Model
from tonnage.v1.engine_pb2 import EngineSpec
from tonnage.v1.model_pb2 import ModelSpec

_AT_LOAD = {"fp8": "fp8", "bitsandbytes": "int4"}
"""Methods by which vLLM and SGLang quantise a 16-bit checkpoint as they load it, and the format of its weights then.

All other methods need a checkpoint that is quantised already. bitsandbytes is 4 bits unless the checkpoint says otherwise
(vLLM, bitsandbytes.py)."""
_SAME_MEMORY = 0.004
"""Share by which what a framework sees differs between drivers of one GPU."""


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """The request that a log made, and what one calls its parts."""

    request: EstimateKvMemoryRequest
    model_title: str
    hardware_title: str
    split_title: str

    def ask(self, client: Client) -> EstimateKvMemoryResponse:
        """The answer."""
        return client.estimate_kv_memory(self.request)


def completed(
    client: Client,
    log: StartupLog,
    text: str,
    subject: PartialSubject,
    split: options.Split,
    formats: options.Formats,
    engine_options: EngineOptions,
) -> LogQuestion:
    """The question. A UsageError names what neither the log nor an option says; NotFound a model that nobody knows."""
    engine = engine_spec(log.engine, engine_options.release or log.version, {**log.flags, **engine_options.flags()})
    accelerator, hardware_title, alike = _hardware(client, log, text, subject)
    missing = list(_missing(log, subject, accelerator, engine, alike))
    if missing:
        raise click.UsageError("\n".join(["the log does not say everything; give", *(f"  {line}" for line in missing)]))
    model, model_title = subject.model, subject.model_title
    entries = list(catalogue.whole(client.list_models()).models)
    if model is None:
        model_title = _catalogued(entries, log.model or "")
        model = ModelSpec(name=model_title, multi_token_prediction=subject.multi_token_prediction)
    plain = {name.lower() for entry in entries for name in _names_if_plain(entry)}
    shape = options.Split(**{name: _first(getattr(split, name), log.split.get(name)) for name in split.given()})
    given = formats.given()
    given["weights"] = given["weights"] or _loaded_as(log, model, plain)
    request = requests.estimate_kv_memory(
        model=model,
        accelerator=accelerator,
        context_tokens=engine.max_model_len,
        engine=engine,
        **shape.given(),
        **given,
    )
    return LogQuestion(request, model_title, hardware_title, titles.split(request.parallelism))


def _names_if_plain(entry: Model) -> tuple[str, ...]:
    """The names of a model whose checkpoint is not quantised; none where it is."""
    return (entry.name, *entry.aliases) if entry.checkpoint_precision in {"bf16", "fp16", "fp32"} else ()


def _loaded_as(log: StartupLog, model: ModelSpec, plain: set[str]) -> str | None:
    """The format that the engine brought a 16-bit checkpoint into as it loaded it; None where it left it as it is."""
    if log.dtype in {"float32", "float"}:  # 16-bit formats are the checkpoint's own, or as large
        return "fp32"
    is_plain = model.name.lower() in plain if model.HasField("name") else not _is_quantised(model)
    return _AT_LOAD.get((log.quantization or "").lower()) if is_plain else None


def _is_quantised(model: ModelSpec) -> bool:
    own = model.hf_config.fields
    inner = own["text_config"].struct_value.fields if "text_config" in own else {}
    return model.HasField("hf_quantization") or any("quantization_config" in each for each in (own, inner))


def _hardware(
    client: Client, log: StartupLog, text: str, subject: PartialSubject
) -> tuple[AcceleratorSpec | None, str, tuple[str, ...]]:
    """The accelerator with its name; where nobody names it, None and those that have the logged memory."""
    if subject.accelerator is not None:
        return subject.accelerator, subject.hardware_title, ()
    entries = list(catalogue.whole(client.list_accelerators()).accelerators)
    name = named_gpu(text, {entry.name: entry.gpu_product_labels for entry in entries})
    if name is None:
        return None, "", _alike(entries, log.figures.get("physical_memory_bytes"))
    return AcceleratorSpec(name=name), name, ()


def _first(option: int | None, logged: int | None) -> int | None:
    return logged if option is None else option


def _missing(
    log: StartupLog,
    subject: PartialSubject,
    accelerator: AcceleratorSpec | None,
    engine: EngineSpec,
    candidates: tuple[str, ...],
) -> Iterator[str]:
    if subject.model is None and log.model is None:
        yield "--model NAME or --config FILE: which model it is"
    if accelerator is None:
        alike = f" (by its memory {' or '.join(candidates)})" if candidates else ""
        yield f"--accelerator NAME: which GPU it ran on{alike}"
    if not engine.HasField("max_model_len"):
        yield "--max-model-len N: the longest sequence that it accepts"


def _alike(entries: list[Accelerator], memory_bytes: float | None) -> tuple[str, ...]:
    """The accelerators of which a framework sees so much memory."""
    if memory_bytes is None:
        return ()
    seen = {entry.name: entry.framework_visible_memory.value for entry in entries if entry.HasField("framework_visible_memory")}
    return tuple(name for name, value in seen.items() if abs(value / memory_bytes - 1) < _SAME_MEMORY)


def _catalogued(models: list[Model], name: str) -> str:
    """The catalogue's name for a model that was started by its id or from a folder. NotFound where it has none."""
    wanted = _bare(name)
    for model in models:
        if name.lower() in {known.lower() for known in (model.name, *model.aliases)}:
            return model.name
    for model in models:
        if wanted in {_bare(known) for known in (model.name, *model.aliases)}:
            return model.name
    raise NotFound(f"the catalogue has no model {name}; give its config.json with --config, or its like with --model")


def _bare(name: str) -> str:
    """The last part of an id or a path; of a folder in the Hugging Face cache, the model's.

    >>> _bare("/models/Llama-3.1-8B-Instruct/"), _bare("/hub/models--Qwen--Qwen3-32B/snapshots/9216db5781bf")
    ('llama-3.1-8b-instruct', 'qwen3-32b')
    """
    cached = [part for part in name.split("/") if part.startswith("models--")]
    last = cached[-1].split("--")[-1] if cached else name.rstrip("/").rpartition("/")[2]
    return last.lower()
