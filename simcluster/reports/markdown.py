"""Blocks as Markdown, tables in the pipe form of GitHub."""

from __future__ import annotations

import re
from collections.abc import Iterable

from simcluster.reports.blocks import Block, Points, Table, Words, cell_text
from simcluster.reports.terminal import clean

_SPECIAL = re.compile(r"([\\`*<>|~\[\]]|(?<![^\W_])_|_(?![^\W_]))")


def render(title: str, blocks: Iterable[Block]) -> str:
    r"""A page under a title.

    >>> from simcluster.reports.blocks import Column
    >>> print(render("a|b", [Table((Column("what"), Column("s", "point")), (("x", "1.5"),))]))
    # a\|b
    <BLANKLINE>
    | what | s |
    | --- | ---: |
    | x | 1.5 |
    """
    return "\n\n".join([f"# {escaped(title)}", *(_block(block) for block in blocks)])


def escaped(text: str) -> str:
    r"""Text that Markdown shows as it is.

    >>> print(escaped("a*b_c <x>"))
    a\*b_c \<x\>
    """
    return _SPECIAL.sub(r"\\\1", clean(text))


def _block(block: Block) -> str:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Points):
        return "\n".join([escaped(block.head), "", *(f"- {escaped(item)}" for item in block.items)])
    return _words(block)


def _words(words: Words) -> str:
    first, *rest = map(escaped, words.lines)
    return "\n\n".join([f"**{first}**" if words.style == "strong" else first, *rest])


def _table(table: Table) -> str:
    """Columns that only a text page needs are left out."""
    shown = [index for index, column in enumerate(table.columns) if column.shown == "always"]
    columns = [table.columns[index] for index in shown]
    rule = ["---" if column.align == "left" else "---:" for column in columns]
    rows = [[escaped(column.header) for column in columns], rule]
    rows += [[escaped(cell_text(row[index])).strip() for index in shown] for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
