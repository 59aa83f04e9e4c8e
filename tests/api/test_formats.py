"""Answers in another form than JSON: ?format=svg on the REST door."""

from xml.etree import ElementTree

import pytest

from service.api.examples import REQUESTS
from tests.api.asking import Doors, json_of, message_of, refusal_in

QUESTION = REQUESTS["DrawRoofline"]
PATH = "/v1/rooflines:draw"


def test_a_picture_is_sent_alone_and_is_the_one_in_the_answer(doors: Doors) -> None:
    picture = doors.http.post(f"{PATH}?format=svg", json=QUESTION)
    assert picture.status_code == 200
    assert picture.headers["content-type"] == "image/svg+xml"
    assert ElementTree.fromstring(picture.text).tag == "{http://www.w3.org/2000/svg}svg"
    for url in (PATH, f"{PATH}?format=json"):
        answer = doors.http.post(url, json=QUESTION)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["svg"] == picture.text
    assert json_of(doors.call("DrawRoofline", message_of("DrawRoofline", QUESTION)))["svg"] == picture.text
    again = doors.http.post(f"{PATH}?format=svg", json=QUESTION)  # from the in-process tier
    assert again.content == picture.content


@pytest.mark.parametrize("url", [f"{PATH}?format=csv", f"{PATH}?format=svg&format=json", f"{PATH}?format="])
def test_a_form_that_is_not_offered_is_refused(doors: Doors, url: str) -> None:
    refusal = refusal_in(doors.http.post(url, json=QUESTION))
    assert (refusal.http_status, list(refusal.violations)) == (400, ["format"])


def test_other_calls_answer_in_json_only(doors: Doors) -> None:
    refusal = refusal_in(doors.http.post("/v1/kernels:occupancy?format=svg", json=REQUESTS["ComputeOccupancy"]))
    assert refusal.violations["format"] == "this call answers in json"
    assert doors.http.get("/v1/models?page_size=1&format=json").status_code == 200
    assert refusal_in(doors.http.get("/v1/models?format=svg")).http_status == 400


def test_a_refused_question_is_refused_in_json(doors: Doors) -> None:
    refusal = refusal_in(doors.http.post(f"{PATH}?format=svg", json={"own": {"accelerator": {"name": "h100-sxm"}}}))
    assert (refusal.http_status, list(refusal.violations)) == (400, ["own.points"])
