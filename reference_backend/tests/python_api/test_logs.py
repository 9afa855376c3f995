"""Test the log: modules, levels, masks, files of ranks, forks, full disks, and torch's own log settings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.settings import log_settings

LINE = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\]\[(PT_\w+)\]\[(trace|debug|info|warning|error|critical)\]"
    r"\[\d+:\d+\] (.*)"
)
PROGRAM = """\
x = torch.ones(4, 4, device="hpu")
y = (x @ x).relu().cpu()
stream = torch.hpu.Stream()
with torch.hpu.stream(stream):
    stream.record_event().synchronize()
graph = torch.hpu.HPUGraph()
with torch.hpu.graph(graph):
    x + 1
graph.replay()
torch.hpu.synchronize()
"""


def parse_log(text: str) -> list[tuple[str, str, str]]:
    """Assert that all lines have the log format, and return module, level and text of each line."""
    matches = [LINE.fullmatch(line) for line in text.splitlines()]
    assert all(matches), text
    return [match.groups() for match in matches if match]  # type: ignore[misc]


def logged_modules(text: str) -> set[str]:
    return {module for module, _, _ in parse_log(text)}


def test_nothing_is_written_by_default(python, tmp_path):
    done = python(PROGRAM, HABANA_LOGS=str(tmp_path))
    assert (done.stdout, done.stderr, list(tmp_path.iterdir())) == ("", "", [])


def test_every_module_logs_lines_of_one_format(python, tmp_path):
    more = (
        "torch.ones(3).pin_memory()\n"
        "from habana_frameworks.torch.utils import debug\ndebug._hb_print('of the program')\n"
        "try:\n    torch.empty(1 << 50, device='hpu')\nexcept torch.OutOfMemoryError:\n    pass\n"
    )
    python(PROGRAM + more, HABANA_LOGS=str(tmp_path), LOG_LEVEL_ALL="0")
    lines = parse_log((tmp_path / "pytorch_log.txt").read_text())
    assert ("PT_DEVICE", "info", "the device is acquired") in lines
    assert ("PT_HPUGRAPH", "info", "captured 1 operators") in lines
    assert ("PT_PYTHON", "info", "of the program") in lines
    texts = {(module, level): text for module, level, text in lines}
    assert texts["PT_KERNEL", "trace"].startswith("aten::")
    assert "aten::copy_ (device to host): stream 0" in "\n".join(text for _, _, text in lines)
    assert "no memory for 4503599627370496 bytes" in texts["PT_DEVMEM", "error"]
    assert {"PT_PINNED", "PT_SYNHELPER", "PT_MEMLOG", "PT_RECIPE_STATS"} <= {module for module, _ in texts}


@pytest.mark.nightly("each case starts a process; all cases read one table of masks", every=4)
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"LOG_LEVEL_PT_KERNEL": "0"}, {"PT_KERNEL"}),
        ({"LOG_LEVEL_PT_KERNEL": "trace", "LOG_LEVEL_ALL": "6"}, {"PT_KERNEL"}),
        ({"LOG_LEVEL_ALL_PT": "2"}, {"PT_DEVICE", "PT_HPUGRAPH", "PT_MEMLOG", "PT_RECIPE_STATS"}),
        ({"LOG_LEVEL_ALL_PT": "2", "LOG_LEVEL_PT_DEVICE": "5", "LOG_LEVEL_PT_MEMLOG": "off"},
         {"PT_HPUGRAPH", "PT_RECIPE_STATS"}),
        ({"LOG_LEVEL_ALL": "0", "LOG_LEVEL_ALL_PT": "4"}, set()),
        ({"PT_HPU_LOG_MOD_MASK": "0x2"}, {"PT_KERNEL"}),
        ({"PT_HPU_LOG_MOD_MASK": "a", "PT_HPU_LOG_TYPE_MASK": "F"}, {"PT_KERNEL", "PT_SYNHELPER"}),
        ({"PT_HPU_LOG_MOD_MASK": "0xA", "PT_HPU_LOG_TYPE_MASK": "0x8"}, {"PT_SYNHELPER"}),
        ({"PT_HPU_LOG_MOD_MASK": "FF", "PT_HPU_LOG_TYPE_MASK": "1"}, set()),
        ({"PT_ENABLE_SYNLAUNCH_TIME_CAPTURE": "true"}, {"PT_SYNHELPER"}),
        ({"PT_ENABLE_REALTIME_MEMORY_LOGGING": "1"}, {"PT_DEVMEM"}),
        ({"PT_ENABLE_LIGHTWEIGHT_MEMORY_USAGE_LOGGING": "1"}, {"PT_MEMLOG"}),
        ({"PT_HPU_MEM_STATS_DUMP": "1"}, {"PT_MEMLOG"}),
    ],
)  # fmt: skip
def test_levels_masks_and_flags_select_the_lines(python, tmp_path, variables, expected):
    python(PROGRAM, HABANA_LOGS=str(tmp_path), **variables)
    path = tmp_path / "pytorch_log.txt"
    assert logged_modules(path.read_text() if path.exists() else "") == expected


@pytest.mark.parametrize(
    ("variable", "text", "problem"),
    [
        ("PT_HPU_LOG_MOD_MASK", "0xZ", "is not a mask. Use a hexadecimal number, 0x1 to 0xff"),
        ("PT_HPU_LOG_MOD_MASK", "-1", "is not a mask"),
        ("PT_HPU_LOG_TYPE_MASK", "all", "is not a mask. Use a hexadecimal number, 0x1 to 0xf"),
    ],
)
def test_invalid_mask_raises(monkeypatch, variable, text, problem):
    monkeypatch.setenv(variable, text)
    with pytest.raises(ValueError, match=problem) as failure:
        log_settings.read_log_settings(_C.log_modules())
    assert variable in str(failure.value)


@pytest.mark.parametrize(
    ("variable", "text", "problem"),
    [
        ("LOG_LEVEL_ALL", "7", "is not a log level. Use 0 to 6"),
        ("LOG_LEVEL_ALL", "\u00b2", "is not a log level"),
        ("LOG_LEVEL_PT_KERNEL", "loud", "is not a log level"),
        ("ENABLE_CONSOLE", "perhaps", "is not a switch"),
        ("PT_LOG_FILE_SIZE_MB", "0.5", "is not an accepted integer"),
        (
            "PT_HPU_LOG_MOD_MASK",
            "128",
            "is the hexadecimal number 0x128, but only the bits of 0xff have a meaning",
        ),
    ],
)
def test_invalid_setting_that_other_software_reads_warns(monkeypatch, variable, text, problem):
    monkeypatch.setenv(variable, text)
    with pytest.warns(RuntimeWarning, match=problem) as caught:
        settings = log_settings.read_log_settings(_C.log_modules())
    assert variable in str(caught[0].message)
    assert not settings.writes_below_critical("PT_KERNEL")


@pytest.mark.parametrize(
    ("level_name", "number"), [("WARN", 3), ("err", 4), ("fatal", 5), (" 0 ", 0), ("off", 6)]
)
def test_levels_have_the_usual_names(level_name, number):
    assert log_settings.parse_log_level(level_name) == number


@pytest.mark.parametrize("folder", ["", "~nosuchuser/logs"])
def test_without_a_home_the_log_is_in_the_current_folder(monkeypatch, folder):
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}["nobody"])
    monkeypatch.setenv("HABANA_LOGS", folder)
    assert log_settings.read_log_settings(_C.log_modules()).folder == Path(".habana_logs")


def test_levels_that_the_program_set_are_unchanged(python, tmp_path):
    before = "import logging\nlogging.getLogger('habana_frameworks.torch.profiler').setLevel(logging.ERROR)"
    done = python("print(logging.getLogger('habana_frameworks.torch.profiler').level)", before=before)
    assert done.stdout == "40\n"


def test_an_unknown_module_warns_and_a_known_silent_module_does_not(monkeypatch, recwarn):
    monkeypatch.setenv("LOG_LEVEL_PT_TOWL", "1")
    log_settings.read_log_settings(_C.log_modules())
    assert not recwarn
    monkeypatch.setenv("LOG_LEVEL_PT_KERNELS", "1")
    with pytest.warns(
        RuntimeWarning, match=r"log module PT_KERNELS does not exist\. Use PT_DEVICE, PT_KERNEL"
    ):
        log_settings.read_log_settings(_C.log_modules())


def test_console_shows_the_lines_of_the_file(python, tmp_path):
    done = python(PROGRAM, HABANA_LOGS=str(tmp_path), LOG_LEVEL_PT_KERNEL="0", ENABLE_CONSOLE="true")
    assert done.stdout == (tmp_path / "pytorch_log.txt").read_text() != ""


@pytest.mark.nightly("each case starts ranks", every=3)
@pytest.mark.parametrize(
    ("variables", "folder"), [({"RANK": "3"}, "3"), ({"ID": "5"}, "5"), ({"ID": "ubuntu"}, ".")]
)
def test_ranks_have_subfolders(python, tmp_path, variables, folder):
    python(PROGRAM, HABANA_LOGS=str(tmp_path), LOG_LEVEL_PT_KERNEL="0", **variables)
    assert logged_modules((tmp_path / folder / "pytorch_log.txt").read_text()) == {"PT_KERNEL"}


def test_fallbacks_are_counted_at_the_end(python, tmp_path):
    script = "a = torch.ones(2, 2, device='hpu')\na.tril(); a.tril(); a.lgamma_()"
    done = python(
        script,
        HABANA_LOGS=str(tmp_path),
        HPU_REFERENCE_FALLBACK_OPS="tril,lgamma_",
        ENABLE_CONSOLE="true",
        LOG_LEVEL_PT_FALLBACK="1",
    )
    assert [text for _, _, text in parse_log(done.stdout)] == [
        "CPU fallback tril : self=HPUFloatType",
        "CPU fallback tril : self=HPUFloatType",
        "CPU fallback lgamma_ : self=HPUFloatType",
        "Frequency of op and op name that were executed on CPU:",
        "2\taten::tril",
        "1\taten::lgamma_",
    ]


def log_file(folder: Path) -> Path:
    return folder / "pytorch_log.txt"


def unwritable_folder(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file" / "logs"


def folder_with_full_log(folder: Path) -> Path:
    log_file(folder).symlink_to("/dev/full")
    return folder


def folder_with_pipe_log(folder: Path) -> Path:
    os.mkfifo(log_file(folder))
    return folder


@pytest.mark.parametrize("place", [unwritable_folder, folder_with_full_log, folder_with_pipe_log])
def test_a_log_that_cannot_be_written_costs_one_message(
    python, tmp_path, place: Callable[[Path], Path]
) -> None:
    done = python(PROGRAM + "print(y.sum().item())", HABANA_LOGS=str(place(tmp_path)), LOG_LEVEL_ALL="0")
    assert done.returncode == 0
    assert done.stdout == "64.0\n"
    (message,) = done.stderr.splitlines()
    assert re.fullmatch(
        r"hpu: the log cannot be written to \S+ \(.+\); the program continues without it: .+", message
    )


def test_a_closed_console_costs_one_message(python, tmp_path):
    done = python(
        PROGRAM + "import os\nos.close(1)\nx.exp(); x.exp()",
        HABANA_LOGS=str(tmp_path),
        LOG_LEVEL_PT_KERNEL="0",
        ENABLE_CONSOLE="1",
    )
    assert done.stderr.count("the log cannot be written to the standard output") == 1
    assert log_file(tmp_path).read_text().count("aten::exp") == 2


FORKS = """\
import os, threading
ended = threading.Event()
def works():
    x = torch.ones(8, device="hpu")
    while not ended.is_set():
        (x + 1).neg()
