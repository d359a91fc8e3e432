"""The pytest plugin: the fixtures `fairlead_cluster`, `fairlead_clusters` and `virtual_cluster`, the marker `fairlead`.

pytest loads it in every run where Fairlead is installed, also of projects that have no use for it. So it imports
nothing of Fairlead until a fixture is asked for.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fairlead.simulation.virtual import VirtualCluster
    from fairlead.testing.live import Cluster

_MARKER = "fairlead"
_VIRTUAL = "virtual_cluster"
#: Whole modules are marked for pytest-asyncio, which warns of each test there that is none of its own.
_NOT_ASYNC = pytest.mark.filterwarnings(r"ignore:The test .* is marked with '@pytest.mark.asyncio'")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(nodes=3, node_cpu='4', arbitrator=False, ...): what the cluster of `fairlead_cluster` is to be "
        "like, and those of `virtual_cluster`; the options are those of fairlead.testing.cluster",
    )


@pytest.fixture
def fairlead_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A fresh Kubernetes cluster with simulated nodes; @pytest.mark.fairlead(nodes=5) says what it is like."""
    from fairlead.testing.live import cluster

    try:
        running = cluster(**_marked(request))
    except (TypeError, ValueError, OSError) as error:
        pytest.fail(f"the marker {_MARKER}: {error}", pytrace=False)
    with running as found:
        yield found


@pytest.fixture(scope="session")
def fairlead_clusters() -> Iterator[Callable[..., Cluster]]:
    """Makes clusters that live until the session ends, for fixtures of a wider scope: fairlead_clusters(nodes=5)."""
    from fairlead.testing.live import cluster

    with ExitStack() as running:
        yield lambda **options: running.enter_context(cluster(**options))


@pytest.fixture(name=_VIRTUAL)
def _virtual_cluster(request: pytest.FixtureRequest) -> Callable[..., AbstractAsyncContextManager[VirtualCluster]]:
    """Makes clusters in virtual time: `async with virtual_cluster(nodes=20) as c:`. An async test that takes this
    fixture runs in virtual time itself. Options that it is not given are those of @pytest.mark.fairlead.
    """
    from fairlead.simulation.virtual import virtual_cluster

    return functools.partial(virtual_cluster, **_marked(request))


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options that markers name."""
    options: dict[str, Any] = {}
    for marker in reversed([*request.node.iter_markers(_MARKER)]):  # those nearer to the test count more
        if marker.args:
            pytest.fail(f"the marker {_MARKER} takes options by name, as in nodes=5", pytrace=False)
        options |= marker.kwargs
    return options


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where a test with a cluster fails, show how the cluster looks then."""
    report = yield
    live = sys.modules.get("fairlead.testing.live")  # nobody has a cluster before this is imported
    if live is None or not report.failed or report.when == "teardown":
        return report
    for name, value in getattr(item, "funcargs", {}).items():
        if isinstance(value, live.Cluster):
            with suppress(Exception):  # a cluster that is broken is told of when it is stopped
                report.sections.append((f"{name} as the test left it", value.describe()))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> None:
    """Gives an async test that takes `virtual_cluster` a loop in virtual time, before a plugin for async tests (there
    may be several) takes it for one of its own.
    """
    if (
        inspect.iscoroutinefunction(obj)
        and collector.funcnamefilter(name)
        and _VIRTUAL in inspect.signature(obj).parameters
    ):
        setattr(collector.obj, name, _in_virtual_time(obj))


def _in_virtual_time(test: Callable[..., Any]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        from fairlead.runtime.loops import run_virtual

        run_virtual(test(*args, **kwargs))

    marked: Callable[..., None] = _NOT_ASYNC(run)
    return marked
