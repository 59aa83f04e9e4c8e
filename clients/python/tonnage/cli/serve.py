"""``tonnage serve``: the service itself, in this environment."""

import os
import subprocess
import sys

import click

from tonnage.cli import options
from tonnage.cli.local_service import COMMAND, require_service

_FLAGS = {"host": "TONNAGE_HOST", "http_port": "TONNAGE_HTTP_PORT", "grpc_port": "TONNAGE_GRPC_PORT"}


@click.command(
    epilog=options.examples(
        "tonnage serve", "tonnage serve --http-port 0 --grpc-port 0", "TONNAGE_LOG_FORMAT=json tonnage serve"
    )
)
@click.option("--host", metavar="ADDRESS", help="Address to listen on. [default: TONNAGE_HOST, or this machine alone]")
@click.option(
    "--http-port", type=click.IntRange(0, 65535), metavar="N", help="[default: TONNAGE_HTTP_PORT, or 8080; 0: a free one]"
)
@click.option(
    "--grpc-port", type=click.IntRange(0, 65535), metavar="N", help="[default: TONNAGE_GRPC_PORT, or 50051; 0: a free one]"
)
def serve(host: str | None, http_port: int | None, grpc_port: int | None) -> None:
    """Start the service in the foreground; it prints its addresses. Needs the server, not this client alone.

    Every other setting is an environment variable: `tonnage-service --help` lists them. SIGTERM and Ctrl-C let running requests
    finish. The exit codes are the service's: 0 stopped as told, 2 a wrong setting, 3 a port that is taken.
    """
    require_service()
    given = {"host": host, "http_port": http_port, "grpc_port": grpc_port}
    environment = os.environ | {_FLAGS[name]: str(value) for name, value in given.items() if value is not None}
    sys.stdout.flush()
    if os.name == "posix":
        os.execve(COMMAND[0], COMMAND, environment)  # signals and exit code are then the service's own
    raise SystemExit(subprocess.run(COMMAND, env=environment, check=False).returncode)
