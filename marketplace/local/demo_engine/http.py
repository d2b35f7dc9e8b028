"""HTTP/1.1 over asyncio streams, as much of it as a loopback API needs: bounded, keep-alive, JSON and plain text."""

import asyncio
import contextlib
import hmac
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from marketplace.local.demo_engine.engine import Refusal
from marketplace.local.demo_engine.ssh import new_port

HEAD_BYTES = 16 * 1024
BODY_BYTES = 1024 * 1024
IDLE_SECONDS = 30
CONNECTIONS = 256
PHRASES = {200: "OK", 201: "Created", 202: "Accepted", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


@dataclass(frozen=True)
class Request:
    method: str
    path: tuple[str, ...]
    query: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """A body of text goes out as an exporter's text, any other as JSON.

    `sent=False`: the work is done but the connection is cut, as when a network drops the answer.
    """

    status: int
    body: Any
    sent: bool = True


class Server:
    def __init__(self, handle: Callable[[Request], Awaitable[Answer]], token: str) -> None:
        self._handle = handle
        self._token = token.encode()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens and returns the port; 0 picks one that outgoing calls never take. OSError when it is taken."""
        place = {"host": host, "port": port} if port else {"sock": new_port(set())}
        self._server = await asyncio.start_server(self._accept, **place, limit=HEAD_BYTES)
        return self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= CONNECTIONS:
            writer.close()
            return
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._serve_one(reader, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; False when the connection is to be closed."""
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                request, authorized, keep = await self._read(reader)
        except Refusal as refusal:
            await _send(writer, refusal.status, _error(refusal), keep=False)
            return False
        if not authorized and request.path != ("healthz",):
            await _send(writer, 401, _error(Refusal(401, "unauthorized", "wrong or missing token")), keep=keep)
            return keep
        try:
            answer = await self._handle(request)
        except Refusal as refusal:
            answer = Answer(refusal.status, _error(refusal))
        if not answer.sent:
            writer.transport.abort()
            return False
        await _send(writer, answer.status, answer.body, keep=keep)
        return keep

    async def _read(self, reader: asyncio.StreamReader) -> tuple[Request, bool, bool]:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.LimitOverrunError:
            raise Refusal(431, "head_too_large", "request head too large") from None
        first, *lines = head.split("\r\n")
        try:
            method, target, version = first.split(" ")
        except ValueError:
            raise Refusal(400, "bad_request", "not an HTTP request") from None
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await _body(reader, headers)
        parts = urlsplit(target)
        request = Request(
            method=method,
            path=tuple(unquote(part) for part in parts.path.strip("/").split("/")),
            query=dict(parse_qsl(parts.query)),
            body=body,
        )
        keep = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        return request, self._admits(headers.get("authorization", "")), keep

    def _admits(self, header: str) -> bool:
        scheme, _, token = header.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode("latin-1"), self._token)


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> Any:
    if "transfer-encoding" in headers:
        raise Refusal(411, "length_required", "send Content-Length")
    try:
        length = int(headers.get("content-length") or 0)
    except ValueError:
        length = -1
    if not 0 <= length <= BODY_BYTES:
        raise Refusal(413, "body_too_large", "request body too large")
    raw = await reader.readexactly(length)
    try:
        return json.loads(raw) if raw else None
    except (ValueError, RecursionError):
        raise Refusal(400, "bad_request", "the body is not JSON") from None


def _error(refusal: Refusal) -> dict[str, Any]:
    return {"error": {"code": refusal.code, "message": refusal.message}}


def _json(body: Any) -> str:
    return json.dumps(body, ensure_ascii=False)


async def _send(writer: asyncio.StreamWriter, status: int, body: Any, *, keep: bool) -> None:
    kind, text = ("text/plain; version=0.0.4", body) if isinstance(body, str) else ("application/json", _json(body))
    raw = text.encode()
    head = (
        f"HTTP/1.1 {status} {PHRASES.get(status, 'Refused')}\r\n"
        f"Content-Type: {kind}; charset=utf-8\r\nContent-Length: {len(raw)}\r\n"
        f"Connection: {'keep-alive' if keep else 'close'}\r\n\r\n"
    )
    writer.write(head.encode("latin-1") + raw)
    async with asyncio.timeout(IDLE_SECONDS):
        await writer.drain()
