"""What is said about a pod that is allowed but probably not meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.objects import Obj
from fairlead.kinds.podspec import template_warnings
from fairlead.kinds.podspec.overlaps import TakenPorts, overlapping
from tests.kinds.pod_world import STRATEGY, container, created, warned_at_birth

WARNINGS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    (
        {"nodeSelector": {"beta.kubernetes.io/arch": "amd64"}},
        ['spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "kubernetes.io/arch" instead'],
    ),
    (
        {"containers": [container(resources={"requests": {"memory": "100m"}})]},
        ['spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer'],
    ),
    (
        {"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}])]},
        [],
    ),
    (
        {"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])]},
        ['spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'],
    ),
    (
        {"containers": [container(ports=[{"containerPort": 80}, {"containerPort": 80, "name": "web"}])]},
        ["spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"],
    ),
    (
        {
            "initContainers": [container(name="i", ports=[{"containerPort": 1, "name": "web"}])],
            "containers": [container(ports=[{"containerPort": 2, "name": "web"}, {"containerPort": 3}])],
        },
        [
            'spec.containers[0].ports[0]: duplicate port name "web" with spec.initContainers[0].ports[0], '
            "services and probes that select ports by name will use spec.initContainers[0].ports[0]"
        ],
    ),
    (
        {
            "hostAliases": [{"ip": "2001:DB8::1"}],
            "dnsConfig": {"nameservers": ["2001:DB8::2"]},
            "imagePullSecrets": [{}],
        },
        [
            'spec.imagePullSecrets[0].name: invalid empty name ""',
            'spec.dnsConfig.nameservers[0]: IPv6 address "2001:DB8::2" should be in RFC 5952 canonical format '
            '("2001:db8::2")',
            'spec.hostAliases[0].ip: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")',
        ],
    ),
    (
        {"imagePullSecrets": [{"name": "a"}, {}]},
        ['spec.imagePullSecrets[1].name: invalid empty name ""'],
    ),
    (
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
        ["spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"],
    ),
    (
        {"annotations": {"scheduler.alpha.kubernetes.io/critical-pod": ""}},
        [
            "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: "
            'non-functional in v1.16+; use the "priorityClassName" field instead'
        ],
    ),
]


@pytest.mark.parametrize(("spec", "expected"), WARNINGS)
def test_warned_with_the_texts_of_upstream(spec: dict[str, Any], expected: list[str]) -> None:
    assert STRATEGY.warnings(created(**spec), None) == expected


def test_updates_are_silent() -> None:
    pod = created(nodeSelector={"beta.kubernetes.io/os": "linux"})
    assert STRATEGY.warnings(pod, pod) == []


def test_name_that_is_no_host_name_is_worth_a_warning() -> None:
    pod = created()
    pod["metadata"]["name"] = "a.b"
    assert STRATEGY.warnings(pod, None) == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
        "a DNS label is recommended: [must not contain dots]"
    ]


def test_paths_of_a_template_start_at_the_template() -> None:
    template = {"spec": {"terminationGracePeriodSeconds": -1}}
    assert template_warnings(template, "spec.template") == [
        "spec.template.spec.terminationGracePeriodSeconds: "
        "must be >= 0; negative values are invalid and will be treated as 1"
    ]


def test_preference_that_no_label_can_meet_is_told_of() -> None:
    expression = {"key": "a", "operator": "In", "values": ["-"]}
    terms = [{"weight": 1, "preference": {"matchExpressions": [expression]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    (warning,) = STRATEGY.warnings(created(affinity=affinity), None)
    where = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference"
    assert warning.startswith(
        f"{where}.matchExpressions[0].values[0]: - is invalid, a valid label must be an empty string"
    )


def files(*paths: str) -> list[dict[str, str]]:
    return [{"key": "k", "path": path} for path in paths]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"configMap": {"name": "x", "items": files("a", "ab", "b/c")}}, []),
        (
            {"configMap": {"name": "x", "items": files("a", "a/b")}},
            ['(ConfigMap "x"): overlapping paths: "a/b" with "a"'],
        ),
        (
            {"secret": {"secretName": "x", "items": files("a/b", "a/")}},
            ['(Secret "x"): overlapping paths: "a" with "a/b"'],
        ),
        (
            {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}] * 2}},
            ['(DownwardAPI): overlapping paths: "a" with "a"'],
        ),
        (
            {
                "projected": {
                    "sources": [
                        {"downwardAPI": {"items": [{"path": "a/b", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                        {"secret": {"name": "x", "items": files("a")}},
                        {"clusterTrustBundle": {"name": "off", "path": "a"}},
                        {"secret": {"name": "y"}},
                        {"serviceAccountToken": {"path": "a"}},
                    ]
                }
            },
            [
                '(Projected): overlapping paths: "a" (Secret "x") with "a/b" (DownwardAPI)',
                "(Projected) has no sources provided",
                '(Projected): overlapping paths: "a" (ServiceAccountToken) with "a/b" (DownwardAPI)',
                '(Projected): overlapping paths: "a" (ServiceAccountToken) with "a" (Secret "x")',
            ],
        ),
    ],
    ids=["apart", "below", "above", "same", "projected"],
)
def test_files_do_not_take_the_place_of_others(source: dict[str, Any], expected: list[str]) -> None:
    pod = created(serviceAccountName="s", volumes=[{"name": "v", **source}])
    assert STRATEGY.warnings(pod, None) == [f'volume "v" {text}' for text in expected]


PROFILE = {"appArmorProfile": {"type": "RuntimeDefault"}}
ANNOTATION = "container.apparmor.security.beta.kubernetes.io/c"


@pytest.mark.parametrize(
    ("spec", "profile", "is_told"),
    [
        ({}, "runtime/default", True),
        ({}, "", True),
        ({"securityContext": PROFILE}, "runtime/default", False),
        ({"containers": [container(securityContext=PROFILE)]}, "runtime/default", False),
        ({"os": {"name": "windows"}}, "runtime/default", False),
    ],
    ids=["alone", "nonsense", "as the pod", "with the field", "on windows"],
)
def test_profile_in_an_annotation_should_be_a_field(spec: dict[str, Any], profile: str, is_told: bool) -> None:
    text = f'metadata.annotations[{ANNOTATION}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    assert warned_at_birth(annotations={ANNOTATION: profile}, **spec) == [text] * is_told


def _conflict(port: Obj, earlier: Obj) -> str:
    """Two definitions of one container port, compared as upstream does."""
    ip, host_port, other_ip, other_port = (
        entry.get(key) for entry in (port, earlier) for key in ("hostIP", "hostPort")
    )
    if (ip, host_port) == (other_ip, other_port):
        return "duplicate"
    if not host_port or not other_port:
        return "overlapping"
    return "dangerously ambiguous" if host_port == other_port and bool(ip) != bool(other_ip) else ""


_PORTS = st.fixed_dictionaries(
    {}, optional={"hostPort": st.sampled_from([1, 2]), "hostIP": st.sampled_from(["a", "b"])}
)


@given(st.lists(_PORTS, max_size=8))
def test_ports_in_conflict_are_those_that_a_comparison_of_each_with_each_finds(ports: list[Obj]) -> None:
    taken = TakenPorts()
    for at, port in enumerate(ports):
        pairs = ((_conflict(port, earlier), str(before)) for before, earlier in enumerate(ports[:at]))
        assert taken.conflicts(port) == [pair for pair in pairs if pair[0]]
        taken.add(port, str(at))


@given(st.lists(st.text("a/.", max_size=5), max_size=8))
def test_paths_that_overlap_are_those_that_a_comparison_of_each_with_each_finds(paths: list[str]) -> None:
    def overlap(path: str, earlier: str) -> bool:
        return bool(path and earlier) and (f"{earlier}/".startswith(f"{path}/") or f"{path}/".startswith(f"{earlier}/"))

    pairs = [(at, before) for at in range(len(paths)) for before in range(at) if overlap(paths[at], paths[before])]
    assert overlapping(paths) == pairs
