"""Queues of other batch systems in a dump are what the arbitrator divides by; what cannot be mapped is told."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.objects import Obj
from fairlead.study.queues.reading import admit, queues_of, stuck

KUEUE = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: Cohort
metadata: {name: research}
spec: {fairSharing: {weight: "2"}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: team-a}
spec:
  cohort: research
  preemption: {reclaimWithinCohort: Any}
  flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: TryNextFlavor}
  namespaceSelector: {}
  stopPolicy: None
  fairSharing: {weight: 500m}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: spot
      resources: [{name: cpu, nominalQuota: 6, borrowingLimit: 4}, {name: memory, nominalQuota: 10Gi}]
    - name: fixed
      resources: [{name: cpu, nominalQuota: 3, borrowingLimit: 1}, {name: memory, nominalQuota: 6Gi}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: main, namespace: alice}
spec: {clusterQueue: team-a}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: main, namespace: bob}
spec: {clusterQueue: gone}
"""
VOLCANO = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: batch}
spec: {weight: 3, reclaimable: false, capability: {cpu: "20"}, guarantee: {resource: {cpu: "4"}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: one, namespace: etl}
spec: {queue: batch}
"""
YUNIKORN = """
apiVersion: v1
kind: Namespace
metadata: {name: spark}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: yunikorn-configs, namespace: yunikorn}
data:
  queues.yaml: |
    partitions:
    - name: default
      placementrules: [{name: tag}]
      queues:
      - name: root
        queues:
        - name: data
          resources: {guaranteed: {memory: 100G, vcore: 10}, max: {vcore: 20}}
          queues: [{name: spark, maxapplications: 5, resources: {max: {vcore: 8}}}]
