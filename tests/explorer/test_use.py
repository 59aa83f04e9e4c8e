"""Using the page: links that show the same again, the keyboard alone, a phone, what is typed fast, and what goes wrong."""

import json

from playwright.sync_api import Route, expect

from service.api.errors import Unauthenticated, failure_of
from service.api.failure_bodies import as_json
from tests.explorer.conftest import Opened
from tests.explorer.driving import Explorer, Rest, shown

KEY = "explorer-key-0123456789"
VIEWS = ("answer", "roofline", "memory", "curve", "cost", "why")


def test_a_link_shows_the_same_again(opened: Opened) -> None:
    first = opened()
    first.open()
    first.choose(model="llama-3.1-8b", tensor=2, engine="sglang", concurrency=200, latency="ttft", requests_per_second=7)
    first.page.locator("#others > summary").click()
    first.page.get_by_role("checkbox", name="l40s").check()
    first.answered(others="b200,h200-sxm,l40s,mi300x")
    second = None
    for view in ("curve", "cost"):
        link = first.page.locator(f"#{view} a.share").get_attribute("href")
        assert link is not None
        assert link.endswith(f"#{view}")
        second = second or opened()
        second.open(link.removeprefix("/"))
        assert first.choices() == second.choices()
        assert first.cards() == second.cards()
        for figure in ("roofline", "memory", "throughput-latency", "cost", "fleets"):
            assert first.rows(figure) == second.rows(figure)
        top = second.page.locator(f"#{view}-title").bounding_box()
        assert top is not None
        assert 0 <= top["y"] < 900
    # The address of the page itself is that of the answer, and going back to it is going back to what was chosen.
    assert "model=llama-3.1-8b" in first.page.url
    assert "others=" in first.page.url


def test_going_back_brings_back_what_was_chosen(explorer: Explorer) -> None:
    explorer.open()
    before = explorer.cards()
    explorer.page.locator("nav a[href='#cost']").click()
    explorer.choose(concurrency=9)
    assert before != explorer.cards()
    explorer.page.go_back()
    explorer.answered(concurrency=64)
    assert ("64", before) == (explorer.choices()["concurrency"], explorer.cards())


def test_every_view_has_a_link_and_a_way_to_it(explorer: Explorer) -> None:
    explorer.open()
    for view in VIEWS:
        assert explorer.page.locator(f"#{view} a.share").is_visible()
        explorer.page.locator(f"nav a[href='#{view}']").click()
        assert explorer.page.url.endswith(f"#{view}")
        top = explorer.page.locator(f"#{view}-title").bounding_box()
        assert top is not None
        assert -1 <= top["y"] < 900


def test_the_keyboard_alone_is_enough(explorer: Explorer, rest: Rest) -> None:
    explorer.open()
    page = explorer.page

    def focused(wanted: str) -> bool:
        return bool(page.evaluate("wanted => document.activeElement.matches(wanted)", wanted))

    def tab_to(wanted: str, most: int = 60) -> None:
        for _ in range(most):
            page.keyboard.press("Tab")
            if focused(wanted):
                return
        raise AssertionError(f"{wanted} is not reached by {most} steps of the keyboard")

    page.keyboard.press("Tab")
    assert focused(".skip")
    assert page.locator(".skip").is_visible()
    tab_to("[name=model]", 10)
    page.keyboard.type("llama-3.1-8b")
    tab_to("[name=tensor]", 3)
    page.keyboard.press("Control+a")
    page.keyboard.type("1")
    explorer.answered(model="llama-3.1-8b", tensor=1)
    assert ("llama-3.1-8b", "1") == (explorer.choices()["model"], explorer.choices()["tensor"])
    request = {"model": {"name": "llama-3.1-8b"}, "accelerator": {"name": "h100-sxm"}, "batch_size": 64, "context_tokens": 4096}
    bound = rest.post("/v1/decode:estimate", request)["bound"]
    assert shown(bound["tokens_per_second"]) == explorer.cards()["A step, at the very best"]["Tokens/s at most"][1]
    # Points of a chart say what they are, the table opens, and a wide table scrolls.
    tab_to("#figure-roofline .point")
    assert "FLOP per byte" in (page.evaluate("document.activeElement.getAttribute('aria-label')") or "")
    tab_to("#figure-roofline summary")
    page.keyboard.press("Enter")
    assert page.locator("#figure-roofline table").is_visible()
    tab_to("#figure-roofline .scroll", 1)
    tab_to("#figure-roofline button", 1)
    with page.expect_download() as waiting:
        page.keyboard.press("Enter")
    assert "tonnage-roofline.csv" == waiting.value.suggested_filename


def test_focus_can_be_seen(explorer: Explorer) -> None:
    explorer.open()
    explorer.page.keyboard.press("Tab")
    for _ in range(14):
        explorer.page.keyboard.press("Tab")
        outline = explorer.page.evaluate(
            """() => {
                const style = getComputedStyle(document.activeElement);
                return [style.outlineStyle, parseFloat(style.outlineWidth)];
            }"""
        )
        assert "solid" == outline[0]
        assert outline[1] >= 2


