"""What is compiled lets the same packets through as the slow reading of the policies."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.network.policies.compile import (
    Allowed,
    Direction,
    PodFacts,
    PodRules,
    World,
    compiled,
    covers,
)
from fairlead.agent.network.policies.rules import policy_rules
from fairlead.agent.network.views import NetworkPolicy
from tests.agent.network.slow_policies import End, may

Obj = dict[str, Any]

NAMESPACES: dict[str, dict[str, str]] = {"red": {"team": "a"}, "blue": {"team": "b"}, "grey": {}}
PROTOCOLS = ("TCP", "UDP")
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]), max_size=2)
STRANGERS = (End("192.168.0.1"), End("10.9.0.9"))

_expressions = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {
                "key": st.sampled_from(["app", "tier", "team"]),
                "operator": st.sampled_from(["In", "NotIn"]),
                "values": st.lists(st.sampled_from(["x", "y", "a"]), min_size=1, max_size=2, unique=True),
            }
        ),
        st.fixed_dictionaries(
            {
                "key": st.sampled_from(["app", "tier", "team"]),
                "operator": st.sampled_from(["Exists", "DoesNotExist"]),
            }
        ),
    ),
    max_size=1,
)
SELECTORS = st.fixed_dictionaries({}, optional={"matchLabels": LABELS, "matchExpressions": _expressions})
TEAMS = st.sampled_from([{}, {"matchLabels": {"team": "a"}}, {"matchLabels": {"team": "c"}}])
BLOCKS = st.sampled_from(
    [
        {"cidr": "10.244.0.0/16"},
        {"cidr": "10.244.0.0/24", "except": ["10.244.0.2/31", "10.244.0.3/32"]},
        {"cidr": "0.0.0.0/0", "except": ["10.244.0.0/29"]},
        {"cidr": "192.168.0.0/24"},
        {"cidr": "fd00::/8"},
    ]
)
PEERS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"ipBlock": BLOCKS}),
        st.fixed_dictionaries({"podSelector": SELECTORS}),
        st.fixed_dictionaries({"namespaceSelector": TEAMS}, optional={"podSelector": SELECTORS}),
    ),
    max_size=2,
)
PORTS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"protocol": st.sampled_from(PROTOCOLS)}),
        st.fixed_dictionaries(
            {"protocol": st.sampled_from(PROTOCOLS), "port": st.sampled_from([80, 81, "web", "dns"])},
        ),
        st.fixed_dictionaries({"port": st.integers(78, 81), "endPort": st.integers(81, 83)}),
    ),
    max_size=2,
)
TYPES = st.sampled_from([["Ingress"], ["Egress"], ["Ingress", "Egress"]])


@st.composite
def policies(draw: st.DrawFn) -> Obj:
    spec: Obj = {"podSelector": draw(SELECTORS), "policyTypes": draw(TYPES)}
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        rules = draw(st.lists(st.fixed_dictionaries({}, optional={peers: PEERS, "ports": PORTS}), max_size=2))
        spec[direction] = rules
    name = f"p{draw(st.integers(0, 10**6))}"
    return {"metadata": {"name": name, "namespace": draw(st.sampled_from(["red", "blue"]))}, "spec": spec}


@st.composite
def pods(draw: st.DrawFn) -> list[PodFacts]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        ports = draw(
            st.dictionaries(
                st.tuples(st.sampled_from(["web", "dns"]), st.sampled_from(PROTOCOLS)), st.integers(79, 82), max_size=2
            )
        )
        namespace = draw(st.sampled_from(sorted(NAMESPACES)))
        facts = PodFacts(namespace, f"pod{number}", f"10.244.0.{number + 1}", draw(LABELS), ports, is_local=True)
        found.append(facts)
    return found


@given(st.lists(policies(), max_size=3, unique_by=lambda policy: policy["metadata"]["name"]), pods())
def test_compiled_policies_let_through_what_their_text_allows(objects: list[Obj], facts: list[PodFacts]) -> None:
    views = [msgspec.convert(obj, NetworkPolicy) for obj in objects]
    rules = compiled(views, World(facts, NAMESPACES))
    ends = [
        End(pod.address, pod.namespace, dict(pod.labels), NAMESPACES[pod.namespace], dict(pod.ports)) for pod in facts
    ]
    keys = {pod.address: f"{pod.namespace}/{pod.name}" for pod in facts}
    for sender in (*ends, *STRANGERS):
        for receiver in (*ends, *STRANGERS):
            out = rules.get(keys.get(sender.address, ""), PodRules()).egress
            into = rules.get(keys.get(receiver.address, ""), PodRules()).ingress
            for protocol in PROTOCOLS:
                for port in (78, 79, 80, 81, 82, 83, 84):
                    goes = _through(out, receiver.address, receiver.address, protocol, port)
                    comes = _through(into, sender.address, receiver.address, protocol, port)
                    assert (goes and comes) is may(objects, sender, receiver, protocol, port)


def _through(allowed: Allowed, peer: str, receiver: str, protocol: str, port: int) -> bool:
    if allowed is None:
        return True
    for rule in allowed:
        is_peer = (
            rule.peers.everyone
            or peer in rule.peers.addresses
            or any(covers(block, peer) for block in rule.peers.blocks)
        )
        is_port = rule.ports is None or any(
            part.protocol == protocol and part.first <= port <= part.last for part in rule.ports
        )
        if (is_peer and is_port) or (receiver, protocol, port) in rule.destinations:
            return True
    return False


@given(st.lists(policies(), max_size=3, unique_by=lambda policy: policy["metadata"]["name"]), pods())
def test_every_set_that_a_rule_names_is_there_and_ranges_never_overlap(
    objects: list[Obj], facts: list[PodFacts]
) -> None:
    views = [msgspec.convert(obj, NetworkPolicy) for obj in objects]
    rules = compiled(views, World(facts, NAMESPACES))
    fragments = policy_rules(rules, {f"{pod.namespace}/{pod.name}": pod.address for pod in facts})
    sets = {name for fragment in fragments.values() for name in fragment.sets}
    for fragment in fragments.values():
        for chain in fragment.chains.values():
            assert chain[-1] == "drop"
            assert {word[1:] for rule in chain for word in rule.split() if word.startswith("@")} <= sets
    for of_pod in rules.values():
        for rule in (*(of_pod.ingress or ()), *(of_pod.egress or ())):
            for before, after in zip(rule.ports or (), (rule.ports or ())[1:], strict=False):
                assert before.protocol < after.protocol or before.last < after.first


def test_a_policy_that_says_no_types_is_about_ingress_and_about_egress_if_it_has_rules_for_it() -> None:
    web = PodFacts("red", "web", "10.244.0.1", is_local=True)

    def isolated(spec: Obj) -> list[Direction]:
        policy = {"metadata": {"name": "p", "namespace": "red"}, "spec": {"podSelector": {}} | spec}
        (rules,) = compiled([msgspec.convert(policy, NetworkPolicy)], World([web], NAMESPACES)).values()
        return [direction for direction in Direction if getattr(rules, direction) is not None]

    assert isolated({}) == [Direction.INGRESS]
    assert isolated({"egress": [{}]}) == [Direction.INGRESS, Direction.EGRESS]


def test_what_is_no_port_opens_nothing_and_never_becomes_part_of_a_rule() -> None:
    web = PodFacts("red", "web", "10.244.0.1", is_local=True)
    odd = [
        {"protocol": "tcp . 80 } accept #", "port": 80},
        {"protocol": "TCP", "port": 70000},
        {"protocol": "TCP", "port": 65000, "endPort": 70000},
    ]
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": odd}]}
    policy = {"metadata": {"name": "p", "namespace": "red"}, "spec": spec}
    rules = compiled([msgspec.convert(policy, NetworkPolicy)], World([web], NAMESPACES))
    (allowance,) = rules["red/web"].ingress or ()
    assert allowance.ports == (("TCP", 65000, 65535),)


def test_pods_of_other_nodes_have_no_rules_here() -> None:
    far = PodFacts("red", "far", "10.244.1.1")
    policy = {"metadata": {"name": "p", "namespace": "red"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}
    assert compiled([msgspec.convert(policy, NetworkPolicy)], World([far], NAMESPACES)) == {}
