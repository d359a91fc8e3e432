"""What goes to and fro between a container, its log, and those who are attached to it; until its process has ended."""

from __future__ import annotations

import fcntl
import json
import os
import select
import selectors
import socket
import struct
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from fairlead.agent.runtimes.process import bundle as bundles
from fairlead.agent.runtimes.process.bundle import Bundle
from fairlead.agent.runtimes.process.log import Log

_READ_BYTES: Final = 8 << 10
_STDOUT, _STDERR = 2, 3
#: How long somebody who is attached may leave what was said to him lying, before he is left out.
_PATIENCE_SECONDS: Final = 5.0
#: Who comes when so many are attached is sent away: without descriptors left the keeper would end, and its container.
_MOST_CLIENTS: Final = 50
#: What Ctrl-D is to a terminal.
_END_OF_INPUT: Final = b"\x04"
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Streams(NamedTuple):
    """Our ends of a container's streams; -1 for what it has not."""

    stdin: int
    outputs: dict[int, int]  # which of them, by descriptor
    terminal: int = -1

    @classmethod
    def made(cls, *, has_stdin: bool, has_tty: bool) -> tuple[Streams, list[int]]:
        """And the container's. A terminal is made by the container itself, in its own root."""
        if has_tty:
            return cls(-1, {}), []
        reading, stdin = os.pipe() if has_stdin else (os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1)
        stdout, stdout_of = os.pipe()
        stderr, stderr_of = os.pipe()
        return cls(stdin, {stdout: _STDOUT, stderr: _STDERR}), [reading, stdout_of, stderr_of]

    @classmethod
    def of_terminal(cls, master: int) -> Streams:
        return cls(os.dup(master), {master: _STDOUT}, master)


class Relay:
    """In the folder of the container, which is the working directory."""

    def __init__(self, bundle: Bundle, streams: Streams, container: socket.socket, pid: int) -> None:
        """`container` is where its process waits to be let go."""
        self._bundle, self._streams, self._container, self._pid = bundle, streams, container, pid
        self._log = Log(bundle["log"])
        self._stdin = streams.stdin if bundle["has_stdin"] else -1
        self._unsent = b""
        self._clients: set[socket.socket] = set()
        self._speakers: set[socket.socket] = set()  # those of them who may say more
        self._selector = selectors.DefaultSelector()
        self._code: int | None = None
        for descriptor in streams.outputs:
            os.set_blocking(descriptor, False)
            self._watch(descriptor, self._read_output)
        if self._stdin >= 0:
            os.set_blocking(self._stdin, False)
        self._attaching = _listening("attach", socket.SOCK_SEQPACKET)
        self._watch(self._attaching, self._accept)
        self._starting = _listening(bundles.START, socket.SOCK_STREAM)
        self._watch(self._starting, self._start)
        os.mkfifo("ctl", 0o600)
        self._control = os.open("ctl", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)  # so it never ends
        self._watch(self._control, self._obey)
        self._process = os.pidfd_open(pid)
        self._watch(self._process, self._reap)

    def run(self) -> int:
        """The container's exit code, once it has one."""
        while self._code is None:
            for key, _ in self._selector.select():
                if key.fileobj in self._selector.get_map():  # the one before may have put an end to it
                    key.data(key.fileobj)
        return self._code

    def drain(self) -> None:
        """Nobody writes any more: what there is still, and then everybody hears the end."""
        for descriptor in list(self._streams.outputs):
            while descriptor in self._selector.get_map():
                if not self._read_output(descriptor):
                    break
        for sock in (self._attaching, self._starting, *self._clients):
            sock.close()

    def _watch(self, what: int | socket.socket, do: Callable[..., object], events: int = _READ) -> None:
        self._selector.register(what, events, do)

    def _reap(self, _: int) -> None:
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._code = 128 - code if code < 0 else code

    def _start(self, listener: socket.socket) -> None:
        """Let the process go, and tell why it did not: nothing, if it did."""
        asker, _ = listener.accept()
        self._container.setblocking(True)
        with asker, suppress(OSError):
            self._container.send(b"!")
            said = self._container.recv(1 << 16)  # it is closed by the program that takes its place
            asker.sendall(json.loads(said)["problem"].encode() if said else b"")

    def _obey(self, control: int) -> None:
        with suppress(BlockingIOError):
            for line in os.read(control, _READ_BYTES).decode(errors="replace").splitlines():
                self._obey_line(line)

    def _obey_line(self, line: str) -> None:
        try:
            what, height, width = map(int, line.split())
        except ValueError:
            return
        if what == 2:
            self._log.reopen()
        elif what == 1 and self._streams.terminal >= 0:
            with suppress(OSError, struct.error):
                fcntl.ioctl(self._streams.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    # -- what it says

    def _read_output(self, descriptor: int) -> bool:
        """Whether there was something."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # nobody has the other side of the terminal any more
            data = b""
        if not data:
            self._selector.unregister(descriptor)
            return False
        stream = self._streams.outputs[descriptor]
        with suppress(OSError):  # on a full disk lines are lost, and the container goes on
            self._log.write(stream, data)
        for client in list(self._clients):
            try:
                client.send(bytes([stream]) + data)
            except OSError:
                self._part_with(client)
        return True

    # -- who is attached

    def _accept(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        client.settimeout(_PATIENCE_SECONDS)
        for other in self._clients - self._speakers:
            if _is_gone(other):
                self._part_with(other)
        if len(self._clients) >= _MOST_CLIENTS:
            client.close()
            return
        self._clients.add(client)
        self._speakers.add(client)
        if not self._unsent:
            self._watch(client, self._hear)

    def _hear(self, client: socket.socket) -> None:
        try:
            data = client.recv(_READ_BYTES << 2)
        except OSError:
            self._part_with(client)
            return
        if data:
            self._send(data)
            return
        self._selector.unregister(client)  # which reads on, perhaps
        self._speakers.discard(client)
        if self._bundle["has_stdin_once"]:
            self._end_input()

    def _send(self, data: bytes) -> None:
        if self._stdin < 0:
            return
        self._unsent += data
        self._flush(self._stdin)

    def _flush(self, stdin: int) -> None:
        try:
            self._unsent = self._unsent[os.write(stdin, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # it has closed its input
            self._unsent = b""
        is_watched = stdin in self._selector.get_map()
        if self._unsent and not is_watched:
            self._watch(stdin, self._flush, _WRITE)
            self._pause(is_paused=True)
        elif not self._unsent and is_watched:
            self._selector.unregister(stdin)
            self._pause(is_paused=False)

    def _pause(self, *, is_paused: bool) -> None:
        """The container does not read, so whoever speaks waits; or it does again."""
        for client in self._speakers:
            if is_paused:
                self._selector.unregister(client)
            else:
                self._watch(client, self._hear)

    def _end_input(self) -> None:
        if self._streams.terminal >= 0:
            self._send(_END_OF_INPUT)
        elif self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    def _part_with(self, client: socket.socket) -> None:
        if client in self._selector.get_map():
            self._selector.unregister(client)
        self._clients.discard(client)
        self._speakers.discard(client)
        client.close()


def _is_gone(client: socket.socket) -> bool:
    """Whoever says no more may read on; the kernel tells if not even that."""
    asked = select.poll()
    asked.register(client, 0)
    return bool(asked.poll(0))


def _listening(name: str, kind: int) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, kind)
    sock.bind(name)
    sock.listen(16)
    return sock
