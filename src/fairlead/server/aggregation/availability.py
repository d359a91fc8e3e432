"""Looks whether other API servers can be reached, and writes what it finds into the status of their APIServices.

One is looked at when it, its service or the addresses of that change, and every 30 seconds; one that does not answer
ever later, up to that. Source: kube-aggregator, pkg/controllers/status/remote (1.36).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from msgspec.structs import replace

from fairlead.api.builtin import API_SERVICES, ENDPOINT_SLICES, SERVICES
from fairlead.api.encoded import Encoded
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.client.calls import import_library, why
from fairlead.client.webhooks import ServiceError
from fairlead.golang.quoting import go_quote
from fairlead.runtime.clock import timestamp
from fairlead.server.aggregation.backends import AGGREGATOR, Backends, identifying
from fairlead.server.aggregation.descriptions import Descriptions
from fairlead.server.aggregation.services import RemoteService, RemoteServices
from fairlead.server.registry.registry import Registry
from fairlead.server.service_routes import service_of, slices_of
from fairlead.store.base import StoreUnavailable

_PAUSE_SECONDS: Final = 30.0
_FIRST_RETRY_SECONDS: Final = 0.005
_CALL_SECONDS: Final = 5.0
#: A service may have addresses that answer and others that do not.
_ATTEMPTS: Final = 5
_PASSED: Final = ("True", "Passed", "all checks passed")
_FAILED: Final = "FailedDiscoveryCheck"

#: Status, reason and message of the condition.
_Verdict = tuple[str, str, str]

log = logging.getLogger(__name__)


class Availability:
    """Looks at all of them. Whoever has made this runs it."""

    def __init__(
        self, registry: Registry, services: RemoteServices, backends: Backends, descriptions: Descriptions
    ) -> None:
        self._registry, self._services, self._backends = registry, services, backends
        self._descriptions = descriptions
        self._changed: asyncio.Queue[str] = asyncio.Queue()
        self._wake: dict[str, asyncio.Event] = {}
        services.on_changed = self._changed.put_nowait
        registry.observe(SERVICES.qualified, self._on_service)
        registry.observe(ENDPOINT_SLICES.qualified, self._on_slice)

    async def run(self) -> None:
        """Look at each as long as it is there, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                name = await self._changed.get()
                if self._services.named(name) is None:
                    self._descriptions.forget(name)
                elif name not in self._wake:
                    self._wake[name] = asyncio.Event()
                    group.create_task(self._follow(name), name=f"availability of {name}")
                if name in self._wake:
                    self._wake[name].set()

    def _on_service(self, namespace: str, name: str, raw: bytes | None) -> None:
        for service in self._services:
            if (service.namespace, service.service) == (namespace, name):
                self._changed.put_nowait(service.name)

    def _on_slice(self, namespace: str, name: str, raw: bytes | None) -> None:
        for service in self._services:
            if service.namespace == namespace and (raw is None or service_of(Encoded(raw)) == service.service):
                self._changed.put_nowait(service.name)

    async def _follow(self, name: str) -> None:
        failures, wake = 0, self._wake[name]
        try:
            while (service := self._services.named(name)) is not None:
                wake.clear()
                try:
                    verdict = await self._look(service)
                    await self._tell(name, verdict)
                except (ApiError, StoreUnavailable) as error:
                    log.warning("the availability of %s cannot be told: %s", name, error)
                    verdict = ("Unknown", _FAILED, "")
                if verdict == _PASSED:
                    failures = 0
                    await self._descriptions.refresh(service)
                else:
                    failures += verdict[1] == _FAILED
                    self._descriptions.suspect(service)
                pause = _FIRST_RETRY_SECONDS * 2 ** min(failures, 20) if failures else _PAUSE_SECONDS
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(pause, _PAUSE_SECONDS)):
                        await wake.wait()
        finally:
            del self._wake[name]
            self._descriptions.forget(name)

    async def _tell(self, name: str, verdict: _Verdict) -> None:
        """Write the condition, if it is another than before."""

        def told(obj: Obj) -> Obj | None:
            status = obj.setdefault("status", {})
            conditions = status.get("conditions") or []
            before = next((condition for condition in conditions if condition["type"] == "Available"), None)
            state, reason, message = verdict
            changed = timestamp()
            if before is not None and before["status"] == state:
                changed = before.get("lastTransitionTime") or changed
            after = {"type": "Available", "status": state, "lastTransitionTime": changed}
            after |= {"reason": reason, "message": message}
            if before == after:
                return None
            rest = [condition for condition in conditions if condition is not before]
            return obj | {"status": status | {"conditions": [*rest, after]}}

        found = self._registry.find(API_SERVICES.qualified, name)
        if found is not None and told(found.obj()) is not None:
            await self._registry.guaranteed_update(API_SERVICES.qualified, name, "", lambda obj: told(obj) or obj)

    async def _look(self, service: RemoteService) -> _Verdict:
        return self._unroutable(service) or await self._unanswered(service) or _PASSED

    def _unroutable(self, service: RemoteService) -> _Verdict | None:
        """What is wrong with the service and its addresses."""
        named, space = f"service/{service.service}", go_quote(service.namespace)
        found = self._registry.find(SERVICES.qualified, service.service, service.namespace)
        if found is None:
            return "False", "ServiceNotFound", f"{named} in {space} is not present"
        spec = found.obj()["spec"]
        if spec.get("type", "ClusterIP") != "ClusterIP":
            return None
        port = next((port for port in spec.get("ports") or () if port["port"] == service.port), None)
        if port is None:
            return "False", "ServicePortError", f"{named} in {space} is not listening on port {service.port}"
        slices = list(slices_of(self._registry, service.namespace, service.service))
        if not slices:
            return "False", "EndpointsNotFound", f"cannot find endpointslices for {named} in {space}"
        port_name = port.get("name", "")
        if not any(found.serves(port_name) for found in slices):
            text = f"endpointslices for {named} in {space} have no addresses with port name {go_quote(port_name)}"
            return "False", "MissingEndpoints", text
        return None

    async def _unanswered(self, service: RemoteService) -> _Verdict | None:
        """Why it does not say what it serves. Whoever owns the network could pretend to be available, and no more."""
        tried: dict[str, str] = {}
        for _ in range(_ATTEMPTS):
            try:
                address = self._backends.address(service)
            except ServiceError as error:
                return "False", _FAILED, str(error)
            if address not in tried:
                tried[address] = await self._ask(replace(service, ca_bundle="", is_insecure=True), address)
            if not tried[address]:
                return None
        return "False", _FAILED, tried.popitem()[1]

    async def _ask(self, service: RemoteService, address: str) -> str:
        await import_library()
        import aiohttp

        url = f"https://{address}{service.path}"
        begin = f"failing or missing response from {url}: "
        headers = [("User-Agent", "Go-http-client/1.1"), ("Accept-Encoding", "gzip"), *identifying(AGGREGATOR)]
        try:
            async with (
                asyncio.timeout(_CALL_SECONDS),
                self._backends.opened(service, address, "GET", service.path, headers) as response,
            ):
                return "" if 200 <= response.status < 300 else f"{begin}bad status from {url}: {response.status}"
        except TimeoutError:
            text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            return f"{begin}Get {go_quote(url)}: {text}"
        except aiohttp.ClientError as error:
            return f"{begin}Get {go_quote(url)}: {why(error, service.host)}"
