"""What a keeper is told of its container, as a file beside it."""

from __future__ import annotations

from typing import Final, TypedDict

FILE: Final = "bundle.json"
#: Of the socket on which a keeper is asked to start its container.
START: Final = "start"


class Bind(TypedDict):
    """Something of the machine that is seen in the container."""

    source: str
    target: str
    is_read_only: bool
    is_read_only_below: bool
    is_slave: bool


class Bundle(TypedDict):
    argv: list[str]
    env: dict[str, str]
    working_dir: str
    uid: int
    gid: int
    #: Of the image, the lowest first.
    layers: list[str]
    rootfs: str
    upper: str
    work: str
    #: Whether layers are laid over each other; else a copy of them lies in `upper`.
    has_overlay: bool
    binds: list[Bind]
    shm: str
    has_read_only_root: bool
    has_no_new_privileges: bool
    #: The numbers of those capabilities that it may have, among what it owns.
    capabilities: list[int]
    oom_score_adj: int
    nice: int
    #: On which it runs; empty: on all.
    cpus: list[int]
    #: Files of namespaces that it joins.
    uts: str
    ipc: str
    pid: str
    #: Without one to join: whether it gets one of its own.
    has_own_processes: bool
    has_tty: bool
    has_stdin: bool
    has_stdin_once: bool
    log: str
