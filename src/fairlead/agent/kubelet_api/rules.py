"""What a KubeletConfiguration says of those who come: who is known, what is asked about them, what they may do."""

from __future__ import annotations

import ssl

import msgspec

from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.runtime.tls import TLS_1_2_SUITES, minimum_version, suites


class AccessRules(msgspec.Struct, frozen=True, kw_only=True):
    #: Who shows nothing is `system:anonymous`.
    knows_anonymous: bool
    #: Whether the API server is asked whose token it is, and what somebody may; what it says is kept for a while.
    takes_tokens: bool
    asks_what_is_allowed: bool
    token_seconds: float
    allowed_seconds: float
    denied_seconds: float

    @classmethod
    def of(cls, config: KubeletConfiguration) -> AccessRules:
        return cls(
            knows_anonymous=config.anonymous_auth,
            takes_tokens=config.webhook_authentication,
            asks_what_is_allowed=config.authorization_mode != "AlwaysAllow",
            token_seconds=config.webhook_cache_ttl,
            allowed_seconds=config.webhook_authorized_ttl,
            denied_seconds=config.webhook_unauthorized_ttl,
        )


class ServingRules(msgspec.Struct, frozen=True, kw_only=True):
    access: AccessRules
    #: Whether anybody reads logs, runs commands and reaches ports.
    has_debugging: bool
    least_tls: ssl.TLSVersion
    tls_suites: str

    @classmethod
    def of(cls, config: KubeletConfiguration) -> ServingRules:
        """ValueError for a version or a suite of TLS that there is not."""
        least = minimum_version(config.tls_min_version)
        named = suites(config.tls_cipher_suites)
        if config.tls_cipher_suites and not named:  # those of TLS 1.3 alone, which are always there
            least = ssl.TLSVersion.TLSv1_3
        return cls(
            access=AccessRules.of(config),
            has_debugging=config.enable_debugging_handlers,
            least_tls=least,
            tls_suites=named or TLS_1_2_SUITES,
        )
