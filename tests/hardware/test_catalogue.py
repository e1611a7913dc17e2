from __future__ import annotations

from pathlib import Path

import pytest

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue

SOURCES = 'sources: {s: {source: our own list, date: "2026-11", kind: measured}}\n'


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def write(root: Path, kind: str, id_: str, text: str) -> None:
    (root / kind).mkdir(exist_ok=True)
    (root / kind / f"{id_}.yaml").write_text(f"id: {id_}\n{text}", encoding="utf-8")


# Independent of the files: NVIDIA's data sheets as everybody quotes them.
@pytest.mark.parametrize(
    ("name", "bf16", "hbm", "label", "sms", "tdp", "link"),
    [
        ("a100-40gb-sxm", 312e12, 1.555e12, 40e9, 108, 400, 300e9),
        ("a100-80gb-sxm", 312e12, 2.039e12, 80e9, 108, 400, 300e9),
        ("h100-80gb-sxm", 989.4e12, 3.35e12, 80e9, 132, 700, 450e9),
        ("h200-141gb-sxm", 989.4e12, 4.8e12, 141e9, 132, 700, 450e9),
        ("b200-sxm", 2250e12, 8e12, 180e9, 148, 1000, 900e9),
    ],
)
def test_gpus(
    catalogue: Catalogue, name: str, bf16: float, hbm: float, label: float, sms: int, tdp: float, link: float
) -> None:
    gpu, assumed = catalogue.gpu(name)
    assert not assumed
    rates = gpu.rates()
    assert rates.id == name
    assert rates.peak_flops["bf16"] == pytest.approx(bf16)
    assert rates.hbm_bytes_per_s == pytest.approx(hbm)
    assert rates.sms == sms
    assert rates.power_limit_w == tdp
    assert gpu.memory_label_bytes == pytest.approx(label)
    assert 0.9 * label < rates.hbm_bytes < 1.08 * label  # visible GiB against label GB
    assert gpu.scale_up_bytes_per_s == pytest.approx(link)


def test_tensor_peaks_follow_from_clock_and_cores(catalogue: Catalogue) -> None:
    # 4 tensor cores per SM; 512 (Hopper) and 256 (Ampere) FMA per core and cycle, 2 FLOP each
    assert catalogue.gpu("h100-80gb-sxm")[0].peak_flops["bf16"] == pytest.approx(132 * 4 * 512 * 2 * 1.83e9, rel=1e-3)
    assert catalogue.gpu("a100-80gb-sxm")[0].peak_flops["bf16"] == pytest.approx(108 * 4 * 256 * 2 * 1.41e9, rel=1e-3)


def test_fp8_only_from_hopper_on(catalogue: Catalogue) -> None:
    assert "fp8" not in catalogue.gpu("a100-80gb-sxm")[0].peak_flops
    hopper = catalogue.gpu("h100-80gb-sxm")[0].peak_flops
    assert hopper["fp8"] == pytest.approx(2 * hopper["bf16"], rel=1e-3)


@pytest.mark.parametrize(
    ("name", "nics", "gbit", "fabric"),
    [
        ("DGX-A100-80", 8, 200, "ib-hdr-200"),
        ("dgx-h100", 8, 400, "ib-ndr-400"),
        ("p4d.24xlarge", 4, 100, "efa-v1"),
        ("AWS-P5", 32, 100, "efa-v2"),
        ("aws-p5en.48xlarge", 16, 200, "efa-v3"),
        ("aws-p6-b200", 8, 400, "efa-v4"),
        ("GCP:a3-megagpu-8g", 8, 200, "tcpxo"),
        ("BM.GPU.H200.8", 8, 400, "roce-400"),
    ],
)
def test_nodes(catalogue: Catalogue, name: str, nics: int, gbit: float, fabric: str) -> None:
    node, _ = catalogue.node(name)
    assert (node.nics, node.nic_bytes_per_s, node.fabric) == (nics, gbit * 1e9 / 8, fabric)
    assert node.gpus == node.scale_up_domain == 8
    assert node.gpu.id in catalogue.files("gpus")


def test_aliases_are_case_blind_and_assumed_ones_are_listed(catalogue: Catalogue) -> None:
    assert catalogue.gpu("h100-sxm5")[0].id == "h100-80gb-sxm"
    assert catalogue.gpu("H100-SXM5")[1] == ()
    _, assumed = catalogue.gpu("a100", path="cluster.gpu")
    assert [(a.path, a.value) for a in assumed] == [("cluster.gpu", "a100-80gb-sxm")]
    assert "'a100'" in assumed[0].why


