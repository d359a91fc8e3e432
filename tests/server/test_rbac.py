"""Role-based access control (issue 16): who may do what, who may give it away, and what every cluster begins with."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.api.builtin import CONFIG_MAPS, PODS, SECRETS
from fairlead.api.errors import Forbidden, Invalid, NotFound
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.roles import PolicyRule
from fairlead.api.users import ADMIN, AUTHENTICATED, SCHEDULER_USER, User, controller_user
from fairlead.controllers.table import CONTROLLERS
from fairlead.server.access import AccessRequest
from fairlead.server.assembly import Server
from fairlead.server.auth.rbac.defaults import default_policy
from fairlead.server.auth.rbac.index import RoleIndex
from fairlead.server.auth.rbac.rules import (
    CompiledRule,
    TooManyPermissions,
    as_rules,
    not_covered,
    permissions_of,
    resource_keys,
    text_of,
)
from fairlead.server.registry.default_policy import reconcile
from fairlead.store.memory import MemoryStore
from tests.work import Compared, calls, growth

T = TypeVar("T")
JANE = User("jane", ("ops", AUTHENTICATED))
BOT = User("system:serviceaccount:a:bot", ("system:serviceaccounts", "system:serviceaccounts:a", AUTHENTICATED))
GROUP = "rbac.authorization.k8s.io"


def within(steps: Callable[[Server], Awaitable[T]]) -> T:
    async def run() -> T:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        return await steps(server)

    return asyncio.run(run())


def row(server: Server, kind: str) -> Resource:
    return next(found for found in server.registry.catalogue.rows() if (found.group, found.kind) == (GROUP, kind))


async def give(server: Server, subject: Obj, rules: list[Obj], namespace: str = "default", name: str = "x") -> None:
    """A role, and a binding of it; in no namespace they are the cluster's."""
    prefix = "" if namespace else "Cluster"
    api, meta = server.api, {"name": name}
    await api.create(row(server, f"{prefix}Role"), {"metadata": meta, "rules": rules}, namespace)
    reference = {"apiGroup": GROUP, "kind": f"{prefix}Role", "name": name}
    binding = {"metadata": meta, "roleRef": reference, "subjects": [subject]}
    await api.create(row(server, f"{prefix}RoleBinding"), binding, namespace)


def rule(verbs: str, resources: str, groups: str = "", names: str = "") -> Obj:
    found: Obj = {"verbs": verbs.split(), "resources": resources.split(), "apiGroups": groups.split() or [""]}
    return found | ({"resourceNames": names.split()} if names else {})


def index_of(role: list[Obj], bindings: list[list[Obj]]) -> RoleIndex:
    """One role of the cluster, and its bindings by whom each of them is for."""
    index = RoleIndex()
    index.observe_role("", "r", json.dumps({"metadata": {"name": "r"}, "rules": role}).encode())
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "r"}
    for number, subjects in enumerate(bindings):
        binding = {"metadata": {"name": f"b{number}"}, "roleRef": reference, "subjects": subjects}
        index.observe_binding("", f"b{number}", json.dumps(binding).encode())
    return index


def user(name: str) -> Obj:
    return {"kind": "User", "name": name}


def may(server: Server, who: User, verb: str, resource: str, namespace: str = "default", name: str = "") -> bool:
    resource, _, subresource = resource.partition("/")
    request = AccessRequest(who, verb, "", "v1", resource, subresource, namespace, name)
    return server.authorizers.decide(request).is_allowed


def test_a_role_holds_in_its_namespace_for_whom_it_is_bound_to() -> None:
    async def steps(server: Server) -> None:
        await give(server, user("jane"), [rule("get list", "pods")])
        assert may(server, JANE, "list", "pods")
        assert not may(server, JANE, "list", "pods", "kube-system")
        assert not may(server, JANE, "list", "pods", "")
        assert not may(server, JANE, "delete", "pods")
        assert not may(server, BOT, "list", "pods")

    within(steps)


@pytest.mark.parametrize(
    ("subject", "who"),
    [
        ({"kind": "Group", "name": "ops"}, JANE),
        ({"kind": "ServiceAccount", "name": "bot", "namespace": "a"}, BOT),
        ({"kind": "Group", "name": "system:serviceaccounts:a"}, BOT),
    ],
)
def test_groups_and_service_accounts_are_subjects(subject: Obj, who: User) -> None:
    async def steps(server: Server) -> None:
        await give(server, subject, [rule("get", "pods")], "")
        assert may(server, who, "get", "pods", "anywhere")

    within(steps)


