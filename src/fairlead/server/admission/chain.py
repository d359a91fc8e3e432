"""The admission chain: which plugins look at a request, and in which order.

The order is part of the behaviour: limits are filled in before quota counts them, quota comes last because it charges
for what nobody else may refuse any more. It is kube-apiserver's of 1.36 (pkg/kubeapiserver/options/plugins.go).

Most requests concern few plugins, so the chain keeps, for each kind of request, the list of those that have
something to do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from fairlead.server.admission.base import AdmissionPlugin, Attributes, Dependencies, Operation
from fairlead.server.admission.default_tolerations import DefaultTolerationSeconds
from fairlead.server.admission.limit_ranger import LimitRanger
from fairlead.server.admission.namespace_lifecycle import NamespaceLifecycle
from fairlead.server.admission.node_taints import TaintNodesByCondition
from fairlead.server.admission.pod_resize import NodeDeclaredFeatureValidator, PodResizeValidator
from fairlead.server.admission.pod_security import PodSecurity
from fairlead.server.admission.pod_topology import PodTopologyLabels
from fairlead.server.admission.priority import Priority
from fairlead.server.admission.resource_quota import ResourceQuotaAdmission
from fairlead.server.admission.runtime_class import RuntimeClass
from fairlead.server.admission.service_account import ServiceAccount
from fairlead.server.admission.storage import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)

#: Why a name that kube-apiserver knows has no plugin here.
_OFF_BY_DEFAULT = "off by default in kube-apiserver"
_NOTHING_TO_DO = "on by default in kube-apiserver, nothing to do here yet"

#: Every plugin of kube-apiserver in its order: its class, or why it is not made.
PLUGINS: tuple[tuple[str, type[AdmissionPlugin] | str], ...] = (
    ("AlwaysAdmit", _OFF_BY_DEFAULT),
    ("NamespaceAutoProvision", _OFF_BY_DEFAULT),
    ("NamespaceLifecycle", NamespaceLifecycle),
    ("NamespaceExists", _OFF_BY_DEFAULT),
    ("LimitPodHardAntiAffinityTopology", _OFF_BY_DEFAULT),
    ("LimitRanger", LimitRanger),
    ("ServiceAccount", ServiceAccount),
    ("NodeRestriction", _OFF_BY_DEFAULT),
    ("TaintNodesByCondition", TaintNodesByCondition),
    ("AlwaysPullImages", _OFF_BY_DEFAULT),
    ("ImagePolicyWebhook", _OFF_BY_DEFAULT),
    ("PodSecurity", PodSecurity),
    ("PodNodeSelector", _OFF_BY_DEFAULT),
    ("Priority", Priority),
    ("DefaultTolerationSeconds", DefaultTolerationSeconds),
    ("PodTolerationRestriction", _OFF_BY_DEFAULT),
    ("EventRateLimit", _OFF_BY_DEFAULT),
    ("ExtendedResourceToleration", _OFF_BY_DEFAULT),
    ("DefaultStorageClass", DefaultStorageClass),
    ("StorageObjectInUseProtection", StorageObjectInUseProtection),
    ("PodGroupProtection", _NOTHING_TO_DO),
    ("OwnerReferencesPermissionEnforcement", _OFF_BY_DEFAULT),
    ("PersistentVolumeClaimResize", PersistentVolumeClaimResize),
    ("RuntimeClass", RuntimeClass),
    ("CertificateApproval", _NOTHING_TO_DO),
    ("CertificateSigning", _NOTHING_TO_DO),
    ("ClusterTrustBundleAttest", _NOTHING_TO_DO),
    ("CertificateSubjectRestriction", _NOTHING_TO_DO),
    ("DefaultIngressClass", _NOTHING_TO_DO),
    ("DenyServiceExternalIPs", _OFF_BY_DEFAULT),
    ("PodTopologyLabels", PodTopologyLabels),
    ("PodGroupWorkloadExists", _NOTHING_TO_DO),
    ("NodeDeclaredFeatureValidator", NodeDeclaredFeatureValidator),
    ("JobValidation", _NOTHING_TO_DO),
    ("PodResizeValidator", PodResizeValidator),
    ("MutatingAdmissionPolicy", _NOTHING_TO_DO),
    ("MutatingAdmissionWebhook", _NOTHING_TO_DO),
    ("ValidatingAdmissionPolicy", _NOTHING_TO_DO),
    ("ValidatingAdmissionWebhook", _NOTHING_TO_DO),
    ("ResourceQuota", ResourceQuotaAdmission),
    ("AlwaysDeny", _OFF_BY_DEFAULT),
)

_Phase: TypeAlias = Callable[[Attributes], Awaitable[None]]
#: All `admit`s and all `validate`s of one kind of request.
_Phases: TypeAlias = tuple[tuple[_Phase, ...], tuple[_Phase, ...]]


class Chain:
    """The plugins that are switched on."""

    def __init__(self, plugins: Iterable[AdmissionPlugin]) -> None:
        self.plugins = tuple(plugins)
        self._steps: dict[tuple[Operation, str, str], _Phases] = {}

    async def admit(self, attributes: Attributes) -> None:
        """Every plugin may change the object, or refuse it."""
        for admit in self._for(attributes)[0]:
            await admit(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Every plugin may refuse the final object. Whoever called runs `attributes.on_failure` if one does."""
        for validate in self._for(attributes)[1]:
            await validate(attributes)

    def _for(self, attributes: Attributes) -> _Phases:
        key = (attributes.operation, attributes.resource.qualified, attributes.subresource)
        steps = self._steps.get(key)
        if steps is None:
            steps = self._steps[key] = self._select(*key)
        return steps

    def _select(self, operation: Operation, resource: str, subresource: str) -> _Phases:
        concerned = [plugin for plugin in self.plugins if plugin.concerns(operation, resource, subresource)]
        return (
            tuple(plugin.admit for plugin in concerned if type(plugin).admit is not AdmissionPlugin.admit),
            tuple(plugin.validate for plugin in concerned if type(plugin).validate is not AdmissionPlugin.validate),
        )


def build(dependencies: Dependencies, disabled: Iterable[str] = (), further: Iterable[AdmissionPlugin] = ()) -> Chain:
    """The chain without the plugins named in `--disable-admission-plugins`.

    `further` are steps of the server's own and of its companions, which nobody can switch off; they come last.
    """
    off = set(disabled)
    if unknown := sorted(off - {name for name, _ in PLUGINS}):
        known = ", ".join(sorted(name for name, _ in PLUGINS))
        raise ValueError(f"unknown admission plugin: {', '.join(unknown)}; known are {known}")
    chosen = [make(dependencies) for name, make in PLUGINS if name not in off and not isinstance(make, str)]
    return Chain([*chosen, *further])
