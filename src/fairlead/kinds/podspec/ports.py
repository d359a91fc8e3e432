"""The ports of containers, and the ports of the node that they take."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.fields import Errors
from fairlead.api.names import port_name, port_number
from fairlead.api.objects import Obj
from fairlead.kinds.rules import check, validate_protocol


def validate_ports(ports: Iterable[Obj], path: str, errors: Errors) -> None:
    names: set[str] = set()
    for i, port in enumerate(ports):
        here = f"{path}[{i}]"
        if name := port.get("name"):
            _validate_name(name, names, f"{here}.name", errors)
        if number := port.get("containerPort"):
            check(errors, f"{here}.containerPort", number, port_number)
        else:
            errors.required(f"{here}.containerPort")
        if number := port.get("hostPort"):
            check(errors, f"{here}.hostPort", number, port_number)
        validate_protocol(port.get("protocol", ""), f"{here}.protocol", errors)


def _validate_name(name: str, known: set[str], path: str, errors: Errors) -> None:
    if texts := port_name(name):
        for text in texts:
            errors.invalid(path, name, text)
    elif name in known:
        errors.duplicate(path, name)
    known.add(name)


def validate_port_reference(port: int | str, path: str, errors: Errors) -> None:
    """A port by number or by name, as probes refer to it."""
    texts = port_name(port) if isinstance(port, str) else port_number(port)
    for text in texts:
        errors.invalid(path, port, text)


def validate_host_ports_are_free(containers: list[Obj], path: str, errors: Errors) -> None:
    """Containers that run at the same time may not take the same port of the node."""
    _validate_distinct(((f"{path}[{i}]", container) for i, container in enumerate(containers)), errors)


def validate_own_host_ports_are_free(container: Obj, path: str, errors: Errors) -> None:
    """Init containers run one by one, so each competes with itself alone; upstream always calls it the first."""
    _validate_distinct([(f"{path}[0]", container)], errors)


def _validate_distinct(containers: Iterable[tuple[str, Obj]], errors: Errors) -> None:
    taken: set[str] = set()
    for path, container in containers:
        for i, port in enumerate(container.get("ports") or ()):
            if number := port.get("hostPort"):
                key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{number}"
                if key in taken:
                    errors.duplicate(f"{path}.ports[{i}].hostPort", key)
                taken.add(key)


def validate_host_network_ports(spec: Obj, path: str, errors: Errors, *, is_pod: bool) -> None:
    """On the host's network a container port is a host port; templates may leave it open."""
    if not spec.get("hostNetwork"):
        return
    for i, container in enumerate(spec.get("containers") or ()):
        for j, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort", 0)
            if (is_pod or host_port) and host_port != port.get("containerPort", 0):
                errors.invalid(
                    f"{path}.containers[{i}].ports[{j}].hostPort",
                    host_port,
                    "must match `containerPort` when `hostNetwork` is true",
                )
