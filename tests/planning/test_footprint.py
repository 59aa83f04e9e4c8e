"""What a step reads where not all that is stored is attended to."""

from service.architectures import Architecture
from service.planning.footprint import Footprint, FootprintBuilder
from service.planning.formats import StoredFormats
from service.planning.requests import Parallelism
from tests.architectures.published import architecture


def footprint(model: Architecture) -> Footprint:
    return FootprintBuilder(model, StoredFormats(None, "bf16")).build(Parallelism())


def test_sparse_latent_attention_stores_all_and_reads_its_top_k() -> None:
    found = footprint(architecture("deepseek-ai/DeepSeek-V3.2"))
    per_latent, per_index_key = 61 * 576 * 2, 61 * 128 * 2
    assert found.cache_bytes.at(100_000) == 100_000 * (per_latent + per_index_key)
    assert found.cache_read_bytes_per_device.at(100_000) == 2048 * per_latent + 100_000 * per_index_key
    assert found.cache_read_bytes_per_device.at(1000) == 1000 * (per_latent + per_index_key)
    assert found.attention_flops.at(100_000) == found.attention_flops.at(2048)


def test_compressed_entries_are_read_as_far_as_the_indexer_picks_them() -> None:
    # DeepSeek-V4-Flash: 43 layers with a window of 128; in 21 one entry every 4 tokens, of which 512 are picked by an index
    # key each, in 20 one every 128.
    found = footprint(architecture("deepseek-ai/DeepSeek-V4-Flash"))
    entry, index_key, tokens = 512 * 2, 128 * 2, 131_072
    window, heavy = 43 * 128 * entry, 20 * tokens // 128 * entry
    assert found.cache_bytes.at(tokens) == window + 21 * tokens // 4 * (entry + index_key) + heavy
    assert found.cache_read_bytes_per_device.at(tokens) == window + 21 * (512 * entry + tokens // 4 * index_key) + heavy
    attended = 43 * 128 + 21 * 512 + 20 * tokens // 128
    assert found.attention_flops.at(tokens) == attended * 2 * 64 * (512 + 512)


def test_windowed_layers_read_what_they_store() -> None:
    found = footprint(architecture("openai/gpt-oss-120b"))
    assert found.cache_read_bytes_per_device == found.cache_bytes
