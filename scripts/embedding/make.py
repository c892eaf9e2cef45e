#!/usr/bin/env python3
"""Builds `crates/core/src/catalog/rank/words.bin`, the table of word vectors that search combines with BM25.

usage: make.py --model FOLDER --wordnet FOLDER --work FOLDER OUTPUT

Each word piece in the teacher's vocabulary gets a vector, so that the mean over a text's pieces points in the
direction of the teacher's vector of the text, relative to the mean of all texts. For the inputs, see README.md.
The work folder caches the slow steps.
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
OWN_SENTENCES = 48_000
# Texts per checkpoint of the teacher's output.
PART = 2_000
# Ridge regularization of the initial linear fit.
RIDGE = 1.0
EPOCHS = 12
BATCH = 256
RATE = 0.003
SEED = 7


def words_of(text):
    """Splits a text into words. Must match `plain_words` in `crates/core/src/catalog/rank/tokenizer.rs`."""
    runs = re.findall(r"[^\W_]+", text)
    split = r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\WA-Z0-9_]+|[A-Z]+|[0-9]+"
    return [part.lower() for run in runs for part in re.findall(split, run)]


def kept(path, make):
    """Caches the result of `make` in a file."""
    if not path.exists():
        numpy.save(path, make())
    return numpy.load(path)


def taught(teacher, work, lines):
    """The teacher's vectors of texts, computed in resumable parts."""
    parts = []
    for start in range(0, len(lines), PART):
        part = lines[start : start + PART]
        name = hashlib.sha256("\n".join(part).encode()).hexdigest()[:12]
        parts.append(kept(work / f"texts-{name}.npy", lambda: teacher.vectors(part)))
        print(f"{start + len(part)} of {len(lines)} texts", flush=True)
    return numpy.concatenate(parts)


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
    alone = kept(
        options.work / f"pieces-{len(chosen)}.npy",
        lambda: teacher.vectors_of_pieces(
            [[teacher.pieces.ids["[CLS]"], piece, teacher.pieces.ids["[SEP]"]] for piece in chosen]
        ),
    )
    lines = texts.wordnet(options.wordnet, WORDNET_TEXTS)
    lines += texts.sentences(Path(__file__).with_name("fields.txt"), OWN_SENTENCES)
    goals = taught(teacher, options.work, lines)

    rows = []
    for line in lines:
        pieces = (piece for word in words_of(line) for piece in teacher.pieces.of_word(word))
        rows.append([row_of[piece] for piece in pieces if piece in row_of])
    usable = [index for index, row in enumerate(rows) if row]
    rows, goals = [rows[index] for index in usable], goals[usable]

    goals = unit(goals - goals.mean(axis=0))
    means = numpy.array([alone[row].mean(axis=0) for row in rows])
    map_ = numpy.linalg.solve(means.T @ means + RIDGE * numpy.eye(means.shape[1]), means.T @ goals)
    axes = numpy.linalg.svd(goals.T @ goals)[0][:, :DIMENSIONS]
    table = fit((alone @ map_ @ axes).astype(numpy.float32), rows, unit(goals @ axes))
    write(options.output, [names[piece] for piece in chosen], table)


def unit(vectors):
    return vectors / numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def fit(table, rows, goals):
    """Trains the vectors with Adam on the loss 1 - cosine, updating only the pieces in each batch."""
    chance = numpy.random.default_rng(SEED)
    first, second = numpy.zeros_like(table), numpy.zeros_like(table)
    batches = len(rows) // BATCH + 1
    step = 0
    for epoch in range(EPOCHS):
        loss = 0.0
        for batch in numpy.array_split(chance.permutation(len(rows)), batches):
            lengths = numpy.array([len(rows[index]) for index in batch])
            flat = numpy.concatenate([rows[index] for index in batch])
            starts = numpy.cumsum(lengths) - lengths
            sizes = lengths[:, None].astype(numpy.float32)
            means = numpy.add.reduceat(table[flat], starts) / sizes
            norms = numpy.maximum(numpy.linalg.norm(means, axis=1, keepdims=True), 1e-9)
            cosines = (means / norms * goals[batch]).sum(axis=1, keepdims=True)
            loss += float((1 - cosines).sum())
            slopes = (cosines * means / norms - goals[batch]) / norms / sizes / len(batch)
            pieces, places = numpy.unique(flat, return_inverse=True)
            gradient = numpy.zeros((len(pieces), table.shape[1]), dtype=numpy.float32)
            numpy.add.at(gradient, places, numpy.repeat(slopes, lengths, axis=0))
            step += 1
            rate = RATE * (1 - step / (EPOCHS * batches + 1))
            first[pieces] += 0.1 * (gradient - first[pieces])
            second[pieces] += 0.001 * (gradient**2 - second[pieces])
            move = first[pieces] / (1 - 0.9**step)
            table[pieces] -= rate * move / (numpy.sqrt(second[pieces] / (1 - 0.999**step)) + 1e-8)
        print(f"epoch {epoch + 1}: {loss / len(rows):.4f}", flush=True)
    return table


def rounded(table):
    """Quantizes each vector to a scale and integers from -7 to 7 with the least error. Clipping the largest values may
    be better than a larger step."""
    most = numpy.abs(table).max(axis=1)
    scales, least = most / 7, numpy.full(len(table), numpy.inf)
    for part in numpy.linspace(0.5, 1, 26):
        tried = most * part / 7
        apart = (in_steps(table, tried) * tried[:, None] - table) ** 2
        is_nearer = apart.sum(axis=1) < least
        least[is_nearer], scales[is_nearer] = apart.sum(axis=1)[is_nearer], tried[is_nearer]
    return scales, in_steps(table, scales)


def in_steps(table, scales):
    return numpy.clip(numpy.rint(table / scales[:, None]), -7, 7)


def write(path, names, table):
    """File format: the number of pieces, the end offset of each name, the names in byte order, and for each piece a
    scale and its numbers at 4 bits each."""
    order = sorted(range(len(names)), key=lambda index: names[index].encode())
    scales, numbers = rounded(table)
    halves = (numbers + 8).astype(numpy.uint8)
    numbers = halves[:, 0::2] | halves[:, 1::2] << 4
    encoded = [names[index].encode() for index in order]
    with open(path, "wb") as out:
        out.write(struct.pack("<I", len(names)))
        out.write(numpy.cumsum([len(name) for name in encoded]).astype("<u4").tobytes())
        out.write(b"".join(encoded))
        out.write(scales[order].astype("<f4").tobytes())
        out.write(numbers[order].tobytes())


if __name__ == "__main__":
    main()
