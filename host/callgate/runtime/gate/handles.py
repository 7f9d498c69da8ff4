"""The results of tools that hold artifacts: `bytes`, pictures of Pillow, `Artifact`s. Each is kept for the caller, and
a handle stands in its place in the JSON text.

1. A result is written without artifacts first. Only one that cannot be written so is written again, with handles:
   results of JSON alone cost nothing.
2. Nothing is kept before the whole result is written and fits its contract; then all of it is kept, or nothing.
3. A picture becomes PNG in a thread. Meanwhile a handle of its stands in the text, which is written once more.
4. Such a result is the caller's own: it is neither cached nor shared.

A `str` or a path stays text: nothing of the host is opened because a tool named it. Pillow is not imported here.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import anyio.to_thread

from callgate.artifacts import Artifact, handle_form, new_handle
from callgate.errors import ToolError
from callgate.runtime.products import Products
from callgate.tools import Tool

from .cache import depends_on_the_caller

__all__ = ["written_with_handles"]

_UNDRAWN = Artifact(name="picture.png", media_type="image/png", data=b"", handle=f"art_{'0' * 32}")
"""Stands for a picture until it is drawn."""
_BYTES = (bytes, bytearray, memoryview)
_PNG_MODES = frozenset({"1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"})
"""Modes of Pillow that PNG has: https://pillow.readthedocs.io/en/stable/handbook/image-file-formats.html#png-saving"""


async def written_with_handles(tool: Tool, products: Products, write: Callable[[], Awaitable[str]]) -> str | None:
    """The text of a result that holds artifacts, which are kept; None if it holds none.

    Args:
        tool: that returned it.
        products: keep the artifacts.
        write: writes the result.

    Raises:
        ToolError: the result does not fit its contract, or its artifacts do not fit the limits.
    """
    found = _Found(tool, products)
    before = handle_form.get()
    handle_form.set(found)
    try:
        text = await write()
        if found.pictures:
            await found.draw()
            text = await write()
    except ToolError:
        if not found.any:
            return None
        raise
    finally:
        handle_form.set(before)
    if not found.any:
        return None
    depends_on_the_caller()
    products.keep_all(found.promised)
    return text


class _Found:
    """The artifacts in one result, and the forms of them: each object has one handle, however often it is written."""

    def __init__(self, tool: Tool, products: Products) -> None:
        self.any = False
        """Whether there is one, kept or not."""
        self.promised: dict[str, Artifact] = {}
        """By the handles that the text has of them."""
        self.pictures: list[Any] = []
        """Pictures that are not drawn yet."""
        self._source = f"{tool.server}.{tool.server_tool}" if tool.server else tool.name
        self._products = products
        self._forms: dict[int, tuple[Any, dict[str, Any]]] = {}
        """With the objects themselves, so that no other object gets the id of one."""

    def __call__(self, value: Any) -> Any:
        """The form of an artifact; None for any other value."""
        if (known := self._forms.get(id(value))) is not None:
            return known[1]
        if isinstance(value, Artifact):
            return self._formed(value, value if self._products.shelf.holds(value) else self._promise(value))
        if isinstance(value, _BYTES):
            self.any = True
            size = value.nbytes if isinstance(value, memoryview) else len(value)
            self._products.must_have_room([("bytes", size)])  # before they are copied
            return self._formed(value, self._promise(Artifact.from_bytes(bytes(value))))
        if _is_picture(value):
            self.pictures.append(value)
            return self._formed(value, _UNDRAWN)
        if hasattr(type(value), "__pydantic_fields__"):  # in JSON mode, pydantic would write bytes as text
            return type(value).__pydantic_serializer__.to_python(value, by_alias=True, warnings=False)
        return None

    async def draw(self) -> None:
        """Make PNG of the pictures."""
        for picture in self.pictures:
            data = await anyio.to_thread.run_sync(_png, picture, abandon_on_cancel=True)
            self._formed(picture, self._promise(replace(_UNDRAWN, data=data)))

    def _formed(self, value: Any, artifact: Artifact) -> dict[str, Any]:
        self.any = True
        self._forms[id(value)] = value, artifact.to_json()
        return self._forms[id(value)][1]

    def _promise(self, artifact: Artifact) -> Artifact:
        handle = new_handle()
        self.promised[handle] = replace(artifact, source=artifact.source or self._source, handle=handle)
        return self.promised[handle]


def _is_picture(value: Any) -> bool:
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def _png(picture: Any) -> bytes:
    drawn = io.BytesIO()
    (picture if picture.mode in _PNG_MODES else picture.convert("RGB")).save(drawn, "PNG")
    return drawn.getvalue()
