"""What webhooks cost: `python -m benchmarks.webhooks`.

Pods are created over 16 connections at a `fairlead up` of its own: without webhooks, through webhooks that allow
everything at once, and beside one that is dead. The webhook is a process of its own on this machine, with TLS, and
does as little as can be done; it shares the processors with the server and the driver.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import tempfile
from base64 import b64encode
from ipaddress import ip_address
from pathlib import Path

import uvloop
from cryptography import x509

from benchmarks.api import cluster, cpu_seconds, creates
from benchmarks.arguments import parser
from benchmarks.client import Connection, connect
from fairlead.api.encoded import encode
from fairlead.api.objects import Obj
from fairlead.client.kubeconfig import load
from fairlead.runtime.authority import Authority, key_pem, new_key

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
DEAD = "https://127.0.0.1:1/"


async def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tls.pem")
        bundle = await asyncio.to_thread(make_certificate, file)
        command = [sys.executable, "-m", "benchmarks.webhooks", "--serve", str(file)]
        webhook = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        try:
            assert webhook.stdout is not None
            url = f"https://127.0.0.1:{int(await webhook.stdout.readline())}/"
            await measured(count, {"url": url, "caBundle": bundle})
        finally:
            webhook.terminate()
            await webhook.wait()


async def measured(count: int, client: Obj) -> None:
    with cluster("--components", "api", "--disable-admission-plugins", "ServiceAccount") as (kubeconfig, process, _):
        admin = await connect(load(kubeconfig))
        await creates(kubeconfig, 200, "warm")
        for what, webhooks in (
            ("no webhook", []),
            ("one validating webhook", [("validating", client, "Fail")]),
            ("one mutating, one validating", [("mutating", client, "Fail"), ("validating", client, "Fail")]),
            ("a dead one that is ignored", [("validating", {"url": DEAD}, "Ignore")]),
        ):
            for verb, config, policy in webhooks:
                await admin.request("POST", CONFIGURATIONS.format(verb), configuration(config, policy))
            before = cpu_seconds(process)
            rate = await creates(kubeconfig, count, what.replace(" ", "-").replace(",", ""))
            cpu = (cpu_seconds(process) - before) / count * 1000
            print(f"{rate:8,.0f} creates/s, {cpu:5.2f} ms of the server's CPU each: {what}", flush=True)
            for verb, _, _ in webhooks:
                await forget(admin, verb)


async def forget(admin: Connection, verb: str) -> None:
    await admin.request("DELETE", f"{CONFIGURATIONS.format(verb)}/bench")


def configuration(client: Obj, failure_policy: str) -> bytes:
    webhook = {
        "name": "bench.example.com",
        "clientConfig": client,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": failure_policy,
    }
    return encode({"metadata": {"name": "bench"}, "webhooks": [webhook]})


def make_certificate(file: Path) -> str:
    """A certificate for this machine with its key in that file; returns its authority as a `caBundle`."""
    bundle, identity = asyncio.run(_made())
    file.write_bytes(identity)
    return bundle


async def _made() -> tuple[str, bytes]:  # certificates begin by the clock of a loop
    authority, key = Authority.make("webhooks"), new_key()
    names = [x509.IPAddress(ip_address("127.0.0.1"))]
    certificate = authority.sign(x509.Name([]), key.public_key(), ["server auth"], 86_400.0, names)
    return b64encode(authority.certificate_pem).decode(), certificate + key_pem(key)


async def serve(file: Path) -> None:
    """The webhook: allows everything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            at = head.index(b"content-length:") + 15
            body = await reader.readexactly(int(head[at : head.index(b"\r\n", at)]))
            at = body.index(b'"uid":"') + 7
            uid = body[at : body.index(b'"', at)].decode()
            review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
            sent = encode(review | {"response": {"uid": uid, "allowed": True}})
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(sent))
            writer.write(sent)
    except asyncio.IncompleteReadError:
        writer.close()


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--pods", type=int, default=3000)
    options.add_argument("--serve", type=Path)
    given = options.parse_args()
    uvloop.run(serve(given.serve) if given.serve else main(given.pods))