def test_subresources_and_names_are_told_apart() -> None:
    async def steps(server: Server) -> None:
        await give(server, user("jane"), [rule("get", "pods */scale"), rule("get", "configmaps", names="one")])
        assert may(server, JANE, "get", "pods", name="x")
        assert not may(server, JANE, "get", "pods/log", name="x")
        assert may(server, JANE, "get", "replicasets/scale", name="x")
        assert may(server, JANE, "get", "configmaps", name="one")
        assert not may(server, JANE, "get", "configmaps", name="two")
        assert not may(server, JANE, "get", "configmaps")

    within(steps)


def test_every_change_counts_at_once() -> None:
    async def steps(server: Server) -> None:
        roles, bindings = row(server, "Role"), row(server, "RoleBinding")
        assert not may(server, JANE, "get", "pods")
        await give(server, user("jane"), [rule("get", "pods")])
        assert may(server, JANE, "get", "pods")
        await server.api.patch(roles, "x", "default", {"rules": [rule("get", "secrets")]})
        assert not may(server, JANE, "get", "pods")
        assert may(server, JANE, "get", "secrets")
        await server.api.patch(bindings, "x", "default", {"subjects": [user("joe")]})
        assert not may(server, JANE, "get", "secrets")
        await server.api.patch(bindings, "x", "default", {"subjects": [user("jane")]})
        await server.api.delete(roles, "x", "default")
        verdict = server.authorizers.decide(AccessRequest(JANE, "get", "", "v1", "secrets", namespace="default"))
        assert verdict.reason == 'RBAC: role.rbac.authorization.k8s.io "x" not found'

    within(steps)


def test_a_component_of_this_process_may_no_more_than_its_roles_say() -> None:
    async def steps(server: Server) -> None:
        await give(server, user("jane"), [rule("list", "configmaps")])
        api = server.registry.as_user(JANE)
        await api.list(CONFIG_MAPS, "default")
        with pytest.raises(Forbidden, match='User "jane" cannot create resource "configmaps"'):
            await api.create(CONFIG_MAPS, {"metadata": {"name": "x"}}, "default")
        with pytest.raises(Forbidden, match='cannot watch resource "pods" in API group "" at the cluster scope'):
            api.watch(PODS)

    within(steps)


def test_nobody_gives_away_what_they_do_not_have() -> None:
    async def steps(server: Server) -> None:
        await give(
            server, user("jane"), [rule("create get list patch", "roles rolebindings", GROUP), rule("get", "pods")]
        )
        api, roles, bindings = server.registry.as_user(JANE), row(server, "Role"), row(server, "RoleBinding")
        await api.create(roles, {"metadata": {"name": "same"}, "rules": [rule("get", "pods")]}, "default")
        with pytest.raises(Forbidden, match=r'not currently held:\n\{APIGroups:\[""\], Resources:\["secrets"\], Verbs'):
            await api.create(roles, {"metadata": {"name": "more"}, "rules": [rule("get", "secrets")]}, "default")
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}
        binding = {"metadata": {"name": "up"}, "roleRef": reference, "subjects": [user("jane")]}
        with pytest.raises(Forbidden, match="is attempting to grant RBAC permissions not currently held"):
            await api.create(bindings, binding, "default")
        reference["name"] = "nothing"
        with pytest.raises(NotFound, match=r'clusterrole\.rbac\.authorization\.k8s\.io "nothing" not found'):
            await api.create(bindings, binding, "default")
        with pytest.raises(Forbidden):
            await api.patch(roles, "x", "default", {"rules": [rule("*", "*", "*")]})

    within(steps)


def test_whoever_may_escalate_or_bind_does() -> None:
    async def steps(server: Server) -> None:
        rules = [rule("create escalate bind", "roles rolebindings clusterroles", GROUP)]
        await give(server, user("jane"), rules)
        api = server.registry.as_user(JANE)
        await api.create(row(server, "Role"), {"metadata": {"name": "more"}, "rules": [rule("*", "*", "*")]}, "default")
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}
        binding = {"metadata": {"name": "up"}, "roleRef": reference, "subjects": [user("jane")]}
        await api.create(row(server, "RoleBinding"), binding, "default")

    within(steps)


