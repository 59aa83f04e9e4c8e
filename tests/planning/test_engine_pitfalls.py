"""Where calculators, people and engines went wrong about memory: one test a fault, with the figures of the public threads."""

import pytest

from service.catalogue.entries import Catalogue
from service.planning.engine_memory import engine_memory
from service.planning.engine_stages import ObservedMemory
from service.planning.errors import Unanswerable
from service.planning.requests import EngineSpec, Parallelism
from service.planning.results import EngineBudgetItem, EngineMemory, EngineOutcome
from tests.planning.engine_logs import GIB, builder, device, inline_device, log, predict

H100_GIB = 79.19


def run(
    catalogue: Catalogue,
    model: str,
    version: str = "0.19",
    *,
    on: str = "h100-sxm",
    shape: Parallelism = Parallelism(),
    pool_gib: float | None = None,
    engine: str = "vllm",
    **flags: object,
) -> EngineMemory:
    seen = ObservedMemory(pool_bytes=None if pool_gib is None else pool_gib * GIB)
    settings = EngineSpec(engine, version, **flags)  # type: ignore[arg-type]
    return engine_memory(catalogue, builder(catalogue, model), shape, device(catalogue, on), settings, observed=seen)


def line(answer: EngineMemory, item: EngineBudgetItem) -> float:
    return next(each.bytes_per_device for each in answer.budget if each.item is item) / GIB


class TestCalculators:
    def test_one_latent_is_cached_not_keys_and_values(self, catalogue: Catalogue) -> None:
        assert 70_272 == run(catalogue, "deepseek-v3", shape=Parallelism(8), on="h200-sxm").kv_bytes_per_token_per_device
        fp8 = run(catalogue, "deepseek-v3", shape=Parallelism(8), on="h200-sxm", kv_cache_dtype="fp8")
        assert 35_136 == fp8.kv_bytes_per_token_per_device

    def test_quantised_weights_do_not_change_the_cache(self, catalogue: Catalogue) -> None:
        assert 57_344 == run(catalogue, "qwen2.5-7b").kv_bytes_per_token_per_device
        assert 131_072 * 80 / 32 == run(catalogue, "llama-3.3-70b-fp8").kv_bytes_per_token_per_device

    def test_the_cache_s_format_is_stated(self, catalogue: Catalogue) -> None:
        assert "KV cache in bf16 (auto)" in run(catalogue, "llama-3.1-8b").assumptions
        assert "KV cache in fp8" in run(catalogue, "llama-3.1-8b", kv_cache_dtype="fp8").assumptions

    def test_weights_in_fp32_have_a_cache_in_fp32(self, catalogue: Catalogue) -> None:
        assert 262_144 == predict(catalogue, log("lp-llama31-8b-fp32")).kv_bytes_per_token_per_device

    def test_weights_and_pool_are_per_device(self, catalogue: Catalogue) -> None:
        one, two = (run(catalogue, "llama-3.1-8b", shape=Parallelism(tensor)) for tensor in (1, 2))
        assert line(two, EngineBudgetItem.WEIGHTS) == pytest.approx(line(one, EngineBudgetItem.WEIGHTS) / 2, rel=0.001)
        assert 65_536 == two.kv_bytes_per_token_per_device

    def test_hybrids_hold_keys_and_values_in_few_layers(self, catalogue: Catalogue) -> None:
        # 16 of 64 layers attend: a pool that all 64 would fill with 8.2 sequences holds 31.
        answer = run(catalogue, "qwen3.5-27b", "0.22", pool_gib=16.0, max_model_len=8192)
        assert answer.likely.longest_context_tokens > 200_000

    def test_tensorrt_llm_takes_its_fraction_whatever_the_need(self, catalogue: Catalogue) -> None:
        answer = run(catalogue, "llama-2-7b", "0.18", engine="tensorrt-llm", max_model_len=2048)
        taken = H100_GIB - line(answer, EngineBudgetItem.RESERVE)
        assert taken > 70  # a batch of one needs 14
        assert answer.memory_fraction == 0.9


