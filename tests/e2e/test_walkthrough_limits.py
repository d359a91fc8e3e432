"""A namespace with limits: what a LimitRange fills in, and what it refuses (SC-19, SC-20, SC-22, SC-23)."""

from __future__ import annotations

import json

import pytest

from fairlead.api.objects import Obj
from tests.e2e.helpers.manifests import container, pod
from tests.e2e.helpers.terminal import Terminal
from tests.e2e.helpers.versions import every_kubectl

CREATE = "kubectl create -f -"


@pytest.fixture
def limited(terminal: Terminal) -> Terminal:
    """A terminal in a namespace with the limits of the seed."""
    terminal.prints("kubectl create -f limits.yaml", "limitrange/mylimits created")
    return terminal


def limit_range(*items: Obj, name: str = "limits") -> str:
    spec = {"limits": list(items)}
    return json.dumps({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": spec})


def resources_of(terminal: Terminal, name: str) -> Obj:
    found: Obj = json.loads(terminal.output(f"kubectl get pod {name} -o jsonpath='{{.spec.containers[0].resources}}'"))
    return found


def forbidden(file: str, name: str, *reasons: str) -> str:
    """How kubectl reports the reasons for which the limits refuse a pod."""
    text = reasons[0] if len(reasons) == 1 else f"[{', '.join(reasons)}]"
    return f'Error from server (Forbidden): error when creating "{file}": pods "{name}" is forbidden: {text}'


@every_kubectl
def test_limits_are_created_and_described(limited: Terminal, namespace: str) -> None:
    """SC-19, S0-84 to S0-87; the order of the resources of one type is not defined."""
    limited.prints(
        "kubectl describe limits mylimits | head -n 4",
        f"""
        Name:       mylimits
        Namespace:  {namespace}
        Type        Resource  Min  Max  Default Request  Default Limit  Max Limit/Request Ratio
        ----        --------  ---  ---  ---------------  -------------  -----------------------
        """,
    )
    limited.prints(
        "kubectl describe limits mylimits | tail -n +5 | sort",
        """
        Container   cpu       100m  2    200m   300m   5
        Container   memory    3Mi   1Gi  100Mi  200Mi  4
        Pod         cpu       200m  4    -      -      3
        Pod         memory    6Mi   2Gi  -      -      2
        """,
    )
    limited.prints("kubectl get limits", "NAME  CREATED AT\nmylimits  …")


@every_kubectl
def test_the_seeds_way_to_run_a_deployment_is_refused_by_kubectl(limited: Terminal) -> None:
    """SC-20, S0-97: `kubectl run` makes a bare pod today."""
    limited.refuses(
        "kubectl run nginx --image=nginx --replicas=1",
        "error: unknown flag: --replicas\nSee 'kubectl run --help' for usage.",
    )


def test_a_pod_without_resources_gets_the_defaults_of_its_namespace(limited: Terminal) -> None:
    """SC-20, S0-91, S0-98, S0-99."""
    created = "kubectl create deployment nginx --image=nginx --replicas=1"
    limited.prints(created, "deployment.apps/nginx created")
    limited.comes_to("kubectl get pods", "NAME READY STATUS RESTARTS AGE\nnginx-…-…  1/1  Running  0  …")
    found = json.loads(limited.output("kubectl get pods -o json"))["items"][0]
    (only,) = found["spec"]["containers"]
    assert only["resources"] == {
        "limits": {"cpu": "300m", "memory": "200Mi"},
        "requests": {"cpu": "200m", "memory": "100Mi"},
    }
    assert only["imagePullPolicy"] == "Always"
    assert only["terminationMessagePath"] == "/dev/termination-log"
    assert found["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container nginx; cpu, memory limit for container nginx"
    )
    assert "nginx-" in found["metadata"]["generateName"]


@every_kubectl
def test_the_three_pods_of_the_seed(limited: Terminal) -> None:
    """SC-22, SC-23, S0-37, S0-100 to S0-102."""
    limited.refuses(
        "kubectl create -f invalid-pod.yaml",
        forbidden("invalid-pod.yaml", "invalid-pod", "maximum cpu usage per Container is 2, but limit is 3"),
    )
    limited.refuses(
        "kubectl create -f limit-test-nginx.yaml",
        forbidden(
            "limit-test-nginx.yaml",
            "limit-test-nginx",
            "memory max limit to request ratio per Pod is 2, but provided ratio is 2.048000",
        ),
    )
    enough = "sed s/250Mi/256Mi/ limit-test-nginx.yaml | kubectl create -f -"
    limited.prints(enough, "pod/limit-test-nginx created")
    limited.prints("kubectl create -f valid-pod.yaml", "pod/valid-pod created")
    amounts = {"cpu": "1", "memory": "512Mi"}
    assert resources_of(limited, "valid-pod") == {"limits": amounts, "requests": amounts}
    limited.prints("kubectl get pod valid-pod -o jsonpath='{.metadata.annotations}{.status.qosClass}'", "Guaranteed")


def test_several_reasons_come_in_the_order_of_the_items(terminal: Terminal) -> None:
    """S0-100: the variant with a maximum of 2 for pods too."""
    items = [{"type": kind, "max": {"cpu": "2"}} for kind in ("Pod", "Container")]
    terminal.output(CREATE, limit_range(*items))
    terminal.refuses(
        "kubectl create -f invalid-pod.yaml",
        forbidden(
            "invalid-pod.yaml",
            "invalid-pod",
            "maximum cpu usage per Pod is 2, but limit is 3",
            "maximum cpu usage per Container is 2, but limit is 3",
        ),
    )


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            {"type": "Pod", "default": {"cpu": "1"}},
            "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
        ),
        (
            {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}, "default": {"cpu": "1"}},
            'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
        ),
        (
            {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}},
            'spec.limits[0].defaultRequest[cpu]: Invalid value: "2": '
            "default request value 2 is greater than default limit value 1",
        ),
    ],
)
def test_contradicting_limits_are_refused(terminal: Terminal, item: Obj, message: str) -> None:
    """S0-87, S0-88."""
    if "min" in item:  # both of its defaults contradict each other as well
        answer = terminal.run(CREATE, limit_range(item))
        assert answer.code == 1
        assert message in answer.err
    else:
        terminal.refuses(CREATE, f'The LimitRange "limits" is invalid: {message}', limit_range(item))


