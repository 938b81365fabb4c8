"""More broken checkpoints, beyond those of make_bad.py: same folder layout, same expect.json.

usage: more_bad.py GOOD_MODEL_DIR OUT_DIR

An expectation may also have `outside`: a path that must not be opened."""

import json
import os
import shutil
import struct
import sys

import make_bad as base
from make_bad import Case, exp, get, put, read_st, write_raw, write_st

CASES = {}
NOT_PLAIN = [("not a plain", "outside")]


def case(function):
    CASES[function.__name__] = function
    return function


def outside(case_, name):
    """A sound shard that stands outside the model folder."""
    path = os.path.join(os.path.dirname(case_.d), "outside-" + name)
    shard = case_.shards()[0]
    with open(case_.p(shard), "rb") as source:
        write_raw(path, source.read())
    return path, shard


# ---- files -----------------------------------------------------------------------------------------


@case
def link_to_a_shard_outside(c):
    path, shard = outside(c, "link.safetensors")
    os.remove(c.p(shard))
    os.symlink(os.path.abspath(path), c.p(shard))
    return exp(shard, None, [("outside",)]) | {"outside": path}


@case
def index_names_a_shard_outside(c):
    path, shard = outside(c, "name.safetensors")
    index = c.index()
    for tensor, file in index["weight_map"].items():
        if file == shard:
            index["weight_map"][tensor] = "../" + os.path.basename(path)
    c.save("model.safetensors.index.json", index)
    return exp("model.safetensors.index.json", None, NOT_PLAIN) | {"outside": path}


@case
def config_is_a_link_outside(c):
    path = os.path.join(os.path.dirname(c.d), "outside-config.json")
    with open(c.p("config.json"), "rb") as source:
        write_raw(path, source.read())
    os.remove(c.p("config.json"))
    os.symlink(os.path.abspath(path), c.p("config.json"))
    return exp("config.json", None, [("outside",)]) | {"outside": path}


@case
def shard_is_a_pipe(c):
    shard = c.shards()[0]
    os.remove(c.p(shard))
    os.mkfifo(c.p(shard))
    return exp(shard, None, [("pipe", "not a regular")])


@case
def shard_is_a_folder(c):
    shard = c.shards()[0]
    os.remove(c.p(shard))
    os.mkdir(c.p(shard))
    return exp(shard, None, [("folder", "not a regular")])


@case
def shard_has_a_tail(c):
    shard = c.shards()[0]
    with open(c.p(shard), "rb") as source:
        write_raw(c.p(shard), source.read() + b"\0" * 8)
    return exp(shard, None, [("8 bytes",)])


@case
def config_is_empty(c):
    write_raw(c.p("config.json"), b"")
    return exp("config.json", None, [("json",)])


@case
def config_is_nested_deeply(c):
    write_raw(c.p("config.json"), b"[" * 5_000_000)
    return exp("config.json", None, [("deep",)])


@case
def config_has_text_after_a_zero_byte(c):
    with open(c.p("config.json"), "rb") as source:
        write_raw(c.p("config.json"), source.read() + b"\0 anything")
    return exp("config.json", None, [("zero byte", "json")])


@case
def index_is_missing(c):
    os.remove(c.p("model.safetensors.index.json"))
    return exp("model.safetensors.index.json", None, [("index",)])


@case
def index_value_is_a_number(c):
    tensor, _ = c.find(".norm.weight")
    index = c.index()
    index["weight_map"][tensor] = 7
    c.save("model.safetensors.index.json", index)
    return exp("model.safetensors.index.json", tensor, [("string",)])


# ---- configuration ---------------------------------------------------------------------------------


def config_case(name, change, mention):
    def make(c):
        config = c.json("config.json")
        change(config["text_config"])
        c.save("config.json", config)
        return exp("config.json", None, mention)

    CASES[name] = make


