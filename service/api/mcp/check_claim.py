"""The tool that checks what a vendor, a slide or a colleague said about hardware."""

from typing import Annotated, Any

from pydantic import Field

from service.api.mcp.answers import Answer
from service.api.mcp.prose import sentence
from service.api.mcp.tools import Desk, Tool

_VERDICTS = {
    "MATCHES": "holds",
    "MATCHES_ANOTHER_BASIS": "holds on another basis only",
    "CONFLICTING_SOURCES": "official sources disagree",
    "CONTRADICTED": "is contradicted",
    "UNKNOWN": "cannot be confirmed",
}
_SAID_REASONS = 5


def check_claim(desk: Desk) -> Tool:
    """The tool, asking at this desk."""

    async def tool(
        text: Annotated[
            str, Field(description="as it was said: 'H100: 1,979 TFLOPS BF16', 'N4P: +11 %', 'Rubin memory bandwidth'")
        ],
    ) -> Answer:
        """Does a figure about an accelerator, a node type, a die or a process node hold, and on which basis?

        Takes claims as they were said: peaks, bandwidth, memory, power, ratios ("V100 FP16 → GB300 NVFP4: dense peak × 120"),
        process names ("7 nm", "4N"), die areas. Says what was counted and what to compare with. Not for speeds of models
        (how_fast) or utilisation (explain_mfu).
        """
        reply = await desk.ask("AuditClaim", {"text": text})
        claims = reply["claims"]
        to_add = [f"say {each}" for claim in claims for each in claim["to_add"]]
        nearest = [name for claim in claims for name in claim["nearest"]]
        return desk.answer(
            reply,
            " ".join(map(_said, claims)),
            figures={f"like_for_like_{place}": each["like_for_like"]["printed"] for place, each in _compared(claims)},
            rows=map(_row, claims),
            sources=[source["id"] for claim in claims for source in claim["sources"]],
            hints=[
                *to_add,
                *([f"nearest names: {', '.join(nearest[:5])}"] if nearest else []),
                "look_up shows a product's figures",
            ],
        )

    return tool


def _compared(claims: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    return [(place, each) for place, each in enumerate(claims, 1) if "like_for_like" in each]


def _said(claim: dict[str, Any]) -> str:
    reasons = " ".join(map(sentence, claim["reasons"][:_SAID_REASONS]))
    like = claim.get("like_for_like")
    compare = f" Compare with {like['printed']} ({like['description'].rstrip(', ')}; {like['basis']})." if like else ""
    # Of a bare name there is nothing to confirm, only something to say.
    verdict = f" {_VERDICTS[claim['verdict']]}" if claim["verdict"] != "UNKNOWN" or claim["reading"]["printed"] else ""
    return f"{claim['reading']['printed'] or claim['text']!r}{verdict}: {reasons}{compare}"


def _row(claim: dict[str, Any]) -> dict[str, Any]:
    like, match = claim.get("like_for_like"), next(iter(claim["matches"]), None)
    row = {
        "claim": claim["text"][:200],
        "verdict": claim["verdict"],
        "subject": claim["reading"]["subject"],
        "quantity": claim["reading"].get("quantity"),
        "like_for_like_value": like and like["value"],
        "like_for_like_unit": like and like["unit"],
        "like_for_like": like and like["description"],
        "matches": match and match["title"],
        "matches_basis": match and match["basis"],
        "matches_sparsity": match and match["sparsity"],
        "matches_num_devices": match and match["num_devices"],
    }
    return {name: value for name, value in row.items() if value}
