"""Clients of the running service."""

from collections.abc import Iterator

import grpc
import httpx
import pytest

from tests.api.asking import Doors
from tests.service_process import RunningService


@pytest.fixture(scope="session")
def doors(service: RunningService) -> Iterator[Doors]:
    """Both doors of the service with its default settings."""
    with httpx.Client(base_url=service.http, timeout=60) as http, grpc.insecure_channel(service.grpc) as channel:
        yield Doors(http, channel)
