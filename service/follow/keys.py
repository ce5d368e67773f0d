"""Ed25519 keys as PEM files, as OpenSSL and this program write them (RFC 8410).

Public keys are read here without `cryptography`, which the daemon does not load.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

BEGIN, END = "-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----"
ED25519 = bytes.fromhex("302a300506032b6570032100")
"""What precedes the 32 bytes of an Ed25519 key in DER (RFC 8410, section 4)."""
REMEDY = (
    "send a public Ed25519 key as PEM, as `honed sign --make-key` or "
    "`openssl pkey -pubout` writes it"
)


def public_key_bytes(pem: str) -> bytes:
    """The 32 bytes of a public key. Raises ValueError, which says what would be right."""
    text = pem.strip()
    if "PRIVATE KEY" in text:
        raise ValueError(f"this is a private key, which must not leave the vendor; {REMEDY}")
    if not text.startswith(BEGIN) or not text.endswith(END):
        raise ValueError(f"this is no public key; {REMEDY}")
    try:
        der = base64.b64decode("".join(text[len(BEGIN) : -len(END)].split()), validate=True)
    except binascii.Error:
        raise ValueError(f"this is no PEM: its middle is not base64; {REMEDY}") from None
    if not der.startswith(ED25519) or len(der) != len(ED25519) + 32:
        raise ValueError(f"this is a key of another kind; {REMEDY}")
    return der[len(ED25519) :]


def pem_of(public: bytes) -> str:
    """The PEM of the 32 bytes of a public key, in the one form that is stored."""
    middle = base64.b64encode(ED25519 + public).decode()
    return f"{BEGIN}\n{middle}\n{END}\n"


def key_id(public: bytes) -> str:
    """By which people and envelopes name a key: the start of its SHA-256."""
    return hashlib.sha256(public).hexdigest()[:16]
