"""A file of tokens and their users (`--token-auth-file`).

Source: k8s.io/apiserver, authentication/token/tokenfile (1.36).
"""

from __future__ import annotations

import logging
from pathlib import Path

from fairlead.api.users import User
from fairlead.golang import csv

log = logging.getLogger(__name__)


def load(path: Path) -> dict[str, User]:
    """The users of a file whose records are a token, a name, a uid and maybe groups. OSError, or ValueError."""
    users: dict[str, User] = {}
    for number, record in enumerate(csv.records(path.read_bytes().decode("utf-8", "surrogateescape")), 1):
        if len(record) < 3:
            text = "must have at least 3 columns (token, user name, user uid), found"
            raise ValueError(f"token file '{path}' {text} {len(record)}")
        token, name, uid = record[:3]
        if not token.strip():
            log.warning("empty token has been found in token file '%s', record number '%d'", path, number)
            continue
        if token in users:
            log.warning("duplicate token has been found in token file '%s', record number '%d'", path, number)
        groups = tuple(_shown(record[3]).split(",")) if len(record) > 3 else ()
        users[token] = User(_shown(name), groups, _shown(uid))
    return users


def _shown(text: str) -> str:
    """As Go's JSON has it, in which there is nothing but UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
