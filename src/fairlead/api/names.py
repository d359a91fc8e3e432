"""What names, labels and other short identifiers may look like.

Every kind shares these rules, and people read their texts in `kubectl` daily, so they live in one place and are
pinned to k8s.io/apimachinery 1.36: pkg/util/validation/validation.go and pkg/api/validate/content/.
A rule takes a value and returns the texts of everything that is wrong with it; an empty list means it is fine.
Upstream counts label lengths in "bytes" and DNS lengths in "characters"; both texts are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Final, TypeAlias

Rule: TypeAlias = Callable[[str], list[str]]

LABEL_MAX: Final = 63
SUBDOMAIN_MAX: Final = 253
PORT_NAME_MAX: Final = 15
ANNOTATIONS_MAX_BYTES: Final = 256 * 1024

_MAX_ID: Final = 2**31 - 1
#: That a character takes at most.
_UTF8_BYTES: Final = 4
_REMEMBERED: Final = 16384

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_UNDERSCORE = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_UNDERSCORE = rf"{_LABEL_UNDERSCORE}(\.{_LABEL_UNDERSCORE})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_PERCENT = "[0-9]+%"
_HTTP_HEADER = "[-A-Za-z0-9]+"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_PORT_CHARACTERS = re.compile("[-a-z0-9]+")
_HTTP_PATH_SHAPE = re.compile(_HTTP_PATH)


def regex_error(text: str, pattern: str, *examples: str) -> str:
    """`text (e.g. 'a',  or 'b', regex used for validation is 'pattern')`, with upstream's odd commas."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} ({'e.g. ' + shown if examples else ''}regex used for validation is '{pattern}')"


def length_error(limit: int) -> str:
    return f"must be no more than {limit} characters"


