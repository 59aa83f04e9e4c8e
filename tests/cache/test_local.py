"""The in-process tier forgets in the right order and never takes more than its budget."""

import threading
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cache.local import ENTRY_OVERHEAD_BYTES, LocalTier


def test_a_value_put_is_got_until_it_is_cleared() -> None:
    local = LocalTier(max_bytes=10_000, max_entries=10)
    local.put(b"key", b"value")
    local.put(b"nothing in it", b"")
    assert b"value" == local.get(b"key")
    assert b"" == local.get(b"nothing in it")
    assert local.get(b"another") is None
    local.clear()
    assert local.get(b"key") is None
    assert (0, 0) == (len(local), local.size_bytes)


def test_the_least_recently_used_entry_goes_first() -> None:
    local = LocalTier(max_bytes=100_000, max_entries=3)
    for key in (b"a", b"b", b"c"):
        local.put(key, key)
    local.get(b"a")
    local.put(b"d", b"d")
    assert [b"a", None, b"c", b"d"] == [local.get(key) for key in (b"a", b"b", b"c", b"d")]


def test_keys_values_and_overhead_count_towards_the_bytes() -> None:
    entry_bytes = 40 + 60 + ENTRY_OVERHEAD_BYTES
    local = LocalTier(max_bytes=3 * entry_bytes, max_entries=100, max_entry_ratio=1)
    for index in range(4):
        local.put(bytes([index]) * 40, b"v" * 60)
    assert 3 == len(local)
    assert 3 * entry_bytes == local.size_bytes
    assert local.get(bytes([0]) * 40) is None


def test_an_entry_over_its_share_is_not_inserted_and_pushes_nothing_out() -> None:
    local = LocalTier(max_bytes=10_000, max_entries=100, max_entry_ratio=0.1)
    local.put(b"small", b"v")
    local.put(b"large", b"v" * 1_000)
    local.put(b"k" * 1_000, b"large key")
    assert 1 == len(local)
    assert b"v" == local.get(b"small")


def test_replacing_a_value_counts_it_once() -> None:
    local = LocalTier(max_bytes=10_000, max_entries=100, max_entry_ratio=0.5)
    local.put(b"key", b"v" * 100)
    local.put(b"key", b"w" * 10)
    assert b"w" * 10 == local.get(b"key")
    assert 3 + 10 + ENTRY_OVERHEAD_BYTES == local.size_bytes
    local.put(b"key", b"x" * 9_000)
    assert local.get(b"key") is None, "the old value must not outlive a newer one that was too large to keep"
    assert 0 == local.size_bytes


@pytest.mark.parametrize(("max_bytes", "max_entries"), [(0, 10), (10_000, 0)])
def test_a_budget_of_nothing_keeps_nothing(max_bytes: int, max_entries: int) -> None:
    local = LocalTier(max_bytes=max_bytes, max_entries=max_entries, max_entry_ratio=1)
    local.put(b"key", b"value")
    assert local.get(b"key") is None


@pytest.mark.parametrize("arguments", [(-1, 1, 0.5), (1, -1, 0.5), (1, 1, 1.5), (1, 1, -0.1)])
def test_a_senseless_budget_is_refused(arguments: tuple[int, int, float]) -> None:
    max_bytes, max_entries, max_entry_ratio = arguments
    with pytest.raises(ValueError, match="max_bytes and max_entries"):
        LocalTier(max_bytes=max_bytes, max_entries=max_entries, max_entry_ratio=max_entry_ratio)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 12), st.integers(0, 400)), max_size=200))
def test_any_sequence_leaves_what_a_plain_list_of_ages_would(operations: list[tuple[bool, int, int]]) -> None:
    max_bytes, max_entries = 2_400, 6
    local = LocalTier(max_bytes=max_bytes, max_entries=max_entries, max_entry_ratio=1)
    by_age: OrderedDict[bytes, bytes] = OrderedDict()
    for is_put, name, size in operations:
        key, value = bytes([name]), b"v" * size
        if is_put:
            local.put(key, value)
            by_age.pop(key, None)
            by_age[key] = value
            while _size_bytes(by_age) > max_bytes or len(by_age) > max_entries:
                by_age.popitem(last=False)
        else:
            assert by_age.get(key) == local.get(key)
            if key in by_age:
                by_age.move_to_end(key)
        assert (len(by_age), _size_bytes(by_age)) == (len(local), local.size_bytes)


def _size_bytes(entries: OrderedDict[bytes, bytes]) -> int:
    return sum(len(key) + len(value) + ENTRY_OVERHEAD_BYTES for key, value in entries.items())


def test_threads_neither_break_the_accounting_nor_see_a_wrong_value() -> None:
    local = LocalTier(max_bytes=4_000, max_entries=8, max_entry_ratio=1)
    wrong: list[object] = []

    def work(seed: int) -> None:
        try:
            for step in range(5_000):
                key = bytes([(seed + step * 7) % 24])
                if step % 3:
                    value = local.get(key)
                    if value is not None and value != key * 50:
                        wrong.append(value)
                else:
                    local.put(key, key * 50)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == wrong
    assert len(local) * (1 + 50 + ENTRY_OVERHEAD_BYTES) == local.size_bytes
    assert len(local) <= 8
