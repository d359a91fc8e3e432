"""How the little programs of this runtime are started: with nothing loaded but what they need, for each of them stays.

They import of ours what imports the standard library alone. A container's costs some 10 MB of memory and 40 ms.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import fairlead

_SOURCES: Final = str(Path(fairlead.__file__).parents[1])


def command_of(module: str, *arguments: str) -> list[str]:
    """Run `main` of that module here."""
    start = f"import sys; sys.path.insert(0, {_SOURCES!r}); from {__package__}.{module} import main; main()"
    return [sys.executable, "-I", "-S", "-c", start, *arguments]
