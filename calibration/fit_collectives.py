"""Makes calibration/profiles/collectives.yaml from calibration/measured/collectives.csv.

    python calibration/fit_collectives.py [--csv FILE] [--out FILE] [--date YYYY-MM-DD] [--leave-one-out]

The start values are the constants of NVIDIA/nccl's tuner (src/graph/tuning.cc, 2.30: base and hop latencies; LL, LL128
limits) and, for bandwidth, the round shares that NVIDIA states (GTC 2024 S62129, GTC 2025 S72583). Prints the residuals
by (gpu, fabric, collective).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from simcluster.calibrate.collective_logs import read_logs
from simcluster.calibrate.collectives import dump_profile, fit_profile, leave_one_log_out
from simcluster.timing.collective_profile import CollectiveProfile, Evidence, FabricPath, ScaleUpPath, Source

HERE = Path(__file__).resolve().parent
PRIOR = Source(kind="estimate", date="", sources=("NVIDIA/nccl src/graph/tuning.cc 2.30",))

NVLINK = ScaleUpPath(
    id="nvlink4", line_bytes_per_s=450e9,
    ring_base_s=(6.6e-6, 14e-6, 20e-6), ring_hop_s=(0.6e-6, 1.0e-6, 1.5e-6), ring_efficiency=(0.35, 0.6, 0.82),
    ring_copy=3.0, nvls_base_s=35e-6, nvls_efficiency=0.6,
    alltoall_base_s=(6.6e-6, 15e-6), alltoall_peer_s=(0.2e-6, 0.2e-6), alltoall_efficiency=(0.4, 0.8),
    alltoall_copy=3.0, p2p_base_s=8e-6, p2p_efficiency=0.84, source=PRIOR,
)  # fmt: skip
PCIE = replace(
    NVLINK, id="pcie5", line_bytes_per_s=64e9, crowding=0.2, nvls_base_s=0.0, nvls_efficiency=0.0, p2p_efficiency=0.55
)
SCALE_UP = (
    NVLINK,
    replace(NVLINK, id="nvlink3", line_bytes_per_s=300e9, nvls_base_s=0.0, nvls_efficiency=0.0),
    replace(NVLINK, id="nvlink3-mesh-4", line_bytes_per_s=300e9, nvls_base_s=0.0, nvls_efficiency=0.0),
    replace(NVLINK, id="nvlink5", line_bytes_per_s=900e9, nvls_efficiency=0.535),
    replace(NVLINK, id="nvlink5-mnnvl", line_bytes_per_s=900e9, nvls_efficiency=0.49, boundary_bytes_per_s=420e9),
    replace(NVLINK, id="nvlink-bridge", line_bytes_per_s=300e9, nvls_base_s=0.0, nvls_efficiency=0.0),
    PCIE,
    replace(PCIE, id="pcie4", line_bytes_per_s=32e9),
    replace(NVLINK, id="xgmi", line_bytes_per_s=448e9, nvls_base_s=0.0, nvls_efficiency=0.0),
)
INFINIBAND = FabricPath(
    id="ib-ndr-400", protocol="ib", nic_bytes_per_s=50e9,
    ring_base_s=(6.6e-6, 14e-6, 30e-6), ring_hop_s=(5e-6, 8e-6, 14e-6), ring_efficiency=(0.9, 0.9, 0.96),
    tree_hop_s=(8e-6, 12e-6, 50e-6), tree_efficiency=(0.9, 0.9, 0.9), tree_fill=0.3,
    nvls_tree_base_s=40e-6, nvls_tree_hop_s=90e-6, nvls_tree_efficiency=0.95,
    alltoall_base_s=(15e-6, 40e-6), alltoall_peer_s=(2e-6, 1e-6), alltoall_efficiency=(0.8, 0.9),
    p2p_base_s=20e-6, p2p_efficiency=0.88, source=PRIOR,
)  # fmt: skip
# id, protocol, rate of one card [B/s]; 0.8 of 100 Gbit/s was stated for TCP (GTC 2024 S62129), 5 GB/s a card limits it
FABRICS = (
    INFINIBAND,
    replace(INFINIBAND, id="ib-hdr-200", nic_bytes_per_s=25e9),
    replace(INFINIBAND, id="roce-400", protocol="roce"),
    replace(INFINIBAND, id="roce-100", protocol="roce", nic_bytes_per_s=12.5e9),
    replace(INFINIBAND, id="efa-v2", protocol="efa", nic_bytes_per_s=12.5e9),
    replace(INFINIBAND, id="efa-v1", protocol="efa", nic_bytes_per_s=12.5e9),
    replace(INFINIBAND, id="efa-v3", protocol="efa", nic_bytes_per_s=25e9),
    replace(INFINIBAND, id="efa-v4", protocol="efa"),
    replace(INFINIBAND, id="slingshot-11", protocol="slingshot", nic_bytes_per_s=25e9),
    replace(INFINIBAND, id="tcpxo", protocol="tcp-gpudirect", nic_bytes_per_s=25e9),
    replace(INFINIBAND, id="tcpx", protocol="tcp-gpudirect", nic_bytes_per_s=25e9),
    replace(
        INFINIBAND,
        id="tcp",
        protocol="tcp",
        nic_bytes_per_s=25e9,
        nic_limit_bytes_per_s=5e9,
        ring_efficiency=(0.8, 0.8, 0.8),
        tree_efficiency=(0.8, 0.8, 0.8),
        nvls_tree_efficiency=0.8,
        alltoall_efficiency=(0.5, 0.8),
        p2p_efficiency=0.8,
    ),
    replace(INFINIBAND, id="slingshot-11-tcp", protocol="tcp", nic_bytes_per_s=25e9, nic_limit_bytes_per_s=3e9),
    replace(INFINIBAND, id="tcp-200", protocol="tcp", nic_bytes_per_s=25e9, nic_limit_bytes_per_s=5e9),
)
PARENTS = {
    "nvlink3": "nvlink4", "nvlink3-mesh-4": "nvlink3", "nvlink5": "nvlink4", "nvlink5-mnnvl": "nvlink5",
    "nvlink-bridge": "nvlink3", "xgmi": "nvlink4", "pcie4": "pcie5",
    "ib-hdr-200": "ib-ndr-400", "roce-400": "ib-ndr-400", "roce-100": "roce-400", "efa-v2": "ib-ndr-400",
    "efa-v1": "efa-v2", "efa-v3": "efa-v2", "efa-v4": "efa-v3", "slingshot-11": "ib-hdr-200", "tcpxo": "efa-v2",
    "tcpx": "tcpxo", "slingshot-11-tcp": "tcp", "tcp-200": "tcp",
}  # fmt: skip
REFERENCE = {
    "ib": "ib-ndr-400", "roce": "roce-400", "efa": "efa-v2", "slingshot": "slingshot-11", "tcp": "tcp",
    "tcp-gpudirect": "tcpxo",
}  # fmt: skip
POOLS = {"tcp": ("slingshot-11-tcp", "tcp-200")}
NOTE = (
    "Fitted to healthy logs of nccl-tests (and tcp ones for the tcp paths); a record whose source kind is estimate has "
    "no logs and carries the values of its `like`."
)


def start_profile() -> CollectiveProfile:
    """The priors."""
    return CollectiveProfile("", {p.id: p for p in SCALE_UP}, {p.id: p for p in FABRICS}, REFERENCE, {})


def show(evidence: list[Evidence]) -> None:
    """Residuals as a table, in per cent."""
    titles = ("logs", "points", "<1MiB", "p90", ">=1MiB", "p90")
    print(f"{'gpu':24}{'fabric':18}{'collective':16}" + "{:>5}{:>7}{:>10}{:>7}{:>8}{:>7}".format(*titles))
    for e in evidence:
        figures = [100 * value for value in (e.median_small, e.p90_small, e.median_large, e.p90_large)]
        print(
            f"{e.gpu:24}{e.fabric:18}{e.kind:16}{e.logs:5}{e.points:7}"
            + "{:10.1f}{:7.1f}{:8.1f}{:7.1f}".format(*figures)
        )


def main() -> None:
    """Fit, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=Path, default=HERE / "measured" / "collectives.csv")
    parser.add_argument("--out", type=Path, default=HERE / "profiles" / "collectives.yaml")
    parser.add_argument("--date", default="2025-12-01", help="date of the profile, written into it")
    parser.add_argument("--leave-one-out", action="store_true", help="also refit each path without each of its logs")
    options = parser.parse_args()
    logs = read_logs(options.csv, ("healthy", "tcp"))
    profile = fit_profile(logs, start_profile(), PARENTS, options.date, POOLS)
    show(list(profile.evidence.values()))
    options.out.write_text(dump_profile(profile, NOTE), encoding="utf-8")
    if options.leave_one_out:
        left = leave_one_log_out(logs, profile)
        errors = np.abs(np.concatenate(list(left.values())))
        print(
            f"leave one log out: {len(left)} logs, median {np.median(errors):.1%}, p90 {np.quantile(errors, 0.9):.1%}"
        )


if __name__ == "__main__":
    main()
