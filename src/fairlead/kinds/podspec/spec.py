"""The rules of a pod specification, in the order in which upstream applies them (ValidatePodSpec)."""

from __future__ import annotations

from fairlead.api.fields import Errors, validate_choice
from fairlead.api.names import dns1123_label, dns1123_subdomain, in_range, qualified_name
from fairlead.api.objects import Obj
from fairlead.api.pods import MIRROR
from fairlead.api.selectors import validate_labels
from fairlead.kinds.podspec.affinity import validate_affinity
from fairlead.kinds.podspec.containers import (
    resize_restarts_init,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from fairlead.kinds.podspec.env import validate_file_volumes
from fairlead.kinds.podspec.networking import (
    validate_dns_config,
    validate_dns_policy,
    validate_host_aliases,
    validate_host_name_override,
    validate_host_names,
    validate_host_users,
)
from fairlead.kinds.podspec.ports import validate_host_network_ports
from fairlead.kinds.podspec.resources import validate_overhead, validate_pod_resources
from fairlead.kinds.podspec.scope import PodScope
from fairlead.kinds.podspec.security import validate_pod_security
from fairlead.kinds.podspec.structs import POD_RESOURCE_CLAIM, as_go
from fairlead.kinds.podspec.tolerations import validate_tolerations
from fairlead.kinds.podspec.topology import validate_topology_spread
from fairlead.kinds.podspec.volumes import validate_volumes
from fairlead.kinds.podspec.windows import validate_host_process, validate_os
from fairlead.kinds.rules import PREEMPTION_POLICIES, check

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_MAX_INT32 = 2**31 - 1
_NEW: Obj = {}
_NO_VOLUMES: dict[str, Obj] = {}
_NO_CLAIMS: frozenset[str] = frozenset()


def validate_pod_spec(spec: Obj, path: str, errors: Errors, *, metadata: Obj | None = None, old: Obj = _NEW) -> None:
    """All rules of a (defaulted) pod specification.

    `metadata` is that of the pod; without it this is part of a template, for which a few rules are looser. `old` is
    the specification that this one replaces: rules that came late do not hold for what it breaks already.
    """
    is_pod = metadata is not None
    if "terminationGracePeriodSeconds" not in spec:
        errors.required(f"{path}.terminationGracePeriodSeconds")
    volumes = _NO_VOLUMES
    if "volumes" in spec:
        pod_name = (metadata or {}).get("name") or ""
        volumes = validate_volumes(spec["volumes"], pod_name, f"{path}.volumes", errors, is_pod=is_pod)
    claim_names = _NO_CLAIMS
    if "resourceClaims" in spec:
        claims, where = spec["resourceClaims"], f"{path}.resourceClaims"
        claim_names = frozenset(claim["name"] for claim in claims if claim.get("name"))
        is_static = MIRROR in ((metadata or _NEW).get("annotations") or ())
        _validate_resource_claims(claims, where, errors, is_static=is_static)
    _validate_all_containers(spec, path, _scope_of(spec, old, volumes, claim_names), errors)
    validate_pod_resources(spec, claim_names, f"{path}.resources", errors)
    validate_host_network_ports(spec, path, errors, is_pod=is_pod)
    validate_choice(spec.get("restartPolicy", ""), _RESTART_POLICIES, f"{path}.restartPolicy", errors)
    validate_dns_policy(spec.get("dnsPolicy", ""), f"{path}.dnsPolicy", errors)
    if labels := spec.get("nodeSelector"):
        validate_labels(labels, errors, f"{path}.nodeSelector")
    validate_pod_security(spec, old, f"{path}.securityContext", errors)
    _validate_placement(spec, old, path, errors)
    _validate_names(spec, path, errors)
    validate_os(spec, path, errors)
    validate_file_volumes(spec, path, errors)


def _scope_of(spec: Obj, old: Obj, volumes: dict[str, Obj], claim_names: frozenset[str]) -> PodScope:
    return PodScope(
        volumes=volumes,
        claim_names=claim_names,
        grace_seconds=spec.get("terminationGracePeriodSeconds"),
        restart_policy=spec.get("restartPolicy", ""),
        shares_host_users=spec.get("hostUsers") is not False,
        os=(spec.get("os") or {}).get("name", ""),
        resize_restarts_init=resize_restarts_init(old),
    )


def _validate_all_containers(spec: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    containers = spec.get("containers") or []
    validate_containers(containers, f"{path}.containers", scope, errors)
    if init_containers := spec.get("initContainers"):
        validate_init_containers(init_containers, containers, f"{path}.initContainers", scope, errors)
    if "ephemeralContainers" in spec:
        validate_ephemeral_containers(spec, f"{path}.ephemeralContainers", scope, errors)


def _validate_resource_claims(claims: list[Obj], path: str, errors: Errors, *, is_static: bool) -> None:
    names: set[str] = set()
    for i, claim in enumerate(claims):
        if is_static:
            errors.forbidden("[]", "static pods do not support resource claims")
            continue
        here, name = f"{path}[{i}]", claim.get("name", "")
        if not name:
            errors.required(f"{here}.name")
        elif name in names:
            errors.duplicate(f"{here}.name", name)
        else:
            check(errors, f"{here}.name", name, dns1123_label)
            names.add(name)
        sources = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim]
        if len(sources) > 1:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.invalid(here, as_go(claim, POD_RESOURCE_CLAIM), text)
        elif not sources:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.invalid(here, as_go(claim, POD_RESOURCE_CLAIM), text)
        for field in sources:
            check(errors, f"{here}.{field}", claim[field], dns1123_subdomain)


def _validate_placement(spec: Obj, old: Obj, path: str, errors: Errors) -> None:
    if affinity := spec.get("affinity"):
        validate_affinity(affinity, f"{path}.affinity", errors)
    validate_dns_config(spec, f"{path}.dnsConfig", errors)
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        check(errors, f"{path}.readinessGates[{i}].conditionType", gate.get("conditionType", ""), qualified_name)
    if gates := spec.get("schedulingGates"):
        _validate_scheduling_gates(gates, f"{path}.schedulingGates", errors)
    if constraints := spec.get("topologySpreadConstraints"):
        validate_topology_spread(constraints, f"{path}.topologySpreadConstraints", errors)
    validate_host_process(spec, path, errors)
    validate_host_users(spec, old, path, errors)
    validate_host_name_override(spec, path, errors)


def _validate_scheduling_gates(gates: list[Obj], path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = gate.get("name", "")
        check(errors, f"{path}[{i}]", name, qualified_name)
        if name in seen:
            errors.duplicate(f"{path}[{i}]", name)
        seen.add(name)


def _deadline(seconds: int) -> list[str]:
    return in_range(seconds, 1, _MAX_INT32)


def _validate_names(spec: Obj, path: str, errors: Errors) -> None:
    """Names of other objects, and what else fits on a line."""
    for field in ("serviceAccountName", "nodeName"):
        if name := spec.get(field):
            check(errors, f"{path}.{field}", name, dns1123_subdomain)
    if (deadline := spec.get("activeDeadlineSeconds")) is not None:
        check(errors, f"{path}.activeDeadlineSeconds", deadline, _deadline)
    validate_host_names(spec, path, errors)
    if tolerations := spec.get("tolerations"):
        validate_tolerations(tolerations, f"{path}.tolerations", errors)
    if aliases := spec.get("hostAliases"):
        validate_host_aliases(aliases, f"{path}.hostAliases", errors)
    if name := spec.get("priorityClassName"):
        check(errors, f"{path}.priorityClassName", name, dns1123_subdomain)
    if (name := spec.get("runtimeClassName")) is not None:
        check(errors, f"{path}.runtimeClassName", name, dns1123_subdomain)
    if (policy := spec.get("preemptionPolicy")) is not None:
        validate_choice(policy, PREEMPTION_POLICIES, f"{path}.preemptionPolicy", errors)
    if overhead := spec.get("overhead"):
        validate_overhead(overhead, f"{path}.overhead", errors)
