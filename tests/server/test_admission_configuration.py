"""What an AdmissionConfiguration may say, and what the plugins make of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fairlead.api.builtin import EVENTS, PODS
from fairlead.api.errors import ApiError, TooManyRequests
from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.runtime.loops import run_virtual
from fairlead.server.admission.base import AdmissionPlugin, Attributes
from fairlead.server.admission.chain import PLUGIN_NAMES, check_choice
from fairlead.server.admission.configuration import AdmissionConfiguration, load
from fairlead.server.admission.event_rates import EventRateLimit
from fairlead.server.admission.namespace_defaults import PodNodeSelector, PodTolerationRestriction
from fairlead.server.admission.pod_security import PodSecurity
from fairlead.server.admission.resource_quota import ResourceQuotaAdmission
from tests.server.admission_world import DEPLOYMENTS, NAMESPACES, World, admit, change, container, creation, pod

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
LIMITS = """\
apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits:
- {type: Namespace, qps: 1, burst: 2}
- {type: User, qps: 1, burst: 3, cacheSize: 2}
"""
POD_SECURITY = """\
apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults: {enforce: baseline, enforce-version: v1.30, warn: restricted, audit: ""}
exemptions: {usernames: [builder], namespaces: [spared], runtimeClasses: [kata]}
"""
TOLERATIONS = """\
apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
kind: Configuration
default: [{key: spot, operator: Exists}]
whitelist: [{key: spot, operator: Exists}]
"""


def nested(name: str, text: str) -> str:
    return f"- name: {name}\n  configuration:\n" + "".join(f"    {line}\n" for line in text.splitlines())


def read(folder: Path, text: str, **files: str) -> AdmissionConfiguration:
    for name, content in files.items():
        (folder / name).write_text(content)
    main = folder / "admission.yaml"
    main.write_text(text)
    return load(main, PLUGIN_NAMES)


def plugin(kind: type[AdmissionPlugin], configuration: AdmissionConfiguration, world: World | None = None) -> Any:
    made = world or World().put("namespaces", {"metadata": {"name": "ns"}})
    return kind(replace(made.dependencies, configuration=configuration))


def refusal(refusing: Any, attributes: Attributes) -> str:
    with pytest.raises(ApiError) as refused:
        admit(refusing, attributes)
    return refused.value.message


def test_parts_are_in_the_file_or_in_others_beside_it(tmp_path: Path) -> None:
    text = (
        HEAD + nested("PodSecurity", POD_SECURITY) + "- {name: EventRateLimit, path: limits.yaml}\n- {name: Priority}\n"
    )
    found = read(tmp_path, text, **{"limits.yaml": LIMITS})
    assert [str(mode) for mode in found.pod_security.defaults] == [
        "baseline:v1.30",
        "privileged:latest",
        "restricted:latest",
    ]
    assert [limit.type for limit in found.event_limits] == ["Namespace", "User"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "admission.yaml: not a mapping"),
        ("kind: Pod\n", 'admission.yaml: no kind "Pod" is registered for version ""'),
        (HEAD + "- {nam: x}\n", 'admission.yaml: strict decoding error: unknown field "plugins[0].nam"'),
        (HEAD + "- {name: PodSecurty}\n", 'admission.yaml: plugins[0].name: there is no admission plugin "PodSecurty"'),
        (
            HEAD + "- {name: Priority, configuration: {}}\n",
            'admission.yaml: the admission plugin "Priority" has nothing to configure here',
        ),
        (HEAD + "- {name: EventRateLimit, path: bad.yaml}\n", "bad.yaml: limits: Invalid value: []: must not be empty"),
        (
            HEAD + nested("EventRateLimit", LIMITS.replace("qps: 1, burst: 2", "burst: 0").replace("User", "Usr")),
            "[limits[0].burst: Invalid value: 0: must be positive, limits[0].qps: Invalid value: 0: must be positive, "
            'limits[1].type: Unsupported value: "Usr": supported values: "Namespace", "Server", "SourceAndObject", '
            '"User"]',
        ),
        (
            HEAD + nested("PodSecurity", POD_SECURITY.replace("baseline", "strict").replace("v1.30", "v1")),
            '[defaults.enforce: Invalid value: "strict": must be one of privileged, baseline, restricted, '
            'defaults.enforce-version: Invalid value: "v1": must be "latest" or "v1.x"]',
        ),
        (
            HEAD + nested("PodSecurity", POD_SECURITY.replace("[spared]", "[a, a, A_B]").replace("[builder]", '[""]')),
            '[exemptions.namespaces[1]: Duplicate value: "a", exemptions.namespaces[2]: Invalid value: "A_B": a lower',
        ),
        (
            HEAD + nested("PodTolerationRestriction", TOLERATIONS.replace("Exists", "Is")),
            "invalid config: [podtolerationrestriction.default[0].operator: ",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_file_and_place(tmp_path: Path, text: str, message: str) -> None:
    empty = LIMITS.partition("limits")[0]
    with pytest.raises(ValueError, match="yaml: ") as refused:
        read(tmp_path, text, **{"bad.yaml": empty})
    assert message in str(refused.value)
    assert str(refused.value).count(".yaml: ") == 1


def test_event_rates_need_limits() -> None:
    with pytest.raises(ValueError, match=r'couldn\'t init admission plugin "EventRateLimit": limits: '):
        check_choice(["EventRateLimit"], [])


# -- EventRateLimit


def event(namespace: str = "ns", user: str = "u", **more: Any) -> Attributes:
    obj = {"metadata": {"name": "e", "namespace": namespace}, **more.pop("obj", {})}
    return creation(obj, EVENTS, user=User(user), **more)


def test_events_beyond_the_rate_of_a_namespace_or_user_are_refused(tmp_path: Path) -> None:
    async def test() -> None:
        limiting = plugin(EventRateLimit, read(tmp_path, HEAD + nested("EventRateLimit", LIMITS)))
        for _ in range(2):
            await limiting.validate(event())
        with pytest.raises(TooManyRequests) as refused:
            await limiting.validate(event())
        assert refused.value.message == "Too many requests: limit reached on type Namespace for key ns"
        await limiting.validate(event(dry_run=True))
        with pytest.raises(TooManyRequests) as refused:  # the refused one counted, too
            await limiting.validate(event("other"))
        assert refused.value.message == "Too many requests: limit reached on type User for key u"
        await asyncio.sleep(1)
        await limiting.validate(event())

    run_virtual(test())


def test_events_of_different_objects_have_their_own_rates_however_long_their_names_are(tmp_path: Path) -> None:
    async def test() -> None:
        limits = LIMITS.partition("limits")[0] + "limits: [{type: SourceAndObject, qps: 1, burst: 1}]\n"
        limiting = plugin(EventRateLimit, read(tmp_path, HEAD + nested("EventRateLimit", limits)))
        for name in ("a", "b", "c" * 10_000):
            about = {"source": {"component": "kubelet"}, "involvedObject": {"kind": "Pod", "name": name}}
            await limiting.validate(event(obj=about))
            with pytest.raises(TooManyRequests) as refused:
                await limiting.validate(event(obj=about))
            assert refused.value.message.endswith(f"type SourceAndObject for key kubeletPod{name}")

    run_virtual(test())


# -- PodSecurity


HOST = 'violates PodSecurity "baseline:v1.30": host namespaces (hostNetwork=true)'


@pytest.fixture
def security(tmp_path: Path) -> AdmissionConfiguration:
    return read(tmp_path, HEAD + nested("PodSecurity", POD_SECURITY))


def test_namespaces_without_labels_have_the_configured_level(security: AdmissionConfiguration) -> None:
    judging = plugin(PodSecurity, security)
    assert refusal(judging, creation(pod(hostNetwork=True))) == f'pods "p" is forbidden: {HOST}'
    attributes = creation(pod())
    admit(judging, attributes)
    assert [text[:49] for text in attributes.warnings] == ['would violate PodSecurity "restricted:latest": al']


def test_exempt_users_namespaces_and_runtime_classes_are_not_judged(security: AdmissionConfiguration) -> None:
    world = World().put("namespaces", {"metadata": {"name": "ns"}}).put("namespaces", {"metadata": {"name": "spared"}})
    judging = plugin(PodSecurity, security, world)
    host = pod(hostNetwork=True)
    spared = {**host, "metadata": {"name": "p", "namespace": "spared"}}
    requests = [
        creation(host, user=User("builder")),
        creation(spared),
        creation(pod(hostNetwork=True, runtimeClassName="kata")),
        creation({"metadata": spared["metadata"], "spec": {"template": host}}, DEPLOYMENTS),
    ]
    for attributes in requests:
        admit(judging, attributes)
        assert attributes.warnings == []
    assert HOST in refusal(judging, creation(pod(hostNetwork=True, runtimeClassName="other")))


def labelled(name: str, **labels: str) -> Obj:
    return {"metadata": {"name": name, "labels": {f"pod-security.kubernetes.io/{key}": labels[key] for key in labels}}}


def test_labels_of_an_exempt_namespace_are_told_to_do_nothing(security: AdmissionConfiguration) -> None:
    judging = plugin(PodSecurity, security)
    made = creation(labelled("spared", enforce="restricted", audit="baseline"), NAMESPACES)
    admit(judging, made)
    assert made.warnings == [
        'namespace "spared" is exempt from Pod Security, and the policy '
        "(enforce=restricted:v1.30, audit=baseline:latest) will be ignored"
    ]
    silent = creation(labelled("spared"), NAMESPACES)
    admit(judging, silent)
    assert silent.warnings == []


def test_pods_of_exempt_runtime_classes_are_not_counted_when_a_level_rises(security: AdmissionConfiguration) -> None:
    world = World()
    world.put(PODS.qualified, pod("a", runtimeClassName="kata")).put(PODS.qualified, pod("b"))
    tightened = change(labelled("ns"), labelled("ns", enforce="restricted"), NAMESPACES)
    admit(plugin(PodSecurity, security, world), tightened)
    assert [text.partition(":")[0] for text in tightened.warnings[1:]] == ["b"]


# -- tolerations and node selectors


def annotated(**annotations: str) -> World:
    keyed = {f"scheduler.alpha.kubernetes.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return World().put("namespaces", {"metadata": {"name": "ns", "annotations": keyed}})


def test_namespaces_that_say_nothing_have_the_tolerations_of_the_cluster(tmp_path: Path) -> None:
    configuration = read(tmp_path, HEAD + nested("PodTolerationRestriction", TOLERATIONS))
    restricting = plugin(PodTolerationRestriction, configuration)
    assert admit(restricting, creation(pod()))["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    assert refusal(restricting, creation(pod(tolerations=[{"key": "x", "operator": "Exists"}]))).endswith(
        "conflict with its cluster whitelist"
    )
    own = annotated(defaultTolerations="", tolerationsWhitelist="[]")
    free = admit(
        plugin(PodTolerationRestriction, configuration, own),
        creation(pod(tolerations=[{"key": "x", "operator": "Exists"}])),
    )
    assert free["spec"]["tolerations"] == [{"key": "x", "operator": "Exists"}]


def test_node_selectors_have_a_default_and_a_whitelist(tmp_path: Path) -> None:
    selectors = 'podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: "env=test", ns: "env=test,disk=ssd"}\n'
    for text in (HEAD + nested("PodNodeSelector", selectors), selectors):
        configuration = read(tmp_path, text)
        selecting = plugin(PodNodeSelector, configuration)
        spec = admit(selecting, creation(pod(nodeSelector={"disk": "ssd"})))["spec"]
        assert spec["nodeSelector"] == {"env": "test", "disk": "ssd"}
        assert refusal(selecting, creation(pod(nodeSelector={"gpu": "yes"}))) == (
            'pods "p" is forbidden: pod node label selector labels conflict with its namespace whitelist'
        )
        own = plugin(PodNodeSelector, configuration, annotated(node_selector="disk=ssd"))
        assert admit(own, creation(pod()))["spec"]["nodeSelector"] == {"disk": "ssd"}


# -- ResourceQuota

LIMITED = """\
apiVersion: apiserver.config.k8s.io/v1
kind: ResourceQuotaConfiguration
limitedResources:
- {resource: pods, matchContains: [requests.cpu]}
- resource: pods
  matchScopes: [{scopeName: PriorityClass, operator: In, values: [high, higher]}]