def test_one_item_of_each_type_is_enough(terminal: Terminal) -> None:
    """S0-87."""
    item = {"type": "Pod", "max": {"cpu": "1"}}
    terminal.refuses(
        CREATE,
        'The LimitRange "limits" is invalid: spec.limits[1].type: Duplicate value: "Pod"',
        limit_range(item, item),
    )


def test_a_maximum_alone_becomes_the_default(terminal: Terminal) -> None:
    """S0-92: so a container without a limit is not refused, it gets the maximum."""
    terminal.output(CREATE, limit_range({"type": "Container", "max": {"cpu": "2"}}))
    terminal.output(CREATE, pod("p"))
    assert resources_of(terminal, "p") == {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}


def test_a_minimum_alone_becomes_the_request(terminal: Terminal) -> None:
    """S0-93."""
    terminal.output(CREATE, limit_range({"type": "Container", "min": {"cpu": "100m"}}))
    terminal.output(CREATE, pod("p"))
    assert resources_of(terminal, "p") == {"requests": {"cpu": "100m"}}


def test_a_pod_without_a_limit_breaks_the_maximum_for_pods(terminal: Terminal) -> None:
    """S0-92."""
    terminal.output(CREATE, limit_range({"type": "Pod", "max": {"memory": "2Gi"}}))
    terminal.refuses(
        CREATE,
        forbidden("STDIN", "p", "maximum memory usage per Pod is 2Gi.  No limit is specified"),
        pod("p"),
    )


def test_sums_are_bounded_by_the_items_for_pods_only(limited: Terminal) -> None:
    """S0-90, S0-95: two containers of 1Gi each are 2Gi, which is allowed; three are not."""
    one = {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    limited.prints(CREATE, "pod/two created", pod("two", container("a", **one), container("b", **one)))
    limited.refuses(
        CREATE,
        forbidden("STDIN", "three", "maximum memory usage per Pod is 2Gi, but limit is 3Gi"),
        pod("three", *(container(name, **one) for name in "abc")),
    )


def test_every_container_is_bounded_from_below_and_above(limited: Terminal) -> None:
    """S0-89."""
    small = container(requests={"cpu": "50m", "memory": "2Mi"}, limits={"cpu": "100m", "memory": "4Mi"})
    answer = limited.run(CREATE, pod("small", small))
    assert answer.code == 1
    for reason in (
        "minimum cpu usage per Pod is 200m, but request is 50m",
        "minimum memory usage per Pod is 6Mi, but request is 2Mi",
        "minimum cpu usage per Container is 100m, but request is 50m",
        "minimum memory usage per Container is 3Mi, but request is 2Mi",
    ):
        assert reason in answer.err
    large = container(limits={"memory": "1536Mi"})
    limited.refuses(
        CREATE,
        forbidden("STDIN", "large", "maximum memory usage per Container is 1Gi, but limit is 1536Mi"),
        pod("large", large),
    )


def test_a_ratio_needs_both_values(terminal: Terminal) -> None:
    """S0-103."""
    terminal.output(CREATE, limit_range({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}))
    terminal.refuses(
        CREATE,
        forbidden(
            "STDIN", "p", "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"
        ),
        pod("p", requests={"cpu": "1"}),
    )


def test_limits_bind_their_namespace_and_new_pods_only(terminal: Terminal, namespace: str) -> None:
    """S0-94, S0-96, S0-104."""
    terminal.output(CREATE, pod("before"))
    terminal.output(CREATE, limit_range({"type": "Container", "max": {"cpu": "1"}}, name="a"))
    terminal.output(CREATE, limit_range({"type": "Container", "max": {"cpu": "2"}}, name="b"))
    terminal.prints("kubectl label pod before seen=yes", "pod/before labeled")
    assert resources_of(terminal, "before") == {}
    terminal.refuses(
        CREATE,
        forbidden("STDIN", "after", "maximum cpu usage per Container is 1, but limit is 1500m"),
        pod("after", container(limits={"cpu": "1500m"})),
    )
    terminal.output("kubectl -n kube-public create -f -", pod("elsewhere", container(limits={"cpu": "3"})))
    terminal.output("kubectl -n kube-public delete pod elsewhere")
