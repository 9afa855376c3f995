"""Send messages to a child process and receive messages from it over a socket, without blocking."""

from __future__ import annotations

import selectors
import socket
import struct

#: The header of each message, which contains the length of the message in bytes.
HEADER = struct.Struct("!Q")
#: The maximum length of a message. A header with a larger length is treated as unreadable data.
MAX_MESSAGE = 1 << 30
_BLOCK = 1 << 20


class UnreadableMessage(Exception):
    """The child process sent data that is not a message."""


class Channel:
    """The parent's end of a channel. Its methods never wait for the child.

    ``at_end`` is True once the child has closed the channel and all its data was read.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.at_end = False
        self._socket = end
        self._incoming = bytearray()
        self._outgoing = bytearray()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def register_with_selector(self, selector: selectors.BaseSelector) -> None:
        """Register the socket for reading and, if data is waiting to be sent, for writing. Do nothing if the
        channel is at its end.
        """
        if not self.at_end:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
            selector.register(self._socket, events)

    def send(self, message: bytes) -> None:
        """Send a message. If the socket is full, the next :meth:`flush` sends the remaining bytes."""
        self._outgoing += HEADER.pack(len(message)) + message
        self.flush()

    def flush(self) -> None:
        """Send the remaining bytes of earlier messages until the socket is full. Drop these bytes if the
        child has closed the channel.
        """
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
        """Return the next message, or None if the message has not arrived completely.

        Raise Unreadable if the received data is not a message. The method stops reading when the first
        message is complete, so that further messages stay in the socket's buffer.
        """
        while not self.has_message:
            if not self._read():
                return None
        (length,) = HEADER.unpack_from(self._incoming)
        if length > MAX_MESSAGE:
            raise UnreadableMessage
        message = bytes(self._incoming[HEADER.size : HEADER.size + length])
        del self._incoming[: HEADER.size + length]
        return message

    @property
    def has_message(self) -> bool:
        """True if :meth:`receive` can return or raise without reading from the socket."""
        if len(self._incoming) < HEADER.size:
            return False
        length: int = HEADER.unpack_from(self._incoming)[0]
        return length > MAX_MESSAGE or len(self._incoming) >= HEADER.size + length

    def _read(self) -> bool:
        """Read the data that has arrived. Return False if no data has arrived."""
        if self.at_end:
            return False
        try:
            data = self._socket.recv(_BLOCK)
        except BlockingIOError:
            return False
        except OSError:  # the child closed the channel without reading all messages
            data = b""
        self.at_end = not data
        self._incoming += data
        return bool(data)
