"""Operations and experts of a transformer's matrix multiplications."""

from service.formulas.registry import formula


@formula("2 · N", source="one multiply-add per weight and token; Kaplan et al., 2020, table 1")
def matmul_flops_per_token(*, num_matmul_parameters: float) -> float:
    """Operations of one token's forward pass through weight matrices.

    The 2 counts a multiplication and an addition. The embedding table is looked up, not multiplied; the lm_head is.

    >>> matmul_flops_per_token(num_matmul_parameters=7e9)
    14000000000.0
    """
    return 2 * num_matmul_parameters


@formula("E · (1 − (1 − k/E)^T)", source="expectation under uniform routing of T independent tokens")
def expected_num_experts_read(*, num_experts: float, num_experts_per_token: float, num_tokens: float) -> float:
    """Experts of a layer that T tokens touch on average when each picks k of E with equal chance.

    >>> expected_num_experts_read(num_experts=8, num_experts_per_token=2, num_tokens=1)
    2.0
    >>> round(expected_num_experts_read(num_experts=256, num_experts_per_token=8, num_tokens=64), 1)
    222.4
    """
    untouched: float = (1 - num_experts_per_token / num_experts) ** num_tokens
    return num_experts * (1 - untouched)
