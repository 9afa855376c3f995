"""Read and validate target files, the TOML descriptions of backends, without importing torch."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.errors import UsageError
from conformance.model.records import TargetDeclarations
from conformance.model.vocabulary import CAPABILITIES, MODES, PARITY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from conformance.target.target import Target

SCHEMA = 1
PRECISIONS = ("ieee", "tf32", "flush-denormals")
#: Hooks: names under which a target file lists functions of its backend, with the effect of each.
HOOKS: dict[str, str] = {
    "synchronize": "() -> None: waits for the device",
    "manual_seed": "(seed) -> None: seeds the generator of each device",
    "device_count": "() -> number of devices",
    "memory_allocated": "() -> number of allocated bytes of the current device",
    "count_fallbacks": "() -> number of calls that fell back to the CPU so far: in total, or by operator",
    "delay": "(seconds) -> None: enqueues work of this duration on the current stream and returns at once",
    "graph": "() -> object with capture_begin(), capture_end() and replay()",
    "mark_step": "() -> None: ends the graph that lazy mode is recording and starts it",
    "executed_ops": "() -> numbers of calls by operator (aten::add.Tensor) that graphs or a queue ran so far",
    "compiled_graphs": "() -> number of graphs that ran so far, by kind of executable",
}
#: Keys of the table [distributed].
_DISTRIBUTED_KEYS = ("backend", "device_per_rank")
#: Keys of the table [compile].
_COMPILE_KEYS = ("backend", "options", "fused_options")
#: The value of a capability that the device does not have and whose use crashes the process.
CRASHES = "crashes"
#: The dtypes that the CPU has. A target file without ``dtypes`` declares these dtypes.
DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "complex32",
    "complex64",
    "complex128",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
#: Every key and table of a target file, with its meaning.
KEYS: dict[str, str] = {
    "schema": "version of this format, 1",
    "name": "name of the target; default: the name of the file",
    "module": "Python module whose import registers the device; none for the CPU",
    "device": "device type, as in `torch.device`",
    "modes": "modes that the device has",
    "precision": "class of precision, which certificates print; tolerances cannot be set",
    "parity": "`strict` if undocumented deviations from the CPU fail, else `apart`, the default",
    "dtypes": "names of dtypes that the device has; default: the CPU's",
    "expectations": "folder or file of your own expectations; its path is relative to this file",
    "capabilities": 'table: capability = false if it is not declared, "crashes" if its use ends the process',
    "unsupported": "table: pattern of result ids = reason why the device may refuse these results",
    "operators": "table by operator: `dtypes` in which the operator is declared",
    "hooks": "table: name of a hook = function of your backend, as module:function",
    "environment": "table of environment variables; a subtable with the name of a mode is for that mode only",
    "compile": "table: `backend` of torch.compile, its `options`, and `fused_options` that fuse operators",
    "autocast": "table: lists `lower`, `lower_first`, `float32`, `promote` of operators that autocast casts",
    "distributed": "table: `backend` of process groups, and `device_per_rank`",
    "mode_builds": "table: mode = build of torch that the mode needs",
    "rehearse": "modes in which each check runs twice and the second run counts; default: lazy",
    "simulated": "true if the device is simulated; every page with its results states this",
    "untested": "true until a run has verified this file",
}
#: The lists of operators that autocast casts. It casts the arguments to the lower dtype (``lower``), only the
#: first argument to the lower dtype (``lower_first``), the arguments to float32 (``float32``), or the
#: arguments to their widest dtype (``promote``).
AUTOCAST_LISTS = ("lower", "lower_first", "float32", "promote")
#: Builds of torch on which a mode can run.
BUILDS = ("any", "public", "fork-like")
_FOLDER = Path(__file__).parent / "known"


@dataclasses.dataclass(frozen=True)
class TargetFile:
    """A validated target file.

    ``environment`` maps ``""`` to the variables of every mode, and a mode to its own variables.
    ``expectations`` is the folder or file with the vendor's own expectations, or None.

    The table ``[compile]`` has the ``backend`` of ``torch.compile`` (default ``inductor``), its ``options``,
    and ``fused_options``, with which the backend fuses several operators into one kernel. The table
    ``[autocast]`` has the backend's documented lists (:data:`AUTOCAST_LISTS`). The table ``[distributed]``
    has the ``backend`` of process groups (default: torch's default for the device). With ``device_per_rank``,
    rank N uses device N, because each process can access all devices. Otherwise a rank uses the only device
    that its process can access.

    ``mode_builds`` maps a mode to the builds of torch that the mode needs (default ``any``). In the modes of
    ``rehearse`` (default: lazy), each check runs twice and only the second run counts, because a device may
    run the first call of each kind outside its graph. ``simulated`` marks a device without hardware, and
    every page with its results says that it is simulated. ``untested`` marks a file that no run has verified
    yet.
    """

    path: Path
    digest: str
    name: str
    module: str | None
    device: str
    modes: tuple[str, ...]
    precision: str
    parity: str
    dtypes: frozenset[str]
    capabilities: dict[str, bool]
    crashing: frozenset[str]
    unsupported: dict[str, str]
    dtype_overrides: dict[str, frozenset[str]]
    hooks: dict[str, str]
    environment: dict[str, dict[str, str]]
    compile_backend: str
    compile_options: dict[str, Any]
    fused_options: dict[str, Any] | None
    autocast: dict[str, tuple[str, ...]]
    process_group: str | None
    device_per_rank: bool
    mode_builds: dict[str, str]
    rehearse: tuple[str, ...]
    expectations: Path | None
    simulated: bool = False
    untested: bool = False

    @property
    def default_mode(self) -> str:
        """The mode of a command without ``--mode``: ``eager`` if it is declared, otherwise the first mode."""
        return "eager" if "eager" in self.modes else self.modes[0]

    def declared(self) -> TargetDeclarations:
        """Return the declarations of the file about the features of the device, in the form of results
        files.
        """
        return {
            "dtypes": sorted(self.dtypes),
            "capabilities": dict(sorted(self.capabilities.items())),
            "unsupported": dict(self.unsupported),
            "operators": {name: sorted(dtypes) for name, dtypes in sorted(self.dtype_overrides.items())},
            "hooks": sorted(self.hooks),
        }

    def variables(self, mode: str) -> dict[str, str]:
        """Return the environment variables of a process that runs a mode."""
        return {**self.environment.get("", {}), **self.environment.get(mode, {})}

    def check_mode(self, mode: str) -> None:
        """Raise UsageError unless the target declares the mode."""
        if mode not in MODES:
            raise UsageError(f"mode {mode!r} does not exist; use one of {', '.join(MODES)}")
        if mode not in self.modes:
            declared_modes = ", ".join(self.modes)
            raise UsageError(
                f"target {self.name!r} does not declare mode {mode!r}; use {declared_modes} or add it to "
                f"{self.path.name}"
            )

    def target(self, mode: str) -> Target:
        """Return the target in one mode. This imports torch, but not the backend."""
        from conformance.target.target import Target

        return Target(
            name=self.name,
            module=self.module,
            device=self.device,
            dtypes=self.dtypes,
            capabilities=self.capabilities,
            crashing=self.crashing,
            precision=self.precision,
            unsupported=self.unsupported,
            dtype_overrides=self.dtype_overrides,
            hooks=self.hooks,
            modes=self.modes,
            mode=mode,
            compile_backend=self.compile_backend,
            compile_options=self.compile_options,
            autocast=self.autocast,
            process_group=self.process_group,
            device_per_rank=self.device_per_rank,
            fused_options=self.fused_options,
            environment=self.variables(mode),
            rehearses=mode in self.rehearse,
            file=str(self.path.resolve()),
        )


def known_targets() -> list[str]:
    """Return the names of the target files that the suite contains."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def find_target_file(name_or_file: str) -> Path:
    """Return the path of a target file, given by name (``cpu``) or by path (``my.toml``). Raise UsageError if
    the file does not exist.
    """
    if name_or_file.endswith(".toml") or "/" in name_or_file:
        path = Path(name_or_file)
        if not path.is_file():
            raise UsageError(
                f"target file {name_or_file!r} does not exist; write one with 'conformance targets --new'"
            )
        return path
    path = _FOLDER / f"{name_or_file}.toml"
    if not path.is_file():
        valid_names = ", ".join(known_targets())
        raise UsageError(
            f"target {name_or_file!r} does not exist; use one of {valid_names}, or the path of a .toml file"
        )
    return path


def load(name_or_file: str) -> TargetFile:
    """Read and validate a target file, given by name or path; raise UsageError if it is invalid."""
    path = find_target_file(name_or_file)
    content = path.read_bytes()
    try:
        data = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"target file {path} is not TOML: {error}") from None
    return _TargetFileReader(path, data).read(hashlib.sha256(content).hexdigest())


