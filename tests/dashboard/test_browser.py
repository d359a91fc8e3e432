"""The page in a real browser: Debian's chromium."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from fairlead.api.builtin import NAMESPACES, PODS, PRIORITY_CLASSES
from fairlead.api.verbs import PatchType
from fairlead.dashboard.recorded import RecordedRun
from fairlead.study.outcome import StepDone
from fairlead.study.records import Run
from tests.dashboard.browser import SCROLLED, Page, browser, chromium
from tests.dashboard.runs import BEGAN, kept_run, troubled_run
from tests.dashboard.shown import Shown, on_dashboard, on_source, pod

pytestmark = pytest.mark.skipif(
    chromium() is None,
    reason="there is no chromium here (apt-get install chromium): nothing to open the dashboard with",
)

_TILES = "document.querySelectorAll('.tile').length"
_SIDE = "document.getElementById('side').innerText"
_HOSTILE = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"


def in_browser(
    test: Callable[[Page, Shown], Awaitable[None]], folder: Path, nodes: int = 3, *, arbitrator: bool = False
) -> None:
    async def act(shown: Shown) -> None:
        async with browser(folder) as page:
            await page.open(shown.link)
            await page.until(f"{_TILES} === {nodes}")
            await test(page, shown)
            assert page.complaints == []
            assert {url.partition("/?")[0][: len(shown.origin)] for url in page.requested} == {shown.origin}

    on_dashboard(act, nodes, arbitrator=arbitrator)


def label(node: str) -> str:
    return f"document.querySelector('.tile[data-name={json.dumps(node)}]').getAttribute('aria-label')"


def test_a_cluster_is_seen_as_it_lives(tmp_path: Path) -> None:
    async def test(page: Page, shown: Shown) -> None:
        assert await page.value("location.search") == ""
        assert await page.value("document.cookie") == ""
        await shown.create("web", cpu="3")
        await page.until(
            f"document.getElementById('nodes').innerText.includes('cpu 75 %') && {_SIDE}.includes('3 25 %')"
        )
        await shown.create("large", cpu="64")
        await page.until(f"{_SIDE}.includes('default/large') && {_SIDE}.includes('Insufficient cpu')")

        # why: the pod in the list leads to it
        await page.value(
            "[...document.querySelectorAll('#side .link')].find(b => b.innerText === 'default/large').click()"
        )
        await page.until(f"{_SIDE}.includes('would help: cpu: wants 64')")
        await page.press("Escape")
        await page.until(f"!{_SIDE}.includes('would help')")

        # back in time there was no pod yet; then on again
        await page.until("document.getElementById('when')")
        await page.value("document.getElementById('when').focus()")
        await page.press("Home")
        await page.until("document.body.innerText.includes('0 pods')")
        await page.until(f"!{_SIDE}.includes('default/large')")
        await page.value("document.activeElement.blur()")
        await page.press("l")
        await page.until(f"{_SIDE}.includes('default/large')")

        await shown.cluster.api.delete(PODS, "large", "default")
        await page.until(f"!{_SIDE}.includes('default/large')")

    in_browser(test, tmp_path)


def test_what_strangers_write_is_text(tmp_path: Path) -> None:
    async def test(page: Page, shown: Shown) -> None:
        await shown.create("hostile")
        await page.until("document.getElementById('nodes').innerText.includes('1 pod')")
        status = {"status": {"message": _HOSTILE}}
        await shown.cluster.api.patch(PODS, "hostile", "default", status, PatchType.MERGE, subresource="status")
        await page.value("[...document.querySelectorAll('.tile')].find(t => t.innerText.includes('1 pod')).click()")
        await page.until(f"{_SIDE}.includes({json.dumps(_HOSTILE)})")
        assert await page.value("document.querySelectorAll('#side img, #side script').length") == 0
        assert await page.value("document.title") == "test · Fairlead"

    in_browser(test, tmp_path, nodes=1)


def test_a_run_can_be_scrubbed_and_its_messages_are_text(tmp_path: Path) -> None:
    async def test(link: str) -> None:
        async with browser(tmp_path) as page:
            await page.open(link)
            await page.until(f"{_TILES} === 2 && {_SIDE}.includes('shop/web')")
            assert await page.value(f"{_SIDE}.includes({json.dumps(_HOSTILE[:40])})")
            assert await page.value("document.querySelectorAll('#side img, #side script').length") == 0
            assert await page.value("document.title.startsWith('run-')")
            assert "0 pods" in await page.value(label("node-1"))  # lost with its node
            await page.value(
                "{ const when = document.getElementById('when'); when.value = Number(when.min) + 1800;"
                " when.dispatchEvent(new Event('input', { bubbles: true })) }"
            )
            await page.until(f"{label('node-1')}.includes('1 pod')")
            await page.until("document.querySelector('output').innerText.includes('after 30m')")
            await page.value(
                "{ const variant = document.querySelector('select'); variant.value = 'before';"
                " variant.dispatchEvent(new Event('change', { bubbles: true })) }"
            )
            await page.until(f"{label('node-1')}.includes('1 pod') && {label('node-2')}.includes('1 pod')")
            assert page.complaints == []

    on_source(test, RecordedRun(kept_run(_HOSTILE)))


def test_times_of_a_run_are_those_of_its_texts_wherever_the_browser_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fairlead why` tells them in UTC, on the same page."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    run = kept_run("gone")
    told = datetime.fromtimestamp(run.outcomes[1].steps[0].at, UTC).strftime("%d %b, %H:%M").lstrip("0")

    async def test(link: str) -> None:
        async with browser(tmp_path) as page:
            await page.open(link)
            await page.until(f"{_SIDE}.includes('What was done')")
            assert f"{told}\n" in await page.value(_SIDE)
            assert " UTC (after " in await page.value("document.querySelector('output').innerText")

    on_source(test, RecordedRun(run))


def test_the_best_nodes_have_their_names_in_one_line_and_empty_lists_no_title(tmp_path: Path) -> None:
    async def test(page: Page, shown: Shown) -> None:
        await shown.create("waits", cpu="64")
        await shown.create("runs")
        await page.until(f"{_SIDE}.includes('Waiting for a node')")
        await page.press("/")
        await page.write("runs")
        await page.until(f"!{_SIDE}.includes('Waiting for a node')")
        await page.value("document.querySelector('.tile:not([hidden])').click()")
        await page.until("!!document.querySelector('[data-pod]')")
        await page.value("document.querySelector('[data-pod]').click()")
        await page.until(f"{_SIDE}.includes('if it were placed now')")
        lines = (await page.value(_SIDE)).splitlines()
        assert {f"node-{number}" for number in (1, 2, 3)} <= {line.partition(" ")[0] for line in lines}

    in_browser(test, tmp_path)


def test_the_keyboard_reaches_everything_and_everything_has_a_name(tmp_path: Path) -> None:
    async def test(page: Page, shown: Shown) -> None:
        focused = "document.activeElement.dataset.name"
        await page.press("ArrowDown")
        assert await page.value(focused) == "node-1"
        await page.press("ArrowRight")
        assert await page.value(focused) == "node-2"
        await page.until(f"{_SIDE}.includes('allocatable') && {_SIDE}.startsWith('← Overview')")
        columns = await page.value(
            "getComputedStyle(document.getElementById('nodes')).gridTemplateColumns.split(' ').length"
        )
        await page.press("ArrowDown")
        assert await page.value(focused) == f"node-{2 + columns}"
        await page.press("?")
        await page.until("document.querySelector('dialog').open")
        await page.press("Escape")
        await page.until("!document.querySelector('dialog')")
        await page.press("Escape")
        await page.press("/")
        await page.write("node-12")
        await page.until("document.querySelectorAll('.tile:not([hidden])').length === 1")
        await page.press("Escape")
        await page.until(f"document.querySelectorAll('.tile:not([hidden])').length === {_TILES}")

        await page.until("document.getElementById('when')")  # as soon as some time has passed
        tree = await page.command("Accessibility.getFullAXTree")
        controls = {"button", "combobox", "searchbox", "slider"}
        found = [node for node in tree["nodes"] if node.get("role", {}).get("value") in controls]
        assert {node["role"]["value"] for node in found} == controls
        assert [node for node in found if not node["name"]["value"].strip()] == []

    in_browser(test, tmp_path, nodes=30)


def test_light_and_dark_follow_the_system_until_one_is_chosen(tmp_path: Path) -> None:
    async def test(page: Page, shown: Shown) -> None:
        ground = "getComputedStyle(document.body).backgroundColor"
        await page.prefer("light")
        light = await page.value(ground)
        await page.prefer("dark")
        dark = await page.until(f"{ground} !== {json.dumps(light)} && {ground}")
        await page.press("t")
        await page.until(f"{ground} === {json.dumps(light)}")
        await page.open(shown.origin)  # the choice is kept, and so is the cookie
        await page.until(f"{_TILES} === 3 && {ground} === {json.dumps(light)}")
        assert dark != light

    in_browser(test, tmp_path)


def test_pods_are_told_apart_and_filtered_by_qos_priority_and_namespace(tmp_path: Path) -> None:
    async def test(page: Page, shown: Shown) -> None:
        api = shown.cluster.api
        await api.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await api.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        await shown.create("plain")
        await api.create(PODS, pod("dear", "1", priorityClassName="high"), "default")
        await page.until(f"{_SIDE}.includes('Burstable') && document.body.innerText.includes('2 pods')")
        choose = (
            "{{ const by = document.querySelector('select'); by.value = '{0}';"
            " by.dispatchEvent(new Event('change', {{ bubbles: true }})) }}"
        )
        await page.value(choose.format("priority"))
        await page.until(f"{_SIDE}.includes('Pods by Priority') && {_SIDE}.includes('1000')")
        await page.value("[...document.querySelectorAll('#side .link')].find(b => b.innerText === '1000').click()")
        await page.until("document.querySelectorAll('.tile:not([hidden])').length === 1")
        await page.value(choose.format("namespace"))
        await page.until(f"{_SIDE}.includes('Pods by Namespace')")

    in_browser(test, tmp_path)


@pytest.mark.slow
def test_of_a_thousand_tiles_only_that_of_a_node_that_changed_is_drawn_again(tmp_path: Path) -> None:
    """What keeps a thousand nodes fluid; how fluid they are is benchmarks/dashboard.py's to say."""

    async def test(page: Page, shown: Shown) -> None:
        await page.until("!!document.querySelector('.legend .cpu-used')")
        await page.value(
            "{ window.drawn = new Set(); const observer = new MutationObserver((records) => {"
            " for (const { target } of records) { const tile = (target.closest ? target : target.parentElement)"
            ".closest('.tile'); if (tile) drawn.add(tile.dataset.name) } });"
            " observer.observe(document.getElementById('nodes'),"
            " { subtree: true, childList: true, attributes: true, characterData: true }) }"
        )
        # the first measurement changes them all, in several batches; then nothing is drawn where one scrolls
        await page.until(f"(drawn.clear(), {SCROLLED}.then(() => drawn.size === 0))")

        await shown.create("web")
        await page.until(f"{_SIDE}.includes('Burstable')")
        (changed,) = await page.value("[...drawn]")
        assert "1 pod" in await page.value(label(changed))

        await page.press("/")
        await page.write("node-77")
        await page.until("document.querySelectorAll('.tile:not([hidden])').length === 11")

    in_browser(test, tmp_path, nodes=1000)


