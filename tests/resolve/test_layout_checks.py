"""What a stated layout cannot be, said with a way out."""

import pytest


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (["training.parallelism={tp: 2, pp: 3}"],
         "tp 2 x pp 3 x cp 1 = 6 does not divide the 16 GPUs (2 nodes x 8); make it one of"),
        (["training.parallelism.dp=3", "training.global_batch=48"],
         "= 12, but there are 16 GPUs (2 nodes x 8); dp 4 would fit"),
        (["training.global_batch=30"],
         "30 sequences over dp 4 are 7.5 a replica, not equal micro-batches of 2 (micro_batch 2 x dp 4 = 8)"),
        (["training.global_batch=2"], "2 sequences over dp 4 are 0.5 a replica; at most 2 replicas"),
        (["training.parallelism={tp: 16, pp: 1}"], "16 does not divide the 8 heads"),
        (["training.parallelism={tp: 16, pp: 1}", "model=gpt2-xl"], "16 does not divide the 25 heads (1.56 a rank)"),
        (["training.parallelism={tp: 1, pp: 16}", "training.global_batch=16"], "more than the 8 layers"),
        (["model=llama-7b", "training.parallelism={tp: 1, pp: 8, virtual_stages: 5}"],
         "pp 8 x virtual_stages 5 = 40 is more than the 32 layers with embedding and head; at most 34"),
        (["model=llama-7b", "training.parallelism={tp: 2, pp: 2, stages: [10, 20]}"], "30 layers, the model has 32"),
        (["training.sharding.group=3"], "3 does not divide the 4 data-parallel ranks; one of 1, 2, 4, or all"),
        (["training.global_batch=1e9"], "at most 250000; raise micro_batch, or lower global_batch"),
        (["training.global_batch=1e21"], "at most 250000"),
        (["training.global_batch=1e30 tokens"], "at most 250000"),
        (["training.parallelism={pp: 2, stages: [{layers: 4, head: true}, 4]}"], "stand behind the head"),
        (["training.parallelism.order=breadth-first"],
         "breadth-first orders the chunks of a stage, but virtual_stages is 1; raise virtual_stages, or leave"),
        (["training.parallelism={pp: 2, stages: [{layers: 4, embedding: false}, 4]}"], "no stage holds the embedding"),
        (["training.parallelism={pp: 2, stages: [4, {layers: 4, embedding: true}]}"],
         "layers stand before the embedding"),
        (["training.parallelism={pp: 2, schedule: dualpipe}", "training.global_batch=24"],
         "dualpipe takes an even number of micro-batches, at least 2 pp = 4; a replica has 3"),
        (["training.parallelism=auto"], "no layout is given"),
        (["model={heads: 12, hidden: 1536, kv_heads: 4}", "training.parallelism={tp: 3, pp: 1}",
          "cluster.node={base: dgx-a100-80gb, gpus: 6}", "training.global_batch=48"],
         "3 neither divides the 4 KV heads nor is a multiple of them (12 heads in all); use 1, 2, 4 or 12"),
        (["training.parallelism={tp: 2, cp: 4}", "training.sequence_length=1001"],
         "4 does not divide the sequence of 1001 tokens (250.25 a rank)"),
        (["training.sequence_length=1001"],
         "cp 1 x tp 2 = 2 does not divide the sequence of 1001 tokens, which sequence parallelism shares out"),
        (["training.parallelism={tp: 2, pp: 1, cp: 8}", "training.software.overrides.cp_communication=all-to-all"],
         "cp 8 x tp 2 = 16 does not divide the 8 heads, which all-to-all context parallelism shares out; use cp 1, 2"),
        (["training.parallelism={tp: 2, pp: 4, virtual_stages: 2}", "training.global_batch=24"],
         "2 with pp 4 runs micro-batches in groups of 4, and a replica has 6; use a global_batch that is a multiple of "
         "pp 4 x micro_batch 2 x dp 2 = 16, or virtual_stages 1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_with_a_way_out(refused, sets, words):
    found = refused(*sets)
    assert any(words in problem for problem in found), found
