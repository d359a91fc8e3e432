"""`kubectl logs` of a real node: the parts that can be asked for, following, and the kubelet's own objections."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic

from fairlead.api.objects import Obj
from fairlead.runtime.loops import run
from tests.agent.real_node import real_node
from tests.kubectl import kubectl

CLIENT = kubectl("1.36")
LINES = 50_000
LINES_A_SECOND = 10_000


def test_the_parts_of_a_log(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            script = "for i in 1 2 3 4 5; do echo line $i; done; echo oops >&2"
            await node.start("p", {"name": "main", "command": ["sh", "-c", script]})
            done = await node.run(CLIENT, "logs", "-f", "p")  # to its end, as the container has ended
            whole = [f"line {number}\n" for number in range(1, 6)]
            assert sorted(done.out.splitlines(keepends=True)) == [*whole, "oops\n"]

            async def logs(*options: str) -> str:
                return (await node.run(CLIENT, "logs", "p", *options)).out

            assert len((await logs("--tail", "2")).splitlines()) == 2
            assert await logs("--tail", "0") == ""
            assert await logs("--since-time", "2999-01-01T00:00:00Z") == ""
            assert len((await logs("--since", "1h")).splitlines()) == 6
            assert len(await logs("--limit-bytes", "9")) == 9
            assert all(line[4] == "-" and "T" in line[:20] for line in (await logs("--timestamps")).splitlines())
            path = "/api/v1/namespaces/default/pods/p/log?stream="
            assert (await node.run(CLIENT, "get", "--raw", f"{path}Stdout")).out == "".join(whole)
            assert (await node.run(CLIENT, "get", "--raw", f"{path}Stderr")).out == "oops\n"

    run(main())


def test_what_cannot_be_shown_is_said_in_the_kubelets_words(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            pod = await node.start("p", {"name": "main"})

            async def objection(*options: str, state: Obj | None = None) -> str:
                if state is not None:
                    statuses = [{"name": "main", "containerID": "", "state": state}]
                    node.pods.set_status(pod, {"containerStatuses": statuses})
                done = await node.run(CLIENT, "logs", "p", *options, check=False)
                assert done.code == 1
                return done.err

            named = 'container "main" in pod "p"'
            assert await objection("-p") == (f"Error from server (BadRequest): previous terminated {named} not found\n")
            waiting = {"waiting": {"reason": "ContainerCreating"}}
            expected = f"Error from server (BadRequest): {named} is waiting to start: ContainerCreating\n"
            assert await objection(state=waiting) == expected
            waiting = {"waiting": {"reason": "ImagePullBackOff"}}
            expected = (
                f"Error from server (BadRequest): {named} is waiting to start: trying and failing to pull image\n"
            )
            assert await objection(state=waiting) == expected
            node.pods.set_status(pod, {})
            assert await objection() == f"Error from server (BadRequest): {named} is not available\n"
            assert "container nope is not valid for pod p" in await objection("-c", "nope")
            raw = "/api/v1/namespaces/default/pods/p/log?tailLines=-1"
            done = await node.run(CLIENT, "get", "--raw", raw, check=False)
            expected = 'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0'
            assert expected in done.err

    run(main())


def test_the_log_of_the_run_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            pod = await node.start("p", {"name": "main", "command": ["echo", "before"]})
            await node.run(CLIENT, "logs", "-f", "p")
            last = {"terminated": {"containerID": pod["status"]["containerStatuses"][0]["containerID"]}}
            status = {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": last}
            node.pods.set_status(pod, {"containerStatuses": [status]})
            assert (await node.run(CLIENT, "logs", "-p", "p")).out == "before\n"
            assert (await node.run(CLIENT, "logs", "p")).out == "before\n"  # the last that there is

    run(main())


def test_ten_thousand_lines_a_second_are_followed_over_rotations_without_loss(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            pod = await node.start("p", {"name": "main"}, log_bytes=1 << 20)
            log = node.pods.logs[pod["status"]["containerStatuses"][0]["containerID"]]
            following = await node.begin(CLIENT, "logs", "-f", "p")
            assert following.stdout is not None
            log.write("stdout", b"first")
            async with asyncio.timeout(30):
                assert await following.stdout.readline() == b"first\n"

            async def write() -> None:
                began = monotonic()
                for number in range(LINES):
                    log.write("stdout", b"%060d" % number)
                    if number % 100 == 99:
                        await asyncio.sleep(max(0, began + number / LINES_A_SECOND - monotonic()))

            writing = asyncio.create_task(write())
            async with asyncio.timeout(60):
                for number in range(LINES):
                    assert await following.stdout.readline() == b"%060d\n" % number
            await writing
            assert len(list(log.path.parent.glob("0.log.*"))) >= 4

    run(main())
