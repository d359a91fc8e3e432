"""Content negotiation: in which of its forms a client wants an answer.

An `Accept` header lists media types; of those that we can make the most wanted wins, as in kube-apiserver. Objects may
be asked for as JSON, YAML or protobuf (what Go clients want), and as a Table (what `kubectl get` prints) or as
PartialObjectMetadata (what metadata-only informers want). Protobuf knows no Tables, and no custom resources but their
metadata.

Source: apiserver `endpoints/handlers/negotiation/negotiate.go`, `endpoints/handlers/rest.go` and
`endpoints/discovery/aggregated/negotiation.go`, with `munnerz/goautoneg` and `go-restful`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead.api.errors import NotAcceptable
from fairlead.caches import bounded_cache

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_SERVED = {JSON: JSON, "*/*": JSON, "application/*": JSON, YAML: YAML, PROTOBUF: PROTOBUF}
#: What the router knows, which stands before all but custom resources.
_ROUTED = (JSON, YAML, PROTOBUF, "*/*")
_NOT_SERVED = "406: Not Acceptable\n\nAvailable representations: {}"
_ACCEPTED = "only the following media types are accepted: {}"
_KNOWN = (JSON, YAML, PROTOBUF)
#: A watch is never written as YAML.
_STREAM = ";stream=watch"
_KNOWN_STREAMS = (JSON + _STREAM, PROTOBUF + _STREAM)

#: How many media types of an `Accept` header are looked at, the first ones. No client has so many in earnest.
MAX_CLAUSES = 64

TABLE = "Table"
PARTIAL = "PartialObjectMetadata"
PARTIAL_LIST = PARTIAL + "List"
_TRANSFORMS = (TABLE, PARTIAL, PARTIAL_LIST)
#: As what discovery is asked for in one document.
DISCOVERY_LIST = "APIGroupDiscoveryList"


class MediaTypeOptions(msgspec.Struct, frozen=True):
    """The form of an answer: how it is written, and as what."""

    media_type: str = JSON
    transform: str = ""  # TABLE, PARTIAL, PARTIAL_LIST or nothing; DISCOVERY_LIST of discovery alone
    version: str = "v1"  # of the kind that it is transformed to
    is_pretty: bool = False

    @property
    def is_json_object(self) -> bool:
        """Nearly as it is stored, so that it costs next to nothing."""
        return not self.transform and self.media_type == JSON

    @property
    def stream_type(self) -> str:
        """The content type of a watch."""
        return self.media_type if self.media_type == JSON else self.media_type + _STREAM


class _Clause(msgspec.Struct, frozen=True):
    """One of the media types that a client takes."""

    media_type: str
    parameters: dict[str, str]
    quality: float

    @property
    def breadth(self) -> int:
        return self.media_type.count("*")


def _clauses(accept: str) -> list[_Clause]:
    """The clauses of an `Accept` header, what is wanted most first.

    Each goes to its place among those before it. That is quadratic, but they are few, and no sort by a key gives Go's
    order: see `_precedes`.
    """
    found: list[_Clause] = []
    for text in accept.split(",", MAX_CLAUSES)[:MAX_CLAUSES]:
        media_type, *parts = (part.strip() for part in text.split(";"))
        parameters = dict(part.split("=", 1) for part in parts if "=" in part)
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


#: As what an object is shown in a media type by such parameters, and in which version; None: not at all.
_Offer = Callable[[str, dict[str, str]], "tuple[str, str] | None"]


def _chosen(accept: str, offer: _Offer) -> MediaTypeOptions | None:
    """The first that can be had of what is wanted."""
    for clause in _clauses(accept):
        media_type, parameters = _SERVED.get(clause.media_type), clause.parameters
        if media_type is None or parameters.get("stream", "") not in ("", "watch"):
            continue
        if (shown := offer(media_type, parameters)) is not None:
            return MediaTypeOptions(media_type, *shown, is_pretty=parameters.get("pretty") == "1")
    return None


def _as_it_is(media_type: str, parameters: dict[str, str]) -> tuple[str, str] | None:
    return ("", "v1") if not parameters.get("sv") and parameters.keys().isdisjoint(("as", "g", "v")) else None


def _transformed(parameters: dict[str, str]) -> tuple[str, str] | None:
    """As what an object is asked for, and in which version of `meta.k8s.io`; None: as something that it cannot be."""
    if parameters.get("sv", "") not in ("", "v1"):
        return None
    if parameters.keys().isdisjoint(("as", "g", "v")):
        return "", "v1"
    kind, group, version = (parameters.get(key, "") for key in ("as", "g", "v"))
    is_known = kind in _TRANSFORMS and group == "meta.k8s.io" and version in ("v1", "v1beta1")
    return (kind, version) if is_known else None


@bounded_cache(maxsize=256)
def form_of(
    accept: str, *, is_routed: bool = True, has_rows: bool = True, has_messages: bool = True
) -> MediaTypeOptions:
    """The form of objects that an `Accept` header asks for; raises `NotAcceptable`.

    Upstream a router, which words its refusals differently, stands before all but custom resources (`is_routed`).
    What is answered and never stored, such as a review, cannot be shown as rows of a Table (`has_rows`); what is no
    built-in kind cannot be written as protobuf (`has_messages`).
    """

    def offer(media_type: str, parameters: dict[str, str]) -> tuple[str, str] | None:
        shown = _transformed(parameters)
        if shown is None or (shown[0] == TABLE and (not has_rows or media_type == PROTOBUF)):
            return None
        return None if media_type == PROTOBUF and not shown[0] and not has_messages else shown

    return _required(accept, offer, is_routed=is_routed)


@bounded_cache(maxsize=256)
def plain_form_of(accept: str, *, is_routed: bool = True) -> MediaTypeOptions:
    """The form of what is shown as it is, such as an error; raises `NotAcceptable`."""
    return _required(accept, _as_it_is, is_routed=is_routed)


def _required(accept: str, offer: _Offer, *, is_routed: bool) -> MediaTypeOptions:
    if not accept:
        return MediaTypeOptions()
    if is_routed and not any(clause.media_type in _ROUTED for clause in _clauses(accept)):
        raise NotAcceptable(_NOT_SERVED.format(", ".join(_KNOWN)), shows_details=True)
    chosen = _chosen(accept, offer)
    if chosen is None:
        raise NotAcceptable(_ACCEPTED.format(", ".join(_KNOWN)))
    return chosen


def check_stream(form: MediaTypeOptions) -> None:
    """Refuse a watch in a form in which there are no streams."""
    if form.media_type == YAML:
        raise NotAcceptable(_ACCEPTED.format(", ".join(_KNOWN_STREAMS)))


def aggregated_form_of(accept: str) -> MediaTypeOptions | None:
    """The form in which discovery is asked for in one document; None if it is asked for in its old form."""
    return _chosen(accept, _in_one_document)


def _in_one_document(media_type: str, parameters: dict[str, str]) -> tuple[str, str] | None:
    """Whatever else is wanted, and wanted more, does not count."""
    wanted = tuple(parameters.get(key, "") for key in ("g", "v", "as"))
    return (DISCOVERY_LIST, "v2") if wanted == ("apidiscovery.k8s.io", "v2", DISCOVERY_LIST) else None
