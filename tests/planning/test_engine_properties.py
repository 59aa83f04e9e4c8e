"""What must hold for every engine, model and flag, by random questions."""

from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from service.catalogue.loader import load
from service.planning.engine_memory import engine_memory
from service.planning.engine_settings import FRACTION_FIELDS
from service.planning.errors import PlanningError
from service.planning.requests import EngineSpec, Parallelism
from service.planning.results import EngineMemory, EngineOutcome
from tests.planning.engine_logs import builder, inline_device

CATALOGUE = load(Path(__file__).parents[2] / "specs")
BUILDERS = {name: builder(CATALOGUE, name) for name in ("qwen3-0.6b", "qwen3-14b", "gemma-3-27b", "gpt-oss-20b", "qwen3.5-27b")}
MODELS = st.sampled_from(sorted(BUILDERS))
ENGINES = st.sampled_from(
    [
        ("vllm", "0.6.5"),
        ("vllm", "0.11"),
        ("vllm", "0.19"),
        ("vllm", "0.22"),
        ("vllm", "0.28"),
        ("sglang", "0.5.5"),
        ("tensorrt-llm", "1.0"),
    ]
)

MEMORIES = st.floats(8, 300)
FRACTIONS = st.floats(0.3, 1.0)
LENGTHS = st.integers(1, 200_000)


def ask(
    model: str,
    engine: tuple[str, str],
    memory_gib: float,
    fraction: float,
    length: int,
    *,
    eager: bool = False,
    tensor: int = 1,
) -> EngineMemory:
    name, version = engine
    own = {"vllm": "physical_memory", "sglang": "free_before_load", "tensorrt-llm": "free_after_load"}[name]
    settings = EngineSpec(
        name,
        version,
        max_model_len=length,
        enforce_eager=eager,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
        max_running_requests=2048,
    )
    settings = replace(settings, **{FRACTION_FIELDS[own]: fraction})
    try:
        return engine_memory(
            CATALOGUE, BUILDERS[model], Parallelism(), inline_device(memory_gib), settings, with_remedies=False
        )
    except PlanningError:
        assume(False)
        raise


def tokens(answer: EngineMemory) -> tuple[float, float, float]:
    return answer.likely.kv_cache_tokens, answer.likely.num_blocks, answer.likely.max_concurrency


def never_fewer(less: EngineMemory, more: EngineMemory) -> bool:
    return all(after >= before for before, after in zip(tokens(less), tokens(more), strict=True))


@given(MODELS, ENGINES, MEMORIES, st.floats(1, 2), FRACTIONS, LENGTHS)
def test_more_memory_never_holds_fewer_tokens(
    model: str, engine: tuple[str, str], memory: float, factor: float, fraction: float, length: int
) -> None:
    # A larger device is not taken for one with faster links here: one rank has none.
    assert never_fewer(ask(model, engine, memory, fraction, length), ask(model, engine, memory * factor, fraction, length))


@given(MODELS, ENGINES, MEMORIES, FRACTIONS, FRACTIONS, LENGTHS)
def test_a_higher_fraction_never_holds_fewer_tokens(
    model: str, engine: tuple[str, str], memory: float, first: float, second: float, length: int
) -> None:
    low, high = sorted((first, second))
    assert never_fewer(ask(model, engine, memory, low, length), ask(model, engine, memory, high, length))


@given(MODELS, ENGINES, MEMORIES, FRACTIONS, LENGTHS)
def test_without_graphs_there_are_never_fewer_tokens(
    model: str, engine: tuple[str, str], memory: float, fraction: float, length: int
) -> None:
    assert never_fewer(ask(model, engine, memory, fraction, length), ask(model, engine, memory, fraction, length, eager=True))


@given(MODELS, ENGINES, MEMORIES, FRACTIONS, LENGTHS, LENGTHS)
def test_a_longer_limit_never_holds_more_sequences(
    model: str, engine: tuple[str, str], memory: float, fraction: float, first: int, second: int
) -> None:
    short, long = sorted((first, second))
    fewer, more = (ask(model, engine, memory, fraction, length) for length in (long, short))
    assert fewer.likely.max_concurrency <= more.likely.max_concurrency


@given(MODELS, ENGINES, MEMORIES, FRACTIONS, LENGTHS)
def test_the_ends_of_the_range_stand_on_either_side(
    model: str, engine: tuple[str, str], memory: float, fraction: float, length: int
) -> None:
    answer = ask(model, engine, memory, fraction, length)
    low, likely, high = answer.low, answer.likely, answer.high
    assert answer.kv_pool_low_bytes_per_device <= answer.kv_pool_bytes_per_device <= answer.kv_pool_high_bytes_per_device
    assert low.num_blocks <= likely.num_blocks <= high.num_blocks
    assert low.longest_context_tokens <= likely.longest_context_tokens <= high.longest_context_tokens


@given(MODELS, ENGINES, MEMORIES, FRACTIONS, LENGTHS)
def test_what_is_held_fits_the_pool(model: str, engine: tuple[str, str], memory: float, fraction: float, length: int) -> None:
    answer = ask(model, engine, memory, fraction, length)
    assume(answer.likely.num_blocks >= 1)
    if answer.outcome is EngineOutcome.STARTS and answer.likely.longest_context_tokens >= length:
        assert answer.needed_bytes_per_device <= answer.kv_pool_bytes_per_device
        assert answer.likely.max_concurrency >= 1 or engine[0] == "sglang"
    if answer.outcome is EngineOutcome.REFUSED_MAX_LEN:
        assert answer.likely.longest_context_tokens < length
        assert answer.needed_bytes_per_device > answer.kv_pool_bytes_per_device - answer.block_tokens * 2**24
