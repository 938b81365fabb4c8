#!/usr/bin/env python3
"""Makes the tokenizer goldens of this folder with Hugging Face's `tokenizers` as the outside judge.

    python -m venv /tmp/v && /tmp/v/bin/pip install tokenizers==0.23.3
    /tmp/v/bin/python tests/data/text/make_goldens.py

Writes split.tokenizer.json (a small tokenizer with the word pattern of large vocabularies, trained
here) and goldens.json. Python 3.11 has Unicode 14, as PCRE2 10.42 has, so only characters that
both know are drawn.
"""
import copy
import json
import pathlib
import random
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
NANO = HERE.parent / "m31-nano" / "tokenizer.json"

# The shape of pattern that o200k-like vocabularies use: contractions attached to words, upper and lower
# case told apart, digits in threes, punctuation with its line ends.
LARGE_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TRAINING = """
def encode(self, text): return [self.table[c] for c in text if c in self.table]
The quick brown fox jumps over the lazy dog, and the dog doesn't mind; it's the fox's problem.
She said: "I'll take 12 of the 1,234 apples (about 3.5 kg)." They've gone, we're here, you'd know.
for (int i = 0; i < 128; ++i) { sum += a[i] * b[i]; }   // dot product
Größe, naïve café, façade, señor, smørrebrød, Übermut, čeština, žluťoučký kůň, łódź
Быстрая коричневая лиса прыгает через ленивую собаку. Ελληνικά γράμματα και λέξεις.
敏捷的棕色狐狸跳过了懒狗。今天天气很好，我们去公园散步吧。日本語の文章とカタカナとひらがな。
빠른 갈색 여우가 게으른 개를 뛰어넘는다. 한국어 문장입니다. مرحبا بالعالم هذا نص عربي
https://example.org/path?query=value&other=1#part  user@example.org  2026-11-29T12:34:56Z
\t\tindented\twith\ttabs\n\n\nthree line ends    four spaces        eight spaces
""" * 3


def train_split():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LARGE_PATTERN), "isolated", False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=900, show_progress=False, special_tokens=[],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(TRAINING.splitlines(keepends=True), trainer)
    tok.add_special_tokens(["]~!b[", "[e~[", "]~b]", AddedToken("<|left|>", lstrip=True, special=True),
                            AddedToken("<|right|>", rstrip=True, special=True)])
    tok.add_tokens([AddedToken("<mm:think>", normalized=False), AddedToken("</mm:think>", normalized=False),
                    AddedToken("cat", single_word=True, normalized=True),
                    AddedToken("<mm", normalized=True), AddedToken("<<>>", lstrip=True, rstrip=True)])
    tok.save(str(HERE / "split.tokenizer.json"), pretty=False)


