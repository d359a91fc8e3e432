"""The page that tells what a real node makes of each field of a pod, of the same rows as its refusals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fairlead.agent.pods.unsupported import ROOT, Field, Fields, Verdict, fields, fields_of_user

_HEAD = """\
# The fields of a pod on a real node

Generated from the code by `python -m docs.build`; do not edit.

What a [real node](real-nodes.md) makes of every field of a PodSpec of Kubernetes 1.36. A pod that says what is refused
becomes `Failed`, with the reason `UnsupportedField` and the field's name; so does one with a field that is not here. A
field with a link has those of that table. The scheduler's are here as well: the node leaves them to it.
"""

_OF_USER = """\
## Without root

What is otherwise with [`--node-runtime process`](real-nodes.md#without-root); the rest is as above.
"""


def page() -> str:
    every = list(_all(fields()))
    counts = {verdict: sum(field.verdict is verdict for field in every) for verdict in Verdict}
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return "\n".join([_HEAD, f"In numbers: {said}.", "", *_tables(), *_of_user()])


def _of_user() -> Iterator[str]:
    yield from (_OF_USER, "| field | | |", "|---|---|---|")
    for type_, known in fields_of_user().items():
        for field in known.values():
            yield f"| [{type_}](#{_anchor(type_)}) `{field.name}` | {_verdict(field)} | {field.note} |"
    yield ""


def _anchor(type_: str) -> str:
    return type_.lower() if type_ != ROOT else "podspec-spec-of-a-pod"


def _all(types: Mapping[str, Fields]) -> Iterator[Field]:
    for known in types.values():
        yield from known.values()


def _tables() -> Iterator[str]:
    for type_, known in fields().items():
        yield from (
            f"## {type_ if type_ != ROOT else f'{ROOT}: `spec` of a pod'}",
            "",
            "| field | | |",
            "|---|---|---|",
        )
        yield from (f"| {_name(field)} | {_verdict(field)} | {field.note} |" for field in known.values())
        yield ""


def _name(field: Field) -> str:
    return f"`{field.name}` ([{field.type}](#{field.type.lower()}))" if field.type else f"`{field.name}`"


def _verdict(field: Field) -> str:
    return f"{field.verdict}: {', '.join(f'`{value}`' for value in field.values)}" if field.values else field.verdict
