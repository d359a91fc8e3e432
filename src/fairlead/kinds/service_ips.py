"""The three fields of a Service that must agree: `clusterIPs`, `ipFamilies` and `ipFamilyPolicy`.

Sources: `ValidateServiceClusterIPsRelatedFields` and `validateUpgradeDowngrade*` of pkg/apis/core/validation (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

from fairlead.api.fields import Errors
from fairlead.kinds.ips import IPV4, IPV6, family_of, validate_ip
from fairlead.kinds.service_kinds import EXTERNAL_NAME, HEADLESS, is_headless

FAMILIES: Final = (IPV4, IPV6)
SINGLE, PREFER_DUAL, REQUIRE_DUAL = "SingleStack", "PreferDualStack", "RequireDualStack"
IP_FAMILY_POLICIES: Final = (PREFER_DUAL, REQUIRE_DUAL, SINGLE)

_ONCE_SET: Final = "may not change once set"

#: Two may be right. Of thousands, each is not told of.
_MOST_TOLD: Final = 16

Spec = Mapping[str, Any]


def validate_address_fields(spec: Spec, old: Spec, errors: Errors) -> None:
    if spec["type"] == EXTERNAL_NAME:
        return
    ips, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    _validate_both_spellings(spec.get("clusterIP", ""), ips, errors)
    seen: set[str] = set()
    for index, family in enumerate(families[:_MOST_TOLD]):
        if family not in FAMILIES:
            errors.not_supported(f"spec.ipFamilies[{index}]", family, FAMILIES)
        if family in seen:
            errors.duplicate(f"spec.ipFamilies[{index}]", family)
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in IP_FAMILY_POLICIES:
        errors.not_supported("spec.ipFamilyPolicy", policy, IP_FAMILY_POLICIES)
    if not _validate_ips(ips, frozenset(old.get("clusterIPs") or ()), errors):
        return
    ips = ips[:_MOST_TOLD]
    if len(ips) > 1 and len({family_of(ip) for ip in ips}) < 2:
        errors.invalid("spec.clusterIPs", ips, "may specify no more than one IP for each IP family")
    if not is_headless(dict(spec)):
        for index, (ip, family) in enumerate(zip(ips, families, strict=False)):
            if family in FAMILIES and family_of(ip) != family:
                errors.invalid(
                    f"spec.clusterIPs[{index}]", ip, f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                )


def _validate_both_spellings(first: str, ips: list[str], errors: Errors) -> None:
    if first and not ips:
        errors.required("spec.clusterIPs")
    elif first and ips[0] != first:
        errors.invalid("spec.clusterIPs", ips, "first value must match `clusterIP`")
    elif ips and not first:
        errors.invalid("spec.clusterIPs", ips, "must be empty when `clusterIP` is not specified")


def _validate_ips(ips: list[str], existing: Set[str], errors: Errors) -> bool:
    """Each address for itself; False if one of them is so wrong that no more can be said about all."""
    before = errors.added
    for index, ip in enumerate(ips[:_MOST_TOLD]):
        if index == 0 and ip == HEADLESS:
            if len(ips) > 1:
                errors.invalid("spec.clusterIPs", ips, "'None' must be the first and only value")
            continue
        validate_ip(ip, f"spec.clusterIPs[{index}]", errors, existing)
    is_fine = errors.added == before
    if len(ips) > 2:
        errors.invalid("spec.clusterIPs", ips, "may only hold up to 2 values")
    return is_fine


def validate_address_update(spec: Spec, old: Spec, errors: Errors) -> None:
    """A second address or family may come and go; the first stays."""
    if EXTERNAL_NAME in (spec["type"], old["type"]):
        return
    was_headless, is_now = is_headless(dict(old)), is_headless(dict(spec))
    if not (was_headless and is_now):
        _validate_ips_update(spec, old, errors)
    if not was_headless and not is_now:
        _validate_families_update(spec, old, errors)


def _validate_ips_update(spec: Spec, old: Spec, errors: Errors) -> None:
    ips, was = spec.get("clusterIPs") or [], old.get("clusterIPs") or []
    if len(ips) == len(was):
        for index, (ip, before) in enumerate(zip(ips, was, strict=True)):
            if ip != before:
                errors.invalid(f"spec.clusterIPs[{index}]", ips, _ONCE_SET)
        return
    if not ips:
        errors.invalid("spec.clusterIPs[0]", None, "primary clusterIP can not be unset")
    elif was and ips[0] != was[0]:
        errors.invalid("spec.clusterIPs[0]", ips, _ONCE_SET)
    if len(was) > len(ips) == 1 and spec.get("ipFamilyPolicy") != SINGLE:
        errors.invalid(
            "spec.ipFamilyPolicy",
            spec.get("ipFamilyPolicy"),
            "must be set to 'SingleStack' when releasing the secondary clusterIP",
        )


def _validate_families_update(spec: Spec, old: Spec, errors: Errors) -> None:
    families, was = spec.get("ipFamilies") or [], old.get("ipFamilies") or []
    ips = spec.get("clusterIPs")
    if len(families) == len(was):
        for family, before in zip(families, was, strict=True):
            if family != before:
                errors.invalid("spec.ipFamilies[0]", families, _ONCE_SET)
        return
    if len(was) > len(families) and not ips:
        errors.invalid("spec.ipFamilies[0]", families or None, "primary ipFamily can not be unset")
    if families and was and families[0] != was[0]:
        errors.invalid("spec.ipFamilies[0]", ips, _ONCE_SET)
    if len(was) > len(families) == 1 and spec.get("ipFamilyPolicy") != SINGLE:
        errors.invalid(
            "spec.ipFamilyPolicy",
            spec.get("ipFamilyPolicy"),
            "must be set to 'SingleStack' when releasing the secondary ipFamily",
        )
