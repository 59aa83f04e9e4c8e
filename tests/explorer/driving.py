"""The page as a person sees it, driven in a real browser, and the REST door to compare it with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx
from playwright.sync_api import BrowserContext, Locator, Page, Request

#: Without a way out: names do not resolve, so whatever the page would load from elsewhere fails.
ARGUMENTS: Final = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
WAIT_MILLISECONDS: Final = 15_000
MISSING: Final = "–"
_GIB: Final = 2**30
#: Choices that the address leaves out where they are as at first.
_UNNAMED: Final = {"latency": ["tpot"]}


def shown(value: float) -> str:
    """A number as the page prints it: four significant digits, all digits of whole numbers from 10,000 on.

    >>> shown(7630.243), shown(0.0083876), shown(937_670.4), shown(107.04)
    ('7,630', '0.008388', '937,670', '107')
    """
    if 1e4 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{Decimal(f'{value:.4g}').normalize():,f}"


def seconds(value: float) -> str:
    """Seconds as the page prints them, in the unit that suits."""
    if value == 0 or value >= 1:
        return f"{shown(value)} s"
    return f"{shown(value * 1e3)} ms" if value >= 1e-3 else f"{shown(value * 1e6)} µs"


def gib(num_bytes: float) -> str:
    """Bytes in the unit of memory."""
    return shown(num_bytes / _GIB)


@dataclass
class Rest:
    """The REST door."""

    http: httpx.Client

    def post(self, path: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request that is taken."""
        answer = self.http.post(path, json=request)
        assert 200 == answer.status_code, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def lines(self, path: str, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The parts of a streamed answer."""
        with self.http.stream("POST", path, json=request) as answer:
            assert 200 == answer.status_code
            return [httpx.Response(200, content=line.encode()).json() for line in answer.iter_lines() if line]


@dataclass
class Explorer:
    """One page in a context of its own, with all that went wrong in it."""

    address: str
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    #: Refusals that a test provokes: the browser writes each into its console.
    expected_statuses: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(WAIT_MILLISECONDS)
        self.page.on("console", lambda each: self._complain(each.text) if each.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda each: self.requests.append(each))
        self.page.on("requestfailed", self._failed)

    def _complain(self, text: str) -> None:
        if not any(f"status of {status}" in text for status in self.expected_statuses):
            self.complaints.append(text)

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # what the page itself stopped asking
            self.complaints.append(f"{request.url}: {request.failure}")

    def open(self, query: str = "") -> None:
        """Loads the page and waits for its answer."""
        self.page.goto(f"{self.address}/{query}")
        self.settled()

    def settled(self, state: str = "answered") -> None:
        """Waits until the page is done with what was last chosen."""
        self.page.locator(f"#status[data-state={state}]").wait_for()

    def choose(self, **values: str | int | float) -> None:
        """Chooses as a person does: an entry of a list, or keys typed into a field; then waits for the answer."""
        for name, value in values.items():
            self.put(name, str(value))
        self.answered(**values)

    def answered(self, **values: str | int | float) -> None:
        """Waits for the answer to these choices, which the page's address names as soon as it asks for them."""

        def is_asked(url: str) -> bool:
            query = parse_qs(urlsplit(url).query, keep_blank_values=True)
            return all(query.get(name, _UNNAMED.get(name)) == [str(value)] for name, value in values.items())

        self.page.wait_for_url(is_asked)
        self.settled()

    def put(self, name: str, value: str) -> None:
        """Puts a value into a control, without waiting."""
        control = self.control(name)
        if control.evaluate("each => each.tagName") == "SELECT":
            control.select_option(value)
        else:
            control.click()
            control.press("Control+a")
            control.press("Delete")
            self.page.keyboard.insert_text(value)

    def control(self, name: str) -> Locator:
        """A control by its name."""
        return self.page.locator(f"[name={name}]")

    def cards(self) -> dict[str, dict[str, tuple[str, str]]]:
        """The cards of the answer by title: for each line its exact value and what is shown."""
        found: dict[str, dict[str, tuple[str, str]]] = self.page.locator("#answer .body").evaluate(
            """body => Object.fromEntries([...body.querySelectorAll(".card")].map(card => [
                card.querySelector("h3").firstChild.data,
                Object.fromEntries([...card.querySelectorAll("dl > div")].map(line => [
                    line.querySelector("dt").textContent,
                    [line.querySelector("data").value, line.querySelector("dd").textContent],
                ])),
            ]))"""
        )
        return {title: {name: (value, text) for name, (value, text) in lines.items()} for title, lines in found.items()}

    def rows(self, figure: str) -> list[dict[str, str]]:
        """The table of a figure, as it is shown, by its headings."""
        found: list[dict[str, str]] = self.page.locator(f"#figure-{figure} table").evaluate(
            """table => {
                const heads = [...table.querySelectorAll("thead th")].map(head => head.firstChild.data);
                return [...table.querySelectorAll("tbody tr")].map(row =>
                    Object.fromEntries([...row.children].map((cell, place) => [heads[place], cell.textContent])));
            }"""
        )
        return found

    def choices(self) -> dict[str, str]:
        """All that is chosen, by name."""
        found: dict[str, str] = self.page.evaluate(
            """() => Object.fromEntries([...document.querySelector("#choices").elements]
                .filter(each => each.name).map(each => [each.name, each.value])
                .concat([["others",
                    [...document.querySelectorAll("#others-list input:checked")].map(each => each.value).join()]]))"""
        )
        return found

    def hosts(self) -> set[str]:
        """Where anything was asked from."""
        return {urlsplit(each.url).netloc for each in self.requests if urlsplit(each.url).scheme in ("http", "https")}