def test_an_aggregated_role_takes_a_cluster_admin() -> None:
    async def steps(server: Server) -> None:
        await give(server, user("jane"), [rule("create", "clusterroles", GROUP)], "")
        role = {
            "metadata": {"name": "sum"},
            "rules": [],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
        }
        with pytest.raises(Forbidden, match="must have cluster-admin privileges to use an aggregationRule"):
            await server.registry.as_user(JANE).create(row(server, "ClusterRole"), role)

    within(steps)


def test_few_bytes_that_say_a_billion_permissions_are_not_compared_one_by_one() -> None:
    many = [f"x{number}" for number in range(1000)]
    huge = PolicyRule(verbs=tuple(many), api_groups=tuple(many), resources=tuple(many))
    with pytest.raises(TooManyPermissions):
        list(permissions_of([huge]))

    async def steps(server: Server) -> None:
        await give(server, user("jane"), [rule("create", "roles", GROUP)])
        role = {"metadata": {"name": "huge"}, "rules": [{"verbs": many, "apiGroups": many, "resources": many}]}
        with pytest.raises(Forbidden, match="more single permissions than can be compared"):
            await server.registry.as_user(JANE).create(row(server, "Role"), role, "default")

    within(steps)


WORDS = st.sampled_from(["*", "a", "b", "c"])
NAMES = st.lists(st.sampled_from(["x", "y"]), max_size=2).map(tuple)
RESOURCES = st.sampled_from(["*", "pods", "pods/log", "*/log", "nodes"])
RULES = st.builds(
    lambda verbs, groups, resources, names: PolicyRule(
        verbs=tuple(verbs), api_groups=tuple(groups), resources=tuple(resources), resource_names=names or None
    ),
    st.lists(WORDS, min_size=1, max_size=2),
    st.lists(WORDS, min_size=1, max_size=2),
    st.lists(RESOURCES, min_size=1, max_size=2),
    NAMES,
)


def allows(rules: list[PolicyRule], request: AccessRequest) -> bool:
    keys = resource_keys(request.resource, request.subresource)
    return any(
        CompiledRule(found).allows_resource(request)
        for found in rules
        if any(key in (found.resources or ()) for key in keys)
    )


@given(st.lists(RULES, max_size=3), st.lists(RULES, max_size=3))
def test_what_is_missing_completes_what_is_held(owned: list[PolicyRule], wanted: list[PolicyRule]) -> None:
    missing = not_covered(owned, wanted)
    assert not not_covered(wanted, wanted)
    assert not not_covered([*owned, *as_rules(missing)], wanted)


@given(
    st.lists(RULES, max_size=3),
    st.lists(RULES, max_size=3),
    st.sampled_from(["a", "b", "z"]),
    st.sampled_from(["a", "c", "z"]),
    st.sampled_from(["pods", "pods/log", "nodes", "other/log"]),
    st.sampled_from(["", "x", "z"]),
)
def test_rules_that_are_covered_allow_nothing_new(
    owned: list[PolicyRule], wanted: list[PolicyRule], verb: str, group: str, resource: str, name: str
) -> None:
    resource, _, subresource = resource.partition("/")
    request = AccessRequest(JANE, verb, group, "v1", resource, subresource, "n", name)
    if allows(wanted, request) and not allows(owned, request):
        assert not_covered(owned, wanted)


def test_rules_are_printed_as_kubernetes_prints_them() -> None:
    text = '{APIGroups:[""], Resources:["pods"], ResourceNames:["a" "b"], Verbs:["get"]}'
    found = PolicyRule(verbs=("get",), api_groups=("",), resources=("pods",), resource_names=("a", "b"))
    assert text_of(found) == text
    assert text_of(PolicyRule(verbs=("get",), urls=("/x",))) == '{NonResourceURLs:["/x"], Verbs:["get"]}'


def test_every_default_role_of_a_binding_exists() -> None:
    policy = default_policy()
    known = {(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) for obj in policy}
    assert len(known) == len(policy)
    for obj in policy:
        if "roleRef" in obj:
            namespace = obj["metadata"].get("namespace", "") if obj["roleRef"]["kind"] == "Role" else ""
            assert (obj["roleRef"]["kind"], namespace, obj["roleRef"]["name"]) in known


