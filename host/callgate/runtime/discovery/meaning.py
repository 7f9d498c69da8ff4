"""Asks the operator's embedder for vectors of tools and queries, so that a search can compare meanings.

1. The embedder is asked in batches of 64 texts. A sync function runs in a worker thread, an async one in the event loop
   of the search.
2. The vector of a tool is made when a search first needs it. It is kept by a hash of the tool's text: in memory, and in
   the statistics file if there is one. Vectors of queries are kept in memory only.
3. The embedder never fails a search. A search waits 5 s for it. If it fails, or has not made the vectors of all tools
   by then, the search goes by words alone, and `SearchResult.note` says so. A failure is logged, and the embedder then
   rests for 30 s.
4. Vectors of two embedders are never mixed. A key has the embedder's name, and the vector that it gave for a fixed
   text: another model under the same name gives another vector there.

Knows texts and vectors; ranks nothing.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import threading
import time
from array import array
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread

from callgate.errors import ConfigurationError
from callgate.runtime.context_task import event_loop
from callgate.runtime.gate.cache import Cache
from callgate.search.directions import Directions, direction, likeness

__all__ = ["BATCH", "EMBED_SECONDS", "MAX_VECTORS", "REST_SECONDS", "Embedder", "Meaning", "Meant", "Vector"]

logger = logging.getLogger("callgate")

Vectors = Iterable[Iterable[float]]
Embedder = Callable[[list[str]], Vectors | Awaitable[Vectors]]
"""Takes texts, and gives a vector for each, all of one length. May have an attribute `name`."""
Vector = tuple[str, str, bytes]
"""Embedder, hash of the text, direction: a vector as the statistics file keeps it."""

BATCH = 64
"""Most texts in one call of the embedder."""
EMBED_SECONDS = 5.0
"""Longest wait of one search for the embedder."""
REST_SECONDS = 30.0
"""Time after a failure in which the embedder is not asked."""
MAX_VECTORS = 8_192
"""Most vectors of tools that are kept; a search among more tools goes by words alone. 6 MB with 384 dimensions."""
_MAX_CHARACTERS = 2_000
"""Most characters of a text; small encoders read about 1,000."""
_MAX_QUERIES = 256
_MAX_THREADS = 4
"""Most calls of a sync embedder at a time; and most others that nobody waits for any more."""
_PROBE = "Which tool can answer this?"
_SAME = 0.999
"""Least likeness of two vectors of one text by one model: batches and machines change the last digits."""


@dataclass(frozen=True, slots=True)
class Meant:
    """What the embedder gave for one search."""

    likes: Mapping[str, array[int]] = field(default_factory=dict)
    """How much each tool is like each query (`Directions.likes`); empty: the search goes by words alone."""
    note: str = ""
    """Why the search goes by words alone."""


@dataclass(frozen=True, slots=True)
class _Later:
    """What a function gave that is not async and returns a coroutine; trio lets no thread return a coroutine itself."""

    later: Awaitable[Vectors]


class Meaning:
    """The vectors of one embedder; the `Notes` of a file of vectors. Used from several threads.

    Args:
        embed: the operator's function.

    Raises:
        ConfigurationError: it is not callable.
    """

    def __init__(self, embed: Embedder) -> None:
        if not callable(embed):
            raise ConfigurationError(f"embed is a function that takes a list of texts and gives vectors, not {embed!r}")
        self.name = _name(embed)
        """Keeps the vectors of several embedders apart."""
        self.on_note: Callable[[Vector], None] | None = None
        """Called with each new vector of a tool; set by the file."""
        self.made = 0
        """Number of vectors that the embedder gave, without those of queries."""
        self._embed: Callable[[list[str]], Any] = embed
        self.is_async = any(map(inspect.iscoroutinefunction, (embed, type(embed).__call__)))
        """Whether the embedder needs an event loop."""
        self._lock = threading.Lock()
        self._kept: Cache[str, bytes] = Cache(max_entries=MAX_VECTORS, max_bytes=1 << 30)
        self._asked: Cache[str, bytes] = Cache(max_entries=_MAX_QUERIES)
        self._ready: WeakKeyDictionary[object, tuple[bytes, Directions]] = WeakKeyDictionary()
        self._generation = b""
        self._resting_until = 0.0
        self._at_work = 0
        """Threads in a sync embedder."""
        self._limits: WeakKeyDictionary[Any, tuple[anyio.CapacityLimiter, anyio.CapacityLimiter]] = WeakKeyDictionary()

    def load(self, earlier: Sequence[Vector]) -> None:
        """Begin with earlier vectors, without calling `on_note`. Those of other embedders are left out."""
        with self._lock:
            for name, key, made in earlier:
                if name == self.name:
                    self._kept.keep(key, made, len(made))

    def __len__(self) -> int:
        """The number of vectors of tools that are kept."""
        return len(self._kept)

    async def ask(self, moment: object, texts: Callable[[], list[str]], queries: Collection[str]) -> Meant:
        """How much each tool is like each query; if the embedder fails or takes too long, why.

        Args:
            moment: stands for the tools: their directions are made once for it.
            texts: returns the texts of the tools by place; called in a worker thread.
            queries: what the search is for; at least one.
        """
        if time.monotonic() < self._resting_until:
            return _by_words("the embedder has failed a moment ago")
        before = self.made
        try:
            with anyio.fail_after(EMBED_SECONDS):
                asked = await self._queries(queries)
                tools = await self.tools(moment, texts)
                if {len(each) for each in asked.values()} != {tools.size_bytes}:
                    raise ValueError("the embedder gave vectors of different lengths")
                return Meant(await anyio.to_thread.run_sync(_likes, tools, asked))
        except ConfigurationError as error:
            return _by_words(str(error))
        except TimeoutError:
            if self.made > before:
                return _by_words(f"the vectors of all tools are not made yet; {self.made:,} are")
            fault = f"took longer than {EMBED_SECONDS:g} s"
            logger.warning("the embedder %s %s; searches go by words alone for %g s", self.name, fault, REST_SECONDS)
        except Exception:
            fault = "has failed"
            logger.exception("the embedder %s %s; searches go by words alone for %g s", self.name, fault, REST_SECONDS)
        self._resting_until = time.monotonic() + REST_SECONDS
        return _by_words(f"the embedder {fault}")

    def ask_now(self, moment: object, texts: Callable[[], list[str]], queries: Collection[str]) -> Meant:
        """`ask`, without an event loop of the caller's: blocks this thread."""
        if self.is_async:
            return _by_words("an async embedder is asked by await runtime.search.ask(...)")
        with ThreadPoolExecutor(1) as thread:  # this one may have an event loop
            return thread.submit(anyio.run, self.ask, moment, texts, queries).result()

    async def tools(self, moment: object, texts: Callable[[], list[str]]) -> Directions:
        """The directions of the tools by place: see `ask`. Waits as long as it takes. Raises what the embedder raises,
        `ValueError` or `TypeError` if it gives something else than vectors, `ConfigurationError` for too many tools."""
        if not self._generation:
            await self._queries(())
        turn = self._of_loop()[0]
        async with turn:  # several searches do not embed the same tools
            generation = self._generation
            made_for, ready = self._ready.get(moment, (b"", None))
            if ready is not None and made_for == generation:
                return ready
            listed = await anyio.to_thread.run_sync(texts)
            keys = [self._key(text) for text in listed]
            wanted = dict(zip(keys, listed, strict=True))
            if len(wanted) > MAX_VECTORS:
                raise ConfigurationError(
                    f"there are {len(wanted):,} tools, and vectors of {MAX_VECTORS:,} are kept at most"
                )
            while missing := self._missing(wanted):
                await self._embedded([wanted[key] for key in missing], missing)
            made = await anyio.to_thread.run_sync(self._directions, keys)
            self._ready[moment] = generation, made
            return made

    def _missing(self, keys: Iterable[str]) -> list[str]:
        with self._lock:
            return [key for key in keys if self._kept.get(key) is None][:BATCH]

    def _directions(self, keys: list[str]) -> Directions:
        with self._lock:
            found = [self._kept.get(key) or b"" for key in keys]
        if len({len(each) for each in found}) != 1:
            raise ValueError("the embedder gave vectors of different lengths")
        return Directions(found)

    async def _queries(self, queries: Collection[str]) -> dict[str, bytes]:
        """The directions of the queries. The first call of all asks for the probe as well."""
        with self._lock:
            known = {query: self._asked.get(query[:_MAX_CHARACTERS]) for query in queries}
        wanted = known if self._generation else dict.fromkeys(queries)
        new = [query for query, each in wanted.items() if each is None]
        probe = [] if self._generation else [_PROBE]
        if new or probe:
            made = await self._embedded([*probe, *new])
            with self._lock:
                if probe:
                    self._begin(made[0])
                for query, each in zip(new, made[len(probe) :], strict=True):
                    self._asked.keep(query[:_MAX_CHARACTERS], each)
                    wanted[query] = each
        return cast("dict[str, bytes]", wanted)

    def _begin(self, probe: bytes) -> None:
        """Take the vectors that were kept, if the embedder still gives the probe the same vector."""
        key = hashlib.blake2b(_PROBE.encode(), digest_size=16).hexdigest()
        kept = self._kept.get(key)
        if kept is None or len(kept) != len(probe) or likeness(kept, probe) < _SAME:
            kept = probe
            self._keep(key, probe)
        self._generation = hashlib.blake2b(kept, digest_size=16).digest()

    def _key(self, text: str) -> str:
        return hashlib.blake2b(text.encode(errors="replace"), digest_size=16, key=self._generation).hexdigest()

    def _keep(self, key: str, made: bytes) -> None:
        self._kept.keep(key, made, len(made))
        self.made += 1
        if self.on_note is not None:
            self.on_note((self.name, key, made))

    # calls of the embedder

    async def _embedded(self, texts: list[str], keys: Sequence[str] = ()) -> list[bytes]:
        """The directions of the texts. Those of tools are kept by their keys, also if the wait is cancelled meanwhile.

        Raises:
            ValueError, TypeError: the embedder gave something else than a vector for each text.
        """
        texts = [text[:_MAX_CHARACTERS] for text in texts]
        if self.is_async:
            given = await self._embed(texts)
        else:
            if self._at_work >= 2 * _MAX_THREADS:
                raise TimeoutError("earlier calls of the embedder have not ended")
            threads = self._of_loop()[1]
            made = await anyio.to_thread.run_sync(self._called, texts, keys, abandon_on_cancel=True, limiter=threads)
            if isinstance(made, list):
                return made
            given = await made.later
        return await anyio.to_thread.run_sync(partial(self._taken, texts, keys, given))

    def _called(self, texts: list[str], keys: Sequence[str]) -> list[bytes] | _Later:
        with self._lock:
            self._at_work += 1
        try:
            given = self._embed(texts)
            return _Later(given) if inspect.isawaitable(given) else self._taken(texts, keys, given)
        finally:
            with self._lock:
                self._at_work -= 1

    def _taken(self, texts: list[str], keys: Sequence[str], given: Vectors) -> list[bytes]:
        made = [direction(vector) for vector in given]
        if len(made) != len(texts) or len({len(each) for each in made}) > 1:
            raise ValueError(
                f"the embedder gave {len(made)} vectors for {len(texts)} texts, or some longer than others"
            )
        with self._lock:
            for key, each in zip(keys, made, strict=False):
                self._keep(key, each)
        return made

    def _of_loop(self) -> tuple[anyio.CapacityLimiter, anyio.CapacityLimiter]:
        """For this event loop: whose turn it is to embed tools, and the threads of a sync embedder."""
        loop = event_loop()
        if loop not in self._limits:
            self._limits[loop] = anyio.CapacityLimiter(1), anyio.CapacityLimiter(_MAX_THREADS)
        return self._limits[loop]


def _likes(tools: Directions, asked: Mapping[str, bytes]) -> dict[str, array[int]]:
    return {query: tools.likes(each) for query, each in asked.items()}


def _by_words(why: str) -> Meant:
    return Meant(note=f"searched by words alone: {why}")


def _name(embed: Any) -> str:
    """The attribute `name`, or the name of the function, or of the type of what is called."""
    named = getattr(embed, "name", None)
    if isinstance(named, str) and named:
        return named
    inner = getattr(embed, "func", embed)  # of a partial
    function = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{function.__module__}.{function.__qualname__}"
