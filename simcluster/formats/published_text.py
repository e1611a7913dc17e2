"""Reads the free text of published results: each function takes one cell and gives plain values, never an exception.

What a cell does not settle is None or empty; the caller decides what is assumed then.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = "str | bool | float | tuple[str, ...]"

SCHEDULES = frozenset({"gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe", "none"})
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp8-block", "mxfp8", "nvfp4")

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TRUE = frozenset({"1", "true", "yes", "on", "y", "1.0"})
_FALSE = frozenset({"0", "false", "no", "off", "n", "none", "0.0"})


def number(text: str) -> float | None:
    """A finite number with or without thousands separators; None when it is none.

    >>> number("1,024"), number("nan"), number("about 3")
    (1024.0, None, None)
    """
    if not re.fullmatch(r"[+-]?(\d{1,3}(,\d{3})+(\.\d+)?|\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text.strip()):
        return None
    value = float(text.replace(",", ""))
    return value if math.isfinite(value) else None


def count(text: str) -> int | None:
    """A whole number from 1 to 1e12, however it is written ("8", "8.0", "1,024").

    >>> count("8.0"), count("0"), count("2.5")
    (8, None, None)
    """
    value = number(text)
    return int(value) if value is not None and value == int(value) and 1 <= value <= 1e12 else None


def yes_no(text: str) -> bool | None:
    """A yes or no cell.

    >>> yes_no("1"), yes_no("off"), yes_no("perhaps")
    (True, False, None)
    """
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def date(text: str) -> str:
    """A date as YYYY, YYYY-MM or YYYY-MM-DD; empty when it is none.

    >>> date("2022-02-20"), date("Nov 2024"), date("2024/7"), date("2023Q3"), date("soon")
    ('2022-02-20', '2024-11', '2024-07', '2023-08', '')
    """
    word = text.strip().lower()
    if found := re.fullmatch(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?(?:[ t].*)?", word):
        return _date(found[1], found[2], found[3])
    if found := re.fullmatch(r"(\d{1,2})/(\d{4})", word):
        return _date(found[2], found[1], None)
    if found := re.fullmatch(r"(\d{4})[- ]?q([1-4])", word):
        return _date(found[1], str(3 * int(found[2]) - 1), None)
    found = re.fullmatch(r"(?:\d{1,2} )?([a-z]{3})[a-z]*\.?,? (?:\d{1,2}, )?(\d{4})", word)
    return _date(found[2], str(_MONTHS.index(found[1]) + 1), None) if found and found[1] in _MONTHS else ""


def _date(year: str, month: str | None, day: str | None) -> str:
    if not 1990 <= int(year) <= 2100 or not 1 <= int(month or 1) <= 12 or not 1 <= int(day or 1) <= 31:
        return ""
    return "-".join([year] + [f"{int(part):02d}" for part in (month, day) if part])


_PRECISION_PATTERNS = (
    ("nvfp4", r"nvfp4|\bfp4\b|mxfp4"),
    ("mxfp8", r"mxfp8|fp8.*\bmx\b"),
    ("fp8-block", r"fp8.*(block|fine|128|subchannel)"),
    ("fp8", r"fp8|float8|e4m3"),
    ("bf16", r"bf16|bfloat16"),
    ("fp16", r"fp16|float16|\bhalf\b"),
    ("tf32", r"tf32"),
    ("fp32", r"fp32|float32|\bsingle\b"),
    ("bf16", r"\bamp\b|mixed|16-?bit"),
)
_RECIPE_PATTERNS = (
    ("current", r"current|\bcs\b"),
    ("rowwise", r"row-?wise|channel"),
    ("tensorwise", r"tensor-?wise|float8 linear"),
    ("delayed", r"hybrid|delayed|\bte\b|amp_fp8"),
    ("autocast", r"\bamp"),
    ("pure", r"bf16 \(bf16\)|pure"),
)


def precision(text: str) -> tuple[str | None, str]:
    """Key of the arithmetic (one of PRECISIONS) and the scaling recipe; None when the text names no known one.

    >>> precision("fp8 (float8 rowwise)"), precision("bf16 (amp_bf16)"), precision("int8")
    (('fp8', 'rowwise'), ('bf16', 'autocast'), (None, ''))
    """
    word = text.strip().lower()
    key = next((key for key, pattern in _PRECISION_PATTERNS if re.search(pattern, word)), None)
    recipe = next((name for name, pattern in _RECIPE_PATTERNS if re.search(pattern, word)), "")
    return key, recipe if key else ""


def sharding(text: str) -> tuple[str | None, int | None]:
    """Strategy and the ranks of a shard group (0: all data-parallel ranks, None: not stated).

    >>> sharding("1 (groups of 8)"), sharding("3 (FSDP2)"), sharding("0"), sharding("??")
    (('zero-1', 8), ('fsdp', None), ('none', None), (None, None))
    """
    word = text.strip().lower()
    found = re.search(r"(?:groups?|shards?|hsdp)\s*(?:of|size)?\s*(\d{1,6})", word)
    group = int(found[1]) if found else 0 if "all" in word.split("(")[-1] and "(" in word else None
    if "hsdp" in word or "hybrid" in word:
        return "hsdp", group
    if "fsdp" in word or "full_shard" in word or "fully" in word:
        return "fsdp", group
    if found := re.match(r"(?:zero|stage)?[- ]?(?:stage)?[- ]?([0-3])\b", word):
        return ("none", "zero-1", "zero-2", "zero-3")[int(found[1])], group
    if "distributed optimizer" in word:
        return "zero-1", group
    return ("none", None) if word in {"none", "ddp", "no"} else (None, None)


def recompute(text: str) -> tuple[str | None, tuple[str, ...]]:
    """Mode of activation recomputation and the modules it names.

    >>> recompute("full"), recompute("selective (core_attn, mlp)"), recompute("other")
    (('full', ()), ('selective', ('core_attn', 'mlp')), (None, ()))
    """
    word = text.strip().lower()
    found = re.search(r"\(([^)]*)\)", word)
    modules = tuple(re.findall(r"[a-z_]{3,}", found[1])) if found else ()
    if re.match(r"selective|partial|op|sac\b", word):
        return "selective", modules
    if re.match(r"full|yes|true|1$|on$|all", word):
        return "full", ()
    return ("none", ()) if re.match(r"none|no\b|false|0$|off", word) else (None, ())


def attention(text: str) -> tuple[str | None, bool | None]:
    """Attention kernel ("flash": fused, generation not stated) and whether an unfused one fuses its softmax.

    >>> attention("unfused (Megatron fused softmax)"), attention("flash (SDPA)"), attention("FlashAttention-3")
    (('unfused', True), ('flash', None), ('flash-3', None))
    """
    word = text.strip().lower()
    if "unfused" in word or re.search(r"\b(eager|math|none)\b", word):
        return "unfused", True if "fused softmax" in word.replace("unfused", "") else None
    if found := re.search(r"(?:flash[-_ ]?(?:attention|attn)?|fa)[-_ ]?v?([1-4])", word):
        return f"flash-{min(int(found[1]), 3)}", None
    if "cudnn" in word:
        return "cudnn", None
    if re.search(r"triton|xformers|memory.efficient", word):
        return "flash-1", None
    return ("flash", None) if re.search(r"flash|flex|sdpa|fused|\bte\b|splash", word) else (None, None)


_SCHEDULE_PATTERNS = (
    ("dualpipe", r"^dual-?pipe$"),
    ("zb-h2", r"zb-?h2"),
    ("zb-h1", r"^zero[- ]?bubble$|zb-?h1|^zbb$|^zb$"),
    ("1f1b", r"1f1b|^interleaved$"),
    ("gpipe", r"gpipe|afab"),
    ("none", r"^none$|^no$"),
)


def schedule(text: str) -> str:
    """Pipeline schedule by its key; a schedule without a key stays as written, in lower case.

    >>> schedule("interleaved 1f1b"), schedule("zero-bubble"), schedule("DualPipe"), schedule("v-half")
    ('1f1b', 'zb-h1', 'dualpipe', 'v-half')
    """
    word = text.strip().lower()
    return next((key for key, pattern in _SCHEDULE_PATTERNS if re.search(pattern, word)), word)


def offload(text: str) -> tuple[str | None, int | None]:
    """What leaves the GPU's memory (none, activations, cpu, nvme) and for how many layers.

    >>> offload("activation CPU offload of 20 layers"), offload("optimizer to CPU"), offload("none")
    (('activations', 20), ('cpu', None), ('none', None))
    """
    word = text.strip().lower()
    found = re.search(r"(\d{1,4}) layers", word)
    if "activation" in word:
        return "activations", int(found[1]) if found else None
    if "nvme" in word or "disk" in word:
        return "nvme", None
    if re.search(r"cpu|host|optimi[sz]er", word):
        return "cpu", None
    return ("none", None) if word in {"none", "no", "0", "off", "false"} else (None, None)


@dataclass(frozen=True, slots=True)
class Overlap:
    """What a note on overlap says, in the field names of a software family.

    software     (field, value) pairs
    modules      recomputed modules; None when the note names none
    stage_layout text of an explicit stage layout, or empty
    unread       parts of the note that no pattern knows
    """

    software: tuple[tuple[str, Value], ...] = ()
    modules: tuple[str, ...] | None = None
    stage_layout: str = ""
    unread: tuple[str, ...] = ()


_OVERLAPS = (
    (("tp_overlap", "tp_overlap_moe"), r"\btp\b.*overlap|overlap.*\btp\b|tp-comm-overlap|async[- ]?tp"),
    (("overlap_grad_reduce",), r"grad.*reduce"),
    (("overlap_param_gather",), r"param.*gather"),
    (("ep_overlap",), r"\b(ep|a2a|all-?to-?all)\b.*overlap|overlap.*\b(ep|a2a)\b"),
)
_DISPATCHERS = (
    ("hybridep", "hybridep"),
    ("deepep", "deepep"),
    ("all-to-all", r"\balltoall\b"),
    ("all-gather", r"\ballgather\b"),
)


def overlap_notes(text: str) -> Overlap:
    """Reads a note such as "TP comm overlap off; dispatcher=deepep; cuda_graph=transformer_engine:['attn']".

    >>> dict(overlap_notes("TP comm overlap off; DeepEP").software)
    {'tp_overlap': False, 'tp_overlap_moe': False, 'dispatcher': 'deepep'}
    """
    software: dict[str, Value] = {}
    modules: tuple[str, ...] | None = None
    layout, unread = "", []
    for piece in _pieces(text):
        key, _, value = piece.partition("=")
        if key.strip() == "recompute_modules":
            modules = tuple(re.findall(r"[a-z_]+", value))
        elif key.strip() == "pp_layout":
            layout = value.strip()
        elif found := _read_piece(piece.lower()):
            software.update(found)
        else:
            unread.append(piece)
    return Overlap(tuple(software.items()), modules, layout, tuple(unread))


def _pieces(text: str) -> list[str]:
    """Parts between semicolons, and between commas where no bracket is open."""
    parts = re.split(r";|,(?![^\[(]*[\])])", text)
    return [part.strip() for part in parts if part.strip()]


def _read_piece(piece: str) -> dict[str, Value]:
    if "cuda" in piece and "graph" in piece:
        return _cuda_graphs(piece)
    on = not re.search(r"\b(off|no|disabled|false)\b", piece)
    found: dict[str, Value] = {}
    for names, pattern in _OVERLAPS:
        if re.search(pattern, piece):
            found |= dict.fromkeys(names, on)
    if "vanilla tp" in piece:
        found |= {"tp_overlap": False, "tp_overlap_moe": False}
    if re.search(r"\b(p2p|pp)\b.*overlap", piece):
        found |= {"overlap_p2p_interleaved": True} if on else {"overlap_p2p": False, "overlap_p2p_interleaved": False}
    for value, pattern in _DISPATCHERS:
        if re.search(pattern, piece):
            found["dispatcher"] = value
    if re.search(r"\bcp\b.*(a2a|all-?to-?all)", piece):
        found["cp_communication"] = "all-to-all"
    return found


def _cuda_graphs(piece: str) -> dict[str, Value]:
    """`cuda_graph=IMPLEMENTATION:SCOPE`, or words; the implementation "none" switches graphs off whatever the scope."""
    modules = tuple(re.findall(r"\b(?:attn|mamba|mlp|moe_router|moe_preprocess|moe)\b", piece))
    if re.search(r"=\s*none|\boff\b", piece):
        return {"cuda_graphs": False, "cuda_graph_modules": ()}
    return {"cuda_graphs": not modules, "cuda_graph_modules": modules}
