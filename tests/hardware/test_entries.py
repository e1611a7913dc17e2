"""Entries against figures that are widely known, written here anew and not read from the files."""

from __future__ import annotations

import csv

import pytest

from simcluster import units
from simcluster.data import data_root
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import cluster_from


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


@pytest.mark.parametrize(
    ("name", "bf16", "fp8", "hbm", "label", "sms", "tdp", "link", "rate", "domain"),
    [
        ("GB200", 2500e12, 5000e12, 8e12, 186e9, 152, 1200, "nvlink5", 900e9, 72),
        ("B300", 2250e12, 4500e12, 8e12, 270e9, 148, 1100, "nvlink5", 900e9, 8),
        ("GB300", 2500e12, 5000e12, 8e12, 288e9, 152, 1400, "nvlink5", 900e9, 72),
        ("H800-SXM", 989.4e12, 1978.9e12, 3.35e12, 80e9, 132, 700, "nvlink4", 200e9, 8),
        ("A800", 312e12, 0, 2.039e12, 80e9, 108, 400, "nvlink3", 200e9, 8),
        ("H20", 148e12, 296e12, 4e12, 96e9, 78, 400, "nvlink4", 450e9, 8),
        ("H100 96GB 500W", 989.4e12, 1978.9e12, 2.4e12, 96e9, 132, 500, "nvlink4", 450e9, 8),
        ("MI300X", 1307.4e12, 2614.9e12, 5.3e12, 192e9, 304, 750, "xgmi", 448e9, 8),
        ("MI350X", 2306.9e12, 4613.7e12, 8e12, 288e9, 256, 1000, "xgmi", 535.5e9, 8),
        ("MI355X", 2516.6e12, 5033e12, 8e12, 288e9, 256, 1400, "xgmi", 535.5e9, 8),
        ("Gaudi3", 1677e12, 1677e12, 3.7e12, 128e9, 64, 900, "gaudi-roce-24x200", 525e9, 8),
        ("TPU-v5p", 459e12, 0, 2.765e12, 95e9, 2, 0, "ici", 300e9, 8960),
        ("L40S", 362e12, 733e12, 0.864e12, 48e9, 142, 350, "pcie4", 32e9, 1),
    ],
)
def test_accelerators(
    catalogue: Catalogue, name: str, bf16: float, fp8: float, hbm: float, label: float, sms: int, tdp: float,
    link: str, rate: float, domain: int,
) -> None:  # fmt: skip
    gpu, _ = catalogue.gpu(name)
    assert gpu.peak_flops["bf16"] == pytest.approx(bf16)
    assert gpu.peak_flops.get("fp8", 0) == pytest.approx(fp8)
    assert gpu.memory_bytes_per_s == pytest.approx(hbm)
    assert gpu.memory_label_bytes == pytest.approx(label)
    assert (gpu.sms, gpu.power_limit_w, gpu.scale_up, gpu.scale_up_domain) == (sms, tdp, link, domain)
    assert gpu.scale_up_bytes_per_s == pytest.approx(rate)


def test_volta_has_fp16_only(catalogue: Catalogue) -> None:
    volta, assumed = catalogue.gpu("V100")
    assert volta.id == "v100-32gb-sxm"
    assert assumed
    assert "bf16" not in volta.peak_flops
    assert volta.peak_flops["fp16"] == 125e12


def test_cards_with_a_bridge_share_pci_express(catalogue: Catalogue) -> None:
    gpu, _ = catalogue.gpu("a100-80gb-pcie")
    assert (gpu.scale_up, gpu.entry.number("bridge_rate"), gpu.entry.number("bridge_gpus")) == ("pcie4", 300e9, 2)


def test_conflicts_are_shown(catalogue: Catalogue) -> None:
    fp4 = catalogue.gpu("b300-sxm")[0].entry.values["peak_fp4"]
    assert (fp4.low, fp4.high) == (12.6e15, 15e15)
    assert [other.value for other in fp4.conflicts] == [12.6e15, 15e15]


