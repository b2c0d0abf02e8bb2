"""Containers that share what their copies do not change, against plain ones that share nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.calendars.structures.shared import SharedSortedList, SharedTable


class SmallTable(SharedTable[int]):
    BUCKET_ENTRIES_MAX = 2


class SmallList(SharedSortedList[tuple[int, int]]):
    BLOCK_ENTRIES_MAX = 3


keys = st.integers(-20, 20) | st.just(10**40)
entries = st.tuples(st.integers(0, 9), st.integers(0, 3))


@given(
    st.lists(
        st.tuples(st.sampled_from(["set", "set", "update", "delete", "copy"]), keys, st.data()),
        max_size=40,
    )
)
@settings(max_examples=effort.examples(200))
def test_a_table_and_all_its_copies_are_as_plain_dicts(
    turns: list[tuple[str, int, st.DataObject]],
) -> None:
    pairs: list[tuple[SmallTable, dict[int, int]]] = [(SmallTable(), {})]
    for number, (turn, key, data) in enumerate(turns):
        table, plain = pairs[data.draw(st.integers(0, len(pairs) - 1))]
        if turn == "set":
            table[key] = plain[key] = number
        elif turn == "update":
            items = [(key + step, number) for step in range(number % 7)]
            table.update(items)
            plain.update(items)
        elif turn == "copy":
            pairs.append((table.copy(), dict(plain)))
        elif key in plain:
            del table[key]
            del plain[key]
        else:
            with pytest.raises(KeyError):
                del table[key]
        for table, plain in pairs:
            table.check()
            assert dict(table.items()) == plain
            assert sorted(table.values()) == sorted(plain.values())
            assert len(table) == len(plain)
            assert (key in table) is (key in plain)
            assert table.get(key) == plain.get(key)
        effort.steps["shared tables"] += len(pairs)


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "add", "update", "remove", "copy"]), entries, st.data()),
        max_size=40,
    )
)
@settings(max_examples=effort.examples(200))
def test_a_sorted_list_and_all_its_copies_are_as_sorted_sets(
    turns: list[tuple[str, tuple[int, int], st.DataObject]],
) -> None:
    pairs: list[tuple[SmallList, set[tuple[int, int]]]] = [(SmallList(), set())]
    for turn, entry, data in turns:
        entries, plain = pairs[data.draw(st.integers(0, len(pairs) - 1))]
        if turn == "update":
            new = [(entry[0] + step, entry[1]) for step in range(entry[0])]
            entries.update([each for each in new if each not in plain])
            plain.update(new)
        elif turn == "copy":
            pairs.append((entries.copy(), set(plain)))
        elif entry in plain:
            entries.remove(entry)
            plain.remove(entry)
        else:
            entries.add(entry)
            plain.add(entry)
        low, high = entry, (entry[0] + 3,)
        for entries, plain in pairs:
            entries.check()
            assert list(entries) == sorted(plain)
            assert bool(entries) is bool(plain)
            found = [each for each in sorted(plain) if low <= each < high]
            assert list(entries.between(low, high)) == found
        effort.steps["shared sorted lists"] += len(pairs)
