"""Paths of files: what may not lead out of where it belongs."""

from __future__ import annotations

from fairlead.api.fields import Errors

MODE_ERROR = "must be a number between 0 and 0777 (octal), both inclusive"


def climbs(value: str) -> bool:
    return ".." in value.split("/")


def validate_no_backsteps(value: str, path: str, errors: Errors) -> None:
    if climbs(value):
        errors.invalid(path, value, "must not contain '..'")


def validate_descending_path(value: str, path: str, errors: Errors) -> None:
    """Relative, and never upwards."""
    if value.startswith("/"):
        errors.invalid(path, value, "must be a relative path")
    validate_no_backsteps(value, path, errors)


def validate_local_path(value: str, path: str, errors: Errors) -> None:
    """A descending path that does not look like one of the kubelet's own `..` names either."""
    validate_descending_path(value, path, errors)
    if value.startswith("..") and not value.startswith("../"):
        errors.invalid(path, value, "must not start with '..'")


def validate_mode(mode: int | None, path: str, errors: Errors) -> None:
    """The permission bits of a file."""
    if mode is not None and not 0 <= mode <= 0o777:
        errors.invalid(path, mode, MODE_ERROR)