"""


def read(text: str) -> tuple[dict[str, Obj], list[str]]:
    objects, notes = queues_of(list(yaml.safe_load_all(text)))
    named: dict[str, Any] = {}
    for obj in objects:
        meta = obj["metadata"]
        named[meta.get("namespace") or meta["name"]] = obj["spec"]
    return named, notes


def test_cluster_queues_of_kueue_become_groups_of_their_cohort() -> None:
    found, notes = read(KUEUE)
    assert found == {
        "cohort-research": {"weight": 200, "hard": {"requests.cpu": "9", "requests.memory": "16Gi"}},
        "queue-team-a": {
            "weight": 50,
            "parent": "cohort-research",
            "reserved": {"requests.cpu": "9", "requests.memory": "16Gi"},
            "hard": {"requests.cpu": "14"},
        },
        "alice": {"parent": "queue-team-a"},
    }
    assert notes == [
        "Kueue: 2 groups and 1 namespaces are divided by",
        "ClusterQueue team-a: preemption could not be mapped",
        "LocalQueue bob/main: its ClusterQueue is not in the dump",
    ]


HELD_BACK = """
apiVersion: batch/v1
kind: Job
metadata: {name: queued, namespace: alice, labels: {kueue.x-k8s.io/queue-name: main}}
spec: {suspend: true}
---
apiVersion: batch/v1
kind: Job
metadata: {name: stopped, namespace: alice, labels: {kueue.x-k8s.io/queue-name: main}}
spec: {suspend: true}
---
apiVersion: batch/v1
kind: Job
metadata: {name: not-in-a-queue, namespace: alice}
spec: {suspend: true}
---
apiVersion: v1
kind: Pod
metadata: {name: gated, namespace: alice, labels: {kueue.x-k8s.io/queue-name: main}}
spec: {schedulingGates: [{name: kueue.x-k8s.io/admission}, {name: example.com/mine}]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Workload
metadata: {name: job-stopped, namespace: alice, ownerReferences: [{kind: Job, name: stopped}]}
spec: {active: false}
"""


def test_a_cohort_of_kueue_has_what_its_queues_have_together_and_what_it_may_borrow() -> None:
    quotas = "resourceGroups: [{flavors: [{resources: [{name: cpu, nominalQuota: %s}]}]}]"
    kind = "apiVersion: kueue.x-k8s.io/v1beta1, kind"
    cohort = "{" + kind + ": Cohort, metadata: {name: inner}, spec: {parentName: outer, %s}}"
    queue = "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, metadata: {name: %s}, spec: {cohort: %s, %s}}"
    text = [
        cohort % (quotas % "4, borrowingLimit: 2"),
        queue % ("a", "inner", quotas % "9, lendingLimit: 1"),
        queue % ("b", "outer", quotas % "12"),
    ]
    found, notes = read("\n---\n".join(text))
    assert found["cohort-inner"]["reserved"] == {"requests.cpu": "13"}
    assert found["cohort-inner"]["hard"] == {"requests.cpu": "15"}
    assert found["cohort-inner"]["parent"] == "cohort-outer"
    assert found["cohort-outer"] == {"weight": 100, "hard": {"requests.cpu": "25"}}
    assert notes[1:] == ["ClusterQueue a: lendingLimit could not be mapped"]


def test_what_kueue_holds_back_goes_on_where_the_arbitrator_divides() -> None:
    """But not a Job that somebody has stopped, nor one that no queue has suspended."""
    objects: list[Obj] = list(yaml.safe_load_all(KUEUE + "---" + HELD_BACK))
    assert stuck(objects) == "; without it 1 Job and 1 pod wait for Kueue for ever"
    assert admit(objects) == ["Kueue: 1 Job and 1 pod that it holds back go on: the arbitrator decides when"]
    specs = {obj["metadata"]["name"]: obj["spec"] for obj in objects}
    suspended = {name: specs[name]["suspend"] for name in ("queued", "stopped", "not-in-a-queue")}
    assert suspended == {"queued": False, "stopped": True, "not-in-a-queue": True}
    assert specs["gated"]["schedulingGates"] == [{"name": "example.com/mine"}]
    assert (stuck(objects), admit(objects)) == ("", [])


def test_queues_of_volcano_become_groups_and_pod_groups_say_who_is_in_them() -> None:
    found, notes = read(VOLCANO)
    assert found == {
        "queue-batch": {"weight": 3, "reserved": {"requests.cpu": "4"}, "hard": {"requests.cpu": "20"}},
        "etl": {"parent": "queue-batch"},
    }
    assert "Queue batch: reclaimable: false could not be mapped" in notes


def test_of_volcano_gangs_closed_queues_and_queues_that_are_missing_are_told() -> None:
    kind = "{apiVersion: scheduling.volcano.sh/v1beta1, kind: %s, metadata: {name: %s, namespace: %s}, %s}"
    text = [
        kind % ("Queue", "old", "''", "spec: {priority: 5, capability: {pods: 9}}, status: {state: Closed}"),
        kind % ("PodGroup", "one", "etl", "spec: {queue: old, minMember: 12}"),
        kind % ("PodGroup", "two", "web", "spec: {queue: gone}"),
    ]
    _, notes = read("\n---\n".join(text))
    assert notes[1:] == [
        "Queue old: priority, the quota of pods could not be mapped",
        "Queue old is closed: that nothing new comes into it could not be mapped",
        "namespace web: its queue gone is not in the dump",
        "1 PodGroup: minMember could not be mapped: pods are placed one by one",
    ]


def test_of_yunikorn_queues_of_nobody_and_amounts_that_are_none_are_told() -> None:
    leaf = "{name: bob, resources: {max: {vcore: many, memory: 1Gi, pods: 30}}}"
    found, notes = read(YUNIKORN.replace("[{name: spark,", f"[{leaf}, {{name: spark,"))
    assert found["queue-data-bob"]["hard"] == {"requests.memory": "1Gi"}
    assert "queue data.bob: cpu: many, pods: 30 could not be mapped" in notes
    assert "queue data.bob: no namespace is called like it, so who is in it is not known" in notes


def test_the_tree_of_yunikorn_becomes_groups_and_its_leaves_namespaces() -> None:
    found, notes = read(YUNIKORN)
    assert found == {
        "queue-data": {
            "reserved": {"requests.memory": "100G", "requests.cpu": "10"},
            "hard": {"requests.cpu": "20"},
        },
        "spark": {"parent": "queue-data", "hard": {"requests.cpu": "8"}},
    }
    assert "partition default: placement rules could not be mapped" in notes
    assert "queue data.spark: maxapplications could not be mapped" in notes


_NONSENSE: tuple[Any, ...] = (
    "x",
    7,
    -1,
    1e400,
    "1e30",
    None,
    [],
    ["x"],
    {},
    {"name": ["x"]},
    [[{"name": 5}]],
    [{"queues": 5}],
)
_KINDS = {
    "kueue.x-k8s.io/v1beta1": ("Cohort", "ClusterQueue", "LocalQueue", "Workload"),
    "batch/v1": ("Job", "Pod"),
    "scheduling.volcano.sh/v1beta1": ("Queue", "PodGroup"),
}
_FIELDS = (
    *("parentName", "cohort", "fairSharing", "resourceGroups", "clusterQueue"),
    *("parent", "weight", "guarantee", "capability", "queue", "schedulingGates"),
)


@given(st.data())
def test_whatever_queues_say_something_is_made_of_them(data: st.DataObject) -> None:
    """A dump may be anybody's: what makes no sense is as if it were not said."""
    nonsense = st.sampled_from(_NONSENSE)
    deep = st.one_of(nonsense, st.fixed_dictionaries({"flavors": nonsense, "resource": nonsense, "weight": nonsense}))
    held = st.sampled_from([{"suspend": True}, {"active": False}, {"schedulingGates": [{"name": "kueue.x-k8s.io/a"}]}])
    spec = st.one_of(
        nonsense, held, st.dictionaries(st.sampled_from(_FIELDS), st.one_of(deep, st.lists(deep, max_size=2)))
    )
    queued = {"kueue.x-k8s.io/queue-name": "q"}
    named = {"name": nonsense, "labels": st.one_of(nonsense, st.just(queued))}
    owned = st.fixed_dictionaries(named | {"ownerReferences": st.lists(st.fixed_dictionaries(named), max_size=1)})
    meta = st.one_of(st.just({"name": "a", "namespace": "b", "labels": queued}), st.just({}), owned)
    objects = [
        {"apiVersion": version, "kind": kind, "metadata": data.draw(meta), "spec": data.draw(spec)}
        for version, kinds in _KINDS.items()
        for kind in kinds
    ]
    tree = st.one_of(nonsense, st.fixed_dictionaries({"name": nonsense, "queues": deep, "resources": deep}))
    document = {"partitions": data.draw(st.one_of(nonsense, st.lists(st.fixed_dictionaries({"queues": tree}))))}
    text = data.draw(st.one_of(nonsense, st.just(yaml.safe_dump(document))))
    meta_of_map = {"name": "yunikorn-configs"}
    objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta_of_map, "data": {"queues.yaml": text}})
    objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": data.draw(meta)})
    found, _ = queues_of(objects)
    admit(objects)
    assert stuck(objects) == ""
    assert all(isinstance(obj["metadata"]["name"], str) for obj in found)


def test_a_dump_without_queues_has_none() -> None:
    assert read("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n") == ({}, [])
