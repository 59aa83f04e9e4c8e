"""From the text of a log to what it says."""

import re
from collections.abc import Iterator

from google.protobuf.descriptor import FieldDescriptor

from tonnage.logs.sglang import SGLANG
from tonnage.logs.startup_log import Dialect, Outcome, Settings, StartupLog
from tonnage.logs.tensorrt_llm import TENSORRT_LLM
from tonnage.logs.vllm import VLLM
from tonnage.v1.engine_pb2 import EngineSpec

DIALECTS = (VLLM, SGLANG, TENSORRT_LLM)
LOOKED_FOR = (
    "vLLM: non-default args, Initializing … LLM engine, Model loading took, Available KV cache memory, GPU KV cache size, "
    "# GPU blocks, model weights take, Graph capturing finished",
    "SGLang: server_args=, Load weight end, KV Cache is allocated, Memory pool end, max_total_num_tokens=",
    "TensorRT-LLM: TensorRT-LLM version, Loaded engine size, [MemUsageChange] Allocated, "
    "Number of blocks in KV cache primary pool",
)
"""What a log is known by, for those whose log holds none of it."""

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SIZE = re.compile(r"(-?\d+(?:\.\d+)?) ?([KMG]?)i?B?")
# Engines that print "GB" divide by 1,024³.
_UNITS = {"": 2.0**30, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30}
_TIGHTEST = {
    "kv_pool_bytes",
    "kv_cache_tokens",
    "num_blocks",
    "max_concurrency",
    "longest_context_tokens",
    "state_pool_bytes",
    "all_pools_bytes",
    "tokens_of_unwindowed_layers",
}
"""Of several ranks the one with least of it decides; of all else the fullest rank is of interest."""
_OF_SEVERAL_POOLS = {"all_pools_bytes": "kv_pool_bytes", "tokens_of_unwindowed_layers": "kv_cache_tokens"}
"""What is written of several pools together, and the figure whose place it takes."""
_INTEGERS = {FieldDescriptor.TYPE_INT32}
_FRACTIONS = {FieldDescriptor.TYPE_DOUBLE}


def read(text: str, engine: str | None = None) -> StartupLog | None:
    """What the log says of the last start in it. None where no engine is recognised, or nothing of the ``engine`` named."""
    plain = _ESCAPES.sub("", text)
    dialect = _dialect(plain, engine)
    if dialect is None:
        return None
    settings, figures = _found(dialect, plain)
    outcome, complaint = _outcome(dialect, _last_start(dialect, plain), figures)
    if not settings and not figures and outcome is Outcome.UNKNOWN:
        return None
    return StartupLog(
        engine=dialect.engine,
        version=_release(settings.get("version")),
        model=settings.get("model"),
        dtype=_format(settings.get("dtype")),
        quantization=settings.get("quantization"),
        flags=_flags(settings),
        split={name: number for name, number in dialect.split(settings).items() if number > 1},
        figures=figures,
        outcome=outcome,
        complaint=complaint,
    )


def _dialect(text: str, engine: str | None) -> Dialect | None:
    if engine is not None:
        return next((dialect for dialect in DIALECTS if dialect.engine == engine.lower()), None)
    signs = {dialect.engine: len(dialect.signs.findall(text)) for dialect in DIALECTS}
    chosen = max(DIALECTS, key=lambda dialect: signs[dialect.engine])
    return chosen if signs[chosen.engine] else None


def _last_start(dialect: Dialect, text: str) -> str:
    """The log from the last start on: a restarted server writes on into the same file."""
    starts = [found.start() for found in dialect.start.finditer(text)]
    return text[text.rfind("\n", 0, starts[-1]) + 1 :] if len(starts) > 1 else text