@pytest.mark.slow
def test_a_long_name_pushes_nothing_out_of_sight(tmp_path: Path) -> None:
    namespace = "team-" + "x" * 58

    async def test(page: Page, shown: Shown) -> None:
        await shown.cluster.api.create(NAMESPACES, {"metadata": {"name": namespace}})
        await shown.create("p" * 253, namespace=namespace)
        await page.until(f"{_SIDE}.includes('used of deserved') && {_SIDE}.includes('{namespace}')")
        is_wide = "{ const side = document.getElementById('side'); side.scrollWidth > side.clientWidth }"
        assert await page.value(is_wide) is False
        await page.press("/")
        await page.write("ppppp")
        await page.until("document.querySelectorAll('.tile:not([hidden])').length === 1")
        await page.value("document.querySelector('.tile:not([hidden])').click()")
        await page.until("!!document.querySelector('[data-pod]')")
        await page.value("document.querySelector('[data-pod]').click()")
        await page.until(f"{_SIDE}.includes('if it were placed now')")
        assert await page.value(is_wide) is False

    in_browser(test, tmp_path, arbitrator=True)


def test_where_nothing_is_to_be_seen_a_sentence_says_why(tmp_path: Path) -> None:
    async def test(page: Page, shown: Shown) -> None:
        await shown.create("web-1")
        await shown.create("web-2")
        await page.until("document.getElementById('nodes').innerText.includes('2 pods')")
        await page.press("/")
        await page.write("nobody")
        await page.until("document.getElementById('none').innerText.includes('No node')")
        await page.press("Escape")
        await page.until("document.getElementById('none').innerText === ''")
        await page.press("/")
        await page.write("web-2")
        await page.until("document.querySelectorAll('.tile:not([hidden])').length === 1")
        await page.value("document.querySelector('.tile:not([hidden])').click()")
        await page.until(f"{_SIDE}.includes('2 pods of 110') && {_SIDE}.includes('The filter means 1 of 2.')")

    in_browser(test, tmp_path, nodes=1)


