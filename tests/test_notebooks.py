"""Each notebook runs as a script and ends in a sentence with figures that are what its question asks for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
NAMES = sorted(path.stem for path in NOTEBOOKS.glob("*.py"))


def last_sentence(name: str, folder: Path) -> str:
    """What a notebook prints last, run from somewhere else and without a display."""
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    command = [sys.executable, str(NOTEBOOKS / f"{name}.py")]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


def numbers(pattern: str, sentence: str) -> list[float]:
    found = re.fullmatch(pattern, sentence)
    assert found, sentence
    return [float(text) for text in found.groups()]


def test_each_has_a_test():
    assert set(NAMES) == {"build_or_rent_256_b200", "first_look", "network_for_30b"}


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_percent_script_that_asks_before_it_answers(name):
    text = (NOTEBOOKS / f"{name}.py").read_text(encoding="utf-8")
    cells = text.split("\n# %%")
    assert "format_name: percent" in cells[0]
    assert cells[1].startswith(" [markdown]\n# # ")
    assert "?" in cells[1]
    assert "print(" in cells[-1]
    assert text.count("print(") == 1


def test_first_look(tmp_path):
    """Both fabrics carry 200 Gbit/s a GPU and hide in the step; v virtual stages cut a bubble of 3/32 to 3/(32 v)."""
    pattern = (
        r"The two fabrics differ by ([\d.]+)% of a step of ([\d.]+) s; "
        r"with four virtual stages it would be ([\d.]+)% shorter\."
    )
    apart, step_s, gain = numbers(pattern, last_sentence("first_look", tmp_path))
    assert apart < 1.0
    assert 15 < step_s < 30
    assert 0.6 * 100 * (3 / 35) * (3 / 4) < gain < 100 * (3 / 35)


def test_network_for_30b(tmp_path):
    """3.2 = 2 (line rates) x 1.6 (congestion) where only the wire counts: RoCE then reaches 1/1.6 = 62.5 %.

    Protocols differ by a few percent in the measured logs, so the share may be off by as much.
    """
    pattern = (
        r"Buy 8 cards a node: then 200 Gbit/s RoCE costs a 33B model ([\d.]+)% of step time against 400 Gbit/s "
        r"InfiniBand at 4 sequences a GPU \(but ([\d.]+)% at 1\), and the protocol alone at most ([\d.]+)%; "
        r"([\d.]+) times comes out with 1 card a node and RoCE that reaches ([\d.]+)% of its line rate, "
        r"([\d.]+) times without that congestion\."
    )
    large, small, protocol, claim, share, free = numbers(pattern, last_sentence("network_for_30b", tmp_path))
    assert large < 2.0 < small < 100.0
    assert protocol < 10.0
    assert claim == 3.2
    assert share == pytest.approx(62.5, abs=4.0)
    assert free == pytest.approx(2.0, abs=0.15)


def test_build_or_rent_256_b200(tmp_path):
    """DGX B200 nodes were quoted at 400 to 515 thousand USD, and are rated 14.3 kW: 32 of them and their network."""
    pattern = (
        r"Build for four years: an owned GPU-hour at work costs ([\d.]+) USD, one on demand ([\d.]+); "
        r"owning is cheaper from (\d+) months of use on if the machines can be sold then \((\d+) if not\), "
        r"renting below ([\d.]+) USD for six months and below ([\d.]+) for four years; "
        r"it takes ([\d.]+) M USD and (\d+) kW, not 8 to 12 M USD and 120 to 150 kW\."
    )
    found = numbers(pattern, last_sentence("build_or_rent_256_b200", tmp_path))
    own, rent, sold, kept, six_months, four_years, capital, kilowatts = found
    assert own == four_years < rent
    assert four_years < six_months
    assert sold < kept <= 48
    assert 32 * 0.4 < capital < 1.5 * 32 * 0.515
    assert 0.6 * 32 * 14.3 < kilowatts < 1.1 * 32 * 14.3 + 60
    # Capital alone, spread evenly over the used hours of four years, before interest and power and after resale.
    assert own > 0.8 * capital * 1e6 / (256 * 4 * 8766 * 0.85)
