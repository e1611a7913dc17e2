"""`compare` of machines that have no price."""

from __future__ import annotations

JOB = ("compare", "--model", "llama-7b", "--tokens", "1T")


def test_the_command_line_tells_them_without_a_traceback(say, unpriced):
    said = say(*JOB, *(f"4x{node}:own" for node in unpriced))
    assert said.code == 3
    assert said.out == ""
    assert all(file in said.err for file in unpriced.values())
    assert "Traceback" not in said.err
    assert said.err.rstrip().endswith("2 problems")


def test_a_folder_with_the_price_mends_it(say, quoted, unpriced):
    said = say(*JOB, "--hardware-db", str(quoted), *(f"4x{node}:own" for node in unpriced))
    assert said.code == 0
    assert "capital" in said.out
