"""Pods of files on a real node, with and without a cluster that could be shown them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from fairlead.agent.static_pods.manifests import read, signature
from fairlead.api.builtin import NODES, PODS
from fairlead.api.objects import Obj
from fairlead.server.codec.body_types import body_type_of
from tests.agent.machine import in_loop, real_containers, until
from tests.agent.oci_node import NODE, RealNode, is_phase, is_running, manifest, real_node, state

NORMALISE = body_type_of(PODS).normalise


def put(folder: Path, name: str, *argv: str, spec: Obj | None = None, **container: Any) -> None:
    """A file with a pod, there at once."""
    pod = {"apiVersion": "v1", "kind": "Pod"} | manifest(
        name, *argv, spec={"hostNetwork": True} | (spec or {}), **container
    )
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_text(json.dumps(pod))
    (folder / f".{name}").rename(folder / f"{name}.json")


def settings(folder: Path) -> Obj:
    return {"staticPodPath": str(folder), "fileCheckFrequency": "100ms"}


def problems(folder: Path) -> list[str]:
    return list(read(folder, NODE, NORMALISE).problems.values())


def test_a_pod_of_a_file_is_made_complete(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: ../../etc}\nspec: {containers: [{name: c, image: i}]}\n"
    )
    found = read(tmp_path, "host", NORMALISE)
    pod = found.pods["default/web-host"]
    annotations = pod["metadata"]["annotations"]
    assert annotations["kubernetes.io/config.source"] == "file"
    assert annotations["kubernetes.io/config.hash"] == pod["metadata"]["uid"]
    assert len(pod["metadata"]["uid"]) == 32
    assert pod["spec"]["nodeName"] == "host"
    assert pod["spec"]["tolerations"] == [{"operator": "Exists", "effect": "NoExecute"}]
    assert pod["spec"]["restartPolicy"] == "Always"
    assert pod["status"]["phase"] == "Pending"
    assert read(tmp_path, "host", NORMALISE) == found
    assert read(tmp_path / "a.yaml", "host", NORMALISE).pods == found.pods
    assert read(tmp_path / "nowhere", "host", NORMALISE).pods == {}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "couldn't parse as pod(yaml: line 1: did not find expected node content), please check config file"),
        ("- a", "couldn't parse as pod(it holds no object), please check config file"),
        ("kind: Pod", "couldn't parse as pod(Object 'apiVersion' is missing), please check config file"),
        (
            "{apiVersion: apps/v1, kind: Deployment}",
            "couldn't parse as pod(invalid pod: it is a Deployment of apps/v1), please check config file",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: x}}",
            'couldn\'t parse as pod(Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into '
            "Go struct field PodSpec.spec.containers of type []v1.Container), please check config file",
        ),
        ("{apiVersion: v1, kind: Pod, spec: {}}", "invalid pod: name is needed for the pod"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a}}", "invalid pod: spec.containers: Required value"),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i, "
            "envFrom: [{configMapRef: {name: m}}]}]}}",
            "static pods may not reference configmaps",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {serviceAccountName: s, "
            "containers: [{name: c, image: i}]}}",
            "static pods may not reference serviceaccounts",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_and_the_others_count(tmp_path: Path, content: str, problem: str) -> None:
    put(tmp_path, "good", "true")
    (tmp_path / "bad.yaml").write_text(content)
    found = read(tmp_path, NODE, NORMALISE)
    assert list(found.problems.values()) == [problem]
    assert list(found.pods) == [f"default/good-{NODE}"]


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "lost").symlink_to("nowhere")
    (tmp_path / "large").write_bytes(b" " * (10 << 20) + b"{}")
    (tmp_path / ".hidden").write_text("{")
    assert problems(tmp_path) == [
        "Not recursing into manifest path",
        "larger than 10485760 bytes",
        "No such file or directory",
        "Manifest path is not a directory or file",
    ]


def test_a_changed_file_is_noticed_and_is_another_pod(tmp_path: Path) -> None:
    put(tmp_path, "web", "true")
    before, uid = signature(tmp_path), read(tmp_path, NODE, NORMALISE).pods[f"default/web-{NODE}"]["metadata"]["uid"]
    put(tmp_path, "web", "false")
    assert signature(tmp_path) != before
    assert read(tmp_path, NODE, NORMALISE).pods[f"default/web-{NODE}"]["metadata"]["uid"] != uid


@real_containers
@in_loop
async def test_a_file_is_a_pod_with_a_mirror_until_it_is_gone(tmp_path: Path) -> None:
    files = tmp_path / "manifests"
    put(files, "web", "sh", "-c", "echo one; exec sleep 1000")
    async with real_node(tmp_path, settings(files)) as node:
        name = f"web-{NODE}"
        pod = await node.until(name, is_running)
        meta = pod["metadata"]
        hash_ = meta["annotations"]["kubernetes.io/config.hash"]
        assert meta["annotations"]["kubernetes.io/config.mirror"] == hash_ != meta["uid"]
        assert meta["annotations"]["kubernetes.io/config.source"] == "file"
        owner = (await node.api.get(NODES, NODE)).obj()["metadata"]
        (reference,) = meta["ownerReferences"]
        assert (reference["kind"], reference["uid"], reference["controller"]) == ("Node", owner["uid"], True)
        assert node.log(name) == ["one"]

        put(files, "web", "sh", "-c", "echo two; exec sleep 1000")
        pod = await node.until(name, lambda pod: is_running(pod) and pod["metadata"]["uid"] != meta["uid"])
        assert pod["metadata"]["annotations"]["kubernetes.io/config.hash"] != hash_
        assert node.log(name) == ["two"]

        (files / "web.json").unlink()
        await node.gone(name)
        assert _containers(node) == []


@real_containers
@in_loop
async def test_a_mirror_that_is_deleted_comes_back_and_the_pod_runs_on(tmp_path: Path) -> None:
    files = tmp_path / "manifests"
    put(files, "web", "sleep", "1000")
    async with real_node(tmp_path, settings(files)) as node:
        before = await node.until(f"web-{NODE}", is_running)
        await node.delete(f"web-{NODE}")
        after = await node.until(
            f"web-{NODE}", lambda pod: is_running(pod) and pod["metadata"]["uid"] != before["metadata"]["uid"]
        )
        assert state(after)["containerID"] == state(before)["containerID"]
        assert state(after)["restartCount"] == 0


@real_containers
@in_loop
async def test_static_pods_are_adopted_by_the_next_agent_and_tasks_do_not_run_twice(tmp_path: Path) -> None:
    files = tmp_path / "manifests"
    put(files, "web", "sleep", "1000")
    put(files, "task", "sh", "-c", "echo ran >> /out/ran", spec=_out(tmp_path), volumeMounts=[_MOUNT])
    async with real_node(tmp_path, settings(files)) as node:
        before = await node.until(f"web-{NODE}", is_running)
        await node.until(f"task-{NODE}", is_phase("Succeeded"))
        await node.stop()
        put(files, "new", "sleep", "1000")
        await node.start()
        await node.until(f"new-{NODE}", is_running)
        after = await node.until(f"web-{NODE}", is_running)
        assert state(after)["containerID"] == state(before)["containerID"]
        assert (tmp_path / "out/ran").read_text() == "ran\n"


@real_containers
@in_loop
async def test_static_pods_live_without_an_api_server(tmp_path: Path) -> None:
    """They run, end and go while nobody answers."""
    files = tmp_path / "manifests"
    async with real_node(tmp_path, settings(files)) as node:
        await node.stop()
        node.access = msgspec.structs.replace(node.access, server="https://127.0.0.1:1")
        put(files, "web", "sh", "-c", "echo up > /out/up; exec sleep 1000", spec=_out(tmp_path), volumeMounts=[_MOUNT])
        await node.start()
        await until((tmp_path / "out/up").exists)
        (files / "web.json").unlink()
        await until(lambda: not _containers(node))


@real_containers
@in_loop
async def test_a_static_pod_gets_its_grace_and_may_come_back(tmp_path: Path) -> None:
    files = tmp_path / "manifests"
    script = "trap 'echo bye >> /out/said; exit 0' TERM; echo hello >> /out/said; while true; do sleep 0.05; done"
    async with real_node(tmp_path, settings(files)) as node:
        put(files, "web", "sh", "-c", script, spec=_out(tmp_path), volumeMounts=[_MOUNT])
        await node.until(f"web-{NODE}", is_running)
        await until(lambda: (tmp_path / "out/said").exists())
        (files / "web.json").unlink()
        await node.gone(f"web-{NODE}")
        assert (tmp_path / "out/said").read_text().split() == ["hello", "bye"]
        put(files, "web", "sh", "-c", script, spec=_out(tmp_path), volumeMounts=[_MOUNT])
        await node.until(f"web-{NODE}", is_running)
        await until(lambda: (tmp_path / "out/said").read_text().split() == ["hello", "bye", "hello"])


@real_containers
@in_loop
async def test_a_mirror_of_nothing_is_removed(tmp_path: Path) -> None:
    async with real_node(tmp_path, settings(tmp_path / "manifests")) as node:
        annotations = {"kubernetes.io/config.mirror": "0" * 32}
        stray = manifest("stray", "true", spec={"nodeName": NODE})
        stray["metadata"]["annotations"] = annotations
        await node.create(stray)
        await node.gone("stray")
        assert await node.events("stray") == []


_MOUNT = {"name": "out", "mountPath": "/out"}


def _out(folder: Path) -> Obj:
    (folder / "out").mkdir(exist_ok=True)
    volume = {"name": "out", "hostPath": {"path": str(folder / "out")}}
    return {"volumes": [volume], "restartPolicy": "Never"}


def _containers(node: RealNode) -> list[str]:
    return [folder.name for folder in (node.root / "containers").iterdir()]