def _found(dialect: Dialect, text: str) -> tuple[Settings, dict[str, float]]:
    settings: Settings = {}
    figures: dict[str, float] = {}
    for found in dialect.patterns[0].finditer(text):  # the release is written once, before the first start
        settings["version"] = found["version"]
    for line in _last_start(dialect, text).splitlines():
        if dialect.tried_before is not None and dialect.tried_before.search(line):
            figures = {name: value for name, value in figures.items() if name not in _TIGHTEST}
        if dialect.settings_lines.search(line):
            settings.update(_assigned(dialect, line))
        for name, value in _matched(dialect, line):
            if name.endswith("_bytes") or name in _TIGHTEST:
                _keep(figures, name, _number(name, value))
            else:
                settings[name] = value
    for of_several, name in _OF_SEVERAL_POOLS.items():
        if of_several in figures:
            figures[name] = figures.pop(of_several)
    return settings, figures


def _matched(dialect: Dialect, line: str) -> Iterator[tuple[str, str]]:
    for pattern in (*dialect.patterns, *(pattern for pattern, _ in dialect.refusals)):
        found = pattern.search(line)
        if found is None:
            continue
        groups = {name: value for name, value in found.groupdict().items() if value is not None}
        for name in dict.fromkeys(group.partition("__")[0] for group in groups):
            parts = [value for group, value in groups.items() if group.partition("__")[0] == name]
            yield name, parts[0] if len(parts) == 1 else f"{sum(_number(name, part) for part in parts) / _UNITS['G']} GiB"


def _keep(figures: dict[str, float], name: str, value: float) -> None:
    pick = min if name in _TIGHTEST else max
    figures[name] = pick(figures.get(name, value), value)


def _number(name: str, text: str) -> float:
    plain = text.replace(",", "")
    found = _SIZE.fullmatch(plain)
    if name.endswith("_bytes") and found:
        return float(found[1]) * _UNITS[found[2]]
    return float(plain)


def _assigned(dialect: Dialect, line: str) -> Settings:
    """Settings of a line, in Python's or JSON's notation. None, and what is decided later, says nothing."""
    found: Settings = {}
    for key, name in {**dialect.keys, **dialect.negated}.items():
        written = re.search(rf"(?<![\w.-]){key}['\"]?\s*[=:]\s*(?:'([^']*)'|\"([^\"]*)\"|([^\s,;)}}\]]+))", line)
        value = next((group for group in written.groups() if group is not None), "") if written else ""
        if value and value not in {"None", "null"}:
            found[name] = str(value.lower() != "true") if key in dialect.negated else value
    return found


def _flags(settings: Settings) -> dict[str, object]:
    flags: dict[str, object] = {}
    for name, descriptor in EngineSpec.DESCRIPTOR.fields_by_name.items():
        value = settings.get(name, "").replace(",", "")
        if name == "version" or not value:
            continue
        if descriptor.type in _INTEGERS:
            if value.isdecimal():
                flags[name] = int(value)
        elif descriptor.type in _FRACTIONS:
            if re.fullmatch(r"\d*\.?\d+", value):
                flags[name] = float(value)
        elif descriptor.type == FieldDescriptor.TYPE_BOOL:
            flags[name] = value.lower() == "true"
        else:
            flags[name] = _format(value)
    return flags


def _format(value: str | None) -> str | None:
    """A number format without the framework's name before it."""
    return value.removeprefix("torch.") if value else None


def _release(version: str | None) -> str | None:
    """The release's numbers alone: builds between releases carry dates and hashes behind them."""
    found = re.match(r"v?(\d+(?:\.\d+){1,2})", version or "")
    return found[1] if found else None


def _outcome(dialect: Dialect, text: str, figures: dict[str, float]) -> tuple[Outcome, str]:
    for pattern, outcome in dialect.refusals:
        found = pattern.search(text)
        if found is None:
            continue
        line = text[text.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0].strip()
        if outcome is Outcome.OUT_OF_MEMORY_LATER and not {"weights_bytes", "kv_pool_bytes"} & figures.keys():
            outcome = Outcome.OUT_OF_MEMORY_LOADING_WEIGHTS
        return outcome, line
    pooled = {"kv_cache_tokens", "num_blocks", "max_concurrency"} & figures.keys()
    return (Outcome.STARTS if pooled else Outcome.UNKNOWN), ""
