"""hl-smi: show the modules (Gaudi cards) of the simulated node and the processes that use the modules.

Memory, processes and processor load are measured; all other figures are simulated. The output formats are the
formats of the real hl-smi that programs read: the table, ``-v``, ``-L``, ``-q``, and ``-Q FIELDS -f csv``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from .management_library import LibraryError, ManagementLibrary, Module

FIRMWARE = "51.3.0.0"
_FAMILIES = {"HL-205": "gaudi", "HL-225": "gaudi2", "HL-325L": "gaudi3"}
_WIDTH = 79

#: Fields of the option -Q: name -> (unit or "", function that returns the value for a module).
FIELDS: dict[str, tuple[str, Callable[[Module], object]]] = {
    "timestamp": ("", lambda module: datetime.now().strftime("%a %b %d %H:%M:%S %Z %Y").replace("  ", " ")),
    "name": ("", lambda module: module.name),
    "bus_id": ("", lambda module: module.bus_id),
    "driver_version": ("", lambda module: ManagementLibrary().driver_version()),
    "temperature.aip": ("C", lambda module: module.temperature),
    "module_id": ("", lambda module: module.module_id),
    "utilization.aip": ("%", lambda module: module.utilization),
    "memory.total": ("MiB", lambda module: module.memory_total),
    "memory.free": ("MiB", lambda module: module.memory_free),
    "memory.used": ("MiB", lambda module: module.memory_used),
    "index": ("", lambda module: module.index),
    "serial": ("", lambda module: module.serial),
    "uuid": ("", lambda module: module.uuid),
    "power.draw": ("W", lambda module: module.power),
    "ecc.mode.current": ("", lambda module: 1),
    "ecc.mode.pending": ("", lambda module: 1),
    "ecc.errors.uncorrected.aggregate.total": ("", lambda module: 0),
    "ecc.errors.uncorrected.volatile.total": ("", lambda module: 0),
    "ecc.errors.corrected.aggregate.total": ("", lambda module: 0),
    "ecc.errors.corrected.volatile.total": ("", lambda module: 0),
    "ecc.errors.dram.aggregate.total": ("", lambda module: 0),
    "ecc.errors.dram-corrected.aggregate.total": ("", lambda module: 0),
    "ecc.errors.dram.volatile.total": ("", lambda module: 0),
    "ecc.errors.dram-corrected.volatile.total": ("", lambda module: 0),
    "stats.violation.power": ("", lambda module: 0),
    "stats.violation.thermal": ("", lambda module: 0),
}

#: Sections of the option -q: name for the option -d -> (title, function that returns a module's entries).
SECTIONS: dict[str, tuple[str, Callable[[Module], dict[str, object]]]] = {
    "PRODUCT": (
        "Product",
        lambda module: {
            "Product Name": module.name,
            "Model Number": f"hl-{_FAMILIES.get(module.name, 'gaudi')}-simulated",
            "Serial Number": module.serial,
            "Module ID": module.module_id,
            "UUID": module.uuid,
            "Bus Id": module.bus_id,
        },
    ),
    "MEMORY": (
        "Memory Usage",
        lambda module: {
            "Total": f"{module.memory_total} MiB",
            "Used": f"{module.memory_used} MiB",
            "Free": f"{module.memory_free} MiB",
        },
    ),
    "UTILIZATION": ("Utilization", lambda module: {"AIP": f"{module.utilization} %"}),
    "ECC": ("ECC Mode", lambda module: {"Current": "Enabled", "Pending": "Enabled"}),
    "TEMPERATURE": ("Temperature", lambda module: {"AIP": f"{module.temperature} C"}),
    "POWER": (
        "Power Readings",
        lambda module: {"Power Draw": f"{module.power} W", "Power Limit": f"{module.power_limit} W"},
    ),
    "CLOCK": ("Clocks", lambda module: {"SoC": f"{module.clock} MHz"}),
    "PIDS": (
        "Processes",
        lambda module: (
            {
                f"Process ID {process.id}": f"{process.name}, {_mebibytes(process.in_use)} MiB"
                for process in module.processes
            }
            or {"Process": "None"}
        ),
    ),
}


class UsageError(ValueError):
    """The command line requests a module, field, section or format that does not exist."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command ``hl-smi``.

    Returns:
        The exit status: 0, or 1 after an error message.
    """
    try:
        options = _parser().parse_args(arguments)
        library = ManagementLibrary()
        while True:
            print(_requested_output(options, library), flush=True)
            if not options.loop:
                return 0
            time.sleep(options.loop)
    except (UsageError, LibraryError) as error:
        print(f"hl-smi: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # otherwise the interpreter raises a second error when it flushes stdout at exit
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hl-smi", description="Show the simulated HPU modules.")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("-v", "--version", action="store_true", help="show the version")
    kind.add_argument("-L", "--list-aips", action="store_true", help="list the modules")
    kind.add_argument("-q", "--query", action="store_true", help="show all figures as text")
    kind.add_argument(
        "-Q", "--query-aip", "--query-gpu", metavar="FIELDS", help=f"show fields: {','.join(FIELDS)}"
    )
    parser.add_argument(
        "-f", "--format", default="csv", metavar="csv[,noheader][,nounits]", help="format of -Q"
    )
    parser.add_argument(
        "-i", "--id", metavar="ID", help="show only the module with this index, bus id, serial or UUID"
    )
    parser.add_argument("-d", "--display", metavar="SECTIONS", help=f"sections of -q: {','.join(SECTIONS)}")
    parser.add_argument(
        "-l", "--loop", nargs="?", type=_positive_seconds, const=5.0, metavar="SECONDS", help="repeat"
    )
    return parser


def _positive_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _requested_output(options: argparse.Namespace, library: ManagementLibrary) -> str:
    if options.version:
        return f"Habanalabs hl-smi/hlml version hl-{library.version()}-fw-{FIRMWARE} (simulated)"
    modules = _select_modules(library.modules(), options.id)
    if options.list_aips:
        return "\n".join(
            f"AIP {module.index} (hl-{_FAMILIES.get(module.name, 'gaudi')}-{module.name})\n"
            f"\tModule ID   : {module.module_id}\n\tUUID        : {module.uuid}"
            for module in modules
        )
    if options.query_aip is not None:
        return _fields_as_csv(modules, options.query_aip, options.format)
    if options.query or options.display is not None:
        return _query_text(modules, options.display, library)
    return _summary_table(modules, library)


def _select_modules(modules: list[Module], module_id: str | None) -> list[Module]:
    if module_id is None:
        return modules
    matches = [
        module
        for module in modules
        if module_id in (str(module.index), module.bus_id, module.bus_id[5:], module.serial, module.uuid)
    ]
    if not matches:
        raise UsageError(f"no module has the id {module_id!r}. Use an index from 0 to {len(modules) - 1}.")
    return matches


def _fields_as_csv(modules: list[Module], field_names: str, format_text: str) -> str:
    kind, *choices = (part.strip() for part in format_text.split(","))
    if kind != "csv" or not set(choices) <= {"noheader", "nounits"}:
        raise UsageError(
            f"the format {format_text!r} is unknown. Use csv, csv,noheader or csv,noheader,nounits."
        )
    names = [name.strip() for name in field_names.split(",")]
    for name in names:
        if name not in FIELDS:
            raise UsageError(f"the field {name!r} does not exist. Use {', '.join(FIELDS)}.")
    units = "nounits" not in choices
    lines = [] if "noheader" in choices else [", ".join(_column_heading(name, units) for name in names)]
    for module in modules:
        lines.append(", ".join(_field_text(module, name, units) for name in names))
    return "\n".join(lines)


def _column_heading(name: str, units: bool) -> str:
    unit = FIELDS[name][0]
    return f"{name} [{unit}]" if units and unit else name


def _field_text(module: Module, name: str, units: bool) -> str:
    unit, value = FIELDS[name]
    return f"{value(module)} {unit}" if units and unit else str(value(module))


def _query_text(modules: list[Module], sections: str | None, library: ManagementLibrary) -> str:
    section_names = (
        list(SECTIONS) if sections is None else [name.strip().upper() for name in sections.split(",")]
    )
    for name in section_names:
        if name not in SECTIONS:
            raise UsageError(f"the section {name!r} does not exist. Use {', '.join(SECTIONS)}.")
    lines = ["================ HL-SMI LOG ================", ""]
    lines += [_query_line(0, "Timestamp", datetime.now().strftime("%a %b %d %H:%M:%S %Y"))]
    lines += [
        _query_line(0, "Driver Version", library.driver_version()),
        _query_line(0, "Attached AIPs", len(modules)),
        "",
    ]
    for module in modules:
        lines.append(f"[{module.index}] AIP (accel{module.index}) {module.bus_id}")
        for name in section_names:
            title, section = SECTIONS[name]
            lines.append(f"\t{title}")
            lines += [_query_line(2, name, value) for name, value in section(module).items()]
    return "\n".join(lines)


def _query_line(depth: int, name: str, value: object) -> str:
    return "\t" * depth + f"{name:<{40 - 8 * depth}}: {value}"


def _summary_table(modules: list[Module], library: ManagementLibrary) -> str:
    rule = "+" + "-" * (_WIDTH - 2) + "+"
    version = f"hl-{library.version()}-fw-{FIRMWARE}"
    lines = [
        rule,
        _table_row(f" HL-SMI Version:                              {version}"),
        _table_row(f" Driver Version:                              {library.driver_version()}"),
        "|-------------------------------+----------------------+----------------------|",
        "| AIP  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | AIP-Util  Compute M. |",
        "|===============================+======================+======================|",
    ]
    for module in modules:
        usage = f"{module.memory_used}MiB / {module.memory_total}MiB"
        power = f"{module.power}W / {module.power_limit}W"
        load = f"{module.utilization}%"
        lines += [
            f"|{module.index:>4}  {module.name:<14}N/A        |{module.bus_id:>13}     N/A |{0:>21} |",
            f"| N/A  {module.temperature:>3}C   N/A  {power:>12} |{usage:>21} |{load:>7}{'N/A':>14} |",
            "|-------------------------------+----------------------+----------------------+",
        ]
    lines += [
        _table_row(" Compute Processes:                                               AIP Memory"),
        _table_row("  AIP       PID   Type   Process name                             Usage"),
        "|" + "=" * (_WIDTH - 2) + "|",
    ]
    for module in modules:
        for process in module.processes:
            size = f"{_mebibytes(process.in_use)}MiB"
            lines.append(
                _table_row(f"{module.index:>5}{process.id:>10}      C   {process.name[:37]:<37}{size:>10}")
            )
        if not module.processes:
            lines.append(_table_row(f"{module.index:>5}{'N/A':>10}    N/A   {'N/A':<37}{'N/A':>10}"))
    return "\n".join([*lines, "+" + "=" * (_WIDTH - 2) + "+"])


def _table_row(text: str) -> str:
    return f"|{text:<{_WIDTH - 2}}|"


def _mebibytes(size: int) -> int:
    return size >> 20


if __name__ == "__main__":
    sys.exit(main())
