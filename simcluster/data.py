"""Finds the data that ships with simcluster: in a checkout beside the package, in a wheel inside it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from simcluster.errors import InputError

_PACKAGE = Path(__file__).resolve().parent


@cache
def data_root(kind: str) -> Path:
    """Folder of shipped data: "hardware_db", "calibration" or "examples".

    A checkout holds it beside the package (told by the project file), an installed wheel inside the package.

    >>> data_root("hardware_db").name
    'hardware_db'
    """
    checkout = _PACKAGE.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / kind).is_dir():
        return checkout / kind
    packaged = _PACKAGE / kind
    if packaged.is_dir():
        return packaged
    raise InputError(f"simcluster's own data folder {kind!r} is missing; reinstall the package")
