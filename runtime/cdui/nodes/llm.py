"""LLM: tokens, word vectors and the parts of attention.

L and S are lengths, D is the size of a vector.
"""

from __future__ import annotations

import math
from typing import Any, Mapping

from cdui.node import Node, Param, Port, need
from cdui.nodes import tokenizing, word_vectors
from cdui.nodes.modules import as_float

EXAMPLE_TEXT = "The quick brown fox jumps over the lazy dog."


class Tokenizer(Node):
    NODE_NAME = "Tokenizer"
    CATEGORY = "LLM"
    DESCRIPTION = "Cuts a text into the tokens of a family of models."
    DETAILS = ("A family's own vocabulary is used where tiktoken or transformers and its files are on this machine. Else a "
               "stand-in cuts words, punctuation and bytes; its ids are stable but not the family's, and the log says so.")

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("text", "STRING", "the text; param text if unwired", optional=True)]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("tokens", "LIST", "the tokens as texts"),
            Port("token_ids", "LIST", "the id of each token"),
            Port("offsets", "LIST", "[start, end) of each token in characters of the text"),
        ]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("family", "select", "cl100k_base", "whose tokens", options=tuple(tokenizing.FAMILIES)),
            Param("text", "string", EXAMPLE_TEXT, "the text where none is wired"),
            Param("show_special_tokens", "bool", False, "whether the tokens that mark start and end are added"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        text = inputs.get("text")
        text = str(params["text"] if text is None else text)
        tokens, note = tokenizing.tokenize(params["family"], text, bool(params["show_special_tokens"]))
        return {
            "tokens": [t.text for t in tokens],
            "token_ids": [t.id for t in tokens],
            "offsets": [[t.start, t.end] for t in tokens],
            "__log__": f"{len(tokens)} tokens; {note}",
        }


class WordVector(Node):
    NODE_NAME = "WordVector"
    CATEGORY = "LLM"
    DESCRIPTION = "Looks up a vector for each word in a small table made by hand for demonstration."
    DETAILS = "In the table king - man + woman is nearest to queen. Words count in lower case."

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tokens", "LIST", "the words; param words if unwired", optional=True)]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("embeddings", "TENSOR", "(words, 16)"), Port("labels", "LIST", "the words that the rows stand for")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("backend", "select", "demo-16d", "the table", options=("demo-16d",)),
            Param("words", "string", "king queen man woman cat dog", "words with blanks or commas between them, where none are wired"),
            Param("normalize", "bool", False, "whether each vector is scaled to length 1"),
            Param("keep_oov", "bool", False, "whether a word that the table lacks gets a vector of zeros; else it is left out"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        import torch

        if params["backend"] != "demo-16d":
            raise ValueError(f"param 'backend' is {params['backend']!r}; choose demo-16d")
        tokens = inputs.get("tokens")
        given = str(params["words"]).replace(",", " ").split() if tokens is None else [str(t) for t in tokens]
        labels, rows, unknown = [], [], []
        for word in given:
            # Tokens of byte families carry the blank before them.
            row = word_vectors.vector(word.strip(" ▁").lower())
            if row is None:
                unknown.append(word)
                row = [0.0] * len(word_vectors.FEATURES)
                if not params["keep_oov"]:
                    continue
            labels.append(word.strip(" ▁"))
            rows.append(row)
        if not rows:
            raise ValueError(f"none of the words is in the table ({', '.join(unknown) or 'no words given'}); give others or set keep_oov")
        embeddings = torch.tensor(rows)
        if params["normalize"]:
            embeddings = torch.nn.functional.normalize(embeddings, dim=1)
        found: dict[str, Any] = {"embeddings": embeddings.to(context.device), "labels": labels}
        if unknown:
            found["__log__"] = f"not in the table: {', '.join(unknown)}"
        return found


class CosineSimilarity(Node):
    NODE_NAME = "CosineSimilarity"
    CATEGORY = "LLM"
    DESCRIPTION = "Compares each query vector with each key vector and lists the nearest keys."

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("queries", "TENSOR", "(Q, D) or (D)"),
            Port("keys", "TENSOR", "(K, D) or (D)"),
            Port("key_labels", "LIST", "the name of each key; its number if unwired", optional=True),
        ]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("similarity", "TENSOR", "(Q, K), -1 to 1"),
            Port("top_k_indices", "LIST", "for each query the numbers of its nearest keys"),
            Port("top_k_labels", "LIST", "for each query the names of its nearest keys"),
        ]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("top_k", "int", 5, "how many keys are listed; fewer where there are fewer", min_value=1),
            Param("exclude_self_words", "string", "", "names that are not listed, with blanks or commas between them"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        queries, keys = (as_float(inputs[n]).reshape(-1, inputs[n].shape[-1]) for n in ("queries", "keys"))
        if queries.shape[1] != keys.shape[1]:
            raise ValueError(f"queries have {queries.shape[1]} values each and keys {keys.shape[1]}; they must be of one size")
        names = inputs.get("key_labels")
        labels = [str(i) for i in range(len(keys))] if names is None else [str(n) for n in names]
        if len(labels) != len(keys):
            raise ValueError(f"there are {len(keys)} keys and {len(labels)} key_labels; give one label for each key")
        normal = torch.nn.functional.normalize
        similarity = normal(queries, dim=1) @ normal(keys.to(queries), dim=1).T
        excluded = set(str(params["exclude_self_words"]).replace(",", " ").lower().split())
        allowed = [i for i, label in enumerate(labels) if label.lower() not in excluded]
        # Equal similarities keep the order of the keys.
        nearest = [sorted(allowed, key=lambda i: -row[i])[:params["top_k"]] for row in similarity.tolist()]
        return {
            "similarity": similarity,
            "top_k_indices": nearest,
            "top_k_labels": [[labels[i] for i in row] for row in nearest],
        }


class EmbeddingScatter(Node):
    NODE_NAME = "EmbeddingScatter"
    CATEGORY = "LLM"
    DESCRIPTION = "Lays vectors out in the plane, near ones near each other."
    DETAILS = "PCA is computed with torch; of each axis the largest weight is positive. t-SNE needs scikit-learn."
    align_inputs = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("embeddings", "TENSOR", "(n, D)"), Port("labels", "LIST", "the name of each vector; its number if unwired", optional=True)]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("points_2d", "TENSOR", "(n, 2) on the CPU"), Port("labels", "LIST", "the name of each point")]

    @classmethod
    def params(cls) -> list[Param]:
        tsne = {"method": "t-SNE"}
        return [
            Param("method", "select", "PCA", "how they are laid out", options=("PCA", "t-SNE")),
            Param("perplexity", "float", 5.0, "about how many neighbours count; less than n", min_value=2.0, max_value=50.0, visible_when=tsne),
            Param("seed", "int", 42, "settles the layout", visible_when=tsne),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        vectors = as_float(inputs["embeddings"]).detach().cpu().float()
        if vectors.dim() != 2 or len(vectors) < 2:
            raise ValueError(f"the embeddings have the shape {list(vectors.shape)}; wanted is (n, D) with 2 or more rows")
        names = inputs.get("labels")
        labels = [str(i) for i in range(len(vectors))] if names is None else [str(n) for n in names]
        if len(labels) != len(vectors):
            raise ValueError(f"there are {len(vectors)} embeddings and {len(labels)} labels; give one label for each")
        if params["method"] == "PCA":
            return {"points_2d": principal_plane(vectors), "labels": labels}
        if params["method"] != "t-SNE":
            raise ValueError(f"param 'method' is {params['method']!r}; choose PCA or t-SNE")
        return {"points_2d": neighbour_plane(vectors, params["perplexity"], params["seed"]), "labels": labels}


def principal_plane(vectors: Any) -> Any:
    """Projects ``(n, D)`` on the two directions of largest variance."""
    import torch

    centred = vectors - vectors.mean(dim=0)
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    directions = directions[:2]
    # The sign of a direction is free; fixed by its largest weight.
    largest = directions.abs().argmax(dim=1, keepdim=True)
    directions = directions * directions.gather(1, largest).sign()
    points = centred @ directions.T
    return torch.nn.functional.pad(points, (0, 2 - points.shape[1]))


def neighbour_plane(vectors: Any, perplexity: float, seed: int) -> Any:
    import torch

    if perplexity >= len(vectors):
        raise ValueError(f"param 'perplexity' ({perplexity:g}) must be less than the number of embeddings ({len(vectors)}); lower it")
    manifold = need("sklearn.manifold", "scikit-learn", "method t-SNE")
    layout = manifold.TSNE(n_components=2, perplexity=perplexity, random_state=seed, init="pca", learning_rate="auto")
    return torch.tensor(layout.fit_transform(vectors.numpy()), dtype=torch.float32)


class PositionalEncoding(Node):
    NODE_NAME = "PositionalEncoding"
    CATEGORY = "LLM"
    DESCRIPTION = "Adds to each step of a sequence a vector that tells its place."

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", "(..., L, D)")]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", "the input plus pe, (..., L, D)"), Port("pe", "TENSOR", "the vectors of the places, (L, D)")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("mode", "select", "sinusoidal", "sines and cosines, or start values for learning", options=("sinusoidal", "learnable")),
            Param("max_len", "int", 512, "longest sequence L", min_value=1),
            Param("seed", "int", 42, "settles the start values", visible_when={"mode": "learnable"}),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        tensor = as_float(inputs["tensor"])
        if tensor.dim() < 2:
            raise ValueError(f"the tensor has the shape {list(tensor.shape)}; wanted is (..., L, D)")
        length, size = tensor.shape[-2:]
        if length > params["max_len"]:
            raise ValueError(f"the sequence has {length} steps and param 'max_len' is {params['max_len']}; raise it")
        if params["mode"] == "learnable":
            generator = torch.Generator().manual_seed(params["seed"])
            pe = torch.randn(params["max_len"], size, generator=generator)[:length] * 0.02
        elif params["mode"] == "sinusoidal":
            places = torch.arange(length, dtype=torch.float32).unsqueeze(1)
            rates = torch.exp(torch.arange(0, size, 2, dtype=torch.float32) * (-math.log(10000.0) / size))
            pe = torch.zeros(length, size)
            pe[:, 0::2] = torch.sin(places * rates)
            pe[:, 1::2] = torch.cos(places * rates)[:, : size // 2]
        else:
            raise ValueError(f"param 'mode' is {params['mode']!r}; choose sinusoidal or learnable")
        pe = pe.to(tensor)
        return {"tensor": tensor + pe, "pe": pe}


class AttentionMask(Node):
    NODE_NAME = "AttentionMask"
    CATEGORY = "LLM"
    DESCRIPTION = "A mask to add to attention scores: 0 where a step may look, minus infinity where not."
    DETAILS = "causal hides later steps; padding hides steps that are pad_token."

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("tensor", "TENSOR", "gives the length: (..., L, D), or (L)", optional=True),
            Port("tokens", "LIST", "gives the length, and the padding", optional=True),
        ]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("mask", "TENSOR", "(L, L): row looks, column is looked at")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("mode", "select", "causal", "what is hidden", options=("causal", "padding")),
            Param("pad_token", "string", "<pad>", "the token that fills up", visible_when={"mode": "padding"}),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        import torch

        tensor, tokens = inputs.get("tensor"), inputs.get("tokens")
        if tokens is not None:
            length = len(tokens)
        elif tensor is not None and tensor.dim():
            length = tensor.shape[-2] if tensor.dim() > 1 else tensor.shape[0]
        else:
            raise ValueError("the mask needs a length; wire 'tensor' or 'tokens'")
        if params["mode"] == "causal":
            hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        elif params["mode"] != "padding":
            raise ValueError(f"param 'mode' is {params['mode']!r}; choose causal or padding")
        elif tokens is None:
            raise ValueError("mode padding needs the tokens; wire 'tokens'")
        else:
            hidden = torch.tensor([str(t) == params["pad_token"] for t in tokens], dtype=torch.bool).expand(length, length)
        return {"mask": torch.zeros(length, length).masked_fill(hidden, -math.inf).to(context.device)}


