"""Services over HTTPS, each in a thread of its own, that remember what they are asked: issuers, reviewers."""

from __future__ import annotations

import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from time import time
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from fairlead.api.objects import Obj
from fairlead.client.kubeconfig import Access, render
from fairlead.runtime.authority import Authority, key_pem, new_key
from fairlead.runtime.loops import run

_SERVER = ("digital signature", "server auth")
#: What answers a request: code and body, by method, path and body.
Handler = Callable[[str, str, bytes], tuple[int, bytes]]


async def _identified() -> tuple[Authority, bytes]:
    """An authority, and a certificate and key of localhost."""
    authority, key = Authority.make("issuers"), new_key()
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    return authority, authority.sign(subject, key.public_key(), _SERVER, 3600, names) + key_pem(key)


class HttpsServer:
    """A server on localhost with a certificate of its own authority."""

    def __init__(self, folder: Path, answer: Handler) -> None:
        self.authority, identity = run(_identified())
        self.ca = self.authority.certificate_pem.decode()
        self.asked = Counter[str]()
        self._pem = folder / "issuer.pem"
        self._pem.write_bytes(identity)

        class Requests(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                outer.asked[self.path] += 1
                outer.headers = dict(self.headers)
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.before()
                code, answer = answer_(self.command, self.path, body)
                self.send_response(code)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        outer, answer_ = self, answer
        self.headers: dict[str, str] = {}
        #: Called before each answer.
        self.before: Callable[[], object] = lambda: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._pem)
        context.load_verify_locations(cadata=self.ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://localhost:{self._server.server_port}"

    @contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


class Issuer(HttpsServer):
    """Signs tokens, and tells with which keys."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, self._respond)
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        self.keys: list[Obj] = [
            jwt.algorithms.RSAAlgorithm.to_jwk(self.rsa.public_key(), as_dict=True) | {"kid": "rsa"},
            jwt.algorithms.ECAlgorithm.to_jwk(self.ec.public_key(), as_dict=True) | {"kid": "ec"},
        ]
        self.issuer = self.url

    def _respond(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        found = {"issuer": self.issuer, "jwks_uri": f"{self.url}/keys"}
        match path:
            case "/.well-known/openid-configuration" | "/elsewhere":
                return 200, json.dumps(found).encode()
            case "/keys":
                return 200, json.dumps({"keys": self.keys}).encode()
        return 404, b"{}"

    def token(self, key: Any = None, algorithm: str = "RS256", kid: str | None = "rsa", **claims: Any) -> str:
        """A token for the audience `fairlead`; a claim that is None is left out."""
        said = {"iss": self.issuer, "aud": "fairlead", "exp": int(time()) + 600, "sub": "jane"} | claims
        shown = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(shown, self.rsa if key is None else key, algorithm, {"kid": kid} if kid else None)


class Reviewer(HttpsServer):
    """Answers reviews as `status` says of their specs, and remembers them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, self._respond)
        self.reviews: list[Obj] = []
        self.status: Any = lambda spec: {}
        self.code = 200
        self.kubeconfig = folder / "webhook.kubeconfig"
        access = Access(f"{self.url}/review", self.ca.encode(), token="from-fairlead")
        self.kubeconfig.write_text(render(access))

    def _respond(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        review = json.loads(body)
        assert (method, path) == ("POST", "/review")
        self.reviews.append(review)
        return self.code, json.dumps(review | {"status": self.status(review["spec"])}).encode()
