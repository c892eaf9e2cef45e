#!/usr/bin/env python3
"""Makes `src/catalog/rank/words.bin`, the table of word vectors that search mixes with BM25.

usage: make.py --model FOLDER --wordnet FOLDER --work FOLDER OUTPUT

Every piece of the teacher's vocabulary gets a vector such that the mean over a text's pieces points
where the teacher's vector of that text does. README.md beside this says where the inputs come from.
What takes long is kept in the work folder.
"""

import argparse
import hashlib
import re
import struct
from pathlib import Path

import numpy

import texts
from teacher import Teacher

DIMENSIONS = 128
WORDNET_TEXTS = 18_000
OWN_SENTENCES = 8_000
EPOCHS = 12
BATCH = 256
RATE = 0.003
SEED = 7


def words_of(text):
    """The words of a text, as `plain_words` of `src/catalog/rank/text.rs` takes it apart."""
    runs = re.findall(r"[^\W_]+", text)
    split = r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\WA-Z0-9_]+|[A-Z]+|[0-9]+"
    return [part.lower() for run in runs for part in re.findall(split, run)]


def kept(path, make):
    """What `make` gives, from the file where that was done before."""
    if not path.exists():
        numpy.save(path, make())
    return numpy.load(path)


def name_of(lines):
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--wordnet", required=True, type=Path)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)

    teacher = Teacher(options.model)
    names = teacher.pieces.names
    chosen = [index for index, name in enumerate(names) if re.fullmatch(r"(##)?[a-z0-9]+", name)]
    row_of = {piece: row for row, piece in enumerate(chosen)}
    start = kept(
        options.work / f"pieces-{len(chosen)}.npy",
        lambda: teacher.vectors_of_pieces(
            [[teacher.pieces.ids["[CLS]"], piece, teacher.pieces.ids["[SEP]"]] for piece in chosen]
        ),
    )
    lines = texts.wordnet(options.wordnet, WORDNET_TEXTS) + texts.sentences(OWN_SENTENCES)
    taught = kept(options.work / f"texts-{name_of(lines)}.npy", lambda: teacher.vectors(lines))
    print(f"{len(chosen)} pieces, {len(lines)} texts")

    axes = numpy.linalg.svd(taught.T @ taught)[0][:, :DIMENSIONS]
    goals = unit(taught @ axes)
    rows = []
    for line in lines:
        pieces = (piece for word in words_of(line) for piece in teacher.pieces.of_word(word))
        rows.append([row_of[piece] for piece in pieces if piece in row_of])
    table = fit(unit(start @ axes), rows, goals)
    write(options.output, [names[piece] for piece in chosen], table)


def unit(vectors):
    return vectors / numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def fit(table, rows, goals):
    """Moves the vectors until the means point where they should (Adam on one less the cosine)."""
    chance = numpy.random.default_rng(SEED)
    first, second = numpy.zeros_like(table), numpy.zeros_like(table)
    step = 0
    usable = numpy.array([index for index, row in enumerate(rows) if row])
    total = EPOCHS * (len(usable) // BATCH + 1)
    for epoch in range(EPOCHS):
        loss = 0.0
        for batch in numpy.array_split(chance.permutation(usable), len(usable) // BATCH + 1):
            lengths = numpy.array([len(rows[index]) for index in batch], dtype=numpy.float32)
            flat = numpy.concatenate([rows[index] for index in batch])
            starts = numpy.concatenate([[0], numpy.cumsum(lengths)[:-1]]).astype(int)
            means = numpy.add.reduceat(table[flat], starts) / lengths[:, None]
            norms = numpy.maximum(numpy.linalg.norm(means, axis=1, keepdims=True), 1e-9)
            cosines = (means / norms * goals[batch]).sum(axis=1, keepdims=True)
            loss += float((1 - cosines).sum())
            slope = (cosines * means / norms - goals[batch]) / norms / lengths[:, None]
            slope = numpy.repeat(slope / numpy.float32(len(batch)), lengths.astype(int), axis=0)
            gradient = numpy.zeros_like(table)
            numpy.add.at(gradient, flat, slope)
            step += 1
            rate = numpy.float32(RATE * (1 - step / (total + 1)))
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            corrected = second / numpy.float32(1 - 0.999**step)
            table = table - rate * (first / numpy.float32(1 - 0.9**step)) / (numpy.sqrt(corrected) + numpy.float32(1e-8))
        print(f"epoch {epoch + 1}: {loss / len(usable):.4f}", flush=True)
    return table.astype(numpy.float32)


def write(path, names, table):
    """How many pieces there are, where each name ends, the names in order of their bytes, and for
    each a scale and its numbers."""
    order = sorted(range(len(names)), key=lambda index: names[index].encode())
    scales = numpy.abs(table).max(axis=1) / 127
    numbers = numpy.rint(table / scales[:, None]).astype(numpy.int8)
    encoded = [names[index].encode() for index in order]
    with open(path, "wb") as out:
        out.write(struct.pack("<I", len(names)))
        out.write(numpy.cumsum([len(name) for name in encoded]).astype("<u4").tobytes())
        out.write(b"".join(encoded))
        out.write(scales[order].astype("<f4").tobytes())
        out.write(numbers[order].tobytes())


if __name__ == "__main__":
    main()
