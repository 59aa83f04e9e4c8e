"""What would make an engine start: each remedy by the engine's own flag, and tried before it is named."""

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from service.planning.defaults import HIGHEST_MEMORY_RATIO
from service.planning.engine_settings import FRACTION_FIELDS, EngineRun
from service.planning.requests import EngineSpec, Parallelism
from service.planning.results import Cure, EngineMemory

_FEW_SEQUENCES = 64
_FEW_TOKENS = 2048
_MOST_RANKS = 8
#: The request's field of tensor parallelism.
TENSOR = "parallelism.tensor"

#: Whether the engine starts with other settings, or split another way.
Starts = Callable[[EngineSpec, Parallelism], bool]


class _Candidate(Struct, frozen=True):
    """One flag changed: the request's field, what it is changed to, and what else there is to say."""

    field: str
    flag: str
    value: str
    settings: EngineSpec
    remark: str = ""


def engine_remedies(run: EngineRun, refused: EngineMemory, starts: Starts) -> tuple[Cure, ...]:
    """Changes of one flag each with which the engine would start."""
    tried = (each for each in _candidates(run, refused) if starts(each.settings, run.shape))
    cures = [
        Cure(f"engine.{each.field}", each.value, f"it would start with {each.flag} {each.value}".rstrip() + each.remark)
        for each in tried
    ]
    return (*cures, *_more_ranks(run, starts))


def _candidates(run: EngineRun, refused: EngineMemory) -> Iterator[_Candidate]:
    settings, flags = run.settings, run.engine.flags
    longest = int(refused.likely.longest_context_tokens)
    if 0 < longest < run.max_model_len:
        shorter = replace(settings, max_model_len=longest)
        yield _Candidate("max_model_len", flags["max_model_len"], str(longest), shorter, ", the longest that fits")
    if run.memory_fraction < HIGHEST_MEMORY_RATIO:
        own = FRACTION_FIELDS[run.word("memory_fraction_of")]
        raised = replace(settings, **{own: HIGHEST_MEMORY_RATIO})
        remark = ", with little left for anything else"
        yield _Candidate(own, flags["memory_fraction"], f"{HIGHEST_MEMORY_RATIO:g}", raised, remark)
    if "max_num_seqs" in flags and run.max_num_seqs > _FEW_SEQUENCES:
        few = replace(settings, max_num_seqs=_FEW_SEQUENCES)
        yield _Candidate("max_num_seqs", flags["max_num_seqs"], str(_FEW_SEQUENCES), few, ": fewer rows of logits")
    if run.max_num_batched_tokens > _FEW_TOKENS:
        fewer, remark = replace(settings, max_num_batched_tokens=_FEW_TOKENS), ": smaller activations and windows"
        yield _Candidate("max_num_batched_tokens", flags["max_num_batched_tokens"], str(_FEW_TOKENS), fewer, remark)
    if settings.kv_cache_dtype in {None, "auto"}:
        yield _Candidate("kv_cache_dtype", flags["kv_cache_dtype"], "fp8", replace(settings, kv_cache_dtype="fp8"))
    if not settings.enforce_eager and "enforce_eager" in flags:
        yield _Candidate("enforce_eager", flags["enforce_eager"], "", replace(settings, enforce_eager=True))


def _more_ranks(run: EngineRun, starts: Starts) -> Iterator[Cure]:
    for shape in wider(run.shape):
        if starts(run.settings, shape):
            text = f"it would start with {run.engine.flags['tensor']} {shape.tensor}"
            yield Cure(TENSOR, str(shape.tensor), text)
            return


def wider(shape: Parallelism) -> Iterator[Parallelism]:
    """The shape over twice as many tensor ranks, and so on, as far as one node of the usual size goes."""
    tensor = shape.tensor * 2
    while tensor <= _MOST_RANKS:
        yield replace(shape, tensor=tensor)
        tensor *= 2
