"""What `kubectl get` shows: the server makes the table, so that every client prints a kind alike.

A kind is a row here, and an expression in the module of its topic. The modules are imported when a kind is printed for
the first time: a server that only runs controllers never loads them. Columns and cells follow
pkg/printers/internalversion/printers.go of Kubernetes 1.36; the descriptions of the columns are ours.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.server.tables.base import Printer

_GENERIC: Final = "generic.GENERIC"

#: Where the printer of a kind is, by apiVersion and plural.
_PRINTERS: Final = {
    "v1/componentstatuses": "nodes.COMPONENT_STATUSES",
    "v1/configmaps": "config.CONFIG_MAPS",
    "v1/endpoints": "network.ENDPOINTS",
    "v1/events": "events.EVENTS",
    "v1/namespaces": "config.NAMESPACES",
    "v1/nodes": "nodes.NODES",
    "v1/persistentvolumeclaims": "storage.PERSISTENT_VOLUME_CLAIMS",
    "v1/persistentvolumes": "storage.PERSISTENT_VOLUMES",
    "v1/pods": "pods.PODS",
    "v1/podtemplates": "workloads.POD_TEMPLATES",
    "v1/replicationcontrollers": "workloads.REPLICATION_CONTROLLERS",
    "v1/resourcequotas": "policy.RESOURCE_QUOTAS",
    "v1/secrets": "config.SECRETS",
    "v1/serviceaccounts": "config.SERVICE_ACCOUNTS",
    "v1/services": "network.SERVICES",
    "admissionregistration.k8s.io/v1/mutatingadmissionpolicies": "admission.MUTATING_ADMISSION_POLICIES",
    "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings": "admission.ADMISSION_POLICY_BINDINGS",
    "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": "admission.WEBHOOK_CONFIGURATIONS",
    "admissionregistration.k8s.io/v1/validatingadmissionpolicies": "admission.VALIDATING_ADMISSION_POLICIES",
    "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": "admission.ADMISSION_POLICY_BINDINGS",
    "admissionregistration.k8s.io/v1/validatingwebhookconfigurations": "admission.WEBHOOK_CONFIGURATIONS",
    "apiregistration.k8s.io/v1/apiservices": "admission.API_SERVICES",
    "apps/v1/controllerrevisions": "workloads.CONTROLLER_REVISIONS",
    "apps/v1/daemonsets": "workloads.DAEMON_SETS",
    "apps/v1/deployments": "workloads.DEPLOYMENTS",
    "apps/v1/replicasets": "workloads.REPLICA_SETS",
    "apps/v1/statefulsets": "workloads.STATEFUL_SETS",
    "autoscaling/v1/horizontalpodautoscalers": "autoscaling.HORIZONTAL_POD_AUTOSCALERS_V1",
    "autoscaling/v2/horizontalpodautoscalers": "autoscaling.HORIZONTAL_POD_AUTOSCALERS",
    "autoscaling/v1/scales": "workloads.SCALES",
    "batch/v1/cronjobs": "workloads.CRON_JOBS",
    "batch/v1/jobs": "workloads.JOBS",
    "certificates.k8s.io/v1/certificatesigningrequests": "access.CERTIFICATE_SIGNING_REQUESTS",
    "coordination.k8s.io/v1/leases": "nodes.LEASES",
    "discovery.k8s.io/v1/endpointslices": "network.ENDPOINT_SLICES",
    "events.k8s.io/v1/events": "events.EVENTS_K8S_IO",
    "flowcontrol.apiserver.k8s.io/v1/flowschemas": "policy.FLOW_SCHEMAS",
    "flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations": "policy.PRIORITY_LEVEL_CONFIGURATIONS",
    "metrics.k8s.io/v1beta1/nodes": "metrics.METRICS",
    "metrics.k8s.io/v1beta1/pods": "metrics.METRICS",
    "networking.k8s.io/v1/ingressclasses": "network.INGRESS_CLASSES",
    "networking.k8s.io/v1/ingresses": "network.INGRESSES",
    "networking.k8s.io/v1/ipaddresses": "network.IP_ADDRESSES",
    "networking.k8s.io/v1/networkpolicies": "network.NETWORK_POLICIES",
    "networking.k8s.io/v1/servicecidrs": "network.SERVICE_CIDRS",
    "node.k8s.io/v1/runtimeclasses": "nodes.RUNTIME_CLASSES",
    "policy/v1/poddisruptionbudgets": "policy.POD_DISRUPTION_BUDGETS",
    "rbac.authorization.k8s.io/v1/clusterrolebindings": "access.BINDINGS",
    "rbac.authorization.k8s.io/v1/rolebindings": "access.BINDINGS",
    "resource.k8s.io/v1/deviceclasses": "devices.DEVICE_CLASSES",
    "resource.k8s.io/v1/resourceclaims": "devices.RESOURCE_CLAIMS",
    "resource.k8s.io/v1/resourceclaimtemplates": "devices.RESOURCE_CLAIM_TEMPLATES",
    "resource.k8s.io/v1/resourceslices": "devices.RESOURCE_SLICES",
    "scheduling.k8s.io/v1/priorityclasses": "policy.PRIORITY_CLASSES",
    "storage.k8s.io/v1/csidrivers": "storage.CSI_DRIVERS",
    "storage.k8s.io/v1/csinodes": "storage.CSI_NODES",
    "storage.k8s.io/v1/csistoragecapacities": "storage.CSI_STORAGE_CAPACITIES",
    "storage.k8s.io/v1/storageclasses": "storage.STORAGE_CLASSES",
    "storage.k8s.io/v1/volumeattachments": "storage.VOLUME_ATTACHMENTS",
    "storage.k8s.io/v1/volumeattributesclasses": "storage.VOLUME_ATTRIBUTES_CLASSES",
}


def printer_of(resource: Resource, crd: Obj | None) -> Printer:
    """What prints objects of that kind; `crd` is the definition of a custom kind."""
    if crd is not None:
        return _custom(crd, resource.version)
    return _load(_PRINTERS.get(f"{resource.api_version}/{resource.plural}", _GENERIC))


def is_generic(resource: Resource, crd: Obj | None) -> bool:
    """Whether nobody wrote a printer for that kind."""
    return crd is None and f"{resource.api_version}/{resource.plural}" not in _PRINTERS


@cache
def _load(place: str) -> Printer:
    module, _, name = place.partition(".")
    found: Printer = getattr(import_module(f"{__name__}.{module}"), name)
    return found


def _custom(crd: Obj, version: str) -> Printer:
    from fairlead.server.tables.custom import CustomPrinter  # only servers with custom kinds need it

    return CustomPrinter(crd, version)
