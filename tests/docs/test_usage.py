"""The examples of docs/usage.md mean what the page says, and the page knows every measure and every form."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
import yaml

from fairlead.api.pods import Pod
from fairlead.sim.usage.crossing import first_above
from fairlead.sim.usage.declared import pod_usage
from fairlead.sim.usage.expressions import Scale, parse_usage
from fairlead.sim.usage.measures import Measure, NodeMeasure, Unit
from fairlead.sim.usage.models import Series, UsageModel
from fairlead.sim.usage.objects import UsageProfile, profile_of
from fairlead.sim.usage.profiles import Profiles
from fairlead.sim.usage.range_maximum import RangeMaximum
from fairlead.sim.usage.traces import MOST_ROWS
from tests.conftest import TESTS

PAGE = (TESTS.parent / "docs" / "usage.md").read_text()
LEAKING, PROFILE, OF_IMAGES = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
MI = 2**20


def pod(manifest: dict[str, Any]) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(manifest), type=Pod)


def memory_of(pod: Pod, profiles: Profiles | None = None) -> UsageModel:
    usage = pod_usage(pod, profiles)
    model = usage.model("app", Measure.MEMORY)
    assert model is not None and not usage.problems
    return model


def test_the_leak_exceeds_its_limit_when_the_page_says() -> None:
    assert "# shows: 5 s after its start app exceeds 50Mi" in PAGE
    found = first_above(memory_of(pod(LEAKING)), 50 * MI, 0.0, 0.0)
    assert found == pytest.approx(5.0, abs=0.002)


def test_the_profile_gives_what_the_page_says() -> None:
    assert "# shows: app uses 50Mi at first, 200Mi after a minute" in PAGE
    profile, problems = profile_of(msgspec.convert(PROFILE, UsageProfile))
    assert problems == []
    assert set(profile.traces) == {"monday", "tuesday"}
    profiles = Profiles()
    profiles.put(profile)
    container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": "web", "namespace": "default", "labels": {"app": "web"}}
    selected = pod({"metadata": metadata, "spec": {"containers": [container]}})
    model = memory_of(selected, profiles)
    assert [model.at(second, 0.0) / MI for second in (0.0, 60.0, 150.0)] == [50, 200, 100]


def test_the_profile_of_an_image_gives_what_the_page_says() -> None:
    assert "# shows: app uses 64Mi at first, 264Mi after a hundred seconds" in PAGE
    profile, problems = profile_of(msgspec.convert(OF_IMAGES, UsageProfile))
    assert problems == []
    profiles = Profiles()
    profiles.put(profile)
    container = {"name": "app", "image": "registry.example/cache:2"}
    cache = pod({"metadata": {"name": "c", "namespace": "default"}, "spec": {"containers": [container]}})
    model = memory_of(cache, profiles)
    assert [model.at(second, 0.0) / MI for second in (0.0, 100.0)] == [64, 264]


@pytest.mark.parametrize(
    "text",
    [text for row in re.findall(r"^\| (`[^|]*[0-9)%]`) \|", PAGE, re.MULTILINE) for text in row.split("`")[1::2]],
)
def test_every_form_of_the_page_is_read(text: str) -> None:
    traces = {"NAME": Series((0.0, 1.0), (0.0, 1.0), RangeMaximum((0.0, 1.0)))}
    unit = Unit.CORES if text == "250m" else Unit.BYTES
    model = parse_usage(text, unit, Scale(100.0, 200.0), traces)
    assert model.peak(0.0, 1e6, 0.0) > 0


def test_the_page_knows_every_measure_and_the_bounds() -> None:
    forms = re.findall(r"^\| `([a-z]+)\(", PAGE, re.MULTILINE)
    with pytest.raises(ValueError, match=f"one of {', '.join(forms)}$"):
        parse_usage("unknown(1)", Unit.BYTES)
    assert not {measure for measure in (*Measure, *NodeMeasure) if f"`{measure}`" not in PAGE}
    assert f"{MOST_ROWS:,} rows" in PAGE
