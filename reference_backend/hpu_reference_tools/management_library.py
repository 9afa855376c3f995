"""Read the simulated modules (Gaudi cards) and their processes from the management library, by ctypes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).with_name("libhlml.so")
_MEBIBYTE = 1 << 20


class LibraryError(RuntimeError):
    """Error: the management library is missing, or one of its functions has failed."""


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("free", "total", "used")]


class _Utilization(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in ("aip", "memory")]


class _Capabilities(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char * 10) for name in ("speed", "width", "max_speed", "max_width")]


class _Pci(ctypes.Structure):
    _fields_ = [
        ("bus", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 19),
        ("device", ctypes.c_uint),
        ("domain", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("capabilities", _Capabilities),
        ("revision", ctypes.c_uint),
        ("subsystem", ctypes.c_uint),
    ]


@dataclass(frozen=True)
class Process:
    """A live process that uses a module (Gaudi card). Sizes are in bytes."""

    id: int
    module: int
    in_use: int
    max_in_use: int
    name: str


@dataclass(frozen=True)
class Module:
    """State of a module (Gaudi card). Memory is in MiB, power in W, temperature in degrees Celsius."""

    index: int
    name: str
    module_id: int
    bus_id: str
    uuid: str
    serial: str
    memory_total: int
    memory_used: int
    memory_free: int
    utilization: int
    power: int
    power_limit: int
    temperature: int
    clock: int
    processes: tuple[Process, ...]


class ManagementLibrary:
    """The management library ``libhlml.so``, loaded and initialised.

    Raises:
        LibraryError: the library cannot be loaded or initialised.
    """

    def __init__(self) -> None:
        try:
            self._functions = ctypes.CDLL(str(PATH))
        except OSError as error:
            raise LibraryError(
                f"{PATH} could not be loaded ({error}). Reinstall hpu-reference-backend."
            ) from error
        self._call_checked("hlml_init")

    def driver_version(self) -> str:
        """Return the version of the simulated driver."""
        return self._query_version("hlml_get_driver_version")

    def version(self) -> str:
        """Return the version of the management library."""
        return self._query_version("hlml_get_hlml_version")

    def modules(self) -> list[Module]:
        """Return the state of all modules of the simulated node."""
        count = ctypes.c_uint()
        self._call_checked("hlml_device_get_count", ctypes.byref(count))
        processes = self.processes()
        return [self._read_module(index, processes) for index in range(count.value)]

    def processes(self) -> list[Process]:
        """Return the live processes that use the simulated device, sorted by process id."""
        size = 1 << 16
        while True:
            text = ctypes.create_string_buffer(size)
            needed = self._functions.hpu_reference_processes(text, size)
            if needed <= size:
                break
            size = 2 * needed
        records = []
        for line in text.value.decode(errors="replace").split("\n"):
            if not line:
                continue
            number, module, in_use, most, name = line.split(" ", 4)
            records.append(Process(int(number), int(module), int(in_use), int(most), name))
        return records

    def _read_module(self, index: int, processes: list[Process]) -> Module:
        handle = ctypes.c_void_p()
        self._call_checked("hlml_device_get_handle_by_index", index, ctypes.byref(handle))
        memory, rates, pci = _Memory(), _Utilization(), _Pci()
        for function, out in (
            ("hlml_device_get_memory_info", memory),
            ("hlml_device_get_utilization_rates", rates),
            ("hlml_device_get_pci_info", pci),
        ):
            self._call_checked(function, handle, ctypes.byref(out))
        return Module(
            index=index,
            name=self._query_text_value("hlml_device_get_name", handle),
            module_id=self._query_number("hlml_device_get_module_id", handle),
            bus_id=pci.bus_id.decode(),
            uuid=self._query_text_value("hlml_device_get_uuid", handle),
            serial=self._query_text_value("hlml_device_get_serial", handle),
            memory_total=memory.total // _MEBIBYTE,
            memory_used=memory.used // _MEBIBYTE,
            memory_free=memory.total // _MEBIBYTE - memory.used // _MEBIBYTE,
            utilization=rates.aip,
            power=self._query_number("hlml_device_get_power_usage", handle) // 1000,
            power_limit=self._query_number("hlml_device_get_power_management_limit", handle) // 1000,
            temperature=self._query_number("hlml_device_get_temperature", handle, 0),
            clock=self._query_number("hlml_device_get_clock_info", handle, 0),
            processes=tuple(process for process in processes if process.module == index),
        )

    def _call_checked(self, name: str, *arguments: object) -> None:
        status = getattr(self._functions, name)(*arguments)
        if status != 0:
            raise LibraryError(f"the function {name} of libhlml.so has failed with status {status}")

    def _query_version(self, name: str) -> str:
        text = ctypes.create_string_buffer(128)
        self._call_checked(name, text, 128)
        return text.value.decode()

    def _query_text_value(self, name: str, handle: ctypes.c_void_p) -> str:
        text = ctypes.create_string_buffer(128)
        self._call_checked(name, handle, text, 128)
        return text.value.decode()

    def _query_number(self, name: str, handle: ctypes.c_void_p, *arguments: int) -> int:
        number = ctypes.c_uint()
        self._call_checked(name, handle, *arguments, ctypes.byref(number))
        return number.value
