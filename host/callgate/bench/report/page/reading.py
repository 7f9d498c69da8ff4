"""How to read the page, and what in it is simulated."""

from __future__ import annotations

from callgate.bench.report.cell_words import CANNOT, MEMORY
from callgate.bench.report.held import FEW, LEAST, LEAST_COUNTED, LEAST_OF_FEW
from callgate.bench.results import ModelUsed, Results

from .markup import Element, el
from .texts import duration

__all__ = ["reading"]

_WORDS = (
    ("Round", "One conversation from the user's task to the model's last word. The contestants' rounds take turns, so "
     "that what disturbs the machine disturbs all of them."),
    ("p50, p10 to p90", "The middle of the rounds, and the range without the lowest and the highest tenth. With few "
     "rounds that is nearly the whole range."),
    ("Ratios", "The median over neighbouring pairs: a round of one and the round of the other that ran next to it. "
     f"There is no difference where the pairs disagree about who is better, or where it is below {100 * LEAST:g} % "
     f"({100 * LEAST_OF_FEW:g} % with fewer than {FEW} pairs); tokens are counted exactly, and differ from "
     f"{100 * LEAST_COUNTED:g} % on."),
    ("Beside peers", "Like is held against like: plans; programs in a sandbox (of the kernel, a container, or the "
     "language); programs without one. Of each kind it is the fastest of callgate's modes and the fastest peer, by "
     "wall time. The model's part is in it: peers differ in how many turns they take. Tools and own work alone leave "
     "the model out; own work is what the table calls overhead."),
    ("Wall time", "Its parts are model, tools and overhead, and nothing else. In bars the p50 of wall time is divided "
     "in the proportion of the p50s of its parts."),
    ("Model", "Waiting for the model's endpoint."),
    ("Tools", "At least one of the workload's tools was at work."),
    ("Overhead", "All the rest: what the runtime itself took."),
    ("Turns", "Requests to the model."),
    ("Tokens", "Of all requests and of all answers. What was sent again in the next turn counts again; discounts for "
     "cached input are not in it."),
    ("Tools at once", "The most tools at work at the same time; and how many it were on average while one was."),
    ("Peak memory", "The most that the contestant's processes took together, shared pages divided among those who "
     f"share them. It is {MEMORY}."),
    ("Right", "The answer has all the facts that it should have, and none that it should not, in every round."),
    ("Cannot", f"{CANNOT[:1].upper()}{CANNOT[1:]}."),
    ("Failed", "It raised an error, hung or died, or the model could not go on."),
)  # fmt: skip


def reading(results: Results) -> Element:
    """The section."""
    inside: list[Element] = [el("h2", "How to read this")]
    if results.tasks:
        pairs = [each for head, said in _WORDS for each in (el("dt", head), el("dd", said))]
        inside.append(el("dl", *pairs, class_="brief"))
    if results.model is not None:
        inside += [el("h3", "What is simulated"), el("ul", *(el("li", each) for each in _simulated(results.model)))]
    inside += [
        el("h3", "Where these figures hold"),
        el("p", "On the machine above, under the load above. Other machines have other times; ratios move less. Other "
           "work on the machine is in the spread, and in the steadiness above."),
    ]  # fmt: skip
    return el("section", *inside, id="reading")


def _simulated(model: ModelUsed) -> list[str]:
    tools = "How long tools take, where their data do not come from this machine; each workload says so."
    if not model.simulated:
        return ["The model is real: its answers, its time and its tokens.", tools]
    return [
        f"The model: a script that knows what to do in each form, and makes no mistakes. It waits "
        f"{duration(model.turn_seconds)} a turn and {duration(model.token_seconds)} an output token; other waits give "
        "other times, and most of the wall time here is this wait.",
        tools,
        f"Not simulated: the requests over HTTP, their tokens ({model.tokenizer}), the programs, plans and calls, "
        "the sandboxes, and the peers.",
    ]
