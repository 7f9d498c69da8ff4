"""The artifacts of one client as MCP resources: links in results, a list, and their bytes. Opens nothing of the host: a
URI is the handle of an artifact on the client's own shelf, and of nothing else.

Clients drop long messages over HTTP, so there a list comes in pages, and a resource has at most
`MAX_HTTP_BYTES`.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    ListResourcesResult,
    ReadResourceResult,
    Resource,
    ResourceLink,
    TextResourceContents,
)
from mcp_types.version import is_version_at_least

from callgate.artifacts import Artifact, Shelf

from .results import MAX_HTTP_BYTES, sendable

__all__ = ["SCHEME", "links", "listed", "read"]

SCHEME = "callgate://artifacts/"
_PAGE = 500
_LINKS_SINCE = "2025-06-18"
"""Older clients know no links, and refuse a result that has one."""
_ENVELOPE_BYTES = 4_000
"""Room for what is around the content: URI, type, JSON-RPC."""
_TEXTS = ("application/json", "application/jsonl", "image/svg+xml")


def links(artifacts: Sequence[Artifact], protocol_version: str | None) -> list[ResourceLink]:
    """Links to these artifacts, for a client of that version of the protocol."""
    if protocol_version is None or not is_version_at_least(protocol_version, _LINKS_SINCE):
        return []
    return [ResourceLink(**_described(each)) for each in artifacts if each.handle]


def listed(shelf: Iterable[Artifact], cursor: str | None) -> ListResourcesResult:
    """The newest artifacts first, a page of them. Raises `MCPError` for a cursor that no page has."""
    artifacts = [*shelf][::-1]
    start = 0
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 8 and 0 < int(cursor) <= len(artifacts)):
            raise MCPError(INVALID_PARAMS, f"there is no page {cursor[:40]!r}: begin without a cursor")
        start = int(cursor)
    following = str(start + _PAGE) if start + _PAGE < len(artifacts) else None
    shown = artifacts[start : start + _PAGE]
    return ListResourcesResult(resources=[Resource(**_described(each)) for each in shown], next_cursor=following)


def read(shelf: Shelf, uri: str, *, http: bool) -> ReadResourceResult:
    """The content of an artifact. Raises `MCPError` for a URI that is none of this client's, and for what is too long.

    Args:
        shelf: of the client.
        uri: as the client gave it.
        http: whether the result goes over HTTP.
    """
    handle = uri.removeprefix(SCHEME)
    artifact = None if handle == uri else shelf.get(handle)
    if artifact is None:
        raise MCPError(INVALID_PARAMS, f"there is no resource {uri[:100]!r}: it is not kept any more, or never was")
    longest = MAX_HTTP_BYTES - _ENVELOPE_BYTES if http else sys.maxsize
    if artifact.size_bytes > longest:  # before it is copied and encoded
        raise _too_long(artifact)
    contents: TextResourceContents | BlobResourceContents
    is_text = artifact.media_type.startswith("text/") or artifact.media_type in _TEXTS
    try:
        text = artifact.data.decode() if is_text else ""
    except UnicodeDecodeError:
        is_text = False
    if is_text:
        contents = TextResourceContents(uri=uri, mime_type=artifact.media_type, text=text)
    else:
        blob = base64.b64encode(artifact.data).decode()
        contents = BlobResourceContents(uri=uri, mime_type=artifact.media_type, blob=blob)
    if http and len(contents.model_dump_json().encode()) > longest:
        raise _too_long(artifact)
    return ReadResourceResult(contents=[contents])


def _too_long(artifact: Artifact) -> MCPError:
    return MCPError(
        INVALID_PARAMS,
        f"{artifact.name} has {artifact.size_bytes:,} bytes, and clients read {MAX_HTTP_BYTES:,} over HTTP: read a "
        "part of it in a program, or serve on stdio",
    )


def _described(artifact: Artifact) -> dict[str, Any]:
    name = sendable(artifact.name)
    return {
        "uri": f"{SCHEME}{artifact.handle}",
        "name": name,
        "mime_type": artifact.media_type,
        "size": artifact.size_bytes,
    }
