"""Quantities as people write them, to SI floats and back; done once, at the edge of the program.

`parse("400 Gbit/s", "bytes_per_s")` is 5e10. Everything inside simcluster is SI: seconds, bytes (never bits), watts,
joules, USD, FLOP; a fraction is 0.2, not 20. Conventions:

* lower-case b is a bit, capital B a byte; k, M, G, T, P, E are powers of ten, Ki, Mi, Gi, Ti, Pi powers of 1024.
* a year is 365.25 days of 24 hours, a month a twelfth of it (730.5 h).
* `/` divides by all that follows it: USD/kW-month is USD per (kW month).
* energy (kWh) and power times time are the same size, but a charge for power (USD/kW-month) is told from a price of
  energy (USD/kWh): the two never stand in for each other.
"""

from simcluster.units.reading import DAY_S, HOUR_S, MINUTE_S, MONTH_S, WEEK_S, YEAR_S, Dimension, factor, parse
from simcluster.units.writing import (
    format_bytes,
    format_count,
    format_percent,
    format_power,
    format_rate,
    format_seconds,
    format_usd,
)

__all__ = [
    "DAY_S",
    "HOUR_S",
    "MINUTE_S",
    "MONTH_S",
    "WEEK_S",
    "YEAR_S",
    "Dimension",
    "factor",
    "parse",
    "format_seconds",
    "format_bytes",
    "format_rate",
    "format_power",
    "format_count",
    "format_percent",
    "format_usd",
]
