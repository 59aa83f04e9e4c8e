"""Price documents in the forms that callers have them in."""

import json
from typing import Any

OPENCOST = """\
EndTimestamp,InstanceID,Region,AssetClass,InstanceIDField,InstanceType,MarketPriceHourly,Version
2028-01-06 23:34:45 UTC,p5.48xlarge,us-east-1,node,metadata.labels.node.kubernetes.io/instance-type,,31.5,
# machines of our own
2028-01-06 23:34:45 UTC,rack-7,,node,metadata.name,dgx-h100,4,
2028-01-06 23:34:45 UTC,rack-8,,node,metadata.name,,4,
2028-01-06 23:34:45 UTC,NVIDIA-H100-80GB-HBM3,,gpu,nvidia.com/gpu.product,,2.25,
2028-01-06 23:34:45 UTC,pv-1,,pv,metadata.name,,0.01,
"""

YAML = """\
currency: EUR
date: "2026-11-01"
source: contract 4711
prices:
  - {node_type: aws-p5.48xlarge, value: 31.5, unit: EUR/h, term: 1y, region: us-east-1}
  - {node_type: dgx-h100, value: 14600, unit: EUR/month}
  - {accelerator: h200-sxm, value: 17520, unit: EUR/year, date: "2026-10"}
"""


def component(name: str, price: str | None, quantity: str | None = "1", unit: str = "hours") -> dict[str, Any]:
    """A cost component as Infracost writes it."""
    known = price is not None and quantity is not None
    return {
        "name": name,
        "unit": unit,
        "hourlyQuantity": quantity,
        "monthlyQuantity": str(float(quantity) * 730) if quantity is not None else None,
        "price": price,
        "hourlyCost": str(float(price) * float(quantity)) if known and price and quantity else None,
        "monthlyCost": str(float(price) * float(quantity) * 730) if known and price and quantity else None,
    }


def infracost(*resources: dict[str, Any], currency: str = "USD") -> str:
    """The output of ``infracost breakdown --format json``, as far as it is read."""
    return json.dumps(
        {
            "version": "0.2",
            "currency": currency,
            "projects": [{"name": "fleet", "metadata": {"path": "."}, "breakdown": {"resources": list(resources)}}],
            "timeGenerated": "2026-11-20T12:32:33.052444307Z",
        }
    )


def resource(name: str, *components: dict[str, Any], subresources: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """A resource with its cost components."""
    return {"name": name, "metadata": {}, "costComponents": list(components), "subresources": list(subresources)}


INFRACOST = infracost(
    resource(
        "aws_instance.worker",
        component("Instance usage (Linux/UNIX, on-demand, p5.48xlarge)", "55.04"),
        component("EC2 detailed monitoring", "0.3", "0.0096", "metrics"),
        subresources=(resource("root_block_device", component("Storage (general purpose SSD, gp3)", "0.08", None, "GB")),),
    ),
    resource(
        "google_container_node_pool.a100",
        component("Instance usage (Linux/UNIX, preemptible, a2-highgpu-8g)", "3.5", "2"),
        component("NVIDIA Tesla A100 (preemptible)", "1.5", "16"),
    ),
    resource(
        "azurerm_linux_virtual_machine.h100",
        component("Instance usage (Linux, pay as you go, Standard_ND96isr_H100_v5)", "98.32"),
    ),
    resource("aws_instance.other", component("Instance usage (Linux/UNIX, on-demand, m5.4xlarge)", "0.768")),
    resource("aws_instance.windows", component("Instance usage (Windows, on-demand, g5.xlarge)", "1.19")),
    resource("aws_instance.kept", component("Instance usage (Linux/UNIX, reserved, g6.xlarge)", "0.5")),
)
