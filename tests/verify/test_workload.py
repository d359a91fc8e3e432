"""What may be verified, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.api.objects import Obj
from fairlead.verify.packaged import names, packaged
from fairlead.verify.workload import LONGEST_FILE, MOST_CONTAINERS, Size, read, resized, workload

MIB = 1 << 20


def _pod(name: str = "p", **container: Any) -> Obj:
    spec = {"containers": [{"name": "c", "image": "i", **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _own(**fields: Any) -> Obj:
    return {"apiVersion": "verify.fairlead.dev/v1alpha1", "kind": "Workload", "metadata": {"name": "w"}, **fields}


def _kubelet(**fields: Any) -> Obj:
    return {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **fields}


def _filling(volume: str) -> Obj:
    pod = _pod()
    pod["metadata"]["annotations"] = {f"sim.fairlead.dev/usage-volume.{volume}": "leak(1Mi/s)"}
    pod["spec"]["volumes"] = [{"name": volume, "emptyDir": {}}]
    return pod


def test_pods_alone_are_a_workload() -> None:
    found = workload([_pod()], "alone")
    assert (found.name, found.size, found.kubelet, list(found.around)) == ("alone", Size(), {}, [])
    assert found.pods[0]["spec"]["automountServiceAccountToken"] is False


def test_the_machine_is_as_large_as_the_workload_says() -> None:
    found = workload([_own(memory="1Gi", cpus=2, disk="256Mi", seconds="2m"), _pod()], "")
    assert found.size == Size(1024 * MIB, 2, 256 * MIB, 120.0)
    assert resized(found, {"memory": "128Mi", "seconds": "9"}).size == Size(128 * MIB, 2, 256 * MIB, 9.0)


def test_what_pods_need_is_made_before_them_in_an_order_that_works() -> None:
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "n"}}
    found = workload([_pod(), quota, {"kind": "Namespace", "metadata": {"name": "n"}}], "")
    assert [obj["kind"] for obj in found.around] == ["Namespace", "ResourceQuota"]


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        ([], "there is no Pod to run"),
        ([_pod(), _pod()], "there are several pods p"),
        ([_pod(name="")], "a Pod without a name: both runs have to call it the same"),
        ([{"kind": "Pod", "metadata": {"name": "p"}}], "a Pod without a spec"),
        ([{"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}], "pod p: spec.containers is missing"),
        (
            [{"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": ["x"]}}],
            "pod p: a container is no object",
        ),
        (
            [_pod(), {"kind": "Deployment", "metadata": {"name": "d"}}],
            "a Deployment cannot be verified: say the pods themselves, whose names stay the same",
        ),
        ([_pod(), _own(), _own()], "there are 2 Workloads: one says it all"),
        ([_pod(), {"kind": "Workload"}], "apiVersion of a Workload is verify.fairlead.dev/v1alpha1"),
        ([_pod(), _own(mem="1Gi")], "Workload: there is no mem; known are memory, cpus, disk, seconds"),
        ([_pod(), _own(memory="much")], "memory: 'much' is no amount, write one such as 512Mi"),
        ([_pod(), _own(disk="1Mi")], "disk: 1Mi is less than 64Mi, in which nothing runs"),
        ([_pod(), _own(cpus=0)], "cpus: 0 is no number of CPUs"),
        ([_pod(), _own(seconds="1s")], "seconds: 1s is not between 5 s and 3600 s"),
        ([_pod(), _own(seconds="soon")], "seconds: 'soon' is no duration, write seconds, or 2m"),
        ([_pod(), _own(seconds=float("nan"))], "seconds: nan is not between 5 s and 3600 s"),
        (
            [_pod(), _kubelet(cgroupRoot="/x")],
            "KubeletConfiguration: cgroupRoot is decided by verify; leave it out",
        ),
        (
            [_pod(readinessProbe={"httpGet": {"port": 80}})],
            "pod p, container c: readinessProbe cannot be played; give the container a command, or leave it out",
        ),
        (
            [_pod(lifecycle={"preStop": {"exec": {"command": ["true"]}}})],
            "pod p, container c: of hooks only sleep can be played",
        ),
        ([_filling("d")], "pod p: sim.fairlead.dev/usage-volume.d cannot be played: no container mounts d"),
    ],
)
def test_what_cannot_be_verified_is_refused(objects: list[Obj], problem: str) -> None:
    with pytest.raises(ValueError) as refused:
        workload(objects, "")
    assert str(refused.value) == problem


def test_a_container_with_a_command_may_have_probes_and_hooks() -> None:
    probe = {"exec": {"command": ["true"]}}
    workload([_pod(command=["sh"], livenessProbe=probe, lifecycle={"preStop": probe})], "")
    workload([_pod(lifecycle={"preStop": {"sleep": {"seconds": 1}}})], "")


def test_a_workload_is_small(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"more than {MOST_CONTAINERS} containers"):
        workload([_pod(f"p{number}") for number in range(MOST_CONTAINERS + 1)], "")
    file = tmp_path / "large.yaml"
    file.write_bytes(b"#" * (LONGEST_FILE + 1))
    with pytest.raises(ValueError, match="has more than 4 MiB"):
        read(file)


def test_a_file_that_makes_no_sense_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("kind: [")
    with pytest.raises(ValueError, match=str(file)):
        read(file)


def test_at_least_ten_workloads_come_with_the_package_and_five_have_rivals() -> None:
    assert len(names()) >= 10
    texts = [
        (Path(packaged.__code__.co_filename).parent / "workloads" / f"{name}.yaml").read_text() for name in names()
    ]
    assert sum(text.startswith("# Rivals") for text in texts) >= 5
    assert [packaged(name).name for name in names()] == list(names())
