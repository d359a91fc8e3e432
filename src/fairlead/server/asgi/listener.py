"""Listeners: uvicorn inside our own event loop, which we start and stop ourselves."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from fairlead.server.asgi.app import Application
from fairlead.server.asgi.protocol import Protocol
from fairlead.server.auth.certificates import Pki

LOOPBACK = "127.0.0.1"
BACKLOG = 2048

# uvicorn speaks of upgrades that it does not support and of tasks that it ends; clients are told by their answers.
logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)


def bind(port: int) -> socket.socket:
    """A listening socket on the loopback interface; port 0 picks a free one. Raises OSError if it is taken."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((LOOPBACK, port))
    except OSError:
        sock.close()
        raise
    sock.listen(BACKLOG)
    return sock


@asynccontextmanager
async def serving(application: Application, sock: socket.socket, pki: Pki | None = None) -> AsyncIterator[None]:
    """Serve on that socket while the block runs; with `pki` over TLS, without it in the clear."""
    config = uvicorn.Config(
        application,
        http=Protocol,
        ws="none",
        proxy_headers=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=300,
        timeout_graceful_shutdown=1,
        ssl_keyfile=str(pki.server_key) if pki else None,
        ssl_certfile=str(pki.server_certificate) if pki else None,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[sock])
    ticking = asyncio.create_task(server.main_loop(), name="listener")
    try:
        yield
    finally:
        application.close()
        server.should_exit = True
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)
        await server.shutdown(sockets=[sock])
