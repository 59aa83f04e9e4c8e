"""Columns as bytes: what the library reads of them is what was put in, and nothing that is not finite is sent."""

import numpy as np
import pytest

from service.api.messages import NotFinite
from service.api.wire import wire_writer
from service.planning.columns import Choices
from service.planning.listing import Source
from service.planning.results import Limit
from service.planning.sweep.requests import Kind, RequestLength
from service.planning.sweep.results import (
    DecodeColumns,
    RunSweepResponse,
    SkippedPoints,
    SkipReason,
    SweepChunk,
    SweepStart,
)
from tonnage.v1 import sweep_service_pb2 as pb
from tonnage.v1.capacity_service_pb2 import Limit as LimitMessage

WRITE = wire_writer(pb.RunSweepResponse, RunSweepResponse)
PLACES = [field.name for field in pb.DecodeColumns.DESCRIPTOR.fields if field.type == field.TYPE_SFIXED32]
NUMBERS = [field.name for field in pb.DecodeColumns.DESCRIPTOR.fields if field.type == field.TYPE_DOUBLE]


def columns(rows: int, **others: object) -> DecodeColumns:
    """Columns of which no two are alike."""
    places = {name: np.arange(rows, dtype=np.int32) * (at + 1) for at, name in enumerate(PLACES)}
    numbers = {name: np.arange(rows) * 1.25e9 + at for at, name in enumerate(NUMBERS)}
    limit: Choices[Limit] = Choices(np.arange(rows, dtype=np.uint8) % len(Limit))
    fits = np.arange(rows) % 3 == 0
    return DecodeColumns(**(places | numbers | {"binding_limit": limit, "fits": fits} | others))  # type: ignore[arg-type]


def read(chunk: SweepChunk) -> pb.SweepChunk:
    return pb.RunSweepResponse.FromString(WRITE(RunSweepResponse(chunk=chunk))).chunk


@pytest.mark.parametrize("rows", [1, 15, 16, 127, 2048, 8192, 8191])
def test_every_column_arrives_as_it_is(rows: int) -> None:
    sent = columns(rows)
    got = read(SweepChunk(7.0, 0.5, (), decode=sent))
    assert (7.0, 0.5) == (got.offset, got.progress_ratio)
    for name in (*PLACES, *NUMBERS, "fits"):
        assert getattr(sent, name).tolist() == list(getattr(got.decode, name))
    names, limits = [str(member) for member in Limit], [LimitMessage.Name(each) for each in got.decode.binding_limit]
    assert [names[place] for place in sent.binding_limit.places] == limits


def test_slices_and_reversed_columns_arrive_in_order() -> None:
    sent = columns(10, step_seconds=np.arange(20.0)[::2], tokens_per_second=np.arange(10.0)[::-1])
    got = read(SweepChunk(0.0, 1.0, (), decode=sent)).decode
    assert list(np.arange(0.0, 20.0, 2.0)) == list(got.step_seconds)
    assert list(range(9, -1, -1)) == list(got.tokens_per_second)


def test_without_points_there_is_what_was_skipped() -> None:
    why = SkippedPoints(1, 2, 3, 4, 0, 5.0, SkipReason.ILLEGAL, "three ranks do not divide 32 heads")
    got = read(SweepChunk(3.0, 1.0, (why,)))
    assert not got.HasField("decode")
    assert (1, 2, 5.0, why.description) == (
        got.skipped[0].model_index,
        got.skipped[0].accelerator_index,
        got.skipped[0].num_points,
        got.skipped[0].description,
    )
    assert 0 == len(read(SweepChunk(3.0, 1.0, (why,), decode=columns(0))).decode.step_seconds)


def test_a_part_without_columns_is_as_the_library_writes_it() -> None:
    start = SweepStart(
        Kind.SERVING, ("m",), ("a",), ("TP1",), ("checkpoint",), ("vllm",), (), (), (1.0,), (RequestLength(3, 4),), 1, 1.0,
        ("an assumption",), "r", (Source("s", "A title", "A publisher", "https://example.org", "2026"),),
    )  # fmt: skip
    got = pb.RunSweepResponse.FromString(WRITE(RunSweepResponse(start=start)))
    assert got == pb.RunSweepResponse.FromString(got.SerializeToString())
    assert ("s", "A title", 4) == (got.start.sources[0].id, got.start.sources[0].title, got.start.lengths[0].output_tokens)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_not_finite_is_refused_by_name(name: str, value: float) -> None:
    column = np.arange(100.0)
    column[63] = value
    with pytest.raises(NotFinite, match=name):
        WRITE(RunSweepResponse(chunk=SweepChunk(0.0, 1.0, (), decode=columns(100, **{name: column}))))
