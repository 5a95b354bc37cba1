"""Certificates for tests, made on the spot, and a server that proves itself by one."""

import datetime
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.scripted import Server, says


class Signed:
    """A certificate that vouches for itself, and its key."""

    def __init__(self, name: str, passphrase: bytes = b"") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        locked: Any = (
            serialization.BestAvailableEncryption(passphrase)
            if passphrase
            else serialization.NoEncryption()
        )
        self.certificate = made.public_bytes(pem)
        self.key = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, locked)

    def write(self, folder: Path, name: str) -> tuple[str, str]:
        """Names of the two files."""
        (folder / f"{name}.crt").write_bytes(self.certificate)
        (folder / f"{name}.key").write_bytes(self.key)
        return f"{name}.crt", f"{name}.key"


@contextmanager
def secured(folder: Path, own: Signed, client: Signed | None = None) -> Iterator[Server]:
    """A scripted server under ``own`` certificate that believes ``client``'s, and says 200."""
    certificate, key = own.write(folder, "server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / certificate, folder / key)
    if client:
        context.load_verify_locations(folder / client.write(folder, "client")[0])
        context.verify_mode = ssl.CERT_OPTIONAL
    with Server() as running:
        running.socket = context.wrap_socket(running.socket, server_side=True)
        running.scripts = [says(200)]
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()
