"""LLM nodes: tokens without a download, word vectors, the parts of attention."""
import hashlib
import sys
import types

import pytest

from cdui.node import Context, MissingPackage, call, fill_params

torch = pytest.importorskip("torch")

from cdui.nodes import llm, tokenizing, word_vectors  # noqa: E402


def run(node, inputs=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), lambda payload: None, Context())


@pytest.fixture
def no_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.setitem(sys.modules, "transformers", None)


TEXTS = ["The quick brown fox.", "", "  two  blanks\n\nand\ttabs ", "1234567 x2 a_b", "naïve café 你好 👋🏽!", "don't stop...", "\u0301alone"]


@pytest.mark.parametrize("family", tokenizing.FAMILIES)
@pytest.mark.parametrize("text", TEXTS)
def test_stand_in_tokens_tell_where_they_stand(no_packages, family, text):
    got = run(llm.Tokenizer, {"text": text}, family=family)
    size = tokenizing.FAMILIES[family].size
    assert len(got["tokens"]) == len(got["token_ids"]) == len(got["offsets"])
    assert all(0 <= i < size for i in got["token_ids"])
    assert got["offsets"] == sorted(got["offsets"]) and all(0 <= s <= e <= len(text) for s, e in got["offsets"])
    covered = {i for s, e in got["offsets"] for i in range(s, e)}
    wanted = {i for i, c in enumerate(text) if not c.isspace()}
    if family == "bert-base-uncased":
        wanted -= {i for i in wanted if text[i] == "\u0301"}
    assert wanted <= covered
    assert "its vocabulary is not on this machine" in got["__log__"]
    assert run(llm.Tokenizer, {"text": text}, family=family) == got


def test_byte_families_lose_nothing(no_packages):
    for text in TEXTS:
        got = run(llm.Tokenizer, {"text": text}, family="gpt2")
        raw = b"".join(bytes([int(t[3:5], 16)]) if t.startswith("<0x") else t.encode() for t in got["tokens"])
        assert raw == text.encode()


def test_rules_of_the_families(no_packages):
    assert run(llm.Tokenizer, {"text": "Hello, world 12345!"})["tokens"] == ["Hello", ",", " world", " 123", "45", "!"]
    assert run(llm.Tokenizer, {"text": "Héllo, World!"}, family="bert-base-uncased")["tokens"] == ["hello", ",", "world", "!"]
    assert run(llm.Tokenizer, {"text": "Hello, world"}, family="T5")["tokens"] == ["▁Hello,", "▁world"]


def test_ids_are_stable(no_packages):
    got = run(llm.Tokenizer, {"text": "a quick é"})["token_ids"]
    quick = 256 + int.from_bytes(hashlib.blake2b(b" quick", digest_size=8).digest(), "big") % (100256 - 256)
    assert got == [97, quick, 32, 0xC3, 0xA9]


def test_special_tokens(no_packages):
    """Proves B.3."""
    def ends(family):
        got = run(llm.Tokenizer, {"text": "hi"}, family=family, show_special_tokens=True)
        return list(zip(got["tokens"], got["token_ids"], got["offsets"]))

    assert ends("bert-base-uncased")[0] == ("[CLS]", 101, [0, 0]) and ends("bert-base-uncased")[-1] == ("[SEP]", 102, [2, 2])
    assert ends("Llama-3")[0][1] == 128000 and ends("cl100k_base")[-1][:2] == ("<|endoftext|>", 100257)
    assert ends("T5")[-1][:2] == ("</s>", 1)


def test_the_param_is_the_text_where_none_is_wired(no_packages):
    assert run(llm.Tokenizer)["tokens"][:2] == ["The", " quick"]
    assert run(llm.Tokenizer, {"text": ""})["tokens"] == []
    with pytest.raises(ValueError, match="param 'family' is 'gpt9'; choose one of cl100k_base"):
        run(llm.Tokenizer, family="gpt9")


