"""A node that asks for its serving certificate gets it once somebody approves, and serves with it."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from fairlead.agent.certificates.kept import KeptCertificate
from fairlead.agent.certificates.requests import NoCertificate, serving_certificate
from fairlead.api.builtin import CERTIFICATE_SIGNING_REQUESTS
from fairlead.api.users import node_user
from fairlead.api.verbs import EventType, WatchQuery
from fairlead.client.tls import show, trusting
from fairlead.compose import Cluster, Settings, cluster
from fairlead.runtime.identity import Identity
from fairlead.runtime.loops import run

HOSTS = ("127.0.0.1", "node-1")


async def decided(running: Cluster, verdict: str) -> None:
    """Approve or deny the next request, as kubectl does."""
    async for event in running.api.watch(CERTIFICATE_SIGNING_REQUESTS, "", WatchQuery()):
        if event.type is EventType.ADDED:
            condition = {"type": verdict, "status": "True", "reason": "ByTest", "message": "as the test wants it"}
            await running.api.patch(
                CERTIFICATE_SIGNING_REQUESTS,
                event.object.metadata()["name"],
                "",
                {"status": {"conditions": [condition]}},
                subresource="approval",
            )
            return


async def asked(folder: Path, verdict: str) -> tuple[Identity, bytes]:
    """What the node gets, and who signs in the cluster."""
    settings = Settings(data_dir=folder / "data", port=0, components=frozenset({"api", "controllers"}))
    async with cluster(settings) as running, asyncio.timeout(60):
        deciding = asyncio.create_task(decided(running, verdict))
        try:
            identity = await serving_certificate(running.registry.as_user(node_user("real")), "real", HOSTS)
        finally:
            await deciding
        assert running.authority is not None
        return identity, running.authority.certificate_pem


def test_an_approved_request_is_signed_for_the_nodes_addresses(tmp_path: Path) -> None:
    async def main() -> None:
        identity, ca = await asked(tmp_path, "Approved")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        show(context, identity.certificate, identity.key)

        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello")
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        for host in HOSTS:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(ca), server_hostname=host)
            assert await reader.read() == b"hello"
            writer.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=trusting(ca), server_hostname="node-2")
        server.close()

    run(main())


def test_a_denied_request_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoCertificate, match="is denied: as the test wants it"):
        run(asked(tmp_path, "Denied"))


def test_a_certificate_is_kept_for_the_next_start_and_renewed_in_time(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(data_dir=tmp_path / "data", port=0, components=frozenset({"api", "controllers"}))
        async with cluster(settings) as running, asyncio.timeout(60):
            assert running.authority is not None
            api, file = running.registry.as_user(node_user("real")), tmp_path / "kubelet-server.pem"
            kept = KeptCertificate.serving(api, "real", HOSTS, file)
            deciding = asyncio.create_task(decided(running, "Approved"))
            identity = await kept.first()
            await deciding
            assert file.stat().st_mode & 0o777 == 0o600
            again = await KeptCertificate.serving(api, "real", HOSTS, file).first()  # nobody approves another
            assert _serial(again) == _serial(identity)

            renewed: asyncio.Future[Identity] = asyncio.get_running_loop().create_future()
            ending = running.authority.certify_server(node_user("real"), HOSTS, seconds=2.0)
            renewing = asyncio.create_task(kept.renew(ending, renewed.set_result))
            approving = asyncio.create_task(_approve_all(running))
            await asyncio.wait([renewed])
            for task in (approving, renewing):
                task.cancel()
            await asyncio.gather(approving, renewing, return_exceptions=True)
            assert _serial(await renewed) != _serial(identity)
            assert _serial(await KeptCertificate.serving(api, "real", HOSTS, file).first()) == _serial(await renewed)

    run(main())


async def _approve_all(running: Cluster) -> None:
    condition = {"type": "Approved", "status": "True", "reason": "ByTest", "message": "as the test wants it"}
    async for event in running.api.watch(CERTIFICATE_SIGNING_REQUESTS, "", WatchQuery()):
        if event.type is EventType.ADDED and not (event.object.obj().get("status") or {}).get("conditions"):
            name, patch = event.object.metadata()["name"], {"status": {"conditions": [condition]}}
            await running.api.patch(CERTIFICATE_SIGNING_REQUESTS, name, "", patch, subresource="approval")


def _serial(identity: Identity) -> int:
    return x509.load_pem_x509_certificate(identity.certificate).serial_number
