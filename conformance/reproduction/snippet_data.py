"""Compute the data of a snippet: the values of the upper-case names of :mod:`snippet_runtime`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import tolerances
from conformance.oracle import graph_replay_inputs
from conformance.oracle.relations import registry
from conformance.properties.mode_exclusions import exclusion_reasons
from conformance.properties.modules import _module_checks as module_properties
from conformance.properties.operators.dtypes import first_samples_by_dtype
from conformance.reproduction import call_recorder
from conformance.reproduction.module_ast import Place
from conformance.reproduction.rerun import RerunTrial
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.modules import ModuleSamples
from conformance.samples.operators import dtype_of
from conformance.subjects.torch_databases import find

STANDINS = "conformance.reproduction.snippet_runtime"
RELATIONS: Place = ("conformance.oracle.relations.registry", "RELATIONS")
OVERLOAD_RELATIONS: Place = ("conformance.oracle.relations.registry", "OVERLOAD_RELATIONS")
#: Tables of operators in the mode exclusion files.
TABLES = ("no_graph", "no_backward_graph", "no_inplace_graph", "host", "no_kernels", "host_sometimes")


class SnippetData:
    """Computes the value of each upper-case name that the code of a snippet uses.

    ``only`` is the index of the only error input that the snippet uses. If ``rules`` is true, the check runs
    once to record the tolerance rules that it uses.
    """

    def __init__(self, trial: RerunTrial, only: int | None, rules: bool) -> None:
        self.trial = trial
        self.subject = trial.subject
        self.name: str = trial.subject.name
        self.only = only
        self.rules_by_run = rules
        values: dict[str, Callable[[], Any]] = {
            "SAMPLES": lambda: {
                (dtype_of(key[1]), key[2]): samples for key, samples in self._sample_sets("samples").items()
            },
            "CALLS": lambda: {key[1]: samples for key, samples in self._sample_sets("calls").items()},
            "CALLS_OF_CALLERS": lambda: {
                key[1]: samples for key, samples in self._sample_sets("callers").items()
            },
            "CALLS_ALIKE": lambda: {key[1]: samples for key, samples in self._sample_sets("alike").items()},
            "PROGRAMS": lambda: {key[1]: programs for key, programs in self._sample_sets("programs").items()},
            "REFERENCE_SAMPLES": lambda: {
                dtype_of(key[1]): samples for key, samples in self._sample_sets("reference").items()
            },
            "MODULE_SAMPLES": lambda: {
                dtype_of(name): ModuleSamples(samples) for name, samples in trial.used_sample_sets().items()
            },
            "OPTIMIZER_SAMPLES": lambda: {
                (dtype_of(name), capturable): samples
                for (name, capturable), samples in trial.used_sample_sets().items()
            },
            "RULES": self._rules,
            "REASONS": self._exclusion_reasons,
            "ERROR_INPUTS": self._error_inputs,
            "MODULE_ERROR_INPUTS": self._module_error_inputs,
            "OPTIMIZER_ERROR_INPUTS": self._optimizer_error_inputs,
            "BACKWARD_DTYPES": lambda: torch_testing_internals.backward_dtypes(self._unmodified_op_info()),
            "FORWARD_DTYPES": lambda: torch_testing_internals.forward_dtypes(self._unmodified_op_info()),
            "FIRST_SAMPLES": lambda: first_samples_by_dtype(self.name),
            "OTHERS": self._samples_of_other_seeds,
        }
        self.values = {(STANDINS, name): value for name, value in values.items()}
        of_overload = self.subject.kind == "overload"
        tables = {RELATIONS: ({} if of_overload else registry.RELATIONS, self.name)}
        tables[OVERLOAD_RELATIONS] = (
            registry.OVERLOAD_RELATIONS if of_overload else {},
            base_name(self.name),
        )
        for replaced_table, (relations, subject_name) in tables.items():
            self.values[replaced_table] = functools.partial(_table_with_only_entry, relations, subject_name)

    def _sample_sets(self, set_kind: str) -> dict[Any, list[Any]]:
        return {
            key: samples
            for key, samples in self.trial.used_sample_sets().items()
            if key[0] == set_kind and samples
        }

    def _unmodified_op_info(self) -> Any:
        return find(self.subject.kind, self.name).info

    def _rules(self) -> dict[Any, tolerances.Rule]:
        """Return the tolerance rules that the check may look up.

        If ``rules_by_run`` is true, run the check and record the rules that it looks up.
        """
        rule, rules = tolerances.rule, {}

        def recording_rule(operator: str, dtype: torch.dtype, direction: str = "forward") -> tolerances.Rule:
            rules[(operator, dtype, direction)] = rule(operator, dtype, direction)
            return rules[(operator, dtype, direction)]

        if self.rules_by_run:
            module_properties.tolerance_rule_of.cache_clear()
            with call_recorder.replaced_in_suite_modules(rule, recording_rule):
                self.trial.run()
            module_properties.tolerance_rule_of.cache_clear()
        if self.subject.kind == "operator":
            dtype = getattr(torch, self.trial.id.dtype, torch.float32)
            for direction in tolerances.DIRECTIONS:
                rules.setdefault((self.name, dtype, direction), rule(self.name, dtype, direction))
        # Also list each rule without its dtype: a check may look up another dtype once the failure is
        # fixed.
        return rules | {(operator, direction): value for (operator, _, direction), value in rules.items()}

    def _exclusion_reasons(self) -> dict[tuple[str, str], dict[str, str]]:
        tables = {}
        for mode in ("compile", "graph", "lazy"):
            for table in TABLES:
                try:
                    entries = exclusion_reasons(mode, table).items()
                except LookupError:
                    continue
                own = {key: reason for key, reason in entries if key.split("@")[0] == self.name}
                tables[(mode, table)] = own
        return tables

    def _selected_inputs(self, inputs: Sequence[Any]) -> list[Any]:
        return list(inputs if self.only is None else inputs[self.only : self.only + 1] or inputs)

    def _error_inputs(self) -> list[Any]:
        seed = torch_testing_internals.seed_for("errors", self.name)
        device = self.trial.target.device
        return self._selected_inputs(
            torch_testing_internals.error_inputs(self.subject.info, device, seed=seed)
        )

    def _module_error_inputs(self) -> dict[bool, list[Any]]:
        inputs, dtype = {}, dtype_of(self.trial.id.dtype)
        for training in (True, False):
            seed = torch_testing_internals.seed_for("module errors", self.name, str(training))
            inputs[training] = self._selected_inputs(
                torch_testing_internals.module_error_inputs(
                    self.subject.info, dtype, training=training, seed=seed
                )
            )
        return inputs

    def _optimizer_error_inputs(self) -> list[Any]:
        seed, dtype = (
            torch_testing_internals.seed_for("optimizer errors", self.name),
            dtype_of(self.trial.id.dtype),
        )
        return self._selected_inputs(
            torch_testing_internals.optimizer_error_inputs(self.subject.info, dtype, seed=seed)
        )

    def _samples_of_other_seeds(self) -> dict[Any, list[Any]]:
        """Return samples from other seeds, for graph replays.

        Samples of a seed are omitted if their forms differ from the forms of the samples that they replace.
        """
        samples_by_seed = {}
        for (_, name, grad), samples in self._sample_sets("samples").items():
            for seed_word in graph_replay_inputs.SEEDS:
                drawn = graph_replay_inputs.other_samples(self.name, dtype_of(name), grad, seed_word)[
                    : len(samples)
                ]
                if len(drawn) == len(samples) and all(
                    map(graph_replay_inputs.have_same_form, samples, drawn)
                ):
                    samples_by_seed[(dtype_of(name), grad, seed_word)] = drawn
        return samples_by_seed


def _table_with_only_entry(table: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a table with only the item ``name`` of ``table``, or an empty table if it has no such item."""
    return {name: table[name]} if name in table else {}