def test_nothing_is_wider_than_the_screen_however_it_is_turned(opened: Opened) -> None:
    explorer = opened(width=360, touch=True)
    explorer.open()
    explorer.page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    _fits(explorer, 360)
    for width in (1280, 961, 640):
        explorer.page.set_viewport_size({"width": width, "height": 900})
        _fits(explorer, width)


def _fits(explorer: Explorer, width: int) -> None:
    room = explorer.page.locator("#figure-throughput-latency .chart").evaluate("each => each.clientWidth")
    expect(explorer.page.locator("#figure-throughput-latency svg")).to_have_attribute("width", str(room))
    assert room < width == explorer.page.evaluate("document.documentElement.scrollWidth")
    sizes = explorer.page.locator("svg text").evaluate_all(
        "all => all.map(each => parseFloat(getComputedStyle(each).fontSize))"
    )
    assert min(sizes) >= 12  # charts are drawn for the width, not shrunk to it
    # No figure runs over its card, and no word over the edge of its chart.
    over = explorer.page.evaluate(
        """() => [[".card data, .card small", ".card"], ["svg text", "svg"]].flatMap(([inner, outer]) =>
            [...document.querySelectorAll(`main :is(${inner})`)].filter(each => {
                const [box, room] = [each, each.closest(outer)].map(it => it.getBoundingClientRect());
                return box.left < room.left - 1 || box.right > room.right + 1;
            }).map(each => each.textContent))"""
    )
    assert [] == over
    controls = explorer.page.locator("button, input:not([type=checkbox]), select").evaluate_all(
        "all => all.map(each => each.offsetHeight)"
    )
    assert min(controls) >= 40


def test_of_what_is_typed_fast_the_last_alone_is_asked(explorer: Explorer, rest: Rest) -> None:
    explorer.page.clock.install()
    explorer.open()
    # The page's time stands still while the test types: however slow the machine is, this is typing fast.
    explorer.page.clock.pause_at(explorer.page.evaluate("Date.now() / 1000 + 1"))
    asked = len(explorer.requests)
    for value in ("1", "12", "128", "1280", "128"):
        explorer.control("concurrency").fill(value)
    assert asked == len(explorer.requests)
    explorer.page.clock.run_for(1000)
    explorer.answered(concurrency=128)
    bodies = [each.post_data or "" for each in explorer.requests[asked:] if each.url.endswith("/v1/decode:estimate")]
    assert [128] == [json.loads(each)["batch_size"] for each in bodies]
    request = {"model": {"name": "llama-3.1-70b"}, "accelerator": {"name": "h100-sxm"}, "parallelism": {"tensor": 8}}
    bound = rest.post("/v1/decode:estimate", {**request, "batch_size": 128, "context_tokens": 4096})["bound"]
    assert shown(bound["tokens_per_second"]) == explorer.cards()["A step, at the very best"]["Tokens/s at most"][1]


def test_an_answer_that_comes_late_does_not_replace_a_later_one(explorer: Explorer) -> None:
    explorer.open()
    held: list[Route] = []
    explorer.page.route("**/v1/decode:estimate", lambda route: held.append(route) if not held else route.continue_())
    with explorer.page.expect_request("**/v1/decode:estimate"):
        explorer.put("concurrency", "2")
    explorer.choose(concurrency=256)
    newest = explorer.cards()
    assert 1 == len(held)
    held[0].continue_()
    explorer.page.wait_for_timeout(200)
    assert newest == explorer.cards()


def test_a_name_that_is_not_there_gets_the_nearest_and_a_click_takes_it(explorer: Explorer) -> None:
    explorer.expected_statuses = {400, 404}
    explorer.page.goto(f"{explorer.address}/?model=lama-3.1-70b")
    explorer.settled("failed")
    problem = explorer.page.get_by_role("alert")
    assert "the catalogue has no model called 'lama-3.1-70b'" in problem.inner_text()
    assert "true" == explorer.control("model").get_attribute("aria-invalid")
    assert {} == explorer.cards()
    problem.get_by_role("button", name="llama-3.1-70b", exact=True).click()
    explorer.settled()
    assert problem.is_hidden()
    assert "model=llama-3.1-70b&" in explorer.page.url
    assert explorer.control("model").get_attribute("aria-invalid") is None


def test_what_is_refused_is_shown_as_text_whatever_it_holds(explorer: Explorer) -> None:
    explorer.expected_statuses = {400, 404}
    explorer.page.goto(f"{explorer.address}/?model=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&accelerator=h100-sxm")
    explorer.settled("failed")
    assert "<img src=x onerror=alert(1)>" in explorer.page.get_by_role("alert").inner_text()
    assert 0 == explorer.page.locator("img").count()


