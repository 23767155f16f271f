"""How an error shows a value."""

import time

from slewrl.errors import shortened


def test_a_value_with_more_parts_than_memory_holds_is_shown_at_once():
    bomb: object = "x"
    for _ in range(12):
        bomb = [bomb] * 12
    begun = time.perf_counter()
    assert shortened(bomb).endswith("... (12 entries)") and len(shortened(bomb)) <= 60
    assert time.perf_counter() - begun < 1
    assert shortened([1, "a", {"b": (2,)}]) == "[1, 'a', {'b': (2,)}]"
    assert shortened("a" * 99) == "'" + "a" * 39 + "... (101 characters)"
