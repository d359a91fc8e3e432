"""The recorded cases of Kubernetes 1.36, replayed over HTTP against a real `fairlead up`.

`golden/known_failures.txt` lists the cases that do not pass yet; it can only shrink: a case on it that passes fails the
test, as does one off it that does not. Cases of the developers' shared folder must be those of our copy.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from filecmp import cmpfiles
from pathlib import Path

import pytest
import yaml

from tests.conftest import GOLDEN, SHARED, TESTS
from tests.examples import each_time
from tests.kubectl import kubectl
from tests.processes import fairlead_up

REPLAY = TESTS / "golden" / "replay.py"
#: What the folders need, see golden/README.md.
API_SERVER = ("--components", "api", "--disable-admission-plugins", "ServiceAccount")
WITHOUT = "controllers"
CONTROL_PLANE = ("--components", "api,controllers")


def known_failures() -> set[str]:
    lines = (TESTS / "golden" / "known_failures.txt").read_text().splitlines()
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


def failures(folder: Path, kubeconfig: Path, kubectl_path: Path, *options: str) -> dict[str, str]:
    """The cases that fail, with the first difference of each."""
    command = [sys.executable, str(REPLAY), "check", str(folder), "--kubeconfig", str(kubeconfig)]
    command += ["--kubectl", str(kubectl_path), *options]
    output = subprocess.run(command, capture_output=True, text=True, timeout=800).stdout
    assert " passed, " in output, output
    return dict(line.split(": ", 1) for line in output.splitlines()[:-1] if ": " in line and not line.startswith(" "))


def compare(found: dict[str, str], replayed: set[str]) -> None:
    """Every case passes but those on the list, and every replayed case on the list fails."""
    unexpected = {case: why for case, why in found.items() if case not in known_failures()}
    assert not unexpected, "\n".join(f"{case}: {why}" for case, why in unexpected.items())
    mended = known_failures() & replayed - found.keys()
    assert not mended, f"these pass now, take them off the list: {sorted(mended)}"


def cases(files: Iterable[Path], without: str = "") -> set[str]:
    """The ids of the cases in those files that do not need what we run without."""
    skipped = set(without.split(","))
    listed = [case for file in files for case in yaml.load(file.read_text(), Loader=yaml.CSafeLoader)]
    return {case["id"] for case in listed if not skipped & set(case.get("needs") or ())}


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with fairlead_up(tmp_path_factory.mktemp("api") / "data", *API_SERVER) as up:
        yield up.kubeconfig


def files(folder: str) -> list[Path]:
    return sorted((GOLDEN / folder).glob("*.yaml"))


_OTHER_KUBECTL = GOLDEN / "api" / "kubectl-1.33.yaml"


@pytest.mark.parametrize(
    "file",
    each_time((file for file in files("api") if file != _OTHER_KUBECTL), files("api")),
    ids=lambda file: file.stem,
)
def test_api_server_answers_like_kubernetes(file: Path, api_server: Path, kubectl_path: Path) -> None:
    """X-01 to X-09, S0, S3-01 to S3-09, S3-94 to S3-106."""
    client = kubectl("1.33") if file == _OTHER_KUBECTL else kubectl_path
    found = failures(file, api_server, client, "--jobs", "8", "--without", WITHOUT)
    compare(found, cases([file], WITHOUT))


@pytest.mark.waits
def test_controllers_act_like_kubernetes(tmp_path: Path, kubectl_path: Path) -> None:
    """X-08 to X-10, S0-30 to S0-35, S3-103 to S3-107."""
    with fairlead_up(tmp_path / "data", *CONTROL_PLANE) as up:
        found = failures(GOLDEN / "controllers", up.kubeconfig, kubectl_path, "--jobs", "16", "--patience", "3")
    compare(found, cases(files("controllers")))


@pytest.mark.skipif(not (SHARED / "golden").exists(), reason="../shared is not here: nothing to compare the copy with")
def test_our_copy_of_the_cases_has_not_drifted() -> None:
    names = [str(file.relative_to(TESTS / "golden")) for file in (TESTS / "golden").rglob("*.yaml")]
    names += [
        "replay.py",
        "README.md",
        "scheduler.py",
        "shortforms.py",
        "kubeapi.py",
        "README-scheduler.md",
        "README-node.md",
    ]
    _, different, missing = cmpfiles(SHARED / "golden", TESTS / "golden", names, shallow=False)
    assert not different + missing, "copy ../shared/golden anew"
