"""APIServices: what one may say."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.objects import Obj
from fairlead.runtime.loops import run_virtual
from tests.kinds.kind_world import born, made, status_refusals

SERVICE: Obj = {"namespace": "kube-system", "name": "metrics"}
SPEC: Obj = {"group": "example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}


def service(**fields: Any) -> Obj:
    """A new one. It says since when it is available, so a clock is needed."""

    async def make() -> Obj:
        return made("APIService", meta={"name": "v1.example.com"}, spec=SPEC | fields)

    return run_virtual(make())


def refusals(name: str = "v1.example.com", **spec: Any) -> list[str]:
    whole = {key: value for key, value in (SPEC | spec).items() if value is not None}

    async def judge() -> list[str]:
        return born("APIService", meta={"name": name}, spec=whole)[1]

    return run_virtual(judge())


def test_the_port_of_a_service_is_that_of_https_and_nothing_is_known_of_it_yet() -> None:
    remote = service(service=SERVICE)
    assert remote["spec"]["service"]["port"] == 443
    assert remote["status"] == {}


def test_a_local_one_is_available_at_once() -> None:
    (condition,) = service()["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")
    assert condition["message"] == "Local APIServices are always available"


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        (
            "v1.example.org",
            {},
            'metadata.name: Invalid value: "v1.example.org": must be `spec.version+"."+spec.group`: "v1.example.com"',
        ),
        ("v1.", {"group": None}, None),
        ("v2.", {"group": None, "version": "v2"}, "spec.group: Required value: only v1 may have an empty group"),
        ("V1.example.com", {"version": "V1"}, 'spec.version: Invalid value: "V1": a DNS-1035 label must consist of'),
        (
            "v1.example.com",
            {"groupPriorityMinimum": 20001},
            "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
        ),
        ("v1.example.com", {"versionPriority": 0}, "must be positive and less than 1000"),
        (
            "v1.example.com",
            {"caBundle": "YWJjZA=="},
            'spec.caBundle: Invalid value: "4 bytes": local APIServices may not have a caBundle',
        ),
        ("v1.example.com", {"insecureSkipTLSVerify": True}, "local APIServices may not have insecureSkipTLSVerify"),
        ("v1.example.com", {"service": {"name": "metrics"}}, "spec.service.namespace: Required value"),
        (
            "v1.example.com",
            {"service": SERVICE, "caBundle": "YWJjZA==", "insecureSkipTLSVerify": True},
            "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
        ),
    ],
)
def test_what_it_may_not_say(name: str, spec: Obj, expected: str | None) -> None:
    found = refusals(name, **spec)
    if expected is None:
        assert found == []
    else:
        assert len(found) == 1
        assert expected in found[0]


def test_a_condition_is_true_false_or_unknown() -> None:
    (refusal,) = status_refusals(service(), {"conditions": [{"type": "Available", "status": "Perhaps"}]})
    assert refusal.startswith('status.conditions[0].status: Unsupported value: "Perhaps"')
