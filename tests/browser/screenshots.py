"""Compare a page with its reviewed, committed screenshot.

Fonts differ between machines, and numbers in texts change with the suite. The comparison therefore uses small
grey images (COMPARED). It detects a part that moves, disappears or loses its colours. It does not detect
changed digits. ``CONFORMANCE_PICTURES=write`` saves new screenshots. Review them before you commit them.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium

FOLDER = Path(__file__).parent / "screenshots"
#: Width and height in pixels. KEPT: committed screenshots. COMPARED: the smaller images that are compared.
KEPT = (600, 450)
COMPARED = (150, 112)
#: MEAN: the allowed mean difference of grey values, which go from 0 to 255. SHARE: the allowed share of
#: pixels whose grey values differ by more than `_FAR`.
MEAN = 4.0
SHARE = 0.03
_FAR = 48


def mean_difference_and_differing_share(current: Any, committed: Any) -> tuple[float, float]:
    """Return the mean difference of two images' grey values (0 to 255), and the share of pixels whose grey
    values differ by more than `_FAR`.
    """
    from PIL import Image

    small = [
        image.convert("L").resize(COMPARED, Image.Resampling.BOX).tobytes() for image in (current, committed)
    ]
    apart = [
        abs(current_pixel - committed_pixel) for current_pixel, committed_pixel in zip(*small, strict=True)
    ]
    return sum(apart) / len(apart), sum(difference > _FAR for difference in apart) / len(apart)


def assert_page_matches_screenshot(browser: Any, name: str, output_folder: Path, dark: bool = False) -> None:
    """Assert that the page looks like the committed screenshot ``name``. If the page differs, save a new
    screenshot in ``output_folder``.

    ``dark``: emulate a user whose browser prefers dark pages.
    """
    if os.environ.get("CONFORMANCE_BROWSER") != "1":
        pytest.importorskip("PIL", reason="Pillow is not installed; run nox -s browser")
    from PIL import Image

    browser.set_window_size(1200, 900)
    chromium.emulate_color_scheme(browser, dark)
    screenshot = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB").resize(KEPT)
    file = FOLDER / f"{name}.png"
    if os.environ.get("CONFORMANCE_PICTURES") == "write":
        FOLDER.mkdir(exist_ok=True)
        screenshot.quantize(48).save(file, optimize=True)
        return
    mean, share = mean_difference_and_differing_share(screenshot, Image.open(file))
    if mean > MEAN or share > SHARE:
        screenshot.save(output_folder / file.name)
    assert mean <= MEAN and share <= SHARE, (
        f"{name} differs from {file} by {mean:.1f} of 255 on average, and {share:.1%} of its pixels differ "
        f"by more than {_FAR}. The new screenshot is in {output_folder}. CONFORMANCE_PICTURES=write saves "
        "new screenshots."
    )
