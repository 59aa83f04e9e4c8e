"""Messages about prices that no RPC takes or gives yet are nevertheless field for field their structs."""

import pytest
from google.protobuf.message import Message

from service.api.descriptors import descriptor_of
from service.api.messages import reader, writer
from service.api.rules import field_rules
from service.planning import money, purchase
from service.planning.price_documents import read_price_list
from tonnage.v1 import price_pb2

PAIRS: list[tuple[type[Message], type]] = [
    (price_pb2.Price, money.Price),
    (price_pb2.PriceList, money.PriceList),
    (price_pb2.ExchangeRate, money.ExchangeRate),
    (price_pb2.Power, purchase.Power),
    (price_pb2.PurchaseModel, purchase.PurchaseModel),
]


@pytest.mark.parametrize(("message", "kind"), PAIRS)
def test_the_message_is_the_dataclass(message: type[Message], kind: type) -> None:
    reader(message, kind)
    for field in descriptor_of(message).fields:
        field_rules(field)


def test_an_answers_row_is_its_dataclass() -> None:
    written = writer(price_pb2.UnreadPrice, money.UnreadPrice)(money.UnreadPrice("line 2", "m5.large", "not known"))
    assert written == price_pb2.UnreadPrice(place="line 2", name="m5.large", reason="not known")


def test_a_list_that_came_as_a_message_is_read() -> None:
    message = price_pb2.PriceList(
        document="- {node_type: dgx-h100, value: 20}", format=price_pb2.PriceList.YAML, currency="USD"
    )
    message.prices.add(node_type="p5.48xlarge", amount_per_hour=31.5, currency="USD", term=price_pb2.Price.SPOT)
    one, other = read_price_list(reader(price_pb2.PriceList, money.PriceList)(message)).prices
    assert (one.price.node_type, one.price.term, one.price.basis) == (
        "p5.48xlarge",
        money.PriceTerm.SPOT,
        money.PriceBasis.PER_NODE,
    )
    assert (other.place, other.price.amount_per_hour) == ("line 1", 20.0)


def test_the_ways_of_dividing_a_cost_are_those_of_the_schema() -> None:
    assert {str(each) for each in money.CostSplit} == set(price_pb2.CostSplit.keys()[1:])