class _TargetFileReader:
    def __init__(self, path: Path, data: dict[str, Any]) -> None:
        self.path = path
        self.data = data

    def error(self, problem: str) -> UsageError:
        return UsageError(f"target file {self.path}: {problem}")

    def error_of_unknown(self, description: str, value: str, valid_values: Any) -> UsageError:
        return self.error(f"unknown {description} {value!r}; known are {', '.join(valid_values)}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.data.get(key, default)
        if not isinstance(value, str) or not value:
            raise self.error(f"{key} is {value!r}; it must be a non-empty string")
        return value

    def table(self, key: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
        value = (self.data if data is None else data).get(key, {})
        if not isinstance(value, dict):
            raise self.error(f"{key} is {value!r}; it must be a table")
        return value

    def checked_words(self, location: str, value: Any, valid_words: tuple[str, ...]) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            raise self.error(f"{location} is {value!r}; it must be a non-empty list of words")
        for item in value:
            if item not in valid_words:
                raise self.error_of_unknown(f"word in {location}:", item, valid_words)
        return tuple(value)

    def read(self, digest: str) -> TargetFile:
        schema = self.data.get("schema")
        if schema != SCHEMA:
            raise self.error(f"schema is {schema!r}; this version of the suite reads schema = {SCHEMA}")
        for key in self.data:
            if key not in KEYS:
                raise self.error_of_unknown("key", key, KEYS)
        precision = self.text("precision", "ieee")
        if precision not in PRECISIONS:
            raise self.error_of_unknown("precision", precision, PRECISIONS)
        parity = self.text("parity", "apart")
        if parity not in PARITY:
            raise self.error_of_unknown("parity", parity, PARITY)
        return TargetFile(
            path=self.path,
            digest=digest,
            name=self.text("name"),
            module=self.text("module") if "module" in self.data else None,
            device=self.text("device"),
            modes=self.checked_words("modes", self.data.get("modes", ["eager"]), MODES),
            precision=precision,
            parity=parity,
            dtypes=frozenset(self.checked_words("dtypes", self.data.get("dtypes", list(DTYPES)), DTYPES)),
            capabilities=self.capabilities(),
            crashing=self.crashing(),
            unsupported=self.unsupported(),
            dtype_overrides=self.operators(),
            hooks=self.hooks(),
            environment=self.environment(),
            compile_backend=self.compile("backend", "inductor"),
            compile_options=self.compile("options", {}),
            fused_options=self.compile("fused_options", None),
            autocast=self.autocast(),
            process_group=self.distributed("backend", str, None),
            device_per_rank=self.distributed("device_per_rank", bool, False),
            mode_builds=self.mode_builds(),
            rehearse=self.checked_words("rehearse", self.data.get("rehearse", ["lazy"]), MODES),
            expectations=self.path.parent / self.text("expectations")
            if "expectations" in self.data
            else None,
            simulated=self.bool_value("simulated"),
            untested=self.bool_value("untested"),
        )

    def bool_value(self, key: str) -> bool:
        value = self.data.get(key, False)
        if not isinstance(value, bool):
            raise self.error(f"{key} is {value!r}; it must be true or false")
        return value

    def capabilities(self) -> dict[str, bool]:
        table = self.table("capabilities")
        for capability, value in table.items():
            if capability not in CAPABILITIES:
                raise self.error_of_unknown("capability", capability, CAPABILITIES)
            if not isinstance(value, bool) and value != CRASHES:
                raise self.error(
                    f'capability {capability} is {value!r}; it must be true, false or "{CRASHES}"'
                )
        return {capability: value is True for capability, value in table.items()}

    def crashing(self) -> frozenset[str]:
        return frozenset(
            capability for capability, value in self.table("capabilities").items() if value == CRASHES
        )

    def unsupported(self) -> dict[str, str]:
        table = self.table("unsupported")
        for pattern, reason in table.items():
            if pattern.count("/") != 1 or pattern.count("@") != 1:
                raise self.error(
                    f"unsupported pattern {pattern!r} is not of the form property/subject@dtype, "
                    "e.g. '*/fft.*@float16'"
                )
            if not isinstance(reason, str) or not reason.strip():
                raise self.error(f"unsupported pattern {pattern!r} has no reason; give one as its value")
        return table

    def operators(self) -> dict[str, frozenset[str]]:
        overrides: dict[str, frozenset[str]] = {}
        for name, entry in self.table("operators").items():
            if not isinstance(entry, dict):
                raise self.error(f"operators.{name} is {entry!r}; it must be a table with the key dtypes")
            for key in entry:
                if key != "dtypes":
                    raise self.error_of_unknown(f"key in operators.{name}:", key, ("dtypes",))
            listed = entry.get("dtypes")
            overrides[name] = frozenset(
                self.checked_words(f"operators.{name}.dtypes", listed, DTYPES) if listed != [] else ()
            )
        return overrides

    def hooks(self) -> dict[str, str]:
        table = self.table("hooks")
        for hook_name, value in table.items():
            if hook_name not in HOOKS:
                raise self.error_of_unknown("hook", hook_name, HOOKS)
            module, colon, attribute = value.partition(":") if isinstance(value, str) else ("", "", "")
            if not (module and colon and attribute):
                raise self.error(f"hook {hook_name} is {value!r}; it must be of the form module:function")
        return table

    def autocast(self) -> dict[str, tuple[str, ...]]:
        """Return the lists of the table [autocast]."""
        lists: dict[str, tuple[str, ...]] = {}
        for key, value in self.table("autocast").items():
            if key not in AUTOCAST_LISTS:
                raise self.error_of_unknown("key in autocast:", key, AUTOCAST_LISTS)
            if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
                raise self.error(f"autocast.{key} is {value!r}; it must be a list of names of operators")
            lists[key] = tuple(value)
        return lists

    def distributed(self, key: str, kind: type, default: Any) -> Any:
        """Return a value of the table [distributed]."""
        table = self.table("distributed")
        for option in table:
            if option not in _DISTRIBUTED_KEYS:
                raise self.error_of_unknown("key in distributed:", option, _DISTRIBUTED_KEYS)
        value = table.get(key, default)
        if value is not default and not isinstance(value, kind):
            raise self.error(f"distributed.{key} is {value!r}; it must be a {kind.__name__}")
        return value

    def compile(self, key: str, default: Any) -> Any:
        """Return a value of the table [compile]: a name, or a table of options for ``torch.compile``."""
        table = self.table("compile")
        for option in table:
            if option not in _COMPILE_KEYS:
                raise self.error_of_unknown("key in compile:", option, _COMPILE_KEYS)
        if key not in table:
            return default
        if key != "backend":
            return self.table(key, table)
        value = table[key]
        if not isinstance(value, str) or not value:
            raise self.error(
                f"compile.backend is {value!r}; it must be the name of a backend of torch.compile"
            )
        return value

    def mode_builds(self) -> dict[str, str]:
        table = self.table("mode_builds")
        for mode, build in table.items():
            if mode not in MODES:
                raise self.error_of_unknown("mode in mode_builds:", mode, MODES)
            if build not in BUILDS:
                raise self.error_of_unknown(f"build in mode_builds.{mode}:", build, BUILDS)
        return table

    def environment(self) -> dict[str, dict[str, str]]:
        variables: dict[str, dict[str, str]] = {"": {}}
        for key, value in self.table("environment").items():
            if isinstance(value, str):
                variables[""][key] = value
                continue
            if not isinstance(value, dict):
                raise self.error(
                    f"environment.{key} is {value!r}; it must be a string, or a table named after a mode"
                )
            if key not in MODES:
                raise self.error_of_unknown("mode in environment:", key, MODES)
            for name, text in value.items():
                if not isinstance(text, str):
                    raise self.error(f"environment.{key}.{name} is {text!r}; it must be a string")
            variables[key] = value
        return variables
