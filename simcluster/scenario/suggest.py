"""Did-you-mean for keys and names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(word: str, options: Iterable[str], count: int = 1) -> list[str]:
    """Options that look most like `word`, best first; case, spaces and underscores do not count.

    >>> closest("dgx_h10", ["dgx-h100", "dgx-a100", "hgx-b200"])
    ['dgx-h100']
    """
    plain = {_plain(option): option for option in options}
    return [plain[match] for match in difflib.get_close_matches(_plain(word), plain, count, 0.6)]


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Advice that names the option meant, or lists them all when few, or nothing.

    >>> did_you_mean("hiden", ["hidden", "heads"])
    "did you mean 'hidden'?"
    >>> did_you_mean("xyz", ["none", "cpu"])
    'use none or cpu'
    """
    listed = list(options)
    best = closest(word, listed)
    if best:
        return f"did you mean {best[0]!r}?"
    return f"use {either(listed)}" if 0 < len(listed) <= 16 else ""


def either(options: Iterable[str]) -> str:
    """Words joined for a sentence.

    >>> either(["a", "b", "c"]), either(["a"])
    ('a, b or c', 'a')
    """
    *first, last = options
    return f"{', '.join(first)} or {last}" if first else last


def _plain(text: str) -> str:
    return text[:100].lower().replace("_", "-").replace(" ", "-")
