"""Descriptions out of docstrings, in the three styles people write."""

from __future__ import annotations

import pytest

from callgate.tools.signature import read_docstring

GOOGLE = """Current weather.

    Measured at the airport.

    Args:
        city (str): name of the city,
            in English.
        unit: C or F.

    Returns:
        degrees.
    """

NUMPY = """Current weather.

    Measured at the airport.

    Parameters
    ----------
    city : str
        name of the city,
        in English.
    unit
        C or F.

    Returns
    -------
    float
        degrees.
    """

SPHINX = """Current weather.

    Measured at the airport.

    :param city: name of the city,
        in English.
    :type city: str
    :param unit: C or F.
    :returns: degrees.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_every_style_says_the_same(text: str) -> None:
    docs = read_docstring(text)
    assert docs.description == "Current weather.\n\nMeasured at the airport."
    assert docs.parameters == {"city": "name of the city, in English.", "unit": "C or F."}
    assert docs.returns == "degrees."


def test_parameters_that_are_documented_together_share_the_words() -> None:
    docs = read_docstring("Add.\n\nParameters\n----------\nx, y : int\n    a summand.\n")
    assert docs.parameters == {"x": "a summand.", "y": "a summand."}


@pytest.mark.parametrize("text", [None, "", "  \n "])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert read_docstring(text).description == ""


@pytest.mark.parametrize("text", [":param", ":returns foo", "Args:\n  :", "Parameters\n-----\n"])
def test_a_broken_docstring_does_no_harm(text: str) -> None:
    read_docstring(text)