def test_racks_have_a_domain_of_72(catalogue: Catalogue) -> None:
    rack, _ = catalogue.node("GB200-NVL72")
    tray, _ = catalogue.node("DGX GB200")
    assert (rack.gpus, rack.scale_up_domain, rack.nics) == (72, 72, 72)
    assert (tray.gpus, tray.scale_up_domain, tray.nics) == (4, 72, 4)
    assert tray.gpus * 18 == rack.gpus
    assert rack.price_usd == 3_500_000
    rates = cluster_from("gb300-nvl72", 8, catalogue=catalogue).network_rates()
    assert (rates.domain_gpus, rates.nic_bytes_per_s * rates.nics_per_node) == (72, 72 * 100e9)


@pytest.mark.parametrize(
    ("name", "gpu", "gpus", "gbit"),
    [
        ("DGX B300", "b300-sxm", 8, 6400),
        ("aws-p6-b300.48xlarge", "b300-sxm", 8, 6400),
        ("azure-ND128isr_GB200_v6", "gb200", 4, 1600),
        ("oci-BM.GPU.MI355X.8", "mi355x", 8, 3200),
        ("MI300X-8", "mi300x", 8, 3200),
        ("Gaudi3-8", "gaudi3", 8, 4800),
        ("vr200-nvl72", "vr200", 72, 115200),
    ],
)
def test_systems(catalogue: Catalogue, name: str, gpu: str, gpus: int, gbit: float) -> None:
    node, _ = catalogue.node(name)
    assert (node.gpu.id, node.gpus) == (gpu, gpus)
    assert node.nics * node.nic_bytes_per_s == pytest.approx(gbit * 1e9 / 8)


def test_every_node_joins_a_cluster(catalogue: Catalogue) -> None:
    for entry in catalogue.entries("nodes"):
        fabric = None if entry.text("fabric") != "none" else "ib-ndr-400"
        cluster = cluster_from(entry.id, 4, fabric, catalogue=catalogue)
        assert cluster.network_rates().nic_bytes_per_s > 0, entry.id


def test_processors(catalogue: Catalogue) -> None:
    node, _ = catalogue.node("dgx-h100")
    cpu, _, _ = catalogue.find("cpus", node.host_cpu)
    assert (cpu.id, cpu.number("cores") * 2) == ("xeon-8480c", node.host_cores)
    # 8 channels of DDR5-4800, 8 bytes wide
    assert cpu.number("memory_bandwidth") == pytest.approx(8 * 4.8e9 * 8)
    assert catalogue.find("cpus", "EPYC 9004")[2][0].value == "epyc-9654"


def test_memory_bandwidth_of_processors_follows_from_channels(catalogue: Catalogue) -> None:
    for cpu in catalogue.entries("cpus"):
        kind = cpu.text("memory_type")
        if kind.startswith("DDR"):
            transfers = float(kind.split("-")[1]) * 1e6
            assert cpu.number("memory_bandwidth") == pytest.approx(cpu.number("memory_channels") * transfers * 8), (
                cpu.id
            )


def test_rents(catalogue: Catalogue) -> None:
    rows = catalogue.entry("clouds", "aws").table
    p5 = [row for row in rows if row.text("node") == "aws-p5-48xlarge" and row.text("term") == "on-demand"]
    latest = max(p5, key=lambda row: row.quantity.provenance.date)
    assert latest.quantity.number * units.HOUR_S == pytest.approx(6.88)
    assert latest.quantity.provenance.date == "2026-09-17"
    assert {row.quantity.provenance.date[:4] for row in p5} == {"2023", "2026"}
    assert catalogue.entry("clouds", "gcp").number("notice") == 30


def test_every_provider_of_a_node_is_a_cloud_with_prices(catalogue: Catalogue) -> None:
    for entry in catalogue.entries("nodes"):
        provider = entry.text("provider")
        if provider:
            assert catalogue.entry("clouds", provider).table, entry.id


