"""The live page: a small ASGI app around a `StreamWorker`, for this machine only."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as WebRoute

from ..errors import ReservoirError
from ..runs.stop_signals import StopSignals
from .worker import LiveStream, StreamWorker

HOST = "127.0.0.1"
_print = partial(print, flush=True)  # without flush, the address arrives late in a pipe
_LARGEST_BODY = 1024
_TYPES = {"live.html": "text/html", "live.css": "text/css", "live.js": "text/javascript"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def open_port(port: int) -> socket.socket:
    """Return a listening socket on a port of this machine; 0 takes a free port.

    Raises:
        ReservoirError: If the port is in use, not allowed or invalid.
    """
    listener = socket.socket()
    if os.name == "posix":  # elsewhere the option would let two programs share a port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()  # two sockets that do not listen can share a port
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise ReservoirError(
            f"cannot listen on port {port} ({reason}): choose another one with --serve PORT"
        ) from error
    return listener


def serve(
    stream: LiveStream,
    port: int | socket.socket = 8000,
    save_to: str | Path = "reservoir",
    print_line: Callable[[str], object] = _print,
) -> None:
    """Run a stream and show it at ``http://127.0.0.1:port`` until Ctrl-C or SIGTERM.

    The page stays available after the end of the stream. A signal ends the stream after the
    current frame.

    Args:
        stream: The stream, which runs in a separate thread.
        port: Port of this machine, or the socket of `open_port`. Defaults to 8000.
        save_to: Folder in which viewers save the reservoir. Defaults to ``reservoir``.
        print_line: Function that receives the address with the token for actions. Defaults to
            ``print``.

    Raises:
        Exception: Error that ended the stream, raised after the server has ended.
    """
    worker, token = StreamWorker(stream, Path(save_to)), secrets.token_urlsafe(24)
    options: dict[str, Any] = {"log_level": "warning", "limit_concurrency": 64}
    options |= {"timeout_keep_alive": 5, "timeout_graceful_shutdown": 3}
    # At its end, the server raises caught signals again. StopSignals ignores them.
    with open_port(port) if isinstance(port, int) else port as listener, StopSignals():
        number = listener.getsockname()[1]
        print_line(
            f"live page: http://{HOST}:{number}/#{token} (the end of the address is the key to it)"
        )
        worker.start()
        try:
            uvicorn.Server(uvicorn.Config(make_app(worker, token), **options)).run([listener])
        finally:
            worker.stop()
    if worker.error is not None:
        raise worker.error


def make_app(worker: StreamWorker, token: str) -> Starlette:
    """Return the web app. The page needs no token, but actions do."""

    def static(name: str) -> Callable[[Request], Response]:
        text = files(__package__).joinpath(name).read_text(encoding="utf-8")
        return lambda request: Response(text, media_type=_TYPES[name], headers=_HEADERS)

    def state(request: Request) -> Response:
        since = request.query_params.get("since", "0")
        if not (since.isascii() and since.isdigit() and len(since) < 12):
            return _refuse(400, "since must be the number of a frame")
        return JSONResponse(worker.state(int(since)), headers=_HEADERS)

    def picture(request: Request) -> Response:
        layer = request.path_params["layer"]
        data = worker.picture(layer) if layer in ("image", "overlay") else None
        if data is None:
            return _refuse(404, "no such picture, or none yet")
        return Response(data, media_type="image/jpeg", headers=_HEADERS)

    async def act(request: Request) -> Response:
        if not secrets.compare_digest(request.headers.get("x-token", "").encode(), token.encode()):
            return _refuse(403, "actions need the token of the page's address")
        body = await _short_body(request)
        if body is None:
            return _refuse(413, "too long")
        action, expert = _read_action(body)
        if not isinstance(action, str) or not worker.enqueue(action, expert):
            return _refuse(400, "no such action or expert, or too many are waiting")
        return JSONResponse({"accepted": action}, status_code=202, headers=_HEADERS)

    return Starlette(
        routes=[
            WebRoute("/", static("live.html")),
            WebRoute("/live.css", static("live.css")),
            WebRoute("/live.js", static("live.js")),
            WebRoute("/state", state),
            WebRoute("/frame/{layer}.jpg", picture),
            WebRoute("/act", act, methods=["POST"]),
        ],
        middleware=[
            # Refuse other host names that point to this machine.
            Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"]),
            Middleware(_OwnOriginOnly),
        ],
    )


class _OwnOriginOnly:
    """Middleware that refuses requests from pages of another origin, and invalid addresses."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            if not scope["query_string"].isascii():  # starlette fails to decode it
                await _refuse(400, "the address is not ASCII")(scope, receive, send)
                return
            headers = {name.lower(): value for name, value in scope["headers"]}
            origin, host = headers.get(b"origin"), headers.get(b"host", b"")
            if origin is not None and origin != b"http://" + host:
                await _refuse(403, "another origin")(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _refuse(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status_code=status, headers=_HEADERS)


async def _short_body(request: Request) -> bytes | None:
    """Return the body of a request; None if it is too long for an action."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LARGEST_BODY:
            return None
    return body


def _read_action(body: bytes) -> tuple[Any, int | None]:
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(request, dict):
        return None, None
    expert = request.get("expert")
    return request.get("action"), expert if type(expert) is int else None
