"""Measured runs, and what each of them asked of a device."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from service.catalogue.entries import Catalogue
from service.catalogue.lookup import UnknownName, accelerator, model
from service.planning.decode_step import DecodePlan
from service.planning.errors import InvalidRequest, NotFound, Unanswerable
from service.planning.requests import AcceleratorSpec, EngineSpec, ModelSpec, Parallelism, Precision
from service.planning.resolve import Resolver, SplitModel
from service.planning.serving.places import default_places
from service.planning.serving.work import ServingWork, serving_work

DATA: Final = Path(__file__).parent / "data"
_ENGINES: Final = {"trtllm": "tensorrt-llm", "vLLM(ROCm)": "vllm"}
_WEIGHTS: Final = {"fp4": "nvfp4", "f16": "fp16", "Q4_K_M": "int4"}
#: Models as the data name them, where that is no alias of the catalogue.
_GPUS: Final = {
    "A100-SXM-80": "a100-sxm-80",
    "A100-PCIe-80": "a100-pcie-80",
    "RTX3090": "rtx-3090",
    "RTX4090": "rtx-4090",
    "RTXA6000": "rtx-a6000",
    "RTX6000Ada": "rtx-6000-ada",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run. Times in seconds; ``None`` was not measured."""

    model: str
    accelerator: str  # the catalogue's name
    architecture: str
    engine: str
    version: str
    day: date | None
    precision: str  # as the data say
    asked: Precision  # as one would ask for it
    shape: Parallelism
    input_tokens: float
    output_tokens: float
    concurrency: float
    inter_token_seconds: float
    first_token_seconds: float | None
    batch: float  # that decoded at a time
    is_static: bool  # one batch from the first token to the last, nothing arriving in between
    work: ServingWork
    places: float  # requests that find room at a time

    @property
    def pair(self) -> str:
        """What a run is like: runs of one pair are left out together."""
        return f"{self.model} on {self.accelerator}"

    @property
    def family(self) -> tuple[object, ...]:
        """Runs that differ only in concurrency."""
        lengths = (self.input_tokens, self.output_tokens)
        return (self.pair, self.engine, self.version, self.precision, self.shape, lengths, self.day)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A row that has no estimate, and why."""

    row: int
    subject: str
    reason: str


class Reader:
    """Reads measured runs against a catalogue."""

    def __init__(self, catalogue: Catalogue, kv_cache: Mapping[tuple[str, str], str]) -> None:
        """``kv_cache``: by engine and architecture, the precision that the cache of quantised weights is taken to have."""
        self._catalogue = catalogue
        self._resolver = Resolver(catalogue)
        self._kv_cache = kv_cache
        self._work = lru_cache(maxsize=None)(self._work_of)

    def serving(self, path: Path) -> tuple[list[Run], list[Unanswered]]:
        """A file of end-to-end runs in a closed loop."""
        return self._read(path, self._serving_run)

    def decode(self, path: Path) -> tuple[list[Run], list[Unanswered]]:
        """A file of decode runs with a batch of their own."""
        return self._read(path, self._decode_run)

    def _read(self, path: Path, read: Any) -> tuple[list[Run], list[Unanswered]]:
        runs, unanswered = [], []
        with path.open(newline="") as file:
            for number, row in enumerate(csv.DictReader(file), start=2):
                try:
                    runs.append(read(row))
                except (UnknownName, InvalidRequest, NotFound, Unanswerable, ValueError) as reason:
                    subject = f"{row['model']} on {row.get('accelerator') or row.get('gpu')}"
                    unanswered.append(Unanswered(number, subject, str(reason)))
        return runs, unanswered

    def _serving_run(self, row: Mapping[str, str]) -> Run:
        devices = _count(row["num_devices"])
        groups = _count(row["attention_data_parallel"])
        # The data multiply tensor and expert parallelism into one column in places: the devices say what it is.
        stages = _count(row["pipeline_parallel"])
        shape = Parallelism(
            tensor=devices // (groups * stages),
            pipeline=stages,
            expert=_count(row["expert_parallel"]),
            attention_data=groups,
        )
        return self._run(
            row["model"],
            row["accelerator"],
            row["engine"],
            row["engine_version"],
            row["weight_precision"],
            shape,
            day=date.fromisoformat(row["date"]) if row["date"] else None,
            kv_cache=None,
            lengths=(float(row["input_tokens"]), float(row["output_tokens"])),
            concurrency=float(row["concurrency"]),
            inter_token_seconds=float(row["measured_tpot_ms"]) / 1e3,
            first_token_seconds=float(row["measured_ttft_ms"]) / 1e3,
            batch=max(1.0, float(row["effective_batch"])),
            is_static=False,
        )

    def _decode_run(self, row: Mapping[str, str]) -> Run:
        if row["spec_decode"] or "draft" in row["model"]:
            raise ValueError("speculative decoding: the accepted length is not recorded")
        batch = float(row["batch"])
        return self._run(
            row["model"],
            _GPUS.get(row["gpu"], row["gpu"]),
            row["engine"],
            row["version"],
            row["weight_precision"],
            Parallelism(tensor=_count(row["tp"]), pipeline=_count(row["pp"])),
            day=None,
            kv_cache=row["kv_precision"],
            lengths=(float(row["input_len"] or 128), float(row["output_len"] or 128)),
            concurrency=batch,
            inter_token_seconds=float(row["tpot_ms"]) / 1e3,
            first_token_seconds=None,
            batch=batch,
            is_static=True,
        )

    def _run(
        self,
        name: str,
        gpu: str,
        engine: str,
        version: str,
        weights: str,
        shape: Parallelism,
        *,
        kv_cache: str | None,
        lengths: tuple[float, float],
        **measured: Any,
    ) -> Run:
        device = accelerator(self._catalogue, gpu)
        entry = model(self._catalogue, name)
        engine = _ENGINES.get(engine, engine)
        kept = kv_cache or self._assumed_cache(engine, device.architecture, weights)
        split, plan, work = self._work(entry.name, device.name, weights, kept, shape)
        return Run(
            model=entry.name,
            accelerator=device.name,
            architecture=device.architecture,
            engine=engine,
            version=version,
            precision=weights,
            asked=self._precision(entry.name, device.name, weights, kv_cache),
            shape=shape,
            input_tokens=lengths[0],
            output_tokens=lengths[1],
            work=work,
            places=default_places(split, plan, EngineSpec(engine), lengths[0] + lengths[1] / 2)[0].most,
            **measured,
        )

    def _assumed_cache(self, engine: str, architecture: str, weights: str) -> str:
        return "bf16" if weights in {"bf16", "fp16"} else self._kv_cache.get((engine, architecture), "bf16")

    def _work_of(
        self, name: str, gpu: str, weights: str, kv_cache: str, shape: Parallelism
    ) -> tuple[SplitModel, DecodePlan, ServingWork]:
        precision = self._precision(name, gpu, weights, kv_cache)
        split, plan = self._resolver.plan(ModelSpec(name=name), AcceleratorSpec(name=gpu), precision, shape)
        return split, plan, serving_work(split, plan)

    def _precision(self, name: str, gpu: str, weights: str, kv_cache: str | None) -> Precision:
        """The formats that the data mean; the checkpoint's own where it is kept in 4 bits already."""
        asked = _WEIGHTS.get(weights, weights)
        if self._resolver.named_architecture(name).checkpoint_precision == "mxfp4" and asked == "nvfp4":
            return Precision(kv_cache=kv_cache)
        return Precision(weights=asked, kv_cache=kv_cache, compute=_widened(self._catalogue, gpu, asked))


