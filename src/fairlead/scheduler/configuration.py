"""KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1): which profiles there are, and how each is made up.

A profile starts as the default one. Its `plugins` switch plugins on and off, as a whole (`multiPoint`) or for one
extension point, and change their weights; its `pluginConfig` gives them arguments.
https://kubernetes.io/docs/reference/scheduling/config/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.podresources import is_native
from fairlead.api.scheduling import DEFAULT_SCHEDULER
from fairlead.api.strict import ConfigurationError, Strict, check, read
from fairlead.scheduler.framework import AnyPlugin, Plugin, PodRelationPlugin
from fairlead.scheduler.plugins import DEFAULT_ORDER, NAMES_ALONE, find
from fairlead.scheduler.plugins.resources.fit import NodeResourcesFit
from fairlead.scheduler.profile import Profile, Weighted, WeightedRelationPlugin, overrides

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"


class EnabledPlugin(Strict):
    name: str
    weight: int = 0


class PluginSet(Strict):
    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[EnabledPlugin, ...] = ()

    def is_disabled(self, name: str) -> bool:
        return any(plugin.name in (name, "*") for plugin in self.disabled)


class PluginConfig(Strict):
    name: str
    args: dict[str, Any] = {}


class Plugins(Strict):
    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()


class ProfileConfig(Strict):
    #: One profile alone need not say it.
    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class ManagedResource(Strict):
    name: str
    ignored_by_scheduler: bool = False


class ExtenderConfig(Strict):
    """An HTTP extender; the URL of a verb is `urlPrefix/VERB`, and an empty verb is not called."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: dict[str, Any] | None = None
    http_timeout: str = "5s"
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class LeaderElectionConfig(Strict):
    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(Strict):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 50.0
    burst: int = 100


class KubeSchedulerConfiguration(Strict):
    """What a file says. What concerns kube-scheduler's own machinery (`parallelism`, sampling) is read and unused."""

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: int = 16
    leader_election: LeaderElectionConfig = LeaderElectionConfig()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[ProfileConfig, ...] = (ProfileConfig(),)
    extenders: tuple[ExtenderConfig, ...] = ()
    delay_cache_until_active: bool = False


class Configuration(msgspec.Struct, frozen=True):
    """A configuration made up: profiles whose plugins exist."""

    profiles: tuple[Profile, ...]
    settings: KubeSchedulerConfiguration


