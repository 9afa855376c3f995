"""Rank replies to rank programs, and their serialization between processes."""

from __future__ import annotations

import builtins
import dataclasses
import enum
import io
import pickle
from typing import Any

import torch


def to_bytes(message: Any) -> bytes:
    """Return a message as bytes.

    The bytes contain the values of tensors. The serialization of ``torch.multiprocessing`` would put tensors
    into shared memory instead.
    """
    buffer = io.BytesIO()
    _Pickler(buffer).dump(message)
    return buffer.getvalue()


def from_bytes(data: bytes) -> Any:
    """Return the message that :func:`to_bytes` converted to these bytes."""
    return pickle.loads(data)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return NotImplemented
        content = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        return _tensor_from_bytes, (
            value.dtype,
            tuple(value.shape),
            content.view(torch.uint8).numpy().tobytes(),
        )


def _tensor_from_bytes(dtype: torch.dtype, shape: tuple[int, ...], data: bytes) -> torch.Tensor:
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).reshape(shape)


class ReplyKind(enum.Enum):
    """The ways in which a rank program can end on a rank."""

    VALUE = "value"
    ERROR = "error"
    GONE = "gone"
    LATE = "late"


@dataclasses.dataclass(frozen=True)
class RankReply:
    """The reply of one rank to a rank program.

    ``value`` contains only host tensors, numbers, strings and containers of these values. ``error`` contains
    the names of the exception's type and its base classes. ``text`` is the message of the exception, or
    describes how the process ended. ``seconds`` is the duration of the program.
    """

    rank: int
    ending: ReplyKind
    value: Any = None
    error: tuple[str, ...] = ()
    text: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True if the program returned a value."""
        return self.ending is ReplyKind.VALUE

    def exception(self) -> Exception:
        """Return an exception with the rank's message. Its type is the most specific type of the original
        exception that this process can find.
        """
        for name in self.error:
            kind = getattr(builtins, name, None) or getattr(torch, name, None)
            if isinstance(kind, type) and issubclass(kind, Exception):
                try:
                    return kind(self.text)
                except Exception:  # the constructor of this type requires more than a message
                    continue
        return RuntimeError(self.text)

    def describe(self) -> str:
        """Return a short description of the reply, for failures."""
        if self.ending is ReplyKind.ERROR:
            return f"rank {self.rank} raised {self.error[0]}: {' '.join(self.text.split())[:400]}"
        if self.ending is ReplyKind.GONE:
            return f"the process of rank {self.rank} ended with {self.text}"
        if self.ending is ReplyKind.LATE:
            location = f" (innermost frames: {self.text})" if self.text else ""
            return f"rank {self.rank} did not answer in time{location}"
        return f"rank {self.rank} answered"
