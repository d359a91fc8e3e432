"""Runs the notebooks of examples/notebooks and writes down what their cells show: `python -m docs.notebooks`.

A test fails when a notebook shows something else. They show text alone, so neither takes Jupyter.
"""

from __future__ import annotations

import ast
import asyncio
import json
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"


async def run(notebook: dict[str, Any]) -> None:
    """Put the value of each cell's last line into it. A loop runs meanwhile, as it does in Jupyter."""
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(cells, 1):
        value = _value("".join(cell["source"]), names)
        cell["execution_count"] = count
        cell["outputs"] = [] if value is None else [_output(count, repr(value))]


def _value(source: str, names: dict[str, Any]) -> object:
    tree = ast.parse(source)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "cell", "exec"), names)
        return None
    tree.body.pop()
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def _output(count: int, text: str) -> dict[str, Any]:
    data = {"text/plain": text.splitlines(keepends=True)}
    return {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data}


def rendered(file: Path) -> str:
    """The file as it would be after a run."""
    notebook = json.loads(file.read_text())
    asyncio.run(run(notebook))
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for file in sorted(NOTEBOOKS.glob("*.ipynb")):
        file.write_text(rendered(file))
