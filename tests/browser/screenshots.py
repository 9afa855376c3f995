"""Reviewed screenshots of pages, and the comparison of a page with its screenshot.

Fonts differ between machines, and numbers in texts change with the suite. The test therefore compares the
page at an eighth of its size, in grey. It detects a part that moves, disappears or loses its colours, and
ignores digits. ``CONFORMANCE_PICTURES=write`` saves new screenshots; review them before they are committed.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium

FOLDER = Path(__file__).parent / "screenshots"
#: Size of the committed screenshot, and size at which images are compared, in pixels.
KEPT = (600, 450)
COMPARED = (150, 112)
#: Allowed mean difference of grey values, and allowed share of pixels that differ by more than `_FAR` of 255.
MEAN = 4.0
SHARE = 0.03
_FAR = 48


def differences(current: Any, committed: Any) -> tuple[float, float]:
    """Return the mean difference of two images' grey values, and the share of pixels that differ by more than
    `_FAR`.
    """
    from PIL import Image

    small = [
        image.convert("L").resize(COMPARED, Image.Resampling.BOX).tobytes() for image in (current, committed)
    ]
    apart = [
        abs(current_pixel - committed_pixel) for current_pixel, committed_pixel in zip(*small, strict=True)
    ]
    return sum(apart) / len(apart), sum(difference > _FAR for difference in apart) / len(apart)


def compare(browser: Any, name: str, folder: Path, dark: bool = False) -> None:
    """Assert that the page looks like the screenshot of that name. If not, save the new screenshot in the
    folder.

    ``dark``: emulate a user who prefers dark pages.
    """
    if os.environ.get("CONFORMANCE_BROWSER") != "1":
        pytest.importorskip("PIL", reason="Pillow is not installed; run nox -s browser")
    from PIL import Image

    browser.set_window_size(1200, 900)
    chromium.dark(browser, dark)
    screenshot = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB").resize(KEPT)
    file = FOLDER / f"{name}.png"
    if os.environ.get("CONFORMANCE_PICTURES") == "write":
        FOLDER.mkdir(exist_ok=True)
        screenshot.quantize(48).save(file, optimize=True)
        return
    mean, share = differences(screenshot, Image.open(file))
    if mean > MEAN or share > SHARE:
        screenshot.save(folder / file.name)
    assert mean <= MEAN and share <= SHARE, (
        f"{name} differs from {file} by {mean:.1f} of 255 on average, {share:.1%} of it by much; "
        f"it is in {folder}; CONFORMANCE_PICTURES=write takes new pictures"
    )