def bytes_error(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _longer(value: str, limit: int) -> bool:
    """Whether the value takes more than `limit` bytes, which is what Go's len() counts."""
    return len(value) > limit or (not value.isascii() and len(value.encode()) > limit)


def _remember(rule: Rule) -> Rule:
    """Answer at once for values that were fine before: a cluster uses few names, many times.

    Only for rules that bound the length of what they accept, so that the memory is bounded too.
    """
    fine: set[str] = set()

    @wraps(rule)
    def check(value: str) -> list[str]:
        if value in fine:
            return []
        errors = rule(value)
        if not errors:
            if len(fine) >= _REMEMBERED:
                fine.clear()
            fine.add(value)
        return errors

    return check


def _shape(text: str, pattern: str, *examples: str) -> Rule:
    """A rule that asks for a regular expression and nothing else."""
    matches = re.compile(pattern).fullmatch
    error = regex_error(text, pattern, *examples)

    def check(value: str) -> list[str]:
        return [] if matches(value) else [error]

    return check


def _bounded(limit: int, error: str, shape: Rule) -> Rule:
    """A rule that asks for a length first and a shape second; both can be wrong."""

    def check(value: str) -> list[str]:
        errors = shape(value)
        return [error, *errors] if _longer(value, limit) else errors

    return _remember(check)


_subdomain_shape = _shape(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_label_shape = _shape(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_qualified_shape = _shape(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _QUALIFIED,
    "MyName",
    "my.name",
    "123-abc",
)


def _label_without_dots(value: str) -> list[str]:
    errors = _label_shape(value)
    return ["must not contain dots"] if errors and not _subdomain_shape(value) else errors


dns1123_label = _bounded(LABEL_MAX, length_error(LABEL_MAX), _label_without_dots)
dns1123_subdomain = _bounded(SUBDOMAIN_MAX, length_error(SUBDOMAIN_MAX), _subdomain_shape)
dns1123_subdomain_with_underscore = _bounded(
    SUBDOMAIN_MAX,
    length_error(SUBDOMAIN_MAX),
    _shape(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        "and must start and end with an alphanumeric character",
        _SUBDOMAIN_UNDERSCORE,
        "example.com",
    ),
)
wildcard_dns1123_subdomain = _bounded(
    SUBDOMAIN_MAX,
    length_error(SUBDOMAIN_MAX),
    _shape(
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
        "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
        rf"\*\.{_SUBDOMAIN}",
        "*.example.com",
    ),
)
dns1035_label = _bounded(
    LABEL_MAX,
    length_error(LABEL_MAX),
    _shape(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character",
        _LABEL_1035,
        "my-name",
        "abc-123",
    ),
)
label_value = _bounded(
    LABEL_MAX,
    bytes_error(LABEL_MAX),
    _shape(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character",
        _LABEL_VALUE,
        "MyValue",
        "my_value",
        "12345",
    ),
)
_label_key_prefix = _bounded(SUBDOMAIN_MAX, bytes_error(SUBDOMAIN_MAX), _subdomain_shape)
percent = _shape("a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1%", "93%")
http_header_name = _shape(
    "a valid HTTP header must consist of alphanumeric characters or '-'", _HTTP_HEADER, "X-Header-Name"
)
_config_key_shape = _bounded(
    SUBDOMAIN_MAX,
    length_error(SUBDOMAIN_MAX),
    _shape(
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
        _CONFIG_KEY,
        "key.name",
        "KEY_NAME",
        "key-name",
    ),
)


@_remember
def qualified_name(value: str) -> list[str]:
    """`name` or `prefix/name`: label keys, annotation keys (lower-cased first), taints, finalizers, resources."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return [
            f"a valid label key {_qualified_shape('')[0]} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    errors = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        errors += [f"prefix part {error}" for error in _label_key_prefix(prefix)]
    if not name:
        errors.append("name part must be non-empty")
    elif _longer(name, LABEL_MAX):
        errors.append(f"name part {bytes_error(LABEL_MAX)}")
    return errors + [f"name part {error}" for error in _qualified_shape(name)]


def annotation_key(value: str) -> list[str]:
    return qualified_name(value.lower())


def annotations_fit(annotations: Mapping[str, str]) -> bool:
    """Whether keys and values together keep within ANNOTATIONS_MAX_BYTES."""
    characters = sum(map(len, annotations)) + sum(map(len, annotations.values()))
    if characters * _UTF8_BYTES <= ANNOTATIONS_MAX_BYTES:
        return True
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    return size <= ANNOTATIONS_MAX_BYTES


#: What the garbage collector has to do before an owner may go.
ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_STANDARD_FINALIZERS = frozenset({"kubernetes", ORPHAN, FOREGROUND})


def kube_finalizer(value: str) -> list[str]:
    """The second rule about finalizers of built-in kinds, after `qualified_name` (core validation)."""
    if "/" in value or value in _STANDARD_FINALIZERS:
        return []
    return ["name is neither a standard finalizer name nor is it fully qualified"]


def _climbs(value: str) -> list[str]:
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def relaxed_env_var_name(value: str) -> list[str]:
    if not value:
        return ["environment variable name must be non-empty"]
    if value.isascii() and value.isprintable() and "=" not in value:
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_map_key(value: str) -> list[str]:
    """A key of `data` in a ConfigMap or Secret."""
    return _config_key_shape(value) + _climbs(value)


@_remember
def port_name(value: str) -> list[str]:
    """An IANA service name (RFC 6335), lower case only."""
    errors = []
    if _longer(value, PORT_NAME_MAX):
        errors.append(length_error(PORT_NAME_MAX))
    if not _PORT_CHARACTERS.fullmatch(value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def path_segment_prefix(value: str) -> list[str]:
    return [f"may not contain '{char}'" for char in "/%" if char in value]


def path_segment_name(value: str) -> list[str]:
    """A name of the kinds that allow nearly everything (roles and bindings): it must only survive in a URL."""
    return [f"may not be '{value}'"] if value in (".", "..") else path_segment_prefix(value)


def domain_prefixed_path(value: str) -> list[tuple[str, str]]:
    """`acme.io/foo`: pairs of the part that is wrong and the text about it."""
    host, _, path = value.partition("/")
    if not host or not path:
        return [(value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [(host, error) for error in dns1123_subdomain(host)]
    if not _HTTP_PATH_SHAPE.fullmatch(path):
        errors.append((path, regex_error("Invalid path", _HTTP_PATH)))
    return errors


def in_range(value: int, low: int, high: int) -> list[str]:
    return [] if low <= value <= high else [f"must be between {low} and {high}, inclusive"]


def port_number(value: int) -> list[str]:
    return in_range(value, 1, 65535)


def user_id(value: int) -> list[str]:
    return in_range(value, 0, _MAX_ID)


group_id = user_id


def without_trailing_dash(prefix: str) -> str:
    """What upstream validates in place of a `generateName`, which may end in a dash (`maskTrailingDash`)."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def printable(value: str) -> list[str]:
    """Each character that cannot be printed, and at which byte it stands."""
    wrong = []
    position = 0
    for char in value:
        if not char.isprintable():
            wrong.append(f"invalid character U+{ord(char):04X} (at position {position})")
        position += len(char.encode())
    return wrong
