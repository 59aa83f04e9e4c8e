"""The options that name a serving engine and set its flags, under the names that the engines give them."""

from dataclasses import asdict, dataclass
from typing import Any

import click

from tonnage.cli import names
from tonnage.cli.options import grouped
from tonnage.v1.engine_pb2 import EngineSpec


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What was given of an engine; its fields are those of EngineSpec."""

    engine: str | None
    engine_version: str | None
    gpu_memory_utilization: float | None
    mem_fraction_static: float | None
    free_gpu_memory_fraction: float | None
    max_model_len: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    max_running_requests: int | None
    kv_cache_dtype: str | None
    block_size: int | None
    enforce_eager: bool | None
    enable_prefix_caching: bool | None
    disable_hybrid_kv_cache_manager: bool | None
    mamba_ssm_cache_dtype: str | None
    num_speculative_tokens: int | None

    @property
    def name(self) -> str | None:
        """The engine's name, without the release that may stand behind it."""
        return self.engine.partition("==")[0].strip() if self.engine else None

    @property
    def release(self) -> str | None:
        """The release, by its own option or behind the name."""
        return self.engine_version or (self.engine or "").partition("==")[2].strip() or None

    def flags(self) -> dict[str, object]:
        """The flags that were given, by their field in EngineSpec; neither name nor version."""
        given = asdict(self)
        return {name: value for name, value in given.items() if value is not None and not name.startswith("engine")}

    def spec(self) -> EngineSpec | None:
        """The engine with its flags; None where none is named. A UsageError where flags stand alone."""
        flags = self.flags()
        if self.name is None:
            if stray := next(iter(flags), "engine_version" if self.engine_version else None):
                raise click.UsageError(f"--{stray.replace('_', '-')} goes with --engine")
            return None
        return engine_spec(self.name, self.release, flags)


def engine_spec(name: str, version: str | None, flags: dict[str, object]) -> EngineSpec:
    """The engine as a message. A UsageError, naming the option, for what no field can hold."""
    spec = EngineSpec(name=name, version=version)
    for field, value in flags.items():
        try:
            setattr(spec, field, value)
        except (TypeError, ValueError) as error:
            raise click.UsageError(f"--{field.replace('_', '-')}: {error}") from None
    return spec


_INTEGERS: dict[str, Any] = {"type": int, "metavar": "N"}
_FRACTIONS: dict[str, Any] = {"type": float, "metavar": "RATIO"}
_FLAGS = (
    names.option(names.ENGINES, "--engine", help="The engine whose memory it is: vllm, sglang or tensorrt-llm."),
    click.option("--engine-version", metavar="RELEASE", help="Its release (0.19). [default: the newest known]"),
    click.option("--gpu-memory-utilization", **_FRACTIONS, help="vLLM: share of the physical memory that it may take."),
    click.option("--mem-fraction-static", **_FRACTIONS, help="SGLang: share of the free memory for weights and cache."),
    click.option(
        "--free-gpu-memory-fraction", **_FRACTIONS, help="TensorRT-LLM: share of what loading leaves free, for the cache."
    ),
    click.option("--max-model-len", "--context-length", "max_model_len", **_INTEGERS, help="Longest sequence that it accepts."),
    click.option("--max-num-seqs", **_INTEGERS, help="Sequences that it schedules at once."),
    click.option(
        "--max-num-batched-tokens",
        "--chunked-prefill-size",
        "max_num_batched_tokens",
        **_INTEGERS,
        help="Tokens that it computes at once.",
    ),
    click.option("--max-running-requests", **_INTEGERS, help="SGLang: rows of its request table."),
    click.option("--kv-cache-dtype", metavar="FORMAT", help="Format of its cache: auto, fp8, …"),
    click.option("--block-size", "--page-size", "block_size", **_INTEGERS, help="Tokens per block of its cache."),
    click.option("--enforce-eager", is_flag=True, default=None, help="It captures no CUDA graphs."),
    click.option("--enable-prefix-caching/--no-enable-prefix-caching", default=None, help="Equal prefixes share blocks."),
    click.option(
        "--disable-hybrid-kv-cache-manager", is_flag=True, default=None, help="vLLM: windowed layers get blocks for all tokens."
    ),
    click.option("--mamba-ssm-cache-dtype", metavar="FORMAT", help="Format of recurrent states."),
    click.option("--num-speculative-tokens", **_INTEGERS, help="Tokens that a drafter proposes per step."),
)

with_engine_options = grouped("engine_options", EngineOptions, *_FLAGS)
with_engine = grouped("engine", EngineOptions, *_FLAGS)
