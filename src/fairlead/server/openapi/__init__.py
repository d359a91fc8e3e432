"""OpenAPI: the schema of everything served, for `kubectl explain`, `apply`, and clients that are generated.

    definitions.py  built-in types in the forms of OpenAPI v3 and v2     facts.py   enums and defaults
    custom.py       the same for custom kinds                            paths.py   operations
    documents.py    putting documents together                           gnostic.py v2 as protobuf
    merging.py      v2 of other servers in ours

Nothing is built before somebody asks for it: a group-version takes a few milliseconds, v2 as a whole some hundred.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.errors import NotAcceptable
from fairlead.server.openapi import documents, gnostic
from fairlead.server.openapi.documents import Kinds, v2_tag

__all__ = ["document", "v2_tag"]

JSON = "application/json"
_JSON = {JSON: JSON, "application/*": JSON, "*/*": JSON}
_PROTOBUF = dict.fromkeys((gnostic.MEDIA_TYPE, gnostic.OLD_MEDIA_TYPE), gnostic.MEDIA_TYPE)


def document(kinds: Kinds, parts: tuple[str, ...], media_types: Iterable[str]) -> tuple[bytes, str] | None:
    """The document at `/openapi/PARTS` with its media type, or None if there is none.

    `media_types` are those that the client takes, what it wants most first. All documents are there as JSON, v2 as
    protobuf as well. Raises NotAcceptable if it takes none of these.
    """
    made = _JSON | _PROTOBUF if parts == ("v2",) else _JSON
    media_type = next((made[media_range] for media_range in media_types if media_range in made), None)
    if media_type is None:
        raise NotAcceptable(f"only the following media types are accepted: {', '.join(dict.fromkeys(made.values()))}")
    match parts:
        case ("v2",) if media_type == gnostic.MEDIA_TYPE:
            body: bytes | None = documents.v2_as_protobuf(kinds)
        case ("v2",):
            body = documents.v2(kinds)
        case ("v3",):
            body = documents.v3_index(kinds)
        case ("v3", *path):
            body = documents.v3(kinds, tuple(path))
        case _:
            body = None
    return None if body is None else (body, media_type)
