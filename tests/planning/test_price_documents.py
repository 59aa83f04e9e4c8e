"""The caller's own prices: what each form means, what is left out and said to be, and what is refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalogue.entries import Catalogue
from service.planning.errors import InvalidRequest, Violation
from service.planning.money import Price, PriceBasis, PriceFormat, PriceList, PriceTerm
from service.planning.price_documents import MAX_DOCUMENT_CHARACTERS, read_price_list
from service.planning.price_listing import published_prices
from service.planning.price_rows import PriceRows
from tests.planning.price_lists import INFRACOST, OPENCOST, YAML, component, infracost, resource

SPECS = Path(__file__).parents[2] / "specs"
HEADER = OPENCOST.partition("\n")[0]


def read(document: str, kind: PriceFormat, currency: str = "") -> PriceRows:
    return read_price_list(PriceList(document=document, format=kind, currency=currency))


def refusals(document: str, kind: PriceFormat, currency: str = "USD") -> dict[str, str]:
    with pytest.raises(InvalidRequest) as refused:
        read(document, kind, currency)
    return {each.field: each.reason for each in refused.value.violations}


def test_our_own_form() -> None:
    node, own, device = (each.price for each in read(YAML, PriceFormat.YAML).prices)
    assert node == Price(
        31.5,
        "EUR",
        node_type="aws-p5.48xlarge",
        basis=PriceBasis.PER_NODE,
        term=PriceTerm.ONE_YEAR,
        region="us-east-1",
        date="2026-11-01",
        source="contract 4711",
    )
    assert (own.amount_per_hour, own.term, own.region) == (20.0, None, "")  # 14,600 / 730
    assert (device.amount_per_hour, device.basis, device.date) == (2.0, PriceBasis.PER_DEVICE, "2026-10")  # 17,520 / 8,760


def test_every_file_of_the_catalogue_can_be_sent_back(catalogue: Catalogue) -> None:
    for name, many in catalogue.prices.items():
        rows = read((SPECS / "prices" / f"{name}.yaml").read_text(encoding="utf-8"), PriceFormat.YAML)
        expected = [each.amount_per_hour.value for each in many.prices]
        assert expected == [row.price.amount_per_hour for row in rows.prices]
        assert [each.reason for each in many.unpriced] == [each.reason for each in rows.unread]
        for row, each in zip(rows.prices, many.prices, strict=True):
            assert (row.price.node_type or None, row.price.accelerator or None) == (each.node_type, each.accelerator)
            assert (row.price.date, row.price.region) == (each.date or "", each.region or "")
            assert row.price.term is PriceTerm[each.term.name]


def test_a_published_price_can_be_sent_back_as_it_was_listed(catalogue: Catalogue) -> None:
    listed = tuple(published_prices(catalogue).values())
    rows = read_price_list(PriceList(prices=listed))
    assert [each.amount_per_hour for each in listed] == [row.price.amount_per_hour for row in rows.prices]


@pytest.mark.parametrize(
    ("row", "field", "reason"),
    [
        ("{value: 1}", "[line 2]", "must say of what"),
        ("{node_type: a, accelerator: b, value: 1}", "[line 2]", "must say of what"),
        ("{node_type: a}", "[line 2].value", "must be a price"),
        ("{node_type: a, value: -1}", "[line 2].value", "above zero"),
        ("{node_type: a, value: 0}", "[line 2].value", "above zero"),
        ("{node_type: a, value: .nan}", "[line 2].value", "must be a price"),
        ("{node_type: a, value: .inf}", "[line 2].value", "must be a price"),
        ("{node_type: a, value: true}", "[line 2].value", "must be a price"),
        ("{node_type: a, value: 1e300}", "[line 2].value", "more than 1,000,000 an hour"),
        (f"{{node_type: a, value: {'9' * 299}}}", "[line 2].value", "more than 1,000,000 an hour"),
        ("{node_type: a, value: [1]}", "[line 2].value", "must be a price"),
        ("{node_type: a, value: '1,5'}", "[line 2].value", "must be a price"),
        ("{node_type: '=HYPERLINK(1)', value: 1}", "[line 2].node_type", "run as a formula"),
        ("{node_type: '@x', value: 1}", "[line 2].node_type", "run as a formula"),
        ('{node_type: "a\\nb", value: 1}', "[line 2].node_type", "control characters"),
        (f"{{node_type: {'a' * 501}, value: 1}}", "[line 2].node_type", "longer than 500"),
        ("{node_type: 5, value: 1}", "[line 2].node_type", "must be text"),
        ("{node_type: a, value: 1, unit: USD/day}", "[line 2].unit", "USD/h, USD/month or USD/year"),
        ("{node_type: a, value: 1, unit: usd/h}", "[line 2].unit", "no currency"),
        ("{node_type: a, value: 1, currency: EUR, unit: USD/h}", "[line 2].unit", "contradicts the currency EUR"),
        ("{node_type: a, value: 1, currency: [USD]}", "[line 2].currency", "no currency"),
        ("{node_type: a, value: 1, term: 2y}", "[line 2].term", "none of on_demand, spot, 1y, 3y"),
        ("{node_type: a, value: 1, term: [1y]}", "[line 2].term", "none of on_demand"),
        ("{node_type: a, value: 1, date: 1.1.2026}", "[line 2].date", "does not read like"),
        ("{node_type: a, value: 1, colour: red}", "[line 2].colour", "unknown key"),
        ("7", "[line 2]", "must be a mapping"),
    ],
)
def test_a_bad_row_of_ours_is_refused_by_line_and_field(row: str, field: str, reason: str) -> None:
    found = refusals(f"prices:\n  - {row}\n", PriceFormat.YAML)
    assert reason in found[f"price_list.document{field}"]


def test_the_same_thing_is_not_priced_twice() -> None:
    text = "currency: USD\nprices:\n  - {node_type: a, value: 1}\n  - {node_type: a, value: 2}\n"
    assert "the first is on line 3" in refusals(text, PriceFormat.YAML)["price_list.document[line 4]"]


@pytest.mark.parametrize(
    "text", ["", "prices: []", "prices: 7", "a: [", "x", "- &a {node_type: a}\n- *a", "[" * 5000, "odd: 1"]
)
def test_what_is_no_list_of_prices_is_refused(text: str) -> None:
    if text:
        assert refusals(text, PriceFormat.YAML)
    else:
        assert not read(text, PriceFormat.YAML).prices


def test_faults_are_told_all_at_once_but_not_without_end() -> None:
    rows = "\n".join("  - {node_type: a, value: -1}" for _ in range(200))
    with pytest.raises(InvalidRequest) as refused:
        read(f"prices:\n{rows}", PriceFormat.YAML, "USD")
    assert len(refused.value.violations) == 51
    assert "more faults" in refused.value.violations[-1].reason


def test_opencost() -> None:
    rows = read(OPENCOST, PriceFormat.OPENCOST_CSV, "USD")
    node, rack, device = (each.price for each in rows.prices)
    assert (node.node_type, node.amount_per_hour, node.region, node.currency) == ("p5.48xlarge", 31.5, "us-east-1", "USD")
    assert (rack.node_type, rack.amount_per_hour, rack.basis) == ("dgx-h100", 4.0, PriceBasis.PER_NODE)
    assert (device.accelerator, device.basis) == ("NVIDIA-H100-80GB-HBM3", PriceBasis.PER_DEVICE_ON_TOP)
    assert [each.place for each in rows.prices] == ["line 2", "line 4", "line 6"]
    assert [(each.place, each.name) for each in rows.unread] == [("line 5", "rack-8"), ("line 7", "pv-1")]
    assert "names one machine and not its type" in rows.unread[0].reason
    assert "a volume's price" in rows.unread[1].reason


def test_opencost_says_no_currency_so_the_caller_must() -> None:
    assert "not given" in refusals(OPENCOST, PriceFormat.OPENCOST_CSV, "")["price_list.document.currency"]


def test_an_export_of_allocations_gives_no_prices() -> None:
    text = "Date,Namespace,ControllerKind,ControllerName,Pod,Container,Labels,GPUs,GPUCost,TotalCost\n"
    assert "export of allocations" in refusals(text, PriceFormat.OPENCOST_CSV)["price_list.document"]


@pytest.mark.parametrize(
    ("row", "field", "reason"),
    [
        (",p5,,node,metadata.name,p5.48xlarge,,", ".MarketPriceHourly", "must be a price"),
        (",p5,,node,metadata.name,p5.48xlarge,free,", ".MarketPriceHourly", "must be a price"),
        (",p5,,node,metadata.name,p5.48xlarge,nan,", ".MarketPriceHourly", "must be a price"),
        (",p5,,node,metadata.name,p5.48xlarge,1e999,", ".MarketPriceHourly", "must be a price"),
        (",p5,,node,metadata.name,p5.48xlarge,1e9,", ".MarketPriceHourly", "more than 1,000,000"),
        (",p5,,node,metadata.name,p5.48xlarge,-2,", ".MarketPriceHourly", "above zero"),
        (",p5,,node,metadata.name,p5.48xlarge,=1+1,", ".MarketPriceHourly", "must be a price"),
        (",p5,,gpu,nvidia.com/gpu.product,,0,", ".MarketPriceHourly", "above zero"),
        (",=cmd|' /C calc'!A0,,node,metadata.name,p5.48xlarge,2,", ".InstanceID", "run as a formula"),
        (",p5,+1,node,metadata.name,p5.48xlarge,2,", ".Region", "run as a formula"),
        (",p5,node,2", "", "4 cells where the header has 8"),
    ],
)
def test_a_bad_row_of_opencost_is_refused_by_line_and_field(row: str, field: str, reason: str) -> None:
    found = refusals(f"{HEADER}\n{row}\n", PriceFormat.OPENCOST_CSV)
    assert reason in found[f"price_list.document[line 2]{field}"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\n \n", "empty"),
        ("a,b\n1,2\n", "the header lacks InstanceID"),
        (f"{HEADER},Region\n", "names a column twice"),
        (f'{HEADER}\n"open', "no valid CSV"),
        (HEADER + "\n,p5,,node,metadata.name,p5.48xlarge,2," * 10_001, "more than 10000"),
    ],
)
def test_what_is_no_opencost_csv_is_refused(text: str, reason: str) -> None:
    assert reason in refusals(text, PriceFormat.OPENCOST_CSV)["price_list.document"]


def test_infracost() -> None:
    rows = read(INFRACOST, PriceFormat.INFRACOST_JSON)
    prices = {each.price.node_type: each.price for each in rows.prices}
    p5 = prices["p5.48xlarge"]
    assert (p5.amount_per_hour, p5.currency, p5.term, p5.date) == (55.04, "USD", PriceTerm.ON_DEMAND, "2026-11-20")
    # Two machines with 8 accelerators each: 3.5 + 16 · 1.5 / 2.
    assert prices["a2-highgpu-8g"].amount_per_hour == pytest.approx(15.5)
    assert prices["a2-highgpu-8g"].term is PriceTerm.SPOT
    assert prices["Standard_ND96isr_H100_v5"].term is PriceTerm.ON_DEMAND
    assert prices["g6.xlarge"].term is None
    assert set(prices) == {"p5.48xlarge", "a2-highgpu-8g", "Standard_ND96isr_H100_v5", "m5.4xlarge", "g6.xlarge"}
    unread = {each.name: each.reason for each in rows.unread}
    assert unread == {
        "EC2 detailed monitoring": "not a machine",
        "Storage (general purpose SSD, gp3)": "not a machine",
        "Instance usage (Windows, on-demand, g5.xlarge)": "the price includes a licence of Windows",
    }


def test_an_accelerator_without_a_price_leaves_its_machine_without_one() -> None:
    machine = component("Instance usage (Linux/UNIX, on-demand, a2-highgpu-1g)", "3.5")
    for price in ("0", None):
        rows = read(
            infracost(resource("x", machine, component("NVIDIA Tesla A100 (on-demand)", price))), PriceFormat.INFRACOST_JSON
        )
        assert not rows.prices
        assert "zero or not known" in rows.unread[0].reason


def test_an_hourly_or_monthly_cost_stands_in_for_a_price() -> None:
    made = component("Instance usage (Linux/UNIX, on-demand, p5.48xlarge)", "55.04", "3")
    for left_out in ({"price"}, {"price", "hourlyCost"}):
        kept = {key: value for key, value in made.items() if key not in left_out}
        (row,) = read(infracost(resource("x", kept)), PriceFormat.INFRACOST_JSON).prices
        assert row.price.amount_per_hour == pytest.approx(55.04)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "7",
        "{}",
        '{"projects": 7, "currency": "USD"}',
        '{"projects": [7], "currency": "USD"}',
        '{"projects": [{"breakdown": {"resources": 7}}], "currency": "USD"}',
        '{"projects": [{"breakdown": {"resources": [7]}}], "currency": "USD"}',
        '{"projects": [{"breakdown": {"resources": [{"costComponents": [7]}]}}], "currency": "USD"}',
        '{"projects": [], "currency": "dollars"}',
        '{"projects": [], "currency": ["USD"]}',
        '{"projects": NaN, "currency": "USD"}',
        "[" * 100_000,
        '{"projects": [], "x": ' + "9" * 5000 + "}",
    ],
)
def test_what_is_no_infracost_breakdown_is_refused(text: str) -> None:
    assert refusals(text, PriceFormat.INFRACOST_JSON, "")


def test_a_resource_of_too_many_components_is_refused() -> None:
    found = refusals(infracost(resource("x", *[component("Storage", "1")] * 101)), PriceFormat.INFRACOST_JSON)
    assert "at most 100" in found["price_list.document[projects[0].breakdown.resources[0]].costComponents"]


@pytest.mark.parametrize("price", ["-1", "NaN", "1e9", "=1", [1], True, {"a": 1}])
def test_a_bad_price_of_infracost_is_refused_by_its_path(price: object) -> None:
    made = component("Instance usage (Linux/UNIX, on-demand, p5.48xlarge)", "1") | {"price": price}
    found = refusals(infracost(resource("x", made)), PriceFormat.INFRACOST_JSON)
    assert list(found) == ["price_list.document[projects[0].breakdown.resources[0].costComponents[0]].price"]


def test_resources_within_resources_end_somewhere() -> None:
    nested = resource("x")
    for _ in range(40):
        nested = resource("x", subresources=(nested,))
    assert any("nested too deep" in reason for reason in refusals(infracost(nested), PriceFormat.INFRACOST_JSON).values())


@pytest.mark.parametrize(
    ("price_list", "field"),
    [
        (PriceList(document="x"), "price_list.format"),
        (PriceList(document="x" * (MAX_DOCUMENT_CHARACTERS + 1), format=PriceFormat.YAML), "price_list.document"),
        (PriceList(document=YAML, format=PriceFormat.YAML, currency="euro"), "price_list.currency"),
        (PriceList(document=YAML, format=PriceFormat.YAML, date="soon"), "price_list.date"),
        (PriceList(document=YAML, format=PriceFormat.YAML, source="=x"), "price_list.source"),
        (PriceList(prices=(Price(1.0, "USD"),)), "price_list.prices[0]"),
        (PriceList(prices=(Price(1.0, "USD", accelerator="a", basis=PriceBasis.PER_NODE),)), "price_list.prices[0].basis"),
        (PriceList(prices=(Price(1.0, "USD", node_type="a", basis=PriceBasis.PER_DEVICE),)), "price_list.prices[0].basis"),
        (PriceList(prices=(Price(1.0, "$", node_type="a"),)), "price_list.prices[0].currency"),
        (PriceList(prices=(Price(float("nan"), "USD", node_type="a"),)), "price_list.prices[0].amount_per_hour"),
        (PriceList(prices=(Price(-1.0, "USD", node_type="a"),)), "price_list.prices[0].amount_per_hour"),
        (PriceList(prices=(Price(1.0, "USD", node_type="a", date="x"),)), "price_list.prices[0].date"),
    ],
)
def test_a_bad_list_is_refused_by_its_field(price_list: PriceList, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_price_list(price_list)
    assert [field] == [each.field for each in refused.value.violations]


def test_a_byte_order_mark_is_no_part_of_the_header() -> None:
    assert 3 == len(read("\N{ZERO WIDTH NO-BREAK SPACE}" + OPENCOST, PriceFormat.OPENCOST_CSV, "USD").prices)


pieces = st.lists(st.sampled_from([*OPENCOST, *YAML, *INFRACOST, "\x00", "\r", '"', "🜁"]), max_size=80).map("".join)
documents = st.one_of(
    st.text(max_size=200),
    pieces,
    st.tuples(st.sampled_from([OPENCOST, YAML, INFRACOST]), st.integers(0, 600), pieces).map(
        lambda cut: cut[0][: cut[1]] + cut[2] + cut[0][cut[1] :]
    ),
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["projects", "breakdown", "resources", "costComponents", "name", "price"]), inner),
    ),
    max_leaves=12,
)


@given(document=st.one_of(documents, json_values.map(json.dumps)), kind=st.sampled_from(PriceFormat))
def test_whatever_is_sent_it_is_read_or_refused(document: str, kind: PriceFormat) -> None:
    rows = PriceRows("none")
    violations: tuple[Violation, ...] = ()
    try:
        rows = read(document, kind, "USD")
    except InvalidRequest as refused:
        violations = refused.violations
        found = bool(violations)
    else:
        found = True
    assert found
    assert all(each.field.startswith("price_list.document") and each.reason for each in violations)
    assert all(0 <= each.price.amount_per_hour <= 1e6 for each in rows.prices)
    assert all(each.reason for each in rows.unread)
