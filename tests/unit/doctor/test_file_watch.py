"""``doctor.file_watch`` watches the files of a backend. It reports changed files only when the build has
ended.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from conformance.doctor import file_watch
from conformance.errors import UsageError


@pytest.fixture
def watched_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "watched_device"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('never imported')")
    (folder / "_C.so").write_bytes(b"1")
    (folder / "notes.txt").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def test_the_package_is_watched_and_not_imported(watched_package: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine.toml"
    target.write_text("")
    watched = file_watch.watched_paths("watched_device.sub", target)
    assert {path.name for path in file_watch.file_states(watched)} == {"mine.toml", "__init__.py", "_C.so"}
    assert "watched_device" not in sys.modules


def test_a_missing_module_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'no_such_device' of the target cannot be found"):
        file_watch.watched_paths("no_such_device", tmp_path / "mine.toml")


def test_a_build_of_many_files_is_one_change(watched_package: Path) -> None:
    changed = file_watch.watch_changes([watched_package])
    changes: list[list[Path]] = []
    thread = threading.Thread(target=lambda: changes.append(next(changed)))
    thread.start()
    time.sleep(2 * file_watch.LOOK)
    for number in range(3):
        (watched_package / "_C.so").write_bytes(b"2" * (number + 2))
        (watched_package / f"part{number}.py").write_text("")
        time.sleep(file_watch.QUIET / 2)
    assert not changes, "a change was reported before the build ended"
    thread.join(20)
    assert [path.name for path in changes[0]] == ["_C.so", "part0.py", "part1.py", "part2.py"]


def test_only_changed_lines_are_reported() -> None:
    before = [
        "target x",
        "ok      copy     works",
        "MISSING kernels  3 are missing",
        "MISSING streams  declared, but",
        "2 of 9 are missing",
    ]
    after = [
        "target x",
        "MISSING copy     changed the bits",
        "MISSING kernels  2 are missing",
        "ok      streams  answer",
        "2 of 9 are missing",
    ]
    assert file_watch.changed_feature_lines(before, after) == [
        "fixed    streams",
        "MISSING copy     changed the bits",
        "MISSING kernels  2 are missing",
    ]
    assert file_watch.changed_feature_lines(after, after) == ["nothing has changed"]
    assert file_watch.changed_feature_lines(before, [*before[:1], "nothing is missing"]) == [
        "fixed    kernels",
        "fixed    streams",
        "nothing is missing",
    ]


def test_early_changes_are_reported_and_reverted_changes_are_not(watched_package: Path) -> None:
    changed = file_watch.watch_changes([watched_package])
    (watched_package / "_C.so").write_bytes(b"another")
    assert [path.name for path in next(changed)] == ["_C.so"]
    changes: list[list[Path]] = []
    thread = threading.Thread(target=lambda: changes.append(next(changed)))
    thread.start()
    (watched_package / "__init__.py").rename(watched_package / "moved")
    time.sleep(3 * file_watch.LOOK)
    (watched_package / "moved").rename(watched_package / "__init__.py")
    time.sleep(file_watch.QUIET + 3 * file_watch.LOOK)
    assert not changes or changes[0], "an empty list of changed files was reported"
    (watched_package / "_C.so").write_bytes(b"third one")
    thread.join(20)
    assert changes and changes[0]
