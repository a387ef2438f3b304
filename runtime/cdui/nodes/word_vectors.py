"""The vectors of the backend demo-16d: 16 named features for each word.

They are written by hand to show what word vectors do: words that share
features lie near each other, and king - man + woman is queen, since the two
differ from man and woman by the same features. Nothing was learned from text.
"""

from __future__ import annotations

import hashlib

#: What each of the 16 numbers says.
FEATURES = (
    "person", "male", "female", "royal", "young", "animal", "pet", "wild",
    "food", "place", "nature", "motion", "machine", "mind", "good", "many",
)

#: Groups of words: the features that all words of the group have, and the words
#: with the features that each adds.
_TABLE = (
    ("person", "person human child:young baby:young,young student:young,mind teacher:mind doctor:mind,good friend:good people:many"),
    ("person male", "man boy:young father brother:young husband uncle grandfather actor:mind he king:royal prince:royal,young"),
    ("person female", "woman girl:young mother sister:young wife aunt grandmother actress:mind she queen:royal princess:royal,young"),
    ("royal", "throne:place crown:good castle:place,place kingdom:place,many palace:place royal"),
    ("animal", "animal cow:food sheep:food,many horse:motion chicken:food fish:food,nature bird:motion,nature mouse:young"),
    ("animal pet", "cat dog:good,motion kitten:young puppy:young,good,motion rabbit:young hamster:young"),
    ("animal wild", "lion tiger wolf:many bear elephant fox eagle:motion snake monkey:mind"),
    ("food", "food:good apple:nature banana:nature orange:nature bread cheese milk coffee tea pizza rice:many water:nature"),
    ("place", "city:many town house:good home:good,good school:mind,many hospital:good office:mind country:many village "
              "paris:good,many france:many london:mind,many england:many rome:many italy:many berlin:many germany:many"),
    ("nature", "tree forest:many,place river:motion sea:many,motion mountain:place sun:good moon star:many rain:motion flower:good sky fire"),
    ("motion", "run walk:mind jump:young fly:nature swim:nature jumps:young runs quick fast slow:nature over"),
    ("machine", "machine computer:mind phone:mind robot:mind,motion car:motion train:motion,many plane:motion,nature bicycle:motion,good"),
    ("mind", "idea thought book:many word:many language:many music:good art:good science:many love:good,good hate think learn:good"),
    ("good", "good:good great:good,many happy:mind beautiful:nature nice best:good,many"),
    ("many", "many more all big world:place,nature"),
)

#: How far the words of equal features stand apart.
_APART = 0.05


def vector(word: str) -> list[float] | None:
    """The 16 numbers of a word, or None where the table lacks it."""
    return TABLE.get(word)


def _build() -> dict[str, list[float]]:
    table = {}
    for shared, words in _TABLE:
        for entry in words.split():
            word, _, own = entry.partition(":")
            values = [0.0] * len(FEATURES)
            for feature in shared.split() + [f for f in own.split(",") if f]:
                values[FEATURES.index(feature)] += 1.0
            # A small mark of the word itself keeps words of equal features apart.
            marks = hashlib.blake2b(word.encode(), digest_size=len(FEATURES)).digest()
            table[word] = [round(v + _APART * (m / 127.5 - 1), 6) for v, m in zip(values, marks)]
    return table


TABLE = _build()
