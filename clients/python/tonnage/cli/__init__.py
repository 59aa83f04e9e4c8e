"""The command line: asks the service and prints its answers, for people or, with --json, for programs."""

import sys

import click

from tonnage.cli.accelerators import accelerators
from tonnage.cli.claim import claim
from tonnage.cli.compare import compare
from tonnage.cli.completion import completion
from tonnage.cli.connection import LOCAL
from tonnage.cli.decode import decode
from tonnage.cli.exits import EPILOGUE, Exit
from tonnage.cli.explain_log import explain_log
from tonnage.cli.fit import fit
from tonnage.cli.fit_cluster import fit_cluster
from tonnage.cli.fusion import fusion
from tonnage.cli.kv import kv
from tonnage.cli.memory_access import memory_access
from tonnage.cli.mfu import mfu
from tonnage.cli.models import models
from tonnage.cli.nodes import nodes
from tonnage.cli.occupancy import occupancy
from tonnage.cli.place import place
from tonnage.cli.plan import plan
from tonnage.cli.prices import prices
from tonnage.cli.quote import quote
from tonnage.cli.serve import serve
from tonnage.cli.serving import serving
from tonnage.cli.sweep import sweep
from tonnage.tabular.forms import version

_INTERRUPTED = 130


class _Commands(click.Group):
    """The commands; interrupted by Ctrl-C, with the code that shells expect of that."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise SystemExit(_INTERRUPTED) from None


@click.group(cls=_Commands, epilog=EPILOGUE, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--local", is_flag=True, help="As --local of each command: ask a service started for this call alone.")
@click.version_option(version(), prog_name="tonnage", message="%(prog)s %(version)s")
@click.pass_context
def tonnage(context: click.Context, local: bool) -> None:
    """How much can this hardware carry? Sizes decode throughput, KV memory, node fit and MFU."""
    context.meta[LOCAL] = local


for _command in (
    decode,
    kv,
    fit,
    mfu,
    serving,
    plan,
    compare,
    explain_log,
    accelerators,
    models,
    nodes,
    prices,
    claim,
    quote,
    occupancy,
    memory_access,
    fusion,
    sweep,
    place,
    fit_cluster,
    serve,
    completion,
):
    tonnage.add_command(_command)


def main() -> None:
    """Runs the command line. Ends the process with a documented exit code, never with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show × or ≥ gets a substitute, not an exception.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    try:
        tonnage.main(prog_name="tonnage")
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    except Exception as error:  # whatever it is, a person at a shell cannot use its traceback
        click.echo(f"tonnage: unexpected {type(error).__name__}: {error}", file=sys.stderr)
        raise SystemExit(Exit.SERVICE_FAILED) from None
