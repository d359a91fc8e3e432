"""A real cluster for a test: API server, scheduler, controllers and simulated nodes behind TLS on a free port.

Any client works with its kubeconfig. For what a test says about its cluster itself there are a few methods in kubectl's
words, which need no client library.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Unpack

from fairlead.api.objects import Obj
from fairlead.compose import Settings
from fairlead.simulation.aftermath import aftermath
from fairlead.simulation.objects import DEFAULT_NAMESPACE, Objects
from fairlead.simulation.options import ClusterOptions, Source, settings_of
from fairlead.simulation.waiting import Condition
from fairlead.testing.background import BackgroundCluster

#: How long a test waits for something, unless it says how long.
WAIT_SECONDS = 10.0
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

    def client(self) -> Any:
        """An `ApiClient` of the package `kubernetes`, as in `CoreV1Api(cluster.client())`; closed with the cluster."""
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
        timeout: float = WAIT_SECONDS,
    ) -> Obj:
        """Return the object once it is so: `Ready`, `Available=False`, `create`, `delete` (which returns an empty one),
        or a function of the object that becomes true. Raises TimeoutError, which tells how things are then.
        """
        return self._background.call(self._objects.wait_for(what, condition, namespace=namespace, timeout=timeout))

    def describe(self) -> str:
        """Pods, those in trouble first, and the last events, in a few lines; pytest shows them where a test fails."""
        return self._background.call(aftermath(self._api))


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
