"""Writes the JSON Schemas that ship in simcluster/schemas. `.venv/bin/python scripts/schemas.py`."""

from pathlib import Path

from simcluster.reports.schemas import ANSWERS, schema_text

FOLDER = Path(__file__).resolve().parent.parent / "simcluster" / "schemas"


def main():
    """One file for each command that answers in JSON."""
    FOLDER.mkdir(exist_ok=True)
    for command in ANSWERS:
        (FOLDER / f"{command}.schema.json").write_text(schema_text(command), encoding="utf-8")


if __name__ == "__main__":
    main()
