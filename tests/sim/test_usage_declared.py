"""Where usage comes from: the first declaration that makes sense, per container and per measure."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.nodes import Node
from fairlead.api.pods import Pod
from fairlead.api.selectors import of_labels
from fairlead.sim.usage.declared import declares_usage, node_usage, pod_usage
from fairlead.sim.usage.measures import Measure, NodeMeasure
from fairlead.sim.usage.objects import UsageProfile, profile_of
from fairlead.sim.usage.profiles import Profile, Profiles

MI = 2**20


def pod(annotations: dict[str, str] | None = None, uid: str = "u", **spec: Any) -> Pod:
    container = {"name": "web", "image": "nginx", "resources": {"requests": {"memory": "100Mi", "cpu": "1"}}}
    metadata = {"name": "a", "namespace": "n", "uid": uid, "labels": {"app": "a"}, "annotations": annotations or {}}
    manifest = {"metadata": metadata, "spec": {"containers": [container], **spec}}
    return msgspec.json.decode(msgspec.json.encode(manifest), type=Pod)


def profiles(**usage: str) -> Profiles:
    found = Profiles()
    found.put(Profile("n", "a-profile", of_labels({"app": "a"}), usage=usage))
    return found


def amount(pod: Pod, measure: Measure, known: Profiles | None = None, container: str = "web") -> float:
    model = pod_usage(pod, known).model(container, measure)
    assert model is not None
    return model.at(0.0, 0.0)


def test_a_pod_that_declares_nothing_uses_half_of_what_it_requests_and_one_process() -> None:
    usage = pod_usage(pod())
    assert not usage.is_declared
    assert not declares_usage(pod())
    assert set(usage.containers["web"]) == {Measure.CPU, Measure.MEMORY, Measure.PIDS}
    assert amount(pod(), Measure.CPU) == 0.5
    assert amount(pod(), Measure.MEMORY) == 50 * MI
    assert amount(pod(), Measure.PIDS) == 1


def test_a_container_without_requests_uses_a_little() -> None:
    bare = pod(containers=[{"name": "web"}])
    assert amount(bare, Measure.CPU) == 0.001
    assert amount(bare, Measure.MEMORY) == 8 * MI


def test_the_nearest_declaration_counts() -> None:
    annotations = {
        "kwok.x-k8s.io/usage-memory": "3Mi",
        "sim.fairlead.dev/usage-memory": "2Mi",
        "web.sim.fairlead.dev/usage-memory": "1Mi",
    }
    known = profiles(memory="4Mi")
    sources = []
    for key in (None, *reversed(annotations)):
        annotations.pop(key or "", None)
        declaration = pod_usage(pod(annotations), known).containers["web"][Measure.MEMORY]
        sources.append((declaration.text, declaration.source))
    assert sources == [
        ("1Mi", "annotation web.sim.fairlead.dev/usage-memory"),
        ("2Mi", "annotation sim.fairlead.dev/usage-memory"),
        ("3Mi", "annotation kwok.x-k8s.io/usage-memory"),
        ("4Mi", "UsageProfile a-profile"),
    ]


def test_simmemleak_leaks_unless_something_nearer_is_declared() -> None:
    containers = [{"name": "web", "image": "docker.io/saadali/simmemleak:latest"}]
    leaking = pod(containers=containers)
    assert declares_usage(leaking)
    model = pod_usage(leaking).model("web", Measure.MEMORY)
    assert model is not None
    assert model.at(5.0, 0.0) == 50 * MI
    assert amount(pod(containers=containers), Measure.MEMORY, profiles(memory="1Mi")) == MI


def test_percentages_fall_back_to_the_resources_of_the_pod() -> None:
    shared = pod(
        {"sim.fairlead.dev/usage-memory": "25% of limit"},
        containers=[{"name": "web"}],
        resources={"limits": {"memory": "400Mi"}},
    )
    assert amount(shared, Measure.MEMORY) == 100 * MI


def test_an_init_container_uses_what_is_declared_for_it_by_name_alone() -> None:
    annotations = {"sim.fairlead.dev/usage-memory": "1Mi"}
    init = [{"name": "init"}, {"name": "sidecar", "restartPolicy": "Always"}]
    found = pod(annotations, initContainers=init)
    assert amount(found, Measure.MEMORY, container="init") == 8 * MI
    assert amount(found, Measure.MEMORY, container="sidecar") == MI
    named = pod({**annotations, "init.sim.fairlead.dev/usage-memory": "2Mi"}, initContainers=init)
    assert amount(named, Measure.MEMORY, container="init") == 2 * MI


def test_what_makes_no_sense_is_ignored_and_reported() -> None:
    usage = pod_usage(
        pod(
            {
                "sim.fairlead.dev/usage-memory": "lots",
                "sim.fairlead.dev/usage-memorry": "1Mi",
                "db.sim.fairlead.dev/usage-cpu": "1",
            }
        ),
        profiles(memory="4Mi"),
    )
    assert usage.containers["web"][Measure.MEMORY].text == "4Mi"
    assert usage.problems == (
        "annotation db.sim.fairlead.dev/usage-cpu: the pod has no container 'db'",
        "annotation sim.fairlead.dev/usage-memorry: there is no measure 'memorry': there are cpu, memory, "
        "child-memory, active-file, inactive-file, rootfs, logs, inodes, pids",
        "annotation sim.fairlead.dev/usage-memory: 'lots' is no amount: write one such as 300Mi, 250m or 60%",
    )


def test_volumes_are_declared_per_pod() -> None:
    usage = pod_usage(pod({"sim.fairlead.dev/usage-volume.data": "1Gi"}, volumes=[{"name": "data", "emptyDir": {}}]))
    assert usage.volumes["data"].model.at(0, 0) == 2**30
    assert usage.is_declared
    assert not usage.problems


def test_usage_of_a_volume_that_the_pod_does_not_have_is_reported() -> None:
    usage = pod_usage(pod({"sim.fairlead.dev/usage-volume.data": "1Gi"}), profiles(**{"volume.cache": "1Gi"}))
    assert not usage.volumes
    assert usage.problems == (
        "annotation sim.fairlead.dev/usage-volume.data: the pod has no volume 'data'",
        "UsageProfile a-profile: the pod has no volume 'cache'",
    )


def test_pods_of_one_template_have_noise_of_their_own() -> None:
    noise = {"sim.fairlead.dev/usage-memory": "noise(mean=100Mi, spread=50%)"}
    first, again, second = (amount(pod(noise, uid), Measure.MEMORY) for uid in ("1", "1", "2"))
    assert first == again != second


def test_a_node_declares_what_it_uses_outside_its_pods() -> None:
    annotations = {"sim.fairlead.dev/usage-imagefs-inodes": "5k", "sim.fairlead.dev/usage-memory": "60%"}
    node = msgspec.convert({"metadata": {"name": "n", "annotations": annotations}}, Node)
    usage = node_usage(node)
    assert usage.measures[NodeMeasure.IMAGEFS_INODES].model.at(0, 0) == 5000
    assert usage.problems == (
        "annotation sim.fairlead.dev/usage-memory: '60%' makes no sense where there is no request",
    )


def _node_problems(**usage: str) -> tuple[str, ...]:
    annotations = {f"sim.fairlead.dev/usage-{name.replace('_', '-')}": text for name, text in usage.items()}
    capacity = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    node = {"metadata": {"name": "n", "annotations": annotations}, "status": {"capacity": capacity}}
    return node_usage(msgspec.convert(node, Node)).problems


def test_a_node_does_not_use_more_than_it_has() -> None:
    assert _node_problems(memory="100Gi") == (
        "annotation sim.fairlead.dev/usage-memory: '100Gi' is beyond the 16Gi that the node has",
    )
    assert _node_problems(cpu="burst(peak=5, every=1m, lasts=1s)") == (
        "annotation sim.fairlead.dev/usage-cpu: burst: field 'peak': '5' is beyond the 4 that the node has",
    )
    assert _node_problems(nodefs="101Gi", unused_images="101Gi", pids="5M") != ()
    assert _node_problems(memory="16Gi", cpu="4", nodefs="100Gi", pids="leak(1/s)") == ()


def _of_images(name: str, images: tuple[str, ...], memory: str) -> Profile:
    spec = {"selector": {}, "images": images, "usage": {"memory": memory}}
    obj = {"metadata": {"namespace": "n", "name": name}, "spec": spec}
    profile, problems = profile_of(msgspec.convert(obj, UsageProfile))
    assert not problems
    return profile


def test_a_profile_of_images_is_about_their_containers_alone_whatever_their_tags() -> None:
    known = Profiles()
    known.put(_of_images("b-db", ("example.com/db",), "100Mi"))
    known.put(_of_images("a-leak", ("docker.io/saadali/simmemleak",), "1Mi"))
    two = pod(containers=[{"name": "web", "image": "web"}, {"name": "db", "image": "example.com/db:16@sha256:0"}])
    assert declares_usage(two, known)
    assert amount(two, Measure.MEMORY, known, container="db") == 100 * MI
    assert amount(two, Measure.MEMORY, known) == 8 * MI
    assert not declares_usage(pod(containers=[{"name": "web", "image": "example.com/db-tools"}]), known)
    assert amount(pod(containers=[{"name": "web", "image": "saadali/simmemleak:1"}]), Measure.MEMORY, known) == MI
