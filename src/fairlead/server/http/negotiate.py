"""Content negotiation: in which of its forms a client wants an answer.

An `Accept` header lists media types; of those that we can make the most wanted wins, as in kube-apiserver. Objects may
be asked for as JSON or YAML, and as a Table (what `kubectl get` prints) or as PartialObjectMetadata (what metadata-only
informers want). Protobuf is understood in requests, not made in answers: every client that asks for it also takes JSON.

Source: apiserver `endpoints/handlers/negotiation/negotiate.go`, with `munnerz/goautoneg` and `go-restful`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fairlead.api.errors import NotAcceptable
from fairlead.caches import bounded_cache

JSON = "application/json"
YAML = "application/yaml"
_SERVED = {JSON: JSON, "*/*": JSON, "application/*": JSON, YAML: YAML}
#: What the router knows, which stands before all but custom resources.
_ROUTED = (JSON, YAML, "*/*")
_NOT_SERVED = "406: Not Acceptable\n\nAvailable representations: {}"
_ACCEPTED = "only the following media types are accepted: {}"
_KNOWN = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
#: A watch is never written as YAML.
_KNOWN_STREAMS = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")

#: How many media types of an `Accept` header are looked at, the first ones. No client has so many in earnest.
MAX_CLAUSES = 64

TABLE = "Table"
PARTIAL = "PartialObjectMetadata"
PARTIAL_LIST = PARTIAL + "List"
_TRANSFORMS = (TABLE, PARTIAL, PARTIAL_LIST)


@dataclass(frozen=True, slots=True)
class MediaTypeOptions:
    """The form of an answer: how it is written, and as what."""

    media_type: str = JSON
    transform: str = ""  # TABLE, PARTIAL, PARTIAL_LIST or nothing
    version: str = "v1"  # of meta.k8s.io
    is_pretty: bool = False

    @property
    def is_json_object(self) -> bool:
        """Nearly as it is stored, so that it costs next to nothing."""
        return not self.transform and self.media_type == JSON


@dataclass(frozen=True, slots=True)
class _Clause:
    """One of the media types that a client takes."""

    media_type: str
    parameters: dict[str, str]
    quality: float

    @property
    def breadth(self) -> int:
        return self.media_type.count("*")


def _split(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The media types of an `Accept` header with their parameters, as they stand there."""
    for clause in accept.split(",", MAX_CLAUSES)[:MAX_CLAUSES]:
        media_type, *parts = (part.strip() for part in clause.split(";"))
        yield media_type, dict(part.split("=", 1) for part in parts if "=" in part)


def _clauses(accept: str) -> list[_Clause]:
    """The clauses of an `Accept` header, what is wanted most first.

    Each goes to its place among those before it. That is quadratic, but they are few, and no sort by a key gives Go's
    order: see `_precedes`.
    """
    found: list[_Clause] = []
    for media_type, parameters in _split(accept):
        clause = _Clause(media_type, parameters, _quality(parameters.pop("q", "1")))
        index = len(found)
        while index and _precedes(clause, found[index - 1]):
            index -= 1
        found.insert(index, clause)
    return found


def wanted_types(accept: str) -> list[str]:
    """The media types of an `Accept` header without their parameters, what is wanted most first; without one, any."""
    return [clause.media_type for clause in _clauses(accept or "*/*")]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _precedes(clause: _Clause, before: _Clause) -> bool:
    """No order in the strict sense: whatever is named precedes what is not, however little it is wanted."""
    return clause.quality > before.quality or clause.breadth < before.breadth


def _transform(parameters: dict[str, str]) -> tuple[str, str] | None:
    """As what an object is asked for, and in which version of `meta.k8s.io`; None: as something that it cannot be."""
    if parameters.get("stream", "watch") not in ("", "watch") or parameters.get("sv", "v1") not in ("", "v1"):
        return None
    if parameters.keys().isdisjoint(("as", "g", "v")):
        return "", "v1"
    kind, group, version = (parameters.get(key, "") for key in ("as", "g", "v"))
    is_known = kind in _TRANSFORMS and group == "meta.k8s.io" and version in ("v1", "v1beta1")
    return (kind, version) if is_known else None


@bounded_cache(maxsize=256)
def form_of(accept: str, *, is_routed: bool = True, has_rows: bool = True) -> MediaTypeOptions:
    """The form that an `Accept` header asks for; raises `NotAcceptable`.

    Upstream a router, which words its refusals differently, stands before all but custom resources (`is_routed`).
    What is answered and never stored, such as a review, cannot be shown as rows of a Table (`has_rows`).
    """
    if not accept:
        return MediaTypeOptions()
    clauses = _clauses(accept)
    if is_routed and not any(clause.media_type in _ROUTED for clause in clauses):
        raise NotAcceptable(_NOT_SERVED.format(", ".join(_KNOWN)), shows_details=True)
    for clause in clauses:
        served, transform = _SERVED.get(clause.media_type), _transform(clause.parameters)
        if served is not None and transform is not None and (has_rows or transform[0] != TABLE):
            return MediaTypeOptions(served, *transform, is_pretty=clause.parameters.get("pretty") == "1")
    raise NotAcceptable(_ACCEPTED.format(", ".join(_KNOWN)))


def check_stream(form: MediaTypeOptions) -> None:
    """Refuse a watch in a form in which there are no streams."""
    if form.media_type == YAML:
        raise NotAcceptable(_ACCEPTED.format(", ".join(_KNOWN_STREAMS)))


def wants_aggregated_discovery(accept: str) -> str:
    """The version of APIGroupDiscoveryList that an `Accept` header asks for first, or ""."""
    for media_type, parameters in _split(accept):
        if parameters.get("as") == "APIGroupDiscoveryList" and parameters.get("g") == "apidiscovery.k8s.io":
            if parameters.get("v") in ("v2", "v2beta1"):
                return parameters["v"]
        elif media_type in (JSON, "*/*") and not parameters:
            return ""
    return ""
