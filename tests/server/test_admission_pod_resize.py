from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.errors import Forbidden
from fairlead.api.objects import Obj
from fairlead.server.admission.base import AdmissionPlugin, Attributes
from fairlead.server.admission.pod_resize import NodeDeclaredFeatureValidator, PodResizeValidator
from tests.server.admission_world import World, admit, change, container, pod


def nodes(system: str = "linux", features: tuple[str, ...] = ()) -> World:
    return World().put(
        "nodes",
        {
            "metadata": {"name": "n", "labels": {"kubernetes.io/os": system}},
            "status": {"allocatable": {"cpu": "3800m", "memory": "7Gi"}, "declaredFeatures": list(features)},
        },
    )


def on(node: str = "n", cpu: str = "1", memory: str = "1Gi", **spec: Any) -> Obj:
    return pod(containers=[container("c", {"cpu": cpu, "memory": memory})], nodeName=node, **spec)


def resize(new: Obj, old: Obj | None = None) -> Attributes:
    return change(old or on(new["spec"]["nodeName"]), new, subresource="resize")


def refusal(plugin: AdmissionPlugin, attributes: Attributes) -> tuple[str, list[str]]:
    with pytest.raises(Forbidden) as refused:
        admit(plugin, attributes)
    why = refused.value.message.partition(" is forbidden: ")[2]
    return why, [cause.reason for cause in refused.value.causes]


def test_a_pod_may_grow_up_to_its_whole_node() -> None:
    admit(PodResizeValidator(nodes().dependencies), resize(on(cpu="3800m", memory="7Gi")))


@pytest.mark.parametrize(
    ("new", "excess"),
    [
        (on(cpu="3801m"), "cpu, requested: 3801, allocatable: 3800"),
        (on(memory="8Gi"), "memory, requested: 8589934592, allocatable: 7516192768"),
        (on(resources={"requests": {"cpu": "4"}}), "cpu, requested: 4000, allocatable: 3800"),
    ],
)
def test_a_pod_may_not_outgrow_its_node(new: Obj, excess: str) -> None:
    why = f"node didn't have enough allocatable resources: {excess}"
    assert refusal(PodResizeValidator(nodes().dependencies), resize(new)) == (why, ["NodeCapacity"])


def test_only_linux_nodes_resize() -> None:
    why = 'pod resize is only supported on linux nodes, node "n" is "windows"'
    plugin = PodResizeValidator(nodes("windows").dependencies)
    assert refusal(plugin, resize(on(cpu="2"))) == (
        why,
        ["UnsupportedPlatform"],
    )


def test_a_pod_on_an_unknown_node_is_not_resized() -> None:
    plugin = PodResizeValidator(nodes().dependencies)
    assert refusal(plugin, resize(on("ghost", cpu="2"))) == (
        'node "ghost" not found',
        [],
    )


def test_pods_without_node_or_change_are_not_looked_at() -> None:
    plugin = PodResizeValidator(World().dependencies)
    admit(plugin, resize(on(""), on("", cpu="2")))
    admit(plugin, resize(on()))


@pytest.mark.parametrize(
    ("old", "new", "feature"),
    [
        (on(), on(resources={"requests": {"cpu": "2"}}), "InPlacePodLevelResourcesVerticalScaling"),
        (
            on(initContainers=[container("i")]),
            on(initContainers=[container("i", {"cpu": "1"})]),
            "InPlacePodVerticalScalingInitContainers",
        ),
    ],
)
def test_some_resizes_need_a_feature_of_the_node(old: Obj, new: Obj, feature: str) -> None:
    why = f'pod update requires features {feature} which are not available on node "n"'
    assert refusal(NodeDeclaredFeatureValidator(nodes().dependencies), resize(new, old)) == (why, [])
    admit(NodeDeclaredFeatureValidator(nodes(features=(feature,)).dependencies), resize(new, old))


def test_resizing_containers_and_sidecars_needs_no_feature() -> None:
    plugin = NodeDeclaredFeatureValidator(nodes().dependencies)
    admit(plugin, resize(on(cpu="2")))
    before, after = (container("s", {"cpu": cpu}, restartPolicy="Always") for cpu in ("1", "2"))
    admit(plugin, resize(on(initContainers=[after]), on(initContainers=[before])))