threads = [threading.Thread(target=works) for _ in range(3)]
[thread.start() for thread in threads]
for _ in range(150):
    child = os.fork()
    if child == 0:
        habana_frameworks.torch._C.write_log("PT_PYTHON", 2, "the child")
        os._exit(0)
    os.waitpid(child, 0)
ended.set()
"""


@pytest.mark.nightly("repeats forks for seconds to meet a rare order of events")
def test_a_fork_while_other_threads_log_can_log(python, tmp_path):
    done = python(FORKS, HABANA_LOGS=str(tmp_path), LOG_LEVEL_ALL="0", PT_LOG_FILE_SIZE_MB="500", timeout=200)
    assert done.returncode == 0, done.stderr
    assert log_file(tmp_path).read_text().count("] the child") == 150


READER = """\
import os, threading, time
reader, writer = os.pipe()
before = os.dup(1)
os.dup2(writer, 1)
{setting}
read = []
def reads():
    while data := os.read(reader, 65536):
        read.append(data)
thread = threading.Thread(target=reads)
thread.start()
event = torch.Event(device="hpu")
for _ in range({count}):
    event.record()  # holds the GIL
os.dup2(before, 1); os.close(writer)
thread.join()
lines = b"".join(read).decode().splitlines()
whole = [line.startswith("[") and line.endswith(("stream 0", "the device is acquired")) for line in lines]
print(len(lines), all(whole))
"""


def test_a_console_that_this_process_reads_does_not_deadlock(python, tmp_path):
    script = READER.format(setting="", count=3000)
    done = python(script, HABANA_LOGS=str(tmp_path), LOG_LEVEL_PT_DEVICE="0", ENABLE_CONSOLE="1", timeout=120)
    assert done.returncode == 0, done.stderr
    number, whole = done.stdout.split()[-2:]
    assert int(number) >= 500 and log_file(tmp_path).read_text().count("an event") == 3000
    assert whole == "True" or int(number) < 3000  # messages that exceeded the buffer were dropped


def test_a_console_that_does_not_block_gets_whole_lines(python, tmp_path):
    script = READER.format(setting="os.set_blocking(writer, False)", count=300)
    done = python(script, HABANA_LOGS=str(tmp_path), LOG_LEVEL_PT_DEVICE="0", ENABLE_CONSOLE="1", timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-2]) >= 300


MANY = """\
import os, threading
def work(number):
    for i in range(300):
        habana_frameworks.torch._C.write_log("PT_PYTHON", 2, f"{number} {i} " + "x" * 1000)
