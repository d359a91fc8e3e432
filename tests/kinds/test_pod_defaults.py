"""What a pod says where its author said nothing, and what it is born with."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.kinds.podspec import default_pod_template
from fairlead.kinds.podspec.images import default_pull_policy
from tests.kinds.pod_world import container, created


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("localhost:5000/team/nginx", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("nginx@sha256:" + "a" * 64, "IfNotPresent"),
        ("nginx:latest@sha256:" + "a" * 64, "Always"),
        ("Not An Image", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_images_that_may_change_behind_their_name_are_pulled_each_time(image: str, policy: str) -> None:
    assert default_pull_policy(image) == policy


def test_limit_without_request_becomes_the_request_resource_by_resource() -> None:
    """S0-36, S0-37."""
    limits = {"cpu": "250m", "memory": "64Mi"}
    spec = created(containers=[container(resources={"requests": {"cpu": "100m"}, "limits": limits})])["spec"]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "100m", "memory": "64Mi"}


def test_template_keeps_limits_without_requests() -> None:
    template: dict[str, Any] = {"spec": {"containers": [container(resources={"limits": {"cpu": "1"}})]}}
    default_pod_template(template)
    assert template["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert "enableServiceLinks" not in template["spec"]


def unfinished() -> dict[str, Any]:
    """A spec that uses features that are off."""
    sources = [{"clusterTrustBundle": {"name": "b", "path": "p"}}, {"podCertificate": {"signerName": "a/b"}}]
    sources.append({"secret": {"name": "s"}})
    stopping = {"stopSignal": "SIGTERM", "preStop": {"sleep": {"seconds": 1}}}
    return {
        "schedulingGroup": {"podGroupName": "g"},
        "volumes": [{"name": "v", "projected": {"sources": sources}}],
        "containers": [container(lifecycle={"stopSignal": "SIGTERM"}), container(name="d", lifecycle=stopping)],
    }


def of_template(spec: dict[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = {"spec": spec}
    default_pod_template(template)
    return spec


@pytest.mark.parametrize("spec", [created(**unfinished())["spec"], of_template(unfinished())], ids=["pod", "template"])
def test_features_that_are_off_are_not_heard_of(spec: dict[str, Any]) -> None:
    assert "schedulingGroup" not in spec
    assert spec["volumes"][0]["projected"]["sources"] == [{}, {}, {"secret": {"name": "s"}}]
    assert "lifecycle" not in spec["containers"][0]
    assert spec["containers"][1]["lifecycle"] == {"preStop": {"sleep": {"seconds": 1}}}


def test_annotations_that_once_were_init_containers_are_dropped() -> None:
    old = {"pod.beta.kubernetes.io/init-containers": "[]"}
    assert "annotations" not in created(annotations=old)["metadata"]
    template: dict[str, Any] = {"metadata": {"annotations": old | {"a": "b"}}, "spec": {"containers": [container()]}}
    default_pod_template(template)
    assert template["metadata"]["annotations"] == {"a": "b"}


def test_pod_level_requests_come_from_the_containers_first_and_the_limits_second() -> None:
    """KEP-2837."""
    spec = created(
        containers=[container(resources={"requests": {"cpu": "500m"}})],
        resources={"limits": {"cpu": "2", "memory": "1Gi"}},
    )["spec"]
    assert spec["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def test_amounts_finer_than_a_milli_are_rounded_up() -> None:
    """S0-42."""
    spec = created(containers=[container(resources={"requests": {"cpu": "1500u"}})])["spec"]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "2m"}


def test_ports_on_the_host_network_are_host_ports() -> None:
    spec = created(hostNetwork=True, containers=[container(ports=[{"containerPort": 80}])])["spec"]
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


def test_old_and_new_spelling_of_the_service_account_agree() -> None:
    spec = created(serviceAccount="robot")["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("robot", "robot")


def test_volume_without_a_source_is_an_empty_directory() -> None:
    assert created(volumes=[{"name": "v"}])["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_negative_grace_period_becomes_one_second() -> None:
    assert created(terminationGracePeriodSeconds=-5)["spec"]["terminationGracePeriodSeconds"] == 1


def test_new_pod_is_pending_and_classified() -> None:
    assert created()["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_gated_pod_says_why_it_is_not_scheduled() -> None:
    (condition,) = created(schedulingGates=[{"name": "example.com/hold"}])["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    assert condition["lastProbeTime"] is None


def test_match_label_keys_become_requirements_of_the_selector() -> None:
    """KEP-3243, KEP-3633."""
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    spread |= {"labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["rev", "absent"]}
    term = {"topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": ["rev"]}
    spec = created(
        labels={"rev": "7"},
        topologySpreadConstraints=[spread],
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    )["spec"]
    merged = spec["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"]
    assert merged == [{"key": "rev", "operator": "In", "values": ["7"]}]
    (anti,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert anti["labelSelector"]["matchExpressions"] == [{"key": "rev", "operator": "NotIn", "values": ["7"]}]


def test_apparmor_annotation_becomes_the_field() -> None:
    spec = created(annotations={"container.apparmor.security.beta.kubernetes.io/c": "localhost/tight"})["spec"]
    profile = spec["containers"][0]["securityContext"]["appArmorProfile"]
    assert profile == {"type": "Localhost", "localhostProfile": "tight"}
