"""The parent's end of a channel to a child process: messages of bytes over a socket, without waiting."""

from __future__ import annotations

import selectors
import socket
import struct

#: Precedes each message: its length in bytes.
HEADER = struct.Struct("!Q")
#: Length of a message above which the channel is treated as unreadable.
MAX_MESSAGE = 1 << 30
_BLOCK = 1 << 20


class Unreadable(Exception):
    """The other end has sent something that is not a message."""


class Channel:
    """One end of a channel; neither :meth:`send` nor :meth:`receive` waits for the other end.

    ``at_end`` is True once the other end is closed and everything that it sent was read.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.at_end = False
        self._socket = end
        self._incoming = bytearray()
        self._outgoing = bytearray()

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def register(self, selector: selectors.BaseSelector) -> None:
        """Register what the channel waits for, which is nothing if it is at its end."""
        if not self.at_end:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
            selector.register(self._socket, events)

    def send(self, message: bytes) -> None:
        """Send a message. :meth:`flush` sends the bytes that the socket cannot hold."""
        self._outgoing += HEADER.pack(len(message)) + message
        self.flush()

    def flush(self) -> None:
        """Send what the socket can hold of earlier messages; drop them if the other end is closed."""
        while self._outgoing:
            try:
                with memoryview(self._outgoing) as view:
                    sent = self._socket.send(view[:_BLOCK])
            except BlockingIOError:
                return
            except OSError:
                self._outgoing.clear()
                return
            del self._outgoing[:sent]

    def receive(self) -> bytes | None:
        """Return the next message if all of it has arrived, else None; raise Unreadable if there can be none.

        No more is read than the first message, so that a flood of messages stays in the socket.
        """
        while not self.has_message:
            if not self._read():
                return None
        (length,) = HEADER.unpack_from(self._incoming)
        if length > MAX_MESSAGE:
            raise Unreadable
        message = bytes(self._incoming[HEADER.size : HEADER.size + length])
        del self._incoming[: HEADER.size + length]
        return message

    @property
    def has_message(self) -> bool:
        """True if :meth:`receive` need not read."""
        if len(self._incoming) < HEADER.size:
            return False
        length: int = HEADER.unpack_from(self._incoming)[0]
        return length > MAX_MESSAGE or len(self._incoming) >= HEADER.size + length

    def _read(self) -> bool:
        """Read what has arrived; return False if that is nothing."""
        if self.at_end:
            return False
        try:
            data = self._socket.recv(_BLOCK)
        except BlockingIOError:
            return False
        except OSError:  # the other end was closed with unread messages
            data = b""
        self.at_end = not data
        self._incoming += data
        return bool(data)
