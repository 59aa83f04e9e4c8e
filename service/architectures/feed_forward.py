"""What a layer does to each token by itself: a dense MLP, or routed and shared experts."""

from msgspec import Struct

from service.architectures.architecture import Experts, FeedForward, Role, Split
from service.architectures.fields import MAX_EXPERTS, Fields
from service.architectures.weights import Part, Weight, matrix, router, vector


class Mlp(Struct, frozen=True):
    """An MLP: gated (three matrices) or not (two), with or without biases."""

    hidden_size: int
    intermediate_size: int
    gated: bool = True
    bias: bool = False
    module: str = "mlp"
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")


def mlp_weights(mlp: Mlp, role: Role = Role.MLP) -> tuple[Weight, ...]:
    """The matrices of an MLP: inputs by columns, output by rows."""
    within = f"{mlp.module}." if mlp.module else ""
    gate, up, down = (f"{within}{name}" for name in mlp.names)
    hidden, width = mlp.hidden_size, mlp.intermediate_size
    weights = [matrix(gate, role, hidden, width)] if mlp.gated else []
    weights += [matrix(up, role, hidden, width), matrix(down, role, width, hidden)]
    if mlp.bias:
        weights.append(vector(f"{up}.bias", role, width * (2 if mlp.gated else 1), Split.EVEN))
        weights.append(vector(f"{down}.bias", role, hidden))
    return tuple(weights)


def dense(mlp: Mlp) -> Part:
    """A dense feed-forward half."""
    return Part(weights=mlp_weights(mlp), feed_forward=FeedForward.DENSE)


class ExpertBlock(Struct, frozen=True, kw_only=True):
    """Routed experts with what stands beside them."""

    hidden_size: int
    experts: Experts
    module: str = "mlp"
    router: str = "gate"
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    gated: bool = True
    bias: bool = False  # of the experts' matrices
    router_bias: bool = False  # a bias or a correction of the scores, one a routed expert
    expert_hidden_size: int | None = None  # latent width that the experts read and write, where it is not hidden_size
    router_outputs: int | None = None  # more than the experts, where some outputs mean "no expert"


def expert_weights(block: ExpertBlock) -> tuple[Weight, ...]:
    """Router and routed experts of one layer."""
    number, width = block.experts.num_experts, block.experts.intermediate_size
    hidden = block.expert_hidden_size or block.hidden_size
    outputs = block.router_outputs or number
    within = f"{block.module}." if block.module else ""
    at = f"{within}experts"
    gate, up, down = (f"{at}.{name}" for name in block.names)
    weights = [router(f"{within}{block.router}", block.hidden_size, outputs)]
    if block.router_bias:
        weights.append(vector(f"{within}{block.router}.bias", Role.ROUTER, outputs))
    if block.gated:
        weights.append(_expert(gate, number, hidden, width))
    weights += [_expert(up, number, hidden, width), _expert(down, number, width, hidden)]
    if block.bias:
        size = width * (2 if block.gated else 1) + hidden
        weights.append(vector(f"{at}.bias", Role.ROUTED_EXPERTS, size, Split.EXPERTS, copies=number))
    return tuple(weights)


def _expert(name: str, number: int, num_inputs: int, num_outputs: int) -> Weight:
    return Weight(name, Role.ROUTED_EXPERTS, Split.EXPERTS, num_inputs, num_outputs, copies=number)


def read_experts(fields: Fields, *, width: int | None = None) -> Experts:
    """Number of routed experts, how many a token passes, and their width, under the names that families use."""
    number = fields.count("num_experts", at_most=MAX_EXPERTS)
    per_token = fields.count("num_experts_per_tok", at_most=MAX_EXPERTS)
    if per_token > number:
        raise fields.refuse(
            "num_experts_per_tok",
            f"{per_token} experts a token are more than the {number} there are.",
            "Give at most the number of experts.",
        )
    return Experts(number, per_token, width if width is not None else fields.count("moe_intermediate_size"))
