import json
from csv import DictReader as csv_lines

import pytest

from simcluster.cli import run

HEADER = (
    "id,source,split,trust,gpu,n_gpus,gpus_per_node,model_name,layers,hidden,heads,ffn_hidden,vocab,gated_ffn,seq_len,"
    "micro_batch,global_batch,tp,pp,dp,fsdp_or_zero_stage,precision,step_time_s,task"
)
GOOD = "{id},mine,,{trust},A100-80GB-SXM,8,8,toy,4,1024,8,4096,32000,0,2048,1,{batch},1,1,8,1,bf16,{seconds},pretrain"


@pytest.fixture
def csv(tmp_path):
    file = tmp_path / "runs.csv"
    lines = [
        HEADER,
        GOOD.format(id="one", trust="A", batch=64, seconds=0.4),
        GOOD.format(id="two", trust="B", batch=128, seconds=0.8),
        GOOD.format(id="three", trust="A", batch=64, seconds=""),
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def answer(capsys, *arguments):
    code = run(["validate", *map(str, arguments)])
    return code, capsys.readouterr()


def test_json_of_a_users_table(csv, capsys):
    code, out = answer(capsys, csv, "--format", "json", "--workers", 1)
    record = json.loads(out.out)
    assert code == 0
    assert [row["skipped_because"] for row in record["rows"]] == [None, None, "no_throughput"]
    first = record["rows"][0]
    assert first["error"] == pytest.approx(first["predicted"] / first["published"] - 1)
    assert set(first) >= {"id", "source", "split", "trust", "gpu", "n_gpus", "published", "predicted", "unit"}
    assert set(first) >= {"low", "high", "error", "grade", "assumed", "skipped_because"}
    summary = record["summary"]
    assert (summary["count"], summary["skipped"]) == (2, {"no_throughput": 1})
    assert summary["naive_floor"]["count"] == 2
    assert summary["by_kind"]["dense"]["naive_floor"]["median_absolute_error"] > 0
    assert {"order_accuracy", "coverage", "by_source", "by_split", "by_trust", "by_precision"} <= set(summary)


def test_trust_and_split_filter(csv, capsys):
    _, out = answer(capsys, csv, "--format", "json", "--workers", 1, "--trust", "b")
    assert [row["id"] for row in json.loads(out.out)["rows"]] == ["two"]
    code, out = answer(capsys, csv, "--workers", 1, "--split", "fit")
    assert (code, out.out) == (2, "")
    assert "--split fit: no row is like that; the table has split/trust none/A, none/B" in out.err


def test_csv_has_a_line_for_each_row(csv, capsys):
    _, out = answer(capsys, csv, "--workers", 1, "--format", "csv")
    lines = list(csv_lines(out.out.splitlines()))
    assert [line["id"] for line in lines] == ["one", "two", "three"]
    assert float(lines[0]["error"]) == pytest.approx(float(lines[0]["predicted"]) / float(lines[0]["published"]) - 1)
    assert lines[2]["skipped_because"]
    assert not lines[2]["error"]


def test_table_and_markdown(csv, capsys, tmp_path):
    code, out = answer(capsys, csv, "--workers", 1)
    assert code == 0
    assert out.out.startswith("2 rows predicted, 1 skipped")
    assert "naive floor" in out.out
    assert "cluster.node.base" in out.out
    assert out.err.strip().endswith(
        "runs.csv:4:1: skipped: no_throughput; state step_time_s, tokens_per_s_per_gpu, samples_per_s or tflops_per_gpu"
    )
    file = tmp_path / "report.md"
    answer(capsys, csv, "--workers", 1, "--format", "markdown", "-o", file)
    assert "| all rows | 2 |" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("content", [None, "a,b\n1,2\n", ""])
def test_a_bad_file_exits_with_3(content, tmp_path, capsys):
    file = tmp_path / "bad.csv"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    code, out = answer(capsys, file)
    assert code == 3
    assert "bad.csv" in out.err


def test_what_is_not_built_is_wrong_usage(capsys):
    code, out = answer(capsys, "--kind", "diagnose")
    assert code == 2
    assert "built: training" in out.err


def test_an_interrupt_keeps_what_is_done(csv, capsys, monkeypatch):
    from simcluster.validate import training

    whole = training.judge_row
    seen = []

    def judge(row, catalogue):
        if seen:
            raise KeyboardInterrupt
        seen.append(row)
        return whole(row, catalogue)

    monkeypatch.setattr(training, "judge_row", judge)
    code, out = answer(capsys, csv, "--workers", 1)
    assert code == 130
    assert out.out.startswith("1 row predicted")
    assert "1 of 3 rows" in out.err
