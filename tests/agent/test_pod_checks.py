"""Probes and hooks of real containers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.api.objects import Obj
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import is_running, manifest, real_node, state

pytestmark = real_containers

SERVE = "while true; do echo -e 'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok' | nc -l -p 8080; done"


def _probe(**action: Any) -> Obj:
    return {"periodSeconds": 1, "failureThreshold": 1, **action}


def _is_ready(pod: Obj) -> bool:
    return bool(state(pod).get("ready"))


@in_loop
async def test_readiness_follows_a_command(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        probe = _probe(exec={"command": ["sh", "-c", "test -e /tmp/ready || { echo not yet; exit 1; }"]})
        script = "sleep 1.5; touch /tmp/ready; sleep 1000"
        await node.create(manifest("web", "sh", "-c", script, readinessProbe=probe))
        pod = await node.until("web", is_running)
        assert not _is_ready(pod)
        await node.until("web", _is_ready)
        await node.told("web", "Unhealthy", "Readiness probe failed: not yet\n")


@in_loop
async def test_ports_in_the_network_of_the_pod_are_asked(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        http, tcp = _probe(httpGet={"port": "web", "path": "/"}), _probe(tcpSocket={"port": 8080})
        ports = [{"name": "web", "containerPort": 8080}]
        await node.create(manifest("http", "sh", "-c", SERVE, readinessProbe=http, ports=ports))
        await node.create(manifest("tcp", "sh", "-c", SERVE, readinessProbe=tcp))
        await node.create(manifest("shut", "sleep", "1000", readinessProbe=tcp))
        await node.until("http", _is_ready)
        await node.until("tcp", _is_ready)
        await node.until("shut", is_running)
        refused = "Readiness probe failed: dial tcp 127.0.0.1:8080: connect: connection refused"
        assert not _is_ready(await node.pod("shut"))
        await node.told("shut", "Unhealthy", refused)


@in_loop
async def test_what_fails_its_liveness_probe_is_restarted(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        probe = _probe(exec={"command": ["test", "-e", "/tmp/alive"]}, initialDelaySeconds=1)
        await node.create(manifest("web", "sh", "-c", "echo up; sleep 1000", livenessProbe=probe))
        pod = await node.until("web", lambda pod: state(pod).get("restartCount", 0) >= 1)
        assert state(pod)["lastState"]["terminated"]["exitCode"] == 137
        await node.told("web", "Killing", "Container c failed liveness probe, will be restarted")


@in_loop
async def test_a_startup_probe_holds_up_the_others(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        startup = _probe(exec={"command": ["test", "-e", "/tmp/up"]}) | {"failureThreshold": 30}
        ready = _probe(exec={"command": ["true"]})
        script = "sleep 1.5; touch /tmp/up; sleep 1000"
        await node.create(manifest("slow", "sh", "-c", script, startupProbe=startup, readinessProbe=ready))
        pod = await node.until("slow", is_running)
        assert not state(pod)["started"] and not _is_ready(pod)
        await node.until("slow", lambda pod: state(pod)["started"] and _is_ready(pod))


@in_loop
async def test_hooks_run_after_the_start_and_before_the_stop(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        said = tmp_path / "said"
        hooks = {
            "postStart": {"exec": {"command": ["sh", "-c", "echo started >> /said/words"]}},
            "preStop": {"exec": {"command": ["sh", "-c", "echo stopping >> /said/words"]}},
        }
        volumes = [{"name": "said", "hostPath": {"path": str(said), "type": "DirectoryOrCreate"}}]
        mounts = [{"name": "said", "mountPath": "/said"}]
        pod = manifest("web", "sleep", "1000", spec={"volumes": volumes}, volumeMounts=mounts, lifecycle=hooks)
        await node.create(pod)
        await node.until("web", is_running)
        assert (said / "words").read_text() == "started\n"
        await node.delete("web", grace=2)
        await node.gone("web")
        assert (said / "words").read_text() == "started\nstopping\n"


@in_loop
async def test_a_hook_that_fails_ends_the_container(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        hooks = {"postStart": {"exec": {"command": ["sh", "-c", "echo no; exit 1"]}}}
        await node.create(manifest("web", "sleep", "1000", spec={"restartPolicy": "Never"}, lifecycle=hooks))
        await node.until("web", lambda pod: "terminated" in state(pod).get("state", {}))
        await node.told("web", "FailedPostStartHook", "PostStartHook failed: no\n")


@pytest.mark.slow
@in_loop
async def test_a_pod_that_ends_is_still_probed_for_its_readiness_but_not_for_its_life(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "trap 'rm /tmp/ready; sleep 6; exit 0' TERM; touch /tmp/ready; while true; do sleep 0.1; done"
        probe = _probe(exec={"command": ["test", "-e", "/tmp/ready"]}) | {"initialDelaySeconds": 1}
        both = {"readinessProbe": probe, "livenessProbe": probe}
        await node.create(manifest("web", "sh", "-c", script, spec={"terminationGracePeriodSeconds": 20}, **both))
        await node.until("web", _is_ready)
        await node.delete("web", grace=20)
        pod = await node.until("web", lambda pod: is_running(pod) and not _is_ready(pod))
        assert pod["metadata"]["generation"] == pod["status"]["observedGeneration"] == 2
        ready = next(each for each in pod["status"]["conditions"] if each["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "ContainersNotReady")
        await node.gone("web")
        told = [message for reason, message in await node.events("web") if reason == "Unhealthy"]
        assert told and all(message.startswith("Readiness") for message in told)


@in_loop
async def test_a_redirect_that_leads_away_is_an_answer_that_is_told(tmp_path: Path) -> None:
    answer = "HTTP/1.1 302 Found\\r\\nLocation: http://127.0.0.2:1/\\r\\nContent-Length: 4\\r\\n\\r\\naway"
    script = f"while true; do echo -e '{answer}' | nc -l -p 8080; done"
    async with real_node(tmp_path) as node:
        probe = _probe(httpGet={"port": 8080, "path": "/"})
        await node.create(manifest("web", "sh", "-c", script, readinessProbe=probe))
        await node.until("web", _is_ready)
        await node.told(
            "web", "ProbeWarning", "Readiness probe warning: Probe terminated redirects, Response body: away"
        )
