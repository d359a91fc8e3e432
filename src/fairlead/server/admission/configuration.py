"""What an AdmissionConfiguration says to the plugins (`--admission-control-config-file`).

Every plugin works without one, but EventRateLimit. Each part is read strictly.
Sources: apiserver, pkg/admission/config.go, pkg/admission/plugin/webhook/config; pod-security-admission, admission/api;
plugin/pkg/admission/{eventratelimit,podtolerationrestriction,podnodeselector}.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fairlead.api import names
from fairlead.api.fields import Errors, aggregated
from fairlead.api.objects import Obj
from fairlead.api.strict import ConfigurationError, Strict, check_kind, document, read
from fairlead.client.webhook_credentials import WebhookCredentials
from fairlead.golang.quoting import go_quote
from fairlead.kinds.pod_security.policy import NOTHING_ASKED, Policy, default_policy
from fairlead.kinds.podspec.tolerations import validate_tolerations
from fairlead.server.admission.image_policy_configuration import ImagePolicyConfiguration, read_image_policy
from fairlead.server.admission.quota_configuration import LimitedResource, read_limited_resources

_LIMIT_TYPES: Final = ("Server", "Namespace", "User", "SourceAndObject")


class PodSecurityConfiguration(msgspec.Struct, frozen=True):
    """What namespaces without labels ask for, and who is never judged."""

    defaults: Policy = NOTHING_ASKED
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


class EventLimit(Strict):
    """So many events a second, of all together or of each namespace, user, or source and object."""

    type: str
    qps: int = 0
    burst: int = 0
    #: Of how many namespaces, users, … something is remembered.
    cache_size: int = 0


class PodTolerationConfiguration(msgspec.Struct, frozen=True):
    """What holds for namespaces that do not say it themselves."""

    default: tuple[Obj, ...] = ()
    whitelist: tuple[Obj, ...] = ()


class AdmissionConfiguration(msgspec.Struct, frozen=True):
    """What the plugins are told; by default nothing."""

    pod_security: PodSecurityConfiguration = PodSecurityConfiguration()
    event_limits: tuple[EventLimit, ...] = ()
    pod_tolerations: PodTolerationConfiguration = PodTolerationConfiguration()
    #: Which node labels the pods of a namespace may select; `clusterDefaultNodeSelector` is not a namespace.
    node_selectors: Mapping[str, str] = msgspec.field(default_factory=dict)
    image_policy: ImagePolicyConfiguration | None = None
    #: What takes a quota.
    limited_resources: tuple[LimitedResource, ...] = ()
    #: What webhooks are shown; None: nothing.
    mutating_credentials: WebhookCredentials | None = None
    validating_credentials: WebhookCredentials | None = None


UNCONFIGURED: Final = AdmissionConfiguration()


class _Plugin(Strict):
    name: str
    path: str = ""
    configuration: dict[str, Any] | None = None


class _Document(Strict):
    api_version: str = ""
    kind: str = ""
    plugins: tuple[_Plugin, ...] = ()


class _Exemptions(Strict):
    usernames: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    runtime_classes: tuple[str, ...] = ()


class _PodSecurityDefaults(Strict):
    enforce: str = ""
    enforce_version: str = msgspec.field(default="", name="enforce-version")
    audit: str = ""
    audit_version: str = msgspec.field(default="", name="audit-version")
    warn: str = ""
    warn_version: str = msgspec.field(default="", name="warn-version")


class _PodSecurity(Strict):
    api_version: str = ""
    kind: str = ""
    defaults: _PodSecurityDefaults = _PodSecurityDefaults()
    exemptions: _Exemptions = _Exemptions()


class _EventRates(Strict):
    api_version: str = ""
    kind: str = ""
    limits: tuple[EventLimit, ...] = ()


class _PodTolerations(Strict):
    api_version: str = ""
    kind: str = ""
    default: tuple[Obj, ...] = ()
    whitelist: tuple[Obj, ...] = ()


class _NodeSelectors(Strict):
    selectors: dict[str, str] = msgspec.field(default_factory=dict, name="podNodeSelectorPluginConfig")


class _Webhooks(Strict):
    api_version: str = ""
    kind: str = ""
    kube_config_file: str = ""


def load(file: Path, known_plugins: Collection[str]) -> AdmissionConfiguration:
    """What the file says, and those that it names. OSError, or ValueError with the name of the file that is wrong."""
    return _within(file, lambda: _configuration(_document(file), file, known_plugins))


def _configuration(document: Obj, file: Path, known_plugins: Collection[str]) -> AdmissionConfiguration:
    if "kind" not in document and _OLD_SELECTORS in document:  # as it was before there was an AdmissionConfiguration
        return _of_plugin("PodNodeSelector", document, UNCONFIGURED)
    found = read(document, _Document, "")
    check_kind(found, _API_VERSIONS, "AdmissionConfiguration")
    configuration = UNCONFIGURED
    for index, plugin in enumerate(found.plugins):
        if plugin.name not in known_plugins:
            raise ConfigurationError(f"plugins[{index}].name: there is no admission plugin {go_quote(plugin.name)}")
        if plugin.configuration is not None:
            configuration = _of_plugin(plugin.name, plugin.configuration, configuration)
        elif plugin.path:
            configuration = _of_file(plugin.name, file.parent / plugin.path, configuration)
    return configuration


def _of_file(name: str, file: Path, configuration: AdmissionConfiguration) -> AdmissionConfiguration:
    return _within(file, lambda: _of_plugin(name, _document(file), configuration))


def _of_plugin(name: str, document: Obj, configuration: AdmissionConfiguration) -> AdmissionConfiguration:
    reader = _READERS.get(name)
    if reader is None:
        raise ConfigurationError(f"the admission plugin {go_quote(name)} has nothing to configure here")
    return reader(document, configuration)


def _pod_security(document: Obj, configuration: AdmissionConfiguration) -> AdmissionConfiguration:
    found, errors = read(document, _PodSecurity, ""), Errors()
    versions = [f"pod-security.admission.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1")]
    check_kind(found, versions, "PodSecurityConfiguration")
    defaults = default_policy(msgspec.to_builtins(found.defaults), errors)
    exempt = found.exemptions
    _check_exempt(exempt.namespaces, "namespaces", names.dns1123_label, errors)
    _check_exempt(exempt.runtime_classes, "runtimeClasses", names.dns1123_subdomain, errors)
    _check_exempt(exempt.usernames, "usernames", lambda name: [] if name else ["username must not be empty"], errors)
    _refuse(errors)
    users, spaces, classes = map(frozenset, (exempt.usernames, exempt.namespaces, exempt.runtime_classes))
    return replace(configuration, pod_security=PodSecurityConfiguration(defaults, users, spaces, classes))


def _check_exempt(found: Sequence[str], kind: str, wrong: Callable[[str], list[str]], errors: Errors) -> None:
    seen = set[str]()
    for index, name in enumerate(found):
        if texts := wrong(name):
            errors.invalid(f"exemptions.{kind}[{index}]", name, ", ".join(texts))
        elif name in seen:
            errors.duplicate(f"exemptions.{kind}[{index}]", name)
        seen.add(name)


def _event_limits(document: Obj, configuration: AdmissionConfiguration) -> AdmissionConfiguration:
    found, errors = read(document, _EventRates, ""), Errors()
    check_kind(found, ["eventratelimit.admission.k8s.io/v1alpha1"], "Configuration")
    if not found.limits:
        errors.invalid("limits", [], "must not be empty")
    for index, limit in enumerate(found.limits):
        path = f"limits[{index}]"
        if limit.type not in _LIMIT_TYPES:
            errors.not_supported(f"{path}.type", limit.type, _LIMIT_TYPES)
        if limit.burst <= 0:
            errors.invalid(f"{path}.burst", limit.burst, "must be positive")
        if limit.qps <= 0:
            errors.invalid(f"{path}.qps", limit.qps, "must be positive")
        if limit.cache_size < 0 and limit.type != "Server":
            errors.invalid(f"{path}.cacheSize", limit.cache_size, "must not be negative")
    _refuse(errors)
    return replace(configuration, event_limits=found.limits)


def _pod_tolerations(document: Obj, configuration: AdmissionConfiguration) -> AdmissionConfiguration:
    found, errors = read(document, _PodTolerations, ""), Errors()
    check_kind(found, ["podtolerationrestriction.admission.k8s.io/v1alpha1"], "Configuration")
    validate_tolerations(found.default, "podtolerationrestriction.default", errors)
    validate_tolerations(found.whitelist, "podtolerationrestriction.whitelist", errors)
    _refuse(errors, "invalid config: ")
    return replace(configuration, pod_tolerations=PodTolerationConfiguration(found.default, found.whitelist))


def _node_selectors(document: Obj, configuration: AdmissionConfiguration) -> AdmissionConfiguration:
    return replace(configuration, node_selectors=read(document, _NodeSelectors, "").selectors)


def _image_policy(document: Obj, configuration: AdmissionConfiguration) -> AdmissionConfiguration:
    return replace(configuration, image_policy=read_image_policy(document))


def _resource_quota(document: Obj, configuration: AdmissionConfiguration) -> AdmissionConfiguration:
    return replace(configuration, limited_resources=read_limited_resources(document))


def _mutating_webhooks(document: Obj, configuration: AdmissionConfiguration) -> AdmissionConfiguration:
    return replace(configuration, mutating_credentials=_credentials(document))


def _validating_webhooks(document: Obj, configuration: AdmissionConfiguration) -> AdmissionConfiguration:
    return replace(configuration, validating_credentials=_credentials(document))


def _credentials(document: Obj) -> WebhookCredentials | None:
    found = read(document, _Webhooks, "")
    if found.kind == "WebhookAdmission":
        check_kind(found, ["apiserver.config.k8s.io/v1alpha1"], "WebhookAdmission")
    else:
        check_kind(found, ["apiserver.config.k8s.io/v1"], "WebhookAdmissionConfiguration")
    file = found.kube_config_file
    if file and not Path(file).is_absolute():
        raise ConfigurationError(f"kubeConfigFile: Invalid value: {go_quote(file)}: must be an absolute file path")
    return WebhookCredentials(Path(file)) if file else None


_OLD_SELECTORS: Final = "podNodeSelectorPluginConfig"
_API_VERSIONS: Final = ("apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1")
_READERS: Final[Mapping[str, Callable[[Obj, AdmissionConfiguration], AdmissionConfiguration]]] = {
    "PodSecurity": _pod_security,
    "EventRateLimit": _event_limits,
    "PodTolerationRestriction": _pod_tolerations,
    "PodNodeSelector": _node_selectors,
    "ImagePolicyWebhook": _image_policy,
    "ResourceQuota": _resource_quota,
    "MutatingAdmissionWebhook": _mutating_webhooks,
    "ValidatingAdmissionWebhook": _validating_webhooks,
}


def _document(file: Path) -> Obj:
    return document(file.read_bytes())


def _within(file: Path, step: Callable[[], AdmissionConfiguration]) -> AdmissionConfiguration:
    """Errors name the file, the innermost if one names another."""
    try:
        return step()
    except _FileError:
        raise
    except ValueError as error:
        raise _FileError(f"{file}: {error}") from None


class _FileError(ValueError):
    """An error that names its file."""


def _refuse(errors: Errors, prefix: str = "") -> None:
    if errors:
        raise ConfigurationError(prefix + aggregated(errors))
