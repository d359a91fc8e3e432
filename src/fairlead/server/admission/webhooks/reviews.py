"""One call of a webhook: what is sent (an AdmissionReview), and what the answer means.

Sources: apiserver/pkg/admission/plugin/webhook/{request,errors} (1.36).
"""

from __future__ import annotations

import binascii
import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead.api.encoded import encode
from fairlead.api.errors import ApiError, BadRequest, InternalError, foreign
from fairlead.api.objects import Obj
from fairlead.api.patches.json import JsonPatch, decode_json_patch
from fairlead.api.resources import Resource
from fairlead.caches import LruCache
from fairlead.client.calls import CallError
from fairlead.client.webhooks import is_callable
from fairlead.golang.json import MalformedJson, parse
from fairlead.golang.quoting import go_quote
from fairlead.kinds.webhook_clients import REVIEW_VERSIONS
from fairlead.runtime import rng
from fairlead.runtime.clock import monotonic, stopwatch
from fairlead.runtime.offload import offload
from fairlead.server.admission.base import Attributes, Dependencies
from fairlead.server.admission.expressions import described
from fairlead.server.admission.webhooks.registered import Webhook

log = logging.getLogger(__name__)

#: How large an answer may be. An object has at most half as much, and so has the patch that replaces it, in base64.
MOST_ANSWERED: Final = 8 << 20
#: How long no more is logged of a webhook, and of how many it is known when they were told of.
_QUIET_SECONDS: Final = 60.0
_MOST_TOLD: Final = 256
#: How metrics count a call in vain, and what we ourselves refuse.
_CODE_OF_FAILURE: Final = 503
_OURS: Final = "apiserver_internal_error"
_LONG_ANSWER: Final = 64 << 10
_GROUP: Final = "admission.k8s.io"
_KIND: Final = "AdmissionReview"


class CallingError(Exception):
    """A webhook was called in vain; its failure policy says what becomes of the request."""

    def __init__(self, webhook: Webhook, why: str) -> None:
        super().__init__(f"failed calling webhook {go_quote(webhook.name)}: {why}")

    def refusal(self) -> InternalError:
        return InternalError.of(str(self))


class Complaints:
    """What is logged of webhooks that do not answer: of each once a minute, however many requests go on without it."""

    def __init__(self) -> None:
        self._told_at: LruCache[str, float] = LruCache(_MOST_TOLD)

    def tell(self, webhook: Webhook, text: str) -> None:
        now, told_at = monotonic(), self._told_at.get(webhook.uid)
        if told_at is None or now >= told_at + _QUIET_SECONDS:
            self._told_at.put(webhook.uid, now)
            log.warning("%s", text)


class Result(msgspec.Struct):
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0


class Response(msgspec.Struct, rename="camel"):
    """The part of an `AdmissionResponse` that is read."""

    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: str | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: list[str] | None = None


class Reviews:
    """Asks webhooks about requests."""

    def __init__(self, dependencies: Dependencies, *, is_mutating: bool) -> None:
        self._client, self._metrics = dependencies.webhooks, dependencies.webhook_metrics
        configuration = dependencies.configuration
        self._credentials = configuration.mutating_credentials if is_mutating else configuration.validating_credentials
        self._is_mutating, self._type = is_mutating, "admit" if is_mutating else "validating"
        self._complaints = Complaints()

    async def ask(self, webhook: Webhook, attributes: Attributes, row: Resource, place: str) -> JsonPatch | None:
        """How the webhook changes the object. Raises the refusal of the request.

        `place` is how the audit log is told that the request went on without an answer.
        """
        began, operation = stopwatch(), str(attributes.operation)
        try:
            patch = await self._asked(webhook, attributes, row)
        except CallingError as error:
            self._note(webhook, operation, began, _CODE_OF_FAILURE, is_rejected=not webhook.is_ignorable)
            if not webhook.is_ignorable:
                self._metrics.rejected(webhook.name, self._type, operation, "calling_webhook_error", _CODE_OF_FAILURE)
                raise error.refusal() from None
            self._metrics.ignored(webhook.name, self._type)
            self._complaints.tell(webhook, f"{error}: ignored")
            attributes.annotate(place, webhook.name)
            return None
        except ApiError as error:
            type_, code = ("no_error", error.code) if error.foreign is not None else (_OURS, 0)
            self._note(webhook, operation, began, code, is_rejected=True)
            self._metrics.rejected(webhook.name, self._type, operation, type_, code)
            raise
        self._note(webhook, operation, began, 200, is_rejected=False)
        return patch

    def _note(self, webhook: Webhook, operation: str, began: float, code: int, *, is_rejected: bool) -> None:
        seconds = stopwatch() - began
        self._metrics.called(webhook.name, self._type, operation, seconds, code, is_rejected=is_rejected)

    async def _asked(self, webhook: Webhook, attributes: Attributes, row: Resource) -> JsonPatch | None:
        if attributes.dry_run and not webhook.is_harmless:
            raise BadRequest(f"admission webhook {go_quote(webhook.name)} does not support dry run")
        if not is_callable():
            text = f"admission webhook {go_quote(webhook.name)} is not called in virtual time"
            attributes.warnings.append(text)
            self._complaints.tell(webhook, text)
            return None
        version = next((name for name in webhook.spec["admissionReviewVersions"] if name in REVIEW_VERSIONS), None)
        if version is None:
            text = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise CallingError(webhook, f"could not create admission objects: {text}")
        uid = rng.uid()
        body = await _review(attributes, row, uid, version)
        try:
            answer = await self._client.post(
                webhook.spec["clientConfig"],
                body,
                seconds=min(webhook.seconds, attributes.time.seconds_left()),
                most=MOST_ANSWERED,
                credentials=self._credentials,
            )
        except CallError as error:
            raise CallingError(webhook, f"failed to call webhook: {error}") from None
        return await offload(
            lambda: _patch_in(answer, uid, version, webhook, attributes, is_mutating=self._is_mutating),
            is_long=len(answer) > _LONG_ANSWER,
        )


