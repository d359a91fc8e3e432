"""What ImagePolicyWebhook is told: whom to ask about images, and for how long an answer counts.

Source: plugin/pkg/admission/imagepolicy/config.go (1.36).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.strict import ConfigurationError, Strict, read
from fairlead.client.reviews import ReviewService
from fairlead.golang.durations import format_nanoseconds

_MILLISECOND: Final = 1_000_000
_SECOND: Final = 1000 * _MILLISECOND
_MINUTE: Final = 60 * _SECOND
_OFF: Final = -1


class ImagePolicyConfiguration(msgspec.Struct, frozen=True):
    """A service that is asked about images."""

    kubeconfig: Path
    allow_seconds: float
    deny_seconds: float
    retry_seconds: float
    #: Whether pods may be made while it does not answer.
    allows_by_default: bool


class _ImagePolicy(Strict):
    kube_config_file: str = ""
    allow_ttl: int = msgspec.field(default=0, name="allowTTL")
    deny_ttl: int = msgspec.field(default=0, name="denyTTL")
    retry_backoff: int = 0
    default_allow: bool = False


class _Document(Strict):
    image_policy: _ImagePolicy = _ImagePolicy()


def read_image_policy(document: Obj) -> ImagePolicyConfiguration:
    """What the document says. ValueError or OSError, also if its kubeconfig cannot be used."""
    found = read(document, _Document, "").image_policy
    if not found.kube_config_file:
        raise ConfigurationError("imagePolicy.kubeConfigFile: Required value")
    retry = _nanoseconds(found.retry_backoff, _MILLISECOND, (1, 5 * _MINUTE), 500 * _MILLISECOND)
    allow = _nanoseconds(found.allow_ttl, _SECOND, (_SECOND, 30 * _MINUTE), 5 * _MINUTE)
    deny = _nanoseconds(found.deny_ttl, _SECOND, (_SECOND, 30 * _MINUTE), 30 * _SECOND)
    file = Path(found.kube_config_file)
    ReviewService(file)
    return ImagePolicyConfiguration(
        file, allow / _SECOND, deny / _SECOND, retry / _SECOND, allows_by_default=found.default_allow
    )


def _nanoseconds(value: int, unit: int, bounds: tuple[int, int], default: int) -> int:
    """A number of units; 0 is the default, -1 switches off what it is about."""
    if value in (0, _OFF):
        return default if value == 0 else 0
    found, (least, most) = value * unit, bounds
    if not least <= found <= most:
        texts = [format_nanoseconds(amount) for amount in (least, most, found)]
        raise ConfigurationError(f"valid value is between {texts[0]} and {texts[1]}, got {texts[2]}")
    return found
