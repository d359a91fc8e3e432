"""The text of a usage model: `300Mi`, `60%`, `ramp(from=100Mi, to=1Gi, over=10m)`. docs/usage.md lists the forms.

The same grammar serves annotations, profiles and the command line, so it is read in one place. What is wrong is said
with the name of the field: whoever wrote the text sees nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from fairlead.api.quantity import Format, Quantity, QuantityError, parse
from fairlead.golang.durations import parse_seconds
from fairlead.sim.usage.measures import MOST, MOST_AMOUNT, Unit
from fairlead.sim.usage.models import (
    LONGEST_SECONDS,
    SHORTEST_SECONDS,
    Burst,
    Constant,
    Leak,
    Noise,
    Ramp,
    Series,
    Trace,
    UsageModel,
    Wave,
)

#: The longest text of a model; nobody needs as much.
LONGEST_TEXT: Final = 512

_CALL: Final = re.compile(r"([A-Za-z]+)\s*\((.*)\)", re.ASCII | re.DOTALL)
_PERCENTAGE: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*%(?:\s+of\s+(request|limit))?", re.ASCII)
_TIME_OF_DAY: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_RATE_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_BOOLEANS: Final = {"true": True, "false": False}
_DAY: Final = 86_400.0
#: There is no half of one.
_COUNTED: Final = (Unit.INODES, Unit.PROCESSES)


class Scale(msgspec.Struct, frozen=True):
    """What percentages are of, and what there is at most; None where there is no such thing."""

    request: float | None = None
    limit: float | None = None
    most: int | None = None


_NO_TRACES: Final[Mapping[str, Series]] = {}


def parse_usage(
    text: str, unit: Unit, scale: Scale = Scale(), traces: Mapping[str, Series] | None = _NO_TRACES
) -> UsageModel:
    """The model that a text means; ValueError says what is wrong. `traces` of None lets any name pass (as zero)."""
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"a usage has at most {LONGEST_TEXT} characters, this one {len(text)}")
    text = text.strip()
    call = _CALL.fullmatch(text)
    if call is None:
        return Constant(_amount(text, unit, scale, ""))
    name = call[1]
    form = _FORMS.get(name)
    if form is None:
        known = ", ".join(_FORMS)
        raise ValueError(f"{name!r} is no form of usage: write an amount such as 300Mi, or one of {known}")
    build, fields = form
    return build(_Arguments(name, _split(name, call[2], fields), unit, scale, traces))


def _split(name: str, text: str, fields: tuple[str, ...]) -> dict[str, str]:
    """The arguments by field. The first may come without its name."""
    found: dict[str, str] = {}
    for position, part in enumerate(text.split(",") if text.strip() else ()):
        field, equals, value = part.partition("=")
        if not equals:
            if position:
                raise ValueError(f"{name}: {part.strip()!r} lacks the name of its field: write it as FIELD=VALUE")
            field, value = fields[0], part
        field, value = field.strip(), value.strip()
        if field not in fields:
            raise ValueError(f"{name}: unknown field {field!r}: there are {', '.join(fields)}")
        if field in found:
            raise ValueError(f"{name}: field {field!r} is given twice")
        found[field] = value
    return found


class _Arguments:
    """The arguments of one form, read by field."""

    def __init__(
        self, form: str, values: dict[str, str], unit: Unit, scale: Scale, traces: Mapping[str, Series] | None
    ) -> None:
        self._form = form
        self._values = values
        self._unit = unit
        self._scale = scale
        self._traces = traces

    def has(self, field: str) -> bool:
        return field in self._values

    def _text(self, field: str, default: str | None = None) -> str:
        text = self._values.get(field, default)
        if text is None:
            raise ValueError(f"{self._form}: field {field!r} is missing")
        return text

    def _where(self, field: str) -> str:
        return f"{self._form}: field {field!r}: "

    def amount(self, field: str, default: str | None = None) -> float:
        return _amount(self._text(field, default), self._unit, self._scale, self._where(field))

    def seconds(self, field: str, default: str | None = None) -> float:
        text = self._text(field, default)
        try:
            seconds = parse_seconds(text)
        except ValueError:
            seconds = -1.0
        if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
            raise ValueError(f"{self._where(field)}{text!r} is not a duration from 1s to a century, such as 1m30s")
        return seconds

    def rate(self, field: str) -> float:
        """An amount per second."""
        text = self._text(field)
        amount, slash, per = text.partition("/")
        seconds = _RATE_SECONDS.get(per.strip())
        if not slash or seconds is None:
            raise ValueError(f"{self._where(field)}{text!r} is no rate: write one such as 10Mi/s, 1Gi/m or 5Gi/h")
        return _share_or_quantity(amount.strip(), self._unit, self._scale, self._where(field)) / seconds

    def moment(self, field: str, default: str, period: float) -> float:
        """Seconds after midnight UTC, or after the beginning of a period of another length."""
        text = self._text(field, default)
        if match := _TIME_OF_DAY.fullmatch(text):
            return int(match[1]) * 3600.0 + int(match[2]) * 60.0
        try:
            seconds = parse_seconds(text)
        except ValueError:
            seconds = -1.0
        if not 0.0 <= seconds <= period:
            wanted = "a time of day such as 14:00, nor a duration within the period"
            raise ValueError(f"{self._where(field)}{text!r} is neither {wanted}")
        return seconds

    def fraction(self, field: str, default: str) -> float:
        text = self._text(field, default)
        match = _PERCENTAGE.fullmatch(text)
        fraction = float(match[1]) / 100 if match and not match[2] else -1.0
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"{self._where(field)}{text!r} is not a percentage from 0% to 100%")
        return fraction

    def boolean(self, field: str) -> bool:
        text = self._text(field, "false")
        value = _BOOLEANS.get(text)
        if value is None:
            raise ValueError(f"{self._where(field)}{text!r} is neither true nor false")
        return value

    def series(self, field: str) -> Series | None:
        """The recorded trace of that name; None if names are not looked up."""
        name = self._text(field)
        if self._traces is None:
            return None
        found = self._traces.get(name)
        if found is None:
            known = f"there are {', '.join(sorted(self._traces))}" if self._traces else "no profile brings any"
            raise ValueError(f"{self._where(field)}there is no trace {name!r}: {known}")
        most = self.most
        if found.maxima.of(0, len(found.amounts) - 1) > most:
            raise ValueError(f"{self._where(field)}trace {name!r} goes beyond {_beyond(self._unit, self._scale)}")
        return found

    @property
    def most(self) -> float:
        return MOST_AMOUNT[self._unit] if self._scale.most is None else self._scale.most


def _amount(text: str, unit: Unit, scale: Scale, where: str) -> float:
    amount = _share_or_quantity(text, unit, scale, where)
    if unit in _COUNTED and not amount.is_integer():
        raise ValueError(f"{where}{text!r} is no whole number of {unit}")
    return amount


def _share_or_quantity(text: str, unit: Unit, scale: Scale, where: str) -> float:
    match = _PERCENTAGE.fullmatch(text)
    amount = _quantity(text, where) if match is None else _share(match, scale, where)
    if not 0.0 <= amount <= MOST_AMOUNT[unit]:
        raise ValueError(f"{where}{text!r} is not between 0 and {MOST[unit]}: no node could have it")
    if scale.most is not None and amount > scale.most:
        raise ValueError(f"{where}{text!r} is beyond {_beyond(unit, scale)}")
    return amount


def _beyond(unit: Unit, scale: Scale) -> str:
    if scale.most is None:
        return f"{MOST[unit]}, which no node has"
    style = Format.BINARY_SI if unit is Unit.BYTES else Format.DECIMAL_SI
    return f"the {Quantity.of_units(scale.most, style)} that the node has"


def _quantity(text: str, where: str) -> float:
    try:
        return parse(text).nanos / 10**9
    except (QuantityError, OverflowError):
        raise ValueError(f"{where}{text!r} is no amount: write one such as 300Mi, 250m or 60%") from None


def _share(match: re.Match[str], scale: Scale, where: str) -> float:
    of = match[2] or "request"
    whole = scale.limit if of == "limit" else scale.request
    if whole is None:
        raise ValueError(f"{where}{match[0]!r} makes no sense where there is no {of}")
    return float(match[1]) / 100 * whole


def _ramp(arguments: _Arguments) -> UsageModel:
    return Ramp(arguments.amount("from", "0"), arguments.amount("to"), arguments.seconds("over"))


def _leak(arguments: _Arguments) -> UsageModel:
    most = arguments.amount("to") if arguments.has("to") else arguments.most
    first = arguments.amount("from", "0")
    if first > most:
        raise ValueError("leak: field 'to' is less than 'from'")
    return Leak(first, arguments.rate("rate"), most)


def _burst(arguments: _Arguments) -> UsageModel:
    base, top = arguments.amount("base", "0"), arguments.amount("peak")
    period, lasts = arguments.seconds("every"), arguments.seconds("lasts")
    if top < base:
        raise ValueError("burst: field 'peak' is less than 'base'")
    if lasts > period:
        raise ValueError("burst: field 'lasts' is longer than 'every'")
    return Burst(base, top, period, lasts)


def _wave(arguments: _Arguments) -> UsageModel:
    low, high, period = arguments.amount("low"), arguments.amount("high"), arguments.seconds("period", "24h")
    if high < low:
        raise ValueError("wave: field 'high' is less than 'low'")
    return Wave(low, high, period, arguments.moment("peak", "14:00" if period == _DAY else "0s", period))


def _noise(arguments: _Arguments) -> UsageModel:
    mean, fraction = arguments.amount("mean"), arguments.fraction("spread", "10%")
    return Noise(mean, mean * fraction, arguments.seconds("step", "10s"))


def _trace(arguments: _Arguments) -> UsageModel:
    series, is_looping, is_linear = arguments.series("name"), arguments.boolean("loop"), arguments.boolean("linear")
    return Constant(0.0) if series is None else Trace(series, is_looping, is_linear)


#: By name: what makes the model, and its fields. The first field may be written without its name.
_FORMS: Final[Mapping[str, tuple[Callable[[_Arguments], UsageModel], tuple[str, ...]]]] = {
    "ramp": (_ramp, ("to", "from", "over")),
    "leak": (_leak, ("rate", "from", "to")),
    "burst": (_burst, ("peak", "base", "every", "lasts")),
    "wave": (_wave, ("high", "low", "period", "peak")),
    "noise": (_noise, ("mean", "spread", "step")),
    "trace": (_trace, ("name", "loop", "linear")),
}
