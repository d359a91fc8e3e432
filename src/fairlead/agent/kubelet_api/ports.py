"""`/portForward`: connections to what listens in a pod."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping, Sequence
from functools import partial

from fairlead.agent.kubelet_api.pod_streams import PodStreams
from fairlead.agent.kubelet_api.pod_views import PodView
from fairlead.golang.quoting import go_quote
from fairlead.runtime.http.exchange import Scope
from fairlead.runtime.http.replies import Failed
from fairlead.runtime.process_metrics import most_descriptors, open_descriptors
from fairlead.runtime.streaming.handshake import HandshakeError, agree
from fairlead.runtime.streaming.port_forward import MOST_PORTS, SPOKEN, TUNNELLED, Pod, forward, is_port


async def answer(
    pods: PodStreams, where: tuple[str, str, str], query: Mapping[str, Sequence[str]], scope: Scope
) -> None:
    """Carry connections until the client goes. `where`: namespace, pod, its UID or ""."""
    namespace, name, uid = where
    try:
        agreement = agree(scope, SPOKEN)
    except HandshakeError as error:
        raise Failed(error.code, str(error)) from None
    ports: list[int] = []
    if agreement.is_websocket and agreement.protocol != TUNNELLED:
        ports = _ports(query)
    pod = pods.pod(namespace, name)
    if pod is None:
        raise Failed(404, "pod does not exist")
    own_uid = pod.view(PodView).metadata.uid
    if uid and uid != own_uid:
        raise Failed(404, "pod not found")
    await forward(agreement, ports, Pod(f"pod {name}, uid {own_uid}", partial(_connect, pods, own_uid)))


async def _connect(pods: PodStreams, uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """OSError also where there would soon be no files for anything else: probes fail then, which kills what is well."""
    if open_descriptors() > most_descriptors() / 2:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return await pods.connect(uid, port)


def _ports(query: Mapping[str, Sequence[str]]) -> list[int]:
    """Those of a WebSocket, which cannot name one later."""
    texts = [text for value in query.get("port", ()) for text in value.split(",")]
    if not texts:
        raise Failed(400, 'query parameter "port" is required')
    if len(texts) > MOST_PORTS:
        raise Failed(400, f"no more than {MOST_PORTS} ports can be forwarded at once")
    for text in texts:
        if not is_port(text):
            raise Failed(400, f"unable to parse {go_quote(text)} as a port")
    return [int(text) for text in texts]
