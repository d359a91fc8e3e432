"""What containers may do to their machine, and which settings of the kernel a pod has for itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from fairlead.api.builtin import NODES
from fairlead.api.objects import Obj
from fairlead.node.sysctls import file_of, pattern_problem, sysctl_refusal
from tests.agent.containerd import before_containerd_2, since_containerd_2, with_containerd
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import NODE, RealNode, is_phase, is_running, manifest, real_node, state
from tests.agent.runtime_place import CONTAINERD, IMAGE, OCI, on_each

PORTS = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
ONCE = {"restartPolicy": "Never"}


async def _said(node: RealNode, name: str, script: str, spec: Obj | None = None, **container: object) -> list[str]:
    """What a pod says that runs this to its end."""
    await node.create(manifest(name, "sh", "-c", script, spec=ONCE | (spec or {}), **container))
    await node.until(name, lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))
    return node.log(name)


def _sysctls(**values: str) -> Obj:
    named = [{"name": name.replace("__", "."), "value": value} for name, value in values.items()]
    return {"securityContext": {"sysctls": named}}


@pytest.mark.parametrize(
    ("name", "allowed", "host", "problem"),
    [
        ("net.ipv4.tcp_syncookies", [], {}, ""),
        ("net/ipv4/tcp_syncookies", [], {}, ""),
        ("kernel.msgmax", [], {}, 'forbidden sysctl: "kernel.msgmax" not allowlisted'),
        ("kernel.msgmax", ["kernel.msg*"], {}, ""),
        ("kernel.msgmax", ["kernel/msg*"], {}, ""),
        ("vm.swappiness", ["net.*"], {}, 'forbidden sysctl: "vm.swappiness" not allowlisted'),
        ("net.ipv4.tcp_rmem", [], {"hostNetwork": True}, '"net.ipv4.tcp_rmem" not allowed with host net enabled'),
        ("kernel.shm_rmid_forced", [], {"hostIPC": True}, '"kernel.shm_rmid_forced" not allowed with host ipc enabled'),
    ],
)
def test_which_sysctls_a_node_takes(name: str, allowed: list[str], host: Obj, problem: str) -> None:
    found = sysctl_refusal({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}, **host}, allowed)
    assert (found is None) if not problem else (found is not None and problem in found.message)


def test_what_a_configuration_may_allow() -> None:
    assert pattern_problem(["net.*", "kernel.shmmax", "fs.mqueue.*"]) == ""
    assert pattern_problem(["vm.*"]) == 'the sysctls "vm.*" are not known to be namespaced'
    assert file_of("net.ipv4.conf.eth0/1.rp_filter") == "net/ipv4/conf/eth0.1/rp_filter"


@on_each
@in_loop
async def test_sysctls_are_the_pods_own(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, {"allowedUnsafeSysctls": ["kernel.msg*"]}, kind=kind) as node:
        spec = _sysctls(net__ipv4__ip_unprivileged_port_start="81", kernel__msgmax="5000")
        files = f"{PORTS} /proc/sys/kernel/msgmax"
        assert await _said(node, "own", f"cat {files}", spec) == ["81", "5000"]
        assert await asyncio.to_thread(PORTS.read_text) != "81\n"  # the machine's
        await node.create(manifest("bold", "true", spec=_sysctls(kernel__sem="1 1 1 1")))
        pod = await node.until("bold", is_phase("Failed"))
        assert pod["status"]["reason"] == "SysctlForbidden"
        assert pod["status"]["message"] == 'Pod was rejected: forbidden sysctl: "kernel.sem" not allowlisted'


@real_containers
@in_loop
async def test_a_privileged_container_has_the_machines_devices_and_may_mount(tmp_path: Path) -> None:
    script = "test -c /dev/kmsg && echo device; mount -t tmpfs none /tmp && echo mounted"
    script += "; grep -q ' /sys sysfs rw' /proc/self/mounts && echo rw; echo end"
    async with real_node(tmp_path) as node:
        assert (await _said(node, "meek", script))[-1:] == ["end"]
        assert not {"device", "mounted", "rw"} & set(node.log("meek"))
        said = await _said(node, "mighty", script, securityContext={"privileged": True})
        assert said == ["device", "mounted", "rw", "end"]


@on_each
@in_loop
async def test_a_seccomp_profile_of_the_machine_is_applied(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        refused = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
        profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refused]}
        (node.root / "seccomp").mkdir(parents=True)
        (node.root / "seccomp/no-folders.json").write_bytes(msgspec.json.encode(profile))
        (node.root / "seccomp/broken.json").write_text("{")

        def using(name: str) -> Obj:
            return {"seccompProfile": {"type": "Localhost", "localhostProfile": name}}

        script = "mkdir /tmp/x 2>/dev/null && echo made; echo end"
        assert await _said(node, "free", script) == ["made", "end"]
        assert await _said(node, "bound", script, securityContext=using("no-folders.json")) == ["end"]
        for name in ("broken", "missing"):
            await node.create(manifest(name, "true", securityContext=using(f"{name}.json")))
            pod = await node.until(name, lambda pod: "waiting" in state(pod).get("state", {}) and _reason(pod) != "")
            assert "cannot load seccomp profile" in state(pod)["state"]["waiting"]["message"]


def _reason(pod: Obj) -> str:
    reason: str = state(pod)["state"]["waiting"]["reason"]
    return reason if reason == "CreateContainerConfigError" else ""


@on_each
@in_loop
async def test_a_node_may_confine_all_that_says_nothing(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, {"seccompDefault": True}, kind=kind) as node:
        script = "grep Seccomp: /proc/self/status"
        assert await _said(node, "bound", script) == ["Seccomp:\t2"]
        unconfined = {"seccompProfile": {"type": "Unconfined"}}
        assert await _said(node, "free", script, securityContext=unconfined) == ["Seccomp:\t0"]


@pytest.mark.parametrize(
    "kind", [pytest.param(OCI, marks=real_containers), pytest.param(CONTAINERD, marks=since_containerd_2)]
)
@in_loop
async def test_strict_groups_leave_out_those_of_the_image(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        for policy, groups in (("Merge", "1001 29 4000"), ("Strict", "1001 4000")):
            security = {"runAsUser": 1000, "supplementalGroups": [4000], "supplementalGroupsPolicy": policy}
            assert await _said(node, policy.lower(), "id -G", {"securityContext": security}) == [groups]
            shown = state(await node.pod(policy.lower()))["user"]["linux"]
            assert (shown["uid"], shown["gid"]) == (1000, 1001)
            assert set(shown["supplementalGroups"]) == set(map(int, groups.split()))


@with_containerd
@before_containerd_2
@in_loop
async def test_a_runtime_that_cannot_leave_groups_out_does_not_get_such_a_pod(tmp_path: Path) -> None:
    async with real_node(tmp_path, kind=CONTAINERD) as node:
        spec = {"nodeName": NODE, "securityContext": {"supplementalGroupsPolicy": "Strict"}}
        await node.create(manifest("strict", "id", spec=spec))
        refused = (await node.until("strict", is_phase("Failed")))["status"]
        assert refused["reason"] == "SupplementalGroupsPolicyNotSupported"
        shown = (await node.api.get(NODES, NODE)).obj()["status"]["features"]
        assert shown == {"supplementalGroupsPolicy": False}


@real_containers
@in_loop
async def test_names_of_hosts_are_as_a_pod_asks(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        full = {"setHostnameAsFQDN": True, "subdomain": "sub"}
        assert await _said(node, "web", "hostname", full) == ["web.sub.default.svc.cluster.local"]
        script = "hostname; tail -n 1 /etc/hosts"
        assert await _said(node, "other", script, {"hostnameOverride": "an.other.name"}) == [
            "an.other.name",
            "127.0.0.1\tan.other.name",
        ]
        await node.create(manifest("long", "true", spec=full | {"hostname": "h" * 40}))
        name = f"{'h' * 40}.sub.default.svc.cluster.local"
        problem = f"FQDN {name} is too long (64 characters is the max, {len(name)} characters requested)"
        start = "Failed to create pod sandbox: Failed to construct FQDN from Pod hostname and cluster domain"
        await node.told("long", "FailedCreatePodSandBox", f"{start}, {problem}")


@on_each
@in_loop
async def test_parts_of_volumes_go_by_variables_and_may_be_read_only_below(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        env = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        volumes = [{"name": "v", "emptyDir": {}}, {"name": "host", "hostPath": {"path": str(tmp_path)}}]
        mounts: list[Obj] = [
            {"name": "v", "mountPath": "/own", "subPathExpr": "logs/$(POD)"},
            {"name": "v", "mountPath": "/all"},
            {"name": "v", "mountPath": "/plain", "subPath": "$(POD)"},
            {"name": "host", "mountPath": "/host", "readOnly": True, "recursiveReadOnly": "IfPossible"},
        ]
        script = "touch /own/x; ls /all /all/logs/web; touch /host/root/x 2>/dev/null || echo refused; echo end"
        said = await _said(node, "web", script, {"volumes": volumes}, env=env, volumeMounts=mounts)
        assert {"refused", "$(POD)", "x"} <= set(said) and said[-1] == "end"
        own, *_, host = state(await node.pod("web"))["volumeMounts"]
        assert own == {"name": "v", "mountPath": "/own"}
        assert host["readOnly"] and host["recursiveReadOnly"] in ("Enabled", "Disabled")
        mounts[-1]["recursiveReadOnly"] = "Enabled"
        await node.create(manifest("must", "sleep", "1000", spec={"volumes": volumes}, env=env, volumeMounts=mounts))
        handlers = (await node.api.get(NODES, NODE)).obj()["status"].get("runtimeHandlers") or ()
        if any(each["name"] == "" and each["features"]["recursiveReadOnlyMounts"] for each in handlers):
            await node.until("must", is_running)
        else:
            pod = await node.until("must", lambda pod: "waiting" in state(pod).get("state", {}) and _reason(pod) != "")
            assert state(pod)["state"]["waiting"]["message"] == (
                'failed to resolve recursive read-only mode: volume "host" requested recursive read-only mode, '
                "but it is not supported by the runtime"
            )
        unknown = [{"name": "v", "mountPath": "/own", "subPathExpr": "$(NOBODY)"}]
        await node.create(manifest("bad", "true", image=IMAGE, spec={"volumes": volumes}, volumeMounts=unknown))
        pod = await node.until("bad", lambda pod: "waiting" in state(pod).get("state", {}) and _reason(pod) != "")
        assert state(pod)["state"]["waiting"]["message"] == 'missing value for "NOBODY"'
        out = {
            "..": "unable to provision SubPath `..`: must not contain '..'",
            "/tmp": "error SubPath `/tmp` must not be an absolute path",
        }
        for number, (value, problem) in enumerate(out.items()):
            name, env = f"out-{number}", [{"name": "NOBODY", "value": value}]
            told = manifest(name, "true", image=IMAGE, spec={"volumes": volumes}, volumeMounts=unknown, env=env)
            await node.create(told)
            pod = await node.until(name, lambda pod: "waiting" in state(pod).get("state", {}) and _reason(pod) != "")
            waiting = state(pod)["state"]["waiting"]
            assert waiting == {"reason": "CreateContainerConfigError", "message": problem}
