"""What is raised when no API server answers, or something else does, for those who tell people: the HTTP client itself
is slow to import."""

from __future__ import annotations


class Unreachable(ConnectionError):
    """The API server does not answer."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(f"{server}: {why}")
        self.server, self.why = server, why


class UnusableKubeconfig(ValueError):
    """What a kubeconfig, or the environment beside it, says of a server or of ourselves is of no use."""


class BadAnswer(ConnectionError):
    """What answers does not speak as an API server does."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(f"{server}: what it answers is none of Kubernetes: {why}")