def test_an_accelerator_to_compare_with_that_is_not_there_is_said_and_can_be_left_out(explorer: Explorer) -> None:
    explorer.expected_statuses = {404}
    explorer.open("?others=mi300,h200-sxm")
    text = explorer.page.inner_text("#cost")
    assert "no accelerator called 'mi300'" in text
    assert "mi300x" in text
    assert explorer.page.locator("#figure-cost").is_hidden()
    assert explorer.cards()  # the rest is answered
    explorer.page.locator("#others > summary").click()
    explorer.page.get_by_role("checkbox", name="mi300", exact=True).uncheck()
    explorer.answered(others="h200-sxm")
    assert ["h100-sxm", "h200-sxm"] == [row["Accelerator"] for row in explorer.rows("cost")]
    assert "mi300" not in explorer.page.inner_text("#cost .problem, #others-named")


def test_an_alias_is_taken_for_what_it_names(explorer: Explorer) -> None:
    explorer.open("?model=meta-llama/Llama-3.1-70B&tensor=8")
    assert "llama-3.1-70b" == explorer.choices()["model"]


def test_what_does_not_fit_says_by_how_much_and_what_would_cure_it(explorer: Explorer, rest: Rest) -> None:
    explorer.open("?model=deepseek-v3&tensor=8")
    request = {"model": {"name": "deepseek-v3"}, "accelerator": {"name": "h100-sxm"}, "parallelism": {"tensor": 8}}
    shortfall = rest.post("/v1/decode:estimate", {**request, "batch_size": 64, "context_tokens": 4096})["shortfall"]
    text = explorer.page.inner_text("#answer")
    assert shortfall["description"] in text
    assert "do not fit" in text
    assert shortfall["cures"]
    assert all(cure["description"] in text for cure in shortfall["cures"])
    assert "runs out of memory while loading" in explorer.page.inner_text("#memory")
    weights, capacity = explorer.page.locator("#figure-memory svg > g").first.evaluate(
        "bar => [+bar.querySelector('.segment rect').getAttribute('width'), +bar.querySelector('.capacity').getAttribute('x1')]"
    )
    assert weights < capacity  # 78 GiB of weights, but not with the cache and the reserve beside them


def test_a_shape_that_no_engine_splits_is_refused_at_its_control(explorer: Explorer) -> None:
    explorer.expected_statuses = {400}
    explorer.open()
    explorer.put("tensor", "3")
    explorer.settled("failed")
    problem = explorer.page.get_by_role("alert").inner_text()
    assert "3 ranks do not divide 64 query heads" in problem
    assert "allows tensor 1, 2, 4, 8" in problem
    assert "true" == explorer.control("tensor").get_attribute("aria-invalid")
    assert explorer.page.locator("#figure-roofline").is_hidden()
    assert {} == explorer.cards()


def test_an_empty_field_is_asked_for_and_nothing_is_sent(explorer: Explorer) -> None:
    explorer.open()
    asked = len(explorer.requests)
    explorer.put("concurrency", "")
    explorer.settled("refused")
    assert explorer.page.get_by_role("alert").inner_text().startswith("Requests at once: ")
    assert asked == len(explorer.requests)
    explorer.choose(concurrency=8)
    assert explorer.page.get_by_role("alert").is_hidden()


def test_a_service_that_is_gone_is_said_to_be(explorer: Explorer) -> None:
    explorer.open()
    explorer.page.route("**/v1/**", lambda route: route.abort("connectionrefused"))
    explorer.put("concurrency", "9")
    explorer.settled("failed")
    assert "The service does not answer." in explorer.page.get_by_role("alert").inner_text()
    assert explorer.complaints
    assert all("CONNECTION_REFUSED" in each for each in explorer.complaints)
    explorer.complaints.clear()
    explorer.page.unroute("**/v1/**")
    explorer.choose(concurrency=10)


def test_where_keys_are_asked_for_the_page_asks_for_one_and_keeps_it_to_itself(explorer: Explorer) -> None:
    refusal = failure_of(Unauthenticated("no credentials"), "any")  # as the gate refuses

    def guard(route: Route) -> None:
        if route.request.headers.get("authorization") == f"Bearer {KEY}":
            route.continue_()
        else:
            route.fulfill(status=refusal.http_status, body=as_json(refusal), content_type="application/json")

    explorer.page.route("**/v1/**", guard)
    explorer.expected_statuses = {401}
    explorer.page.goto(explorer.address)
    explorer.settled("failed")
    assert "Enter a key" in explorer.page.get_by_role("alert").inner_text()
    assert explorer.control("key").is_visible()
    explorer.put("key", KEY)
    explorer.settled()
    assert explorer.page.get_by_role("alert").is_hidden()
    assert explorer.rows("fleets")
    kept = explorer.page.evaluate(
        "() => [location.href, document.cookie, JSON.stringify({...localStorage, ...sessionStorage})]"
    )
    links = explorer.page.locator("a").evaluate_all("all => all.map(each => each.href)")
    assert KEY not in "".join([*kept, *links])
    assert [] == explorer.context.cookies()
