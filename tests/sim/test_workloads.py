"""Workloads: tables of any trace by a mapping, and arrivals by chance."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import mean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.runtime import rng
from fairlead.sim.workloads.distributions import amounts, durations
from fairlead.sim.workloads.generators import generated
from fairlead.sim.workloads.mapping import read_mapped, read_mapping

ALIBABA = """job_name,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,inst_num,user
j_2,Terminated,200,260,600,29.3,50,2,A.B
J/1,Terminated,100,400,50,1.5,,1,c
j_3,Running,150,,100,1,,1,c
"""
COLUMNS: Obj = {
    "created": "start_time",
    "name": "job_name",
    "ended": "end_time",
    "cpu": {"column": "plan_cpu", "unit": "10m"},
    "memory": {"column": "plan_mem", "unit": "1Gi"},
    "namespace": "user",
    "count": "inst_num",
    "extended": {"example.com/gpu-percent": "plan_gpu"},
}


def mapped(folder: Path, text: str = ALIBABA, **document: Obj) -> list[tuple[float, str, str, Obj, str]]:
    path = folder / "trace.csv"
    path.write_text(text)
    found = read_mapped(path, read_mapping({"columns": COLUMNS, "only": {"status": ["Terminated"]}} | document))
    shown = []
    for arrival in found:
        meta, container = arrival.obj["metadata"], arrival.obj["spec"]["containers"][0]
        lifetime = meta["annotations"].get("sim.fairlead.dev/lifetime-seconds", "")
        shown.append((arrival.at, meta["namespace"], meta["name"], container["resources"]["requests"], lifetime))
    return shown


def test_a_mapping_says_what_columns_mean(tmp_path: Path) -> None:
    large = {"cpu": "6", "memory": str(parse("31460635444")), "example.com/gpu-percent": "50"}
    first, *others = mapped(tmp_path)
    assert first == (0.0, "c", "j-1-3", {"cpu": "500m", "memory": "1536Mi"}, "300.000")
    assert [(at, namespace, name, lifetime) for at, namespace, name, _, lifetime in others] == [
        (100.0, "a-b", "j-2-2-0", "60.000"),
        (100.0, "a-b", "j-2-2-1", "60.000"),
    ]
    assert {**others[0][3], "memory": large["memory"]} == large


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"created": "when"}, "has no column when: there are job_name, status"),
        ({"created": {"column": "start_time", "unit": "weeks"}}, "line 2: unit 'weeks' is no unit of time"),
        ({"created": "status"}, "line 2: status 'Terminated' is no number"),
        ({"created": "start_time", "cpu": "user"}, "line 2: user 'A.B' is no quantity"),
        ({"created": "start_time", "count": {"value": "1e9"}}, "value '1e9' is not between"),
        ({"created": "start_time", "count": {"value": "1e999"}}, "value '1e999' is no whole number"),
        ({"created": "start_time", "count": {"value": "2.5"}}, "value '2.5' is no whole number"),
        ({"created": {"value": "-1"}}, "line 2: value '-1' is before all time"),
        ({"created": "end_time", "ended": "start_time"}, "start_time '200' is before end_time '260'"),
        ({"created": "start_time", "lifetime": {"value": "-1"}}, "line 2: value '-1' is less than 0"),
        ({"created": "start_time", "lifetime": {"value": "1e9"}}, "line 2: value '1e9' makes a life of 32 years"),
        ({"created": "start_time", "ended": {"value": "1e12"}}, "value '1e12' makes a life of 31,710 years"),
        ({"created": "start_time", "cpu": {"value": "-1"}}, "line 2: value '-1' is no amount"),
        ({"created": "start_time", "memory": {"column": "plan_mem", "unit": "1Gb"}}, "unit '1Gb' is no quantity"),
        ({"created": "start_time", "memory": {"column": "plan_mem", "unit": "-1Gi"}}, "unit '-1Gi' is no amount"),
        ({"created": "start_time", "extended": {"x.io/gpu": {"value": "0.5"}}}, "x.io/gpu is counted in whole numbers"),
        ({}, "Object missing required field `created`"),
        ({"created": "start_time", "colour": "x"}, "unknown field `colour`"),
    ],
)
def test_a_mapping_that_means_nothing_is_refused(tmp_path: Path, columns: Obj, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        mapped(tmp_path, columns=columns, only={})


def test_times_in_another_unit_are_no_trace_of_a_thousand_years(tmp_path: Path) -> None:
    """Its simulation would not end in anybody's life either."""
    problem = "trace.csv: from the first pod to the last it is 32 years: is the unit of `created` right?"
    with pytest.raises(ValueError, match=re.escape(problem)):
        mapped(tmp_path, "at\n1700000000000\n1701000000000\n", columns={"created": "at"}, only={})


