"""The caller's prices from OpenCost's pricing CSV.

Columns, by their names in OpenCost's ``pkg/cloud/provider/csvprovider.go`` and ``configs/pricing_schema*.csv``, and in
Kubecost's page "CSV Pricing": EndTimestamp, InstanceID, Region, AssetClass, InstanceIDField, InstanceType, MarketPriceHourly,
Version.

- A row of the class ``node`` is a machine's price. It says of which type in InstanceType, or in InstanceID where
  InstanceIDField is the instance-type label; a row that only names one machine says nothing of its type.
- A row of the class ``gpu`` is one device's price *on top of* its node's: OpenCost charges node + devices × gpu. InstanceID
  is the value of the label that InstanceIDField names.
- A row of the class ``pv`` is a volume's. OpenCost takes an empty class for ``node``, and so do we.
- EndTimestamp and Version mean nothing to OpenCost, and a file has no currency: the request must say it.

OpenCost's other CSV, the daily export of allocations (``pkg/costmodel/csv_export.go``), holds what containers cost on a day.
Its GPUs column is an average over minutes that it does not state, and it names no accelerator: no price follows from it.
"""

import csv
import io
from collections.abc import Iterator
from typing import Final

from service.planning.money import Price, PriceBasis
from service.planning.price_rows import MAX_ROWS, PriceRows, shown

_REQUIRED: Final = ("InstanceID", "AssetClass", "InstanceIDField", "InstanceType", "MarketPriceHourly")
_COLUMNS: Final = (*_REQUIRED, "Region", "EndTimestamp", "Version")
_ALLOCATION: Final = frozenset(("Namespace", "ControllerKind", "TotalCost"))
_TYPE_LABEL: Final = "instance-type"  # node.kubernetes.io/instance-type, and its beta form


def read_opencost_csv(document: str, defaults: dict[str, str], rows: PriceRows) -> None:
    """Reads the document into ``rows``; ``defaults`` are the request's currency, date, region and source."""
    currency = rows.currency("", "currency", defaults["currency"])
    try:
        # Without strict, a quote that is never closed would swallow the rest of the file.
        records = list(_records(document))
    except csv.Error as error:
        rows.refuse("", "", f"no valid CSV: {error}")
        return
    if not records:
        rows.refuse("", "", "the document is empty", "send the pricing CSV with its header")
        return
    header = [name.strip() for name in records[0][1]]
    if not _is_header(header, rows):
        return
    if len(records) > MAX_ROWS + 1:
        rows.refuse("", "", f"{len(records) - 1} rows are more than {MAX_ROWS}")
        return
    for line, record in records[1:]:
        place = f"line {line}"
        if len(record) != len(header):
            rows.refuse(place, "", f"{len(record)} cells where the header has {len(header)}")
            continue
        _read_row(place, dict(zip(header, record, strict=True)), currency, defaults, rows)


def _records(document: str) -> Iterator[tuple[int, list[str]]]:
    """Records with the line on which each ends; without empty lines and comments, as OpenCost reads them."""
    reader = csv.reader(io.StringIO(document, newline=""), strict=True)
    for record in reader:
        if record and not (len(record) == 1 and (not record[0].strip() or record[0].startswith("#"))):
            yield reader.line_num, record


def _is_header(header: list[str], rows: PriceRows) -> bool:
    if set(header) >= _ALLOCATION:
        reason = "this is OpenCost's export of allocations: what containers cost on a day, from which no price per hour follows"
        rows.refuse("", "", reason, "send the pricing CSV (InstanceID, AssetClass, …, MarketPriceHourly)")
        return False
    if missing := [name for name in _REQUIRED if name not in header]:
        rows.refuse("", "", f"the header lacks {', '.join(missing)}", f"the columns are {', '.join(_COLUMNS)}")
        return False
    if len(set(header)) != len(header):
        rows.refuse("", "", "the header names a column twice")
        return False
    return True


def _read_row(place: str, cells: dict[str, str], currency: str, defaults: dict[str, str], rows: PriceRows) -> None:
    text = {name: rows.text(place, name, cells.get(name)) for name in _COLUMNS if name != "MarketPriceHourly"}
    asset_class = text["AssetClass"].casefold() or "node"
    if asset_class not in {"node", "gpu"}:
        reason = "a volume's price" if asset_class == "pv" else f"of the asset class {shown(text['AssetClass'])}"
        rows.leave_out(place, text["InstanceID"], f"{reason}, not a node's or a device's")
        return
    is_node = asset_class == "node"
    amount = rows.amount(place, "MarketPriceHourly", cells["MarketPriceHourly"], may_be_zero=is_node)
    name = _node_type(text) if is_node else text["InstanceID"]
    if not name:
        reason = "names one machine and not its type" if is_node else "names no label value"
        rows.leave_out(place, text["InstanceID"], f"{reason}: fill InstanceType or InstanceID")
        return
    if amount is None:
        return
    price = Price(
        amount_per_hour=amount,
        currency=currency,
        node_type=name if is_node else "",
        accelerator="" if is_node else name,
        basis=PriceBasis.PER_NODE if is_node else PriceBasis.PER_DEVICE_ON_TOP,
        region=text["Region"] or defaults["region"],
        date=defaults["date"],
        source=defaults["source"] or "OpenCost pricing CSV",
    )
    rows.add(place, price)


def _node_type(text: dict[str, str]) -> str:
    return text["InstanceType"] or (text["InstanceID"] if text["InstanceIDField"].endswith(_TYPE_LABEL) else "")
