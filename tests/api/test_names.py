"""Names, labels and other identifiers: upstream's texts, to the letter."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api import names

SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("rule", "value", "errors"),
    [
        (names.dns1123_subdomain, "a.b-c.d", []),
        (names.dns1123_subdomain, "A.b", [SUBDOMAIN_TEXT]),
        (names.dns1123_subdomain, "a\n", [SUBDOMAIN_TEXT]),
        (names.dns1123_subdomain, "a" * 254, ["must be no more than 253 characters"]),
        (names.dns1123_label, "a.b", ["must not contain dots"]),
        (names.dns1123_label, "a" * 64, ["must be no more than 63 characters"]),
        (names.qualified_name, "example.com/My_Name", []),
        (names.qualified_name, "bad key", [f"name part {QUALIFIED_TEXT}"]),
        (names.qualified_name, "/x", ["prefix part must be non-empty"]),
        (names.qualified_name, "E.com/x", [f"prefix part {SUBDOMAIN_TEXT}"]),
        (names.qualified_name, "", ["name part must be non-empty", f"name part {QUALIFIED_TEXT}"]),
        (names.qualified_name, "x" * 64, ["name part must be no more than 63 bytes"]),
        (
            names.qualified_name,
            "a/b/c",
            [f"a valid label key {QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/' "
             "(e.g. 'example.com/MyName')"],
        ),
        (names.annotation_key, "Example.COM/x", []),
        (names.label_value, "", []),
        (names.label_value, "x" * 64, ["must be no more than 63 bytes"]),
        (names.kube_finalizer, "foregroundDeletion", []),
        (names.kube_finalizer, "mine", ["name is neither a standard finalizer name nor is it fully qualified"]),
        (names.config_map_key, "..data", ["must not start with '..'"]),
        (names.config_map_key, "..", ["must not be '..'"]),
        (
            names.relaxed_env_var_name,
            "a=b",
            ["a valid environment variable name must consist only of printable ASCII characters other than '='"],
        ),
        (names.relaxed_env_var_name, "", ["environment variable name must be non-empty"]),
        (names.port_name, "a-1", []),
        (
            names.port_name,
            "-1--2-",
            [
                "must contain at least one letter (a-z)",
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen",
            ],
        ),
        (names.path_segment_name, "system:x", []),
        (names.path_segment_name, "..", ["may not be '..'"]),
        (names.path_segment_name, "a/b%", ["may not contain '/'", "may not contain '%'"]),
    ],
)  # fmt: skip
def test_rule_returns_upstreams_texts(rule: names.Rule, value: str, errors: list[str]) -> None:
    assert rule(value) == errors
    assert rule(value) == errors, "the second answer comes from memory"


def test_domain_prefixed_path_says_which_part_is_wrong() -> None:
    assert names.domain_prefixed_path("acme.io/foo/bar") == []
    assert names.domain_prefixed_path("foo") == [("foo", 'must be a domain-prefixed path (such as "acme.io/foo")')]
    assert names.domain_prefixed_path("A/b") == [("A", SUBDOMAIN_TEXT)]


def test_numbers_have_inclusive_ranges() -> None:
    assert names.port_number(65535) == []
    assert names.port_number(0) == ["must be between 1 and 65535, inclusive"]
    assert names.user_id(-1) == ["must be between 0 and 2147483647, inclusive"]


def test_annotations_are_measured_in_bytes() -> None:
    assert names.annotations_fit({"k": "v" * (256 * 1024 - 1)})
    assert not names.annotations_fit({"k": "é" * (128 * 1024)})


def test_generate_name_may_end_in_a_dash() -> None:
    assert names.dns1123_label(names.without_trailing_dash("job-")) == []


@given(st.text(alphabet="aZ0-_./ \né", max_size=70))
def test_label_value_agrees_with_its_own_regex(value: str) -> None:
    text = re.fullmatch(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", value)
    assert (names.label_value(value) == []) == (text is not None and len(value) <= 63)
