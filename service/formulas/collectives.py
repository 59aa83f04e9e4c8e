"""What collectives send, per device and in one direction."""

from service.formulas.registry import formula


@formula("B · h · b", source="Megatron-LM: the output of a row-parallel layer is summed over ranks")
def all_reduce_message_bytes(*, batch_size: float, hidden_size: float, activation_bytes_per_element: float) -> float:
    """Bytes of one all-reduce: one hidden vector per token of the batch.

    >>> all_reduce_message_bytes(batch_size=64, hidden_size=8192, activation_bytes_per_element=2)
    1048576
    """
    return batch_size * hidden_size * activation_bytes_per_element


@formula("A · m", source="a rank's own summand must leave it and the sum must reach it: the message once each way")
def all_reduce_bytes_at_least(*, num_all_reduces: float, message_bytes: float) -> float:
    """Bytes that each device sends in A all-reduces at the very least, as a reducing switch needs.

    >>> all_reduce_bytes_at_least(num_all_reduces=160, message_bytes=1048576)
    167772160
    """
    return num_all_reduces * message_bytes


@formula("A · 2(n − 1)/n · m", source="Patarasu and Yuan, 2009: ring all-reduce")
def ring_all_reduce_bytes(*, num_all_reduces: float, num_ranks: float, message_bytes: float) -> float:
    """Bytes that each device sends in A ring all-reduces over n ranks.

    A reduce-scatter and an all-gather each send (n − 1)/n of the message.

    >>> ring_all_reduce_bytes(num_all_reduces=1, num_ranks=8, message_bytes=1048576)
    1835008.0
    """
    return num_all_reduces * 2 * (num_ranks - 1) / num_ranks * message_bytes


@formula("T · r · h · (b_out + b_back)", source="a token's vector goes to each remote expert group and a result comes back")
def expert_exchange_bytes(
    *,
    num_tokens: float,
    num_remote_groups: float,
    hidden_size: float,
    dispatch_bytes_per_element: float,
    combine_bytes_per_element: float,
) -> float:
    """Bytes that each device sends in one expert layer to reach experts on other ranks and to return their results.

    >>> expert_exchange_bytes(num_tokens=8, num_remote_groups=7, hidden_size=7168, dispatch_bytes_per_element=1,
    ...     combine_bytes_per_element=2)
    1204224
    """
    return num_tokens * num_remote_groups * hidden_size * (dispatch_bytes_per_element + combine_bytes_per_element)


@formula("(G − 1) · (1 − (1 − 1/G)^k)", source="expectation under uniform routing over G groups")
def expected_num_remote_expert_groups(*, num_expert_groups: float, num_experts_per_token: float) -> float:
    """Other expert groups that one token's k experts lie in, on average.

    >>> round(expected_num_remote_expert_groups(num_expert_groups=8, num_experts_per_token=8), 2)
    4.59
    """
    missed: float = (1 - 1 / num_expert_groups) ** num_experts_per_token
    return (num_expert_groups - 1) * (1 - missed)
