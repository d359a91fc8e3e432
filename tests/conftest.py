"""Fixtures that whole test folders share."""

from __future__ import annotations

import importlib
import os
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest

from fairlead import COMPATIBILITY_VERSION
from fairlead.runtime.memory import keep_started
from tests.examples import PLENTY, USUAL
from tests.kubectl import KubectlMissing, kubectl

TESTS = Path(__file__).parent
#: Where the recorded cases of the real Kubernetes are read from.
GOLDEN = Path(os.environ.get("FAIRLEAD_GOLDEN") or TESTS / "golden")
#: The recorder's own folder, beside a checkout of its developers; a clone alone has none.
SHARED = TESTS.parents[1] / "shared"

# Thousands of commands of kubectl, each of a moment, spend a third of it on collecting garbage that ends with them. The
# limit is for those that last.
os.environ.setdefault("GOGC", "off")
os.environ.setdefault("GOMEMLIMIT", "512MiB")

#: How long an example takes says something of the machine, and of what else it does.
hypothesis.settings.register_profile("unhurried", deadline=None, max_examples=USUAL)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=10 * PLENTY)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def kubectl_path() -> Path:
    """The real kubectl of the compatibility version."""
    try:
        return kubectl(COMPATIBILITY_VERSION)
    except KubectlMissing as missing:
        pytest.skip(f"no kubectl: {missing}")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Each worker of a whole run imports its share of the modules first: all collect all, and at the first run each
    would else prepare the asserts of all of them, for a minute of four processes' time.
    """
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER"), os.environ.get("PYTEST_XDIST_WORKER_COUNT")
    if worker is None or workers is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    for path in sorted(TESTS.rglob("test_*.py"))[int(worker.removeprefix("gw")) :: int(workers)]:
        with suppress(Exception, pytest.skip.Exception):  # collecting it will tell
            importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes minutes begins first, so that no worker ends with it while the others have nothing left to do."""
    items.sort(key=lambda item: not any(item.get_closest_marker(name) for name in ("slow", "waits")))


def pytest_collection_finish() -> None:
    """Ten thousand tests stay until the end: looking through them again and again took five percent of all time."""
    keep_started()
