"""``tonnage completion``: what a shell needs to complete commands and options."""

import click
from click.shell_completion import get_completion_class

from tonnage.cli import options

_VARIABLE = "_TONNAGE_COMPLETE"
"""How the shell's script asks: click's own name for a program called tonnage."""


@click.command(
    epilog=options.examples(
        'eval "$(tonnage completion bash)"           # in ~/.bashrc',
        'eval "$(tonnage completion zsh)"            # in ~/.zshrc, after compinit',
        "tonnage completion fish > ~/.config/fish/completions/tonnage.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes commands, options and their values."""
    found = get_completion_class(shell)
    if found is None:
        raise AssertionError(f"click completes for {shell}")
    click.echo(found(context.find_root().command, {}, "tonnage", _VARIABLE).source())
