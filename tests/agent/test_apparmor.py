"""AppArmor profiles: what a pod says, what a runtime is told, and what a node without AppArmor answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.agent.pods.apparmor import apparmor_refusal, is_enabled, profile_of
from fairlead.agent.runtimes.base import AppArmorProfile, ContainerSpec, RuntimeFailure, SandboxSpec, Security
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri.specs import container_config
from fairlead.agent.runtimes.oci.config import config_of
from fairlead.agent.runtimes.oci.layout import ContainerFiles, SandboxFiles
from fairlead.api.objects import Obj
from fairlead.node.cgroups.containers import ContainerValues
from tests.agent.machine import in_loop
from tests.agent.oci_node import is_phase, manifest, real_node
from tests.agent.runtime_place import on_each

KEY = "container.apparmor.security.beta.kubernetes.io/c"
LOCAL: Obj = {"type": "Localhost", "localhostProfile": "mine"}
NOT_ENABLED = "Cannot enforce AppArmor: AppArmor is not enabled on the host"


def _pod(own: Obj | None = None, of_pod: Obj | None = None, annotation: str | None = None) -> Obj:
    container: Obj = {"name": "c"} | ({"securityContext": {"appArmorProfile": own}} if own else {})
    spec: Obj = {"containers": [container]} | ({"securityContext": {"appArmorProfile": of_pod}} if of_pod else {})
    return {"metadata": {"annotations": {KEY: annotation} if annotation is not None else {}}, "spec": spec}


@pytest.mark.parametrize(
    ("pod", "profile", "is_required"),
    [
        (_pod(), None, False),
        (_pod(LOCAL), AppArmorProfile("Localhost", "mine"), True),
        (_pod({"type": "Unconfined"}, LOCAL), AppArmorProfile("Unconfined"), True),
        (_pod(None, {"type": "RuntimeDefault"}), AppArmorProfile("RuntimeDefault"), True),
        (_pod(None, {"type": "RuntimeDefault"}, "localhost/of-old"), AppArmorProfile("Localhost", "of-old"), True),
        (_pod({"type": "Unconfined"}), AppArmorProfile("Unconfined"), False),
        (_pod(None, None, "unconfined"), AppArmorProfile("Unconfined"), False),
    ],
)
def test_which_profile_holds_and_whether_the_node_must_enforce_one(
    pod: Obj, profile: AppArmorProfile | None, is_required: bool
) -> None:
    assert profile_of(pod, pod["spec"]["containers"][0]) == profile
    refused = apparmor_refusal(pod, is_enabled=False)
    assert (refused is not None) == is_required
    assert refused is None or (refused.reason, refused.message) == ("AppArmor", NOT_ENABLED)
    assert apparmor_refusal(pod, is_enabled=True) is None


@pytest.mark.parametrize("annotation", ["", "localhost/", "mine"])
def test_an_annotation_that_names_no_profile_is_refused_where_profiles_are_enforced(annotation: str) -> None:
    refused = apparmor_refusal(_pod(annotation=annotation), is_enabled=True)
    assert refused is not None and "invalid AppArmor profile name" in refused.message


def _spec(apparmor: AppArmorProfile | None) -> ContainerSpec:
    values = ContainerValues(cpu_shares=2, cpu_quota=0, cpu_period=0, memory_limit=0, oom_score_adj=0)
    return ContainerSpec(
        id="c1",
        pod_uid="u",
        name="c",
        attempt=0,
        image="i",
        image_id="sha256:1",
        layers=[],
        argv=["true"],
        env={},
        resources=values,
        security=Security(apparmor=apparmor),
        log=Path("/logs/c/0.log"),
    )


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        (None, None),
        (AppArmorProfile("RuntimeDefault"), cri.SecurityProfile(profile_type=cri.RUNTIME_DEFAULT)),
        (AppArmorProfile("Unconfined"), cri.SecurityProfile(profile_type=cri.UNCONFINED)),
        (AppArmorProfile("Localhost", "mine"), cri.SecurityProfile(profile_type=cri.LOCALHOST, localhost_ref="mine")),
    ],
)
def test_a_runtime_behind_cri_is_told_the_profile(
    profile: AppArmorProfile | None, told: cri.SecurityProfile | None
) -> None:
    sandbox = SandboxSpec(uid="u", namespace="n", name="p", hostname="p", cgroup="/u", logs=Path("/logs"))
    config = container_config(_spec(profile), sandbox, Path("/root"), Path("/words"), 0)
    assert config.linux.security_context.apparmor == told


def _process(profile: AppArmorProfile | None) -> Obj:
    config = config_of(_spec(profile), ContainerFiles(Path("/c/c1")), SandboxFiles(Path("/s/u")), "/u/c1", 0)
    found: Obj = config["process"]
    return found


def test_a_bundle_names_a_profile_of_the_machine() -> None:
    assert _process(AppArmorProfile("Localhost", "mine"))["apparmorProfile"] == "mine"
    for profile in (None, AppArmorProfile("Unconfined")):
        assert "apparmorProfile" not in _process(profile)
    with pytest.raises(RuntimeFailure, match="no AppArmor profile of its own"):
        _process(AppArmorProfile("RuntimeDefault"))


@pytest.mark.skipif(is_enabled(), reason="the kernel of this machine has AppArmor")
@on_each
@in_loop
async def test_a_machine_without_apparmor_takes_no_pod_that_is_to_be_confined(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        free = {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}
        bound = manifest("bound", "true")
        bound["metadata"]["annotations"] = {KEY: "runtime/default"}
        await node.create(bound)
        await node.create(manifest("free", "true", spec={"restartPolicy": "Never"}, **free))
        refused = (await node.until("bound", is_phase("Failed")))["status"]
        assert (refused["reason"], refused["message"]) == ("AppArmor", f"Pod was rejected: {NOT_ENABLED}")
        await node.told("bound", "AppArmor", NOT_ENABLED)
        await node.until("free", is_phase("Succeeded"))
