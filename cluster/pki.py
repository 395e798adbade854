"""Certificates with the roles that Kubernetes gives its parts, and kubeconfigs that carry them."""

from __future__ import annotations

import base64
import ipaddress
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ISSUER = "taskyard-development"
VALID = timedelta(days=3650)
SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
_ISSUING = threading.Lock()


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates into one folder, and makes none twice."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self.certificate = folder / "ca.crt"
        self.key = folder / "ca.key"
        if not self.key.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            builder = _builder(ISSUER, (), key).issuer_name(_name(ISSUER, ()))
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            signed = builder.add_extension(SIGNS_CERTIFICATES, critical=True).sign(key, hashes.SHA256())
            self.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
            _write_key(self.key, key)  # last: its presence says that both are whole

    def issue(self, file: str, name: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Pair:
        """A certificate for a user in groups, and for a server where hosts are given."""
        pair = Pair(self._folder / f"{file}.crt", self._folder / f"{file}.key")
        with _ISSUING:  # nodes start side by side, and share the certificate of kube-proxy
            if not (pair.key.exists() and pair.certificate.exists() and pair.certificate.stat().st_size):
                self._sign(pair, name, groups, hosts)
        return pair

    def _sign(self, pair: Pair, name: str, groups: Sequence[str], hosts: Sequence[str]) -> None:
        authority = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        signer = serialization.load_pem_private_key(self.key.read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = _builder(name, groups, key).issuer_name(authority.subject)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = builder.add_extension(identifier, critical=False)  # Python 3.13 insists on it
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        signed = builder.sign(signer, hashes.SHA256())
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)  # last, as above

    def service_account_key(self) -> Path:
        """The key that signs the tokens of service accounts."""
        path = self._folder / "service-accounts.key"
        if not path.exists():
            _write_key(path, ec.generate_private_key(ec.SECP256R1()))
        return path

    def kubeconfig(self, target: Path, server: str, pair: Pair, user: str) -> Path:
        """A kubeconfig that stands alone: everything is inside, so that it may be copied. JSON is YAML."""

        def encoded(path: Path) -> str:
            return base64.b64encode(path.read_bytes()).decode()

        name = "taskyard"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": name,
                    "cluster": {"server": server, "certificate-authority-data": encoded(self.certificate)},
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate-data": encoded(pair.certificate),
                        "client-key-data": encoded(pair.key),
                    },
                }
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
            "current-context": name,
        }
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_private(target, json.dumps(config, indent=1).encode())
        return target


def _builder(name: str, groups: Sequence[str], key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name, groups))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common: str, groups: Sequence[str]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    # the traditional format, because the API server finds no public key in a PKCS8 one
    form = serialization.PrivateFormat.TraditionalOpenSSL
    _write_private(path, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


def _write_private(path: Path, content: bytes) -> None:
    """Whole or not at all, and never readable by others."""
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_bytes(content)
    partial.rename(path)
