"""Names and addresses of a pod: DNS settings, /etc/hosts, host name, host namespaces."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.fields import Errors, validate_choice
from fairlead.api.names import dns1123_label, dns1123_subdomain, dns1123_subdomain_with_underscore
from fairlead.api.objects import Obj
from fairlead.kinds.ips import validate_ip
from fairlead.kinds.podspec.visiting import each_container, each_with_path
from fairlead.kinds.rules import check

_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_HOST_NAME = 64
_MAX_NAMESERVERS = 3
_MAX_SEARCH_PATHS = 32
_MAX_SEARCH_CHARACTERS = 2048
_HOST_USERS = "when `hostUsers` is false"
#: Field → how upstream spells it where it refuses it.
_HOST_NAMESPACES = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}


def validate_dns_policy(policy: str, path: str, errors: Errors) -> None:
    validate_choice(policy, _DNS_POLICIES, path, errors)


def validate_dns_config(spec: Obj, path: str, errors: Errors) -> None:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return errors.required(f"{path}.nameservers", text)
    if config:
        _validate_nameservers(config.get("nameservers") or [], f"{path}.nameservers", errors)
        _validate_searches(config.get("searches") or [], f"{path}.searches", errors)
        for i, option in enumerate(config.get("options") or ()):
            if not option.get("name"):
                errors.required(f"{path}.options[{i}]", "must not be empty")
    return None


def _validate_nameservers(nameservers: list[str], path: str, errors: Errors) -> None:
    if len(nameservers) > _MAX_NAMESERVERS:
        errors.invalid(path, nameservers, f"must not have more than {_MAX_NAMESERVERS} nameservers")
    for i, server in enumerate(nameservers):
        validate_ip(server, f"{path}[{i}]", errors)


def _validate_searches(searches: list[str], path: str, errors: Errors) -> None:
    if len(searches) > _MAX_SEARCH_PATHS:
        errors.invalid(path, searches, f"must not have more than {_MAX_SEARCH_PATHS} search paths")
    if len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        text = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        errors.invalid(path, searches, text)
    for i, search in enumerate(searches):
        if search != ".":
            check(errors, f"{path}[{i}]", search.removesuffix("."), dns1123_subdomain_with_underscore)


def validate_host_aliases(aliases: Iterable[Obj], path: str, errors: Errors) -> None:
    for i, alias in enumerate(aliases):
        validate_ip(alias.get("ip", ""), f"{path}[{i}].ip", errors)
        for j, name in enumerate(alias.get("hostnames") or ()):
            check(errors, f"{path}[{i}].hostnames[{j}]", name, dns1123_subdomain)


def validate_host_names(spec: Obj, path: str, errors: Errors) -> None:
    for field in ("hostname", "subdomain"):
        if name := spec.get(field):
            check(errors, f"{path}.{field}", name, dns1123_label)


def validate_host_name_override(spec: Obj, path: str, errors: Errors) -> None:
    """KEP-4762: any host name that Linux takes, unless the host or the cluster's domain gives one already."""
    if (name := spec.get("hostnameOverride")) is None:
        return
    for field in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(field):
            errors.forbidden(f"{path}.hostnameOverride", f"may not be specified when {field} is true")
    if len(name) > _MAX_HOST_NAME:
        errors.too_long(f"{path}.hostnameOverride", _MAX_HOST_NAME)
    check(errors, f"{path}.hostnameOverride", name, dns1123_subdomain)


def validate_host_users(spec: Obj, old: Obj, path: str, errors: Errors) -> None:
    """A pod with users of its own keeps out of the host's other namespaces, and off raw devices (KEP-127).

    What the specification `old` did against it may go on.
    """
    if spec.get("hostUsers") is not False:
        return
    had_own_users = old.get("hostUsers") is False
    for field, shown in _HOST_NAMESPACES.items():
        if spec.get(field) and not (field == "hostNetwork" and had_own_users and old.get(field)):
            errors.forbidden(f"{path}.{shown}", _HOST_USERS)
    if had_own_users and any("volumeDevices" in container for container in each_container(old)):
        return
    for container, here in each_with_path(spec, path):
        if container.get("volumeDevices"):
            errors.forbidden(f"{here}.volumeDevices", _HOST_USERS)