children = [os.fork() for _ in range(2)]  # four processes
threads = [threading.Thread(target=work, args=(f"{os.getpid()}/{i}",)) for i in range(2)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
for child in children:
    if child:
        try:
            os.waitpid(child, 0)
        except ChildProcessError:  # the child of a sibling process
            pass
"""


def test_processes_and_threads_share_a_file_line_by_line(python, tmp_path):
    python(MANY, HABANA_LOGS=str(tmp_path), LOG_LEVEL_PT_PYTHON="2", PT_LOG_FILE_SIZE_MB="100")
    texts = [text for _, _, text in parse_log(log_file(tmp_path).read_text())]
    assert len(texts) == len(set(texts)) == 4 * 2 * 300


def test_full_files_are_rotated(python, tmp_path):
    python(
        MANY,
        HABANA_LOGS=str(tmp_path),
        LOG_LEVEL_PT_PYTHON="2",
        PT_LOG_FILE_SIZE_MB="1",
        PT_LOG_FILE_AMOUNT="3",
    )
    files = {path.name: path for path in tmp_path.iterdir()}
    older = files.keys() - {"pytorch_log.txt"}
    # The second file may be missing: if one process is suspended during log rotation, the other processes
    # continue to fill the current file.
    assert older in ({"pytorch_log.1.txt"}, {"pytorch_log.1.txt", "pytorch_log.2.txt"})
    texts = [text for path in files.values() for _, _, text in parse_log(path.read_text())]
    # The lines have 2.4 MB in total. The kept files have room for all lines, so no line is lost.
    assert len(texts) == len(set(texts)) == 4 * 2 * 300
    assert all(files[name].stat().st_size >= 1 << 20 for name in older)


def test_one_file_is_kept_if_the_limit_is_one(python, tmp_path):
    python(
        MANY,
        HABANA_LOGS=str(tmp_path),
        LOG_LEVEL_PT_PYTHON="2",
        PT_LOG_FILE_SIZE_MB="1",
        PT_LOG_FILE_AMOUNT="1",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["pytorch_log.txt"]


def test_a_level_can_change_while_the_program_runs(python, tmp_path):
    script = (
        "from habana_frameworks.torch.utils.debug.logger import enable_logging\n"
        "x = torch.ones(3, device='hpu')\nenable_logging('PT_KERNEL', 'trace'); x.neg()\n"
        "enable_logging('PT_KERNEL', 'off'); x.exp()"
    )
    python(script, HABANA_LOGS=str(tmp_path))
    (line,) = parse_log(log_file(tmp_path).read_text())
    assert line[2].startswith("aten::neg")


def test_kernels_are_logged_during_and_after_a_profile(python, tmp_path):
    script = (
        "from torch.profiler import profile, ProfilerActivity\nx = torch.ones(3, device='hpu')\n"
        "with profile(activities=[ProfilerActivity.HPU]) as found:\n    x.neg()\n"
        "x.exp()\nprint(habana_frameworks.torch._C.is_tracing())"
    )
    done = python(script, HABANA_LOGS=str(tmp_path), LOG_LEVEL_PT_KERNEL="0")
    assert done.stdout.splitlines()[-1] == "False"
    kernels = [
        text.partition(":  ")[0].split(": ")[0] for _, _, text in parse_log(log_file(tmp_path).read_text())
    ]
    assert kernels[-2:] == ["aten::neg", "aten::exp"]


def test_launches_of_lazy_graphs_are_logged(python, tmp_path):
    script = (
        "core = habana_frameworks.torch._C\ncore.lazy_start(1, 0)\nx = torch.ones(4, device='hpu')\n"
        "for _ in range(3):\n    y = (x * 2).relu()\n    core.lazy_flush(True)\n"
    )
    python(script, HABANA_LOGS=str(tmp_path), LOG_LEVEL_PT_LAZY="1", PT_HPU_MEM_STATS_DUMP="1")
    lines = parse_log(log_file(tmp_path).read_text())
    launches = [text for module, _, text in lines if module == "PT_LAZY"]
    assert len(launches) == 3 and all("operators, launch" in text for text in launches)
    totals = [text for module, _, text in lines if module == "PT_MEMLOG"]
    assert len(totals) == 3 and all(text.startswith("at a launch: ") for text in totals)


def test_a_logged_warning_is_still_printed(python, tmp_path):
    script = (
        "import logging\nlogging.getLogger('habana_frameworks.torch.utils.internal').warning('seen')\n"
        "logging.getLogger('habana_frameworks.torch.utils.internal').info('logged')"
    )
    done = python(script, HABANA_LOGS=str(tmp_path), LOG_LEVEL_PT_BRIDGE="2")
    assert done.stderr == "seen\n"
    logged_lines = parse_log(log_file(tmp_path).read_text())
    assert logged_lines == [("PT_BRIDGE", "warning", "seen"), ("PT_BRIDGE", "info", "logged")]


COMPILED = (
    "x = torch.ones(4, device='hpu')\n"
    "print(torch.compile(lambda a: (a * 2).sin(), backend='hpu_backend')(x).cpu()[0] > 0.9)"
)


@pytest.mark.nightly("compiles; compile/test_backend.py tests the logger")
def test_torch_logs_show_the_compile_backend_and_its_recipes(run_python, entry_point_arguments):
    done = run_python(
        f"import torch\n{COMPILED}", **entry_point_arguments, TORCH_LOGS="+hpu_backend,hpu_recipes"
    )
    assert done.stdout == "tensor(True)\n", done.stderr
    assert "[__hpu_recipes]" in done.stderr
    assert "%sin = aten::sin(%mul)" in done.stderr
    assert "[PT_COMPILE] graph_0_inference compiled in" in done.stderr


@pytest.mark.nightly("each case compiles in a new process", every=2)
@pytest.mark.parametrize("autoload", ["0", "1"])
def test_compile_backend_logs_to_the_log_and_to_handlers_of_the_program(
    run_python, entry_point_arguments, tmp_path, autoload
):
    script = (
        "import logging\nlogging.basicConfig(format='ROOT %(message)s')\n"
        "import torch, habana_frameworks.torch\n"
        "logging.getLogger('habana_frameworks.torch.dynamo.lines').warning('seen')"
    )
    entry_point_arguments |= {"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload}
    for level, logged in (("3", [("PT_COMPILE", "warning", "seen")]), ("5", [])):
        folder = tmp_path / f"logs{level}"
        done = run_python(
            script, **entry_point_arguments, HABANA_LOGS=str(folder), LOG_LEVEL_PT_COMPILE=level
        )
        assert done.stderr == "ROOT seen\n"
        text = log_file(folder).read_text() if folder.exists() else ""
        assert parse_log(text) == logged


@pytest.mark.nightly("compiles in a new process; the format belongs to torch")
def test_structured_traces_contain_the_recipes(run_python, tmp_path):
    done = run_python(f"import torch, habana_frameworks.torch\n{COMPILED}", TORCH_TRACE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    text = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert '"name": "hpu_recipe_graph_0_inference_0"' in text
    assert "%sin = aten::sin(%mul)" in text


@pytest.mark.nightly("compiles in a new process; the format belongs to torch")
def test_tlparse_reads_the_structured_traces(run_python, tmp_path):
    tlparse = shutil.which("tlparse", path=str(Path(sys.executable).parent))
    if tlparse is None:
        pytest.skip("tlparse is not installed.")
    run_python(f"import torch, habana_frameworks.torch\n{COMPILED}", TORCH_TRACE=str(tmp_path / "trace"))
    (trace,) = (tmp_path / "trace").glob("*.log")
    command = [tlparse, str(trace), "-o", str(tmp_path / "pages"), "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Stats \{ ok: \d+ \}", done.stderr)  # tlparse counts only successes
    (page,) = (tmp_path / "pages").rglob("hpu_recipe_graph_0_inference_0_*.txt")
    assert "%sin = aten::sin(%mul)" in page.read_text()


def test_graphs_that_cannot_be_written_cost_one_warning(run_python, tmp_path):
    script = (
        "import torch, habana_frameworks.torch\nx = torch.ones(4, device='hpu')\n"
        "for i in range(2):\n    graph = torch.hpu.HPUGraph()\n"
        "    with torch.hpu.graph(graph):\n        y = x + i\n    graph.replay()\nprint(y.sum().item())"
    )
    done = run_python(
        script,
        GRAPH_VISUALIZATION="1",
        PT_HPU_GRAPH_DUMP_PREFIX=str(unwritable_folder(tmp_path)),
    )
    assert done.stdout == "8.0\n", done.stderr
    assert done.stderr.count("RuntimeWarning") == 1
