"""TLS of a door out of files that change while it is open: cert-manager and Kubernetes secrets renew them in place.

Connections that are open stay; the next handshake takes the new certificate. Files that are no good leave the old one in use.
"""

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

import grpc
from msgspec import Struct

from service.telemetry import SERVER_LOG

#: How often files are read again that changed while they were read.
_ATTEMPTS: Final = 3
_ENCRYPTED_KEY: Final = "is encrypted"

_logger = logging.getLogger(SERVER_LOG)

#: Told whether a reload succeeded.
Reloaded = Callable[[bool], None]


class TlsFilesError(ValueError):
    """The certificate files cannot be used; the text names the variable, the file, the reason and the remedy."""


class TlsFiles(Struct, frozen=True):
    """Where a door's certificate comes from.

    Args:
        certificate: PEM file with the door's certificate, and those that lead to its issuer.
        key: PEM file with the private key, not encrypted.
        client_ca: PEM file with the issuers whose client certificates are taken; None where callers need none.
        prefix: how the three variables begin: "TONNAGE_EXPANDER".
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    prefix: str = "TONNAGE"

    @property
    def by_variable(self) -> dict[str, Path]:
        """The files by the variables that name them."""
        named = {
            f"{self.prefix}_TLS_CERT_FILE": self.certificate,
            f"{self.prefix}_TLS_KEY_FILE": self.key,
            f"{self.prefix}_TLS_CLIENT_CA_FILE": self.client_ca,
        }
        return {variable: path for variable, path in named.items() if path is not None}


class Certificate:
    """The certificate of a door: read at start, and anew whenever its files change.

    Args:
        files: where it is.
        reloaded: told whenever the files were read anew.

    Raises:
        TlsFilesError: it cannot be used.
    """

    def __init__(self, files: TlsFiles, reloaded: Reloaded) -> None:
        self._files = files
        self._reloaded = reloaded
        self._contents = _usable(files)
        self._seen = self._loaded = _state(files)

    def credentials(self) -> grpc.ServerCredentials:
        """What a port is opened with. Asked for changes before every handshake."""
        fetcher = cast(Callable[[], grpc.ServerCertificateConfiguration], self.renewed)  # None is taken for "no change"
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(), fetcher, require_client_authentication=self._files.client_ca is not None
        )

    def context(self) -> ssl.SSLContext:
        """What Python's own servers open a port with. Looks for changes at every handshake."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._load(context)

        def renew(*_: object) -> None:
            state = _state(self._files)
            if state != self._loaded:
                self._loaded = state
                try:
                    _usable(self._files)
                    self._load(context)
                except Exception as error:
                    _logger.error("the old certificate stays in use over HTTP: %s", error)

        context.sni_callback = renew
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        self._loaded = _state(self._files)
        context.load_cert_chain(self._files.certificate, self._files.key)
        if self._files.client_ca is not None:
            context.load_verify_locations(self._files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED

    def renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """The certificate where its files changed since it was last asked for and are good; None otherwise. Never raises."""
        try:
            state = _state(self._files)
            if state == self._seen:
                return None
            self._seen = state  # whatever it holds: files that are no good are reported once
            self._contents = _usable(self._files)
            configuration = self._configuration()
        except Exception as error:  # an exception here would end up in the library, and the handshake with it
            _logger.error("the old certificate stays in use: %s", error)
            self._reloaded(False)
            return None
        _logger.info("certificate %s read anew", self._files.certificate)
        self._reloaded(True)
        return configuration

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        certificate, key, client_ca = self._contents
        return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=client_ca or None)


def _state(files: TlsFiles) -> tuple[tuple[int, int, int] | None, ...]:
    """What tells a file that changed: Kubernetes swaps links, so the file behind the name is looked at."""
    return tuple(map(_file_state, files.by_variable.values()))


def _file_state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _usable(files: TlsFiles) -> tuple[bytes, bytes, bytes]:
    """Certificate, key and client issuers as bytes that were checked to belong together."""
    problem: TlsFilesError | None = None
    for _ in range(_ATTEMPTS):
        contents = _read(files)
        try:
            _check(files)
        except TlsFilesError as error:
            problem = error  # perhaps only half renewed
            continue
        if contents == _read(files):  # what was checked, by its path, is what was read
            return contents
    raise problem or TlsFilesError(f"{files.certificate} and {files.key} change faster than they can be read")


def _read(files: TlsFiles) -> tuple[bytes, bytes, bytes]:
    contents = []
    for variable, path in files.by_variable.items():
        try:
            contents.append(path.read_bytes())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise TlsFilesError(f"{variable}: {path} cannot be read: {reason}. Mount it, readable to this user") from None
    certificate, key, *client_ca = contents
    return certificate, key, b"".join(client_ca)


def _check(files: TlsFiles) -> None:
    certificate, key, *client_ca = files.by_variable.items()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate[1], key[1], password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise TlsFilesError(_mismatch(certificate, key, error)) from None
    for variable, path in client_ca:
        try:
            context.load_verify_locations(path)
        except (ssl.SSLError, OSError) as error:
            raise TlsFilesError(f"{variable}: {path} holds no certificates in PEM ({error})") from None


def _no_password() -> str:
    raise ValueError(_ENCRYPTED_KEY)


def _mismatch(certificate: tuple[str, Path], key: tuple[str, Path], error: Exception) -> str:
    if _ENCRYPTED_KEY in str(error):
        return f"{key[0]}: {key[1]} {_ENCRYPTED_KEY}. Mount the key without a passphrase"
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return f"{key[0]}: the key {key[1]} is not that of {certificate[0]} {certificate[1]}. Mount the two of one issue"
    return f"{certificate[0]}, {key[0]}: {certificate[1]} and {key[1]} are no certificate and key in PEM ({error})"
