"""The kinds that controllers read and write, each with the view through which they do."""

from __future__ import annotations

from typing import Final

from fairlead.api import builtin
from fairlead.api.attachments import CSIDriver, VolumeAttachment
from fairlead.api.autoscaling import HorizontalPodAutoscaler
from fairlead.api.budgets import PodDisruptionBudget
from fairlead.api.certificates import CertificateSigningRequest
from fairlead.api.claims import AttributesClass, PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.configmaps import ConfigMap
from fairlead.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from fairlead.api.jobs import CronJob, Job
from fairlead.api.meta import Object
from fairlead.api.namespaces import Namespace
from fairlead.api.nodes import Node
from fairlead.api.pods import Pod
from fairlead.api.quota_scopes import ResourceQuota
from fairlead.api.resource_claims import ClaimTemplate
from fairlead.api.roles import ClusterRole
from fairlead.api.secrets import Secret
from fairlead.api.service_networks import IPAddress, ServiceCIDR
from fairlead.api.services import Endpoints, EndpointSlice, Service
from fairlead.api.workloads import (
    ControllerRevision,
    DaemonSet,
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from fairlead.controllers.actions import Kind

ACCESS_REVIEWS: Final = Kind(builtin.SUBJECT_ACCESS_REVIEWS, Object)
ATTACHMENTS: Final = Kind(builtin.VOLUME_ATTACHMENTS, VolumeAttachment)
ATTRIBUTES_CLASSES: Final = Kind(builtin.VOLUME_ATTRIBUTES_CLASSES, AttributesClass)
CERTIFICATE_REQUESTS: Final = Kind(builtin.CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest)
CLAIMS: Final = Kind(builtin.PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
CLUSTER_ROLES: Final = Kind(builtin.CLUSTER_ROLES, ClusterRole)
CONFIG_MAPS: Final = Kind(builtin.CONFIG_MAPS, ConfigMap)
CONTROLLER_REVISIONS: Final = Kind(builtin.CONTROLLER_REVISIONS, ControllerRevision)
CRON_JOBS: Final = Kind(builtin.CRON_JOBS, CronJob)
CSI_DRIVERS: Final = Kind(builtin.CSI_DRIVERS, CSIDriver)
DAEMON_SETS: Final = Kind(builtin.DAEMON_SETS, DaemonSet)
DEPLOYMENTS: Final = Kind(builtin.DEPLOYMENTS, Deployment)
DEVICE_CLASSES: Final = Kind(builtin.DEVICE_CLASSES, DeviceClass)
ENDPOINTS: Final = Kind(builtin.ENDPOINTS, Endpoints)
ENDPOINT_SLICES: Final = Kind(builtin.ENDPOINT_SLICES, EndpointSlice)
HORIZONTAL_POD_AUTOSCALERS: Final = Kind(builtin.HORIZONTAL_POD_AUTOSCALERS, HorizontalPodAutoscaler)
IP_ADDRESSES: Final = Kind(builtin.IP_ADDRESSES, IPAddress)
JOBS: Final = Kind(builtin.JOBS, Job)
LEASES: Final = Kind(builtin.LEASES, Object)
NAMESPACES: Final = Kind(builtin.NAMESPACES, Namespace)
NODES: Final = Kind(builtin.NODES, Node)
PODS: Final = Kind(builtin.PODS, Pod)
POD_DISRUPTION_BUDGETS: Final = Kind(builtin.POD_DISRUPTION_BUDGETS, PodDisruptionBudget)
REPLICA_SETS: Final = Kind(builtin.REPLICA_SETS, ReplicaSet)
REPLICATION_CONTROLLERS: Final = Kind(builtin.REPLICATION_CONTROLLERS, ReplicationController)
RESOURCE_CLAIM_TEMPLATES: Final = Kind(builtin.RESOURCE_CLAIM_TEMPLATES, ClaimTemplate)
RESOURCE_CLAIMS: Final = Kind(builtin.RESOURCE_CLAIMS, ResourceClaim)
RESOURCE_QUOTAS: Final = Kind(builtin.RESOURCE_QUOTAS, ResourceQuota)
RESOURCE_SLICES: Final = Kind(builtin.RESOURCE_SLICES, ResourceSlice)
SECRETS: Final = Kind(builtin.SECRETS, Secret)
SERVICE_CIDRS: Final = Kind(builtin.SERVICE_CIDRS, ServiceCIDR)
SERVICE_ACCOUNTS: Final = Kind(builtin.SERVICE_ACCOUNTS, Object)
SERVICES: Final = Kind(builtin.SERVICES, Service)
STATEFUL_SETS: Final = Kind(builtin.STATEFUL_SETS, StatefulSet)
STORAGE_CLASSES: Final = Kind(builtin.STORAGE_CLASSES, StorageClass)
VOLUMES: Final = Kind(builtin.PERSISTENT_VOLUMES, PersistentVolume)
