"""A child's end of its channel to the process that supervises it."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

from conformance.process_control import exit_with_parent
from conformance.process_control.channel import HEADER

#: Names the file descriptor of the channel to a child.
VARIABLE = "CONFORMANCE_CHANNEL"


class ParentLink:
    """A child's end of its channel.

    Messages are bytes. A child of :class:`conformance.process_control.supervisor.Supervisor` works on units
    and uses :meth:`requests`, :meth:`step` and :meth:`reply` only.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    @classmethod
    def connect(cls) -> ParentLink:
        """Return the link of a process that :meth:`Child.exec` started with a channel.

        From now on the process ends with its parent, and writes the stacks of its threads on request.
        """
        descriptor = int(os.environ.pop(VARIABLE))
        os.set_inheritable(descriptor, False)
        return cls.over(socket.socket(fileno=descriptor))

    @classmethod
    def over(cls, channel: socket.socket) -> ParentLink:
        """Return the link over a connected socket, with the same preparations as :meth:`connect`."""
        exit_with_parent.follow()
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
        return cls(channel)

    def send(self, message: bytes) -> None:
        """Send a message; wait until the parent takes it if the channel is full."""
        self._channel.sendall(HEADER.pack(len(message)) + message)

    def receive(self) -> bytes | None:
        """Return the next message; None if the parent has closed the channel."""
        header = self._read(HEADER.size)
        if header is None:
            return None
        return self._read(HEADER.unpack(header)[0])

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                part = self._channel.recv(min(size - len(data), 1 << 20))
            except ConnectionResetError:
                return None
            if not part:
                return None
            data += part
        return bytes(data)

    def requests(self) -> Iterator[Any]:
        """Report that the child is ready, then yield units until the parent closes the channel.

        Each unit is announced as begun before it is yielded; answer it with :meth:`reply`.
        """
        self._say("ready")
        while (message := self.receive()) is not None:
            self._say("begun")
            yield json.loads(message)

    def step(self, name: str) -> None:
        """Name the step of the unit that runs from now on: it is what a crash or hang is charged to."""
        self._say("step", name)

    def reply(self, value: Any) -> None:
        """Send the reply to a unit."""
        self._say("reply", value)

    def _say(self, word: str, value: Any = None) -> None:
        self.send(json.dumps([word, value], separators=(",", ":")).encode())
