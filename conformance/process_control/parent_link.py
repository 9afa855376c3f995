"""The child's end of the channel to the process that supervises it."""

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

#: Environment variable with the number of the child's file descriptor for the channel.
VARIABLE = "CONFORMANCE_CHANNEL"


class ParentLink:
    """The child's end of its channel to its parent.

    Messages are bytes. A child of a :class:`conformance.process_control.supervisor.Supervisor` uses only
    :meth:`requests`, :meth:`announce_step` and :meth:`reply`.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    @classmethod
    def connect(cls) -> ParentLink:
        """Open the channel of this process, which :meth:`Child.exec` must have started with a channel.

        Afterwards this process exits when its parent exits, and writes the stacks of its threads to stderr on
        SIGUSR1.
        """
        descriptor = int(os.environ.pop(VARIABLE))
        os.set_inheritable(descriptor, False)
        return cls.from_socket(socket.socket(fileno=descriptor))

    @classmethod
    def from_socket(cls, channel: socket.socket) -> ParentLink:
        """Return the link for a connected socket, and prepare this process as :meth:`connect` does."""
        exit_with_parent.exit_with_parent()
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
        return cls(channel)

    def send(self, message: bytes) -> None:
        """Send a message. If the channel is full, wait until the parent reads from it."""
        self._channel.sendall(HEADER.pack(len(message)) + message)

    def receive(self) -> bytes | None:
        """Wait for the next message and return it; return None if the parent has closed the channel."""
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
        """Report that this process is ready, then yield units of work until the parent closes the channel.

        Before it yields a unit, this method reports to the parent that the unit has begun. The caller sends
        the result of each unit by :meth:`reply`.
        """
        self._send_json("ready")
        while (message := self.receive()) is not None:
            self._send_json("begun")
            yield json.loads(message)

    def announce_step(self, name: str) -> None:
        """Announce the next step of the current unit. If the process then crashes or hangs, the ChildEnd
        names this step.
        """
        self._send_json("step", name)

    def reply(self, value: Any) -> None:
        """Send the reply to the current unit."""
        self._send_json("reply", value)

    def _send_json(self, word: str, value: Any = None) -> None:
        self.send(json.dumps([word, value], separators=(",", ":")).encode())
