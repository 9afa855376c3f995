"""``conformance expect import`` proposes expectations with the reason ``unread``. A run rejects such
expectations until a person replaces the reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance import cli
from conformance.commands import expectation_targets
from conformance.errors import UsageError
from conformance.expectations import entries
from conformance.target import file as target_file


@pytest.fixture
def target_folder(tmp_path, monkeypatch):
    """Write a target file with a folder of expectations, and return the folder that contains the target file.
    The plan of the target has two results.
    """
    shipped = Path(target_file.__file__).parent / "known" / "cpu.toml"
    text = shipped.read_text().replace('name = "cpu"', 'name = "mine"')
    (tmp_path / "mine.toml").write_text('expectations = "expectations"\n' + text)
    (tmp_path / "expectations").mkdir()
    ids = frozenset({"out/add@float32", "out/add@int8"})
    monkeypatch.setattr(expectation_targets, "result_ids_by_mode", lambda *_: {"eager": ids})
    return tmp_path


def import_exit_code(target_folder, name, text, *more):
    (target_folder / name).write_text(text)
    return cli.main(
        ["expect", "import", str(target_folder / name), "--target", str(target_folder / "mine.toml"), *more]
    )


LIST = "TestCommonCPU.test_out_add_cpu_float32\nTestCommonCPU.test_out_add_cpu_float64\nhello\n"
PYTHON = (
    'x = {"add": [DecorateInfo(unittest.skip("crash: x"), "TestCommon", "test_out", dtypes=[torch.int8])]}'
)


def test_expectations_from_a_list_are_printed(target_folder, capsys):
    assert import_exit_code(target_folder, "list.txt", LIST) == 1
    out, err = capsys.readouterr()
    book = list(entries.read_entries(Path("x.toml"), out.encode(), entries.Aliases({}, {}), unread=True))
    assert [(entry.id, entry.kind.value, entry.reason) for entry in book] == [
        ("out/add@float32", "value", "unread")
    ]
    assert "list.txt:2: TestCommon.test_out of add in float64 matches no result" in err
    assert "list.txt:3: 'hello' is not the name of a test" in err
    assert "1 entries are proposed, 0 are already expected, 2 parts" in err


def test_expectations_from_a_python_file_are_written(target_folder, capsys):
    assert import_exit_code(target_folder, "list.py", PYTHON, "--write", "--until", "2999-01-01") == 0
    file = target_folder / "expectations" / "new.toml"
    assert 'id = "out/add@int8"\nkind = "crash"\nreason = "unread"' in file.read_text()
    with pytest.raises(UsageError, match="reason is still 'unread'"):
        entries.load_expectations([file])
    assert import_exit_code(target_folder, "list.py", PYTHON, "--write") == 0
    assert file.read_text().count("[[expect]]") == 1
    assert "0 entries are proposed, 1 are already expected" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "more", "message"),
    [
        ("list.py", "def", (), "is not a Python file"),
        ("list.py", "x = 1", (), "contains no DecorateInfo"),
        ("list.txt", LIST, ("--until", "soon"), "--until 'soon'"),
    ],
)
def test_errors_of_the_user(name, text, more, message, target_folder, capsys):
    assert import_exit_code(target_folder, name, text, *more) == 2
    err = capsys.readouterr().err
    assert message in err and "Traceback" not in err


def test_a_target_without_the_expectations_key(target_folder, capsys):
    file = target_folder / "mine.toml"
    file.write_text(file.read_text().replace('expectations = "expectations"\n', ""))
    assert import_exit_code(target_folder, "list.txt", LIST, "--write") == 2
    assert "has no key 'expectations'" in capsys.readouterr().err
