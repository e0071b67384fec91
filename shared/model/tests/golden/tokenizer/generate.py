"""Writes the golden files for tokenizers.

    pip install gguf regex sentencepiece && python generate.py SmolLM2-135M-Instruct.Q4_1.gguf

pieces.json   texts, and the pieces that each pre-tokenizer splits them into (the patterns applied with the regex module)
smollm2.json  texts, and their ids by a plain byte-level BPE over the vocabulary in the GGUF file
sentencepiece.json  a small vocabulary trained on this file, and the ids that the sentencepiece library gives
"""

import json
import sys
import tempfile
from pathlib import Path

import regex
import sentencepiece
from gguf import GGUFReader

HERE = Path(__file__).parent

TEXTS = [
    "Hello, world!",
    "  two leading spaces and a tab\there  ",
    "In 2024, 1234567 people paid $3.50 for 12 apples.",
    "it's we'll THEY'RE I'd don't",
    "def add(a, b):\n    return a + b  # comment\n\n\nprint(add(1, 20))\n",
    "naïve café — “quotes” … №5 ½ ²",
    "日本語のテキストと 中文 그리고 한국어",
    "Здравствуй, мир! שלום مرحبا नमस्ते",
    "🦀🚀 family: 👩‍👩‍👧‍👦 flag: 🇨🇭",
    "a\r\nb\r\n\r\n  c\u00a0d\u3000e",
    "<|im_start|>user\nHi<|im_end|>\n",
    "e\u0301 combining and \u200bzero width",
    "",
    " ",
    "\n",
    "path/to/file_name-v2.tar.gz?x=1&y=[2]{3}",
    "x" * 60 + " 000000000 9",
]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [WORDS + r"\p{N}{1,3}" + REST],
    "qwen2": [WORDS + r"\p{N}" + REST],
    "default": [r"[\p{P}$+<=>^~|]+", GPT2.removesuffix(r"|\s+"), r"\p{N}+", "[0-9][0-9][0-9]"],
}


def split(text, patterns):
    """Each pattern cuts every piece so far into its matches and what is between them."""
    pieces = [text] if text else []
    for pattern in patterns:
        pieces = [part for piece in pieces for part in regex.split(f"({pattern})", piece) if part]
    return pieces


def byte_alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def bpe(piece, ranks):
    parts = [ALPHABET[byte] for byte in piece.encode()]
    while len(parts) > 1:
        ranked = [(ranks.get(pair, 1 << 30), i) for i, pair in enumerate(zip(parts, parts[1:]))]
        rank, i = min(ranked)
        if rank == 1 << 30:
            break
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts


def smollm2_ids(text, reader):
    field = lambda name: reader.fields[f"tokenizer.ggml.{name}"].contents()
    tokens, types = field("tokens"), field("token_type")
    ids = {token: i for i, token in enumerate(tokens)}
    ranks = {tuple(merge.split(" ")): i for i, merge in enumerate(field("merges"))}
    control = [token for token, kind in zip(tokens, types) if kind == 3]
    found = []
    for part in regex.split("(" + "|".join(map(regex.escape, control)) + ")", text):
        if part in control:
            found.append(ids[part])
        else:
            pieces = split(part, PATTERNS["smollm"])
            found.extend(ids[token] for piece in pieces for token in bpe(piece, ranks))
    return found


def write(name, value):
    """One element of the outer lists to a line, so that changes can be read."""
    (HERE / name).write_text(lines(value) + "\n")


def lines(value, depth=1):
    if depth and isinstance(value, dict):
        return "{" + ",\n".join(f"{json.dumps(key)}: {lines(part, depth)}" for key, part in value.items()) + "}"
    if depth and isinstance(value, list) and any(isinstance(part, (list, str)) for part in value):
        return "[\n" + ",\n".join(lines(part, depth - 1) for part in value) + "\n]"
    return json.dumps(value)


def train_sentencepiece():
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus.txt")
        corpus.write_text((HERE / "generate.py").read_text() + "\n".join(TEXTS[:6]))
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=f"{folder}/small", model_type="bpe", vocab_size=420, byte_fallback=True,
            character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False,
            split_digits=True, minloglevel=2,
        )
        return sentencepiece.SentencePieceProcessor(model_file=f"{folder}/small.model")


def sentencepiece_golden():
    model = train_sentencepiece()
    kind = lambda i: 2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i) else 1
    size = range(model.vocab_size())
    texts = [text for text in TEXTS if "<|" not in text]
    return {
        "tokens": [model.id_to_piece(i) for i in size],
        "scores": [model.get_score(i) for i in size],
        "types": [kind(i) for i in size],
        "texts": texts,
        "ids": [model.encode(text) for text in texts],
    }


ALPHABET = byte_alphabet()
write("pieces.json", {"texts": TEXTS, "pieces": {k: [split(t, v) for t in TEXTS] for k, v in PATTERNS.items()}})
reader = GGUFReader(sys.argv[1])
write("smollm2.json", {"texts": TEXTS, "ids": [smollm2_ids(text, reader) for text in TEXTS]})
write("sentencepiece.json", sentencepiece_golden())
