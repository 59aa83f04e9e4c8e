"""The command line, loaded once: pages and shells run it dozens of times, and loading it takes longer than most of its answers.

A process that has imported it forks for each call; the program that is called by its name only hands over its arguments,
folder, environment and streams, and ends with the same code.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_SERVER = """
import json, os, socket, sys
from tonnage.cli import main

with socket.socket(socket.AF_UNIX) as door:
    door.bind(sys.argv[1])
    door.listen()
    while True:
        caller, _ = door.accept()
        head, streams, _, _ = socket.recv_fds(caller, 1 << 20, 3)
        if os.fork():
            for each in (*streams, caller.detach()):
                os.close(each)
            while True:
                try:
                    if os.waitpid(-1, os.WNOHANG)[0] == 0:
                        break
                except ChildProcessError:
                    break
            continue
        call = json.loads(head)
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
        sys.stdin, sys.stdout, sys.stderr = (open(place, mode, closefd=False) for place, mode in enumerate("rww"))
        os.chdir(call["folder"])
        os.environ.clear()
        os.environ.update(call["environment"])
        sys.argv = ["tonnage", *call["arguments"]]
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
        caller.sendall(bytes([code]))
        os._exit(code)
"""
_CALLER = """#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as door:
    door.connect({door!r})
    call = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
    socket.send_fds(door, [json.dumps(call).encode()], [0, 1, 2])
    answer = door.recv(1)
sys.exit(answer[0] if answer else 1)
"""


@contextlib.contextmanager
def ready_command(folder: Path) -> Iterator[Path]:
    """A program that does what ``tonnage`` does."""
    door, program = folder / "door", folder / "tonnage"
    program.write_text(_CALLER.format(python=sys.executable, door=str(door)))
    program.chmod(0o755)
    server = subprocess.Popen([sys.executable, "-c", _SERVER, str(door)])
    try:
        deadline = time.monotonic() + 60
        while not door.exists() and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if not door.exists():
            raise RuntimeError("the command line could not be loaded")
        yield program
    finally:
        server.kill()
        server.wait()