class TestEngines:
    def test_an_h100_has_79_19_gib(self, catalogue: Catalogue) -> None:
        assert line(run(catalogue, "llama-3.1-8b"), EngineBudgetItem.PHYSICAL_MEMORY) == pytest.approx(79.19)

    def test_graphs_are_deducted_from_0_21_on(self, catalogue: Catalogue) -> None:
        before, after = (
            run(catalogue, "llama-3.1-8b", version, gpu_memory_utilization=0.9, max_model_len=8192)
            for version in ("0.20.2", "0.21.0")
        )
        graphs = line(after, EngineBudgetItem.CUDA_GRAPHS)
        assert 0.4 < graphs < 1.1
        difference = before.kv_pool_bytes_per_device - after.kv_pool_bytes_per_device
        assert difference / GIB == pytest.approx(graphs)

    @pytest.mark.parametrize(("version", "bytes_per_logit"), [("0.16.0", 39), ("0.17.0", 15.5)])
    def test_activations_follow_the_vocabulary_and_the_sequences(
        self, catalogue: Catalogue, version: str, bytes_per_logit: float
    ) -> None:
        answer = run(catalogue, "qwen3-14b", version)
        peak = line(answer, EngineBudgetItem.ACTIVATION_PEAK) * GIB
        assert peak / (151_936 * 1024) == pytest.approx(bytes_per_logit, abs=0.5)

    def test_activations_do_not_change_with_tensor_parallelism(self, catalogue: Catalogue) -> None:
        peaks = {
            line(run(catalogue, "llama-3.1-8b", shape=Parallelism(t)), EngineBudgetItem.ACTIVATION_PEAK) for t in (1, 2, 4)
        }
        assert 1 == len(peaks)

    @pytest.mark.parametrize(
        ("version", "tensor", "low", "high"),
        [("0.11", 1, 0.13, 0.25), ("0.19", 2, 0.55, 2.11), ("0.19", 4, 2.0, 2.2), ("0.19", 8, 2.1, 5.7)],
    )
    def test_memory_outside_torch_grows_with_tensor_parallelism(
        self, catalogue: Catalogue, version: str, tensor: int, low: float, high: float
    ) -> None:
        answer = run(catalogue, "llama-3.1-8b", version, shape=Parallelism(tensor))
        assert low <= line(answer, EngineBudgetItem.NON_TORCH) <= high

    def test_sglang_s_table_lies_outside_the_pool(self, catalogue: Catalogue) -> None:
        answer = predict(catalogue, log("sgl-qwq32b-tp4"))
        assert line(answer, EngineBudgetItem.KV_POOL) == pytest.approx(2.84, abs=0.005)
        (table,) = (each for each in answer.budget if each.item is EngineBudgetItem.REQUEST_TABLE)
        assert table.within_reserve
        assert table.bytes_per_device / GIB == pytest.approx(1.0, abs=0.01)

    def test_tensorrt_llm_shortens_what_does_not_fit(self, catalogue: Catalogue) -> None:
        answer = predict(catalogue, log("trt-a10-qwq"))
        assert answer.outcome is EngineOutcome.STARTS
        assert answer.likely.longest_context_tokens == pytest.approx(5185, abs=64)
        assert 64 == answer.block_tokens

    def test_beyond_the_kv_heads_tensor_parallelism_replicates(self, catalogue: Catalogue) -> None:
        # Qwen3-30B-A3B has four KV heads.
        four, eight = (run(catalogue, "qwen3-30b-a3b", shape=Parallelism(t)).kv_bytes_per_token_per_device for t in (4, 8))
        assert four == eight == 48 * 2 * 128 * 2

    def test_latents_are_better_divided_by_requests_than_by_ranks(self, catalogue: Catalogue) -> None:
        # Logged on eight devices: 20.4 by tensor parallelism, 156.9 by data parallelism.
        shapes = Parallelism(8), Parallelism(1, 1, 8, 8)
        tensor, data = (
            run(catalogue, "deepseek-v3", "0.11", on="b200", shape=shape, max_model_len=131_072) for shape in shapes
        )
        assert tensor.kv_bytes_per_token_per_device == data.kv_bytes_per_token_per_device == 70_272
        assert 6 < data.replica_max_concurrency / tensor.replica_max_concurrency < 8

    def test_gpt_oss_on_two_ranks(self, catalogue: Catalogue) -> None:
        pool = 323_970 * 12 * 16 * 1024 / GIB  # the blocks that were logged
        answer = run(catalogue, "gpt-oss-20b", shape=Parallelism(2), pool_gib=pool, max_model_len=8192)
        assert 323_970 == answer.likely.num_blocks
        assert 316.07 == round(answer.likely.max_concurrency, 2)
        assert 2_591_760 == answer.likely.kv_cache_tokens  # logged rounded up from the same blocks: 2,591,776

    def test_with_as_many_batched_tokens_the_window_saves_nothing(self, catalogue: Catalogue) -> None:
        many, few = (
            run(catalogue, "gpt-oss-20b", pool_gib=20, max_model_len=8192, max_num_batched_tokens=batched)
            for batched in (8192, 1024)
        )
        assert few.likely.max_concurrency > 1.7 * many.likely.max_concurrency

    def test_layers_are_grouped_and_padded(self, catalogue: Catalogue) -> None:
        answer = run(catalogue, "gemma-3-27b", pool_gib=19.53, max_model_len=8192)
        assert 573_440 == answer.kv_bytes_per_token_per_device
        assert 8 == answer.num_padding_layers
        assert answer.likely.num_blocks == pytest.approx(15_999, abs=1)  # the pool is rounded
        assert 36_560 == answer.likely.kv_cache_tokens
        assert 4.46 == round(answer.likely.max_concurrency, 2)

    def test_hybrids_share_blocks_with_their_states(self, catalogue: Catalogue) -> None:
        answer = run(catalogue, "qwen3.5-35b-a3b", "0.17", pool_gib=6.08, max_model_len=65_536, kv_cache_dtype="fp8")
        assert 2096 == answer.block_tokens
        assert 304 == answer.likely.num_blocks
        assert 304 / (32 + 2 + 2 + 2) == answer.likely.max_concurrency == 8.0
        assert 304 // 4 * 2096 == answer.likely.kv_cache_tokens == 159_296

    def test_without_prefix_caching_a_state_takes_one_block(self, catalogue: Catalogue) -> None:
        answer = run(
            catalogue,
            "qwen3.5-35b-a3b",
            "0.17",
            pool_gib=6.08,
            max_model_len=65_536,
            kv_cache_dtype="fp8",
            enable_prefix_caching=False,
        )
        assert 304 / (32 + 1 + 1 + 1) == answer.likely.max_concurrency

    def test_printed_tokens_changed_their_meaning(self, catalogue: Catalogue) -> None:
        old, new = (
            run(catalogue, "gpt-oss-20b", version, pool_gib=20, max_model_len=131_072, max_num_batched_tokens=2048)
            for version in ("0.20", "0.21")
        )
        assert old.likely.num_blocks == new.likely.num_blocks
        assert old.likely.max_concurrency == new.likely.max_concurrency
        assert old.likely.kv_cache_tokens == old.likely.num_blocks // 2 * 16
        assert new.likely.kv_cache_tokens == new.likely.max_concurrency * 131_072 // 1
        assert new.likely.kv_cache_tokens > 1.8 * old.likely.kv_cache_tokens

    def test_the_tightest_stage_decides(self, catalogue: Catalogue) -> None:
        answer = predict(catalogue, log("vllm-29431-scout-pp2"))
        assert 98_304 == answer.kv_bytes_per_token_per_device
        assert answer.likely.kv_cache_tokens == pytest.approx(324_640, abs=32)
        # With 36.20 GiB, the other stage's, it would be a fifth more.
        assert 36.20 * GIB / 98_304 > 1.2 * answer.likely.kv_cache_tokens

    def test_of_two_stages_the_one_with_the_lm_head_has_less(self, catalogue: Catalogue) -> None:
        answer = run(catalogue, "llama-3.1-8b", shape=Parallelism(1, 2), gpu_memory_utilization=0.95)
        first, last = (stage.lines for stage in answer.stage_budgets)
        assert answer.budget == last
        pools = [lines[-1].bytes_per_device for lines in (first, last)]
        assert pools[0] > pools[1]
        assert answer.likely.num_blocks == pools[1] // (16 * 16 * 4096)

    def test_old_releases_expand_latents(self, catalogue: Catalogue) -> None:
        old, new = (
            run(catalogue, "deepseek-v2", version, shape=Parallelism(8), max_model_len=16_000) for version in ("0.5", "0.8")
        )
        assert 60 * 2 * 16 * 256 * 2 == old.kv_bytes_per_token_per_device
        assert 60 * 576 * 2 == new.kv_bytes_per_token_per_device
        assert old.outcome is EngineOutcome.REFUSED_MAX_LEN

    def test_the_kernel_path_changes_the_weights(self, catalogue: Catalogue) -> None:
        triton, marlin = (
            run(catalogue, "gpt-oss-120b", "0.14.1", on=on, max_model_len=4096) for on in ("h100-sxm", "a100-sxm-80")
        )

        def loaded(answer: EngineMemory) -> float:
            return line(answer, EngineBudgetItem.WEIGHTS) + line(answer, EngineBudgetItem.WEIGHTS_BESIDE_CHECKPOINT)

        assert loaded(triton) == pytest.approx(64.38, rel=0.005)
        assert loaded(marlin) == pytest.approx(65.97, rel=0.005)

    @pytest.mark.parametrize(
        ("on", "version", "batched", "sequences"),
        [
            ("h100-sxm", "0.19", 8192, 1024),
            ("a100-sxm-80", "0.19", 2048, 256),
            ("rtx-3090", "0.19", 2048, 256),
            ("b200", "0.27", 8192, 1024),
            ("b200", "0.28", 16_384, 1024),
            ("h100-sxm", "0.7", 2048, 256),
        ],
    )
    def test_defaults_depend_on_the_gpu(
        self, catalogue: Catalogue, on: str, version: str, batched: int, sequences: int
    ) -> None:
        answer = run(catalogue, "qwen3-0.6b", version, on=on, max_model_len=2048)
        assert (batched, sequences) == (answer.max_num_batched_tokens, answer.max_num_seqs)

    def test_a_request_of_kimi_k2_5_needs_8_58_gib(self, catalogue: Catalogue) -> None:
        answer = predict(catalogue, log("inferencex-1587"))
        assert answer.needed_bytes_per_device / GIB == pytest.approx(8.58, abs=0.005)

    def test_where_nothing_is_known_nothing_is_said(self, catalogue: Catalogue) -> None:
        with pytest.raises(Unanswerable, match=r"0\.2\.7 allots memory is not known"):
            run(catalogue, "llama-2-7b", "0.2.7")
        with pytest.raises(Unanswerable, match="compressed caches"):
            run(catalogue, "deepseek-v4-flash", "0.22")
        with pytest.raises(Unanswerable, match="how windowed layers share the pool"):
            run(catalogue, "gemma-3-27b", "1.0", engine="tensorrt-llm", max_model_len=8192)
        with pytest.raises(Unanswerable, match="how recurrent states are laid out"):
            run(catalogue, "qwen3.5-27b", "1.0", engine="tensorrt-llm", max_model_len=8192)
        with pytest.raises(Unanswerable, match="multimodal hidden multiples is not known"):
            run(catalogue, "gemma-3-27b", "0.7.3", max_model_len=8192)

    def test_where_windows_save_nothing_the_answer_says_so(self, catalogue: Catalogue) -> None:
        note = "windowed layers are charged for the whole context"
        assert note in run(catalogue, "gpt-oss-20b", "0.5.5", engine="sglang").assumptions
        assert note in run(catalogue, "gpt-oss-20b", disable_hybrid_kv_cache_manager=True).assumptions
        assert note not in run(catalogue, "gpt-oss-20b").assumptions
        assert note not in run(catalogue, "deepseek-v3", shape=Parallelism(8), on="h200-sxm").assumptions

    def test_a_device_without_its_memory_is_refused(self, catalogue: Catalogue) -> None:
        bare = inline_device(80)
        unknown = type(bare)("none", "", {}, {}, None, None, bare.memory_basis, (), {})
        with pytest.raises(Unanswerable, match="the memory of none is not given"):
            engine_memory(catalogue, builder(catalogue, "qwen3-8b"), Parallelism(), unknown, EngineSpec("vllm"))
