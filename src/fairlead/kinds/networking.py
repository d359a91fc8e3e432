"""Ingress, IngressClass and NetworkPolicy: what is filled in, and the rules that people run into.

No component of Fairlead acts on them, so the check is light. Sources: pkg/apis/networking/{v1/defaults,validation}
(1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_structured
from fairlead.kinds.ips import validate_cidr
from fairlead.kinds.rules import check, validate_unchanged
from fairlead.kinds.strategy import Strategy

PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
POLICY_TYPES: Final = ("Egress", "Ingress")

_CONTROLLER_MAX: Final = 250
_CLUSTER: Final = "Cluster"
_SCOPES: Final = (_CLUSTER, "Namespace")
_DIRECTIONS: Final = (("ingress", "from"), ("egress", "to"))


class IngressStrategy(Strategy):
    has_status = True
    has_generation = True

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        backend, rules = spec.get("defaultBackend"), spec.get("rules") or []
        if not rules and backend is None:
            errors.invalid("spec", _ingress_form(spec), "either `defaultBackend` or `rules` must be specified")
        if backend is not None:
            _validate_backend(backend, "spec.defaultBackend", errors)
        for index, rule in enumerate(rules):
            for position, path in enumerate((rule.get("http") or {}).get("paths") or ()):
                _validate_path(path, f"spec.rules[{index}].http.paths[{position}]", errors)
        if name := spec.get("ingressClassName"):
            check(errors, "spec.ingressClassName", name, names.dns1123_subdomain)


def _ingress_form(spec: Obj) -> Obj:
    """An ingress without rules as Go prints its internal type."""
    return {"IngressClassName": spec.get("ingressClassName"), "DefaultBackend": None, "TLS": None, "Rules": None}


def _validate_path(path: Obj, where: str, errors: Errors) -> None:
    type_, text = path.get("pathType"), path.get("path", "")
    if type_ is None:
        errors.required(f"{where}.pathType", "pathType must be specified")
    elif type_ not in PATH_TYPES:
        errors.not_supported(f"{where}.pathType", type_, PATH_TYPES)
    elif type_ != "ImplementationSpecific" and not text.startswith("/"):
        errors.invalid(f"{where}.path", text, "must be an absolute path")
    _validate_backend(path["backend"], f"{where}.backend", errors)


def _validate_backend(backend: Obj, path: str, errors: Errors) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        errors.invalid(path, "", "cannot set both resource and service backends")
    elif service is None and resource is None:
        errors.required(path, "resource or service backend is required")
    elif service is not None:
        _validate_service_backend(service, f"{path}.service", errors)


def _validate_service_backend(service: Obj, path: str, errors: Errors) -> None:
    if service["name"]:
        check(errors, f"{path}.name", service["name"], names.dns1123_label)
    else:
        errors.required(f"{path}.name")
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        errors.invalid(path, "", "cannot set both port name & port number")
    elif not port.get("name") and not port.get("number"):
        errors.required(path, "port name or number is required")


class NetworkPolicyStrategy(Strategy):
    has_generation = True

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        for direction, _ in _DIRECTIONS:
            for rule in spec.get(direction) or ():
                for port in rule.get("ports") or ():
                    port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        validate_structured(spec.get("podSelector"), errors, "spec.podSelector")
        for direction, peers in _DIRECTIONS:
            for index, rule in enumerate(spec.get(direction) or ()):
                where = f"spec.{direction}[{index}]"
                _validate_peers(rule.get(peers) or (), f"{where}.{peers}", errors)
        types = spec["policyTypes"]
        if len(types) > len(POLICY_TYPES):
            errors.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
            return
        for index, type_ in enumerate(types):
            if type_ not in POLICY_TYPES:
                errors.not_supported(f"spec.policyTypes[{index}]", type_, POLICY_TYPES)


def _validate_peers(peers: Iterable[Obj], path: str, errors: Errors) -> None:
    for index, peer in enumerate(peers):
        where, block = f"{path}[{index}]", peer.get("ipBlock")
        selectors = [field for field in ("podSelector", "namespaceSelector") if peer.get(field) is not None]
        for field in selectors:
            validate_structured(peer[field], errors, f"{where}.{field}")
        if block is not None:
            validate_cidr(block["cidr"], f"{where}.ipBlock.cidr", errors)
        if not selectors and block is None:
            errors.required(where, "must specify a peer")
        elif selectors and block is not None:
            errors.forbidden(where, "may not specify both ipBlock and another peer")


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
    if (group := parameters.get("apiGroup")) is not None:
        check(errors, f"{path}.apiGroup", group, names.dns1123_subdomain)
    for field in ("kind", "name"):
        if value := parameters.get(field):
            check(errors, f"{path}.{field}", value, names.path_segment_name)
        else:
            errors.required(f"{path}.{field}", f"{field} is required")
    scope, namespace = parameters["scope"], parameters.get("namespace")
    if scope not in _SCOPES:
        errors.not_supported(f"{path}.scope", scope, _SCOPES)
    elif scope == _CLUSTER and namespace is not None:
        errors.forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")
    elif scope != _CLUSTER and namespace is None:
        errors.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif namespace is not None:
        check(errors, f"{path}.namespace", namespace, names.dns1123_label)
