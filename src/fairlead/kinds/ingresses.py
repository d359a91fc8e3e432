"""Ingress and IngressClass: what is filled in, and what they may say.

Sources: pkg/apis/networking/{v1/defaults,validation} (1.36).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.kinds.ips import parse_ip, validate_ip
from fairlead.kinds.rules import check, validate_unchanged
from fairlead.kinds.strategy import Strategy

PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"

_ODD_PATH_PARTS: Final = ("//", "/./", "/../", "%2f", "%2F")
_ODD_PATH_ENDS: Final = ("/..", "/.")
_NOT_A_NAME: Final = "must be a DNS name, not an IP address"

_CONTROLLER_MAX: Final = 250
_CLUSTER: Final = "Cluster"
_SCOPES: Final = (_CLUSTER, "Namespace")


class _Tolerated(msgspec.Struct, frozen=True):
    """What an Ingress of an older release may keep."""

    secret_names: bool = False
    wildcard_rules: bool = False


class IngressStrategy(Strategy):
    has_status = True
    has_generation = True

    def validate(self, obj: Obj, errors: Errors) -> None:
        _validate_spec(obj["spec"], _Tolerated(), errors)
        annotation = (metadata(obj).get("annotations") or {}).get(CLASS_ANNOTATION)
        name = obj["spec"].get("ingressClassName")
        if annotation is not None and name is not None and annotation != name:
            text = "must match `ingressClassName` when both are specified"
            errors.invalid(f"annotations.{CLASS_ANNOTATION}", annotation, text)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        before = old["spec"]
        tolerated = _Tolerated(
            secret_names=any(_secret_name_errors(tls) for tls in before.get("tls") or ()),
            wildcard_rules=any(_is_wildcard(rule) and _has_broken_paths(rule) for rule in before.get("rules") or ()),
        )
        _validate_spec(obj["spec"], tolerated, errors)

    def validate_admitted(self, obj: Obj, errors: Errors) -> None:
        self.validate_update(obj, obj, errors)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        known = {ingress.get("ip") for ingress in _balanced(old)}
        for index, ingress in enumerate(_balanced(obj)):
            path = f"status.loadBalancer.ingress[{index}]"
            if (ip := ingress.get("ip")) and ip not in known:
                validate_ip(ip, f"{path}.ip", errors)
            if host := ingress.get("hostname"):
                check(errors, f"{path}.hostname", host, names.dns1123_subdomain)
                if parse_ip(host) is not None:
                    errors.invalid(f"{path}.hostname", host, _NOT_A_NAME)


def _balanced(obj: Obj) -> list[Obj]:
    return ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []


def _validate_spec(spec: Obj, tolerated: _Tolerated, errors: Errors) -> None:
    backend, rules = spec.get("defaultBackend"), spec.get("rules") or []
    if not rules and backend is None:
        errors.invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        _validate_backend(backend, "spec.defaultBackend", errors)
    for index, rule in enumerate(rules):
        where = f"spec.rules[{index}]"
        _validate_rule_host(rule.get("host"), f"{where}.host", errors)
        if not (tolerated.wildcard_rules and _is_wildcard(rule)):
            _validate_paths(rule, f"{where}.http", errors)
    for index, tls in enumerate(spec.get("tls") or ()):
        where = f"spec.tls[{index}]"
        for position, host in enumerate(tls.get("hosts") or ()):
            _validate_host(host, f"{where}.hosts[{position}]", errors)
        if not tolerated.secret_names:
            for text in _secret_name_errors(tls):
                errors.invalid(f"{where}.secretName", tls["secretName"], text)
    if (name := spec.get("ingressClassName")) is not None:
        check(errors, "spec.ingressClassName", name, names.dns1123_subdomain)


def _secret_name_errors(tls: Obj) -> list[str]:
    name = tls.get("secretName")
    return names.dns1123_subdomain(name) if name else []


def _is_wildcard(rule: Obj) -> bool:
    return "*" in (rule.get("host") or "")


def _has_broken_paths(rule: Obj) -> bool:
    errors = Errors()
    _validate_paths(rule, "", errors)
    return bool(errors)


def _validate_rule_host(host: Any, path: str, errors: Errors) -> None:
    if not host:
        return
    if parse_ip(host) is not None:
        errors.invalid(path, host, _NOT_A_NAME)
    _validate_host(host, path, errors)


def _validate_host(host: str, path: str, errors: Errors) -> None:
    check(errors, path, host, names.wildcard_dns1123_subdomain if "*" in host else names.dns1123_subdomain)


def _validate_paths(rule: Obj, path: str, errors: Errors) -> None:
    if (http := rule.get("http")) is None:
        return
    if not http.get("paths"):
        errors.required(f"{path}.paths")
    for index, each in enumerate(http.get("paths") or ()):
        _validate_path(each, f"{path}.paths[{index}]", errors)


def _validate_path(path: Obj, where: str, errors: Errors) -> None:
    type_, text = path.get("pathType"), path.get("path", "")
    if type_ is None:
        errors.required(f"{where}.pathType", "pathType must be specified")
        return
    if type_ not in PATH_TYPES:
        errors.not_supported(f"{where}.pathType", type_, PATH_TYPES)
    else:
        is_free = type_ == "ImplementationSpecific"
        if not text.startswith("/") and (text or not is_free):
            errors.invalid(f"{where}.path", text, "must be an absolute path")
        if not is_free:
            _validate_path_text(text, f"{where}.path", errors)
    _validate_backend(path["backend"], f"{where}.backend", errors)


def _validate_path_text(text: str, path: str, errors: Errors) -> None:
    for part in _ODD_PATH_PARTS:
        if part in text:
            errors.invalid(path, text, f"must not contain '{part}'")
    for end in _ODD_PATH_ENDS:
        if text.endswith(end):
            errors.invalid(path, text, f"cannot end with '{end}'")


def _validate_backend(backend: Obj, path: str, errors: Errors) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        errors.invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        _validate_reference(resource, f"{path}.resource", errors)
    elif service is not None:
        _validate_service_backend(service, path, errors)
    else:
        errors.invalid(path, "", "resource or service backend is required")


def _validate_service_backend(service: Obj, path: str, errors: Errors) -> None:
    name, port = service["name"], service.get("port") or {}
    if name:
        check(errors, f"{path}.service.name", name, names.dns1123_label)
    else:
        errors.required(f"{path}.service.name")
    if port.get("name") and port.get("number"):
        errors.invalid(path, "", "cannot set both port name & port number")
    elif port.get("name"):
        check(errors, f"{path}.service.port.name", port["name"], names.port_name)
    elif port.get("number"):
        check(errors, f"{path}.service.port.number", port["number"], names.port_number)
    else:
        errors.required(path, "port name or number is required")


class IngressClassStrategy(Strategy):
    has_generation = True

    def default(self, obj: Obj) -> None:
        parameters = (obj.get("spec") or {}).get("parameters")
        if parameters is not None and parameters.get("scope") is None:
            parameters["scope"] = _CLUSTER

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj.get("spec") or {}
        controller = spec.get("controller") or ""
        if len(controller.encode()) > _CONTROLLER_MAX:
            errors.too_long("spec.controller", _CONTROLLER_MAX)
        if not controller:
            errors.required("spec.controller")
        else:
            for part, text in names.domain_prefixed_path(controller):
                errors.invalid("spec.controller", part, text)
        if (parameters := spec.get("parameters")) is not None:
            _validate_parameters(parameters, "spec.parameters", errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        controller, before = [(each.get("spec") or {}).get("controller") for each in (obj, old)]
        validate_unchanged(controller, before, "spec.controller", errors)
        self.validate(obj, errors)


def _validate_parameters(parameters: Obj, path: str, errors: Errors) -> None:
    _validate_reference(parameters, path, errors)
    scope, namespace = parameters["scope"], parameters.get("namespace")
    if scope not in _SCOPES:
        errors.not_supported(f"{path}.scope", scope, _SCOPES)
    elif scope == _CLUSTER and namespace is not None:
        errors.forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")
    elif scope != _CLUSTER and namespace is None:
        errors.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif namespace is not None:
        check(errors, f"{path}.namespace", namespace, names.dns1123_label)


def _validate_reference(reference: Obj, path: str, errors: Errors) -> None:
    if (group := reference.get("apiGroup")) is not None:
        check(errors, f"{path}.apiGroup", group, names.dns1123_subdomain)
    for field in ("kind", "name"):
        if value := reference.get(field):
            check(errors, f"{path}.{field}", value, names.path_segment_name)
        else:
            errors.required(f"{path}.{field}", f"{field} is required")