def test_what_is_lost_of_the_default_policy_comes_back_and_what_is_kept_on_purpose_stays() -> None:
    async def steps(server: Server) -> None:
        api, roles, bindings = server.api, row(server, "ClusterRole"), row(server, "ClusterRoleBinding")
        await api.delete(roles, "view")
        await api.patch(roles, "system:basic-user", "", {"rules": [rule("get", "pods")]})
        await api.patch(bindings, "system:discovery", "", {"subjects": None})
        note = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}}
        await api.patch(roles, "system:discovery", "", note | {"rules": []})
        await reconcile(server.registry)
        assert may(server, JANE, "get", "pods")
        request = AccessRequest(JANE, "create", "authorization.k8s.io", "v1", "selfsubjectaccessreviews")
        assert server.authorizers.decide(request).is_allowed
        assert (await api.get(roles, "view")).obj()["aggregationRule"]
        assert (await api.get(bindings, "system:discovery")).obj()["subjects"]
        assert not (await api.get(roles, "system:discovery")).obj()["rules"]
        revision = server.registry.revision
        await reconcile(server.registry)
        assert server.registry.revision == revision

    within(steps)


async def review(server: Server, who: User, kind: str, spec: Any) -> Obj:
    rows = {found.kind: found for found in server.registry.catalogue.rows() if found.group == "authorization.k8s.io"}
    obj = {"apiVersion": rows[kind].api_version, "kind": kind, "spec": spec}
    status: Obj = (await server.registry.as_user(who).create(rows[kind], obj)).obj()["status"]
    return status


