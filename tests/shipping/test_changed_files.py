"""Saved derivatives in which a field was changed, with a right hash; `make fuzz` makes a hundred times as many."""

from __future__ import annotations

import copy
import random
import re

import changed_files
import numpy as np
import pytest
from changed_files import Content
from inside import to_bytes

import accumulus as acc
from accumulus import Tape
from accumulus.errors import CompileError, FileError
from accumulus.shipping.data_files import Arrays, read_data, write_data
from accumulus.tape.tape import from_bytes

#: Fields that may be anything: values of constants and matrices, and the version that wrote the file.
FREE = re.compile(r".*(constants|matrix/entries) entry( first| last)?|.*tape: constant|accumulus")
#: Changes of a field of which one has to be refused.
TRIES = 25


@pytest.fixture(scope="module")
def files():
    return changed_files.saved()


def loaded(content, path):
    """Return what is loaded from a file, or None if it is refused."""
    path.write_bytes(content)
    try:
        return acc.load(path)
    except (FileError, CompileError):
        return None


def test_every_field_is_checked(files, tmp_path):
    """In this process, which calls nothing: of some changes of a field, one is refused, whatever field it is."""
    checked, every = set(), set()
    for content in files.values():
        found = changed_files.places(Content.of(content))
        every |= {label for label in found if not FREE.fullmatch(label)}
        for label in sorted((found.keys() & every) - checked):
            generator = random.Random(label)
            changes = (changed_files.changed(content, generator, found, label)[0] for _ in range(TRIES))
            if any(loaded(changed, tmp_path / "changed") is None for changed in changes):
                checked.add(label)
    assert checked == every
    assert len(checked) > 300


def test_changed_files_do_no_harm():
    """In processes of their own, which call what they load."""
    counts, failures = changed_files.run(150, 0, 1)
    assert not failures
    assert counts["refused"] > 80
    assert counts["called"] > 20


@pytest.mark.parametrize("name", ["20 operations", "400 operations", "2,000 operations", "map"])
def test_arguments_that_operations_do_not_take(files, name, tmp_path):
    """All of them: passes over tapes follow them, too. The interpreter crashed from 320 operations on."""
    content = Content.of(files[name])
    found = changed_files.places(content)
    slots = [place for label, places in found.items() if label.endswith("unused") for place in places]
    assert len(slots) > (1000 if name.startswith("2,000") else 20)
    values = [2**31 - 1, -(2**31), 1, -1, 255]
    for turn, place in enumerate(slots):
        tape = content.arrays[place.at[0]].copy()
        tape[place.at[1] :][:4].view("<i4")[0] = values[turn % len(values)]
        with pytest.raises(ValueError, match=r"do not (take|exist)"):
            from_bytes(tape.tobytes())
    for value in values:
        assert with_changes(content, {slots[-1]: value}, tmp_path) is None


def with_changes(content, changes, tmp_path):
    """Return what is loaded from a file with other numbers in some places, or None if it is refused."""
    changed = copy.deepcopy(content)
    for place, value in changes.items():
        k, at, kind = place.at
        changed.arrays[k][at : at + np.dtype(kind).itemsize].view(kind)[0] = value
    return loaded(changed.written(), tmp_path / "changed")


def test_truth_values_and_numbers():
    tape = Tape(2)
    less = tape.apply("less", 0, 1)
    tape.outputs = [tape.select(less, 0, 1)]
    rows = np.frombuffer(to_bytes(tape), np.uint8).copy()
    assert from_bytes(rows.tobytes()).outputs == tape.outputs
    rows[-12:-8].view("<i4")[0] = 1  # the condition
    with pytest.raises(ValueError, match="boolean operand instead of a number"):
        from_bytes(rows.tobytes())


CHANGES = {
    "too few names": ("dicts", lambda data: data["forms"][0]["call"]["names"].pop()),
    "a keyword twice": ("keywords", lambda data: twice(data["forms"][0]["call"])),
    "a structure twice": ("objects", lambda data: data["forms"].append(data["forms"][0])),
    "a key twice": ("static", lambda data: data["forms"][0]["shapes"].append(data["forms"][0]["shapes"][0])),
    "a key of other shapes": ("csr", lambda data: shapes(data)["key"]["tuple"][0].update(tuple=[4])),
    "a key that is no tuple": ("csr", lambda data: shapes(data).update(key=3)),
    "a huge pattern": ("csr", lambda data: program(data)["patterns"][0].update(shape=[2**31 - 1, 2**31 - 1])),
    "empty, and too large for NumPy": ("csr", lambda data: program(data).update(result_shapes=[[0, 2**60]])),
    "results arranged differently": ("guards", lambda data: program(data).update(returned=listed(), shapes=[[9]])),
    "a function without guards": ("csr", lambda data: program(data).update(function=program(data)["tape"])),
    "facts that are none": ("csr", lambda data: program(data)["facts"].update(nonzeros=[])),
    "another kind": ("csr", lambda data: data.update(kind="inverse")),
    "a title of another kind": ("csr", lambda data: data.update(title="Hessian")),
    "sums that are not counted": ("indices", lambda data: sums(data).update(count=sums(data)["count"] + 1)),
}


def twice(call):
    call["keywords"] *= 2
    call["arguments"] *= 2
    call["names"] *= 2


def shapes(data):
    return data["forms"][0]["shapes"][0]


def program(data):
    return shapes(data)["programs"][0]


def listed():
    return {"kind": "list", "parts": ["array"]}


def sums(data):
    return next(block for block in program(data)["tape"]["blocks"] if block["code"] == 255)


@pytest.mark.parametrize("change", CHANGES)
def test_what_no_array_shows(files, change, tmp_path):
    name, apply = CHANGES[change]
    content = Content.of(files[name])
    assert loaded(content.written(), tmp_path / "right") is not None
    apply(content.data)
    assert loaded(content.written(), tmp_path / "changed") is None


@pytest.mark.parametrize("described", [(0, ">i8"), (0, "|O"), (0, "(2,)<i8"), (1, [0]), (1, [1 << 62, 4]), (2, 8)])
def test_arrays_are_where_the_writer_puts_them(files, described, tmp_path):
    content = Content.of(files["csr"])
    content.described[0] = described
    assert loaded(content.written(), tmp_path / "changed") is None


def test_bytes_that_are_no_truth_values(tmp_path):
    for truths in (np.array([True, False]), np.array([1, 7], np.uint8).view(bool)):
        arrays = Arrays()
        arrays.add(truths)
        write_data(tmp_path / "truths", {}, arrays)
        if truths.view(np.uint8).max() == 1:
            np.testing.assert_array_equal(read_data(tmp_path / "truths").arrays[0], truths)
        else:
            with pytest.raises(FileError, match="neither 0 nor 1"):
                read_data(tmp_path / "truths")