class AttentionHeatmap(Node):
    NODE_NAME = "AttentionHeatmap"
    CATEGORY = "LLM"
    DESCRIPTION = "Chooses the attention of one head, or the average of all, to be shown as a heat map."
    DETAILS = "colormap is for who shows the values; it doesn't change them. Of a batch the first entry is taken."
    align_inputs = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("weights", "TENSOR", "(N, heads, L, S), (heads, L, S) or (L, S)"),
            Port("labels", "LIST", "the name of each step; its number if unwired", optional=True),
        ]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("weights", "TENSOR", "(L, S) on the CPU"), Port("labels", "LIST", "the name of each column")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("head_index", "int", -1, "the head; -1 for the average"),
            Param("colormap", "select", "viridis", "colours of the map", options=("viridis", "blues", "RdBu")),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        weights, head = as_float(inputs["weights"]).detach().cpu(), params["head_index"]
        if not 2 <= weights.dim() <= 4:
            raise ValueError(f"the weights have the shape {list(weights.shape)}; wanted is (N, heads, L, S), (heads, L, S) or (L, S)")
        if weights.dim() == 4:
            weights = weights[0]
        if weights.dim() == 3:
            if head >= len(weights):
                raise ValueError(f"param 'head_index' is {head} and there are {len(weights)} heads; choose 0 to {len(weights) - 1}, or -1")
            weights = weights.mean(dim=0) if head < 0 else weights[head]
        names = inputs.get("labels")
        labels = [str(i) for i in range(weights.shape[1])] if names is None else [str(n) for n in names]
        if len(labels) != weights.shape[1]:
            raise ValueError(f"the weights have {weights.shape[1]} columns and there are {len(labels)} labels; give one for each")
        return {"weights": weights, "labels": labels}


NODES = [
    AttentionHeatmap, AttentionMask, CosineSimilarity, EmbeddingScatter, PositionalEncoding, Tokenizer, WordVector,
]