def test_reviews_answer_as_requests_are_judged() -> None:
    async def steps(server: Server) -> None:
        await give(server, user("jane"), [rule("get", "pods")])
        spec = {"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}
        reason = 'RBAC: allowed by RoleBinding "x/default" of Role "x" to User "jane"'
        assert await review(server, JANE, "SelfSubjectAccessReview", spec) == {"allowed": True, "reason": reason}
        rules = (await review(server, JANE, "SelfSubjectRulesReview", {"namespace": "default"}))["resourceRules"]
        assert rule("get", "pods") in rules
        path = {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
        assert await review(server, JANE, "SelfSubjectAccessReview", path) == {"allowed": False}
        with pytest.raises(Forbidden):
            await review(server, JANE, "SubjectAccessReview", spec | {"user": "joe"})

    within(steps)


def test_reviews_ask_about_selectors_and_nothing_of_metadata() -> None:
    where = "spec.resourceAttributes."

    async def refused(server: Server, kind: str, attributes: Obj, **more: Any) -> list[str]:
        spec: Obj = {"resourceAttributes": {"verb": "list", "resource": "pods"} | attributes}
        if kind != "SelfSubjectAccessReview":
            spec["user"] = "joe"
        rows = {found.kind: found for found in server.registry.catalogue.rows()}
        obj: Obj = {"apiVersion": rows[kind].api_version, "kind": kind, "spec": spec, **more}
        namespace = "ns" if kind.startswith("Local") else ""
        with pytest.raises(Invalid) as caught:
            await server.registry.as_user(ADMIN).create(rows[kind], obj, namespace)
        return [f"{cause.field}: {cause.message}".removeprefix(where) for cause in caught.value.causes]

    async def steps(server: Server) -> None:
        kinds = ("SelfSubjectAccessReview", "SubjectAccessReview")
        for kind in kinds:
            assert await refused(server, kind, {}, metadata={"name": "x"}) == [
                'metadata: Invalid value: {"name":"x"}: must be empty'
            ]
        assert await refused(
            server, "LocalSubjectAccessReview", {"namespace": "ns"}, metadata={"namespace": "ns", "labels": {"a": "b"}}
        ) == ['metadata: Invalid value: {"namespace":"ns","labels":{"a":"b"}}: must be empty except for namespace']
        attributes = {
            "fieldSelector": {"requirements": [{"operator": "In"}, {"key": "a", "operator": "New"}]},
            "labelSelector": {
                "rawSelector": "a",
                "requirements": [{"key": "a", "operator": "Exists", "values": ["b c"]}],
            },
        }
        assert [text.partition(": a valid")[0] for text in await refused(server, kinds[1], attributes)] == [
            "fieldSelector.requirements[0].key: Required value: must be specified",
            "fieldSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or "
            "'NotIn'",
            'labelSelector.rawSelector: Invalid value: "a": may not specified at the same time as requirements',
            "labelSelector.requirements[0].values: Forbidden: may not be specified when `operator` is 'Exists' or "
            "'DoesNotExist'",
            'labelSelector.requirements[0].values[0]: Invalid value: "b c"',
        ]
        assert await refused(server, kinds[0], {"labelSelector": {}}) == [
            f"labelSelector.requirements: Required value: when {where}labelSelector is specified, requirements or "
            "rawSelector is required"
        ]

    within(steps)


def test_of_users_in_very_many_groups_nothing_is_kept() -> None:
    """Whoever may ask about others names as many groups as a body has room for, each time others."""

    async def steps(server: Server) -> None:
        await give(server, {"kind": "Group", "name": "g-5-9999"}, [rule("get", "pods")])
        tracemalloc.start()
        try:
            for number in range(20):
                groups = tuple(f"g-{number}-{group}" for group in range(10_000))
                who = User("joe", groups)
                assert may(server, who, "get", "pods") is (number == 5)
            del who, groups
            assert tracemalloc.get_traced_memory()[0] < 5 << 20
        finally:
            tracemalloc.stop()

    within(steps)


def test_another_credential_of_the_same_user_may_the_same() -> None:
    async def steps(server: Server) -> None:
        await give(server, user("jane"), [rule("get", "pods")])
        for number in range(3):
            who = replace(JANE, extra=(("authentication.kubernetes.io/credential-id", (str(number),)),))
            assert may(server, who, "get", "pods")
        await server.api.delete(row(server, "RoleBinding"), "x", "default")
        assert not may(server, who, "get", "pods")

    within(steps)


def test_each_component_may_what_kubernetes_gives_it_and_no_more() -> None:
    """The tests of controllers and of the scheduler run them as these users: they need no more than they have."""

    async def steps(server: Server) -> None:
        accounts = {made().account for made in CONTROLLERS}
        assert len(accounts) > 20
        bound = {subject["name"] for _, subject in _subjects(server) if subject["kind"] == "ServiceAccount"}
        assert accounts - {""} <= bound
        for user in (SCHEDULER_USER, *map(controller_user, accounts)):
            assert "system:masters" not in user.groups
            assert not may(server, user, "create", "pods/exec")
            assert not may(server, user, "impersonate", "users", "")
        jobs = controller_user("job-controller")
        assert may(server, jobs, "create", "pods")
        assert not may(server, jobs, "create", "secrets")
        with pytest.raises(Forbidden, match='"system:serviceaccount:kube-system:job-controller" cannot create'):
            secret = {"metadata": {"name": "x"}}
            await server.registry.as_user(jobs).create(SECRETS, secret, "default")

    within(steps)


def _subjects(server: Server) -> Iterator[tuple[str, Obj]]:
    for entry in server.registry.each(row(server, "ClusterRoleBinding").qualified):
        binding = entry.obj()
        for subject in binding.get("subjects") or ():
            yield binding["metadata"]["name"], subject


def test_thousands_of_groups_are_looked_for_in_a_binding_of_thousands_once() -> None:
    def asked(size: int) -> None:
        index = index_of([rule("get", "pods")], [[{"kind": "Group", "name": f"g{number}"} for number in range(size)]])
        member = User("joe", tuple(Compared(f"g{number}") for number in range(size)))
        assert index.permissions(member).allowing(AccessRequest(member, "put", resource="pods")) is None

    assert growth(asked, 300) < 2.5


def test_a_role_of_many_rules_is_read_once_for_all_who_have_it_however_often() -> None:
    rules = [rule("get", f"r{number}") for number in range(300)]

    def asked(size: int) -> None:
        index = index_of(rules, [[user("joe"), user("ann")] for _ in range(size)])
        for name in ("joe", "ann"):
            who = User(name)
            assert index.permissions(who).allowing(AccessRequest(who, "get", resource="r299"))
            assert len(list(index.permissions(who).grants(""))) == 1

    assert calls(lambda: asked(50)) < 3 * calls(lambda: asked(1))


@pytest.mark.parametrize(
    "held",
    [lambda text: rule("get", "pods", names=text), lambda text: rule("get", text), lambda text: rule("get", "*", text)],
    ids=["names", "resources", "groups"],
)
def test_what_many_rules_give_is_not_looked_for_in_each_of_them(held: Callable[[str], Obj]) -> None:
    def compared(size: int) -> None:
        rules = [msgspec.convert(held(f"x{number}"), PolicyRule) for number in range(size)]
        assert not not_covered(rules, rules)

    assert growth(compared, 200) < 2.5


def test_rules_that_all_could_give_what_none_does_are_not_all_tried_for_ever() -> None:
    owned = [PolicyRule(verbs=("get",), urls=(f"/a/{number}",)) for number in range(2000)]
    with pytest.raises(TooManyPermissions):
        not_covered(owned, [replace(rule, verbs=("put",)) for rule in owned])
