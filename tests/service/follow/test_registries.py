"""Registries, and sources that want a login."""

from __future__ import annotations

import random
from pathlib import Path

from vendors import MODEL, needs_registry, push, push_index, registry, says, seen, signed

from service.follow.credentials import login_of
from service.follow.messages import Login, Unchanged
from service.follow.source import parsed


def test_a_web_server_may_want_a_password_which_no_other_host_gets(device, vendor, website):
    source = website.publish(vendor, MODEL)

    def wants(handler, content):
        if handler.headers.get("Authorization") == "Basic YW5uYTpzM2NyZXQ=":
            handler.serve(content)
        else:
            handler.answer(401, b"", WWW_Authenticate='Basic realm="files"')

    website.lies = dict.fromkeys(website.files, wants)
    code, detail = device.refusal(source)
    assert (code, "HONED_REGISTRY_CREDENTIALS" in detail) == ("source_refused", True)
    assert device.fetch(source, login=Login("anna", "s3cret")) == MODEL
    code, detail = device.refusal(source, login=Login("anna", "wrong"))
    assert (code, "wants a login" in detail, "wrong" in detail) == ("source_refused", True, False)


def test_a_token_is_sent_for_as_registries_want_it(device, vendor, website):
    """The flow of ghcr.io and others: a challenge, a token service, a bearer token."""
    envelope = vendor.sign(MODEL)
    digest = f"sha256:{signed(envelope).sha256}"
    layers = f'{{"layers":[{{"digest":"{digest}","size":1,"mediaType":"%s"}}]}}'
    website.files = {
        "/v2/team/digits/manifests/stable": (
            layers % "application/vnd.honed.statement.v1+json"
        ).encode(),
        f"/v2/team/digits/blobs/{digest}": envelope,
        f"/v2/team/digits/blobs/sha256:{signed(MODEL).sha256}": MODEL,
    }
    challenge = f'Bearer realm="{website.url}/token",service="files"'

    def wants(handler, content):
        if handler.headers.get("Authorization") == "Bearer t0ken":
            handler.serve(content)
        else:
            handler.answer(401, b"", WWW_Authenticate=challenge)

    def issue(handler, _):
        login = handler.headers.get("Authorization") == "Basic YW5uYTpzM2NyZXQ="
        handler.answer(200 if login else 401, b'{"token":"t0ken"}')

    website.lies = dict.fromkeys(website.files, wants)
    asked = "/token?scope=repository%3Ateam%2Fdigits%3Apull&service=files"
    website.lies[asked] = issue
    source = f"oci://{website.url.removeprefix('http://')}/team/digits:stable"
    assert device.fetch(source, login=Login("anna", "s3cret")) == MODEL
    assert device.refusal(source, login=Login("anna", "wrong"))[0] == "source_refused"
    elsewhere = 'Bearer realm="https://elsewhere.example/token"'
    website.lies = dict.fromkeys(website.files, says(401, WWW_Authenticate=elsewhere))
    assert device.refusal(source, login=Login("anna", "s3cret"))[0] == "redirect_refused"


@needs_registry
def test_a_registry_is_asked_by_its_tag(device, vendor, tmp_path):
    with registry(tmp_path) as host:
        source = push(host, MODEL, vendor.sign(MODEL))
        offers, *_, fetched = device.ask_in_child(source)
        assert Path(fetched.model).read_bytes() == MODEL
        assert device.ask(source, mark=offers.mark) == [Unchanged()]
        newer = random.Random(2).randbytes(100_000)
        push(host, newer, vendor.sign(newer, 3))
        assert device.fetch(source, mark=offers.mark, offered=offers.base, taken=2) == newer
        push(host, MODEL, vendor.sign(MODEL, 2))
        assert device.refusal(source, offered=seen(newer, 3))[0] == "version_downgraded"
        push(host, MODEL, None)
        code, detail = device.refusal(source)
        assert (code, "has no statement" in detail) == ("source_refused", True)
        assert device.refusal(f"{source}-none") == (
            "source_refused",
            f"http://{host}/v2/team/digits/manifests/stable-none answers 404",
        )
        code, detail = device.refusal(push_index(source))
        assert (code, "an index of several manifests" in detail) == ("source_refused", True)


def test_docker_hub_is_asked_and_logged_in_to_as_its_tools_do(tmp_path):
    """`docker login` and `oras login docker.io` keep its login under another name."""
    file = tmp_path / "config.json"
    file.write_text('{"auths": {"https://index.docker.io/v1/": {"auth": "YW5uYTpzM2NyZXQ="}}}')
    for named in ("docker.io", "registry-1.docker.io"):
        source = parsed(f"oci://{named}/team/digits:stable")
        assert source.origin == "https://registry-1.docker.io"
        assert login_of(file, source.host) == Login("anna", "s3cret")
    assert login_of(file, "ghcr.io") is None


@needs_registry
def test_a_registry_may_want_a_password(device, vendor, tmp_path):
    hashed = "anna:$2b$05$LQn1NACsNTMNUTjrx4O6m.yY9j5Z1yyLbjyd6gfR0elzDie9M3LIa"  # s3cret
    (tmp_path / "passwords").write_text(hashed)
    auth = f"auth: {{htpasswd: {{realm: r, path: {tmp_path / 'passwords'}}}}}"
    with registry(tmp_path, auth=auth) as host:
        source = push(host, MODEL, vendor.sign(MODEL), auth=("anna", "s3cret"))
        assert device.refusal(source)[0] == "source_refused"
        assert device.fetch(source, login=Login("anna", "s3cret")) == MODEL
