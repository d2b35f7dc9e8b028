import os
import signal

import pytest
import redis

from marketplace.local.valkey import Valkey


def test_it_answers_only_with_the_password_and_keeps_the_queue_over_a_restart(tmp_path):
    server = Valkey(tmp_path / "valkey")
    with server as url, redis.Redis.from_url(url) as client:
        client.set("kept", "yes")
        assert client.config_get("bind") == {"bind": "127.0.0.1"}
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        with (
            redis.Redis(port=server.port) as stranger,
            pytest.raises(redis.exceptions.AuthenticationError),
        ):
            stranger.get("kept")

    with Valkey(tmp_path / "valkey") as again, redis.Redis.from_url(again) as client:
        assert again == url
        assert client.get("kept") == b"yes"


def test_a_server_left_behind_by_a_killed_run_is_ended(tmp_path):
    left_behind = Valkey(tmp_path / "valkey")
    left_behind.start()
    second = Valkey(tmp_path / "valkey")
    try:
        second.start()
        assert left_behind.process.wait(5) in {0, -signal.SIGTERM}
        assert second.process.poll() is None
    finally:
        second.stop()
        left_behind.stop()
    assert not os.path.exists(tmp_path / "valkey" / "pid")
