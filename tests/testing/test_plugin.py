"""The pytest plugin, as a project has it that has installed Fairlead."""

from __future__ import annotations

import pytest

BATCH = """
apiVersion: batch/v1
kind: Job
metadata: {name: night}
spec:
  completions: 6
  parallelism: 6
  template:
    metadata: {annotations: {sim.fairlead.dev/lifetime-seconds: "3600"}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: batch, resources: {requests: {cpu: "2"}}}]
"""


def ran(pytester: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly", *options)


@pytest.mark.slow
def test_whoever_does_not_use_it_pays_nothing(pytester: pytest.Pytester) -> None:
    result = ran(
        pytester,
        """
        import sys

        def test_of_something_else(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("fairlead")
            ours = {name for name in sys.modules if name.split(".")[0] == "fairlead"}
            assert ours == {"fairlead", "fairlead.testing", "fairlead.testing.plugin"}
            assert not {"aiohttp", "numpy", "uvloop", "cryptography"} & sys.modules.keys()
        """,
    )
    result.assert_outcomes(passed=1)


def test_each_test_has_a_fresh_cluster_as_its_marker_wants_it(pytester: pytest.Pytester) -> None:
    result = ran(
        pytester,
        """
        import pytest

        pytestmark = pytest.mark.fairlead(nodes=1, node_cpu="2")
        MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}

        @pytest.mark.parametrize("number", range(2))
        def test_fresh(fairlead_cluster, number):
            assert [m for m in fairlead_cluster.list("configmaps") if m["metadata"]["name"] == "mine"] == []
            fairlead_cluster.apply(MAP)
            (node,) = fairlead_cluster.list("nodes")
            assert node["status"]["capacity"]["cpu"] == "2"

        @pytest.mark.fairlead(nodes=5)
        def test_nearer_markers_count_more(fairlead_cluster):
            nodes = fairlead_cluster.list("nodes")
            assert [node["status"]["capacity"]["cpu"] for node in nodes] == ["2"] * 5
        """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=3)


@pytest.mark.slow
def test_a_session_may_share_a_cluster(pytester: pytest.Pytester) -> None:
    result = ran(
        pytester,
        """
        import pytest

        @pytest.fixture(scope="session")
        def shared(fairlead_clusters):
            return fairlead_clusters(nodes=1)

        def test_first(shared):
            shared.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})

        def test_second(shared):
            assert shared.get("cm/mine")
        """,
    )
    result.assert_outcomes(passed=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("marker", "text"),
    [
        ("nodes='nowhere.yaml'", "the marker fairlead: there is no file nowhere.yaml"),
        ("node=3", "the marker fairlead: unknown option node; known are nodes, "),
        ("3", "the marker fairlead takes options by name, as in nodes=5"),
    ],
)
def test_a_wrong_marker_is_told_in_a_sentence(pytester: pytest.Pytester, marker: str, text: str) -> None:
    result = ran(
        pytester,
        f"""
        import pytest

        @pytest.mark.fairlead({marker})
        def test_it(fairlead_cluster):
            pass
        """,
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{text}*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_marker_is_for_virtual_clusters_too(pytester: pytest.Pytester) -> None:
    result = ran(
        pytester,
        """
        import pytest

        @pytest.mark.fairlead(nodes=2, node_cpu="2")
        async def test_virtual(virtual_cluster):
            async with virtual_cluster(nodes=1) as c:
                (node,) = await c.list("nodes")
                assert node["status"]["capacity"]["cpu"] == "2"
        """,
    )
    result.assert_outcomes(passed=1)


VIRTUAL = """
import asyncio, time
import pytest

async def test_nightly_batch_meets_its_deadline(virtual_cluster):
    began = time.perf_counter()
    async with virtual_cluster(nodes=2) as c:
        await c.apply("batch.yaml")
        assert len(c.pods().waiting()) == 2
        await c.run_until("06:00")
        assert c.pods(namespace="default").waiting().empty()
        assert len(c.pods().succeeded()) == 6
    assert time.perf_counter() - began < 30

class TestInAClass:
    @pytest.mark.parametrize("nodes", [1, 3])
    async def test_more_nodes_wait_less(self, virtual_cluster, nodes, tmp_path):
        async with virtual_cluster(nodes=nodes) as c:
            await c.apply("batch.yaml")
            assert len(c.pods().waiting()) == max(6 - 2 * nodes, 0)

async def test_that_fails(virtual_cluster):
    async with virtual_cluster(nodes=0) as c:
        await c.apply("batch.yaml")
        await c.wait_for("job/night", "Complete", timeout=3600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-p", "no:anyio")])
def test_async_tests_of_a_virtual_cluster_run_in_virtual_time(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    (pytester.path / "batch.yaml").write_text(BATCH)
    result = ran(pytester, VIRTUAL, *options)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*TimeoutError: Job night in default: 'Complete' did not come to be within 3600 s"])


#: What pytest-asyncio does about tests that are marked as its own and are no coroutines.
WARNS_AS_PYTEST_ASYNCIO = """
import warnings
import pytest

def pytest_configure(config):
    config.addinivalue_line("markers", "asyncio: of pytest-asyncio")

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    warnings.warn(pytest.PytestWarning(
        f"The test {pyfuncitem} is marked with '@pytest.mark.asyncio' but it is not an async function."
    ))
"""


@pytest.mark.slow
def test_a_module_may_be_marked_for_pytest_asyncio(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(WARNS_AS_PYTEST_ASYNCIO)
    test = """
        import pytest

        pytestmark = pytest.mark.asyncio

        async def test_virtual(virtual_cluster):
            async with virtual_cluster(nodes=1) as c:
                assert len(await c.list("nodes")) == 1
    """
    ran(pytester, test, "-W", "error").assert_outcomes(passed=1)


FAILING = """
import pytest

def deployment():
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "9"}}}
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}