- {apiGroup: apps, resource: deployments, matchContains: [count/]}
"""


def quota(hard: dict[str, str], **spec: Any) -> Obj:
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    return {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": hard, **spec}, "status": status}


def test_what_is_limited_takes_a_quota(tmp_path: Path) -> None:
    configuration = read(tmp_path, HEAD + nested("ResourceQuota", LIMITED))

    def limiting(*quotas: Obj) -> Any:
        world = World()
        for found in quotas:
            world.put("resourcequotas", found)
        return plugin(ResourceQuotaAdmission, configuration, world)

    busy = pod(containers=[container(requests={"cpu": "1"})])
    needs = 'pods "p" is forbidden: insufficient quota to consume: requests.cpu'
    assert refusal(limiting(), creation(busy)) == needs
    assert refusal(limiting(quota({"pods": "1"})), creation(busy)) == needs
    admit(limiting(quota({"requests.cpu": "1"})), creation(busy))
    admit(limiting(), creation(pod()))
    admit(limiting(), change(busy, busy | {"metadata": busy["metadata"] | {"labels": {"a": "b"}}}))
    deployment = {"metadata": {"name": "d", "namespace": "ns"}}
    assert refusal(limiting(), creation(deployment, DEPLOYMENTS)) == (
        'deployments.apps "d" is forbidden: insufficient quota to consume: count/deployments.apps'
    )


def test_pods_of_a_scope_take_a_quota_of_that_scope(tmp_path: Path) -> None:
    configuration = read(tmp_path, HEAD + nested("ResourceQuota", LIMITED))
    high = pod(priorityClassName="high")
    world = World().put("resourcequotas", quota({"pods": "9"}))
    with pytest.raises(ApiError) as refused:
        admit(plugin(ResourceQuotaAdmission, configuration, world), creation(high))
    text = "insufficient quota to match these scopes: [{PriorityClass In [high higher]}]"
    assert (refused.value.code, refused.value.message) == (500, text)
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    covering = World().put("resourcequotas", quota({"pods": "9"}, scopeSelector={"matchExpressions": [scope]}))
    admit(plugin(ResourceQuotaAdmission, configuration, covering), creation(high))
    admit(plugin(ResourceQuotaAdmission, configuration, World()), creation(pod(priorityClassName="low")))


def test_a_limit_without_a_resource_and_other_kinds_are_refused(tmp_path: Path) -> None:
    for text, message in (
        (LIMITED.replace("resource: pods, ", ""), r"limitedResources\[0\]\.resource: Required value"),
        (LIMITED.replace("ResourceQuotaConfiguration", "Quotas"), 'no kind "Quotas" is registered'),
        (LIMITED.replace("matchScopes", "scopes"), "unknown field"),
    ):
        with pytest.raises(ValueError, match=message):
            read(tmp_path, HEAD + nested("ResourceQuota", text))
