"""Specs that were judged before are judged alike: remembering must never let a wrong one in."""

from __future__ import annotations

from typing import Any

from fairlead.api.fields import Errors
from fairlead.kinds.pods import PodStrategy

Obj = dict[str, Any]


def pod(*volumes: str, mounts: tuple[str, ...] = (), image: str = "nginx") -> Obj:
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    container = {
        "name": "c",
        "image": image,
        "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [{"name": name, "mountPath": f"/m{at}"} for at, name in enumerate(mounts)],
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": name, "projected": {"sources": [token], "defaultMode": 420}} for name in volumes],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30,
        "serviceAccountName": "default",
    }
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}


def found(strategy: PodStrategy, obj: Obj) -> list[str]:
    errors = Errors()
    strategy.validate(obj, errors)
    return [f"{error.field}: {error.message}" for error in errors]


def test_a_spec_that_was_right_is_right_with_another_token_volume() -> None:
    strategy = PodStrategy()
    assert found(strategy, pod("kube-api-access-bcdfg", mounts=("kube-api-access-bcdfg",))) == []
    assert found(strategy, pod("kube-api-access-zzzzz", mounts=("kube-api-access-zzzzz",))) == []


def test_two_token_volumes_are_not_mistaken_for_one() -> None:
    strategy = PodStrategy()
    assert found(strategy, pod("kube-api-access-bcdfg", "kube-api-access-zzzzz")) == []
    assert any(
        "Duplicate value" in message
        for message in found(strategy, pod("kube-api-access-bcdfg", "kube-api-access-bcdfg"))
    )


def test_a_mount_of_another_volume_is_still_refused() -> None:
    strategy = PodStrategy()
    assert found(strategy, pod("kube-api-access-bcdfg", mounts=("kube-api-access-bcdfg",))) == []
    wrong = found(strategy, pod("kube-api-access-bcdfg", mounts=("kube-api-access-zzzzz",)))
    assert any("Not found" in message for message in wrong)


def test_a_mount_without_a_name_is_not_taken_for_that_of_the_token() -> None:
    strategy = PodStrategy()
    assert found(strategy, pod("kube-api-access-bcdfg", mounts=("kube-api-access-bcdfg",))) == []
    assert found(strategy, pod("kube-api-access-bcdfg", mounts=("",)))


def test_what_is_wrong_is_wrong_every_time() -> None:
    strategy = PodStrategy()
    for _ in range(3):
        assert found(strategy, pod(image=""))


def test_annotations_that_rules_know_are_judged_in_each_pod_and_others_do_not_matter() -> None:
    strategy = PodStrategy()
    plain, known, wrong = pod(), pod(), pod()
    plain["metadata"]["annotations"] = {"sim.fairlead.dev/lifetime-seconds": "7"}
    known["metadata"]["annotations"] = {"example.com/team": "a"}
    wrong["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "much"}
    assert found(strategy, plain) == found(strategy, known) == []
    assert any("32bit" in message for message in found(strategy, wrong))


def changed(strategy: PodStrategy, new: Obj, old: Obj) -> list[str]:
    errors = Errors()
    strategy.validate_update(new, old, errors)
    return [f"{error.field}: {error.message}" for error in errors]


def test_a_spec_that_stayed_before_is_still_judged_when_it_changes() -> None:
    """Of an unchanged spec nothing new can be said; whatever comes beside it, and every change of it, is looked at."""
    strategy, kept = PodStrategy(), pod("kube-api-access-bcdfg")
    for _ in range(2):
        assert changed(strategy, pod("kube-api-access-bcdfg"), kept) == []
    assert any("may not change fields" in text for text in changed(strategy, kept, pod("kube-api-access-zzzzz", "x")))
    seccomp = {"seccomp.security.alpha.kubernetes.io/pod": "nonsense"}
    annotated = kept | {"metadata": kept["metadata"] | {"annotations": seccomp}}
    assert any("seccomp" in text for text in changed(strategy, annotated, kept))
