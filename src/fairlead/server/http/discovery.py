"""What the server says it serves: `/api`, `/apis`, a group, a group-version, the aggregated list, `/version`.

A client that knows nothing but the address starts here, so kubectl's spelling of every kind comes from these documents.
They are pure functions of the rows served at the moment, built-in and custom, and of what other servers serve; the
HTTP layer negotiates the form and caches the bytes until a CustomResourceDefinition or an APIService changes (X-01).

Order is part of the answer: a short name that two groups share means the kind in the first one. Groups and versions
stand in the order of their priorities, and then by name.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fairlead import COMPATIBILITY_VERSION
from fairlead.api.builtin import stored_as
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource, Subresource
from fairlead.api.versions import by_preference
from fairlead.runtime.metrics import GAUGE, Computed, Family
from fairlead.server.aggregation.priorities import priorities


class RemoteVersion(msgspec.Struct, frozen=True):
    """A version of a group for which another server answers."""

    group: str
    version: str
    #: Of the group, and of the version in it.
    priorities: tuple[int, int]
    #: As in the document of all groups.
    resources: Sequence[Obj]
    is_stale: bool


_MAJOR, _MINOR = COMPATIBILITY_VERSION.split(".")
_VERSION: Obj = {
    "major": _MAJOR,
    "minor": _MINOR,
    "emulationMajor": _MAJOR,
    "emulationMinor": _MINOR,
    "minCompatibilityMajor": _MAJOR,
    "minCompatibilityMinor": str(int(_MINOR) - 1),
    "gitVersion": f"v{COMPATIBILITY_VERSION}.0",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "gc",
    "platform": "linux/amd64",
}

_BUILD_LABELS = {
    "major": "major",
    "minor": "minor",
    "git_version": "gitVersion",
    "git_commit": "gitCommit",
    "git_tree_state": "gitTreeState",
    "build_date": "buildDate",
    "go_version": "goVersion",
    "compiler": "compiler",
    "platform": "platform",
}


def version() -> Obj:
    """`/version`: the Kubernetes whose behaviour this server has."""
    return dict(_VERSION)


def build_info() -> Family:
    """The same as a metric."""
    labels = {snake: _VERSION[camel] for snake, camel in _BUILD_LABELS.items()}
    text = "[BETA] Always 1; the labels say which Kubernetes this server behaves as."
    return Computed(GAUGE, "kubernetes_build_info", text, tuple(labels), lambda: [(tuple(labels.values()), 1)])


def core_versions(address: str) -> Obj:
    """`/api`: the versions of the group without a name."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def group_list(rows: Iterable[Resource], remote: Iterable[RemoteVersion] = ()) -> Obj:
    """`/apis`: every named group with its versions."""
    groups = [_group(name, versions) for name, versions in _versions(rows, remote).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(rows: Iterable[Resource], name: str, remote: Iterable[RemoteVersion] = ()) -> Obj | None:
    """`/apis/NAME`, or None if nothing of that group is served."""
    versions = _versions(rows, remote).get(name)
    return None if versions is None else {"kind": "APIGroup", "apiVersion": "v1"} | _group(name, versions)


def resource_list(rows: Iterable[Resource], group: str, version: str) -> Obj | None:
    """`/api/v1`, `/apis/GROUP/VERSION`: the kinds of one group-version, subresources among them."""
    served = _of(rows, group, version)
    if not served:
        return None
    # The core group is as old as the field apiVersion, and its list still comes without one.
    head: Obj = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if group else {})
    head["groupVersion"] = served[0].api_version
    head["resources"] = [entry for row in served for entry in _entries(row)]
    return head


def aggregated(rows: Sequence[Resource], remote: Sequence[RemoteVersion] = (), *, core: bool) -> Obj:
    """`/api` (core) or `/apis`, with everything below in one document (KEP-3352)."""
    others = {(each.group, each.version): each for each in remote}
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [
                _remote_version(others[name, version])
                if (name, version) in others
                else _aggregated_version(rows, name, version)
                for version in versions
            ],
        }
        for name, versions in _versions(rows, remote).items()
        if (name == "") is core
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def storage_version_hash(row: Resource) -> str:
    """Tells a client that two rows are one collection, and when its stored form has changed."""
    stored = stored_as(row)
    text = f"{stored.group}/{stored.storage_version}/{stored.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _versions(rows: Iterable[Resource], remote: Iterable[RemoteVersion]) -> dict[str, list[str]]:
    """Versions by group, the groups in their order, the preferred version first."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for row in rows:
        versions = found.setdefault(row.group, {})
        if row.version not in versions:
            versions[row.version] = priorities(row.group, row.version)
    for other in remote:
        found.setdefault(other.group, {})[other.version] = other.priorities
    highest = {name: max(of_group for of_group, _ in versions.values()) for name, versions in found.items()}
    return {name: _in_order(found[name]) for name in sorted(found, key=lambda name: (-highest[name], name))}


def _in_order(versions: Mapping[str, tuple[int, int]]) -> list[str]:
    return sorted(versions, key=lambda version: (-versions[version][1], by_preference(version)))


def _of(rows: Iterable[Resource], group: str, version: str) -> list[Resource]:
    return sorted((row for row in rows if row.group == group and row.version == version), key=lambda row: row.plural)


def _group(name: str, versions: list[str]) -> Obj:
    spelled = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": spelled, "preferredVersion": spelled[0]}


def _entries(row: Resource) -> list[Obj]:
    main: Obj = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    main |= _names(row)
    is_stored = {"list", "get", "create"} <= set(row.verbs)
    if is_stored and row.storage_version:
        main["storageVersionHash"] = storage_version_hash(row)
    return [main, *(_subresource_entry(row, sub) for sub in row.subresources.values())]


def _subresource_entry(row: Resource, sub: Subresource) -> Obj:
    entry: Obj = {"name": f"{row.plural}/{sub.name}", "singularName": "", "namespaced": row.namespaced}
    if sub.group:
        entry |= {"group": sub.group, "version": sub.version}
    return entry | {"kind": sub.kind, "verbs": list(sub.verbs)}


def _aggregated_version(rows: Iterable[Resource], group: str, version: str) -> Obj:
    entries = [_aggregated_entry(row) for row in _of(rows, group, version)]
    return {"version": version, "resources": entries, "freshness": "Current"}


def _remote_version(other: RemoteVersion) -> Obj:
    resources = {"resources": list(other.resources)} if other.resources else {}
    return {"version": other.version, **resources, "freshness": "Stale" if other.is_stale else "Current"}


def _aggregated_entry(row: Resource) -> Obj:
    entry: Obj = {
        "resource": row.plural,
        "responseKind": _response_kind(row, row.kind),
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
    }
    entry |= _names(row)
    if row.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(row, sub.kind, sub.group, sub.version),
                "verbs": list(sub.verbs),
            }
            for sub in row.subresources.values()
        ]
    return entry


def _names(row: Resource) -> Obj:
    names = {"shortNames": list(row.short_names), "categories": list(row.categories)}
    return {key: value for key, value in names.items() if value}


def _response_kind(row: Resource, kind: str, group: str = "", version: str = "") -> Obj:
    """Empty group and version mean those of the list around it; only custom kinds spell them out."""
    if not group and not row.definition:
        group, version = row.group, row.version
    return {"group": group, "version": version, "kind": kind}
