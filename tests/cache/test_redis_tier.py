"""What the Redis tier does before it has talked to any server; the rest needs a real one: see tests/integration."""

import pytest

from service.cache.redis_tier import RedisSettings, RedisTier

SECRET_URL = "redis://planner:hunter2@cache.example:6380/3"


def test_neither_password_nor_secret_shows_in_a_representation() -> None:
    settings = RedisSettings(url=SECRET_URL, secret=b"hunter2")
    tier = RedisTier(settings)
    shown = f"{settings!r} {settings} {tier!r} {tier}"
    assert "hunter2" not in shown
    assert "planner" not in shown
    assert "cache.example:6380/3" in shown


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "http://:hunter2@cache.example",
        "redis://:hun#ter2@cache.example",
        "redis://:hunter2/hunter2@cache.example",
        "redis://:hunter2@cache.example:hunter2",
        "redis://:hunter2@cache.example?no_such_option=hunter2",
        "redis://:hunter2@cache.example?socket_read_size=hunter2",
        "rediss://:hunter2@cache.example?ssl_cert_reqs=hunter2",
    ],
)
def test_a_malformed_url_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="Redis URL is malformed") as refusal:
        RedisTier(RedisSettings(url=url))
    assert "hun" not in str(refusal.value)
    assert refusal.value.__suppress_context__


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://", "localhost:6379/0"),
        ("redis://cache.example", "cache.example:6379/0"),
        ("rediss://cache.example:6380/2", "cache.example:6380/2"),
        ("unix:///run/redis.sock?db=1&password=hunter2", "/run/redis.sock/1"),
    ],
)
def test_the_address_is_what_a_log_may_show(url: str, address: str) -> None:
    assert f"<RedisTier {address} closed>" == repr(RedisTier(RedisSettings(url=url)))


async def test_a_tier_that_was_never_used_closes_twice() -> None:
    tier = RedisTier(RedisSettings(url="redis://cache.example"))
    await tier.close()
    await tier.close()
    assert await tier.get("FitNode", b"key") is None
    tier.put_soon("FitNode", b"key", b"message")
    assert 0 == tier.num_pending_writes