def test_failure_rates(catalogue: Catalogue) -> None:
    llama, _, _ = catalogue.find("reliability", "llama-3-405b")
    days = llama.row("unexpected interruptions").quantity.number / (2048 * 54)
    assert llama.number("node_failures") * units.DAY_S == pytest.approx(days, rel=1e-3)
    causes = sum(row.quantity.number for row in llama.table if row.rows[0][-3:] in {f"{i:03}" for i in range(10, 28)})
    assert causes == llama.row("unexpected interruptions").quantity.number == 419
    # 268 GPU causes over 16384 GPUs and 54 days
    gpu = 268 / (16384 * 54 * units.DAY_S)
    assert llama.number("gpu_failures") == pytest.approx(gpu, rel=5e-3)
    assert llama.number("software_failures") == pytest.approx(61 / (16384 * 54 * units.DAY_S), rel=0.02)
    rsc = catalogue.entry("reliability", "meta-rsc-1")
    # 6.5 failures per 1000 node-days: 8-GPU jobs every 154 days by nodes alone
    assert 1 / (rsc.number("node_failures") * units.DAY_S) == pytest.approx(1000 / 6.5)


def test_prices_and_facilities(catalogue: Catalogue) -> None:
    electricity = catalogue.entry("facilities", "electricity").row("US industrial average").quantity
    assert electricity.number * 3.6e6 == pytest.approx(0.0883)
    assert electricity.provenance.kind == "measured"
    pue = catalogue.entry("facilities", "pue").row("direct liquid cooling, about 80 % liquid").quantity
    assert (pue.low, pue.number, pue.high) == (1.05, 1.14, 1.25)
    france = catalogue.entry("facilities", "carbon").row("France").quantity
    assert france.number * 3.6e6 == pytest.approx(0.056)
    buy = catalogue.entry("prices", "gpu-purchase").row("B200")
    assert (buy.text("of"), buy.quantity.number) == ("b200-sxm", 40_000)
    residual = catalogue.entry("prices", "resale").row("H100, share of the price after 3 years").quantity
    assert (residual.low, residual.number, residual.high) == pytest.approx((0.25, 0.30, 0.35))


def test_storage(catalogue: Catalogue) -> None:
    drive, _, _ = catalogue.find("storage", "nvme-8tb")
    assert (drive.number("capacity"), drive.number("read_rate"), drive.number("write_rate")) == (7.68e12, 6.8e9, 4e9)
    ddn = catalogue.entry("storage", "ddn-ai400x2")
    assert (ddn.number("read_rate"), ddn.number("write_rate"), ddn.text("per")) == (90e9, 65e9, "appliance")


def test_superpods_have_full_bisection(catalogue: Catalogue) -> None:
    for row in catalogue.entry("networks", "superpod-topologies").table:
        switch = catalogue.entry("networks", row.text("switch"))
        leaf = row.labels.get("leaf")
        if leaf is None or row.text("switch") != "qm9700":
            continue
        assert float(leaf) * switch.number("ports") / 2 >= row.quantity.number  # half of a leaf's ports look down
        assert row.labels["cables_leaf_spine"] >= row.quantity.number


def test_fabric_names_of_published_results_lead_here(catalogue: Catalogue) -> None:
    path = data_root("calibration") / "published" / "names.csv"
    with path.open(encoding="utf-8", newline="") as handle:
        rows = [row for row in csv.DictReader(handle) if row["kind"] == "fabric" and row["id"] != "unknown"]
    assert len(rows) > 100
    for row in rows:
        entry, alias, assumed = catalogue.find("networks", row["alias"])
        assert entry.id == row["id"], row
        assert bool(assumed) == (row["assumed"] == "yes"), row
        if row["nics"]:
            assert alias is not None
            assert alias.nics == int(row["nics"]), row
