"""Check state dicts of modules: their contents, hooks and loading."""

from __future__ import annotations

import copy
import weakref
from typing import Any

import numpy
import torch
from torch import nn

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.process_control.garbage_collector import disable_garbage_collector
from conformance.properties.api._exact_modules import state_by_name, with_whole_number_state


def _net_with_shared_layer(lab: Lab) -> nn.Module:
    net = nn.Module()
    net.first = with_whole_number_state(lab, nn.Linear(2, 3))
    net.again = net.first
    net.norm = with_whole_number_state(lab, nn.BatchNorm1d(3))
    net.block = nn.Sequential(with_whole_number_state(lab, nn.Conv1d(1, 2, 2)), nn.ReLU())
    net.add_module("empty", None)
    return net


@behaviour("nn", level="core", must_detect=("value", "alias"), page="generated/torch.nn.Module.html")
def contents_of_state_dicts(lab: Lab) -> None:
    """A state dict contains parameters and buffers by path. The entries are detached and share memory with
    the module. With ``keep_vars=True``, the entries are the parameters and buffers themselves.
    """
    net: Any = _net_with_shared_layer(lab)
    entries: Any = net.state_dict()
    lab.same("state", dict(entries))
    lab.shares("entries and parameters", entries["first.weight"], net.first.weight)
    lab.shares("both names", entries["first.weight"], entries["again.weight"])
    lab.holds("entries need no gradient", not any(entry.requires_grad for entry in entries.values()))
    variables = net.state_dict(keep_vars=True)
    lab.holds("keep_vars=True returns the parameter itself", variables["first.weight"] is net.first.weight)
    with torch.no_grad():
        net.first.weight.mul_(2)
    lab.same("an entry after a later write to the parameter", entries["first.weight"])
    lab.same("with a prefix", list(net.norm.state_dict(prefix="p.")))
    into: dict[str, Any] = {}
    net.norm.state_dict(destination=into)
    lab.same("into a dict", into)
    with lab.parity("No page describes the private metadata of a state dict"):
        lab.same("version of a module in the metadata", entries._metadata["norm"])


@behaviour(
    "nn", level="core", must_detect=("value", "error", "message"), page="generated/torch.nn.Module.html"
)
def loading_state_dicts(lab: Lab) -> None:
    """Loading copies entries by name. Missing and unexpected entries raise an error or, if ``strict=False``,
    are returned. Entries of a wrong shape always raise an error.
    """
    net: Any = _net_with_shared_layer(lab)
    weight = net.first.weight
    values = state_by_name(net) | {
        "first.weight": torch.ones(3, 2, dtype=lab.dtype),
        "again.weight": torch.ones(3, 2, dtype=lab.dtype),
        "norm.running_mean": lab.integers(3),
    }
    keys = net.load_state_dict(values)
    lab.same("nothing to report", (keys.missing_keys, keys.unexpected_keys, "All keys matched" in str(keys)))
    lab.holds("loading keeps the parameter objects", net.first.weight is weight and weight.requires_grad)
    lab.expect("loaded from the host", net.first.weight, [[1.0, 1.0]] * 3)
    lab.same("all of it", state_by_name(net))
    values["extra.part"] = lab.integers(1)
    lab.raises("an unexpected entry", lambda: net.load_state_dict(values), match="(?i)unexpected")
    lab.same("reported", net.load_state_dict(values, strict=False).unexpected_keys)
    values["first.weight.more"] = lab.integers(1)
    lab.same(
        "an unexpected entry under a parameter's name",
        net.load_state_dict(values, strict=False).unexpected_keys,
    )
    del values["norm.bias"]
    lab.raises("a missing entry", lambda: net.load_state_dict(values), match="(?i)missing")
    keys = net.load_state_dict(values, strict=False)
    lab.same("both reported", (keys.missing_keys, keys.unexpected_keys))
    wrong = state_by_name(net) | {"norm.running_mean": lab.integers(5, 2)}
    for strict in (True, False):
        with lab.parity("No page says that an entry of another shape is an error"):
            lab.raises(
                f"a wrong size, strict={strict}",
                lambda: net.load_state_dict(wrong, strict=strict),
                match="(?i)size",
            )
    before = copy.deepcopy(state_by_name(net))
    net.load_state_dict({"block.0.bias": lab.put([5.0, 6.0]), "other": lab.integers(1)}, strict=False)
    lab.expect("a part of it", net.block[0].bias, [5.0, 6.0])
    before["block.0.bias"] = net.block[0].bias.detach()
    lab.holds(
        "entries that are not loaded do not change",
        all(torch.equal(entry, before[name]) for name, entry in state_by_name(net).items()),
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "a string in place of a dict", lambda: net.load_state_dict("word"), TypeError, match="(?i)dict"
        )
    layer = with_whole_number_state(lab, nn.Linear(2, 2, bias=False))
    for array in (numpy.ones((2, 2)), ((1.0, 1.0), (1.0, 1.0))):
        with lab.parity("No page says that the call is an error"):
            lab.raises(
                "an entry that is not a tensor",
                lambda: layer.load_state_dict({"weight": array}),
                match="(?i)tensor",
            )
    prefixed = {f"module.{name}": value for name, value in state_by_name(net).items()}
    nn.modules.utils.consume_prefix_in_state_dict_if_present(prefixed, "module.")
    lab.same("names after the prefix was removed", sorted(prefixed) == sorted(state_by_name(net)))


