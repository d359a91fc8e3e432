"""The status of a pod: what it is born with, what `/status` may write, which forms of it are kept in step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fairlead.api.fields import Errors
from fairlead.api.names import dns1123_label, dns1123_subdomain, group_id, qualified_name, user_id
from fairlead.api.objects import Obj
from fairlead.api.qos import qos_class
from fairlead.kinds.ips import parse_ip, validate_ip
from fairlead.kinds.podspec.restarts import may_restart_all, should_restart
from fairlead.kinds.podspec.structs import IP, all_as_go
from fairlead.kinds.rules import check
from fairlead.runtime.clock import timestamp

_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_HEALTHS = frozenset({"Healthy", "Unhealthy", "Unknown"})
_STAYS_TERMINATED = "may not be transitioned to non-terminated state"
_ONE_OF_A_FAMILY = "may specify no more than one IP for each IP family"
_CLAIM = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' "
    "or 'claim:<claimName>' if request is empty"
)
_ALLOCATABLE = "nodeAllocatableResourceClaimStatuses"
_MAPPING = ("containerName", "resourceName", "requestName")
_NO_CONTAINER = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
_NOT_REQUESTED = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests "
    "or spec.containers.resources.requests"
)
_HEALTH_MESSAGE_MAX = 1024
#: List of container statuses → the list of containers that it is about.
_STATUSES = {"containerStatuses": "containers", "initContainerStatuses": "initContainers"}


def initial_status(spec: Obj) -> Obj:
    """The status of a pod that has just been created."""
    status: Obj = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        set_condition(status, _GATED)
    return status


def set_condition(status: Obj, condition: Obj) -> None:
    """Write a condition; its time says when the status last changed (UpdatePodCondition)."""
    new = {**condition, "lastProbeTime": None, "lastTransitionTime": timestamp()}
    conditions = list(status.get("conditions") or ())
    for i, old in enumerate(conditions):
        if old.get("type") == condition["type"]:
            if old.get("status") == condition["status"]:
                new["lastTransitionTime"] = old.get("lastTransitionTime")
            conditions[i] = new
            break
    else:
        conditions.append(new)
    status["conditions"] = conditions


def default_status(status: Obj) -> None:
    """`podIP` is `podIPs[0]`, whichever was written; where they differ, an old node agent wrote the former."""
    if not ((ip := status.get("podIP")) or status.get("podIPs")):
        return
    ips = status.get("podIPs") or []
    if ip and (not ips or ips[0].get("ip") != ip):
        status["podIPs"] = [{"ip": ip}]
    elif ips and ips[0].get("ip"):
        status["podIP"] = ips[0]["ip"]


def drop_disabled_status(status: Obj, old: Obj) -> None:
    """Take from a status, in place, what features that are off in 1.36 would say; what a pod has it keeps.

    The gates are DRANodeAllocatableResources and ImageVolumeWithDigest.
    """
    if not old.get(_ALLOCATABLE):
        status.pop(_ALLOCATABLE, None)
    digests = [mount for mount in _mounts(status) if "volumeStatus" in mount]
    if digests and not any("volumeStatus" in mount for mount in _mounts(old)):
        for mount in digests:
            del mount["volumeStatus"]


def _mounts(status: Obj) -> Iterator[Obj]:
    for kind in (*_STATUSES, "ephemeralContainerStatuses"):
        for container in status.get(kind) or ():
            yield from container.get("volumeMounts") or ()


def keep_observed(status: Obj, old: Obj) -> None:
    """Writers that do not know `observedGeneration` or the class of service must not erase them."""
    if not status.get("qosClass") and "qosClass" in old:
        status["qosClass"] = old["qosClass"]
    if not status.get("observedGeneration") and "observedGeneration" in old:
        status["observedGeneration"] = old["observedGeneration"]
    remembered: dict[str, list[int]] = {}
    for condition in old.get("conditions") or ():
        remembered.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions") or ():
        generations = remembered.get(condition.get("type", ""))
        generation = generations.pop(0) if generations else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def validate_status_update(pod: Obj, old: Obj, errors: Errors) -> None:
    """ValidatePodStatusUpdate."""
    status, before, spec = pod.get("status") or {}, old.get("status") or {}, pod["spec"]
    _validate_conditions(status.get("conditions") or (), errors)
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        check(errors, "status.nominatedNodeName", nominated, dns1123_subdomain)
        if old["spec"].get("nodeName"):
            errors.forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
    _validate_observed(status, "status", errors)
    if status.get("qosClass", "") != before.get("qosClass", ""):
        errors.invalid("status.qosClass", status.get("qosClass", ""), "field is immutable")
    _validate_transitions(status, before, old["spec"], errors)
    _validate_claim_statuses(status.get("resourceClaimStatuses") or (), spec, errors)
    if (claim := status.get("extendedResourceClaimStatus")) is not None:
        _validate_extended_claim(claim, spec, errors)
    _validate_ips(status, before, "podIPs", errors)
    if hosts := status.get("hostIPs"):
        if status.get("hostIP", "") != (first := hosts[0].get("ip", "")):
            errors.invalid("status.hostIPs[0].ip", first, "must be equal to `hostIP`")
        _validate_ips(status, before, "hostIPs", errors)
    system = (spec.get("os") or {}).get("name", "linux")
    for kind in (*_STATUSES, "ephemeralContainerStatuses"):
        _validate_users(status.get(kind) or (), f"status.{kind}", system, errors)
    for kind, containers in _STATUSES.items():
        _validate_health(status.get(kind) or (), spec.get(containers) or (), f"status.{kind}", errors)
    for i, container in enumerate(status.get("ephemeralContainerStatuses") or ()):
        if container.get("allocatedResourcesStatus"):
            where = f"status.ephemeralContainerStatuses[{i}].allocatedResourcesStatus"
            errors.forbidden(where, "must not be specified in container status")


def _validate_conditions(conditions: Iterable[Obj], errors: Errors) -> None:
    for i, condition in enumerate(conditions):
        path = f"status.conditions[{i}]"
        _validate_observed(condition, path, errors)
        if (kind := condition.get("type", "")) not in _SYSTEM_CONDITIONS:
            check(errors, f"{path}.Type", kind, qualified_name)


def _validate_observed(owner: Obj, path: str, errors: Errors) -> None:
    if (generation := owner.get("observedGeneration", 0)) < 0:
        errors.invalid(f"{path}.observedGeneration", generation, "must be a non-negative integer")


def _validate_transitions(status: Obj, old: Obj, spec: Obj, errors: Errors) -> None:
    """Containers that are not to be restarted stay terminated, as ephemeral ones do and those that the spec lacks."""
    for kind, containers in _STATUSES.items():
        for i, name, exit_code in _revived(status, old, kind):
            container = next(
                (candidate for candidate in spec.get(containers) or () if candidate.get("name") == name), None
            )
            is_restarted = container is not None and should_restart(container, spec, exit_code)
            if not is_restarted and not may_restart_all(spec):
                errors.forbidden(f"status.{kind}[{i}].state", _STAYS_TERMINATED)
    kind = "ephemeralContainerStatuses"
    for i, _, _ in _revived(status, old, kind):
        errors.forbidden(f"status.{kind}[{i}].state", _STAYS_TERMINATED)


def _revived(status: Obj, old: Obj, kind: str) -> Iterator[tuple[int, str | None, int]]:
    """Where the old status has a container that was terminated and is no longer; its name; its exit code then."""
    if not (before := old.get(kind)):
        return
    alive = {
        container.get("name")
        for container in status.get(kind) or ()
        if "terminated" not in (container.get("state") or {})
    }
    for i, was in enumerate(before):
        terminated = (was.get("state") or {}).get("terminated")
        if terminated is not None and was.get("name") in alive:
            yield i, was.get("name"), terminated.get("exitCode", 0)


def _validate_claim_statuses(statuses: Iterable[Obj], spec: Obj, errors: Errors) -> None:
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for i, status in enumerate(statuses):
        path, name = f"status.resourceClaimStatuses[{i}].name", status.get("name", "")
        if name not in known:
            errors.invalid(path, name, "must match the name of an entry in `spec.resourceClaims`")
        if name in seen:
            errors.duplicate(path, name)
        seen.add(name)
        if (claim := status.get("resourceClaimName")) is not None:
            check(errors, f"status.resourceClaimStatuses[{i}].resourceClaimName", claim, dns1123_subdomain)


def _validate_extended_claim(claim: Obj, spec: Obj, errors: Errors) -> None:
    """Which devices of a claim, made by the scheduler, stand for extended resources that containers ask for (KEP-5004).

    Upstream reports names of requests without the index of the mapping.
    """
    path = "status.extendedResourceClaimStatus"
    mappings = claim.get("requestMappings") or ()
    if not mappings:
        errors.required(f"{path}.requestMappings", "at least one request mapping is required")
    requests = {
        container.get("name", ""): (container.get("resources") or {}).get("requests") or ()
        for kind in ("initContainers", "containers")
        for container in spec.get(kind) or ()
    }
    seen: set[tuple[str, ...]] = set()
    for i, mapping in enumerate(mappings):
        here = f"{path}.requestMappings[{i}]"
        values = container, resource, request = tuple(mapping.get(field, "") for field in _MAPPING)
        if container not in requests:
            errors.invalid(f"{here}.containerName", container, _NO_CONTAINER)
        elif resource not in requests[container]:
            errors.invalid(f"{here}.resourceName", resource, _NOT_REQUESTED)
        check(errors, f"{path}.requestName", request, dns1123_label)
        if values in seen:
            for field, value in zip(_MAPPING, values, strict=True):
                errors.duplicate(f"{here}.{field}", value)
        seen.add(values)
    if name := claim.get("resourceClaimName"):
        check(errors, f"{path}.resourceClaimName", name, dns1123_subdomain)
    else:
        errors.required(f"{path}.resourceClaimName")


def _validate_ips(status: Obj, old: Obj, field: str, errors: Errors) -> None:
    """`podIPs` or `hostIPs`: one of a family. What was there before stays right."""
    ips: list[Obj] = status.get(field) or []
    known = {ip.get("ip", "") for ip in old.get(field) or ()}
    for i, ip in enumerate(ips):
        validate_ip(ip.get("ip", ""), f"status.{field}[{i}]", errors, known)
    if len(ips) > 1:
        _validate_families(ips, f"status.{field}", errors)


def _validate_families(ips: list[Obj], path: str, errors: Errors) -> None:
    parsed = [parse_ip(ip.get("ip", "")) for ip in ips]
    bad = next((i for i, ip in enumerate(parsed) if ip is None), None)
    if bad is not None:
        text = f"failed to check for dual stack with error:invalid IP[{bad}]: {ips[bad].get('ip', '')}"
        errors.internal(path, text)
    if bad is not None or len(ips) > 2 or len({ip.version for ip in parsed if ip}) < 2:
        errors.invalid(path, all_as_go(ips, IP), _ONE_OF_A_FAMILY)


def _validate_users(statuses: Iterable[Obj], path: str, system: str, errors: Errors) -> None:
    for i, status in enumerate(statuses):
        user = (status.get("user") or {}).get("linux")
        if user is None:
            continue
        here = f"{path}[{i}].user.linux"
        if system == "windows":
            errors.forbidden(here, "cannot be set for a windows pod")
            continue
        for field, rule in (("uid", user_id), ("gid", group_id)):
            check(errors, f"{here}.{field}", user.get(field, 0), rule)
        for j, group in enumerate(user.get("supplementalGroups") or ()):
            check(errors, f"{here}.supplementalGroups[{j}]", group, group_id)


def _validate_health(statuses: Iterable[Obj], containers: Iterable[Obj], path: str, errors: Errors) -> None:
    """`allocatedResourcesStatus`: the health of devices that a container was given."""
    by_name = {container.get("name"): container.get("resources") or {} for container in containers}
    for i, status in enumerate(statuses):
        for j, allocated in enumerate(status.get("allocatedResourcesStatus") or ()):
            here, name = f"{path}[{i}].allocatedResourcesStatus[{j}]", allocated.get("name", "")
            resources = by_name.get(status.get("name"))
            if resources is not None:
                _validate_is_requested(name, resources, f"{here}.name", errors)
            seen: set[str] = set()
            for k, resource in enumerate(allocated.get("resources") or ()):
                if (health := resource.get("health", "")) not in _HEALTHS:
                    errors.not_supported(f"{here}.resources[{k}].health", health, _HEALTHS)
                if (message := resource.get("message")) is not None:
                    _validate_health_message(message, f"{here}.resources[{k}].message", errors)
                if (identity := resource.get("resourceID", "")) in seen:
                    errors.duplicate(f"{here}.resources[{k}].resourceID", identity)
                seen.add(identity)


def _validate_health_message(message: str, path: str, errors: Errors) -> None:
    if not message:
        errors.required(path, "must be non-empty if specified")
    elif len(message.encode()) > _HEALTH_MESSAGE_MAX:
        errors.too_long(path, _HEALTH_MESSAGE_MAX)


def _validate_is_requested(name: str, resources: Obj, path: str, errors: Errors) -> None:
    if not name.startswith("claim:"):
        if name not in (resources.get("requests") or ()):
            errors.invalid(path, name, "must match one of the container's resource requests")
        return
    claims = [
        f"claim:{claim.get('name', '')}" + (f"/{claim['request']}" if claim.get("request") else "")
        for claim in resources.get("claims") or ()
    ]
    if name not in claims:
        errors.invalid(path, name, _CLAIM)