async def _review(attributes: Attributes, row: Resource, uid: str, version: str) -> bytes:
    obj, old = await attributes.shown(row)
    request = described(attributes, row)
    request["userInfo"] = _without_empty(request["userInfo"])
    request = {"uid": uid, **_without_empty(request)}
    request |= {"object": obj, "oldObject": old, "dryRun": attributes.dry_run}
    return encode({"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": request})


def _without_empty(fields: Mapping[str, Any]) -> Obj:
    return {key: value for key, value in fields.items() if value or value is False}


def _patch_in(
    answer: bytes, uid: str, version: str, webhook: Webhook, attributes: Attributes, *, is_mutating: bool
) -> JsonPatch | None:
    """What an answer says must be done to the object; raises the refusal that it is."""
    try:
        response = _response_in(answer, uid, version, is_mutating=is_mutating)
    except ValueError as error:
        raise CallingError(webhook, str(error)) from None
    for key, value in (response.audit_annotations or {}).items():
        attributes.annotate(f"{webhook.name}/{key}", value)
    attributes.warnings.extend(response.warnings or ())
    if not response.allowed:
        raise _denial(webhook, response.status)
    if not response.patch:
        return None
    if response.patch_type != "JSONPatch":
        raise CallingError(webhook, f"unsupported patch type {go_quote(response.patch_type or '')}")
    try:
        return decode_json_patch(binascii.a2b_base64(response.patch), lenient=True, parse=parse)
    except (ValueError, BadRequest) as error:
        raise CallingError(webhook, f"received undecodable patch in webhook response: {error}") from None


def _response_in(answer: bytes, uid: str, version: str, *, is_mutating: bool) -> Response:
    """The answer, which must be one to what was asked; ValueError says why it is not."""
    try:
        review = parse(answer)
    except MalformedJson as error:
        text = f"couldn't get version/kind; json parse error: {error}"
        raise ValueError(f"failed to call webhook: {text}") from None
    kind, api_version = _text(review, "kind"), _text(review, "apiVersion")
    expected = f"{_GROUP}/{version}"
    if kind == _KIND and api_version != expected and api_version in {f"{_GROUP}/{name}" for name in REVIEW_VERSIONS}:
        sent = api_version.partition("/")[2]
        text = f"converting ({sent}.{_KIND}) to ({version}.{_KIND}): unknown conversion"
        raise ValueError(f"failed to call webhook: {text}")
    try:
        response = msgspec.convert(review.get("response") if isinstance(review, dict) else None, Response | None)
    except msgspec.ValidationError as error:
        raise ValueError(f"failed to call webhook: {error}") from None
    if why := _fault(response, uid, version, (kind, api_version), is_mutating=is_mutating):
        raise ValueError(f"received invalid webhook response: {why}")
    assert response is not None
    if version != "v1":  # whose answers were never looked at closely
        response.patch, response.patch_type = response.patch if is_mutating else None, "JSONPatch"
    return response


def _text(review: Any, key: str) -> str:
    value = review.get(key) if isinstance(review, dict) else None
    return value if isinstance(value, str) else ""


def _fault(response: Response | None, uid: str, version: str, type_: tuple[str, str], *, is_mutating: bool) -> str:
    """What is wrong with an answer that could be read."""
    if response is None:
        return "webhook response was absent"
    if version != "v1":
        return ""
    if response.uid != uid:
        return f"expected response.uid={go_quote(uid)}, got {go_quote(response.uid)}"
    if type_ != (_KIND, f"{_GROUP}/v1"):
        sent = f"{type_[1] if '/' in type_[1] else '/' + type_[1]}, Kind={type_[0]}"
        return f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, got {sent}"
    if not is_mutating:
        if response.patch:
            return "validating webhook may not return response.patch"
        return "validating webhook may not return response.patchType" if response.patch_type is not None else ""
    if response.patch and response.patch_type is None:
        return "webhook returned response.patch but not response.patchType"
    if not response.patch and response.patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    return 'webhook returned invalid response.patchType of ""' if response.patch_type == "" else ""


def _denial(webhook: Webhook, status: Obj | None) -> ApiError:
    """The webhook's own `Status`, which says whose it is."""
    try:
        result = msgspec.convert(status or {}, Result)
    except msgspec.ValidationError as error:
        raise CallingError(webhook, f"failed to call webhook: {error}") from None
    denied = f"admission webhook {go_quote(webhook.name)} denied the request"
    why = result.message or result.reason
    shown = {"kind": "Status", "apiVersion": "v1", "metadata": {}, **(status or {})}
    shown["status"] = "Failure" if result.status in ("", "Success") else result.status
    shown["message"] = f"{denied}: {why}" if why else f"{denied} without explanation"
    shown["code"] = result.code if 400 <= result.code < 1000 else 400 if result.code < 400 else 500
    return foreign(shown)
