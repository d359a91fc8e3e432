"""The string formats that a schema may ask for (k8s.io/kube-openapi/pkg/validation/strfmt).

A format that Kubernetes does not know is ignored, as JSON Schema demands, but creating a CRD with one draws a warning.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date

from fairlead.golang import urls
from fairlead.golang.durations import parse_nanoseconds
from fairlead.golang.numbers import known_int

_DATE_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_AMOUNT = re.compile(r"(?<!\d)(\d++)\s*+([A-Za-zµ]++)", re.ASCII)
_UNITS = frozenset(("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"))
_UNIT_BEGINNINGS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_HOSTNAME_LABEL = re.compile(r"[^\W_](?:[\w-]*[^\W_])?")
_EMAIL = re.compile(r"(?:[^<>@\"]*<)?[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.\-\[\]:]+>?")
_COLOR = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"


def _is(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    shape = re.compile(pattern, flags)
    return lambda text: shape.fullmatch(text) is not None


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


_has_date_shape = _is(r"\d{4}-\d\d-\d\d", re.ASCII)
_is_real_date = _parses(date.fromisoformat)


_is_go_duration = _parses(parse_nanoseconds)


def _is_date(text: str) -> bool:
    return _has_date_shape(text) and _is_real_date(text)


def _is_date_time(text: str) -> bool:
    day, separator, rest = text.lower().partition("t")
    found = _DATE_TIME.fullmatch(rest)
    if not separator or not _is_date(day) or found is None:
        return False
    return found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _is_byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(text)


def _is_hostname(text: str) -> bool:
    labels = text.split(".")
    if len(text) > 255 or not all(0 < len(label) <= 63 and _HOSTNAME_LABEL.fullmatch(label) for label in labels):
        return False
    return len(labels) == 1 or (len(labels[-1]) > 1 and labels[-1].isalpha())


def _is_uri(text: str) -> bool:
    """An absolute URI or an absolute path."""
    try:
        urls.parse(text, is_request=True)
    except urls.MalformedUrl:
        return False
    return True


def _is_cidr(text: str) -> bool:
    return "/" in text and _parses(lambda network: ipaddress.ip_network(network, strict=False))(text)


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((index + 1) * value for index, value in enumerate(values)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{13}", digits):
        return False
    return sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not re.fullmatch(
        r"(?:4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|"
        r"(?:2131|1800|35\d{3})\d{11})",
        digits,
    ):
        return False
    doubled = [int(digit) * (2 if index % 2 else 1) for index, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _is_duration(text: str) -> bool:
    """A duration of Go, or any text with amounts such as `2 days` in it."""
    if _is_go_duration(text):
        return True
    amounts = _AMOUNT.findall(text)
    if any(known_int(number) is None for number, _ in amounts):
        return False
    units = {unit.lower() for _, unit in amounts}
    return any(unit in _UNITS or unit.startswith(_UNIT_BEGINNINGS) for unit in units)


_HEX = "[0-9a-f]"
_SHORT_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_is_short_name = _is(_SHORT_NAME)
_is_long_name = _is(rf"{_SHORT_NAME}(\.{_SHORT_NAME})*")

#: Checks by normalised name: formats are looked up without their dashes.
STRING_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _is(f"{_HEX}{{24}}", re.IGNORECASE),
    "uri": _is_uri,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": _is_hostname,
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _is_cidr,
    "mac": _is(
        rf"(?:{_HEX}{{2}}([:-]))(?:{_HEX}{{2}}\1){{4}}(?:{_HEX}{{2}}|{_HEX}{{2}}\1{_HEX}{{2}}\1{_HEX}{{2}})|"
        rf"(?:{_HEX}{{4}}\.){{2,3}}{_HEX}{{4}}",
        re.IGNORECASE,
    ),
    "uuid": _is(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}", re.IGNORECASE),
    "uuid3": _is(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}", re.IGNORECASE),
    "uuid4": _is(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}", re.IGNORECASE),
    "uuid5": _is(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}", re.IGNORECASE),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _is(r"\d{3}[- ]?\d{2}[- ]?\d{4}", re.ASCII),
    "hexcolor": _is("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _is(rf"rgb\(\s*{_COLOR}\s*,\s*{_COLOR}\s*,\s*{_COLOR}\s*\)", re.ASCII),
    "byte": _is_byte,
    "password": lambda text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": lambda text: len(text) <= 63 and _is_short_name(text),
    "k8slongname": lambda text: len(text) <= 253 and _is_long_name(text),
}
_NUMBER_FORMATS: Mapping[str, frozenset[str]] = {
    "integer": frozenset({"int32", "int64"}),
    "number": frozenset({"float", "double"}),
}


def is_known(format_: str, type_: str) -> bool:
    """Whether the format means something for values of this type; no type means a string may be meant."""
    if type_ in ("", "string"):
        return format_.replace("-", "") in STRING_FORMATS
    return format_ in _NUMBER_FORMATS.get(type_, ())
