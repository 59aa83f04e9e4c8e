"""Where tensor parallelism cuts through quantised weights: widths of which each rank must hold whole blocks or groups.

Row-parallel matrices (those that write the residual stream) are cut along their inputs, all others along their outputs.
Groups lie along the inputs, so that only row-parallel cuts matter to them; two-dimensional blocks are cut either way.
Engines check it when they build the layers: vLLM 0.1x to 0.2x in awq.py and gptq.py ("input size is not aligned"),
marlin_utils.py ("not divisible by group_size"), compressed_tensors_wNa16.py and fp8_utils.py (validate_fp8_block_shape,
which SGLang has too, for both sides).
"""

from collections.abc import Iterator, Sequence

from service.architectures.architecture import Experts, QuantizedCut, Role, Split
from service.architectures.storage import Format, Storage
from service.architectures.weights import Layer, Weight


def quantized_cuts(
    storage: Storage, layers: Sequence[tuple[int, Layer]], hidden_size: int, experts: Experts | None
) -> tuple[QuantizedCut, ...]:
    """Every width that ranks divide and that has a multiple to keep to, each once. ``layers``: with their numbers."""
    found: dict[tuple[int, int, int, bool], QuantizedCut] = {}
    seen: set[tuple[int, tuple[frozenset[str], ...]]] = set()
    for number, layer in layers:
        said = storage.said_of_layer(number)
        if (id(layer), said) in seen:
            continue
        seen.add((id(layer), said))
        for weight in layer.weights:
            chosen = storage.format_of(weight, said) if weight.linear else None
            for cut in _cuts(weight, layer, chosen, hidden_size, experts) if chosen is not None else ():
                if cut.multiple > 1:
                    found.setdefault((cut.width, cut.multiple, cut.smallest, cut.of_experts), cut)
    return tuple(found.values())


def _cuts(weight: Weight, layer: Layer, chosen: Format, hidden_size: int, experts: Experts | None) -> Iterator[QuantizedCut]:
    if weight.role is Role.ROUTED_EXPERTS:
        if experts is not None:
            multiple = max(chosen.input_multiple(of_experts=True), chosen.output_multiple)
            yield QuantizedCut(weight.name, experts.intermediate_size, multiple, of_experts=True)
    elif weight.split is Split.KV_HEADS and layer.attention is not None:
        head = weight.num_outputs // layer.attention.num_kv_heads
        yield QuantizedCut(weight.name, weight.num_outputs, chosen.output_multiple, smallest=head)
    elif weight.split is Split.EVEN and weight.num_outputs == hidden_size:
        yield QuantizedCut(weight.name, weight.num_inputs, chosen.input_multiple())
    elif weight.split is Split.EVEN:
        yield QuantizedCut(weight.name, weight.num_outputs, chosen.output_multiple)
