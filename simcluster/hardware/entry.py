"""A part of the catalogue: what it is called, what is known of it and from where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from simcluster.hardware.alias import Alias
from simcluster.hardware.fields_services import TABLES
from simcluster.hardware.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Row:
    """One line of an entry's table: which one it is (name and labels), and its value.

    name    unique in the table; "" where the labels alone tell the rows apart
    labels  words and numbers of the columns of the entry's type, such as instance, term and region of a price
    rows    lines of the collected facts that it carries
    """

    name: str
    labels: Mapping[str, str | float]
    quantity: Quantity
    rows: tuple[str, ...] = ()

    def key(self, type_: str) -> tuple[Any, ...]:
        """What a row of the user must share with a shipped one to replace it: name and required labels."""
        table = TABLES[type_]
        date = self.quantity.provenance.date if table.by_date else ""
        return (self.name, date, *(self.labels.get(key) for key, column in table.columns.items() if column.required))

    def text(self, label: str, default: str = "") -> str:
        """Text of a label, `default` where the row has none."""
        return str(self.labels.get(label, default))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, value in SI units."""
        return ({"name": self.name} if self.name else {}) | dict(self.labels) | self.quantity.to_dict()


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of the catalogue: what it is called and what is known of it.

    values  what the entry's type has a field for, by key
    table   further lines: a price list, the causes of failures
    rows    lines of the collected facts that the entry carries
    """

    kind: str
    type: str
    id: str
    name: str
    aliases: tuple[Alias, ...] = ()
    values: Mapping[str, Quantity] = field(default_factory=dict)
    table: tuple[Row, ...] = ()
    note: str = ""
    extends: str = ""
    rows: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def number(self, key: str, default: float = 0.0) -> float:
        """SI number of a value, `default` where the entry has none."""
        return self.values[key].number if key in self.values else default

    def text(self, key: str, default: str = "") -> str:
        """Text of a value, `default` where the entry has none."""
        return str(self.values[key].value) if key in self.values else default

    def row(self, name: str) -> Row:
        """Row of the table by its name; KeyError if there is none."""
        for row in self.table:
            if row.name == name:
                return row
        raise KeyError(name)

    def quantities(self) -> Iterator[tuple[str, Quantity]]:
        """Every value and row with what it is called; conflicts are inside."""
        yield from self.values.items()
        for row in self.table:
            yield row.name or " ".join(str(label) for label in row.labels.values()), row.quantity

    def covers(self) -> tuple[str, ...]:
        """Lines of the collected facts that the entry or its table carries."""
        return (*self.rows, *(line for row in self.table for line in row.rows))

    def priors(self) -> tuple[str, ...]:
        """Keys of the values that nothing but an estimate backs; figures that rest on them are of grade D."""
        return tuple(key for key, quantity in self.quantities() if quantity.is_prior)

    def over(self, base: Entry) -> Entry:
        """The entry with the values and rows, and on the same id the aliases, of `base` where it has none itself."""
        aliases = self.aliases
        if base.id == self.id:
            known = {alias.key for alias in aliases}
            aliases += tuple(alias for alias in base.aliases if alias.key not in known)
        own = {row.key(self.type) for row in self.table}
        return replace(
            self,
            name=self.name or base.name,
            note=self.note or base.note,
            aliases=aliases,
            values={**base.values, **self.values},
            table=(*(row for row in base.table if row.key(self.type) not in own), *self.table),
            files=(*base.files, *self.files),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain: dict[str, Any] = {
            "kind": self.kind,
            "type": self.type,
            "id": self.id,
            "name": self.name,
            "note": self.note,
            "aliases": [alias.name for alias in self.aliases],
            "values": {key: quantity.to_dict() for key, quantity in self.values.items()},
        }
        return plain | ({"table": [row.to_dict() for row in self.table]} if self.table else {})
