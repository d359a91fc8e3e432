"""Tokens of service accounts: asked for (`serviceaccounts/NAME/token`), and shown to be looked at (TokenReview).

Sources: pkg/registry/core/serviceaccount/storage/token.go, pkg/registry/authentication/tokenreview (1.36).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead.api.builtin import SERVICE_ACCOUNTS
from fairlead.api.encoded import Encoded
from fairlead.api.errors import BadRequest, Conflict, NotFound
from fairlead.api.fields import Errors
from fairlead.api.meta import Object, View
from fairlead.api.objects import Obj, metadata
from fairlead.api.users import AccountName, authenticated
from fairlead.runtime.clock import timestamp
from fairlead.server.account_tokens import ISSUER, UNKNOWN, InvalidToken, Subject
from fairlead.server.context import Result
from fairlead.server.storage import metadata_rules
from fairlead.server.subresources.action import ActionCall, answered, created

_DEFAULT_SECONDS: Final = 3600
_SHORTEST_SECONDS: Final = 600
_LONGEST_SECONDS: Final = 1 << 32
#: What a token may be bound to, by kind: the resource, and its name among the claims.
_BINDABLE: Final = {"Pod": ("pods", "pod"), "Secret": ("secrets", "secret"), "Node": ("nodes", "node")}


class _PodSpec(View):
    service_account_name: str = ""
    node_name: str = ""


class _Pod(Object):
    spec: _PodSpec = _PodSpec()


class _Bound(View):
    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class _Request(View):
    audiences: tuple[str, ...] | None = None
    expiration_seconds: int | None = None
    bound_object_ref: _Bound | None = None


async def request_token(call: ActionCall) -> Result[Encoded]:
    """`serviceaccounts/NAME/token`: a token of that account."""
    warnings = call.normalise_body()
    meta = metadata(call.body)
    metadata_rules.ensure_namespace(call.served, meta, call.namespace)
    account = AccountName(call.namespace, call.name)
    entry = call.backend.find("serviceaccounts", call.name, call.namespace)
    if entry is None:
        raise NotFound.of("serviceaccounts", call.name)
    uid = entry.view(Object).metadata.uid
    if (meant := meta.get("uid")) and meant != uid:
        why = f"the UID in the token request ({meant}) does not match the UID of the service account ({uid})"
        raise Conflict.of("TokenRequest", call.name, why, "authentication.k8s.io")
    attributes = call.attributes(SERVICE_ACCOUNTS, call.name, "token")
    await call.backend.admission.admit(attributes)
    spec = attributes.obj.get("spec") or {}
    request = msgspec.convert(spec, _Request)
    seconds = _DEFAULT_SECONDS if request.expiration_seconds is None else request.expiration_seconds
    _validate(seconds)
    bound = _bound(call, request.bound_object_ref) if request.bound_object_ref is not None else {}
    await call.backend.admission.validate(attributes)
    audiences = request.audiences or (ISSUER,)
    token = call.backend.account_tokens.issue(account, uid, audiences, seconds, bound)
    attributes.annotate("authentication.kubernetes.io/issued-credential-id", token.credential_id)
    answer: Obj = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": meta | {"name": call.name, "creationTimestamp": timestamp()},
        "spec": {
            "audiences": list(audiences),
            "expirationSeconds": seconds,
            "boundObjectRef": spec.get("boundObjectRef"),
        },
        "status": {"token": token.text, "expirationTimestamp": timestamp(token.expires)},
    }
    return created(answer, warnings)


async def token_review(call: ActionCall) -> Result[Encoded]:
    """Whose token is this? (TokenReview)"""
    warnings = call.normalise_body()
    spec = call.body.get("spec") or {}
    if not (token := spec.get("token")):
        raise BadRequest("token is required for TokenReview in authentication")
    try:
        found = await call.backend.verify_token(token, spec.get("audiences") or (ISSUER,))
        told = UNKNOWN
    except InvalidToken as error:
        found, told = None, str(error)
    if found is None:
        status: Obj = {"user": {}, "error": told if told == UNKNOWN else f"[{UNKNOWN}, {told}]"}
        return answered(call, status, warnings)
    user = authenticated(found.user)
    info: dict[str, Any] = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    info["extra"] = {key: list(values) for key, values in user.extra}
    shown = {key: value for key, value in info.items() if value}
    return answered(call, {"authenticated": True, "user": shown, "audiences": list(found.audiences)}, warnings)


def _validate(seconds: int) -> None:
    errors = Errors()
    if seconds < _SHORTEST_SECONDS:
        errors.invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > _LONGEST_SECONDS:
        errors.invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    errors.raise_invalid("TokenRequest", "", "authentication.k8s.io")


def _bound(call: ActionCall, reference: _Bound) -> dict[str, Subject]:
    """What the token ends with; a pod brings the node that it is on."""
    found = _BINDABLE.get(reference.kind) if reference.api_version == "v1" else None
    if found is None:
        group, _, version = reference.api_version.rpartition("/")
        kind = f"{group}/{version}, Kind={reference.kind}"
        raise BadRequest(f"cannot bind token to object of type {kind}")
    resource, claim = found
    entry = call.backend.find(resource, reference.name, "" if resource == "nodes" else call.namespace)
    if entry is None:
        raise NotFound.of(resource, reference.name)
    uid = entry.view(Object).metadata.uid
    if reference.uid and reference.uid != uid:
        text = (
            f"the UID in the bound object reference ({reference.uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise Conflict.of(resource, reference.name, text)
    bound = {claim: Subject(name=reference.name, uid=uid)}
    if resource == "pods":
        spec = entry.view(_Pod).spec
        if spec.service_account_name != call.name:
            text = (
                f'cannot bind token for serviceaccount "{call.name}" to pod running with different serviceaccount name.'
            )
            raise BadRequest(text)
        if spec.node_name:
            node = call.backend.find("nodes", spec.node_name)
            bound["node"] = Subject(name=spec.node_name, uid=node.view(Object).metadata.uid if node else "")
    return bound
