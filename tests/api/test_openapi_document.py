"""The service does what its OpenAPI document says, as schemathesis sees it."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from service.api.openapi import document
from service.api.schema import RPCS
from tests.api.random_requests import EXAMPLES
from tests.service_process import RunningService

# Of what breaks the schema some is too large to be read at all (413), which is a refusal too.
REFUSALS = ["400", "404", "406", "413", "415", "422"]
CONFIG = SchemathesisConfig.from_dict({"checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}}})
SCHEMA = schemathesis.openapi.from_dict(document(), config=CONFIG)
OPERATIONS = {rpc.name: SCHEMA[rpc.http.template.replace("=**", "")][rpc.http.method] for rpc in RPCS}


def check_conformance(case: Any, address: str) -> None:
    """Asks, and holds the answer against the document."""
    # What the schema allows may still contradict itself, or name what the catalogue does not have.
    case.call_and_validate(base_url=address, excluded_checks=[positive_data_acceptance])


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
@settings(EXAMPLES, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_conforms(service: RunningService, name: str, mode: Any, data: st.DataObject) -> None:
    check_conformance(data.draw(OPERATIONS[name].as_strategy(generation_mode=mode)), service.http)
