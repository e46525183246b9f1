import json
import os
import re
import signal
import socket
import threading
import time
from urllib.request import urlopen

import pytest
from starlette.testclient import TestClient

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.live.server import make_app, open_port, serve

HERE = "http://127.0.0.1:8000"
TOKEN = {"X-Token": "secret"}


@pytest.fixture
def client(worker, stream, until):
    stream.step()
    until(lambda: worker.state()["frame"] == 1)
    return TestClient(make_app(worker, "secret"), base_url=HERE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_stays_after_the_end_until_a_signal(stream, tmp_path, number):
    """The signal comes when a viewer has seen that the stream ended."""
    seen = []

    def watch(address):
        state = {"running": True}
        while state["running"]:
            with urlopen(f"http://{address}/state") as answer:
                state = json.load(answer)
        seen.append(state["frame"])
        os.kill(os.getpid(), number)

    def say(text):
        address = re.search(r"127\.0\.0\.1:\d+", text)[0]
        threading.Thread(target=watch, args=[address]).start()

    stream.step()
    stream.step()
    stream.end()
    serve(stream, open_port(0), tmp_path, say)
    assert seen == [2]


def test_a_stalled_viewer_does_not_keep_the_server(stream, tmp_path):
    """Who asks for a page and never reads it is left behind."""
    viewers = []

    def say(text):
        port = int(re.search(r":(\d+)/", text)[1])
        viewers.append(socket.create_connection(("127.0.0.1", port)))
        viewers[0].sendall(b"POST /act HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()

    stream.end()
    start = time.monotonic()
    serve(stream, open_port(0), tmp_path, say)
    assert time.monotonic() - start < 20
    viewers[0].close()


def test_ports_that_cannot_be_had_are_explained():
    with open_port(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ReservoirError, match=f"port {port} .*in use.*another one with --serve"):
            open_port(port)
    with pytest.raises(ReservoirError, match="cannot listen on port 70000"):
        open_port(70000)


def test_the_page_and_what_it_asks_for(client):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert "live.js" in page.text
    assert "secret" not in page.text  # who only looks cannot act
    for path in ("/live.js", "/live.css"):
        assert client.get(path).status_code == 200
    state = client.get("/state?since=0").json()
    assert (state["frame"], state["timeline"]) == (1, [0])
    for layer in ("image", "overlay"):
        answer = client.get(f"/frame/{layer}.jpg?n=1")
        assert answer.headers["content-type"] == "image/jpeg"
        assert answer.content.startswith(b"\xff\xd8")


def test_an_action_with_the_token_is_done_after_the_next_frame(client, stream, until):
    answer = client.post("/act", json={"action": "reset", "expert": 1}, headers=TOKEN)
    assert answer.status_code == 202
    assert client.post(
        "/act", json={"action": "pause"}, headers={**TOKEN, "Origin": HERE}
    ).is_success
    stream.step()
    until(lambda: len(stream.asked) == 2)
    assert stream.asked == [("reset", 1), ("pause", True)]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"X-Token": "wrong"}, 403),
        ({"X-Token": "sécret".encode()}, 403),
        ({**TOKEN, "Origin": "http://evil.example"}, 403),
        ({**TOKEN, "Origin": "null"}, 403),
        ({**TOKEN, "Origin": "https://127.0.0.1:8000"}, 403),
        ({**TOKEN, "Origin": "http://127.0.0.1:9999"}, 403),
        ({**TOKEN, "Host": "evil.example"}, 400),
    ],
)
def test_strangers_change_nothing(client, worker, stream, until, headers, status):
    assert client.post("/act", json={"action": "pause"}, headers=headers).status_code == status
    stream.step()
    until(lambda: worker.state()["frame"] == 2)
    assert stream.asked == []


@pytest.mark.parametrize("path", ["/", "/state", "/frame/image.jpg"])
def test_pages_of_other_origins_may_not_even_look(client, path):
    assert client.get(path, headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.get(path, headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/../setup.py",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/frame/..%2Fx.jpg",
        "/frame/secret.jpg",
        "/state?since=-1",
        "/state?since=abc",
        "/state?since=" + "9" * 40,
        "/state?since=%F0%9D%9F%98",
        "/%00",
        "/" + "a" * 5000,
        "/act",
    ],
)
def test_garbage_is_refused_and_the_page_lives_on(client, path):
    assert 400 <= client.get(path).status_code < 500
    assert client.get("/state").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'{"action": "explode"}',
        b'{"action": ["pause"]}',
        b'{"action": "reset", "expert": "1"}',
        b'{"action": "reset", "expert": true}',
        b'{"action": "reset", "expert": 99999999999999999999}',
        b"[" * 1000,
        b"\xff\xfe",
        b'{"action": "pause", "x": "' + b"a" * 5000 + b'"}',
    ],
)
def test_garbage_is_no_action(client, worker, stream, until, body):
    assert client.post("/act", content=body, headers=TOKEN).status_code in (400, 413)
    stream.step()
    until(lambda: worker.state()["frame"] == 2)
    assert stream.asked == []


def test_two_viewers_see_the_same(client, worker, stream, until):
    other = TestClient(client.app, base_url="http://localhost:8000")
    stream.step(1)
    until(lambda: worker.state()["frame"] == 2)
    first, second = (c.get("/state").json() for c in (client, other))
    assert first["timeline"] == second["timeline"] == [0, 1]
