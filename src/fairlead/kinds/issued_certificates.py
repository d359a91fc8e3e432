"""What a signer hands out: PEM blocks with certificates in them and nothing else.

Whoever asked takes what `status.certificate` says as it is, and Kubernetes lets nobody change it afterwards: what is no
certificate must not get there. Source: pkg/apis/certificates/validation (1.36).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from cryptography import x509

from fairlead.golang.quoting import go_quote

_BEGIN, _END, _DASHES = "-----BEGIN ", "-----END ", "-----"
_KIND: Final = "CERTIFICATE"


@dataclass
class _Block:
    kind: str
    has_headers: bool = False
    lines: list[str] = field(default_factory=list)


def refusal(certificate: str) -> str:
    """What is wrong with the certificate, in base64 as objects carry it; "" if nothing is."""
    found = False
    for block, content in _blocks(base64.b64decode(certificate).decode("latin-1")):
        if block.kind != _KIND:
            return f"only CERTIFICATE PEM blocks are allowed, found {go_quote(block.kind)}"
        if block.has_headers:
            return "no PEM block headers are permitted"
        try:
            x509.load_der_x509_certificate(content)
        except ValueError:
            return "x509: malformed certificate"
        found = True
    return "" if found else "must contain at least one CERTIFICATE PEM block"


def _blocks(text: str) -> Iterator[tuple[_Block, bytes]]:
    """The blocks that can be read; whatever else there is, is passed over as by Go."""
    block: _Block | None = None
    for line in map(str.strip, text.splitlines()):
        if line.startswith(_BEGIN) and line.endswith(_DASHES):
            block = _Block(line[len(_BEGIN) : -len(_DASHES)])
        elif block is None:
            continue
        elif line == f"{_END}{block.kind}{_DASHES}":
            content = _decoded(block)
            if content is not None:
                yield block, content
            block = None
        elif ":" in line and not block.lines:
            block.has_headers = True
        elif line:
            block.lines.append(line)


def _decoded(block: _Block) -> bytes | None:
    try:
        return base64.b64decode("".join(block.lines), validate=True)
    except ValueError:
        return None
