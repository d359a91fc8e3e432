"""Failures a person can do something about: one sentence that says what is wrong and what to do, no traceback."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import click

from fairlead.api.errors import ApiError
from fairlead.compose import DataDirInUse
from fairlead.store.base import StoreUnavailable
from fairlead.store.sqlite import WrongFormat


class Failure(click.ClickException):
    """It did not work."""


class WrongUsage(Failure):
    """It cannot work, asked for like this."""

    exit_code = 2


@contextmanager
def explained() -> Iterator[None]:
    """Turn the failures that users meet into sentences."""
    try:
        yield
    except DataDirInUse as error:
        raise Failure(f"{error}. Stop it, or choose another directory with --data-dir.") from None
    except WrongFormat as error:
        raise Failure(f"{error}. Use that version, or choose another directory with --data-dir.") from None
    except (ApiError, StoreUnavailable) as error:
        raise Failure(f"the cluster cannot start: {error}") from None
    except sqlite3.DatabaseError as error:
        raise Failure(f"the data directory cannot be read: {error}. Choose another with --data-dir.") from None
    except PermissionError as error:
        raise Failure(f"no permission for {error.filename or 'that'}. Choose another place with --data-dir.") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Failure("the port is taken. Choose another with --port, or let --port 0 pick one.") from None
        raise Failure(str(error)) from None
    except ValueError as error:
        raise WrongUsage(str(error)) from None
