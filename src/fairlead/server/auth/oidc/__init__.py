"""Tokens of OpenID Connect issuers, as an AuthenticationConfiguration trusts them.

Source: k8s.io/apiserver, plugin/pkg/authenticator/token/oidc (1.36).
"""
