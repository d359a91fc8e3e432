"""Versions of an API group, in the order in which clients prefer them (apimachinery, pkg/version)."""

from __future__ import annotations

import re

_KUBE_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STABILITY = {None: 0, "beta": 1, "alpha": 2}


def by_preference(version: str) -> tuple[int, int, int, str]:
    """Sort key: v2, v1, v2beta1, v1beta2, v1alpha1, and last, by name, whatever is no Kubernetes version."""
    found = _KUBE_VERSION.fullmatch(version)
    if found is None:
        return 3, 0, 0, version
    major, stability, minor = found.groups()
    return _STABILITY[stability], -int(major), -int(minor or 0), ""