@behaviour(
    "nn",
    must_detect=("value",),
    page="generated/torch.nn.BatchNorm1d.html",
    basis="parity",
    ground="No page says how state dicts of older versions are loaded",
)
def older_state_dicts(lab: Lab) -> None:
    """A state dict of batch norm from before ``num_batches_tracked`` existed can be loaded. Loading then does
    not change the module's count, or sets it to its initial value.
    """
    norm: Any = with_whole_number_state(lab, nn.BatchNorm1d(2))
    for version in (1, None):
        values: Any = norm.state_dict()
        del values["num_batches_tracked"]
        values._metadata[""].pop("version")
        if version is not None:
            values._metadata[""]["version"] = version
        norm.load_state_dict(values)
        lab.same(f"count after version {version}", norm.num_batches_tracked)
    norm.train()
    norm(lab.integers(4, 2))
    lab.expect("it counts", norm.num_batches_tracked + 0, 1)
    without_statistics = nn.BatchNorm1d(2, track_running_stats=False)
    with lab.documented():
        lab.same("state of batch norm without statistics", list(without_statistics.state_dict()))
        lab.same(
            "a state without them",
            sorted(norm.load_state_dict(without_statistics.state_dict(), strict=False).missing_keys),
        )
    lab.same("what stays", state_by_name(norm))


