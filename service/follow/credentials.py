"""Credentials for sources, in the file that `docker login` and `oras login` write."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

import msgspec

from service.follow.errors import SourceRefused
from service.follow.messages import Login
from service.follow.source import DOCKER_HUB, place
from storage.database.codec import decode

DOCKER_HUB_LOGIN = "index.docker.io"
"""Under this name `docker login` and `oras login` keep the login to Docker Hub's registry."""


def login_of(file: Path | None, host: str) -> Login | None:
    """The login to a host in a file of credentials (Docker's config.json), if it names one.

    Raises SourceRefused for a file that cannot be read.
    """
    if file is None:
        return None
    try:
        logins = decode(file.read_bytes(), dict[str, Any]).get("auths", {})
        by_place = {place(_address(name)): login for name, login in logins.items()}
        names = (host, DOCKER_HUB_LOGIN) if host == DOCKER_HUB else (host,)
        places = [place(f"https://{name}") for name in names]
        entry: Any = next((by_place[there] for there in places if there in by_place), {})
        if "username" in entry:
            return Login(entry["username"], entry["password"])
        if not entry.get("auth"):
            return None
        user, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
        return Login(user, password)
    except OSError as error:
        raise SourceRefused(f"HONED_REGISTRY_CREDENTIALS: {file}: {error.strerror}") from error
    except (msgspec.DecodeError, AttributeError, KeyError, ValueError, binascii.Error) as error:
        # Without the error's own text, which may quote the file.
        raise SourceRefused(
            f"HONED_REGISTRY_CREDENTIALS: {file} is no config.json as `docker login` writes it"
        ) from error


def _address(name: str) -> str:
    return name if "://" in name else f"https://{name}"
