import pytest

from simcluster.formats.published import parse_published
from simcluster.validate.floor import fit_floor, pipeline_bubble, shipped_floor, step_flops_per_gpu

HEADER = (
    "gpu,n_gpus,gpus_per_node,layers,hidden,heads,ffn_hidden,vocab,gated_ffn,seq_len,micro_batch,global_batch,"
    "tp,pp,vpp,cp,dp,precision,step_time_s,task"
)


def row(gpu="H100", pp=1, precision="bf16", seconds=1.0, n_gpus=8, batch=64, vpp=1):
    dp = n_gpus // pp
    return f"{gpu},{n_gpus},8,4,1024,8,4096,32000,0,2048,1,{batch},1,{pp},{vpp},1,{dp},{precision},{seconds},pretrain"


def rows(*lines):
    return parse_published("\n".join((HEADER, *lines)))


def names(text, date):
    return (text.lower(), {"h100": "h100-sxm", "h100 big": "h100-sxm"}.get(text.lower(), ""))


def by_hand():
    weights = 4 * (4 * 1024 * 1024 + 2 * 1024 * 4096)
    attention = 4 * 2 * 2048 * 1024  # causal half of 4 s h
    return 3 * (2 * weights + attention) + 6 * 1024 * 32000


def test_flops_by_hand():
    (only,) = rows(row())
    assert step_flops_per_gpu(only.facts) == pytest.approx(by_hand() * 64 * 2048 / 8)


def test_the_median_of_fit_rows_predicts():
    floor = fit_floor(rows(row(seconds=1.0), row(seconds=2.0), row(seconds=4.0)), names)
    (same, double) = rows(row(), row(batch=128))
    assert floor.step_time_s(same.facts) == pytest.approx(2.0)
    assert floor.step_time_s(double.facts) == pytest.approx(4.0)


def test_bubble():
    floor = fit_floor(rows(row(seconds=1.0)), names)
    piped, interleaved = (one.facts for one in rows(row(pp=4, batch=64), row(pp=4, vpp=2, batch=64)))
    assert pipeline_bubble(piped) == pytest.approx(3 / 32)
    assert floor.step_time_s(piped) == pytest.approx(1 + 3 / 32)
    assert floor.step_time_s(interleaved) == pytest.approx(1 + 3 / 64)
    # a fit row with a bubble does not count it twice
    assert fit_floor(rows(row(pp=4, seconds=1.0)), names).step_time_s(piped) == pytest.approx(1.0)


def test_groups_are_kept_apart():
    floor = fit_floor(rows(row(seconds=1.0)), names)
    fp8, fp16, other, spelled = (
        one.facts for one in rows(row(precision="fp8"), row(precision="fp16"), row("B200"), row("H100 big"))
    )
    assert floor.step_time_s(fp8) is None
    assert floor.step_time_s(fp16) == pytest.approx(1.0)
    assert floor.step_time_s(other) is None
    assert floor.step_time_s(spelled) == pytest.approx(1.0)


def test_rows_that_cannot_be_compared_do_not_count():
    lora = row().replace("pretrain", "lora")
    assert not fit_floor(rows(lora, row(seconds="")), names).flops_per_s


def test_shipped_floor_rests_on_fit_rows():
    floor = shipped_floor(lambda text, _date: (text,))
    assert ("H100-80GB-SXM", "16-bit", False) in floor.flops_per_s
    assert all(1e12 < value < 1e16 for value in floor.flops_per_s.values())
