"""Which texts are addresses, and what is said of those that should be written otherwise."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address

from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.api.fields import Errors
from fairlead.kinds.ips import ip_warnings, validate_ip

_PARTS = st.one_of(st.integers(0, 300).map(str), st.sampled_from(["", "00", "01", "1a", "-1", " 1"]))


@given(st.lists(_PARTS, min_size=3, max_size=5).map(".".join))
@example("10.0.0.1\n")
@example("10.0.0.1.")
@example("٣.1.1.1")
def test_an_ipv4_address_is_right_if_it_is_written_as_it_is_printed(text: str) -> None:
    try:
        is_plain = str(IPv4Address(text)) == text
    except AddressValueError:
        is_plain = False
    errors = Errors()
    validate_ip(text, "ip", errors)
    assert is_plain is not bool(errors)
    if is_plain:
        assert ip_warnings(text, "ip") == []
