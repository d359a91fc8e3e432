"""Every setting of a KubeletConfiguration has a row that says what a real node makes of it; the page shows the rows."""

from __future__ import annotations

from docs.build import KUBELET_SETTINGS
from docs.kubelet_settings import settings_page
from fairlead.agent.settings_table import Effect, idle_settings, name_of, rows
from fairlead.node.configuration.load import configure
from fairlead.node.configuration.settings import SETTINGS

_KIND = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def test_every_setting_has_its_row() -> None:
    assert list(rows()) == list(map(name_of, SETTINGS)), "rows of agent/kubelet_settings.txt"


def test_what_does_not_simply_work_says_why() -> None:
    assert not [row.name for row in rows().values() if row.effect is not Effect.WORKS and not row.note]


def test_who_says_what_does_nothing_is_told_so() -> None:
    stated = {"runtimeRequestTimeout": "5m", "kubeReserved": {"cpu": "1"}, "logging": {"verbosity": 4}}
    told = list(idle_settings(configure({**_KIND, **stated}, ["--read-only-port=10255"]).configuration))
    assert told == [
        "readOnlyPort (--read-only-port) does nothing on this node: nobody is answered without being asked who he is",
        "runtimeRequestTimeout (--runtime-request-timeout) does nothing on this node: two minutes, the default",
        "logging does nothing on this node: lines of text on standard error",
    ]
    assert not list(idle_settings(configure(_KIND).configuration))


def test_the_page_is_that_of_this_code() -> None:
    assert KUBELET_SETTINGS.read_text() == settings_page(), "run: python -m docs.build"
