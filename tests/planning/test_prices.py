"""The price book: whose price is taken, for which term and region, in which currency, and when there is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from service.catalogue.entries import Catalogue
from service.planning.errors import InvalidRequest, NotFound
from service.planning.explain import Recorder
from service.planning.money import Exchange, ExchangeRate, Price, PriceBasis, PriceFormat, PriceList, PriceTerm
from service.planning.planner import Planner
from service.planning.price_choice import NoPrice, Offer, Quote, Wanted, published_offer
from service.planning.price_listing import ListPricesRequest, published_prices
from service.planning.prices import PriceBook
from tests.planning.price_lists import INFRACOST, OPENCOST, YAML

P5 = "aws-p5.48xlarge"
MINE = Price(31.5, "USD", node_type="p5.48xlarge")


def quoted(answer: Quote | NoPrice) -> Quote:
    assert isinstance(answer, Quote)
    return answer


def refused(answer: Quote | NoPrice) -> NoPrice:
    assert isinstance(answer, NoPrice)
    return answer


def book(catalogue: Catalogue, *prices: Price, rates: tuple[ExchangeRate, ...] = ()) -> PriceBook:
    return PriceBook(catalogue, PriceList(prices=prices, exchange_rates=rates))


def test_a_published_price_with_its_date_source_and_term(catalogue: Catalogue) -> None:
    quote = quoted(book(catalogue).node_price("p5.48xlarge"))
    assert (quote.amount_per_node_hour, quote.amount_per_device_hour) == (55.04, 6.88)
    assert (quote.currency, quote.is_own, quote.exchange_rate, quote.notes) == ("USD", False, None, ())
    assert (quote.price.date, quote.price.region, quote.price.term) == ("2026-07-20", "us-east-1", PriceTerm.ON_DEMAND)
    assert "AWS price list" in quote.price.source
    assert quote.price.num_devices == 8


def test_every_node_type_is_quoted_or_said_not_to_be(catalogue: Catalogue) -> None:
    prices = book(catalogue)
    priced = {each.node_type for many in catalogue.prices.values() for each in many.prices}
    for name in catalogue.node_types:
        answer = prices.node_price(name)
        assert isinstance(answer, Quote) == (name in priced), name
        if isinstance(answer, NoPrice):
            assert answer.reason
            assert answer.remedy


def test_the_newest_of_two_published_prices_is_taken(catalogue: Catalogue) -> None:
    quote = quoted(book(catalogue).node_price("lambda-gpu_8x_h100_sxm5"))
    assert (quote.amount_per_node_hour, quote.price.date) == (31.92, "2026")


def test_of_published_prices_of_one_date_the_lowest_is_taken() -> None:
    dear = Price(3.0, "USD", node_type="a", term=PriceTerm.ON_DEMAND, region="here", date="2026")
    cheap = replace(dear, amount_per_hour=2.0, region="there")
    wanted = Wanted(PriceTerm.ON_DEMAND, "", "")
    for prices in ((dear, cheap), (cheap, dear)):
        assert published_offer(prices, wanted) == Offer(cheap, is_own=False)
    assert published_offer((dear, cheap), replace(wanted, region="here")) == Offer(dear, is_own=False)


def test_an_undated_price_says_so(catalogue: Catalogue) -> None:
    quote = quoted(book(catalogue).node_price("oci-bm.gpu.h100.8"))
    assert (quote.amount_per_node_hour, quote.price.date) == (80, "")
    assert "does not record when" in quote.price.note


def test_without_a_price_there_is_a_reason_and_no_guess(catalogue: Catalogue) -> None:
    prices = book(catalogue)
    assert "no price of it is known" == refused(prices.node_price("dgx-h100")).reason
    assert "capacity reservations" in refused(prices.node_price("aws-p6e-gb200.36xlarge")).reason
    spot = refused(prices.node_price(P5, term=PriceTerm.SPOT))
    assert "no price of it is known for SPOT; known are prices for ON_DEMAND in us-east-1" == spot.reason
    assert [55.04] == [each.amount_per_hour for each in spot.known]
    assert isinstance(prices.node_price(P5, region="eu-central-1"), NoPrice)
    assert isinstance(prices.node_price("gcp-a3-highgpu-8g", term=PriceTerm.ONE_YEAR), NoPrice)


def test_a_price_without_a_region_says_so_where_one_is_asked_for(catalogue: Catalogue) -> None:
    quote = quoted(book(catalogue).node_price("azure-standard_nd96isr_h100_v5", region="westeurope"))
    assert quote.notes == ("the region of this price is not stated",)


def test_unknown_names_are_not_found(catalogue: Catalogue) -> None:
    with pytest.raises(NotFound):
        book(catalogue).node_price("p5.48xlrge")
    with pytest.raises(NotFound):
        book(catalogue).device_price("h100")


def test_the_callers_price_comes_first(catalogue: Catalogue) -> None:
    quote = quoted(book(catalogue, MINE).node_price(P5))
    assert (quote.amount_per_node_hour, quote.is_own) == (31.5, True)
    assert quote.notes == ("the term of this price is not stated",)


def test_the_callers_price_for_another_term_does_not_stand_in(catalogue: Catalogue) -> None:
    prices = book(catalogue, replace(MINE, term=PriceTerm.THREE_YEARS))
    assert quoted(prices.node_price(P5)).amount_per_node_hour == 55.04
    assert quoted(prices.node_price(P5, term=PriceTerm.THREE_YEARS)).amount_per_node_hour == 31.5


def test_a_stated_term_comes_before_an_unstated_one(catalogue: Catalogue) -> None:
    prices = book(catalogue, MINE, replace(MINE, term=PriceTerm.SPOT, amount_per_hour=20.0))
    assert quoted(prices.node_price(P5, term=PriceTerm.SPOT)).amount_per_node_hour == 20.0
    assert quoted(prices.node_price(P5)).amount_per_node_hour == 31.5


def test_the_callers_price_in_another_region_does_not_stand_in(catalogue: Catalogue) -> None:
    prices = book(catalogue, replace(MINE, region="eu-west-1"))
    assert quoted(prices.node_price(P5, region="EU-WEST-1")).amount_per_node_hour == 31.5
    assert quoted(prices.node_price(P5, region="us-east-1")).amount_per_node_hour == 55.04


def test_the_callers_newest_price_is_taken_and_the_mean_of_equals(catalogue: Catalogue) -> None:
    old, new = replace(MINE, date="2026-01"), replace(MINE, date="2026-06", amount_per_hour=30.0)
    assert quoted(book(catalogue, new, old).node_price(P5)).amount_per_node_hour == 30.0
    quote = quoted(book(catalogue, old, new, replace(new, amount_per_hour=34.0)).node_price(P5))
    assert quote.amount_per_node_hour == 32.0
    assert "the mean of 2 prices from 30 to 34" in quote.notes


def test_the_callers_price_of_a_device_prices_its_nodes(catalogue: Catalogue) -> None:
    prices = book(catalogue, Price(2.0, "USD", accelerator="NVIDIA-H100-80GB-HBM3"))
    assert quoted(prices.node_price("dgx-h100")).amount_per_node_hour == 16.0
    assert quoted(prices.node_price(P5)).amount_per_node_hour == 16.0
    assert quoted(prices.device_price("h100-sxm")).amount_per_node_hour is None
    assert quoted(book(catalogue, Price(2.0, "USD", accelerator="h100-sxm"), MINE).node_price(P5)).amount_per_node_hour == 31.5


def test_a_published_price_of_a_device_prices_no_other_providers_node(catalogue: Catalogue) -> None:
    assert isinstance(book(catalogue).node_price("dgx-b200"), NoPrice)


def test_a_device_costs_the_lowest_that_is_published(catalogue: Catalogue) -> None:
    quote = quoted(book(catalogue).device_price("h100-sxm"))
    assert (quote.price.node_type, quote.amount_per_device_hour) == ("lambda-gpu_8x_h100_sxm5", 3.99)
    assert "the lowest of 10 prices, which reach to 12.29 USD per device-hour" == quote.notes[-1]
    assert quoted(book(catalogue).device_price("tpu-v6e")).amount_per_device_hour == 2.7
    b300 = quoted(book(catalogue).device_price("b300"))
    assert (b300.price.provider, b300.amount_per_device_hour) == ("Nebius", 7.85)
    assert isinstance(book(catalogue).device_price("rubin"), NoPrice)
    assert isinstance(book(catalogue).device_price("tpu-v6e", term=PriceTerm.SPOT), NoPrice)


def test_a_device_costs_its_part_of_the_callers_node(catalogue: Catalogue) -> None:
    quote = quoted(book(catalogue, MINE).device_price("h100-sxm"))
    assert (quote.amount_per_device_hour, quote.is_own) == (31.5 / 8, True)


def test_opencost_charges_devices_on_top_of_their_node(catalogue: Catalogue) -> None:
    prices = PriceBook(catalogue, PriceList(document=OPENCOST, format=PriceFormat.OPENCOST_CSV, currency="USD"))
    quote = quoted(prices.node_price("dgx-h100"))
    assert quote.amount_per_node_hour == 22.0  # 4 + 8 · 2.25
    assert quote.amount_per_device_hour == 2.75
    assert "the node alone at 4, and 8 devices at 2.25 on top" in quote.notes
    assert {"line 5", "line 7"} == {each.place for each in prices.unread}


def test_a_node_whose_devices_cannot_be_told_has_no_price(catalogue: Catalogue) -> None:
    text = OPENCOST.replace("NVIDIA-H100-80GB-HBM3", "fast-one")
    prices = PriceBook(catalogue, PriceList(document=text, format=PriceFormat.OPENCOST_CSV, currency="USD"))
    assert "fast-one" in refused(prices.node_price("dgx-h100")).reason
    assert "fast-one" in refused(prices.device_price("h100-sxm")).reason
    assert any(each.name == "fast-one" and "no accelerator of that name" in each.reason for each in prices.unread)


def test_a_node_at_nothing_has_no_price_but_with_its_devices(catalogue: Catalogue) -> None:
    text = OPENCOST.replace("dgx-h100,4,", "dgx-h100,0,")
    given = PriceList(document=text, format=PriceFormat.OPENCOST_CSV, currency="USD")
    assert quoted(PriceBook(catalogue, given).node_price("dgx-h100")).amount_per_node_hour == 18.0
    alone = replace(given, document="\n".join(line for line in text.splitlines() if ",gpu," not in line))
    assert "zero" in refused(PriceBook(catalogue, alone).node_price("dgx-h100")).reason


def test_infracost_prices_by_the_providers_names(catalogue: Catalogue) -> None:
    prices = PriceBook(catalogue, PriceList(document=INFRACOST, format=PriceFormat.INFRACOST_JSON))
    assert quoted(prices.node_price(P5)).is_own
    assert quoted(prices.node_price("gcp-a2-highgpu-8g", term=PriceTerm.SPOT)).amount_per_node_hour == pytest.approx(15.5)
    assert any("no node type of that name" in each.reason for each in prices.unread if each.name == "m5.4xlarge")


def test_a_node_said_to_hold_another_accelerator_is_not_read(catalogue: Catalogue) -> None:
    prices = book(catalogue, replace(MINE, accelerator="h200-sxm"))
    assert not quoted(prices.node_price(P5)).is_own
    assert "aws-p5.48xlarge holds h100-sxm" in prices.unread[0].reason


def test_a_long_list_of_unknown_names_gets_a_few_hints(catalogue: Catalogue) -> None:
    prices = book(catalogue, *(Price(1.0, "USD", node_type=f"p5.{number}xlarge") for number in range(900, 1400)))
    assert len(prices.unread) == 500
    assert sum("the nearest are" in each.reason for each in prices.unread) == 20


# -- currencies -------------------------------------------------------------------------------------------------------

RATE = ExchangeRate("EUR", "USD", 1.25, "2026-11-30")


def test_nothing_is_converted_unless_a_rate_is_given(catalogue: Catalogue) -> None:
    given = PriceList(document=YAML, format=PriceFormat.YAML)
    prices = PriceBook(catalogue, given)
    assert (quoted(prices.node_price("dgx-h100")).currency, quoted(prices.node_price(P5)).currency) == ("EUR", "USD")
    with pytest.raises(InvalidRequest) as refusal:
        prices.node_price("dgx-h100", currency="USD")
    assert refusal.value.violations[0].field == "price_list.exchange_rates"
    quote = quoted(PriceBook(catalogue, replace(given, exchange_rates=(RATE,))).node_price("dgx-h100", currency="USD"))
    assert (quote.amount_per_node_hour, quote.currency, quote.exchange_rate) == (25.0, "USD", RATE)
    assert (quote.price.amount_per_hour, quote.price.currency) == (20.0, "EUR")


def test_a_rate_serves_the_other_way_round(catalogue: Catalogue) -> None:
    quote = quoted(book(catalogue, rates=(RATE,)).node_price(P5, currency="EUR"))
    assert quote.amount_per_node_hour == pytest.approx(44.032)


def test_prices_in_several_currencies_are_not_put_together(catalogue: Catalogue) -> None:
    euros = replace(MINE, currency="EUR")
    with pytest.raises(InvalidRequest, match="EUR and USD"):
        book(catalogue, MINE, euros).node_price(P5)
    dgx = Price(20.0, "EUR", node_type="dgx-h100")
    with pytest.raises(InvalidRequest, match="lowest cannot be told"):
        book(catalogue, MINE, dgx).device_price("h100-sxm")
    lowest = quoted(book(catalogue, MINE, dgx, rates=(RATE,)).device_price("h100-sxm", currency="USD"))
    assert lowest.amount_per_device_hour == pytest.approx(25 / 8)


def test_a_node_and_its_devices_on_top_are_in_one_currency(catalogue: Catalogue) -> None:
    on_top = Price(2.0, "EUR", accelerator="h100-sxm", basis=PriceBasis.PER_DEVICE_ON_TOP)
    with pytest.raises(InvalidRequest, match="EUR and USD"):
        book(catalogue, MINE, on_top).node_price(P5)


def test_amounts_in_several_currencies_are_added_with_rates_alone() -> None:
    amounts = [(10.0, "USD"), (8.0, "EUR")]
    assert Exchange((RATE,)).total(amounts, "USD") == 20.0
    assert Exchange().total(amounts[:1], "USD") == 10.0
    with pytest.raises(InvalidRequest, match="EUR and USD"):
        Exchange().total(amounts, "USD")
    with pytest.raises(InvalidRequest):
        Exchange((RATE, ExchangeRate("GBP", "EUR", 1.1, "2026"))).converted(1.0, "GBP", "USD")  # no rate is made of two


@pytest.mark.parametrize(
    "wrong",
    [
        (replace(RATE, to_currency="EUR"),),
        (replace(RATE, to_currency="usd"),),
        (replace(RATE, date=""),),
        (replace(RATE, rate=0.0),),
        (replace(RATE, rate=float("nan")),),
        (replace(RATE, rate=float("inf")),),
        (RATE, ExchangeRate("USD", "EUR", 0.9, "2026")),
    ],
)
def test_bad_rates_are_refused(wrong: tuple[ExchangeRate, ...]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        Exchange(wrong)
    assert refusal.value.violations[0].field == f"price_list.exchange_rates[{len(wrong) - 1}]"


# -- what must hold ---------------------------------------------------------------------------------------------------


@given(cheap=st.floats(0.01, 1e3), more=st.floats(0, 1e3), on_top=st.floats(0.01, 100))
def test_cheaper_prices_never_cost_more(catalogue: Catalogue, cheap: float, more: float, on_top: float) -> None:
    top = Price(on_top, "USD", accelerator="h100-sxm", basis=PriceBasis.PER_DEVICE_ON_TOP)
    for others in ((), (top,)):
        answers = [
            quoted(book(catalogue, replace(MINE, amount_per_hour=amount), *others).node_price(P5)).amount_per_node_hour
            for amount in (cheap, cheap + more)
        ]
        assert answers[0] is not None
        assert answers[1] is not None
        assert answers[0] <= answers[1]


def test_every_step_of_a_quote_can_be_shown(catalogue: Catalogue) -> None:
    recorder = Recorder()
    prices = PriceBook(
        catalogue, PriceList(document=OPENCOST, format=PriceFormat.OPENCOST_CSV, currency="EUR", exchange_rates=(RATE,))
    )
    quote = quoted(prices.node_price("dgx-h100", currency="USD", apply=recorder))
    steps = recorder.explanation(()).steps
    assert [each.name for each in steps] == ["price_per_node_hour", "converted_amount", "price_per_device_hour"]
    assert (quote.amount_per_node_hour, steps[-1].value) == (27.5, quote.amount_per_device_hour)


# -- the list ---------------------------------------------------------------------------------------------------------


def test_the_list_holds_every_price_once_and_in_order(planner: Planner, catalogue: Catalogue) -> None:
    found: list[Price] = []
    token = ""
    while True:
        page = planner.list_prices(ListPricesRequest(page_size=7, page_token=token))
        found += page.prices
        token = page.next_page_token
        if not token:
            break
    assert found == list(published_prices(catalogue).values())
    assert len(found) == sum(len(many.prices) for many in catalogue.prices.values())
    subjects = [each.node_type or each.accelerator for each in found]
    assert {each.node_type or each.accelerator for many in catalogue.prices.values() for each in many.prices} == set(subjects)


def test_the_list_is_restricted_by_what_is_asked(planner: Planner) -> None:
    def listed(request: ListPricesRequest) -> list[str]:
        return [each.node_type or each.accelerator for each in planner.list_prices(request).prices]

    assert listed(ListPricesRequest(node_type="p5.48xlarge")) == [P5]
    assert listed(ListPricesRequest(accelerator="tpu-v5-lite-podslice")) == ["tpu-v5e"]
    spot = ListPricesRequest(accelerator="h100-sxm", term=PriceTerm.SPOT)
    assert listed(spot) == ["gcp-a3-highgpu-1g", "gcp-a3-highgpu-8g", "gcp-a3-megagpu-8g"]
    assert listed(replace(spot, region="US-EAST4")) == ["gcp-a3-megagpu-8g"]
    assert listed(ListPricesRequest(node_type="dgx-h100")) == []
    for wrong in (ListPricesRequest(node_type="nothing"), ListPricesRequest(accelerator="h100")):
        with pytest.raises(NotFound):
            planner.list_prices(wrong)
