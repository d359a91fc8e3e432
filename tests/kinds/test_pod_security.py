"""The Pod Security Standards: what each rule says of a pod, at which versions it holds, and what labels ask for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.objects import Obj
from fairlead.kinds.pod_security.checked_pod import CheckedPod
from fairlead.kinds.pod_security.checks import LATEST_MINOR, in_detail, in_short, violations
from fairlead.kinds.pod_security.policy import ANYTHING, PREFIX, Level, LevelVersion, Policy, policy_of

#: What makes a container one that the level restricted allows.
SAFE: Obj = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def container(name: str = "a", context: Obj | None = None, fields: Obj | None = None) -> Obj:
    return {"name": name, "image": "i", "securityContext": SAFE | (context or {}), **(fields or {})}


def pod(*contexts: Obj, annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    """A pod with a container for each of these contexts, or with one that is safe."""
    containers = [container(name, context) for name, context in zip("abc", contexts or ({},), strict=False)]
    meta = {"name": "p", **({"annotations": annotations} if annotations else {})}
    return {"metadata": meta, "spec": {"containers": containers, **spec}}


def told(obj: Obj, level: Level, minor: int | None = None) -> str:
    return in_detail(violations(LevelVersion(level, minor), CheckedPod(obj)))


def pod_with(**fields: Any) -> Obj:
    """A pod whose container has these fields."""
    return {"metadata": {}, "spec": {"containers": [container(fields=fields)]}}


GET = {"httpGet": {"host": "h", "port": 80}}
#: A pod that baseline does not allow, and why.
BASELINE: list[tuple[Obj, str]] = [
    (
        pod({"appArmorProfile": {"type": "Unconfined"}}),
        'forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")',
    ),
    (
        pod(
            {"appArmorProfile": {"type": "Unconfined"}},
            securityContext={"appArmorProfile": {"type": "Unconfined"}},
            annotations={"container.apparmor.security.beta.kubernetes.io/a": "unconfined"},
        ),
        'forbidden AppArmor profiles (pod and container "a" and annotation must not set AppArmor profile type to '
        '"Unconfined", "container.apparmor.security.beta.kubernetes.io/a="unconfined"")',
    ),
    (
        pod({"capabilities": {"add": ["SYS_ADMIN", "NET_RAW", "KILL"]}}, {"capabilities": {"add": ["NET_RAW"]}}),
        'non-default capabilities (containers "a", "b" must not include "NET_RAW", "SYS_ADMIN" in '
        "securityContext.capabilities.add)",
    ),
    (
        pod(hostNetwork=True, hostPID=True, hostIPC=True),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    ),
    (
        pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "hostPath": {"path": "/"}}]),
        'hostPath volumes (volumes "v", "w")',
    ),
    (
        pod_with(ports=[{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 9}]),
        'hostPort (container "a" uses hostPorts 80, 9)',
    ),
    (
        pod_with(livenessProbe=GET, lifecycle={"preStop": {"tcpSocket": {"host": "g", "port": 1}}}),
        'probe or lifecycle host (container "a" uses probe or lifecycle hosts "g", "h")',
    ),
    (pod({"privileged": True}), 'privileged (container "a" must not set securityContext.privileged=true)'),
    (
        pod({"procMount": "Unmasked"}, {"procMount": "Default"}),
        'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
    ),
    (
        pod({"seLinuxOptions": {"type": "t", "user": "u"}}, securityContext={"seLinuxOptions": {"role": "r"}}),
        'seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: type "t"; '
        "user may not be set; role may not be set)",
    ),
    (
        pod({"seccompProfile": {"type": "Unconfined"}}, securityContext={"seccompProfile": {"type": "Unconfined"}}),
        'seccompProfile (pod and container "a" must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        pod(securityContext={"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}, {"name": "x"}]}),
        "forbidden sysctls (kernel.msgmax, x)",
    ),
    (
        pod({"windowsOptions": {"hostProcess": True}}, securityContext={"windowsOptions": {"hostProcess": True}}),
        'hostProcess (pod and container "a" must not set securityContext.windowsOptions.hostProcess=true)',
    ),
]

#: A pod that baseline allows and restricted does not, and why.
RESTRICTED: list[tuple[Obj, str]] = [
    (
        pod({"allowPrivilegeEscalation": True}, {}),
        'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)',
    ),
    (
        pod({"capabilities": {"add": ["KILL", "NET_BIND_SERVICE"]}}),
        'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; '
        'container "a" must not include "KILL" in securityContext.capabilities.add)',
    ),
    (
        pod(volumes=[{"name": "v", "nfs": {}}, {"name": "w", "emptyDir": {}}, {"name": "x", "glusterfs": {}}]),
        'restricted volume types (volumes "v", "x" use restricted volume types "glusterfs", "nfs")',
    ),
    (
        pod({"runAsNonRoot": False}, securityContext={"runAsNonRoot": False}),
        'runAsNonRoot != true (pod and container "a" must not set securityContext.runAsNonRoot=false)',
    ),
    (pod({"runAsUser": 0}, {"runAsUser": 1}), 'runAsUser=0 (container "a" must not set runAsUser=0)'),
]

NAKED: Obj = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}}
NAKED_TOLD = (
    'allowPrivilegeEscalation != false (containers "i", "a" must set securityContext.allowPrivilegeEscalation=false), '
    'unrestricted capabilities (containers "i", "a" must set securityContext.capabilities.drop=["ALL"]), '
    'runAsNonRoot != true (pod or containers "i", "a" must set securityContext.runAsNonRoot=true), '
    'seccompProfile (pod or containers "i", "a" must set securityContext.seccompProfile.type to '
    '"RuntimeDefault" or "Localhost")'
)


@pytest.mark.parametrize(("obj", "expected"), BASELINE, ids=[text.partition(" (")[0] for _, text in BASELINE])
def test_what_baseline_refuses(obj: Obj, expected: str) -> None:
    assert told(obj, Level.BASELINE) == expected
    assert told(obj, Level.RESTRICTED) != ""
    assert told(obj, Level.PRIVILEGED) == ""


@pytest.mark.parametrize(("obj", "expected"), RESTRICTED, ids=[text.partition(" (")[0] for _, text in RESTRICTED])
def test_what_only_restricted_refuses(obj: Obj, expected: str) -> None:
    assert told(obj, Level.BASELINE) == ""
    assert told(obj, Level.RESTRICTED) == expected


def test_an_ordinary_pod_lacks_four_things_for_restricted() -> None:
    assert told(NAKED, Level.BASELINE) == ""
    assert told(NAKED, Level.RESTRICTED) == NAKED_TOLD


def test_what_the_pod_says_holds_for_containers_that_say_nothing() -> None:
    silent = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    on_pod = {"runAsNonRoot": True, "seccompProfile": {"type": "Localhost", "localhostProfile": "f"}}
    obj = {
        "metadata": {},
        "spec": {"securityContext": on_pod, "containers": [{"name": "a", "securityContext": silent}]},
    }
    assert told(obj, Level.RESTRICTED) == ""


def test_ephemeral_containers_are_judged_like_others() -> None:
    obj = pod(ephemeralContainers=[{"name": "debug", "securityContext": {"privileged": True}}])
    expected = 'privileged (container "debug" must not set securityContext.privileged=true)'
    assert told(obj, Level.BASELINE) == expected


def test_several_violations_are_told_in_one_order_with_those_of_baseline_first() -> None:
    obj = pod({"privileged": True, "runAsUser": 0}, hostNetwork=True, volumes=[{"name": "v", "hostPath": {}}])
    found = violations(LevelVersion(Level.RESTRICTED), CheckedPod(obj))
    assert in_short(found) == "host namespaces, privileged, restricted volume types, runAsUser=0"


WINDOWS = {
    "metadata": {},
    "spec": {"os": {"name": "windows"}, "containers": [{"name": "a", "securityContext": {"runAsNonRoot": True}}]},
}
#: Level, pod, and the minor versions at which it is allowed.
VERSIONS: list[tuple[str, Level, Obj, Collection[int]]] = [
    ("probes", Level.BASELINE, pod_with(readinessProbe=GET), range(34)),
    ("engine", Level.BASELINE, pod({"seLinuxOptions": {"type": "container_engine_t"}}), range(31, 99)),
    ("ports", Level.BASELINE, pod(securityContext={"sysctls": [{"name": "net.ipv4.ip_local_port_range"}]}), range(99)),
    (
        "reserved",
        Level.BASELINE,
        pod(securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}),
        range(27, 99),
    ),
    ("fin", Level.BASELINE, pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_fin_timeout"}]}), range(29, 99)),
    ("rmem", Level.BASELINE, pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}), range(32, 99)),
    ("seccomp", Level.BASELINE, pod({"seccompProfile": {"type": "Unconfined"}}), range(19)),
    (
        "annotation",
        Level.BASELINE,
        pod(annotations={"container.seccomp.security.alpha.kubernetes.io/a": "unconfined"}),
        range(19, 99),
    ),
    ("unmasked", Level.BASELINE, pod({"procMount": "Unmasked"}, hostUsers=False), range(35, 99)),
    ("unmasked still", Level.RESTRICTED, pod({"procMount": "Unmasked"}, hostUsers=False), range(0)),
    ("escalation", Level.RESTRICTED, pod({"allowPrivilegeEscalation": True}), range(8)),
    ("no drop", Level.RESTRICTED, pod({"capabilities": {}}), range(22)),
    ("root", Level.RESTRICTED, pod({"runAsUser": 0}), range(23)),
    ("root of its own", Level.RESTRICTED, pod({"runAsUser": 0, "runAsNonRoot": False}, hostUsers=False), range(35, 99)),
    # Until 1.7 restricted asked for nothing that Windows does not have.
    ("windows", Level.RESTRICTED, WINDOWS, {*range(8), *range(25, 99)}),
]


@pytest.mark.parametrize(("level", "obj", "allowed"), [row[1:] for row in VERSIONS], ids=[row[0] for row in VERSIONS])
def test_a_namespace_that_names_a_version_keeps_its_rules(level: Level, obj: Obj, allowed: Collection[int]) -> None:
    assert {minor for minor in range(99) if not told(obj, level, minor)} == set(allowed)
    assert (told(obj, level) == "") == (98 in allowed)


def test_seccomp_annotations_are_told_sorted() -> None:
    keys = ("seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/a")
    obj = pod(annotations=dict.fromkeys(keys, "unconfined"))
    assert told(obj, Level.BASELINE, 18) == (
        'seccompProfile (forbidden annotations container.seccomp.security.alpha.kubernetes.io/a="unconfined", '
        'seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    )


contexts = st.fixed_dictionaries(
    {},
    optional={
        "privileged": st.booleans(),
        "allowPrivilegeEscalation": st.booleans(),
        "runAsNonRoot": st.booleans(),
        "runAsUser": st.sampled_from([0, 1]),
        "procMount": st.sampled_from(["Default", "Unmasked"]),
        "seccompProfile": st.sampled_from([{"type": "RuntimeDefault"}, {"type": "Unconfined"}]),
        "seLinuxOptions": st.sampled_from([{}, {"type": "container_engine_t"}, {"user": "u"}]),
        "capabilities": st.fixed_dictionaries(
            {},
            optional={
                "drop": st.just(["ALL"]),
                "add": st.lists(st.sampled_from(["KILL", "NET_BIND_SERVICE", "SYS_ADMIN"]), max_size=2),
            },
        ),
    },
)
pods = st.builds(
    lambda on_pod, of_containers, spec: pod(*of_containers, securityContext=on_pod, **spec),
    contexts,
    st.lists(contexts, min_size=1, max_size=3),
    st.fixed_dictionaries(
        {},
        optional={
            "hostUsers": st.booleans(),
            "hostNetwork": st.booleans(),
            "volumes": st.sampled_from([[{"name": "v", "hostPath": {}}], [{"name": "v", "secret": {}}]]),
        },
    ),
)
minors = st.none() | st.integers(0, LATEST_MINOR + 2)


@given(obj=pods, minor=minors)
def test_what_baseline_refuses_restricted_refuses_too(obj: Obj, minor: int | None) -> None:
    if told(obj, Level.BASELINE, minor):
        assert told(obj, Level.RESTRICTED, minor)


@given(obj=pods, level=st.sampled_from(Level))
def test_the_latest_version_is_that_of_all_later_ones(obj: Obj, level: Level) -> None:
    assert told(obj, level) == told(obj, level, LATEST_MINOR) == told(obj, level, LATEST_MINOR + 7)


# -- what labels ask for


def asked(**labels: str) -> Policy:
    policy, errors = policy_of({PREFIX + key.replace("_", "-"): value for key, value in labels.items()}, Policy())
    assert errors == []
    return policy


def test_labels_say_level_and_version_of_each_mode() -> None:
    policy = asked(
        enforce="baseline", enforce_version="v1.30", audit="restricted", warn="restricted", warn_version="latest"
    )
    assert [str(mode) for mode in policy] == ["baseline:v1.30", "restricted:latest", "restricted:latest"]


def test_who_says_what_is_refused_is_warned_of_the_same() -> None:
    assert asked(enforce="baseline", enforce_version="v1.30").warn == LevelVersion(Level.BASELINE, 30)
    assert asked(enforce="baseline", enforce_version="v1.30", warn_version="v1.2").warn == LevelVersion(
        Level.BASELINE, 2
    )
    assert asked(enforce="baseline", warn="privileged").warn == ANYTHING
    assert asked(warn="restricted").enforce == ANYTHING


def test_what_cannot_be_read_refuses_everything_and_warns_of_nothing() -> None:
    labels = {PREFIX + mode: "strict" for mode in Policy._fields}
    policy, errors = policy_of(labels | {f"{PREFIX}enforce-version": "1.30"}, Policy())
    assert policy == Policy(enforce=LevelVersion(Level.RESTRICTED))
    assert [(error.field, error.message) for error in errors] == [
        (
            f"metadata.labels[{PREFIX}enforce]",
            'Invalid value: "strict": must be one of privileged, baseline, restricted',
        ),
        (f"metadata.labels[{PREFIX}enforce-version]", 'Invalid value: "1.30": must be "latest" or "v1.x"'),
        (f"metadata.labels[{PREFIX}audit]", 'Invalid value: "strict": must be one of privileged, baseline, restricted'),
        (f"metadata.labels[{PREFIX}warn]", 'Invalid value: "strict": must be one of privileged, baseline, restricted'),
    ]


@pytest.mark.parametrize(
    "text", ["v1", "v1.", "v1.01", "v2.1", "v1.1.0", "V1.1", "", "v1.99999999999999999999", "v1.1\n"]
)
def test_versions_that_are_none(text: str) -> None:
    policy, errors = policy_of({f"{PREFIX}warn-version": text}, Policy(warn=LevelVersion(Level.BASELINE, 3)))
    assert (policy.warn, len(errors)) == (LevelVersion(Level.BASELINE), 1)


levels = st.builds(LevelVersion, st.sampled_from(Level), minors)


@given(default=levels, mode=st.sampled_from(Policy._fields), wanted=levels)
def test_a_label_goes_before_the_default(default: LevelVersion, mode: str, wanted: LevelVersion) -> None:
    level, version = str(wanted).split(":")
    policy, errors = policy_of(
        {PREFIX + mode: level, f"{PREFIX}{mode}-version": version}, Policy(default, default, default)
    )
    assert (getattr(policy, mode), errors) == (wanted, [])


@given(before=levels, after=levels, obj=pods)
def test_pods_can_newly_violate_only_what_demands_more(before: LevelVersion, after: LevelVersion, obj: Obj) -> None:
    if not after.demands_more_than(before) and not violations(before, CheckedPod(obj)):
        assert not violations(after, CheckedPod(obj))
