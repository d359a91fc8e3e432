"""How fluid the dashboard is with 1,000 nodes: `python -m benchmarks.dashboard`; needs Debian's chromium.

What the browser's main thread worked (script, layout and style), whatever else the machine does: for a frame of
scrolling, and for finding eleven nodes by a part of their name.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.arguments import parser
from tests.dashboard.browser import SCROLLED, Page, browser
from tests.dashboard.shown import Shown, on_dashboard

NODES, FRAMES, ROUNDS = 1_000, 30, 5
_SHOWN = "document.querySelectorAll('.tile:not([hidden])').length"


async def worked(page: Page) -> float:
    """Seconds of the browser's main thread, of the work that the page gives it."""
    metrics = (await page.command("Performance.getMetrics"))["metrics"]
    figures = {metric["name"]: metric["value"] for metric in metrics}
    return float(figures["ScriptDuration"] + figures["LayoutDuration"] + figures["RecalcStyleDuration"])


async def measured(page: Page) -> tuple[float, float]:
    """Seconds for a frame of scrolling, and for a search."""
    began = await worked(page)
    await page.value(SCROLLED)
    scrolled = await worked(page)
    await page.press("/")
    await page.write("node-77")
    await page.until(f"{_SHOWN} === 11")
    found = await worked(page)
    await page.press("Escape")
    await page.until(f"{_SHOWN} === {NODES}")
    return (scrolled - began) / FRAMES, found - scrolled


def main() -> None:
    async def rounds(shown: Shown) -> None:
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            async with browser(Path(folder)) as page:
                await page.open(shown.link)
                await page.until(f"document.querySelectorAll('.tile').length === {NODES}")
                await page.command("Performance.enable", timeDomain="threadTicks")
                print(f"{'round':<8}{'ms a frame':>12}{'ms a search':>14}")
                for number in range(1, ROUNDS + 1):
                    frame, search = await measured(page)
                    print(f"{number:<8}{frame * 1000:>12.1f}{search * 1000:>14.0f}")

    on_dashboard(rounds, NODES)


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
