"""All built-in kinds and their behaviour.

A kind that is not in the table has the behaviour of `Strategy` itself. Adding one is a class and a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fairlead.api.objects import Obj
from fairlead.kinds.admission_policies import (
    ValidatingAdmissionPolicyBindingStrategy,
    ValidatingAdmissionPolicyStrategy,
)
from fairlead.kinds.api_services import APIServiceStrategy
from fairlead.kinds.autoscaling import HorizontalPodAutoscalerStrategy
from fairlead.kinds.autoscaling_v1 import to_v1, to_v2
from fairlead.kinds.certificates import CertificateSigningRequestStrategy
from fairlead.kinds.config import ConfigMapStrategy, SecretStrategy
from fairlead.kinds.cronjobs import CronJobStrategy
from fairlead.kinds.daemonsets import DaemonSetStrategy
from fairlead.kinds.deployments import DeploymentStrategy
from fairlead.kinds.devices import (
    DeviceClassStrategy,
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
    ResourceSliceStrategy,
)
from fairlead.kinds.endpoints import EndpointSliceStrategy, EndpointsStrategy
from fairlead.kinds.events import EventStrategy, to_core, to_events
from fairlead.kinds.flow_control import FlowSchemaStrategy, PriorityLevelStrategy
from fairlead.kinds.ingresses import IngressClassStrategy, IngressStrategy
from fairlead.kinds.jobs import JobStrategy
from fairlead.kinds.leases import LeaseStrategy
from fairlead.kinds.limitrange import LimitRangeStrategy
from fairlead.kinds.mutating_policies import MutatingAdmissionPolicyBindingStrategy, MutatingAdmissionPolicyStrategy
from fairlead.kinds.namespaces import NamespaceStrategy
from fairlead.kinds.network_policies import NetworkPolicyStrategy
from fairlead.kinds.nodes import NodeStrategy
from fairlead.kinds.others import (
    PodTemplateStrategy,
    RuntimeClassStrategy,
)
from fairlead.kinds.persistent_volumes import PersistentVolumeStrategy
from fairlead.kinds.pods import PodStrategy
from fairlead.kinds.policy import PodDisruptionBudgetStrategy
from fairlead.kinds.quota import ResourceQuotaStrategy
from fairlead.kinds.rbac import RoleBindingStrategy, RoleStrategy
from fairlead.kinds.replication import ReplicaSetStrategy, ReplicationControllerStrategy
from fairlead.kinds.scheduling import PriorityClassStrategy
from fairlead.kinds.service_networks import IPAddressStrategy, ServiceCIDRStrategy
from fairlead.kinds.serviceaccounts import ServiceAccountStrategy
from fairlead.kinds.services import ServiceStrategy
from fairlead.kinds.statefulsets import ControllerRevisionStrategy, StatefulSetStrategy
from fairlead.kinds.storage import (
    PersistentVolumeClaimStrategy,
    StorageClassStrategy,
)
from fairlead.kinds.storage_drivers import (
    CSIDriverStrategy,
    CSINodeStrategy,
    CSIStorageCapacityStrategy,
    VolumeAttachmentStrategy,
    VolumeAttributesClassStrategy,
)
from fairlead.kinds.strategy import Strategy
from fairlead.kinds.webhook_configurations import WebhookConfigurationStrategy

#: `Resource.qualified` of the stored kind -> its behaviour.
STRATEGIES: Final[Mapping[str, Strategy]] = {
    "configmaps": ConfigMapStrategy(),
    "endpoints": EndpointsStrategy(),
    "events": EventStrategy(),
    "limitranges": LimitRangeStrategy(),
    "namespaces": NamespaceStrategy(),
    "nodes": NodeStrategy(),
    "persistentvolumeclaims": PersistentVolumeClaimStrategy(),
    "persistentvolumes": PersistentVolumeStrategy(),
    "pods": PodStrategy(),
    "podtemplates": PodTemplateStrategy(),
    "replicationcontrollers": ReplicationControllerStrategy(),
    "resourcequotas": ResourceQuotaStrategy(),
    "secrets": SecretStrategy(),
    "serviceaccounts": ServiceAccountStrategy(),
    "services": ServiceStrategy(),
    "apiservices.apiregistration.k8s.io": APIServiceStrategy(),
    "controllerrevisions.apps": ControllerRevisionStrategy(),
    "daemonsets.apps": DaemonSetStrategy(),
    "deployments.apps": DeploymentStrategy(),
    "replicasets.apps": ReplicaSetStrategy(),
    "statefulsets.apps": StatefulSetStrategy(),
    "horizontalpodautoscalers.autoscaling": HorizontalPodAutoscalerStrategy(),
    "cronjobs.batch": CronJobStrategy(),
    "jobs.batch": JobStrategy(),
    "certificatesigningrequests.certificates.k8s.io": CertificateSigningRequestStrategy(),
    "leases.coordination.k8s.io": LeaseStrategy(),
    "endpointslices.discovery.k8s.io": EndpointSliceStrategy(),
    "flowschemas.flowcontrol.apiserver.k8s.io": FlowSchemaStrategy(),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": PriorityLevelStrategy(),
    "ingresses.networking.k8s.io": IngressStrategy(),
    "ipaddresses.networking.k8s.io": IPAddressStrategy(),
    "servicecidrs.networking.k8s.io": ServiceCIDRStrategy(),
    "ingressclasses.networking.k8s.io": IngressClassStrategy(),
    "networkpolicies.networking.k8s.io": NetworkPolicyStrategy(),
    "runtimeclasses.node.k8s.io": RuntimeClassStrategy(),
    "poddisruptionbudgets.policy": PodDisruptionBudgetStrategy(),
    "clusterroles.rbac.authorization.k8s.io": RoleStrategy(is_namespaced=False),
    "clusterrolebindings.rbac.authorization.k8s.io": RoleBindingStrategy(is_namespaced=False),
    "roles.rbac.authorization.k8s.io": RoleStrategy(is_namespaced=True),
    "rolebindings.rbac.authorization.k8s.io": RoleBindingStrategy(is_namespaced=True),
    "priorityclasses.scheduling.k8s.io": PriorityClassStrategy(),
    "storageclasses.storage.k8s.io": StorageClassStrategy(),
    "csidrivers.storage.k8s.io": CSIDriverStrategy(),
    "csinodes.storage.k8s.io": CSINodeStrategy(),
    "csistoragecapacities.storage.k8s.io": CSIStorageCapacityStrategy(),
    "volumeattachments.storage.k8s.io": VolumeAttachmentStrategy(),
    "volumeattributesclasses.storage.k8s.io": VolumeAttributesClassStrategy(),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": WebhookConfigurationStrategy(is_mutating=True),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": WebhookConfigurationStrategy(is_mutating=False),
    "validatingadmissionpolicies.admissionregistration.k8s.io": ValidatingAdmissionPolicyStrategy(),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": ValidatingAdmissionPolicyBindingStrategy(),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": MutatingAdmissionPolicyStrategy(),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": MutatingAdmissionPolicyBindingStrategy(),
    "resourceclaims.resource.k8s.io": ResourceClaimStrategy(),
    "resourceclaimtemplates.resource.k8s.io": ResourceClaimTemplateStrategy(),
    "deviceclasses.resource.k8s.io": DeviceClassStrategy(),
    "resourceslices.resource.k8s.io": ResourceSliceStrategy(),
}

#: Kinds that are stored as another one.
STORED_AS: Final[Mapping[str, str]] = {"events.events.k8s.io": "events"}

Conversion = tuple[Callable[[Obj], Obj], Callable[[Obj], Obj]]

#: (`Resource.qualified`, version) -> how to get to the stored form and back.
CONVERSIONS: Final[Mapping[tuple[str, str], Conversion]] = {
    ("events.events.k8s.io", "v1"): (to_core, to_events),
    ("horizontalpodautoscalers.autoscaling", "v1"): (to_v2, to_v1),
}
