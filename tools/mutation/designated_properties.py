"""The designated property, or the designated API area, of each mutation operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Property, or API area, -> the mutation operators whose mutants this property or area is meant to kill.
_BY_PROPERTY: Mapping[str, Sequence[str]] = {
    "overload-forms": (
        *("last-element", "result-dtype", "result-strides", "aliasing-lost", "aliasing-gained", "bool-byte"),
        *("input-corrupted", "write-lost", "write-partial", "out-not-resized", "negative-dimension"),
        *("low-precision", "late"),
    ),
    "overload-layouts": (
        *("strides-ignored", "expanded-ignored", "grad-strided", "offset-ignored", "write-astray"),
        *("offset-and-strides-ignored", "offset-in-channels-last-ignored", "offset-in-other-rank-ignored"),
    ),
    "overload-values": ("nan-lost", "infinity-lost", "signed-zero-lost", "subnormal-flushed", "int-53-bits"),
    "overload-shapes": ("tail-of-block", "above-size", "scalar-only", "rank", "empty-input", "long-sum"),
    "overload-options": (*("option-ignored", "number-stale", "swapped-arguments", "gradient-of-one-input"),),
    "overload-repeats": ("flaky", "leak", "stale-result"),
    "overload-errors": ("error-missing", "error-type"),
    "overload-random": ("generator-frozen", "generator-overlap"),
    "copying": ("host-not-awaited",),
    "accelerator": (
        *("value-off-by-one", "value-stale", "answer-inverted", "setting-lost"),
        "current-not-set",
        *("context-not-left", "context-not-entered", "call-error-missing", "call-error-type"),
        *("default-returned", "stream-not-set", "one-stream", "never-ready"),
    ),
    "memory": ("value-zero", "statistics-zero"),
    "random": (
        *("seed-ignored", "seed-of-32-bits", "state-without-offset"),
        *(
            "generator-seed-lost",
            "generator-seed-ignored",
            "generator-seed-of-32-bits",
            "generator-seed-kept",
        ),
        *("generator-state-lost", "generator-state-without-offset", "generator-state-stale"),
        *("generator-clone-shared", "generators-shared"),
    ),
    "event_order": ("on-an-idle-stream", "wait-dropped", "ready-too-early"),
    "no_host_wait": ("host-waits", "query-waits"),
    "event_timing": ("time-zero", "time-negative", "time-in-microseconds"),
    "collective-value": (
        *("collective-last-element", "collective-second-rank", "collective-chunk-dropped", "ranks-rotated"),
        *("collective-stale", "collective-input-changed", "reduction-wrong", "average-twice"),
        "root-off-by-one",
    ),
    "collective-handles": ("work-not-awaited",),
    "collective-groups": ("barrier-dropped", "collective-error-missing", "collective-error-type"),
    "compile_value": ("operator-dropped", "key-without-numbers", "key-without-sizes", "graph-stale"),
    "compile_inplace": ("mutation-dropped",),
    "programs": ("write-too-early",),
    "compile_views": ("graph-aliasing-lost",),
    "graph_value": ("replay-dropped", "replay-once"),
    "autocast": ("cast-missing", "cast-to-other-dtype", "cast-stale"),
}
#: Further designated behaviours, for points that overload results rarely call, or only with small tensors.
ALSO_DESIGNATED: Mapping[str, frozenset[str]] = {
    "leak": frozenset({"factories-many-times"}),
    "stale-result": frozenset({"factories-many-times"}),
    "flaky": frozenset({"factories-many-times"}),
    "above-size": frozenset({"large-factories"}),
}
#: Mutation operator -> the property, or API area, that is meant to kill its mutants.
DESIGNATED: Mapping[str, str] = {kind: name for name, group in _BY_PROPERTY.items() for kind in group}
