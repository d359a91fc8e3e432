"""What a dump lacks is said before a run."""

from __future__ import annotations

from fairlead.study.dump_notes import notes
from tests.study.clusters import deployment, namespace, node, quota
from tests.study.real_clusters import autoscaler


def test_a_whole_dump_lacks_only_what_a_cluster_may_not_have() -> None:
    objects = [namespace("default"), node("a"), quota("q", "default", pods="9"), *deployment("web", ["a"])]
    (lacking,) = notes(objects)
    assert "PodDisruptionBudget (what budgets forbid)" in lacking
    assert "ResourceQuota" not in lacking


def test_pods_without_owner_or_node_and_objects_that_come_twice_are_named() -> None:
    pods = deployment("web", ["a", "gone"])[2:]
    found = notes([node("a"), *pods, pods[0]])
    assert found[0] == "Pod web-5f6d7c8b9-00000 came twice: the first counts"
    assert found[1] == "3 objects belong to a ReplicaSet that is not in the dump: nobody makes them anew"
    assert found[2] == ("the node of default/web-5f6d7c8b9-00001 is not in the dump: such pods are lost with it")


def test_pods_that_ask_for_devices_of_which_the_dump_says_nothing_are_told_of() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    objects = [node("a"), *deployment("web", ["a"]), *deployment("learn", ["a"], resourceClaims=claims)]
    (found,) = [note for note in notes(objects) if "devices" in note]
    assert found.startswith(
        "3 objects ask for devices by resourceClaims, and the dump has no DeviceClass and no Resour"
    )
    offered = [{"kind": kind, "metadata": {"name": "d"}} for kind in ("DeviceClass", "ResourceSlice")]
    assert not [note for note in notes([*objects, *offered]) if "devices" in note]


def test_priority_classes_that_pods_name_and_the_dump_lacks_are_told_of() -> None:
    known = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "known"}, "value": 7}
    objects = [node("a"), known, *deployment("web", ["a"], priorityClassName="gold")]
    objects += [*deployment("db", ["a"], priorityClassName="known"), *deployment("job", [], priorityClassName="tin")]
    for pod in objects:
        if pod["kind"] == "Pod" and pod["spec"]["priorityClassName"] == "gold":
            pod["spec"]["priority"] = 1000
    (found,) = [note for note in notes(objects) if "PriorityClass" in note and "nothing in the dump" not in note]
    assert found.startswith("the PriorityClass gold (1000), tin (0) is not in the dump: its value is that of its pods")


def test_autoscalers_by_metrics_of_others_are_told_of() -> None:
    metric = {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "5"}}}
    by_cpu, by_queue = autoscaler("web", "shop", 2), autoscaler("etl", "shop", 2)
    by_queue["spec"]["metrics"].append(metric)
    (found,) = [note for note in notes([node("a"), by_cpu, by_queue]) if "metrics" in note]
    assert found == "the autoscaler of shop/etl follows metrics that are not played (Pods, Object, External)"


def test_nothing_is_said_of_no_dump() -> None:
    assert notes([]) == []
