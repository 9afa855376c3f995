"""The link by which `habana-pyhlml` finds the library: it loads it from a fixed folder of the system."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .library import PATH

PLACE = Path("/usr/lib/habanalabs/libhlml.so")


def main(arguments: list[str] | None = None, place: Path = PLACE) -> int:
    """Make or remove the link.

    Returns:
        0, or 1 with a sentence on standard error if that cannot be done.
    """
    parser = argparse.ArgumentParser(prog="hpu-reference-hlml", description=__doc__)
    parser.add_argument(
        "what", choices=("link", "unlink", "path"), help="make the link, remove it, or print the library"
    )
    what = parser.parse_args(arguments).what
    if what == "path":
        print(PATH)
        return 0
    try:
        if what == "link":
            _link(place)
        else:
            _unlink(place)
    except OSError as error:
        print(
            f"hpu-reference-hlml: {error}; run it as a user who may write to {place.parent}", file=sys.stderr
        )
        return 1
    return 0


def _link(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink() and place.resolve() == PATH.resolve():
        return
    if place.exists():
        raise FileExistsError(f"{place} is there already, and is not ours")
    place.unlink(missing_ok=True)  # a link whose target is gone
    place.symlink_to(PATH)


def _unlink(place: Path) -> None:
    if not place.is_symlink():
        if place.exists():
            raise FileExistsError(f"{place} is no link, so it is not ours")
        return
    if place.exists() and place.resolve() != PATH.resolve():
        raise FileExistsError(f"{place} leads to {place.resolve()}, which is not ours")
    place.unlink()


if __name__ == "__main__":
    sys.exit(main())
