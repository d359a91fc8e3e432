"""What the server says about a pod or a template that is allowed but probably not meant.

Clients print these texts, so they and their order are upstream's (pkg/api/pod/warnings.go,
pkg/api/node/util.go). Paths start at the pod; those of a template start at `spec.template`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, TypeAlias

from fairlead.api.names import label_value
from fairlead.api.objects import Obj
from fairlead.api.quantity import is_integer
from fairlead.golang.quoting import go_quote
from fairlead.kinds.ips import ip_warnings
from fairlead.kinds.podspec.affinity import PREFERRED, REQUIRED
from fairlead.kinds.podspec.annotations import APPARMOR, SECCOMP_CONTAINER, SECCOMP_POD
from fairlead.kinds.podspec.overlaps import MOST_CONFLICTS, TakenPorts, overlapping
from fairlead.kinds.podspec.visiting import each_with_path

_DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
#: Source of a volume -> its name in the text, and what became of it.
DEPRECATED_VOLUMES = {
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    "gitRepo": ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "flocker": ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "quobyte": ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}
#: Volume whose files are made of an object → the field with the name of that.
_OBJECTS = {"configMap": "name", "secret": "secretName", "downwardAPI": ""}
#: Its path, and in which source of the volume it is.
_File: TypeAlias = tuple[str, str]
_MAKING_FILES = frozenset({*_OBJECTS, "projected"})
_BYTES = ("memory", "ephemeral-storage")
_USE_SECCOMP_FIELD = 'non-functional in v1.27+; use the "seccompProfile" field instead'
USE_APPARMOR_FIELD = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_NEGATIVE_GRACE = "must be >= 0; negative values are invalid and will be treated as 1"
_LOST_BY_APPLY = "which may be dropped when using apply"
_BY_NAME = "services and probes that select ports by name will use"
_SELECTS_NOTHING = "a null labelSelector results in matching no pod"


def pod_warnings(pod: Obj) -> list[str]:
    """Warnings about a pod."""
    return list(_warnings(pod, "", is_template=False))


def template_warnings(template: Obj, path: str) -> list[str]:
    """Warnings about a template at `path`, for example `spec.template`."""
    return list(_warnings(template, f"{path}.", is_template=True))


def claim_warnings(spec: Obj, path: str) -> list[str]:
    """Warnings about the spec of a claim for a volume (pkg/api/persistentvolumeclaim/util.go)."""
    resources = spec.get("resources") or {}
    amounts = ((kind, (resources.get(kind) or {}).get("storage")) for kind in ("requests", "limits"))
    return [
        _fraction(f"{path}.resources.{kind}[storage]", amount)
        for kind, amount in amounts
        if amount is not None and not is_integer(amount)
    ]


def node_selector_warnings(selector: Obj, path: str) -> list[str]:
    """Warnings about a choice of nodes; volumes have one too."""
    terms = enumerate(selector.get("nodeSelectorTerms") or ())
    return [text for i, term in terms for text in _about_node_term(term, f"{path}.nodeSelectorTerms[{i}]")]


def _warnings(owner: Obj, prefix: str, *, is_template: bool) -> Iterator[str]:
    spec, annotations = owner.get("spec") or {}, (owner.get("metadata") or {}).get("annotations") or {}
    path = f"{prefix}spec"
    yield from _about_node_labels(spec, path)
    for key, text in _DEPRECATED_ANNOTATIONS.items():
        if key in annotations:
            yield f"{prefix}metadata.annotations[{key}]: {text}"
    if "volumes" in spec:
        yield from _about_volumes(spec["volumes"], f"{path}.volumes")
    yield from _about_duplicates(spec, path)
    yield from _about_fractions(spec.get("overhead") or {}, f"{path}.overhead")
    if annotations and SECCOMP_POD in annotations and "seccompProfile" not in (spec.get("securityContext") or {}):
        yield f"{prefix}metadata.annotations[{SECCOMP_POD}]: {_USE_SECCOMP_FIELD}"
    has_ports = False
    for container, here in each_with_path(spec, path):
        if annotations:
            yield from _about_profiles(container, spec, annotations, prefix, is_template=is_template)
        yield from _about_container(container, here)
        has_ports = has_ports or "ports" in container
    if has_ports:
        yield from _about_ports(spec, path)
        yield from _about_port_names(spec, path)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        yield f"{path}.terminationGracePeriodSeconds: {_NEGATIVE_GRACE}"
    yield from _about_pod_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    for i, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from ip_warnings(server, f"{path}.dnsConfig.nameservers[{i}]")
    for i, alias in enumerate(spec.get("hostAliases") or ()):
        yield from ip_warnings(alias.get("ip", ""), f"{path}.hostAliases[{i}].ip")


def _about_node_labels(spec: Obj, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if text := _DEPRECATED_LABELS.get(key):
            yield f"{path}.nodeSelector[{key}]: {text}"
    if affinity := (spec.get("affinity") or {}).get("nodeAffinity"):
        here = f"{path}.affinity.nodeAffinity"
        yield from node_selector_warnings(affinity.get(REQUIRED) or {}, f"{here}.{REQUIRED}")
        for i, term in enumerate(affinity.get(PREFERRED) or ()):
            where = f"{here}.{PREFERRED}[{i}].preference"
            yield from _about_node_term(term.get("preference") or {}, where, any_value=True)
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        here, key = f"{path}.topologySpreadConstraints[{i}]", constraint.get("topologyKey", "")
        if text := _DEPRECATED_LABELS.get(key):
            yield f"{here}.topologyKey: {key} is {text}"
        if "labelSelector" not in constraint:
            yield f"{here}.labelSelector: {_SELECTS_NOTHING}"


def _about_node_term(term: Obj, path: str, *, any_value: bool = False) -> Iterator[str]:
    """Where any value may be asked for, those that no label can have are told of; elsewhere they are refused."""
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        here, key = f"{path}.matchExpressions[{i}]", expression.get("key", "")
        if text := _DEPRECATED_LABELS.get(key):
            yield f"{here}.key: {key} is {text}"
        for j, value in enumerate(expression.get("values") or () if any_value else ()):
            for text in label_value(value):
                yield f"{here}.values[{j}]: {value} is invalid, {text}"


def _about_volumes(volumes: list[Obj], path: str) -> Iterator[str]:
    for i, volume in enumerate(volumes):
        for kind, (shown, text) in DEPRECATED_VOLUMES.items():
            if kind in volume:
                yield f"{path}[{i}].{shown}: {text}"
        claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}
        yield from claim_warnings(claim.get("spec") or {}, f"{path}[{i}].ephemeral.volumeClaimTemplate.spec")
    for volume in volumes:
        if not _MAKING_FILES.isdisjoint(volume):
            yield from _about_files(volume)


def _about_files(volume: Obj) -> Iterator[str]:
    """Files of a volume that take each other's place, or the place of the other's directory."""
    start = f"volume {go_quote(volume.get('name', ''))}"
    for kind, name_field in _OBJECTS.items():
        source = volume.get(kind) or {}
        found = _overlaps(_files(source, ""), f"{start} ({_owner(kind, source.get(name_field))})")
        yield from (text for _, text in found)
    files: list[_File] = []
    empty: list[tuple[int, str]] = []
    for projection in (volume.get("projected") or {}).get("sources") or ():
        if not projection:
            empty.append((len(files), f"{start} (Projected) has no sources provided"))
        for kind in _OBJECTS:
            source = projection.get(kind) or {}
            files += _files(source, f" ({_owner(kind, source.get('name'))})")
        if token := projection.get("serviceAccountToken"):
            files.append((token.get("path", "").rstrip("/"), " (ServiceAccountToken)"))
    found = [*empty, *_overlaps(files, f"{start} (Projected)")]
    yield from (text for _, text in sorted(found, key=itemgetter(0)))


def _owner(kind: str, name: str | None) -> str:
    shown = kind[0].upper() + kind[1:]
    return shown if kind == "downwardAPI" else f"{shown} {go_quote(name or '')}"


def _files(source: Obj, owner: str) -> list[_File]:
    return [(item.get("path", "").rstrip("/"), owner) for item in source.get("items") or ()]


def _overlaps(files: list[_File], start: str) -> list[tuple[int, str]]:
    """Of each file with those before it, in this source and in others: the later file, and what is said."""
    found = []
    for later, earlier in overlapping([path for path, _ in files]):
        (path, owner), (earlier_path, earlier_owner) = files[later], files[earlier]
        text = f"{start}: overlapping paths: {go_quote(path)}{owner} with {go_quote(earlier_path)}{earlier_owner}"
        found.append((later, text))
    return found


def _about_duplicates(spec: Obj, path: str) -> Iterator[str]:
    for field, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for i, item in enumerate(spec.get(field) or ()):
            value = item.get(key, "")
            if value in seen:
                yield f"{path}.{field}[{i}].{key}: duplicate {key} {go_quote(value)}"
            seen.add(value)
    for i, item in enumerate(spec.get("imagePullSecrets") or ()):
        if not item.get("name"):
            yield f'{path}.imagePullSecrets[{i}].name: invalid empty name ""'


def _about_fractions(amounts: Mapping[str, str], path: str) -> Iterator[str]:
    for name in _BYTES:
        amount = amounts.get(name)
        if amount is not None and not is_integer(amount):
            yield _fraction(f"{path}[{name}]", amount)


def _fraction(path: str, amount: str) -> str:
    return f"{path}: fractional byte value {go_quote(amount)} is invalid, must be an integer"


def _about_profiles(
    container: Obj, spec: Obj, annotations: Mapping[str, str], prefix: str, *, is_template: bool
) -> Iterator[str]:
    """Security annotations without the field that took their place."""
    name, context = container.get("name", ""), container.get("securityContext") or {}
    key = SECCOMP_CONTAINER + name
    if key in annotations and "seccompProfile" not in context:
        yield f"{prefix}metadata.annotations[{key}]: {_USE_SECCOMP_FIELD}"
    key = APPARMOR + name
    has_field = "appArmorProfile" in context or "appArmorProfile" in (spec.get("securityContext") or {})
    if is_template and key in annotations and not has_field:
        yield f"{prefix}metadata.annotations[{key}]: {USE_APPARMOR_FIELD}"


def _about_container(container: Obj, path: str) -> Iterator[str]:
    if resources := container.get("resources"):
        for name in _BYTES:
            for kind in ("limits", "requests"):
                amount = (resources.get(kind) or {}).get(name)
                if amount is not None and not is_integer(amount):
                    yield _fraction(f"{path}.resources.{kind}[{name}]", amount)
    seen: set[str] = set()
    for i, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in seen and _hides(variable, name):
            yield f"{path}.env[{i}]: hides previous definition of {go_quote(name)}, {_LOST_BY_APPLY}"
        seen.add(name)


def _hides(variable: Obj, name: str) -> bool:
    """Whether a later definition drops the earlier one, instead of extending it."""
    value, reference = variable.get("value", ""), f"$({name})"
    return "valueFrom" in variable or value == reference or reference not in value


def _about_ports(spec: Obj, path: str) -> Iterator[str]:
    known: dict[tuple[Any, Any], TakenPorts] = {}
    left = MOST_CONFLICTS
    for container, here in each_with_path(spec, path):
        for i, port in enumerate(container.get("ports") or ()):
            where = f"{here}.ports[{i}]"
            if port.get("hostIP") and not port.get("hostPort"):
                yield f"{where}: hostIP set without hostPort: {_go_port(port)}"
            taken = known.setdefault((port.get("containerPort", 0), port.get("protocol", "")), TakenPorts())
            if left > 0:
                found = taken.conflicts(port)
                yield from (f"{where}: {text} port definition with {earlier}" for text, earlier in found[:left])
                left -= len(found)
            taken.add(port, where)


def _about_port_names(spec: Obj, path: str) -> Iterator[str]:
    """Within a container names are different, but containers do not know of each other."""
    known: dict[str, str] = {}
    for container, here in each_with_path(spec, path):
        for i, port in enumerate(container.get("ports") or ()):
            if not (name := port.get("name")):
                continue
            where = f"{here}.ports[{i}]"
            if (first := known.setdefault(name, where)) != where:
                yield f"{where}: duplicate port name {go_quote(name)} with {first}, {_BY_NAME} {first}"


def _go_port(port: Obj) -> str:
    """A ContainerPort as Go's `%+v` prints it."""
    values = (port.get("name", ""), port.get("hostPort", 0), port.get("containerPort", 0))
    name, host_port, number = values
    protocol, ip = port.get("protocol", ""), port.get("hostIP", "")
    return f"{{Name:{name} HostPort:{host_port} ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}"


def _about_pod_affinity(affinity: Obj, path: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for i, term in enumerate(terms.get(REQUIRED) or ()):
            if "labelSelector" not in term:
                yield f"{path}.{kind}.{REQUIRED}[{i}].labelSelector: {_SELECTS_NOTHING}"
        for i, term in enumerate(terms.get(PREFERRED) or ()):
            if "labelSelector" not in (term.get("podAffinityTerm") or {}):
                yield f"{path}.{kind}.{PREFERRED}[{i}].podAffinityTerm.labelSelector: {_SELECTS_NOTHING}"
