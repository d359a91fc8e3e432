"""The two other shapes of an object: a row of a Table, and metadata alone."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.encoded import Encoded
from fairlead.api.errors import BadRequest
from fairlead.api.objects import Obj
from fairlead.api.verbs import Listing
from fairlead.runtime.clock import now
from fairlead.server.asgi.negotiate import PARTIAL, Form
from fairlead.server.asgi.request import Request
from fairlead.server.served import Served, Version
from fairlead.server.tables import printer_of

_INCLUDE = ("", "Metadata", "Object", "None")


def table(
    served: Served, version: Version, items: Sequence[Encoded], meta: Obj, request: Request, *, with_columns: bool
) -> Obj:
    """A `meta.k8s.io/v1` Table of the items, as the kind prints them."""
    include = request.query.get("includeObject", "")
    if include not in _INCLUDE:
        raise BadRequest(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    printer = printer_of(version.resource, served.crd)
    form = request.form
    moment = now()
    rows = []
    for item in items:
        obj = item.obj()
        for row in printer.rows(obj, moment):
            if include == "Object":
                row["object"] = obj
            elif include != "None":
                row["object"] = partial(obj, form)
            rows.append(row)
    body: Obj = {"kind": "Table", "apiVersion": f"meta.k8s.io/{form.version}", "metadata": meta}
    if len(items) == 1 and not meta:
        version_text = (items[0].obj().get("metadata") or {}).get("resourceVersion")
        body["metadata"] = {"resourceVersion": version_text} if version_text else {}
    body["columnDefinitions"] = printer.columns if with_columns else []
    return body | {"rows": rows}


def partial(obj: Obj, form: Form) -> Obj:
    """The object's metadata alone."""
    return {"kind": PARTIAL, "apiVersion": f"meta.k8s.io/{form.version}", "metadata": obj.get("metadata") or {}}


def partial_list(listing: Listing, form: Form) -> Obj:
    meta: Obj = {"resourceVersion": listing.resource_version}
    if listing.continue_token:
        meta["continue"] = listing.continue_token
    return {
        "kind": f"{PARTIAL}List",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": meta,
        "items": [partial(item.obj(), form) for item in listing.items],
    }
