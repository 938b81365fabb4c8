"""m3c compile and the commands that read plans: results, repeatability, the cache, bad circumstances.

usage: compile_test.py M3C DATA_DIR"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

M3C, DATA = sys.argv[1:3]
NANO = os.path.join(DATA, "m31-nano")


# Tests that are not about the cache share one, so that kernels are built once.
SHARED = tempfile.TemporaryDirectory(prefix="m3c-cache-")


class Folder(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="m3c-compile-"))
        self.cache = pathlib.Path(SHARED.name)

    def use_own_cache(self):
        self.cache = self.root / "cache"

    def tearDown(self):
        subprocess.run(["chmod", "-R", "u+w", self.root], check=True)
        shutil.rmtree(self.root)

    def command(self, *args):
        return [M3C, *map(str, args)]

    def m3c(self, *args, code=0):
        env = dict(os.environ, XDG_CACHE_HOME=str(self.cache))
        done = subprocess.run(self.command(*args), capture_output=True, text=True, env=env, cwd=self.root)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def compile(self, output, *args, checkpoint=NANO):
        done = self.m3c("compile", checkpoint, "-o", self.root / output, "--json", "--progress=none", *args)
        return json.loads(done.stdout)

    def first_chip(self):
        return json.loads(self.m3c("targets", "--json").stdout)[0]["chips"][0]["name"]

    def names(self):
        return sorted(path.name for path in self.root.iterdir() if path.name != "cache")


class Compile(Folder):
    def test_a_sparse_layer_with_experts_takes_at_most_ten_launches_on_a_gpu(self):
        def launches(layers, rows):
            part = ["--shard", "tp4", "--layers", layers, "--buckets", rows, "--dry-run", "--json"]
            done = self.m3c("compile", os.path.join(DATA, "m31-full"), "--target", "sm90", "--kv", "nvfp4", *part)
            return json.loads(done.stdout)["forecast"]["launches"]

        for rows in (1, 8):  # the first three layers have no experts
            self.assertLessEqual(launches(5, rows) - launches(4, rows), 10)

    def test_weights_are_asked_for_before_the_wait_for_the_launch_before(self):
        # In machine code: the assembler may move loads that the text has in front of the wait.
        self.compile("p.m3plan", "--target", "sm90", "--kv", "nvfp4", "--buckets", "1")
        self.m3c("extract", "p.m3plan", "-o", "all", "--disassembly")
        products = [path for path in (self.root / "all/code").glob("*_early*_one_tile1*.s")
                    if re.match("qkv_insert|project_(mxfp8|bf16)", path.name)]
        self.assertGreaterEqual(len(products), 4)
        for path in products:
            first = re.search(r"LDG\.E\.NA\.128|ACQBULK", path.read_text())
            self.assertIn("LDG", first.group(), path.name)

    def test_any_width_fits_a_gpu(self):
        # Panels of 16 outputs that no power of two divides; heads that are rotated in part, or in pieces.
        with open(os.path.join(DATA, "m31-mid", "config.json")) as file:
            config = json.load(file)
        text = config["text_config"]
        rotated = [{"rotary_dim": dims, "partial_rotary_factor": dims / 128} for dims in (2, 32, 48)]
        for change in ({"hidden_size": 224}, {"hidden_size": 480}, {"vocab_size": 33040}, *rotated):
            with self.subTest(**change):
                folder = self.root / "odd"
                folder.mkdir(exist_ok=True)
                (folder / "config.json").write_text(json.dumps({**config, "text_config": {**text, **change}}))
                self.m3c("compile", folder, "--target", "sm90", "--kv", "nvfp4", "--dry-run")

    def test_an_error_of_a_pass_names_the_weight_or_layer(self):
        with open(os.path.join(DATA, "m3-tiny", "config.json")) as file:
            config = json.load(file)
        for width, where, why in ((34, "layers.2", "the hidden size 34 is no multiple of 16"),
                                  (33, "layers.0.q_proj", "has 33 inputs, a multiple of 2 is needed")):
            folder = self.root / str(width)
            folder.mkdir()
            text = {**config["text_config"], "hidden_size": width}
            (folder / "config.json").write_text(json.dumps({**config, "text_config": text}))
            done = self.m3c("compile", folder, "--target", "x86", "--dry-run", code=1)
            self.assertIn(f"  where: {where}\n  why:   {why}", done.stderr)
            self.assertNotIn("see current operation", done.stderr)
        text = {**config["text_config"], "num_attention_heads": 256}  # the sums of 128 heads fill the on-chip memory
        (folder / "config.json").write_text(json.dumps({**config, "text_config": text}))
        done = self.m3c("compile", folder, "--target", "x86", "--kv", "f32", "--dry-run", code=1)
        self.assertIn("  where: attention_f32_", done.stderr)

    def test_pages_of_any_cache_fit_the_rings_of_any_target(self):
        # Index keys of FP8 are twice as long: fewer stages, and no more warps that take them in turn.
        for target in ("sm90", "sm100", "sm107"):
            self.m3c("compile", os.path.join(DATA, "m31-mid"), "--target", target, "--kv", "fp8", "--dry-run")

    def test_warps_that_cannot_share_a_page_are_refused(self):
        for choice, rule in (("attention.consumers=6", "a multiple of 4"), ("index_score.loaders=2", "a multiple of the loaders")):
            done = self.m3c("compile", NANO, "--target", "sm90", "--buckets", "8", "--dry-run", "--schedule", choice, code=2)
            self.assertIn(rule, done.stderr)
        self.m3c("compile", NANO, "--target", "sm90", "--buckets", "8", "--dry-run", "--schedule", "project.k_split=64")

    def test_extract_writes_the_text_of_each_target(self):
        # rope_table is a kernel of both, with one name and two texts.
        self.compile("p.m3plan", "--target", "x86,sm90", "--kv", "nvfp4", "--buckets", "1", "--layers", "1", "--keep-sources",
                     checkpoint=os.path.join(DATA, "m31-full"))
        kernels = json.loads(self.m3c("inspect", "p.m3plan", "--json").stdout)["kernels"]
        gpu = [kernel["name"] for kernel in kernels if "sm_90a" in [o["chip"] for o in kernel["objects"]]]
        self.m3c("extract", "p.m3plan", "-o", "gpu", "--target", "sm90")
        self.assertEqual({path.name for path in (self.root / "gpu/source").iterdir()}, {name + ".cu" for name in gpu})
        self.m3c("extract", "p.m3plan", "-o", "all")
        shared = [path for path in (self.root / "all/source").glob("rope_table_*")]
        self.assertEqual(sorted(path.suffix for path in shared), [".cpp", ".cu"])

    def test_parts_of_a_model_are_for_measuring(self):
        part = ["--shard", "tp2", "--layers", 1, "--chip", self.first_chip()]
        done = self.m3c("compile", NANO, "-o", self.root / "part.m3plan", *part, code=1)
        self.assertIn("config.json alone", done.stderr)
        self.assertEqual(self.names(), [])
        done = self.m3c("compile", os.path.join(DATA, "m31-full"), "--shard", "4", "--dry-run", code=2)
        self.assertIn("as in tp4", done.stderr)
        shutil.copytree(os.path.join(DATA, "m31-full"), self.root / "full")
        self.compile("part.m3plan", *part, "--buckets", "1,4", checkpoint=self.root / "full")
        shown = json.loads(self.m3c("inspect", self.root / "part.m3plan", "--json").stdout)
        self.assertEqual([bucket["rows"] for bucket in shown["buckets"]], [1, 4])
        self.assertEqual((shown["model"]["layers"], shown["model"]["heads"]), (1, 32))

    def test_second_compilation_comes_from_the_cache_with_the_same_bytes(self):
        self.use_own_cache()
        one = ["--chip", self.first_chip()]
        first = self.compile("a.m3plan", *one)
        self.assertFalse(first["from_cache"])
        self.assertGreater(first["code_objects_built"], 0)
        second = self.compile("b.m3plan", *one)
        self.assertTrue(second["from_cache"])
        fresh = self.compile("c.m3plan", "--no-cache", *one)
        self.assertFalse(fresh["from_cache"])
        a, b, c = ((self.root / f"{name}.m3plan").read_bytes() for name in "abc")
        self.assertEqual(a, b)
        self.assertEqual(a, c)
        # The plan says why it has its cache: by rule, or as asked for.
        self.assertFalse(self.compile("e.m3plan", "--kv", "nvfp4", *one)["from_cache"])
        self.assertIn("--kv", self.m3c("explain", "e.m3plan").stdout)
        # The folder's place is in no key and in no plan.
        shutil.copytree(NANO, self.root / "moved")
        moved = self.compile("d.m3plan", *one, checkpoint=self.root / "moved")
        self.assertTrue(moved["from_cache"])
        self.assertNotIn(str(self.root).encode(), a)

        # A damaged plan entry and a damaged kernel entry are rebuilt.
        for entry in (self.cache / "m3c").rglob("*.entry"):
            data = bytearray(entry.read_bytes())
            data[len(data) // 2] ^= 1
            entry.write_bytes(data)
        again = self.compile("e.m3plan", *one)
        self.assertFalse(again["from_cache"])
        self.assertEqual(again["code_objects_from_cache"], 0)
        self.assertEqual((self.root / "e.m3plan").read_bytes(), a)

    def test_options_change_the_plan_and_are_explained(self):
        default = self.compile("default.m3plan")
        self.assertIn("nvfp4", default["cache_rule"])
        self.compile("f32.m3plan", "--kv", "f32")
        diff = self.m3c("diff", "default.m3plan", "f32.m3plan", "--json", code=1)
        paths = [entry["path"] for entry in json.loads(diff.stdout)["differences"]]
        self.assertIn("manifest.semantics.kv", paths)
        same = self.m3c("diff", "f32.m3plan", "f32.m3plan", "--json")
        self.assertTrue(json.loads(same.stdout)["equal"])
        explained = json.loads(self.m3c("explain", "f32.m3plan", "--json").stdout)
        cache = next(entry for entry in explained["decisions"] if entry["what"] == "cache")
        self.assertEqual(cache["why"], "as asked for by --kv")
        self.assertTrue(all(kernel["uses"] for kernel in explained["kernels"]))
        cost = json.loads(self.m3c("explain", "f32.m3plan", "--cost", "--json", "--shape", "1x1@1000").stdout)
        kinds = {row["kind"]: row for row in cost["kinds"]}
        self.assertGreater(kinds["lm_head"]["weight_and_cache_bytes"], 4096 * 256)  # vocabulary by width, BF16
        self.assertEqual(kinds["lm_head"]["operations"], 2 * 4096 * 256)
        self.assertGreater(kinds["lm_head"]["instructions"]["multiply-add"], 0)
        self.assertEqual(kinds["lm_head"]["written_bytes"], 4 * 4096)
        self.assertIn("lm_head", self.m3c("explain", "f32.m3plan", "--cost").stdout)
        self.assertIn("it has code for", self.m3c("explain", "f32.m3plan", "--cost", "--target", "no", code=2).stderr)
        self.assertIn("largest bucket", self.m3c("explain", "f32.m3plan", "--cost", "--shape", "9999x1@1",
                                                 code=2).stderr)
        self.m3c("explain", "f32.m3plan", "--shape", "1x1@1", code=2)
        tiny = self.compile("tiny.m3plan", checkpoint=os.path.join(DATA, "m3-tiny"))
        self.assertIn("fp8", tiny["cache_rule"])

    def test_sources_say_which_devices_can_build_them(self):
        def features(rows):
            self.compile("p.m3plan", "--target", "sm90", "--keep-sources", "--buckets", rows)
            return json.loads(self.m3c("inspect", "p.m3plan", "--json").stdout)["targets"][0]["source_features"]

        self.assertIn("sm_100", features("8"))
        self.assertEqual(features("64"), ["sm_90a"])  # wgmma is of this chip alone

    def test_inspect_extract_verify(self):
        self.compile("p.m3plan", "--keep-sources")
        inspected = json.loads(self.m3c("inspect", "p.m3plan", "--json").stdout)
        chips = {target["chip"] for target in inspected["targets"]}
        for target in inspected["manifest"]["targets"]:
            self.assertRegex(target["inspector"], r"^LLVM \d+\.")
        self.assertEqual(inspected["manifest"]["buckets"], [])
        self.assertEqual(inspected["cache"]["type"], "nvfp4")
        self.m3c("extract", "p.m3plan", "-o", "all")
        kernels = {kernel["name"]: kernel for kernel in inspected["kernels"]}
        code = {path.name for path in (self.root / "all/code").iterdir()}
        expected = {f"{name}.{o['chip']}.so" for name, kernel in kernels.items() for o in kernel["objects"]}
        self.assertEqual(code, expected)
        self.assertEqual(len(list((self.root / "all/source").iterdir())), len(kernels))
        # Code that brings streams near lists where, for processors that are slow past the caches.
        streams = [path for path in (self.root / "all/code").iterdir() if re.search("(project|experts_up)_.*_ring0", path.name)]
        self.assertTrue(streams)
        for path in streams:
            self.assertIn(b"m3_streams", path.read_bytes(), path.name)
        one = sorted(chips)[0]
        self.m3c("extract", "p.m3plan", "-o", "one", "--target", one)
        self.assertTrue(all(f".{one}." in path.name for path in (self.root / "one/code").iterdir()))
        done = self.m3c("extract", "p.m3plan", "-o", "one", code=1)  # not over another extraction
        self.assertIn("has other files", done.stderr)
        self.m3c("extract", "p.m3plan", "-o", "none", "--target", "z80", code=2)
        self.m3c("verify", "p.m3plan", "--checkpoint", NANO)
        self.m3c("verify", "p.m3plan", "--checkpoint", os.path.join(DATA, "m3-tiny"), code=1)

        # An extracted kernel builds to the bytes that the plan has.
        tile = next((self.root / "all/extras").glob(f"*.{one}.mlir"))
        self.m3c("build-kernel", tile, "--chip", one, "-o", self.root)
        built = self.root / tile.name.replace(".mlir", ".so")
        self.assertEqual(built.read_bytes(), (self.root / "all/code" / built.name).read_bytes())

    def test_a_link_is_written_through(self):
        (self.root / "link.m3plan").symlink_to("real.m3plan")
        self.compile("link.m3plan", "--buckets", "1,8")
        self.assertTrue((self.root / "link.m3plan").is_symlink())
        inspected = json.loads(self.m3c("inspect", "real.m3plan", "--json").stdout)
        self.assertEqual(inspected["manifest"]["buckets"], [1, 8])

    def test_a_damaged_byte_anywhere_is_found(self):
        self.compile("p.m3plan")
        data = bytearray((self.root / "p.m3plan").read_bytes())
        step = max(1, len(data) // 40)
        for place in [0, 9, 20, 40, 70, *range(100, len(data), step), len(data) - 1]:
            damaged = bytearray(data)
            damaged[place] ^= 0x10
            (self.root / "bad.m3plan").write_bytes(damaged)
            self.m3c("verify", "bad.m3plan", code=1)

    def test_dry_run_writes_nothing_and_forecasts_what_comes(self):
        self.use_own_cache()
        dry = json.loads(self.m3c("compile", NANO, "--dry-run", "--json", "--progress=none").stdout)
        self.assertEqual(self.names(), [])
        self.assertGreater(dry["forecast"]["code_objects_to_build"], 0)
        real = self.compile("p.m3plan")
        self.assertEqual(real["code_objects_built"], dry["forecast"]["code_objects_to_build"])
        inspected = json.loads(self.m3c("inspect", "p.m3plan", "--json").stdout)
        self.assertEqual(len(inspected["kernels"]), dry["forecast"]["kernels"])
        self.assertEqual(len(inspected["kernels"]), real["forecast"]["kernels"])
        self.assertEqual(inspected["weights_total"]["bytes"], dry["forecast"]["weight_bytes"])
        self.assertEqual(max(b["arena_bytes"] for b in inspected["buckets"]), dry["forecast"]["arena_bytes"])

    def test_dumps_read_back(self):
        self.compile("p.m3plan", "--dump-after", "all", "--dump-dir", self.root / "dump")
        dumps = sorted((self.root / "dump").iterdir())
        self.assertGreater(len(dumps), 5)
        opt = os.path.join(os.path.dirname(M3C), "m3-opt")
        for dump in dumps:
            subprocess.run([opt, dump, "-o", os.devnull], check=True)

    def test_timings_and_progress(self):
        env = dict(os.environ, XDG_CACHE_HOME=str(self.cache))
        done = subprocess.run(
            self.command("compile", NANO, "-o", "p.m3plan", "--progress=json", "--json", "--kv", "bf16"),
            capture_output=True, text=True, env=env, cwd=self.root, check=True,
        )
        stages = {json.loads(line)["stage"] for line in done.stderr.splitlines()}
        self.assertTrue({"reading headers", "passes"} <= stages, stages)
        result = json.loads(done.stdout)
        self.assertAlmostEqual(sum(t["seconds"] for t in result["times"]), result["seconds"],
                               delta=0.1 * result["seconds"] + 0.05)


class Numerics(Folder):
    def test_activations_are_named_everywhere(self):
        one = ["--chip", self.first_chip()]
        self.compile("default.m3plan", *one)
        self.compile("bf16.m3plan", *one, "--numerics", "activations=bf16")
        for plan, activations, why in (("default.m3plan", "f32", "the target's default"),
                                       ("bf16.m3plan", "bf16", "as asked for by --numerics activations")):
            explained = json.loads(self.m3c("explain", plan, "--json").stdout)
            self.assertIn({"what": "activations", "choice": activations, "why": why}, explained["decisions"])
            self.assertIn(f"activations {activations}\n", self.m3c("inspect", plan).stdout)
        diff = json.loads(self.m3c("diff", "default.m3plan", "bf16.m3plan", "--json", code=1).stdout)
        self.assertIn("manifest.semantics.activations", [entry["path"] for entry in diff["differences"]])
        # BF16 halves what kernels hand to each other; the choice is part of the cache's key.
        again = self.compile("again.m3plan", *one, "--numerics", "activations=bf16")
        self.assertTrue(again["from_cache"])
        forecasts = [self.compile("p.m3plan", *one, "--dry-run", "--numerics", "activations=" + value)["forecast"]
                     for value in ("f32", "bf16")]
        self.assertLess(forecasts[1]["arena_bytes"], forecasts[0]["arena_bytes"])
        self.assertEqual(forecasts[1]["launches"], forecasts[0]["launches"])

    def test_targets_with_other_defaults_share_one_with_a_warning(self):
        def compile_for(*args):
            done = self.m3c("compile", NANO, "--dry-run", "--json", "--buckets", "1", "--target", *args)
            return [text for text in json.loads(done.stdout)["warnings"] if text.startswith("activations")]

        (warning,) = compile_for("x86,sm90")
        self.assertIn("activations=f32: the default of x86, the first target; sm90 alone has bf16", warning)
        self.assertEqual(compile_for("x86"), [])
        self.assertEqual(compile_for("x86,sm90", "--numerics", "activations=f32"), [])

    def test_unknown_values_are_refused_with_the_list(self):
        for entry in ("activations=fp8", "activations", "weights=f32"):
            done = self.m3c("compile", NANO, "-o", "p.m3plan", "--numerics", entry, code=2)
            self.assertIn("activations=f32 and activations=bf16", done.stderr)
        done = self.m3c("compile", NANO, "-o", "p.m3plan", "--target", "x86,sm90", "--chip", "sm_90a", code=2)
        self.assertIn("no chip of the target x86 is chosen", done.stderr)


class Circumstances(Folder):
    def test_wrong_usage(self):
        for args in (["--target", "z80"], ["--chip", "z80"], ["--kv", "fp3"], ["--disable-pass", "none"],
                     ["--disable-pass", "plan-assign-arena"], ["--dump-after", "none"],
                     ["--numerics", "activations=fp1"], ["--schedule", "nonsense=x"],
                     ["--schedule", "project.rows=-3"], ["--schedule", "project.nonsense=1"], ["--threads", "-1"], ["--kv", "fp8", "--kv-grid", "e4m3"]):
            self.m3c("compile", NANO, "-o", "p.m3plan", *args, code=2)
        self.m3c("compile", NANO, code=2)
        self.assertEqual(self.names(), [])

    def test_output_that_cannot_be_written(self):
        done = self.m3c("compile", NANO, "-o", "absent/p.m3plan", "--timing", "--progress=plain", code=1)
        self.assertIn("no folder absent", done.stderr)
        self.assertNotIn("reading headers", done.stderr)  # before any stage
        done = self.m3c("compile", NANO, "-o", "/proc/p.m3plan", code=1)
        self.assertIn("error: ", done.stderr)
        self.assertEqual(self.names(), [])

    def test_what_is_read_is_not_written(self):
        shutil.copytree(NANO, self.root / "model")
        before = {path: path.read_bytes() for path in (self.root / "model").rglob("*") if path.is_file()}
        (self.root / "ids").write_bytes(b"not read")
        for args in (["compile", "model", "-o", "model/config.json"], ["compile", "model", "-o", "model/p.m3plan"],
                     ["compile", "model", "-o", "p", "--dump-after", "all", "--dump-dir", "model/dump"],
                     ["interpret", "model", "--input", "ids", "--output", "./ids"],
                     ["interpret", "model", "--input", "ids", "--output", "model/scores"]):
            done = self.m3c(*args, code=1)
            self.assertIn("choose another place", done.stderr)
        done = self.m3c("interpret", "model", "--input", "ids", "--output", "absent/scores", code=1)
        self.assertIn("no folder absent", done.stderr)
        after = {path: path.read_bytes() for path in (self.root / "model").rglob("*") if path.is_file()}
        self.assertEqual(before, after)
        self.assertEqual(self.names(), ["ids", "model"])

    def test_nothing_to_score(self):
        header = b'{"other":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}'
        (self.root / "in").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
        done = self.m3c("interpret", NANO, "--input", "in", "--output", "out", code=1)
        self.assertIn("has nothing to score", done.stderr)
        self.assertEqual(self.names(), ["in"])

    def test_buckets_are_checked(self):
        for rows in ("8,1", "0", "1,1", "65537", ",".join(map(str, range(1, 67)))):
            done = self.m3c("compile", NANO, "-o", "p.m3plan", "--buckets", rows, code=2)
            self.assertIn("rise strictly", done.stderr)
            self.assertNotIn("the pass", done.stderr)

    def test_a_schedule_that_no_kernel_can_have(self):
        for choice, reason in (("attention.chunk=7", "divides the 128 tokens"),  # it would read behind a page
                               ("attention.rows=0", "from 1 to 4096"), ("attention.keys=2147483647", "from 1 to 4096"),
                               ("gate_up.k_chunk=3", "a power of two"), ("attention.value_dims=3", "a power of two"),
                               ("experts_up.ring=3", "the target's table decides")):
            done = self.m3c("compile", NANO, "-o", "p.m3plan", "--chip", self.first_chip(), "--schedule", choice, code=2)
            name, value = choice.split(".")[1].split("=")
            self.assertIn(f"{name} = {value} for the family {choice.split('.')[0]}", done.stderr)
            self.assertIn(reason, done.stderr)
            self.assertNotIn("!tile", done.stderr)

    def refused(self, target, choices, *found, kv="nvfp4"):
        done = self.m3c("compile", NANO, "-o", "p.m3plan", "--target", target, "--kv", kv, "--buckets", "1,8",
                        "--schedule", choices, code=2)
        for text in found:
            self.assertIn(text, done.stderr)

    def accepted(self, target, *arguments, kv="nvfp4"):
        self.m3c("compile", NANO, "-o", "p.m3plan", "--target", target, "--kv", kv, "--buckets", "1,8", "--dry-run", *arguments)

    def test_choices_that_no_kernel_of_a_gpu_can_have(self):
        self.refused("gfx950", "index_score.columns=8", "a multiple of 16 up to 64 is needed")  # a group has 16
        self.refused("sm107", "index_score.columns=72", "a multiple of 8 up to 64 is needed")
        self.refused("sm100", "index_score.columns=48", "in tensor memory have 16 or 32")
        self.refused("sm107", "attention.residents=8", "is to stand 8 times on a multiprocessor", "bytes of shared memory, sm_107a has 335872:")

    def test_choices_that_leave_values_in_memory_are_built_with_a_warning(self):
        choice = ["--target", "sm107", "--kv", "nvfp4", "--buckets", "1", "--schedule", "attention.residents=4,attention.stages=2"]
        for cached in (False, True):
            done = self.compile("p.m3plan", *choice)
            self.assertEqual(done["from_cache"], cached)
            self.assertRegex("".join(done["warnings"]), r"attention for sm_107a: 1 kernel keeps up to \d+ bytes of each thread in memory")
        self.assertEqual(self.compile("q.m3plan", *choice[:-1], "attention.stages=2")["warnings"], [])

    def test_forms_that_a_target_does_not_have(self):
        self.refused("x86", "attention.tensor=1", "the choice 'attention.tensor=1'",
                     "kernels of the family attention for x86-avx2", "targets whose kernels have it: sm100\n", "--target sm100")
        self.refused("x86", "attention.matrix=0", "have it: sm100, sm107, gfx950")  # FP32 activations: not sm90
        self.refused("x86", "attention.flat=1", "have it: sm100, sm107, gfx950")
        self.refused("sm90", "attention.shared=1", "have it: gfx950\n")
        self.refused("sm90", "attention.tensor=0", "have it: sm100\n")
        self.refused("sm107", "index_score.pair=1", "have it: sm100\n")
        self.refused("sm100", "attention.tensor=1", "with this model, its cache, activations=f32", kv="bf16")
        self.refused("sm100", "attention.matrix=0,attention.tensor=1", "'attention.tensor=1'", "no target's kernels have it")
        self.refused("x86", "block_topk.by_warps=0", "families with choices for x86-avx2", "sm90, sm100, sm107, gfx950\n")

    def test_a_form_is_off_or_on(self):
        for choice in ("attention.tensor=2", "attention.matrix=7", "attention.flat=3", "index_score.pair=2",
                       "block_topk.by_warps=2"):
            name = choice.split(".")[1].split("=")[0]
            self.refused("sm100", choice, f"0 (off) or 1 (on) is needed for {name}", f"{name} = {choice[-1]} for the family")

    def test_forms_that_a_target_has(self):
        for choice in ("attention.tensor=1", "attention.tensor=0", "attention.flat=0", "attention.flat=1", "index_score.pair=1",
                       "index_score.pair=0", "attention.matrix=0,index_score.matrix=0,block_topk.by_warps=0"):
            self.accepted("sm100", "--schedule", choice)
        self.accepted("sm100", "--schedule", "attention.matrix=0", kv="bf16")  # instead of the CPU's kernel
        self.accepted("x86,gfx950", "--schedule", "attention.shared=0")

    def test_several_choices_of_one_argument(self):
        done = self.m3c("compile", NANO, "-o", "p.m3plan", "--target", "sm90", "--kv", "nvfp4", "--buckets", "8", "--dry-run",
                        "--schedule", "attention.flat=0,attention.parts=3", "--json")
        self.assertIn("dry_run", done.stdout)
        for choices, wrong in (("attention.flat=0,,attention.parts=3", "''"), ("attention.flat=0,", "''"),
                               ("attention.flat=0,parts", "'parts'"), ("a,attention.flat=0", "'a'")):
            self.refused("sm90", choices, f"{wrong} in '{choices}' is no schedule choice", "with commas between them")
        (self.root / "a,b.json").write_text('{"attention": {"tensor": 5}}')
        self.refused("sm100", "a,b.json", "tensor = 5 for the family attention")
        self.refused("sm100", "c,d.json", "cannot read the schedule file c,d.json")

    def test_a_cache_that_cannot_be_written_is_a_warning(self):
        (self.root / "file").write_text("")
        done = self.m3c("compile", NANO, "-o", "p.m3plan", "--chip", self.first_chip(),
                        "--cache-dir", self.root / "file" / "cache")
        self.assertIn("cannot be written", done.stderr)
        self.m3c("verify", "p.m3plan")

    def start(self, output):
        env = dict(os.environ, XDG_CACHE_HOME=str(self.cache))
        chip = self.first_chip()
        return subprocess.Popen(self.command("compile", NANO, "-o", output, "--chip", chip, "--progress=none"),
                                cwd=self.root, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def test_two_compilations_race_for_one_cache(self):
        self.use_own_cache()
        first, second = self.start("a.m3plan"), self.start("b.m3plan")
        self.assertEqual((first.wait(), second.wait()), (0, 0))
        first.stderr.close(), second.stderr.close()
        self.assertEqual((self.root / "a.m3plan").read_bytes(), (self.root / "b.m3plan").read_bytes())

    def test_killed_and_interrupted_compilations_leave_nothing(self):
        self.use_own_cache()
        (self.root / "p.m3plan").write_text("what was here before")
        for delay in (0.05, 0.3, 0.8, 1.5):
            for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
                process = self.start("p.m3plan")
                time.sleep(delay)
                process.send_signal(number)
                code = process.wait()
                message = process.stderr.read()
                process.stderr.close()
                if code == 0:
                    continue  # finished before the signal
                if number != signal.SIGKILL:
                    self.assertEqual(code, 128 + number if message else -number, message)
                    self.assertEqual(self.names(), ["p.m3plan"])
                else:
                    for name in self.names():
                        if name != "p.m3plan":
                            (self.root / name).unlink()  # beside it, under a temporary name
        self.compile("p.m3plan")
        self.m3c("verify", "p.m3plan")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:], verbosity=2)
