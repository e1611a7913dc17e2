"""Blocks as text: aligned columns, wrapped to a terminal's width, coloured only as decoration."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

import click

from simcluster.reports.blocks import Align, Block, Cell, Column, Points, Style, Table, cell_text
from simcluster.reports.layout import Page, text_width

_GAP = 2
_LONGEST = 24  # columns; longer words may be broken
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BREAKS = re.compile(r"[\t\n\x0b\x0c\r\x85\u2028\u2029]+")


def render(blocks: Iterable[Block], page: Page) -> str:
    """A page of text; names of the user's can steer neither terminal nor layout.

    >>> from simcluster.reports.blocks import Words
    >>> print(render([Words(("Take b.",)), Table((Column("what"), Column("s", "point")), (("x", "1.5"),))], Page()))
    Take b.
    <BLANKLINE>
    what    s
    x     1.5
    """
    return "\n\n".join(_block(block, page) for block in blocks)


def clean(text: str) -> str:
    r"""Text on one line, with control characters made visible.

    >>> print(clean("a\x1b[31mb\nc"))
    a\x1b[31mb c
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", _BREAKS.sub(" ", text))


def _block(block: Block, page: Page) -> str:
    if isinstance(block, Table):
        return _table(block, page)
    if isinstance(block, Points):
        items = [_wrapped(item, page, f"  {block.sign} ") for item in block.items]
        return "\n".join([_wrapped(block.head, page), *items])
    first, *rest = [_wrapped(line, page) for line in block.lines]
    return "\n".join([_styled(first, block.style, page), *rest])


def _wrapped(text: str, page: Page, lead: str = "") -> str:
    text = clean(text)
    if page.width is None or text_width(lead + text) <= page.width:
        return lead + text
    lines = textwrap.wrap(
        text, page.width, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False
    )
    return "\n".join(lines)


def _styled(text: str, style: Style, page: Page) -> str:
    if not page.colour or not style or not text:
        return text
    if style == "strong":
        return click.style(text, bold=True)
    return click.style(text, fg="green" if style == "good" else "red")


def _table(table: Table, page: Page) -> str:
    """A table that fits the page: without its roomy columns, with wrapped cells, at last in parts below each other."""
    shown = list(range(len(table.columns)))
    widths, _ = _fitted(table, shown, None)
    if page.width is None or _total(widths) <= page.width:
        return _drawn(table, shown, page)
    shown = [index for index in shown if table.columns[index].shown != "roomy"]
    widths, _ = _fitted(table, shown, page.width)
    if _total(widths) <= page.width:
        return _drawn(table, shown, page)
    return "\n\n".join(_drawn(table, part, page) for part in _parts(shown, widths, page.width))


def _parts(shown: Sequence[int], widths: Sequence[int], limit: int) -> list[list[int]]:
    """The first column with as many of the others as fit, again and again."""
    parts, room = [[shown[0]]], limit - widths[0]
    for index, width in zip(shown[1:], widths[1:]):
        if len(parts[-1]) > 1 and room < width + _GAP:
            parts.append([shown[0]])
            room = limit - widths[0]
        parts[-1].append(index)
        room -= width + _GAP
    return parts


def _drawn(table: Table, shown: Sequence[int], page: Page) -> str:
    """The columns that are shown, wrapped to the page's width as far as words allow."""
    widths, body = _fitted(table, shown, page.width)
    aligns: list[Align] = [table.columns[index].align for index in shown]
    styles: list[list[Style]] = [["strong"] * len(shown)]
    styles += [[_style(row[index]) for index in shown] for row in table.rows]
    lines: list[str] = []
    for row, style in zip(body, styles):
        lines += _row(row, style, widths, aligns, page)
    return "\n".join(lines)


def _style(cell: Cell | str) -> Style:
    return "" if isinstance(cell, str) else cell.style


def _fitted(table: Table, shown: Sequence[int], limit: int | None) -> tuple[list[int], list[list[str]]]:
    """Widths of the columns, and the texts, header first, of the columns that are shown."""
    columns = [_column(table, index) for index in shown]
    widths = [max(map(text_width, column)) for column in columns]
    floors = [_floor(table.columns[index], column, first=index == 0) for index, column in zip(shown, columns)]
    while limit is not None and _total(widths) > limit:
        spare = [(width, place) for place, (width, floor) in enumerate(zip(widths, floors)) if width > floor]
        if not spare:
            break
        widths[max(spare)[1]] -= 1
    return widths, [list(row) for row in zip(*columns)]


def _floor(column: Column, texts: Sequence[str], *, first: bool) -> int:
    """The narrowest that a column can be: labels and numbers stay whole, other words may go below each other."""
    header = _longest_word(texts[0])
    if first or column.align != "left":
        return max(header, *map(text_width, texts[1:]), 1)
    return max(header, *map(_longest_word, texts[1:]), 1)


def _longest_word(text: str) -> int:
    """Width of the longest piece that wrapping keeps whole.

    >>> _longest_word("candidate-one, at 200 Gbit/s")
    10
    """
    return min(_LONGEST, max(map(text_width, textwrap.wrap(text, 1, break_long_words=False)), default=0))


def _column(table: Table, index: int) -> list[str]:
    """Texts of a column, header first; numbers get blanks behind them so that their points meet."""
    texts = [clean(cell_text(row[index])) for row in table.rows]
    if table.columns[index].align == "point":
        after = [len(text.partition(".")[2]) + ("." in text) for text in texts]
        most = max(after, default=0)
        texts = [text + " " * (most - own) if text else "" for text, own in zip(texts, after)]
    return [clean(table.columns[index].header), *texts]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _row(
    texts: Sequence[str], styles: Sequence[Style], widths: Sequence[int], aligns: Sequence[Align], page: Page
) -> list[str]:
    """The lines of one row; a cell that is wider than its column goes on below."""
    parts = [[text] if text_width(text) <= width else textwrap.wrap(text, width) for text, width in zip(texts, widths)]
    lines = []
    for depth in range(max(map(len, parts))):
        cells = []
        for part, style, width, align in zip(parts, styles, widths, aligns):
            text = part[depth] if depth < len(part) else ""
            blanks = " " * (width - text_width(text))
            text = _styled(text, style, page)
            cells.append(text + blanks if align == "left" else blanks + text)
        lines.append((" " * _GAP).join(cells).rstrip())
    return lines
