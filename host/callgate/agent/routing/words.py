"""What the words of a task say of it, as a table of rules to be read; English words, as the references' tasks are.

A rule is a pattern and what it is a sign of. None is certain: a sign makes the router recommend a form, and the model
chooses its own all the same. What is known for certain comes from a plan: see `profile`.

Patterns see the task in lower case, its white space as single spaces, at most `MOST_CHARACTERS` of it, and what stands
in quotes as ``"..."``: names and texts of the user's are no words of the task. No pattern can take more than linear
time: between two words it skips at most a bounded number of characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["MOST_CHARACTERS", "SIGNS", "WORD_RULES", "Sign", "WordRule", "acts_in", "items_in", "plain", "signs_in"]

MOST_CHARACTERS = 8_000
"""Of a task that are read, half from its beginning and half from its end: long tasks carry material, and what is to be
done stands before or behind it."""

Sign = Literal["judgement", "dependent", "repetition", "selection", "arithmetic", "computing", "volume"]

SIGNS: dict[Sign, str] = {
    "judgement": "what to do next is decided by reading what came back",
    "dependent": "a call needs what another one gave",
    "repetition": "the same is done for each of many",
    "selection": "some of many are picked by a property",
    "arithmetic": "results are counted, added up or put in order",
    "computing": "the work is an algorithm of its own",
    "volume": "results are large, and little of them is wanted",
}


@dataclass(frozen=True, slots=True)
class WordRule:
    """A pattern, and what it is a sign of.

    Attributes:
        name: of the rule; a profile names those that matched.
        sign: see `SIGNS`.
        like: words that it matches.
        pattern: of Python's `re`.
    """

    name: str
    sign: Sign
    like: str
    pattern: str


_SOME = r"[^.;?!]{0,120}?"
"""Further words of the same sentence."""
_WORK = (
    "add|analy[sz]e|answer|apply|arrange|ask|book|build|buy|calculate|call|cancel|change|check|choose|collect|combine|"
    "compare|compute|convert|copy|count|create|decrypt|delete|describe|determine|display|divide|download|draw|email|"
    "encrypt|enrich|estimate|evaluate|execute|explain|extract|fetch|fill|filter|find|format|generate|get|give|go|help|"
    "hold|identify|increase|list|locate|look|make|measure|merge|message|move|multiply|name|notify|open|optimi[sz]e|"
    "order|pay|perform|place|plan|play|plot|post|predict|provide|publish|purchase|query|quote|rank|read|recommend|"
    "record|remind|remove|rent|repeat|report|reserve|retrieve|return|round|run|save|schedule|scrape|search|select|send|"
    "share|show|solve|sort|start|store|subtract|sum|summari[sz]e|tell|text|track|transfer|translate|update|upload|use|"
    "validate|verify|visit|write"
)
_USE = (
    "apply|book|buy|cancel|convert|decrypt|email|encrypt|message|notify|order|pay|post|purchase|rent|reserve|send|text"
)

_THINGS = (
    "accounts|articles|cities|companies|countries|customers|departments|documents|emails|employees|files|hosts|invoices|"
    "items|logs|metrics|orders|pages|people|products|projects|records|regions|repositories|servers|services|"
    "shops|stores|tables|teams|tickets|transactions|users"
)
_MADE = (
    "above|calculated|computed|converted|corrected|encrypted|found|generated|obtained|resulting|retrieved|returned|"
    "translated"
)


def _rule(name: str, sign: Sign, like: str, *patterns: str) -> WordRule:
    return WordRule(name, sign, like, rf"\b(?:{'|'.join(patterns)})")


WORD_RULES: tuple[WordRule, ...] = (
    # the model has to come back between the calls
    _rule(
        "otherwise", "judgement", "if it is high, check the logs; if low, check latency",
        rf"if\b{_SOME}(?:[.;,] |\b)(?:otherwise|else\b|if (?:it is |it's )?(?:not|low|so)\b)",
    ),
    _rule(
        "depends", "judgement", "depending on what you find",
        r"depending on\b", r"as (?:needed|appropriate)\b", r"use your (?:own )?judge?ment\b",
        r"decide (?:what|which|whether)\b",
    ),
    _rule(
        "follow", "judgement", "go on to whatever the texts point to",
        r"(?:whatever|wherever) (?:\w+ ){1,4}(?:points?|leads?|says?|suggests?|shows?)\b",
        r"follow (?:the|any) (?:clues?|leads?|traces?)\b",
    ),
    _rule(
        "investigate", "judgement", "find out why it is slow",
        r"(?:investigat|troubleshoot|diagnos)\w*", r"debug(?:ging)?\b", r"root causes?\b", r"explore\b",
        r"figure out\b",
        r"find out (?:why|what (?:went|is|was))\b", r"what (?:went|goes|is) wrong\b",
        r"why (?:is|are|does|do|did|was|were)\b",
    ),
    _rule(
        "cause", "judgement", "find the change that caused it",
        r"(?:that|which|what) (?:has )?caused\b", r"is to blame\b",
        r"responsible for the (?:failure|outage|error|incident)s?\b",
    ),
    _rule(
        "until", "judgement", "try until it works",
        rf"(?:try|keep|go on|continue)\b{_SOME}\buntil (?:it|you|they|the (?:test|build|answer)s?)\b",
    ),
    # no tool does this, and no model in its head
    _rule(
        "algorithm", "computing", "take great-circle distances",
        r"(?:haversine|monte carlo|gradient descent|dynamic programming|least squares)\b", r"great[- ]circle\b",
        r"brute[- ]force\b", r"simulate \d", r"permutations of (?:all|the)\b",
        r"all (?:pairs|combinations|permutations)\b",
    ),
    _rule(
        "converge", "computing", "again until nothing moves",
        r"again (?:and again )?until\b", r"until (?:nothing|none|no \w+) (?:\w+ ){0,2}(?:moves?|changes?|improves?)\b",
        r"as small as possible\b", r"minimi[sz]es?\b",
    ),
    _rule(
        "program", "computing", "write a script",
        r"(?<!not )(?<!n't )(?<!never )(?:write|run) (?:a|some) (?:code|program|script)\b",
    ),
    # a loop over what a call gave
    _rule(
        "each", "repetition", "look at the stock of every product",
        r"(?:for|of|over|across|through|from|in) (?:all|every|each)\b", r"each of (?:the|them|these|those|our|my)\b",
    ),
    _rule(
        "tens", "repetition", "search for 8 companies",
        r"(?:[6-9]|[1-9]\d{1,4}|six|seven|eight|nine|ten|twelve|twenty|fifty|hundred) (?:\w+ ){0,2}"
        rf"(?:{_THINGS})\b",
    ),
    _rule(
        "batch", "repetition", "go through them one by one",
        r"in (?:bulk|batch)\b", r"one by one\b", r"go through (?:the|all|them)\b",
    ),
    # filters over many
    _rule("which of many", "selection", "which employees spent more", r"which (?:\w+ ){0,2}" + rf"(?:{_THINGS})\b"),
    _rule(
        "those", "selection", "of those whose capital has rain",
        r"(?:of|among|from|only) (?:those|the ones)\b", r"(?:those|ones) (?:that|which|who|whose|with)\b",
    ),
    _rule(
        "every with", "selection", "every product with less on hand",
        r"(?:all|every|each) (?:\w+ ){1,3}(?:with|whose|that|which|who|above|below|over|under|older|newer)\b",
    ),
    # over results
    _rule(
        "total", "arithmetic", "what is its total",
        r"(?:in total|totals?|altogether|over all|in all|median|mean|average|percentage)\b", r"(?:sum|share) of\b",
        r"add(?:ed)? up\b", r"counts?\b", r"how many\b",
    ),
    _rule(
        "extreme", "arithmetic", "with the highest revenue",
        r"(?:highest|lowest|largest|smallest|most|least|fewest|best|worst|top|biggest|cheapest|busiest|slowest)\b",
        r"(?:fastest|warmest|coldest)\b",
    ),
    _rule(
        "order", "arithmetic", "sorted by price",
        r"(?:sort|rank)(?:ed|ing)?\b", r"in (?:ascending|descending) order\b", r"group(?:ed)? by\b", r"by how much\b",
        r"difference between\b",
    ),
    # results that should not go through the model
    _rule(
        "whole data", "volume", "the transactions of the last year",
        r"(?:logs?|transactions?|lines|line items|rows|records|time series|data ?sets?|readings|history) "
        r"(?:of|for|over|from) (?:\w+ ){0,2}(?:all|every|each|last|past|month|year|quarter)\b",
    ),
    _rule(
        "a few of much", "volume", "over all shops",
        rf"(?:over|across|from|in) all (?:\w+ ){{0,2}}(?:{_THINGS})\b",
    ),
    # what one call gives, the next one takes
    _rule(
        "then", "dependent", "translate it, then send it",
        r"and,? then\b", r"(?<=[,;.] )then\b", rf"then,? (?:please )?(?:{_WORK})\b", r"after(?:wards| that| which)\b",
        r"once (?:you|that|it|this|the)\b",
    ),
    _rule(
        "its result", "dependent", "using the calculated age",
        r"(?:using|with|use|to|on|of|by|for|from|about|against) (?:the|that|this|those|these|its|their) (?:\w+ ){0,2}"
        r"(?:results?|output|outcome|answer|response|same|summary)\b",
        rf"the (?:\w+ )?(?:{_MADE}) \w", r"with both (?:the|of the)\b",
    ),
    _rule(
        "the first one", "dependent", "query the first one",
        r"the (?:first|last|top|best|cheapest|nearest|closest|latest|newest) "
        r"(?:one|result|match|of (?:them|these|those))\b",
    ),
    _rule(
        "refers back", "dependent", "query it and check its value",
        rf"(?:{_WORK})\b{_SOME}\b(?:and|then),? (?:please |also )?(?!make\b)(?:{_WORK}) (?:\w+ ){{0,3}}"
        r"(?:it|its|his|her|them|their|one|ones|the same|those)\b(?! decimal)",
        r"and (?:find|get|show|list) (?:me )?(?:\w+ )?related\b",
    ),
    _rule(
        "find and use", "dependent", "find a hotel and book a room",
        rf"(?:find|search|look|locate|want|need|get)\b{_SOME}\b(?:and|then),? "
        r"(?:(?:please|also|help|me|to|i|want|then) ){0,3}"
        rf"(?:{_USE}|make (?:the|a) (?:reservation|booking)|schedule a)\b",
    ),
    _rule(
        "book what fits", "dependent", "book me a table at a restaurant that serves alcohol",
        rf"(?:book|reserve|buy|rent|order|get)\b(?: me)?{_SOME}\b"
        r"(?:that|which|where|who|must|should|with (?:a )?rating|starring|happening|serving)\b",
    ),
    _rule(
        "by the same", "dependent", "find other books by the same author",
        r"(?:by|of|from|in|for) (?:this|that|the same) "
        r"(?:author|artist|director|player|company|city|place|movie|book|song|team|country|restaurant|hotel)\b",
        r"related to (?:this|that|it)\b",
    ),
    _rule(
        "have it done", "dependent", "have the records summarised",
        r"have the \w+ (?:summari[sz]ed|checked|translated|sent|validated|compared)\b",
    ),
)  # fmt: skip

_PATTERNS = tuple((rule, re.compile(rule.pattern)) for rule in WORD_RULES)
_QUOTED = re.compile(r"(?<!\w)(?:'[^'\n]{1,400}'(?!\w)|\"[^\"\n]{1,60}\"|\[[^\]\n]{1,400}\])")
_ACT = re.compile(
    r"(?:^|[.;:,!?\"] ?|\b(?:and|then|also|to|you|please|first|second|secondly|third|next|finally|lastly|i) )"
    rf"(?:{_WORK})\b(?! (?:me )?(?:with|in) (?:the following|a few|some|two|three|this|these|that|understanding)\b)"
    r"|\b(?:what|who|how|when|where|which)(?:'s| (?:is|are|was|were|would|will|do|does|did|much|many|long|far|\w+))\b"
)
_ITEM = r"(?:[A-Z][\w'’.-]*(?: (?:[A-Z][\w'’.-]*|of|the|de)){0,4}|[$€£]?\d[\d.,]{0,30}(?: ?[a-zA-Z%°/]{1,12})?)"
_ITEMS = re.compile(rf"\b{_ITEM}(?:, {_ITEM}){{0,12}},? (?:and|or|then) (?:for |in |to |at |of )?{_ITEM}")
_BETWEEN = re.compile(r", |,? (?:and|or|then) ")


def plain(task: str) -> str:
    """The task as the patterns see it."""
    return _QUOTED.sub('"..."', _ends(task)).lower()


def _ends(task: str) -> str:
    """What is read of a task: all of it, or as much from its beginning as from its end."""
    if len(task) > 2 * MOST_CHARACTERS:
        task = f"{task[:MOST_CHARACTERS]} {task[-MOST_CHARACTERS:]}"
    text = " ".join(task.split())
    half = MOST_CHARACTERS // 2 - 1
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]}. {text[-half:]}"


def signs_in(task: str) -> tuple[WordRule, ...]:
    """The rules that match a task, in the table's order."""
    text = plain(task)
    return tuple(rule for rule, pattern in _PATTERNS if pattern.search(text))


def acts_in(task: str) -> int:
    """How many things a task asks to be done, by the verbs that begin a clause, and by its questions."""
    return len(_ACT.findall(plain(task)))


def items_in(task: str) -> int:
    """How many things the longest enumeration of a task names: ``Stockholm, Athens and Lisbon`` are three."""
    return max((len(_BETWEEN.split(found[0])) for found in _ITEMS.finditer(_ends(task))), default=0)
