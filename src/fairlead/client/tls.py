"""How a client speaks TLS with the server of a kubeconfig."""

from __future__ import annotations

import ssl
import tempfile

from fairlead.client.kubeconfig import Access


def tls_of(access: Access) -> ssl.SSLContext:
    """Trust the cluster's own authority, and show the client certificate if there is one."""
    try:
        context = ssl.create_default_context(cadata=access.ca.decode() if access.ca else None)
        if access.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if access.client_certificate and access.client_key:
            with tempfile.NamedTemporaryFile("wb", suffix=".pem") as pem:  # ssl reads certificates from files only
                pem.write(access.client_certificate + b"\n" + access.client_key)
                pem.flush()
                context.load_cert_chain(pem.name)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ValueError(f"the certificates of the kubeconfig cannot be used: {error}") from None
    return context
