"""The quick readings take only what the strict way takes too, and read the same; both renderings of an answer are the same."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from service.api.errors import MalformedRequest
from service.api.examples import REQUESTS
from service.api.json_decoding import filler
from service.api.json_encoding import message_encoder
from service.api.messages import NotFinite
from service.api.schema import RPCS
from service.api.servicers import Servicer, servicers
from service.api.validation import violations
from service.cache.cache import Cache
from service.cache.keys import KeySpace
from service.cache.local import LocalTier
from service.catalogue.loader import load
from service.planning.errors import PlanningError
from service.planning.planner import Planner
from service.settings import specs_dir
from service.telemetry import RpcName, Telemetry
from tests.api.random_requests import EXAMPLES, careless_json, careless_message, plausible_json


def _servicers() -> dict[str, Servicer]:
    telemetry = Telemetry([RpcName(rpc.service, rpc.name) for rpc in RPCS], version="test")
    cache = Cache(keys=KeySpace(catalogue_revision="test", code_version="test"), local=LocalTier(max_bytes=0, max_entries=0))
    planner = Planner(load(specs_dir()))
    made = servicers(planner, cache, telemetry, ThreadPoolExecutor(1), redis_for_every_rpc=False)
    return {each.rpc.name: each for each in made}


SERVED = _servicers()
RPC_NAMES = sorted(SERVED)


def strictly(servicer: Servicer, message: Message, already: Any = ()) -> Any:
    """The question by the validator and the plain reader; None where it is refused."""
    return None if violations(message, already) else servicer.codec.read(message)


@pytest.mark.parametrize("rpc", RPC_NAMES)
@EXAMPLES
@given(data=st.data())
def test_quick_reading_of_messages(rpc: str, data: st.DataObject) -> None:
    servicer = SERVED[rpc]
    message = data.draw(careless_message(servicer.rpc.request))
    quick = servicer.codec.read_quickly(message)
    if quick is not None:
        assert strictly(servicer, message) == quick


@pytest.mark.parametrize("rpc", RPC_NAMES)
@EXAMPLES
@given(data=st.data())
def test_quick_reading_of_json(rpc: str, data: st.DataObject) -> None:
    servicer = SERVED[rpc]
    value = data.draw(st.one_of(careless_json(servicer.rpc.request), plausible_json(servicer.rpc.request)))
    value = orjson.loads(orjson.dumps(value))
    quick = servicer.codec.read_json_quickly(value)
    message, found = filler(servicer.rpc.request)(value)
    strict = strictly(servicer, message, found)
    if quick is not None:
        assert strict == quick
    # Both doors mean the same.
    if not found:
        again = servicer.codec.read_quickly(message)
        assert again is None or strict == again


@pytest.mark.parametrize("rpc", RPC_NAMES)
def test_quick_readings_take_what_is_plainly_right(rpc: str) -> None:
    servicer = SERVED[rpc]
    message, found = filler(servicer.rpc.request)(REQUESTS[rpc])
    assert [] == found
    assert servicer.codec.read_quickly(message) is not None
    assert servicer.codec.read_json_quickly(REQUESTS[rpc]) is not None


@pytest.mark.parametrize("rpc", RPC_NAMES)
@EXAMPLES
@given(data=st.data())
def test_an_answer_is_rendered_alike_from_its_dataclass_and_from_its_message(rpc: str, data: st.DataObject) -> None:
    servicer = SERVED[rpc]
    message, found = filler(servicer.rpc.request)(data.draw(plausible_json(servicer.rpc.request)))
    try:
        result = servicer.plan(servicer.question(message, found))
    except (PlanningError, MalformedRequest):
        return
    for part in itertools.islice(result, 5) if servicer.rpc.is_streaming else [result]:
        message = servicer.codec.write(part)
        assert message_encoder(servicer.rpc.response)(message) == servicer.codec.write_json(part)
        assert servicer.rpc.response.FromString(servicer.codec.write_bytes(part)) == message


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_figure_that_is_not_finite_is_never_sent(bad: float) -> None:
    servicer = SERVED["EstimateDecode"]
    message, _ = filler(servicer.rpc.request)(REQUESTS["EstimateDecode"] | {"explain": True})
    result = servicer.plan(servicer.question(message))
    step = result.explanation.steps[0]
    spoilt = [
        replace(result, bound=replace(result.bound, flops=bad)),
        replace(result, bound=replace(result.bound, attention_intensity_flops_per_byte=bad)),
        replace(result, limits=(replace(result.limits[0], binds_from_batch_size=bad),)),
        replace(result, explanation=replace(result.explanation, steps=(replace(step, inputs={"a": bad}),))),
    ]
    for each in spoilt:
        with pytest.raises(NotFinite):
            servicer.codec.write(each)
        with pytest.raises(NotFinite):
            servicer.codec.write_json(each)


def test_figures_whose_sum_is_not_finite_are_sent() -> None:
    servicer = SERVED["EstimateDecode"]
    message, _ = filler(servicer.rpc.request)(REQUESTS["EstimateDecode"])
    result = servicer.plan(servicer.question(message))
    huge = replace(result, bound=replace(result.bound, flops=1.7e308, weight_bytes=1.7e308))
    assert 1.7e308 == orjson.loads(servicer.codec.write_json(huge))["bound"]["flops"]
    assert 1.7e308 == servicer.codec.write(huge).bound.flops  # type: ignore[attr-defined]
