"""What can be wrong with an image. Each message is a whole sentence for whoever asked.

```
ImageError
├── InvalidReference   the name of an image is none
├── NotStored          no such image on this machine
├── InUse              an image that containers run of
├── BadImage           what an archive or a registry gave is damaged or too large
│   └── NoPlatform     it is not for this machine
├── CannotBuild        an example needs a compiler, which is not there or fails
├── StoreDamaged       the files of the store are not what it wrote
└── PullFailed         a registry does not give the image; `code` is that of containerd's gRPC answer
```
"""

from __future__ import annotations

from typing import Final

_MOST_SHOWN: Final = 4096


class ImageError(Exception):
    """An image cannot be had."""

    def __init__(self, message: str) -> None:
        super().__init__(_printable(message[:_MOST_SHOWN]))


class InvalidReference(ImageError):
    """The name of an image is none."""


class NotStored(ImageError):
    """No such image is on this machine."""


class InUse(ImageError):
    """Containers run of the image."""


class BadImage(ImageError):
    """An image is damaged or too large."""


class NoPlatform(BadImage):
    """An image is for other machines."""


class CannotBuild(ImageError):
    """An example cannot be compiled."""


class StoreDamaged(ImageError):
    """The store's own files are not what it wrote."""


class PullFailed(ImageError):
    """A registry does not give an image."""

    def __init__(self, message: str, code: str = "Unknown") -> None:
        super().__init__(message)
        #: `NotFound` or `Unknown`, as gRPC calls them.
        self.code = code


def _printable(text: str) -> str:
    """Names and answers of strangers are in messages: nothing of them commands a terminal, or cannot be written."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
