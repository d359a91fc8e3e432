"""What a pod specification says where its author said nothing.

Pods and pod templates share `default_pod_spec`. `default_pod` adds what upstream fills into pods alone, because a
template must not change when a rule does: requests from limits, service links, host ports.
Reference: pkg/apis/core/v1/{defaults,conversion}.go.
"""

from __future__ import annotations

from fairlead.api.objects import Obj
from fairlead.api.podresources import (
    aggregate_container_limits,
    aggregate_container_requests,
    is_hugepages,
    is_overcommit_allowed,
    is_pod_level_resource,
)
from fairlead.kinds.podspec.annotations import drop_old_init_containers
from fairlead.kinds.podspec.disabled import drop_disabled
from fairlead.kinds.podspec.images import default_pull_policy
from fairlead.kinds.podspec.visiting import each_container
from fairlead.kinds.podspec.volume_defaults import default_volume
from fairlead.kinds.resource_names import round_up

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_PROBE_NUMBERS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def default_pod(pod: Obj) -> None:
    """Everything that is filled into a pod (SetDefaults_Pod and what it contains)."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            _default_requests(container["resources"])
    if spec.get("resources"):
        _default_pod_level_limits(spec)
        _default_pod_level_requests(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1


def default_pod_template(template: Obj) -> None:
    """Everything that is filled into the template of a workload, and what is taken out of it."""
    drop_old_init_containers(template.setdefault("metadata", {}))
    spec = template.setdefault("spec", {})
    drop_disabled(spec)
    default_pod_spec(spec)


def default_pod_spec(spec: Obj) -> None:
    """What pods and templates have in common (SetDefaults_PodSpec and everything below it)."""
    for container in each_container(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        default_volume(volume)
    if "resources" in spec or "overhead" in spec:
        resources = spec.get("resources") or {}
        for amounts in (spec.get("overhead"), resources.get("limits"), resources.get("requests")):
            round_up(amounts)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    sync_service_account(spec)


def sync_service_account(spec: Obj) -> None:
    """`serviceAccount` is the old spelling of `serviceAccountName`: readers get both, the new one wins."""
    if name := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _default_container(container: Obj) -> None:
    resources = container.setdefault("resources", {})
    if resources:
        round_up(resources.get("limits"))
        round_up(resources.get("requests"))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = default_pull_policy(container.get("image", ""))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        if source := variable.get("valueFrom"):
            _default_env_source(source)
    for kind in PROBES:
        if (probe := container.get(kind)) is not None:
            _default_probe(probe)
    if lifecycle := container.get("lifecycle"):
        for kind in _HOOKS:
            _default_handler(lifecycle.get(kind) or {})


def _default_env_source(source: Obj) -> None:
    if (field := source.get("fieldRef")) is not None:
        field.setdefault("apiVersion", "v1")
    if (resource := source.get("resourceFieldRef")) is not None:
        resource.setdefault("divisor", "0")
    if (key := source.get("fileKeyRef")) is not None:
        key.setdefault("optional", False)


def _default_probe(probe: Obj) -> None:
    for field, value in _PROBE_NUMBERS.items():
        if not probe.get(field):
            probe[field] = value
    _default_handler(probe)


def _default_handler(handler: Obj) -> None:
    if (http := handler.get("httpGet")) is not None:
        if not http.get("path"):
            http["path"] = "/"
        http.setdefault("scheme", "HTTP")
    if (grpc := handler.get("grpc")) is not None:
        grpc["service"] = grpc.get("service") or ""


def _default_requests(resources: Obj) -> None:
    """S0-37: a limit without a request is also the request, resource by resource."""
    if limits := resources.get("limits"):
        resources["requests"] = limits | (resources.get("requests") or {})


def _default_pod_level_limits(spec: Obj) -> None:
    """Hugepages cannot be overcommitted, so a pod-level limit follows from those of the containers."""
    resources = spec["resources"]
    requests, limits = resources.get("requests") or {}, dict(resources.get("limits") or {})
    if not requests and not limits:
        return
    for name, amount in aggregate_container_limits(spec).items():
        if is_hugepages(name) and name not in requests:
            limits.setdefault(name, str(amount))
    if limits:
        resources["limits"] = limits


def _default_pod_level_requests(spec: Obj) -> None:
    """Where the pod has limits, its requests are what the containers ask for, else the limits (KEP-2837)."""
    resources = spec["resources"]
    limits = resources.get("limits")
    if not limits:
        return
    requests = dict(resources.get("requests") or {})
    for name, amount in aggregate_container_requests(spec).items():
        if is_pod_level_resource(name) and is_overcommit_allowed(name):
            requests.setdefault(name, str(amount))
    for name, limit in limits.items():
        if is_pod_level_resource(name):
            requests.setdefault(name, limit)
    if requests:
        resources["requests"] = requests


def _default_host_ports(spec: Obj) -> None:
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]
