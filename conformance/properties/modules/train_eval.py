"""Train and eval mode: flags, running statistics, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework.compare import compare_exact, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.trees import leaves, tensors
from conformance.model.verdicts import Kind
from conformance.oracle.observed_modules import Cotangents, Observation, Procedure, observe
from conformance.properties.modules import _module_checks as common
from conformance.samples.modules import Arguments, ModuleSample, module_samples
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Modules that return their input itself in eval mode.
IDENTITY_IN_EVAL = ("nn.Dropout", "nn.AlphaDropout", "nn.FeatureAlphaDropout")


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return common.dtypes_of(target, subject)[:2] if subject.info.train_and_eval_differ else []


def _sequence(module: torch.nn.Module, arguments: Arguments, cotangents: Cotangents) -> Observation:
    """Make two calls in train mode and one in eval mode; return the observations of the last two."""
    args, kwargs = arguments
    observation: Observation = {}
    with torch.no_grad():
        module.train()
        module(*args, **kwargs)
        for name, value in observe(module, arguments).items():
            observation[f"{name} in train mode"] = value.clone() if isinstance(value, torch.Tensor) else value
        module.eval()
        for name, value in observe(module, arguments).items():
            observation[f"{name} in eval mode"] = value
    return observation


SEQUENCE = Procedure("train, train, eval", _sequence)


def _trainable(sample: ModuleSample) -> bool:
    """Return whether the sample is one of train mode: torch may refuse in train mode what it takes in eval
    mode.
    """
    return sample.training


@register(
    "train-eval",
    subject_kind="module",
    statement="Running statistics move in train mode as on the CPU and rest in eval mode, as does dropout.",
    documentation="notes/modules.html",
    level="core",
    applies=applies,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    if getattr(subject.info, "random", False):
        _check_identity(target, subject, recorder)
        return
    for sample, want in common.cases(subject, recorder, SEQUENCE, 4, such_that=_trainable):
        _flags(target, recorder, sample)
        outcome = common.run_on(target, sample, SEQUENCE, want)
        if not common.succeeded(
            target, recorder, outcome, f"train and eval of {sample.describe()}", sample.index
        ):
            continue
        shown: Observation = outcome.value
        common.compare_observation(target, recorder, subject, sample, shown, want)
        for name, before in shown.items():
            if name.startswith("buffer") and name.endswith("in train mode"):
                after = shown[name.replace("in train mode", "in eval mode")]
                compare_exact(
                    recorder, after, before, label=f"{name} after a call in eval mode", sample=sample.index
                )


def _flags(target: Target, recorder: Recorder, sample: ModuleSample) -> None:
    def toggled() -> Any:
        module = sample.module().to(target.torch_device)
        returned = [module.train() is module]
        train = [part.training for part in module.modules()]
        returned.append(module.eval() is module)
        return returned, train, [part.training for part in module.modules()]

    outcome = common.on_target(target, toggled)
    if common.succeeded(
        target, recorder, outcome, f"train() and eval() of {sample.describe()}", sample.index
    ):
        returned, train, evaluating = outcome.value
        good = all(returned) and all(train) and not any(evaluating)
        text = f"train() and eval() do not return the module or do not reach all of {sample.describe()}."
        fact(recorder, good, Kind.STATE, text, sample=sample.index)


def _check_identity(target: Target, subject: Subject, recorder: Recorder) -> None:
    samples = module_samples(subject, common.dtype_under_test(recorder))
    chosen = samples.chosen(2, random=True)
    recorder.samples(len(chosen), samples.available)
    for sample in chosen:
        _flags(target, recorder, sample)
        if not subject.name.startswith(IDENTITY_IN_EVAL):
            continue

        def call(sample: ModuleSample = sample) -> Any:
            module, (args, kwargs) = common.on_device(target, sample)
            with torch.no_grad():
                return module.eval()(*args, **kwargs)

        outcome = common.on_target(target, call)
        if common.succeeded(target, recorder, outcome, f"eval mode of {sample.describe()}", sample.index):
            for got, want in zip(leaves(outcome.value), tensors(sample.call), strict=True):
                compare_exact(
                    recorder, got, want, label=f"{sample.describe()} in eval mode", sample=sample.index
                )