def _widened(catalogue: Catalogue, gpu: str, weights: str) -> str | None:
    """The 16-bit arithmetic of devices that have none as narrow as the weights."""
    peaks = {peak.precision for peak in catalogue.accelerators[gpu].peaks}
    narrow = {"fp8": "fp8", "int8": "int8", "nvfp4": "fp4"}.get(weights)
    return None if narrow is None or narrow in peaks else "bf16"


def _count(text: str) -> int:
    return int(float(text)) if text else 1


def stacked(items: Iterable[Any]) -> Any:
    """Structs of one type as one, with arrays in its fields; tuples and structs within likewise."""
    items = list(items)
    first = items[0]
    if isinstance(first, Struct):
        parts = {name: stacked([getattr(item, name) for item in items]) for name in first.__struct_fields__}
        return type(first)(**parts)
    if isinstance(first, tuple):
        return tuple(stacked(column) for column in zip(*items, strict=True))
    return np.array(items, dtype=float)


def chosen(stack: Any, rows: Any) -> Any:
    """Some rows of what ``stacked`` made."""
    if isinstance(stack, Struct):
        return type(stack)(**{name: chosen(getattr(stack, name), rows) for name in stack.__struct_fields__})
    if isinstance(stack, tuple):
        return tuple(chosen(each, rows) for each in stack)
    return stack[rows]
