"""Which requests an audit policy wants told (as apiserver's checker_test.go has it), and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.server.access import AccessRequest
from fairlead.server.audit.event import Level, Stage
from fairlead.server.audit.policy_file import load, parse

TIM = User("tim@k8s.io", ("humans", "devs"))
POD = AccessRequest(TIM, "update", "", "v1", "pods", "", "default", "busybox")
STATUS = AccessRequest(TIM, "update", "", "v1", "pods", "status", "default", "busybox")
NAMESPACE = AccessRequest(TIM, "get", "", "v1", "namespaces", "", "", "")
DEPLOYMENT = AccessRequest(TIM, "create", "apps", "v1", "deployments", "", "default", "d")
PATH = AccessRequest(TIM, "get", path="/logs/kubelet.log")


def policy_of(*rules: Obj, **further: object) -> bytes:
    return yaml.dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **further}).encode()


@pytest.mark.parametrize(
    ("rule", "matching", "others"),
    [
        ({}, [POD, STATUS, NAMESPACE, DEPLOYMENT, PATH], []),
        ({"users": ["tim@k8s.io"], "verbs": ["create"]}, [DEPLOYMENT], [POD, PATH]),
        ({"users": ["someone"]}, [], [POD, PATH]),
        ({"userGroups": ["devs", "x"]}, [POD, PATH], []),
        ({"userGroups": ["x"]}, [], [POD, PATH]),
        ({"namespaces": ["default"]}, [POD, DEPLOYMENT], [NAMESPACE, PATH]),
        ({"namespaces": [""]}, [NAMESPACE], [POD, PATH]),
        ({"resources": [{}]}, [POD, STATUS, NAMESPACE], [DEPLOYMENT, PATH]),
        ({"resources": [{"group": "*"}]}, [POD, STATUS, DEPLOYMENT], [PATH]),
        ({"resources": [{"resources": ["pods"]}]}, [POD], [STATUS, NAMESPACE]),
        ({"resources": [{"resources": ["pods/status"]}]}, [STATUS], [POD]),
        ({"resources": [{"resources": ["pods/*"]}]}, [POD, STATUS], [NAMESPACE]),
        ({"resources": [{"resources": ["*/status"]}]}, [STATUS], [POD]),
        ({"resources": [{"resources": ["*"]}]}, [POD, STATUS, NAMESPACE], [DEPLOYMENT]),
        ({"resources": [{"resources": ["pods"], "resourceNames": ["busybox"]}]}, [POD], [STATUS]),
        ({"resources": [{"resources": ["pods"], "resourceNames": ["edit"]}]}, [], [POD]),
        ({"nonResourceURLs": ["/logs*"]}, [PATH], [POD]),
        ({"nonResourceURLs": ["/logs"]}, [], [PATH]),
        ({"nonResourceURLs": ["*"]}, [PATH], [POD]),
    ],
)
def test_a_rule_matches_what_all_its_lists_have(
    rule: Obj, matching: list[AccessRequest], others: list[AccessRequest]
) -> None:
    policy = parse(policy_of({"level": "Request"} | rule))
    assert [policy.decide(asked).level for asked in matching] == [Level.REQUEST] * len(matching)
    assert [policy.decide(asked).level for asked in others] == [Level.NONE] * len(others)


def test_the_first_rule_that_matches_decides() -> None:
    rules = {"level": "None", "verbs": ["get"]}, {"level": "Metadata", "omitStages": ["Panic"]}
    policy = parse(policy_of(*rules, omitStages=["RequestReceived"], omitManagedFields=True))
    assert policy.decide(NAMESPACE).level is Level.NONE
    decision = policy.decide(POD)
    assert (decision.level, decision.omits_managed_fields) == (Level.METADATA, True)
    assert decision.omitted_stages == {Stage.PANIC, Stage.REQUEST_RECEIVED}
    own = parse(policy_of({"level": "Request", "omitManagedFields": False}, omitManagedFields=True))
    assert own.decide(POD).omits_managed_fields is False


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({}, "rules[0].level: Required value"),
        (
            {"level": "All"},
            'rules[0].level: Unsupported value: "All": '
            'supported values: "None", "Metadata", "Request", "RequestResponse"',
        ),
        (
            {"level": "None", "nonResourceURLs": ["logs", "/a*b"]},
            "[rules[0].nonResourceURLs[0]: Invalid value: \"logs\": non-resource URL rules must begin with a '/' "
            "character, rules[0].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be "
            "the final character of the rule]",
        ),
        (
            {"level": "None", "nonResourceURLs": ["/x"], "namespaces": ["a"]},
            'rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and '
            "non-resource URLs",
        ),
        (
            {"level": "None", "resources": [{"resourceNames": ["x"]}]},
            'rules[0].resources.resourceNames: Invalid value: ["x"]: '
            "using resourceNames requires at least one resource",
        ),
        (
            {"level": "None", "omitStages": ["Never"]},
            'rules[0].omitStages[0]: Invalid value: "Never": allowed stages are '
            "RequestReceived,ResponseStarted,ResponseComplete,Panic",
        ),
    ],
)
def test_what_is_wrong_with_a_rule_is_said_as_kubernetes_says_it(tmp_path: Path, rule: Obj, text: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(policy_of(rule))
    with pytest.raises(ValueError) as caught:
        load(file)
    assert str(caught.value) == f"loading audit policy file: {text}: from file {file}"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (policy_of(), "loaded illegal policy with 0 rules"),
        (b"kind: Policy\n", "failed decoding: Object 'apiVersion' is missing in 'kind: Policy\n'"),
        (
            b"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\n",
            'failed decoding: no kind "Policy" is registered for version "audit.k8s.io/v1beta1" in scheme '
            '"k8s.io/apiserver/pkg/audit/scheme.go:30"',
        ),
    ],
)
def test_what_is_no_policy_is_refused(body: bytes, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(body)
    assert str(caught.value) == text


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "none"
    with pytest.raises(ValueError) as caught:
        load(file)
    why = f'failed to read file path "{file}": open {file}: no such file or directory'
    assert str(caught.value) == f"loading audit policy file: {why}"


def test_unknown_fields_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    rule = {"level": "Metadata", "verb": ["get"], "resources": [{"group": "", "name": "x"}], "users": None}
    assert parse(policy_of(rule, rulez=[])).decide(POD).level is Level.METADATA
    assert "falling back to lenient decoding" in caplog.text
    for path in ("rulez", "rules[0].verb", "rules[0].resources[0].name"):
        assert f'unknown field "{path}"' in caplog.text
