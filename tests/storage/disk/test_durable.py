import errno

import pytest
from descriptors import no_descriptor_left

from storage.disk.durable import fault_behind, file_faults
from storage.errors import Busy, StorageBroken, StorageFull


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StorageFull),
        (errno.EFBIG, StorageFull),
        (errno.EMFILE, Busy),
        (errno.ENFILE, Busy),
        (errno.ENOMEM, Busy),
        (errno.EAGAIN, Busy),
        (errno.EIO, StorageBroken),
        (errno.EACCES, StorageBroken),
    ],
)
def test_a_fault_of_the_file_system_says_what_it_means_to_a_caller(number, kind):
    with pytest.raises(kind, match="cannot store it: ") as raised, file_faults("cannot store it"):
        raise OSError(number, "the reason")
    assert type(raised.value) is kind


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ('IoError(Os { code: 28, message: "No space left on device" })', StorageFull),
        ("open file failed, errcode = 24 - Too many open files", Busy),
        ("Input/output error", StorageBroken),
        ("can't start new thread", Busy),
        ("std::bad_alloc: Cannot allocate memory", type(None)),
        ("the node has no output", type(None)),
    ],
)
def test_a_library_that_tells_the_system_s_error_in_words_is_understood(words, kind):
    assert type(fault_behind(RuntimeError(words), "it failed")) is kind


def test_a_fault_behind_another_error_is_found():
    try:
        try:
            raise OSError(errno.EIO, "the reason")
        except OSError:
            raise ValueError("the file is damaged") from None
    except ValueError as error:
        found = fault_behind(error, "it failed")
    assert type(found) is StorageBroken
    assert fault_behind(ValueError("it is"), "it failed") is None


def test_an_upload_without_a_descriptor_left_is_asked_to_come_again(store, add_model, upload):
    """Real descriptors: as many as the system allows are open."""
    model = add_model(store)
    upload(store, model, [1])
    with no_descriptor_left(), pytest.raises(Busy, match="try again"):
        upload(store, model, [2], first=1)
    assert upload(store, model, [2], first=1).accepted == 1
    assert store.broken is None
