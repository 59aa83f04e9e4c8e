import dataclasses
import os
import re
from pathlib import Path

import pytest

from service import settings
from service.settings import Settings, SettingsError


def problems(**environ: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment(environ)
    return caught.value.problems


def test_an_empty_environment_gives_the_defaults() -> None:
    assert Settings() == Settings.from_environment({})
    assert Settings() == Settings.from_environment({"PATH": "/bin", "TONNAGE_HTTP_PORT": " "})


#: Every knob as a text, but for folders, which have to be there.
ENVIRON = {
    "TONNAGE_HOST": "0.0.0.0",
    "TONNAGE_HTTP_PORT": "0",
    "TONNAGE_GRPC_PORT": "0",
    "TONNAGE_OPERATIONS_PORT": "0",
    "TONNAGE_TLS_CERT_FILE": "/tls/main.crt",
    "TONNAGE_TLS_KEY_FILE": "/tls/main.key",
    "TONNAGE_TLS_CLIENT_CA_FILE": "/tls/main-ca.crt",
    "TONNAGE_API_KEYS_FILE": "/etc/tonnage/keys.yaml",
    "TONNAGE_JWT_KEYS_FILE": "/etc/tonnage/jwks.json",
    "TONNAGE_JWT_ISSUER": "https://id.example",
    "TONNAGE_JWT_AUDIENCE": "tonnage",
    "TONNAGE_CALLER_REQUESTS_PER_SECOND": "20",
    "TONNAGE_CALLER_MAX_CONCURRENT_REQUESTS": "4",
    "TONNAGE_HTTP_MAX_CONNECTIONS": "50",
    "TONNAGE_HTTP_MAX_HEAD_BYTES": "8192",
    "TONNAGE_HTTP_MAX_PENDING_BODY_BYTES": "8388608",
    "TONNAGE_HTTP_ARRIVAL_SECONDS": "5",
    "TONNAGE_PROCESSES": "2",
    "TONNAGE_DRAIN_SECONDS": "2.5",
    "TONNAGE_MAX_REQUEST_BYTES": "1048576",
    "TONNAGE_MAX_CONCURRENT_REQUESTS": "9",
    "TONNAGE_CACHE_MAX_BYTES": "0",
    "TONNAGE_CACHE_MAX_ENTRIES": "10",
    "TONNAGE_REDIS_URL": "rediss://user:pass@cache:6380/1",
    "TONNAGE_REDIS_SECRET": "0123456789abcdef-redis",
    "TONNAGE_REDIS_ALL_RPCS": "Yes",
    "TONNAGE_REDIS_PREFIX": "t:",
    "TONNAGE_REDIS_CONNECT_TIMEOUT_SECONDS": "0.05",
    "TONNAGE_REDIS_TIMEOUT_SECONDS": "0.07",
    "TONNAGE_REDIS_TTL_SECONDS": "60",
    "TONNAGE_PROMETHEUS_HOSTS": "http://prometheus:9090, https://metrics.example",
    "TONNAGE_AUTOSCALER_MAX_CONNECTION_AGE_SECONDS": "60",
    "TONNAGE_EXPANDER_PORT": "50061",
    "TONNAGE_EXPANDER_TLS_CERT_FILE": "/tls/tls.crt",
    "TONNAGE_EXPANDER_TLS_KEY_FILE": "/tls/tls.key",
    "TONNAGE_EXPANDER_TLS_CLIENT_CA_FILE": "/tls/ca.crt",
    "TONNAGE_EXPANDER_MAX_REQUEST_BYTES": "1048576",
    "TONNAGE_EXPANDER_FIT_WEIGHT": "8",
    "TONNAGE_EXPANDER_GANG_WEIGHT": "4",
    "TONNAGE_EXPANDER_WASTE_WEIGHT": "2",
    "TONNAGE_EXPANDER_COST_WEIGHT": "0.5",
    "TONNAGE_MCP": "true",
    "TONNAGE_MCP_ALLOWED_HOSTS": "tonnage.example, Tonnage:8080,[::1]",
    "TONNAGE_MCP_TOKEN": "0123456789abcdef",
    "TONNAGE_SWEEP_MAX_POINTS": "5000",
    "TONNAGE_SWEEP_MAX_PLANS": "50",
    "TONNAGE_LOG_LEVEL": "DEBUG",
    "TONNAGE_KEDA_PORT": "50062",
    "TONNAGE_KEDA_TLS_CERT_FILE": "/tls/keda.crt",
    "TONNAGE_KEDA_TLS_KEY_FILE": "/tls/keda.key",
    "TONNAGE_KEDA_TLS_CLIENT_CA_FILE": "/tls/keda-ca.crt",
    "TONNAGE_DEPLOYMENTS_FILE": "/etc/tonnage/deployments.yaml",
    "TONNAGE_DEPLOYMENTS_INTERVAL_SECONDS": "30",
    "TONNAGE_TRACES": "true",
    "TONNAGE_LOG_FORMAT": "json",
}
EXPECTED = Settings(
    host="0.0.0.0",
    http_port=0,
    grpc_port=0,
    operations_port=0,
    tls_cert_file=Path("/tls/main.crt"),
    tls_key_file=Path("/tls/main.key"),
    tls_client_ca_file=Path("/tls/main-ca.crt"),
    api_keys_file=Path("/etc/tonnage/keys.yaml"),
    jwt_keys_file=Path("/etc/tonnage/jwks.json"),
    jwt_issuer="https://id.example",
    jwt_audience="tonnage",
    caller_requests_per_second=20.0,
    caller_max_concurrent_requests=4,
    http_max_connections=50,
    http_max_head_bytes=8192,
    http_max_pending_body_bytes=2**23,
    http_arrival_seconds=5.0,
    processes=2,
    drain_seconds=2.5,
    max_request_bytes=2**20,
    max_concurrent_requests=9,
    cache_max_bytes=0,
    cache_max_entries=10,
    redis_url="rediss://user:pass@cache:6380/1",
    redis_secret="0123456789abcdef-redis",
    redis_all_rpcs=True,
    redis_prefix="t:",
    redis_connect_timeout_seconds=0.05,
    redis_timeout_seconds=0.07,
    redis_ttl_seconds=60.0,
    prometheus_hosts=("http://prometheus:9090", "https://metrics.example"),
    autoscaler_max_connection_age_seconds=60.0,
    expander_port=50061,
    expander_tls_cert_file=Path("/tls/tls.crt"),
    expander_tls_key_file=Path("/tls/tls.key"),
    expander_tls_client_ca_file=Path("/tls/ca.crt"),
    expander_max_request_bytes=2**20,
    expander_fit_weight=8.0,
    expander_gang_weight=4.0,
    expander_waste_weight=2.0,
    expander_cost_weight=0.5,
    keda_port=50062,
    keda_tls_cert_file=Path("/tls/keda.crt"),
    keda_tls_key_file=Path("/tls/keda.key"),
    keda_tls_client_ca_file=Path("/tls/keda-ca.crt"),
    deployments_file=Path("/etc/tonnage/deployments.yaml"),
    deployments_interval_seconds=30.0,
    mcp="true",
    mcp_allowed_hosts=("tonnage.example", "tonnage:8080", "[::1]"),
    mcp_token="0123456789abcdef",
    sweep_max_points=5000,
    sweep_max_plans=50,
    log_level="debug",
    traces=True,
    log_format="json",
)


def test_every_knob_is_read(tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    environ = ENVIRON | {"TONNAGE_CATALOGUE_DIR": f"{tmp_path}{os.pathsep}{more}"}
    expected = dataclasses.replace(EXPECTED, catalogue_dir=(tmp_path.resolve(), more.resolve()))
    beside_keys = {"allow_anonymous"}  # which would contradict them
    assert len(dataclasses.fields(Settings)) == len(environ) + len(beside_keys)
    assert expected == Settings.from_environment(environ)
    assert Settings(allow_anonymous=True) == Settings.from_environment({"TONNAGE_ALLOW_ANONYMOUS": "true"})


def test_who_opens_the_service_to_a_network_says_who_may_ask() -> None:
    (problem,) = problems(TONNAGE_HOST="0.0.0.0")
    assert "TONNAGE_API_KEYS_FILE" in problem
    assert "TONNAGE_ALLOW_ANONYMOUS=true" in problem
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1"):
        assert host == Settings.from_environment({"TONNAGE_HOST": host}).host
    for more in ({"TONNAGE_ALLOW_ANONYMOUS": "yes"}, {"TONNAGE_API_KEYS_FILE": "/keys.yaml"}):
        assert "::" == Settings.from_environment({"TONNAGE_HOST": "::"} | more).host
    (problem,) = problems(TONNAGE_ALLOW_ANONYMOUS="true", TONNAGE_API_KEYS_FILE="/keys.yaml")
    assert "there are keys" in problem
    (problem,) = problems(TONNAGE_JWT_KEYS_FILE="/keys.json", TONNAGE_JWT_ISSUER="https://id.example")
    assert "go together" in problem


@pytest.mark.parametrize(
    ("variable", "value", "reason", "accepted"),
    [
        ("TONNAGE_HTTP_PORT", "http", "is not a whole number", "a whole number from 0 up to 65535"),
        ("TONNAGE_HTTP_PORT", "80.5", "is not a whole number", "a whole number from 0 up to 65535"),
        ("TONNAGE_GRPC_PORT", "65536", "is too large", "a whole number from 0 up to 65535"),
        ("TONNAGE_EXPANDER_PORT", "off", "is not a whole number", "a whole number from 0 up to 65535"),
        ("TONNAGE_EXPANDER_FIT_WEIGHT", "-1", "is too small", "a number from 0 up to 1000000.0"),
        ("TONNAGE_PROCESSES", "0", "is too small", "a whole number from 1 up to 256"),
        ("TONNAGE_DRAIN_SECONDS", "nan", "is not finite", "a number of seconds from 0 up to 3600"),
        ("TONNAGE_CACHE_MAX_BYTES", "64MiB", "is not a whole number", "a whole number of bytes from 0"),
        ("TONNAGE_REDIS_ALL_RPCS", "maybe", "is neither true nor false", "true, 1, yes, on or false, 0, no, off"),
        (
            "TONNAGE_PROMETHEUS_HOSTS",
            "http://prometheus:9090/graph",
            "names no server: http://prometheus:9090/graph",
            "http:// or https://, host and port, separated by ','",
        ),
        (
            "TONNAGE_PROMETHEUS_HOSTS",
            "http://p, prometheus:9090",
            "names no server: prometheus:9090",
            "http:// or https://, host and port, separated by ','",
        ),
        (
            "TONNAGE_PROMETHEUS_HOSTS",
            "http://p:65536",
            "names no server: http://p:65536",
            "http:// or https://, host and port, separated by ','",
        ),
        ("TONNAGE_LOG_LEVEL", "loud", "is not one of them", "debug, info, warning, error"),
        ("TONNAGE_LOG_FORMAT", "xml", "is not one of them", "text, json"),
    ],
)
def test_a_bad_value_is_named_with_the_reason_and_what_is_accepted(
    variable: str, value: str, reason: str, accepted: str
) -> None:
    assert (f"{variable}: {value!r} {reason}. Accepted: {accepted}.",) == problems(**{variable: value})


def test_a_catalogue_folder_has_to_exist(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    (problem,) = problems(TONNAGE_CATALOGUE_DIR=f"{tmp_path}{os.pathsep}{missing}")
    assert f"names no folder: {missing}." in problem


@pytest.mark.parametrize(
    "url", ["http://u:hunter2@cache", "hunter2", "redis://:hunter2@", "redis://u:hunter2@cache:port", "unix://"]
)
def test_a_bad_redis_address_is_refused_without_repeating_it(url: str) -> None:
    (problem,) = problems(TONNAGE_REDIS_URL=url)
    assert problem.startswith("TONNAGE_REDIS_URL: its value is not ")
    assert "hunter2" not in problem


@pytest.mark.parametrize("url", ["redis://cache", "redis://[::1]:6379/0", "unix:///run/redis.sock?db=1"])
def test_redis_addresses_of_every_kind_are_taken(url: str) -> None:
    assert url == Settings.from_environment({"TONNAGE_REDIS_URL": url}).redis_url


def test_the_redis_password_is_not_in_the_repr() -> None:
    assert "hunter2" not in repr(Settings(redis_url="redis://u:hunter2@cache"))


def test_all_problems_are_reported_at_once() -> None:
    found = problems(TONNAGE_HTTP_PORT="x", TONNAGE_LOG_LEVEL="y", TONNAGE_HTP_PORT="8080")
    assert ["TONNAGE_HTP_PORT", "TONNAGE_HTTP_PORT", "TONNAGE_LOG_LEVEL"] == [line.split(":")[0] for line in found]
    with pytest.raises(SettingsError, match=r"(?s)TONNAGE_HTTP_PORT.*\n.*TONNAGE_LOG_LEVEL"):
        Settings.from_environment({"TONNAGE_HTTP_PORT": "x", "TONNAGE_LOG_LEVEL": "y"})


@pytest.mark.parametrize(
    ("variable", "advice"),
    [
        ("TONNAGE_REDIS_ULR", "Did you mean TONNAGE_REDIS_URL?"),
        ("TONNAGE_CACHE_BYTES", "Did you mean TONNAGE_CACHE_MAX_BYTES?"),
        ("TONNAGE_ZZZ", "tonnage-service --help lists them all."),
    ],
)
def test_a_mistyped_variable_is_an_error_with_the_nearest_names(variable: str, advice: str) -> None:
    assert (f"{variable}: no such setting. {advice}",) == problems(**{variable: "1"})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TONNAGE_SERVICE_HOST", "10.0.0.1"),
        ("TONNAGE_SERVICE_PORT", "80"),
        ("TONNAGE_SERVICE_PORT_HTTP", "80"),
        ("TONNAGE_GRPC_SERVICE_HOST", "10.0.0.1"),
        ("TONNAGE_PORT", "tcp://10.0.0.1:80"),
        ("TONNAGE_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("TONNAGE_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("TONNAGE_HTTP_PORT", "tcp://10.0.0.1:80"),
    ],
)
def test_what_kubernetes_sets_for_a_service_named_tonnage_is_passed_over(variable: str, value: str) -> None:
    assert Settings() == Settings.from_environment({variable: value})


def test_what_the_command_line_reads_does_not_stop_the_service(repository_root: Path) -> None:
    client = repository_root / "clients" / "python" / "tonnage"
    read = {name for path in client.rglob("*.py") for name in re.findall(r"\bTONNAGE_[A-Z_]+", path.read_text("utf-8"))}
    read -= {f"TONNAGE_{name.upper()}" for name in Settings.__dataclass_fields__}  # `tonnage serve` and --local set some
    assert read
    assert Settings() == Settings.from_environment(dict.fromkeys(read, "localhost:50051"))


def test_both_doors_on_one_port_are_refused() -> None:
    (problem,) = problems(TONNAGE_HTTP_PORT="9000", TONNAGE_GRPC_PORT="9000")
    assert "both 9000" in problem


def test_the_table_lists_every_variable_with_default_unit_and_meaning() -> None:
    lines = Settings.describe().splitlines()
    assert ["variable", "default", "unit", "meaning"] == lines[0].split()
    assert [f"TONNAGE_{each.name.upper()}" for each in dataclasses.fields(Settings)] == [line.split()[0] for line in lines[1:]]
    (drain,) = (line for line in lines if line.startswith("TONNAGE_DRAIN_SECONDS "))
    assert ["TONNAGE_DRAIN_SECONDS", "10.0", "seconds", "after"] == drain.split()[:4]
    (level,) = (line for line in lines if line.startswith("TONNAGE_LOG_LEVEL "))
    assert level.endswith(": debug, info, warning, error")


def test_a_knob_in_bytes_or_seconds_says_so_in_name_and_unit() -> None:
    for each in dataclasses.fields(Settings):
        unit = each.metadata["knob"].unit
        assert unit == "" or each.name.endswith(f"_{unit}")
        assert unit or not each.name.endswith(("_seconds", "_bytes"))


def test_the_catalogue_is_found_in_a_checkout_and_in_an_installed_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "service"
    monkeypatch.setattr(settings, "__file__", str(package / "settings.py"))
    with pytest.raises(FileNotFoundError, match="no catalogue"):
        settings.specs_dir()
    for folder in (tmp_path / "specs", package / "specs"):  # a wheel's own goes before whatever lies beside it
        folder.mkdir(parents=True)
        (folder / "sources.yaml").touch()
        assert folder.resolve() == settings.specs_dir()