@behaviour(
    "nn",
    must_detect=("value", "error", "message"),
    capabilities=("strides",),
    page="generated/torch.nn.Module.html",
)
def assigned_state_dicts(lab: Lab) -> None:
    """With ``assign=True``, the entries of the state dict become the parameters. They can replace meta
    parameters and can have other strides and dtypes.
    """
    net = nn.Sequential(
        with_whole_number_state(lab, nn.Linear(2, 3)), with_whole_number_state(lab, nn.BatchNorm1d(3))
    )
    net[0].weight.requires_grad_(False)
    with torch.device("meta"):
        target: Any = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    target.load_state_dict(net.state_dict(), assign=True)
    lab.same("state", state_by_name(target))
    lab.same(
        "requires_grad of each parameter", [parameter.requires_grad for parameter in target.parameters()]
    )
    lab.shares("entries and parameters", target[0].weight, net[0].weight)  # type: ignore[arg-type]
    lab.same("names keep their order", [name for name, _ in target.named_parameters()])
    x = lab.integers(4, 2)
    lab.same("runs", target[0](x))
    values = dict(net.state_dict()) | {"0.weight": lab.integers(2, 3).t()}
    target.load_state_dict(values, assign=True)
    lab.same("other strides", lab.strides(target[0].weight))
    values["0.weight"] = lab.integers(3, 2, dtype=torch.float16)
    target.load_state_dict(values, assign=True)
    lab.same("another dtype", target[0].weight.dtype)
    values["0.weight"] = lab.integers(2, 5)
    with lab.parity("No page says that an entry of another shape is an error"):
        lab.raises(
            "another shape", lambda: target.load_state_dict(values, assign=True), match="size mismatch"
        )
    with torch.device("meta"):
        lost = nn.Linear(2, 3)
    lab.warns("copying into meta", lambda: lost.load_state_dict(net[0].state_dict()), match="(?i)meta")
    lab.holds("loading without assign leaves a meta parameter on meta", lost.weight.is_meta)


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.Module.html",
    basis="consistency",
    ground="The resumed training and the training without a pause must make the same steps",
)
def assigned_states_and_optimizers(lab: Lab) -> None:
    """An optimizer over parameters loaded with ``assign=True``, whose own state is loaded too, makes the same
    steps as the saved optimizer.
    """
    net = with_whole_number_state(lab, nn.Linear(2, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.5)
    x = lab.integers(4, 2)

    def train_one_step(module: nn.Module, module_optimizer: torch.optim.Optimizer) -> None:
        module_optimizer.zero_grad()
        module(x).sum().backward()
        module_optimizer.step()

    train_one_step(net, optimizer)
    with torch.device("meta"):
        assigned = nn.Linear(2, 3)
    assigned.load_state_dict(copy.deepcopy(net.state_dict()), assign=True)
    resumed = torch.optim.SGD(assigned.parameters(), lr=0.5, momentum=0.5)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for _ in range(2):
        train_one_step(net, optimizer)
        train_one_step(assigned, resumed)
    lab.same("weights of the training without a pause", state_by_name(net))
    lab.same("weights of the resumed training", state_by_name(assigned))
    lab.same("momentum of both trainings", [optimizer.state[net.weight], resumed.state[assigned.weight]])


class _ModuleWithExtraState(nn.Module):
    """A module whose extra state is any object."""

    def __init__(self, extra: Any) -> None:
        super().__init__()
        self.extra = extra

    def get_extra_state(self) -> Any:
        return self.extra

    def set_extra_state(self, extra: Any) -> None:
        self.extra = extra


class _ModuleWithGetExtraStateOnly(nn.Module):
    def get_extra_state(self) -> Any:
        return 5


class _ModuleWithSetExtraStateOnly(nn.Module):
    def set_extra_state(self, extra: Any) -> None:
        self.extra = extra


class _ModuleWithCustomSaving(nn.Module):
    """A module that overrides how its parameter is saved and loaded."""

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self.value = nn.Parameter(lab.integers(2))
        self.inner = with_whole_number_state(lab, nn.Linear(1, 1))

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "form"] = self.value.detach() + 1

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        with torch.no_grad():
            self.value.copy_(state_dict[prefix + "form"] - 1)


@behaviour("nn", must_detect=("value", "error"), page="generated/torch.nn.Module.html")
def state_of_another_form(lab: Lab) -> None:
    """State dicts contain the extra state of modules. A module can override how its parameters are saved and
    loaded. This also holds for nested modules.
    """
    for extra in ({"a": 1}, lab.integers(3), "word", 7):
        first, second = (
            nn.Sequential(_ModuleWithExtraState(extra)),
            nn.Sequential(_ModuleWithExtraState(None)),
        )
        values = first.state_dict()
        lab.same("names", list(values))
        second.load_state_dict(values)
        lab.same("extra state", second[0].extra)
    values = nn.Sequential(_ModuleWithExtraState(1)).state_dict()
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "loading extra state without set_extra_state",
            lambda: nn.Sequential(_ModuleWithGetExtraStateOnly()).load_state_dict(values),
            RuntimeError,
        )
    lab.same("state without get_extra_state", list(_ModuleWithSetExtraStateOnly().state_dict()))
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "loading without extra state",
            lambda: _ModuleWithSetExtraStateOnly().load_state_dict({}),
            RuntimeError,
        )
    lab.raises(
        "loading extra state into a module that has none",
        lambda: nn.Linear(1, 1).load_state_dict({"_extra_state": 5}, strict=True),
    )
    saved = nn.Sequential(_ModuleWithCustomSaving(lab))
    loaded: Any = nn.Sequential(_ModuleWithCustomSaving(lab))
    values = saved.state_dict()
    with lab.parity("No page describes the private methods that save and load a module"):
        lab.same("its own form", dict(values))
    loaded.load_state_dict(values)
    with lab.parity("No page describes the private methods that save and load a module"):
        lab.same("loaded", [loaded[0].value, loaded[0].inner.weight])


