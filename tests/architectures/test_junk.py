"""Whatever is thrown at the readers, they answer with an architecture or with a reason."""

import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.architectures import Architecture, UnreadableConfig, read
from tests.architectures.published import configurations, quantization

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
NAMES = sorted(configurations())

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.sampled_from([0, -1, 1, 10**7, 10**9, 999, 1001, 2**31, 2**63]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["auto", "fp8", "full_attention", "float32", "8"]),
    st.lists(st.one_of(st.none(), st.integers(-2, 5), st.text(max_size=3)), max_size=4),
    st.dictionaries(st.text(max_size=5), st.integers(-2, 5), max_size=3),
)
ANYTHING = st.recursive(JUNK, lambda inner: st.dictionaries(st.text(max_size=12), inner, max_size=4), max_leaves=8)


def assert_sound(model: Architecture) -> None:
    assert 1 <= model.num_layers <= 1000
    for tensor, count in model.tensors():
        for figure in (tensor.num_parameters, tensor.num_bytes, tensor.num_matmul_parameters, float(count)):
            assert math.isfinite(figure)
            assert figure >= 0
    for kind in model.layer_kinds:
        assert all(math.isfinite(entry.num_elements) and entry.num_elements > 0 for entry in kind.cache)
        if kind.attention is not None:
            assert kind.attention.num_query_heads % kind.attention.num_kv_heads == 0
    assert 0 < model.num_active_parameters <= model.num_parameters < math.inf


def answer(config: Any, separate: Any) -> Architecture | UnreadableConfig:
    try:
        return read(config, quantization=separate)
    except UnreadableConfig as refusal:
        return refusal


def assert_answered(config: Any, separate: Any = None) -> None:
    answered = answer(config, separate)
    if isinstance(answered, Architecture):
        assert_sound(answered)
        return
    assert answered.field
    assert answered.reason.endswith(".")
    assert answered.remedy.endswith(".")
    assert f"{answered.field}: {answered.reason} {answered.remedy}" == str(answered)


def places(config: dict[str, Any]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, value in config.items():
        found.append((key,))
        if isinstance(value, dict):
            found += [(key, *rest) for rest in places(value)]
    return found


def put(config: dict[str, Any], place: tuple[str, ...], value: object) -> None:
    for key in place[:-1]:
        config = config[key]
    config[place[-1]] = value


@given(ANYTHING, ANYTHING)
def test_anything_at_all(config: object, separate: object) -> None:
    assert_answered(config, separate)


@given(st.data())
def test_a_published_configuration_with_one_value_replaced(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    config = copy.deepcopy(configurations()[name])
    put(config, data.draw(st.sampled_from(places(config))), data.draw(JUNK))
    assert_answered(config, quantization(name))


@given(st.data())
def test_a_published_configuration_with_keys_missing(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    config = configurations()[name]
    kept = data.draw(st.sets(st.sampled_from(sorted(config)), min_size=1))
    assert_answered({key: config[key] for key in kept})


@given(st.data())
def test_keys_of_one_family_under_the_name_of_another(data: st.DataObject) -> None:
    config = {**configurations()[data.draw(st.sampled_from(NAMES))]}
    other = configurations()[data.draw(st.sampled_from(NAMES))]
    assert_answered({**config, "model_type": other["model_type"]})


@pytest.mark.parametrize("config", [None, [], "llama", 7, b"{}", {1: 2}, {}, {"model_type": "x" * 101}, {"model_type": 3}])
def test_what_is_no_configuration(config: Any) -> None:
    with pytest.raises(UnreadableConfig):
        read(config)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("num_hidden_layers", 1001, "from 1 to 1,000"),
        ("num_hidden_layers", 10**8, "from 1 to 1,000"),
        ("num_hidden_layers", 0, "from 1 to 1,000"),
        ("num_hidden_layers", "32", "A whole number is expected, not a string."),
        ("num_hidden_layers", True, "A whole number is expected, not a boolean."),
        ("num_hidden_layers", 32.5, "A whole number is expected, not 32.5."),
        ("num_hidden_layers", math.nan, "A whole number is expected, not nan."),
        ("num_hidden_layers", math.inf, "A whole number is expected, not inf."),
        ("num_hidden_layers", None, "This key is missing."),
        ("hidden_size", -4096, "out of range"),
        ("hidden_size", 10**400, "out of range"),
        ("vocab_size", [128256], "A whole number is expected, not a list."),
        ("num_key_value_heads", 5, "do not divide"),
        ("num_attention_heads", 31, "does not divide"),
        ("tie_word_embeddings", "yes", "true or false is expected"),
        ("torch_dtype", "int3", "This number format is not known."),
        ("intermediate_size", None, "This key is missing."),
    ],
)
def test_refusals_name_the_key(key: str, value: object, says: str) -> None:
    config = {**configurations()[LLAMA], key: value}
    if key == "num_attention_heads":
        config.pop("num_key_value_heads")
        config.pop("head_dim", None)
    with pytest.raises(UnreadableConfig) as refusal:
        read(config)
    assert key == refusal.value.field
    assert says in str(refusal.value)


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"])
def test_sizes_are_never_guessed(key: str) -> None:
    config = {name: value for name, value in configurations()[LLAMA].items() if name != key}
    with pytest.raises(UnreadableConfig) as refusal:
        read(config)
    assert key == refusal.value.field


def test_the_path_of_a_nested_key() -> None:
    config = copy.deepcopy(configurations()["meta-llama/Llama-4-Scout-17B-16E-Instruct"])
    config["text_config"]["num_experts_per_tok"] = 17
    with pytest.raises(UnreadableConfig) as refusal:
        read(config)
    assert "text_config.num_experts_per_tok" == refusal.value.field
    config["text_config"] = 3
    with pytest.raises(UnreadableConfig) as refusal:
        read(config)
    assert "text_config" == refusal.value.field


def test_the_list_is_as_long_as_the_layers() -> None:
    config = {**configurations()["openai/gpt-oss-20b"], "layer_types": ["full_attention"] * 23}
    with pytest.raises(UnreadableConfig, match="23 entries for 24 layers") as refusal:
        read(config)
    assert "layer_types" == refusal.value.field


def test_more_experts_a_token_than_there_are() -> None:
    with pytest.raises(UnreadableConfig, match="9 experts a token"):
        read({**configurations()["mistralai/Mixtral-8x7B-v0.1"], "num_experts_per_tok": 9})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_ratio_that_is_not_finite_is_refused_and_one_that_nobody_reads_is_not(number: float) -> None:
    config = {"model_type": "mamba", "hidden_size": 2560, "num_hidden_layers": 64, "vocab_size": 50_280, "expand": 2}
    with pytest.raises(UnreadableConfig) as refusal:
        read({**config, "expand": number})
    assert ("expand", f"A finite number is expected, not {number}.") == (refusal.value.field, refusal.value.reason)
    assert read(config) == read({**config, "time_step_limit": [0.0, number]})