def load(document: Mapping[str, Any] | None = None) -> Configuration:
    """What that document says; None: the defaults. Raises ConfigurationError with the path of what is wrong."""
    settings = read(document or {}, KubeSchedulerConfiguration, "")
    if (settings.api_version, settings.kind) != (API_VERSION, KIND):
        raise ConfigurationError(f'no kind "{settings.kind}" is registered for version "{settings.api_version}"')
    check(settings.pod_initial_backoff_seconds > 0, "podInitialBackoffSeconds", settings.pod_initial_backoff_seconds,
          "must be greater than 0")  # fmt: skip
    check(settings.parallelism > 0, "parallelism", settings.parallelism, "should be an integer value greater than zero")
    for where, share in (
        ("percentageOfNodesToScore", settings.percentage_of_nodes_to_score),
        *(
            (f"profiles[{index}].percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
            for index, profile in enumerate(settings.profiles)
        ),
    ):
        check(share is None or 0 <= share <= 100, where, share, "not in valid range [0-100]")
    check(
        settings.pod_max_backoff_seconds >= settings.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds",
        settings.pod_max_backoff_seconds,
        "must be greater than or equal to PodInitialBackoffSeconds",
    )
    _check_names(settings)
    _check_extenders(settings.extenders)
    check(settings.client_connection.burst >= 0, "clientConnection.burst", settings.client_connection.burst,
          "must be non-negative")  # fmt: skip
    lock = settings.leader_election
    check(not lock.leader_elect or lock.resource_lock == "leases", "leaderElection.resourceLock", lock.resource_lock,
          'resourceLock value must be "leases"')  # fmt: skip
    elsewhere = frozenset(
        resource.name
        for extender in settings.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    listed = settings.profiles or (ProfileConfig(),)
    profiles = (_profile(profile, f".profiles[{index}]", elsewhere) for index, profile in enumerate(listed))
    return Configuration(tuple(profiles), settings)


def _check_names(settings: KubeSchedulerConfiguration) -> None:
    """Pods ask for a profile by its name: several must have each their own."""
    seen = set[str | None]()
    for index, profile in enumerate(settings.profiles):
        name = profile.scheduler_name
        if name == "" or (name is None and len(settings.profiles) > 1):
            raise ConfigurationError(f"profiles[{index}].schedulerName: Required value")
        if name in seen:
            raise ConfigurationError(f'profiles[{index}].schedulerName: Duplicate value: "{name}"')
        seen.add(name)


def _check_extenders(extenders: Sequence[ExtenderConfig]) -> None:
    """Who scores has a weight, one alone binds, and each manages extended resources of its own."""
    managed = set[str]()
    for index, extender in enumerate(extenders):
        check(not extender.prioritize_verb or extender.weight > 0, f"extenders[{index}].weight", extender.weight,
              "must have a positive weight applied to it")  # fmt: skip
        for number, resource in enumerate(extender.managed_resources):
            where = f"extenders[{index}].managedResources[{number}].name"
            extended = not is_native(resource.name) and not resource.name.startswith("requests.")
            check(extended, where, resource.name, "is an invalid extended resource name")
            check(resource.name not in managed, where, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    check(binders < 2, "extenders", f"found {binders} extenders implementing bind",
          "only one extender can implement bind")  # fmt: skip


def _profile(config: ProfileConfig, path: str, elsewhere: frozenset[str]) -> Profile:
    """One profile: the default one, changed as it says. What extenders count themselves has to fit nowhere else."""
    names = _known(config, path)
    args = {
        plugin_config.name: (plugin_config.args, f"{path}.pluginConfig[{index}].args")
        for index, plugin_config in enumerate(config.plugin_config)
    }
    made: dict[str, AnyPlugin] = {}
    for name in _in_order(config.plugins, config.plugins.filter, names):
        kind = find(name)
        if kind is not None:
            given, where = args.get(name, ({}, path))
            made[name] = _configured(kind, read(given, kind.arguments, where), where)
    fit = made.get(NodeResourcesFit.name)
    if isinstance(fit, NodeResourcesFit) and elsewhere:
        made[NodeResourcesFit.name] = fit.without(elsewhere)
    name = config.scheduler_name or DEFAULT_SCHEDULER
    binders = _at(config.plugins, config.plugins.bind, "bind", names, made)
    if not binders:
        raise ConfigurationError(f'at least one bind plugin is needed for profile with scheduler name "{name}"')
    return Profile(
        plugins=tuple(
            Weighted(plugin, *_place(config.plugins, plugin, names))
            for plugin in made.values()
            if isinstance(plugin, Plugin)
        ),
        relations=tuple(
            WeightedRelationPlugin(plugin, *_place(config.plugins, plugin, names))
            for plugin in made.values()
            if isinstance(plugin, PodRelationPlugin)
        ),
        name=name,
        post_filters=_at(config.plugins, config.plugins.post_filter, "post_filter", names, made),
        pre_binders=_at(config.plugins, config.plugins.pre_bind, "pre_bind", names, made),
        binders=binders,
    )


def _at(
    plugins: Plugins, point: PluginSet, method: str, names: Iterable[str], made: Mapping[str, AnyPlugin]
) -> tuple[AnyPlugin, ...]:
    """The plugins that take part at an extension point, in the order in which they are asked."""
    ordered = (made[name] for name in _in_order(plugins, point, names) if name in made)
    return tuple(plugin for plugin in ordered if overrides(plugin, method) and _is_on(plugins, point, plugin.name))


def _configured(kind: type[AnyPlugin], args: Any, path: str) -> AnyPlugin:
    try:
        return kind.configured(args)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path.lstrip('.')}.{error}") from None


def _known(config: ProfileConfig, path: str) -> dict[str, int]:
    """The names of all plugins that are on, in order, with what `multiPoint` says of their weights."""
    written = zip(Plugins.__struct_encode_fields__, Plugins.__struct_fields__, strict=True)
    sets: dict[str, PluginSet] = {point: getattr(config.plugins, name) for point, name in written}
    for point, plugin_set in sets.items():
        for listed in (*plugin_set.enabled, *plugin_set.disabled):
            if listed.name != "*":
                _check_exists(listed.name, f"{path}.plugins.{point}")
    configured = set[str]()
    for index, plugin_config in enumerate(config.plugin_config):
        _check_exists(plugin_config.name, f"{path}.pluginConfig[{index}]")
        if plugin_config.name in configured:
            raise ConfigurationError(
                f'{path.lstrip(".")}.pluginConfig[{index}]: Duplicate value: "{plugin_config.name}"'
            )
        configured.add(plugin_config.name)
        _check_arguments(plugin_config, f"{path}.pluginConfig[{index}].args")
    multi = config.plugins.multi_point
    names = {name: weight for name, weight in DEFAULT_ORDER.items() if not multi.is_disabled(name)}
    for one_set in (multi, *(value for point, value in sets.items() if point != "multiPoint")):
        for listed in one_set.enabled:
            if one_set is multi or listed.name not in names:
                names[listed.name] = listed.weight or 1
    return names


def _in_order(plugins: Plugins, point: PluginSet, names: Iterable[str]) -> Iterable[str]:
    """As they are asked at an extension point: those first that are listed for it and take part as a whole, as listed;
    all that are listed, if nothing else takes part (expandMultiPointPlugins).
    """
    listed, alone = [plugin.name for plugin in point.enabled], point.is_disabled("*")
    return dict.fromkeys([*(name for name in listed if alone or _is_whole(plugins, name)), *names])


def _check_arguments(config: PluginConfig, path: str) -> None:
    """Also of a plugin that is not enabled."""
    if config.name in NAMES_ALONE:
        read(config.args, NAMES_ALONE[config.name], path)
    elif (kind := find(config.name)) is not None:
        _configured(kind, read(config.args, kind.arguments, path), path)


def _check_exists(name: str, path: str) -> None:
    if name not in NAMES_ALONE and find(name) is None:
        raise ConfigurationError(f'{path.lstrip(".")}: plugin "{name}" does not exist')


def _place(plugins: Plugins, plugin: AnyPlugin, weights: Mapping[str, int]) -> tuple[int, bool, bool]:
    """The plugin's weight, whether it filters, and whether it scores."""
    name = plugin.name
    weight = next((plugin.weight for plugin in plugins.score.enabled if plugin.name == name), 0)
    return weight or weights[name], _is_on(plugins, plugins.filter, name), _is_on(plugins, plugins.score, name)


def _is_on(plugins: Plugins, point: PluginSet, name: str) -> bool:
    """Whether the plugin takes part at a point: as a whole, unless it is switched off there, or there alone."""
    if any(listed.name == name for listed in point.enabled):
        return True
    return _is_whole(plugins, name) and not point.is_disabled(name)


def _is_whole(plugins: Plugins, name: str) -> bool:
    """Whether the plugin takes part wherever it can."""
    multi = plugins.multi_point
    return any(plugin.name == name for plugin in multi.enabled) or (
        name in DEFAULT_ORDER and not multi.is_disabled(name)
    )
