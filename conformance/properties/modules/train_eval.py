"""Property ``train-eval``: train and eval mode affect flags, running statistics and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework.compare import compare_exact, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.trees import leaves, tensors
from conformance.model.verdicts import Kind
from conformance.oracle.observed_modules import Cotangents, ModuleProcedure, Observation, observe_call
from conformance.properties.modules import _module_checks as common
from conformance.samples.modules import Arguments, ModuleSample, module_samples
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Modules that return their input in eval mode.
IDENTITY_IN_EVAL = ("nn.Dropout", "nn.AlphaDropout", "nn.FeatureAlphaDropout")


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    return common.supported_dtypes(target, subject)[:2] if subject.info.train_and_eval_differ else []


def _run_train_train_eval(
    module: torch.nn.Module, arguments: Arguments, cotangents: Cotangents
) -> Observation:
    """Make two calls in train mode and one in eval mode. Return the observations of the last two calls."""
    args, kwargs = arguments
    observation: Observation = {}
    with torch.no_grad():
        module.train()
        module(*args, **kwargs)
        for name, value in observe_call(module, arguments).items():
            observation[f"{name} in train mode"] = value.clone() if isinstance(value, torch.Tensor) else value
        module.eval()
        for name, value in observe_call(module, arguments).items():
            observation[f"{name} in eval mode"] = value
    return observation


TRAIN_TRAIN_EVAL = ModuleProcedure("train, train, eval", _run_train_train_eval)


def _is_train_sample(sample: ModuleSample) -> bool:
    """Return whether the sample is for train mode. In train mode, modules may reject eval samples."""
    return sample.training


@register(
    "train-eval",
    subject_kind="module",
    statement="Train mode updates running statistics as on the CPU. Eval mode changes no running "
    "statistics and applies no dropout.",
    documentation="generated/torch.nn.Module.html",
    level="core",
    applies=dtypes_to_check,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the module in train and eval mode on the target, and compare outputs and running statistics with
    the reference.
    """
    if getattr(subject.info, "random", False):
        _check_dropout_identity_in_eval(target, subject, recorder)
        return
    for sample, reference in common.samples_with_references(
        subject, recorder, TRAIN_TRAIN_EVAL, 4, such_that=_is_train_sample
    ):
        _check_training_flags(target, recorder, sample)
        outcome = common.run_procedure(target, sample, TRAIN_TRAIN_EVAL, reference)
        if not common.require_success(
            target, recorder, outcome, f"train and eval of {sample.describe()}", sample.index
        ):
            continue
        observation: Observation = outcome.value
        common.compare_observation(target, recorder, subject, sample, observation, reference)
        for name, before in observation.items():
            if name.startswith("buffer") and name.endswith("in train mode"):
                after = observation[name.replace("in train mode", "in eval mode")]
                compare_exact(
                    recorder, after, before, label=f"{name} after a call in eval mode", sample=sample.index
                )


def _check_training_flags(target: Target, recorder: Recorder, sample: ModuleSample) -> None:
    """Check that train() and eval() return the module and set the flag of every submodule."""

    def toggle_modes() -> Any:
        module = sample.module().to(target.torch_device)
        returned = [module.train() is module]
        train = [part.training for part in module.modules()]
        returned.append(module.eval() is module)
        return returned, train, [part.training for part in module.modules()]

    outcome = common.attempt_on_target(target, toggle_modes)
    if common.require_success(
        target, recorder, outcome, f"train() and eval() of {sample.describe()}", sample.index
    ):
        returned, train, evaluating = outcome.value
        is_correct = all(returned) and all(train) and not any(evaluating)
        text = f"train() or eval() does not return the module or misses a part of {sample.describe()}."
        fact(recorder, is_correct, Kind.STATE, text, sample=sample.index)


def _check_dropout_identity_in_eval(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the flags of modules that draw random numbers, and that dropout modules return their input in
    eval mode.
    """
    samples = module_samples(subject, common.dtype_under_test(recorder))
    random_samples = samples.chosen(2, random=True)
    recorder.samples(len(random_samples), samples.available)
    for sample in random_samples:
        _check_training_flags(target, recorder, sample)
        if not subject.name.startswith(IDENTITY_IN_EVAL):
            continue

        def call(sample: ModuleSample = sample) -> Any:
            module, (args, kwargs) = common.copy_to_device(target, sample)
            with torch.no_grad():
                return module.eval()(*args, **kwargs)

        outcome = common.attempt_on_target(target, call)
        if common.require_success(
            target, recorder, outcome, f"eval mode of {sample.describe()}", sample.index
        ):
            for actual, expected in zip(leaves(outcome.value), tensors(sample.call), strict=True):
                compare_exact(
                    recorder, actual, expected, label=f"{sample.describe()} in eval mode", sample=sample.index
                )
