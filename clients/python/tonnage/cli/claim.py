"""``tonnage claim``: whether a vendor's figure holds, and on which basis."""

import sys

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tonnage import methods
from tonnage.cli import layout, options
from tonnage.cli.request_file import Question
from tonnage.cli.session import Session
from tonnage.v1.claim_service_pb2 import AuditClaimResponse, AuditedClaim

_STYLES = {
    AuditedClaim.MATCHES: layout.GOOD,
    AuditedClaim.MATCHES_ANOTHER_BASIS: "yellow",
    AuditedClaim.CONFLICTING_SOURCES: "yellow",
    AuditedClaim.CONTRADICTED: layout.BAD,
}


@click.command(
    cls=Question,
    epilog=options.examples(
        'tonnage claim "H100: 1,979 TFLOPS BF16"',
        'tonnage claim "GB200 NVL72 1.4 EFLOPS" "N4P: +11 %"',
        "tonnage claim - < brochure.txt",
    ),
)
@click.argument("claims", nargs=-1, required=True, metavar="CLAIM...")
@options.with_session
def claim(claims: tuple[str, ...], session: Session) -> None:
    """Hold vendor figures against the catalogue: basis, like-for-like figure, verdict. "-" reads standard input."""
    text = sys.stdin.read() if claims == ("-",) else "\n".join(claims)
    request = session.request(methods.AUDIT_CLAIM, text=text or None)
    session.show(session.ask(lambda client: client.audit_claim(request)), _draw)


def _draw(console: Console, answer: AuditClaimResponse) -> None:
    sources: dict[str, int] = {}
    for audited in answer.claims:
        _draw_one(console, audited, sources)
    listed = Table.grid(padding=(0, 1))
    titles = {source.id: source for audited in answer.claims for source in audited.sources}
    for name, number in sources.items():
        source = titles[name]
        listed.add_row(f"[{number}]", ", ".join(part for part in (source.publisher, source.title, source.date) if part))
        if source.url:
            listed.add_row("", source.url, style=layout.QUIET)
    if sources:
        layout.section(console, "Sources", listed)
    layout.footing(console, (), answer.catalogue_revision)


def _draw_one(console: Console, audited: AuditedClaim, sources: dict[str, int]) -> None:
    verdict = AuditedClaim.Verdict.Name(audited.verdict)
    console.print(Text(audited.text or "(nothing read)", style=layout.HEADING))
    numbers = " ".join(f"[{sources.setdefault(source.id, len(sources) + 1)}]" for source in audited.sources)
    console.print(Text(verdict.replace("_", " ").lower(), style=_STYLES.get(audited.verdict, layout.QUIET)), Text(numbers))
    body = Table.grid(padding=(0, 1))
    for reason in audited.reasons:
        body.add_row("·", reason)
    if audited.HasField("like_for_like"):
        body.add_row("→", f"like for like: {audited.like_for_like.printed} ({audited.like_for_like.description})")
    for missing in audited.to_add:
        body.add_row("+", f"add {missing}")
    if audited.nearest:
        body.add_row("?", f"nearest: {', '.join(audited.nearest)}")
    console.print(body)
    console.print()
