"""The teacher model, all-MiniLM-L6-v2, in plain numpy."""

import json
import re
import struct
import unicodedata
from pathlib import Path

import numpy

LAYERS = 6
HEADS = 12
MAX_TOKENS = 128
# Tokens per batch, including padding.
BATCH = 1024


def read_safetensors(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        flat = numpy.frombuffer(data[start:end], dtype="<f4")
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


class Pieces:
    """The uncased WordPiece vocabulary."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as lines:
            self.names = [line.rstrip("\n") for line in lines]
        self.ids = {name: index for index, name in enumerate(self.names)}
        self.known = {}

    def of_word(self, word):
        """Splits a word greedily into the longest pieces; empty if the vocabulary can't spell the word."""
        if word not in self.known:
            found, start = [], 0
            while start < len(word):
                mark = "##" if start else ""
                ends = range(len(word), start, -1)
                end = next((e for e in ends if mark + word[start:e] in self.ids), None)
                if end is None:
                    found = []
                    break
                found.append(self.ids[mark + word[start:end]])
                start = end
            self.known[word] = found
        return self.known[word]

    def of_text(self, text):
        plain = unicodedata.normalize("NFD", text.lower())
        plain = "".join(c for c in plain if unicodedata.category(c) != "Mn")
        words = re.findall(r"[^\W_]+|[^\w\s]|_", plain)
        unknown = [self.ids["[UNK]"]]
        pieces = [piece for word in words for piece in self.of_word(word) or unknown]
        return [self.ids["[CLS]"], *pieces[: MAX_TOKENS - 2], self.ids["[SEP]"]]


class Teacher:
    def __init__(self, folder):
        folder = Path(folder)
        self.weights = read_safetensors(folder / "model.safetensors")
        self.pieces = Pieces(folder / "vocab.txt")

    def vectors(self, texts):
        """One unit vector per text."""
        return self.vectors_of_pieces([self.pieces.of_text(text) for text in texts])

    def vectors_of_pieces(self, tokens):
        order = sorted(range(len(tokens)), key=lambda index: len(tokens[index]))
        result = numpy.empty((len(tokens), 384), dtype=numpy.float32)
        start = 0
        while start < len(order):
            size = 1
            while start + size < len(order) and (size + 1) * len(tokens[order[start + size]]) <= BATCH:
                size += 1
            batch = order[start : start + size]
            result[batch] = self._batch([tokens[index] for index in batch])
            start += size
        return result

    def _batch(self, tokens):
        longest = max(map(len, tokens))
        ids = numpy.zeros((len(tokens), longest), dtype=numpy.int64)
        mask = numpy.zeros((len(tokens), longest), dtype=numpy.float32)
        for row, line in enumerate(tokens):
            ids[row, : len(line)] = line
            mask[row, : len(line)] = 1
        state = self.weights["embeddings.word_embeddings.weight"][ids]
        state = state + self.weights["embeddings.position_embeddings.weight"][:longest]
        state = state + self.weights["embeddings.token_type_embeddings.weight"][0]
        state = self._norm(state, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            state = self._layer(state, mask, f"encoder.layer.{layer}")
        mean = (state * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return mean / numpy.linalg.norm(mean, axis=1, keepdims=True)

    def _layer(self, state, mask, name):
        count, length, width = state.shape

        def heads(part):
            value = self._linear(state, f"{name}.attention.self.{part}")
            return value.reshape(count, length, HEADS, width // HEADS).transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2)
        scores = scores / numpy.sqrt(numpy.float32(width // HEADS))
        scores = scores + (mask[:, None, None, :] - 1) * numpy.float32(1e9)
        scores = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
        scores = scores / scores.sum(axis=-1, keepdims=True)
        seen = (scores @ heads("value")).transpose(0, 2, 1, 3).reshape(count, length, width)
        seen = self._linear(seen, f"{name}.attention.output.dense")
        state = self._norm(seen + state, f"{name}.attention.output.LayerNorm")
        inner = gelu(self._linear(state, f"{name}.intermediate.dense"))
        inner = self._linear(inner, f"{name}.output.dense")
        return self._norm(inner + state, f"{name}.output.LayerNorm")

    def _linear(self, state, name):
        flat = state.reshape(-1, state.shape[-1]) @ self.weights[f"{name}.weight"].T
        return (flat + self.weights[f"{name}.bias"]).reshape(*state.shape[:-1], -1)

    def _norm(self, state, name):
        centred = state - state.mean(axis=-1, keepdims=True)
        scale = numpy.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return centred / scale * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def gelu(x):
    """GELU with the usual tanh approximation."""
    inner = x * (1 + numpy.float32(0.044715) * x * x)
    return x * (1 + numpy.tanh(numpy.float32(0.7978845608) * inner)) * numpy.float32(0.5)