@pytest.fixture(scope="module")
def shared(fairlead_clusters):
    return fairlead_clusters(nodes=1)

def test_real(shared):
    shared.apply(deployment())
    shared.wait_for("deploy/web", lambda web: web.get("status", {}).get("unavailableReplicas") == 1)
    while "Insufficient cpu" not in shared.describe():
        pass
    assert shared.get("deploy/web")["status"].get("readyReplicas") == 1

async def test_virtual(virtual_cluster):
    async with virtual_cluster(nodes=1) as c:
        await c.apply(deployment())
        await c.run_for("1m")
        assert c.pods().waiting().empty()
"""


@pytest.mark.slow
def test_where_a_test_fails_it_is_shown_how_its_cluster_looked(pytester: pytest.Pytester) -> None:
    result = ran(pytester, FAILING)
    result.assert_outcomes(failed=2)
    shown = ["*pods (1):", "*default/web-*  Pending, not ready  no node  Unschedulable: *Insufficient cpu*"]
    shown += ["*last events:", "*! default/Pod/web-*  FailedScheduling*: 0/1 nodes are available*"]
    result.stdout.fnmatch_lines(["*shared as the test left it*", *shown])
    result.stdout.fnmatch_lines(["*assert c.pods().waiting().empty()", *shown])


@pytest.mark.slow
def test_a_plain_test_runs_a_coroutine_in_virtual_time(pytester: pytest.Pytester) -> None:
    (pytester.path / "batch.yaml").write_text(BATCH)
    result = ran(
        pytester,
        """
        from fairlead.testing import run_virtual, virtual_cluster

        def test_plain():
            async def night():
                async with virtual_cluster(nodes=2) as c:
                    await c.apply("batch.yaml")
                    await c.run_for("3h")
                    return c.pods()

            assert len(run_virtual(night()).succeeded()) == 6
        """,
    )
    result.assert_outcomes(passed=1)


@pytest.mark.slow
def test_on_another_loop_the_error_says_what_to_do(pytester: pytest.Pytester) -> None:
    result = ran(
        pytester,
        """
        import asyncio
        import pytest

        def test_wrong_loop(virtual_cluster):
            async def main():
                async with virtual_cluster():
                    pass

            with pytest.raises(RuntimeError, match="let the test take the fixture"):
                asyncio.run(main())
        """,
    )
    result.assert_outcomes(passed=1)