def test_a_run_in_which_nothing_happened_says_so(tmp_path: Path) -> None:
    async def test(link: str) -> None:
        async with browser(tmp_path) as page:
            await page.open(link)
            await page.until("document.getElementById('none').innerText.includes('Nothing happened to any pod')")
            assert page.complaints == []

    calm = kept_run().before
    on_source(test, RecordedRun(Run(1, [replace(calm, pods=[], waits=[])])))


@pytest.mark.slow
def test_what_no_pod_shows_is_told_beside_the_nodes(tmp_path: Path) -> None:
    async def test(link: str) -> None:
        async with browser(tmp_path) as page:
            await page.open(link)
            for text in ("Not done at the end", "cannot be evicted", f"{_HOSTILE}/Deployment/etl", "3 pods fewer came"):
                await page.until(f"{_SIDE}.includes({json.dumps(text)})")
            assert page.complaints == []

    on_source(test, RecordedRun(troubled_run(_HOSTILE)))


@pytest.mark.slow
def test_the_longest_names_fit_beside_the_nodes(tmp_path: Path) -> None:
    longest = ".".join(["n" * 60] * 4)

    async def test(link: str) -> None:
        async with browser(tmp_path) as page:
            await page.open(link)
            await page.until(f"{_SIDE}.includes({json.dumps(longest)})")
            assert await page.value("(side => side.scrollWidth <= side.clientWidth)(document.getElementById('side'))")
            assert await page.value("document.querySelector('header').offsetHeight < 60")

    run = kept_run()
    run.outcomes[1] = replace(run.outcomes[1], name=longest, steps=[StepDone(BEGAN, f"remove node {longest}")])
    on_source(test, RecordedRun(run))


