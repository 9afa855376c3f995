"""Pictures of pages that a person has looked at, and whether a page still looks like its own.

Fonts differ between machines, and texts have numbers that change with the suite, so the test compares the
page at an eighth of its size, in grey: it sees a part that moves, vanishes or loses its colours, no digit.
``CONFORMANCE_PICTURES=write`` takes the pictures anew; look at them before they are committed.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium

FOLDER = Path(__file__).parent / "pictures"
#: Of the picture that is kept, and of what is compared, in pixels.
KEPT = (600, 450)
COMPARED = (150, 112)
#: Mean difference of grey values, and share of points that differ by more than `_FAR` of 255.
MEAN = 4.0
SHARE = 0.03
_FAR = 48


def differences(shown: Any, kept: Any) -> tuple[float, float]:
    """Return the mean difference of two images' grey values, and the share of points that are far apart."""
    from PIL import Image

    small = [image.convert("L").resize(COMPARED, Image.Resampling.BOX).tobytes() for image in (shown, kept)]
    apart = [abs(one - other) for one, other in zip(*small, strict=True)]
    return sum(apart) / len(apart), sum(difference > _FAR for difference in apart) / len(apart)


def compare(browser: Any, name: str, folder: Path, dark: bool = False) -> None:
    """Assert that the page looks like the picture of that name; if not, the new one lies in the folder.

    ``dark``: as a user sees it who prefers dark pages.
    """
    if os.environ.get("CONFORMANCE_BROWSER") != "1":
        pytest.importorskip("PIL", reason="Pillow is not installed; run nox -s browser")
    from PIL import Image

    browser.set_window_size(1200, 900)
    chromium.dark(browser, dark)
    shown = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB").resize(KEPT)
    file = FOLDER / f"{name}.png"
    if os.environ.get("CONFORMANCE_PICTURES") == "write":
        FOLDER.mkdir(exist_ok=True)
        shown.quantize(48).save(file, optimize=True)
        return
    mean, share = differences(shown, Image.open(file))
    if mean > MEAN or share > SHARE:
        shown.save(folder / file.name)
    assert mean <= MEAN and share <= SHARE, (
        f"{name} differs from {file} by {mean:.1f} of 255 on average, {share:.1%} of it by much; "
        f"it is in {folder}; CONFORMANCE_PICTURES=write takes the pictures anew"
    )
