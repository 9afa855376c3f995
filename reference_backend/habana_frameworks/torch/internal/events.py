"""Report telemetry events of the device to listeners.

The compiled core reports rare events: a compilation, a fallback, a cache lookup, a defragmentation. The core
has an event callback only while listeners exist. All other events are published from Python.

Events of the core are delivered on the main thread, between two Python bytecodes, because the thread that
causes an event may hold locks or may not run Python. `EventDispatcher.flush` delivers pending events
immediately.

Names and meanings of the events are from the Intel Gaudi bridge. The public import path of this module is
``habana_frameworks.torch.utils.event_dispatcher``.
"""

from __future__ import annotations

import atexit
import enum
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable

from habana_frameworks.torch import _C

__all__ = ["EventCallback", "EventDispatcher", "EventId", "EventParams"]

EventParams = list[tuple[str, str]]
EventCallback = Callable[[int, EventParams], None]

_logger = logging.getLogger(__name__)


class EventId(enum.Enum):
    """Kinds of events. The comment after each kind lists the parameters of the event."""

    GRAPH_COMPILATION = "GRAPH_COMPILATION"  # duration (µs), recipe
    CPU_FALLBACK = "CPU_FALLBACK"  # op_name
    CACHE_HIT = "CACHE_HIT"  # recipe_id
    CACHE_MISS = "CACHE_MISS"  # recipe_id
    MEMORY_DEFRAGMENTATION = "MEMORY_DEFRAGMENTATION"  # success, milliseconds
    MARK_STEP = "MARK_STEP"
    PROCESS_EXIT = "PROCESS_EXIT"
    DEVICE_ACQUIRED = "DEVICE_ACQUIRED"
    CUSTOM_EVENT = "CUSTOM_EVENT"  # parameters chosen by the publisher


class EventDispatcher:
    """Deliver events to listeners. Each process has one dispatcher, `EventDispatcher.instance()`."""

    _instance: EventDispatcher | None = None
    _creation = threading.Lock()

    @classmethod
    def instance(cls) -> EventDispatcher:
        """Return the dispatcher of this process."""
        with cls._creation:
            if cls._instance is None:
                cls._instance = cls()
                atexit.register(cls._instance._exit)
            return cls._instance

    def __init__(self) -> None:
        # Reentrant, because a listener may subscribe while its own thread holds the lock.
        self._lock = threading.RLock()
        self._handles = itertools.count(1)
        # Each change replaces the whole dict, so that `_deliver` can iterate over it without the lock.
        self._listeners: dict[int, tuple[EventId, EventCallback]] = {}

    def subscribe(self, event: EventId, callback: EventCallback) -> int:
        """Call ``callback(timestamp, params)`` for each later event of one kind.

        Args:
            event: the kind.
            callback: receives the time in microseconds since the epoch and a list of (key, value) pairs of
                strings. If the callback raises, the exception is logged and the operation that caused the
                event continues.

        Returns:
            A handle for `unsubscribe`.

        Raises:
            TypeError: `event` is not an `EventId`.
        """
        if not isinstance(event, EventId):
            raise TypeError(f"{event!r} is not an event. Use a member of EventId.")
        self.flush()
        with self._lock:
            handle = next(self._handles)
            if not self._listeners:
                _C.set_event_callback(self._receive)
            self._listeners = {**self._listeners, handle: (event, callback)}
        return handle

    def unsubscribe(self, handle: int) -> None:
        """End a subscription, after pending events are delivered.

        Raises:
            KeyError: the handle is unknown, or its subscription has already ended.
        """
        self.flush()
        with self._lock:
            listeners = dict(self._listeners)
            del listeners[handle]
            self._listeners = listeners
            if not listeners:
                _C.set_event_callback(None)

    def publish(self, event: EventId, params: Iterable[tuple[str, object]] = ()) -> None:
        """Deliver an event to its listeners immediately, on this thread. Values are converted to strings."""
        self.flush()
        self._deliver(event, time.time_ns() // 1000, params)

    def flush(self) -> None:
        """Deliver the events that the core has reported and that are still pending."""
        _C.deliver_telemetry_events()

    def _receive(self, name: str, microseconds: int, params: Iterable[tuple[str, object]]) -> None:
        """Deliver an event of the compiled core, which calls this method."""
        event = EventId.__members__.get(name)
        if event is not None:
            self._deliver(event, microseconds, params)

    def _deliver(self, event: EventId, microseconds: int, params: Iterable[tuple[str, object]]) -> None:
        texts: EventParams | None = None
        for subscribed, callback in self._listeners.values():
            if subscribed is not event:
                continue
            if texts is None:
                texts = [(str(key), str(value)) for key, value in params]
            try:
                callback(microseconds, list(texts))
            except Exception:
                _logger.exception("a listener of %s failed", event.name)

    def _exit(self) -> None:
        self.publish(EventId.PROCESS_EXIT)
        # The core outlives the interpreter, so it must not call Python after this point.
        _C.set_event_callback(None)