config_case("huge_experts", lambda t: t.update(num_local_experts=2**40), [("num_local_experts",)])
config_case("huge_hidden", lambda t: t.update(hidden_size=2**62), [("hidden_size",)])
config_case("hidden_is_float", lambda t: t.update(hidden_size=128.5), [("hidden_size",), ("128.5",)])
config_case("layer_list_too_short", lambda t: t["moe_layer_freq"].pop(), [("moe_layer_freq",)])
config_case("more_chosen_than_experts", lambda t: t.update(num_experts_per_tok=10**6),
            [("num_experts_per_tok",)])
config_case("negative_init_block",
            lambda t: t["sparse_attention_config"].update(sparse_init_block=-1),
            [("sparse_init_block",)])
config_case("rope_scaling", lambda t: t.update(rope_scaling={"rope_type": "yarn", "factor": 4}),
            [("rope",), ("yarn",)])
config_case("end_token_beyond_vocabulary", lambda t: t.update(eos_token_id=10**9),
            [("eos_token_id",)])
config_case("rms_eps_is_text", lambda t: t.update(rms_norm_eps="1e-6"), [("rms_norm_eps",)])

# ---- values ----------------------------------------------------------------------------------------


def value_case(name, ends, raw, at, mention):
    def make(c):
        tensor, file = c.find(*ends)
        dtype = get(get(read_st(c.p(file))[0], tensor), "dtype")
        if dtype == "U8" and "zero_block_scale" in name:
            raise base.Skip("block scales are exponents, which have no zero")
        c.poke(tensor, raw, at)
        return exp(file, tensor, mention) | {"value": True}

    CASES[name] = make


FINITE = [("finite", "nan", "inf")]
POSITIVE = [("positive", "zero")]
value_case("zero_global_scale", ("w3.weight_scale_2", "w3.weight_global_scale"),
           struct.pack("<f", 0), 0, POSITIVE)
value_case("negative_global_scale", ("w1.weight_scale_2", "w1.weight_global_scale"),
           struct.pack("<f", -1), 0, POSITIVE)
value_case("zero_block_scale", ("w2.weight_scale",), b"\0", 1, POSITIVE)
value_case("nan_input_scale", ("w1.input_scale", "w1.input_global_scale"),
           struct.pack("<f", float("nan")), 0, FINITE)
value_case("nan_norm", ("layers.1.input_layernorm.weight",), b"\xc0\x7f", 6, FINITE)
value_case("infinite_router", ("block_sparse_moe.gate.weight",), struct.pack("<f", float("inf")), 8,
           FINITE)
value_case("nan_router_bias", ("e_score_correction_bias",), struct.pack("<f", float("nan")), 4, FINITE)
value_case("nan_embedding", ("embed_tokens.weight",), b"\xff\xff", 1024, FINITE)

# ---- headers ---------------------------------------------------------------------------------------


@case
def hole_between_tensors(c):
    shard = c.shards()[0]
    pairs, data = read_st(c.p(shard))
    last = max((v for k, v in pairs if k != "__metadata__"), key=lambda v: get(v, "data_offsets")[1])
    name = next(k for k, v in pairs if v is last)
    begin, end = get(last, "data_offsets")
    put(last, "data_offsets", [begin + 16, end + 16])
    write_st(c.p(shard), pairs, data[:begin] + b"\0" * 16 + data[begin:])
    return exp(shard, name, [("hole", "gap")])


@case
def header_longer_than_the_format_allows(c):
    shard = c.shards()[0]
    write_raw(c.p(shard), struct.pack("<Q", 200_000_000))
    os.truncate(c.p(shard), 200_000_008)
    return exp(shard, None, [("header",), ("100000000",)])


def main():
    out = sys.argv[2]
    good = os.path.join(out, ".good")
    shutil.copytree(sys.argv[1], good)  # cases are hard links to it
    expectations = {}
    for name, make in CASES.items():
        try:
            expectations[name] = make(Case(good, out, name))
        except base.Skip as reason:
            print(f"left out {name}: {reason}")
    with open(os.path.join(out, "expect.json"), "w", encoding="utf-8") as file:
        json.dump(expectations, file, indent=1)
    print(f"{len(expectations)} cases written to {out}")


if __name__ == "__main__":
    main()
