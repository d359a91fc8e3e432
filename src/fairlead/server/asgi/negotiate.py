"""Content negotiation: in which of its forms a client wants an answer.

An `Accept` header lists media types; the first that we can make wins, as in kube-apiserver. Objects may be asked for as
JSON or YAML, and as a Table (what `kubectl get` prints) or as PartialObjectMetadata (what metadata-only
informers want). Protobuf is understood in requests, not made in answers: every client that asks for it also takes JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from fairlead.api.errors import NotAcceptable

JSON = "application/json"
YAML = "application/yaml"
_SERVED = {JSON: JSON, "*/*": JSON, "application/*": JSON, YAML: YAML}
_NOT_SERVED = "406: Not Acceptable\n\nAvailable representations: {}"
_ACCEPTED = "only the following media types are accepted: {}"
_KNOWN = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
#: A watch is never written as YAML.
_KNOWN_STREAMS = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")

TABLE = "Table"
PARTIAL = "PartialObjectMetadata"
PARTIAL_LIST = PARTIAL + "List"
_TRANSFORMS = (TABLE, PARTIAL, PARTIAL_LIST)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer: how it is written, and as what."""

    media_type: str = JSON
    transform: str = ""  # TABLE, PARTIAL, PARTIAL_LIST or nothing
    version: str = "v1"  # of meta.k8s.io


@lru_cache(maxsize=256)
def form_of(accept: str, *, is_routed: bool = True) -> Form:
    """The form that an `Accept` header asks for; raises `NotAcceptable`.

    Upstream a router, which words its refusals differently, stands before all but custom resources (`is_routed`).
    """
    if not accept:
        return Form()
    refused = _NOT_SERVED if is_routed else _ACCEPTED
    for clause in accept.split(","):
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        served = _SERVED.get(media_type)
        if served is None:
            continue
        wanted = dict(part.split("=", 1) for part in parameters if "=" in part)
        kind = wanted.get("as")
        if kind is None:
            return Form(served)
        if kind in _TRANSFORMS and wanted.get("g") == "meta.k8s.io" and wanted.get("v") in ("v1", "v1beta1"):
            return Form(served, kind, wanted["v"])
        refused = _ACCEPTED
    raise NotAcceptable(refused.format(", ".join(_KNOWN)), shows_details=refused is _NOT_SERVED)


def check_stream(form: Form) -> None:
    """Refuse a watch in a form in which there are no streams."""
    if form.media_type == YAML:
        raise NotAcceptable(_ACCEPTED.format(", ".join(_KNOWN_STREAMS)))


def wants_aggregated_discovery(accept: str) -> str:
    """The version of APIGroupDiscoveryList that an `Accept` header asks for first, or ""."""
    for clause in accept.split(","):
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        wanted = dict(part.split("=", 1) for part in parameters if "=" in part)
        if wanted.get("as") == "APIGroupDiscoveryList" and wanted.get("g") == "apidiscovery.k8s.io":
            if wanted.get("v") in ("v2", "v2beta1"):
                return wanted["v"]
        elif media_type in (JSON, "*/*") and not wanted:
            return ""
    return ""
