"""Prices: the request that is built, all of them from a service, and how they are shown."""

import re

import pytest

from tests.client.conftest import Run, ScriptedServer, answers
from tests.service_process import RunningService
from tonnage import Client, InvalidRequest
from tonnage.price_requests import list_prices
from tonnage.v1.catalogue_service_pb2 import ListPricesRequest, ListPricesResponse
from tonnage.v1.price_pb2 import Price


def test_what_is_given_is_what_is_asked() -> None:
    assert ListPricesRequest() == list_prices()
    expected = ListPricesRequest(node_type="a", accelerator="b", term=Price.ONE_YEAR, region="c", page_size=7)
    assert expected == list_prices(node_type="a", accelerator="b", term="one-year", region="c", page_size=7)
    with pytest.raises(InvalidRequest, match="none of on_demand, spot, one_year, three_years"):
        list_prices(term="daily")


def test_a_service_lists_every_price_once(service: RunningService) -> None:
    with Client(service.grpc) as client:
        listed = list(client.list_prices(page_size=10))
        assert listed == list(client.list_prices())
        (price,) = client.list_prices(node_type="p5.48xlarge")
    assert len(listed) > 90
    assert (55.04, "USD", "2026-07-20", 8) == (price.amount_per_hour, price.currency, price.date, price.num_devices)


def test_people_see_amounts_dates_and_sources(run: Run, scripted: ScriptedServer) -> None:
    scripted.script["ListPrices"] = answers(
        ListPricesResponse(
            prices=[
                Price(
                    node_type="eight",
                    amount_per_hour=55.04,
                    currency="USD",
                    basis=Price.PER_NODE,
                    term=Price.ON_DEMAND,
                    date="2026-07-20",
                    source="a list",
                    num_devices=8,
                ),
                Price(accelerator="one", amount_per_hour=0.5, currency="EUR", basis=Price.PER_DEVICE, source="a [red] note"),
            ],
            catalogue_revision="abc",
        )
    )
    code, shown, _ = run("prices", "--term", "on-demand")
    lines = [re.split(r"\s{2,}", line.strip()) for line in shown.splitlines()]
    assert 0 == code
    assert ["eight", "8", "55.04 USD", "6.88 USD", "on-demand", "2026-07-20", "[1]"] in lines
    assert ["one", "0.500 EUR", "not known", "[2]"] in lines
    assert "[2] a [red] note" in shown
    assert "catalogue abc" in shown
    assert ListPricesRequest(term=Price.ON_DEMAND) == scripted.requests[-1]
