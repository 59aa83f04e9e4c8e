"""What deploy/autoscalers/cluster-autoscaler.md names is there, and its examples fit together."""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import yaml

from service.planning.node_groups import devices
from service.planning.node_groups.served import ANNOTATIONS
from service.settings import PREFIX, Settings

GUIDE = (Path(__file__).resolve().parents[2] / "deploy/autoscalers/cluster-autoscaler.md").read_text()
BLOCKS: list[list[Any]] = [
    list(yaml.safe_load_all(block)) for block in re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
]


def test_every_annotation_and_label_is_told() -> None:
    assert set(ANNOTATIONS) == set(re.findall(r"`(tonnage\.dev/[a-z-]+)`", GUIDE))
    told = GUIDE[GUIDE.index("## Which device") : GUIDE.index("## Which model")]
    places = [told.index(f"`{label}`") for label in (*devices._DEVICE_LABELS, devices._INSTANCE_TYPES[0])]
    assert sorted(places) == places


def test_every_setting_is_one() -> None:
    named = set(re.findall(rf"{PREFIX}[A-Z_]+", GUIDE))
    known = {f"{PREFIX}{name.upper()}" for name in Settings.__dataclass_fields__}
    assert named <= known
    assert {name for name in known if name.startswith(f"{PREFIX}EXPANDER_")} <= named


def test_the_examples_fit_together() -> None:
    (arguments,), (certificate, service), (environment,) = BLOCKS
    given = dict(each.removeprefix("--").split("=") for each in arguments)
    assert "grpc" == given["expander"].split(",")[0]
    host, port = given["grpc-expander-url"].split(":")  # no scheme: it is a gRPC target
    assert host in certificate["spec"]["dnsNames"]
    assert host == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.cluster.local"
    assert int(port) == service["spec"]["ports"][0]["port"]
    variables = {each["name"]: each["value"] for each in environment}
    assert port == variables["TONNAGE_EXPANDER_PORT"]
    assert Settings.__dataclass_fields__.keys() >= {name.removeprefix(PREFIX).lower() for name in variables}
    kubernetes_validate.validate(service, kubernetes_validate.latest_version(), strict=True)
