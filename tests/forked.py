"""Commands in processes of their own, forked from one process that has imported what they need.

A test that kills a command, or looks at what it does on a terminal, needs a process. Python with scipy and scikit-learn
takes a second of processor time to start, a fork a hundredth. A server, one for each process of the tests, imports once
and forks for every command. Tests of the start itself (imports, hash seeds) still start Python.

The commands are those of Python: ["-m", "dosimeter", ...], ["-c", code, ...] or [script, ...].
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
_STATUS = struct.Struct("q")


class Forked:
    """What the tests need of `subprocess.Popen`, for a command that the server has forked."""

    def __init__(self, pid: int, status: int, outputs: Mapping[int, IO[Any]]) -> None:
        self.pid, self._status = pid, status
        self.stdout, self.stderr = outputs.get(1), outputs.get(2)
        self.returncode: int | None = None
        self._written: tuple[Any, Any] | None = None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; of a signal it is negative."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked command", timeout or 0.0)
            (self.returncode,) = _STATUS.unpack(os.read(self._status, _STATUS.size))
            os.close(self._status)
        return self.returncode

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, if it still runs."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """All that it writes, and its end."""
        if self._written is not None:
            return self._written
        end = None if timeout is None else time.monotonic() + timeout
        written: dict[IO[Any], list[Any]] = {pipe: [] for pipe in (self.stdout, self.stderr) if pipe is not None}
        open_pipes = set(written)
        while open_pipes:
            left = None if end is None else max(end - time.monotonic(), 0.0)
            ready = select.select(list(open_pipes), [], [], left)[0]
            if not ready:
                raise subprocess.TimeoutExpired("a forked command", timeout or 0.0)
            for pipe in ready:
                chunk = os.read(pipe.fileno(), 1 << 16)
                written[pipe].append(chunk)
                if not chunk:
                    open_pipes.discard(pipe)
        self.wait(None if end is None else max(end - time.monotonic(), 0.0))
        texts = []
        for pipe in (self.stdout, self.stderr):
            joined = None if pipe is None else b"".join(written[pipe])
            texts.append(joined.decode() if joined is not None and getattr(pipe, "encoding", None) else joined)
            if pipe is not None:
                pipe.close()
        self._written = (texts[0], texts[1])
        return self._written


def start(
    arguments: Sequence[Any],
    *,
    cwd: Path | str | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    text: bool = False,
) -> Any:
    """Start a command of Python; `stdout` and `stderr` as in `subprocess.Popen`."""
    words = [str(word) for word in arguments]
    if not hasattr(os, "fork"):
        return subprocess.Popen([sys.executable, *words], cwd=cwd, stdout=stdout, stderr=stderr, text=text)
    outputs: dict[int, IO[Any]] = {}
    handed, opened = [], []
    for number, wanted in ((1, stdout), (2, stderr)):
        if wanted == subprocess.PIPE:
            ours, theirs = os.pipe()
            outputs[number] = os.fdopen(ours, "r" if text else "rb", buffering=1 if text else 0)
            opened.append(theirs)
        elif wanted == subprocess.DEVNULL:
            theirs = os.open(os.devnull, os.O_WRONLY)
            opened.append(theirs)
        elif wanted == subprocess.STDOUT:
            theirs = handed[0]
        else:
            theirs = number if wanted is None else wanted
        handed.append(theirs)
    status, theirs = os.pipe()
    opened.append(theirs)
    request = {"arguments": words, "cwd": str(cwd or Path.cwd()), "environment": dict(os.environ)}
    _server().send(json.dumps(request).encode(), [*handed, theirs])
    for number in opened:
        os.close(number)
    (pid,) = _STATUS.unpack(os.read(status, _STATUS.size))
    return Forked(pid, status, outputs)


def run(arguments: Sequence[Any], **options: Any) -> tuple[int, Any, Any]:
    """Run a command to its end: the exit code and what it wrote."""
    process = start(arguments, **options)
    out, errors = process.communicate()
    return process.returncode, out, errors


class _Server:
    """The process that forks, and the socket on which it is asked."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd=ROOT,
            )

    def send(self, message: bytes, descriptors: list[int]) -> None:
        header = struct.pack("q", len(message))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        self.socket.sendmsg([header], rights)
        self.socket.sendall(message)


_servers: dict[int, _Server] = {}


def _server() -> _Server:
    """The server of this process."""
    if os.getpid() not in _servers:
        _servers[os.getpid()] = _Server()
    return _servers[os.getpid()]


def close() -> None:
    """End the server, so that its processor time counts."""
    server = _servers.pop(os.getpid(), None)
    if server is not None:
        server.socket.close()
        server.process.wait()


# --- in the server ---


def _serve(number: int) -> None:
    """Fork for every request, until the tests end. Returns in the commands, which then run."""
    _import()
    with socket.socket(fileno=number) as asked:
        while True:
            header, descriptors, _, _ = socket.recv_fds(asked, 8, 3)
            if not header:
                while True:  # wait for all, so that their processor time counts
                    with contextlib.suppress(ChildProcessError):
                        os.wait()
                        continue
                    sys.exit()
            size, message = struct.unpack("q", header)[0], b""
            while len(message) < size:
                message += asked.recv(size - len(message))
            if os.fork() == 0:
                break
            for descriptor in descriptors:
                os.close(descriptor)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    _watch(descriptors[2])
    _become(json.loads(message), descriptors)


def _watch(status: int) -> None:
    """Fork once more; the parent reports the number and the end of the command."""
    pid = os.fork()
    if pid == 0:
        os.close(status)
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        os.write(status, _STATUS.pack(pid))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(status, _STATUS.pack(code))
    os._exit(0)


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    """This process is the command: its folder, its variables, its outputs."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    # A shell starts what runs in its background with SIGINT ignored, and so would be all that the tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for own, descriptor in enumerate((nothing, descriptors[0], descriptors[1])):
        os.dup2(descriptor, own)
    for descriptor in {nothing, *descriptors[:2]} - {0, 1, 2}:
        os.close(descriptor)
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    kind, *rest = request["arguments"]
    if kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    elif kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *rest]
        runpy.run_path(kind, run_name="__main__")
    sys.stdout.flush()


def _import() -> None:
    """What the commands need, once: two short ones are run, and all that they import stays."""
    import tempfile

    import scipy.stats  # noqa: F401

    from dosimeter.cli.main import run

    with (
        tempfile.TemporaryDirectory() as folder,
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        table = Path(folder) / "table.csv"
        table.write_text("a,b,y\n" + "".join(f"{k},{k * k % 7},{k % 5}\n" for k in range(12)))
        assert run(["measure", str(table), "--target", "y", "--scale", "1", "--doses-out", f"{folder}/doses.csv"]) == 0
        plan = "--clients 20 --epsilon 8 --delta 1e-3 --clients-per-round 10 --rounds 1 --noise-multiplier 9 --epochs 1"
        train = ["federate", "--dataset", "digits", *plan.split(), "--architecture", "softmax"]
        assert run([*train, "--out", f"{folder}/model.safetensors"]) == 0


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
