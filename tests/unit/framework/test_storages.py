"""``framework.storages`` determines once per device whether tensors have storages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from conformance.framework import storages


@pytest.fixture(autouse=True)
def _clear_cache() -> Iterator[None]:
    storages._device_has_storages.cache_clear()
    yield
    storages._device_has_storages.cache_clear()


def test_a_view_shares_the_storage_of_its_base() -> None:
    base = torch.zeros(4)
    assert storages.has_storage(base)
    assert storages.share_storage(base, base[1:]) is True
    assert storages.share_storage(base, base.clone()) is False
    assert storages.address_of(base[1:]) == base.data_ptr() + 4
    assert not storages.has_storage(torch.eye(2).to_sparse())


def test_without_storages_sharing_and_addresses_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(tensor: torch.Tensor) -> torch.UntypedStorage:
        raise NotImplementedError("an opaque tensor has no storage")

    monkeypatch.setattr(torch.Tensor, "untyped_storage", refuse)
    base = torch.zeros(4)
    assert not storages.has_storage(base)
    assert storages.share_storage(base, base[1:]) is None and storages.address_of(base) is None


def test_an_error_of_the_tensor_under_test_is_not_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device may report the error of an asynchronous kernel only when the storage is read."""
    base = torch.zeros(4)
    assert storages.has_storage(base)

    def fail(tensor: torch.Tensor) -> torch.UntypedStorage:
        raise RuntimeError("the kernel failed")

    monkeypatch.setattr(torch.Tensor, "untyped_storage", fail)
    assert storages.has_storage(base)
    with pytest.raises(RuntimeError, match="the kernel failed"):
        storages.share_storage(base, base)
