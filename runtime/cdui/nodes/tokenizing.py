"""Cuts text into tokens for the Tokenizer node.

The vocabulary of a family is used where its package (tiktoken or transformers)
and its files are on this machine; nothing is downloaded. Otherwise a stand-in
cuts the text by the rules of the family's first step, and gives ids that stay
the same on every machine but are not the family's own:

* byte families (the GPT ones, Llama-3): a token is a run of letters, of up to
  three digits or of punctuation with the blank before it, or a run of blanks;
* bert-base-uncased: lower case without accents, each punctuation mark on its own;
* T5: words with "▁" in the place of the blank before them.

A piece with characters beyond ASCII becomes one token for each of its UTF-8
bytes (not in the BERT family). The id of a byte is its value; the id of a
piece is 256 + BLAKE2b-64(piece) modulo the rest of the family's vocabulary.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import unicodedata
from typing import Any, Callable, NamedTuple, Sequence


class Token(NamedTuple):
    """A token, its id, and where it stands in the text (characters)."""

    text: str
    id: int
    start: int
    end: int


class Family(NamedTuple):
    """What is known of a family: its kind, the size of its vocabulary, the
    special tokens before and after a text, and where its vocabulary comes from."""

    kind: str
    size: int
    before: Sequence[tuple[str, int]]
    after: Sequence[tuple[str, int]]
    tiktoken_files: Sequence[str] = ()
    transformers_name: str = ""


TIKTOKEN = "https://openaipublic.blob.core.windows.net/"

FAMILIES = {
    "cl100k_base": Family("bytes", 100256, (), [("<|endoftext|>", 100257)], [TIKTOKEN + "encodings/cl100k_base.tiktoken"]),
    "o200k_base": Family("bytes", 199998, (), [("<|endoftext|>", 199999)], [TIKTOKEN + "encodings/o200k_base.tiktoken"]),
    "p50k_base": Family("bytes", 50256, (), [("<|endoftext|>", 50256)], [TIKTOKEN + "encodings/p50k_base.tiktoken"]),
    "gpt2": Family("bytes", 50256, (), [("<|endoftext|>", 50256)],
                   [TIKTOKEN + "gpt-2/encodings/main/vocab.bpe", TIKTOKEN + "gpt-2/encodings/main/encoder.json"]),
    "bert-base-uncased": Family("bert", 30522, [("[CLS]", 101)], [("[SEP]", 102)], transformers_name="bert-base-uncased"),
    "Llama-3": Family("bytes", 128000, [("<|begin_of_text|>", 128000)], (), transformers_name="meta-llama/Meta-Llama-3-8B"),
    "T5": Family("t5", 32000, (), [("</s>", 1)], transformers_name="t5-small"),
}

BYTE_PIECES = re.compile(r" ?[^\W\d_]+| ?\d{1,3}| ?(?:[^\w\s]|_)+|\s+(?!\S)|\s+")
BERT_PIECES = re.compile(r"\w+|[^\w\s]")
WORDS = re.compile(r"\S+")


def tokenize(family: str, text: str, special: bool) -> tuple[list[Token], str]:
    """The tokens of a text, and a line on where the vocabulary came from."""
    chosen = FAMILIES.get(family)
    if chosen is None:
        raise ValueError(f"param 'family' is {family!r}; choose one of {', '.join(FAMILIES)}")
    own = _with_tiktoken(family, chosen) if chosen.tiktoken_files else _with_transformers(chosen)
    if own is not None:
        return own(text, special), f"{family}: its own vocabulary"
    tokens = STAND_INS[chosen.kind](text, chosen.size)
    if special:
        end = len(text)
        tokens = [Token(t, i, 0, 0) for t, i in chosen.before] + tokens + [Token(t, i, end, end) for t, i in chosen.after]
    package = "tiktoken" if chosen.tiktoken_files else "transformers"
    return tokens, (f"{family}: its vocabulary is not on this machine ({package} and its files are needed); "
                    f"a stand-in cut the text, and the ids are not those of {family}")


def _piece_id(piece: str, size: int) -> int:
    digest = hashlib.blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return 256 + int.from_bytes(digest, "big") % (size - 256)


def _bytes_of(piece: str, start: int) -> list[Token]:
    """A token for each UTF-8 byte; all bytes of a character stand at its place."""
    return [Token(f"<0x{byte:02X}>", byte, start + i, start + i + 1)
            for i, character in enumerate(piece) for byte in character.encode("utf-8", "surrogatepass")]


def _byte_tokens(text: str, size: int) -> list[Token]:
    tokens: list[Token] = []
    for found in BYTE_PIECES.finditer(text):
        piece, start = found.group(), found.start()
        if not piece.isascii():
            tokens += _bytes_of(piece, start)
        elif len(piece) == 1:
            tokens.append(Token(piece, ord(piece), start, start + 1))
        else:
            tokens.append(Token(piece, _piece_id(piece, size), start, found.end()))
    return tokens


def _bert_tokens(text: str, size: int) -> list[Token]:
    tokens: list[Token] = []
    for found in BERT_PIECES.finditer(text):
        bare = "".join(c for c in unicodedata.normalize("NFD", found.group().lower()) if unicodedata.category(c) != "Mn")
        # A piece of accents alone leaves nothing.
        if bare:
            tokens.append(Token(bare, _piece_id(bare, size), found.start(), found.end()))
    return tokens


def _t5_tokens(text: str, size: int) -> list[Token]:
    tokens: list[Token] = []
    for found in WORDS.finditer(text):
        word, start = "▁" + found.group(), found.start()
        if found.group().isascii():
            tokens.append(Token(word, _piece_id(word, size), start, found.end()))
        else:
            tokens.append(Token("▁", _piece_id("▁", size), start, start))
            tokens += _bytes_of(found.group(), start)
    return tokens


STAND_INS: dict[str, Callable[[str, int], list[Token]]] = {"bytes": _byte_tokens, "bert": _bert_tokens, "t5": _t5_tokens}


def _with_tiktoken(family: str, chosen: Family) -> Callable[[str, bool], list[Token]] | None:
    """A tokenizer of tiktoken, or None where it would have to download."""
    try:
        import tiktoken
    except ImportError:
        return None
    # tiktoken keeps its files under the SHA-1 of their address.
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR") or os.path.join(
        tempfile.gettempdir(), "data-gym-cache")
    names = [hashlib.sha1(address.encode()).hexdigest() for address in chosen.tiktoken_files]
    if not all(os.path.isfile(os.path.join(folder, name)) for name in names):
        return None
    encoding = tiktoken.get_encoding(family)

    def run(text: str, special: bool) -> list[Token]:
        ids = encoding.encode(text, disallowed_special=())
        _, starts = encoding.decode_with_offsets(ids)
        raw = [encoding.decode_single_token_bytes(i) for i in ids]
        ends = starts[1:] + [len(text)]
        tokens = [Token(r.decode("utf-8", "backslashreplace"), i, s, max(s, e)) for r, i, s, e in zip(raw, ids, starts, ends)]
        return tokens + [Token(t, i, len(text), len(text)) for t, i in chosen.after] if special else tokens

    return run


def _with_transformers(chosen: Family) -> Callable[[str, bool], list[Token]] | None:
    """A fast tokenizer of transformers, or None where its files are not here."""
    try:
        import transformers
    except ImportError:
        return None
    try:
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(chosen.transformers_name, local_files_only=True, use_fast=True)
    except (OSError, ValueError, ImportError):
        return None

    def run(text: str, special: bool) -> list[Token]:
        found = tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)
        words = tokenizer.convert_ids_to_tokens(found["input_ids"])
        return [Token(w, i, s, e) for w, i, (s, e) in zip(words, found["input_ids"], found["offset_mapping"])]

    return run
