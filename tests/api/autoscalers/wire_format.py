"""Protobuf messages written by hand: tags and varints, nothing of any stub, field numbers as the contracts have them."""

from collections.abc import Iterable, Mapping, Sequence


def varint(number: int) -> bytes:
    """A number of up to 64 bits; negative ones as two's complement."""
    number &= 2**64 - 1
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)


def tag(field: int, wire_type: int) -> bytes:
    """What precedes a field: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes."""
    return varint(field << 3 | wire_type)


def whole(field: int, number: int) -> bytes:
    """An integer or a bool."""
    return tag(field, 0) + varint(number)


def data(field: int, content: bytes | str) -> bytes:
    """A string, bytes, or an embedded message."""
    content = content.encode() if isinstance(content, str) else content
    return tag(field, 2) + varint(len(content)) + content


def texts(field: int, values: Iterable[str]) -> bytes:
    """A repeated string."""
    return b"".join(data(field, value) for value in values)


def mapping(field: int, entries: Mapping[str, bytes | str]) -> bytes:
    """A map from strings: an entry is a message of key 1 and value 2."""
    return b"".join(data(field, data(1, key) + data(2, value)) for key, value in entries.items())


def quantities(field: int, amounts: Mapping[str, str | int]) -> bytes:
    """A map from resources to quantities, which are messages of one string."""
    return mapping(field, {resource: data(1, str(amount)) for resource, amount in amounts.items()})


# -- Kubernetes -------------------------------------------------------------------------------------------------------


def metadata(name: str, labels: Mapping[str, str], annotations: Mapping[str, str], namespace: str = "default") -> bytes:
    """ObjectMeta: 1 name, 3 namespace, 5 uid, 8 creationTimestamp (a message), 11 labels, 12 annotations."""
    stamp = data(8, whole(1, 1_790_000_000))
    return data(1, name) + data(3, namespace) + data(5, f"uid-{name}") + stamp + mapping(11, labels) + mapping(12, annotations)


def node(
    name: str = "template",
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str | int] | None = None,
    taints: Sequence[tuple[str, str, str]] = (),
    *,
    unschedulable: bool = False,
) -> bytes:
    """Node: 1 metadata, 2 spec (3 providerID, 4 unschedulable, 5 taints), 3 status (1 capacity, 2 allocatable)."""
    spec = data(3, "provider:///zone/machine") + (whole(4, 1) if unschedulable else b"")
    spec += b"".join(data(5, data(1, key) + data(2, value) + data(3, effect)) for key, value, effect in taints)
    status = quantities(1, allocatable or {}) + quantities(2, allocatable or {}) + data(4, data(1, "Ready") + data(2, "True"))
    return data(1, metadata(name, labels or {}, {})) + data(2, spec) + data(3, status)


def container(
    requests: Mapping[str, str | int] | None = None,
    *,
    limits: Mapping[str, str | int] | None = None,
    image: str = "server",
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    restart_policy: str = "",
) -> bytes:
    """Container: 1 name, 2 image, 3 command, 4 args, 7 env, 8 resources (1 limits, 2 requests), 24 restartPolicy."""
    variables = b"".join(data(7, data(1, name) + data(2, value)) for name, value in (env or {}).items())
    resources = data(8, quantities(1, limits or {}) + quantities(2, requests or {}))
    policy = data(24, restart_policy) if restart_policy else b""
    return data(1, "main") + data(2, image) + texts(3, command) + texts(4, args) + variables + resources + policy


def pod(
    name: str,
    *containers: bytes,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: bytes = b"",
) -> bytes:
    """Pod: 1 metadata, 2 spec (2 containers, and what ``spec`` adds), 3 status (1 phase)."""
    body = b"".join(data(2, each) for each in containers) + spec
    return data(1, metadata(name, labels or {}, annotations or {})) + data(2, body) + data(3, data(1, "Pending"))


# -- the Cluster Autoscaler -------------------------------------------------------------------------------------------


def option(name: str, num_nodes: int, pods: Iterable[bytes], generation: str) -> bytes:
    """Option: 1 nodeGroupId, 2 nodeCount, 3 debug, 4 pod (old), 5 podBytes (new)."""
    listed = list(pods)
    old = b"".join(data(4, each) for each in listed) if generation in {"old", "both"} else b""
    new = b"".join(data(5, each) for each in listed) if generation in {"new", "both"} else b""
    return data(1, name) + whole(2, num_nodes) + data(3, "debug") + old + new


def request(options: Mapping[str, tuple[bytes, int, Iterable[bytes]]], generation: str = "new") -> bytes:
    """BestOptionsRequest: 1 options, 2 nodeMap (old), 3 nodeBytesMap (new).

    ``generation``: "old" as 1.28 to 1.34 write it, "both" as 1.34.2, "new" as 1.35 and later.
    """
    listed = b"".join(data(1, option(name, count, pods, generation)) for name, (_, count, pods) in options.items())
    nodes = {name: template for name, (template, _, _) in options.items()}
    old = mapping(2, nodes) if generation in {"old", "both"} else b""
    return listed + old + (mapping(3, nodes) if generation in {"new", "both"} else b"")


def read_fields(message: bytes) -> list[tuple[int, bytes | int]]:
    """The fields of a message of strings, messages and varints, in order."""
    fields: list[tuple[int, bytes | int]] = []
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        key = number()
        if key & 7 == 0:
            fields.append((key >> 3, number()))
            continue
        assert key & 7 == 2, "only varints and lengths are expected in an answer"
        length = number()
        fields.append((key >> 3, message[place : place + length]))
        place += length
    assert place == len(message)
    return fields


def chosen_ids(response: bytes) -> list[str]:
    """The ids in a BestOptionsResponse: 1 options, of which 1 is the id."""
    ids = []
    for field, content in read_fields(response):
        assert field == 1
        assert isinstance(content, bytes)
        ids += [value.decode() for number, value in read_fields(content) if number == 1 and isinstance(value, bytes)]
    return ids
