"""The three lists of containers: what they share, and what each of them forbids.

Regular containers run together, init containers before them one by one (or, as sidecars, beside them), ephemeral
ones are added to a running pod to look into it. Reference: validateContainers and its neighbours in
pkg/apis/core/validation; restart rules are KEP-5307.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairlead.api.fields import Errors, validate_choice
from fairlead.api.names import dns1123_label
from fairlead.api.objects import Obj
from fairlead.api.podresources import is_sidecar
from fairlead.kinds.podspec.env import validate_env, validate_env_from
from fairlead.kinds.podspec.mounts import validate_devices, validate_mounts
from fairlead.kinds.podspec.ports import (
    validate_host_ports_are_free,
    validate_own_host_ports_are_free,
    validate_ports,
)
from fairlead.kinds.podspec.probes import validate_probes
from fairlead.kinds.podspec.resources import validate_container_resources
from fairlead.kinds.podspec.scope import PodScope
from fairlead.kinds.podspec.security import validate_security_context
from fairlead.kinds.podspec.volume_sources import validate_pull_policy
from fairlead.kinds.rules import check

_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES = frozenset({"Always", "Never", "OnFailure"})
_RULE_ACTIONS = ("Restart", "RestartAllContainers")
_RULE_OPERATORS = ("In", "NotIn")
_MAX_RULES = 20
_MAX_EXIT_CODES = 255
_RESIZABLE = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")

_ONLY_SIDECARS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NO_RESIZE_BY_RESTART = "must not be set to 'RestartContainer' for non-sidecar initContainers"
_NOT_FOR_INIT = "may not be set for init containers without restartPolicy=Always"

#: In upstream's order of fields.
_NOT_FOR_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_EPHEMERAL = "cannot be set for an Ephemeral Container"


def validate_containers(containers: list[Obj], path: str, scope: PodScope, errors: Errors) -> None:
    if not containers:
        return errors.required(path)
    names: set[str] = set()
    has_host_ports = False
    for i, container in enumerate(containers):
        here = f"{path}[{i}]"
        _validate_common(container, here, scope, errors)
        name = container.get("name", "")
        if name in names:
            errors.duplicate(f"{here}.name", name)
        names.add(name)
        validate_probes(container, here, scope, errors)
        _validate_restart_policy(container, here, errors)
        has_host_ports = has_host_ports or "ports" in container
    if has_host_ports:
        validate_host_ports_are_free(containers, path, errors)
    return None


def validate_init_containers(
    containers: Iterable[Obj], regular: Iterable[Obj], path: str, scope: PodScope, errors: Errors
) -> None:
    names = {container.get("name", "") for container in regular}
    for i, container in enumerate(containers):
        here = f"{path}[{i}]"
        _validate_common(container, here, scope, errors)
        _validate_restart_policy(container, here, errors)
        name = container.get("name", "")
        if name in names:
            errors.duplicate(f"{here}.name", name)
        elif name:
            names.add(name)
        validate_own_host_ports_are_free(container, path, errors)
        if is_sidecar(container):
            validate_probes(container, here, scope, errors)
            continue
        for field in _ONLY_SIDECARS:
            if field in container:
                errors.forbidden(f"{here}.{field}", _NOT_FOR_INIT)
        if not scope.resize_restarts_init:
            for j, policy in enumerate(container.get("resizePolicy") or ()):
                if policy.get("restartPolicy") == "RestartContainer":
                    where = f"{here}.resizePolicy[{j}].restartPolicy"
                    errors.invalid(where, "RestartContainer", _NO_RESIZE_BY_RESTART)


def resize_restarts_init(spec: Obj) -> bool:
    """Whether a pod has what is refused since 1.36, because a resize never restarts such a container."""
    return any(
        policy.get("restartPolicy") == "RestartContainer"
        for container in spec.get("initContainers") or ()
        if not is_sidecar(container)
        for policy in container.get("resizePolicy") or ()
    )


def validate_ephemeral_containers(spec: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    targets = {
        container.get("name", "") for kind in ("containers", "initContainers") for container in spec.get(kind) or ()
    }
    names = set(targets)
    for i, container in enumerate(spec.get("ephemeralContainers") or ()):
        here = f"{path}[{i}]"
        _validate_common(container, here, scope, errors)
        validate_image_is_trimmed(container, here, errors)
        name = container.get("name", "")
        if name in names:
            errors.duplicate(f"{here}.name", name)
        names.add(name)
        target = container.get("targetContainerName")
        if target and target not in targets:
            errors.not_found(f"{here}.targetContainerName", target)
        for field in _NOT_FOR_EPHEMERAL:
            if field in container and (container[field] or field != "resources"):  # which are always there
                errors.forbidden(f"{here}.{field}", _EPHEMERAL)
        for j, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    errors.forbidden(f"{here}.volumeMounts[{j}].{field}", _EPHEMERAL)


def validate_image_is_trimmed(container: Obj, path: str, errors: Errors) -> None:
    """Of pods alone: some keep a blank image in a template for a webhook to replace."""
    image = container.get("image", "")
    if image != image.strip():
        errors.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")


def _validate_common(container: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    if name := container.get("name"):
        check(errors, f"{path}.name", name, dns1123_label)
    else:
        errors.required(f"{path}.name")
    if not container.get("image"):
        errors.required(f"{path}.image")
    policy = container.get("terminationMessagePolicy", "")
    validate_choice(policy, _MESSAGE_POLICIES, f"{path}.terminationMessagePolicy", errors)
    if ports := container.get("ports"):
        validate_ports(ports, f"{path}.ports", errors)
    if variables := container.get("env"):
        validate_env(variables, f"{path}.env", errors)
    if sources := container.get("envFrom"):
        validate_env_from(sources, f"{path}.envFrom", errors)
    if "volumeMounts" in container:
        validate_mounts(container, f"{path}.volumeMounts", scope, errors)
    if "volumeDevices" in container:
        validate_devices(container, f"{path}.volumeDevices", scope, errors)
    validate_pull_policy(container.get("imagePullPolicy", ""), f"{path}.imagePullPolicy", errors)
    if resources := container.get("resources"):
        validate_container_resources(resources, scope.claim_names, f"{path}.resources", errors)
    if policies := container.get("resizePolicy"):
        _validate_resize_policies(policies, f"{path}.resizePolicy", scope, errors)
    if context := container.get("securityContext"):
        validate_security_context(context, f"{path}.securityContext", scope, errors)


def _validate_resize_policies(policies: Iterable[Obj], path: str, scope: PodScope, errors: Errors) -> None:
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            errors.duplicate(f"{path}[{i}]", resource)
        seen.add(resource)
        validate_choice(resource, _RESIZABLE, path, errors)
        validate_choice(restart, _RESIZE_POLICIES, path, errors)
        if scope.restart_policy == "Never" and restart != "NotRequired":
            errors.invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _validate_restart_policy(container: Obj, path: str, errors: Errors) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules")
    if policy is None:
        if rules:
            errors.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy not in _RESTART_POLICIES:
        errors.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    if rules:
        _validate_restart_rules(rules, f"{path}.restartPolicyRules", errors)


def _validate_restart_rules(rules: list[Obj], path: str, errors: Errors) -> None:
    if len(rules) > _MAX_RULES:
        errors.too_many(path, len(rules), _MAX_RULES)
    for i, rule in enumerate(rules):
        if (action := rule.get("action", "")) not in _RULE_ACTIONS:
            errors.not_supported(f"{path}[{i}].action", action, _RULE_ACTIONS, sort=False)
        codes: Any = rule.get("exitCodes")
        if codes is None:
            errors.required(f"{path}[{i}].exitCodes", "must be specified")
            continue
        if (operator := codes.get("operator", "")) not in _RULE_OPERATORS:
            errors.not_supported(f"{path}[{i}].exitCodes.operator", operator, _RULE_OPERATORS, sort=False)
        if (count := len(codes.get("values") or ())) > _MAX_EXIT_CODES:
            errors.too_many(f"{path}[{i}].exitCodes.values", count, _MAX_EXIT_CODES)
