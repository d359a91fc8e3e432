"""The command line of a node agent, read as a kubelet reads its own.

Sources: github.com/spf13/pflag, cmd/kubelet/app/options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairlead.golang.quoting import go_quote
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.settings import FLAGS, Setting

#: Names of former times, and what stands for them today. They are refused, never ignored (S1-02, S3-92, X-15).
LEGACY: Final[Mapping[str, str]] = {
    "experimental-qos-reserved": "use --qos-reserved, with --feature-gates=QOSReserved=true",
    "experimental-kernel-memcg-notification": "use --kernel-memcg-notification",
    "experimental-cgroups-per-qos": "use --cgroups-per-qos",
    "experimental-fail-swap-on": "use --fail-swap-on",
    "experimental-allowed-unsafe-sysctls": "use --allowed-unsafe-sysctls",
}


#: Flags of a kubelet that say how it reaches others and where its files are; nothing here has a use for them.
_ELSEWHERE: Final = frozenset({
    "bootstrap-kubeconfig", "cert-dir", "cloud-config", "cloud-provider", "config", "config-dir",
    "exit-on-lock-contention", "hostname-override", "image-credential-provider-bin-dir",
    "image-credential-provider-config", "kubeconfig", "lock-file", "log-flush-frequency", "logging-format",
    "manifest-url-header", "maximum-dead-containers", "maximum-dead-containers-per-container",
    "minimum-container-ttl-duration", "node-ip", "node-labels", "pod-infra-container-image", "register-with-taints",
    "reserved-memory", "root-dir", "v", "vmodule",
})  # fmt: skip


class _Token(NamedTuple):
    setting: Setting
    value: str


def parse_flags(arguments: Sequence[str]) -> Mapping[str, Any]:
    """What the command line sets, by attribute; StartupError for the first thing that is wrong with it."""
    values: dict[str, Any] = {}
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        if argument == "--" or not argument.startswith("-") or argument == "-":
            rest = remaining if argument == "--" else [argument]
            if rest:
                raise StartupError(Stage.FLAGS, f"unknown command {rest[0]}")
            continue
        setting, value = _token(argument, remaining)
        try:
            values[setting.attribute] = setting.type.parse(value, values.get(setting.attribute))
        except ValueError as problem:
            flag = go_quote(f"--{setting.flag}")
            raise _refusal(f"invalid argument {go_quote(value)} for {flag} flag: {problem}") from None
    return values


def _token(argument: str, remaining: list[str]) -> _Token:
    """A flag with its value, which may be the next argument."""
    if not argument.startswith("--"):
        raise _refusal(f"unknown shorthand flag: '{argument[1]}' in {argument}")
    name, has_value, value = argument[2:].partition("=")
    if name.startswith("-") or not name:
        raise _refusal(f"bad flag syntax: {argument}")
    setting = FLAGS.get(name.replace("_", "-"))
    if setting is None:
        raise _refusal(f"unknown flag: --{name}", _hint(name.replace("_", "-")))
    if has_value:
        return _Token(setting, value)
    if setting.type.bare_flag is not None:
        return _Token(setting, setting.type.bare_flag)
    if not remaining:
        raise _refusal(f"flag needs an argument: {argument}")
    return _Token(setting, remaining.pop(0))


def _hint(name: str) -> str:
    return LEGACY.get(name, "a kubelet has it, but it says nothing of resources" if name in _ELSEWHERE else "")


def _refusal(problem: str, hint: str = "") -> StartupError:
    return StartupError(Stage.FLAGS, f"failed to parse kubelet flag: {problem}", hint)
