"""Roles and bindings: their rules. The roleRef of a binding is immutable.

Sources: pkg/apis/rbac/{v1/defaults,validation} (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_structured
from fairlead.kinds.rules import check
from fairlead.kinds.strategy import Strategy

GROUP: Final = "rbac.authorization.k8s.io"

#: The API group of each kind of subject.
_SUBJECT_GROUPS: Final = {"ServiceAccount": "", "User": GROUP, "Group": GROUP}


class RoleStrategy(Strategy):
    allows_create_on_update = True

    def __init__(self, *, is_namespaced: bool) -> None:
        self._is_namespaced = is_namespaced

    def validate(self, obj: Obj, errors: Errors) -> None:
        for index, rule in enumerate(obj["rules"] or ()):
            _validate_rule(rule, f"rules[{index}]", errors, is_namespaced=self._is_namespaced)
        if (aggregation := obj.get("aggregationRule")) is not None:
            _validate_aggregation(aggregation, errors)


def _validate_rule(rule: Obj, path: str, errors: Errors, *, is_namespaced: bool) -> None:
    if not rule.get("verbs"):
        errors.required(f"{path}.verbs", "verbs must contain at least one value")
    if rule.get("nonResourceURLs"):
        if is_namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            errors.invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text)
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text)
        return
    if not rule.get("apiGroups"):
        errors.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        errors.required(f"{path}.resources", "resource rules must supply at least one resource")


def _validate_aggregation(aggregation: Obj, errors: Errors) -> None:
    path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or []
    if not selectors:
        errors.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(selectors):
        validate_structured(selector, errors, f"{path}[{index}]")


class RoleBindingStrategy(Strategy):
    allows_create_on_update = True

    def __init__(self, *, is_namespaced: bool) -> None:
        self._kinds = ("Role", "ClusterRole") if is_namespaced else ("ClusterRole",)

    def default(self, obj: Obj) -> None:
        if not obj["roleRef"].get("apiGroup"):
            obj["roleRef"]["apiGroup"] = GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and (group := _SUBJECT_GROUPS.get(subject["kind"])):
                subject["apiGroup"] = group

    def validate(self, obj: Obj, errors: Errors) -> None:
        role = obj["roleRef"]
        if role["apiGroup"] != GROUP:
            errors.not_supported("roleRef.apiGroup", role["apiGroup"], (GROUP,))
        if role["kind"] not in self._kinds:
            errors.not_supported("roleRef.kind", role["kind"], self._kinds, sort=False)
        if role["name"]:
            check(errors, "roleRef.name", role["name"], names.path_segment_name)
        else:
            errors.required("roleRef.name")
        for index, subject in enumerate(obj.get("subjects") or ()):
            needs_namespace = "Role" not in self._kinds
            _validate_subject(subject, f"subjects[{index}]", errors, needs_namespace=needs_namespace)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)
        if obj["roleRef"] != old["roleRef"]:
            form = {field: obj["roleRef"][field] for field in ("apiGroup", "kind", "name")}
            shown = {"APIGroup": form["apiGroup"], "Kind": form["kind"], "Name": form["name"]}
            errors.invalid("roleRef", shown, "cannot change roleRef")


def _validate_subject(subject: Obj, path: str, errors: Errors, *, needs_namespace: bool) -> None:
    kind, name, group = subject["kind"], subject["name"], subject.get("apiGroup", "")
    if not name:
        errors.required(f"{path}.name")
    wanted = _SUBJECT_GROUPS.get(kind)
    if wanted is None:
        errors.not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"), sort=False)
        return
    if kind == "ServiceAccount" and name:
        check(errors, f"{path}.name", name, names.dns1123_subdomain)
    if group != wanted:
        errors.not_supported(f"{path}.apiGroup", group, (wanted,))
    if kind == "ServiceAccount" and needs_namespace and not subject.get("namespace"):
        errors.required(f"{path}.namespace")
