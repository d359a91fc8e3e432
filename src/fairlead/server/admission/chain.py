"""The admission chain: which plugins look at a request, and in which order.

The order is part of the behaviour: limits are filled in before quota counts them, quota comes last because it charges
for what nobody else may refuse any more. It is kube-apiserver's of 1.36 (pkg/kubeapiserver/options/plugins.go).

Most requests concern few plugins, so the chain keeps, for each kind of request, the list of those that have
something to do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, NamedTuple, TypeAlias

from fairlead.api.errors import ApiError
from fairlead.caches import LruCache
from fairlead.golang.quoting import go_quote
from fairlead.runtime.clock import stopwatch
from fairlead.runtime.metrics import Distribution
from fairlead.server.admission.always import AlwaysAdmit, AlwaysDeny
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Dependencies, Operation
from fairlead.server.admission.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from fairlead.server.admission.configuration import UNCONFIGURED, AdmissionConfiguration
from fairlead.server.admission.default_tolerations import DefaultTolerationSeconds
from fairlead.server.admission.event_rates import EventRateLimit
from fairlead.server.admission.external_ips import DenyServiceExternalIPs
from fairlead.server.admission.image_policy import ImagePolicyWebhook
from fairlead.server.admission.ingress_class import DefaultIngressClass
from fairlead.server.admission.limit_ranger import LimitRanger
from fairlead.server.admission.mutating_policy import MutatingAdmissionPolicy
from fairlead.server.admission.namespace_defaults import PodNodeSelector, PodTolerationRestriction
from fairlead.server.admission.namespace_existence import NamespaceAutoProvision, NamespaceExists
from fairlead.server.admission.namespace_lifecycle import NamespaceLifecycle
from fairlead.server.admission.node_restriction import NodeRestriction
from fairlead.server.admission.node_taints import TaintNodesByCondition
from fairlead.server.admission.owner_references import OwnerReferencesPermissionEnforcement
from fairlead.server.admission.pod_policies import (
    AlwaysPullImages,
    ExtendedResourceToleration,
    LimitPodHardAntiAffinityTopology,
)
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
from fairlead.server.admission.validating_policy import ValidatingAdmissionPolicy
from fairlead.server.admission.webhooks.mutating import MutatingAdmissionWebhook
from fairlead.server.admission.webhooks.validating import ValidatingAdmissionWebhook
from fairlead.server.metrics.admission import ADMIT, VALIDATE, AdmissionMetrics

#: Why a name that kube-apiserver knows has no plugin here.
_GATED = "not there: it does something only behind a feature gate that is off by default"

#: Every plugin of kube-apiserver in its order: its class, or why it is not made.
PLUGINS: tuple[tuple[str, type[AdmissionPlugin] | str], ...] = (
    ("AlwaysAdmit", AlwaysAdmit),
    ("NamespaceAutoProvision", NamespaceAutoProvision),
    ("NamespaceLifecycle", NamespaceLifecycle),
    ("NamespaceExists", NamespaceExists),
    ("LimitPodHardAntiAffinityTopology", LimitPodHardAntiAffinityTopology),
    ("LimitRanger", LimitRanger),
    ("ServiceAccount", ServiceAccount),
    ("NodeRestriction", NodeRestriction),
    ("TaintNodesByCondition", TaintNodesByCondition),
    ("AlwaysPullImages", AlwaysPullImages),
    ("ImagePolicyWebhook", ImagePolicyWebhook),
    ("PodSecurity", PodSecurity),
    ("PodNodeSelector", PodNodeSelector),
    ("Priority", Priority),
    ("DefaultTolerationSeconds", DefaultTolerationSeconds),
    ("PodTolerationRestriction", PodTolerationRestriction),
    ("EventRateLimit", EventRateLimit),
    ("ExtendedResourceToleration", ExtendedResourceToleration),
    ("DefaultStorageClass", DefaultStorageClass),
    ("StorageObjectInUseProtection", StorageObjectInUseProtection),
    ("PodGroupProtection", _GATED),
    ("OwnerReferencesPermissionEnforcement", OwnerReferencesPermissionEnforcement),
    ("PersistentVolumeClaimResize", PersistentVolumeClaimResize),
    ("RuntimeClass", RuntimeClass),
    ("CertificateApproval", CertificateApproval),
    ("CertificateSigning", CertificateSigning),
    ("ClusterTrustBundleAttest", _GATED),
    ("CertificateSubjectRestriction", CertificateSubjectRestriction),
    ("DefaultIngressClass", DefaultIngressClass),
    ("DenyServiceExternalIPs", DenyServiceExternalIPs),
    ("PodTopologyLabels", PodTopologyLabels),
    ("PodGroupWorkloadExists", _GATED),
    ("NodeDeclaredFeatureValidator", NodeDeclaredFeatureValidator),
    ("JobValidation", _GATED),
    ("PodResizeValidator", PodResizeValidator),
    ("MutatingAdmissionPolicy", MutatingAdmissionPolicy),
    ("MutatingAdmissionWebhook", MutatingAdmissionWebhook),
    ("ValidatingAdmissionPolicy", ValidatingAdmissionPolicy),
    ("ValidatingAdmissionWebhook", ValidatingAdmissionWebhook),
    ("ResourceQuota", ResourceQuotaAdmission),
    ("AlwaysDeny", AlwaysDeny),
)

#: Those that work only if `--enable-admission-plugins` names them. kube-apiserver has NodeRestriction among them;
#: kubeadm and kind switch it on.
OFF_BY_DEFAULT: Final = frozenset(
    [
        "AlwaysAdmit",
        "AlwaysDeny",
        "AlwaysPullImages",
        "DenyServiceExternalIPs",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "ImagePolicyWebhook",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceAutoProvision",
        "NamespaceExists",
        "OwnerReferencesPermissionEnforcement",
        "PodNodeSelector",
        "PodTolerationRestriction",
    ]
)

PLUGIN_NAMES: Final = frozenset(name for name, _ in PLUGINS)

_Phase: TypeAlias = Callable[[Attributes], Awaitable[None]]


class _Step(NamedTuple):
    """What one plugin does, and where it is noted how long that takes."""

    phase: _Phase
    plugin: str
    seconds: Distribution


#: For so many kinds of requests it is remembered who is concerned: custom kinds come and go.
_MOST_STEPS: Final = 4096


class _Steps(NamedTuple):
    """All steps of one kind of request."""

    admits: tuple[_Step, ...]
    further_admits: tuple[_Step, ...]
    validates: tuple[_Step, ...]


class Chain:
    """The plugins that are switched on."""

    def __init__(
        self, plugins: Iterable[AdmissionPlugin], further: Iterable[AdmissionPlugin], metrics: AdmissionMetrics
    ) -> None:
        self.plugins, self._further = tuple(plugins), tuple(further)
        self._metrics = metrics
        self._steps: LruCache[tuple[Operation, str, str], _Steps] = LruCache(_MOST_STEPS)

    async def close(self) -> None:
        """End what plugins have open: the server stops."""
        for plugin in (*self.plugins, *self._further):
            await plugin.close()

    async def admit(self, attributes: Attributes) -> None:
        """Every plugin may change the object, or refuse it; all again if a webhook changed what others had seen."""
        await self._measured(ADMIT, attributes, self._admit(self._for(attributes), attributes))

    async def _admit(self, steps: _Steps, attributes: Attributes) -> None:
        await self._take(ADMIT, steps.admits, attributes)
        if (reinvocation := attributes.reinvocation) is not None and reinvocation.is_wanted:
            reinvocation.is_running = True
            await self._take(ADMIT, steps.admits, attributes)
        await self._take(ADMIT, steps.further_admits, attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Every plugin may refuse the final object. Whoever called runs `attributes.on_failure` if one does."""
        steps = self._for(attributes).validates
        await self._measured(VALIDATE, attributes, self._take(VALIDATE, steps, attributes))

    async def _measured(self, type_: str, attributes: Attributes, work: Awaitable[None]) -> None:
        """How long all plugins take together."""
        began = stopwatch()
        try:
            await work
        except ApiError:
            rejected = self._metrics.step(type_, attributes.operation, is_rejected=True)
            rejected.observe(stopwatch() - began)
            raise
        self._metrics.step(type_, attributes.operation).observe(stopwatch() - began)

    async def _take(self, type_: str, steps: Iterable[_Step], attributes: Attributes) -> None:
        since, step = stopwatch(), None
        try:
            for step in steps:
                await step.phase(attributes)
                now = stopwatch()
                step.seconds.observe(now - since)
                since = now
        except ApiError:
            assert step is not None
            rejected = self._metrics.plugin(step.plugin, type_, attributes.operation, is_rejected=True)
            rejected.observe(stopwatch() - since)
            raise

    def _for(self, attributes: Attributes) -> _Steps:
        key = (attributes.operation, attributes.resource.qualified, attributes.subresource)
        steps = self._steps.get(key)
        if steps is None:
            steps = self._select(*key)
            self._steps.put(key, steps)
        return steps

    def _select(self, operation: Operation, resource: str, subresource: str) -> _Steps:
        def concerned(plugins: Iterable[AdmissionPlugin]) -> list[AdmissionPlugin]:
            return [plugin for plugin in plugins if plugin.concerns(operation, resource, subresource)]

        plugins, further = concerned(self.plugins), concerned(self._further)
        return _Steps(
            self._admits(plugins, operation),
            self._admits(further, operation),
            tuple(
                _Step(plugin.validate, plugin.name, self._metrics.plugin(plugin.name, VALIDATE, operation))
                for plugin in (*plugins, *further)
                if type(plugin).validate is not AdmissionPlugin.validate
            ),
        )

    def _admits(self, plugins: Iterable[AdmissionPlugin], operation: Operation) -> tuple[_Step, ...]:
        return tuple(
            _Step(plugin.admit, plugin.name, self._metrics.plugin(plugin.name, ADMIT, operation))
            for plugin in plugins
            if type(plugin).admit is not AdmissionPlugin.admit
        )


