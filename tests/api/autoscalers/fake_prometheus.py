"""A Prometheus server on a bare socket that answers as it is told: rightly, wrongly, slowly, without end, or not at all."""

import contextlib
import json
import socket
import threading
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

#: What is answered in place of a value.
SILENT, ENDLESS, REDIRECT, CLOSED, GARBAGE, ERROR = "silent", "endless", "redirect", "closed", "garbage", "error"
EMPTY, SEVERAL, PARTIAL, TRUNCATED = "empty", "several", "partial", "truncated"


@dataclass
class FakePrometheus:
    """``answers``: a value or one of the words above, by query; ``series``: values by figure, by query; ``otherwise``."""

    url: str
    answers: dict[str, str] = field(default_factory=dict)
    series: dict[str, dict[str, str]] = field(default_factory=dict)
    otherwise: str = "1"
    delay_seconds: float = 0.0
    asked: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def reset(self, otherwise: str = "1") -> None:
        self.answers.clear()
        self.series.clear()
        self.asked.clear()
        self.otherwise, self.delay_seconds = otherwise, 0.0

    def serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(65536)
                if not request:
                    return
            target = request.split(b" ", 2)[1].decode()
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(target).query)["query"][0]
            self.asked.append(query)
            time.sleep(self.delay_seconds)
            if query in self.series:
                _send(connection, _answer_of([({"figure": name}, value) for name, value in self.series[query].items()]))
            else:
                self._answer(connection, self.answers.get(query, self.otherwise))

    def _answer(self, connection: socket.socket, told: str) -> None:
        if told == SILENT:
            self.stopped.wait(30)
        elif told == CLOSED:
            return
        elif told == ENDLESS:
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while not self.stopped.is_set():
                connection.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        elif told == REDIRECT:
            connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: {self.url}/other\r\nContent-Length: 0\r\n\r\n".encode())
        elif told == GARBAGE:
            connection.sendall(b"\x00\xff\x00 SSH-2.0-hello\r\n")
        elif told == ERROR:
            connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        else:
            body = _body(told)
            _send(connection, body, body[: len(body) // 2] if told == TRUNCATED else body)


def _send(connection: socket.socket, body: bytes, sent: bytes | None = None) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    connection.sendall(head + (body if sent is None else sent))


def _body(told: str) -> bytes:
    values = {EMPTY: [], SEVERAL: ["3", "4"], TRUNCATED: ["1"], PARTIAL: ["0"]}.get(told, [told])
    warnings = ["one store did not answer"] if told == PARTIAL else []
    return _answer_of([({"pod": str(at)}, value) for at, value in enumerate(values)], warnings)


def _answer_of(samples: list[tuple[dict[str, str], str]], warnings: Sequence[str] = ()) -> bytes:
    result = [{"metric": labels, "value": [1.0, value]} for labels, value in samples]
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return json.dumps(answer | ({"warnings": list(warnings)} if warnings else {})).encode()


@contextlib.contextmanager
def fake_prometheus() -> Iterator[FakePrometheus]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        fake = FakePrometheus(f"http://127.0.0.1:{listening.getsockname()[1]}")

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=fake.serve, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield fake
        fake.stopped.set()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(5)
