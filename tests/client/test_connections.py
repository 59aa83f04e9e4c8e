"""Behind TLS and with keys: what the command line sends where, what it never prints, and what it says when it is not let in."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import trustme

from service.settings import _CLIENT_VARIABLES, Settings
from tests.client.conftest import Run, ScriptedServer, fails, made_status
from tests.service_process import free_port
from tonnage import cli
from tonnage.cli.connection import Connection
from tonnage.cli.exits import Exit

KEY = "a-key-that-nobody-else-has"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def behind_tls(authority: trustme.CA) -> Iterator[ScriptedServer]:
    server = ScriptedServer(free_port())
    issued = authority.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    pair = [(issued.private_key_pem.bytes(), chain)]
    roots = authority.cert_pem.bytes()
    server.start(grpc.ssl_server_credentials(pair, root_certificates=roots, require_client_auth=True))
    yield server
    server.stop()


@pytest.fixture
def files(authority: trustme.CA, tmp_path: Path) -> dict[str, str]:
    own = authority.issue_cert("caller")
    contents = {
        "ca": authority.cert_pem.bytes(),
        "cert": b"".join(each.bytes() for each in own.cert_chain_pems),
        "key": own.private_key_pem.bytes(),
        "token": f"{KEY}\n".encode(),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return {name: str(tmp_path / name) for name in contents}


def sent(server: ScriptedServer) -> str | bytes | None:
    return server.metadata[-1].get("authorization")


def test_tls_with_a_certificate_of_ones_own(run_against: Run, behind_tls: ScriptedServer, files: dict[str, str]) -> None:
    own = ("--client-cert", files["cert"], "--client-key", files["key"])

    code, _, said = run_against(behind_tls.target, "models", "--ca", files["ca"], *own, "--token-file", files["token"])

    assert (Exit.ANSWERED, "") == (code, said)
    assert f"Bearer {KEY}" == sent(behind_tls)


def test_tls_by_the_environment(
    run_against: Run, behind_tls: ScriptedServer, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TONNAGE_CA_FILE", files["ca"])
    monkeypatch.setenv("TONNAGE_CLIENT_CERT_FILE", files["cert"])
    monkeypatch.setenv("TONNAGE_CLIENT_KEY_FILE", files["key"])
    monkeypatch.setenv("TONNAGE_TOKEN", KEY)

    assert Exit.ANSWERED == run_against(behind_tls.target, "models")[0]
    assert f"Bearer {KEY}" == sent(behind_tls)


def test_an_issuer_that_is_not_trusted(run_against: Run, behind_tls: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(trustme.CA().cert_pem.bytes())

    code, _, said = run_against(behind_tls.target, "models", "--ca", str(tmp_path / "other"))

    assert Exit.UNREACHABLE == code
    assert "is not trusted" in said
    assert "--ca" in said


def test_without_tls_where_it_is_spoken(run_against: Run, behind_tls: ScriptedServer) -> None:
    code, _, said = run_against(behind_tls.target, "models")

    assert Exit.UNREACHABLE == code
    assert "--tls or --ca" in said


def test_the_keys_ways_and_which_goes_first(
    run: Run, scripted: ScriptedServer, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("models")
    assert sent(scripted) is None
    run("models", "--token", KEY)
    assert f"Bearer {KEY}" == sent(scripted)
    monkeypatch.setenv("TONNAGE_TOKEN", "that-of-the-environment")
    run("models")
    assert "Bearer that-of-the-environment" == sent(scripted)
    run("models", "--token-file", files["token"])
    assert f"Bearer {KEY}" == sent(scripted)
    monkeypatch.setenv("TONNAGE_TOKEN_FILE", files["token"])
    assert Exit.BAD_REQUEST == run("models")[0]
    run("models", "--token", "nearest")
    assert "Bearer nearest" == sent(scripted)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED])
def test_who_is_not_let_in_is_told_where_the_key_goes(run: Run, scripted: ScriptedServer, code: grpc.StatusCode) -> None:
    scripted.script["GetModel"] = fails(made_status(code, "unknown credentials"))

    ended, shown, said = run("models", "show", "m", "--token", KEY)

    assert (Exit.REFUSED, "") == (ended, shown)
    assert "TONNAGE_TOKEN" in said
    assert KEY not in said


def test_the_key_is_never_printed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONNAGE_TOKEN", KEY)
    printed = [run("models", "--help"), run("models", "--no-such-option"), run("models", "--format", "csv", "--json")]
    printed.append(run("models", "--token", f"{KEY} {KEY}"))

    assert all(KEY not in shown + said for _, shown, said in printed)
    assert KEY not in repr(Connection(token=KEY))


def test_a_key_without_encryption_to_somewhere_else_is_said(run: Run) -> None:
    _, _, elsewhere = run("models", "--server", "no-such-host.invalid:1", "--token", KEY, "--timeout", "1")
    _, _, here = run("models", "--token", KEY)

    assert "without encryption" in elsewhere
    assert "" == here


def test_the_service_knows_the_command_lines_variables() -> None:
    """A shell that has them set may start the service too, which refuses variables that it does not know."""
    variables = {option.envvar for option in cli.tonnage.commands["models"].params if isinstance(option.envvar, str)}

    assert set(_CLIENT_VARIABLES) == variables
    assert Settings() == Settings.from_environment(dict.fromkeys(variables, "set"))


def test_halves_and_contradictions_are_refused(run: Run, files: dict[str, str]) -> None:
    assert "go together" in run("models", "--client-cert", files["cert"])[2]
    for option in (("--server", "other:1"), ("--token", KEY), ("--ca", files["ca"]), ("--tls",)):
        code, _, said = run("models", "--local", *option)
        assert Exit.BAD_REQUEST == code
        assert option[0] in said