def test_alias_states_cards(catalogue: Catalogue) -> None:
    assert catalogue.fabric("4x EFA")[0].nics_per_node == 4
    assert catalogue.fabric("efa-v1")[0].nics_per_node == 0


@pytest.mark.parametrize(
    "name", ["h100-90gb-sxm", "h100-80gb-sx", "H10", "", "../gpus/h100-80gb-sxm", "h100-80gb-sxm.yaml"]
)
def test_unknown_names_are_errors_never_neighbours(catalogue: Catalogue, name: str) -> None:
    with pytest.raises(InputError) as caught:
        catalogue.gpu(name)
    assert "no GPU" in str(caught.value)


def test_did_you_mean(catalogue: Catalogue) -> None:
    with pytest.raises(InputError, match=r"did you mean .*dgx-h100"):
        catalogue.node("dgx-h10")
    with pytest.raises(InputError, match="is a switch"):
        catalogue.fabric("qm9700")


def test_every_shipped_name_leads_to_its_entry(catalogue: Catalogue) -> None:
    for kind in ("gpus", "nodes", "networks"):
        for entry in catalogue.entries(kind):
            for name in (entry.id, *(alias.name for alias in entry.aliases)):
                assert catalogue.find(kind, name.swapcase())[0] is entry


def test_user_entry_overrides_value_by_value(tmp_path: Path) -> None:
    values = SOURCES + "values: {price: {value: 123, unit: USD, from: s}}\n"
    write(tmp_path, "nodes", "dgx-h100", "type: node\naliases: [our box]\n" + values)
    write(tmp_path, "nodes", "twin", "type: node\nextends: dgx-h100\n" + values)
    catalogue = Catalogue.load(tmp_path)
    shipped = Catalogue.load().node("dgx-h100")[0]
    node, _ = catalogue.node("our box")
    assert (node.id, node.price_usd, node.nics) == ("dgx-h100", 123, shipped.nics)
    assert catalogue.node("DGX H100/H200")[0].id == "dgx-h100"
    entry = catalogue.entry("nodes", "dgx-h100")
    assert entry.values["price"].provenance.kind == "measured"
    assert entry.values["gpus"].provenance == shipped.entry.values["gpus"].provenance  # type: ignore[union-attr]
    twin, _ = catalogue.node("twin")
    assert (twin.price_usd, twin.gpu.id) == (123, "h100-80gb-sxm")
    assert catalogue.check() == []


def test_broken_user_entries_are_explained(tmp_path: Path) -> None:
    write(tmp_path, "nodes", "thin", "type: node\n" + SOURCES + "values: {gpus: {value: 4, unit: count, from: s}}\n")
    write(tmp_path, "nodes", "ring-a", "type: node\nextends: ring-b\n")
    write(tmp_path, "nodes", "ring-b", "type: node\nextends: ring-a\n")
    write(tmp_path, "nodes", "lost", "type: node\nextends: dgx-h1000\n")
    (tmp_path / "nodes" / "other.yaml").write_text("id: another\ntype: node\n")
    catalogue = Catalogue.load(tmp_path)
    for name, words in [
        ("thin", "thin lacks gpu; add it: accelerator"),
        ("ring-a", "in a ring"),
        ("lost", "did you mean 'dgx-h100'?"),
        ("other", "does not fit the file's name"),
    ]:
        with pytest.raises(InputError) as caught:
            catalogue.node(name)
        assert words in str(caught.value)
    assert len(catalogue.check()) >= 4


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        Catalogue.load(tmp_path / "nowhere")


def test_dated_aliases_need_the_date(tmp_path: Path) -> None:
    port = SOURCES + "values: {protocol: {value: tcp, from: s}}\n"
    write(tmp_path, "networks", "old", 'type: fabric\naliases: [{alias: Wire, when: "<2022-05"}]\n' + port)
    write(tmp_path, "networks", "new", 'type: fabric\naliases: [{alias: Wire, when: ">=2022-05"}]\n' + port)
    catalogue = Catalogue.load(tmp_path)
    assert catalogue.fabric("wire", "2021-12-01")[0].id == "old"
    assert catalogue.fabric("wire", "2022-05-01")[0].id == "new"
    with pytest.raises(InputError, match="different dates"):
        catalogue.fabric("wire")
    assert catalogue.check() == []