def build(
    dependencies: Dependencies,
    disabled: Iterable[str] = (),
    further: Iterable[AdmissionPlugin] = (),
    enabled: Iterable[str] = (),
    metrics: AdmissionMetrics | None = None,
) -> Chain:
    """The chain of `--enable-admission-plugins` and `--disable-admission-plugins`. ValueError if they cannot be.

    `further` are steps of the server's own and of its companions, which nobody can switch off; they come last.
    """
    on, off = tuple(enabled), tuple(disabled)
    check_choice(on, off, dependencies.configuration)
    chosen = [
        make(dependencies)
        for name, make in PLUGINS
        if not isinstance(make, str) and (name in on or name not in OFF_BY_DEFAULT.union(off))
    ]
    return Chain(chosen, further, metrics or AdmissionMetrics())


def check_choice(
    enabled: Collection[str],
    disabled: Collection[str],
    configuration: AdmissionConfiguration = UNCONFIGURED,
) -> None:
    """ValueError, in kube-apiserver's words, if plugins cannot be switched on and off so."""
    known = dict(PLUGINS)
    wrong = [
        f"{option}-admission-plugins plugin {go_quote(name)} is unknown"
        for option, names in (("enable", enabled), ("disable", disabled))
        for name in names
        if name not in known
    ]
    if both := sorted(set(enabled) & set(disabled)):
        wrong.append(f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped")
    wrong += [
        f"enable-admission-plugins plugin {go_quote(name)} is {why}"
        for name in enabled
        if isinstance(why := known.get(name), str)
    ]
    if EventRateLimit.name in enabled and not configuration.event_limits:
        why = "limits: Invalid value: null: must not be empty"
        wrong.append(f"couldn't init admission plugin {go_quote(EventRateLimit.name)}: {why}")
    if ImagePolicyWebhook.name in enabled and configuration.image_policy is None:
        wrong.append(f"couldn't init admission plugin {go_quote(ImagePolicyWebhook.name)}: no config specified")
    if wrong:
        raise ValueError(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
