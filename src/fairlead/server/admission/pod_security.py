"""PodSecurity: a namespace's labels say which level of the Pod Security Standards its pods must keep to.

`enforce` refuses pods; `warn` warns, also of workloads, whose pods would be refused only later and where nobody looks;
`audit` tells the audit log of both.
A namespace that enforces more than before gets a warning for its pods that would not be allowed any more: they stay.
Without labels everything is allowed. The rules themselves are in `kinds/pod_security/`.
Source: k8s.io/pod-security-admission/admission.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from fairlead.api.builtin import PODS
from fairlead.api.encoded import Encoded
from fairlead.api.errors import InternalError
from fairlead.api.fields import Errors, aggregated
from fairlead.api.meta import Object, View
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.golang.quoting import go_quote
from fairlead.kinds.pod_security.checked_pod import CheckedPod
from fairlead.kinds.pod_security.checks import in_detail, in_short, violations
from fairlead.kinds.pod_security.policy import (
    ANYTHING,
    PREFIX,
    LevelVersion,
    Policy,
    ignored_warning,
    policy_of,
)
from fairlead.runtime import clock
from fairlead.runtime.offload import offload
from fairlead.server.admission.base import CREATE_AND_UPDATE, AdmissionPlugin, Attributes, Dependencies, Operation
from fairlead.server.context import takes_long

_NAMESPACES, _PODS = "namespaces", "pods"

#: Workloads, and where the template of their pods is.
_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "podtemplates": ("template",),
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        [
            "replicationcontrollers",
            "daemonsets.apps",
            "deployments.apps",
            "replicasets.apps",
            "statefulsets.apps",
            "jobs.batch",
        ],
        ("spec", "template"),
    ),
}

#: Subresources of pods that do not change what a pod asks for. Every other one is looked at, also one of the future.
_HARMLESS: Final = frozenset({"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"})

#: Under which key the audit log tells why nobody looked.
_EXEMPT: Final = f"{PREFIX}exempt"

#: How many pods of a namespace are looked at when it enforces more, and for how many seconds.
_MOST_PODS: Final = 3000
_MOST_SECONDS: Final = 1.0
#: How many of them between two turns of others; and how many where only their owners are looked at.
_A_TURN, _OWNERS_A_TURN = 50, 1000


class _NamespaceMeta(View):
    labels: dict[str, str] = {}


class _Namespace(View):
    metadata: _NamespaceMeta = _NamespaceMeta()


class _PodSpec(View):
    runtime_class_name: str | None = None


class _Pod(Object):
    spec: _PodSpec = _PodSpec()


class PodSecurity(AdmissionPlugin):
    name = "PodSecurity"

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._configured = dependencies.configuration.pod_security

    def concerns(self, operation: Operation, resource: str, subresource: str) -> bool:
        if operation not in CREATE_AND_UPDATE:
            return False
        if resource == _PODS:
            return subresource not in _HARMLESS
        return not subresource and (resource == _NAMESPACES or resource in _TEMPLATES)

    async def validate(self, attributes: Attributes) -> None:
        match attributes.resource.qualified:
            case "namespaces":
                await self._judge_namespace(attributes)
            case "pods":
                await self._judge_pod(attributes)
            case workload:
                await self._judge_template(attributes, _TEMPLATES[workload])

    async def _judge_pod(self, attributes: Attributes) -> None:
        if self._is_exempt(attributes):
            return
        policy, errors = self._policy(attributes)
        if policy.allows_everything and not errors:
            return
        if attributes.old is None or _has_new_images(attributes):
            await self._judge(CheckedPod(attributes.obj), policy, errors, attributes, is_pod=True)

    async def _judge_template(self, attributes: Attributes, path: Iterable[str]) -> None:
        if self._is_exempt(attributes):
            return
        policy, errors = self._policy(attributes)
        if policy.warn.allows_everything and policy.audit.allows_everything and not errors:
            return
        template = attributes.obj
        for step in path:
            template = template.get(step) or {}
        if template:  # a ReplicationController may have none
            await self._judge(CheckedPod(template), policy, errors, attributes, is_pod=False)

    async def _judge(
        self, pod: CheckedPod, policy: Policy, errors: Errors, attributes: Attributes, *, is_pod: bool
    ) -> None:
        """Refuse a pod, and warn and tell the audit log of it and of what makes pods."""
        if pod.spec.get("runtimeClassName") in self._configured.runtime_classes:
            attributes.annotate(_EXEMPT, "runtimeClass")
            return
        if errors:
            attributes.annotate(f"{PREFIX}error", f"Failed to parse policy: {aggregated(errors)}")
        judged: dict[LevelVersion, str] = {}
        if is_pod:
            attributes.annotate(f"{PREFIX}enforce-policy", str(policy.enforce))
            judged[policy.enforce] = await _violations(policy.enforce, pod, attributes)
        if policy.audit not in judged:
            judged[policy.audit] = await _violations(policy.audit, pod, attributes)
        if text := judged[policy.audit]:
            attributes.annotate(f"{PREFIX}audit-violations", _would_violate(policy.audit, text))
        if is_pod and (text := judged[policy.enforce]):
            raise attributes.forbidden(f'violates PodSecurity "{policy.enforce}": {text}')
        if policy.warn not in judged:
            judged[policy.warn] = await _violations(policy.warn, pod, attributes)
        if text := judged[policy.warn]:
            attributes.warnings.append(_would_violate(policy.warn, text))

    def _is_exempt(self, attributes: Attributes) -> bool:
        """Whether nobody looks at what is in that namespace, or what that user does."""
        if attributes.namespace in self._configured.namespaces:
            attributes.annotate(_EXEMPT, "namespace")
            return True
        if attributes.user.name in self._configured.usernames:
            attributes.annotate(_EXEMPT, "user")
            return True
        return False

    def _policy(self, attributes: Attributes) -> tuple[Policy, Errors]:
        """What the labels ask for, and what is wrong with them, which was told to whoever wrote them.

        What the audit log would be told counts only where there is one.
        """
        found = self._reader.find(_NAMESPACES, attributes.namespace)
        if found is None:
            namespace = go_quote(attributes.namespace)
            raise InternalError(f"Internal error occurred: failed to lookup namespace {namespace}")
        policy, errors = policy_of(found.kept_view(_Namespace).metadata.labels, self._configured.defaults)
        if attributes.audit is None and not policy.audit.allows_everything:
            policy = policy._replace(audit=ANYTHING)
        return policy, errors

    async def _judge_namespace(self, attributes: Attributes) -> None:
        """Labels that cannot be read are refused, unless they were there before."""
        name, labels, defaults = attributes.name, _labels(attributes.obj), self._configured.defaults
        policy, errors = policy_of(labels, defaults)
        before, old_errors = policy, Errors()
        if attributes.old is not None:
            before, old_errors = policy_of(_labels(attributes.old), defaults)
        if errors != old_errors:
            errors.raise_invalid("Namespace", name)
        demands_more = policy.enforce.demands_more_than(before.enforce)
        if name in self._configured.namespaces:
            warning = ignored_warning(name, labels, policy, defaults)
            if warning and (demands_more or attributes.old is None):
                attributes.warnings.append(warning)
            if demands_more and attributes.old is not None:
                attributes.annotate(_EXEMPT, "namespace")
        elif demands_more:
            pods = await _one_of_each_first(list(self._reader.each(_PODS, name)), self._configured.runtime_classes)
            attributes.warnings += await _offending_pods(pods, name, policy.enforce)


def _labels(namespace: Obj) -> Mapping[str, str]:
    return metadata(namespace).get("labels") or {}


async def _violations(asked: LevelVersion, pod: CheckedPod, attributes: Attributes) -> str:
    return await offload(lambda: in_detail(violations(asked, pod)), is_long=attributes.is_long)


def _would_violate(asked: LevelVersion, text: str) -> str:
    return f'would violate PodSecurity "{asked}": {text}'


def _has_new_images(attributes: Attributes) -> bool:
    """Of all that the standards look at only containers can change, and if they do they are other images."""
    new, old = attributes.spec, (attributes.old or {}).get("spec") or {}
    if any(_images(new, kind) != _images(old, kind) for kind in ("containers", "initContainers")):
        return True
    return not set(_images(new, "ephemeralContainers")) <= set(_images(old, "ephemeralContainers"))


def _images(spec: Obj, kind: str) -> list[tuple[str, str]]:
    return [(container.get("name", ""), container.get("image", "")) for container in spec.get(kind) or ()]


async def _offending_pods(pods: Sequence[Encoded], namespace: str, asked: LevelVersion) -> list[str]:
    """What there is to be warned of: which of these pods violate that level, by what they violate."""
    deadline = clock.monotonic() + _MOST_SECONDS
    offenders: dict[str, list[str]] = {}
    number = 0
    for number, pod in enumerate(pods[:_MOST_PODS], 1):
        if number % _A_TURN == 0:
            await asyncio.sleep(0)
        name, reasons = await offload(partial(_offence, pod, asked), is_long=takes_long(PODS, len(pod.raw)))
        if reasons:
            offenders.setdefault(reasons, []).append(name)
        if clock.monotonic() > deadline:
            break
    told = []
    if number < len(pods):
        seen = f"the first {number} of {len(pods)} existing pods"
        told.append(f"new PodSecurity enforce level only checked against {seen}")
    if offenders:
        level = f'the new PodSecurity enforce level "{asked}"'
        told.append(f"existing pods in namespace {go_quote(namespace)} violate {level}")
    return told + sorted(f"{_together(names)}: {reasons}" for reasons, names in offenders.items())


async def _one_of_each_first(pods: Iterable[Encoded], exempt: Collection[str]) -> list[Encoded]:
    """All but those of exempt runtime classes. Pods of one controller look alike: its first comes before all others."""
    first, others, controllers = [], [], set()
    for number, pod in enumerate(pods, 1):
        if number % _OWNERS_A_TURN == 0:
            await asyncio.sleep(0)
        view = pod.view(_Pod)
        if view.spec.runtime_class_name in exempt:
            continue
        controller = view.metadata.controller
        if controller is not None and controller.uid in controllers:
            others.append(pod)
            continue
        first.append(pod)
        if controller is not None:
            controllers.add(controller.uid)
    return first + others


def _offence(pod: Encoded, asked: LevelVersion) -> tuple[str, str]:
    """A pod's name, and in short what it violates."""
    obj = pod.obj()
    return name_of(obj), in_short(violations(asked, CheckedPod(obj)))


def _together(names: Sequence[str]) -> str:
    match len(names) - 1:
        case 0:
            others = ""
        case 1:
            others = " (and 1 other pod)"
        case count:
            others = f" (and {count} other pods)"
    return min(names) + others