def test_tiktoken_is_used_only_with_its_files(monkeypatch, tmp_path):
    class Encoding:
        def encode(self, text, disallowed_special):
            return [len(word) for word in text.split(" ")]

        def decode_with_offsets(self, ids):
            return "", [0, 2]

        def decode_single_token_bytes(self, token):
            return b"x" * token

    asked = []
    fake = types.SimpleNamespace(get_encoding=lambda name: asked.append(name) or Encoding())
    monkeypatch.setitem(sys.modules, "tiktoken", fake)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert "stand-in" in run(llm.Tokenizer, {"text": "ab cd"})["__log__"] and asked == []
    # The name under which tiktoken keeps cl100k_base.
    (tmp_path / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4").write_text("")
    got = run(llm.Tokenizer, {"text": "ab cd"}, show_special_tokens=True)
    assert asked == ["cl100k_base"] and "its own vocabulary" in got["__log__"]
    assert got["tokens"] == ["xx", "xx", "<|endoftext|>"] and got["offsets"] == [[0, 2], [2, 5], [5, 5]]


def test_transformers_is_used_only_with_its_files(monkeypatch):
    class Fast:
        def __call__(self, text, add_special_tokens, return_offsets_mapping):
            return {"input_ids": [7, 9], "offset_mapping": [(0, 2), (2, 4)]}

        def convert_ids_to_tokens(self, ids):
            return [f"t{i}" for i in ids]

    def from_pretrained(name, local_files_only, use_fast):
        assert local_files_only
        if name == "t5-small":
            raise OSError("not in the cache")
        return Fast()

    fake = types.SimpleNamespace(AutoTokenizer=types.SimpleNamespace(from_pretrained=from_pretrained))
    monkeypatch.setitem(sys.modules, "transformers", fake)
    got = run(llm.Tokenizer, {"text": "abcd"}, family="bert-base-uncased")
    assert (got["tokens"], got["token_ids"], got["offsets"]) == (["t7", "t9"], [7, 9], [[0, 2], [2, 4]])
    assert "stand-in" in run(llm.Tokenizer, {"text": "abcd"}, family="T5")["__log__"]


def test_king_minus_man_plus_woman_is_queen():
    labels = list(word_vectors.TABLE)
    table = run(llm.WordVector, {"tokens": labels})["embeddings"]
    king, man, woman = (table[labels.index(w)] for w in ("king", "man", "woman"))
    ask = {"queries": king - man + woman, "keys": table, "key_labels": labels}
    got = run(llm.CosineSimilarity, ask, exclude_self_words="king, man woman", top_k=2)
    assert got["top_k_labels"][0][0] == "queen"
    assert got["similarity"][0, labels.index("queen")] > 0.99


def test_words_of_a_kind_lie_near_each_other():
    assert len({tuple(v) for v in word_vectors.TABLE.values()}) == len(word_vectors.TABLE)
    got = run(llm.WordVector)
    assert got["labels"] == ["king", "queen", "man", "woman", "cat", "dog"] and got["embeddings"].shape == (6, 16)
    near = run(llm.CosineSimilarity, {"queries": got["embeddings"][4], "keys": got["embeddings"], "key_labels": got["labels"]})
    assert near["top_k_labels"][0][:2] == ["cat", "dog"]


def test_unknown_words():
    assert run(llm.WordVector, words="king, Xyzzy")["labels"] == ["king"]
    got = run(llm.WordVector, words="king xyzzy", keep_oov=True, normalize=True)
    assert got["labels"] == ["king", "xyzzy"] and "xyzzy" in got["__log__"]
    assert got["embeddings"].norm(dim=1).tolist() == pytest.approx([1, 0])
    assert run(llm.WordVector, {"tokens": [" king", "▁Queen"]})["labels"] == ["king", "Queen"]
    with pytest.raises(ValueError, match="none of the words is in the table"):
        run(llm.WordVector, words="xyzzy")


def test_similarity():
    """Proves B.3."""
    queries, keys = torch.randn(3, 5), torch.randn(4, 5)
    got = run(llm.CosineSimilarity, {"queries": queries, "keys": keys}, top_k=9)
    wanted = torch.nn.functional.cosine_similarity(queries[:, None], keys[None], dim=-1)
    torch.testing.assert_close(got["similarity"], wanted)
    assert got["top_k_indices"] == wanted.argsort(dim=1, descending=True).tolist()
    assert got["top_k_labels"][0] == [str(i) for i in got["top_k_indices"][0]]
    with pytest.raises(ValueError, match="4 keys and 1 key_labels"):
        run(llm.CosineSimilarity, {"queries": queries, "keys": keys, "key_labels": ["a"]})
    with pytest.raises(ValueError, match="queries have 5 values each and keys 4"):
        run(llm.CosineSimilarity, {"queries": queries, "keys": keys[:, :4]})


def test_principal_plane():
    decomposition = pytest.importorskip("sklearn.decomposition")
    vectors = torch.randn(30, 6, generator=torch.Generator().manual_seed(1)) * torch.tensor([5.0, 3, 1, 1, 1, 1])
    got = run(llm.EmbeddingScatter, {"embeddings": vectors})
    wanted = torch.tensor(decomposition.PCA(2).fit_transform(vectors.numpy()))
    torch.testing.assert_close(got["points_2d"].abs(), wanted.abs(), rtol=1e-3, atol=1e-3)
    assert got["labels"] == [str(i) for i in range(30)]
    assert run(llm.EmbeddingScatter, {"embeddings": vectors[:, :1]})["points_2d"].shape == (30, 2)


def test_neighbour_plane(monkeypatch):
    pytest.importorskip("sklearn.manifold")
    vectors = torch.randn(12, 6, generator=torch.Generator().manual_seed(1))
    ask = dict(method="t-SNE", perplexity=3.0, seed=4)
    got = run(llm.EmbeddingScatter, {"embeddings": vectors}, **ask)["points_2d"]
    assert got.shape == (12, 2)
    torch.testing.assert_close(run(llm.EmbeddingScatter, {"embeddings": vectors}, **ask)["points_2d"], got)
    with pytest.raises(ValueError, match=r"'perplexity' \(20\) must be less than the number of embeddings \(12\)"):
        run(llm.EmbeddingScatter, {"embeddings": vectors}, method="t-SNE", perplexity=20)
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(MissingPackage, match="the package scikit-learn is needed for method t-SNE"):
        run(llm.EmbeddingScatter, {"embeddings": vectors}, method="t-SNE")


@pytest.mark.parametrize("size", [6, 7, 1])
def test_sinusoidal_places(size):
    """Proves B.3."""
    x = torch.zeros(2, 4, size)
    got = run(llm.PositionalEncoding, {"tensor": x + 1})
    for place in range(4):
        for i in range(size):
            angle = torch.tensor(place / 10000 ** (2 * (i // 2) / size))
            assert got["pe"][place, i] == pytest.approx(float(angle.sin() if i % 2 == 0 else angle.cos()), abs=1e-5)
    torch.testing.assert_close(got["tensor"], x + 1 + got["pe"])


def test_learnable_places_follow_their_seed():
    x = torch.zeros(4, 6)
    got = run(llm.PositionalEncoding, {"tensor": x}, mode="learnable", max_len=9, seed=5)["pe"]
    torch.manual_seed(5)
    torch.testing.assert_close(got, torch.randn(9, 6)[:4] * 0.02)
    with pytest.raises(ValueError, match="4 steps and param 'max_len' is 3; raise it"):
        run(llm.PositionalEncoding, {"tensor": x}, max_len=3)


def test_masks():
    """Proves B.3."""
    inf = float("inf")
    assert run(llm.AttentionMask, {"tokens": ["a", "b", "c"]})["mask"].tolist() == [[0, -inf, -inf], [0, 0, -inf], [0, 0, 0]]
    assert run(llm.AttentionMask, {"tensor": torch.zeros(2, 5, 8)})["mask"].shape == (5, 5)
    got = run(llm.AttentionMask, {"tokens": ["a", "<pad>"]}, mode="padding")["mask"]
    assert got.tolist() == [[0, -inf]] * 2
    # Added to scores, it is the mask that torch's attention takes.
    scores = torch.randn(3, 3)
    shares = (scores + run(llm.AttentionMask, {"tensor": scores})["mask"]).softmax(-1)
    torch.testing.assert_close(shares, shares.tril())
    with pytest.raises(ValueError, match="wire 'tensor' or 'tokens'"):
        run(llm.AttentionMask)
    with pytest.raises(ValueError, match="wire 'tokens'"):
        run(llm.AttentionMask, {"tensor": scores}, mode="padding")


def test_heatmap_of_attention():
    """Proves B.3."""
    weights = torch.rand(2, 3, 4, 5)
    got = run(llm.AttentionHeatmap, {"weights": weights, "labels": list("abcde")})
    torch.testing.assert_close(got["weights"], weights[0].mean(0))
    assert got["labels"] == list("abcde")
    torch.testing.assert_close(run(llm.AttentionHeatmap, {"weights": weights}, head_index=2)["weights"], weights[0, 2])
    torch.testing.assert_close(run(llm.AttentionHeatmap, {"weights": weights[0, 0]})["weights"], weights[0, 0])
    with pytest.raises(ValueError, match="'head_index' is 3 and there are 3 heads"):
        run(llm.AttentionHeatmap, {"weights": weights}, head_index=3)
    with pytest.raises(ValueError, match="5 columns and there are 1 labels"):
        run(llm.AttentionHeatmap, {"weights": weights, "labels": ["a"]})
