"""What a benchmark can be told: `--help` shows its docstring and options, and measures nothing."""

from __future__ import annotations

import argparse


def parser(text: str | None) -> argparse.ArgumentParser:
    """For the benchmark whose docstring that is; each has one, also where there is nothing to tell it."""
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
