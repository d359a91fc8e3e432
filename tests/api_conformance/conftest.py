"""Every test of this folder runs once over each implementation of `Api`, in a namespace of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from itertools import count

import pytest

from fairlead.api.builtin import NAMESPACES
from fairlead.api.verbs import Api
from tests.api_conformance.implementations import IMPLEMENTATIONS, running

_numbers = count(1)


@pytest.fixture(params=IMPLEMENTATIONS, scope="session")
def implementation(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def runner(implementation: str) -> Iterator[asyncio.Runner]:
    """The loop on which both the server and the tests run."""
    with asyncio.Runner(loop_factory=IMPLEMENTATIONS[implementation].loop) as runner:
        yield runner


@pytest.fixture(scope="session")
def api(implementation: str, runner: asyncio.Runner) -> Iterator[Api]:
    context = running(IMPLEMENTATIONS[implementation])
    yield runner.run(context.__aenter__())
    runner.run(context.__aexit__(None, None, None))


@pytest.fixture
def namespace(api: Api, runner: asyncio.Runner) -> str:
    name = f"n{next(_numbers)}"
    runner.run(api.create(NAMESPACES, {"metadata": {"name": name}}))
    return name


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on the loop of its implementation."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(pyfuncitem.obj(**arguments))
    return True