@behaviour("nn", must_detect=("value", "error", "message"), page="generated/torch.nn.Module.html")
def hooks_of_state_dicts(lab: Lab) -> None:
    """Hooks run before and after saving and loading. They receive the correct prefix and entries, can change
    the entries, and can be removed.
    """
    net: Any = nn.Sequential(
        with_whole_number_state(lab, nn.Linear(2, 2)), with_whole_number_state(lab, nn.Linear(2, 2))
    )
    order: list[Any] = []
    before = net[1].register_state_dict_pre_hook(
        lambda module, prefix, keep: order.append(("saving", prefix, keep))
    )
    net.state_dict(keep_vars=True)
    lab.same("before saving", order)
    before.remove()

    def add_doubled_weight(module: nn.Module, values: Any, prefix: str, metadata: Any) -> None:
        values[prefix + "doubled"] = values[prefix + "weight"] * 2

    later = net[1].register_state_dict_post_hook(add_doubled_weight)
    lab.same("after saving", dict(net.state_dict()))
    later.remove()
    hook_calls: list[Any] = []
    entries: list[list[str]] = []

    def record_call_and_triple_weight(
        module: Any, values: Any, prefix: str, metadata: Any, strict: bool, *rest: Any
    ) -> None:
        hook_calls.append((module is net[1], prefix, strict, [len(names) for names in rest]))
        entries.append(sorted(values))
        values[prefix + "weight"] = values[prefix + "weight"] * 3

    first = net[1].register_load_state_dict_pre_hook(record_call_and_triple_weight)
    values = copy.deepcopy(net.state_dict())
    net.load_state_dict(values)
    lab.same("before loading", hook_calls)
    lab.same("changed while loading", state_by_name(net))
    with lab.parity("No page says which entries the hook of a submodule receives"):
        lab.same("entries that the hook receives", entries)
    with lab.parity("No page says that the caller's dict is not changed by a hook"):
        lab.holds(
            "the caller's dict is not changed", torch.equal(values["1.weight"] * 3, net[1].weight.detach())
        )
    first.remove()

    def report_wrong_keys(module: nn.Module, keys: Any) -> None:
        keys.missing_keys.append("lost")
        keys.unexpected_keys.append("found")

    handle = net[1].register_load_state_dict_post_hook(report_wrong_keys)
    keys = net.load_state_dict(net.state_dict(), strict=False)
    lab.same("reported by a hook", (keys.missing_keys, keys.unexpected_keys))
    lab.raises(
        "strict loading with keys that a hook reports",
        lambda: net.load_state_dict(net.state_dict()),
        match="(?s)found.*lost|lost.*found",
    )
    handle.remove()

    def clear_unexpected_keys(module: nn.Module, keys: Any) -> None:
        keys.unexpected_keys.clear()

    net.register_load_state_dict_post_hook(clear_unexpected_keys)
    keys = net.load_state_dict(dict(net.state_dict()) | {"more": lab.integers(1)}, strict=True)
    lab.same("forgiven by a hook", keys.unexpected_keys)
    copied = copy.deepcopy(net)
    keys = copied.load_state_dict(dict(net.state_dict()) | {"more": lab.integers(1)}, strict=True)
    with lab.parity("No page says that a copied module keeps its hooks"):
        lab.same("copies keep their hooks", keys.unexpected_keys)


@behaviour(
    "nn",
    must_detect=("value",),
    page="generated/torch.nn.Module.html",
    basis="parity",
    ground="No page says which entries a hook sees, or that loading leaves no reference cycles",
)
def loading_children(lab: Lab) -> None:
    """A ``load_state_dict`` pre-hook of a submodule receives only the entries of this submodule. Loading
    leaves no reference cycles.
    """
    net: Any = nn.Sequential(
        *[nn.Sequential(*[with_whole_number_state(lab, nn.Linear(1, 1)) for _ in range(3)]) for _ in range(3)]
    )
    entries: list[tuple[str, list[str]]] = []

    def record_entries(module: nn.Module, values: Any, prefix: str, *rest: Any) -> None:
        entries.append((prefix, sorted(values)))

    net[1].register_load_state_dict_pre_hook(record_entries)
    net[1][2].register_load_state_dict_pre_hook(record_entries)
    net.load_state_dict(net.state_dict())
    lab.same("entries that each sees", entries)
    lab.holds(
        "each hook receives only entries of its submodule",
        all(name.startswith(prefix) for prefix, names in entries for name in names),
    )
    lab.same("sum of weights", torch.stack([parameter.sum() for parameter in net.parameters()]))
    recurrent = with_whole_number_state(lab, nn.LSTM(2, 2))
    values = copy.deepcopy(recurrent).state_dict()
    weak_references = [weakref.ref(value) for value in values.values()]
    with disable_garbage_collector():
        recurrent.load_state_dict(values)
        del values
        lab.holds("no reference cycle keeps an entry alive", lab.gone(*weak_references))
