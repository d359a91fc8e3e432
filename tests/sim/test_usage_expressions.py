"""The text of a usage model: what it means, and what is said of one that means nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.sim.usage.expressions import Scale, parse_usage
from fairlead.sim.usage.measures import Unit
from fairlead.sim.usage.models import Burst, Constant, Leak, Noise, Ramp, UsageModel, Wave

MI, GI = 2.0**20, 2.0**30


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("300Mi", Constant(300 * MI)),
        (" 60% ", Constant(120 * MI)),
        ("50% of limit", Constant(200 * MI)),
        ("ramp(from=100Mi, to=1Gi, over=10m)", Ramp(100 * MI, GI, 600.0)),
        ("ramp(to=1Gi,over=10m)", Ramp(0.0, GI, 600.0)),
        ("leak(10Mi/s, from=20Mi)", Leak(20 * MI, 10 * MI, 2.0**50)),
        ("leak(60Mi/m, to=50% of limit)", Leak(0.0, MI, 200 * MI)),
        ("burst(base=100Mi, peak=1Gi, every=10m, lasts=30s)", Burst(100 * MI, GI, 600.0, 30.0)),
        ("wave(low=100Mi, high=1Gi, period=24h, peak=14:00)", Wave(100 * MI, GI, 86_400.0, 50_400.0)),
        ("wave(low=0, high=1Gi, period=1h, peak=30m)", Wave(0.0, GI, 3600.0, 1800.0)),
        ("noise(mean=500Mi, spread=10%, step=10s)", Noise(500 * MI, 50 * MI, 10.0)),
    ],
)
def test_each_form_is_read(text: str, model: UsageModel) -> None:
    assert parse_usage(text, Unit.BYTES, Scale(200 * MI, 400 * MI)) == model


def test_amounts_of_cpu_are_cores() -> None:
    assert parse_usage("250m", Unit.CORES) == Constant(0.25)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lots", "'lots' is no amount: write one such as 300Mi, 250m or 60%"),
        ("2Pi", "'2Pi' is not between 0 and 1Pi: no node could have it"),
        ("-1", "'-1' is not between 0 and 1Pi: no node could have it"),
        ("60%", "'60%' makes no sense where there is no request"),
        ("60% of limit", "'60% of limit' makes no sense where there is no limit"),
        ("jump(to=1Gi)", "'jump' is no form of usage: write an amount such as 300Mi, or one of ramp, leak, burst, "
                         "wave, noise, trace"),
        ("ramp(from=1Mi, over=1m)", "ramp: field 'to' is missing"),
        ("ramp(to=1Mi, over=1ms)", "ramp: field 'over': '1ms' is not a duration from 1s to a century, such as 1m30s"),
        ("ramp(to=1Mi, to=2Mi, over=1m)", "ramp: field 'to' is given twice"),
        ("ramp(to=1Mi, until=1m)", "ramp: unknown field 'until': there are to, from, over"),
        ("ramp(to=1Mi, 1m)", "ramp: '1m' lacks the name of its field: write it as FIELD=VALUE"),
        ("leak(10Mi)", "leak: field 'rate': '10Mi' is no rate: write one such as 10Mi/s, 1Gi/m or 5Gi/h"),
        ("leak(1Mi/s, from=2Mi, to=1Mi)", "leak: field 'to' is less than 'from'"),
        ("burst(base=2Mi, peak=1Mi, every=1m, lasts=1s)", "burst: field 'peak' is less than 'base'"),
        ("burst(peak=1Mi, every=1m, lasts=2m)", "burst: field 'lasts' is longer than 'every'"),
        ("wave(low=2, high=1)", "wave: field 'high' is less than 'low'"),
        ("wave(low=0, high=1, peak=25:00)", "wave: field 'peak': '25:00' is neither a time of day such as 14:00, nor a "
                                            "duration within the period"),
        ("noise(mean=1Mi, spread=200%)", "noise: field 'spread': '200%' is not a percentage from 0% to 100%"),
        ("trace(web)", "trace: field 'name': there is no trace 'web': no profile brings any"),
        ("x" * 513, "a usage has at most 512 characters, this one 513"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        parse_usage(text, Unit.BYTES)
    assert str(refusal.value) == message


@pytest.mark.parametrize("unit", [Unit.PROCESSES, Unit.INODES])
def test_what_is_counted_comes_whole(unit: Unit) -> None:
    with pytest.raises(ValueError, match=rf"'0.5' is no whole number of {unit}"):
        parse_usage("0.5", unit)
    with pytest.raises(ValueError, match=rf"ramp: field 'to': '500m' is no whole number of {unit}"):
        parse_usage("ramp(to=500m, over=1m)", unit)
    assert parse_usage("leak(1/m)", unit).at(120.0, 0.0) == 2.0


_words = st.sampled_from(
    ["ramp", "leak", "burst", "wave", "noise", "trace", "(", ")", ",", "=", "to", "from", "over", "rate", "base",
     "peak", "every", "lasts", "low", "high", "period", "mean", "spread", "step", "1Gi", "-1", "60%", "of limit",
     "1s", "1e999999999", "14:00", "10Mi/s", "/", " ", "9" * 40, "\0", "é"]
)  # fmt: skip


@given(st.text(max_size=60) | st.lists(_words, max_size=12).map("".join), st.sampled_from(Unit))
def test_any_text_is_a_usage_or_an_error_that_says_why(text: str, unit: Unit) -> None:
    try:
        model = parse_usage(text, unit, Scale(100.0, 200.0))
    except ValueError as error:
        assert str(error)
    else:
        assert model.at(1e9, 0.0) <= model.peak(0.0, 2e9, 0.0)