@pytest.mark.slow
def test_what_nobody_had_measured_yet_is_no_zero(tmp_path: Path) -> None:
    async def test(page: Page, shown: Shown) -> None:
        await page.until("!!document.querySelector('.legend .cpu-used')")
        await page.value("document.getElementById('when').focus()")
        await page.press("Home")
        await page.until("document.querySelector('.legend .cpu-used').innerText.endsWith('–')")

    in_browser(test, tmp_path)


@pytest.mark.slow
def test_by_keyboard_one_comes_back_to_where_one_was(tmp_path: Path) -> None:
    async def test(page: Page, shown: Shown) -> None:
        for number in range(30):
            await shown.create(f"large-{number:02}", cpu="64")
        link = "document.querySelector('[data-pod=\"default/large-25\"]')"
        await page.until(f"!!{link}")
        await page.value(f"{link}.focus()")
        scrolled = "document.getElementById('side').scrollTop"
        before = await page.until(scrolled)
        await page.press("Enter")
        await page.until("document.activeElement.innerText === '← Overview'")
        assert await page.value(scrolled) == 0
        await page.until(f"{_SIDE}.includes('would help')")
        await page.press("Escape")
        await page.until(f"document.activeElement === {link}")
        assert await page.value(scrolled) == before

    in_browser(test, tmp_path)
