"""Options that are held against their types and bounds when they are made: pydantic's checks, the operator's words."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, create_model

from callgate.errors import ConfigurationError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["check", "has"]


def check(options: DataclassInstance) -> None:
    """Hold each field of a dataclass against its annotation.

    Raises:
        ConfigurationError: a value does not fit; the error names the field and the value.
    """
    values = {each.name: getattr(options, each.name) for each in dataclasses.fields(options)}
    try:
        _model(type(options)).model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name, words = first["loc"][0], first["msg"].removeprefix("Value error, ")
        given = f"{values[str(name)]!r:.60}"
        raise ConfigurationError(f"{name} cannot be {given}: {words[0].lower()}{words[1:200]}") from None


def has(method: str, example: str) -> AfterValidator:
    """A check that a value has a method, with an example of one that has it."""

    def checked(value: Any) -> Any:
        if value is not None and not callable(getattr(value, method, None)):
            raise ValueError(f"it has to have a method {method}, as {example} has")
        return value

    return AfterValidator(checked)


@functools.cache
def _model(kind: type[DataclassInstance]) -> type[BaseModel]:
    hints = get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {each.name: (hints[each.name], ...) for each in dataclasses.fields(kind)}
    return create_model(kind.__name__, __config__=ConfigDict(arbitrary_types_allowed=True, strict=True), **fields)
