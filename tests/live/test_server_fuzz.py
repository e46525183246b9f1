"""Whatever is asked of the live page, it answers and goes on; only a token changes anything."""

import asyncio
import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mmseg_reservoir.live.server import make_app

ROUTES = ("/", "/live.css", "/live.js", "/state", "/frame/image.jpg", "/frame/overlay.jpg", "/act")
HOSTS = (b"127.0.0.1:8000", b"localhost", b"evil.example", b"[::1", b"", b"a:b:c", b"\xff")
NAMES = (b"host", b"origin", b"x-token", b"content-type", b"content-length", b"range", b"upgrade")
TOKEN = [(b"host", b"localhost"), (b"x-token", b"secret")]
REFUSED = ["websocket.http.response.start", "websocket.http.response.body"]
METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "", "GET\x00", "pöst")

hostile = st.one_of(
    st.binary(max_size=30),
    st.sampled_from(
        [b"http://127.0.0.1:8000", b"null", b"secret", b"bytes=9-1", b"-1", b"9" * 30, b"chunked"]
    ),
)
headers = st.lists(
    st.tuples(st.one_of(st.sampled_from(NAMES), st.binary(min_size=1, max_size=10)), hostile),
    max_size=6,
)
paths = st.one_of(
    st.sampled_from(ROUTES),
    st.text(max_size=40).map(lambda text: f"/{text}"),
    st.tuples(st.sampled_from(ROUTES), st.text(max_size=10)).map("".join),
    st.sampled_from(["", "//", "/../act", "/frame/../../etc/passwd", "/frame/image.jpg/"]),
)
queries = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=12).map(lambda text: b"since=" + text.encode("utf-8", "surrogatepass")),
    st.integers().map(lambda number: b"since=%d" % number),
)
json_bodies = st.fixed_dictionaries(
    {},
    optional={
        "action": st.one_of(
            st.sampled_from(["pause", "resume", "reset", "save"]), st.text(max_size=5), st.none()
        ),
        "expert": st.one_of(st.integers(), st.floats(), st.booleans(), st.text(max_size=3)),
    },
)
bodies = st.lists(st.binary(max_size=700), max_size=4)


@pytest.fixture
def app(worker, stream, until):
    stream.step()
    until(lambda: worker.state()["frame"] == 1)
    return make_app(worker, "secret")


def scope_of(kind, path, headers, method="GET", query=b""):
    """A request as a server hands it on."""
    return {
        "type": kind,
        "http_version": "1.1",
        "method": method,
        "scheme": "http" if kind == "http" else "ws",
        "path": path,
        "raw_path": path.encode("utf-8", "surrogatepass"),
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in headers],
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 8000),
        "subprotocols": [],
    }


def use(app, scope, content):
    """All messages of the app's answer to a request."""
    sent, messages = [], []
    if scope["type"] == "websocket":
        messages += [{"type": "websocket.connect"}, {"type": "websocket.receive", "text": content}]
    else:
        messages += [{"type": "http.request", "body": x, "more_body": True} for x in content]
        messages += [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive():
        return messages.pop(0) if messages else {"type": f"{scope['type']}.disconnect"}

    async def send(message):
        sent.append(message)

    asyncio.run(asyncio.wait_for(app(scope, receive, send), timeout=20))
    return sent


def status_of(sent):
    (status,) = [m["status"] for m in sent if m["type"] == "http.response.start"]
    assert 200 <= status < 500
    return status


@given(
    path=paths,
    query=queries,
    method=st.sampled_from(METHODS),
    host=st.sampled_from(HOSTS),
    more=headers,
    pieces=bodies,
)
def test_any_request_is_answered(
    app, worker, stream, tmp_path, path, query, method, host, more, pieces
):
    before = worker.state(), sorted(tmp_path.rglob("*"))
    given = [(b"host", host), *more]
    has_token = any(name.lower() == b"x-token" and value == b"secret" for name, value in more)
    status_of(use(app, scope_of("http", path, given, method, query), pieces))
    assert has_token or worker._actions.empty()
    assert (worker.state(), sorted(tmp_path.rglob("*"))) == before
    assert stream.asked == []  # no frame came, between which anything could be done


def test_a_query_that_is_not_ascii_is_refused(app):
    for path in ("", "/state"):
        assert status_of(use(app, scope_of("http", path, TOKEN, query=b"\xe4"), [])) == 400


@given(body=st.one_of(json_bodies, st.none(), st.lists(json_bodies, max_size=2)))
def test_any_action_is_accepted_or_refused(app, body):
    scope = scope_of("http", "/act", TOKEN, "POST")
    status = status_of(use(app, scope, [json.dumps(body).encode()]))
    assert status in (202, 400, 413)
    known = isinstance(body, dict) and body.get("action") in ("pause", "resume", "reset", "save")
    assert known or status != 202


@given(path=paths, host=st.sampled_from(HOSTS), more=headers, text=st.text(max_size=50))
def test_websockets_are_refused(app, path, host, more, text):
    sent = use(app, scope_of("websocket", path, [(b"host", host), *more]), text)
    assert [message["type"] for message in sent] in (["websocket.close"], REFUSED)
