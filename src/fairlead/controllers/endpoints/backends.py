"""Which pods serve a service, under which addresses and ports.

Sources: pkg/controller/util/endpoint, k8s.io/endpointslice/utils.go, pkg/api/v1/pod (FindPort).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

from fairlead.api.labels import LabelSelector
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.services import Service, ServicePort
from fairlead.controllers.base import World
from fairlead.controllers.kinds import PODS, SERVICES
from fairlead.controllers.selecting import selected, selecting

T = TypeVar("T")

SERVICE_NAME: Final = "kubernetes.io/service-name"
#: Endpoints of so many pods are worked out in one turn.
PODS_A_TURN: Final = 1000
HEADLESS: Final = "service.kubernetes.io/headless"


def services_of(world: World, old: Pod | None, new: Pod | None) -> Iterator[str]:
    """The services that a change of a pod concerns."""
    either = new or old
    assert either is not None
    if not world.of(SERVICES):
        return
    if old is not None and new is not None and _seen_by_services(old) == _seen_by_services(new):
        return
    for pod in (old, new):
        if pod is not None and _can_serve(pod):
            meta = pod.metadata
            for service in selecting(world, SERVICES, _selector_of, meta.namespace, meta.labels):
                yield service.metadata.key


def _selector_of(service: Service) -> LabelSelector | None:
    """What it looks for, if it looks for pods."""
    return LabelSelector(match_labels=service.spec.selector) if service.spec.selector else None


def _seen_by_services(pod: Pod) -> tuple[object, ...]:
    meta, status = pod.metadata, pod.status
    return meta.labels, meta.deletion_timestamp, pod.is_ready, pod.is_finished, status.pod_ips, pod.spec.node_name


def same_key(world: World, old: Object | None, new: Object | None) -> Iterator[str]:
    """The service of the same name, when its Endpoints are gone or were changed by somebody."""
    if old is not None and world.get(SERVICES, old.metadata.key) is not None:
        yield old.metadata.key


def is_managed(service: Service) -> bool:
    """Whether its endpoints are found by a selector."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def pods_of(service: Service, world: World) -> list[Pod]:
    """The pods that it looks for."""
    selector = LabelSelector(match_labels=service.spec.selector or {})
    return selected(world, PODS, service.metadata.namespace, selector)


def backends(pods: Iterable[Pod], *, with_terminating: bool) -> list[Pod]:
    """Those that serve, ready or not."""
    return [pod for pod in pods if _can_serve(pod) and (with_terminating or not pod.metadata.is_terminating)]


def _can_serve(pod: Pod) -> bool:
    return not pod.is_finished and bool(pod.status.pod_ip or pod.status.pod_ips)


def addresses(pod: Pod, family: str) -> list[str]:
    """The pod's addresses of a family, `IPv4` or `IPv6`."""
    known = [pod_ip.ip for pod_ip in pod.status.pod_ips] or [pod.status.pod_ip]
    return [ip for ip in known if family_of(ip) == family]


def family_of(ip: str) -> str:
    return "IPv6" if ":" in ip else "IPv4"


def families(service: Service) -> tuple[str, ...]:
    return service.spec.ip_families or ("IPv4",)


def hostname(service: Service, pod: Pod) -> str:
    """The name under which the pod is found below the service, if it has one there."""
    return pod.spec.hostname if pod.spec.subdomain == service.metadata.name else ""


def target(pod: Pod) -> Obj:
    meta = pod.metadata
    return {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}


class TargetPorts(Generic[T]):
    """The ports of pods that a service's ports lead to, as `told` puts them.

    Pods whose ports of these names are the same share one answer: a service may have a thousand ports, and ten
    thousand pods.
    """

    def __init__(self, service: Service, told: Callable[[Sequence[tuple[ServicePort, int]]], T]) -> None:
        self._ports, self._told = service.spec.ports, told
        self._wanted = {
            (port.target_port, port.protocol) for port in self._ports if not isinstance(port.target_port, int)
        }
        self._known: dict[tuple[tuple[tuple[int | str, str], int], ...], T] = {}

    def of(self, pod: Pod) -> T:
        """Without those for which the pod has no port of that name."""
        named = self._named(pod)
        key = tuple(named.items())
        found = self._known.get(key)
        if found is None:
            numbers = ((port, _number(port, named)) for port in self._ports)
            found = self._known[key] = self._told([(port, number) for port, number in numbers if number is not None])
        return found

    def _named(self, pod: Pod) -> dict[tuple[int | str, str], int]:
        """The ports of the pod that the service names; the first of a name counts."""
        found: dict[tuple[int | str, str], int] = {}
        if self._wanted:
            sidecars = (container for container in pod.spec.init_containers if container.restart_policy == "Always")
            for container in (*pod.spec.containers, *sidecars):
                for port in container.ports:
                    if (name := (port.name, port.protocol)) in self._wanted:
                        found.setdefault(name, port.container_port)
        return found


def _number(port: ServicePort, named: Mapping[tuple[int | str, str], int]) -> int | None:
    if isinstance(port.target_port, int):
        return port.target_port or port.port
    return named.get((port.target_port, port.protocol))
