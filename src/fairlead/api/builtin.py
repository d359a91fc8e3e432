"""The kinds that a default kube-apiserver 1.36 serves, one row each.

Without this table every part of the server would spell plurals, short names and verbs for itself. Discovery,
routing, OpenAPI, storage and the components all read these rows; a new built-in kind is a new row here. Only the
versions that are on by default are listed (facts: api/discovery/aggregated_v2.json of kubernetes/kubernetes, and
`DefaultAPIResourceConfigSource`, which leaves every alpha and beta version off).

Groups stand in the order in which the aggregator lists them, so discovery shows them in the order of this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fairlead.api.resources import Resource, Subresource

_ALL = ("all",)
_API_EXTENSIONS = ("api-extensions",)
_CREATE = ("create",)
_READ_WRITE = ("get", "patch", "update")
_CONNECT = ("create", "get")
_PROXY = ("create", "delete", "get", "patch", "update")

SCALE = Subresource("scale", "Scale", _READ_WRITE, "autoscaling", "v1")


def _row(
    root: str,
    plural: str,
    kind: str,
    short: str = "",
    *subresources: Subresource | str,
    namespaced: bool = True,
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] | None = None,
    package: str = "",
) -> Resource:
    """A row of the group-version `root`.

    A subresource given as a plain name is the object itself, read and written. `package` is the Go package of the
    kind's OpenAPI definition, where it is not `io.k8s.api.<first word of the group>.<version>`.
    """
    group, _, version = root.rpartition("/")
    package = package or f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}"
    row = Resource(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        singular=kind.lower(),
        short_names=tuple(short.split()),
        categories=categories,
        subresources=_by_name(kind, subresources),
        definition=f"{package}.{kind}",
        storage_version=version,
    )
    return row if verbs is None else replace(row, verbs=verbs)


def _by_name(kind: str, subresources: Iterable[Subresource | str]) -> Mapping[str, Subresource]:
    rows = (Subresource(sub, kind, _READ_WRITE) if isinstance(sub, str) else sub for sub in subresources)
    return {row.name: row for row in rows}


# --- core -----------------------------------------------------------------------------------------------------------

BINDINGS = _row("v1", "bindings", "Binding", verbs=_CREATE)
COMPONENT_STATUSES = _row("v1", "componentstatuses", "ComponentStatus", "cs", namespaced=False, verbs=("get", "list"))
CONFIG_MAPS = _row("v1", "configmaps", "ConfigMap", "cm")
ENDPOINTS = _row("v1", "endpoints", "Endpoints", "ep")
EVENTS = _row("v1", "events", "Event", "ev")
LIMIT_RANGES = _row("v1", "limitranges", "LimitRange", "limits")
NAMESPACES = _row(
    "v1",
    "namespaces",
    "Namespace",
    "ns",
    Subresource("finalize", "Namespace", ("update",)),
    "status",
    namespaced=False,
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
)
NODES = _row("v1", "nodes", "Node", "no", Subresource("proxy", "NodeProxyOptions", _PROXY), "status", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = _row("v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "status")
PERSISTENT_VOLUMES = _row("v1", "persistentvolumes", "PersistentVolume", "pv", "status", namespaced=False)
PODS = _row(
    "v1",
    "pods",
    "Pod",
    "po",
    Subresource("attach", "PodAttachOptions", _CONNECT),
    Subresource("binding", "Binding", _CREATE),
    "ephemeralcontainers",
    Subresource("eviction", "Eviction", _CREATE, "policy", "v1"),
    Subresource("exec", "PodExecOptions", _CONNECT),
    Subresource("log", "Pod", ("get",)),
    Subresource("portforward", "PodPortForwardOptions", _CONNECT),
    Subresource("proxy", "PodProxyOptions", _PROXY),
    "resize",
    "status",
    categories=_ALL,
)
POD_TEMPLATES = _row("v1", "podtemplates", "PodTemplate")
REPLICATION_CONTROLLERS = _row(
    "v1", "replicationcontrollers", "ReplicationController", "rc", SCALE, "status", categories=_ALL
)
RESOURCE_QUOTAS = _row("v1", "resourcequotas", "ResourceQuota", "quota", "status")
SECRETS = _row("v1", "secrets", "Secret")
SERVICE_ACCOUNTS = _row(
    "v1",
    "serviceaccounts",
    "ServiceAccount",
    "sa",
    Subresource("token", "TokenRequest", _CREATE, "authentication.k8s.io", "v1"),
)
SERVICES = _row(
    "v1", "services", "Service", "svc", Subresource("proxy", "ServiceProxyOptions", _PROXY), "status", categories=_ALL
)

# --- apiregistration.k8s.io, apps, events.k8s.io --------------------------------------------------------------------

API_SERVICES = _row(
    "apiregistration.k8s.io/v1",
    "apiservices",
    "APIService",
    "",
    "status",
    namespaced=False,
    categories=_API_EXTENSIONS,
    package="io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
)

CONTROLLER_REVISIONS = _row("apps/v1", "controllerrevisions", "ControllerRevision")
DAEMON_SETS = _row("apps/v1", "daemonsets", "DaemonSet", "ds", "status", categories=_ALL)
DEPLOYMENTS = _row("apps/v1", "deployments", "Deployment", "deploy", SCALE, "status", categories=_ALL)
REPLICA_SETS = _row("apps/v1", "replicasets", "ReplicaSet", "rs", SCALE, "status", categories=_ALL)
STATEFUL_SETS = _row("apps/v1", "statefulsets", "StatefulSet", "sts", SCALE, "status", categories=_ALL)

EVENTS_K8S_IO = _row("events.k8s.io/v1", "events", "Event", "ev")

# --- authentication.k8s.io, authorization.k8s.io: questions, answered and not stored --------------------------------

SELF_SUBJECT_REVIEWS = _row(
    "authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False, verbs=_CREATE
)
TOKEN_REVIEWS = _row("authentication.k8s.io/v1", "tokenreviews", "TokenReview", namespaced=False, verbs=_CREATE)

LOCAL_SUBJECT_ACCESS_REVIEWS = _row(
    "authorization.k8s.io/v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=_CREATE
)
SELF_SUBJECT_ACCESS_REVIEWS = _row(
    "authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False, verbs=_CREATE
)
SELF_SUBJECT_RULES_REVIEWS = _row(
    "authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False, verbs=_CREATE
)
SUBJECT_ACCESS_REVIEWS = _row(
    "authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False, verbs=_CREATE
)

# --- autoscaling, batch, certificates.k8s.io ------------------------------------------------------------------------

HORIZONTAL_POD_AUTOSCALERS = _row(
    "autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "status", categories=_ALL
)
HORIZONTAL_POD_AUTOSCALERS_V1 = replace(
    HORIZONTAL_POD_AUTOSCALERS,
    version="v1",
    definition="io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler",
    storage_version="v2",
)

CRON_JOBS = _row("batch/v1", "cronjobs", "CronJob", "cj", "status", categories=_ALL)
JOBS = _row("batch/v1", "jobs", "Job", "", "status", categories=_ALL)

CERTIFICATE_SIGNING_REQUESTS = _row(
    "certificates.k8s.io/v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    "csr",
    "approval",
    "status",
    namespaced=False,
)

# --- networking.k8s.io, policy, rbac.authorization.k8s.io -----------------------------------------------------------

INGRESS_CLASSES = _row("networking.k8s.io/v1", "ingressclasses", "IngressClass", namespaced=False)
INGRESSES = _row("networking.k8s.io/v1", "ingresses", "Ingress", "ing", "status")
IP_ADDRESSES = _row("networking.k8s.io/v1", "ipaddresses", "IPAddress", "ip", namespaced=False)
NETWORK_POLICIES = _row("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "netpol")
SERVICE_CIDRS = _row("networking.k8s.io/v1", "servicecidrs", "ServiceCIDR", "", "status", namespaced=False)

POD_DISRUPTION_BUDGETS = _row("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", "status")

CLUSTER_ROLE_BINDINGS = _row(
    "rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
CLUSTER_ROLES = _row("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", namespaced=False)
ROLE_BINDINGS = _row("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")
ROLES = _row("rbac.authorization.k8s.io/v1", "roles", "Role")

# --- storage.k8s.io -------------------------------------------------------------------------------------------------

CSI_DRIVERS = _row("storage.k8s.io/v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_NODES = _row("storage.k8s.io/v1", "csinodes", "CSINode", namespaced=False)
CSI_STORAGE_CAPACITIES = _row("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity")
STORAGE_CLASSES = _row("storage.k8s.io/v1", "storageclasses", "StorageClass", "sc", namespaced=False)
VOLUME_ATTACHMENTS = _row("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", "", "status", namespaced=False)
VOLUME_ATTRIBUTES_CLASSES = _row(
    "storage.k8s.io/v1", "volumeattributesclasses", "VolumeAttributesClass", "vac", namespaced=False
)

# --- admissionregistration.k8s.io, apiextensions.k8s.io -------------------------------------------------------------


def _admission(plural: str, kind: str, *subresources: str) -> Resource:
    root = "admissionregistration.k8s.io/v1"
    return _row(root, plural, kind, "", *subresources, namespaced=False, categories=_API_EXTENSIONS)


MUTATING_ADMISSION_POLICIES = _admission("mutatingadmissionpolicies", "MutatingAdmissionPolicy")
MUTATING_ADMISSION_POLICY_BINDINGS = _admission("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding")
MUTATING_WEBHOOK_CONFIGURATIONS = _admission("mutatingwebhookconfigurations", "MutatingWebhookConfiguration")
VALIDATING_ADMISSION_POLICIES = _admission("validatingadmissionpolicies", "ValidatingAdmissionPolicy", "status")
VALIDATING_ADMISSION_POLICY_BINDINGS = _admission(
    "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"
)
VALIDATING_WEBHOOK_CONFIGURATIONS = _admission("validatingwebhookconfigurations", "ValidatingWebhookConfiguration")

CUSTOM_RESOURCE_DEFINITIONS = _row(
    "apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    "crd crds",
    "status",
    namespaced=False,
    categories=_API_EXTENSIONS,
    package="io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
)

# --- scheduling, coordination, node, discovery, flowcontrol, resource -----------------------------------------------

PRIORITY_CLASSES = _row("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "pc", namespaced=False)

LEASES = _row("coordination.k8s.io/v1", "leases", "Lease")

RUNTIME_CLASSES = _row("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", namespaced=False)

ENDPOINT_SLICES = _row("discovery.k8s.io/v1", "endpointslices", "EndpointSlice")

FLOW_SCHEMAS = _row("flowcontrol.apiserver.k8s.io/v1", "flowschemas", "FlowSchema", "", "status", namespaced=False)
PRIORITY_LEVEL_CONFIGURATIONS = _row(
    "flowcontrol.apiserver.k8s.io/v1",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    "",
    "status",
    namespaced=False,
)

DEVICE_CLASSES = _row("resource.k8s.io/v1", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_CLAIMS = _row("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", "", "status")
RESOURCE_CLAIM_TEMPLATES = _row("resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate")
RESOURCE_SLICES = _row("resource.k8s.io/v1", "resourceslices", "ResourceSlice", namespaced=False)

# --- the table ------------------------------------------------------------------------------------------------------

#: Every built-in row, in the order of this file; of a group's versions the preferred one comes first.
RESOURCES: tuple[Resource, ...] = tuple(row for row in list(globals().values()) if isinstance(row, Resource))

#: Kinds that are two spellings of one collection: the row on the right says how and where objects are stored.
_SHARED = {EVENTS_K8S_IO.api_version + EVENTS_K8S_IO.plural: EVENTS} | {
    HORIZONTAL_POD_AUTOSCALERS_V1.api_version + HORIZONTAL_POD_AUTOSCALERS_V1.plural: HORIZONTAL_POD_AUTOSCALERS
}

_BY_QUALIFIED = {row.qualified: row for row in reversed(RESOURCES)}


def resource(qualified: str) -> Resource:
    """The row of `pods` or `deployments.apps`, in its preferred version; KeyError if there is none."""
    return _BY_QUALIFIED[qualified]


def stored_as(row: Resource) -> Resource:
    """The row in whose form objects of `row` are stored; events of both groups are one collection."""
    return _SHARED.get(row.api_version + row.plural, row)
