"""Types of every kind that the tests' tools take and return."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass

import pydantic
from typing_extensions import TypedDict


class Unit(enum.Enum):
    CELSIUS = "C"
    FAHRENHEIT = "F"


class Place(pydantic.BaseModel):
    city: str
    height: int = 0
    tags: set[str] = set()


class Point(TypedDict):
    x: int
    y: int


@dataclass
class Wind:
    speed: float
    since: datetime.date