HAND = [
    "", " ", "  ", "a", "Hello, world!", " leading", "trailing ", "a  b", "a   b\n", "\n", "\r\n\r\n", "\n \n",
    " \t\n  x", "tabs\t\t\tx", "it's we're they've I'll don't I'M HE'D ſ'ſ x'S", "'s't're", "''", "12345678 1,234.5",
    "½ ² Ⅷ ٣٤ ௧௨", "naïve café", "nai\u0308ve cafe\u0301", "e\u0301\u0302\u0303 a\u20dd", "Größe ŽLUŤOUČKÝ ǅ ǆ",
    "敏捷的棕色狐狸", "日本語の文章、カタカナ。", "한국어 여우", "각각", "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया",
    "ไทยไม่มีช่องว่าง", "😊", "👩‍👩‍👧‍👦 👍🏽 🇩🇪", "a😊b", "\u00a0nbsp\u00a0", "\u2003em\u2003space", "\u3000全角", "\u1680ogham",
    "\u180emvs \u180e x", "\u0085nel\u0085", "\u2028ls\u2029ps", "\u200bzwsp\u200b", "\u200czwnj\u200dzwj", "\ufeffbom", "\x00\x01\x7f",
    "a\x0bb\x0cc\x1cd\x1fe", "def f(x):\n    return x+1\n\n\nclass A:\n\tpass", "for(i=0;i<n;++i){a[i]*=2;}//x\n",
    "https://example.org/a?b=c&d=1#e", "C:\\path\\file.txt", "{\"k\": [1, 2.5e-3, null]}", "---", "=====", "a" * 300,
    "ab" * 200, " " * 100 + "x", "\n" * 50, "x" + " " * 33, "1" * 100, "!" * 90 + "\n\n", "aaaaaa bbbbbb" * 20,
    "]~!b[]~b]user\nHi[e~[\n]~b]ai\n", "]~b", "]~b]]~b]", "]]~!b[", "<mm:think>x</mm:think>", "<mm:thin", "a ]~b] b", "[e~[ [e~[",
    "<|left|>", "a  <|left|>b", "   <|left|><|left|>", "a<|right|>  \n b", "<|right|>  <|left|>", "cat", "cats", "a cat.", "concat cat",
    "cat\u0301 cat_ cat9 9cat _cat -cat-", "<mm", "<mm:think", "x <<>> y", "<<<>>>", " <<>>  <|left|> ", "<|pad|><|noise|>]<]minimax[>[",
    "]<]image[>[ and <image> ]<]video[>[", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚", "ﬁ ﬀ ß ẞ İ ı K Å", "ＡＢＣ１２３", "\U0001F1E6", "\uffff\ufffd\ue000",
    "<|right|> yz z", "<|right|>   zy  y z", "<|right|>x y<|right|>\n y", "a   z",
    "a\r", "a\r\nb\rc", "//\n///\n", "x/\r\n/", "?!\n/ok", "I'LL'LL", "O'Re", "don\u2019t",
]

BLOCKS = [(0x20, 0x7F), (0x20, 0x7F), (0, 0x20), (0x80, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700),
          (0x900, 0xE80), (0x1100, 0x1200), (0x1680, 0x1810), (0x2000, 0x2070), (0x2070, 0x2C00), (0x3000, 0x3100), (0x4E00, 0x5200),
          (0xAC00, 0xAE00), (0xFE00, 0x10000), (0x1D400, 0x1D800), (0x1F300, 0x1F700), (0xE0100, 0xE01F0)]


def assigned(low, high):
    return [chr(c) for c in range(low, high) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


def random_texts(rng, count):
    pools = [assigned(*block) for block in BLOCKS] + [[" ", " ", "\n", "  ", "\t"]]
    snippets = TRAINING.split(" ") + ["]~b]", "[e~[", "<mm:think>", "cat", "<|left|>", "<<>>", "'s", "'LL"]
    for _ in range(count):
        text = ""
        for _ in range(rng.randint(1, 14)):
            if rng.random() < 0.4:
                text += rng.choice(snippets) + rng.choice(["", " ", "  ", "\n"])
            else:
                text += "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randint(1, 4)))
        yield text


def variant(base, patch):
    """JSON merge patch (RFC 7396), as the test applies it."""
    result = copy.deepcopy(base)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = variant(result[key], value)
        else:
            result[key] = value
    return result


def split_step(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def sequence(*steps, **last):
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [*steps, {**BYTE_LEVEL, **last}]}}


# name: (base file, merge patch). `null` cannot be patched in, so every patch sets values.
VARIANTS = {
    "nano": ("nano", {}),
    "split": ("split", {}),
    "split.ignore_merges": ("split", {"model": {"ignore_merges": True}}),
    "split.prefix": ("split", sequence(add_prefix_space=True, use_regex=True)),
    "split.prefix_words": ("split", sequence(split_step({"Regex": r"\p{L}+"}, "Isolated"), add_prefix_space=True)),
    "split.digits": ("split", sequence(split_step({"Regex": r"\p{N}{1,3}"}, "Isolated"),
                                       split_step({"Regex": "[一-龥぀-ゟ゠-ヿ]+"}, "Isolated"), use_regex=True)),
    "split.removed": ("split", sequence(split_step({"Regex": r"\s+"}, "Removed"))),
    "split.previous": ("split", sequence(split_step({"Regex": r"\s|[a-e]"}, "MergedWithPrevious"))),
    "split.next": ("split", sequence(split_step({"String": " "}, "MergedWithNext"))),
    "split.contiguous": ("split", sequence(split_step({"Regex": r"[^\P{Han}x]|\d"}, "Contiguous"))),
    "split.inverted": ("split", sequence(split_step({"Regex": r"\S"}, "Removed", True))),
    "split.empty_matches": ("split", sequence(split_step({"Regex": r"(?=[A-Z])|\d*"}, "Isolated"))),
    "split.string": ("split", sequence(split_step({"String": "a.b[c]"}, "Isolated"))),
}


