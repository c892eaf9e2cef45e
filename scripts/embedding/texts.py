"""The training texts: WordNet's definitions and examples, and our own sentences about tools. `fields.txt` contains
some of our sentences, and lists from which the others are generated."""

import random
import re
from pathlib import Path

# Templates for user requests, for documentation, and for entries in a tool list.
ASKED = [
    "{do} {thing}", "{do} {thing} {where}", "{do} {thing} {where}", "{do} {thing} in {app}",
    "please {do} {thing}", "can you {do} {thing} {where}?", "I want to {do} {thing} {where}",
    "how do I {do} {thing}?", "{do} {thing} and {do2} {thing2}",
]
SPOKEN = [
    "{Does} {thing}.", "{Does} {thing} {where}.", "{Does} {thing} {where}.",
    "{Does} or {does2} {thing}.", "{Do} {thing} {where}", "A tool for {doing} {thing} {where}.",
    "Use this to {do} {thing} {where}.", "{Does} {thing} and {does2} {thing2} in {app}.",
    "{Kind}: {doing} {thing}, {doing2} {thing2}.",
]
LISTED = [
    "{app} {do} {bare}", "{app} {do} {bare}: {Does} {thing} {where}.",
    "{app} {do} {bare}: {Do} {thing} {where}.", "{kind} {do} {bare}: {Does} {thing}.",
    "{do} {bare}: {Does} {thing}.", "{app} {do} {bare}: {Does} {thing} {where}. {said}",
    "{app} {kind} {do} {bare}: {Does} {thing}. Use this to {do2} {thing2} {where}.",
]
# Verbs of several syllables that double the last letter before `ing`.
DOUBLED = set("commit debug embed forget format reset rerun submit transfer unzip".split())


def fields(path):
    """Parses `fields.txt`: for each field its kind, services, actions with their objects, places, user requests, and
    documentation sentences."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        mark, rest = line[:2], line[2:]
        if mark == "= ":
            kind, apps = rest.split(": ")
            found.append({"kind": kind, "apps": apps.split(", "), "pairs": []})
        elif mark == "@ ":
            found[-1]["places"] = rest.split(", ")
        elif mark == "? ":
            found[-1]["asked"] = rest.split("; ")
        elif mark == "! ":
            found[-1]["said"] = rest.split("; ")
        else:
            verbs, things = line.split(": ")
            found[-1]["pairs"].append((verbs.split("|"), things.split(", ")))
    return found


def third(verb):
    """Third person singular: `copy to` becomes `copies to`."""
    first, *rest = verb.split()
    if re.search("[^aeiou]y$", first):
        first = first[:-1] + "ie"
    elif re.search("(s|x|z|ch|sh|o)$", first):
        first += "e"
    return " ".join([first + "s", *rest])


def doing(verb):
    """Present participle: `copy to` becomes `copying to`."""
    first, *rest = verb.split()
    if first in DOUBLED or re.fullmatch("[^aeiou]*[aeiou][bdgmnprt]", first):
        first += first[-1]
    elif re.search("[^e]e$", first):
        first = first[:-1]
    return " ".join([first + "ing", *rest])


def capital(text):
    return text[0].upper() + text[1:]


def sentences(path, count, seed=1):
    """Returns `count` distinct sentences: all written ones, with and without a service or its kind in front, then
    generated ones."""
    chance = random.Random(seed)
    everything = fields(path)
    made = {}
    for field in everything:
        kind, apps, written = field["kind"], field["apps"], field["asked"] + field["said"]
        made.update((f"{app}: {kind}", None) for app in apps)
        made.update((text, None) for text in written)
        made.update((f"{kind}: {text}", None) for text in field["said"])
        made.update((f"{chance.choice(apps)}: {text}", None) for text in written)
    while len(made) < count:
        field = chance.choice(everything)
        (verbs, things), (verbs2, things2) = chance.choices(field["pairs"], k=2)
        verb, verb2, thing = chance.choice(verbs), chance.choice(verbs2), chance.choice(things)
        frame = chance.choice(chance.choice([ASKED, SPOKEN, LISTED]))
        text = frame.format(
            do=verb, Do=capital(verb), Does=capital(third(verb)), doing=doing(verb),
            thing=thing, bare=re.sub("^(a|an|the|my) ", "", thing),
            where=chance.choice(field["places"]),
            do2=verb2, doing2=doing(verb2), does2=third(chance.choice(verbs)),
            thing2=chance.choice(things2),
            app=chance.choice(field["apps"]), kind=field["kind"], Kind=capital(field["kind"]),
            said=chance.choice(field["said"]),
        )
        made[text] = None
    return list(made)


def wordnet(folder, count, seed=2):
    """Definitions with and without the defined word, and examples."""
    found = {}
    for part in ("noun", "verb", "adj", "adv"):
        for line in (Path(folder) / f"data.{part}").read_text(encoding="latin-1").splitlines():
            if line.startswith("  "):
                continue
            head, gloss = line.split(" | ", 1)
            fields = head.split()
            words = [fields[4 + 2 * index].replace("_", " ") for index in range(int(fields[3], 16))]
            words = [re.sub(r"\((a|p|ip)\)$", "", word) for word in words]
            examples = re.findall(r'"([^"]+)"', gloss)
            definition = gloss.split('; "')[0].strip()
            if definition.startswith('"'):
                continue
            found[definition] = None
            found[f"{', '.join(words[:4])}: {definition}"] = None
            found.update((example, None) for example in examples)
    found = [text for text in found if 2 < len(text.split()) < 30]
    random.Random(seed).shuffle(found)
    return found[:count]
