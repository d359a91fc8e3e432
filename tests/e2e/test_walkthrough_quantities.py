"""Amounts of resources: how they are written, what they become, and which are refused (SC-08)."""

from __future__ import annotations

import json

import pytest

from tests.e2e.helpers.manifests import container, pod
from tests.e2e.helpers.terminal import Terminal

CREATE = "kubectl create -f -"


def test_quantities_are_defaulted_rounded_and_canonical(terminal: Terminal) -> None:
    """SC-08, S0-37, S0-41 to S0-45. (Without quotes 129e6 is a number of YAML's, and kubectl sends 129000000.)"""
    first = container("a", limits={"cpu": "0.5", "memory": "129e6"})
    second = container("b", requests={"cpu": "0.0005", "memory": "2048Mi"}, limits={"cpu": "0.1234", "memory": "2Gi"})
    terminal.prints(CREATE, "pod/q created", pod("q", first, second))
    found = json.loads(terminal.output("kubectl get pod q -o json"))["spec"]["containers"]
    assert [one["resources"] for one in found] == [
        {"limits": {"cpu": "500m", "memory": "129e6"}, "requests": {"cpu": "500m", "memory": "129e6"}},
        {"limits": {"cpu": "124m", "memory": "2Gi"}, "requests": {"cpu": "1m", "memory": "2Gi"}},
    ]


@pytest.mark.parametrize(
    ("resource", "amounts"),
    [
        ("cpu", {"0.1": "100m", "0.5": "500m", "0.8": "800m", "2.5": "2500m", "1": "1", "1000m": "1"}),
        ("memory", {"1000": "1k", "1k": "1k", "1.5Gi": "1536Mi", "128974848": "128974848", "123Mi": "123Mi"}),
    ],
)
def test_amounts_read_back_in_their_canonical_form(terminal: Terminal, resource: str, amounts: dict[str, str]) -> None:
    """S0-41, S0-44, S0-45."""
    containers = [container(f"c{number}", requests={resource: amount}) for number, amount in enumerate(amounts)]
    terminal.output(CREATE, pod("p", *containers))
    read = terminal.output(f"kubectl get pod p -o jsonpath='{{.spec.containers[*].resources.requests.{resource}}}'")
    assert read.split() == list(amounts.values())


def test_equal_amounts_are_equal_however_they_are_written(terminal: Terminal) -> None:
    """SC-08, S0-45, S0-46: 123Mi is 128974848 bytes, 129M are 25152 more."""
    terminal.prints("kubectl create quota memory --hard=requests.memory=123Mi", "resourcequota/memory created")
    terminal.comes_to("kubectl get quota memory -o jsonpath='{.status.hard}'", '{"requests.memory":"123Mi"}')
    for amount in ("129e6", "129M"):
        terminal.refuses(
            CREATE,
            'Error from server (Forbidden): error when creating "STDIN": pods "p" is forbidden: exceeded quota: memory,'
            f" requested: requests.memory={amount}, used: requests.memory=0, limited: requests.memory=123Mi",
            pod("p", requests={"memory": amount}),
        )
    terminal.prints(CREATE, "pod/p created", pod("p", requests={"memory": "128974848"}))


def test_a_suffix_that_does_not_exist_is_refused(terminal: Terminal) -> None:
    """SC-08, S0-44, S0-47: suffixes are case-sensitive."""
    for amount in ("1K", "1ki", "1gb", "1 Gi"):
        answer = terminal.run(CREATE, pod("p", requests={"memory": amount}))
        assert answer.code == 1, amount
        assert 'Pod in version "v1" cannot be handled as a Pod: ' in answer.err
        assert "quantities must match the regular expression" in answer.err or "unable to parse quantity" in answer.err


def test_a_fraction_of_a_byte_draws_a_warning(terminal: Terminal) -> None:
    """SC-08, S0-47: `m` is a thousandth, not a mega."""
    answer = terminal.run(CREATE, pod("p", requests={"memory": "400m"}))
    assert answer.out.strip() == "pod/p created"
    assert answer.err.strip() == (
        "Warning: spec.containers[0].resources.requests[memory]: "
        'fractional byte value "400m" is invalid, must be an integer'
    )


def test_a_request_may_not_exceed_its_limit(terminal: Terminal) -> None:
    """SC-08, S0-38."""
    terminal.refuses(
        CREATE,
        'The Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "1": '
        "must be less than or equal to cpu limit of 500m",
        pod("p", container(requests={"cpu": "1"}, limits={"cpu": "500m"})),
    )