def added(number, content, **flags):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False, **flags}


# Tokens that begin with a space, after one that takes the space. Ids go on where the vocabulary ends, because
# `tokenizers` renumbers added tokens after a gap.
VARIANTS["split.overlap"] = ("split", {"added_tokens": [added(860, "<|right|>", rstrip=True), added(861, " y"),
                                                        added(862, " z", lstrip=True)]})


def fnv(ids):
    value = 0xCBF29CE484222325
    for number in ids:
        for byte in number.to_bytes(4, "little"):
            value = ((value ^ byte) * 0x100000001B3) % 2**64
    return f"{value:016x}"


def main():
    train_split()
    rng = random.Random(20261130)
    files = {"nano": json.loads(NANO.read_text()), "split": json.loads((HERE / "split.tokenizer.json").read_text())}
    texts = HAND + list(random_texts(rng, 120))
    out = {"made_with": f"tokenizers {tokenizers.__version__}, Python {sys.version.split()[0]}",
           "variants": {name: {"base": base, "patch": patch} for name, (base, patch) in VARIANTS.items()},
           "texts": texts, "encode": [], "decode": [], "sweep": []}
    for name, (base, patch) in VARIANTS.items():
        content = variant(files[base], patch)
        make = lambda c: Tokenizer.from_str(json.dumps(c))
        everything, plain, none = make(content), make(content), make({**content, "added_tokens": []})
        plain.encode_special_tokens = True
        modes = {"All": everything, "NonSpecial": plain, "None": none}
        for mode, tok in modes.items():
            if mode != "All" and name not in ("nano", "split", "split.overlap"):
                continue
            chosen = range(len(texts)) if name in ("nano", "split") else range(0, len(texts), 2)
            if name == "split.overlap":
                chosen = [i for i, text in enumerate(texts) if "<|right|>" in text or " z" in text]
            out["encode"].append({"variant": name, "mode": mode, "ids": {
                str(i): tok.encode(texts[i], add_special_tokens=False).ids for i in chosen}})
        if name not in ("nano", "split"):
            continue
        size = everything.get_vocab_size()
        for _ in range(60):
            ids = [rng.randrange(size) for _ in range(rng.randint(1, 12))]
            if rng.random() < 0.5:
                ids = [i % 260 for i in ids]  # mostly single bytes: much that is not UTF-8
            out["decode"].append({"variant": name, "ids": ids, "text": everything.decode(ids, skip_special_tokens=False),
                                  "skipped": everything.decode(ids, skip_special_tokens=True)})
        # Every assigned character, between a letter and a digit, in blocks of 1024 code points.
        for low in range(0, 0x110000, 1024):
            chars = assigned(low, low + 1024)
            if chars and not 0xE1000 <= low and not (0x20000 <= low < 0x30000 and low % 8192):
                ids = everything.encode("".join(f"a{c}1 {c}" for c in chars), add_special_tokens=False).ids
                out["sweep"].append({"variant": name, "low": low, "count": len(chars), "fnv": fnv(ids)})
    # Whether a code point of the sweep is assigned is data too: runs of [first, length].
    runs, code = [], 0
    while code < 0x110000:
        if unicodedata.category(chr(code)) in ("Cn", "Cs"):
            code += 1
            continue
        first = code
        while code < 0x110000 and unicodedata.category(chr(code)) not in ("Cn", "Cs"):
            code += 1
        runs.append([first, code - first])
    out["assigned"] = runs
    (HERE / "goldens.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")


main()
