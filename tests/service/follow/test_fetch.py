"""A source is asked by a child, which brings the bytes that were signed, or nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from vendors import MODEL, YESTERDAY, Vendor, Website, says, seen, signed

from service.follow.messages import Offers, Unchanged
from service.follow.statement import draw, is_chosen


def test_a_signed_file_of_a_web_server_is_fetched(device, vendor, website):
    source = website.publish(vendor, MODEL, spec={"preprocess": []})
    offers, *_, fetched = device.ask_in_child(source)
    assert isinstance(offers, Offers)
    assert (offers.base.version, offers.wanted) == (2, True)
    assert Path(fetched.model).read_bytes() == MODEL
    assert fetched.spec == {"preprocess": []}


def test_a_source_that_has_nothing_new_takes_one_small_request(device, vendor, website):
    source = website.publish(vendor, MODEL)
    mark = device.ask(source)[0].mark
    website.asked.clear()
    assert device.ask(source, mark=mark) == [Unchanged()]
    assert website.asked == [("GET", "/digits.onnx.sig", None)]


def test_a_tokenizer_comes_with_its_model(device, vendor, website):
    tokenizer = b'{"version": "1.0"}'
    source = website.publish(vendor, MODEL, tokenizer=signed(tokenizer))
    assert device.refusal(source)[0] == "source_refused"
    website.files["/digits.onnx.tokenizer.json"] = tokenizer
    assert Path(device.ask(source)[-1].tokenizer).read_bytes() == tokenizer


def test_a_download_that_is_cut_fifty_times_ends_with_the_right_bytes(device, vendor, website):
    drawn = random.Random(7)
    left = [drawn.randrange(0, 2 * len(MODEL) // 50) for _ in range(50)]
    lengths = list(left)

    def cut(handler, content):
        for path in device.folder.iterdir():
            assert MODEL.startswith(path.read_bytes())
        if lengths:
            handler.break_off(content, lengths.pop())
        else:
            handler.serve(content)

    source = website.publish(vendor, MODEL)
    website.lies["/digits.onnx"] = cut
    while lengths:  # a child gives up after some cuts without a byte
        device.ask(source)
    assert device.fetch(source) == MODEL
    assert sum(path == "/digits.onnx" for path in website.paths()) > 50


def test_a_child_that_is_killed_leaves_what_the_next_goes_on_with(device, vendor, website):
    source = website.publish(vendor, MODEL)
    (device.folder / signed(MODEL).sha256).write_bytes(MODEL[:1000])
    assert device.fetch(source) == MODEL
    assert website.asked[-1] == ("GET", "/digits.onnx", "bytes=1000-")


def test_bytes_that_a_power_cut_has_spoilt_are_downloaded_again(device, vendor, website):
    source = website.publish(vendor, MODEL)
    (device.folder / signed(MODEL).sha256).write_bytes(bytes(1000))
    assert device.fetch(source) == MODEL


def test_downloads_of_other_versions_are_removed(device, vendor, website):
    (device.folder / ("0" * 64)).write_bytes(b"older")
    device.fetch(website.publish(vendor, MODEL))
    assert [path.name for path in device.folder.iterdir()] == [signed(MODEL).sha256]


def endless(handler, content):
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
    except OSError:
        handler.close_connection = True


def chunked(handler, content):
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"5\r\nshort\r\n0\r\n\r\n")


def compressed(handler, content):
    handler.answer(200, content[:-1] + b"x", Content_Encoding="gzip")


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (lambda h, c: h.answer(200, c[:-1] + b"!"), "they have the digest"),
        (lambda h, c: h.answer(200, c + b"more"), "the source sends 300004"),
        (lambda h, c: h.answer(200, c[:10]), "the source sends 10"),
        (endless, "more come"),
        (chunked, "the source ends after 5"),
        (compressed, "they have the digest"),
    ],
    ids=["other bytes", "longer", "shorter", "endless", "chunked and shorter", "compressed"],
)
def test_other_bytes_than_those_that_were_signed_are_refused(device, vendor, website, lie, said):
    source = website.publish(vendor, MODEL)
    website.lies["/digits.onnx"] = lie
    code, detail = device.refusal(source)
    assert (code, said in detail) == ("content_mismatch", True), detail
    assert list(device.folder.iterdir()) == []


def test_a_server_that_sends_another_part_is_refused(device, vendor, website):
    source = website.publish(vendor, MODEL)
    (device.folder / signed(MODEL).sha256).write_bytes(MODEL[:1000])
    part = {"Content-Range": f"bytes 0-{len(MODEL) - 1}/{len(MODEL)}"}
    website.lies["/digits.onnx"] = lambda h, c: h.answer(206, c, **part)
    assert device.refusal(source)[0] == "content_mismatch"


def test_a_server_without_ranges_is_read_from_the_start(device, vendor, website):
    source = website.publish(vendor, MODEL)
    (device.folder / signed(MODEL).sha256).write_bytes(MODEL[:1000])
    website.lies["/digits.onnx"] = lambda h, c: h.answer(200, c)
    assert device.fetch(source) == MODEL


def test_an_endless_statement_is_refused(device, vendor, website):
    source = website.publish(vendor, MODEL)
    website.lies["/digits.onnx.sig"] = endless
    code, detail = device.refusal(source)
    assert (code, "more than 262144 bytes" in detail) == ("source_refused", True)


def test_a_redirect_to_another_host_is_refused_unless_it_is_allowed(device, vendor, website):
    source = website.publish(vendor, MODEL)
    with Website() as other:
        other.files["/digits.onnx"] = MODEL
        away = f"{other.url}/digits.onnx?secret=1"
        website.lies["/digits.onnx"] = says(307, Location=away)
        code, detail = device.refusal(source)
        assert (code, "secret" in detail) == ("redirect_refused", False)
        # Plain HTTP is for the source itself, whatever is allowed.
        hosts = (other.url.removeprefix("http://"),)
        assert device.refusal(source, terms={"hosts": hosts})[0] == "redirect_refused"
        assert other.asked == []


def test_a_redirect_within_the_host_is_followed(device, vendor, website):
    source = website.publish(vendor, MODEL)
    website.files["/elsewhere"] = MODEL
    website.lies["/digits.onnx"] = says(302, Location="/elsewhere")
    assert device.fetch(source) == MODEL


def test_redirects_in_a_circle_end(device, vendor, website):
    source = website.publish(vendor, MODEL)
    website.lies["/digits.onnx"] = says(302, Location="/digits.onnx")
    code, detail = device.refusal(source)
    assert (code, "redirects more than 5 times" in detail) == ("source_refused", True)


def test_a_foreign_signature_is_refused_before_anything_is_downloaded(device, website):
    source = website.publish(Vendor(), MODEL)
    (failed,) = device.ask_in_child(source)
    assert failed.code == "signature_refused"
    assert "none of the pinned keys" in failed.detail
    assert website.paths() == ["/digits.onnx.sig"]


def test_one_of_several_pinned_keys_suffices(device, vendor, website):
    other = Vendor()
    source = website.publish(other, MODEL)
    assert device.fetch(source, terms={"keys": (vendor.pem, other.pem)}) == MODEL


def test_a_statement_that_was_changed_is_refused(device, vendor, website):
    source = website.publish(vendor, MODEL)
    envelope = website.files["/digits.onnx.sig"]
    website.files["/digits.onnx.sig"] = envelope.replace(b'"payload":"ey', b'"payload":"fy')
    assert device.refusal(source)[0] == "signature_refused"


@pytest.mark.parametrize("junk", [b"", b"{}", b"[1]", b"\xff", b'{"payload":"?"}'])
def test_what_is_no_envelope_is_refused(device, vendor, website, junk):
    source = website.publish(vendor, MODEL)
    website.files["/digits.onnx.sig"] = junk
    code, detail = device.refusal(source)
    assert (code, "no DSSE envelope" in detail) == ("signature_refused", True)


def test_a_statement_for_another_model_is_refused(device, vendor, website):
    source = website.publish(vendor, MODEL, name="speech")
    code, detail = device.refusal(source)
    assert (code, "'speech'" in detail) == ("signature_refused", True)


def test_an_expired_statement_is_refused(device, vendor, website):
    source = website.publish(vendor, MODEL, expires_at=YESTERDAY)
    assert device.refusal(source)[0] == "statement_expired"


def test_a_lower_version_and_another_file_of_the_same_are_refused(device, vendor, website):
    source = website.publish(vendor, MODEL, 3)
    assert device.refusal(source, offered=seen(MODEL, 4))[0] == "version_downgraded"
    code, detail = device.refusal(source, offered=seen(b"other", 3))
    assert (code, "another file needs a higher version" in detail) == ("version_downgraded", True)
    assert device.fetch(source, offered=seen(b"other", 2)) == MODEL


def test_a_version_that_was_taken_is_not_fetched_again(device, vendor, website):
    source = website.publish(vendor, MODEL)
    (offers,) = device.ask(source, offered=seen(MODEL, 2), taken=2)
    assert (offers.wanted, website.paths()) == (False, ["/digits.onnx.sig"])


def test_a_share_of_the_devices_takes_a_release(device, vendor, website):
    source = website.publish(vendor, MODEL, percent=60)
    assert [each.wanted for each in device.ask(source, draw=59.9)[:1]] == [True]
    assert [each.wanted for each in device.ask(source, draw=60.0)] == [False]
    assert [each.wanted for each in device.ask(source, terms={"percent": 40.0})] == [False]


def test_the_shares_of_many_devices_are_those_that_were_asked_for():
    drawn = [draw(f"device {number}", "digits") for number in range(2000)]
    chosen = [is_chosen(each, of_operator=100, of_vendor=20) for each in drawn]
    assert 0.17 < sum(chosen) / len(chosen) < 0.23
    wider = [is_chosen(each, of_operator=50, of_vendor=100) for each in drawn]
    assert all(each for each, was in zip(wider, chosen, strict=True) if was)
    assert draw("device 1", "digits") != draw("device 1", "speech")


def test_a_full_disk_is_told_before_the_download(device, vendor, website):
    source = website.publish(vendor, MODEL)
    assert device.refusal(source, reserve_bytes=2**60)[0] == "storage_full"
    assert website.paths() == ["/digits.onnx.sig"]


def test_a_server_that_is_not_there_or_overloaded_is_unreachable(device, vendor, website):
    source = website.publish(vendor, MODEL)
    website.lies["/digits.onnx.sig"] = says(503)
    assert device.refusal(source) == (
        "source_unreachable",
        f"{website.url}/digits.onnx.sig answers 503",
    )
    assert device.refusal("http://127.0.0.1:9/x.onnx")[0] == "source_unreachable"


def test_a_statement_with_a_field_of_tomorrow_is_refused(device, vendor, website):
    source = website.publish(vendor, MODEL)
    payload = b'{"name":"digits","version":2,"needs_also":"weights"}'
    website.files["/digits.onnx.sig"] = vendor.sign_bytes(payload)
    assert device.refusal(source)[0] == "signature_refused"
