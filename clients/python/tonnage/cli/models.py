"""``tonnage models``: the models of the catalogue, or one of them."""

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tonnage.cli import catalogue, figures, layout, names, options
from tonnage.cli.quantities import byte_count, large_count
from tonnage.cli.session import Session
from tonnage.v1.catalogue_service_pb2 import GetModelResponse, ListModelsRequest, ListModelsResponse, Model


@click.command(epilog=options.examples("tonnage models", "tonnage models show llama-3.1-70b"))
@catalogue.with_name(names.MODELS)
@options.with_tabular_session
def models(name: str | None, session: Session) -> None:
    """List models, or show one."""
    if name is None:
        session.show(session.ask(lambda client: catalogue.whole(client.list_models())), _list, ListModelsRequest())
    else:
        session.show(session.ask(lambda client: client.get_model(name)), _sheet)


def _list(console: Console, answer: ListModelsResponse) -> None:
    columns = ("name", "publisher", "parameters", "active", "layers", "weights", "stored in")
    cache = "cache per token\n(16 bits; + while\nwindows fill)"
    drawn = layout.table(*columns, cache, right=[2, 3, 4, 5, 7])
    for entry in answer.models:
        drawn.add_row(
            entry.name,
            entry.publisher,
            large_count(entry.total_parameters),
            large_count(entry.active_parameters) if _sparse(entry) else "",
            str(entry.num_layers),
            byte_count(entry.weight_bytes),
            entry.checkpoint_precision,
            _cache_per_token(entry),
        )
    console.print(drawn)
    console.print()
    layout.footing(console, (), answer.catalogue_revision)


def _sheet(console: Console, answer: GetModelResponse) -> None:
    entry = answer.model
    layout.title(console, entry.title, entry.name)
    if entry.aliases:
        console.print(Text(f"also: {', '.join(entry.aliases)}\n", style=layout.QUIET))
    layout.section(console, "Counted from its config.json", _counted(entry))
    declared = [("parameters, declared", entry.declared_parameters)] if entry.HasField("declared_parameters") else []
    if entry.HasField("declared_active_parameters"):
        declared.append(("active per token, declared", entry.declared_active_parameters))
    figures.sheet(console, declared)
    layout.sentences(console, "Notes", entry.notes)
    layout.footing(console, (), answer.catalogue_revision)


def _counted(entry: Model) -> Table:
    drawn = Table.grid(padding=(0, 2))
    drawn.add_row("publisher", entry.publisher)
    drawn.add_row("parameters", large_count(entry.total_parameters))
    if _sparse(entry):
        drawn.add_row("active per token", large_count(entry.active_parameters))
    drawn.add_row("decoder layers", str(entry.num_layers))
    drawn.add_row("weights", f"{byte_count(entry.weight_bytes)}, stored in {entry.checkpoint_precision}")
    drawn.add_row("cache per token", f"{byte_count(entry.kv_bytes_per_token)} at 16 bits")
    if entry.windowed_kv_bytes_per_token:
        drawn.add_row("  while windows fill", f"+ {byte_count(entry.windowed_kv_bytes_per_token)}")
    if entry.state_bytes_per_sequence:
        drawn.add_row("cache per sequence", f"{byte_count(entry.state_bytes_per_sequence)}, whatever its length")
    return drawn


def _cache_per_token(entry: Model) -> str:
    if not entry.windowed_kv_bytes_per_token:
        return byte_count(entry.kv_bytes_per_token)
    return f"{byte_count(entry.kv_bytes_per_token)} + {byte_count(entry.windowed_kv_bytes_per_token)}"


def _sparse(entry: Model) -> bool:
    """Whether a token passes only some of the parameters."""
    return entry.active_parameters < 0.95 * entry.total_parameters