def test_a_table_that_is_cut_off_or_has_nothing_is_refused(tmp_path: Path) -> None:
    texts = {
        "": "is no table of this mapping: it is empty",
        ALIBABA.splitlines()[0] + "\n": "no row of it is meant by `only`",
        ALIBABA[:-20]: "line 4: it has 2 fields for 9 columns",
        ALIBABA.replace("A.B", "A.B,1"): "line 2: it has 10 fields for 9 columns",
        ALIBABA.replace("j_2", '"j_2'): "is no table of this mapping in UTF-8: unexpected end of data",
    }
    for text, problem in texts.items():
        with pytest.raises(ValueError, match=re.escape(problem)):
            mapped(tmp_path, text)


def test_a_table_of_a_spreadsheet_and_a_task_that_took_less_than_a_second_are_read(tmp_path: Path) -> None:
    short = mapped(tmp_path, "\ufeff" + ALIBABA.replace("200,260", "200,200"))[-1]
    assert short[2:] == ("j-2-2-1", short[3], "0.001")
    not_ended = mapped(tmp_path, ALIBABA.replace("200,260", "200,0"))[-1]
    assert not_ended[2:] == ("j-2-2-1", short[3], "")


def stream(**fields: object) -> Obj:
    return {"for": "24h", "streams": [{"name": "etl", "rate": "60/h", **fields}]}


def test_arrivals_by_chance_keep_to_their_rate_and_are_the_same_for_a_seed() -> None:
    rng.seed(7)
    first = generated(stream(lifetime="exponential(20m)", cpu="choice(500m, 1, 2)"))
    rng.seed(7)
    assert generated(stream(lifetime="exponential(20m)", cpu="choice(500m, 1, 2)")) == first
    assert 1300 < len(first) < 1580
    lifetimes = [
        float(arrival.obj["metadata"]["annotations"]["sim.fairlead.dev/lifetime-seconds"]) for arrival in first
    ]
    assert 1050 < mean(lifetimes) < 1350
    assert {arrival.obj["spec"]["containers"][0]["resources"]["requests"]["cpu"] for arrival in first} == {
        "500m",
        "1",
        "2",
    }


def test_a_wave_has_its_peak_and_its_trough() -> None:
    rng.seed(7)
    found = generated(stream(wave={"period": "24h", "amplitude": 1.0, "peak": "12h"}))
    noon = sum(10 * 3600 <= arrival.at < 14 * 3600 for arrival in found)
    night = sum(arrival.at < 2 * 3600 or arrival.at >= 22 * 3600 for arrival in found)
    assert noon > 10 * night


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"rate": "often"}, "rate 'often' is none"),
        ({"rate": "999999/s"}, "more than 5,000,000 pods"),
        ({"cpu": "many"}, "'many' is no quantity"),
        ({"lifetime": "normal(1m)"}, "unknown distribution 'normal'"),
        ({"lifetime": "uniform(5m, 1m)"}, "uniform: 1m is less than 5m"),
        ({"name": "E T L"}, "name 'E T L'"),
        ({"failures": 7}, "failures: 7"),
        ({"namespace": "No Such"}, "namespace 'No Such'"),
        ({"memory": "uniform(1Gi, x)"}, "stream etl: 'x' is no quantity"),
        ({"cpu": "-1"}, "stream etl: '-1' is less than 0"),
        ({"lifetime": "lognormal(1m, x)"}, "stream etl: 'x' is no number"),
        ({"wave": {"period": "0s"}}, "stream etl: wave: period '0s' is no time"),
    ],
)
def test_streams_that_mean_nothing_are_refused(fields: Obj, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        generated(stream(**fields))


def test_two_streams_that_would_make_pods_of_the_same_names_are_refused() -> None:
    twice = stream()
    twice["streams"] *= 2
    with pytest.raises(ValueError, match="two streams are named etl in namespace default"):
        generated(twice)


def test_amounts_are_numbers_too_as_in_kubernetes() -> None:
    first = generated(stream(cpu=2, memory="1Gi", extended={"nvidia.com/gpu": 1}))[0].obj
    wanted = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert first["spec"]["containers"][0]["resources"]["requests"] == wanted


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_uniform_amounts_stay_within_their_bounds(one: int, two: int) -> None:
    least, most = sorted((one, two))
    draw = amounts(f"uniform({least}m, {most}m)").draw
    assert all(least * 10**6 <= draw(rng.source()) <= most * 10**6 for _ in range(20))


def test_a_lognormal_has_its_median() -> None:
    rng.seed(1)
    draw = durations("lognormal(10m, 1.5)").draw
    assert 540 < median(draw(rng.source()) for _ in range(3000)) < 660
