"""A real cluster for a test: API server, scheduler, controllers and simulated nodes behind TLS on a free port.

Any client works with its kubeconfig. For what a test says about its cluster itself there are a few methods in kubectl's
words, which need no client library.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Unpack

from fairlead.api.objects import Obj
from fairlead.compose import Settings
from fairlead.simulation.aftermath import aftermath
from fairlead.simulation.moments import Duration
from fairlead.simulation.objects import DEFAULT_NAMESPACE, Objects
from fairlead.simulation.options import ClusterOptions, Source, settings_of
from fairlead.simulation.waiting import Condition
from fairlead.testing.background import BackgroundCluster

#: How long a test waits for something, unless it says how long.
WAIT_SECONDS = 10.0
#: Where clients look for a kubeconfig. The packages of Kubernetes' own read it once, when they are imported.
_KUBECONFIG: Final = "KUBECONFIG"
_KEPT_IN: Final = ("kubernetes.config.kube_config", "kubernetes_asyncio.config.kube_config")
_KEPT_AS: Final = "KUBE_CONFIG_DEFAULT_LOCATION"
#: How long kubectl may take.
_KUBECTL_SECONDS = 60.0


class ClientMissing(ImportError):
    """The library or program that was asked for is not installed."""


class KubectlFailed(AssertionError):
    """kubectl ended with an error; the message is what it wrote."""


class Cluster:
    """A running cluster; `cluster` makes one. Every refusal of the server is an `ApiError`."""

    def __init__(self, background: BackgroundCluster, closing: ExitStack) -> None:
        self._background, self._closing = background, closing
        running = background.running
        assert running.kubeconfig is not None
        #: Of an administrator; gone when the cluster is.
        self.kubeconfig: Path = running.kubeconfig
        #: Where the API server listens.
        self.address: str = running.address
        self._api = running.api
        self._objects = Objects(running.api, running.registry.catalogue)

    # -- clients

    @contextmanager
    def as_default(self) -> Iterator[None]:
        """While the block runs, clients that look for a cluster by themselves find this one: those of this process
        (`kubernetes.config.load_kube_config()`, kopf in a thread) and those of processes that it starts.
        """
        with ExitStack() as undoing:
            undoing.enter_context(_replaced(os.environ, _KUBECONFIG, str(self.kubeconfig)))
            for name in _KEPT_IN:
                if (module := sys.modules.get(name)) is not None:
                    undoing.enter_context(_replaced(vars(module), _KEPT_AS, str(self.kubeconfig)))
            yield

    def client(self) -> Any:
        """An `ApiClient` of the package `kubernetes`, as in `CoreV1Api(cluster.client())`; closed with the cluster."""
        self._background.check()
        try:
            from kubernetes import config
        except ImportError:
            raise ClientMissing(
                "client() needs Python's Kubernetes client: pip install kubernetes; "
                f"any other client finds the cluster with the kubeconfig {self.kubeconfig}"
            ) from None
        client = config.new_client_from_config(str(self.kubeconfig))
        self._closing.callback(client.close)
        return client

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What `kubectl ARGUMENTS` writes. Raises KubectlFailed if it fails, ClientMissing if there is none on PATH."""
        self._background.check()
        program = shutil.which("kubectl")
        if program is None:
            raise ClientMissing("kubectl() needs a kubectl on PATH, and there is none")
        command = [program, "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=_KUBECTL_SECONDS)
        if done.returncode:
            raise KubectlFailed(f"kubectl {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    # -- objects

    def apply(self, source: Source, *, namespace: str = DEFAULT_NAMESPACE) -> list[Obj]:
        """Make these objects be there as they are described, as `kubectl apply --server-side`: a mapping or several,
        the name of a file, or YAML. `namespace` is for those that name none. Returns what became of them.
        """
        return self._background.call(self._objects.apply(source, namespace=namespace))

    def get(self, what: str, *, namespace: str = DEFAULT_NAMESPACE) -> Obj:
        """`what` is `kind/name`: pod/web, deployments.apps/web, svc/web."""
        return self._background.call(self._objects.get(what, namespace=namespace))

    def list(self, kind: str, *, namespace: str = "", labels: str = "", fields: str = "") -> list[Obj]:
        """All objects of a kind, or those of a namespace; the selectors are kubectl's (`-l`, `--field-selector`)."""
        return self._background.call(self._objects.list(kind, namespace=namespace, labels=labels, fields=fields))

    def patch(self, what: str, patch: Obj, *, namespace: str = DEFAULT_NAMESPACE, subresource: str = "") -> Obj:
        """Merge that into the object, as `kubectl patch --type merge`."""
        return self._background.call(self._objects.patch(what, patch, namespace=namespace, subresource=subresource))

    def delete(self, what: str, *, namespace: str = DEFAULT_NAMESPACE, grace_period_seconds: int | None = None) -> None:
        """Begin the deletion; `wait_for(what, "delete")` returns when the object is gone."""
        self._background.call(
            self._objects.delete(what, namespace=namespace, grace_period_seconds=grace_period_seconds)
        )

    def wait_for(
        self,
        what: str,
        condition: Condition,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        timeout: Duration = WAIT_SECONDS,
    ) -> Obj:
        """Return the object once it is so: `Ready`, `Available=False`, `create`, `delete` (which returns an empty one),
        or a function of the object that becomes true; one that finds a field missing is asked again, and it may ask
        the cluster. Raises TimeoutError, which tells how things are then.
        """
        asked = _beside(condition) if callable(condition) else condition
        return self._background.call(self._objects.wait_for(what, asked, namespace=namespace, timeout=timeout))

    def describe(self) -> str:
        """Pods, those in trouble first, and the last events, in a few lines; pytest shows them where a test fails."""
        return self._background.call(aftermath(self._api))


@contextmanager
def _replaced(of: MutableMapping[str, Any], name: str, value: str) -> Iterator[None]:
    before = of.get(name)
    of[name] = value
    try:
        yield
    finally:
        if before is None:
            del of[name]
        else:
            of[name] = before


def _beside(condition: Callable[[Obj], object]) -> Condition:
    """The same in a thread: in the cluster's own it would hold up what it asks the cluster for."""
    if inspect.iscoroutinefunction(condition):
        raise TypeError(f"{condition.__name__} is a coroutine function, and the cluster runs on another loop than it")

    @functools.wraps(condition)
    async def ask(obj: Obj) -> object:
        return await asyncio.to_thread(condition, obj)

    return ask


def cluster(**options: Unpack[ClusterOptions]) -> AbstractContextManager[Cluster]:
    """A cluster while the block runs, in this process and in memory: `with cluster(nodes=3) as c:`.

    Raises ValueError for options that cannot be, TypeError for unknown ones. If a part of the cluster failed, leaving
    the block raises its error.
    """
    return _running(settings_of(options))


@contextmanager
def _running(settings: Settings) -> Iterator[Cluster]:
    background = BackgroundCluster(settings)
    background.start()
    with ExitStack() as closing:
        closing.callback(background.stop)
        yield Cluster(background, closing)
