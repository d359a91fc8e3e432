"""OpenAPI: the schema of everything served, for `kubectl explain`, `apply`, and clients that are generated.

    definitions.py  built-in types in the forms of OpenAPI v3 and v2     facts.py   enums and defaults
    custom.py       the same for custom kinds                            paths.py   operations
    documents.py    putting documents together

Nothing is built before somebody asks for it: a group-version takes a few milliseconds, v2 as a whole some hundred.
"""

from __future__ import annotations

from fairlead.api.errors import NotAcceptable
from fairlead.server.openapi import documents
from fairlead.server.served import Catalogue

JSON = "application/json"
_ACCEPTED = (JSON, "application/*", "*/*")


def document(catalogue: Catalogue, parts: tuple[str, ...], accept: str) -> tuple[bytes, str] | None:
    """The document at `/openapi/PARTS` with its media type, or None if there is none.

    Only JSON is made. kubectl asks for v2 in protobuf where v3 cannot help it (`apply` of a custom kind), takes 406
    for "no schema", and does without.
    """
    if accept and not any(one.split(";")[0].strip() in _ACCEPTED for one in accept.split(",")):
        raise NotAcceptable(f"only the following media types are accepted: {JSON}")
    match parts:
        case ("v2",):
            body: bytes | None = documents.v2(catalogue)
        case ("v3",):
            body = documents.v3_index(catalogue)
        case ("v3", *path):
            body = documents.v3(catalogue, tuple(path))
        case _:
            body = None
    return None if body is None else (body, JSON)
