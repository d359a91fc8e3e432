"""The field manager of a write, made from the request and its endpoint."""

from __future__ import annotations

from functools import cache

from fairlead.api.resources import Resource
from fairlead.runtime.clock import timestamp
from fairlead.server.apply.forms import Forms, VersionForm, form_of_definition, forms_of
from fairlead.server.apply.managers import FieldManager
from fairlead.server.apply.resets import reset_of
from fairlead.server.apply.scale import SCALE_DEFINITION, SCALE_VERSION
from fairlead.server.context import WriteRequest
from fairlead.server.storage.catalogue import Served


def field_manager_of(served: Served, request: WriteRequest) -> FieldManager:
    """The field manager of a write to an object or its subresource. KeyError if the version is not served."""
    form = _forms(served)(request.version.resource.api_version)
    if form is None:
        raise KeyError(request.version.resource.api_version)
    reset = reset_of(
        served.resource.qualified,
        request.subresource,
        has_status=served.strategy.has_status,
        is_custom=served.crd is not None,
    )
    return FieldManager(request.options.field_manager, form, _forms(served), timestamp(), request.subresource, reset)


def form_of(served: Served, row: Resource) -> VersionForm:
    """The form of a kind in one of its versions."""
    form = _forms(served)(row.api_version)
    assert form is not None
    return form


def scale_field_manager_of(request: WriteRequest) -> FieldManager:
    """The field manager of a write to a Scale."""
    return FieldManager(request.options.field_manager, scale_form(), _scale_forms, timestamp(), request.subresource)


def _forms(served: Served) -> Forms:
    if served.forms is None:
        served.forms = forms_of(served.versions, served.resource.api_version, served.crd)
    return served.forms


@cache
def scale_form() -> VersionForm:
    """The form of a Scale."""
    return form_of_definition(SCALE_VERSION, SCALE_DEFINITION)


def _scale_forms(api_version: str) -> VersionForm | None:
    return scale_form() if api_version == SCALE_VERSION else None
