"""FlowSchemas and PriorityLevelConfigurations, as the server's queues see them (flowcontrol.apiserver.k8s.io/v1)."""

from __future__ import annotations

from typing import Final

from fairlead.api.meta import Object, View

GROUP: Final = "flowcontrol.apiserver.k8s.io"
EXEMPT, LIMITED = "Exempt", "Limited"
QUEUE, REJECT = "Queue", "Reject"
BY_USER, BY_NAMESPACE = "ByUser", "ByNamespace"
#: Names of what every cluster has, whatever happens.
EXEMPT_NAME, CATCH_ALL_NAME = "exempt", "catch-all"
#: "true" where a server may bring the object up to date, anything else where its owner keeps it.
AUTO_UPDATE: Final = "apf.kubernetes.io/autoupdate-spec"


class Named(View):
    name: str = ""


class AccountSubject(View):
    namespace: str = ""
    name: str = ""


class FlowSubject(View):
    kind: str = ""
    user: Named | None = None
    group: Named | None = None
    service_account: AccountSubject | None = None


class ResourceRule(View, rename={"api_groups": "apiGroups", "cluster_scope": "clusterScope"}):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    cluster_scope: bool = False
    namespaces: tuple[str, ...] | None = None


class PathRule(View, rename={"urls": "nonResourceURLs"}):
    verbs: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()


class FlowRule(View):
    subjects: tuple[FlowSubject, ...] | None = None
    resource_rules: tuple[ResourceRule, ...] | None = None
    non_resource_rules: tuple[PathRule, ...] | None = None


class DistinguisherMethod(View):
    type: str = ""


class FlowSchemaSpec(View):
    priority_level_configuration: Named = Named()
    matching_precedence: int = 1000
    distinguisher_method: DistinguisherMethod | None = None
    rules: tuple[FlowRule, ...] | None = None


class FlowSchema(Object):
    spec: FlowSchemaSpec = FlowSchemaSpec()


class Queuing(View):
    queues: int = 64
    hand_size: int = 8
    queue_length_limit: int = 50


class LimitResponse(View):
    type: str = ""
    queuing: Queuing | None = None


class ExemptLevel(View):
    nominal_concurrency_shares: int | None = None
    lendable_percent: int | None = None


class LimitedLevel(View):
    nominal_concurrency_shares: int | None = None
    limit_response: LimitResponse = LimitResponse()
    lendable_percent: int | None = None
    borrowing_limit_percent: int | None = None


class PriorityLevelSpec(View):
    type: str = ""
    limited: LimitedLevel | None = None
    exempt: ExemptLevel | None = None


class PriorityLevelConfiguration(Object):
    spec: PriorityLevelSpec = PriorityLevelSpec()
