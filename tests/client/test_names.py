"""Names that a shell proposes: the catalogue's where it is installed, a server's where one answers at once, else none."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import grpc
import pytest

from tests.client.conftest import Run, ScriptedServer, answers
from tests.service_process import RunningService
from tonnage import Client
from tonnage.cli import local_service, names
from tonnage.v1.catalogue_service_pb2 import Accelerator, ListAcceleratorsResponse

Propose = Callable[[str], list[str]]


@pytest.fixture
def propose(run: Run, monkeypatch: pytest.MonkeyPatch) -> Propose:
    """What a shell is told for the last word of a line. Fails where anything is said beside it."""

    def propose(line: str) -> list[str]:
        monkeypatch.setenv("_TONNAGE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        _, shown, said = run()
        assert "" == said
        return [each.removeprefix("plain,") for each in shown.split()]

    return propose


@pytest.fixture
def client_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the client is installed."""
    monkeypatch.setattr(names, "_installed", lambda kind: [])


@pytest.mark.parametrize(
    ("line", "proposed"),
    [
        ("tonnage decode llama-3.1-8", ["llama-3.1-8b"]),
        ("tonnage decode llama-3.1-8b h100-s", ["h100-sxm"]),
        ("tonnage decode --model llama-3.1-8b H100-S", ["h100-sxm"]),
        ("tonnage decode --num-parameters 7e9 h100-s", ["h100-sxm"]),
        ("tonnage decode llama-3.1-8b h100-sxm h", []),
        ("tonnage decode llama-3.1-8b --accelerator h100-s", ["h100-sxm"]),
        ("tonnage fit deepseek-v3 dgx-h1", ["dgx-h100"]),
        ("tonnage fit deepseek-v3 --node dgx-h1", ["dgx-h100"]),
        ("tonnage kv --engine v", ["vllm"]),
        ("tonnage kv llama-3.1-8b --accelerator h100-s", ["h100-sxm"]),
        ("tonnage compare llama-3.1-8b h100-sxm mi300x b200", ["b200"]),
        ("tonnage plan m --node dgx-h1", ["dgx-h100"]),
        ("tonnage plan m --engine sg", ["sglang"]),
        ("tonnage sweep --accelerator h100-sxm,b200", ["h100-sxm,b200"]),
        ("tonnage sweep --model llama-3.1-8b,gpt-oss-1", ["llama-3.1-8b,gpt-oss-120b"]),
        ("tonnage place --nodes 3xdgx-h1", ["3xdgx-h100"]),
        ("tonnage place --nodes dgx", []),
        ("tonnage fit-cluster m --nodes 12xdgx-h1", ["12xdgx-h100"]),
        ("tonnage models show gpt-oss-1", ["gpt-oss-120b"]),
        ("tonnage prices --accelerator h100-s", ["h100-sxm"]),
        ("tonnage accelerators nothing-like-it", []),
    ],
)
def test_names_are_proposed_where_they_go(propose: Propose, scripted: ScriptedServer, line: str, proposed: list[str]) -> None:
    assert proposed == propose(line)
    assert [] == scripted.requests


@pytest.mark.parametrize("kind", [names.MODELS, names.ACCELERATORS, names.NODE_TYPES], ids=lambda kind: kind.folder)
def test_the_installed_ones_are_those_that_are_served(kind: names.Kind, service: RunningService) -> None:
    with Client(service.grpc) as client:
        assert sorted(kind.listed(client)) == names._installed(kind)


def test_the_client_alone_asks_its_server(propose: Propose, scripted: ScriptedServer, client_alone: None) -> None:
    listed = ListAcceleratorsResponse(accelerators=[Accelerator(name="of-ours"), Accelerator(name="other")])
    scripted.script["ListAccelerators"] = answers(listed)

    assert ["of-ours"] == propose("tonnage accelerators of")
    assert ["h100-sxm,of-ours"] == propose(f"tonnage sweep --server {scripted.target} --accelerator h100-sxm,of")
    assert [] == propose("tonnage kv --engine v")


@pytest.mark.usefixtures("client_alone")
class TestNothing:
    """is proposed, soon and without a word, where nobody answers."""

    def test_no_server(self, propose: Propose, down: ScriptedServer) -> None:
        assert [] == propose(f"tonnage accelerators --server {down.target} h")

    def test_one_that_is_slow(self, propose: Propose, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
        def slow(request: Any, context: grpc.ServicerContext) -> ListAcceleratorsResponse:
            waited = time.monotonic() + 10
            while context.is_active() and time.monotonic() < waited:
                time.sleep(0.01)
            return ListAcceleratorsResponse(accelerators=[Accelerator(name="late")])

        monkeypatch.setattr(names, "_PATIENCE_SECONDS", 0.05)
        scripted.script["ListAccelerators"] = slow
        assert [] == propose("tonnage accelerators l")

    def test_one_that_would_have_to_be_started(self, propose: Propose, monkeypatch: pytest.MonkeyPatch) -> None:
        def started(*_: object, **__: object) -> Iterable[str]:
            raise AssertionError

        monkeypatch.setattr(local_service, "_running", started)
        assert [] == propose("tonnage accelerators --local h")

    def test_options_that_contradict_each_other(self, propose: Propose, scripted: ScriptedServer) -> None:
        assert [] == propose("tonnage accelerators --tls --token x --client-cert /dev/null h")
        assert [] == scripted.requests
