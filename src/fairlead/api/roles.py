"""Cluster roles as the controller that puts them together sees them."""

from __future__ import annotations

import msgspec

from fairlead.api.labels import LabelSelector
from fairlead.api.meta import Object, View


class AggregationRule(View):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class ClusterRole(Object):
    aggregation_rule: AggregationRule | None = None
    rules: msgspec.Raw = msgspec.Raw(b"null")
