"""Weights before storage: shapes, roles and splits, as a reader lists them.

``storage`` turns each into a ``Tensor`` once it is known in which number format the checkpoint keeps it.
"""

from collections.abc import Iterable

from msgspec import Struct

from service.architectures.architecture import AttentionShape, CacheEntry, Divided, FeedForward, Mixer, Role, Split


class Weight(Struct, frozen=True):
    """A matrix (or ``copies`` of it), or a vector or table that is not multiplied.

    ``name`` is the path of its module below the layer, as the checkpoint has it. ``linear`` says that a token is
    multiplied with it, ``quantizable`` that quantisation can apply to it. ``runs`` is how often one token passes it (a
    block shared by several layers is stored once and runs many times).
    """

    name: str
    role: Role
    split: Split
    num_inputs: int
    num_outputs: int
    copies: int = 1
    linear: bool = True
    quantizable: bool = True
    runs: float = 1

    @property
    def num_parameters(self) -> int:
        """Over all copies."""
        return self.num_inputs * self.num_outputs * self.copies


def matrix(name: str, role: Role, num_inputs: int, num_outputs: int, split: Split = Split.EVEN) -> Weight:
    """One projection, quantised like the model's other linear layers."""
    return Weight(name, role, split, num_inputs, num_outputs)


def vector(name: str, role: Role, size: int, split: Split = Split.REPLICATED, *, copies: int = 1) -> Weight:
    """A bias, a norm or any small table: stored unquantised, no matrix product."""
    return Weight(name, role, split, size, 1, copies=copies, linear=False, quantizable=False)


def norm(name: str, size: int, *, bias: bool = False) -> Weight:
    """A normalisation's weight, with a bias where it is a LayerNorm that has one."""
    return vector(name, Role.NORMS, size * (2 if bias else 1))


def router(name: str, hidden_size: int, num_experts: int) -> Weight:
    """The matrix that scores experts: multiplied, but kept unquantised by every known scheme."""
    return Weight(name, Role.ROUTER, Split.REPLICATED, hidden_size, num_experts, quantizable=False)


class Layer(Struct, frozen=True):
    """One layer as a reader describes it; layers that are the same object or equal are of one kind."""

    mixer: Mixer
    feed_forward: FeedForward
    weights: tuple[Weight, ...]
    cache: tuple[CacheEntry, ...] = ()
    attention: AttentionShape | None = None
    divided: tuple[Divided, ...] = ()


class Part(Struct, frozen=True):
    """What one half of a layer (its token mixing or its feed-forward) contributes to it."""

    weights: tuple[Weight, ...]
    mixer: Mixer = Mixer.NONE
    cache: tuple[CacheEntry, ...] = ()
    attention: AttentionShape | None = None
    feed_forward: FeedForward = FeedForward.NONE
    divided: tuple[Divided, ...] = ()


def layer(mixing: Part, feeding: Part, norms: Iterable[Weight]) -> Layer:
    """A layer of a mixing part, a feed-forward part and the norms around them."""
    return Layer(
        mixer=mixing.mixer,
        feed_forward=feeding.feed_forward,
        weights=(*mixing.weights, *feeding.weights, *norms),
        cache=mixing.cache,
        attention=mixing.attention,
        divided=mixing.divided,
    )
