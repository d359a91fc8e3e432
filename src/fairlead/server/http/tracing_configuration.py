"""A TracingConfiguration as it is written, and kube-apiserver's complaints about one.

Sources: apiserver, pkg/apis/apiserver/v1; component-base, tracing/api/v1 (1.36).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from fairlead.api.fields import Errors, aggregated
from fairlead.api.strict import ConfigurationError, Strict, document, read

_API_VERSIONS: Final = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_KIND: Final = "TracingConfiguration"
#: Where a collector listens for OTLP over HTTP.
_DEFAULT_ENDPOINT: Final = "localhost:4318"
_PATH: Final = "/v1/traces"
_MILLION: Final = 1_000_000
_LIBRARY: Final = "opentelemetry.exporter.otlp.proto.http"


class TracingSettings(msgspec.Struct, frozen=True):
    """Where traces go, and which part of the requests is traced that nobody else traces."""

    url: str
    sampled: float


class _Document(Strict):
    api_version: str = ""
    kind: str = ""
    endpoint: str | None = None
    sampling_rate_per_million: int | None = None


def load(path: Path) -> TracingSettings:
    """What a file says. OSError, or ValueError with everything that is wrong with it, or with this installation."""
    found, errors = read(document(path.read_bytes()), _Document, ""), Errors()
    if found.api_version not in _API_VERSIONS or found.kind != _KIND:
        raise ConfigurationError(f'no kind "{found.kind}" is registered for version "{found.api_version}"')
    rate = found.sampling_rate_per_million or 0
    if rate < 0:
        errors.invalid("samplingRatePerMillion", rate, "sampling rate must be positive")
    if rate > _MILLION:
        errors.invalid(
            "samplingRatePerMillion", rate, "sampling rate per million must be less than or equal to one million"
        )
    url = _url(found.endpoint or _DEFAULT_ENDPOINT, errors)
    if errors:
        raise ConfigurationError(aggregated(errors))
    if not _is_installed():
        raise ConfigurationError("traces need a library that is not installed: pip install 'fairlead[tracing]'")
    return TracingSettings(url, rate / _MILLION)


def _url(endpoint: str, errors: Errors) -> str:
    """The whole address; a host and port mean the usual path, without TLS."""
    try:
        url = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}{_PATH}")
        is_right = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_right = False
    if not is_right:
        errors.invalid("endpoint", endpoint, "must be HOST:PORT or the http or https URL of a collector")
        return ""
    return url.geturl() if url.path not in ("", "/") else f"{url.scheme}://{url.netloc}{_PATH}"


def _is_installed() -> bool:
    try:
        return find_spec(_LIBRARY) is not None
    except ModuleNotFoundError:  # not even what it is part of
        return False
