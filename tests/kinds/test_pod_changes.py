"""Changes of pods that exist: updates, resizes, ephemeral containers, bindings, statuses, deletions."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.api.errors import ApiError, Conflict, Unknown
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.pods import SUBRESOURCES, assign, check_binding
from tests.kinds.pod_world import STRATEGY, container, created, texts
from tests.work import growth

Change = Callable[[Obj], Any]

SMALL = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}


def changed(old: Obj, change: Change) -> Obj:
    new = copy.deepcopy(old)
    change(new)
    STRATEGY.default(new)
    return new


def update_refusals(old: Obj, change: Change) -> list[str]:
    errors = Errors()
    new = changed(old, change)
    STRATEGY.prepare_update(new, old)
    STRATEGY.validate_update(new, old, errors)
    return texts(errors)


def through(subresource: str, old: Obj, change: Change) -> tuple[Obj, list[str]]:
    errors = Errors()
    new = changed(old, change)
    SUBRESOURCES[subresource].prepare(new, old)
    SUBRESOURCES[subresource].validate(new, old, errors)
    return new, texts(errors)


def resources_of(pod: Obj) -> Obj:
    found: Obj = pod["spec"]["containers"][0]["resources"]
    return found


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod["spec"]["containers"][0].update(image="img:2"),
        lambda pod: pod["spec"].update(activeDeadlineSeconds=10),
        lambda pod: pod["spec"].setdefault("tolerations", []).append({"key": "a", "operator": "Exists"}),
        lambda pod: pod["metadata"].update(labels={"a": "b"}),
    ],
)
def test_little_may_change(change: Change) -> None:
    assert update_refusals(created(), change) == []


def test_thousands_of_tolerations_are_compared_with_those_before_in_one_pass() -> None:
    def relabelled(size: int) -> None:
        tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(size)]
        refused = update_refusals(
            created(tolerations=tolerations), lambda pod: pod["spec"].get("tolerations", []).reverse()
        )
        assert refused == []

    assert growth(relabelled, 200) < 2.5


def test_everything_else_is_refused_with_the_difference() -> None:
    (text,) = update_refusals(created(), lambda pod: pod["spec"].update(nodeName="n1"))
    assert text.startswith("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`")
    assert "\n@@ -" in text
    assert [line for line in text.splitlines() if line[0] in "+-"] == ['- "NodeName": "",', '+ "NodeName": "n1",']


def test_same_amount_in_another_notation_is_no_change() -> None:
    old = created(containers=[container(resources={"requests": {"memory": "1k"}})])
    assert update_refusals(old, lambda pod: resources_of(pod)["requests"].update(memory="1e3")) == []


def test_containers_are_neither_added_nor_removed() -> None:
    assert update_refusals(created(), lambda pod: pod["spec"]["containers"].append(container(name="d"))) == [
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    ]


def test_deadline_only_gets_shorter() -> None:
    old = created(activeDeadlineSeconds=10)
    assert update_refusals(old, lambda pod: pod["spec"].update(activeDeadlineSeconds=5)) == []
    assert update_refusals(old, lambda pod: pod["spec"].update(activeDeadlineSeconds=20)) == [
        "spec.activeDeadlineSeconds: Invalid value: 20: must be less than or equal to previous value"
    ]


def test_gates_are_only_taken_away() -> None:
    old = created(schedulingGates=[{"name": "x"}])
    assert update_refusals(old, lambda pod: pod["spec"].pop("schedulingGates")) == []
    assert update_refusals(old, lambda pod: pod["spec"]["schedulingGates"].append({"name": "y"})) == [
        "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'y'"
    ]


def test_gated_pod_may_become_choosier_about_nodes() -> None:
    """KEP-3838."""
    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    old = created(schedulingGates=[{"name": "x"}], affinity={"nodeAffinity": node})

    def terms(pod: Obj) -> list[Obj]:
        required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        found: list[Obj] = required["nodeSelectorTerms"]
        return found

    more = {"key": "b", "operator": "Exists"}
    assert update_refusals(old, lambda pod: terms(pod)[0]["matchExpressions"].append(more)) == []
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    assert update_refusals(old, lambda pod: terms(pod)[0].update(matchExpressions=[more])) == [
        f'{path}[0]: Invalid value: {{"MatchExpressions":[{{"Key":"b","Operator":"Exists","Values":null}}],'
        '"MatchFields":null}: only additions are allowed (no mutations or deletions)'
    ]


def test_rules_that_came_late_spare_what_was_there_before() -> None:
    restarting = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    old = created(
        hostUsers=False,
        hostNetwork=True,
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}],
        containers=[container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}])],
        initContainers=[container(name="i", resizePolicy=restarting)],
    )
    assert update_refusals(old, lambda pod: pod["metadata"].update(labels={"a": "b"})) == []
    assert through("ephemeralcontainers", old, lambda pod: None)[1] == []


def test_feature_that_is_off_is_not_heard_of_in_an_update_unless_it_is_used() -> None:
    def stopping(**fields: Any) -> Obj:
        return container(lifecycle={"stopSignal": "SIGTERM"}, **fields)

    old = created(os={"name": "linux"})
    assert update_refusals(old, lambda pod: pod["spec"]["containers"][0].update(stopping())) == []
    old["spec"]["containers"][0].update(stopping())
    assert update_refusals(old, lambda pod: pod["metadata"].update(labels={"a": "b"})) == []
    debuggers = [stopping(name="e")]
    new, refused = through(
        "ephemeralcontainers", created(), lambda pod: pod["spec"].update(ephemeralContainers=debuggers)
    )
    assert refused == []
    assert "lifecycle" not in new["spec"]["ephemeralContainers"][0]


def test_mirror_annotation_is_not_taken_back() -> None:
    old = created(annotations={"kubernetes.io/config.mirror": "x"}, nodeName="n")
    assert update_refusals(old, lambda pod: pod["metadata"].pop("annotations")) == [
        "metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod annotation"
    ]


def test_resize_changes_resources_and_nothing_else() -> None:
    old = created(containers=[container(resources=SMALL)])

    def change(pod: Obj) -> None:
        pod["spec"]["containers"][0].update(image="other")
        resources_of(pod)["requests"]["cpu"] = "150m"

    new, refused = through("resize", old, change)
    assert refused == []
    assert new["spec"]["containers"][0]["image"] == "img:1"
    assert resources_of(new)["requests"]["cpu"] == "150m"
    assert resources_of(old)["requests"]["cpu"] == "100m"


@pytest.mark.parametrize("subresource", ["resize", "ephemeralcontainers"])
def test_labels_and_the_like_are_not_changed_on_the_way(subresource: str) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    metadata = {"labels": {"a": "c"}, "annotations": {"x": "y"}, "finalizers": ["a/b"], "ownerReferences": [owner]}
    old = created(labels={"a": "b"})
    new, refused = through(subresource, old, lambda pod: pod["metadata"].update(metadata))
    assert refused == []
    assert new["metadata"] == old["metadata"]
    new, _ = through(subresource, old, lambda pod: pod["metadata"].pop("labels"))
    assert new["metadata"] == old["metadata"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda pod: resources_of(pod)["limits"].pop("cpu"),
            ["spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"],
        ),
        (
            lambda pod: resources_of(pod).update(requests=SMALL["limits"]),
            ['spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing'],
        ),
        (
            lambda pod: resources_of(pod)["limits"].update({"example.com/x": "1"}),
            ["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
        (
            lambda pod: pod["spec"]["containers"][0].update(name="d"),
            ["spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"],
        ),
    ],
)
def test_resize_has_bounds(change: Change, expected: list[str]) -> None:
    old = created(containers=[container(resources=SMALL)])
    assert through("resize", old, change)[1] == expected


def test_container_with_claims_is_not_resized() -> None:
    """Upstream compares without the claims, so that what has some always looks changed."""
    claiming = container(name="c", resources={**SMALL, "claims": [{"name": "gpu"}]})
    old = created(
        resourceClaims=[{"name": "gpu", "resourceClaimName": "g"}],
        containers=[claiming],
        initContainers=[{**claiming, "name": "i"}],
    )
    assert through("resize", old, lambda pod: resources_of(pod)["requests"].update(cpu="150m"))[1] == [
        "spec: Forbidden: only cpu and memory resources are mutable",
        "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable",
    ]


def test_ephemeral_containers_come_and_never_go() -> None:
    debugger = {"name": "e", "image": "dbg"}
    old, refused = through(
        "ephemeralcontainers", created(), lambda pod: pod["spec"].update(ephemeralContainers=[debugger])
    )
    assert refused == []
    assert through("ephemeralcontainers", old, lambda pod: pod["spec"].pop("ephemeralContainers"))[1] == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be removed\n'
    ]


def test_debugger_has_no_hooks_not_even_empty_ones() -> None:
    def change(pod: Obj) -> None:
        pod["spec"]["ephemeralContainers"] = [{"name": "e", "image": "dbg", "lifecycle": {}}]

    assert through("ephemeralcontainers", created(), change)[1] == [
        "spec.ephemeralContainers[0].lifecycle: Forbidden: cannot be set for an Ephemeral Container"
    ]


def binding(node: str = "n1", **metadata: Any) -> Obj:
    return {"metadata": {"name": "p", **metadata}, "target": {"kind": "Node", "name": node}}


async def _bind(pod: Obj, given: Obj) -> None:
    assign(pod, given)


def test_binding_gives_the_pod_to_the_node() -> None:
    pod = created(labels={"kept": "mine"})
    pod["status"]["nominatedNodeName"] = "n2"
    asyncio.run(_bind(pod, binding(annotations={"a": "b"}, labels={"kept": "theirs", "zone": "z"})))
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["labels"] == {"kept": "mine", "zone": "z"}
    assert pod["metadata"]["annotations"] == {"a": "b"}
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert "nominatedNodeName" not in pod["status"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"nodeName": "n0"}, 'pod p is already assigned to node "n0"'),
        ({"schedulingGates": [{"name": "x"}]}, "pod p has non-empty .spec.schedulingGates"),
    ],
)
def test_pod_that_cannot_be_given_away_is_a_conflict(spec: Obj, text: str) -> None:
    with pytest.raises(Conflict, match=f'on pods/binding "p": {text}'):
        asyncio.run(_bind(created(**spec), binding()))


def test_binding_to_something_else_than_a_node_is_senseless() -> None:
    with pytest.raises(Unknown, match=r'target\.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"'):
        check_binding({"metadata": {"name": "p"}, "target": {"kind": "Pod", "name": "x"}}, "p")
    with pytest.raises(ApiError, match="name in URL does not match name in Binding object"):
        check_binding(binding(), "q")


def status_refusals(old: Obj, **fields: Any) -> list[str]:
    errors = Errors()
    new = changed(old, lambda pod: pod["status"].update(fields))
    STRATEGY.prepare_status(new, old)
    STRATEGY.validate_status(new, old, errors)
    return texts(errors)


def test_class_of_service_is_fixed_at_birth() -> None:
    assert status_refusals(created(), qosClass="Guaranteed") == [
        'status.qosClass: Invalid value: "Guaranteed": field is immutable'
    ]
    assert status_refusals(created(), qosClass="") == []


def test_terminated_container_that_is_not_to_be_restarted_stays_so() -> None:
    old = created(restartPolicy="OnFailure")
    old["status"]["containerStatuses"] = [terminated(0)]
    assert status_refusals(old, containerStatuses=[running()]) == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]
    old["status"]["containerStatuses"] = [terminated(1)]
    assert status_refusals(old, containerStatuses=[running()]) == []


def terminated(exit_code: int, name: str = "c") -> Obj:
    return {"name": name, "state": {"terminated": {"exitCode": exit_code}}}


def running(name: str = "c") -> Obj:
    return {"name": name, "state": {"running": {}}}


def rule(action: str, *codes: int, operator: str = "In") -> Obj:
    return {"action": action, "exitCodes": {"operator": operator, "values": list(codes)}}


@pytest.mark.parametrize(
    ("pod_policy", "fields", "exit_code", "is_allowed"),
    [
        ("Always", {}, 0, True),
        ("Never", {}, 1, False),
        ("Always", {"restartPolicy": "Never"}, 1, False),
        ("Never", {"restartPolicy": "Always"}, 0, True),
        ("Never", {"restartPolicy": "OnFailure"}, 0, False),
        ("Never", {"restartPolicy": "OnFailure"}, 1, True),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [rule("Restart", 42)]}, 42, True),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [rule("Restart", 42)]}, 1, False),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [rule("Restart", 42, operator="NotIn")]}, 1, True),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [rule("RestartAllContainers", 42)]}, 1, True),
    ],
)
@pytest.mark.parametrize("kind", ["container", "initContainer"])
def test_container_comes_back_where_its_policy_says_so(
    kind: str, pod_policy: str, fields: Obj, exit_code: int, is_allowed: bool
) -> None:
    """KEP-5307: rules of the container first, then its policy, then that of the pod."""
    main_containers = {} if kind == "container" else {"containers": [container(name="other")]}
    old = created(restartPolicy=pod_policy, **{**main_containers, f"{kind}s": [container(**fields)]})
    old["status"][f"{kind}Statuses"] = [terminated(exit_code)]
    refused = f"status.{kind}Statuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    assert status_refusals(old, **{f"{kind}Statuses": [running()]}) == ([] if is_allowed else [refused])


def test_container_that_nobody_knows_does_not_come_back() -> None:
    old = created()
    old["status"]["containerStatuses"] = [terminated(1, "stranger")]
    assert status_refusals(old, containerStatuses=[running("stranger")]) == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]


def test_debugger_does_not_come_back() -> None:
    old = created(ephemeralContainers=[{"name": "e", "image": "dbg"}])
    old["status"]["ephemeralContainerStatuses"] = [terminated(1, "e")]
    assert status_refusals(old, ephemeralContainerStatuses=[running("e")]) == [
        "status.ephemeralContainerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]


def test_bound_pod_is_not_nominated() -> None:
    """KEP-5278. What it was nominated for before may stay."""
    old = created(nodeName="n1")
    assert status_refusals(old, nominatedNodeName="n2") == [
        "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"
    ]
    assert status_refusals(created(), nominatedNodeName="n2") == []
    old["status"]["nominatedNodeName"] = "n1"
    assert status_refusals(old, nominatedNodeName="n1") == []
    assert status_refusals(old, nominatedNodeName="") == []


def test_conditions_have_names_and_generations() -> None:
    wrong = [{"type": "PodScheduled", "observedGeneration": -2}, {"type": "a b", "status": "True"}]
    assert status_refusals(created(), conditions=wrong, observedGeneration=-1) == [
        "status.conditions[0].observedGeneration: Invalid value: -2: must be a non-negative integer",
        'status.conditions[1].Type: Invalid value: "a b": name part must consist of alphanumeric characters, '
        "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
        "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        "status.observedGeneration: Invalid value: -1: must be a non-negative integer",
    ]


def test_devices_of_containers_are_told_with_a_reason() -> None:
    health = [{"resourceID": "a", "health": "Ill", "message": ""}, {"resourceID": "a", "message": "x" * 1025}]
    status = running() | {"allocatedResourcesStatus": [{"name": "cpu", "resources": health}]}
    where = "status.containerStatuses[0].allocatedResourcesStatus[0]"
    supported = 'supported values: "Healthy", "Unhealthy", "Unknown"'
    assert status_refusals(created(), containerStatuses=[status]) == [
        f'{where}.name: Invalid value: "cpu": must match one of the container\'s resource requests',
        f'{where}.resources[0].health: Unsupported value: "Ill": {supported}',
        f"{where}.resources[0].message: Required value: must be non-empty if specified",
        f'{where}.resources[1].health: Unsupported value: "": {supported}',
        f"{where}.resources[1].message: Too long: may not be more than 1024 bytes",
        f'{where}.resources[1].resourceID: Duplicate value: "a"',
    ]


def test_claims_of_a_pod_are_reported_by_its_own_names() -> None:
    old = created(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    assert status_refusals(old, resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "A"}])[0].startswith(
        'status.resourceClaimStatuses[0].resourceClaimName: Invalid value: "A": '
    )


def test_claim_for_extended_resources_says_what_it_is_for() -> None:
    old = created(containers=[container(resources={"limits": {"a.b/gpu": "1"}})])
    good = {"containerName": "c", "resourceName": "a.b/gpu", "requestName": "r"}
    path = "status.extendedResourceClaimStatus"
    claim: Obj = {"requestMappings": [good], "resourceClaimName": "claim"}
    assert status_refusals(old, extendedResourceClaimStatus=claim) == []
    assert status_refusals(old, extendedResourceClaimStatus={"requestMappings": [], "resourceClaimName": ""}) == [
        f"{path}.requestMappings: Required value: at least one request mapping is required",
        f"{path}.resourceClaimName: Required value",
    ]
    strange = [good | {"containerName": "d"}, good | {"resourceName": "cpu"}, good, good]
    assert status_refusals(old, extendedResourceClaimStatus=claim | {"requestMappings": strange}) == [
        f'{path}.requestMappings[0].containerName: Invalid value: "d": '
        "must match the name of an entry in spec.initContainers.name or spec.containers.name",
        f'{path}.requestMappings[1].resourceName: Invalid value: "cpu": must match the extended resource name of an '
        "entry in spec.initContainers.resources.requests or spec.containers.resources.requests",
        f'{path}.requestMappings[3].containerName: Duplicate value: "c"',
        f'{path}.requestMappings[3].resourceName: Duplicate value: "a.b/gpu"',
        f'{path}.requestMappings[3].requestName: Duplicate value: "r"',
    ]


def test_status_of_features_that_are_off_is_not_heard_of() -> None:
    old = created()
    mount = {"name": "v", "mountPath": "/v", "volumeStatus": {"image": {"imageRef": "x"}}}
    fields = {
        "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "x"}],
        "containerStatuses": [running() | {"volumeMounts": [mount]}],
    }
    new = changed(old, lambda pod: pod["status"].update(fields))
    STRATEGY.prepare_status(new, old)
    assert "nodeAllocatableResourceClaimStatuses" not in new["status"]
    assert new["status"]["containerStatuses"][0]["volumeMounts"] == [{"name": "v", "mountPath": "/v"}]


def test_users_of_containers_have_numbers_of_users() -> None:
    user = {"user": {"linux": {"uid": -1, "gid": 0}}}
    assert status_refusals(created(), containerStatuses=[{"name": "c", **user}]) == [
        "status.containerStatuses[0].user.linux.uid: Invalid value: -1: must be between 0 and 2147483647, inclusive"
    ]
    windows = created(os={"name": "windows"})
    assert status_refusals(windows, initContainerStatuses=[{"name": "c", **user}]) == [
        "status.initContainerStatuses[0].user.linux: Forbidden: cannot be set for a windows pod"
    ]


def test_addresses_of_a_pod_are_one_of_a_family() -> None:
    assert status_refusals(created(), podIPs=[{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]) == [
        'status.podIPs: Invalid value: [{"IP":"10.0.0.1"},{"IP":"10.0.0.2"}]: '
        "may specify no more than one IP for each IP family"
    ]
    assert status_refusals(created(), podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]) == []
    for field in ("podIPs", "hostIPs"):
        twice = {field: [{"ip": "1.2.3.4"}] * 2, "hostIP": "1.2.3.4"}
        refusals = [
            f'status.{field}: Invalid value: [{{"IP":"1.2.3.4"}},{{"IP":"1.2.3.4"}}]: '
            "may specify no more than one IP for each IP family",
        ]
        assert status_refusals(created(), **twice) == refusals
        wrong = status_refusals(created(), **twice | {field: [{"ip": "1.2.3.4"}, {"ip": "x"}]})
        assert f"status.{field}: Internal error: failed to check for dual stack with error:invalid IP[1]: x" in wrong


def test_address_that_was_let_in_once_may_stay() -> None:
    old = created()
    old["status"] |= {"podIP": "010.0.0.1", "podIPs": [{"ip": "010.0.0.1"}]}
    assert status_refusals(old, phase="Running") == []
    old["status"] = {"qosClass": old["status"]["qosClass"]}
    assert status_refusals(old, podIPs=[{"ip": "010.0.0.1"}]) == [
        'status.podIPs[0]: Invalid value: "010.0.0.1": must not have leading 0s'
    ]


def test_pod_ip_is_the_first_of_its_addresses() -> None:
    assert (
        changed(created(), lambda pod: pod["status"].update(podIPs=[{"ip": "10.0.0.1"}]))["status"]["podIP"]
        == "10.0.0.1"
    )
    both = changed(created(), lambda pod: pod["status"].update(podIP="10.0.0.2", podIPs=[{"ip": "10.0.0.1"}]))
    assert both["status"]["podIPs"] == [{"ip": "10.0.0.2"}]


def test_observed_generation_is_not_erased_by_old_writers() -> None:
    old = created()
    old["status"] |= {"observedGeneration": 3, "conditions": [{"type": "Ready", "observedGeneration": 2}]}
    new = changed(old, lambda pod: pod.update(status={"conditions": [{"type": "Ready", "status": "True"}]}))
    STRATEGY.prepare_status(new, old)
    assert new["status"]["observedGeneration"] == 3
    assert new["status"]["conditions"][0]["observedGeneration"] == 2
    assert new["status"]["qosClass"] == "BestEffort"


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "seconds"),
    [
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", -1, 1),
        ({"nodeName": "n"}, "Succeeded", None, 0),
        ({}, "Pending", 60, 0),
    ],
)
def test_only_a_pod_on_a_node_is_deleted_with_grace(spec: Obj, phase: str, asked: int | None, seconds: int) -> None:
    pod = created(**spec)
    pod["status"]["phase"] = phase
    assert STRATEGY.grace_period_seconds(pod, asked) == seconds


def test_pods_are_selected_by_what_components_ask_for() -> None:
    pod = created(nodeName="n", hostNetwork=True)
    read = {name: getter(pod) for name, getter in STRATEGY.selectable.items()}
    assert read == {
        "spec.nodeName": "n",
        "spec.restartPolicy": "Always",
        "spec.schedulerName": "default-scheduler",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "true",
        "status.phase": "Pending",
        "spec.host": "n",
        "status.podIP": "",
        "status.podIPs": "",
        "status.nominatedNodeName": "",
    }
