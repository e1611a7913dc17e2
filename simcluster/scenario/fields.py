"""The base model of all scenario parts and the types of their fields: text in, SI out.

Numbers without a unit are taken where the unit is plain (counts, fractions, seconds of a restart) and refused where it
is not (400 of what?). The context `SI` lifts that for data that `to_dict` wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationInfo

from simcluster import units

SI = {"si": True}
MAX_COUNT = 10**9


class Part(BaseModel):
    """A piece of a scenario: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


def quantity(dimension: units.Dimension, *, bare: bool | None = None) -> BeforeValidator:
    """Validator that parses text of a dimension to SI."""

    def convert(value: Any, info: ValidationInfo) -> float:
        si = isinstance(info.context, dict) and info.context.get("si")
        return units.parse(value, dimension, bare=True if si else bare)

    return BeforeValidator(convert)


def whole(dimension: units.Dimension = "count") -> Callable[[Any], int]:
    """Function that parses a whole number; 8.0 and '4k' are whole, 8.5 and true are not."""

    def convert(value: Any) -> int:
        number = value if isinstance(value, int) and not isinstance(value, bool) else units.parse(value, dimension)
        if number != int(number):
            raise ValueError(f"{value!r} is not a whole number")
        return int(number)

    return convert


def count_or_auto(value: Any) -> Any:
    """A count of at least 1, or the word auto."""
    if value == "auto":
        return value
    try:
        number = whole()(value)
    except ValueError:
        number = 0
    if not 1 <= number <= MAX_COUNT:
        raise ValueError(f"{value!r} should be a whole number of at least 1, or 'auto'")
    return number


def shape(value: Any) -> str:
    """Tag of a field that takes a name (or word) or a mapping."""
    return "a mapping" if isinstance(value, (dict, BaseModel)) else "a word or a mapping"


ByShape = Discriminator(shape)
WORD = Tag("a word or a mapping")
MAPPING = Tag("a mapping")

Count: TypeAlias = Annotated[int, BeforeValidator(whole()), Field(ge=1, le=MAX_COUNT)]
CountOrZero: TypeAlias = Annotated[int, BeforeValidator(whole()), Field(ge=0, le=MAX_COUNT)]
AutoCount: TypeAlias = Annotated[int | Literal["auto"], BeforeValidator(count_or_auto)]
Tokens: TypeAlias = Annotated[int, BeforeValidator(whole("tokens")), Field(ge=1)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=1000)]
Number: TypeAlias = Annotated[float, quantity("count"), Field(ge=0)]
Ratio: TypeAlias = Annotated[float, quantity("count"), Field(ge=1)]
Fraction: TypeAlias = Annotated[float, quantity("fraction"), Field(ge=0, le=1)]
Share: TypeAlias = Annotated[float, quantity("fraction"), Field(gt=0, le=1)]
Rate: TypeAlias = Annotated[float, quantity("fraction"), Field(ge=0, lt=10)]  # yearly interest and the like
Seconds: TypeAlias = Annotated[float, quantity("seconds"), Field(ge=0)]
Duration: TypeAlias = Annotated[float, quantity("seconds", bare=False), Field(ge=0)]  # days or weeks? say so
PositiveDuration: TypeAlias = Annotated[float, quantity("seconds", bare=False), Field(gt=0)]
Bytes: TypeAlias = Annotated[float, quantity("bytes"), Field(ge=0)]
BytesPerSecond: TypeAlias = Annotated[float, quantity("bytes_per_s"), Field(gt=0)]
Watts: TypeAlias = Annotated[float, quantity("watts", bare=False), Field(ge=0)]
UsdPerJoule: TypeAlias = Annotated[float, quantity("usd_per_joule"), Field(ge=0)]
UsdPerWattSecond: TypeAlias = Annotated[float, quantity("usd_per_watt_s"), Field(ge=0)]
Usd: TypeAlias = Annotated[float, quantity("usd"), Field(ge=0)]
UsdPerGpu: TypeAlias = Annotated[float, quantity("usd_per_gpu"), Field(ge=0)]
UsdPerSecond: TypeAlias = Annotated[float, quantity("usd_per_s"), Field(ge=0)]
