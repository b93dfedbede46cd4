#!/usr/bin/env python3
"""Writes a GGUF of random F16 weights in the shape that `elastiq bench --shape` has, for llama.cpp's own tools.

usage: peer_gguf.py {135m|0.6b|1.8b} OUT.gguf     needs numpy and gguf from PyPI; measurements only.
"""
import sys

import gguf
import numpy as np

# hidden, layers, heads, kv_heads, head_dim, ffn, vocab: the table of export/run_synthesize.cc.
SHAPES = {
    "135m": (576, 30, 9, 3, 64, 1536, 49152),
    "0.6b": (1024, 28, 16, 8, 128, 3072, 151936),
    "1.8b": (2048, 32, 16, 4, 128, 6144, 120818),
}


def main(shape, path):
    hidden, layers, heads, kv_heads, head_dim, ffn, vocab = SHAPES[shape]
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocab)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("none")

    def matrix(name, rows, cols):
        # One random row block repeated: the speed of a kernel does not depend on the values.
        block = (rng.standard_normal((256, cols)) / np.sqrt(cols)).astype(np.float16)
        writer.add_tensor(name, np.resize(block, (rows, cols)))

    def norm(name):
        writer.add_tensor(name, np.ones(hidden, dtype=np.float32))

    matrix("token_embd.weight", vocab, hidden)
    for i in range(layers):
        norm(f"blk.{i}.attn_norm.weight")
        matrix(f"blk.{i}.attn_q.weight", heads * head_dim, hidden)
        matrix(f"blk.{i}.attn_k.weight", kv_heads * head_dim, hidden)
        matrix(f"blk.{i}.attn_v.weight", kv_heads * head_dim, hidden)
        matrix(f"blk.{i}.attn_output.weight", hidden, heads * head_dim)
        norm(f"blk.{i}.ffn_norm.weight")
        matrix(f"blk.{i}.ffn_gate.weight", ffn, hidden)
        matrix(f"blk.{i}.ffn_up.weight", ffn, hidden)
        matrix(f"blk.{i}.ffn_down.weight", hidden, ffn)
    norm("output_norm.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        sys.exit(__doc__)
    main(*sys.argv[1:])
