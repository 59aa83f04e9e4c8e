"""One browser and one service for all tests of the page; each test gets a page of its own that must stay without errors."""

from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.explorer.driving import ARGUMENTS, Explorer, Rest
from tests.programs import program
from tests.service_process import RunningService

Opened = Callable[..., Explorer]


# By file, not by session: Playwright keeps an event loop in this thread, which other tests could not have beside it.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program("chromium"), args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Browser, service: RunningService) -> Iterator[Opened]:
    """Makes pages, and sees in the end that none complained and none asked anybody but the service."""
    made: list[Explorer] = []

    def make(*, address: str = service.http, width: int = 1280, scheme: str = "light", touch: bool = False) -> Explorer:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
            has_touch=touch,
            reduced_motion="reduce",
        )
        made.append(Explorer(address, context, context.new_page()))
        return made[-1]

    yield make
    for each in made:
        each.context.close()
    assert [] == [complaint for each in made for complaint in each.complaints]
    assert {each.address.removeprefix("http://") for each in made} == set().union(*(each.hosts() for each in made))


@pytest.fixture
def explorer(opened: Opened) -> Explorer:
    """A page at the usual width, in the light scheme."""
    return opened()


@pytest.fixture
def rest(service: RunningService) -> Iterator[Rest]:
    with httpx.Client(base_url=service.http, timeout=30) as http:
        yield Rest(http)
