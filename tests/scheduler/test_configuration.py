"""KubeSchedulerConfiguration: what it makes of the default profile, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.strict import ConfigurationError
from fairlead.scheduler.configuration import load
from fairlead.scheduler.profile import Profile, Weighted, WeightedRelationPlugin
from tests.scheduler.scheduler_world import Cluster, node, pod

Obj = dict[str, Any]

FIT, AFFINITY, SPREAD = "NodeResourcesFit", "InterPodAffinity", "PodTopologySpread"
BINDER = "DefaultBinder"
RATIO = "scoringStrategy.requestedToCapacityRatio.shape"


DEFAULT = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}


def profile(**said: Any) -> Profile:
    return load({"profiles": [said]}).profiles[0]


def refusal(document: Obj) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(document)
    return str(caught.value)


def with_args(name: str, args: Obj) -> Obj:
    return {"profiles": [{"pluginConfig": [{"name": name, "args": args}]}]}


def listed(*names: str) -> list[Obj]:
    return [{"name": name} for name in names]


def extenders(*settings: Obj) -> Obj:
    return {"extenders": [{"urlPrefix": "http://x"} | setting for setting in settings]}


def places(found: Profile) -> list[Weighted | WeightedRelationPlugin]:
    return [*found.plugins, *found.relations]


def scoring(found: Profile) -> dict[str, int]:
    """The plugins whose scores count, with their weights."""
    return {place.plugin.name: place.weight for place in places(found) if place.scores}


def filtering(found: Profile) -> set[str]:
    return {place.plugin.name for place in places(found) if place.filters}


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"percentageOfNodes": 5}, "percentageOfNodes"),
        ({"leaderElection": {"leaderElects": True}}, "leaderElection.leaderElects"),
        ({"profiles": [{}, {"scheduler": "x"}]}, "profiles[1].scheduler"),
        ({"profiles": [{"plugins": {"scores": {}}}]}, "profiles[0].plugins.scores"),
        (
            {"profiles": [{"plugins": {"score": {"enabled": [{"name": FIT, "wait": 1}]}}}]},
            "profiles[0].plugins.score.enabled[0].wait",
        ),
        ({"extenders": [{"urlPrefix": "http://x", "verb": "filter"}]}, "extenders[0].verb"),
        (with_args(FIT, {"ignored": []}), "profiles[0].pluginConfig[0].args.ignored"),
        (with_args(FIT, {"scoringStrategy": {"kind": "x"}}), "profiles[0].pluginConfig[0].args.scoringStrategy.kind"),
        (with_args("ImageLocality", {"size": 1}), "profiles[0].pluginConfig[0].args.size"),
    ],
)
def test_an_unknown_field_is_refused_with_its_path(document: Obj, path: str) -> None:
    assert refusal(document) == f'strict decoding error: unknown field "{path}"'


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "Pod"}, 'no kind "Pod" is registered for version "kubescheduler.config.k8s.io/v1"'),
        ({"apiVersion": "v1"}, 'no kind "KubeSchedulerConfiguration" is registered for version "v1"'),
        ({"profiles": [{"schedulerName": ""}]}, "profiles[0].schedulerName: Required value"),
        ({"profiles": [{"schedulerName": "a"}, {}]}, "profiles[1].schedulerName: Required value"),
        ({"parallelism": "16"}, "parallelism: Expected `int`, got `str`"),
        (
            {"profiles": [{"schedulerName": name} for name in ("a", "b", "a")]},
            'profiles[2].schedulerName: Duplicate value: "a"',
        ),
        ({"profiles": [{}, {}]}, "profiles[0].schedulerName: Required value"),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": listed("Nope")}}}]},
            'profiles[0].plugins.filter: plugin "Nope" does not exist',
        ),
        (
            {"profiles": [{"plugins": {"score": {"disabled": listed("Nope")}}}]},
            'profiles[0].plugins.score: plugin "Nope" does not exist',
        ),
        (with_args("Nope", {}), 'profiles[0].pluginConfig[0]: plugin "Nope" does not exist'),
        (
            {"leaderElection": {"resourceLock": "endpoints"}},
            'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
        ),
        (
            extenders({"prioritizeVerb": "score"}),
            "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        ),
        (
            extenders({"managedResources": listed("cpu")}),
            'extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name',
        ),
        (
            extenders({"managedResources": listed("a.dev/b")}, {"managedResources": listed("a.dev/b")}),
            'extenders[1].managedResources[0].name: Invalid value: "a.dev/b": duplicate extender managed resource name',
        ),
        (
            extenders({"bindVerb": "bind"}, {"bindVerb": "bind"}),
            'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
        ),
    ],
)
def test_a_document_that_makes_no_sense_is_refused(document: Obj, message: str) -> None:
    assert refusal(document) == message


@pytest.mark.parametrize(
    ("first", "longest", "message"),
    [
        (0, 10, "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"),
        (-1, 10, "podInitialBackoffSeconds: Invalid value: -1: must be greater than 0"),
        (
            11,
            10,
            "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
        ),
    ],
)
def test_back_off_starts_above_nothing_and_does_not_shrink(first: int, longest: int, message: str) -> None:
    """S3-11."""
    assert refusal({"podInitialBackoffSeconds": first, "podMaxBackoffSeconds": longest}) == message


def test_back_off_may_stay_the_same() -> None:
    settings = load({"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 3}).settings
    assert (settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds) == (3, 3)
    assert (load().settings.pod_initial_backoff_seconds, load().settings.pod_max_backoff_seconds) == (1, 10)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        (
            AFFINITY,
            {"hardPodAffinityWeight": 101},
            "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            AFFINITY,
            {"hardPodAffinityWeight": -1},
            "hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]",
        ),
        (AFFINITY, {"hardPodAffinityWeight": "1"}, "args.hardPodAffinityWeight: Expected `int`, got `str`"),
        (SPREAD, {"defaultingType": "Some"}, "args.defaultingType: Invalid enum value 'Some'"),
        (
            SPREAD,
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]},
            'defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
        ),
        (
            FIT,
            {"scoringStrategy": {"type": "Best"}},
            'scoringStrategy.type: Unsupported value: "Best": supported values: '
            '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
        ),
        (
            FIT,
            {"scoringStrategy": {"resources": [{"name": "cpu"}, {"name": "memory", "weight": 101}]}},
            "scoringStrategy.resources[1].weight: Invalid value: 101: "
            "resource weight of memory not in valid range (0, 100]",
        ),
        (
            FIT,
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio",
        ),
        (
            FIT,
            {"scoringStrategy": {"requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 1}]}}},
            "requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio",
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}]},
            "resources[0].weight: Invalid value: 2: must be 1",
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu"}, {"name": "cpu"}]},
            'resources[1].name: Duplicate value: "cpu"',
        ),
        (
            SPREAD,
            {"defaultingType": "List", "defaultConstraints": [DEFAULT | {"labelSelector": {}}]},
            "defaultConstraints[0].labelSelector: Forbidden: "
            "constraint must not define a selector, as they deduced for each pod",
        ),
        (
            SPREAD,
            {"defaultingType": "List", "defaultConstraints": [DEFAULT, DEFAULT | {"maxSkew": 2}]},
            'defaultConstraints[1]: Duplicate value: "{zone, ScheduleAnyway}"',
        ),
        (
            SPREAD,
            {"defaultingType": "List", "defaultConstraints": [DEFAULT | {"topologyKey": ""}]},
            "defaultConstraints[0].topologyKey: Required value: can not be empty",
        ),
        (
            "VolumeBinding",
            {"bindTimeoutSeconds": -1},
            "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
        ),
        (
            "DynamicResources",
            {"filterTimeout": "-1s"},
            'filterTimeout: Invalid value: "-1s": must be zero or positive',
        ),
        (
            "DynamicResources",
            {"bindingTimeout": "500ms"},
            'bindingTimeout: Invalid value: "500ms": must be at least 1 second',
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 101},
            "profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: "
            "Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            "Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute",
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused(name: str, args: Obj, message: str) -> None:
    assert refusal(with_args(name, args)).endswith(message)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], f"{RATIO}: Required value: at least one point must be specified"),
        ([(101, 5)], f"{RATIO}[0].utilization: Invalid value: 101: not in valid range [0, 100]"),
        ([(0, 0), (100, 11)], f"{RATIO}[1].score: Invalid value: 11: not in valid range [0, 10]"),
        (
            [(50, 0), (50, 10)],
            f"{RATIO}[1].utilization: Invalid value: 50: values must be sorted in increasing order",
        ),
    ],
)
def test_the_points_of_a_ratio_form_a_line(points: list[tuple[int, int]], message: str) -> None:
    shape = [{"utilization": utilisation, "score": score} for utilisation, score in points]
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}}
    assert refusal(with_args(FIT, {"scoringStrategy": strategy})).endswith(message)


# --- what becomes of the default profile ----------------------------------------------------------------------------


def test_nothing_said_is_the_default_profile() -> None:
    """getDefaultPlugins."""
    assert [profile.name for profile in load({"profiles": []}).profiles] == ["default-scheduler"]
    found = load().profiles[0]
    assert found.name == "default-scheduler"
    assert [plugin.name for plugin in found.post_filters] == ["DynamicResources", "DefaultPreemption"]
    assert [plugin.name for plugin in found.pre_binders] == ["VolumeBinding", "DynamicResources"]
    assert [plugin.name for plugin in found.binders] == ["DefaultBinder"]
    weights = {name: weight for name, weight in scoring(found).items() if weight != 1}
    assert weights == {"TaintToleration": 3, "NodeAffinity": 2, SPREAD: 2, AFFINITY: 2, "DynamicResources": 2}


def test_every_profile_has_its_own_plugins() -> None:
    plugins = {"filter": {"disabled": listed("NodePorts")}}
    default, packing = load(
        {"profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "portless", "plugins": plugins}]}
    ).profiles
    assert [default.name, packing.name] == ["default-scheduler", "portless"]
    assert filtering(default) - filtering(packing) == {"NodePorts"}


@pytest.mark.parametrize(
    ("plugins", "weight"),
    [
        ({}, 2),
        ({"score": {"enabled": [{"name": AFFINITY, "weight": 7}]}}, 7),
        ({"score": {"enabled": [{"name": AFFINITY}]}}, 2),
        ({"multiPoint": {"enabled": [{"name": AFFINITY, "weight": 5}]}}, 5),
        ({"multiPoint": {"enabled": [{"name": AFFINITY}]}}, 1),
        (
            {
                "multiPoint": {"enabled": [{"name": AFFINITY, "weight": 5}]},
                "score": {"enabled": [{"name": AFFINITY, "weight": 7}]},
            },
            7,
        ),
    ],
)
def test_a_weight_is_said_for_scores_or_for_all_points(plugins: Obj, weight: int) -> None:
    assert scoring(profile(plugins=plugins))[AFFINITY] == weight


def test_weights_count_in_the_choice() -> None:
    """The same plugin, once with its default weight and once with ten."""
    cluster = Cluster(node("n1"), node("n2"), profile=profile())
    preferred = [{"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In",
                  "values": ["n2"]}]}}]  # fmt: skip
    newcomer = pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})
    assert cluster.scores(newcomer, "NodeAffinity") == {"n1": 0, "n2": 200}
    plugins = {"score": {"enabled": [{"name": "NodeAffinity", "weight": 10}]}}
    heavier = Cluster(node("n1"), node("n2"), profile=profile(plugins=plugins))
    assert heavier.scores(newcomer, "NodeAffinity") == {"n1": 0, "n2": 1000}


def test_a_plugin_is_disabled_for_one_point_alone() -> None:
    found = profile(plugins={"filter": {"disabled": listed("TaintToleration")}})
    assert "TaintToleration" not in filtering(found)
    assert scoring(found)["TaintToleration"] == 3


def test_a_plugin_is_disabled_everywhere() -> None:
    found = profile(plugins={"multiPoint": {"disabled": listed("TaintToleration")}})
    assert "TaintToleration" not in {plugin.name for plugin in found.all}


def test_a_star_disables_all_but_those_that_are_enabled() -> None:
    scores = profile(plugins={"score": {"disabled": listed("*"), "enabled": [{"name": FIT, "weight": 4}]}})
    assert scoring(scores) == {FIT: 4}
    assert filtering(scores) == filtering(profile())
    everywhere = profile(plugins={"multiPoint": {"disabled": listed("*"), "enabled": listed(FIT, "NodePorts", BINDER)}})
    assert [plugin.name for plugin in everywhere.all] == [FIT, "NodePorts", BINDER]
    assert scoring(everywhere)[FIT] == 1


@pytest.mark.parametrize(
    ("plugins", "preempts"),
    [
        ({}, True),
        ({"postFilter": {"disabled": listed("DefaultPreemption")}}, False),
        ({"postFilter": {"disabled": listed("*")}}, False),
        ({"multiPoint": {"disabled": listed("DefaultPreemption")}}, False),
        ({"multiPoint": {"disabled": listed("*"), "enabled": listed(FIT, BINDER)}}, False),
        ({"multiPoint": {"disabled": listed("*"), "enabled": listed(FIT, "DefaultPreemption", BINDER)}}, True),
    ],
)
def test_preemption_is_a_plugin_too(plugins: Obj, preempts: bool) -> None:
    cluster = Cluster(node(pods=1), profile=profile(plugins=plugins))
    cluster.place(pod("old"), "n1")
    assert bool(getattr(cluster.preempt(pod(priority=1)), "victims", ())) is preempts


@pytest.mark.parametrize(
    ("plugins", "reason"),
    [
        ({}, "node(s) were unschedulable"),
        ({"filter": {"enabled": listed(FIT)}}, "Too many pods"),
        (
            {"filter": {"enabled": listed("NodePorts", FIT)}},
            "node(s) didn't have free ports for the requested pod ports",
        ),
        ({"multiPoint": {"enabled": listed(FIT)}}, "node(s) were unschedulable"),
        ({"multiPoint": {"disabled": listed("NodeUnschedulable"), "enabled": listed("NodeUnschedulable")}}, "ports"),
    ],
)
def test_filters_that_are_listed_are_asked_first(plugins: Obj, reason: str) -> None:
    """The node is cordoned, and has neither the port nor room for a pod."""
    cluster = Cluster(node(pods=1, unschedulable=True), profile=profile(plugins=plugins))
    cluster.place(pod("old", ports=[80]), "n1")
    assert reason in cluster.message(pod(ports=[80]))


@pytest.mark.parametrize(
    ("plugins", "advice"),
    [
        ({"postFilter": {"disabled": listed("*")}}, ""),
        ({"postFilter": {"disabled": listed("DefaultPreemption")}}, " no new claims to deallocate"),
        (
            {"postFilter": {"disabled": listed("*"), "enabled": listed("DefaultPreemption")}},
            " preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
    ],
)
def test_who_is_asked_for_room_says_what_came_of_it(plugins: Obj, advice: str) -> None:
    cluster = Cluster(node(pods=1), profile=profile(plugins=plugins))
    cluster.place(pod("old"), "n1")
    assert cluster.message(pod(), whole=True) == f"0/1 nodes are available: 1 Too many pods.{advice}"


def test_plugins_of_a_point_are_asked_in_the_order_in_which_they_are_listed() -> None:
    """The messages of both are told, in that order."""
    turned = {"postFilter": {"disabled": listed("*"), "enabled": listed("DefaultPreemption", "DynamicResources")}}
    cluster = Cluster(node(pods=1), profile=profile(plugins=turned))
    cluster.place(pod("old"), "n1")
    assert cluster.message(pod(), whole=True).endswith("for incoming pod., no new claims to deallocate")


def test_a_profile_that_binds_nobody_is_refused() -> None:
    why = 'at least one bind plugin is needed for profile with scheduler name "default-scheduler"'
    assert refusal({"profiles": [{"plugins": {"bind": {"disabled": listed("*")}}}]}) == why
    assert refusal({"profiles": [{"plugins": {"multiPoint": {"disabled": listed(BINDER)}}}]}) == why


def test_arguments_reach_their_plugin() -> None:
    """hardPodAffinityWeight 0: what others require to be near draws nobody."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    old = pod("old", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    found = []
    for weight in (1, 0):
        config = [{"name": AFFINITY, "args": {"hardPodAffinityWeight": weight}}]
        cluster = Cluster(node("n1"), node("n2"), profile=profile(pluginConfig=config))
        cluster.place(old, "n1")
        found.append(cluster.scores(pod(), AFFINITY))
    assert found == [{"n1": 200, "n2": 0}, {"n1": 0, "n2": 0}]


def test_preferences_of_existing_pods_may_be_ignored_for_pods_without_their_own() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    weighted = [{"weight": 1, "podAffinityTerm": term}]
    fond = pod("old", affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}})
    config = [{"name": AFFINITY, "args": {"ignorePreferredTermsOfExistingPods": True}}]
    cluster = Cluster(node("n1"), node("n2"), profile=profile(pluginConfig=config))
    cluster.place(fond, "n1")
    assert cluster.scores(pod(), AFFINITY) == {"n1": 0, "n2": 0}


def test_an_extender_says_https_as_kubernetes_spells_it() -> None:
    (extender,) = load({"extenders": [{"urlPrefix": "https://x", "enableHTTPS": True}]}).settings.extenders
    assert extender.enable_https


def test_resources_that_an_extender_counts_need_not_fit() -> None:
    extender = {"urlPrefix": "http://x", "managedResources": [{"name": "test.dev/gpu", "ignoredByScheduler": True}]}
    cluster = Cluster(node(), profile=load({"extenders": [extender]}).profiles[0])
    assert cluster.feasible(pod(gpu=1)) == {"n1"}
    assert Cluster(node()).feasible(pod(gpu=1)) == set()
