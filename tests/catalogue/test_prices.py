"""Published prices: what the files mean, figures that matter, and what holds for every price that ships."""

from collections import Counter
from pathlib import Path

from service.catalogue.entries import Basis, Catalogue
from service.catalogue.loader import load
from service.catalogue.prices import PublishedPrice, Term


def amount(catalogue: Catalogue, name: str, term: Term, published: str) -> float:
    (price,) = (
        each for each in catalogue.prices[published].prices if name in {each.node_type, each.accelerator} and each.term is term
    )
    return price.amount_per_hour.value


def every_price(catalogue: Catalogue) -> list[tuple[str, PublishedPrice]]:
    return [(name, each) for name, many in catalogue.prices.items() for each in many.prices]


def test_a_row_has_the_date_and_region_of_its_file_unless_it_says_its_own(good: Path) -> None:
    node, spot, device = load(good).prices["vendor"].prices
    assert ("alpha-node", None, Term.ON_DEMAND, "north-1", "2026-01-31") == describe(node)
    assert ("alpha-node", None, Term.SPOT, "south-2", "2026-01-31") == describe(spot)
    assert (None, "alpha", Term.ONE_YEAR, "north-1", "2026-02") == describe(device)


def describe(price: PublishedPrice) -> tuple[str | None, str | None, Term, str | None, str | None]:
    return price.node_type, price.accelerator, price.term, price.region, price.date


def test_prices_that_matter(catalogue: Catalogue) -> None:
    assert 55.04 == amount(catalogue, "aws-p5.48xlarge", Term.ON_DEMAND, "aws-us-east-1")
    assert 88.49 == amount(catalogue, "gcp-a3-highgpu-8g", Term.ON_DEMAND, "google-cloud")
    assert 50.609541 == amount(catalogue, "gcp-a3-highgpu-8g", Term.SPOT, "google-cloud")
    assert 98.32 == amount(catalogue, "azure-standard_nd96isr_h100_v5", Term.ON_DEMAND, "azure")
    assert 80 == amount(catalogue, "oci-bm.gpu.h100.8", Term.ON_DEMAND, "oracle-cloud")
    assert 49.24 == amount(catalogue, "coreweave-hgx-h100", Term.ON_DEMAND, "coreweave")
    assert 2.7 == amount(catalogue, "tpu-v6e", Term.ON_DEMAND, "google-cloud-tpu")
    assert 7.15 == amount(catalogue, "b200", Term.ON_DEMAND, "nebius")


def test_lambdas_rise_is_kept_as_two_dated_prices(catalogue: Catalogue) -> None:
    assert 8 * 2.99 == amount(catalogue, "lambda-gpu_8x_h100_sxm5", Term.ON_DEMAND, "lambda-2025-12")
    assert 8 * 3.99 == amount(catalogue, "lambda-gpu_8x_h100_sxm5", Term.ON_DEMAND, "lambda-2026")
    assert ("2025-12-11", "2026") == (catalogue.prices["lambda-2025-12"].date, catalogue.prices["lambda-2026"].date)


def test_every_price_has_a_date_or_its_file_says_why_not(catalogue: Catalogue) -> None:
    undated = {name for name, price in every_price(catalogue) if price.date is None}
    assert {"oracle-cloud"} == undated == {name for name, many in catalogue.prices.items() if many.undated}


def test_a_rented_node_type_is_priced_or_said_not_to_be(catalogue: Catalogue) -> None:
    told = {each.node_type for many in catalogue.prices.values() for _, each in many.rows()}
    bought = {name for name, node in catalogue.node_types.items() if node.provider == "NVIDIA"}
    assert catalogue.node_types.keys() - bought == told - {None}
    assert bought


def test_a_list_is_of_one_provider_whose_nodes_it_prices(catalogue: Catalogue) -> None:
    for many in catalogue.prices.values():
        for _, each in many.rows():
            if each.node_type is not None:
                assert many.provider == catalogue.node_types[each.node_type].provider, each.node_type


def test_a_device_costs_what_devices_cost(catalogue: Catalogue) -> None:
    for name, price in every_price(catalogue):
        node = catalogue.node_types.get(price.node_type or "")
        per_device = price.amount_per_hour.value / (node.num_devices if node else 1)
        assert 0.3 < per_device < 30, (name, price)  # a price of the whole node taken for a device's, or the reverse


def test_spot_is_cheaper_than_on_demand(catalogue: Catalogue) -> None:
    spot = [(name, each) for name, each in every_price(catalogue) if each.term is Term.SPOT]
    assert len(spot) == 12
    for name, each in spot:
        assert each.node_type is not None
        assert each.amount_per_hour.value < amount(catalogue, each.node_type, Term.ON_DEMAND, name)


def test_how_many_prices_there_are(catalogue: Catalogue) -> None:
    counted = Counter(each.term for _, each in every_price(catalogue))
    assert {Term.ON_DEMAND: 82, Term.SPOT: 12} == counted
    assert 8 == sum(len(many.unpriced) for many in catalogue.prices.values())
    assert {Basis.DATASHEET, Basis.DERIVED} == {each.amount_per_hour.basis for _, each in every_price(catalogue)}
