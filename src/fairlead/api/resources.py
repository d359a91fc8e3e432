"""What the API serves: one `Resource` row per kind, and nothing else names a kind.

A row says how a kind is spelled in paths and texts, where it lives and which verbs it knows. The
built-in rows are the table in `builtin.py`; a CustomResourceDefinition adds rows at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

#: The verbs of an ordinary kind, in the order in which discovery lists them.
STANDARD_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Subresource(msgspec.Struct, frozen=True):
    """`pods/binding`: a path below an object, with a kind and verbs of its own."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""  # group and version of `kind`, where they differ from the resource's own
    version: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind in one version of one group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STANDARD_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict, hash=False)
    definition: str = ""  # name of its OpenAPI definition; empty for a custom resource
    storage_version: str = ""  # where several versions are served, the one whose form is stored
    list_kind: str = ""  # the kind of lists of it; what the author of a CRD says, else the kind and "List"
    #: `v1`, `apps/v1`. Made once, as the next: every write asks for them a dozen times.
    api_version: str = field(init=False, repr=False, compare=False)
    #: `pods`, `deployments.apps`: the spelling of texts, quotas and store keys.
    qualified: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.list_kind:
            object.__setattr__(self, "list_kind", f"{self.kind}List")
        object.__setattr__(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)
        object.__setattr__(self, "qualified", f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def root(self) -> str:
        """`/api/v1`, `/apis/apps/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of an object, or of a subresource."""
        parts = [self.root]
        if namespace and self.namespaced:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)
