"""The configurations on the page about access are ones that the server takes."""

from __future__ import annotations

import re
from pathlib import Path

from fairlead.client.kubeconfig import Access, render
from fairlead.server.auth.authentication import read_configuration
from fairlead.server.auth.authorization_configuration import parsed

PAGE = Path(__file__).parents[2] / "docs" / "access.md"


def example(kind: str) -> str:
    """The one example of that kind."""
    (found,) = (
        text for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL) if f"kind: {kind}" in text
    )
    return str(found)


def test_the_issuer_is_one() -> None:
    found = read_configuration(example("AuthenticationConfiguration").encode())
    assert [issuer.configuration.issuer.url for issuer in found.issuers] == ["https://login.example.com"]
    assert found.anonymous_paths == {"/livez", "/readyz", "/healthz"}


def test_the_service_is_asked_before_the_roles(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "policy.kubeconfig"
    kubeconfig.write_text(render(Access("https://policy.example.com")))
    text = example("AuthorizationConfiguration").replace("/etc/fairlead/policy.kubeconfig", str(kubeconfig))
    assert [authorizer.type for authorizer in parsed(text.encode())] == ["Webhook", "Node", "RBAC"]
