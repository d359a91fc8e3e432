"""The plugins that `--enable-admission-plugins` switches on: what each changes and refuses, in whose words."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CONFIG_MAPS, PODS
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.api.verbs import WriteOptions
from fairlead.runtime.loops import run_virtual
from fairlead.server.admission.always import AlwaysAdmit, AlwaysDeny
from fairlead.server.admission.base import Attributes, Operation
from fairlead.server.admission.external_ips import DenyServiceExternalIPs
from fairlead.server.admission.namespace_defaults import PodNodeSelector, PodTolerationRestriction
from fairlead.server.admission.namespace_existence import NamespaceExists
from fairlead.server.admission.pod_policies import (
    AlwaysPullImages,
    ExtendedResourceToleration,
    LimitPodHardAntiAffinityTopology,
)
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore
from tests.server.admission_world import SERVICES, World, admit, change, container, creation, pod

ANNOTATION = "scheduler.alpha.kubernetes.io/"


def refusal(plugin: Any, attributes: Attributes) -> tuple[int, str]:
    with pytest.raises(ApiError) as refused:
        admit(plugin, attributes)
    return refused.value.code, refused.value.message


def namespace(**annotations: str) -> World:
    named = {ANNOTATION + key.replace("_", "-"): value for key, value in annotations.items()}
    return World().put("namespaces", {"metadata": {"name": "ns", "annotations": named}})


# -- PodTolerationRestriction

SPOT = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
PRESSURE = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}
SPOT_TEXT = '[{"Key": "spot", "operator": "Exists", "effect": "NoSchedule"}]'


def tolerations(world: World, obj: Obj) -> list[Obj]:
    found: list[Obj] = admit(PodTolerationRestriction(world.dependencies), creation(obj))["spec"].get("tolerations", [])
    return found


def test_a_pod_gets_the_tolerations_of_its_namespace_unless_it_has_wider_ones() -> None:
    world = namespace(defaultTolerations=SPOT_TEXT)
    everything = {"operator": "Exists"}
    assert tolerations(world, pod()) == [SPOT]
    assert tolerations(world, pod(tolerations=[{"key": "a", "operator": "Exists"}])) == [
        {"key": "a", "operator": "Exists"},
        SPOT,
    ]
    assert tolerations(world, pod(tolerations=[everything])) == [everything]
    assert tolerations(namespace(), pod()) == []
    assert tolerations(namespace(defaultTolerations=""), pod()) == []


def test_pods_that_request_something_tolerate_memory_pressure() -> None:
    assert tolerations(namespace(), pod(containers=[container(requests={"cpu": "1"})])) == [PRESSURE]


def test_only_tolerations_of_the_whitelist_are_allowed() -> None:
    world = namespace(tolerationsWhitelist=SPOT_TEXT)
    narrow = {"key": "spot", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
    assert tolerations(world, pod(tolerations=[narrow])) == [narrow]
    assert tolerations(world, pod()) == []
    expected = (
        500,
        "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist",
    )
    plugin = PodTolerationRestriction(world.dependencies)
    assert refusal(plugin, creation(pod(tolerations=[narrow, {"key": "other", "operator": "Exists"}]))) == expected
    assert refusal(plugin, change(pod(), pod(tolerations=[{"operator": "Exists"}]))) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "json: cannot unmarshal object into Go value of type []v1.Toleration"),
        (
            '[{"effect": 1}]',
            "json: cannot unmarshal number into Go struct field Toleration.effect of type v1.TaintEffect",
        ),
    ],
)
def test_tolerations_that_cannot_be_read_are_told(text: str, message: str) -> None:
    plugin = PodTolerationRestriction(namespace(defaultTolerations=text).dependencies)
    assert refusal(plugin, creation(pod())) == (500, message)


# -- PodNodeSelector


def test_a_pod_selects_what_its_namespace_selects() -> None:
    plugin = PodNodeSelector(namespace(node_selector="zone=a, disk = ssd").dependencies)
    spec = admit(plugin, creation(pod(nodeSelector={"disk": "ssd", "own": "1"})))["spec"]
    assert spec["nodeSelector"] == {"zone": "a", "disk": "ssd", "own": "1"}
    assert refusal(plugin, creation(pod(nodeSelector={"zone": "b"}))) == (
        403,
        'pods "p" is forbidden: pod node label selector conflicts with its namespace node label selector',
    )
    assert "nodeSelector" not in admit(PodNodeSelector(namespace().dependencies), creation(pod()))["spec"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zone", "invalid selector: [zone]"),
        ("a=b=c", "invalid selector: [a b c]"),
        ("a=!", '[a]: Invalid value: "!": a valid label must be an empty string or consist of alphanumeric characters'),
        ("=b", '<nil>: Invalid value: "": name part must be non-empty'),
    ],
)
def test_a_selector_that_cannot_be_read_is_told(text: str, message: str) -> None:
    code, told = refusal(PodNodeSelector(namespace(node_selector=text).dependencies), creation(pod()))
    assert (code, told[: len(message)]) == (500, message)


# -- pods


def test_images_are_always_pulled_also_by_init_containers_and_volumes() -> None:
    plugin = AlwaysPullImages(World().dependencies)
    volume = {"name": "v", "image": {"reference": "r", "pullPolicy": "Never"}}
    obj = pod(
        containers=[{"name": "c", "image": "i", "imagePullPolicy": "Never"}],
        initContainers=[{"name": "d", "image": "i"}],
        volumes=[volume],
    )
    spec = admit(plugin, creation(obj))["spec"]
    policies = [spec[field][0]["imagePullPolicy"] for field in ("containers", "initContainers")]
    assert (policies, spec["volumes"][0]["image"]["pullPolicy"]) == (["Always", "Always"], "Always")


def test_who_undoes_it_is_refused_and_a_pod_that_was_there_keeps_its_images() -> None:
    plugin = AlwaysPullImages(World().dependencies)
    never = pod(containers=[{"name": "c", "image": "i", "imagePullPolicy": "Never"}])
    with pytest.raises(ApiError) as refused:
        run_virtual(plugin.validate(creation(never)))
    assert refused.value.message == (
        'pods "p" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: "Never": '
        'supported values: "Always"'
    )
    assert admit(plugin, change(never, never))["spec"]["containers"][0]["imagePullPolicy"] == "Never"


def test_who_asks_for_a_device_tolerates_its_taint() -> None:
    plugin = ExtendedResourceToleration(World().dependencies)
    asking = [container(requests={"cpu": "1", "b.com/gpu": "1", "a.com/fpga": "2"})]
    present = {"key": "b.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    added = {"key": "a.com/fpga", "operator": "Exists", "effect": "NoSchedule"}
    spec = admit(plugin, creation(pod(containers=asking, tolerations=[present])))["spec"]
    assert spec["tolerations"] == [present, added]
    assert "tolerations" not in admit(plugin, creation(pod(containers=[container(requests={"cpu": "1"})])))["spec"]


def anti_affinity(key: str) -> Obj:
    terms = [{"topologyKey": "kubernetes.io/hostname"}, {"topologyKey": key}]
    return pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def test_required_anti_affinity_is_about_nodes_alone() -> None:
    plugin = LimitPodHardAntiAffinityTopology(World().dependencies)
    admit(plugin, creation(anti_affinity("kubernetes.io/hostname")))
    assert refusal(plugin, creation(anti_affinity("zone"))) == (
        403,
        'pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone '
        "but only key kubernetes.io/hostname is allowed",
    )


# -- services, namespaces, everything


def service(*addresses: str) -> Obj:
    return {"metadata": {"name": "s", "namespace": "ns"}, "spec": {"externalIPs": list(addresses)}}


def test_a_service_keeps_the_external_addresses_that_it_has_and_gets_no_more() -> None:
    plugin = DenyServiceExternalIPs(World().dependencies)
    admit(plugin, creation(service(), SERVICES))
    admit(plugin, change(service("1.1.1.1", "2.2.2.2"), service("2.2.2.2"), SERVICES))
    expected = (403, 'services "s" is forbidden: Use of external IPs is denied by admission control')
    assert refusal(plugin, creation(service("1.1.1.1"), SERVICES)) == expected
    assert refusal(plugin, change(service("1.1.1.1"), service("1.1.1.1", "2.2.2.2"), SERVICES)) == expected


def test_what_is_left_of_a_missing_namespace_is_not_written() -> None:
    plugin = NamespaceExists(World().dependencies)
    for attributes in (creation(pod()), change(pod(), pod()), Attributes(Operation.DELETE, PODS, "ns", "p", pod())):
        assert refusal(plugin, attributes) == (404, 'namespaces "ns" not found')
        admit(NamespaceExists(namespace().dependencies), attributes)


def test_always_is_always() -> None:
    admit(AlwaysAdmit(World().dependencies), creation(pod()))
    for operation in Operation:
        attributes = Attributes(operation, PODS, "ns", "p", pod(), subresource="status")
        assert refusal(AlwaysDeny(World().dependencies), attributes) == (
            403,
            'pods "p" is forbidden: admission control is denying all modifications',
        )


# -- with a server


def test_a_namespace_is_made_for_what_is_made_in_it() -> None:
    async def test() -> None:
        server = Server(MemoryStore())
        await server.open(enabled_admission=["NamespaceAutoProvision"])
        made = {"metadata": {"name": "c"}}
        with pytest.raises(NotFound):
            await server.api.create(CONFIG_MAPS, made, "tried", options=WriteOptions(dry_run=True))
        assert server.registry.find("namespaces", "tried") is None
        await server.api.create(CONFIG_MAPS, made, "made")
        found = server.registry.find("namespaces", "made")
        assert found is not None
        assert found.obj()["status"]["phase"] == "Active"
        with pytest.raises(ApiError) as refused:
            await server.api.create(CONFIG_MAPS, made, "Not_A_Name")
        assert (refused.value.code, "metadata.name: Invalid value" in refused.value.message) == (403, True)

    run_virtual(test())


WRITES = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update"]}
DELETES = WRITES | {"verbs": ["create", "delete"]}
HOLDS_UP = {"apiGroups": [""], "resources": ["pods/finalizers"], "verbs": ["update"], "resourceNames": ["mine"]}
CANNOT_DELETE = "cannot set an ownerRef on a resource you can't delete: , <nil>"


def config(kind: str = "", name: str = "mine", *, blocks: bool = False) -> Obj:
    """A ConfigMap, with an owner of that kind."""
    owner = {"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "blockOwnerDeletion": blocks}
    return {"metadata": {"name": "c", "namespace": "default", "ownerReferences": [owner] if kind else []}}


@pytest.mark.parametrize(
    ("rule", "obj", "message"),
    [
        (WRITES, config(), ""),
        (WRITES, config("Pod"), CANNOT_DELETE),
        (DELETES, config("Pod"), ""),
        (DELETES, config("Pod", blocks=True), ""),
        (
            DELETES,
            config("Pod", "other", blocks=True),
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: "
            ", <nil>",
        ),
        (
            DELETES,
            config("Sock", blocks=True),
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Sock: "
            'no matches for kind "Sock" in version "v1"',
        ),
    ],
)
def test_who_names_an_owner_needs_the_right_to_delete_and_to_hold_up(rule: Obj, obj: Obj, message: str) -> None:
    async def test() -> None:
        server = await enforcing_owners(rule)
        jane = server.registry.as_user(User("jane"))
        if message:
            with pytest.raises(ApiError) as refused:
                await jane.create(CONFIG_MAPS, obj, "default")
            assert refused.value.message == f'configmaps "c" is forbidden: {message}'
        else:
            await jane.create(CONFIG_MAPS, obj, "default")

    run_virtual(test())


def test_who_changes_owners_is_asked_and_who_changes_something_else_is_not() -> None:
    async def test() -> None:
        server = await enforcing_owners(WRITES)
        jane = server.registry.as_user(User("jane"))
        await server.api.create(CONFIG_MAPS, config("Pod", blocks=True), "default")
        await jane.update(CONFIG_MAPS, config("Pod", blocks=True) | {"data": {"a": "b"}})
        with pytest.raises(ApiError) as refused:
            await jane.update(CONFIG_MAPS, config())
        assert refused.value.message == f'configmaps "c" is forbidden: {CANNOT_DELETE}'

    run_virtual(test())


async def enforcing_owners(rule: Obj) -> Server:
    """A server on which jane may do what the rule says, and hold up the pod `mine`."""
    server = Server(MemoryStore())
    await server.open(enabled_admission=["OwnerReferencesPermissionEnforcement"])
    await server.api.create(CLUSTER_ROLES, {"metadata": {"name": "jane"}, "rules": [rule, HOLDS_UP]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "jane"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]
    binding = {"metadata": {"name": "jane"}, "roleRef": reference, "subjects": subjects}
    await server.api.create(CLUSTER_ROLE_BINDINGS, binding)
    return server
