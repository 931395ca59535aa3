"""Parse a number of texts, and print the texts with a wrong result."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from itertools import islice

from tests.fuzz.texts import Fault, Texts, fault


def main() -> int:
    """Exit code 1 when there are some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    given = parser.parse_args()
    print(f"{given.texts:,} texts, seed {given.seed}", flush=True)
    faults, kinds, began = 0, Counter[str](), time.monotonic()
    for number, text in enumerate(islice(Texts(given.seed), given.texts), 1):
        outcome = fault(text)
        if isinstance(outcome, Fault):
            faults += 1
            print(f"\n{outcome.what}\n    {outcome.text!r}", flush=True)
        else:
            kinds.update(type(statement).__name__ for statement in outcome)
        if number % 50_000 == 0:
            print(f"{number:,} texts, {time.monotonic() - began:.0f} s, {faults} faults", flush=True)
    print(f"{faults} faults; statements that were read: {kinds.total():,} of {len(kinds)} kinds")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
