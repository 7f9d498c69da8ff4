"""Elements, and how they become text. Every text that goes in comes out escaped: the standard library's serialiser
does that, and nothing in the page is put together from strings."""

from __future__ import annotations

from xml.etree.ElementTree import Element, tostring

from .texts import clean

__all__ = ["Child", "Element", "document", "el", "foreign", "scrolled", "table"]

Child = Element | str

_LINES = frozenset(
    ("head", "body", "header", "nav", "main", "section", "footer", "figure", "table", "caption", "thead", "tbody", "tr",
     "ul", "ol", "li", "dl", "div", "p", "h1", "h2", "h3", "details", "svg", "meta", "title", "style")
)  # fmt: skip
"""Elements with a line break after them, so that two pages can be compared by line."""


def el(tag: str, *children: Child, **attributes: str | float) -> Element:
    """An element.

    Args:
        tag: its name.
        children: elements and texts, in their order.
        attributes: with ``_`` for ``-``, and one at the end where Python has the word (`class_`).
    """
    made = Element(tag, {_name(key): _value(value) for key, value in attributes.items()})
    last: Element | None = None
    for child in children:
        if isinstance(child, Element):
            made.append(child)
            last = child
        elif last is None:
            made.text = (made.text or "") + clean(child)
        else:
            last.tail = (last.tail or "") + clean(child)
    if tag in _LINES:
        made.tail = "\n"
    return made


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    return clean(value) if isinstance(value, str) else f"{value:g}"


def foreign(text: str) -> Element:
    """A text that is not ours, within a sentence: its reading direction stays its own."""
    return el("bdi", text)


def scrolled(inside: Element, name: str) -> Element:
    """A box that a wide table is moved in, by keyboard too.

    Args:
        inside: the table.
        name: of the box, for those who do not see it.
    """
    return el("div", inside, class_="scrolled", role="region", tabindex="0", aria_label=name)


def table(caption: str, heads: list[Element], *bodies: Element, class_: str) -> Element:
    """A table in a box of its own."""
    made = el("table", el("caption", el("span", caption)), el("thead", el("tr", *heads)), *bodies, class_=class_)
    return scrolled(made, caption)


def document(root: Element) -> str:
    """The page, as HTML that is XML too, but for its elements without an end.

    The serialiser for HTML leaves ``<`` in attributes, so this is the one for XML. It escapes within the style sheet,
    too, which therefore has nothing to escape.
    """
    text = tostring(root, encoding="unicode", short_empty_elements=False)
    return f"<!DOCTYPE html>\n{text.replace('></meta>', '>')}\n"
