"""What of a request for manifests can be refused before anything is looked for."""

import re
from collections.abc import Iterator
from typing import Final

from service.catalogue.entries import Catalogue
from service.catalogue.lookup import UnknownName
from service.catalogue.lookup import engine as look_up_engine
from service.catalogue.lookup import model as look_up_model
from service.planning.cluster_fit.manifests.commands import PORTS, VLLM
from service.planning.cluster_fit.manifests.objects import KINDS, SCALED_OBJECT, SCHEDULERS
from service.planning.cluster_fit.names import LONGEST, is_label, is_namespace
from service.planning.cluster_fit.requests import FitClusterRequest, ManifestOptions, ManifestScaling
from service.planning.errors import InvalidRequest, NotFound, Violation

_IMAGE: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._:/@]*", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9][-\w.]*/[-\w.]+", re.ASCII)


def check_manifests(catalogue: Catalogue, request: FitClusterRequest) -> None:
    """InvalidRequest with everything that is wrong with what manifests are asked for; NotFound where the engine is unknown."""
    if request.manifests is None:
        return
    serving_engine(catalogue, request)
    violations = [
        *_names(request.manifests),
        *_words(request.manifests),
        *_scaling(request.manifests),
        *_model(catalogue, request),
    ]
    if violations:
        raise InvalidRequest(*violations)


def serving_engine(catalogue: Catalogue, request: FitClusterRequest) -> str:
    """The catalogue's name of the engine that is started; vLLM where none is asked for."""
    if request.engine is None:
        return VLLM
    try:
        name = look_up_engine(catalogue, request.engine.name).name
    except UnknownName as unknown:
        raise NotFound("engine.name", "engine", request.engine.name, unknown.nearest) from None
    if name not in PORTS:
        reason = f"how {name} is started is not known"
        raise InvalidRequest(Violation("manifests", reason, f"choose one of {', '.join(PORTS)}, or leave manifests out"))
    return name


def model_path(catalogue: Catalogue, request: FitClusterRequest) -> str:
    """What the engine loads: what the request says, else the model's repository; empty where none is known."""
    asked = request.manifests or ManifestOptions()
    if asked.model_path:
        return asked.model_path
    name = request.model.name
    if name is None:
        return ""
    if _REPOSITORY.fullmatch(name):
        return name
    try:
        entry = look_up_model(catalogue, name)
    except UnknownName as unknown:
        raise NotFound("model.name", "model", name, unknown.nearest) from None
    return next((alias for alias in entry.aliases if _REPOSITORY.fullmatch(alias)), "")


def _names(asked: ManifestOptions) -> Iterator[Violation]:
    rule = "letters a to z, digits and hyphens, beginning with a letter and not ending with a hyphen"
    if asked.name and not is_label(asked.name):
        yield Violation("manifests.name", f"it is no name of an object of at most {LONGEST} characters", f"use {rule}")
    if asked.namespace and not is_namespace(asked.namespace):
        yield Violation("manifests.namespace", "it is no namespace", "use letters a to z, digits and hyphens")
    if asked.image and not _IMAGE.fullmatch(asked.image):
        yield Violation("manifests.image", "it is no name of an image", "write it like vllm/vllm-openai:v0.19.1")
    if asked.provisioning_class and not _SUBDOMAIN.fullmatch(asked.provisioning_class):
        remedy = "write it like check-capacity.autoscaling.x-k8s.io"
        yield Violation("manifests.provisioning_class", "it is no name of a class", remedy)


def _words(asked: ManifestOptions) -> Iterator[Violation]:
    for place, kind in enumerate(asked.kinds):
        if kind not in KINDS:
            yield Violation(f"manifests.kinds[{place}]", f"{kind[:80]!r} is none that is rendered", f"use {', '.join(KINDS)}")
    if asked.gang_scheduler and asked.gang_scheduler not in SCHEDULERS:
        reason = f"{asked.gang_scheduler!r} is not known"
        yield Violation("manifests.gang_scheduler", reason, f"use {' or '.join(SCHEDULERS)}")
    if SCALED_OBJECT in asked.kinds and asked.scaling is None:
        remedy = "give ttft_seconds or tpot_seconds, input_tokens, output_tokens and the demand"
        yield Violation("manifests.scaling", "a ScaledObject needs to know what to scale by", remedy)


def _scaling(asked: ManifestOptions) -> Iterator[Violation]:
    scaling = asked.scaling
    if scaling is None:
        return
    if scaling.ttft_seconds is None and scaling.tpot_seconds is None:
        yield Violation("manifests.scaling", "nothing says what requests may see", "give ttft_seconds, tpot_seconds or both")
    yield from _demand(scaling)
    if scaling.min_replicas and scaling.max_replicas and scaling.min_replicas > scaling.max_replicas:
        reason = f"{scaling.min_replicas} is more than max_replicas, {scaling.max_replicas}"
        yield Violation("manifests.scaling.min_replicas", reason, "give at most max_replicas")
    for name in ("scaler_address", "prometheus_server", "query"):
        if _CONTROL.search(getattr(scaling, name)):
            yield Violation(f"manifests.scaling.{name}", "it holds characters that do not print", "leave them out")


def _demand(scaling: ManifestScaling) -> Iterator[Violation]:
    is_asked = bool(scaling.query or scaling.prometheus_server)
    if is_asked == (scaling.requests_per_second is not None):
        both = "both are" if is_asked else "neither is"
        reason = f"the demand is either fixed or read from a Prometheus; {both} given"
        yield Violation("manifests.scaling", reason, "give requests_per_second, or prometheus_server and query")
    elif is_asked and not (scaling.query and scaling.prometheus_server):
        missing = "prometheus_server" if scaling.query else "query"
        yield Violation(f"manifests.scaling.{missing}", "it goes with the other of the two", "give both")


def _model(catalogue: Catalogue, request: FitClusterRequest) -> Iterator[Violation]:
    path = model_path(catalogue, request)
    if not path:
        reason = "nothing says what the engine loads"
        yield Violation("manifests.model_path", reason, "give a Hugging Face repository, or a path in the container")
    elif _CONTROL.search(path) or path.startswith("-") or path != path.strip():
        reason = "it begins with a hyphen or a blank, or holds characters that do not print"
        yield Violation("manifests.model_path", reason, "give a Hugging Face repository, or a path in the container")
