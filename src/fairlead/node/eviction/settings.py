"""What a kubelet is told about eviction: by its configuration file, by flags that override it, or by neither.

Without any configuration file there are no hard thresholds; with one that does not name them, there are the defaults
(S3-57). A zero transition period means the default in the file, but stays zero as a flag (S3-64).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.golang.durations import parse_seconds
from fairlead.golang.numbers import parse_int
from fairlead.node.eviction.thresholds import Threshold, ThresholdError, parse_thresholds

DEFAULT_HARD: Final[Mapping[str, str]] = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
DEFAULT_TRANSITION_SECONDS: Final = 300.0
#: In `enforceNodeAllocatable`: the pods together are held to what is allocatable.
ENFORCE_PODS: Final = "pods"


@dataclass(frozen=True, slots=True)
class EvictionSettings:
    thresholds: tuple[Threshold, ...] = ()
    transition_seconds: float = DEFAULT_TRANSITION_SECONDS
    #: The longest that a pod may take to stop once a soft threshold is met.
    maximum_grace_seconds: int = 0
    #: Whether the limits of local storage are looked after.
    local_storage_limits: bool = True


def eviction_settings(
    config: Mapping[str, Any] | None = None,
    flags: Iterable[str] = (),
    *,
    local_storage_limits: bool = True,
) -> EvictionSettings:
    """The settings in force. `config` is None if there is no configuration file; flags are as on the command line."""
    fields = {"evictionHard": {}, **_defaulted(config)} if config is not None else {"evictionHard": {}}
    fields |= _of_flags(flags)
    thresholds = parse_thresholds(
        fields["evictionHard"],
        fields.get("evictionSoft") or {},
        fields.get("evictionSoftGracePeriod") or {},
        fields.get("evictionMinimumReclaim") or {},
        enforces_pods=ENFORCE_PODS in fields.get("enforceNodeAllocatable", (ENFORCE_PODS,)),
    )
    return EvictionSettings(
        thresholds,
        fields.get("evictionPressureTransitionPeriod", DEFAULT_TRANSITION_SECONDS),
        fields.get("evictionMaxPodGracePeriod", 0),
        local_storage_limits,
    )


def _defaulted(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the file, with what it leaves out, and durations in seconds."""
    fields = {name: value for name, value in config.items() if value is not None}
    hard = fields.get("evictionHard")
    if hard is None or fields.get("mergeDefaultEvictionSettings"):
        fields["evictionHard"] = {**DEFAULT_HARD, **(hard or {})}
    period = parse_seconds(str(fields.get("evictionPressureTransitionPeriod", "0s")))
    fields["evictionPressureTransitionPeriod"] = period or DEFAULT_TRANSITION_SECONDS
    return fields


def _of_flags(flags: Iterable[str]) -> dict[str, Any]:
    """The fields that flags about eviction set; other flags are left to others."""
    fields: dict[str, Any] = {}
    for flag in flags:
        name, _, text = flag.partition("=")
        if name not in _FLAGS:
            continue
        field, read = _FLAGS[name]
        try:
            value = read(text)
        except ValueError as error:
            problem = f'invalid argument "{text}" for "{name}" flag: {error}'
            raise ThresholdError(f"failed to parse kubelet flag: {problem}") from None
        # Of a map, every use of the flag adds to it.
        fields[field] = {**fields.get(field, {}), **value} if isinstance(value, dict) else value
    return fields


def _pairs(separator: str) -> Callable[[str], dict[str, str]]:
    def read(text: str) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for pair in filter(None, text.split(",")):
            key, found, value = pair.partition(separator)
            if not found:
                raise ThresholdError(f"malformed pair, expect string{separator}string")
            pairs[key.strip()] = value.strip()
        return pairs

    return read


def _names(text: str) -> list[str]:
    return text.split(",") if text else []


_FLAGS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "--eviction-hard": ("evictionHard", _pairs("<")),
    "--eviction-soft": ("evictionSoft", _pairs("<")),
    "--eviction-soft-grace-period": ("evictionSoftGracePeriod", _pairs("=")),
    "--eviction-minimum-reclaim": ("evictionMinimumReclaim", _pairs("=")),
    "--eviction-pressure-transition-period": ("evictionPressureTransitionPeriod", parse_seconds),
    "--eviction-max-pod-grace-period": ("evictionMaxPodGracePeriod", parse_int),
    "--enforce-node-allocatable": ("enforceNodeAllocatable", _names),
}
