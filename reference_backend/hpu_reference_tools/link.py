"""Create or remove the symbolic link through which `habana-pyhlml` finds ``libhlml.so``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .management_library import PATH

SYSTEM_PATH = Path("/usr/lib/habanalabs/libhlml.so")


def main(arguments: list[str] | None = None, link_path: Path = SYSTEM_PATH) -> int:
    """Run the command ``hpu-reference-hlml``.

    Args:
        arguments: ``link``, ``unlink`` or ``path``; by default from the command line.
        link_path: path of the link.

    Returns:
        The exit status: 0, or 1 after an error message.
    """
    parser = argparse.ArgumentParser(prog="hpu-reference-hlml", description=__doc__)
    parser.add_argument(
        "action",
        choices=("link", "unlink", "path"),
        help="create the link, remove the link, or print the path of libhlml.so",
    )
    action = parser.parse_args(arguments).action
    if action == "path":
        print(PATH)
        return 0
    try:
        if action == "link":
            _link(link_path)
        else:
            _unlink(link_path)
    except OSError as error:
        print(
            f"hpu-reference-hlml: {error}. Run the command as a user with write access to "
            f"{link_path.parent}.",
            file=sys.stderr,
        )
        return 1
    return 0


def _link(link_path: Path) -> None:
    link_path.parent.mkdir(parents=True, exist_ok=True)
    if link_path.is_symlink() and link_path.resolve() == PATH.resolve():
        return
    if link_path.exists():
        raise FileExistsError(f"{link_path} already exists and was not created by this program")
    link_path.unlink(missing_ok=True)  # remove a link whose target no longer exists
    link_path.symlink_to(PATH)


def _unlink(link_path: Path) -> None:
    if not link_path.is_symlink():
        if link_path.exists():
            raise FileExistsError(f"{link_path} is not a link, so it was not created by this program")
        return
    if link_path.exists() and link_path.resolve() != PATH.resolve():
        raise FileExistsError(
            f"{link_path} points to {link_path.resolve()}, which does not belong to this program"
        )
    link_path.unlink()


if __name__ == "__main__":
    sys.exit(main())
