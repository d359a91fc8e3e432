"""Failures that a user can act on: one sentence that says what is wrong and what to do, without a traceback."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from fairlead.api.errors import ApiError, Unauthorized
from fairlead.client.unreachable import Unreachable, UnusableKubeconfig
from fairlead.runtime.http.listener import is_free
from fairlead.store.base import StoreUnavailable
from fairlead.store.database import Damaged, WrongFormat
from fairlead.store.directory import DataDirInUse

#: How long a command waits for a server that does not answer.
ANSWER_SECONDS: Final = 3.0


class Failure(click.ClickException):
    """The command failed (exit code 1)."""


class WrongUsage(Failure):
    """The command cannot work with these options or files (exit code 2)."""

    exit_code = 2


@contextmanager
def parsing() -> Iterator[None]:
    """While options and files are read: every OSError and ValueError is wrong usage."""
    try:
        yield
    except OSError as error:
        raise WrongUsage(_about_file(error)) from None
    except ValueError as error:
        raise WrongUsage(str(error)) from None


@contextmanager
def explained(dumps: Sequence[Path] = (), ports: Mapping[str, int | None] | None = None) -> Iterator[None]:
    """While a cluster runs: turns known exceptions into sentences. Any other is a bug, and keeps its traceback.

    `dumps` are the imported files, `ports` the requested ports by option.
    """
    try:
        yield
    except Exception as error:
        for leaf in _leaves(error):
            if (failure := _explanation(leaf, dumps, ports or {})) is not None:
                raise failure from None
        raise


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions in a group, or the one that is none."""
    if isinstance(error, BaseExceptionGroup):
        for exception in error.exceptions:
            yield from _leaves(exception)
    else:
        yield error


def _explanation(error: BaseException, dumps: Sequence[Path], ports: Mapping[str, int | None]) -> Failure | None:
    # the server takes its time to be loaded, and most commands have no other use for it
    from fairlead.server.codec.schemas import DefinitionsMissing
    from fairlead.server.registry.restore import Unrestorable
    from fairlead.sim.dump_places import place_of

    match error:
        case DefinitionsMissing():
            return Failure(str(error))
        case DataDirInUse():
            return Failure(f"{error}. Stop it, or choose another directory with --data-dir.")
        case WrongFormat():
            return Failure(f"{error}. Use that version, or choose another directory with --data-dir.")
        case Damaged():
            return Failure(
                f"{error}. Move the data directory away, then begin anew or with a snapshot "
                "(fairlead snapshot restore)."
            )
        case Unrestorable():
            return WrongUsage(f"{place_of(error.about, dumps)}: {error}")
        case Unreachable():
            return Failure(
                f"cannot reach {error.server}: {error.why}. Does it run (fairlead up)? "
                "Another cluster is named with --kubeconfig or KUBECONFIG."
            )
        case UnusableKubeconfig():
            return WrongUsage(str(error))
        case Unauthorized():
            return Failure("you must be logged in to the server (Unauthorized)")  # in kubectl's words
        case ApiError() | StoreUnavailable():
            return Failure(f"the cluster cannot go on: {error}")
        case sqlite3.Error():
            return Failure(f"the data directory cannot be used: {error}. Choose another with --data-dir.")
        case OSError():
            return Failure(_about_port(error, ports) or _about_file(error))
    return None


def _about_port(error: OSError, ports: Mapping[str, int | None]) -> str:
    """Which port is taken or forbidden: the exception does not say."""
    if error.filename is not None or error.errno not in (errno.EADDRINUSE, errno.EACCES):
        return ""
    why = "is taken" if error.errno == errno.EADDRINUSE else "is not allowed to this user"
    for option, port in ports.items():
        if port and not is_free(port):
            return f"port {port} {why}. Choose another with {option}, or let {option} 0 pick one."
    return ""


def _about_file(error: OSError) -> str:
    if error.filename is None:
        return error.strerror or str(error)
    if isinstance(error, PermissionError):
        return f"no permission for {error.filename}. Choose another place."
    if isinstance(error, FileNotFoundError) and not (folder := Path(error.filename).parent).is_dir():
        return f"{error.filename} cannot be: there is no folder {folder}. Make it first, or choose another place."
    return f"{error.filename}: {error.strerror}"
