"""What people may write into the arbitrator's kinds, and what they are told of the rest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.fields import aggregated
from fairlead.api.nodes import Node
from fairlead.api.quota_scopes import ResourceQuota
from fairlead.arbitrator import amount_rules
from fairlead.arbitrator.group_tree import MOST_LEVELS
from fairlead.arbitrator.objects import Consumer, ConsumerGroup
from fairlead.arbitrator.review import Review, ReviewContext, review

Obj = dict[str, Any]

NAMES = "must be a compute or storage resource of quotas, such as requests.cpu"
FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def consumer(namespace: str = "a", name: str = "defaults", **spec: Any) -> Obj:
    return {"kind": "Consumer", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def group(name: str, **spec: Any) -> Obj:
    return {"kind": "ConsumerGroup", "metadata": {"name": name}, "spec": spec}


def policy(name: str = "default", **spec: Any) -> Obj:
    return {"kind": "ArbitratorPolicy", "metadata": {"name": name}, "spec": spec}


def allocation(**spec: Any) -> Obj:
    return {"kind": "Allocation", "metadata": {"name": "defaults", "namespace": "a"}, "spec": spec}


def node(*, is_ready: bool = True, **allocatable: str) -> Obj:
    allocatable = {name.replace("_", "-"): text for name, text in allocatable.items()}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": str(is_ready)}]}
    return {"kind": "Node", "metadata": {"name": "n"}, "status": status}


def quota(name: str = "team", *, scopes: tuple[str, ...] = (), **hard: str) -> Obj:
    spec = {"hard": {key.replace("_", "."): text for key, text in hard.items()}, "scopes": list(scopes)}
    return {"kind": "ResourceQuota", "metadata": {"name": name, "namespace": "a"}, "spec": spec}


def context(*objects: Obj, counts_quotas: bool = True) -> ReviewContext:
    def of(kind: str) -> list[Obj]:
        return [obj for obj in objects if obj["kind"] == kind]

    return ReviewContext(
        nodes=lambda: [msgspec.convert(obj, Node) for obj in of("Node")],
        consumers=lambda: [msgspec.convert(obj, Consumer) for obj in of("Consumer")],
        groups=lambda: [msgspec.convert(obj, ConsumerGroup) for obj in of("ConsumerGroup")],
        quotas=lambda namespace: [msgspec.convert(obj, ResourceQuota) for obj in of("ResourceQuota")],
        counts_quotas=counts_quotas,
    )


TEN = node(cpu="10", memory="64Gi", pods="110")


def reviewed(obj: Obj, *existing: Obj, old: Obj | None = None) -> Review:
    return review(obj, old, context(TEN, *existing))


def wrong(obj: Obj, *existing: Obj, old: Obj | None = None) -> str:
    errors = reviewed(obj, *existing, old=old).errors
    return aggregated(errors) if errors else ""


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {
            "hard": {"requests.cpu": 1, "requests.memory": "1Gi", "limits.cpu": 2, "limits.memory": "2Gi"},
            "reserved": {"limits.memory": "1Gi"},
        },
        {"hard": {"cpu": "50%"}, "reserved": {"requests.cpu": "5"}},
        {"hard": {"cpu": "20.5%"}, "reserved": {"cpu": "20%"}},
        {"reserved": {"requests.storage": "5Ti", "gold.storageclass.storage.k8s.io/requests.storage": "1Ti"}},
        {"hard": {"requests.nvidia.com/gpu": 50, "hugepages-2Mi": "1Gi", "persistentvolumeclaims": 3}},
        {"weight": 0, "evictionGrace": "1m30s", "minRuntime": "0s"},
    ],
)
def test_what_makes_sense_passes(spec: Obj) -> None:
    assert wrong(consumer(**spec)) == ""


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"hard": {"requests.cpu": "2"}, "reserved": {"requests.cpu": "3"}},
            'spec.reserved[requests.cpu]: Invalid value: "3": must be less than or equal to hard (2)',
        ),
        (
            {"hard": {"requests.cpu": "2"}, "reserved": {"cpu": 3}},
            'spec.reserved[cpu]: Invalid value: "3": must be less than or equal to hard (2)',
        ),
        (
            {"hard": {"cpu": "20%"}, "reserved": {"cpu": "2001m"}},
            'spec.reserved[cpu]: Invalid value: "2001m": must be less than or equal to hard (20%)',
        ),
        (
            {"hard": {"limits.memory": "10%"}, "reserved": {"limits.memory": "11%"}},
            'spec.reserved[limits.memory]: Invalid value: "11%": must be less than or equal to hard (10%)',
        ),
        ({"hard": {"pods": 3}}, f'spec.hard[pods]: Invalid value: "pods": {NAMES}'),
        ({"reserved": {"services": 3}}, f'spec.reserved[services]: Invalid value: "services": {NAMES}'),
        ({"hard": {"count/pods": 3}}, f'spec.hard[count/pods]: Invalid value: "count/pods": {NAMES}'),
        ({"hard": {"storage": "1Gi"}}, f'spec.hard[storage]: Invalid value: "storage": {NAMES}'),
        ({"hard": {"nvidia.com/gpu": 1}}, f'spec.hard[nvidia.com/gpu]: Invalid value: "nvidia.com/gpu": {NAMES}'),
        ({"hard": {"requests.a b/c": 1}}, f'spec.hard[requests.a b/c]: Invalid value: "requests.a b/c": {NAMES}'),
        (
            {"hard": {"cpu": 1, "requests.cpu": 1}},
            'spec.hard[requests.cpu]: Duplicate value: "requests.cpu": means the same as spec.hard[cpu]',
        ),
        ({"hard": {"cpu": "many"}}, f'spec.hard[cpu]: Invalid value: "many": {FORM}, or a percentage such as 50%'),
        ({"hard": {"cpu": "1m%"}}, f'spec.hard[cpu]: Invalid value: "1m%": {FORM}, or a percentage such as 50%'),
        ({"hard": {"cpu": "101%"}}, 'spec.hard[cpu]: Invalid value: "101%": must be between 0% and 100%'),
        ({"hard": {"cpu": "-1%"}}, 'spec.hard[cpu]: Invalid value: "-1%": must be between 0% and 100%'),
        ({"hard": {"cpu": -1}}, 'spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
        ({"hard": {"cpu": "1E"}}, 'spec.hard[cpu]: Invalid value: "1E": is more than can be counted'),
        (
            {"hard": {"requests.storage": "5%"}},
            'spec.hard[requests.storage]: Invalid value: "5%": '
            "must be a quantity: nodes have nothing of it to take a percentage of",
        ),
        ({"weight": -1}, "spec.weight: Invalid value: -1: must be greater than or equal to 0"),
        ({"minRuntime": "soon"}, 'spec.minRuntime: Invalid value: "soon": must be a duration such as 30s or 1m30s'),
        ({"evictionGrace": ""}, 'spec.evictionGrace: Invalid value: "": must be a duration such as 30s or 1m30s'),
        ({"weight": "heavy"}, "spec: Invalid value: Expected `int`, got `str` - at `$.weight`"),
    ],
)
def test_what_makes_no_sense_says_where_and_why(spec: Obj, text: str) -> None:
    """S2-14, S2-16."""
    assert wrong(consumer(**spec)) == text


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = reviewed(consumer(weight=-1, hard={"pods": 1, "cpu": "?"}, minRuntime="x")).errors
    assert [error.field for error in found] == ["spec.hard[cpu]", "spec.hard[pods]", "spec.weight", "spec.minRuntime"]


def test_a_namespace_has_one_consumer() -> None:
    why = "metadata.name: Invalid value: \"mine\": must be 'defaults': a namespace has one Consumer"
    assert wrong(consumer(name="mine")) == why


def test_hard_stays_within_the_quotas_of_all_pods() -> None:
    """S2-13."""
    why = 'spec.hard[cpu]: Invalid value: "5": must be less than or equal to 4, of ResourceQuota team'
    assert wrong(consumer(hard={"cpu": 5}), quota(requests_cpu="4")) == why
    assert wrong(consumer(hard={"cpu": 5}), quota(cpu="4")) == why
    assert wrong(consumer(hard={"cpu": "50%"}), quota(cpu="4")) == why.replace('"5"', '"50%"')
    assert wrong(consumer(hard={"cpu": 4}), quota(cpu="4")) == ""
    assert wrong(consumer(hard={"cpu": 5}), quota(limits_cpu="4")) == ""
    assert wrong(consumer(hard={"cpu": 5}), quota(cpu="4", scopes=("BestEffort",))) == ""
    assert wrong(consumer(), quota(cpu="4")) == ""  # without a bound of its own the quota is the bound


def test_a_quota_that_was_lowered_leaves_the_consumer_editable() -> None:
    """S2-48."""
    old, lowered = consumer(hard={"cpu": 5}), quota(cpu="4")
    assert wrong(consumer(hard={"cpu": 5}, weight=2), lowered, old=old) == ""
    assert "ResourceQuota" in wrong(consumer(hard={"cpu": 6}), lowered, old=old)


def test_guarantees_together_must_exist() -> None:
    """S2-15."""
    neighbour = consumer("b", reserved={"requests.cpu": "60%"})
    why = 'spec.reserved[cpu]: Invalid value: "5": all Consumers together would have 11 reserved, the cluster has 10'
    assert wrong(consumer(reserved={"cpu": 5}), neighbour) == why
    assert wrong(consumer(reserved={"cpu": 4}), neighbour, consumer("a", reserved={"cpu": 4})) == ""
    assert "the cluster has 0" in wrong(consumer(reserved={"requests.nvidia.com/gpu": 1}))
    assert wrong(consumer(reserved={"cpu": 5}, weight=3), neighbour, old=consumer(reserved={"cpu": 5})) == ""
    greedy = consumer(reserved={"cpu": 99})
    assert not review(greedy, None, context(TEN, counts_quotas=False)).errors
    assert not review(greedy, None, context()).errors  # no nodes yet
    assert not review(greedy, None, context(node(is_ready=False, cpu="10"))).errors


def test_groups_form_a_tree() -> None:
    why = 'spec.parent: Invalid value: "a": must not be the group itself'
    assert wrong(group("a", parent="a")) == why
    existing = (group("b", parent="c"), group("c", parent="a"))
    assert wrong(group("a", parent="b"), *existing) == (
        'spec.parent: Invalid value: "b": makes a circle: a in b in c in a'
    )
    assert wrong(group("d", parent="b"), *existing, group("a", parent="b")) == ""  # others' circle
    assert "spec.reserved[cpu]" in wrong(group("a", hard={"cpu": 1}, reserved={"cpu": 2}))


def test_groups_are_no_deeper_than_shares_are_worked_out() -> None:
    """Wherever in the chain the new link is."""
    chain = [group(f"g{number}", parent=f"g{number - 1}" if number else "") for number in range(MOST_LEVELS)]
    assert wrong(group("lowest", parent=f"g{MOST_LEVELS - 2}"), *chain) == ""
    why = f"makes {MOST_LEVELS + 1} levels of groups: at most {MOST_LEVELS} may be"
    assert why in wrong(group("lowest", parent=f"g{MOST_LEVELS - 1}"), *chain)
    assert why in wrong(group("g0", parent="highest"), *chain, group("highest"))
    assert wrong(group("g0", parent="missing"), *chain) == ""
    assert why in wrong(group("missing", parent="highest"), *chain[1:], group("g0", parent="missing"), group("highest"))


def test_a_parent_that_is_not_there_is_told_of() -> None:
    warning = 'spec.parent: there is no ConsumerGroup "zone" yet'
    for obj in (consumer(parent="zone"), group("a", parent="zone")):
        assert reviewed(obj).warnings == [warning]
        assert not reviewed(obj).errors
        assert reviewed(obj, group("zone")).warnings == []


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"cycle": "0s"}, 'spec.cycle: Invalid value: "0s": must be greater than 0'),
        ({"cycle": "often"}, 'spec.cycle: Invalid value: "often": must be a duration such as 30s or 1m30s'),
        ({"resources": ["cpu", "pods"]}, 'spec.resources[1]: Invalid value: "pods": pods are no resource to share'),
        ({"resources": ["cpu", "cpu"]}, 'spec.resources[1]: Duplicate value: "cpu"'),
        (
            {"resources": ["requests.cpu"]},
            'spec.resources[0]: Invalid value: "requests.cpu": must be a resource as nodes name it, such as cpu',
        ),
        (
            {"maxEvictionsPerCycle": -1},
            "spec.maxEvictionsPerCycle: Invalid value: -1: must be greater than or equal to 0",
        ),
        ({"resources": ["cpu", "memory", "nvidia.com/gpu"], "cycle": "500ms"}, ""),
    ],
)
def test_policies(spec: Obj, text: str) -> None:
    assert wrong(policy(**spec)) == text
    assert reviewed(policy(**spec)).warnings == []


def test_only_the_default_policy_counts() -> None:
    assert reviewed(policy("mine")).warnings == ["ArbitratorPolicy \"mine\" has no effect: only 'default' counts"]


def test_deserved_stays_within_hard() -> None:
    """S2-20: the sample of the documents, whose plain `cpu` means `requests.cpu`."""
    hard = {"requests.cpu": 1, "limits.cpu": 2}
    why = 'spec.deserved[cpu]: Invalid value: "1.5": must be less than or equal to hard (1)'
    assert wrong(allocation(hard=hard, deserved={"cpu": "1.5"})) == why
    assert wrong(allocation(hard=hard, deserved={"cpu": "1"})) == ""
    assert wrong(allocation(hard={"cpu": "1%"}, deserved={"cpu": "1"})) == ""  # of a cluster that may have shrunk
    assert NAMES in wrong(allocation(deserved={"pods": 1}))
    assert wrong(allocation(deserved={"requests.attachable-volumes": 1}), node(attachable_volumes="39")) == ""


def test_what_does_not_change_is_not_reviewed() -> None:
    bad = consumer(weight=-1)
    assert wrong(bad, old=bad) == ""


def test_tens_of_thousands_of_names_are_looked_at_a_few_times_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had been compared with all: the server stood still for an hour."""
    looked: list[str] = []

    def noted(name: str) -> str:
        looked.append(name)
        return amount_rules.full_name(name)

    monkeypatch.setattr("fairlead.arbitrator.review.full_name", noted)
    count = 300
    amounts = {f"requests.example.com/r{number}": "1" for number in range(count)}
    found = reviewed(consumer(hard=amounts, reserved=amounts), quota() | {"spec": {"hard": amounts}})
    assert "all Consumers together would have 1 reserved" in aggregated(found.errors)
    assert len(looked) <= 4 * count
