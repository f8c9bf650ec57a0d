#!/usr/bin/env python3
"""make.py: the tokenizers of tokenizer_test.cc and what the package `tokenizers` of the Python index makes of texts.

    make.py [--texts N]     writes NAME.json (a tokenizer) and NAME.cases.json, N random texts beside the fixed ones

Vocabularies are trained on the text below; the parts around them are those of GPT-2, Llama 3, Qwen2, GPT-4o and Llama 2.
"""
import argparse
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
CORPUS = """The quick brown fox jumps over the lazy dog. It's a dog's life; they've said we'll see, I'm sure you're right.
In 1984 there were 1234567 sheep, 12,5 % of them black.   Two  spaces,\ttabs\n\n\nand lines.\r\n
Die Straße führt über Größe; ça va très bien, où êtes-vous? Ελλάδα και θάλασσα. Привет, мир! 日本語の文章と漢字。한국어 문장.
def main(argc: int) -> None:\n    return {"key": [1, 2, 3], 'x': f"{y!r}"}  # comment
""" * 3
FIXED = [
    "", " ", "  ", "\n", "a", " a", "a ", "Hello, world!", "It's THEY'VE i'm I'M 'Tis don'T", "  leading and trailing  ",
    "1 12 123 1234 12345 1234567890", "tabs\t\tand\nlines\r\n\r\nmore \n  x", "naïve café Straße", "e\u0301 = \u00e9",
    "日本語テキスト", "한국어", "\u1112\u1161\u11ab", "🙂🙃 emoji 👩‍👩‍👧", "<s>inner</s> text<|end|>", "a<|end|>b <|end|> c",
    "\u00a0nbsp\u2003em\u3000wide", "mixed١٢٣٤ digits²³", "x" * 70, "ab" * 50, "\u200bzero", "▁under ▁ score", "{}[]()<>!@#$%^&*",
    "<0x41><0xZZ>", "\x00\x01\x7f", "ÅΩ q\u0307\u0323", "क़ख़", "a\u0300\u0301\u0302b", "\ufffd", "\U0010ffff", "ſ K 'ſ", "MASKword word MASK here",
]


def texts(n):
    r = random.Random(7)
    pools = ["abcdefghij ", "  \n\t\r", "0123456789", "'sStTmMdDlL ", ".,;:!?-", "äöüßéèñ", "αβγδ", "абвг", "日本語漢字", "한국어", "🙂🙃",
             "\u0301\u0308\u0323", "\u00a0\u2003", "<|>/s"]
    for _ in range(n):
        yield "".join(r.choice(r.choice(pools)) for _ in range(r.randrange(1, 40)))
    words = CORPUS.split(" ")
    for _ in range(n):
        yield " ".join(r.choice(words) for _ in range(r.randrange(1, 12)))


def byte_level(pattern, extra=(), normalizer=None, template=None, ignore_merges=False, prefix=False):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        t.normalizer = normalizer
    if pattern:
        t.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([CORPUS], trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens(["<s>", "<|end|>"])
    t.add_tokens([AddedToken("MASK", lstrip=True, rstrip=True, single_word=True), *extra])
    if template:
        t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
    else:
        t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def with_fallback(metaspace, normalized=False):
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    special = ["<unk>", "<s>", "</s>"]
    if metaspace:
        t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    else:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.train_from_iterator([w for w in CORPUS[:300].split(" ")], trainers.BpeTrainer(
        vocab_size=500, special_tokens=special + [f"<0x{b:02X}>" for b in range(256)], show_progress=False))
    # Bytes are tokens of the vocabulary, none of those that texts are cut at.
    doc = json.loads(t.to_str())
    doc["added_tokens"] = [dict(a, normalized=normalized) for a in doc["added_tokens"] if a["content"] in special]
    doc["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    doc["post_processor"] = {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return Tokenizer.from_str(json.dumps(doc))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--texts", type=int, default=60)
    p.add_argument("--out", type=pathlib.Path, default=HERE)
    a = p.parse_args()
    llama3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
              r"\s+(?!\S)|\s+")
    # Words by the case of their letters.
    small, large, ending = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    gpt4o = (rf"[^\r\n\p{{L}}\p{{N}}]?{large}*{small}+{ending}|[^\r\n\p{{L}}\p{{N}}]?{large}+{small}*{ending}|\p{{N}}{{1,3}}|"
             r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    made = {
        "gpt2": byte_level(None),
        "gpt2_prefix": byte_level(None, prefix=True),
        "llama3": byte_level(llama3, template=True, ignore_merges=True),
        "qwen2": byte_level(llama3.replace("{1,3}", ""), normalizer=normalizers.NFC(),
                            extra=[AddedToken("é", normalized=True, special=False)]),
        "gpt4o": byte_level(gpt4o),
        "llama2": with_fallback(False),
        "llama2_normalized": with_fallback(False, True),  # as the first files of Llama 2 had it
        "metaspace": with_fallback(True),
    }
    for name, t in made.items():
        (a.out / f"{name}.json").write_text(t.to_str() + "\n")
        # Of normalized special tokens the package forgets, as it decodes, that they are special.
        back = made["llama2"] if name == "llama2_normalized" else t
        cases = []
        for text in FIXED + list(texts(a.texts)):
            ids = t.encode(text).ids
            plain = t.encode(text, add_special_tokens=False).ids
            cases.append({"text": text, "ids": ids, "plain": plain, "decoded": back.decode(plain),
                          "special": back.decode(plain, skip_special_tokens=False)})
        r = random.Random(11)
        for _ in range(a.texts):  # tokens that no text is
            ids = [r.randrange(t.get_vocab_size()) for _ in range(r.randrange(1, 12))]
            cases.append({"tokens": ids, "decoded": back.decode(ids),
                          "special": back.decode(ids, skip_special_tokens=False)})
        (a.out / f"{name}.cases.json").write_text(json.dumps(cases, separators=(",", ":"), ensure_ascii=True) + "\n")
        print(name, t.get_vocab_size(), len(cases))


main()
