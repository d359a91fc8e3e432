"""What a refused change is told of: what differs, in time that grows with the size of the object."""

from __future__ import annotations

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.podspec.differences import difference
from fairlead.kinds.podspec.ephemeral import validate_ephemeral_update
from fairlead.kinds.podspec_form import pod_spec_form
from tests.kinds.pod_world import container
from tests.work import growth


def _form(keys: list[str]) -> Obj:
    return {"Tolerations": [{"Key": key, "Operator": "Exists"} for key in keys]}


def test_a_single_change_in_a_long_list_is_shown_as_in_a_short_one() -> None:
    """With three lines around it, and the numbers of its lines."""
    for size in (10, 5000):
        before = [f"k{number}" for number in range(size)]
        after = [*before[:5], "other", *before[6:]]
        lines = difference(_form(before), _form(after)).splitlines()
        assert lines[0].startswith("@@ -21,7 +21,7 @@")
        assert [line.strip() for line in lines if line[0] in "+-"] == [
            '-   "Key": "k5",',
            '+   "Key": "other",',
        ]
        assert len(lines) == 9


def test_a_long_list_that_loses_and_gains_at_its_end_is_shown_to_its_end() -> None:
    before = [f"k{number}" for number in range(3000)]
    lines = difference(_form(before), _form(before[:-1])).splitlines()
    assert sum(line.startswith("-") for line in lines) - sum(line.startswith("+") for line in lines) == 4
    patched = [line[1:] for line in lines[1:] if line[0] != "-"]
    assert patched[-3:] == ["  }", " ]", "}"]


def test_the_time_for_lines_that_come_again_and_again_grows_with_their_number() -> None:
    """difflib takes the cube of it where they are just too many to be looked over, and too few to be left out."""

    def told(size: int) -> None:
        difference(*(pod_spec_form(_tolerating(size, shift)) for shift in (0, 1)))

    assert growth(told, 500) < 2.5


def _tolerating(size: int, shift: int) -> Obj:
    keys = [f"k{(number * number + shift * (number // 7)) % 17}" for number in range(size)]
    return {
        "containers": [{"name": "c", "image": "x"}],
        "tolerations": [{"operator": "Exists", "key": key} for key in keys],
    }


def test_once_an_answer_is_full_no_more_differences_are_worked_out() -> None:
    def told(size: int) -> None:
        old, new = (
            {
                "metadata": {},
                "spec": {"ephemeralContainers": [container(name=f"c{n}", image=image) for n in range(size)]},
            }
            for image in ("x", "y")
        )
        validate_ephemeral_update(new, old, Errors())

    assert growth(told, 2000) < 1.5
