"""A part of the catalogue: what it is called, what is known of it and from where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from simcluster.hardware.alias import Alias
from simcluster.hardware.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of the catalogue: what it is called and what is known of it."""

    kind: str
    type: str
    id: str
    name: str
    aliases: tuple[Alias, ...] = ()
    values: Mapping[str, Quantity] = field(default_factory=dict)
    note: str = ""
    extends: str = ""
    files: tuple[str, ...] = ()

    def number(self, key: str, default: float = 0.0) -> float:
        """SI number of a value, `default` where the entry has none."""
        return self.values[key].number if key in self.values else default

    def text(self, key: str, default: str = "") -> str:
        """Text of a value, `default` where the entry has none."""
        return str(self.values[key].value) if key in self.values else default

    def priors(self) -> tuple[str, ...]:
        """Keys of the values that nothing but an estimate backs; figures that rest on them are of grade D."""
        return tuple(key for key, quantity in self.values.items() if quantity.is_prior)

    def over(self, base: Entry) -> Entry:
        """The entry with the values, and on the same id the aliases, of `base` where it has none itself."""
        aliases = self.aliases
        if base.id == self.id:
            own = {alias.key for alias in aliases}
            aliases += tuple(alias for alias in base.aliases if alias.key not in own)
        return replace(
            self,
            name=self.name or base.name,
            note=self.note or base.note,
            aliases=aliases,
            values={**base.values, **self.values},
            files=(*base.files, *self.files),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "kind": self.kind,
            "type": self.type,
            "id": self.id,
            "name": self.name,
            "note": self.note,
            "aliases": [alias.name for alias in self.aliases],
            "values": {key: quantity.to_dict() for key, quantity in self.values.items()},
        }
