"""The two other shapes of an object: a row of a Table, and metadata alone.

Source: apiserver `endpoints/handlers/response.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy

from msgspec.structs import replace

from fairlead.api.encoded import Encoded, encode
from fairlead.api.errors import ApiError, BadRequest, NotAcceptable, Unknown
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Listing
from fairlead.runtime.clock import now
from fairlead.runtime.offload import offload
from fairlead.server.audit.request_audit import MOST_BYTES, is_status
from fairlead.server.codec.body_types import family
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.context import takes_long
from fairlead.server.http import messages
from fairlead.server.http.answers import Answer, list_head, list_meta, of_list
from fairlead.server.http.negotiate import JSON, PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE
from fairlead.server.http.partials import PARTIAL_TYPE, encoded_partial, partial
from fairlead.server.http.request import Request
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.watching import INITIAL_EVENTS_END
from fairlead.server.tables import is_generic, printer_of
from fairlead.server.tables.base import Printer

_INCLUDE = ("", "Metadata", "Object", "None")
_SCALES = Resource("autoscaling", "v1", "scales", "Scale")


class Presenter:
    """Shows the objects of one kind in the form that one request asks for."""

    def __init__(self, served: Served, version: ServedVersion, request: Request, *, has_rows: bool = True) -> None:
        self._served, self._version = served, version
        has_messages = bool(version.resource.definition)
        self.form = request.form(is_routed=served.crd is None, has_rows=has_rows, has_messages=has_messages)
        self._include = request.query.get("includeObject", "")
        self._audit = request.audit
        if self.form.transform == TABLE and self._include not in _INCLUDE:
            raise BadRequest(
                f'Unable to convert to Table as requested: includeObject: Invalid value: "{self._include}": '
                "must be 'Metadata', 'Object', 'None', or empty"
            )

    async def single(self, found: Encoded, code: int = 200) -> Answer:
        """One object; a Status stays what it is, whatever was asked for."""
        if self._audit is not None:
            if is_status(found.raw):
                self._audit.answers_status(found.obj() | {"code": code})
            else:
                await self._tell(lambda plain: plain._single(found, code), [found])
        return await offload(lambda: self._single(found, code), is_long=self._takes_long([found]))

    async def page(self, listing: Listing) -> Answer:
        """One page of a list."""
        if self._audit is not None:
            await self._tell(lambda plain: plain._page(listing), listing.items)
        return await offload(lambda: self._page(listing), is_long=self._takes_long(listing.items))

    async def _tell(self, show: Callable[[Presenter], Answer], objects: Sequence[Encoded]) -> None:
        """The audit log gets the same as JSON in one line, if it is to tell of answers."""
        if self._audit is None or not self._audit.tells_response:
            return
        plain = copy(self)
        plain.form = replace(self.form, media_type=JSON, is_pretty=False)
        is_long = takes_long(self._version.resource, sum(len(obj.raw) for obj in objects))
        audit = self._audit
        await offload(lambda: audit.answers(_bounded(show(plain))), is_long=is_long)

    def _takes_long(self, objects: Sequence[Encoded]) -> bool:
        return not self.form.is_json_object and takes_long(self._version.resource, sum(len(obj.raw) for obj in objects))

    def _single(self, found: Encoded, code: int) -> Answer:
        transform = self.form.transform
        if not transform:
            return Answer.of_raw(found.raw, self.form, code)
        obj = found.obj()
        if obj.get("kind") == "Status":
            return Answer.of_raw(found.raw, self.form, code)
        if transform == PARTIAL_LIST:
            raise self._no_list(obj)
        shown = self.row(obj) if transform == TABLE else self.partial(obj)
        return Answer.of_obj(shown, self.form, code)

    def _page(self, listing: Listing) -> Answer:
        transform = self.form.transform
        if transform == TABLE:
            return self._table_of(listing)
        if transform == PARTIAL_LIST:
            return self._partial_list(listing)
        if transform == PARTIAL:
            raise self._no_object()
        if self.form.media_type == PROTOBUF:
            return messages.of_list(
                list_head(self._version, listing), self._version, listing.items, self._version.resource.definition
            )
        return of_list(self._version, listing, self.form)

    def row(self, obj: Obj, *, with_columns: bool = True) -> Obj:
        """A table of one object; a watch tells its columns once."""
        version = (obj.get("metadata") or {}).get("resourceVersion")
        table = self._table(obj, {"resourceVersion": version} if version else {})
        return table if with_columns else table | {"columnDefinitions": None}

    def partial(self, obj: Obj) -> Obj:
        """The object's metadata alone."""
        return partial(obj.get("metadata") or {}, self.form.version)

    def _table_of(self, listing: Listing) -> Answer:
        printer = printer_of(self._version.resource, self._served.crd)
        head = self._head(printer, list_meta(listing))
        if not listing.items and is_generic(self._version.resource, self._served.crd):
            return Answer.of_obj(head | {"rows": None}, self.form)
        moment = now()
        rows = (encode(row) for item in listing.items for row in self._rows(printer, item.obj(), moment))
        return Answer.of_items(head, "rows", rows, self.form)

    def _table(self, obj: Obj, meta: Obj) -> Obj:
        resource, crd = (_SCALES, None) if obj.get("kind") == "Scale" else (self._version.resource, self._served.crd)
        printer = printer_of(resource, crd)
        return self._head(printer, meta) | {"rows": list(self._rows(printer, obj, now()))}

    def _head(self, printer: Printer, meta: Obj) -> Obj:
        """A table but for its rows."""
        return {
            "kind": TABLE,
            "apiVersion": f"meta.k8s.io/{self.form.version}",
            "metadata": meta,
            "columnDefinitions": printer.columns,
        }

    def _rows(self, printer: Printer, obj: Obj, moment: float) -> Iterator[Obj]:
        for row in printer.rows(obj, moment):
            row["object"] = self._beside_cells(obj)
            yield row

    def _beside_cells(self, obj: Obj) -> Obj | None:
        """What a row holds of its object. The end of the initial events must be recognisable in any case."""
        if self._include == "Object":
            return obj
        annotations = (obj.get("metadata") or {}).get("annotations") or {}
        if self._include == "None" and annotations.get(INITIAL_EVENTS_END) != "true":
            return None
        return self.partial(obj)

    def _no_object(self) -> ApiError:
        """The refusal to show a list as one object; it names the Go type that upstream holds."""
        row = self._version.resource
        go_type = f"{family(row.group)}.{row.kind}List" if self._served.crd is None else "unstructured.UnstructuredList"
        return NotAcceptable(f"you requested {PARTIAL}, but the requested object is a list (*{go_type})")

    def _no_list(self, obj: Obj) -> ApiError:
        """The refusal to show one object as a list."""
        if self._served.crd is not None:
            return Unknown("content is not a list")  # upstream's one type for custom resources could be one
        go_type = f"{family(obj['apiVersion'].rpartition('/')[0])}.{obj['kind']}"
        return NotAcceptable(f"you requested {PARTIAL_LIST}, but the requested object is not a list (*{go_type})")

    def _partial_list(self, listing: Listing) -> Answer:
        head = {
            "kind": PARTIAL_LIST,
            "apiVersion": f"meta.k8s.io/{self.form.version}",
            "metadata": list_meta(listing),
        }
        if self.form.media_type == PROTOBUF:
            return messages.of_list(head, self._version, listing.items, PARTIAL_TYPE)
        if not listing.items:
            return Answer.of_obj(head | {"items": None}, self.form)
        items = (encoded_partial(item, self.form.version) for item in listing.items)
        return Answer.of_items(head, "items", items, self.form)


def _bounded(answer: Answer) -> bytes | None:
    """The body; None if there is more than the audit log takes."""
    body, size = [], 0
    for piece in answer.pieces():
        size += len(piece)
        if size > MOST_BYTES:
            return None
        body.append(piece)
    return b"".join(body).rstrip(b"\n")
