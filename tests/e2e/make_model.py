"""Writes a small random checkpoint of any dimensions: make_model.py OUT --format bf16|mxfp8|nvfp4|packed [KEY=VALUE…].

KEY is one of DEFAULTS; `dense=0,1` lists layers with a dense FFN, `full=0` layers with full attention. Values are sane
in size (a product of rows of size 1 has size about 1), block scales of a matrix differ. Standard library only."""

import argparse
import json
import math
import os
import random
import struct

DEFAULTS = dict(
    layers=4, hidden=160, heads=15, kv_heads=3, vocab=331, dense_width=224, expert_width=96, shared_width=64,
    experts=10, top_k=3, shared=1, blocks=3, init=1, rotary=32, theta=10000.0, routed_scale=1.5, bias=1, dense="0", full="1",
)
HEAD = 128


def bf16(values):
    return b"".join(struct.pack("<H", (struct.unpack("<I", struct.pack("<f", v))[0] + 0x7FFF) >> 16 & 0xFFFF) for v in values)


def f32(values):
    return struct.pack(f"<{len(values)}f", *values)


class Model:
    def __init__(self, sizes, form, seed):
        self.random, self.form, self.tensors, self.sizes = random.Random(seed), form, {}, sizes

    def gauss(self, count, size):
        return [self.random.gauss(0, size) for _ in range(count)]

    def put(self, name, dtype, shape, data):
        self.tensors[name] = (dtype, shape, data)

    def plain(self, name, rows, cols, size=None):
        self.put(name + ".weight", "BF16", [rows, cols], bf16(self.gauss(rows * cols, size or 1 / math.sqrt(cols))))

    def vector(self, name, length):
        self.put(name + ".weight", "BF16", [length], bf16(self.gauss(length, 0.2)))

    def mxfp8(self, name, rows, cols):
        """Random E4M3 codes of exponents 2 to 9 (size about 1.5), scales around the wanted size."""
        codes = bytes(self.random.randrange(2) << 7 | self.random.randrange(2 << 3, 9 << 3) for _ in range(rows * cols))
        middle = 127 - round(math.log2(1.5 * math.sqrt(cols)))
        scales = bytes(middle + self.random.randrange(-2, 2) for _ in range(rows * cols // 32))
        self.put(name + ".weight", "F8_E4M3", [rows, cols], codes)
        self.put(name + ".weight_scale_inv", "U8", [rows, cols // 32], scales)

    def nvfp4(self, name, rows, cols):
        """Random E2M1 codes, E4M3 scales between 1 and 15, and the FP32 scale that makes the size right."""
        codes = bytes(self.random.randrange(256) for _ in range(rows * cols // 2))
        scales = bytes(self.random.randrange(0x38, 0x58) for _ in range(rows * cols // 16))
        size = 1 / (18 * math.sqrt(cols)) * self.random.uniform(0.7, 1.4)
        packed = self.form == "packed"
        self.put(name + (".weight_packed" if packed else ".weight"), "U8", [rows, cols // 2], codes)
        self.put(name + ".weight_scale", "F8_E4M3", [rows, cols // 16], scales)
        if packed:
            self.put(name + ".weight_global_scale", "F32", [1], f32([1 / size]))
        else:
            self.put(name + ".weight_scale_2", "F32", [], f32([size]))

    def projection(self, name, rows, cols):
        (self.plain if self.form == "bf16" else self.mxfp8)(name, rows, cols)

    def expert(self, name, rows, cols):
        {"bf16": self.plain, "mxfp8": self.mxfp8}.get(self.form, self.nvfp4)(name, rows, cols)

    def attention(self, layer, sparse):
        s, stem = self.sizes, f"{layer}.self_attn."
        parts = [("q", s["heads"]), ("k", s["kv_heads"]), ("v", s["kv_heads"])]
        parts += [("index_q", s["kv_heads"]), ("index_k", 1)] if sparse else []
        for name, heads in parts:
            self.projection(stem + name + "_proj", heads * HEAD, s["hidden"])
            if name != "v":
                self.vector(stem + name + "_norm", HEAD)
        self.projection(stem + "o_proj", s["hidden"], s["heads"] * HEAD)

    def dense(self, stem, width):
        for name in ("gate_proj", "up_proj"):
            self.projection(stem + name, width, self.sizes["hidden"])
        self.projection(stem + "down_proj", self.sizes["hidden"], width)

    def moe(self, stem):
        s = self.sizes
        self.put(stem + "gate.weight", "F32", [s["experts"], s["hidden"]],
                 f32(self.gauss(s["experts"] * s["hidden"], 1 / math.sqrt(s["hidden"]))))
        if s["bias"]:
            self.put(stem + "e_score_correction_bias", "F32", [s["experts"]], f32(self.gauss(s["experts"], 0.1)))
        for e in range(s["experts"]):
            for name, rows, cols in (("w1", s["expert_width"], s["hidden"]), ("w3", s["expert_width"], s["hidden"]),
                                     ("w2", s["hidden"], s["expert_width"])):
                self.expert(f"{stem}experts.{e}.{name}", rows, cols)
        if s["shared"]:
            self.dense(stem + "shared_experts.", s["shared_width"])

    def build(self, dense, full):
        s, stem = self.sizes, "language_model.model."
        self.plain(stem + "embed_tokens", s["vocab"], s["hidden"], 1.0)
        for i in range(s["layers"]):
            layer = f"{stem}layers.{i}"
            self.vector(layer + ".input_layernorm", s["hidden"])
            self.attention(layer, i not in full)
            self.vector(layer + ".post_attention_layernorm", s["hidden"])
            if i in dense:
                self.dense(layer + ".mlp.", s["dense_width"])
            else:
                self.moe(layer + ".block_sparse_moe.")
        self.vector(stem + "norm", s["hidden"])
        self.plain("language_model.lm_head", s["vocab"], s["hidden"])


def config(s, form, dense, full):
    flags = lambda off: [int(i not in off) for i in range(s["layers"])]
    text = dict(
        architectures=["MiniMaxM3SparseForCausalLM"], hidden_size=s["hidden"], num_hidden_layers=s["layers"],
        num_attention_heads=s["heads"], num_key_value_heads=s["kv_heads"], head_dim=HEAD, vocab_size=s["vocab"],
        max_position_embeddings=4096, rms_norm_eps=1e-6, use_gemma_norm=True, attention_output_gate=False,
        rope_theta=s["theta"], rotary_dim=s["rotary"], partial_rotary_factor=s["rotary"] / HEAD, use_qk_norm=True,
        qk_norm_type="per_head", tie_word_embeddings=False, hidden_act="swigluoai", swiglu_alpha=1.702, swiglu_limit=7.0,
        dense_intermediate_size=s["dense_width"], intermediate_size=s["expert_width"],
        shared_intermediate_size=s["shared_width"], num_local_experts=s["experts"], num_experts_per_tok=s["top_k"],
        n_shared_experts=s["shared"], scoring_func="sigmoid", use_routing_bias=bool(s["bias"]),
        routed_scaling_factor=s["routed_scale"], moe_layer_freq=flags(dense), bos_token_id=s["vocab"] - 8,
        eos_token_id=s["vocab"] - 9, pad_token_id=None,
        sparse_attention_config=dict(
            use_sparse_attention=True, sparse_index_dim=HEAD, sparse_num_index_heads=s["kv_heads"],
            sparse_topk_blocks=s["blocks"], sparse_block_size=128, sparse_score_type="max", sparse_init_block=s["init"],
            sparse_local_block=1, sparse_disable_index_value=flags(full), sparse_attention_freq=flags(full)),
    )
    out = dict(architectures=["MiniMaxM3SparseForConditionalGeneration"], model_type="minimax_m3_vl",
               tie_word_embeddings=False, text_config=text, torch_dtype="bfloat16")
    if form != "bf16":
        out["quantization_config"] = dict(quant_method="mxfp8", weight_block_size=[1, 32], activation_scheme="dynamic")
    if form == "packed":
        out["quantization_config"].update(moe_quant_algo="NVFP4", moe_quant_format="nvfp4-pack-quantized")
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--format", choices=["bf16", "mxfp8", "nvfp4", "packed"], default="bf16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("sizes", nargs="*")
    args = parser.parse_intermixed_args()
    sizes = dict(DEFAULTS)
    for item in args.sizes:
        key, _, value = item.partition("=")
        sizes[key] = type(DEFAULTS[key])(value)
    layers = lambda text: {int(x) for x in text.split(",") if x}
    dense, full = layers(sizes["dense"]), layers(sizes["full"])
    model = Model(sizes, args.format, args.seed)
    model.build(dense, full)
    os.makedirs(args.out, exist_ok=True)
    header, data = {}, bytearray()
    for name, (dtype, shape, content) in model.tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(os.path.join(args.out, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + bytes(data))
    with open(os.path.join(args.out, "config.json"), "w") as f:
        json.dump(config(sizes, args.format, dense, full), f, indent=1)


if __name__ == "__main__":
    main()
