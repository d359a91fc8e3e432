"""Node: what a new one may set, which fields are immutable, which taints are valid.

A node keeps the status it is created with, because its agent registers and reports in one breath. Sources:
`ValidateNode*` of pkg/apis/core/validation and pkg/registry/core/node/strategy.go (1.36), S0-01 ff.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead.api import names
from fairlead.api.fields import Errors, validate_choice
from fairlead.api.meta import OwnerReference, View
from fairlead.api.objects import Obj, metadata
from fairlead.api.taints import EFFECTS
from fairlead.golang import json as gojson
from fairlead.golang.quoting import go_quote
from fairlead.kinds.ips import cidr_warnings, family_of, parse_network, validate_cidr
from fairlead.kinds.resource_names import in_order, round_up, validate_amount
from fairlead.kinds.rules import check
from fairlead.kinds.strategy import MetaCheck, Strategy

_TAINTS_ANNOTATION: Final = "scheduler.alpha.kubernetes.io/taints"
_AVOIDED_ANNOTATION: Final = "scheduler.alpha.kubernetes.io/preferAvoidPods"
_FEATURE: Final = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_ONLY_FROM_NOTHING: Final = 'node updates may not change {} except from "" to valid'


class _Signature(View):
    pod_controller: OwnerReference | None = None


class _Entry(View):
    pod_signature: _Signature = _Signature()


class _Avoided(View):
    """Pods that a node would rather not run, as an annotation says it (`v1.AvoidPods`)."""

    prefer_avoid_pods: tuple[_Entry, ...] | None = None


class NodeStrategy(Strategy):
    meta_checks = (MetaCheck.WHOLE, MetaCheck.CHANGE)
    selectable = {
        "spec.unschedulable": lambda node: "true" if (node.get("spec") or {}).get("unschedulable") else "false",
    }

    def default(self, obj: Obj) -> None:
        _sync_pod_cidrs(obj["spec"])
        status = obj["status"]
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])
        round_up(status.get("capacity"))
        round_up(status.get("allocatable"))

    def prepare_create(self, obj: Obj) -> None:
        _drop_dynamic_config(obj, {})

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        obj["status"] = old["status"]
        _drop_dynamic_config(obj, old)

    def prepare_status(self, obj: Obj, old: Obj) -> None:
        _drop_dynamic_config(obj, old)

    def validate(self, obj: Obj, errors: Errors) -> None:
        _validate_annotations(obj, errors)
        _validate_taints(obj["spec"].get("taints") or (), "metadata.taints", errors)
        _validate_amounts(obj, errors)
        _validate_swap(obj, errors)
        _validate_features(obj["status"].get("declaredFeatures") or (), errors)
        _validate_pod_cidrs(obj["spec"].get("podCIDRs") or [], errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)
        self.validate_status(obj, old, errors)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """The rules of a change; upstream has one set of them for the node and for its status."""
        _validate_annotations(obj, errors)
        _validate_amounts(obj, errors)
        _validate_features(obj["status"].get("declaredFeatures") or (), errors)
        _validate_addresses(obj["status"].get("addresses") or (), errors)
        spec, was = obj["spec"], old["spec"]
        _validate_same_cidrs(spec.get("podCIDRs") or [], was.get("podCIDRs") or [], errors)
        if was.get("providerID") and spec.get("providerID") != was["providerID"]:
            errors.forbidden("spec.providerID", _ONLY_FROM_NOTHING.format("providerID"))
        _validate_taints(spec.get("taints") or (), "metadata.taints", errors)
        if spec.get("externalID") != was.get("externalID"):
            errors.forbidden("spec.externalID", "may not be updated")

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        spec = obj["spec"]
        warnings = []
        if spec.get("configSource") is not None:
            warnings.append("spec.configSource: the feature is no longer supported")
        if spec.get("externalID"):
            warnings.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        for index, cidr in enumerate(spec.get("podCIDRs") or ()):
            warnings += cidr_warnings(cidr, f"spec.podCIDRs[{index}]")
        return warnings


def _drop_dynamic_config(obj: Obj, old: Obj) -> None:
    """Dynamic kubelet configuration is gone: its fields are dropped unless the stored node has them."""
    for part, field in (("spec", "configSource"), ("status", "config")):
        if (old.get(part) or {}).get(field) is None:
            obj.get(part, {}).pop(field, None)


def _sync_pod_cidrs(spec: Obj) -> None:
    """`podCIDR` is the old spelling of `podCIDRs[0]`; where they differ, the old one wins."""
    first, cidrs = spec.get("podCIDR"), spec.get("podCIDRs")
    if first and (not cidrs or cidrs[0] != first):
        spec["podCIDRs"] = [first]
    elif cidrs:
        spec["podCIDR"] = cidrs[0]


def _validate_annotations(obj: Obj, errors: Errors) -> None:
    """Taints were annotations once, and so were pods to be avoided; both are still checked as such."""
    annotations = metadata(obj).get("annotations") or {}
    if text := annotations.get(_TAINTS_ANNOTATION):
        _validate_old_taints(text, errors)
    if text := annotations.get(_AVOIDED_ANNOTATION):
        _validate_avoided(text, errors)


def _validate_old_taints(text: str, errors: Errors) -> None:
    try:
        gojson.parse(text.encode())
        taints = msgspec.json.decode(text, type=list[dict[str, str]])
    except ValueError as error:
        errors.invalid("metadata.annotations", _TAINTS_ANNOTATION, str(error))
        return
    _validate_taints(taints, f"metadata.annotations.{_TAINTS_ANNOTATION}", errors)


def _validate_avoided(text: str, errors: Errors) -> None:
    try:
        avoided = msgspec.convert(gojson.parse(text.encode()), _Avoided | None)
    except ValueError as error:
        errors.invalid("metadata.annotations.AvoidPods", _AVOIDED_ANNOTATION, str(error))
        return
    for index, entry in enumerate((avoided and avoided.prefer_avoid_pods) or ()):
        where = f"metadata.annotations.{_AVOIDED_ANNOTATION}[{index}].PodSignature"
        owner = entry.pod_signature.pod_controller
        if owner is None:
            errors.required(where)
        elif not owner.controller:
            errors.invalid(f"{where}.PodController.Controller", False, "must point to a controller")


def _validate_taints(taints: Iterable[Obj], path: str, errors: Errors) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        check(errors, f"{where}.key", key, names.qualified_name)
        if wrong := names.label_value(value):
            errors.invalid(f"{where}.value", value, ";".join(wrong))
        validate_choice(effect, EFFECTS, f"{where}.effect", errors)
        if (key, effect) in seen:
            errors.duplicate(where, _taint_form(taint), "taints must be unique by key and effect pair")
        seen.add((key, effect))


def _taint_form(taint: Obj) -> Obj:
    """A taint as Go prints its internal type."""
    return {
        "Key": taint.get("key", ""),
        "Value": taint.get("value", ""),
        "Effect": taint.get("effect", ""),
        "TimeAdded": taint.get("timeAdded"),
    }


def _validate_amounts(obj: Obj, errors: Errors) -> None:
    for field in ("capacity", "allocatable"):
        for name, amount in in_order(obj["status"].get(field)):
            validate_amount(name, amount, f"status.{field}.{name}", errors)


def _validate_swap(obj: Obj, errors: Errors) -> None:
    swap = (obj["status"].get("nodeInfo") or {}).get("swap") or {}
    if (capacity := swap.get("capacity")) is not None and capacity <= 0:
        errors.invalid("metadata.nodeSwapStatus.capacity", capacity, "must be greater than zero")


def _validate_features(features: Iterable[str], errors: Errors) -> None:
    before: str | None = None
    for index, feature in enumerate(features):
        where = f"status.declaredFeatures[{index}]"
        if before is not None and feature == before:
            errors.duplicate(where, feature)
        elif before is not None and feature < before:
            errors.invalid(where, feature, "list must be sorted alphabetically")
        before = feature
        wrong = _wrong_feature(feature)
        if wrong:
            errors.invalid(where, feature, f"invalid feature name {go_quote(feature)}: {wrong}")


def _wrong_feature(feature: str) -> str:
    if len(feature) > names.SUBDOMAIN_MAX:
        return names.length_error(names.SUBDOMAIN_MAX)
    if not _FEATURE.fullmatch(feature):
        return (
            "must start with an UpperCamelCase segment, with subsequent segments separated by '/' "
            "(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
        )
    return ""


def _validate_pod_cidrs(cidrs: list[str], errors: Errors) -> None:
    for index, cidr in enumerate(cidrs):
        validate_cidr(cidr, f"spec.podCIDRs[{index}]", errors)
    if len(cidrs) < 2:
        return
    bad = next((index for index, cidr in enumerate(cidrs) if parse_network(cidr) is None), None)
    if bad is not None:
        why = f"invalid CIDR[{bad}]: <nil> (invalid CIDR address: {cidrs[bad]})"
        errors.internal("spec.podCIDRs", f"invalid PodCIDRs. failed to check with dual stack with error:{why}")
    families = {family_of(cidr.partition("/")[0]) for cidr in cidrs}
    if bad is not None or len(families) < 2 or len(cidrs) > 2:
        errors.invalid("spec.podCIDRs", cidrs, "may specify no more than one CIDR for each IP family")


def _validate_same_cidrs(cidrs: list[str], old: list[str], errors: Errors) -> None:
    if not old:
        return
    changes = 1 if len(cidrs) != len(old) else sum(cidr != was for cidr, was in zip(cidrs, old, strict=True))
    for _ in range(changes):
        errors.forbidden("spec.podCIDRs", _ONLY_FROM_NOTHING.format("podCIDR"))


def _validate_addresses(addresses: Iterable[Obj], errors: Errors) -> None:
    seen: set[tuple[str, str]] = set()
    for index, address in enumerate(addresses):
        pair = (address.get("type", ""), address.get("address", ""))
        if pair in seen:
            errors.duplicate(f"status.addresses[{index}]", {"Type": pair[0], "Address": pair[1]})
        seen.add(pair)
