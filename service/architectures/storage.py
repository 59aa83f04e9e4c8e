"""In which number format a checkpoint keeps each weight, and how many bytes that takes.

A ``Format`` is one way to store a matrix; a ``Storage`` says which weights are stored in which. ``quantization`` builds
the ``Storage`` from the quantisation block of a configuration.
"""

from msgspec import Struct

from service.architectures.architecture import Role, Tensor
from service.architectures.modules import Modules
from service.architectures.weights import Weight
from service.units import BYTES_PER_ELEMENT


class Format(Struct, frozen=True):
    """A quantised matrix: elements, and one scale (and zero point) a group of ``block_rows`` x ``block_columns``.

    Rows are outputs and columns inputs; None takes all of them, so (None, None) is one scale a matrix, (1, None) one an
    output channel, (1, g) one a group of g inputs, (128, 128) one a block.
    """

    precision: str
    bits: int
    block_rows: int | None = None
    block_columns: int | None = None
    scale_bytes: float = 4.0
    zero_point_bits: int = 0
    matrix_bytes: int = 0  # per matrix besides: a second-level scale
    input_bytes: int = 0  # per input besides: an order of activations
    # What a rank's share of the inputs must be a multiple of, where that is not its group; 1 leaves it free.
    cut: int | None = None
    expert_cut: int | None = None  # the same for routed experts, where engines cut them otherwise

    def num_bytes(self, num_inputs: int, num_outputs: int, copies: int) -> float:
        """Bytes of ``copies`` matrices, scales included."""
        groups = _groups(num_outputs, self.block_rows) * _groups(num_inputs, self.block_columns)
        elements = num_inputs * num_outputs * self.bits / 8
        scales = groups * (self.scale_bytes + self.zero_point_bits / 8)
        return copies * (elements + scales + self.matrix_bytes + self.input_bytes * num_inputs)

    def input_multiple(self, *, of_experts: bool = False) -> int:
        """What each rank's share of inputs that ranks divide must be a multiple of: ranks hold whole groups."""
        chosen = self.expert_cut if of_experts and self.expert_cut is not None else self.cut
        return chosen if chosen is not None else self.block_columns or 1

    @property
    def output_multiple(self) -> int:
        """What each rank's share of outputs that ranks divide must be a multiple of."""
        return self.block_rows or 1


def _groups(size: int, block: int | None) -> int:
    return 1 if block is None else -(-size // block)


class Rule(Struct, frozen=True):
    """Modules of one treatment: a format, or None for the checkpoint's plain dtype."""

    modules: Modules
    format: Format | None


class Storage(Struct, frozen=True):
    """How a checkpoint stores its weights: the first rule that names a module decides, else ``default``.

    ``default`` applies to linear layers other than the lm_head (no known scheme quantises it unless it says so).
    """

    plain_precision: str
    default: Format | None = None
    rules: tuple[Rule, ...] = ()
    experts: Format | None = None  # a format of the routed experts alone, below the rules
    quantizes_lm_head: bool = False
    quantizes_vision: bool = True
    kv_cache_precision: str | None = None
    place: str = ""  # of the quantisation block, where there is one
    notes: tuple[str, ...] = ()

    @property
    def plain_bytes(self) -> float:
        """Bytes of an element that no rule is about."""
        return BYTES_PER_ELEMENT[self.plain_precision]

    def said_of_layer(self, index: int) -> tuple[frozenset[str], ...]:
        """What the rules say of one layer in particular: layers that share it are stored alike."""
        return tuple(rule.modules.of_layer(index) for rule in self.rules)

    def tensor(self, weight: Weight, said_of_layer: tuple[frozenset[str], ...] | None = None) -> Tensor:
        """The weight as this checkpoint stores it."""
        chosen = self.format_of(weight, said_of_layer)
        parameters = weight.num_parameters
        if chosen is not None:
            precision = chosen.precision
            num_bytes = chosen.num_bytes(weight.num_inputs, weight.num_outputs, weight.copies)
        else:
            precision = self.plain_precision
            num_bytes = parameters * self.plain_bytes
        return Tensor(
            name=weight.name,
            role=weight.role,
            num_parameters=float(parameters),
            split=weight.split,
            precision=precision,
            num_bytes=float(num_bytes),
            num_matmul_parameters=float(parameters * weight.runs if weight.linear else 0),
        )

    def format_of(self, weight: Weight, said_of_layer: tuple[frozenset[str], ...] | None = None) -> Format | None:
        """The format that the weight is stored in; None for the checkpoint's plain dtype."""
        if not weight.quantizable:
            return None
        said = said_of_layer or (frozenset(),) * len(self.rules)
        for rule, names in zip(self.rules, said, strict=True):
            if rule.modules.contains(weight.name, names):
                return rule.format
        if weight.role is Role.LM_HEAD and not self.quantizes_lm_head:
            return None
        if weight.role is Role.VISION and not self.quantizes_vision:
            return None
        if weight.role is Role.ROUTED_EXPERTS and self.experts is not None:
            return self.experts
        return self.default
