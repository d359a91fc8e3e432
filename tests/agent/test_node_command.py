"""`fairlead up --node-runtime oci`, `fairlead node run` and `fairlead node reset`, as processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from msgspec.structs import replace

from fairlead.agent import linux
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.hierarchies import own_cgroup as own_cgroup_of
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.grpc.client import Client
from fairlead.agent.grpc.methods import Nothing
from fairlead.agent.pod_resources.lister import FOLDER as POD_RESOURCES
from fairlead.agent.pod_resources.messages import LIST
from fairlead.agent.runtimes.oci.user_namespace import is_possible
from fairlead.api.builtin import NODES, PODS
from fairlead.api.objects import Obj
from fairlead.cli.main import main
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import load, render
from tests.agent.device_driver import short as short
from tests.agent.machine import in_loop, own_cgroup, real_containers, root_file_system, write_configuration
from tests.agent.network.nodes import eventually
from tests.agent.oci_node import is_phase, manifest
from tests.agent.runtime_place import IMAGE
from tests.processes import fairlead_up, free_port

pytestmark = real_containers

NODE = "worker-1"


@dataclass(frozen=True)
class Ground:
    """Where a node may be: its folder with an image in it, and its configuration."""

    folder: Path
    cgroup: str

    @property
    def root(self) -> Path:
        return self.folder / "node"

    @property
    def config(self) -> Path:
        return self.folder / "kubelet.yaml"

    def reset(self) -> str:
        result = CliRunner().invoke(main, ["node", "reset", "--root", str(self.root)])
        assert result.exit_code == 0, result.output
        return result.output

    def is_clean(self) -> bool:
        here = [path for path in linux.mount_points(self.root) if path.is_relative_to(self.root)]
        return not here and sorted(path.name for path in self.root.iterdir()) == ["images"]


@pytest.fixture
def ground(short: Path) -> Iterator[Ground]:
    cgroups = Cgroups(hierarchies())
    with own_cgroup(cgroups) as cgroup:
        found = Ground(short, cgroup)
        write_configuration(found.config, cgroup)
        folder = root_file_system(short / "rootfs")
        loading = ["images", "load", "--root", str(found.root), "--name", IMAGE, "--cmd", "sh", str(folder)]
        result = CliRunner().invoke(main, loading)
        assert result.exit_code == 0, result.output
        yield found
        found.reset()


@contextmanager
def _agent(ground: Ground, kubeconfig: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    where = ["--kubeconfig", str(kubeconfig), "--config", str(ground.config), "--root", str(ground.root)]
    command = [sys.executable, "-m", "fairlead", "node", "run", *where, "--node-name", NODE, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline().startswith(f"Node {NODE} of")
        yield process
    finally:
        process.terminate()
        process.wait(20)


def _node_kubeconfig(data_dir: Path, file: Path) -> Path:
    asked = ["kubeconfig", "--data-dir", str(data_dir), "--user", f"system:node:{NODE}", "--group", "system:nodes"]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0, result.output
    file.write_text(result.output)
    return file


async def _pods(api: HttpApi) -> list[Obj]:
    return [pod.obj() for pod in (await api.list(PODS, "default")).items]


async def _all_are(api: HttpApi, phase: str, count: int) -> None:
    async with asyncio.timeout(40):
        while True:
            pods = await _pods(api)
            if len(pods) == count and all(map(is_phase(phase), pods)):
                return
            await asyncio.sleep(0.1)


def _processes_of_pods(ground: Ground) -> set[int]:
    return Cgroups(hierarchies()).processes(f"{ground.cgroup}/kubepods")


def test_a_cluster_whose_node_is_this_machine(ground: Ground, kubectl_path: Path) -> None:
    options = ["--node-runtime", "oci", "--node-root", str(ground.root), "--node-config", str(ground.config)]
    options += ["--cluster-network", "none"]  # the machine's own network is nobody's to test with
    with fairlead_up(ground.folder / "data", *options) as up:
        assert "this machine as node" in up.greeting
        assert ("failCgroupV1 is false" in up.greeting) == (hierarchies().version == 1)

        @in_loop
        async def run_a_pod() -> None:
            async with HttpApi(load(up.kubeconfig)) as api:
                sized = {"requests": {"memory": "16Mi"}, "limits": {"memory": "32Mi"}}
                probe = {"exec": {"command": ["true"]}, "periodSeconds": 1}
                web = manifest("web", "sh", "-c", "echo up; sleep 1000", resources=sized, readinessProbe=probe)
                await api.create(PODS, web, "default")
                await _all_are(api, "Running", 1)
                done = manifest("done", "echo", "last words", spec={"restartPolicy": "Never"})
                await api.create(PODS, done, "default")
                while (await api.get(PODS, "done", "default")).obj()["status"]["phase"] != "Succeeded":  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            client = Client(str(ground.root / POD_RESOURCES / "kubelet.sock"))
            assert {pod.name for pod in (await client.call(LIST, Nothing())).pod_resources} == {"web"}
            client.close()

        def kubectl(*words: str, typed: str = "") -> str:
            command = [str(kubectl_path), "--kubeconfig", str(up.kubeconfig), *words]
            done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60)
            return done.stdout + done.stderr

        run_a_pod()
        assert kubectl("logs", "web") == "up\n"
        assert kubectl("exec", "web", "--", "hostname") == "web\n"
        assert kubectl("exec", "-i", "web", "--", "cat", typed="to and fro") == "to and fro"
        look = ("--", "sh", "-c", "read line; ps | grep 'sleep 100[0]'; echo $line")
        said = kubectl("debug", "-i", "web", f"--image={IMAGE}", "--target=c", *look, typed="typed\n")
        assert "sleep 1000" in said and "typed" in said
        smaller = '{"spec":{"containers":[{"name":"c","resources":{"limits":{"memory":"48Mi"}}}]}}'
        assert "pod/web patched" in kubectl("patch", "pod", "web", "--subresource", "resize", "--patch", smaller)
        limit = "jsonpath={.status.containerStatuses[0].resources.limits.memory}"
        eventually(lambda: kubectl("get", "pod", "web", "-o", limit) == "48Mi")
        (name,) = kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()
        probes = kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/metrics/probes")
        assert 'prober_probe_total{container="c",namespace="default",pod="web",' in probes
        assert 'prober_probe_duration_seconds_count{container="c",namespace="default",pod="web",' in probes
        counted = kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/metrics").splitlines()
        assert 'kubelet_started_containers_total{container_type="container"} 2' in counted
        assert 'kubelet_started_containers_total{container_type="ephemeral_container"} 1' in counted
        assert {"kubelet_started_pods_total 2", 'kubelet_desired_pods{static="false"} 2'} <= set(counted)
        assert 'kubelet_pod_resources_endpoint_requests_list{server_api_version="v1"} 1' in counted
        assert any(f"kubelet_pod_start_duration_seconds_count {seen}" in counted for seen in (1, 2))  # one is quick
        configuration = kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/configz")
        assert '"maxPods":110' in configuration and f'"cgroupRoot":"{ground.cgroup}"' in configuration
        row = kubectl("top", "node", name, "--no-headers").split()
        assert row[0] == name and row[1].endswith("m") and row[3].endswith("Mi")
        up.process.send_signal(signal.SIGINT)
        assert up.process.stdout is not None
        said = up.process.stdout.read()
        assert "Stopped. 1 container run on; fairlead node reset would end them." in said.splitlines()
    with fairlead_up(ground.folder / "data", *options):
        eventually(lambda: kubectl("logs", "done") == "last words\n")
        assert kubectl("logs", "web", "-c", "c") == "up\n"
    assert ground.reset() == "Removed 1 pod, 2 containers.\n"
    assert ground.is_clean()


def test_an_agent_that_is_killed_while_it_looks_for_users_of_pods_leaves_nothing(ground: Ground) -> None:
    before = set(ground.root.iterdir())
    code = "from pathlib import Path; from fairlead.agent.runtimes.oci.user_namespace import is_possible as try_it;"
    looking = subprocess.Popen([sys.executable, "-c", f"{code} try_it(Path({str(ground.root)!r}))"])
    while looking.poll() is None and set(ground.root.iterdir()) == before:
        pass
    looking.kill()
    looking.wait()
    ground.reset()
    assert ground.is_clean()


@pytest.mark.slow
def test_an_agent_that_is_killed_at_any_moment_leaves_nothing_behind(ground: Ground) -> None:
    with fairlead_up(ground.folder / "data", "--nodes", "0") as up:
        kubeconfig = _node_kubeconfig(up.data_dir, ground.folder / "node.kubeconfig")
        has_users = is_possible(ground.folder)

        @in_loop
        async def kill_it_again_and_again() -> None:
            async with HttpApi(load(up.kubeconfig)) as api:
                for number in range(3):
                    for index in range(3):
                        own = {"hostUsers": False} if has_users and index == 2 else {}
                        await api.create(PODS, manifest(f"p-{number}-{index}", "sleep", "1000", spec=own), "default")
                    with _agent(ground, kubeconfig) as agent:
                        await asyncio.sleep(0.2 * number)  # it may be anywhere then
                        agent.kill()
                for index in range(3):
                    await api.delete(PODS, f"p-0-{index}", "default")
                with _agent(ground, kubeconfig):
                    await _all_are(api, "Running", 6)
                    _check_that_nothing_else_is_there(ground, {pod["metadata"]["uid"] for pod in await _pods(api)})

        kill_it_again_and_again()


def _check_that_nothing_else_is_there(ground: Ground, uids: set[str]) -> None:
    cgroups = Cgroups(hierarchies())
    records = [path.read_bytes() for path in ground.root.glob("containers/*/container.json")]
    assert sorted(msgspec.json.decode(record)["pod_uid"] for record in records) == sorted(uids)
    assert {path.name for path in (ground.root / "sandboxes").iterdir()} == uids
    assert cgroups.children(f"{ground.cgroup}/kubepods/besteffort") == {f"pod{uid}" for uid in uids}
    assert len(cgroups.processes(f"{ground.cgroup}/fairlead-conmon")) == len(uids)
    assert not list(ground.root.glob("sandboxes/*/mapped/*"))


@pytest.mark.slow
def test_a_node_says_what_it_is_told(ground: Ground) -> None:
    """S0-12, S0-13: nobody but itself makes its Node."""
    options = ("--node-labels", "pool=a", "--register-with-taints", "k=v:NoSchedule", "--node-ip", "10.1.2.3")
    flags = ("--max-pods=7", "--kube-reserved=cpu=500m")
    nodes: list[Obj] = []
    with fairlead_up(ground.folder / "data", "--nodes", "0") as up:
        kubeconfig = _node_kubeconfig(up.data_dir, ground.folder / "node.kubeconfig")

        @in_loop
        async def look() -> None:
            async with HttpApi(load(up.kubeconfig)) as api:
                nodes.append((await api.get(NODES, NODE)).obj())

        with _agent(ground, kubeconfig, *options, *flags):
            look()
    (node,) = nodes
    assert node["metadata"]["labels"]["pool"] == "a"
    assert {"key": "k", "value": "v", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert node["status"]["addresses"][0] == {"type": "InternalIP", "address": "10.1.2.3"}
    assert node["status"]["capacity"]["pods"] == "7"
    ready = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
    assert ready["status"] == "True" and "pods have no network but their loopback device" in ready["message"]
    cpus = len(os.sched_getaffinity(0))
    assert node["status"]["allocatable"]["cpu"] == f"{cpus * 1000 - 500}m"


@pytest.mark.slow
def test_an_agent_has_its_own_score_and_its_containers_theirs(ground: Ground, kubectl_path: Path) -> None:
    """S1-28; a machine that refuses a negative one takes a positive one as well."""
    with fairlead_up(ground.folder / "data", "--nodes", "0") as up:
        kubeconfig = _node_kubeconfig(up.data_dir, ground.folder / "node.kubeconfig")
        with _agent(ground, kubeconfig, "--oom-score-adj=300") as agent:
            assert Path(f"/proc/{agent.pid}/oom_score_adj").read_text() == "300\n"
            score = "cat /proc/self/oom_score_adj > /proc/1/fd/1"
            hook = {"postStart": {"exec": {"command": ["sh", "-c", score]}}}

            @in_loop
            async def look() -> None:
                async with HttpApi(load(up.kubeconfig)) as api:
                    await api.create(PODS, manifest("p", "sleep", "1000", lifecycle=hook), "default")
                    await _all_are(api, "Running", 1)

            look()
            (log,) = ground.root.glob("logs/default_p_*/c/0.log")
            assert log.read_text().endswith(" F 1000\n")


@pytest.mark.slow
def test_pods_live_on_while_there_is_no_api_server_and_tell_of_it_afterwards(
    ground: Ground, kubectl_path: Path
) -> None:
    port = ("--port", str(free_port()))
    with fairlead_up(ground.folder / "data", "--nodes", "0", *port) as up:
        kubeconfig = _node_kubeconfig(up.data_dir, ground.folder / "node.kubeconfig")
        agents = ExitStack()
        agent = agents.enter_context(_agent(ground, kubeconfig))

        @in_loop
        async def begin() -> None:
            async with HttpApi(load(up.kubeconfig)) as api:
                for name, seconds in (("lives", 1000), ("ends", 4)):
                    spec = {"restartPolicy": "OnFailure"}
                    await api.create(PODS, manifest(name, "sleep", str(seconds), spec=spec), "default")
                await _all_are(api, "Running", 2)

        begin()
    with agents:
        cgroups, parent = Cgroups(hierarchies()), f"{ground.cgroup}/kubepods/besteffort"
        eventually(lambda: sum(bool(cgroups.processes(f"{parent}/{pod}")) for pod in cgroups.children(parent)) == 1)
        first = _processes_of_pods(ground)
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: _processes_of_pods(ground) - first)  # restarted, without asking anybody
        with fairlead_up(ground.folder / "data", "--nodes", "0", *port) as up:
            shown = "jsonpath={range .items[*]}{.status.phase} {.status.containerStatuses[0].restartCount},{end}"
            command = [str(kubectl_path), "--kubeconfig", str(up.kubeconfig), "get", "pods", "-o", shown]
            wanted = "Succeeded 0,Running 1,"
            eventually(lambda: subprocess.run(command, capture_output=True, text=True).stdout == wanted, 30)
            assert agent.poll() is None


@pytest.mark.slow
def test_a_machine_joins_by_a_token_and_needs_it_once(ground: Ground, kubectl_path: Path) -> None:
    token = "07401b.f395accd246ae52d"
    with fairlead_up(ground.folder / "data", "--nodes", "0", "--enable-bootstrap-token-auth") as up:

        def kubectl(*words: str) -> str:
            command = [str(kubectl_path), "--kubeconfig", str(up.kubeconfig), *words]
            return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

        secret = ["-n", "kube-system", "create", "secret", "generic", "bootstrap-token-07401b"]
        data = {"token-id": token[:6], "token-secret": token[7:], "usage-bootstrap-authentication": "true"}
        kubectl(*secret, "--type=bootstrap.kubernetes.io/token", *(f"--from-literal={k}={v}" for k, v in data.items()))
        for role in ("node-bootstrapper", "certificates.k8s.io:certificatesigningrequests:nodeclient"):
            names = [role.rpartition(":")[2], f"--clusterrole=system:{role}", "--group=system:bootstrappers"]
            kubectl("create", "clusterrolebinding", *names)
        nobody = ground.folder / "cluster.kubeconfig"
        nobody.write_text(render(replace(load(up.kubeconfig), client_certificate=None, client_key=None)))
        with _agent(ground, nobody, "--join-token", token):
            kubectl("run", "web", f"--image={IMAGE}", "--", "sleep", "1000")
            kubectl("wait", "--for=condition=Ready", "--timeout=30s", "pod/web")
        kubectl("-n", "kube-system", "delete", "secret", "bootstrap-token-07401b")
        with _agent(ground, nobody, "--join-token", token):
            kubectl("run", "again", f"--image={IMAGE}", "--", "sleep", "1000")
            kubectl("wait", "--for=condition=Ready", "--timeout=30s", "pod/again")
        ground.reset()
        where = ["--kubeconfig", str(nobody), "--config", str(ground.config), "--root", str(ground.root)]
        command = [sys.executable, "-m", "fairlead", "node", "run", *where, "--node-name", NODE, "--join-token", token]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert refused.stderr.endswith(f"gives node {NODE} no certificate: Unauthorized\n")


@pytest.mark.slow
def test_a_node_elsewhere_asks_for_its_serving_certificate_and_is_measured(ground: Ground, kubectl_path: Path) -> None:
    """S1-27."""
    with fairlead_up(ground.folder / "data", "--nodes", "0") as up:

        def kubectl(*words: str) -> str:
            command = [str(kubectl_path), "--kubeconfig", str(up.kubeconfig), *words]
            return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()

        kubeconfig = _node_kubeconfig(up.data_dir, ground.folder / "node.kubeconfig")
        ca = ground.folder / "ca.crt"
        ca.write_bytes(load(kubeconfig).ca or b"")
        flags = ("--rotate-server-certificates", f"--client-ca-file={ca}", f"--port={free_port()}")
        with _agent(ground, kubeconfig, *flags, f"--kubelet-cgroups={ground.cgroup}/agent") as agent:
            kubectl("run", "web", f"--image={IMAGE}", "--", "sh", "-c", "echo up; sleep 1000")
            kubectl("wait", "--for=condition=Ready", "--timeout=30s", "pod/web")
            eventually(lambda: kubectl("get", "csr", "-o", "name"))
            assert kubectl("logs", "web") == ""  # nobody listens yet
            kubectl(
                "certificate", "approve", *kubectl("get", "csr", "-o", "jsonpath={.items[*].metadata.name}").split()
            )
            eventually(lambda: kubectl("logs", "web") == "up")
            own = Path(f"/proc/{agent.pid}/cgroup").read_text().splitlines()
            assert own_cgroup_of(hierarchies().version, own) == f"{ground.cgroup}/agent"
            summary = json.loads(kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/stats/summary"))
            assert "kubelet" in {each["name"] for each in summary["node"]["systemContainers"]}
    ground.reset()
    assert not Cgroups(hierarchies()).exists(f"{ground.cgroup}/agent")


@pytest.mark.slow
def test_two_agents_do_not_share_a_folder(ground: Ground) -> None:
    with fairlead_up(ground.folder / "data", "--nodes", "0") as up:
        kubeconfig = _node_kubeconfig(up.data_dir, ground.folder / "node.kubeconfig")
        with _agent(ground, kubeconfig):
            result = CliRunner().invoke(main, ["node", "reset", "--root", str(ground.root)])
            assert result.exit_code == 1 and "a node agent runs with" in result.output


@pytest.mark.skipif(hierarchies().version == 2, reason="the machine has cgroup v2")
def test_cgroup_v1_is_refused_unless_the_configuration_allows_it(ground: Ground) -> None:
    """S1-29."""
    document = yaml.safe_load(ground.config.read_text())
    del document["failCgroupV1"]
    ground.config.write_text(yaml.safe_dump(document))
    refused = _run_to_its_end(ground)
    assert refused.returncode != 0
    assert "kubelet is configured to not run on a host using cgroup v1" in refused.stderr
    assert not Cgroups(hierarchies()).exists(ground.cgroup)


def test_a_disk_for_all_of_a_node_stays_mounted_when_the_node_goes(tmp_path: Path) -> None:
    linux.mount("tmpfs", tmp_path, "tmpfs")
    try:
        (tmp_path / "logs").mkdir()
        result = CliRunner().invoke(main, ["node", "reset", "--root", str(tmp_path)])
        assert result.exit_code == 0, result.output
        assert linux.mount_points(tmp_path) == [tmp_path] and not list(tmp_path.iterdir())
    finally:
        linux.unmount_below(tmp_path)


def test_a_cgroup_of_somebody_else_is_not_taken(ground: Ground) -> None:
    Cgroups(hierarchies()).ensure(f"{ground.cgroup}/kubepods", {})
    refused = _run_to_its_end(ground)
    assert refused.returncode == 1 and "choose another cgroupRoot" in refused.stderr
    Cgroups(hierarchies()).remove(f"{ground.cgroup}/kubepods")


def _run_to_its_end(ground: Ground) -> subprocess.CompletedProcess[str]:
    """An agent of a cluster that nobody answers for."""
    cluster = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    kubeconfig = ground.folder / "none"
    kubeconfig.write_text(yaml.safe_dump(cluster))
    where = ["--kubeconfig", str(kubeconfig), "--config", str(ground.config), "--root", str(ground.root)]
    command = [sys.executable, "-m", "fairlead", "node", "run", *where, "--node-name", NODE]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)
