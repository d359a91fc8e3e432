"""Which kind of object an endpoint takes, and how it refuses others.

A client may send an object of another kind, of another version of the same kind, or of a kind that nobody knows, and
each has its own answer. Texts: runtime/error.go and conversion/converter.go of k8s.io/apimachinery;
`transformDecodeError` in handlers/rest.go of k8s.io/apiserver.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from fairlead.api.errors import BadRequest
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.golang.quoting import go_quote
from fairlead.server.codec import wire
from fairlead.server.codec.normalise import normalise

#: Further versions in which a kind may be sent to an endpoint although they are not served.
_ALSO: Final = {("policy", "Eviction"): frozenset({"policy/v1beta1"})}
#: Where upstream makes the scheme of its kinds; users see it.
_SCHEMES: Final = {
    "apiextensions.k8s.io": "pkg/apiserver/apiserver.go:55",
    "apiregistration.k8s.io": "pkg/apiserver/scheme/scheme.go:28",
}
_LEGACY_SCHEME: Final = "pkg/api/legacyscheme/scheme.go:30"
_PACKAGES: Final = {
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    "internal.apiserver.k8s.io": "io.k8s.api.apiserverinternal",
}
_SHOWN: Final = 30  # bytes of an unreadable body that the error shows


class BodyType(msgspec.Struct, frozen=True):
    """The kind of object that an endpoint takes. `definition` is empty for a custom resource."""

    group: str
    version: str
    kind: str
    definition: str
    also: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def refusal(self, why: str, kind: str = "", version: str = "") -> BadRequest:
        """`Pod in version "v1" cannot be handled as a Pod: why`."""
        sent, quoted_version = kind or self.kind, go_quote(version or self.version)
        return BadRequest(f"{sent} in version {quoted_version} cannot be handled as a {self.kind}: {why}")

    def unrecognized(self, why: str, body: bytes) -> BadRequest:
        """The refusal of a body without a kind."""
        return BadRequest(
            f"the object provided is unrecognized (must be of type {self.kind}): {why} ({_summary(body)})"
        )

    def normalise(self, obj: Obj) -> list[str]:
        """`normalise.normalise` for this kind, with refusals as an endpoint words them."""
        return self._normalised(obj, self.definition, self.kind, self.version)

    def _normalised(self, obj: Obj, definition: str, kind: str, version: str) -> list[str]:
        try:
            return normalise(obj, definition)
        except BadRequest as error:
            raise self.refusal(error.message, kind, version) from None

    def check(self, obj: Obj, kind: str, api_version: str) -> None:
        """Refuse an object of another kind or version, as late as upstream does: first it must be well-formed."""
        if api_version in self.also or (kind == self.kind and api_version == self.api_version):
            return
        if self.definition:
            self._check_kind(obj, kind, api_version)
        if api_version != self.api_version:
            sent, expected = f"the API version in the data ({api_version})", f"({self.api_version})"
            raise BadRequest(f"{sent} does not match the expected API version {expected}")

    def _check_kind(self, obj: Obj, kind: str, api_version: str) -> None:
        group, _, version = api_version.rpartition("/")
        sent = definition_of(group, version, kind)
        if not wire.is_known(sent):
            scheme = go_quote(_SCHEMES.get(self.group, _LEGACY_SCHEME))
            why = f"no kind {go_quote(kind)} is registered for version {go_quote(api_version)} in scheme {scheme}"
            raise self.refusal(why, kind, version)
        self._normalised(obj, sent, kind, version)
        if (family(group), kind) != (family(self.group), self.kind):
            why = f"converting ({version}.{kind}) to ({family(self.group)}.{self.kind}): unknown conversion"
            raise self.refusal(why, kind, version)


@lru_cache(maxsize=1024)
def body_type_of(resource: Resource, subresource: str = "") -> BodyType:
    """What the endpoint of a resource, or of one of its subresources, takes."""
    sub = resource.subresources.get(subresource)
    if sub is None or sub.kind == resource.kind:
        return BodyType(resource.group, resource.version, resource.kind, resource.definition)
    group, version = (sub.group, sub.version) if sub.version else (resource.group, resource.version)
    also = _ALSO.get((group, sub.kind), frozenset())
    return BodyType(group, version, sub.kind, definition_of(group, version, sub.kind), also)


def definition_of(group: str, version: str, kind: str) -> str:
    """The OpenAPI name that a built-in kind would have; `wire.is_known` says whether it exists."""
    package = _PACKAGES.get(group) or f"io.k8s.api.{group.partition('.')[0] or 'core'}"
    return f"{package}.{version}.{kind}"


def family(group: str) -> str:
    """The Go package of a group's internal types; events have theirs in core."""
    return "core" if group == "events.k8s.io" else definition_of(group, "", "").split(".")[-3]


def _summary(body: bytes) -> str:
    """The beginning of a body, as text if it could be JSON."""
    if not body:
        return "<empty>"
    cut = body[:_SHOWN]
    shown = cut.decode("utf-8", "replace") if body.startswith(b"{") else cut.hex()
    return f"{shown} ..." if len(body) > _SHOWN else shown
