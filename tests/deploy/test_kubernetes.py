"""The manifests: they build, they are valid, and what they say of the service is so."""

import os
import subprocess
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.settings import Settings

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SCRIPTS = Path(sysconfig.get_path("scripts"))
#: Kinds of other projects, for which no schema is at hand.
WITHOUT_SCHEMA = {"Certificate", "ServiceMonitor"}


@cache
def built(overlay: str) -> str:
    folder = DEPLOY / "kubernetes/overlays" / overlay
    return subprocess.run([SCRIPTS / "kubectl", "kustomize", folder], capture_output=True, text=True, check=True).stdout


def objects(overlay: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(built(overlay)))


def deployment(overlay: str) -> dict[str, Any]:
    (found,) = (each for each in objects(overlay) if each["kind"] == "Deployment" and each["metadata"]["name"] == "tonnage")
    return found


def test_every_object_is_valid(tmp_path: Path) -> None:
    production = objects("production")
    checked = [each for each in production + objects("dev") if each["kind"] not in WITHOUT_SCHEMA]
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all(checked))
    ran = subprocess.run([SCRIPTS / "kubernetes-validate", "--strict", path], capture_output=True, text=True)
    assert 0 == ran.returncode, ran.stdout + ran.stderr
    assert len(checked) == ran.stdout.count(" passed for ") + ran.stderr.count(" passed for ")
    kinds = {each["kind"] for each in production}
    assert {
        "Deployment",
        "Service",
        "ServiceAccount",
        "HorizontalPodAutoscaler",
        "PodDisruptionBudget",
        "NetworkPolicy",
    } <= kinds
    assert kinds >= WITHOUT_SCHEMA


@pytest.mark.parametrize("overlay", ["dev", "production"])
def test_the_environment_is_one_that_the_service_starts_with(overlay: str) -> None:
    (container,) = deployment(overlay)["spec"]["template"]["spec"]["containers"]
    secrets = {"TONNAGE_REDIS_URL": "redis://redis:6379", "TONNAGE_REDIS_SECRET": "a-secret-of-the-cluster"}
    given = {each["name"]: each.get("value") or secrets[each["name"]] for each in container["env"]}
    of_image = {"TONNAGE_HOST": "0.0.0.0", "TONNAGE_OPERATIONS_PORT": "9464", "TONNAGE_LOG_FORMAT": "json"}
    for name, value in of_image.items():
        assert f"{name}={value}" in (DEPLOY / "Dockerfile").read_text()
    settings = Settings.from_environment(of_image | given)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"http": settings.http_port, "grpc": settings.grpc_port, "operations": settings.operations_port}
    assert (overlay == "production") == (settings.api_keys_file is not None and settings.tls_cert_file is not None)


def test_production_has_time_to_drain_and_nothing_to_write() -> None:
    pod = deployment("production")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    farewell = container["lifecycle"]["preStop"]["sleep"]["seconds"] + 1 + Settings().drain_seconds
    assert farewell < pod["terminationGracePeriodSeconds"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert ["ALL"] == security["capabilities"]["drop"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert "replicas" not in deployment("production")["spec"]  # which the autoscaler owns


def with_component(folder: Path, name: str) -> list[dict[str, Any]]:
    """Production with the port of an autoscaler opened."""
    places = [os.path.relpath(DEPLOY / "kubernetes" / each, folder) for each in ("overlays/production", f"components/{name}")]
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "tonnage",
        "resources": places[:1],
        "components": places[1:],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    ran = subprocess.run([SCRIPTS / "kubectl", "kustomize", folder], capture_output=True, text=True)
    assert 0 == ran.returncode, ran.stderr
    return list(yaml.safe_load_all(ran.stdout))


@pytest.mark.parametrize("name", ["expander", "keda"])
def test_an_autoscalers_port_is_open_to_it_alone_and_only_where_it_was_asked_for(name: str, tmp_path: Path) -> None:
    found = with_component(tmp_path, name)
    before = {(each["kind"], each["metadata"]["name"]) for each in objects("production")}
    added = [each for each in found if (each["kind"], each["metadata"]["name"]) not in before]
    assert [("NetworkPolicy", f"tonnage-{name}", "tonnage")] == [
        (each["kind"], each["metadata"]["name"], each["metadata"]["namespace"]) for each in added
    ]
    (rule,) = added[0]["spec"]["ingress"]
    assert [{"port": name, "protocol": "TCP"}] == rule["ports"]
    assert all("namespaceSelector" in each for each in rule["from"])
    (running,) = (each for each in found if each["kind"] == "Deployment")
    (container,) = running["spec"]["template"]["spec"]["containers"]
    secrets = {"TONNAGE_REDIS_URL": "redis://redis:6379", "TONNAGE_REDIS_SECRET": "a-secret-of-the-cluster"}
    given = {each["name"]: each.get("value") or secrets[each["name"]] for each in container["env"]}
    settings = Settings.from_environment({"TONNAGE_HOST": "0.0.0.0"} | given)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports[name] == getattr(settings, f"{name}_port")
    mounted = [each["mountPath"] for each in container["volumeMounts"]]
    files = [value for key, value in given.items() if key.endswith("_FILE")]
    assert all(any(value.startswith(f"{path}/") for path in mounted) for value in files)
    path = tmp_path / "checked.yaml"
    path.write_text(yaml.safe_dump_all([each for each in found if each["kind"] not in WITHOUT_SCHEMA]))
    ran = subprocess.run([SCRIPTS / "kubernetes-validate", "--strict", path], capture_output=True, text=True)
    assert 0 == ran.returncode, ran.stdout + ran.stderr


def test_compose_runs_what_the_image_is_and_shows_nothing_to_the_network() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert {"tonnage", "redis", "prometheus", "grafana"} == set(services)
    for service in services.values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")
    environment = services["tonnage"]["environment"]
    assert Settings.from_environment({"TONNAGE_HOST": "0.0.0.0"} | environment).allow_anonymous
    for folder in ("prometheus", "grafana/provisioning", "grafana/dashboards"):
        assert (DEPLOY / folder).is_dir()
