"""What it costs to find out whether somebody may do something: `python -m benchmarks.authorization`.

A user with fifty bindings of roles, and nodes of a cluster with a hundred thousand pods.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from benchmarks.arguments import parser
from fairlead.api.objects import Obj
from fairlead.api.users import User, authenticated, node_user
from fairlead.server.access import AccessRequest
from fairlead.server.auth.authorizer import Authorizers
from fairlead.server.auth.node.authorizer import NodeAuthorizer
from fairlead.server.auth.rbac.authorizer import RbacAuthorizer

BINDINGS, NODES, PODS = 50, 1_000, 100_000
ROUNDS = 50_000
JANE = authenticated(User("jane", ("ops",)))
GROUP = "rbac.authorization.k8s.io"
#: As ServiceAccount admission leaves it, with a Secret.
SPEC: Obj = {
    "serviceAccountName": "default",
    "containers": [
        {
            "name": "c",
            "image": "nginx:1.27",
            "env": [{"name": f"SETTING_{number}", "value": "some value"} for number in range(10)],
            "envFrom": [{"secretRef": {"name": "credentials"}}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        }
    ],
    "volumes": [
        {
            "name": "kube-api-access",
            "projected": {"sources": [{"serviceAccountToken": {}}, {"configMap": {"name": "kube-root-ca.crt"}}]},
        }
    ],
}


def bound(rbac: RbacAuthorizer) -> None:
    """Fifty roles in one namespace for one user, of five resources each."""
    for number in range(BINDINGS):
        name, resources = f"r{number}", [f"kind{number}{letter}" for letter in "abcde"]
        rules = [{"verbs": ["get", "list"], "apiGroups": [""], "resources": resources}]
        rbac.index.observe_role("n", name, _bytes({"metadata": {"name": name, "namespace": "n"}, "rules": rules}))
        reference = {"apiGroup": GROUP, "kind": "Role", "name": name}
        subjects = [{"kind": "User", "name": JANE.name}]
        binding = {"metadata": {"name": name, "namespace": "n"}, "roleRef": reference, "subjects": subjects}
        rbac.index.observe_binding("n", name, _bytes(binding))


def pod(number: int, phase: str) -> bytes:
    meta = {"name": f"p{number}", "namespace": "n", "uid": f"{number:036}"}
    status = {"phase": phase, "hostIP": "172.16.0.1"}
    return _bytes({"metadata": meta, "spec": SPEC | {"nodeName": f"node-{number % NODES}"}, "status": status})


def _bytes(obj: Obj) -> bytes:
    return msgspec.json.encode(obj)


def _each(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Microseconds of CPU a call."""
    began = time.process_time()
    for _ in range(rounds):
        call()
    return (time.process_time() - began) / rounds * 1e6


def _told(what: str, microseconds: float) -> None:
    print(f"{what:<60}{microseconds:>9.2f} us")


def main() -> None:
    nodes, rbac = NodeAuthorizer(), RbacAuthorizer()
    authorizers = Authorizers([("Node", nodes), ("RBAC", rbac)])
    bound(rbac)
    for resource, what in (("kind49e", "may"), ("pods", "may not")):
        asked = AccessRequest(JANE, "get", "", "v1", resource, "", "n", "x")
        assert authorizers.decide(asked).is_allowed is (what == "may")
        _told(f"a user with {BINDINGS} bindings {what}", _each(lambda asked=asked: authorizers.decide(asked)))  # type: ignore[misc]
    observe = nodes.observers["pods"]
    for phase in ("Pending", "Running"):
        pods = [pod(number, phase) for number in range(PODS)]
        began = time.process_time()
        for number, raw in enumerate(pods):
            observe("n", f"p{number}", raw)
        took = (time.process_time() - began) / PODS * 1e6
        _told("a pod that comes to a node" if phase == "Pending" else "a pod that changes", took)
    one = node_user("node-1")
    secret = AccessRequest(one, "get", "", "v1", "secrets", "", "n", "credentials")
    _told(f"the first question of a node with {PODS // NODES} pods", _each(lambda: authorizers.decide(secret), 1))
    status = AccessRequest(one, "patch", "", "v1", "pods", "status", "n", "p1")
    event = AccessRequest(one, "create", "", "v1", "events", "", "n", "")
    for asked, what in ((secret, "reads a Secret of its pods"), (status, "reports a pod"), (event, "tells an event")):
        assert authorizers.decide(asked).is_allowed
        _told(f"a node {what}", _each(lambda asked=asked: authorizers.decide(asked)))  # type: ignore[misc]


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
