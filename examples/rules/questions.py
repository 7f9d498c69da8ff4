"""Questions about the rules, and the topics that answer them: what the searches are measured by."""

from __future__ import annotations

__all__ = ["QUESTIONS"]

QUESTIONS = {
    "What happens to the name bound by 'as' when an except clause ends?": "try",
    "Can a return in a finally clause discard an exception?": "try",
    "What does break do in a loop with an else clause?": "break",
    "What does continue do in a loop?": "continue",
    "Which names does nonlocal refer to?": "nonlocal",
    "When are default parameter values evaluated?": "function",
    "In which order are context managers entered in a with statement?": "with",
    "How is the chained comparison a < b < c evaluated?": "comparisons",
    "What value does a lambda expression yield?": "lambda",
    "Which objects are considered false in a truth test?": "truth",
    "What does assert do when __debug__ is false?": "assert",
    "What is the precedence of operators?": "operator-summary",
    "May a class be decorated?": "class",
    "How does slicing with a step work?": "slicings",
}
