"""Streams of events over HTTP, read with as little work as possible while they run.

This program shares its processor with the servers that it measures. So bytes are only stored with the time that they
came, and understood when all streams of a batch have ended.
"""

import json
import selectors
import socket
import time
from bisect import bisect_right
from itertools import accumulate

TIMEOUT_SECONDS = 120


class Failed(Exception):
    """An answer that is not a complete stream."""


def post_all(address, path, bodies):
    """Posts all bodies at once. For each: when it was sent, and its events as (when, object)."""
    connections = [socket.create_connection(address, timeout=TIMEOUT_SECONDS) for _ in bodies]
    requests = [_request(address, path, body) for body in bodies]
    sent, pieces = [], [[] for _ in bodies]
    with selectors.DefaultSelector() as selector:
        for index, (connection, request) in enumerate(zip(connections, requests)):
            sent.append(time.monotonic())
            connection.sendall(request)
            selector.register(connection, selectors.EVENT_READ, index)
        n_open = len(bodies)
        while n_open:
            ready = selector.select(TIMEOUT_SECONDS)
            if not ready:
                raise Failed(f"{address}{path} sent nothing for {TIMEOUT_SECONDS} seconds")
            for key, _ in ready:
                data = key.fileobj.recv(1 << 16)
                if data:
                    pieces[key.data].append((time.monotonic(), data))
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    n_open -= 1
    return [(when, _events(arrived)) for when, arrived in zip(sent, pieces)]


def post(address, path, body):
    """The answer to one body, as JSON."""
    [(_, events)] = post_all(address, path, [body])
    return events[-1][1]


def _request(address, path, body):
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {address[0]}\r\nconnection: close\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(data) + data


def _events(pieces):
    raw = b"".join(data for _, data in pieces)
    ends = list(accumulate(len(data) for _, data in pieces))

    def when(offset):
        """When the byte before `offset` came."""
        return pieces[bisect_right(ends, offset - 1)][0]

    head, _, _ = raw.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise Failed(raw.decode(errors="replace")[:2000])
    body, offsets = _body(raw, len(head) + 4, b"chunked" in head.lower())
    if b"text/event-stream" not in head.lower():
        return [(when(len(raw)), json.loads(body))]
    events, start = [], 0
    while (end := body.find(b"\n\n", start)) >= 0:
        for line in body[start:end].split(b"\n"):
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                events.append((when(_raw_offset(offsets, end + 2)), json.loads(line[6:])))
        start = end + 2
    return events


def _body(raw, start, is_chunked):
    """The body, and (length of the body so far, offset in `raw`) at the end of each of its parts."""
    if not is_chunked:
        return raw[start:], [(len(raw) - start, len(raw))]
    parts, offsets, length = [], [], 0
    while True:
        line_end = raw.find(b"\r\n", start)
        size = int(raw[start:line_end] or b"0", 16) if line_end >= 0 else 0
        if size == 0:
            return b"".join(parts), offsets
        parts.append(raw[line_end + 2 : line_end + 2 + size])
        length += size
        start = line_end + 2 + size + 2
        offsets.append((length, start - 2))


def _raw_offset(offsets, position):
    """The end in the raw bytes of the part that completes `position` bytes of the body."""
    return next(raw for length, raw in offsets if length >= position)
