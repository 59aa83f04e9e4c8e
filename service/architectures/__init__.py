"""What a Hugging Face config.json means: one reader a family, into one Architecture."""

from service.architectures.architecture import (
    Architecture,
    AttentionShape,
    CacheEntry,
    Experts,
    FeedForward,
    LayerKind,
    Mixer,
    Role,
    Split,
    Tensor,
)
from service.architectures.reading import read
from service.architectures.refusal import UnreadableConfig

__all__ = [
    "Architecture",
    "AttentionShape",
    "CacheEntry",
    "Experts",
    "FeedForward",
    "LayerKind",
    "Mixer",
    "Role",
    "Split",
    "Tensor",
    "UnreadableConfig",
    "read",
]
