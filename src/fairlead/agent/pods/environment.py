"""The environment of a container, and the `$(NAME)` in its command: what a pod says, made of what there is.

Sources: makeEnvironmentVariables of pkg/kubelet/kubelet_pods.go, third_party/forked/golang/expansion.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.agent.pods.downward import DownwardApi
from fairlead.agent.pods.env_files import EnvFiles, NoVariable
from fairlead.agent.pods.sources import Sources
from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote

_REFERENCE: Final = re.compile(r"\$(\$|\(([^)]*)\))")
#: What Linux passes on to a program: of one text, and of all.
_LONGEST: Final = 32 * os.sysconf("SC_PAGE_SIZE")
_MOST_TOGETHER: Final = 6 << 20
_SHOWN: Final = 64
_NAME: Final = re.compile(r"[ -<>-~]+")


class CannotConfigure(Exception):
    """Why a container cannot be configured, in the kubelet's words."""


async def environment(
    container: Obj,
    namespace: str,
    sources: Sources,
    downward: DownwardApi,
    services: Mapping[str, str],
    files: EnvFiles | None,
) -> dict[str, str]:
    """What `envFrom` and `env` come to, and the variables of services that they do not say themselves.

    `files`: None where that feature is off.
    """
    found, length = dict(services), 0
    for whole in container.get("envFrom") or ():
        for name, text in (await _whole(whole, namespace, sources)).items():
            found[name] = text
            length = _longer(length, name, text)
    for variable in container.get("env") or ():
        value = await _value(variable, container, namespace, sources, downward, files, found)
        if value is not None:
            found[variable["name"]] = value
            length = _longer(length, variable["name"], value)
    return found


def _longer(length: int, name: str, value: str) -> int:
    """How long it is with one more; CannotConfigure if no program could be started with that."""
    length += len(name) + len(value)
    if length > _MOST_TOGETHER:
        raise CannotConfigure(f"the environment is longer than {_MOST_TOGETHER} bytes")
    return length


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` becomes the value of a known variable, `$$` a dollar; anything else stays.

    CannotConfigure for what comes to more than a program can be given: variables that are made of others double.
    """
    length = len(text)

    def value(match: re.Match[str]) -> str:
        nonlocal length
        found = "$" if match[1] == "$" else variables.get(match[2], match[0])
        length += len(found) - len(match[0])
        if length > _LONGEST:
            raise CannotConfigure(f"{go_quote(text[:_SHOWN])} comes to more than {_LONGEST} bytes")
        return found

    end = _end_of_references(text)
    return _REFERENCE.sub(value, text[:end]) + text[end:].replace("$$", "$")


def _end_of_references(text: str) -> int:
    """Behind the last parenthesis: whoever looked for another one from each `$(` there would never be done."""
    return text.rfind(")") + 1


def all_expanded(words: Iterable[str], variables: Mapping[str, str]) -> list[str]:
    """CannotConfigure also for more words than a program can be given."""
    found, length = [], 0
    for word in words:
        found.append(expanded(word, variables))
        length += len(found[-1])
        if length > _MOST_TOGETHER:
            raise CannotConfigure(f"the command is longer than {_MOST_TOGETHER} bytes")
    return found


def fully_expanded(text: str, variables: Mapping[str, str]) -> str:
    """The same where every variable has to be known."""
    for match in _REFERENCE.finditer(text[: _end_of_references(text)]):
        if match[1] != "$" and match[2] not in variables:
            raise CannotConfigure(f"missing value for {go_quote(match[2])}")
    return expanded(text, variables)


async def _whole(entry: Obj, namespace: str, sources: Sources) -> dict[str, str]:
    for kind, field in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
        if (reference := entry.get(field)) is not None:
            data = await sources.read(kind, namespace, reference["name"])
            if data is None:
                if reference.get("optional"):
                    return {}
                raise CannotConfigure(f'{kind.lower()} "{reference["name"]}" not found')
            prefix = entry.get("prefix") or ""
            return {prefix + key: _text(value) for key, value in data.items() if _NAME.fullmatch(prefix + key)}
    return {}


async def _value(
    variable: Obj,
    container: Obj,
    namespace: str,
    sources: Sources,
    downward: DownwardApi,
    files: EnvFiles | None,
    before: Mapping[str, str],
) -> str | None:
    origin = variable.get("valueFrom")
    if variable.get("value") or origin is None:
        return expanded(variable.get("value") or "", before)
    if (field := origin.get("fieldRef")) is not None:
        return downward.field(field["fieldPath"])
    if (resource := origin.get("resourceFieldRef")) is not None:
        return downward.resource(resource, container)
    for kind, name in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        if (reference := origin.get(name)) is not None:
            return await _of_key(kind, reference, namespace, sources)
    if (reference := origin.get("fileKeyRef")) is not None:
        try:
            return await files.value(reference) if files is not None else ""
        except NoVariable as problem:
            raise CannotConfigure(str(problem)) from None
    raise CannotConfigure(f"env {variable['name']}: valueFrom.{next(iter(origin), '')} is not supported by this node")


async def _of_key(kind: str, reference: Obj, namespace: str, sources: Sources) -> str | None:
    data = await sources.read(kind, namespace, reference["name"])
    if data is not None and reference["key"] in data:
        return _text(data[reference["key"]])
    if reference.get("optional"):
        return None
    if data is None:
        raise CannotConfigure(f'{kind.lower()} "{reference["name"]}" not found')
    raise CannotConfigure(f"couldn't find key {reference['key']} in {kind} {namespace}/{reference['name']}")


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
