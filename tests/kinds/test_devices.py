"""What claims, classes and slices of devices (DRA) may say: the refusals of kube-apiserver 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.objects import Obj
from fairlead.kinds.admission_expressions import MOST_CHARACTERS
from fairlead.kinds.device_selectors import estimated_cost
from tests.kinds.kind_world import born, made, status_refusals, updated

SHARE = "11111111-2222-4333-8444-555555555555"
POOL: Obj = {"name": "p", "generation": 1, "resourceSliceCount": 1}
CONFIG: Obj = {"opaque": {"driver": "a.b", "parameters": {"a": 1}}}
REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


def _asked(**fields: Any) -> Obj:
    return {"deviceClassName": "gpu", **fields}


def _claim(*requests: Obj, **devices: Any) -> list[str]:
    return born("ResourceClaim", spec={"devices": {"requests": list(requests), **devices}})[1]


def _exactly(**fields: Any) -> list[str]:
    """What is wrong with one request, without where it stands."""
    found = _claim({"name": "r", "exactly": _asked(**fields)})
    return [refusal.removeprefix("spec.devices.requests[0].exactly.") for refusal in found]


def _select(expression: str) -> list[str]:
    found = _exactly(selectors=[{"cel": {"expression": expression}}])
    return [refusal.removeprefix("selectors[0].cel.expression: ") for refusal in found]


def _slice(*devices: Obj, **spec: Any) -> list[str]:
    whole = {"driver": "a.b", "nodeName": "n", "pool": POOL, "devices": list(devices), **spec}
    return [refusal.removeprefix("spec.") for refusal in born("ResourceSlice", spec=whole)[1]]


def _device(**fields: Any) -> list[str]:
    found = _slice({"name": "d", **fields})
    return [refusal.removeprefix("devices[0]").removeprefix(".") for refusal in found]


# what claims ask for


def test_a_claim_of_all_that_there_is_is_allowed() -> None:
    first = _asked(
        selectors=[{"cel": {"expression": 'device.driver == "a.b"'}}],
        tolerations=[{"operator": "Exists", "effect": "NoSchedule"}, {"key": "a/b", "operator": "Equal", "value": "c"}],
    )
    chosen = [_asked(name="big", count=2), _asked(name="all", allocationMode="All")]
    constraints = [{"matchAttribute": "a.b/c"}, {"requests": ["two/big"], "distinctAttribute": "a.b/c"}]
    requests = ({"name": "one", "exactly": first}, {"name": "two", "firstAvailable": chosen})
    assert _claim(*requests, constraints=constraints, config=[{"requests": ["one"], **CONFIG}]) == []


@pytest.mark.parametrize(
    ("fields", "refusals"),
    [
        ({"deviceClassName": ""}, ["deviceClassName: Required value"]),
        ({"count": -1}, ["count: Invalid value: -1: must be greater than zero"]),
        (
            {"allocationMode": "All", "count": 1},
            ["count: Invalid value: 1: must not be specified when allocationMode is 'All'"],
        ),
        (
            {"allocationMode": "Some"},
            ['allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"'],
        ),
        (
            {"tolerations": [{"operator": "Exists", "value": "v"}, {"operator": "Like"}, {"effect": "Never"}]},
            [
                'tolerations[0].value: Invalid value: "v": must be empty for operator `Exists`',
                'tolerations[1].operator: Unsupported value: "Like": supported values: "Equal", "Exists"',
                'tolerations[2].effect: Unsupported value: "Never": '
                'supported values: "NoExecute", "NoSchedule", "None"',
            ],
        ),
        ({"selectors": [{}]}, ["selectors[0].cel: Required value"]),
        ({"selectors": [{}] * 33}, ["selectors: Too many: 33: must have at most 32 items"]),
    ],
)
def test_what_a_request_may_ask_for(fields: Obj, refusals: list[str]) -> None:
    assert _exactly(**fields) == refusals


def test_a_toleration_is_of_one_value_unless_it_says_otherwise() -> None:
    request = {"name": "r", "exactly": _asked(tolerations=[{"key": "a"}])}
    claim = made("ResourceClaim", spec={"devices": {"requests": [request]}})
    (stored,) = claim["spec"]["devices"]["requests"]
    assert stored["exactly"]["tolerations"] == [{"key": "a", "operator": "Equal"}]


def test_a_request_is_exact_or_has_alternatives() -> None:
    needed = "exactly one of `exactly` or `firstAvailable` is required"
    assert _claim({"name": "r"}) == [f"spec.devices.requests[0]: Required value: {needed}"]
    both = {"name": "r", "exactly": _asked(), "firstAvailable": [_asked(name="a")]}
    assert _claim(both) == [f"spec.devices.requests[0]: Invalid value: null: {needed}, but multiple fields are set"]


def test_names_of_requests_are_labels_and_each_is_there_once() -> None:
    wrong, twice, repeated = _claim(
        {"name": "A", "exactly": _asked()},
        {"name": "r", "firstAvailable": [_asked(name="a"), _asked(name="a")]},
        {"name": "r", "exactly": _asked()},
    )
    assert wrong.startswith('spec.devices.requests[0].name: Invalid value: "A": a lowercase RFC 1123 label')
    assert twice == 'spec.devices.requests[1].firstAvailable[1]: Duplicate value: "a"'
    assert repeated == 'spec.devices.requests[2]: Duplicate value: "r"'


def test_a_claim_has_32_requests_at_most() -> None:
    requests = [{"name": f"r{number}", "exactly": _asked()} for number in range(33)]
    assert _claim(*requests) == ["spec.devices.requests: Too many: 33: must have at most 32 items"]
    assert _claim(*requests[:32]) == []


def test_constraints_and_configuration_name_requests() -> None:
    request = {"name": "r", "firstAvailable": [_asked(name="a")]}
    constraints = [{"requests": ["r", "r/a", "r/b", "x", "r/a/b", "r"], "matchAttribute": "a.b/c"}, {}]
    assert _claim(request, constraints=constraints) == [
        f'spec.devices.constraints[0].requests[2]: Invalid value: "r/b": {REFERENCE}',
        f'spec.devices.constraints[0].requests[3]: Invalid value: "x": {REFERENCE}',
        f'spec.devices.constraints[0].requests[4]: Invalid value: "r/a/b": {REFERENCE}',
        'spec.devices.constraints[0].requests[5]: Duplicate value: "r"',
        'spec.devices.constraints[1]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is '
        "required, but multiple fields are set",
    ]
    assert _claim(request, config=[{"requests": ["x"], **CONFIG}, {}]) == [
        f'spec.devices.config[0].requests[0]: Invalid value: "x": {REFERENCE}',
        "spec.devices.config[1].opaque: Required value",
    ]


@pytest.mark.parametrize(
    ("name", "refusals"),
    [
        ("c", ["a fully qualified name must be a domain and a name separated by a slash"]),
        ("a.b/c/d", ["must not contain more than one slash"]),
        ("/c", ["the domain must not be empty"]),
        ("a.b/", ["the name must not be empty"]),
        ("a.b/" + "c" * 33, ["may not be more than 32 bytes"]),
    ],
)
def test_attributes_that_must_match_are_named_in_full(name: str, refusals: list[str]) -> None:
    found = _claim({"name": "r", "exactly": _asked()}, constraints=[{"matchAttribute": name}])
    assert [refusal.rpartition(": ")[2] for refusal in found] == refusals
    assert all(refusal.startswith("spec.devices.constraints[0].matchAttribute: ") for refusal in found)


@pytest.mark.parametrize(
    ("parameters", "refusals"),
    [
        (None, ["Required value"]),
        ([1], ['Invalid value: "<value omitted>": must be a valid JSON object']),
        ({"a": "x" * 10_240}, ["Too long: may not be more than 10240 bytes"]),
    ],
)
def test_parameters_of_drivers_are_an_object(parameters: Any, refusals: list[str]) -> None:
    config = {"opaque": {"driver": "a.b", "parameters": parameters}}
    path = "spec.devices.config[0].opaque.parameters"
    assert _claim({"name": "r", "exactly": _asked()}, config=[config]) == [f"{path}: {text}" for text in refusals]


def test_a_template_is_checked_as_the_claims_that_are_made_of_it() -> None:
    spec = {"metadata": {"labels": {"a": "-"}}, "spec": {"devices": {"requests": [{"name": "r"}]}}}
    label, request = born("ResourceClaimTemplate", spec=spec)[1]
    assert label.startswith('spec.metadata.labels: Invalid value: "-": ')
    assert request.startswith("spec.spec.devices.requests[0]: Required value: ")


# selectors


@pytest.mark.parametrize(
    "expression",
    [
        "true",
        'device.driver == "a.b" && device.allowMultipleAllocations',
        'device.attributes["a.b"].model',
        'device.attributes["a.b"].version.isGreaterThan(semver("1.0.0"))',
        'device.capacity["a.b"].memory.compareTo(quantity("1Gi")) >= 0',
        'cel.bind(it, device.attributes["a.b"], it.size > 1 && it.model == "x")',
        'device.attributes["a.b"].all(key, device.attributes["a.b"].all(other, key == other))',
    ],
)
def test_selectors_know_a_device(expression: str) -> None:
    assert _select(expression) == []


@pytest.mark.parametrize(
    ("expression", "refusal"),
    [
        ("1", 'Invalid value: "1": must evaluate to bool or the unknown type, not int'),
        (
            "device.name == ''",
            "Invalid value: \"device.name == ''\": compilation failed: ERROR: <input>:1:7: undefined",
        ),
        (
            "cel.bind(1, 2, true)",
            'Invalid value: "cel.bind(1, 2, true)": compilation failed: ERROR: <input>:1:10: cel.b',
        ),
        (f'"{"x" * 10_240}" == device.driver', "Too long: may not be more than 10240 bytes"),
    ],
)
def test_selectors_that_do_not_compile(expression: str, refusal: str) -> None:
    (found,) = _select(expression)
    assert found.startswith(refusal)


NAME = 'device.capacity["a.b"].name.isGreaterThan(quantity("1Ki"))'


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ('device.driver == "dra.example.com"', 4),
        ("device.allowMultipleAllocations == true", 3),
        ('"a.b" in device.attributes', 3),
        ('cel.bind(it, device.attributes["a.b"], it.name)', 15),
        (f'!("name" in device.capacity["a.b"]) || {NAME}', 11),
        ('device.attributes.exists_one(x, x == "dra.example.com")', 164),
        ('device.attributes["a.b"].exists_one(x, x == "services")', 133),
        ('device.attributes["a.b"].services.split("example").size() >= 2', 19),
        ('device.attributes["a.b"].services.matches("[^a]?sym")', 18),
    ],
)
def test_what_selectors_could_cost_at_most(expression: str, cost: int) -> None:
    """The figures of kube-apiserver."""
    assert estimated_cost(expression) == cost


def test_selectors_that_could_cost_too_much() -> None:
    looped = "true"
    for variable in "abcd":
        looped = f'device.attributes["a.b"].all({variable}, {looped})'
    assert _select(looped) == ["Forbidden: too complex, exceeds cost limit"]


def test_expressions_of_a_claim_are_not_compiled_beyond_a_length() -> None:
    selectors = [{"cel": {"expression": f"true || {'x' * 10_000}"}}] * 6
    assert _claim({"name": "r", "exactly": _asked(selectors=selectors)}) == [
        f'spec: Invalid value: "": expressions have more than {MOST_CHARACTERS} characters together'
    ]


def test_a_class_is_checked_where_it_changed() -> None:
    bad = [{"cel": {"expression": "1"}}]
    _, refusals = born("DeviceClass", spec={"selectors": bad, "config": [{}], "extendedResourceName": "cpu"})
    assert refusals == [
        'spec.selectors[0].cel.expression: Invalid value: "1": must evaluate to bool or the unknown type, not int',
        "spec.config[0].opaque: Required value",
        'spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name',
    ]
    stored = made("DeviceClass", spec={})
    stored["spec"]["selectors"] = bad
    assert updated(stored, lambda obj: obj["metadata"].update(labels={"a": "b"}))[1] == []
    assert updated(stored, lambda obj: obj["spec"].update(selectors=[*bad, *bad]))[1] != []


# what was given


def _status(**fields: Any) -> list[str]:
    claim = made("ResourceClaim", spec={"devices": {"requests": [{"name": "r", "exactly": _asked()}]}})
    return [refusal.removeprefix("status.") for refusal in status_refusals(claim, fields)]


def _result(**fields: Any) -> Obj:
    return {"request": "r", "driver": "a.b", "pool": "p", "device": "d", **fields}


def _given(*results: Obj) -> Obj:
    return {"devices": {"results": list(results)}}


def test_a_claim_may_be_given_what_it_asked_for() -> None:
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    told = {
        "driver": "a.b",
        "pool": "p",
        "device": "d",
        "data": {"a": 1},
        "networkData": {"interfaceName": "eth0", "ips": ["10.0.0.1/24", "2001:db8::1/64"]},
    }
    assert _status(allocation=_given(_result()), reservedFor=[consumer], devices=[told]) == []


def test_results_of_an_allocation() -> None:
    wrong = _result(request="x", device="D", shareID="1", bindingConditions=["c"])
    found = _status(allocation=_given(wrong))
    assert [refusal.partition(": ")[0].removeprefix("allocation.devices.results[0].") for refusal in found] == [
        "request",
        "device",
        "shareID",
        "bindingFailureConditions",
    ]
    assert found[2].endswith('Invalid value: "1": error validating uid: invalid UUID length: 1')
    assert _status(allocation=_given(*[_result()] * 33)) == [
        "allocation.devices.results: Too many: 33: must have at most 32 items"
    ]
    source = {"results": [_result()], "config": [{"source": "Nowhere", **CONFIG}]}
    assert _status(allocation={"devices": source}) == [
        'allocation.devices.config[0].source: Unsupported value: "Nowhere": supported values: "FromClaim", "FromClass"'
    ]


def test_an_allocation_stays_until_it_is_taken_away() -> None:
    claim = made("ResourceClaim", spec={"devices": {"requests": [{"name": "r", "exactly": _asked()}]}})
    claim["status"] = {"allocation": _given(_result())}
    (refusal,) = status_refusals(claim, {"allocation": _given(_result(device="e"))})
    assert refusal.startswith("status.allocation: Invalid value: ") and refusal.endswith(": field is immutable")
    assert status_refusals(claim, {}) == []


def test_who_a_claim_is_reserved_for() -> None:
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    assert _status(reservedFor=[consumer]) == [
        "reservedFor: Forbidden: may not be specified when `allocated` is not set"
    ]
    assert _status(allocation=_given(_result()), reservedFor=[consumer, {"uid": "u"}]) == [
        "reservedFor[1].resource: Required value",
        "reservedFor[1].name: Required value",
        'reservedFor[1]: Duplicate value: "u"',
    ]
    claim = made("ResourceClaim", spec={"devices": {"requests": [{"name": "r", "exactly": _asked()}]}})
    claim["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    claim["status"] = {"allocation": _given(_result()), "reservedFor": [consumer]}
    more = {"allocation": _given(_result()), "reservedFor": [consumer, {**consumer, "uid": "v"}]}
    assert status_refusals(claim, claim["status"]) == []
    assert status_refusals(claim, more) == [
        "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or "
        "`deletionTimestamp` are set"
    ]


def test_what_drivers_tell_of_devices() -> None:
    device = {"driver": "a.b", "pool": "p", "device": "d"}
    share, other = {**device, "shareID": SHARE}, {**device, "device": "e"}
    network = {"interfaceName": "x" * 257, "ips": ["10.0.0.1", "10.0.0.01/8", "2001:DB8::1/64"]}
    found = _status(
        allocation=_given(_result(), _result(shareID=SHARE)),
        devices=[device, share, other, device, {**device, "networkData": network, "data": [1]}],
    )
    assert found == [
        'devices[2]: Invalid value: "a.b/p/e": must be an allocated device in the claim',
        'devices[4].data: Invalid value: "<value omitted>": must be a valid JSON object',
        "devices[4].networkData.interfaceName: Too long: may not be more than 256 bytes",
        *(
            f'devices[4].networkData.ips[{index}]: Invalid value: "{ip}": must be a valid address in CIDR form, '
            "(e.g. 10.9.8.7/24 or 2001:db8::1/64)"
            for index, ip in enumerate(("10.0.0.1", "10.0.0.01/8"))
        ),
        'devices[4].networkData.ips[2]: Invalid value: "2001:DB8::1/64": must be in canonical form ("2001:db8::1/64")',
        'devices[3]: Duplicate value: "a.b/p/d"',
        'devices[4]: Duplicate value: "a.b/p/d"',
    ]


# slices


def test_a_slice_of_all_that_there_is_is_allowed() -> None:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}
    memory = {"value": "8Gi", "requestPolicy": policy}
    shared = {"name": "shared", "allowMultipleAllocations": True, "capacity": {"memory": memory}}
    values = {"a": {"int": 0}, "b": {"bool": False}, "c": {"string": ""}, "other.org/d": {"version": "1.2.3-a.1+b"}}
    assert _slice({"name": "d", "attributes": values}, shared) == []
    counters = [{"name": "s", "counters": {"c": {"value": "1"}}}]
    assert _slice(devices=None, sharedCounters=counters) == []
    consumed = [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]
    taints = [{"key": "a", "effect": "NoExecute"}]
    assert _slice({"name": "d", "consumesCounters": consumed, "taints": taints}) == []


def test_a_slice_says_from_where_its_devices_are_reached() -> None:
    needed = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    assert _slice(nodeName=None) == [f"spec: Required value: {needed}"]
    assert _slice(allNodes=True) == [
        f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {needed}, but multiple fields are set'
    ]
    assert _slice(allNodes=False) == ["allNodes: Invalid value: false: must be either unset or set to true"]
    two = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}] * 2}
    (refusal,) = _slice(nodeName=None, nodeSelector=two)
    assert refusal.startswith("nodeSelector.nodeSelectorTerms: ")
    assert refusal.endswith("must have exactly one node selector term")


def test_devices_say_it_themselves_where_the_slice_leaves_it_to_them() -> None:
    text = "is set to true in the ResourceSlice spec"
    needed = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection`"
    devices = ({"name": "a", "nodeName": "n"}, {"name": "b"}, {"name": "c", "nodeName": "n", "allNodes": True})
    assert _slice(*devices, nodeName=None, perDeviceNodeSelection=True) == [
        f"devices[1]: Required value: {needed} {text}",
        f'devices[2]: Invalid value: "{{`nodeName`, `allNodes`}}": {needed} {text}',
    ]
    assert _device(nodeName="n") == [
        ": Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if "
        f"`perDeviceNodeSelection` {text}"
    ]


def test_pools_and_drivers_have_names_and_counts() -> None:
    found = _slice(driver="", pool={"name": "a//b", "generation": -1, "resourceSliceCount": 0})
    fields = ["driver", "pool.name", "pool.resourceSliceCount", "pool.generation"]
    assert [refusal.partition(": ")[0] for refusal in found] == fields
    assert found[-2:] == [
        "pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
        "pool.generation: Invalid value: -1: must be greater than or equal to zero",
    ]


def test_a_slice_has_a_number_of_devices_at_most() -> None:
    devices: list[Obj] = [{"name": f"d{number}"} for number in range(129)]
    assert _slice(*devices) == ["devices: Too many: 129: must have at most 128 items"]
    devices[0]["taints"] = [{"key": "a", "effect": "None"}]
    assert _slice(*devices[:65]) == ["devices: Too many: 65: must have at most 64 items"]
    assert _slice(*devices[1:3], devices[1]) == ['devices[2]: Duplicate value: "d1"']


@pytest.mark.parametrize(
    ("fields", "refusals"),
    [
        (
            {"attributes": {"a": {}, "b": {"version": "1.0"}, "c": {"string": "x" * 65}}},
            [
                'attributes[a]: Invalid value: "": exactly one value must be specified',
                'attributes[b].version: Invalid value: "1.0": must be a string compatible with semver.org spec 2.0.0',
                "attributes[c].string: Too long: may not be more than 64 bytes",
            ],
        ),
        (
            {"attributes": {"a" * 97: {}}},
            [
                "attributes: Too long: may not be more than 32 bytes",
                f'attributes[{"a" * 47}...{"a" * 46}]: Invalid value: "": exactly one value must be specified',
            ],
        ),
        (
            {"attributes": {f"a{number}": {"int": 1} for number in range(33)}},
            [": Invalid value: 33: the total number of attributes and capacities must not exceed 32"],
        ),
        (
            {"taints": [{"key": "a"}, {"key": "a", "effect": "Always"}]},
            [
                "taints[0].effect: Required value",
                'taints[1].effect: Unsupported value: "Always": supported values: "NoExecute", "NoSchedule", "None"',
            ],
        ),
        (
            {"consumesCounters": [{"counterSet": "s"}, {"counterSet": "s", "counters": {"c": {"value": "1"}}}]},
            ["consumesCounters[0].counters: Required value", 'consumesCounters[1]: Duplicate value: "s"'],
        ),
        (
            {"bindingConditions": ["a"], "bindingFailureConditions": ["a"]},
            [
                'bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with '
                "bindingConditions"
            ],
        ),
        (
            {"capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}}},
            ["capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"],
        ),
    ],
)
def test_what_a_device_may_be(fields: Obj, refusals: list[str]) -> None:
    assert _device(**fields) == refusals


@pytest.mark.parametrize(
    ("policy", "refusals"),
    [
        ({"validValues": ["1"]}, ["default: Required value: required when validValues is defined"]),
        (
            {"default": "3", "validValues": ["2", "1", "9"]},
            [
                'validValues[1]: Invalid value: "1": values must be sorted in ascending order',
                'validValues[2]: Invalid value: "9": option is larger than capacity value: 8',
                'validValues: Invalid value: "3": default value is not valid according to the requestPolicy',
            ],
        ),
        (
            {"default": "1", "validRange": {"min": "2", "max": "9", "step": "2"}},
            [
                'validRange.default: Invalid value: "1": default is less than min: 2',
                'validRange.max: Invalid value: "9": max is larger than capacity value: 8',
                'validRange.step: Invalid value: "1": value is not a multiple of a given step (2) from (2)',
                'validRange.step: Invalid value: "9": value is not a multiple of a given step (2) from (2)',
            ],
        ),
        (
            {"default": "1", "validRange": {"min": "1", "step": "0"}},
            ['validRange.step: Invalid value: "0": must be greater than zero'],
        ),
    ],
)
def test_how_a_capacity_may_be_shared(policy: Obj, refusals: list[str]) -> None:
    capacity = {"m": {"value": "8", "requestPolicy": policy}}
    found = _device(allowMultipleAllocations=True, capacity=capacity)
    assert [refusal.removeprefix("capacity[m].requestPolicy.") for refusal in found] == refusals


def test_devices_of_a_slice_that_are_as_they_were_are_not_refused() -> None:
    stored = made("ResourceSlice", spec={"driver": "a.b", "nodeName": "n", "pool": POOL, "devices": [{"name": "d"}]})
    stored["spec"]["devices"][0]["taints"] = [{"key": "a", "effect": "Later", "timeAdded": "2030-01-01T00:00:00Z"}]
    assert updated(stored, lambda obj: obj["metadata"].update(labels={"a": "b"}))[1] == []
