"""Who may approve and sign a certificate request, and the group that none may ask for; by users of a real server."""

from __future__ import annotations

import base64
from collections.abc import Awaitable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairlead.api.builtin import CERTIFICATE_SIGNING_REQUESTS as REQUESTS
from fairlead.api.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.users import User
from tests.server.registry_world import World, run

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
OTHER_SIGNER = "example.com/one"
APPROVED = {"type": "Approved", "status": "True", "reason": "Fine", "message": ""}


def requested(organization: str) -> str:
    """A signed request for a certificate of that group, as the API takes it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, text) for text in ("first", organization)]
        + [x509.NameAttribute(x509.NameOID.COMMON_NAME, "jane")]
    )
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def request(signer: str, organization: str = "devs") -> Obj:
    spec = {"request": requested(organization), "signerName": signer, "usages": ["client auth"]}
    return {"metadata": {"name": "csr"}, "spec": spec}


async def allow(world: World, user: str, verb: str, subresource: str, signers: list[str]) -> None:
    """Let the user write that part of requests, and do `verb` for these signers."""
    group = ["certificates.k8s.io"]
    rules = [
        {"apiGroups": group, "resources": [f"certificatesigningrequests/{subresource}"], "verbs": ["update"]},
        {"apiGroups": group, "resources": ["signers"], "verbs": [verb], "resourceNames": signers},
    ]
    await world.create(CLUSTER_ROLES, {"metadata": {"name": user}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
    binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": subjects}
    await world.create(CLUSTER_ROLE_BINDINGS, binding)


async def refusal(doing: Awaitable[object]) -> str:
    with pytest.raises(ApiError) as refused:
        await doing
    assert refused.value.code == 403
    return refused.value.message


def write(world: World, user: str, obj: Obj, subresource: str) -> Awaitable[object]:
    return world.registry.as_user(User(user)).update(REQUESTS, obj, subresource=subresource)


@pytest.mark.parametrize("signers", [[OTHER_SIGNER], ["example.com/*"]])
def test_who_approves_needs_the_signer_beside_the_endpoint(signers: list[str]) -> None:
    async def test(world: World) -> None:
        await allow(world, "approver", "approve", "approval", signers)
        await allow(world, "stranger", "approve", "approval", [CLIENT_SIGNER])
        made = await world.create(REQUESTS, request(OTHER_SIGNER))
        approval = {**made, "status": {"conditions": [APPROVED]}}
        assert await refusal(write(world, "stranger", approval, "approval")) == (
            'certificatesigningrequests.certificates.k8s.io "csr" is forbidden: user not permitted to approve requests '
            'with signerName "example.com/one"'
        )
        await write(world, "approver", approval, "approval")
        stored = await world.get(REQUESTS, "csr")
        assert stored is not None
        assert [condition["type"] for condition in stored["status"]["conditions"]] == ["Approved"]

    run(test)


def test_who_signs_needs_the_signer_and_who_changes_something_else_does_not() -> None:
    async def test(world: World) -> None:
        await allow(world, "signer", "sign", "status", [OTHER_SIGNER])
        await allow(world, "stranger", "sign", "status", ["example.org/*"])
        made = await world.create(REQUESTS, request(OTHER_SIGNER))
        failed = {**made, "status": {"conditions": [APPROVED | {"type": "Failed"}]}}
        assert "user not permitted to sign requests with signerName" in await refusal(
            write(world, "stranger", failed, "status")
        )
        await write(world, "stranger", made, "status")
        await write(world, "signer", failed, "status")

    run(test)


def test_nobody_asks_for_a_client_certificate_of_the_masters() -> None:
    async def test(world: World) -> None:
        assert await refusal(world.create(REQUESTS, request(CLIENT_SIGNER, "system:masters"))) == (
            'certificatesigningrequests.certificates.k8s.io "csr" is forbidden: use of '
            "kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
        )
        await world.create(REQUESTS, request(OTHER_SIGNER, "system:masters"))

    run(test)
